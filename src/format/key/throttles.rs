//! The keys of throttles, and of the slots that taken tasks hold of them.

use super::{Key, RUN_PREFIX, Run, Tag, numbers, tagged};
use crate::words::task::TaskId;

/// The key of a throttle.
pub(crate) fn throttle(name: &str) -> Key {
    tagged(Tag::Throttle, name.as_bytes())
}

/// The name in a key of [`throttle`].
pub(crate) fn of_throttle(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(1..)?).ok()
}

/// The key of the slot of a throttle that a task holds, with the number of its tube.
pub(crate) fn slot(run: Run, id: TaskId, tube: u32) -> Key {
    numbers(Tag::Slot, run, [id.get(), u64::from(tube)])
}

/// The beginning of the key of the slot that a task holds in any tube.
pub(crate) fn slots_of(run: Run, id: TaskId) -> Key {
    numbers(Tag::Slot, run, [id.get()])
}

/// The task and the number of its tube in a key of [`slot`].
pub(crate) fn of_slot(key: &[u8]) -> Option<(TaskId, u32)> {
    let (id, rest) = key.get(RUN_PREFIX..)?.split_first_chunk()?;
    let tube = u64::from_be_bytes(rest.try_into().ok()?);
    Some((TaskId::new(u64::from_be_bytes(*id)), u32::try_from(tube).ok()?))
}
