//! The extension fields of a tube's row that say which gates its tasks need. Of a tube without
//! gates there is none.

use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::clock::{NEVER, micros};
use crate::words::gates::{Gates, Rate};
use crate::words::sync::Arc;
use std::time::Duration;

/// How many of its tasks may be in flight: `u64`, not 0.
const LIMIT_FIELD: u16 = 16;

/// How often its tasks may be taken, see [`rate_field`].
const RATE_FIELD: u16 = 17;

/// When the next task is due by that, in nanoseconds of the queue time: `u64`, not 0. Absent if
/// none was taken.
const PACE_FIELD: u16 = 18;

/// The content of that field: `per: u64 · tasks: u32 · burst: u32`.
pub(super) fn rate_field(rate: &Rate) -> Value {
    let mut field = Packer::new();
    field.u64(micros(rate.per)).u32(rate.tasks).u32(rate.burst);
    field.done()
}

pub(super) fn read_rate(field: &[u8]) -> Option<Rate> {
    let mut rest = Unpacker::new(field);
    let per = Duration::from_micros(rest.u64().filter(|per| *per != NEVER)?);
    let rate = Rate { per, tasks: rest.u32()?, burst: rest.u32()? };
    rest.end(rate).filter(|rate| rate.check().is_ok())
}

/// Writes the pace of a tube that has begun.
pub(super) fn write_pace(pace: u64, add: &mut impl FnMut(u16, &[u8])) {
    if pace > 0 {
        add(PACE_FIELD, &pace.to_be_bytes());
    }
}

/// The pace of a tube; 0 if it has not begun.
pub(super) fn take_pace(extension: &mut Extension) -> Option<u64> {
    let Some(field) = extension.take(PACE_FIELD) else { return Some(0) };
    let mut rest = Unpacker::new(&field);
    let pace = rest.u64().filter(|pace| *pace > 0)?;
    rest.end(pace)
}

/// Writes the field of each gate.
pub(super) fn write(gates: &Gates, add: &mut impl FnMut(u16, &[u8])) {
    let Gates { limit, rate } = gates;
    if *limit > 0 {
        let mut field = Packer::new();
        field.u64(*limit);
        add(LIMIT_FIELD, &field.done());
    }
    if let Some(rate) = rate {
        add(RATE_FIELD, &rate_field(rate));
    }
}

/// Takes the fields out of the section. `None` for what this code has not written.
#[expect(clippy::option_option, reason = "of what is read, there may be none")]
pub(super) fn read(extension: &mut Extension) -> Option<Option<Arc<Gates>>> {
    let mut gates = Gates::default();
    if let Some(field) = extension.take(LIMIT_FIELD) {
        let mut rest = Unpacker::new(&field);
        gates.limit = rest.u64().filter(|limit| *limit > 0)?;
        rest.end(())?;
    }
    if let Some(field) = extension.take(RATE_FIELD) {
        gates.rate = Some(read_rate(&field)?);
    }
    Some((gates != Gates::default()).then(|| Arc::new(gates)))
}
