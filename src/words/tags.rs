//! Tags: short texts by which an application finds tasks again, whatever their tubes. Plain values.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{TAGS_BYTES_MAX, TAGS_MAX};
use crate::words::name::label;

/// A tag, and how many tasks have it; from [`Queue::top_tags`](crate::Queue::top_tags).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// How many tasks have it, of all tubes and in every state.
    pub tasks: u64,
}

/// Refuses tags that are no names, and more of a task than it may have.
pub(crate) fn check<'a>(tags: impl Iterator<Item = &'a str>) -> Result<()> {
    let (mut count, mut bytes) = (0_usize, 0_usize);
    for tag in tags {
        label("tag", tag)?;
        (count, bytes) = (count + 1, bytes.saturating_add(tag.len()));
    }
    if count <= TAGS_MAX && bytes <= TAGS_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "{count} tags of {bytes} bytes; a task takes at most {TAGS_MAX}, of {TAGS_BYTES_MAX} bytes \
         together"
    );
    Err(Error::new(ErrorKind::TooLarge).because(text))
}
