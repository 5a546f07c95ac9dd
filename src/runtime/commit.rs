//! The one way of an op: read the clock, work off what is due, decide, write, make visible. All of
//! it under the engine's lock, which nobody holds while waiting for a disk, a checkpoint or room.

use crate::engine::context::{OpContext, Reserve};
use crate::engine::decision::{Decision, Over};
use crate::engine::due::{self, WorkOff};
use crate::engine::effects::NextDue;
use crate::engine::{Op, query};
use crate::format::{Range, Tag, View};
use crate::runtime::backpressure::Backpressure;
use crate::runtime::derived_state::{DerivedState, Notices};
use crate::runtime::events::Hub;
use crate::runtime::group_commit::Mark;
use crate::store::{Failure, Health, MetaDelta, Opened, Store};
use crate::words::clock::{Clock, Now, QueueClock, micros};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{NUMBER_BLOCK, SWEEP_TASKS, SWEEP_TASKS_FULL, TRANSACTION_NUMBERS};
use crate::words::numbers::Numbers;
use crate::words::sync::Arc;

/// What the engine's lock protects.
pub(crate) struct EngineState {
    pub(crate) store: Store,
    pub(crate) health: Arc<Health>,
    numbers: Reserve,
    /// Numbers below these are reserved as soon as the record of this mark is synced.
    reserved: Numbers,
    reserved_at: Mark,
    reckoning: QueueClock,
    pub(crate) derived: DerivedState,
    /// What the op at work decides; between two ops, memory for the next.
    draft: Decision,
    /// Lease time before which a full disk is not tried again.
    refill_at: u64,
    pub(crate) backpressure: Backpressure,
}

/// What an op needs before it is tried again. Nothing of it has happened.
pub(crate) enum Retry {
    /// The journal has no room: checkpoint.
    JournalSpace,
    /// The reserved numbers are used up: sync up to this mark.
    Numbers(Mark),
    /// A checkpoint met a full disk, and the base cannot be read until it is open again.
    Mending,
    /// More is due in the tube than one turn works off: others get the lock first.
    Yield,
}

/// Why an op was not done. Nothing of it is visible.
pub(crate) enum Undone {
    Retry(Retry),
    /// Its record is too large for the journal: it goes through a commit of the base.
    TooLarge,
    Refused(Error),
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl EngineState {
    pub(crate) fn new(opened: Opened, backpressure: Backpressure) -> Self {
        Self {
            health: opened.store.health.clone(),
            store: opened.store,
            numbers: Reserve { next: opened.first, end: opened.reserved },
            reserved: opened.reserved,
            reserved_at: Mark(0),
            reckoning: opened.reckoning,
            derived: DerivedState::default(),
            draft: Decision::default(),
            refill_at: 0,
            backpressure,
        }
    }

    /// What is to be told. Whoever releases the lock after a commit takes it and tells it, also
    /// when the op behind the commit was refused.
    pub(crate) fn take_outbox(&mut self) -> Notices {
        let relief = self.store.has_relief();
        Notices { relief, ..std::mem::take(&mut self.derived.outbox) }
    }

    /// Learns the tubes and their deadlines, at open.
    pub(crate) fn learn(&mut self, clock: &dyn Clock) -> Result<()> {
        let now = self.now(clock);
        for number in query::numbers(&self.store)? {
            let Some(tube) = query::sound_tube(&self.store, number)? else { continue };
            let next = due::next_due(&self.store, tube.run(), NextDue::UNKNOWN, now)?;
            self.derived.set_tube(number, tube.row);
            self.derived.set_bound(number, next);
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn now(&mut self, clock: &dyn Clock) -> Now {
        self.reckoning.read(clock)
    }

    /// What travels with the next record, whose rows move so many payload bytes.
    #[inline]
    pub(crate) fn advance(&self, durable_bytes: i64) -> MetaDelta {
        MetaDelta { marks: self.reckoning.marks(), reserved: self.reserved, durable_bytes }
    }

    /// What has been written so far, and so seen.
    pub(crate) fn written(&self) -> Mark {
        Mark(self.store.written())
    }

    /// After a read or write that failed: the base remembers it until it is opened anew, which else
    /// waits for a checkpoint that may never come.
    pub(crate) fn heal_after(&mut self, error: &Error) {
        if error.kind() == ErrorKind::Io
            && let Err(error) = self.store.heal()
        {
            self.health.break_down(error.to_string(), false);
        }
    }

    /// Runs one op, after what is due in its tube. It is synced once the mark is. `came` is when
    /// the caller first met due work; it starts empty and belongs to all attempts of one call.
    #[inline]
    pub(crate) fn execute<O: Op>(
        &mut self,
        op: &O,
        came: &mut Option<Now>,
        env: &CommitEnv<'_>,
    ) -> Result<(O::Done, Mark), Undone> {
        self.health.runs()?;
        let now = self.now(env.clock);
        if let Some(tube) = op.tube()
            && self.is_due(tube, now)?
        {
            self.work_off(tube, now, came, env)?;
        }
        self.commit(op, now, env)
    }

    /// Works off what is due in the tube.
    pub(crate) fn run_due_work(
        &mut self,
        tube: u32,
        came: &mut Option<Now>,
        env: &CommitEnv<'_>,
    ) -> Result<(), Undone> {
        self.health.runs()?;
        let now = self.now(env.clock);
        if self.is_due(tube, now)? { self.work_off(tube, now, came, env) } else { Ok(()) }
    }

    /// One sweep's worth a turn. While there is more that was due when the caller came, others get
    /// the lock between the turns. What fell due since is little, and goes in the last turn.
    #[cold]
    fn work_off(
        &mut self,
        tube: u32,
        now: Now,
        came: &mut Option<Now>,
        env: &CommitEnv<'_>,
    ) -> Result<(), Undone> {
        if self.store.is_full() {
            return self.work_off_some(tube, now, env);
        }
        let came = *came.get_or_insert(now);
        while self.commit(&WorkOff { tube, most: SWEEP_TASKS }, now, env)?.0 {
            if self.is_due(tube, came)? {
                return Err(Undone::Retry(Retry::Yield));
            }
        }
        Ok(())
    }

    /// On a full disk a few tasks are moved, which need room until they are taken and settled. As
    /// long as others are ready they may stay where they are: what is taken makes room.
    #[cold]
    fn work_off_some(&mut self, tube: u32, now: Now, env: &CommitEnv<'_>) -> Result<(), Undone> {
        let some = self.sweep_tasks(tube);
        for most in [some, 1] {
            if some == 0 {
                break;
            }
            match self.commit(&WorkOff { tube, most }, now, env) {
                Ok(_) => break,
                Err(Undone::Retry(Retry::JournalSpace)) if most > 1 || self.has_ready(tube) => {}
                Err(Undone::Refused(error)) if error.kind() == ErrorKind::DiskFull => {}
                Err(undone) => return Err(undone),
            }
        }
        Ok(())
    }

    /// How many deadlines one commit works off in the tube.
    pub(crate) fn sweep_tasks(&self, tube: u32) -> usize {
        match self.store.is_full() {
            false => SWEEP_TASKS,
            true if self.store.promotes() || !self.has_ready(tube) => SWEEP_TASKS_FULL,
            true => 0,
        }
    }

    fn has_ready(&self, tube: u32) -> bool {
        let tube = self.derived.bound(tube).map(|(tube, _)| tube);
        tube.is_some_and(|tube| self.store.count(Range::in_run(Tag::Ready, tube.run())) > 0)
    }

    /// Whether something is due in the tube. Looks only if the kept bound has passed.
    pub(crate) fn is_due(&mut self, number: u32, now: Now) -> Result<bool> {
        let Some((tube, bound)) = self.derived.bound(number) else { return Ok(false) };
        let run = tube.run();
        if due::has_work(&self.store, run)? {
            return Ok(true);
        }
        if !bound.is_due(now) {
            return Ok(false);
        }
        let next = due::next_due(&self.store, run, bound, now)?;
        self.derived.set_bound(number, next);
        Ok(next.is_due(now))
    }

    /// Admits, decides and writes one op.
    #[inline]
    pub(crate) fn commit<O: Op>(
        &mut self,
        op: &O,
        now: Now,
        env: &CommitEnv<'_>,
    ) -> Result<(O::Done, Mark), Undone> {
        if op.adds() && self.store.is_full() {
            // A checkpoint finds out whether there is room again.
            return Err(match self.tries_for_room(now) {
                true => Undone::Retry(Retry::JournalSpace),
                false => Undone::Refused(Error::new(ErrorKind::DiskFull)),
            });
        }
        if !self.has_numbers(op.numbers(), env) {
            return Err(Undone::Retry(Retry::Numbers(self.reserve(op.numbers())?)));
        }
        let next = self.numbers.next;
        let written = self.decide_and_append(op, now, env);
        if written.is_err() {
            // Nobody has seen what it drew.
            self.numbers.next = next;
        }
        written
    }

    #[inline]
    fn decide_and_append<O: Op>(
        &mut self,
        op: &O,
        now: Now,
        env: &CommitEnv<'_>,
    ) -> Result<(O::Done, Mark), Undone> {
        let done = self.decide(op, now, env)?;
        if op.adds() && self.draft.is_temporary() {
            self.store.admit_temporary(self.draft.writes())?;
        }
        let mark = self.append(op.adds() || op.grows(), now, env)?;
        Ok((done, mark))
    }

    /// On a full disk: whether it is time to look for room again, at most once a second.
    pub(crate) fn tries_for_room(&mut self, now: Now) -> bool {
        let is_time = now.lease >= self.refill_at;
        if is_time {
            self.refill_at = now.lease.saturating_add(1_000_000);
        }
        is_time
    }

    /// Lets the engine decide; what it decided is the draft.
    #[inline]
    fn decide<O: Op>(&mut self, op: &O, now: Now, env: &CommitEnv<'_>) -> Result<O::Done> {
        let (mut wants, numbers) = (env.hub.wants(), self.numbers);
        loop {
            self.draft.clear();
            let (known, numbers_left) = (&self.derived, &mut self.numbers);
            let mut ctx =
                OpContext::new(&self.store, known, numbers_left, &mut self.draft, wants, now);
            match op.decide(&mut ctx) {
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
    fn append(&mut self, adds: bool, now: Now, env: &CommitEnv<'_>) -> Result<Mark, Undone> {
        let advance = self.advance(self.draft.effects.durable_bytes);
        let durable = self.draft.is_durable();
        let wrote = (durable && !self.draft.is_empty()).then_some(now.lease);
        let armed = self.health.arm();
        let number = match self.store.append(self.draft.writes(), advance, adds) {
            Ok(number) => number,
            Err(failure) => {
                armed.disarm();
                return Err(Self::failed(failure));
            }
        };
        let mark = if durable { Mark(number) } else { Mark(0) };
        self.derived.outbox.wrote = wrote.or(self.derived.outbox.wrote);
        self.derived.committed(&mut self.draft, mark, env.hub);
        armed.disarm();
        Ok(mark)
    }

    fn failed(failure: Failure) -> Undone {
        match failure {
            Failure::NoRoom => Undone::Retry(Retry::JournalSpace),
            Failure::TooLarge => Undone::TooLarge,
            Failure::Refused(error) | Failure::Broken(error) => Undone::Refused(error),
        }
    }

    /// Microseconds that the caller who has just written pauses.
    #[inline]
    pub(crate) fn pause(&mut self, clock: &dyn Clock) -> u64 {
        let (used, size) = self.store.ring();
        self.backpressure.rest(used, size, self.store.is_moving(), || micros(clock.monotonic()))
    }

    /// Admits and decides one op over rows that are not written yet, and adds what it decided to
    /// them. Its tube is none that they make or change.
    pub(crate) fn execute_over<O: Op>(
        &mut self,
        op: &O,
        now: Now,
        draft: &mut Decision,
        env: &CommitEnv<'_>,
    ) -> Result<O::Done> {
        if op.adds() && self.store.is_full() {
            return Err(Error::new(ErrorKind::DiskFull));
        }
        self.draw(op.numbers(), env.gate)?;
        let view = Over { view: &self.store, draft };
        let (numbers, mut later) = (&mut self.numbers, Decision::default());
        let wants = env.hub.wants();
        let mut ctx = OpContext::new(&view, &self.derived, numbers, &mut later, wants, now);
        let done = op.decide(&mut ctx)?;
        draft.adds_temporary |= op.adds() && later.is_temporary();
        draft.merge(later);
        Ok(done)
    }

    /// Whether the op's numbers are there. Reserves the next block well ahead, so that it is
    /// synced by the time it is needed.
    #[inline]
    fn has_numbers(&mut self, need: Numbers, env: &CommitEnv<'_>) -> bool {
        if self.reserved != self.numbers.end && env.is_synced(self.reserved_at) {
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
    pub(crate) fn draw(
        &mut self,
        need: Numbers,
        gate: &crate::runtime::group_commit::GroupCommit,
    ) -> Result<()> {
        if self.numbers.left().covers(need) {
            return Ok(());
        }
        match self.reserve(need.plus(Numbers::both(TRANSACTION_NUMBERS))) {
            Ok(mark) => gate.wait(mark)?,
            Err(Undone::Refused(error)) => return Err(error),
            Err(_) => return Err(Error::new(ErrorKind::Full).because("the journal has no room")),
        }
        self.numbers.end = self.reserved;
        Ok(())
    }

    /// Writes the reservation by itself, for an op that needs it now.
    fn reserve(&mut self, need: Numbers) -> Result<Mark, Undone> {
        let end = self.numbers.next.plus(need).plus(Numbers::both(NUMBER_BLOCK));
        let reserved = self.reserved.max(end);
        let advance = MetaDelta { reserved, ..self.advance(0) };
        let number = self.store.note(advance).map_err(Self::failed)?;
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

    /// Writes to the journal, once, that all of it is synced. False if it is not yet.
    pub(crate) fn idle(&mut self) -> bool {
        // A failure breaks the queue, and every later call reports it.
        self.health.runs().is_err() || self.store.idle().unwrap_or(true)
    }
}

/// What a commit needs from around it.
pub(crate) struct CommitEnv<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) hub: &'a Hub,
    pub(crate) gate: &'a crate::runtime::group_commit::GroupCommit,
}

impl CommitEnv<'_> {
    fn is_synced(&self, mark: Mark) -> bool {
        self.gate.is_synced(mark)
    }
}

#[cfg(test)]
mod tests;
