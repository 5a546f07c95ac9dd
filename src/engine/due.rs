//! Due work: delays end, ttls end, leases end. Every verb does first what it depends on in its own
//! tube, and the timer does all, in bounded steps. Correctness does not depend on the timer.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::effects::NextDue;
use crate::engine::stored::TaskState;
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::engine::{fire, gates, lines, schedules, slots, statistics, sweep, tubes};
use crate::engine::{lapse, lookup, query, retention, transition};
use crate::format::key::{self, Run, Work};
use crate::format::{Deadline, Met, Range, Scan, Tag, Value, View};
use crate::words::clock::{NEVER, Now};
use crate::words::error::Result;
use crate::words::limits::{BATCH_TASKS_MAX, SWEEP_TASKS};
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, TaskId};
use std::cell::Cell;

/// Does the due work of one tube, at most one sweep.
pub(crate) struct WorkOff {
    pub(crate) tube: u32,
    /// The most deadlines of this sweep.
    pub(crate) most: usize,
    /// As [`Op::SEES_DELAYS`] of the op that it is done for.
    pub(crate) sees_delays: bool,
    /// Whether rows that are not committed may have which the tube's bound does not
    /// contain.
    pub(crate) in_transaction: bool,
    /// Whether tasks may get other ranks when their leases lapse, or schedules may fire. Each draws
    /// a number.
    pub(crate) may_draw: bool,
    /// Whether it has made a child of a schedule, which a full disk refuses.
    pub(crate) has_fired: Cell<bool>,
    /// How much of `most` it has used.
    pub(crate) used: Cell<usize>,
}

impl WorkOff {
    /// The work of a tube. One that is not known was made in the same transaction.
    pub(crate) fn of(
        (known, view): (&dyn KnownTubes, &dyn View),
        (tube, most): (u32, usize),
        sees_delays: bool,
    ) -> Self {
        let may_rank = known.known(tube).is_none_or(|it| it.row.options.lapse.is_ranked());
        let may_draw = may_rank || view.count(Range::of(Tag::Fire)) > 0;
        Self { most, sees_delays, may_draw, ..Self::of_dropped(tube) }
    }

    /// The fires that are due of a tube that was dropped.
    pub(crate) fn of_dropped(tube: u32) -> Self {
        let (sees_delays, in_transaction, may_draw) = (true, false, true);
        let (has_fired, used) = (Cell::new(false), Cell::new(0));
        Self { tube, most: SWEEP_TASKS, sees_delays, in_transaction, may_draw, has_fired, used }
    }
}

/// Does only what every verb does first in its tube: the due work. Returns whether there may be
/// more heads that a take would move.
pub(crate) struct CatchUp {
    pub(crate) tube: u32,
}

impl Op for CatchUp {
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let Some(tube) = ctx.known.known(self.tube) else { return Ok(false) };
        // A read shows what a take would get.
        let is_more = lines::look(ctx, tube)?;
        // It may be one of many that wait for what is ready, and it cannot say so itself.
        gates::await_opening(ctx, self.tube, &tube.row);
        slots::await_slots(ctx, tube)?;
        Ok(is_more)
    }
}

/// The first deadlines of a tube.
pub(crate) fn first_deadlines(view: &dyn View, tube: &TubeEntry) -> Result<NextDue> {
    let mut next = NextDue::NONE;
    if view.count(tube.range(Tag::Due)) > 0 {
        for what in Deadline::ALL {
            let first = Scan::prefixed(key::due_of(tube.run(), what)).next(view)?;
            let when = first.and_then(|(met, _)| key::when_of(&met));
            *next.kind_mut(what) = when.unwrap_or(NEVER);
        }
    }
    // At any time before: the first sweep finds what has come.
    next = next.earlier(gates::openings(view, &tube.row, Now::FIRST));
    next.delay = next.delay.min(lines::end(view, tube.run(), Now::FIRST)?);
    next.ttl = next.ttl.min(statistics::first_end(view, tube)?);
    next.ttl = next.ttl.min(retention::first_end(view, tube)?);
    Ok(next.earlier(schedules::first_fires(view, tube.number)?))
}

/// The running sweep of this run's voided leases.
#[inline]
pub(crate) fn work(view: &dyn View, run: Run) -> Result<Option<Met>> {
    if view.count(Range::of(Tag::Work)) == 0 {
        return Ok(None);
    }
    view.row(&key::work(Work::Release, run, TaskId::new(0)))
}

impl Op for WorkOff {
    /// Whether there may be more.
    type Done = bool;

    const FOLLOWS_ENDS: bool = false;

    fn numbers(&self) -> Numbers {
        Numbers::of_ids(if self.may_draw { self.most as u64 } else { 0 })
    }

    /// Known after the decision, and asked then.
    fn grows(&self) -> bool {
        self.has_fired.get()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let tube = match ctx.tube(self.tube) {
            Err(error) if error.is_not_found() && !self.in_transaction => return self.orphans(ctx),
            tube => tube?,
        };
        if let Some(met) = work(ctx, tube.run())? {
            sweep::step(ctx, Work::Release, met)?;
            return Ok(true);
        }
        let known = if self.in_transaction { None } else { ctx.known.bound(self.tube) };
        let mut next = known.unwrap_or(NextDue::UNKNOWN);
        let is_pause_over = self.sees_delays && tube.row.pause_end() <= ctx.now.queue;
        if is_pause_over {
            // In a transaction the work before an earlier verb may have ended it.
            let tube = query::tube(ctx, self.tube)?;
            tubes::set_pause(ctx, &tube, None)?;
        }
        let mut left = self.most;
        let sees = |what: &Deadline| self.sees_delays || !Deadline::OF_DELAYED.contains(what);
        for what in Deadline::ALL.into_iter().filter(sees) {
            // What was moved may be due by another clock.
            let added = ctx.effects().added_deadlines(self.tube);
            if next.earlier(added).kind(what) > what.time_of(ctx.now) {
                continue;
            }
            let mut rows = Scan::prefixed(key::due_of(tube.run(), what));
            *next.kind_mut(what) = loop {
                let Some((met, row)) = rows.next(ctx)? else { break NEVER };
                let due = key::id_of(&met).zip(key::when_of(&met));
                let (id, when) = due.ok_or_else(|| damaged("due"))?;
                // A deadline at exactly this instant is due.
                if when > what.time_of(ctx.now) || left == 0 || ctx.is_sweep_long() {
                    break when;
                }
                left -= 1;
                if sound(fall_due(ctx, &tube, id, (what, when), row.as_ref()))? != Some(true) {
                    ctx.remove(met);
                }
            };
        }
        next.ttl = next.ttl.min(remove_old(ctx, &tube, &mut left)?);
        if !is_pause_over {
            next.delay = next.delay.min(tube.row.pause_end());
        }
        if self.sees_delays && ctx.known.has_closed_lines(self.tube) {
            next.delay = next.delay.min(lines::end_limits(ctx, &tube)?);
        }
        if self.sees_delays && gates::opens_by_time(&tube) {
            next = next.earlier(gates::gate_openings(ctx, &tube.row, ctx.now));
            // As many look as its gates let through.
            ctx.effects().wake(self.tube, BATCH_TASKS_MAX);
        }
        // After the deadlines: a lease that ends may be that of a schedule's last child.
        let has_fires = ctx.count(Range::of(Tag::Fire)) > 0;
        let fires = match has_fires && self.sees_delays {
            true => {
                let (fires, has_fired) = fire::work_off(ctx, self.tube, &mut left)?;
                self.has_fired.set(has_fired);
                fires
            }
            false if has_fires => schedules::first_fires(ctx, self.tube)?,
            false => NextDue::NONE,
        };
        self.used.set(self.most - left);
        let added = ctx.effects().added_deadlines(self.tube);
        ctx.effects().worked_off = Some((self.tube, next.earlier(fires)));
        // On a full disk those that are due wait for room.
        let fires = if ctx.is_full() { NextDue::NONE } else { fires };
        Ok(next.earlier(fires).earlier(added).is_due(self.sees_delays, ctx.now))
    }
}

impl WorkOff {
    /// The fires of schedules whose tube was dropped. Each is missed.
    #[cold]
    fn orphans(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let mut left = self.most;
        let (next, _) = fire::work_off(ctx, self.tube, &mut left)?;
        ctx.effects().worked_off = Some((self.tube, next));
        // One may stay where it is in the scan, with more fires to be passed over.
        let next = next.earlier(ctx.effects().added_deadlines(self.tube));
        Ok(!ctx.is_full() && next.is_due(true, ctx.now))
    }
}

/// Removes days and tasks that the tube keeps no longer. Returns when the next one goes.
fn remove_old(ctx: &mut OpContext<'_>, tube: &TubeEntry, left: &mut usize) -> Result<u64> {
    let days = statistics::remove_old(ctx, tube, left)?;
    Ok(days.min(transition::remove_unkept(ctx, tube, left)?))
}

/// Applies one deadline, which this row is of. Returns false if its task no longer has it.
fn fall_due(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    (what, when): (Deadline, u64),
    row: Option<&Value>,
) -> Result<bool> {
    let Some((at, stored, state)) = lookup::find_due(ctx, tube, id, what, row)? else {
        return Ok(false);
    };
    let Some(task) = ctx.or_repair(tube, || at, stored.task(tube))? else { return Ok(false) };
    // The task that replaces a damaged one does not have its deadlines.
    if !state.deadlines(tube).contains(&(what, when)) {
        return Ok(false);
    }
    match (what, state) {
        (Deadline::Delay | Deadline::RunAt, TaskState::Delayed(row)) => {
            let to = TaskState::Ready(row.progress.clone());
            transition::move_task(ctx, &task, &TaskState::Delayed(row), &to, Cause::Delay)?;
        }
        (Deadline::Ttl, state) => {
            if state.progress().kept_until() != when {
                transition::erase(ctx, &task, &state, Cause::Ttl)?;
            } else if let Some(longer) = retention::kept_longer(ctx, tube, &state) {
                transition::restate(ctx, &task, &state, &longer)?;
            } else {
                transition::retire(ctx, &task, &state)?;
            }
        }
        (Deadline::Ttr, TaskState::Taken(taken)) => {
            lapse::apply(ctx, &task, taken)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
