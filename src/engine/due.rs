//! Due work: delays end, ttls end, leases end. Every verb does it for its own tube, and the timer
//! for all tubes, in bounded steps. Correctness does not depend on the timer.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::effects::NextDue;
use crate::engine::stored::TaskState;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{lookup, query, transition};
use crate::engine::{settle, sweep, tubes};
use crate::format::key::{self, Run, Work};
use crate::format::{Deadline, Met, Range, Scan, Tag, Value, View};
use crate::words::clock::{NEVER, Now};
use crate::words::error::Result;
use crate::words::task::{Cause, TaskId};

/// Does the due work of one tube, at most one sweep.
pub(crate) struct WorkOff {
    pub(crate) tube: u32,
    /// The most deadlines of this sweep.
    pub(crate) most: usize,
}

/// Does only what every verb does first in its tube: the due work.
pub(crate) struct CatchUp {
    pub(crate) tube: u32,
}

impl Op for CatchUp {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, _ctx: &mut OpContext<'_>) -> Result<()> {
        Ok(())
    }
}

/// Moves each bound that has passed up to the first deadline. A bound in the future means that
/// nothing is due, so no row is read.
pub(crate) fn next_due(
    view: &dyn View,
    tube: &TubeEntry,
    bound: NextDue,
    now: Now,
) -> Result<NextDue> {
    let (run, pause) = (tube.run(), tube.row.pause_end());
    if view.count(tube.range(Tag::Due)) == 0 {
        return Ok(NextDue { queue: pause, ..NextDue::NONE });
    }
    let first = |what| -> Result<u64> {
        let from = key::due_of(run, what);
        let met = view.first(&from, &key::end_of(&from))?;
        Ok(met.and_then(|(met, _)| key::when_of(&met)).unwrap_or(NEVER))
    };
    let mut next = bound;
    if bound.queue <= now.queue {
        next.queue = first(Deadline::Delay)?.min(first(Deadline::Ttl)?).min(pause);
    }
    if bound.wall <= now.wall {
        next.wall = first(Deadline::RunAt)?;
    }
    if bound.lease <= now.lease {
        next.lease = first(Deadline::Ttr)?;
    }
    Ok(next)
}

/// The running sweep of this run's voided leases.
fn work(view: &dyn View, run: Run) -> Result<Option<Met>> {
    view.row(&key::work(Work::Release, run, TaskId::new(0)))
}

/// Whether a sweep of this run's voided leases is running.
#[inline]
pub(crate) fn has_work(view: &dyn View, run: Run) -> Result<bool> {
    Ok(view.count(Range::of(Tag::Work)) > 0 && work(view, run)?.is_some())
}

impl Op for WorkOff {
    /// Whether there may be more.
    type Done = bool;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let tube = ctx.tube(self.tube)?;
        if let Some(met) = work(ctx, tube.run())? {
            sweep::step(ctx, Work::Release, met)?;
            return Ok(true);
        }
        if tube.row.pause_end() <= ctx.now.queue {
            // In a transaction the work before an earlier verb may have ended it.
            let tube = query::tube(ctx, self.tube)?;
            tubes::set_pause(ctx, &tube, None)?;
        }
        let mut left = self.most;
        for what in Deadline::ALL {
            // A deadline at exactly this instant is due.
            let last = key::due(tube.run(), what, what.time_of(ctx.now), TaskId::new(u64::MAX));
            let mut rows = Scan::through(key::due_of(tube.run(), what), &last);
            while left > 0 && !ctx.is_sweep_long() && ctx.count(tube.range(Tag::Due)) > 0 {
                let Some((met, row)) = rows.next(ctx)? else { break };
                left -= 1;
                let due = key::id_of(&met).zip(key::when_of(&met));
                let (id, when) = due.ok_or_else(|| damaged("due"))?;
                if sound(fall_due(ctx, &tube, id, (what, when), row.as_ref()))? != Some(true) {
                    ctx.remove(met);
                }
            }
        }
        Ok(left == 0 || ctx.is_sweep_long())
    }
}

/// Applies one deadline, which this row is of. Returns false if its task no longer has it.
fn fall_due(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    (what, when): (Deadline, u64),
    row: Option<&Value>,
) -> Result<bool> {
    let Some((at, stored, standing)) = lookup::find_due(ctx, tube, id, what, row)? else {
        return Ok(false);
    };
    let Some(task) = ctx.or_repair(tube, || at, stored.task(tube))? else { return Ok(false) };
    // The task that replaces a damaged one does not have its deadlines.
    if !transition::deadlines(tube, &standing).contains(&(what, when)) {
        return Ok(false);
    }
    match (what, standing) {
        (Deadline::Delay | Deadline::RunAt, TaskState::Delayed(row)) => {
            let to = TaskState::Ready(row.head.clone());
            transition::move_task(ctx, &task, &TaskState::Delayed(row), &to, Cause::Delay)?;
        }
        (Deadline::Ttl, standing) => {
            transition::erase(ctx, &task, &standing, Cause::Ttl)?;
        }
        (Deadline::Ttr, TaskState::Taken(taken)) => {
            settle::give_back(ctx, &task, taken, Cause::Ttr)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}
