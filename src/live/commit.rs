//! The one way of an op: read the clock, work off what is due, decide, write, make visible. All of
//! it under the engine's lock, which nobody holds while waiting for a disk, a checkpoint or room.

use crate::bytes::key::{self, Run};
use crate::bytes::row::TubeRow;
use crate::bytes::{Deadline, Range, RowOp, RowWrite, Tag};
use crate::clock::{Clock, Now, Reckoning, micros};
use crate::engine::desk::{Desk, Numbers};
use crate::engine::draft::{Change, Draft, Over};
use crate::engine::due::{self, NextDue, WorkOff};
use crate::engine::known::Known;
use crate::engine::{Op, look};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::NUMBER_BLOCK;
use crate::live::events::Hub;
use crate::live::gate::Mark;
use crate::live::pace::Pace;
use crate::store::{Advance, Failure, Stamp, Store};
use crate::sync::Arc;
use crate::task::Cause;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// What the engine's lock protects.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) status: Status,
    /// Set before the journal is written, cleared once the list is applied and taken note of: a
    /// panic in between leaves the queue broken, never half done.
    armed: bool,
    numbers: Numbers,
    /// Numbers below this are reserved as soon as the record of this mark is synced.
    reserved: u64,
    reserved_at: Mark,
    reckoning: Reckoning,
    known: Known,
    /// What the op at work decides; between two ops, memory for the next.
    draft: Draft,
    /// By run: the tube, and a lower bound of its first deadlines.
    pub(crate) due: BTreeMap<Run, (u32, NextDue)>,
    pub(crate) calls: BTreeMap<u32, Counted>,
    /// Lease time before which a full disk is not tried again.
    refill_at: u64,
    pub(crate) pace: Pace,
    /// Committed, and to be told once the lock is released.
    outbox: Outbox,
}

/// What is counted for a tube since the queue was opened.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) name: Arc<str>,
    pub(crate) calls: [u64; CAUSES],
}

/// How many causes there are; the last one is `Close`.
const CAUSES: usize = Cause::Close as usize + 1;

impl Counted {
    pub(crate) fn of(&self, cause: Cause) -> u64 {
        self.calls.get(cause as usize).copied().unwrap_or(0)
    }
}

/// Whether calls are served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Open,
    Closed,
    /// What stopped it.
    Broken(String),
}

/// How an op ended.
pub(crate) enum Step<D> {
    /// Done and visible; it is synced once this mark is.
    Done(D, Mark),
    /// The journal has no room: checkpoint, then again.
    NoRoom,
    /// Its record is too large for the journal: it goes through a checkpoint.
    TooLarge,
    /// The reserved numbers are used up: sync up to this mark, then again.
    NoNumbers(Mark),
}

/// Tubes, and how many tasks.
type Told = SmallVec<[(u32, usize); 2]>;

/// What is told to waiters once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Tubes in which tasks became takeable, and how many.
    pub(crate) wakes: Told,
    /// Tubes in which tasks went, and how many.
    pub(crate) room: Told,
    /// Payload bytes went, so any tube may have room under the limit of all together.
    pub(crate) freed: bool,
    /// An earlier deadline than any before came in, or work for a sweep.
    pub(crate) sooner: bool,
    /// Lease time of the last write, if anything was written for the disk.
    pub(crate) wrote: Option<u64>,
}

impl State {
    pub(crate) fn new(store: Store, stamp: Stamp, free: u64, clock: &dyn Clock) -> Self {
        Self {
            store,
            status: Status::Open,
            armed: false,
            numbers: Numbers { next: free.max(1), end: stamp.reserved },
            reserved: stamp.reserved,
            reserved_at: Mark(0),
            reckoning: Reckoning::resume(stamp.marks, clock),
            known: Known::default(),
            draft: Draft::default(),
            due: BTreeMap::new(),
            calls: BTreeMap::new(),
            refill_at: 0,
            pace: Pace::default(),
            outbox: Outbox::default(),
        }
    }

    /// What is to be told. Whoever releases the lock after a commit takes it and tells it, also
    /// when the op behind the commit was refused.
    pub(crate) fn take_outbox(&mut self) -> Outbox {
        std::mem::take(&mut self.outbox)
    }

    /// Learns the tubes and their deadlines, at open.
    pub(crate) fn learn(&mut self) -> Result<()> {
        for number in look::numbers(&self.store)? {
            let tube = look::tube(&self.store, number)?;
            let next = due::next_due(&self.store, tube.run())?;
            self.due.insert(tube.run(), (number, next));
            self.name(number, &tube.row.name);
            self.known.learn(number, tube.row);
        }
        Ok(())
    }

    fn name(&mut self, number: u32, name: &str) {
        self.calls
            .entry(number)
            .or_insert_with(|| Counted { name: name.into(), calls: [0; CAUSES] });
    }

    pub(crate) fn now(&mut self, clock: &dyn Clock) -> Now {
        self.reckoning.read(clock)
    }

    /// What travels with the next record, whose rows move so many payload bytes.
    pub(crate) fn advance(&self, durable_bytes: i64) -> Advance {
        Advance { marks: self.reckoning.marks(), reserved: self.reserved, durable_bytes }
    }

    /// What has been written so far, and so seen.
    pub(crate) fn written(&self) -> Mark {
        Mark(self.store.written())
    }

    /// # Errors
    /// `Closed` or `Broken`.
    pub(crate) fn is_open(&self) -> Result<()> {
        match &self.status {
            Status::Open if self.armed => {
                Err(Error::new(ErrorKind::Broken).because("a commit panicked half-way"))
            }
            Status::Open => Ok(()),
            Status::Closed => Err(Error::new(ErrorKind::Closed)),
            Status::Broken(text) => Err(Error::new(ErrorKind::Broken).because(text.as_str())),
        }
    }

    pub(crate) fn break_down(&mut self, error: &Error) {
        if self.status == Status::Open {
            self.status = Status::Broken(error.to_string());
        }
    }

    /// After a read or write that failed: the base remembers it until it is opened anew, which else
    /// waits for a checkpoint that may never come.
    pub(crate) fn heal_after<T>(&mut self, done: &Result<T>) {
        if done.as_ref().err().is_some_and(|error| error.kind() == ErrorKind::Io)
            && let Err(error) = self.store.heal()
        {
            self.break_down(&error);
        }
    }

    /// Runs one op, behind whatever is due in its tube.
    pub(crate) fn step<O: Op>(&mut self, op: &O, site: &Site<'_>) -> Result<Step<O::Done>> {
        self.is_open()?;
        let now = self.now(site.clock);
        if let Some(number) = op.tube() {
            while self.is_due(number, now)? {
                match self.commit(&WorkOff { tube: number }, now, site)? {
                    Step::Done(..) => {}
                    Step::NoRoom => return Ok(Step::NoRoom),
                    Step::TooLarge => return Ok(Step::TooLarge),
                    Step::NoNumbers(mark) => return Ok(Step::NoNumbers(mark)),
                }
            }
        }
        self.commit(op, now, site)
    }

    /// Whether something is due in the tube. Looks only if the kept bound has passed.
    pub(crate) fn is_due(&mut self, number: u32, now: Now) -> Result<bool> {
        let Some(run) = self.known.get(number).map(|tube| tube.run()) else { return Ok(false) };
        if due::has_work(&self.store, run)? {
            return Ok(true);
        }
        let Some((_, bound)) = self.due.get(&run).copied() else { return Ok(false) };
        if !bound.is_due(now) {
            return Ok(false);
        }
        let next = due::next_due(&self.store, run)?;
        self.due.insert(run, (number, next));
        Ok(next.is_due(now))
    }

    /// Decides one op and writes what it decided.
    pub(crate) fn commit<O: Op>(
        &mut self,
        op: &O,
        now: Now,
        site: &Site<'_>,
    ) -> Result<Step<O::Done>> {
        if op.adds() && self.store.is_full() && !self.refill(now) {
            return Err(Error::new(ErrorKind::DiskFull));
        }
        if !self.has_numbers(op.numbers(), site) {
            return self.reserve(op.numbers());
        }
        self.draft.clear();
        let mut desk = Desk::new(&self.store, &self.known, &mut self.numbers, &mut self.draft, now);
        let done = op.decide(&mut desk)?;
        let advance = self.advance(self.draft.durable_bytes());
        let Survey { durable, learnt } = survey(self.draft.writes());
        let wrote = (durable && !self.draft.is_empty()).then_some(now.lease);
        self.armed = true;
        let number = match self.store.append(self.draft.writes(), advance) {
            Ok(number) => number,
            Err(failure) => {
                self.armed = false;
                return self.failed(failure);
            }
        };
        let mark = if durable { Mark(number) } else { Mark(0) };
        self.outbox.wrote = wrote.or(self.outbox.wrote);
        let draft = std::mem::take(&mut self.draft);
        self.committed(learnt, &draft, mark, site.hub);
        self.draft = draft;
        self.armed = false;
        Ok(Step::Done(done, mark))
    }

    fn failed<D>(&mut self, failure: Failure) -> Result<Step<D>> {
        match failure {
            Failure::NoRoom => Ok(Step::NoRoom),
            Failure::TooLarge => Ok(Step::TooLarge),
            Failure::Refused(error) => Err(error),
            Failure::Broken(error) => {
                self.break_down(&error);
                Err(error)
            }
        }
    }

    /// Takes note of what is committed: deadlines, counts, events, whom to wake, and whether there
    /// is room.
    pub(crate) fn committed(&mut self, learnt: Vec<Learnt>, draft: &Draft, mark: Mark, hub: &Hub) {
        self.outbox.sooner |= self.adopt(learnt);
        self.outbox.freed |= draft.durable_bytes() < 0;
        self.count(draft.changes(), mark, hub);
        for change in draft.changes().iter().filter(|change| change.to.is_none()) {
            self.outbox.room.push((change.tube, 1));
        }
        self.outbox.wakes.extend_from_slice(draft.wakes());
    }

    /// After a full disk: whether the ballast stands again. Tried at most once a second, since it
    /// is written out.
    fn refill(&mut self, now: Now) -> bool {
        if now.lease < self.refill_at {
            return false;
        }
        self.refill_at = now.lease.saturating_add(1_000_000);
        self.store.refill()
    }

    /// Microseconds that the caller who has just written rests.
    pub(crate) fn rest(&mut self, clock: &dyn Clock) -> u64 {
        let (used, size) = self.store.ring();
        self.pace.rest(used, size, self.store.is_moving(), || micros(clock.monotonic()))
    }

    /// Lets the engine decide over rows that are not written yet, and writes nothing.
    pub(crate) fn decide_over<O: Op>(
        &mut self,
        op: &O,
        now: Now,
        over: &Draft,
    ) -> Result<(O::Done, Draft)> {
        let view = Over { view: &self.store, draft: over };
        // The list may hold what is not known yet.
        let known = Known::default();
        let mut draft = Draft::default();
        let mut desk = Desk::new(&view, &known, &mut self.numbers, &mut draft, now);
        let done = op.decide(&mut desk)?;
        Ok((done, draft))
    }

    /// Whether the op's numbers are there. Reserves the next block well ahead, so that it is
    /// synced by the time it is needed.
    fn has_numbers(&mut self, need: u64, site: &Site<'_>) -> bool {
        if self.reserved > self.numbers.end && site.is_synced(self.reserved_at) {
            self.numbers.end = self.reserved;
        }
        if self.numbers.left() < NUMBER_BLOCK / 2 && self.reserved == self.numbers.end {
            self.reserved = self.numbers.end.saturating_add(NUMBER_BLOCK);
            // The next record carries it; until one is written it waits for the one after this.
            self.reserved_at = Mark(self.store.written() + 1);
        }
        self.numbers.left() >= need
    }

    /// Makes sure of numbers for an op inside a transaction, where nothing can be written: its
    /// reservation must be on the disk before, so it is synced here.
    pub(crate) fn draw(&mut self, need: u64, gate: &crate::live::gate::Gate) -> Result<()> {
        if self.numbers.left() >= need {
            return Ok(());
        }
        match self.reserve::<()>(need)? {
            Step::NoNumbers(mark) => gate.wait(mark)?,
            _ => return Err(Error::new(ErrorKind::Full).because("the journal has no room")),
        }
        self.numbers.end = self.reserved;
        Ok(())
    }

    /// Writes the reservation by itself, for an op that needs it now.
    fn reserve<D>(&mut self, need: u64) -> Result<Step<D>> {
        self.reserved = self.reserved.max(self.numbers.next.saturating_add(need + NUMBER_BLOCK));
        match self.store.note(self.advance(0)) {
            Ok(number) => {
                self.reserved_at = Mark(number);
                Ok(Step::NoNumbers(Mark(number)))
            }
            Err(failure) => self.failed(failure),
        }
    }

    /// Keeps what was learnt from writes that are now committed. Whether the timer must look.
    fn adopt(&mut self, learnt: Vec<Learnt>) -> bool {
        let mut sooner = false;
        for learnt in learnt {
            match learnt {
                Learnt::Due(run, next) => {
                    if let Some((_, bound)) = self.due.get_mut(&run) {
                        let earlier = bound.earlier(next);
                        sooner |= earlier != *bound;
                        *bound = earlier;
                    }
                }
                Learnt::Tube(number, row) => {
                    self.due.retain(|run, (tube, _)| *tube != number || *run == row.run);
                    self.due.entry(row.run).or_insert((number, NextDue::NONE));
                    self.name(number, &row.name);
                    self.known.learn(number, row);
                }
                Learnt::Gone(number) => self.known.forget(number),
                Learnt::Work => sooner = true,
            }
        }
        sooner
    }

    fn count(&mut self, changes: &[Change], mark: Mark, hub: &Hub) {
        for change in changes {
            let counted = self.calls.get_mut(&change.tube);
            if let Some(calls) = counted.and_then(|tube| tube.calls.get_mut(change.cause as usize))
            {
                *calls += 1;
            }
        }
        let name =
            |tube: u32| self.calls.get(&tube).map_or_else(|| "".into(), |tube| tube.name.clone());
        hub.tell(name, changes, mark);
    }
}

/// What a list of writes tells the threads.
pub(crate) enum Learnt {
    Due(Run, NextDue),
    Tube(u32, TubeRow),
    Gone(u32),
    Work,
}

impl Learnt {
    /// What one write tells, of those that tell something.
    fn of(range: Range, key: &[u8], op: &RowOp) -> Option<Self> {
        let number = || Some(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?));
        match (range.tag, op) {
            (Tag::Due, RowOp::Add(_)) => {
                let when = key::when_of(key)?;
                let mut next = NextDue::NONE;
                match key.get(5) {
                    Some(what) if *what == Deadline::RunAt as u8 => next.wall = when,
                    Some(what) if *what == Deadline::Ttr as u8 => next.lease = when,
                    _ => next.queue = when,
                }
                Some(Self::Due(range.run?, next))
            }
            (Tag::Tube, RowOp::Add(row) | RowOp::Change(row)) => {
                Some(Self::Tube(number()?, TubeRow::decode(row)?))
            }
            (Tag::Tube, RowOp::Remove) => Some(Self::Gone(number()?)),
            (Tag::Work, RowOp::Add(_) | RowOp::Change(_)) => Some(Self::Work),
            _ => None,
        }
    }
}

/// What a commit needs from around it.
pub(crate) struct Site<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) hub: &'a Hub,
    pub(crate) gate: &'a crate::live::gate::Gate,
}

impl Site<'_> {
    fn is_synced(&self, mark: Mark) -> bool {
        self.gate.is_synced(mark)
    }
}

/// What a list of writes says to those who keep things in memory beside the rows.
pub(crate) struct Survey {
    /// Whether a power cut could take it back. What a temporary tube did never touches the disk, so
    /// nothing is waited for; a list without a write has at least seen what others wrote.
    durable: bool,
    pub(crate) learnt: Vec<Learnt>,
}

/// Reads a list of writes, before the store consumes it.
pub(crate) fn survey(writes: &[RowWrite]) -> Survey {
    let mut survey = Survey { durable: writes.is_empty(), learnt: Vec::new() };
    for RowWrite { key, op } in writes {
        let Some(range) = Range::holding(key) else { continue };
        survey.durable |= range.run.is_none_or(|run| !run.is_temporary());
        if matches!(range.tag, Tag::Due | Tag::Tube | Tag::Work) {
            survey.learnt.extend(Learnt::of(range, key, op));
        }
    }
    survey
}
