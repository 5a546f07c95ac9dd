//! A task's payload: at the end of the task's row, or in pieces if it is long.

use crate::engine::pieces;
use crate::format::key::Run;
use crate::format::row::PayloadPlace;
use crate::format::{Value, View};
use crate::words::error::Result;
use crate::words::task::TaskId;
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
    /// Reads the payload of a task whose own row is `row`, from that row or from its pieces.
    ///
    /// # Errors
    /// `Damaged` if a piece is damaged or missing.
    #[inline]
    pub(crate) fn read(
        view: &dyn View,
        run: Run,
        id: TaskId,
        row: &Value,
        place: PayloadPlace<'_>,
    ) -> Result<Self> {
        match place {
            PayloadPlace::Inline(payload) => {
                Ok(Self::Inline(row.clone(), row.len() - payload.len()))
            }
            PayloadPlace::Apart(pieces) => pieces::read(view, (run, id), &pieces).map(Self::Whole),
        }
    }

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
