//! Large payloads as rows of pieces. How long each piece is follows from the length of the payload
//! alone, so pieces are written and removed by arithmetic on keys. Never reads or writes a row.

use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};
use crate::words::limits::PAYLOAD_BYTES_MAX;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The hash of a payload, piece by piece.
pub(crate) use xxhash_rust::xxh3::Xxh3 as PayloadHash;

/// What redb's page holds beside the value of one piece: the page's header (4), the ends of key and
/// value (8), the key (17) and the seal (4).
const PAGE_OVERHEAD: usize = 33;
/// Bytes of the largest piece. It fills a page of 64 KiB.
pub(crate) const PIECE_BYTES_MAX: usize = filling(64 << 10);

/// Bytes of the smallest piece that others may follow.
pub(crate) const PIECE_BYTES_MIN: usize = filling(4 << 10);

/// Bytes of a piece that fills a page. redb rounds a page up to a power of two and writes it whole:
/// one byte more would cost as much again.
const fn filling(page: usize) -> usize {
    page - PAGE_OVERHEAD
}

/// A payload that is stored in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// Of the payload.
    pub(crate) bytes: u32,
    /// Counts the payloads that the task has had. No two have a piece of the same key.
    pub(crate) generation: u32,
    /// Of the payload.
    pub(crate) hash: u64,
}

impl Pieces {
    /// The first payload of a task; at most [`PAYLOAD_BYTES_MAX`].
    pub(crate) fn of(payload: &[u8]) -> Self {
        Self { bytes: payload.len() as u32, generation: 1, hash: xxh3_64(payload) }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        (self.full() + self.others().count()) as u32
    }

    /// Where in the payload a piece is. `None` after the last; a damaged key may have any number.
    pub(crate) fn piece(&self, number: u32) -> Option<Range<usize>> {
        let number = number as usize;
        match number.checked_sub(self.full()) {
            None => Some(number * PIECE_BYTES_MAX..(number + 1) * PIECE_BYTES_MAX),
            Some(other) => self.others().nth(other),
        }
    }

    /// How many have the largest size.
    fn full(&self) -> usize {
        self.bytes as usize / PIECE_BYTES_MAX
    }

    /// Where the pieces after those of the largest size are.
    fn others(&self) -> impl Iterator<Item = Range<usize>> {
        let (mut at, end) = (self.full() * PIECE_BYTES_MAX, self.bytes as usize);
        std::iter::from_fn(move || {
            let from = at;
            at += piece_of(end - from);
            (from < end).then_some(from..at)
        })
    }

    pub(super) fn pack(&self, row: &mut Packer) {
        row.u64(u64::from(self.bytes)).u32(self.generation).u64(self.hash);
    }

    pub(super) fn unpack(row: &mut Unpacker<'_>) -> Option<Self> {
        let bytes = row.u64().filter(|bytes| *bytes <= PAYLOAD_BYTES_MAX as u64)?;
        Some(Self { bytes: bytes as u32, generation: row.u32()?, hash: row.u64()? })
    }
}

/// The next piece of so many bytes: the largest that fills a page, or all.
fn piece_of(rest: usize) -> usize {
    let pages = [64 << 10, 32 << 10, 16 << 10, 8 << 10, 4 << 10];
    pages.into_iter().map(filling).find(|piece| *piece <= rest).unwrap_or(rest)
}

/// Work on the pieces of one payload: a put that is not done writes them, or a sweep removes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PieceWork {
    pub(crate) generation: u32,
    /// The first of them.
    pub(crate) from: u32,
    /// The first piece after them; [`PieceWork::UNKNOWN`] if it is not known because of a damaged
    /// row.
    pub(crate) to: u32,
    pub(crate) extension: Extension,
}

impl PieceWork {
    /// All pieces: of the generation in the key of the work; of one without it, of all
    /// generations up to the one in the row.
    pub(crate) const UNKNOWN: u32 = u32::MAX;

    pub(crate) fn new(generation: u32, pieces: Range<u32>) -> Self {
        let extension = Extension::default();
        Self { generation, from: pieces.start, to: pieces.end, extension }
    }

    /// All pieces of a payload of which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self::new(0, 0..Self::UNKNOWN)
    }

    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u32(self.generation).u32(self.from).u32(self.to);
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let (generation, from, to) = (row.u32()?, row.u32()?, row.u32()?);
        let extension = Extension::of_rest(row).filter(|_| from <= to)?;
        Some(Self { generation, from, to, extension })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(bytes: usize) -> Vec<usize> {
        let pieces = Pieces { bytes: bytes as u32, generation: 1, hash: 0 };
        let ranges: Vec<_> = (0..).map_while(|number| pieces.piece(number)).collect();
        assert_eq!(ranges.len(), pieces.count() as usize, "{bytes}");
        let mut end = 0;
        for range in &ranges {
            assert_eq!(range.start, end, "{bytes}");
            end = range.end;
        }
        assert_eq!(end, bytes);
        assert_eq!(pieces.piece(pieces.count() + 1), None);
        assert_eq!(pieces.piece(u32::MAX), None);
        ranges.into_iter().map(|range| range.len()).collect()
    }

    #[test]
    fn each_piece_but_the_last_fills_a_page() {
        assert_eq!(lengths(0), [0; 0]);
        assert_eq!(lengths(4062), [4062]);
        assert_eq!(lengths(4063), [4063]);
        assert_eq!(lengths(4064), [4063, 1]);
        assert_eq!(lengths(65_502), [32_735, 32_735, 32]);
        assert_eq!(lengths(65_503), [65_503]);
        assert_eq!(lengths(100_000), [65_503, 32_735, 1762]);
        assert_eq!(lengths(1 << 20).len(), 17);
        assert_eq!(lengths(1 << 30).len(), 16_394);
        for bytes in (1..200_000).step_by(97) {
            let lengths = lengths(bytes);
            let pages = lengths.iter().map(|piece| (piece + 33).next_power_of_two().max(4096));
            let paid: usize = pages.sum();
            assert!(paid <= bytes + bytes / 100 + 4096 + 5 * 33, "{bytes} bytes cost {paid}");
        }
    }

    #[test]
    fn golden_work() {
        let mut work = PieceWork::new(1, 2..3);
        assert_eq!(*work.encode(), [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
        assert_eq!(PieceWork::decode(&work.encode()), Some(work.clone()));
        assert!(work.extension.set(7, b"later"));
        assert_eq!(PieceWork::decode(&work.encode()), Some(work.clone()));
        work.from = 4;
        assert_eq!(PieceWork::decode(&work.encode()), None, "upside down");
    }

    #[test]
    fn the_hash_is_that_of_the_whole() {
        let payload: Vec<u8> = (0..200_000_u32).map(|byte| byte as u8).collect();
        let pieces = Pieces::of(&payload);
        let mut hash = PayloadHash::default();
        for number in 0..pieces.count() {
            hash.update(&payload[pieces.piece(number).unwrap()]);
        }
        assert_eq!(hash.digest(), pieces.hash);
    }
}
