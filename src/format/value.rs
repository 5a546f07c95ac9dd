//! A row's value. Small ones are cut from a piece of memory that the next ones share: a layer of
//! the overlay is let go by another thread than the one that made its values, and with one
//! allocation each, the two met at the allocator's lock for as long as that took.

use crate::words::sync::thread_local;
use bytes::{Bytes, BytesMut};
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

thread_local! {
    /// What the next value is cut from.
    static PIECE: Cell<Option<BytesMut>> = const { Cell::new(None) };
}

/// Bytes of a piece. One value that stays keeps all of it.
const PIECE_BYTES: usize = 32 << 10;
/// Larger values have their own memory.
const CUT_BYTES_MAX: usize = 4 << 10;

/// The bytes of a row. Shared, so that handing it on copies nothing.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Value(Bytes);

impl Value {
    /// These bytes in memory of their own, for a value that stays while its neighbours go.
    pub(crate) fn alone(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }

    /// Its bytes, without a copy if it has memory of its own that none else has.
    pub(crate) fn into_vec(self) -> Vec<u8> {
        if self.0.len() > CUT_BYTES_MAX { self.0.into() } else { self.0.to_vec() }
    }
}

/// Memory for the next value of this thread, with room for so many bytes.
#[inline]
pub(super) fn piece(room: usize) -> BytesMut {
    let mut piece = PIECE.try_with(Cell::take).ok().flatten().unwrap_or_default();
    if piece.capacity() < room {
        piece.reserve(PIECE_BYTES.max(room));
    }
    piece
}

/// Makes a value of what is in the piece; what is left of it is for the next.
#[inline]
pub(super) fn cut(mut piece: BytesMut) -> Value {
    if piece.len() > CUT_BYTES_MAX {
        return Value(piece.freeze());
    }
    let value = Value(piece.split().freeze());
    let _ = PIECE.try_with(|kept| kept.set(Some(piece)));
    value
}

impl From<&[u8]> for Value {
    #[inline]
    fn from(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self(Bytes::new());
        }
        if bytes.len() > CUT_BYTES_MAX {
            return Self::alone(bytes);
        }
        let mut piece = piece(bytes.len());
        piece.extend_from_slice(bytes);
        cut(piece)
    }
}

impl<const BYTES: usize> From<[u8; BYTES]> for Value {
    #[inline]
    fn from(bytes: [u8; BYTES]) -> Self {
        Self::from(bytes.as_slice())
    }
}

impl Deref for Value {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_piece_and_large_or_lone_values_do_not() {
        let values: Vec<Value> = (0..200_u8).map(|byte| Value::from([byte; 300])).collect();
        let ends = |value: &Value| value.as_ptr() as usize;
        let near = values.windows(2).filter(|pair| ends(&pair[1]) == ends(&pair[0]) + 300).count();
        assert!(near > 190, "{near}");
        for (byte, value) in (0..).zip(&values) {
            assert_eq!(**value, [byte; 300]);
            assert_eq!(Value::alone(value), *value);
            assert_ne!(ends(&Value::alone(value)), ends(value));
        }
        let large = Value::from(vec![7; CUT_BYTES_MAX + 1].as_slice());
        assert_eq!(*large, [7; CUT_BYTES_MAX + 1]);
        assert!(Value::from([]).is_empty());
    }

    /// A piece whose values are all gone is written anew, so that tasks that come and go allocate
    /// nothing.
    #[test]
    fn a_piece_that_nobody_holds_is_used_again() {
        let at = |value: Value| value.as_ptr() as usize;
        let first = at(Value::from([1; 1000]));
        let span = (0..1000).map(|_| at(Value::from([2; 1000])).abs_diff(first)).max();
        assert!(span < Some(2 * PIECE_BYTES), "{span:?}");
    }
}
