//! A row's value. Small values share pieces of 32 KiB: a layer is often dropped by another thread
//! than the one that made its values, and with one allocation each, both threads contended for the
//! allocator's lock for as long as the drop took.

use crate::words::sync::{LocalKey, thread_local};
use bytes::{Bytes, BytesMut};
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

/// The piece that the next value is cut from.
pub(super) type Piece = Cell<Option<BytesMut>>;

thread_local! {
    /// Of rows that an op writes.
    pub(super) static WRITTEN: Piece = const { Cell::new(None) };
    /// Of rows that were read from the base. They are dropped long before a written row is: in
    /// common pieces, 280 000 resumed leases kept 27 MiB of rows that had been read.
    static READ: Piece = const { Cell::new(None) };
}

/// Bytes of a piece. One live value keeps the whole piece allocated.
const PIECE_BYTES: usize = 32 << 10;
/// Larger values get their own memory.
const CUT_BYTES_MAX: usize = 4 << 10;

/// The bytes of a row. Reference-counted, so that a clone copies nothing.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Value(Bytes);

impl Value {
    /// A row that was read from the base.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Self {
        Self::copied(bytes, &READ)
    }

    #[inline]
    fn copied(bytes: &[u8], kept: &'static LocalKey<Piece>) -> Self {
        if bytes.is_empty() {
            return Self(Bytes::new());
        }
        if bytes.len() > CUT_BYTES_MAX {
            return Self::alone(bytes);
        }
        let mut piece = piece(bytes.len(), kept);
        piece.extend_from_slice(bytes);
        cut(piece, kept)
    }

    /// The bytes in memory of their own, for a value that outlives its neighbours.
    pub(crate) fn alone(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
}

/// Memory for the next value of this thread, with space for `room` bytes.
#[inline]
pub(super) fn piece(room: usize, kept: &'static LocalKey<Piece>) -> BytesMut {
    let mut piece = kept.try_with(Cell::take).ok().flatten().unwrap_or_default();
    if piece.capacity() < room {
        piece.reserve(PIECE_BYTES.max(room));
    }
    piece
}

/// Makes a value of the bytes in the piece. The rest of the piece is for the next value.
#[inline]
pub(super) fn cut(mut piece: BytesMut, kept: &'static LocalKey<Piece>) -> Value {
    if piece.len() > CUT_BYTES_MAX {
        return Value(piece.freeze());
    }
    let value = Value(piece.split().freeze());
    let _ = kept.try_with(|kept| kept.set(Some(piece)));
    value
}

impl From<&[u8]> for Value {
    #[inline]
    fn from(bytes: &[u8]) -> Self {
        Self::copied(bytes, &WRITTEN)
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

    /// Regression: each written row kept the rows alive that were read just before it.
    #[test]
    fn a_written_row_keeps_no_rows_that_were_read() {
        let written: Vec<Value> = (0..100_u8)
            .map(|byte| {
                drop(Value::read(&[byte; 1000]));
                Value::from([byte; 10])
            })
            .collect();
        let ends = |value: &Value| value.as_ptr() as usize;
        let near = written.windows(2).filter(|pair| ends(&pair[1]) == ends(&pair[0]) + 10).count();
        assert!(near > 95, "{near}");
    }

    /// A piece whose values were all dropped is reused, so that tasks that are put and acked
    /// allocate nothing.
    #[test]
    fn a_piece_without_values_is_reused() {
        let at = |value: Value| value.as_ptr() as usize;
        let first = at(Value::from([1; 1000]));
        let span = (0..1000).map(|_| at(Value::from([2; 1000])).abs_diff(first)).max();
        assert!(span < Some(2 * PIECE_BYTES), "{span:?}");
    }
}
