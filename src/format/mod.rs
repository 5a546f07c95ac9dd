//! Rows as bytes: keys that sort as the queue wants to walk them, values of fixed big-endian
//! layout, and the two seams between the engine and the store, [`RowOp`] and [`View`]. No I/O.
//! No byte string makes decoding panic.

pub(crate) mod hash;
pub(crate) mod value;
pub(crate) mod pack;
pub(crate) mod extension;
pub(crate) mod key;
pub(crate) mod piece;
pub(crate) mod row;
pub(crate) mod view;
pub(crate) mod layer;

pub(crate) use hash::NumberHash;
pub(crate) use key::{Deadline, Range, Tag};
pub(crate) use value::Value;
pub(crate) use view::{Met, RowOp, Scan, View};

/// The version of everything in the two files. A folder with a higher one is refused untouched; one
/// with a lower one is opened, for ever: `tests/golden` has folders of each. So a change of any
/// byte that is written, by us or by redb in its own format, is a new one here, and what reads the
/// old one stays.
pub(crate) const FORMAT: u32 = 1;
