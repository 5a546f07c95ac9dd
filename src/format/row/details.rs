//! The details of a tube or a task as the content of an extension field, and how they are read.

use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::limits::{DETAILS_BYTES_MAX, LABEL_BYTES_MAX};

/// The content of the field: for each detail, in the order of their names, `name: short · text:
/// text`. At least one, and at most 4096 bytes.
pub(super) fn encode<'a>(details: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    let mut field = Packer::new();
    for (name, text) in details {
        field.short(name).text(text);
    }
    field.done()
}

/// `None` if this code did not write it.
pub(super) fn decode(field: &[u8]) -> Option<Vec<(&str, &str)>> {
    let (mut rest, mut details) = (Unpacker::new(field), Vec::new());
    if field.is_empty() || field.len() > DETAILS_BYTES_MAX {
        return None;
    }
    while !rest.rest().is_empty() {
        let name = rest.short().filter(|name| !name.is_empty())?;
        if details.last().is_some_and(|(before, _)| *before >= name) {
            return None;
        }
        details.push((name, rest.text()?));
    }
    Some(details)
}

/// The name of a book in a field.
pub(super) fn read_book(field: &[u8]) -> Option<&str> {
    let book = std::str::from_utf8(field).ok()?;
    (1..=LABEL_BYTES_MAX).contains(&book.len()).then_some(book)
}
