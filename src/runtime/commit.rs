//! The steps of an op: read the clock, do due work, decide, write, make visible. All of it happens
//! under the engine's lock, which no thread holds while it waits for a disk, a checkpoint or space.

mod need;
mod after_work;
mod following;
mod numbers;
mod tubes;

use after_work::AfterWork;
pub(crate) use need::{Need, Undone};
pub(crate) use tubes::Cut;

use crate::engine::context::{OpContext, Repaired, Reserve, sound};
use crate::engine::decision::{Decision, Over};
use crate::engine::due::{self, WorkOff};
use crate::engine::repair::Repair;
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::engine::{Op, WithoutPayloads, gates, query};
use crate::format::{Tag, View};
use crate::runtime::deadlines::Walk;
use crate::runtime::derived_state::DerivedState;
use crate::runtime::events::Hub;
use crate::runtime::group_commit::{GroupCommit, Mark};
use crate::store::{Burden, Health, Opened, Store};
use crate::words::clock::{Clock, Now, QueueClock};
use crate::words::error::{DamagedRow, Error, ErrorKind, Result};
use crate::words::limits::{SWEEP_TASKS, SWEEP_TASKS_FULL, SWEEPS_OF_TURN};
use crate::words::numbers::Numbers;
use crate::words::sync::Arc;
use crate::words::task::{State, TaskId};

/// What the engine's lock protects.
pub(crate) struct EngineState {
    pub(crate) store: Store,
    pub(crate) health: Arc<Health>,
    numbers: Reserve,
    /// Numbers below these are to be reserved by the next record with rows, or are reserved.
    reserved: Numbers,
    queue_clock: QueueClock,
    pub(crate) derived: DerivedState,
    /// The decision of the running op; between two ops, memory for the next.
    decision: Decision,
    /// Lease time before which no call looks for space again after a full disk.
    space_check_at: u64,
}

/// What belongs to all attempts of one call.
#[derive(Default)]
pub(crate) struct Attempts {
    /// When the caller first met due work.
    came: Option<Now>,
    /// How far the due tubes were looked through for those of a set, if they were not at once.
    walk: Option<Box<Walk>>,
    repaired: Repaired,
    /// What follows from the ends of tasks is left to other steps: in the step itself it failed.
    leaves_ends: bool,
}

impl Attempts {
    /// The row that a rule met damaged, unless it was repaired for this call. It is now.
    fn unrepaired(&mut self, error: &Error) -> Option<DamagedRow> {
        let row = error.row().filter(|row| !self.repaired.contains(row))?;
        self.repaired.push(row.clone());
        Some(row.clone())
    }
}

/// One attempt of a call, at one time.
pub(crate) struct Attempt<'a> {
    pub(crate) now: Now,
    pub(crate) call: &'a mut Attempts,
    pub(crate) env: CommitEnv<'a>,
    /// What a transaction has decided, in which this is a commit of its own.
    pub(crate) beside: Option<&'a Decision>,
}

impl EngineState {
    pub(crate) fn new(opened: Opened) -> Self {
        Self {
            health: opened.store.health.clone(),
            store: opened.store,
            numbers: Reserve { next: opened.first, end: opened.reserved },
            reserved: opened.reserved,
            queue_clock: opened.queue_clock,
            derived: DerivedState::default(),
            decision: Decision::default(),
            space_check_at: 0,
        }
    }

    /// The first id that has not been given to a task.
    pub(crate) fn next_id(&self) -> u64 {
        self.numbers.next.ids
    }

    /// The token of the next lease.
    pub(crate) fn next_token(&self) -> u64 {
        self.numbers.next.tokens
    }

    /// Whether this id may have been given to a task.
    pub(crate) fn was_given(&self, id: TaskId) -> bool {
        (1..self.next_id()).contains(&id.get())
    }

    #[inline]
    pub(crate) fn now(&mut self, clock: &dyn Clock) -> Now {
        self.queue_clock.read(clock)
    }

    /// After a failed read or write: reopens the base, which remembers the failure and would
    /// otherwise wait for a checkpoint that may never come.
    pub(crate) fn reopen_after(&mut self, error: &Error) {
        if error.kind() == ErrorKind::Io
            && let Err(error) = self.store.reopen_if_failed()
        {
            self.health.break_down(error.to_string(), false);
        }
    }

    /// Runs one op, after what is due in its tube. It is synced once the mark is.
    #[inline]
    pub(crate) fn execute<O: Op>(
        &mut self,
        op: &O,
        attempts: &mut Attempts,
        env: &CommitEnv<'_>,
    ) -> Result<(O::Done, Mark), Undone> {
        self.health.runs()?;
        let (now, env) = (self.now(env.clock), *env);
        let attempt = &mut Attempt { now, call: attempts, env, beside: None };
        if let Some(tube) = op.tube()
            && self.is_due(tube, O::SEES_DELAYS, attempt.now)?
            && let Some(done) = self.work_off(tube, op, attempt)?
        {
            return Ok(done);
        }
        if O::OVER_SET
            && let Some(set) = op.tube_set()
        {
            self.work_off_set(set, attempt)?;
        }
        self.commit(op, attempt)
    }

    /// Does the due work of a tube before an op, one sweep for each turn of the lock. While work is
    /// left that was due when the call began, other threads get the lock between the turns. Work
    /// that became due later is mostly little and is done in the last turn. If the call had to
    /// wait, it may be much: a turn has a bounded number of sweeps.
    ///
    /// The last sweep and the op are one record: a timer is promoted and taken at once. Then the
    /// answer of the op is returned; `None` if it is still to be done.
    #[cold]
    fn work_off<O: Op>(
        &mut self,
        tube: u32,
        op: &O,
        attempt: &mut Attempt<'_>,
    ) -> Result<Option<(O::Done, Mark)>, Undone> {
        let sees_delays = O::SEES_DELAYS;
        if self.store.is_full() {
            self.work_off_some(tube, sees_delays, attempt)?;
            return Ok(None);
        }
        let came = *attempt.call.came.get_or_insert(attempt.now);
        let (mut is_refused, mut sweeps) = (false, 0);
        loop {
            sweeps += 1;
            let work = WorkOff::of((&self.derived, &self.store), (tube, SWEEP_TASKS), sees_delays);
            let more = if is_refused {
                self.commit(&work, attempt)?.0
            } else {
                match self.commit(&AfterWork { work, op }, attempt) {
                    Ok((Some(done), mark)) => return Ok(Some((done, mark))),
                    Ok((None, _)) => true,
                    // The due work is done all the same.
                    Err(Undone::Refused(_)) => {
                        is_refused = true;
                        continue;
                    }
                    Err(undone) => return Err(undone),
                }
            };
            if !more {
                return Ok(None);
            }
            if sweeps >= SWEEPS_OF_TURN || self.is_due(tube, sees_delays, came)? {
                return Err(Undone::TryAfter(Need::Yield));
            }
        }
    }

    /// The same for the tubes of a set, in commits of their own, all together one sweep for each
    /// turn of the lock. A tube that is damaged stops none of the others; a repair mends it.
    #[cold]
    fn work_off_set(&mut self, set: u32, attempt: &mut Attempt<'_>) -> Result<(), Undone> {
        let came = *attempt.call.came.get_or_insert(attempt.now);
        if self.derived.look_at_clock(attempt.now) {
            return Err(Undone::TryAfter(Need::Yield));
        }
        let mut walk = attempt.call.walk.as_deref().copied().unwrap_or_default();
        let mut left = SWEEP_TASKS;
        let (due, cut) = self.due_of_set(set, attempt.now, SWEEP_TASKS, &mut walk)?;
        for tube in due.iter().copied() {
            if !self.is_due(tube, true, attempt.now)? {
                continue;
            }
            if self.store.is_full() {
                self.work_off_some(tube, true, attempt)?;
                left = left.saturating_sub(SWEEP_TASKS_FULL);
            } else {
                let work = WorkOff::of((&self.derived, &self.store), (tube, left), true);
                match self.commit(&work, attempt) {
                    // A sweep may also end by its bytes. A look at a tube counts too.
                    Ok((true, _)) => left = 0,
                    Ok((false, _)) => left = left.saturating_sub(work.used.get().max(1)),
                    Err(Undone::Refused(error)) if error.kind() == ErrorKind::Damaged => {}
                    Err(undone) => return Err(undone),
                }
            }
            if left == 0 {
                break;
            }
        }
        // On a full disk what is left may stay where it is.
        if left == 0 && !self.store.is_full() {
            let (more, cut) = self.due_of_set(set, came, 1, &mut walk)?;
            let mut is_left = cut == Cut::Looks;
            for tube in due.iter().chain(&more) {
                is_left = is_left || self.is_due(*tube, true, came)?;
            }
            if is_left {
                return Err(Undone::TryAfter(Need::Yield));
            }
        } else if cut != Cut::None {
            attempt.call.walk = Some(Box::new(walk));
            return Err(Undone::TryAfter(Need::Yield));
        }
        attempt.call.walk = None;
        Ok(())
    }

    /// On a full disk a few due tasks are moved, which need space until they are taken and settled.
    /// While other tasks are ready the due ones may stay where they are: a take makes space.
    #[cold]
    fn work_off_some(
        &mut self,
        tube: u32,
        sees_delays: bool,
        attempt: &mut Attempt<'_>,
    ) -> Result<(), Undone> {
        let some = self.sweep_tasks(tube);
        for most in [some, 1] {
            if some == 0 {
                break;
            }
            let work = WorkOff::of((&self.derived, &self.store), (tube, most), sees_delays);
            match self.commit(&work, attempt) {
                Ok(_) => break,
                Err(Undone::TryAfter(Need::JournalSpace)) if most > 1 || self.has_ready(tube) => {}
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

    /// Whether a take can free space. In a paused tube it cannot, and the end of the pause is due
    /// work too, as is what a gate lets through in time: without it no step would wake the takers.
    fn has_ready(&self, tube: u32) -> bool {
        let is_open = |tube: &&TubeEntry| {
            !gates::is_timed(tube)
                && gates::free((&self.store, &self.derived), tube, Now::FIRST)
                    .is_ok_and(|free| free > 0)
        };
        let tube = self.derived.known(tube).filter(is_open);
        let ready = |tube| query::count(&self.store, tube, State::Ready);
        tube.is_some_and(|tube| ready(tube) > self.store.count(tube.range(Tag::Line)))
    }

    /// Whether work may be due in the tube, for an op that sees delays or not. Reads no deadline:
    /// the sweep sets the tube's bound.
    #[inline]
    pub(crate) fn is_due(&self, tube: u32, sees_delays: bool, now: Now) -> Result<bool> {
        let Some((run, bound)) = self.derived.run_and_bound(tube) else { return Ok(false) };
        Ok(bound.is_due(sees_delays, now) || due::work(&self.store, run)?.is_some())
    }

    /// Admits, decides and writes one op. If it meets a damaged row that row is repaired instead,
    /// and the op is to be tried again.
    #[inline]
    pub(crate) fn commit<O: Op>(
        &mut self,
        op: &O,
        attempt: &mut Attempt<'_>,
    ) -> Result<(O::Done, Mark), Undone> {
        if op.adds() && self.store.is_full() {
            // A checkpoint finds out whether there is room again.
            return Err(match self.tries_for_room(attempt.now) {
                true => Undone::TryAfter(Need::JournalSpace),
                false => Undone::Refused(Error::new(ErrorKind::DiskFull)),
            });
        }
        if !self.has_numbers(op.numbers(), attempt.env.group_commit) {
            return Err(Undone::TryAfter(Need::Numbers(self.reserve(op.numbers())?)));
        }
        let next = self.numbers.next;
        let written = self.decide_and_append(op, attempt);
        if let Err(undone) = written {
            // No caller has seen what it drew.
            self.numbers.next = next;
            self.decision.effects.clear_rest();
            return Err(self.repair(undone, attempt));
        }
        written
    }

    /// Repairs the damaged row that ended an op. Answers what is left to do about the op.
    #[cold]
    fn repair(&mut self, undone: Undone, attempt: &mut Attempt<'_>) -> Undone {
        let Undone::Refused(error) = undone else { return undone };
        let Some(row) = attempt.call.unrepaired(&error) else { return Undone::Refused(error) };
        match self.commit(&Repair::Row(row.clone()), attempt) {
            Ok(_) => Undone::TryAfter(Need::Yield),
            // It stays as it is, and the op passes it by.
            Err(Undone::Refused(error)) if error.kind() == ErrorKind::Damaged => {
                Undone::TryAfter(Need::Yield)
            }
            Err(undone) => {
                attempt.call.repaired.retain(|repaired| *repaired != row);
                undone
            }
        }
    }

    /// Lets the engine decide, writes what it decided and updates the derived state.
    #[inline]
    fn decide_and_append<O: Op>(
        &mut self,
        op: &O,
        attempt: &mut Attempt<'_>,
    ) -> Result<(O::Done, Mark), Undone> {
        let (done, mut grows) = (self.decide(op, attempt)?, op.adds() || op.grows());
        if self.decision.needs.is_some() {
            let follows = O::FOLLOWS_ENDS && self.follow_at_once(attempt)?;
            let needs = self.decision.needs.unwrap_or_default();
            if let Some(write) = self.store.write_features(needs)? {
                return Err(Undone::TryAfter(Need::Feature(write)));
            }
            if follows {
                // If there is no room for it, the op is tried again without it.
                (grows, attempt.call.leaves_ends) = (true, true);
            }
        }
        let burden = match grows {
            true => Some(Burden::Adds),
            false => op.brings_back().then_some(Burden::Returns),
        };
        if attempt.beside.is_some_and(|other| other.overlaps(&self.decision)) {
            return Err(Undone::TryAfter(Need::Transaction));
        }
        let decision = &mut self.decision;
        if op.adds() && decision.rows.has_temporary && decision.rows.has_own_temporary() {
            let most = self.derived.live.temporary_bytes_max();
            self.store.admit_temporary(&decision.rows.layer, most)?;
        }
        let durable = decision.is_durable();
        let wrote = (durable && !decision.rows.is_empty()).then_some(attempt.now.lease);
        let advance = self.advance(self.decision.effects.durable_bytes);
        let armed = self.health.arm();
        let appended = self.store.append(&mut self.decision.rows, advance, burden).map(|number| {
            let mark = if durable { Mark(number) } else { Mark(0) };
            self.derived.outbox.wrote = wrote.or(self.derived.outbox.wrote);
            if !self.derived.gated.tubes.is_empty() || self.decision.effects.slots.is_some() {
                let effects = &mut self.decision.effects;
                self.derived.bound_wakes(&self.store, effects, attempt.now);
            }
            self.derived.committed(&mut self.decision, mark, attempt.env.hub);
            mark
        });
        armed.disarm();
        Ok((done, appended?))
    }

    /// On a full disk: whether it is time to look for space again, at most once a second.
    pub(crate) fn tries_for_room(&mut self, now: Now) -> bool {
        let is_time = now.lease >= self.space_check_at;
        if is_time {
            self.space_check_at = now.lease.saturating_add(1_000_000);
        }
        is_time
    }

    /// Lets the engine decide. `self.decision` holds what it decided.
    #[inline]
    fn decide<O: Op>(&mut self, op: &O, attempt: &Attempt<'_>) -> Result<O::Done> {
        let (mut wants, before) = (attempt.env.hub.wants(), self.numbers);
        let (repaired, now) = (&attempt.call.repaired, attempt.now);
        loop {
            self.decision.clear();
            let (view, known) = (&self.store, &self.derived);
            let (numbers, decision) = (&mut self.numbers, &mut self.decision);
            let mut ctx = OpContext { view, known, numbers, decision, wants, repaired, now };
            match op.decide(&mut ctx) {
                Err(error)
                    if wants.is_some_and(|wants| wants.want_payloads())
                        && error.kind() == ErrorKind::Io =>
                {
                    // It may have failed to read a payload that only event subscribers want. That
                    // must not stop the op.
                    self.reopen_after(&error);
                    wants = Some(&WithoutPayloads);
                    self.numbers = before;
                    self.decision.effects.clear_rest();
                }
                decided => return decided,
            }
        }
    }

    /// Admits and decides one op over rows that are not written yet, and adds what it decided to
    /// them. The op sees its tube as it was before them; of the tube's own row they change nothing
    /// except that a pause ends. Repairs of what it meets damaged are added before.
    pub(crate) fn execute_over<O: Op>(
        &mut self,
        op: &O,
        decision: &mut Decision,
        attempt: &mut Attempt<'_>,
    ) -> Result<O::Done> {
        loop {
            if op.adds() && self.store.is_full() {
                return Err(Error::new(ErrorKind::DiskFull));
            }
            self.draw(op.numbers(), attempt.env.group_commit)?;
            let mut part = decision.begin_part();
            let (view, known) = (&Over { view: &self.store, decision }, &self.derived);
            let numbers = &mut self.numbers;
            if decision.effects.slots.is_some() {
                // What this verb does with slots may concern an earlier one.
                part.effects.slot_steps();
            }
            let (wants, repaired) = (attempt.env.hub.wants(), &attempt.call.repaired);
            let now = attempt.now;
            let mut ctx =
                OpContext { view, known, numbers, decision: &mut part, wants, repaired, now };
            let decided = op.decide(&mut ctx);
            let Err(error) = decided else {
                // Also if the transaction is not committed then: a folder may do without.
                part.needs.map_or(Ok(()), |needs| self.store.enter(needs))?;
                let rows = &part.rows;
                decision.adds_temporary |=
                    op.adds() && rows.has_temporary && rows.has_own_temporary();
                decision.add_part(part);
                return decided;
            };
            decision.drop_part(part);
            let Some(row) = attempt.call.unrepaired(&error) else { return Err(error) };
            sound(self.execute_over(&Repair::Row(row), decision, attempt))?;
        }
    }

    /// Writes to the journal, once, that all of it is synced. Returns false if it is not synced
    /// yet.
    pub(crate) fn idle(&mut self) -> bool {
        // A failure breaks the queue, and every later call reports it.
        self.health.runs().is_err() || self.store.idle().unwrap_or(true)
    }
}

/// What a commit needs besides the engine's state.
#[derive(Clone, Copy)]
pub(crate) struct CommitEnv<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) hub: &'a Hub,
    pub(crate) group_commit: &'a GroupCommit,
}

#[cfg(test)]
mod tests;
