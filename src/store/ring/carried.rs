//! The write of a carry: on a full disk all rows of the overlay are journaled once more, so that
//! the ring before them is free. A carry is not valid before its slot in the head is on the medium.

use super::{Ring, WriteFault, positions_after};
use crate::format::extension::Extension;
use crate::format::key::Run;
use crate::format::layer::Layer;
use crate::store::carry::{CARRY_BYTES, Carry, ROW_PART};
use crate::store::head::HEAD_BYTES;
use crate::store::record::{HEADER_BYTES, RecordMeta};
use crate::store::tables::{Tally, encode_tally};

/// Bytes of a record of carried rows, roughly.
const RECORD_BYTES: u64 = 64 << 10;

impl Ring {
    /// Writes all rows of the overlay once more after the last record, and lets openings begin
    /// there. This frees the ring before them without the base. `serial` is the serial of the base.
    ///
    /// # Errors
    /// Nothing has changed, unless it is `Fatal`.
    pub(crate) fn carry(
        &mut self,
        serial: u64,
        meta: (&RecordMeta, &Extension),
        layer: &Layer,
        counts: &[(Run, Tally)],
    ) -> Result<(), WriteFault> {
        let floor = self.last;
        let cleared = self.clear_places();
        let carried =
            cleared.and_then(|()| self.write_carried(meta, layer, counts)).and_then(|()| {
                let sequence = self.carries + 1;
                let slot = Carry { sequence, serial, floor, upto: self.last.link.number };
                self.sync()?;
                let at = slot.at();
                let written = self.file.write_at(at, &slot.encode(self.seed));
                written.map_err(|error| self.undo(at, CARRY_BYTES, error))?;
                self.sync()
            });
        if let Err(fault) = carried {
            // Without the slot an opening ignores the carried records.
            self.last = floor;
            return Err(fault);
        }
        self.carries += 1;
        self.carried_upto = self.last.link.number;
        self.floor = floor;
        self.is_idle = true;
        self.journal.set_written(self.last.link.number);
        self.journal.set_synced(self.last.link.number);
        Ok(())
    }

    /// Overwrites the headers where the next record can begin. An earlier carry that failed, or
    /// that a kill has cut off, may have left its first record at one of these places. The first
    /// record of this carry has the same number and may begin at another place: the slot would make
    /// both valid.
    fn clear_places(&mut self) -> Result<(), WriteFault> {
        let (end, header) = (self.last.end, HEADER_BYTES as u64);
        for place in positions_after(end) {
            let is_free = match place >= end {
                true => place + header <= self.limit(end),
                false => end >= self.floor.start && place + header < self.floor.start,
            };
            if is_free {
                let at = HEAD_BYTES as u64 + place;
                self.file.write_at(at, &[0; HEADER_BYTES]).map_err(WriteFault::Undone)?;
            }
        }
        Ok(())
    }

    fn write_carried(
        &mut self,
        (meta, extension): (&RecordMeta, &Extension),
        layer: &Layer,
        counts: &[(Run, Tally)],
    ) -> Result<(), WriteFault> {
        // Carried records must not prove that other records were synced: they are not valid yet.
        let synced = self.journal.synced().min(self.last.link.number);
        let full = (self.size / ROW_PART / 2).min(RECORD_BYTES);
        // The first record repeats the reserved numbers and the extension of the freed records.
        self.record.begin(meta, true);
        self.record.carried(extension);
        let mut has_rows = false;
        for (run, tally) in counts {
            self.record.counts(*run, &encode_tally(tally));
            has_rows = true;
            self.write_if_full(&mut has_rows, full, meta, synced)?;
        }
        for (key, op) in layer.iter() {
            // A long row gets a record of its own.
            if op.value().is_some_and(|value| value.len() as u64 > full) {
                self.write_if_full(&mut has_rows, 0, meta, synced)?;
            }
            self.record.carried_row(key, op.value().map(|value| &**value));
            has_rows = true;
            self.write_if_full(&mut has_rows, full, meta, synced)?;
        }
        // Also without rows: an opening expects at least one carried record.
        self.write_unpublished(synced, None).map(drop)
    }

    fn write_if_full(
        &mut self,
        has_rows: &mut bool,
        full: u64,
        meta: &RecordMeta,
        synced: u64,
    ) -> Result<(), WriteFault> {
        if *has_rows && self.record.size() >= full {
            self.write_unpublished(synced, None)?;
            self.record.begin(meta, false);
            self.record.carried(&Extension::default());
            *has_rows = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::key::{Key, Tag};
    use crate::format::{RowOp, Value};
    use crate::store::carry::Load;
    use crate::store::disk::{DiskFile, OsFile};
    use crate::store::features::Slot;
    use crate::store::head::JournalHead;
    use crate::store::journal_reader::RingReader;
    use crate::store::record::{Link, Span};
    use crate::words::sync::{Arc, AtomicU64, Ordering};
    use std::io;

    /// Fails one of its next writes.
    #[derive(Debug)]
    struct FailsOnce(OsFile, AtomicU64);

    impl DiskFile for FailsOnce {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read_at(offset, out)
        }

        fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            match self.1.fetch_sub(1, Ordering::Relaxed) {
                0 => Err(io::ErrorKind::StorageFull.into()),
                _ => self.0.write_at(offset, data),
            }
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }

        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }
    }

    /// Rows of so many bytes each.
    fn rows(bytes: &[usize]) -> Layer {
        let mut layer = Layer::default();
        for (number, bytes) in (0..).zip(bytes) {
            let value = Value::from(vec![7; *bytes].as_slice());
            layer.write((Key::from_slice(&[Tag::Task as u8, number]), RowOp::Add(value)));
        }
        layer
    }

    /// Regression: a carry failed after its first, short record. The next one, with no record
    /// between, began at the next page, as its first record would have crossed into that. An
    /// opening met the record of the one that had failed, which follows the same record, and found
    /// that rows are missing.
    #[test]
    fn a_carry_that_failed_hides_no_later_one() {
        let head = (&JournalHead { queue: [0; 16], ring: 64 << 10 }, Slot::default());
        let start = Span { link: Link { number: 1, checksum: 0 }, start: 0, end: 0 };
        for first in (200..4000).step_by(100) {
            let file = Arc::new(FailsOnce(
                OsFile(tempfile::tempfile().unwrap()),
                AtomicU64::new(u64::MAX),
            ));
            file.set_len(1 << 20).unwrap();
            let mut ring = Ring::resume(file.clone(), head.clone(), None, start, start);
            let (meta, load) =
                (RecordMeta::default(), Load { carried: 0, most: u64::MAX, spare: 0 });
            let written = rows(&[first]);
            ring.append(&meta, false, written.iter(), (&[], 0), load).unwrap();
            ring.journal.set_synced(ring.journal.written());
            let floor = ring.last;
            let meta = (&meta, &Extension::EMPTY);
            let mut carry = |bytes: &[usize]| ring.carry(1, meta, &rows(bytes), &[]);
            let failing = |at| file.1.store(at, Ordering::Relaxed);
            // Two headers are overwritten before it.
            failing(3);
            assert!(carry(&[2700, 100]).is_err(), "after the first record");
            failing(u64::MAX);
            carry(&[2600, 1200]).unwrap();
            let (upto, last) = (ring.carried_upto, ring.last);
            let mut reader = RingReader::new(&*file, head.0, upto);
            let mut tail = floor;
            while let Some((_, span, _)) = reader.next(tail).unwrap() {
                tail = span;
            }
            assert_eq!(tail, last, "after a record of {first} bytes");
        }
    }
}
