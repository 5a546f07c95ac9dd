//! What an application says of a tube or a task beside the payload: a few named texts, and the book
//! in which it keeps the rest.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::DETAILS_BYTES_MAX;
use crate::words::name::label;
use std::collections::BTreeMap;

/// Named texts, by name.
pub(crate) type Details = BTreeMap<String, String>;

/// Refuses names that are no names, and texts that are too long together.
pub(crate) fn check<'a>(
    book: Option<&str>,
    details: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<()> {
    book.map_or(Ok(""), |book| label("book", book))?;
    let mut bytes = 0_usize;
    for (name, text) in details {
        label("name of a detail", name)?;
        bytes = bytes.saturating_add(stored_bytes(name, text));
    }
    if bytes <= DETAILS_BYTES_MAX {
        return Ok(());
    }
    let text = format!("the details have {bytes} bytes, the limit is {DETAILS_BYTES_MAX}");
    Err(Error::new(ErrorKind::TooLarge).because(text))
}

/// Bytes of a detail as it is stored: both texts and their lengths.
fn stored_bytes(name: &str, text: &str) -> usize {
    (name.len() + 3).saturating_add(text.len())
}
