//! Tags: short texts by which an application finds tasks again, whatever their tubes. Plain values.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{TAGS_BYTES_MAX, TAGS_GIVEN_MAX, TAGS_MAX};
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

/// Refuses tags that are no names, and more of a task than it may have. One that is given twice is
/// one tag.
pub(crate) fn check(tags: &[&str]) -> Result<()> {
    check_given(tags)?;
    let (mut seen, mut bytes): (Vec<&str>, usize) = (Vec::new(), 0);
    for tag in tags {
        label("tag", tag)?;
        if seen.contains(tag) {
            continue;
        }
        seen.push(tag);
        bytes += tag.len();
        if seen.len() > TAGS_MAX || bytes > TAGS_BYTES_MAX {
            let text =
                format!("a task takes at most {TAGS_MAX} tags, of {TAGS_BYTES_MAX} bytes together");
            return Err(Error::new(ErrorKind::TooLarge).because(text));
        }
    }
    Ok(())
}

/// Refuses more tags in one call than are looked through.
pub(crate) fn check_given(tags: &[&str]) -> Result<()> {
    if tags.len() <= TAGS_GIVEN_MAX {
        return Ok(());
    }
    let text = format!("one call takes at most {TAGS_GIVEN_MAX} tags; give the rest in another");
    Err(Error::new(ErrorKind::TooLarge).because(text))
}
