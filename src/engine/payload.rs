//! A task's payload: at the end of the task's row, or in pieces if it is long.

use crate::format::Value;
use std::ops::Deref;

/// A payload in memory.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Inside the row that holds it, from this byte on.
    Inline(Value, usize),
    /// Put together from pieces.
    Whole(Vec<u8>),
}

impl Payload {
    /// The bytes, which are copied only if a row holds them.
    #[inline]
    pub(crate) fn into_bytes(self) -> Box<[u8]> {
        match self {
            Self::Inline(..) => Box::from(&*self),
            Self::Whole(payload) => payload.into_boxed_slice(),
        }
    }
}

impl Deref for Payload {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(row, from) => row.get(*from..).unwrap_or_default(),
            Self::Whole(payload) => payload,
        }
    }
}
