//! Names of tubes, groups, consumers and placements, and callers' keys: UTF-8 without control
//! characters, so that every message and listing can print them. They are checked once, at the call
//! that brings them.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::LABEL_BYTES_MAX;

/// The name, unless it is empty, longer than 255 bytes, or has control characters. `what` says in
/// the message what it names.
pub(crate) fn label<'a>(what: &'static str, name: &'a str) -> Result<&'a str> {
    let fault = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > LABEL_BYTES_MAX {
        format!("has {} bytes", name.len())
    } else if name.chars().any(char::is_control) {
        format!("has a control character: {name:?}")
    } else {
        return Ok(name);
    };
    let rule = format!(
        "{what} {fault}; it takes 1 to {LABEL_BYTES_MAX} bytes of text without control characters"
    );
    Err(Error::new(ErrorKind::Invalid).because(rule))
}

/// Cuts a text to `max` bytes at a character boundary.
pub(crate) fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_both_sides_of_each_limit() {
        let refused = |name: &str| label("tube name", name).is_err();
        assert!(refused(""));
        assert!(!refused("a"));
        assert!(!refused(&"n".repeat(255)));
        assert!(refused(&"n".repeat(256)));
        assert!(!refused("with: any/separator.at|all 日本"));
        assert!(refused("line\nbreak"));
        assert!(refused("nul\0"));
        assert!(refused("\u{85}"), "C1 controls too");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("", 0), "");
    }
}
