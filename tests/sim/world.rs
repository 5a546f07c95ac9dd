//! The library in the language of the simulation: runs a step against a real queue and returns its
//! result. It also checks what no single result shows: that an id is never given twice, and that a
//! payload comes back as it was put.

mod payloads;
mod sight;
mod tubes;
mod waits;

use crate::beside::Beside;
use crate::disk::SimDisk;
use crate::reading;
use crate::step::*;
use redb::{ReadableTable, TableDefinition};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tubewell::{
    Adopted, Advance, Builder, Clock, Conflict, Consumer, Durability, Ended, Error, ErrorKind,
    History, Kicked, ManualClock, MoveTask, NewTask, PauseTerms, Put, PutOutcome, Queue, Reason,
    Release, Result, Retry, State, Task, TaskId, TaskInfo, TaskSummary, Ticket, TicketHandle, Tube,
    Tubes, WithPayload,
};

/// 2026-01-01 at noon, where every run begins.
pub const START: i64 = 1_767_268_800_000_000;
/// A separate tube, to make the queue read its clock without a change of the others.
const SPARE: &str = "spare";
const OWN: TableDefinition<u64, ()> = TableDefinition::new("own");
/// Openings for each that is preceded by a read-only one.
const READ_EVERY: u64 = 5;
/// The serials and takes of a step are numbered in advance; a step has at most so many of each.
pub const LEASES_A_STEP: u64 = 64;

type Cause = Box<dyn std::error::Error + Send + Sync>;

struct Lease {
    tube: u8,
    handle: Tube,
    ticket: Ticket,
    guard: Option<Task>,
}

pub struct World {
    pub clock: ManualClock,
    pub disk: Option<SimDisk>,
    durability: Durability,
    queue: Option<Queue>,
    spare: Option<Tube>,
    tubes: BTreeMap<u8, Tube>,
    /// The handles of all tubes, by whether the best priority is first.
    several: BTreeMap<bool, Tubes>,
    ids: BTreeMap<Serial, TaskId>,
    serials: BTreeMap<TaskId, Serial>,
    /// The histories that were read last.
    histories: BTreeMap<TaskId, History>,
    /// The length of the checkpoints that were read last.
    checkpoints: BTreeMap<TaskId, Option<u8>>,
    leases: BTreeMap<LeaseNo, Lease>,
    /// Guards that outlive their queue.
    stale: Vec<Task>,
    consumers: BTreeMap<u8, Consumer>,
    /// The adoption of the session of the second consumer by the first.
    adopted: Option<(u8, u8, Adopted)>,
    /// Openings on the disk.
    openings: u64,
    /// A running checkpoint.
    beside: Option<Beside>,
    /// Bytes of the base's cache.
    pub cache_bytes: usize,
    /// The application's own table may be there.
    has_own: bool,
    highest: Option<TaskId>,
    callbacks: waits::Callbacks,
}

/// What the library must never do, for any step.
pub type Verdict<T> = std::result::Result<T, String>;

impl World {
    pub fn new(disk: Option<SimDisk>, durability: Durability) -> Self {
        Self {
            clock: ManualClock::at(UNIX_EPOCH + Duration::from_micros(START as u64)),
            disk,
            durability,
            queue: None,
            spare: None,
            tubes: BTreeMap::new(),
            several: BTreeMap::new(),
            ids: BTreeMap::new(),
            serials: BTreeMap::new(),
            histories: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            leases: BTreeMap::new(),
            stale: Vec::new(),
            consumers: BTreeMap::new(),
            adopted: None,
            openings: 0,
            beside: None,
            cache_bytes: 1 << 20,
            has_own: false,
            highest: None,
            callbacks: waits::Callbacks::default(),
        }
    }

    fn builder(&self) -> Builder {
        Queue::builder()
            .durability(self.durability)
            .clock(self.clock.clone())
            .journal_bytes(64 << 10)
            .cache_bytes(self.cache_bytes)
            .by_hand(true)
    }

    pub fn open(&mut self) -> Result<()> {
        let Some(disk) = &self.disk else {
            let queue = self.builder().in_memory()?;
            return self.begin(queue);
        };
        self.openings += 1;
        // A planned fault counts the calls and reads of the opening.
        let is_read_first = self.openings.is_multiple_of(READ_EVERY) && !disk.is_planned();
        let shown = is_read_first.then(|| reading::shown(self.builder(), disk)).flatten();
        let queue = self.builder().disk(disk.lend()).open_disk()?;
        if let Some(shown) = shown {
            reading::compare(&shown?, &queue)?;
        }
        self.begin(queue)
    }

    fn begin(&mut self, queue: Queue) -> Result<()> {
        self.spare = Some(queue.tube(SPARE)?);
        self.tubes.clear();
        for tube in 0..8 {
            if let Some(handle) = queue.find_tube(&tube_name(tube))? {
                self.tubes.insert(tube, handle);
            }
        }
        // A handle of an earlier queue says nothing about this one.
        self.leases.retain(|_, lease| self.tubes.contains_key(&lease.tube));
        self.queue = Some(queue);
        Ok(())
    }

    /// Ends the queue. Guards of the old one are kept for a while: their drop must do nothing.
    pub fn end(&mut self, end: End) -> Result<()> {
        let beside = self.beside.take();
        let beside = match end {
            End::Close => {
                beside.map(Beside::end);
                None
            }
            End::Kill | End::Cut => beside,
        };
        let closed = match (end, &self.queue) {
            (End::Close, Some(queue)) => {
                // The last record's time is all that a queue knows of the time at which it was
                // closed.
                self.note_the_time().and_then(|()| queue.close())
            }
            _ => Ok(()),
        };
        match (end, &self.disk) {
            (End::Kill, Some(disk)) => disk.kill(),
            (End::Cut, Some(disk)) => disk.cut_power(),
            _ => {}
        }
        // Its sync does not return before the end of this process.
        beside.map(Beside::end);
        self.stale = self.leases.values_mut().filter_map(|lease| lease.guard.take()).collect();
        (self.queue, self.spare) = (None, None);
        self.adopted = None;
        self.several.clear();
        self.consumers.clear();
        self.callbacks = waits::Callbacks::default();
        closed
    }

    fn note_the_time(&self) -> Result<()> {
        let Some(spare) = &self.spare else { return Ok(()) };
        let spare = spare.durability(Durability::Relaxed);
        let id = spare.put(&[])?;
        spare.delete(id)
    }

    pub fn queue(&self) -> &Queue {
        self.queue.as_ref().expect("the queue is open")
    }

    pub fn knows(&self, lease: LeaseNo) -> bool {
        self.leases.contains_key(&lease)
    }

    pub fn run(&mut self, step: &Step, picked: &Picked) -> Verdict<Answer> {
        match self.attempt(step, picked)? {
            Ok(answer) => {
                self.callbacks.note(step, &answer)?;
                Ok(answer)
            }
            Err(error) => Ok(Answer::Refused(error.kind())),
        }
    }

    fn attempt(&mut self, step: &Step, picked: &Picked) -> Verdict<Result<Answer>> {
        let done = |result: Result<()>| Ok(result.map(|()| Answer::Done));
        let no = picked.leases.first().copied();
        match step {
            Step::Clock(turn) => {
                self.turn(turn);
                // Any verb reads the clock; this one finds nothing to do.
                let spare = self.spare.as_ref().expect("the queue is open");
                match spare.delete(TaskId::new(u64::MAX)) {
                    Err(error) if error.kind() != ErrorKind::TaskNotFound => Ok(Err(error)),
                    _ => Ok(Ok(Answer::Done)),
                }
            }
            Step::Tick | Step::Look => done(self.queue().tick()),
            Step::Flush => done(self.queue().flush()),
            Step::Checkpoint => done(self.queue().checkpoint()),
            Step::Compact => done(self.queue().compact()),
            Step::BeginCheckpoint { at } => {
                let disk = self.disk.as_ref().expect("a blocked checkpoint needs a disk");
                match Beside::begin(self.queue(), disk, *at) {
                    Ok(beside) => {
                        self.beside = Some(beside);
                        Ok(Ok(Answer::Done))
                    }
                    Err(ended) => done(ended),
                }
            }
            Step::EndCheckpoint => done(self.beside.take().map_or(Ok(()), Beside::end)),
            Step::Reopen(end) => {
                let ended = self.end(*end);
                done(ended.and_then(|()| self.open()))
            }
            Step::Create { tube, opts, if_not_exists } => {
                let mut options = opts.build();
                if *if_not_exists {
                    options = options.if_not_exists();
                }
                let name = tube_name(*tube);
                let made = match has_callback(*tube) {
                    false => self.queue().create_tube(&name, options),
                    true => {
                        let before = self.callbacks.kept();
                        let callback = self.callbacks.make(*tube, picked.serial);
                        let made = self.queue().create_tube_with(&name, options, callback);
                        let now = self.callbacks.kept();
                        if let Some(gone) = before.difference(&now).next() {
                            return Err(format!("callback {gone:?} was dropped, not returned"));
                        }
                        made.map(|(tube, _replaced)| tube)
                    }
                };
                done(made.map(|handle| drop(self.tubes.insert(*tube, handle))))
            }
            Step::DropTube { tube, force } => done(match force {
                true => self.queue().force_drop_tube(&tube_name(*tube)),
                false => self.queue().drop_tube(&tube_name(*tube)),
            }),
            Step::DropEmpty { tube } => done(self.queue().drop_tube_if_empty(&tube_name(*tube))),
            Step::Join { who: NAMELESS, .. } => {
                let session = self.queue().session();
                self.consumers.entry(NAMELESS).or_insert(session);
                Ok(Ok(Answer::Done))
            }
            Step::Join { who, grace } => {
                let joined = self.queue().consumer_with_grace(&consumer_name(*who), length(*grace));
                done(joined.map(|consumer| drop(self.consumers.insert(*who, consumer))))
            }
            Step::Leave { who } => {
                self.adopted.take_if(|(_, of, _)| of == who);
                self.consumers.remove(who);
                Ok(Ok(Answer::Done))
            }
            Step::CloseConsumer { who } => {
                done(self.consumers.remove(who).map_or(Ok(()), |consumer| consumer.close()))
            }
            Step::Adopt { who, of } => {
                let adopted = self.consumers[who].adopt(&consumer_name(*of));
                done(adopted.map(|adopted| self.adopted = Some((*who, *of, adopted))))
            }
            Step::Deregister { who } => {
                let ended = self.queue().deregister(&[consumer_name(*who)]);
                self.consumers.remove(who);
                done(ended)
            }
            Step::Transact { tube, ending, .. } => self.transact(*tube, *ending, picked),
            Step::AckMany { .. } => self.ack_many(&picked.leases),
            Step::Condition { condition, to, is_stored } => {
                let (name, queue) = (condition_name(*condition), self.queue());
                let changed = match (to, is_stored) {
                    (Some(is_set), true) => queue.set_condition(&name, *is_set),
                    (Some(is_set), false) => queue.set_condition_for_run(&name, *is_set),
                    (None, _) => queue.remove_condition(&name),
                };
                Ok(changed.map(|is_any| Answer::Count(is_any.into())))
            }
            Step::Throttle { limit } => {
                let queue = self.queue();
                let changed = match limit {
                    Some(limit) => queue.set_throttle(THROTTLE, *limit),
                    None => queue.remove_throttle(THROTTLE),
                };
                Ok(changed.map(|is_any| Answer::Count(is_any.into())))
            }
            Step::ReleaseSlots => {
                let queue = self.queue();
                let held = queue.throttle_holders(THROTTLE).collect::<Result<Vec<_>>>();
                done(held.and_then(|held| queue.release_throttle(THROTTLE, &held).map(drop)))
            }
            Step::Wait(wait) => self.wait(wait, picked),
            Step::Callback { tube, is_set } => self.set_callback(*tube, *is_set, picked.serial),
            Step::TakeFrom { best, count } => self.take_from(*best, *count, picked.lease),
            Step::Bring { step } => done(self.bring(no.unwrap_or_default(), step, picked.serial)),
            Step::Touch { by, .. } => done(self.held(no).and_then(|held| held.touch(length(*by)))),
            Step::Log { .. } => done(self.held(no).and_then(|held| held.log("a line"))),
            Step::Report { what, .. } => done(self.held(no).and_then(|held| match what {
                Reported::Start => held.start("here"),
                Reported::Progress(percent) => held.progress(*percent, "so far"),
                Reported::Checkpoint(bytes) => held.checkpoint(&vec![*bytes; usize::from(*bytes)]),
            })),
            Step::Renew { .. } => done(self.held(no).and_then(|held| held.renew())),
            Step::RenewFor { by, .. } => {
                done(self.held(no).and_then(|held| held.renew_for(length(*by))))
            }
            Step::Detach { .. } => {
                if let Some(guard) = self.guard(no) {
                    let (_, lease) = guard.split();
                    lease.detach();
                }
                Ok(Ok(Answer::Done))
            }
            Step::DropGuard { .. } => {
                match self.guard(no) {
                    Some(guard) => drop(guard),
                    // The runner does this with guards only.
                    None => return Err("a guard that does not exist was dropped".into()),
                }
                Ok(Ok(Answer::Done))
            }
            _ if no.is_some() => done(self.verdict(no.unwrap_or_default(), step)),
            _ => self.of_tube(step, picked),
        }
    }

    pub fn turn(&self, turn: &Turn) {
        match *turn {
            Turn::Advance(by) => self.clock.advance(length(by)),
            Turn::Suspend(by) => self.clock.suspend(length(by)),
            Turn::FreezeWall(by) => self.clock.freeze_wall(length(by)),
            Turn::Reboot(after) => self.clock.reboot(length(after)),
            Turn::SetWall(by) => {
                let by_length = Duration::from_micros(by.unsigned_abs());
                let wall = self.clock.wall();
                self.clock.set_wall(if by < 0 { wall - by_length } else { wall + by_length });
            }
        }
    }

    pub fn has_consumer(&self, who: u8) -> bool {
        self.consumers.contains_key(&who)
    }

    /// Whether one has adopted the session of another, which is not left again.
    pub fn has_adopted(&self) -> bool {
        self.adopted.is_some()
    }

    /// Whether an adoption keeps this session open: that of the adopter, or the adopted one.
    pub fn is_kept_open(&self, no: u8) -> bool {
        self.adopted.as_ref().is_some_and(|(who, of, _)| *who == no || *of == no)
    }

    pub fn is_adopted(&self, no: u8) -> bool {
        self.adopted.as_ref().is_some_and(|(_, of, _)| *of == no)
    }

    /// Whether a checkpoint is blocked during the script.
    pub fn is_beside(&self) -> bool {
        self.beside.is_some()
    }

    /// Whether the journal may be too full for another step during a checkpoint, which would have
    /// to wait for its end.
    pub fn is_tight(&self) -> bool {
        let space = self.queue().space();
        // What is not in the base may take a third of the ring.
        space.map_or(true, |space| space.journal_used > space.journal_bytes / 6)
    }

    /// Whether a take still has its guard, so that it can be dropped.
    pub fn has_guard(&self, no: LeaseNo) -> bool {
        self.leases.get(&no).is_some_and(|lease| lease.guard.is_some())
    }

    fn guard(&mut self, no: Option<LeaseNo>) -> Option<Task> {
        no.and_then(|no| self.leases.get_mut(&no)).and_then(|lease| lease.guard.take())
    }

    /// A take by its ticket, through the tube's newest handle.
    fn held(&self, no: Option<LeaseNo>) -> Result<TicketHandle> {
        let lease = &self.leases[&no.expect("a step of a lease picks one")];
        let tube = self.tubes.get(&lease.tube).unwrap_or(&lease.handle);
        Ok(tube.ticket(lease.ticket))
    }

    /// Whether there was a tube of this number since the opening.
    pub fn has_tube(&self, no: u8) -> bool {
        self.tubes.contains_key(&no)
    }

    /// The task in hand goes on to a tube. A refusal leaves the guard as it is.
    fn advance(&mut self, no: LeaseNo, to: u8, delay: Option<u64>, result: bool) -> Result<()> {
        let next = self.tubes[&to].clone();
        let result = result.then(|| result_of(self.serials[&self.leases[&no].ticket.id()]));
        let mut terms = Advance::new();
        if let Some(delay) = delay {
            terms = terms.delay(length(delay));
        }
        if let Some(result) = &result {
            terms = terms.result(result);
        }
        let guard = self.leases.get_mut(&no).and_then(|lease| lease.guard.as_mut());
        match guard.filter(|_| no.is_multiple_of(2)) {
            Some(guard) => {
                guard.advance_with(&next, terms)?;
                drop(self.guard(Some(no)));
                Ok(())
            }
            None => self.held(Some(no))?.advance_with(&next, terms),
        }
    }

    fn verdict(&mut self, no: LeaseNo, step: &Step) -> Result<()> {
        if let Step::Advance { to, delay, with_result, .. } = step {
            return self.advance(no, *to, *delay, *with_result);
        }
        let words = format!("e{no}");
        // A verdict consumes a guard, so this is used only where a refusal means a lost lease;
        // every second time, so that both ways are tested.
        let by_guard = no.is_multiple_of(2)
            && match step {
                Step::Release { back, .. } => back.is_plain(),
                Step::Retry { after, grouped, .. } => after.is_none() && !grouped,
                Step::Bury { priority, .. } => priority.is_none(),
                // A refused one leaves the lease.
                Step::AckWith { .. } => false,
                _ => true,
            };
        if by_guard && let Some(guard) = self.guard(Some(no)) {
            return match step {
                Step::Release { .. } => guard.release(),
                Step::Retry { .. } => guard.retry(words),
                Step::Bury { .. } => guard.bury(words),
                Step::Fail { .. } => guard.fail("f", words),
                Step::Trash { .. } => guard.trash(words),
                _ => guard.ack(),
            };
        }
        let held = self.held(Some(no))?;
        match step {
            Step::Release { back, .. } if back.is_plain() => held.release(),
            Step::Release { back, .. } => held.release_with(terms(back)),
            Step::Retry { after, grouped: true, .. } => {
                let terms = Retry::new(words).group(failure_group(0, 1));
                held.retry_with(match after {
                    Some(after) => terms.after(length(*after)),
                    None => terms,
                })
            }
            Step::Retry { after: Some(after), .. } => held.retry_after(words, length(*after)),
            Step::Retry { .. } => held.retry(words),
            Step::Bury { priority: Some(priority), .. } => {
                held.bury_with_priority(words, *priority)
            }
            Step::Bury { .. } => held.bury(words),
            Step::Fail { .. } => held.fail("f", words),
            Step::AckWith { .. } => {
                let &id = &held.id();
                held.ack_with(&result_of(self.serials[&id]))
            }
            Step::Trash { .. } => held.trash(words),
            _ => held.ack(),
        }
    }

    fn ack_many(&mut self, leases: &[LeaseNo]) -> Verdict<Result<Answer>> {
        let Some(tube) = leases.first().map(|no| self.leases[no].handle.clone()) else {
            let tube = self.spare.as_ref().expect("the queue is open");
            return Ok(tube.ack_many(Vec::<Task>::new()).map(|()| Answer::Done));
        };
        let guards: Vec<_> = leases.iter().filter_map(|no| self.guard(Some(*no))).collect();
        match tube.ack_many(guards) {
            Ok(()) => Ok(Ok(Answer::Done)),
            Err(error) if error.kind() == ErrorKind::LeaseLost => {
                let mut rest: Vec<_> =
                    error.tasks().iter().filter_map(|id| self.serials.get(id).copied()).collect();
                rest.sort_unstable();
                rest.dedup();
                Ok(Ok(Answer::NotHeld(rest)))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn transact(&mut self, no: u8, ending: Ending, picked: &Picked) -> Verdict<Result<Answer>> {
        let Some(tube) = self.tubes.get(&no).cloned() else {
            return Ok(Ok(Answer::Refused(ErrorKind::TubeNotFound)));
        };
        let guards: Vec<Task> =
            picked.leases.iter().filter_map(|lease| self.guard(Some(*lease))).collect();
        self.has_own = true;
        let bytes = payload(picked.serial);
        let queue = self.queue();
        let run = || {
            queue.transact(|tx| -> std::result::Result<TaskId, Cause> {
                tx.table(OWN)?.insert(picked.serial, ()).map_err(tubewell::Error::from)?;
                let id = tx.put(&tube, &bytes)?;
                for guard in &guards {
                    tx.ack(guard)?;
                }
                match ending {
                    Ending::Commit => Ok(id),
                    Ending::Error => Err("no".into()),
                    Ending::Panic => resume_unwind(Box::new("the application's own")),
                }
            })
        };
        let done = catch_unwind(AssertUnwindSafe(run));
        let lives = !matches!(done, Ok(Ok(_)));
        for (lease, guard) in picked.leases.iter().zip(guards) {
            match self.leases.get_mut(lease) {
                // Nothing happened, so the guard is still valid.
                Some(lease) if lives => lease.guard = Some(guard),
                _ => drop(guard),
            }
        }
        // The panic passes through the library unchanged.
        let Ok(done) = done else { return Ok(Ok(Answer::Refused(ErrorKind::Rejected))) };
        match done {
            Ok(id) => {
                self.bind_new(picked.serial, id)?;
                Ok(Ok(Answer::Put(picked.serial, Found::New)))
            }
            Err(error) if error.kind() == ErrorKind::Rejected => {
                // The error in the closure, if that was a failing disk.
                let cause = error.into_source().and_then(|cause| cause.downcast::<Error>().ok());
                let trouble = cause.map(|error| error.kind()).filter(|kind| is_trouble(*kind));
                Ok(Ok(Answer::Refused(trouble.unwrap_or(ErrorKind::Rejected))))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    fn own(&self) -> Result<BTreeSet<Serial>> {
        if !self.has_own {
            return Ok(BTreeSet::new());
        }
        let rows = self.queue().read(|reading| -> Result<_> {
            let mut rows = BTreeSet::new();
            for row in reading.table(OWN)?.iter()? {
                rows.insert(row?.0.value());
            }
            Ok(rows)
        });
        // The table is made with the first row.
        match rows {
            Err(error) if error.kind() == ErrorKind::Rejected => {
                match error.into_source().and_then(|cause| cause.downcast::<Error>().ok()) {
                    Some(cause) if cause.kind() == ErrorKind::Invalid => Ok(BTreeSet::new()),
                    Some(cause) => Err(*cause),
                    None => Ok(BTreeSet::new()),
                }
            }
            rows => rows,
        }
    }

    fn bind_new(&mut self, serial: Serial, id: TaskId) -> Verdict<()> {
        if self.highest.is_some_and(|highest| id <= highest) {
            return Err(format!("{id:?} was given after {:?}", self.highest));
        }
        self.bind(serial, id)
    }

    fn bind(&mut self, serial: Serial, id: TaskId) -> Verdict<()> {
        self.highest = self.highest.max(Some(id));
        let old = (self.ids.insert(serial, id), self.serials.insert(id, serial));
        match old {
            (None, None) => Ok(()),
            old if old == (Some(id), Some(serial)) => Ok(()),
            old => Err(format!("{id:?} is put {serial}, but was {old:?}")),
        }
    }

    /// The serial of a task and the edition of its payload. A put of its key that has put it again
    /// was numbered as the put of a new task.
    fn numbers(&self, id: TaskId, payload: &[u8]) -> Option<(Serial, Serial)> {
        let (serial, edition) = numbers_of(payload)?;
        match self.serials.get(&id) {
            Some(old) if *old != serial && edition == 0 => Some((*old, serial)),
            _ => Some((serial, edition)),
        }
    }

    fn took(
        &mut self,
        no: u8,
        tube: &Tube,
        tasks: Vec<Task>,
        first: LeaseNo,
    ) -> Verdict<Result<Answer>> {
        let mut hands = Vec::new();
        for (lease, task) in (first..).zip(tasks) {
            let numbers = self.numbers(task.id(), &task);
            let (serial, edition) = numbers.ok_or(format!("{:?} came back altered", task.id()))?;
            self.bind(serial, task.id())?;
            let micros = |length: Duration| length.as_micros() as u64;
            hands.push(Hand {
                serial,
                edition,
                attempts: task.attempt(),
                deliveries: task.deliveries(),
                priority: task.priority(),
                ttr: task.ttr().map(micros),
                age: micros(task.age()),
            });
            let (handle, ticket) = (tube.clone(), task.ticket());
            self.leases.insert(lease, Lease { tube: no, handle, ticket, guard: Some(task) });
        }
        Ok(Ok(Answer::Took(hands)))
    }
}

/// The terms of a release.
fn terms(back: &Back) -> Release {
    let mut with = Release::new();
    if let Some(delay) = back.delay {
        with = with.delay(length(delay));
    }
    if let Some(priority) = back.priority {
        with = with.priority(priority);
    }
    if let Some(ttl) = back.ttl {
        with = with.ttl(length(ttl));
    }
    if back.to_back { with.to_back() } else { with }
}

/// The errors with which a failing disk may end a call.
pub fn is_trouble(kind: ErrorKind) -> bool {
    use ErrorKind::{Broken, DiskFull, Io, Unknown};
    matches!(kind, Broken | DiskFull | Io | Unknown)
}

fn since_epoch(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

pub fn kind_of<T>(result: &Result<T, Error>) -> Option<ErrorKind> {
    result.as_ref().err().map(Error::kind)
}
