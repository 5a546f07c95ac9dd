//! The one way of an op: read the clock, work off what is due, decide, write, make visible. All of
//! it under the engine's lock, which nobody holds while waiting for a disk, a checkpoint or room.

use crate::clock::{Clock, Now, Reckoning, micros};
use crate::engine::desk::{Desk, Reserve};
use crate::engine::draft::{Draft, Over};
use crate::engine::due::{self, NextDue, WorkOff};
use crate::engine::known::Known;
use crate::engine::{Op, Wants, look};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{NUMBER_BLOCK, TRANSACTION_NUMBERS};
use crate::live::events::Hub;
use crate::live::gate::Mark;
use crate::live::notes::{self, Notes, Outbox};
use crate::live::pace::Pace;
use crate::numbers::Numbers;
use crate::store::{Advance, Failure, Opened, Store};

/// What the engine's lock protects.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) status: Status,
    /// Set before the journal is written, cleared once the list is applied and taken note of: a
    /// panic in between leaves the queue broken, never half done.
    armed: bool,
    numbers: Reserve,
    /// Numbers below these are reserved as soon as the record of this mark is synced.
    reserved: Numbers,
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

/// Why an op was not done. Nothing of it is visible.
pub(crate) enum Obstacle {
    /// The journal has no room: checkpoint, then again.
    NoRoom,
    /// Its record is too large for the journal: it goes through a checkpoint.
    TooLarge,
    /// The reserved numbers are used up: sync up to this mark, then again.
    NoNumbers(Mark),
    Refused(Error),
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl State {
    pub(crate) fn new(opened: Opened, pace: Pace) -> Self {
        Self {
            store: opened.store,
            status: Status::Open,
            armed: false,
            numbers: Reserve { next: opened.first, end: opened.reserved },
            reserved: opened.reserved,
            reserved_at: Mark(0),
            reckoning: opened.reckoning,
            notes: Notes::default(),
            draft: Draft::default(),
            refill_at: 0,
            pace,
        }
    }

    /// What is to be told. Whoever releases the lock after a commit takes it and tells it, also
    /// when the op behind the commit was refused.
    pub(crate) fn take_outbox(&mut self) -> Outbox {
        let relief = self.store.has_relief();
        Outbox { relief, ..std::mem::take(&mut self.notes.outbox) }
    }

    /// Learns the tubes and their deadlines, at open.
    pub(crate) fn learn(&mut self, clock: &dyn Clock) -> Result<()> {
        let now = self.now(clock);
        for number in look::numbers(&self.store)? {
            let Some(tube) = look::sound_tube(&self.store, number)? else { continue };
            let next = due::next_due(&self.store, tube.run(), NextDue::UNKNOWN, now)?;
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
    pub(crate) fn heal_after(&mut self, error: &Error) {
        if error.kind() == ErrorKind::Io
            && let Err(error) = self.store.heal()
        {
            self.break_down(&error);
        }
    }

    /// Runs one op, behind whatever is due in its tube. It is synced once the mark is.
    #[inline]
    pub(crate) fn step<O: Op>(
        &mut self,
        op: &O,
        site: &Site<'_>,
    ) -> Result<(O::Done, Mark), Obstacle> {
        let now = self.begin(op.tube(), site)?;
        self.commit(op, now, site)
    }

    /// Reads the clock, and works off what is due in the tube by it.
    fn begin(&mut self, tube: Option<u32>, site: &Site<'_>) -> Result<Now, Obstacle> {
        self.is_open()?;
        let now = self.now(site.clock);
        if let Some(tube) = tube
            && self.is_due(tube, now)?
        {
            while self.commit(&WorkOff { tube }, now, site)?.0 {}
        }
        Ok(now)
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
        let next = due::next_due(&self.store, run, bound, now)?;
        self.notes.due.insert(run, (number, next));
        Ok(next.is_due(now))
    }

    /// Decides one op and writes what it decided.
    #[inline]
    fn commit<O: Op>(
        &mut self,
        op: &O,
        now: Now,
        site: &Site<'_>,
    ) -> Result<(O::Done, Mark), Obstacle> {
        self.admit(op.adds(), op.numbers(), now, site)?;
        let next = self.numbers.next;
        let written = self.decide(op, now, site).map_err(Obstacle::from).and_then(|done| {
            let mark = self.write(op.grows(), now, site)?;
            Ok((done, mark))
        });
        if written.is_err() {
            // Nobody has seen what it drew.
            self.numbers.next = next;
        }
        written
    }

    /// Whether there are numbers for an op, and room if it adds tasks.
    #[inline]
    fn admit(
        &mut self,
        adds: bool,
        numbers: Numbers,
        now: Now,
        site: &Site<'_>,
    ) -> Result<(), Obstacle> {
        if adds && self.store.is_full() && !self.refill(now) {
            return Err(Error::new(ErrorKind::DiskFull).into());
        }
        if !self.has_numbers(numbers, site) {
            return Err(Obstacle::NoNumbers(self.reserve(numbers)?));
        }
        Ok(())
    }

    /// Lets the engine decide; what it decided is the draft.
    #[inline]
    fn decide<O: Op>(&mut self, op: &O, now: Now, site: &Site<'_>) -> Result<O::Done> {
        let (mut wants, numbers) = (site.hub.wants(), self.numbers);
        loop {
            self.draft.clear();
            let (known, numbers_left) = (&self.notes.known, &mut self.numbers);
            let mut desk = Desk::new(&self.store, known, numbers_left, &mut self.draft, wants, now);
            match op.decide(&mut desk) {
                Err(error) if wants.is_some() && error.kind() == ErrorKind::Io => {
                    // Perhaps it read a payload that only readers of events want; they hold
                    // nothing up.
                    self.heal_after(&error);
                    (wants, self.numbers) = (None, numbers);
                }
                decided => return decided,
            }
        }
    }

    /// Writes the draft and takes note of it.
    fn write(&mut self, grows: bool, now: Now, site: &Site<'_>) -> Result<Mark, Obstacle> {
        if self.store.is_full()
            && grows
            && !self.store.bears(self.draft.writes())?
            && !self.refill(now)
        {
            return Err(Error::new(ErrorKind::DiskFull).into());
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
                return Err(self.failed(failure));
            }
        };
        let mark = if durable { Mark(number) } else { Mark(0) };
        self.notes.outbox.wrote = wrote.or(self.notes.outbox.wrote);
        self.notes.committed(learnt, &mut self.draft, mark, site.hub);
        self.armed = false;
        Ok(mark)
    }

    fn failed(&mut self, failure: Failure) -> Obstacle {
        match failure {
            Failure::NoRoom => Obstacle::NoRoom,
            Failure::TooLarge => Obstacle::TooLarge,
            Failure::Refused(error) => Obstacle::Refused(error),
            Failure::Broken(error) => {
                self.break_down(&error);
                Obstacle::Refused(error)
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
    fn has_numbers(&mut self, need: Numbers, site: &Site<'_>) -> bool {
        if self.reserved != self.numbers.end && site.is_synced(self.reserved_at) {
            self.numbers.end = self.reserved;
        }
        let left = self.numbers.left();
        if !left.covers(Numbers::both(NUMBER_BLOCK / 2)) && self.reserved == self.numbers.end {
            let ahead = self.numbers.next.plus(Numbers::both(2 * NUMBER_BLOCK));
            self.reserved = self.reserved.max(ahead);
            // The next record carries it; until one is written it waits for the one after this.
            self.reserved_at = Mark(self.store.written() + 1);
        }
        left.covers(need)
    }

    /// Makes sure of numbers for an op inside a transaction, where nothing can be written: its
    /// reservation must be on the disk before, so it is synced here. Of so many that the room that
    /// the journal keeps for one is needed once.
    pub(crate) fn draw(&mut self, need: Numbers, gate: &crate::live::gate::Gate) -> Result<()> {
        if self.numbers.left().covers(need) {
            return Ok(());
        }
        match self.reserve(need.plus(Numbers::both(TRANSACTION_NUMBERS))) {
            Ok(mark) => gate.wait(mark)?,
            Err(Obstacle::Refused(error)) => return Err(error),
            Err(_) => return Err(Error::new(ErrorKind::Full).because("the journal has no room")),
        }
        self.numbers.end = self.reserved;
        Ok(())
    }

    /// Writes the reservation by itself, for an op that needs it now.
    fn reserve(&mut self, need: Numbers) -> Result<Mark, Obstacle> {
        let end = self.numbers.next.plus(need).plus(Numbers::both(NUMBER_BLOCK));
        let reserved = self.reserved.max(end);
        let advance = Advance { reserved, ..self.advance(0) };
        let number = self.store.note(advance).map_err(|failure| self.failed(failure))?;
        // Not before: what no record carries would pass for reserved once the last mark is synced.
        (self.reserved, self.reserved_at) = (reserved, Mark(number));
        Ok(self.reserved_at)
    }

    /// Gives back what is not used, before the last checkpoint of a clean close. Who draws later
    /// reserves anew.
    pub(crate) fn settle(&mut self, clock: &dyn Clock) {
        self.now(clock);
        self.reserved = self.numbers.next;
        self.numbers.end = self.numbers.next;
        self.store.settle(self.reserved, self.reckoning.marks());
    }

    /// Says in the journal, once, that all of it is synced.
    pub(crate) fn idle(&mut self) {
        if self.is_open().is_ok()
            && let Err(Failure::Broken(error)) = self.store.idle()
        {
            self.break_down(&error);
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

#[cfg(test)]
mod tests;
