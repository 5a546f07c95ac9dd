//! Schedules whose next fire was looked for by a wall clock that was wrong: they begin at the first
//! fire after now. If fewer than two fires would come before it, it waits: none comes twice.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::schedules;
use crate::engine::timing::{self, FireTimes};
use crate::format::key::{self, FireClock, Key, Range};
use crate::format::row::{FiringRow, ScheduleRow};
use crate::format::{Scan, Tag};
use crate::words::error::Result;
use crate::words::limits::SCHEDULES_OF_STEP;

/// Moves the next fire of a schedule that has fired.
pub(crate) fn set_back(
    ctx: &OpContext<'_>,
    row: &ScheduleRow,
    (times, firing): (&FireTimes, &mut FiringRow),
) {
    let now = timing::now_of(&row.timing, ctx.now);
    if !firing.is_fresh
        && let Some(next) = times.set_back(firing.next, now)
    {
        (firing.next, firing.gap) = (next, None);
    }
}

/// The same of all schedules, some in a step, at the opening.
pub(crate) struct SetBack {
    /// The fire to begin with.
    pub(crate) from: Key,
}

impl Op for SetBack {
    /// Where to go on; `None` at the end.
    type Done = Option<Key>;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Option<Key>> {
        let mut rows = Scan::over(Range::of(Tag::Fire));
        rows.skip_to(key::copy(&self.from));
        for _ in 0..SCHEDULES_OF_STEP {
            let Some((met, _)) = rows.next(ctx)? else { return Ok(None) };
            let Some((tube, clock, when, name)) = key::of_fire(&met) else { continue };
            if clock == FireClock::Queue {
                rows.skip_to(key::end_of(&key::fires_by(tube, clock)));
            } else if when > ctx.now.wall {
                of_one(ctx, name)?;
            }
        }
        Ok(rows.next(ctx)?.map(|(met, _)| met))
    }
}

fn of_one(ctx: &mut OpContext<'_>, name: &str) -> Result<()> {
    // What is damaged is left, and a text that cannot be read is met when it is due.
    let Some(before) = sound(schedules::find(ctx, name))?.flatten() else { return Ok(()) };
    let Ok(times) = FireTimes::of(&before.row.timing) else { return Ok(()) };
    let mut after = before.clone();
    set_back(ctx, &before.row, (&times, &mut after.firing));
    if after == before { Ok(()) } else { schedules::write(ctx, name, Some(&before), &after) }
}
