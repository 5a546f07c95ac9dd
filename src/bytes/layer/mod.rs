//! Row writes in key order, and how they look over what lies beneath them: for the write set of one
//! op, for the layers since the last checkpoint, and for temporary tubes. No I/O.

pub(crate) mod steps;
pub(crate) mod leaf_map;
#[expect(clippy::module_inception, reason = "the room is named after what it holds")]
pub(crate) mod layer;
pub(crate) mod dead_ranges;
pub(crate) mod cursor;
pub(crate) mod write_set;

use super::key::Tag;
pub(crate) use cursor::Merged;
pub(crate) use dead_ranges::DeadRanges;
pub(crate) use layer::Layer;
pub(crate) use write_set::WriteSet;

/// Every tag is smaller.
#[expect(clippy::indexing_slicing, reason = "done by the compiler")]
pub(crate) const TAGS: usize = {
    let (mut at, mut tags) = (0, 0);
    while at < Tag::ALL.len() {
        if Tag::ALL[at] as usize >= tags {
            tags = Tag::ALL[at] as usize + 1;
        }
        at += 1;
    }
    tags
};

#[cfg(test)]
mod tests;
