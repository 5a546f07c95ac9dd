//! Reads the journal's ring from one record to the next, and does what an opening does with the
//! found bytes. It never accepts a record whose chain value does not follow from the one before.

use super::carry::RECORD_PART;
use super::disk::{DiskFile, write_again};
use super::head::{HEAD_BYTES, JournalHead};
use super::record::{ALIGN, HEADER_BYTES, Header, META_BYTES, Span, is_whole};
use super::ring::positions_after;
use crate::words::error::{Error, Result};
use std::io;

/// Bytes read at a time where the whole ring is read.
const CHUNK: usize = 1 << 20;
/// Where a header has its record's number, and after it the number of the last synced record.
const NUMBER_AT: usize = 16;

/// Reads a ring by position, with one chunk of it in memory.
pub(crate) struct RingReader<'a> {
    file: &'a dyn DiskFile,
    pub(super) head: &'a JournalHead,
    /// The last carried record that is valid.
    carried_upto: u64,
    chunk: Vec<u8>,
    at: u64,
}

impl<'a> RingReader<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, head: &'a JournalHead, carried_upto: u64) -> Self {
        Self { file, head, carried_upto, chunk: Vec::new(), at: 0 }
    }

    /// `None` after the end of the ring.
    fn get(&mut self, at: u64, len: usize) -> io::Result<Option<&[u8]>> {
        let Some(left) = self.head.ring.checked_sub(at).filter(|left| *left >= len as u64) else {
            return Ok(None);
        };
        let inside = at >= self.at && at + len as u64 <= self.at + self.chunk.len() as u64;
        if !inside {
            let count = left.min(len.max(CHUNK) as u64) as usize;
            self.chunk.resize(count, 0);
            self.at = at;
            if let Err(error) = self.file.read_at(HEAD_BYTES as u64 + at, &mut self.chunk) {
                self.chunk.clear();
                return Err(error);
            }
        }
        let from = (at - self.at) as usize;
        Ok(self.chunk.get(from..from + len))
    }

    /// The header of the record at this position, if there is a whole one. The chunk in memory then
    /// has the record.
    pub(crate) fn record(&mut self, at: u64) -> io::Result<Option<Header>> {
        let (ring, seed) = (self.head.ring, self.head.seed());
        let Some(header) = self.get(at, HEADER_BYTES)?.and_then(Header::read) else {
            return Ok(None);
        };
        if header.size() > ring / RECORD_PART {
            return Ok(None);
        }
        let Some(record) = self.get(at, header.size() as usize)? else { return Ok(None) };
        Ok(is_whole(record, &header, seed).then_some(header))
    }

    /// The record that follows `last` in the chain: directly after it, at the next page if it would
    /// have crossed into that, or at the ring's start if it did not fit. A carry that failed may
    /// have left its records at the first of these positions.
    pub(crate) fn next(&mut self, last: Span) -> io::Result<Option<(Header, Span, &[u8])>> {
        for start in positions_after(last.end) {
            let Some(header) = self.record(start)? else { continue };
            let follows =
                header.number == last.link.number + 1 && header.prev == last.link.checksum;
            if follows && (!header.kind.is_carried() || header.number <= self.carried_upto) {
                let span = Span { link: header.link(), start, end: start + header.size() };
                let body = self.get(start + HEADER_BYTES as u64, header.len)?;
                return Ok(body.map(|body| (header, span, body)));
            }
        }
        Ok(None)
    }

    /// Searches the whole ring for records after a gap that prove that the missing record at `tail`
    /// was synced. Returns their positions.
    pub(crate) fn beyond(
        &mut self,
        tail: u64,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<Vec<u64>> {
        let records_max = self.head.ring / (HEADER_BYTES + META_BYTES) as u64;
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.head.ring {
            progress(at)?;
            let len = (self.head.ring - at).min((CHUNK + HEADER_BYTES) as u64) as usize;
            let chunk = self.get(at, len).map_err(Error::io)?.unwrap_or_default();
            let places: Vec<u64> = likely_headers(chunk, tail, records_max).collect();
            for place in places.into_iter().filter(|place| *place < CHUNK as u64) {
                if self.record(at + place).map_err(Error::io)?.is_some() {
                    found.push(at + place);
                }
            }
            at += CHUNK as u64;
        }
        Ok(found)
    }
}

/// Where in these bytes of a ring a header may begin whose record was written after the record
/// `tail` was synced. Unsynced records are in the ring, so a record's number is at most as far from
/// the last synced one as records fit into the ring: rows can look like headers at some of their
/// bytes, and without this check a megabyte was read for each. An opening checks every position of
/// the ring here.
fn likely_headers(bytes: &[u8], tail: u64, records_max: u64) -> impl Iterator<Item = u64> {
    let numbers = bytes.get(NUMBER_AT..).unwrap_or_default();
    let word = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
    let (numbers, _) = numbers.as_chunks::<ALIGN>();
    let pairs = numbers.iter().zip(numbers.iter().skip(1));
    let places = (0..).step_by(ALIGN).zip(pairs);
    places.filter_map(move |(place, (number, synced))| {
        let (number, synced) = (word(number), word(synced));
        let ahead = number.wrapping_sub(synced);
        let is_likely = synced > tail && ahead.wrapping_sub(1) < records_max;
        is_likely.then_some(place)
    })
}

/// Writes the replayed records again, byte for byte, and the bytes where the next record may begin:
/// the medium may have a refused record there.
pub(crate) fn write_records_again(
    file: &dyn DiskFile,
    head: &JournalHead,
    from: u64,
    to: u64,
) -> io::Result<()> {
    let records = if to >= from { [(from, to), (0, 0)] } else { [(from, head.ring), (0, to)] };
    let next = positions_after(to).map(|at| (at, head.ring.min(at + HEADER_BYTES as u64)));
    let head = HEAD_BYTES as u64;
    records
        .into_iter()
        .chain(next)
        .try_for_each(|(at, end)| write_again(file, head + at, head + end))
}

/// Overwrites the headers of these records, so that no later opening finds them.
pub(crate) fn wipe(file: &dyn DiskFile, places: &[u64]) -> io::Result<()> {
    for at in places {
        file.write_at(HEAD_BYTES as u64 + at, &[0; HEADER_BYTES])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::sync::{AtomicU64, Ordering};

    /// A file full of row keys, which counts the bytes read from it.
    #[derive(Debug, Default)]
    struct Keys {
        read: AtomicU64,
    }

    impl DiskFile for Keys {
        fn len(&self) -> io::Result<u64> {
            Ok(HEAD_BYTES as u64 + (8 << 20))
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            // Priority and order of a ready task, in place of a header's number, synced, length and
            // kind.
            let fields = [7, 7, 0x1_8000_0000, 0x8000_0000, 0x0010_0000_0000_0000, 7, 7, 7_u64];
            for (at, byte) in (offset..).zip(&mut *out) {
                let field = fields[(at / 8 % 8) as usize];
                *byte = field.to_be_bytes()[(at % 8) as usize];
            }
            self.read.fetch_add(out.len() as u64, Ordering::SeqCst);
            Ok(())
        }

        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Regression: keys of ready tasks were taken for headers of long records, and an opening read
    /// a megabyte for each: 0.15 s instead of 5 ms.
    #[test]
    fn rows_that_look_like_headers_are_read_once() {
        let file = Keys::default();
        let head = JournalHead { queue: [0; 16], ring: 8 << 20 };
        let found = RingReader::new(&file, &head, 0).beyond(1000, |_| Ok(())).unwrap();
        assert_eq!(found, [0_u64; 0]);
        assert!(file.read.load(Ordering::SeqCst) < 9 << 20, "{file:?}");
    }
}
