//! Writes and reads fixed big-endian fields. Reading after the end returns `None`.

use super::value::{Value, WRITTEN, cut, piece};
use bytes::BytesMut;

/// Most rows are shorter. A longer one is moved once while it is packed.
const ROW_BYTES: usize = 768;

/// Collects the fields of a row.
pub(crate) struct Packer(BytesMut);

impl Packer {
    #[inline]
    pub(crate) fn new() -> Self {
        Self(piece(ROW_BYTES, &WRITTEN))
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
        self.0.extend_from_slice(field);
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

    #[inline]
    pub(crate) fn done(self) -> Value {
        cut(self.0, &WRITTEN)
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

    /// The next `BYTES` bytes as a reader of their own, so that the length is checked once.
    #[inline]
    pub(crate) fn part<const BYTES: usize>(&mut self) -> Option<Unpacker<'a>> {
        let (part, rest) = self.0.split_first_chunk::<BYTES>()?;
        self.0 = rest;
        Some(Unpacker(part))
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
