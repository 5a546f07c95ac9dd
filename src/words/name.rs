//! Names of tubes, and the labels of groups, keys and consumers: UTF-8 without control characters,
//! so that every message and listing can print them. Checked once, when the caller gives them.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{LABEL_BYTES_MAX, NAME_BYTES_MAX};

/// Refuses a tube's name that is empty, longer than 255 bytes, or has control characters.
pub(crate) fn tube_name(name: &str) -> Result<&str> {
    text("tube name", name, 1, NAME_BYTES_MAX)
}

/// Refuses the name of a group or consumer, or a caller's key, by the same rules.
pub(crate) fn label<'a>(what: &'static str, label: &'a str) -> Result<&'a str> {
    text(what, label, 1, LABEL_BYTES_MAX)
}

fn text<'a>(what: &'static str, text: &'a str, min: usize, max: usize) -> Result<&'a str> {
    let fault = if text.len() < min {
        "is empty".to_owned()
    } else if text.len() > max {
        format!("has {} bytes", text.len())
    } else if text.chars().any(char::is_control) {
        format!("has a control character: {text:?}")
    } else {
        return Ok(text);
    };
    let rule =
        format!("{what} {fault}; it takes {min} to {max} bytes of text without control characters");
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
        assert!(tube_name("").is_err());
        assert!(tube_name("a").is_ok());
        assert!(tube_name(&"n".repeat(255)).is_ok());
        assert!(tube_name(&"n".repeat(256)).is_err());
        assert!(tube_name("with: any/separator.at|all 日本").is_ok());
        assert!(tube_name("line\nbreak").is_err());
        assert!(tube_name("nul\0").is_err());
        assert!(tube_name("\u{85}").is_err(), "C1 controls too");
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("", 0), "");
    }
}
