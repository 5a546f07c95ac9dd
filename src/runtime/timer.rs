//! Runs work on time: sleeps until the first deadline and does the work that is due. Correctness
//! does not depend on it, because every verb does first the due work that it depends on.

use crate::engine::Op;
use crate::engine::cascade::FollowEnds;
use crate::engine::due::WorkOff;
use crate::engine::effects::NextDue;
use crate::engine::merge::{EndMerge, MergePlace, MergeSome, MergedSome};
use crate::engine::set_back::SetBack;
use crate::engine::slots::OfferSlots;
use crate::engine::sweep::{FollowOptions, Sweep};
use crate::format::key::{self, Key, Work};
use crate::format::{Range, Tag, View};
use crate::runtime::checkpointer::{checkpoint, look_for_room_if_free};
use crate::runtime::deadlines::Walk;
use crate::runtime::group_commit::Mark;
use crate::runtime::pipeline::submit;
use crate::runtime::sessions::{leave_again, return_leases, return_nameless};
use crate::runtime::shared::Shared;
use crate::words::clock::{NEVER, micros};
use crate::words::cron;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{AGAIN, QUIET_BEFORE_CHECKPOINT, TIMER_LATE_MAX, TIMER_NAP_MAX};
use std::time::Duration;

/// The timer's thread.
pub(crate) fn keep_time(parts: &Shared) {
    loop {
        let (until, nap) = match work_off_all(parts) {
            Ok(next) => next_look(parts, next),
            // A verb meets the same failure and reports it. A disk error may end; a broken queue
            // stays broken.
            Err(_) if parts.health.serves().is_err() => (NEVER, None),
            Err(_) => {
                (parts.lease_now().saturating_add(micros(AGAIN)), parts.settings.clock.nap(AGAIN))
            }
        };
        let is_soon = nap.is_some_and(|nap| nap < TIMER_LATE_MAX);
        let is_late = is_soon && parts.timer.may_be_late(|| parts.does_a_call_wait());
        if !parts.sleep(&parts.timer, until, if is_late { Some(TIMER_LATE_MAX) } else { nap }) {
            return;
        }
    }
}

/// Lease time of the first of these deadlines, and how long the timer may sleep; `None` until it
/// is woken.
pub(crate) fn next_look(parts: &Shared, next: NextDue) -> (u64, Option<Duration>) {
    let (now, is_full, waits) = {
        let mut state = parts.state.lock();
        let now = state.now(&*parts.settings.clock);
        (now, state.store.is_full(), waits_for_room(&state.store))
    };
    let left = |when: u64, now: u64| (when != NEVER).then(|| when.saturating_sub(now));
    // What was to return at once has just been tried: it waits for a repair, or for the disk.
    let graces = match parts.grace_timers.next() {
        0 => now.lease.saturating_add(micros(AGAIN)).min(parts.grace_timers.next_after(now.lease)),
        next => next,
    };
    let lease = next.ttr.min(graces).min(next_quiet(parts));
    let lease = if waits { lease.min(now.lease) } else { lease };
    let by_lease = left(lease, now.lease);
    let jumpy = [left(next.delay.min(next.ttl), now.queue), left(next.run_at, now.wall)];
    let jumpy = jumpy.into_iter().flatten().min();
    let first = |jumpy: Option<u64>| {
        let left = by_lease.into_iter().chain(jumpy).min()?;
        // What is due there may have to wait for room.
        Some(if is_full { left.max(micros(AGAIN)) } else { left })
    };
    let until = first(jumpy).map_or(NEVER, |left| now.lease.saturating_add(left));
    // A jump of these clocks gives no signal, so they are read again after some time.
    let nap = first(jumpy.map(|left| left.min(micros(TIMER_NAP_MAX))));
    (until, nap.and_then(|left| parts.settings.clock.nap(Duration::from_micros(left))))
}

/// Does all work that is due now, and all sweeps. Returns the first deadlines that follow.
pub(crate) fn work_off_all(parts: &Shared) -> Result<NextDue> {
    while look_at_clock(parts)? {
        parts.state.pass_on();
    }
    while offer_slots(parts)? {
        parts.state.pass_on();
    }
    let mut damage = None;
    loop {
        let Round { is_more, failed } = work_off_round(parts)?;
        match failed {
            // A repair mends it. Until then the others have their work done.
            Some(error) if is_damage(&error) => damage = Some(error),
            Some(error) => return Err(error),
            None => {}
        }
        if !is_more {
            break;
        }
    }
    checkpoint_if_quiet(parts)?;
    damage.map_or(Ok(()), Err)?;
    Ok(parts.state.lock().derived.first_due())
}

/// What a round of steps has left.
struct Round {
    /// Whether there may be more to do.
    is_more: bool,
    /// Why a step failed. It does not stop the others.
    failed: Option<Error>,
}

fn is_damage(error: &Error) -> bool {
    error.kind() == ErrorKind::Damaged
}

/// Offers some of the slots that a step has left to be offered. Returns whether there were any.
fn offer_slots(parts: &Shared) -> Result<bool> {
    let is_any = !parts.running()?.derived.slot_lines.unsettled.is_empty();
    Ok(is_any && submit_own(parts, &OfferSlots { kept_for: None })?.is_some())
}

/// Looks whether the wall clock was set back, and at some of the tubes with hours if it was.
/// Returns whether there are more.
fn look_at_clock(parts: &Shared) -> Result<bool> {
    let mut state = parts.running()?;
    let now = state.now(&*parts.settings.clock);
    Ok(state.derived.look_at_clock(now))
}

/// One step of the sweeps, one of each consumer whose grace is over, and one of each tube in which
/// work is due, so that none waits for all the work of another.
fn work_off_round(parts: &Shared) -> Result<Round> {
    let (mut round, mut walk) = (Round { is_more: false, failed: None }, Walk::default());
    let mut note = |stepped: Result<bool>| match stepped {
        Ok(left) => round.is_more |= left,
        // Damage waits for a repair; any other failure ends the work for now.
        Err(error) if round.failed.as_ref().is_none_or(is_damage) => round.failed = Some(error),
        Err(_) => {}
    };
    parts.state.pass_on();
    note(submit_own(parts, &Sweep).map(|left| left == Some(true)));
    parts.state.pass_on();
    note(submit_own(parts, &FollowOptions { tube: None }).map(|left| left == Some(true)));
    parts.state.pass_on();
    note(merge_some(parts));
    if parts.grace_timers.next() <= parts.lease_now() && parts.state.lock().store.is_full() {
        // What is to return adds no task, so no step of it finds out that there is room again.
        look_for_room_if_free(parts)?;
    }
    // Before the due work, as in a verb: both may concern the same lease.
    for grace in parts.grace_timers.expired(parts.lease_now()) {
        parts.state.pass_on();
        note(return_leases(parts, grace, None).map(|next| next.is_some()));
    }
    note(leave_again(parts).map(|()| false));
    for (leases, is_charged) in parts.grace_timers.nameless() {
        note(return_nameless(parts, &leases, is_charged).map(|()| false));
    }
    while let Some(work) = next_due(parts, &mut walk)? {
        if work.most == 0 {
            continue;
        }
        parts.state.pass_on();
        note(submit_own(parts, &work).map(|left| left == Some(true)));
    }
    // After the steps that may have ended tasks.
    for kind in [Work::Unlink, Work::Cascade] {
        parts.state.pass_on();
        note(follow_some(parts, kind));
    }
    Ok(round)
}

/// One step of each merge that no call goes on with. Returns whether there is more of them.
fn merge_some(parts: &Shared) -> Result<bool> {
    if parts.health.serves().is_err() {
        return Ok(false);
    }
    let (mut last, mut failed) = (None, None);
    while let Some((from, place)) = parts.left_merges.take_after(last) {
        last = Some(from);
        parts.state.pass_on();
        let into = match parts.state.lock().tube(from) {
            Err(error) if !error.is_not_found() => Err(error),
            tube => Ok(tube.ok().and_then(|tube| tube.row.merges_into())),
        };
        let next = match into {
            Ok(None) => Ok(None),
            Ok(Some(into)) => {
                merge_step(parts, (from, into), place.clone()).map(|(done, _)| done.next)
            }
            Err(error) => Err(MergeFailure { error, has_ended: false }),
        };
        match next {
            Ok(None) => {}
            Ok(Some(next)) => parts.left_merges.leave(from, next),
            Err(MergeFailure { has_ended: true, .. }) => {}
            Err(MergeFailure { error, .. }) => {
                parts.left_merges.leave(from, place);
                failed = Some(error);
            }
        }
    }
    failed.map_or_else(|| Ok(!parts.left_merges.is_empty()), Err)
}

/// Why a step of a merge was not made, and whether the merge has ended with it.
pub(crate) struct MergeFailure {
    pub(crate) error: Error,
    pub(crate) has_ended: bool,
}

/// One step of the merge of a tube into another one. On a full disk the merge ends: what is there
/// must be taken to make space.
pub(crate) fn merge_step(
    parts: &Shared,
    (from, into): (u32, u32),
    place: MergePlace,
) -> Result<(MergedSome, Mark), MergeFailure> {
    let others_wait = parts.place_waits.has(into);
    submit(parts, &MergeSome { from, into, place, others_wait }).map_err(|error| {
        let is_full = error.kind() == ErrorKind::DiskFull;
        let has_ended = is_full && submit(parts, &EndMerge { from }).is_ok();
        MergeFailure { error, has_ended }
    })
}

/// One step of the work on the edges of tasks. What waits for room on a full disk fails no round:
/// it is looked at again after a second, as all that is due then.
fn follow_some(parts: &Shared, kind: Work) -> Result<bool> {
    if kind == Work::Cascade && waits_for_room(&parts.state.lock().store) {
        look_for_room_if_free(parts)?;
    }
    match submit_own(parts, &FollowEnds { kind, of: None }) {
        Ok(step) => Ok(step.is_some_and(|step| step.is_any)),
        Err(error) if error.kind() == ErrorKind::DiskFull => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the disk is full, and tasks wait for room to be told of the end of another one.
fn waits_for_room(view: &dyn View) -> bool {
    let works = key::work_of(Work::Cascade);
    view.is_full()
        && view.count(Range::of(Tag::Work)) > 0
        && view.first(&works, &key::end_of(&works)).is_ok_and(|met| met.is_some())
}

/// The work of the next tube whose first deadline may have passed.
fn next_due(parts: &Shared, walk: &mut Walk) -> Result<Option<WorkOff>> {
    let mut state = parts.running()?;
    let now = state.now(&*parts.settings.clock);
    let Some(tube) = state.derived.next_due(now, walk) else { return Ok(None) };
    let is_due = state.is_due(tube, true, now);
    let is_due = is_due.inspect_err(|error| state.reopen_after(error))?;
    let most = match is_due || state.derived.is_orphan(tube) {
        true => state.sweep_tasks(tube),
        false => 0,
    };
    Ok(Some(WorkOff::of((&state.derived, &state.store), (tube, most), true)))
}

/// Sets the schedules back that a wrong wall clock has carried ahead.
pub(crate) fn set_schedules_back(parts: &Shared) -> Result<()> {
    let mut from = Some(Key::new()).filter(|_| cron::IS_AVAILABLE);
    while let Some(next) = from {
        from = match submit(parts, &SetBack { from: next }) {
            Ok((next, _)) => next,
            // Later openings do it, and whatever makes them again.
            Err(error) if error.kind() == ErrorKind::DiskFull => None,
            Err(error) => return Err(error),
        };
    }
    Ok(())
}

/// Runs an op of the queue itself; `None` after the queue was closed.
fn submit_own<O: Op>(parts: &Shared, op: &O) -> Result<Option<O::Done>> {
    if parts.health.serves().is_err() {
        return Ok(None);
    }
    match submit(parts, op) {
        Ok((done, _)) => Ok(Some(done)),
        // The tube was dropped in the meantime.
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lease time at which the queue will have been quiet for long enough.
fn next_quiet(parts: &Shared) -> u64 {
    parts
        .timer
        .quiet_since()
        .map_or(NEVER, |since| since.saturating_add(micros(QUIET_BEFORE_CHECKPOINT)))
}

/// Runs a checkpoint of a quiet queue if the opening after a kill gets faster by it.
fn checkpoint_if_quiet(parts: &Shared) -> Result<()> {
    if parts.lease_now() < next_quiet(parts) {
        return Ok(());
    }
    parts.timer.end_busy_time();
    let worth_it = parts.state.lock().store.wants_quiet_checkpoint();
    if worth_it && parts.health.serves().is_ok() { checkpoint(parts) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::query;
    use crate::engine::take::Take;
    use crate::engine::tube_cache::KnownTubes;
    use crate::format::View;
    use crate::runtime::commit::{Attempts, EngineState, Need, Undone};
    use crate::words::limits::{SWEEP_TASKS, TRIMMED_MAX};
    use crate::words::task::State;
    use crate::{
        Cause, Clock, Events, HistoryLimits, ManualClock, Missed, Queue, Retention, Tube,
        TubeOptions,
    };
    use std::collections::BTreeMap;

    /// A machine that slept a week: each schedule fires once, in steps of a sweep.
    #[test]
    fn many_schedules_that_are_due_fire_in_steps() {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let minute = Duration::from_secs(60);
        for number in 0..1000 {
            let name = format!("s{number}");
            let made = queue.schedule(&name).every(minute).offset(minute);
            made.missed(Missed::Coalesce).to(&tube).make().unwrap();
        }
        let events = queue.events();
        clock.advance(7 * 24 * 60 * minute);
        queue.tick().unwrap();
        assert_eq!(tube.len().unwrap(), 1000);
        let mut steps = BTreeMap::<u64, usize>::new();
        for event in std::iter::from_fn(|| events.try_recv()) {
            *steps.entry(event.mark).or_default() += usize::from(event.cause == Cause::Put);
        }
        assert_eq!(steps.values().sum::<usize>(), 1000);
        assert!(steps.values().all(|fires| *fires <= SWEEP_TASKS), "{steps:?}");
    }

    /// Regression: the deadlines of a dropped tube were kept. After one of them had passed, the
    /// timer had no work and nothing to wait for, and looped without end.
    #[test]
    fn a_dropped_tube_keeps_no_deadline() {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        tube.task(b"a").delay(Duration::from_secs(1)).put().unwrap();
        tube.task(b"b").ttr(Duration::from_secs(1)).put().unwrap();
        tube.take().unwrap().detach();
        let core = &tube.inner.core;
        assert_ne!(work_off_all(core).unwrap(), NextDue::NONE);
        queue.force_drop_tube("t").unwrap();
        assert_eq!(work_off_all(core).unwrap(), NextDue::NONE);
        clock.advance(Duration::from_secs(2));
        assert_eq!(work_off_all(core).unwrap(), NextDue::NONE);
    }

    /// How many finished tasks a tube has removed in each commit since the subscription.
    fn removals(events: &Events) -> Vec<usize> {
        let mut commits = BTreeMap::new();
        std::iter::from_fn(|| events.try_recv())
            .filter(|event| event.cause == Cause::Retention)
            .for_each(|event| *commits.entry(event.mark).or_insert(0) += 1);
        commits.into_values().collect()
    }

    /// A tube that has finished so many tasks, and keeps them as this says.
    fn finished(tasks: usize, kept: Retention) -> (Queue, Tube, ManualClock) {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let options = TubeOptions::default().keep_finished(kept).history(HistoryLimits::none());
        let tube = queue.create_tube("t", options).unwrap();
        tube.put_many(vec![&b"x"[..]; tasks]).unwrap();
        tube.ack_many(tube.take_many(tasks).unwrap()).unwrap();
        (queue, tube, clock)
    }

    #[test]
    fn tasks_that_are_kept_for_a_time_go_in_commits_of_one_sweep_each() {
        for tick in [false, true] {
            let kept = Retention::new().age(Duration::from_secs(60));
            let (queue, tube, clock) = finished(1000, kept);
            let events = queue.events();
            clock.advance(Duration::from_secs(60));
            if tick {
                queue.tick().unwrap();
            } else {
                assert!(tube.is_empty().unwrap());
            }
            let mut sizes = removals(&events);
            assert_eq!(sizes.pop(), Some(1000 % SWEEP_TASKS), "tick: {tick}");
            assert_eq!(sizes, [SWEEP_TASKS; 1000 / SWEEP_TASKS], "tick: {tick}");
            assert_eq!(tube.stats().unwrap().finished, 0);
        }
    }

    /// However far a tube is above its limits, the end of one task removes few others, and the due
    /// work a sweep at a time. A change of a limit removes none itself.
    #[test]
    fn what_is_above_a_limit_goes_a_bounded_number_at_a_time() {
        let large = vec![7; 1000];
        let sweeps = |tasks: usize| {
            let rest = Some(tasks % SWEEP_TASKS).filter(|rest| *rest > 0);
            [SWEEP_TASKS].repeat(tasks / SWEEP_TASKS).into_iter().chain(rest).collect::<Vec<_>>()
        };
        for (kept, lower, expected) in [
            (Retention::new(), Retention::new().count(1), 1),
            (Retention::new(), Retention::new().bytes(400), 400),
        ] {
            let (queue, tube, _) = finished(1000, kept);
            let events = queue.events();
            tube.set("keep_finished", lower).unwrap();
            let at_once = removals(&events);
            assert_eq!(at_once, [0; 0], "it is due work");
            queue.tick().unwrap();
            assert_eq!(removals(&events), sweeps(1000 - expected));
            assert_eq!(tube.stats().unwrap().finished, expected as u64);
            assert_eq!(queue.check().unwrap(), [""; 0]);
        }
        // Buried tasks as well.
        let (queue, tube, _) = finished(0, Retention::new());
        tube.put_many(vec![&b"x"[..]; 1000]).unwrap();
        tube.take_many(1000).unwrap().into_iter().for_each(|task| task.bury("no").unwrap());
        let events = queue.events();
        tube.set("keep_buried", Retention::new().count(1)).unwrap();
        queue.tick().unwrap();
        assert_eq!((removals(&events), tube.stats().unwrap().buried), (sweeps(999), 1));
        // A result has as many bytes as there is room for.
        let (queue, tube, _) = finished(1000, Retention::new().bytes(1000));
        let events = queue.events();
        tube.put(b"").unwrap();
        tube.take().unwrap().ack_with(&large).unwrap();
        assert_eq!(removals(&events), [TRIMMED_MAX]);
        queue.tick().unwrap();
        assert_eq!(removals(&events), sweeps(1000 - TRIMMED_MAX));
        assert_eq!(tube.stats().unwrap().finished, 1);
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }

    /// T3. The mark of an event shows in which commit it happened.
    #[test]
    fn what_is_due_at_once_goes_in_commits_of_one_sweep_each() {
        for tick in [false, true] {
            let clock = ManualClock::new();
            let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
            let tube = queue.tube("t").unwrap();
            for number in 0..300 {
                let (task, minute) = (tube.task(b"x"), Duration::from_secs(60));
                match number % 3 {
                    0 => task.delay(minute).put(),
                    1 => task.ttl(minute).put(),
                    _ => task.run_at(clock.wall() + minute).put(),
                }
                .unwrap();
            }
            let events = queue.events();
            clock.suspend(Duration::from_secs(10 * 365 * 86_400));
            if tick {
                queue.tick().unwrap();
            } else {
                assert_eq!(tube.len().unwrap(), 200);
            }
            let mut commits = BTreeMap::new();
            std::iter::from_fn(|| events.try_recv())
                .for_each(|event| *commits.entry(event.mark).or_insert(0) += 1);
            let mut sizes: Vec<usize> = commits.into_values().collect();
            assert_eq!(sizes.pop(), Some(300 % SWEEP_TASKS), "tick: {tick}");
            assert_eq!(sizes, [SWEEP_TASKS; 300 / SWEEP_TASKS], "tick: {tick}");
        }
    }

    fn by_hand(clock: &ManualClock) -> Queue {
        Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap()
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// Regression: the timer searched every tube's deadline among those of all tubes, and a new
    /// tube was searched among all of them: 100 000 tubes took 49.6 s to make.
    #[test]
    fn a_tube_costs_the_same_however_many_there_are() {
        let visits = |tubes: usize| {
            let clock = ManualClock::new();
            let queue = by_hand(&clock);
            let first = queue.tube("first").unwrap();
            let core = &first.inner.core;
            let seen = || core.state.lock().derived.visits.replace(0);
            seen();
            for number in 0..tubes {
                let tube = queue.tube(&number.to_string()).unwrap();
                tube.task(b"x").delay(SECOND * 60).put().unwrap();
            }
            let made = seen();
            work_off_all(core).unwrap();
            let idle = seen();
            first.task(b"x").delay(SECOND).put().unwrap();
            clock.advance(SECOND);
            work_off_all(core).unwrap();
            let one_due = seen();
            clock.advance(SECOND * 60);
            work_off_all(core).unwrap();
            assert_eq!(work_off_all(core).unwrap(), NextDue::NONE);
            assert_eq!(
                first.peek_next(crate::State::Ready).unwrap().map(|task| task.attempts),
                Some(0)
            );
            (made / tubes as u64, idle, one_due, seen() / tubes as u64)
        };
        let few = visits(10_000);
        assert_eq!(few, visits(100_000));
        assert!(few.0 <= 10 && few.1 == 0 && few.2 <= 10 && few.3 <= 10, "{few:?}");
    }

    /// 100 000 tasks that fell due within a second were late by 0.8 s: each take and each ack made
    /// those ready that had fallen due since the other, and so was slower the later it came.
    #[test]
    fn a_verb_that_ends_a_lease_leaves_delays_to_others() {
        let clock = ManualClock::new();
        let queue = by_hand(&clock);
        let tube = queue.tube("t").unwrap();
        (0..3).for_each(|_| _ = tube.task(b"x").ttr(SECOND * 2).put().unwrap());
        let [acked, released, lapsing] = [(); 3].map(|()| tube.take().unwrap());
        tube.pause_for(SECOND).unwrap();
        let delayed = tube.task(b"x").delay(SECOND).put().unwrap();
        clock.advance(SECOND);
        let events = queue.events();
        let seen = || std::iter::from_fn(|| events.try_recv()).map(|it| it.cause).collect();
        let seen: &dyn Fn() -> Vec<Cause> = &seen;
        acked.ack().unwrap();
        released.release().unwrap();
        assert_eq!(seen(), [Cause::Ack, Cause::Release]);
        clock.advance(SECOND);
        lapsing.ack().unwrap_err();
        assert_eq!(seen(), [Cause::Ttr], "the end of a lease decides who may ack");
        assert_eq!(tube.peek(delayed).unwrap().state, State::Ready);
        assert_eq!(seen(), [Cause::Delay, Cause::Resume]);
    }

    /// A sweep comes to the deadlines that follow, so nothing reads them again.
    #[test]
    fn a_sweep_leaves_the_first_deadlines_that_follow() {
        let clock = ManualClock::new();
        let queue = by_hand(&clock);
        let tube = queue.tube("t").unwrap();
        let timer = |seconds| tube.task(b"x").ttr(SECOND).ttl(SECOND * 60).delay(SECOND * seconds);
        (1..4).for_each(|seconds| _ = timer(seconds).put().unwrap());
        let bound = || tube.inner.core.state.lock().derived.bound(tube.number).unwrap();
        let start = bound().delay;
        clock.advance(SECOND * 2);
        let first = tube.take().unwrap();
        let second = micros(SECOND);
        assert_eq!(bound().delay, start + 2 * second);
        assert!(bound().ttl != NEVER && bound().ttr != NEVER);
        first.ack().unwrap();
        tube.task(b"x").delay(SECOND / 2).put().unwrap();
        assert_eq!(bound().delay, start + second + second / 2, "an earlier one lowers the bound");
        clock.advance(SECOND * 2);
        assert_eq!(tube.take_many(9).unwrap().len(), 3);
        assert_eq!(bound().delay, NEVER);
    }

    /// Regression: all sweeps ended before the first due task of any tube was handled. After a
    /// truncate of 1 000 000 tasks the timers of other tubes were 1.7 s late.
    #[test]
    fn a_sweep_and_the_due_tubes_take_turns() {
        let clock = ManualClock::new();
        let queue = by_hand(&clock);
        let (large, other) = (queue.tube("large").unwrap(), queue.tube("other").unwrap());
        large.put_many((0..100 * SWEEP_TASKS).map(|_| b"x".to_vec())).unwrap();
        let delayed = |tube: &crate::Tube, tasks: usize| {
            (0..tasks).for_each(|_| _ = tube.task(b"x").delay(SECOND).put().unwrap());
        };
        delayed(&other, 1);
        let busy = queue.tube("busy").unwrap();
        delayed(&busy, 10 * SWEEP_TASKS);
        large.truncate().unwrap();
        clock.advance(SECOND);
        let core = &large.inner.core;
        let count = |tag| core.state.lock().store.count(crate::format::Range::of(tag));
        assert!(work_off_round(core).unwrap().is_more);
        assert_eq!(count(crate::format::Tag::Work), 1, "the sweep has come one step further");
        let ready = |tube: &crate::Tube| {
            let number = tube.number;
            let ready = core
                .look(|view, _| Ok(query::count(view, &query::tube(view, number)?, State::Ready)));
            ready.unwrap()
        };
        assert_eq!((ready(&other), ready(&busy)), (1, SWEEP_TASKS as u64));
        work_off_all(core).unwrap();
        assert_eq!(count(crate::format::Tag::Work), 0);
        assert_eq!(ready(&busy), 10 * SWEEP_TASKS as u64);
    }

    /// Regression: a verb did all due work before it released the engine's lock. During 500 000 due
    /// tasks other tubes waited 0.41 s.
    #[test]
    fn a_verb_works_off_what_is_due_in_turns() {
        let clock = ManualClock::new();
        let queue = by_hand(&clock);
        let tube = queue.tube("t").unwrap();
        (0..20 * SWEEP_TASKS).for_each(|_| _ = tube.task(b"x").delay(SECOND).put().unwrap());
        clock.advance(SECOND);
        let core = &tube.inner.core;
        let take = Take::new(tube.number, 1, 0);
        let (mut attempts, mut turns) = (Attempts::default(), 0);
        let left = |state: &EngineState| {
            let run = state.derived.known(tube.number).unwrap().run();
            state.store.count(crate::format::Range::in_run(crate::format::Tag::Delayed, run))
        };
        loop {
            let mut state = core.state.lock();
            let before = left(&state);
            let step = state.execute(&take, &mut attempts, &core.env());
            assert!(before - left(&state) <= SWEEP_TASKS as u64);
            match step {
                Err(Undone::TryAfter(Need::Yield)) => turns += 1,
                Ok((handed, _)) => break assert_eq!(handed.len(), 1),
                Err(_) => panic!("refused"),
            }
        }
        assert_eq!(turns, 19);
        assert_eq!(tube.stats().unwrap().delayed, 0);
    }

    /// A sweep read the payloads that it removed: a truncate of 256 tasks of 16 MiB took 8.5 s and
    /// left 617 MiB in memory.
    #[test]
    fn a_sweep_reads_no_payload() {
        let home = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let open = |case| {
            let builder = Queue::builder().by_hand(true).clock(clock.clone()).cache_bytes(1 << 16);
            let queue = builder.open(home.path().join(case)).unwrap();
            let tube = queue.tube("t").unwrap().durability(crate::Durability::Relaxed);
            (queue, tube)
        };
        for case in ["truncate", "drop", "ttl"] {
            let (queue, tube) = open(case);
            for _ in 0..32 {
                tube.task(&vec![7; 64 << 10]).ttl(SECOND).put().unwrap();
            }
            queue.close().unwrap();
            let (queue, tube) = open(case);
            let core = &tube.inner.core;
            let read = || core.state.lock().store.read_bytes();
            let before = read();
            match case {
                "truncate" => drop(tube.truncate().unwrap()),
                "drop" => queue.force_drop_tube("t").unwrap(),
                _ => clock.advance(SECOND),
            }
            queue.tick().unwrap();
            let read = read() - before;
            assert!(read < 1 << 20, "{case}: {read} bytes were read");
            assert_eq!(queue.space().unwrap().durable_bytes, 0, "{case}");
            assert_eq!(queue.check().unwrap(), [""; 0], "{case}");
        }
    }
}
