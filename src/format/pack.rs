//! A row's value, and the fixed big-endian fields that it is made of. Reading after the end returns
//! `None`.
//!
//! Small values share pieces of 32 KiB: a layer is often dropped by another thread than the one
//! that made its values, and with one allocation each, both threads contended for the allocator's
//! lock for as long as the drop took.

use crate::words::sync::{LocalKey, thread_local};
use bytes::{Bytes, BytesMut};
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

/// The piece that the next value is cut from.
type Piece = Cell<Option<BytesMut>>;

thread_local! {
    /// Of rows that an op writes.
    static WRITTEN: Piece = const { Cell::new(None) };
    /// Of rows that were read from the base. They are dropped long before a written row is: in
    /// common pieces, 280 000 resumed leases kept 27 MiB of rows that had been read.
    static READ: Piece = const { Cell::new(None) };
}

/// Bytes of a piece. One live value keeps the whole piece allocated.
const PIECE_BYTES: usize = 32 << 10;
/// Larger values get their own memory.
const CUT_BYTES_MAX: usize = 4 << 10;
/// Most rows are shorter. A longer one is moved once while it is packed.
const ROW_BYTES: usize = 768;

/// The bytes of a row. Reference-counted, so that a clone copies nothing.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Value(Bytes);

impl Value {
    /// The value of a row whose key says everything.
    pub(crate) const EMPTY: Self = Self(Bytes::new());

    /// A row that was read from the base.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Self {
        Self::copied(bytes, &READ)
    }

    #[inline]
    fn copied(bytes: &[u8], kept: &'static LocalKey<Piece>) -> Self {
        if bytes.is_empty() {
            return Self::EMPTY;
        }
        if bytes.len() > CUT_BYTES_MAX {
            return Self::alone(bytes);
        }
        let mut value = Packer::with(bytes.len(), kept);
        value.bytes(bytes);
        value.done()
    }

    /// The bytes in memory of their own, for a value that outlives its neighbours.
    pub(crate) fn alone(bytes: &[u8]) -> Self {
        Self(Bytes::copy_from_slice(bytes))
    }
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

/// Bits as a byte, the first as the lowest.
#[inline]
pub(crate) fn flags<const COUNT: usize>(bits: [bool; COUNT]) -> u8 {
    bits.into_iter().rev().fold(0, |flags, bit| flags << 1 | u8::from(bit))
}

/// The bits of a byte, the lowest first.
#[inline]
pub(crate) fn bits(flags: u8) -> [bool; 8] {
    std::array::from_fn(|bit| flags & 1 << bit != 0)
}

/// Collects the fields of a row.
pub(crate) struct Packer {
    bytes: BytesMut,
    /// Where the rest of the piece is kept for the next value of this thread.
    kept: &'static LocalKey<Piece>,
}

impl Packer {
    #[inline]
    pub(crate) fn new() -> Self {
        Self::with(ROW_BYTES, &WRITTEN)
    }

    /// With space for `room` bytes.
    #[inline]
    fn with(room: usize, kept: &'static LocalKey<Piece>) -> Self {
        let mut bytes = kept.try_with(Cell::take).ok().flatten().unwrap_or_default();
        if bytes.capacity() < room {
            bytes.reserve(PIECE_BYTES.max(room));
        }
        Self { bytes, kept }
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: u8) -> &mut Self {
        self.bytes(&[field])
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: u16) -> &mut Self {
        self.bytes(&field.to_be_bytes())
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: u32) -> &mut Self {
        self.bytes(&field.to_be_bytes())
    }

    #[inline]
    pub(crate) fn u64(&mut self, field: u64) -> &mut Self {
        self.bytes(&field.to_be_bytes())
    }

    /// Several numbers; reserves their space once.
    #[inline]
    pub(crate) fn u32s<const COUNT: usize>(&mut self, fields: [u32; COUNT]) -> &mut Self {
        self.bytes(fields.map(u32::to_be_bytes).as_flattened())
    }

    #[inline]
    pub(crate) fn bytes(&mut self, field: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(field);
        self
    }

    /// One byte of length, then at most 255 bytes.
    #[inline]
    pub(crate) fn short(&mut self, field: &str) -> &mut Self {
        debug_assert!(field.len() <= usize::from(u8::MAX));
        self.u8(field.len() as u8).bytes(field.as_bytes())
    }

    /// Two bytes of length, then at most 65 535 bytes.
    #[inline]
    pub(crate) fn text(&mut self, field: &str) -> &mut Self {
        debug_assert!(field.len() <= usize::from(u16::MAX));
        self.u16(field.len() as u16).bytes(field.as_bytes())
    }

    /// Makes a value of the bytes. The rest of the piece is for the next value.
    #[inline]
    pub(crate) fn done(mut self) -> Value {
        if self.bytes.len() > CUT_BYTES_MAX {
            return Value(self.bytes.freeze());
        }
        let value = Value(self.bytes.split().freeze());
        let _ = self.kept.try_with(|kept| kept.set(Some(self.bytes)));
        value
    }
}

/// Reads the fields of a row in order.
pub(crate) struct Unpacker<'a>(&'a [u8]);

impl<'a> Unpacker<'a> {
    #[inline]
    pub(crate) fn new(row: &'a [u8]) -> Self {
        Self(row)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(field)
    }

    /// The next bytes as a reader of their own, so that the length is checked once.
    #[inline]
    pub(crate) fn part(&mut self, count: usize) -> Option<Self> {
        self.bytes(count).map(Self)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes(2)?.try_into().ok()?))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.bytes(8)?.try_into().ok()?))
    }

    #[inline]
    pub(crate) fn short(&mut self) -> Option<&'a str> {
        let len = usize::from(self.u8()?);
        std::str::from_utf8(self.bytes(len)?).ok()
    }

    #[inline]
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let len = usize::from(self.u16()?);
        std::str::from_utf8(self.bytes(len)?).ok()
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// All bytes that are left.
    #[inline]
    pub(crate) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// `None` if bytes are left: such a row was not written by this code.
    #[inline]
    pub(crate) fn end<T>(self, row: T) -> Option<T> {
        self.0.is_empty().then_some(row)
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
