//! The writer of the journal: one preallocated file, written in place as a ring of records. Each
//! record contains the checksum of the one before. The ring never overwrites a record that the base
//! does not hold, nor the last one that the base does hold: at the next opening that record proves
//! that the two files belong together.

mod carried;

use super::carry::{Carry, KEPT_PART, Load, RECORD_PART, ROW_PART};
use super::clean_end;
use super::disk::{DiskFile, write_zeros};
use super::features::{Features, Slot};
use super::head::{self, HEAD_BYTES, JournalHead};
use super::journal::Journal;
use super::record::{HEADER_BYTES, Link, RecordMeta, Span};
use super::record_builder::RecordBuilder;
use crate::format::RowOp;
use crate::format::extension::Extension;
use crate::format::key::Key;
use crate::format::row::DayEntry;
use crate::words::sync::Arc;
use std::io;

/// Bytes of a page of the medium: a sync writes whole pages.
const PAGE: u64 = head::PAGE as u64;
/// Bytes of the record buffer that are kept between records.
const BUFFER_KEPT: usize = 1 << 20;

/// The start of the first page that begins at this position of the ring or after it.
fn next_page(at: u64) -> u64 {
    at.next_multiple_of(PAGE)
}

/// Where the record after one that ends here may begin.
pub(super) fn positions_after(end: u64) -> [u64; 3] {
    [end, next_page(end), 0]
}

/// Why a record was not written.
#[derive(Debug)]
pub(crate) enum WriteFault {
    /// The ring has no space left: the base does not hold the oldest records yet.
    NoRoom,
    /// The record is larger than the ring can be sure to hold.
    TooLarge,
    /// The write failed and was undone.
    Undone(io::Error),
    /// A sync failed, or a write failed and could not be undone: the journal accepts no more.
    Fatal(io::Error),
}

/// The writing end of the journal. Belongs to the store, under its lock.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) journal: Arc<Journal>,
    seed: u64,
    /// Bytes of the ring.
    pub(super) size: u64,
    /// An opening begins after this record. Nothing from here to `last` is overwritten.
    pub(super) floor: Span,
    pub(super) last: Span,
    /// Whether the last record only says what is synced, or nothing was written since the opening.
    is_idle: bool,
    pub(super) slot: Slot,
    /// The next one, written and not synced, with the number of that write.
    unsynced_slot: Option<(u64, Slot)>,
    /// Slots written since the opening.
    slot_writes: u64,
    record: RecordBuilder,
    /// The sequence of the last carry.
    carries: u64,
    /// The last record of the last carry.
    pub(super) carried_upto: u64,
}

impl Ring {
    /// Continues after `last`, the end of the chain, which begins after `floor`. The last carry may
    /// be one of an earlier base.
    pub(crate) fn resume(
        file: Arc<dyn DiskFile>,
        (head, slot): (&JournalHead, Slot),
        last_carry: Option<Carry>,
        floor: Span,
        last: Span,
    ) -> Self {
        let journal = Arc::new(Journal::new(file.clone(), last.link.number));
        Self {
            file,
            journal,
            seed: head.seed(),
            size: head.ring,
            floor,
            last,
            is_idle: true,
            slot,
            unsynced_slot: None,
            slot_writes: 0,
            record: RecordBuilder::default(),
            carries: last_carry.map_or(0, |carry| carry.sequence),
            carried_upto: last_carry.map_or(0, |carry| carry.upto),
        }
    }

    /// Bytes of the ring in use.
    pub(crate) fn used(&self) -> u64 {
        let (start, end) = (self.floor.start, self.last.end);
        if end >= start { end - start } else { self.size - start + end }
    }

    /// The base now holds everything up to this record.
    pub(crate) fn free_before(&mut self, anchor: Span) {
        // A carry may have freed more.
        if anchor.link.number >= self.floor.link.number {
            self.floor = anchor;
        }
    }

    /// Notes that nothing follows the last record. It is not synced, and a failure is no failure of
    /// the close: without the note the next opening searches the ring.
    pub(crate) fn note_clean_end(&self) {
        let _ = self.file.write_at(clean_end::AT, &clean_end::encode(self.last.link, self.seed));
    }

    /// Where a record of this size can begin. One byte between head and tail always stays free, so
    /// that a full ring differs from an empty one.
    fn place(&self, size: u64) -> Option<u64> {
        let (start, end) = (self.floor.start, self.last.end);
        let limit = self.limit(end);
        let page = next_page(end);
        if self.saves_a_page(size) && page + size <= limit {
            return Some(page);
        }
        if end + size <= limit {
            return Some(end);
        }
        (end >= start && size < start).then_some(0)
    }

    /// Where a write that begins at this position must end at the latest.
    fn limit(&self, at: u64) -> u64 {
        if at >= self.floor.start { self.size } else { self.floor.start - 1 }
    }

    /// Where the write of a record from `start` to `end` ends. If the record reaches a new page,
    /// the write fills the page with zeros, up to the limit. The system may have evicted its copy
    /// of the page; a partial write would then read the page from the disk first, while the store's
    /// lock is held: 0.6 ms on a busy disk. Filling the page costs 0.4 µs.
    fn padded_end(&self, start: u64, end: u64) -> u64 {
        let reaches_a_page = next_page(start) < end;
        if reaches_a_page { next_page(end).min(self.limit(start)) } else { end }
    }

    /// Whether the sync of a record writes one page if the record begins at the next page, and two
    /// if it begins directly after the last one. That is so if all of the last page is synced.
    fn saves_a_page(&self, size: u64) -> bool {
        let crosses = self.last.end % PAGE + size > PAGE;
        crosses && size <= PAGE && self.journal.synced() == self.last.link.number
    }

    /// Writes one record, if the overlay can still be carried after it. `reserves` if the reserved
    /// numbers have changed. Returns the record's number.
    // Inlined, with what it calls: after a system call the processor mispredicts every return. That
    // costs 10 ns for each function between the call and the verb.
    #[inline(always)]
    pub(crate) fn append<'a>(
        &mut self,
        meta: &RecordMeta,
        reserves: bool,
        rows: impl Iterator<Item = (&'a Key, &'a RowOp)>,
        (days, growth): (&[DayEntry], u64),
        load: Load,
    ) -> Result<u64, WriteFault> {
        self.record.begin(meta, reserves);
        let mut before = self.record.size();
        for (key, op) in rows {
            self.record.row(key, op);
            let after = self.record.size();
            // Such a row goes to the base at once: a carry cannot split a row, so rows are small.
            if after - before > self.size / ROW_PART {
                self.record.shrink(BUFFER_KEPT);
                return Err(WriteFault::TooLarge);
            }
            before = after;
        }
        if !days.is_empty() {
            self.record.days(days);
            // Both together, because a checkpoint makes no more room: it would be tried again
            // without end.
            if self.record.size() + growth > self.size / RECORD_PART {
                self.record.shrink(BUFFER_KEPT);
                return Err(WriteFault::TooLarge);
            }
        }
        self.write(Some(load))
    }

    /// Writes a record without rows, for the numbers that it reserves, into the part of the ring
    /// that is kept free.
    pub(crate) fn note(&mut self, meta: &RecordMeta) -> Result<u64, WriteFault> {
        self.record.begin(meta, true);
        self.write(None)
    }

    /// Writes a record which only says that all records before it are synced, once after the last
    /// other record. Without it, damage to the last records would look like the torn tail of a
    /// power cut. Returns false while a record is not synced.
    pub(crate) fn idle(&mut self, meta: &RecordMeta) -> Result<bool, WriteFault> {
        // If the base holds the last record, none can be missing.
        let is_held = self.last.start == self.floor.start;
        if self.is_idle || is_held {
            return Ok(true);
        }
        if self.journal.synced() < self.last.link.number {
            return Ok(false);
        }
        self.record.begin(meta, false);
        self.write(None)?;
        self.is_idle = true;
        Ok(true)
    }

    /// Whether all rows can still be carried after a record of this size at this position.
    fn leaves_space(&self, start: u64, size: u64, load: Load) -> bool {
        let (floor, end, carried) = (self.floor.start, start + size, load.carried + size);
        let used = if start >= floor { end - floor } else { self.size - floor + end };
        carried <= load.most && used + carried + self.size / KEPT_PART + load.spare <= self.size
    }

    /// Whether a carry would use more than `excess` bytes of the part that is kept free.
    pub(crate) fn lacks(&self, load: Load, excess: u64) -> bool {
        self.used() + load.carried + self.size / KEPT_PART > self.size + excess
    }

    /// A lower bound of the bytes that may still be written so that a carry fits after them.
    pub(crate) fn left(&self, load: Load) -> u64 {
        let kept = self.size / KEPT_PART + load.spare;
        let left = self.size.saturating_sub(self.used() + load.carried + kept) / 2;
        left.min(load.most.saturating_sub(load.carried))
    }

    /// Writes the first record of an opening.
    pub(crate) fn append_opening(
        &mut self,
        meta: &RecordMeta,
        extension: &Extension,
        nonce: u64,
    ) -> Result<u64, WriteFault> {
        self.record.begin(meta, true);
        self.record.opening(extension, nonce);
        let number = self.write(None)?;
        // It has no rows, so its loss loses nothing.
        self.is_idle = true;
        Ok(number)
    }

    /// Writes the built record, if the overlay can still be carried after it; without a load it is
    /// written into the part that is kept free.
    #[inline(always)]
    fn write(&mut self, load: Option<Load>) -> Result<u64, WriteFault> {
        let link = self.write_unpublished(self.journal.synced(), load)?;
        self.is_idle = false;
        self.journal.set_written(link.number);
        Ok(link.number)
    }

    /// Writes the built record after the last one. The journal's number of the last written record
    /// does not change.
    #[inline(always)]
    fn write_unpublished(&mut self, synced: u64, load: Option<Load>) -> Result<Link, WriteFault> {
        let size = self.record.size();
        if size > self.size / RECORD_PART {
            self.record.shrink(BUFFER_KEPT);
            return Err(WriteFault::TooLarge);
        }
        let start = self.place(size).ok_or(WriteFault::NoRoom)?;
        if load.is_some_and(|load| !self.leaves_space(start, size, load)) {
            return Err(WriteFault::NoRoom);
        }
        let end = start + size;
        let link = self.record.seal(self.last.link, synced, self.seed);
        self.record.pad(self.padded_end(start, end) - end);
        let at = HEAD_BYTES as u64 + start;
        if let Err(error) = self.file.write_at(at, self.record.bytes()) {
            return Err(self.undo(at, HEADER_BYTES, error));
        }
        self.last = Span { link, start, end };
        Ok(link)
    }

    /// Writes these features into the slot that is not valid now, and syncs it.
    pub(crate) fn use_features(&mut self, features: Features) -> Result<(), WriteFault> {
        // One that waits for its sync is overwritten. Its writer finds that and writes again.
        self.unsynced_slot = None;
        let write = self.write_slot(features)?;
        self.sync()?;
        self.slot_synced(write);
        Ok(())
    }

    /// Writes these features into the slot that is not valid now, and returns the number of this
    /// write: they are in use once the file was synced, see [`slot_synced`](Self::slot_synced).
    /// While an earlier write waits for that it writes nothing and returns the number of that one:
    /// the other slot is the only one that is on the medium.
    pub(crate) fn write_slot(&mut self, features: Features) -> Result<u64, WriteFault> {
        if let Some((earlier, _)) = &self.unsynced_slot {
            return Ok(*earlier);
        }
        let slot = Slot { sequence: self.slot.sequence + 1, features };
        // A slot that was written in part is not valid, and the next write goes to it again.
        self.file.write_at(slot.at(), &slot.encode(self.seed)).map_err(WriteFault::Undone)?;
        // Not the sequence: a slot written over this one has the same.
        self.slot_writes += 1;
        self.unsynced_slot = Some((self.slot_writes, slot));
        Ok(self.slot_writes)
    }

    /// The file was synced after this write of a slot.
    pub(crate) fn slot_synced(&mut self, write: u64) {
        if let Some((_, slot)) = self.unsynced_slot.take_if(|(number, _)| *number == write) {
            self.slot = slot;
        }
    }

    /// Overwrites the first bytes of a failed write with zeros, and syncs them, before the call
    /// returns its error. The failed write may have written everything; after a kill the next
    /// opening would then replay what was refused.
    fn undo(&self, at: u64, bytes: usize, error: io::Error) -> WriteFault {
        let written = self.journal.written();
        let undone = self
            .file
            .write_at(at, &vec![0; bytes])
            .and_then(|()| self.journal.sync_file(&*self.file));
        match undone {
            Ok(()) => {
                self.journal.set_synced(written);
                WriteFault::Undone(error)
            }
            Err(_) => {
                self.journal.fail();
                WriteFault::Fatal(error)
            }
        }
    }

    fn sync(&self) -> Result<(), WriteFault> {
        self.journal.sync_file(&*self.file).map_err(WriteFault::Fatal)
    }
}

/// Writes the head and the whole ring of a new file, so that a record changes bytes only.
pub(crate) fn create(file: &dyn DiskFile, head: &JournalHead) -> io::Result<()> {
    file.write_at(0, &head.encode())?;
    write_zeros(file, HEAD_BYTES as u64, HEAD_BYTES as u64 + head.ring)?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Value;
    use crate::store::disk::OsFile;

    /// Regression: two records of a durable cycle wrote 9.3 kB to the device. Every tenth record
    /// crossed into the next page, and its sync wrote two pages.
    #[test]
    fn a_record_that_is_synced_alone_is_in_one_page() {
        let head = (&JournalHead { queue: [0; 16], ring: 64 << 10 }, Slot::default());
        let last = Span { link: Link { number: 1, checksum: 0 }, start: 0, end: 0 };
        for (size, alone) in [(300, true), (300, false), (PAGE as usize, true), (5000, true)] {
            let file = Arc::new(OsFile(tempfile::tempfile().unwrap()));
            let mut ring = Ring::resume(file, head.clone(), None, last, last);
            let value = Value::from([7; 5000].get(..size - 112).unwrap());
            let (key, op) = (Key::from_slice(&[1; 9]), RowOp::Add(value));
            for _ in 0..10 {
                let before = ring.last;
                let load = Load { carried: 0, most: u64::MAX, spare: 0 };
                ring.append(
                    &RecordMeta::default(),
                    false,
                    [(&key, &op)].into_iter(),
                    (&[], 0),
                    load,
                )
                .unwrap();
                let Span { start, end, .. } = ring.last;
                if alone && end - start <= PAGE {
                    ring.journal.set_synced(ring.journal.written());
                    assert_eq!(start / PAGE, (end - 1) / PAGE, "{size}: one page");
                    let moved = start != before.end;
                    assert!(!moved || start % PAGE == 0 && start - before.end < PAGE);
                } else {
                    assert_eq!(start, before.end, "{size}: no byte is skipped");
                }
            }
        }
    }
}
