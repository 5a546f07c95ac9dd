//! The one way of an op: read the clock, work off what is due, decide, write, make visible. All of
//! it under the engine's lock, which nobody holds while waiting for a disk, a checkpoint or room.

use crate::clock::{Clock, Now, Reckoning, micros};
use crate::engine::desk::{Desk, Numbers};
use crate::engine::draft::{Draft, Over};
use crate::engine::due::{self, WorkOff};
use crate::engine::known::Known;
use crate::engine::{Op, Wants, look};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::NUMBER_BLOCK;
use crate::live::events::Hub;
use crate::live::gate::Mark;
use crate::live::notes::{self, Notes, Outbox};
use crate::live::pace::Pace;
use crate::store::{Advance, Failure, Stamp, Store};

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
    pub(crate) notes: Notes,
    /// What the op at work decides; between two ops, memory for the next.
    draft: Draft,
    /// Lease time before which a full disk is not tried again.
    refill_at: u64,
    pub(crate) pace: Pace,
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
            notes: Notes::default(),
            draft: Draft::default(),
            refill_at: 0,
            pace: Pace::default(),
        }
    }

    /// What is to be told. Whoever releases the lock after a commit takes it and tells it, also
    /// when the op behind the commit was refused.
    pub(crate) fn take_outbox(&mut self) -> Outbox {
        std::mem::take(&mut self.notes.outbox)
    }

    /// Learns the tubes and their deadlines, at open.
    pub(crate) fn learn(&mut self) -> Result<()> {
        for number in look::numbers(&self.store)? {
            let tube = look::tube(&self.store, number)?;
            let next = due::next_due(&self.store, tube.run())?;
            self.notes.learn(number, tube.row, next);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn now(&mut self, clock: &dyn Clock) -> Now {
        self.reckoning.read(clock)
    }

    /// What travels with the next record, whose rows move so many payload bytes.
    #[inline]
    pub(crate) fn advance(&self, durable_bytes: i64) -> Advance {
        Advance { marks: self.reckoning.marks(), reserved: self.reserved, durable_bytes }
    }

    /// What has been written so far, and so seen.
    pub(crate) fn written(&self) -> Mark {
        Mark(self.store.written())
    }

    /// # Errors
    /// `Closed` or `Broken`.
    #[inline]
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
        if is_io(done)
            && let Err(error) = self.store.heal()
        {
            self.break_down(&error);
        }
    }

    /// Runs one op, behind whatever is due in its tube.
    #[inline]
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
        let Some(run) = self.notes.known.get(number).map(|tube| tube.run()) else {
            return Ok(false);
        };
        if due::has_work(&self.store, run)? {
            return Ok(true);
        }
        let Some((_, bound)) = self.notes.due.get(&run).copied() else { return Ok(false) };
        if !bound.is_due(now) {
            return Ok(false);
        }
        let next = due::next_due(&self.store, run)?;
        self.notes.due.insert(run, (number, next));
        Ok(next.is_due(now))
    }

    /// Decides one op and writes what it decided.
    #[inline]
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
        let (mut wants, numbers) = (site.hub.wants(), self.numbers);
        let done = loop {
            self.draft.clear();
            let (known, numbers_left) = (&self.notes.known, &mut self.numbers);
            let mut desk = Desk::new(&self.store, known, numbers_left, &mut self.draft, wants, now);
            let decided = op.decide(&mut desk);
            if wants.is_none() || !is_io(&decided) {
                break decided?;
            }
            // Perhaps it read a payload that only readers of events want; they hold nothing up.
            self.heal_after(&decided);
            (wants, self.numbers) = (None, numbers);
        };
        if self.store.is_full()
            && op.grows()
            && !self.store.bears(self.draft.writes())?
            && !self.refill(now)
        {
            return Err(Error::new(ErrorKind::DiskFull));
        }
        let advance = self.advance(self.draft.durable_bytes());
        let learnt = notes::learnt(&mut self.draft);
        let durable = self.draft.is_durable();
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
        self.notes.outbox.wrote = wrote.or(self.notes.outbox.wrote);
        self.notes.committed(learnt, &mut self.draft, mark, site.hub);
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
    #[inline]
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
        wants: Option<&dyn Wants>,
    ) -> Result<(O::Done, Draft)> {
        let view = Over { view: &self.store, draft: over };
        // The list may hold what is not known yet.
        let known = Known::default();
        let mut draft = Draft::default();
        let mut desk = Desk::new(&view, &known, &mut self.numbers, &mut draft, wants, now);
        let done = op.decide(&mut desk)?;
        Ok((done, draft))
    }

    /// Whether the op's numbers are there. Reserves the next block well ahead, so that it is
    /// synced by the time it is needed.
    #[inline]
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
}

fn is_io<T>(done: &Result<T>) -> bool {
    done.as_ref().is_err_and(|error| error.kind() == ErrorKind::Io)
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
