//! The keys of the rows with the statistics of days, under the run of their tube.

use super::{Key, Run, Tag, in_run};

pub(crate) fn day(run: Run, day: u32) -> Key {
    let mut key = in_run(Tag::Day, run);
    key.extend_from_slice(&day.to_be_bytes());
    key
}

/// The run and the day in a key of [`day`].
pub(crate) fn of_day(key: &[u8]) -> Option<(Run, u32)> {
    let (run, day) = key.strip_prefix(&[Tag::Day as u8])?.split_first_chunk()?;
    Some((Run(u32::from_be_bytes(*run)), u32::from_be_bytes(day.try_into().ok()?)))
}
