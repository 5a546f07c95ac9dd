//! What falls due: delays end, lives end, leases lapse. Worked off by any verb that comes by, and
//! by the timer, in bounded steps; correctness never waits for the timer.

use crate::bytes::key::{self, Key, Run, Work};
use crate::bytes::{Deadline, Met, Range, Tag, View};
use crate::clock::{NEVER, Now};
use crate::engine::desk::{Desk, Op, damaged};
use crate::engine::index;
use crate::engine::known::Tube;
use crate::engine::stored::Standing;
use crate::engine::{aside, settle, sweep};
use crate::error::{ErrorKind, Result};
use crate::limits::SWEEP_TASKS;
use crate::task::{Cause, TaskId};

/// Works off what is due in one tube, at most one sweep's worth.
pub(crate) struct WorkOff {
    pub(crate) tube: u32,
}

/// A lower bound of the deadlines by each of the three clocks; [`NEVER`] where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextDue {
    pub(crate) queue: u64,
    pub(crate) wall: u64,
    pub(crate) lease: u64,
}

impl NextDue {
    pub(crate) const NONE: Self = Self { queue: NEVER, wall: NEVER, lease: NEVER };
    /// No deadline is earlier.
    pub(crate) const UNKNOWN: Self = Self { queue: 0, wall: 0, lease: 0 };

    pub(crate) fn is_due(&self, now: Now) -> bool {
        self.queue <= now.queue || self.wall <= now.wall || self.lease <= now.lease
    }

    pub(crate) fn earlier(self, other: Self) -> Self {
        Self {
            queue: self.queue.min(other.queue),
            wall: self.wall.min(other.wall),
            lease: self.lease.min(other.lease),
        }
    }
}

fn hand(now: Now, what: Deadline) -> u64 {
    match what {
        Deadline::Delay | Deadline::Ttl => now.queue,
        Deadline::RunAt => now.wall,
        Deadline::Ttr => now.lease,
    }
}

/// The bound moved up to the first deadline wherever it has passed. Elsewhere nothing is due, and
/// nothing is looked up.
pub(crate) fn next_due(view: &dyn View, run: Run, bound: NextDue, now: Now) -> Result<NextDue> {
    if view.count(Range::in_run(Tag::Due, run)) == 0 {
        return Ok(NextDue::NONE);
    }
    let first = |what| -> Result<u64> {
        let from = key::due_of(run, what);
        let met = view.first(&from, &key::end_of(&from))?;
        Ok(met.and_then(|(met, _)| key::when_of(&met)).unwrap_or(NEVER))
    };
    let mut next = bound;
    if bound.queue <= now.queue {
        next.queue = first(Deadline::Delay)?.min(first(Deadline::Ttl)?);
    }
    if bound.wall <= now.wall {
        next.wall = first(Deadline::RunAt)?;
    }
    if bound.lease <= now.lease {
        next.lease = first(Deadline::Ttr)?;
    }
    Ok(next)
}

/// The sweep of this run's voided leases that is under way.
fn work(view: &dyn View, run: Run) -> Result<Option<Met>> {
    if view.count(Range::of(Tag::Work)) == 0 {
        return Ok(None);
    }
    let work = key::work(Work::Release, run, TaskId::new(0));
    view.first(&work, &key::after(&work))
}

/// Whether a sweep of this run's voided leases is under way.
pub(crate) fn has_work(view: &dyn View, run: Run) -> Result<bool> {
    Ok(work(view, run)?.is_some())
}

impl Op for WorkOff {
    /// Whether there may be more.
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        None
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<bool> {
        let tube = desk.tube(self.tube)?;
        if let Some(met) = work(desk, tube.run())? {
            sweep::step(desk, Work::Release, met)?;
            return Ok(true);
        }
        let (mut left, mut again) = (SWEEP_TASKS, false);
        for what in Deadline::ALL {
            let mut from: Key = key::due_of(tube.run(), what);
            // What is due at exactly this instant is due, so the walk ends behind it.
            let last = key::due(tube.run(), what, hand(desk.now, what), TaskId::new(u64::MAX));
            let end = key::after(&last);
            while left > 0 && desk.count(tube.range(Tag::Due)) > 0 {
                let Some((met, _)) = desk.first(&from, &end)? else { break };
                from = key::after(&met);
                left -= 1;
                let id = key::id_of(&met).ok_or_else(|| damaged("due"))?;
                let when = key::when_of(&met).ok_or_else(|| damaged("due"))?;
                match fall_due(desk, &tube, id, what, when) {
                    Ok(Fell::Due) => {}
                    Ok(Fell::DueAgain) => again = true,
                    Ok(Fell::Nothing) => desk.remove(met),
                    Err(error) if error.kind() == ErrorKind::Damaged => desk.remove(met),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(left == 0 || again)
    }
}

/// What came of a deadline.
enum Fell {
    /// It belongs to nothing any more.
    Nothing,
    Due,
    /// A delay is over, and the task's ttl with it.
    DueAgain,
}

/// Carries out one deadline.
fn fall_due(
    desk: &mut Desk<'_>,
    tube: &Tube,
    id: TaskId,
    what: Deadline,
    when: u64,
) -> Result<Fell> {
    let (stored, standing) = match index::find_due(desk, tube, id, what) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(Fell::Nothing),
        Err(fault) if fault.kind() == ErrorKind::Damaged => {
            match what {
                Deadline::Ttr => aside::stand_in_for_lease(desk, tube, id, &fault)?,
                Deadline::Delay | Deadline::RunAt => {
                    aside::stand_in_for_delay(desk, tube, id, &fault)?
                }
                Deadline::Ttl => false,
            };
            return Ok(Fell::Nothing);
        }
        Err(error) => return Err(error),
    };
    let task = match stored.task() {
        Ok(task) => task,
        Err(fault) => {
            let is_aside = aside::stand_in_for_task(desk, tube, (id, &stored), &standing, &fault)?;
            return Ok(if is_aside { Fell::Due } else { Fell::Nothing });
        }
    };
    // What stands in for a damaged task has not the deadlines that the task had.
    if !index::deadlines(tube, &standing).contains(&(what, when)) {
        return Ok(Fell::Nothing);
    }
    match (what, standing) {
        (Deadline::Delay | Deadline::RunAt, Standing::Delayed(row)) => {
            let mut head = row.head.clone();
            // The life that stood still goes on from the instant that was asked for; a wall
            // instant has no place in queue time, so there it goes on from now.
            let start = if row.wall { desk.now.queue } else { row.due };
            head.expires = start.saturating_add(head.expires);
            let (from, to) = (Standing::Delayed(row), Standing::Ready(head));
            index::shift(desk, tube, &task, Some(&from), Some(&to), Cause::Delay)?;
            if to.head().expires <= desk.now.queue {
                return Ok(Fell::DueAgain);
            }
        }
        (Deadline::Ttl, standing) => {
            index::erase(desk, tube, &task, &standing, Cause::Ttl)?;
        }
        (Deadline::Ttr, Standing::Taken(taken)) => {
            settle::give_back(desk, tube, &task, taken, Cause::Ttr)?;
        }
        _ => return Ok(Fell::Nothing),
    }
    Ok(Fell::Due)
}
