//! Row writes in key order, merged with the rows below them: for the write set of one op, for the
//! layers since the last checkpoint, and for temporary tubes. No I/O.

pub(crate) mod steps;
pub(crate) mod leaf_map;
#[expect(clippy::module_inception, reason = "the room is named after what it holds")]
pub(crate) mod layer;
pub(crate) mod dead_ranges;
pub(crate) mod cursor;
pub(crate) mod write_set;

pub(crate) use cursor::MergeCursor;
pub(crate) use dead_ranges::{DeadRanges, DeadRangesOf};
pub(crate) use layer::{Layer, fold};
pub(crate) use write_set::WriteSet;

#[cfg(test)]
mod tests;
