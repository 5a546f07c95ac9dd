//! Rows as bytes: keys that sort in the order of the queue's scans, values with a fixed big-endian
//! layout, and the two interfaces between the engine and the store, [`RowOp`] and [`View`]. No I/O.
//! Decoding does not panic on any bytes.

pub(crate) mod hash;
pub(crate) mod pack;
pub(crate) mod extension;
pub(crate) mod feature;
pub(crate) mod key;
pub(crate) mod piece;
pub(crate) mod row;
pub(crate) mod view;
pub(crate) mod layer;

pub(crate) use hash::NumberHash;
pub(crate) use key::{Deadline, Range, Tag};
pub(crate) use pack::Value;
pub(crate) use view::{Met, RowOp, Scan, View};

/// The version of all that the two files hold. A folder with a higher version is refused and not
/// changed; every lower version can be opened: `tests/golden` has folders of each. So a change of
/// any written byte, by this crate or by redb in its own format, needs a new version here, and the
/// code that reads the old one stays.
pub(crate) const FORMAT: u32 = 1;
