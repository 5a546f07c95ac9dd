//! The keys of the rows of settings, of a tube or of the queue.

use super::{Key, Tag, tagged};

/// The beginning of the keys of the settings of a tube, or with 0 of the queue.
pub(crate) fn settings_of(tube: u32) -> Key {
    tagged(Tag::Setting, &tube.to_be_bytes())
}

pub(crate) fn setting(tube: u32, name: &str) -> Key {
    let mut key = settings_of(tube);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The tube and the name in a key of [`setting`].
pub(crate) fn of_setting(key: &[u8]) -> Option<(u32, &str)> {
    let (number, name) = key.get(1..)?.split_first_chunk()?;
    Some((u32::from_be_bytes(*number), std::str::from_utf8(name).ok()?))
}
