//! A payload that a verb on a task brings. A plain value: the engine decides where it stands.

use crate::words::error::{Error, ErrorKind, Result};
use std::fmt;

/// Refuses a payload of more bytes than the limit.
pub(crate) fn fits(bytes: usize, most: usize) -> Result<()> {
    if bytes <= most {
        return Ok(());
    }
    let text = format!("{bytes} bytes, the limit is {most}");
    Err(Error::new(ErrorKind::TooLarge).because(text))
}

/// A new payload for a task: bytes, or what
/// [`Tube::encode`](crate::Tube::encode) has made of a value. For
/// [`Task::with_payload`](crate::Task::with_payload) and
/// [`MoveTask::payload`](crate::MoveTask::payload).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NewPayload<'a> {
    pub(crate) bytes: &'a [u8],
    /// Number and version of the codec; `None` for a task that has none.
    pub(crate) codec: Option<(u8, u16)>,
}

impl<'a> From<&'a [u8]> for NewPayload<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, codec: None }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for NewPayload<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::from(bytes.as_slice())
    }
}

impl<'a> From<&'a Vec<u8>> for NewPayload<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::from(bytes.as_slice())
    }
}

/// A value that a tube's codec has encoded, from [`Tube::encode`](crate::Tube::encode).
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) codec: (u8, u16),
}

impl<'a> From<&'a Encoded> for NewPayload<'a> {
    fn from(encoded: &'a Encoded) -> Self {
        Self { bytes: &encoded.bytes, codec: Some(encoded.codec) }
    }
}

impl fmt::Debug for NewPayload<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewPayload").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoded").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}
