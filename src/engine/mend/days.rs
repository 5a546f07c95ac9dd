//! Mends the rows of days of statistics.

use super::{Mended, done};
use crate::engine::context::{OpContext, sound};
use crate::format::View;
use crate::format::key::{self, Key};
use crate::format::row::{DayEntry, DayItem, DayRow};
use crate::words::statistics::DAY;

/// Makes the row of a day again. Its numbers are lost.
pub(super) fn begin_again(ctx: &mut OpContext<'_>, key: &Key) -> Mended {
    let Some((run, day)) = key::of_day(key) else { return Ok(None) };
    let begins = u64::from(day).saturating_mul(DAY);
    let row = sound(ctx.get(key))?.flatten().as_deref().and_then(DayRow::decode);
    // It is another row by now.
    if row.is_some_and(|row| row.begun / DAY == u64::from(day)) {
        return Ok(None);
    }
    ctx.decision.rows.days.push(DayEntry { tube: 0, run, day, item: DayItem::Begun });
    ctx.set(key::copy(key), DayRow::new(begins).encode())?;
    done("the row was made again")
}
