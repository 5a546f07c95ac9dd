//! The extension fields of a tube's row that say which gates its tasks need. Of a tube without
//! gates there is none.

use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::clock::{NEVER, micros};
use crate::words::gates::{Gates, Rate};
use crate::words::hours::{Hours, LocalTime};
use crate::words::name::label;
use crate::words::sync::Arc;
use crate::words::zone::Zone;
use std::collections::BTreeSet;
use std::time::Duration;

/// How many of its tasks may be in flight: `u64`, not 0.
const LIMIT_FIELD: u16 = 16;

/// How often its tasks may be taken, see [`rate_field`].
const RATE_FIELD: u16 = 17;

/// When the next task is due by that, in nanoseconds of the queue time: `u64`, not 0. Absent if
/// none was taken.
const PACE_FIELD: u16 = 18;

/// The conditions that must be set, see [`names`]; at least one.
const REQUIRED_FIELD: u16 = 19;

/// The hours in which tasks may be taken, see [`hours_field`].
const HOURS_FIELD: u16 = 20;

/// The throttles of which a taken task holds a slot, see [`names`]; at least one.
const THROTTLES_FIELD: u16 = 21;

/// In the place of the offset from UTC of hours by the clocks of a time zone.
const BY_ZONE: i16 = i16::MIN;

/// The content of the field of hours: `offset: i16`, or [`BY_ZONE`] and the zone's name as
/// `short`, then for each opening `from: u16 · to: u16`.
pub(super) fn hours_field(hours: &Hours) -> Value {
    let mut field = Packer::new();
    match &hours.local {
        LocalTime::Offset(minutes) => field.u16(minutes.cast_unsigned()),
        LocalTime::Zone(zone) => field.u16(BY_ZONE.cast_unsigned()).short(zone.name()),
    };
    for (from, to) in &hours.openings {
        field.u16(*from).u16(*to);
    }
    field.done()
}

pub(super) fn read_hours(field: &[u8]) -> Option<Hours> {
    let mut rest = Unpacker::new(field);
    let local = match rest.u16()?.cast_signed() {
        BY_ZONE => LocalTime::Zone(Zone::stored(rest.short()?)),
        minutes => LocalTime::Offset(minutes),
    };
    let mut openings = Vec::new();
    for _ in 0..rest.rest().len() / 4 {
        openings.push((rest.u16()?, rest.u16()?));
    }
    rest.end(Hours { openings, local }).filter(|hours| hours.check().is_ok())
}

/// Names in their order, each once: `bytes: u8 · name`.
pub(super) fn names(names: &BTreeSet<String>) -> Value {
    let mut packed = Packer::new();
    for name in names {
        packed.u8(name.len() as u8).bytes(name.as_bytes());
    }
    packed.done()
}

pub(super) fn read_names(packed: &[u8]) -> Option<BTreeSet<String>> {
    let (mut rest, mut names) = (packed, BTreeSet::<String>::new());
    while let Some((bytes, more)) = rest.split_first() {
        let (name, more) = more.split_at_checked(usize::from(*bytes))?;
        let name = label("name", std::str::from_utf8(name).ok()?).ok()?;
        // Each set of names has one encoding.
        names.last().is_none_or(|last| &**last < name).then(|| names.insert(name.to_owned()))?;
        rest = more;
    }
    Some(names)
}

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
pub(super) fn write_pace(pace: u128, add: &mut impl FnMut(u16, &[u8])) {
    match u64::try_from(pace) {
        Ok(0) => {}
        Ok(pace) => add(PACE_FIELD, &pace.to_be_bytes()),
        Err(_) => add(PACE_FIELD, &pace.to_be_bytes()),
    }
}

/// The pace of a tube; 0 if it has not begun.
pub(super) fn take_pace(extension: &mut Extension) -> Option<u128> {
    let Some(field) = extension.take(PACE_FIELD) else { return Some(0) };
    let (pace, least) = match *field {
        [_, _, _, _, _, _, _, _] => (u128::from(Unpacker::new(&field).u64()?), 1),
        // One that eight bytes cannot say.
        _ => (u128::from_be_bytes((*field).try_into().ok()?), 1 << 64),
    };
    Some(pace).filter(|pace| *pace >= least)
}

/// Writes the field of each gate.
pub(super) fn write(gates: &Gates, add: &mut impl FnMut(u16, &[u8])) {
    let Gates { limit, rate, required, hours, throttles } = gates;
    if *limit > 0 {
        let mut field = Packer::new();
        field.u64(*limit);
        add(LIMIT_FIELD, &field.done());
    }
    if let Some(rate) = rate {
        add(RATE_FIELD, &rate_field(rate));
    }
    if !required.is_empty() {
        add(REQUIRED_FIELD, &names(required));
    }
    if let Some(hours) = hours {
        add(HOURS_FIELD, &hours_field(hours));
    }
    if !throttles.is_empty() {
        add(THROTTLES_FIELD, &names(throttles));
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
    if let Some(field) = extension.take(REQUIRED_FIELD) {
        gates.required = read_names(&field).filter(|names| !names.is_empty())?;
        gates.check().ok()?;
    }
    if let Some(field) = extension.take(HOURS_FIELD) {
        gates.hours = Some(read_hours(&field)?);
    }
    if let Some(field) = extension.take(THROTTLES_FIELD) {
        gates.throttles = read_names(&field).filter(|names| !names.is_empty())?;
        gates.check().ok()?;
    }
    Some((gates != Gates::default()).then(|| Arc::new(gates)))
}
