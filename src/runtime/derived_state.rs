//! State kept in memory beside the rows: the tubes with their counters and first deadlines, and
//! what is still to be published. It depends only on committed rows. No operation walks over all
//! tubes.

use crate::engine::decision::Decision;
use crate::engine::effects::{Border, EdgeWork, Effects, NextDue, TubeChange};
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::engine::tube_set::TubeSet;
use crate::format::NumberHash;
use crate::format::key::{Range, Run, Tag};
use crate::format::row::{KeptItems, TubeRow};
use crate::runtime::deadlines::{Deadlines, Walk};
use crate::runtime::events::Hub;
use crate::runtime::gated::Gated;
use crate::runtime::group_commit::Mark;
use crate::runtime::live::LiveSettings;
use crate::runtime::seats::Seats;
use crate::runtime::slot_lines::SlotLines;
use crate::runtime::tube_sets::TubeSets;
use crate::runtime::wake::Wake;
use crate::words::clock::{NEVER, Now};
use crate::words::gates::{Gates, NamedGate};
use crate::words::latencies::Latencies;
use crate::words::sync::{Arc, Ordering};
use crate::words::task::{Cause, State, TaskId, TaskInfo};
use smallvec::SmallVec;
use std::collections::HashMap;

mod days;
mod sets;
mod wakes;

/// Protected by the engine's lock. Always agrees with the rows.
#[derive(Default)]
pub(crate) struct DerivedState {
    tubes: HashMap<u32, TubeState, NumberHash>,
    deadlines: Deadlines,
    /// The tubes with gates. Usually none.
    pub(crate) gated: Gated,
    /// Those that wait for slots of throttles.
    pub(crate) slot_lines: SlotLines,
    /// Those who wait for tasks to take, and those who wait until there is one. Their locks are
    /// taken after the engine's.
    pub(crate) takers: Arc<Wake>,
    pub(crate) ready_waiters: Arc<Wake>,
    /// Dropped tubes of which schedules are left, with a lower bound of their fires.
    orphans: HashMap<u32, NextDue, NumberHash>,
    /// The settings of the queue that are in force.
    pub(crate) live: Arc<LiveSettings>,
    /// Tasks put since the queue was opened.
    pub(crate) tasks_put: u64,
    /// The tasks whose ends calls wait for.
    pub(crate) awaited: HashMap<TaskId, AwaitedTask>,
    /// Of those the ones that took a step, to be published like the outbox. Usually none.
    pub(crate) ends: Option<Box<Ends>>,
    /// Work on the ends of tasks that others come after, for the call that has begun it. Usually
    /// none.
    pub(crate) edges: Option<Box<EdgeWork>>,
    /// A tube was merged into another one since the opening.
    has_merged: bool,
    /// What was added last to a day of a tube, by its number, and is not in its latencies yet.
    day_items: KeptItems<(u32, u32)>,
    /// The sets of tubes that are taken from. Usually there are none.
    pub(crate) sets: Option<Box<TubeSets>>,
    pub(crate) seats: Arc<Seats>,
    /// Committed, and to be published after the lock is released.
    pub(crate) outbox: Notices,
    /// How often a tube was looked up, for tests.
    #[cfg(test)]
    pub(crate) visits: std::cell::Cell<u64>,
}

/// The state of one tube.
struct TubeState {
    tube: TubeEntry,
    name: Arc<str>,
    /// A lower bound of its first deadlines.
    next: NextDue,
    calls: TubeCounters,
    /// Its stalled tasks. At an opening there are none: every lease is void.
    stalled: u64,
    /// How long its tasks waited and ran, if it keeps days.
    latencies: Option<Box<Latencies>>,
}

/// A task whose end calls wait for.
#[derive(Default)]
pub(crate) struct AwaitedTask {
    /// How many calls.
    pub(crate) calls: usize,
    /// The task as it was before a retention removed it, if one has.
    pub(crate) retired: Option<Arc<TaskInfo>>,
}

/// How many tasks each cause has moved in a tube since the queue was opened.
pub(crate) type TubeCounters = [u64; CAUSES];

/// How many causes there are; the last one is `Close`.
const CAUSES: usize = Cause::Close as usize + 1;

/// What is published to waiters after the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// A tube may have more than one entry.
    pub(crate) tubes: SmallVec<[TubeWakeups; 1]>,
    /// Payload bytes were freed, so any tube may have room under the limit of all tubes together.
    pub(crate) freed: bool,
    /// There is an earlier deadline than any before, or work for a sweep.
    pub(crate) sooner: bool,
    /// Lease time of the last write, if anything was written for the disk.
    pub(crate) wrote: Option<u64>,
}

/// The changes of one tube that waiters wait for.
#[derive(Debug)]
pub(crate) struct TubeWakeups {
    pub(crate) tube: u32,
    /// How many tasks became takeable.
    pub(crate) ready: usize,
    /// How many tasks were removed.
    pub(crate) gone: usize,
}

/// Ends that calls wait for.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Tasks that took a step.
    pub(crate) tasks: Vec<TaskId>,
    /// Tasks may have gone with their tube.
    pub(crate) cleared: bool,
    /// The last tube of a list that calls wait on was dropped.
    pub(crate) list: bool,
}

impl Notices {
    fn add(&mut self, tube: u32, ready: usize, gone: usize) {
        match self.tubes.last_mut() {
            Some(last) if last.tube == tube => {
                last.ready = last.ready.saturating_add(ready);
                last.gone = last.gone.saturating_add(gone);
            }
            _ => self.tubes.push(TubeWakeups { tube, ready, gone }),
        }
    }
}

impl KnownTubes for DerivedState {
    #[inline]
    fn known(&self, number: u32) -> Option<&TubeEntry> {
        self.tubes.get(&number).map(|state| &state.tube)
    }

    #[inline]
    fn bound(&self, number: u32) -> Option<NextDue> {
        self.visit();
        self.tubes.get(&number).map(|state| state.next)
    }

    fn tube_set(&self, number: u32) -> Option<&TubeSet> {
        self.sets.as_ref()?.usable(number)
    }

    fn naming(&self, gate: NamedGate<'_>, from: u32, most: usize) -> Vec<u32> {
        self.gated.naming(gate, from, most)
    }

    fn has_closed_lines(&self, tube: u32) -> bool {
        self.gated.lines.has(tube)
    }

    fn opened(&self, tube: u32, most: usize) -> Vec<String> {
        self.gated.lines.opened(tube).take(most).cloned().collect()
    }

    fn may_open(&self, tube: u32) -> bool {
        self.gated.lines.opened(tube).next().is_some()
    }

    fn closed_throttles(&self, tube: u32) -> Vec<String> {
        self.gated.lines.throttles_of(tube)
    }

    fn lines_end(&self, tube: u32) -> u64 {
        self.gated.lines.end(tube)
    }

    fn keeps_slots(&self, tube: u32) -> bool {
        self.slot_lines.keeps(tube)
    }

    #[inline]
    fn is_told(&self, tube: u32) -> bool {
        let is_any = !self.gated.lines.is_empty() || !self.slot_lines.is_empty();
        is_any && (self.has_closed_lines(tube) || self.keeps_slots(tube))
    }

    fn awaits_slots(&self) -> bool {
        !self.slot_lines.is_empty()
    }

    fn follows_slots(&self) -> bool {
        self.awaits_slots() || !self.gated.lines.is_empty()
    }

    fn kept_for_others(&self, throttle: Run, tube: u32) -> u64 {
        self.slot_lines.kept_for_others(throttle, tube)
    }

    fn is_awaited(&self, task: TaskId) -> bool {
        self.awaited.contains_key(&task)
    }

    fn has_merged(&self) -> bool {
        self.has_merged
    }

    fn durable_bytes_max(&self) -> u64 {
        self.live.durable_bytes_max.load(Ordering::Relaxed)
    }
}

impl DerivedState {
    /// The counters of a tube.
    pub(crate) fn counted(&self, number: u32) -> TubeCounters {
        self.tubes.get(&number).map_or([0; CAUSES], |state| state.calls)
    }

    /// How many tasks of a tube are stalled.
    pub(crate) fn stalled(&self, number: u32) -> u64 {
        self.tubes.get(&number).map_or(0, |state| state.stalled)
    }

    /// The same of all tubes.
    pub(crate) fn all_stalled(&self) -> Vec<(u32, u64)> {
        self.tubes.iter().map(|(number, state)| (*number, state.stalled)).collect()
    }

    /// The numbers of all tubes.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.tubes.keys().copied().collect()
    }

    /// The run of a tube, and a lower bound of its deadlines.
    #[inline]
    pub(crate) fn run_and_bound(&self, number: u32) -> Option<(Run, &NextDue)> {
        self.visit();
        self.tubes.get(&number).map(|state| (state.tube.run(), &state.next))
    }

    /// Sets the bound of a tube. Returns whether the first deadline of all tubes is earlier now.
    pub(crate) fn set_bound(&mut self, number: u32, next: NextDue) -> bool {
        self.visit();
        let Some(state) = self.tubes.get_mut(&number).filter(|state| state.next != next) else {
            return !self.orphans.is_empty() && self.set_orphan(number, next);
        };
        let first = self.deadlines.first();
        self.deadlines.move_tube(number, std::mem::replace(&mut state.next, next), next);
        first.earlier(next) != first
    }

    /// Sets the bound of the fires of a dropped tube. Returns as [`set_bound`](Self::set_bound).
    #[cold]
    pub(crate) fn set_orphan(&mut self, number: u32, next: NextDue) -> bool {
        if self.tubes.contains_key(&number) {
            return false;
        }
        let next = NextDue { ttl: NEVER, ttr: NEVER, ..next };
        let first = self.deadlines.first();
        let old = match next {
            NextDue::NONE => self.orphans.remove(&number),
            next => self.orphans.insert(number, next),
        };
        self.deadlines.move_tube(number, old.unwrap_or(NextDue::NONE), next);
        first.earlier(next) != first
    }

    /// Whether the tube of this number was dropped and schedules are left of it.
    pub(crate) fn is_orphan(&self, number: u32) -> bool {
        self.orphans.contains_key(&number)
    }

    /// The first deadlines of all tubes.
    pub(crate) fn first_due(&self) -> NextDue {
        self.deadlines.first()
    }

    /// The next tube in which work may be due.
    pub(crate) fn next_due(&self, now: Now, walk: &mut Walk) -> Option<u32> {
        self.deadlines.next_due(now, walk)
    }

    /// Sets the tube's row. Deadlines belong to its run, and so does the border of its fresh tasks:
    /// a new run has none. That of a run which had tasks before is searched.
    fn set_tube(&mut self, number: u32, row: TubeRow, is_adopted: bool) {
        let at = Range::in_run(Tag::Fresh, row.run).start();
        let border = Border { at, unsure_to: 0 };
        self.load_tube(number, row, (!is_adopted).then_some(border));
    }

    /// Sets the tube's row, and the border of its fresh tasks if its run is new here.
    pub(crate) fn load_tube(&mut self, number: u32, row: TubeRow, border: Option<Border>) {
        self.visit();
        self.settle_day_items();
        self.has_merged |= row.merges_into().is_some();
        if row.options.gates.is_some() || !self.gated.tubes.is_empty() {
            self.set_gates(number, row.options.gates.as_deref());
        }
        if let Some(state) = self.tubes.get_mut(&number) {
            let same_run = state.tube.run() == row.run;
            if !same_run || state.tube.row.options.keep_days != row.options.keep_days {
                // Its rows may be removed now.
                state.tube.day = None;
            }
            if row.options.keep_days == 0 {
                state.latencies = None;
            }
            state.tube.row = row;
            if !same_run {
                self.gated.lines.forget(number);
                (state.tube.border, state.stalled) = (border, 0);
                self.set_bound(number, NextDue::NONE);
            }
            return;
        }
        let fires = self.orphans.get(&number).copied().unwrap_or(NextDue::NONE);
        if fires != NextDue::NONE {
            // A repair has made it again.
            self.set_orphan(number, NextDue::NONE);
        }
        let name: Arc<str> = row.name.as_str().into();
        if let Some(sets) = &mut self.sets {
            sets.join(number, &name);
        }
        let tube = TubeEntry { number, row, border, day: None };
        let (next, calls, stalled, latencies) = (NextDue::NONE, [0; CAUSES], 0, None);
        let state = TubeState { tube, name, next, calls, stalled, latencies };
        self.tubes.insert(number, state);
        self.set_bound(number, fires);
    }

    /// After the wall clock was set back, the hours of tubes are looked at again, of some at a
    /// time. Returns whether there are more.
    pub(crate) fn look_at_clock(&mut self, now: Now) -> bool {
        for number in self.gated.set_back(now) {
            if let Some(bound) = self.bound(number) {
                self.set_bound(number, NextDue { run_at: 0, ..bound });
            }
        }
        self.gated.is_looking()
    }

    /// Sets the gates of a tube. Its state has those that it had before.
    #[cold]
    fn set_gates(&mut self, number: u32, gates: Option<&Gates>) {
        let before = self.known(number).and_then(|tube| tube.row.options.gates.clone());
        if before.as_deref() != gates {
            // Takes of the tube may need a slot of another throttle now.
            self.give_up_slots(number);
        }
        self.gated.set(number, before.as_deref(), gates);
        if self.gated.tubes.is_empty() && self.gated.lines.is_empty() {
            self.slot_lines = SlotLines::default();
        }
    }

    /// The takers of a tube need the slots that are kept for them no more. Others may have them.
    fn give_up_slots(&mut self, number: u32) {
        if !self.slot_lines.is_empty() {
            self.slot_lines.give_up(number);
            self.outbox.sooner = true;
        }
    }

    /// Puts the rows of tubes into the state, takes those out that are gone, and counts stalls.
    #[cold]
    fn change_tubes(&mut self, effects: &mut Effects) {
        for change in effects.tubes.drain(..) {
            let TubeChange { number, row, setting, stalled, is_adopted, schedule, .. } = change;
            if schedule.is_some() {
                continue;
            }
            if stalled != 0 {
                if let Some(state) = self.tubes.get_mut(&number) {
                    state.stalled = state.stalled.saturating_add_signed(stalled);
                }
                continue;
            }
            match (row, setting) {
                (Some(row), _) => self.set_tube(number, *row, is_adopted),
                (None, Some(setting)) => self.live.change(&setting.name, setting.value.as_ref()),
                (None, None) => {
                    self.set_bound(number, NextDue::NONE);
                    // One without gates may have tasks with gates of their own.
                    self.give_up_slots(number);
                    self.set_gates(number, None);
                    self.gated.lines.forget(number);
                    self.tubes.remove(&number);
                    if self.sets.as_mut().is_some_and(|sets| sets.leave(number)) {
                        self.ends.get_or_insert_default().list = true;
                    }
                }
            }
        }
    }

    /// Updates the state after a commit: counts, events, tubes, deadlines, and waiters to wake.
    pub(crate) fn committed(&mut self, decision: &mut Decision, mark: Mark, hub: &Hub) {
        let effects = &mut decision.effects;
        self.outbox.freed |= effects.durable_bytes < 0;
        for change in &effects.changes {
            let tube = self.tubes.get_mut(&change.tube);
            if let Some(calls) = tube.and_then(|tube| tube.calls.get_mut(change.cause as usize)) {
                *calls += 1;
            }
            self.tasks_put += u64::from(change.cause == Cause::Put);
            // What is finished takes no room of its tube.
            if matches!(change.to, None | Some(State::Done)) {
                self.outbox.add(change.tube, 0, 1);
            }
        }
        for (tube, tasks) in &effects.wakes {
            self.outbox.add(*tube, *tasks, 0);
        }
        if let Some(sets) = &mut self.sets {
            sets.follow(effects);
        }
        let tubes = &self.tubes;
        let name = |tube: u32| tubes.get(&tube).map_or_else(|| "".into(), |tube| tube.name.clone());
        hub.send(name, effects, mark);
        effects.drop_notes();
        for (number, border) in effects.borders.drain(..) {
            if let Some(state) = self.tubes.get_mut(&number) {
                state.tube.border = Some(border);
            }
        }
        if !decision.rows.days.is_empty() {
            self.count_days(&decision.rows.days);
        }
        if let Some((tube, next)) = effects.worked_off {
            self.set_bound(tube, next);
        }
        if !self.awaited.is_empty() {
            self.publish_ends(effects);
        }
        if !effects.tubes.is_empty() {
            self.change_tubes(effects);
        }
        if effects.work {
            self.begin_work(effects);
        }
        for (tube, next) in &effects.deadlines {
            let Some(bound) = self.bound(*tube) else {
                let bound = self.orphans.get(tube).copied().unwrap_or(NextDue::NONE);
                self.outbox.sooner |= self.set_orphan(*tube, bound.earlier(*next));
                continue;
            };
            self.outbox.sooner |= self.set_bound(*tube, bound.earlier(*next));
        }
    }

    #[cold]
    fn begin_work(&mut self, effects: &mut Effects) {
        self.outbox.sooner |= effects.timer_work;
        EdgeWork::append(&mut self.edges, effects.edges.take());
    }

    /// The work on edges that the caller does not handle is the timer's.
    #[cold]
    pub(crate) fn leave_edges(&mut self) {
        (self.edges, self.outbox.sooner) = (None, true);
    }

    /// Notes the steps of the tasks whose ends calls wait for, and keeps those that are removed as
    /// long as the calls wait.
    #[cold]
    fn publish_ends(&mut self, effects: &mut Effects) {
        for retired in effects.retired.drain(..) {
            if let Some(awaited) = self.awaited.get_mut(&retired.id) {
                awaited.retired = Some(Arc::new(retired));
            }
        }
        let ends = self.ends.get_or_insert_default();
        let tasks = effects.changes.iter().map(|change| change.task);
        ends.tasks.extend(tasks.filter(|task| self.awaited.contains_key(task)));
        // Not by a step of a tube's rate, which is one with each take.
        ends.cleared |= effects.tubes.iter().any(|change| {
            let run = change.row.as_ref().map(|row| row.run);
            let is_same = run == self.tubes.get(&change.number).map(|state| state.tube.run());
            change.stalled == 0 && change.schedule.is_none() && !is_same
        });
    }

    #[inline]
    fn visit(&self) {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ManualClock, Queue};
    use std::time::Duration;

    /// The counters of a dropped tube stayed: 200 000 tubes made and dropped left 60 MiB.
    #[test]
    fn a_dropped_tube_leaves_nothing_in_memory() {
        let queue = Queue::builder().clock(ManualClock::new()).by_hand(true).in_memory().unwrap();
        let kept = queue.tube("kept").unwrap();
        for number in 0..1000 {
            let tube = queue.tube(&number.to_string()).unwrap();
            tube.task(b"x").delay(Duration::from_secs(1)).put().unwrap();
            queue.force_drop_tube(&number.to_string()).unwrap();
        }
        queue.tick().unwrap();
        let core = &kept.inner.core;
        assert_eq!(core.state.lock().derived.tubes.len(), 1);
        assert_eq!(core.state.lock().derived.first_due(), NextDue::NONE);
        assert_eq!(queue.space().unwrap().tasks_put, 1000);
    }
}
