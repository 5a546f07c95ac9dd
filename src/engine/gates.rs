//! The gates of a tube: whether a take may have a task of it now, and how many. A closed gate hides
//! what is ready as a pause does, and no row of a task is looked at or written here. This file also
//! says how many waiting takers a step is worth, so that none is woken in vain.
//!
//! A slot of a throttle that becomes free is kept for the takers of one tube, see
//! `runtime::slot_lines`: it is not free for takers of the others. A claim of a chosen task takes
//! it all the same.

use crate::engine::context::{Op, OpContext};
use crate::engine::effects::{Effects, NextDue, TubeChange};
use crate::engine::named_gate::{self, GateNow};
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::engine::{lines, query, slots};
use crate::format::row::TubeRow;
use crate::format::{Deadline, Tag, View};
use crate::words::clock::{NEVER, Now, micros};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::explain::WhyNot;
use crate::words::gates::{Gates, NamedGate, Rate};
use crate::words::limits::{BATCH_TASKS_MAX, NAMES_OF_STEP};
use crate::words::task::{State, TaskId};
use crate::words::task_gates;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::time::Duration;

/// The gates of a tube now, apart from a pause.
pub(crate) fn at<'a>(
    view: &dyn View,
    tube: &'a TubeEntry,
    now: Now,
) -> Result<SmallVec<[GateNow<'a>; 1]>> {
    let mut all = SmallVec::new();
    let Some(gates) = &tube.row.options.gates else { return Ok(all) };
    for name in &gates.required {
        all.extend(named_gate::read(view, NamedGate::Condition(name), now)?);
    }
    if let Some(hours) = &gates.hours {
        let is_open = hours.contain(now.wall);
        let why = match hours.unknown_zone() {
            Some(zone) => WhyNot::UnknownZone { zone: zone.to_owned() },
            None => {
                // When they begin takes a longer look, and is asked only of closed ones.
                let begin = if is_open { now.wall } else { hours.next_opening(now.wall) };
                let left = Duration::from_micros(begin.saturating_sub(now.wall));
                WhyNot::OutOfHours { left }
            }
        };
        all.push(GateNow::nameless(if is_open { u64::MAX } else { 0 }, why));
    }
    if gates.limit > 0 {
        // The leases under a grace are among them.
        let (in_flight, limit) = (view.count(tube.range(Tag::Taken)), gates.limit);
        let why = WhyNot::TubeLimit { in_flight, limit };
        all.push(GateNow::nameless(limit.saturating_sub(in_flight), why));
    }
    for name in &gates.throttles {
        all.extend(named_gate::read(view, NamedGate::Throttle(name), now)?);
    }
    if let Some(rate) = &gates.rate {
        let left = Duration::from_micros(
            rate_opens(rate, tube.row.pace, now.queue).saturating_sub(now.queue),
        );
        let why = WhyNot::TubeRate { left };
        all.push(GateNow::nameless(rate_free(rate, tube.row.pace, now.queue), why));
    }
    Ok(all)
}

/// How many tasks the takes of a tube may have now.
#[cold]
#[inline(never)]
pub(crate) fn free(
    (view, known): (&dyn View, &dyn KnownTubes),
    tube: &TubeEntry,
    now: Now,
) -> Result<usize> {
    if tube.row.shut.is_some() {
        return Ok(0);
    }
    let free = at(view, tube, now)?.iter().map(|gate| gate.free_for(known, tube.number)).min();
    Ok(free.map_or(usize::MAX, |free| usize::try_from(free).unwrap_or(usize::MAX)))
}

/// How many tasks a take of a tube may have now. If none, those who wait look when time opens the
/// tube: the wall clock may have been set back since its next opening was known.
#[cold]
#[inline(never)]
pub(crate) fn admit(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<usize> {
    let free = free((ctx, ctx.known), tube, ctx.now)?;
    if free == 0 {
        await_opening(ctx, tube.number, &tube.row);
        slots::await_slots(ctx, tube)?;
        slots::note_unused(ctx, tube);
    }
    Ok(free)
}

/// Lets one chosen task through all gates, also in a paused tube.
///
/// # Errors
/// `WrongState`, with the first gate that is closed, or while the tasks of the tube are moved: in
/// the other tube its group may be busy.
#[cold]
#[inline(never)]
pub(crate) fn enter(view: &dyn View, tube: &TubeEntry, id: TaskId, now: Now) -> Result<()> {
    if tube.row.merges_into().is_some() {
        let text = "its tube is being merged into another one; claim it there";
        return Err(Error::new(ErrorKind::WrongState).because(text).on_task(id));
    }
    named_gate::enter(at(view, tube, now)?, id)
}

/// Notes that so many tasks were taken from a tube, perhaps none, which its rate counts. Once in an
/// op: its row is as it was before.
#[inline]
pub(crate) fn count_taken(ctx: &mut OpContext<'_>, tube: &TubeEntry, taken: usize) -> Result<()> {
    match &tube.row.options.gates {
        Some(_) => count_gated(ctx, tube, taken),
        None => Ok(()),
    }
}

#[cold]
#[inline(never)]
fn count_gated(ctx: &mut OpContext<'_>, tube: &TubeEntry, taken: usize) -> Result<()> {
    if taken > 0 {
        let taken = i128::try_from(taken).unwrap_or(i128::MAX);
        move_pace(ctx, tube, |step| step.saturating_mul(taken))?;
    }
    slots::note_taken(ctx, tube, taken)
}

/// Gives the take of a lease back to the rate of its tube, which a close returns: as much of it as
/// time has not made up for since. More would let others through for a take that counts no more.
/// `since` is lease time; [`NEVER`] if it is not known.
#[cold]
#[inline(never)]
pub(crate) fn return_pace(ctx: &mut OpContext<'_>, number: u32, since: u64) -> Result<()> {
    let held = match since {
        NEVER => return Ok(()),
        since => i128::from(ctx.now.lease.saturating_sub(since)) * 1000,
    };
    // The op may have given others back.
    let tube = query::tube(ctx, number)?;
    move_pace(ctx, &tube, |step| (held - step).min(0))
}

/// Moves the pace of a tube by so many nanoseconds, by those from one task to the next.
#[cold]
#[inline(never)]
fn move_pace(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    by: impl FnOnce(i128) -> i128,
) -> Result<()> {
    let Some(rate) = tube.row.options.gates.as_ref().and_then(|gates| gates.rate) else {
        return Ok(());
    };
    let (now, step) = (ctx.now.queue, i128::try_from(step(&rate)).unwrap_or(i128::MAX));
    let before = i128::try_from(paced(&rate, tube.row.pace, now)).unwrap_or(i128::MAX);
    let after = before.saturating_add(by(step)).max(1);
    let pace = after.unsigned_abs();
    ctx.set_tube(tube.number, TubeRow { pace, ..tube.row.clone() }, None)?;
    if rate_free(&rate, pace, now) == 0 {
        let opens = rate_opens(&rate, pace, now);
        ctx.effects().deadline(tube.number, NextDue::of(Deadline::Delay, opens));
    }
    Ok(())
}

/// The gates of a tube are new or have changed: its pace is no further ahead than takes can bring
/// it, and those who wait look when it opens by itself.
pub(crate) fn begin(ctx: &mut OpContext<'_>, number: u32, row: &mut TubeRow) {
    let now = ctx.now;
    let Some(gates) = row.options.gates.as_deref() else { return };
    if let Some(rate) = gates.rate.filter(|_| row.pace > 0) {
        row.pace = paced(&rate, row.pace, now.queue);
    }
    await_opening(ctx, number, row);
}

/// The takers of some of the tubes that name a gate look again, as many as their gates let through:
/// it may be open now. Returns from which tube on others do.
pub(crate) struct OpenTubes<'a> {
    pub(crate) gate: NamedGate<'a>,
    pub(crate) from: u32,
}

impl Op for OpenTubes<'_> {
    type Done = Option<u32>;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Option<u32>> {
        let known = ctx.known;
        let tubes = known.naming(self.gate, self.from, NAMES_OF_STEP);
        let text = task_gates::text(self.gate);
        for tube in tubes.iter().filter_map(|tube| known.known(*tube)) {
            lines::open(ctx, tube, &text);
            // A gate makes no room, so those who wait for that are not woken.
            ctx.effects().wake(tube.number, BATCH_TASKS_MAX);
            await_opening(ctx, tube.number, &tube.row);
        }
        let last = tubes.last().filter(|_| tubes.len() == NAMES_OF_STEP);
        Ok(last.and_then(|last| last.checked_add(1)))
    }
}

/// Those who wait look again when time opens a gate of the tube.
pub(crate) fn await_opening(ctx: &mut OpContext<'_>, number: u32, row: &TubeRow) {
    if row.options.gates.is_some() {
        let next = openings(ctx, row, ctx.now);
        ctx.effects().deadline(number, next);
    }
}

/// When a tube opens next by itself: the end of its pause, and what its gates say.
pub(crate) fn openings(view: &dyn View, row: &TubeRow, now: Now) -> NextDue {
    NextDue::of(Deadline::Delay, row.pause_end()).earlier(gate_openings(view, row, now))
}

/// When time opens the gates of a tube next: the next task of its rate, the beginning of its hours,
/// and the end of the limit of a throttle.
pub(crate) fn gate_openings(view: &dyn View, row: &TubeRow, now: Now) -> NextDue {
    let mut next = NextDue::NONE;
    if let Some(gates) = row.options.gates.as_deref() {
        let opens = gates.rate.map(|rate| rate_opens(&rate, row.pace, now.queue));
        next.delay = opens.filter(|opens| *opens > now.queue).unwrap_or(NEVER);
        let ends = gates.throttles.iter().map(|name| slots::end(view, name, now));
        next.delay = ends.fold(next.delay, u64::min);
        next.run_at = gates.hours.as_ref().map_or(NEVER, |hours| hours.next_opening(now.wall));
    }
    next
}

/// The time from one task to the next, in nanoseconds: rounded up, so that there are never more.
fn step(rate: &Rate) -> u128 {
    let per = u128::from(micros(rate.per)) * 1000;
    per.div_ceil(u128::from(rate.tasks.max(1))).max(1)
}

/// The pace in nanoseconds: not before now, and no further ahead than takes can bring it.
fn paced(rate: &Rate, pace: u128, now: u64) -> u128 {
    let now = u128::from(now) * 1000;
    let most = now.saturating_add(step(rate).saturating_mul(u128::from(rate.burst)));
    pace.clamp(now, most)
}

/// How many tasks a rate lets through.
fn rate_free(rate: &Rate, pace: u128, now: u64) -> u64 {
    let ahead = paced(rate, pace, now) - u128::from(now) * 1000;
    let burst = step(rate).saturating_mul(u128::from(rate.burst));
    u64::try_from((burst - ahead) / step(rate)).unwrap_or(u64::MAX)
}

/// When a rate lets the next task through: a queue time that has come if it does now.
fn rate_opens(rate: &Rate, pace: u128, now: u64) -> u64 {
    let most = step(rate).saturating_mul(u128::from(rate.burst - 1));
    let opens = paced(rate, pace, now).saturating_sub(most).div_ceil(1000);
    u64::try_from(opens).unwrap_or(u64::MAX)
}

/// Whether a tube has a rate or hours, which only time opens.
pub(crate) fn is_timed(tube: &TubeEntry) -> bool {
    let is_timed = |gates: &Gates| gates.rate.is_some() || gates.hours.is_some();
    tube.row.options.gates.as_deref().is_some_and(is_timed)
}

/// Whether a tube has a gate that time may open, as it does a throttle whose limit ends.
pub(crate) fn opens_by_time(tube: &TubeEntry) -> bool {
    is_timed(tube) || slots::is_throttled(tube)
}

/// Whether a tube has a rate.
fn has_rate(tube: &TubeEntry) -> bool {
    tube.row.options.gates.as_deref().is_some_and(|gates| gates.rate.is_some())
}

/// How many ready tasks of a tube stand behind a closed gate.
pub(crate) fn limited(view: &dyn View, tube: &TubeEntry, now: Now) -> Result<u64> {
    let is_closed = at(view, tube, now)?.iter().any(|gate| gate.free == 0);
    Ok(if is_closed { query::count(view, tube, State::Ready) } else { 0 })
}

/// At least as many as the tasks that takes could have if all gates were open; 0 if there is none.
pub(crate) fn takeable((view, known): (&dyn View, &dyn KnownTubes), tube: &TubeEntry) -> u64 {
    let in_lines = view.count(tube.range(Tag::Line));
    let others = query::count(view, tube, State::Ready).saturating_sub(in_lines);
    let is_any_open = view.count(tube.range(Tag::OpenHead)) > 0 || known.may_open(tube.number);
    others.saturating_add(if is_any_open { in_lines } else { 0 })
}

/// Sets how many takers a step wakes in tubes with gates, after it was written: one for each task
/// that became takeable and for each place that became free, and no more than could have a task.
/// Returns the tubes of which all were to look: those who wait for room still are.
#[cold]
#[inline(never)]
pub(crate) fn bound_wakes(
    view: &dyn View,
    known: &dyn KnownTubes,
    effects: &mut Effects,
    now: Now,
) -> SmallVec<[u32; 1]> {
    let mut bounded = SmallVec::new();
    // A condition may open very many.
    let mut wakes: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    let mut add = |tube: u32, ready: usize, left: usize| {
        let (all, freed) = wakes.entry(tube).or_default();
        (*all, *freed) = (all.saturating_add(ready), freed.saturating_add(left));
    };
    for (tube, ready) in effects.wakes.drain(..) {
        add(tube, ready, 0);
    }
    for change in &effects.changes {
        match (change.from, change.to) {
            (Some(State::Taken), Some(State::Taken)) => {}
            (Some(State::Taken), _) => add(change.tube, 0, 1),
            // More may have come in by the rate since others were woken.
            (_, Some(State::Taken)) if known.known(change.tube).is_some_and(has_rate) => {
                add(change.tube, 0, 1)
            }
            _ => {}
        }
    }
    for (number, (ready, freed)) in wakes {
        let most = match after(known, effects, number) {
            Some(tube) if tube.row.options.gates.is_some() => {
                // What cannot be read is told to those who look.
                let free = free((view, known), &tube, now).unwrap_or(usize::MAX);
                if free == 0 && opens_by_time(&tube) {
                    // The wall clock may have been set back since its opening was known.
                    effects.deadline(number, openings(view, &tube.row, now));
                }
                let takeable =
                    usize::try_from(takeable((view, known), &tube)).unwrap_or(usize::MAX);
                let wanted = takeable.min(ready.max(freed));
                if free < wanted {
                    note_closed((view, known), effects, (&tube, wanted), now);
                }
                free.min(takeable)
            }
            // Without gates, or dropped: those who wait learn of that.
            _ if ready > 0 => {
                effects.wake(number, ready);
                continue;
            }
            _ => continue,
        };
        if ready == usize::MAX {
            bounded.push(number);
        }
        let count = ready.max(freed).min(most);
        if count > 0 {
            effects.wake(number, count);
        }
    }
    bounded
}

/// Notes of which throttles a tube waits for slots: so many of its takers are to be woken.
#[cold]
fn note_closed(
    (view, known): (&dyn View, &dyn KnownTubes),
    effects: &mut Effects,
    (tube, wanted): (&TubeEntry, usize),
    now: Now,
) {
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    for gate in at(view, tube, now).unwrap_or_default() {
        if let Some(throttle) = gate.throttle
            && gate.free_for(known, tube.number) < wanted
        {
            effects.slot_steps().closed.push((throttle, tube.number));
        }
    }
}

/// The tube as it is after the step; `None` if it is gone.
fn after(known: &dyn KnownTubes, effects: &Effects, number: u32) -> Option<TubeEntry> {
    let is_of_tube = |change: &&TubeChange| {
        change.number == number && change.stalled == 0 && change.schedule.is_none()
    };
    match effects.tubes.iter().rev().find(is_of_tube) {
        Some(change) => {
            let row = (**change.row.as_ref()?).clone();
            Some(TubeEntry { number, row, border: None, day: None })
        }
        None => known.known(number).cloned(),
    }
}
