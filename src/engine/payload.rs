//! A task's payload: at the end of the task's row, or in pieces if it is long.

use crate::engine::pieces::{self, Owner};
use crate::format::piece::Pieces;
use crate::format::{Value, View};
use crate::words::error::Result;
use std::ops::Deref;

/// Payloads up to this many bytes stand in the task's own row. With the longest key, group and
/// place it fits a page of 4 KiB, redb's smallest; a longer one would have a page of its own that
/// is rounded up to a power of two.
const INLINE_BYTES_MAX: usize = 3500;

/// Whether a payload stands in the task's own row.
#[inline(always)]
pub(crate) fn is_inline(payload: &[u8]) -> bool {
    payload.len() <= INLINE_BYTES_MAX
}

/// A payload as it was found with the task's row.
#[derive(Debug)]
pub(crate) enum StoredPayload {
    /// In memory.
    Read(Payload),
    /// In pieces that were not read.
    Separate(Box<(Owner, Pieces)>),
}

impl StoredPayload {
    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Read(payload) => payload.len(),
            Self::Separate(apart) => apart.1.bytes as usize,
        }
    }

    /// Reads the pieces, if that was not done.
    ///
    /// # Errors
    /// `Damaged` if a piece is damaged or missing.
    #[inline]
    pub(crate) fn read(self, view: &dyn View) -> Result<Payload> {
        match self {
            Self::Read(payload) => Ok(payload),
            Self::Separate(apart) => pieces::read(view, apart.0, &apart.1).map(Payload::Whole),
        }
    }

    /// Reads the pieces if they have no more bytes than are left, and subtracts them.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[inline(always)]
    pub(crate) fn read_if_short(&mut self, view: &dyn View, bytes_left: &mut usize) -> Result<()> {
        let Self::Separate(apart) = self else { return Ok(()) };
        let (owner, pieces) = &**apart;
        let Some(left) = bytes_left.checked_sub(pieces.bytes as usize) else { return Ok(()) };
        *bytes_left = left;
        *self = Self::Read(Payload::Whole(pieces::read(view, *owner, pieces)?));
        Ok(())
    }
}

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
