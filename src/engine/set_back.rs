//! Schedules whose next fire is far ahead of the wall clock. Either the clock was ahead when it was
//! looked for, or the clock is behind now. So they fire from now on, and the fire that they had is
//! kept: if the clock comes back to it they go on there, and make up for nothing.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::schedules;
use crate::engine::timing::{self, FireTimes};
use crate::format::key::{self, FireClock, Key, Range};
use crate::format::row::{FiringRow, ScheduleRow};
use crate::format::{Scan, Tag};
use crate::words::clock::{NEVER, micros};
use crate::words::error::Result;
use crate::words::limits::{FIRE_AHEAD_MAX, SCHEDULES_OF_STEP};

/// Looks again for the next fire of a schedule.
pub(crate) fn set_back(
    ctx: &OpContext<'_>,
    row: &ScheduleRow,
    (times, firing): (&FireTimes, &mut FiringRow),
) {
    let now = timing::now_of(&row.timing, ctx.now);
    go_ahead(firing, times, now);
    let offset = if firing.is_fresh { row.offset } else { 0 };
    if let Some(next) = times.before(firing.next, offset, now) {
        // Of two that are ahead, the farther one: the clock may be behind more than once.
        firing.ahead = firing.ahead.max(Some(firing.next));
        (firing.next, firing.gap) = (next, None);
    }
}

/// Goes on with the fire that a schedule had, once the clock is nearer to it than to the next one.
/// The clock was behind then, and makes up for nothing. It may be set in more than one step.
pub(crate) fn go_ahead(firing: &mut FiringRow, times: &FireTimes, now: u64) {
    let Some(ahead) = firing.ahead else { return };
    if ahead <= firing.next {
        firing.ahead = None;
    } else if now.saturating_sub(firing.next) > ahead.saturating_sub(now) {
        match times.before(ahead, 0, now) {
            Some(next) => firing.next = next,
            None => (firing.next, firing.ahead) = (ahead, None),
        }
        firing.gap = None;
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
            let far = ctx.now.wall.saturating_add(micros(FIRE_AHEAD_MAX));
            if clock == FireClock::Queue || when == NEVER {
                rows.skip_to(key::end_of(&key::fires_by(tube, clock)));
            } else if when <= far {
                rows.skip_to(key::fire(tube, clock, far.saturating_add(1), ""));
            } else {
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
