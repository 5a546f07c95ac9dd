//! The journal: one file, preallocated, written in place as a ring of records, each hanging on the
//! one before. It never writes over a record that the base does not hold, nor over the last that
//! it does: that one proves at the next opening that the two files belong together.

use super::carry::{CARRY_BYTES, Carry, KEPT_PART, Load, RECORD_PART, ROW_PART};
use super::disk::{DiskFile, write_zeros};
use super::features::{Features, SLOT_BYTES, Slot};
use super::head::{self, HEAD_BYTES, JournalHead};
use super::record::{HEADER_BYTES, Link, RecordBuilder, RecordMeta, Span};
use super::tables::{Tally, encode_tally};
use crate::format::RowOp;
use crate::format::extension::Extension;
use crate::format::key::{Key, Run};
use crate::format::layer::Layer;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, RwLock};
use std::io;

/// Bytes of a page of the medium: a sync writes whole ones.
const PAGE: u64 = head::PAGE as u64;
/// Bytes of a record of carried rows, roughly.
const CARRY_RECORD: u64 = 64 << 10;
/// Bytes of the record buffer that are kept between records.
const DRAFT_KEPT: usize = 1 << 20;

/// The journal as those see it who wait for a sync. Used without the store's lock.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Gone once the store is closed, and the folder's lock with it. Read while it is synced, so
    /// that a close waits for that.
    file: RwLock<Option<Arc<dyn DiskFile>>>,
    /// Held over a sync. Of two at a time the system tells only one that it failed, and the
    /// other would pass for a good one.
    turn: Mutex<()>,
    written: AtomicU64,
    synced: AtomicU64,
    failed: AtomicBool,
    /// Lease time of the oldest record that no sync has begun to cover; 0 if there is none. Set by
    /// those who write, see `live::gate`.
    pub(crate) oldest: AtomicU64,
}

impl Journal {
    /// Syncs everything written before the call. The number of the last record that is synced now.
    ///
    /// # Errors
    /// `Io` if the sync failed, then and ever after: what the file shows is no longer what is on
    /// the disk, and a later sync that returns says nothing about it.
    pub(crate) fn sync(&self) -> Result<u64> {
        let _turn = self.turn.lock();
        if self.has_failed() {
            return Err(Error::new(ErrorKind::Broken).because("a sync of the journal has failed"));
        }
        let held = self.file.read();
        let Some(file) = &*held else {
            // Let go behind the last checkpoint, which synced for whoever comes here only now.
            let synced = self.synced();
            let all = synced >= self.written();
            return if all { Ok(synced) } else { Err(Error::new(ErrorKind::Closed)) };
        };
        // Cleared before it is seen what is written: whoever writes later sets it anew.
        self.oldest.store(0, Ordering::SeqCst);
        // Read before the sync begins: what is written beside it may or may not be covered.
        let written = self.written.load(Ordering::Acquire);
        if self.synced.load(Ordering::Acquire) < written {
            if let Err(error) = file.sync() {
                self.failed.store(true, Ordering::Release);
                return Err(Error::not_synced("the journal", error));
            }
            // Planted; .ci/canaries shows that a test finds it.
            #[cfg(canary_synced_late)]
            let written = self.written();
            self.synced.fetch_max(written, Ordering::AcqRel);
        }
        Ok(self.synced())
    }

    /// The last record known to be on the medium.
    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// The last record written to the operating system.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Whether a sync has failed, or a failed write could not be undone.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Lets go of the file, and with it of the lock, whoever still holds this. Waits for syncs.
    pub(crate) fn release(&self) {
        self.file.write().take();
    }
}

/// The first page that begins at this place of the ring or behind it.
pub(super) fn page_behind(at: u64) -> u64 {
    at.next_multiple_of(PAGE)
}

/// Why a record was not written.
#[derive(Debug)]
pub(crate) enum WriteFault {
    /// The ring is full up to what the base holds.
    NoRoom,
    /// The ring could never be sure to hold it.
    TooLarge,
    /// The write failed and was undone.
    Undone(io::Error),
    /// The write failed and could not be undone.
    Stuck(io::Error),
}

/// The writing end. Lives in the store, under its lock.
#[derive(Debug)]
pub(crate) struct Ring {
    file: Arc<dyn DiskFile>,
    shared: Arc<Journal>,
    seed: u64,
    size: u64,
    /// The record that an opening begins behind; from here to `last` nothing is written over.
    floor: Span,
    last: Span,
    /// Whether the last record only says what is synced, or nothing was written since the opening.
    is_idle: bool,
    slot: Slot,
    draft: RecordBuilder,
    /// Counts the carries.
    carries: u64,
}

impl Ring {
    /// Goes on behind `last`, the tail of the chain, which begins behind `floor`.
    pub(crate) fn resume(
        file: Arc<dyn DiskFile>,
        (head, slot): (&JournalHead, Slot),
        floor: Span,
        last: Span,
        carries: u64,
    ) -> Self {
        let shared = Arc::new(Journal {
            file: RwLock::new(Some(file.clone())),
            turn: Mutex::new(()),
            written: AtomicU64::new(last.link.number),
            synced: AtomicU64::new(last.link.number),
            failed: AtomicBool::new(false),
            oldest: AtomicU64::new(0),
        });
        Self {
            file,
            shared,
            seed: head.seed(),
            size: head.ring,
            floor,
            last,
            is_idle: true,
            slot,
            draft: RecordBuilder::default(),
            carries,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Journal> {
        &self.shared
    }

    pub(crate) fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    pub(crate) fn last(&self) -> Span {
        self.last
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

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

    /// Where an opening would begin.
    pub(crate) fn floor(&self) -> Span {
        self.floor
    }

    /// A larger record might not fit behind a checkpoint, with a carry behind it and the one record
    /// before it that is then still protected, wherever that lies.
    pub(crate) fn record_max(&self) -> u64 {
        self.size / RECORD_PART
    }

    /// Where a record of this size may stand. One byte always stays free between head and tail,
    /// so that a full ring is not an empty one.
    fn place(&self, size: u64) -> Option<u64> {
        let (start, end) = (self.floor.start, self.last.end);
        let bound = self.bound(end);
        let page = page_behind(end);
        if self.spares_a_page(size) && page + size <= bound {
            return Some(page);
        }
        if end + size <= bound {
            return Some(end);
        }
        (end >= start && size < start).then_some(0)
    }

    /// Up to where what is written from here on may reach.
    fn bound(&self, at: u64) -> u64 {
        if at >= self.floor.start { self.size } else { self.floor.start - 1 }
    }

    /// Where the write of a record from `start` to `end` ends: with the page, if it comes to a new
    /// one, or short of what is protected there. The system may have given up its copy of the page,
    /// and to write a part of it would then read it from the disk first, beneath the store's lock:
    /// 0.6 ms where the disk is busy. The rest of a page costs 0.4 µs.
    fn filled(&self, start: u64, end: u64) -> u64 {
        let comes_to_a_page = page_behind(start) < end;
        if comes_to_a_page { page_behind(end).min(self.bound(start)) } else { end }
    }

    /// Whether the sync of a record costs one page at the next page's start and two where it would
    /// stand: if the page that the last record ends in has nothing left to sync.
    fn spares_a_page(&self, size: u64) -> bool {
        let crosses = self.last.end % PAGE + size > PAGE;
        crosses && size <= PAGE && self.shared.synced() == self.last.link.number
    }

    /// Writes one record, if the overlay can still be carried behind it; `reserves` if the reserved
    /// numbers have moved. Its number.
    // Inlined, and `put` with it: after a system call the processor mispredicts every return, which
    // costs 10 ns for each function between the call and the verb.
    #[inline(always)]
    pub(crate) fn append<'a>(
        &mut self,
        stamp: &RecordMeta,
        reserves: bool,
        rows: impl Iterator<Item = (&'a Key, &'a RowOp)>,
        load: Load,
    ) -> Result<u64, WriteFault> {
        self.draft.begin(stamp, reserves);
        let mut before = self.draft.size();
        for (key, op) in rows {
            self.draft.row(key, op);
            let after = self.draft.size();
            // It goes to the base at once: what a carry cannot split must be small.
            if after - before > self.size / ROW_PART {
                self.draft.shrink(DRAFT_KEPT);
                return Err(WriteFault::TooLarge);
            }
            before = after;
        }
        let size = self.draft.size();
        if size <= self.record_max() && !self.fits_reserve(size, load) {
            return Err(WriteFault::NoRoom);
        }
        self.write()
    }

    /// Writes a record without rows, for what it reserves, into what the ring keeps free.
    pub(crate) fn note(&mut self, stamp: &RecordMeta) -> Result<u64, WriteFault> {
        self.draft.begin(stamp, true);
        self.write()
    }

    /// Writes a record that only says that all before it is synced, once behind the last other
    /// one. Without it, damage to the last records would pass for the torn tail of a power cut.
    /// False while a record is not synced.
    pub(crate) fn idle(&mut self, stamp: &RecordMeta) -> Result<bool, WriteFault> {
        // What the base holds cannot be missing.
        let is_held = self.last.start == self.floor.start;
        if self.is_idle || is_held {
            return Ok(true);
        }
        if self.shared.synced() < self.last.link.number {
            return Ok(false);
        }
        self.draft.begin(stamp, false);
        self.write()?;
        self.is_idle = true;
        Ok(true)
    }

    /// Whether there is room for a record of this size and for a carry of all rows behind it.
    fn fits_reserve(&self, size: u64, load: Load) -> bool {
        let Some(start) = self.place(size) else { return false };
        let (floor, end, carried) = (self.floor.start, start + size, load.carried + size);
        let used = if start >= floor { end - floor } else { self.size - floor + end };
        carried <= load.most && used + carried + self.size / KEPT_PART <= self.size
    }

    /// Whether a carry would leave less than what is kept free, by more than this.
    pub(crate) fn lacks(&self, load: Load, some: u64) -> bool {
        self.used() + load.carried + self.size / KEPT_PART > self.size + some
    }

    /// Bytes that may still be written so that a carry fits behind, or fewer.
    pub(crate) fn left(&self, load: Load) -> u64 {
        let kept = self.size / KEPT_PART;
        let left = self.size.saturating_sub(self.used() + load.carried + kept) / 2;
        left.min(load.most.saturating_sub(load.carried))
    }

    /// Writes the record that begins an opening.
    pub(crate) fn append_opening(
        &mut self,
        stamp: &RecordMeta,
        extension: &Extension,
        nonce: u64,
    ) -> Result<u64, WriteFault> {
        self.draft.begin(stamp, true);
        self.draft.opening(extension, nonce);
        let number = self.write()?;
        // Nobody misses it.
        self.is_idle = true;
        Ok(number)
    }

    #[inline(always)]
    fn write(&mut self) -> Result<u64, WriteFault> {
        let link = self.put(self.shared.synced())?;
        self.is_idle = false;
        self.shared.written.store(link.number, Ordering::Release);
        Ok(link.number)
    }

    /// Writes the draft as the last record, and tells nobody.
    #[inline(always)]
    fn put(&mut self, synced: u64) -> Result<Link, WriteFault> {
        let size = self.draft.size();
        if size > self.record_max() {
            self.draft.shrink(DRAFT_KEPT);
            return Err(WriteFault::TooLarge);
        }
        let start = self.place(size).ok_or(WriteFault::NoRoom)?;
        let end = start + size;
        let link = self.draft.seal(self.last.link, synced, self.seed);
        self.draft.fill(self.filled(start, end) - end);
        let at = HEAD_BYTES as u64 + start;
        if let Err(error) = self.file.write_at(at, self.draft.bytes()) {
            return Err(self.undo(at, HEADER_BYTES, error));
        }
        self.last = Span { link, start, end };
        Ok(link)
    }

    /// Writes all rows of the overlay once more behind everything else, and has openings begin
    /// there: the ring before it is free, and the base was not touched. `serial` is the base's.
    ///
    /// # Errors
    /// Nothing happened, unless it is `Stuck`.
    pub(crate) fn carry(
        &mut self,
        serial: u64,
        said: (&RecordMeta, &Extension),
        layer: &Layer,
        counts: &[(Run, Tally)],
    ) -> Result<(), WriteFault> {
        let floor = self.last;
        let carried = self.put_all(said, layer, counts).and_then(|()| {
            let sequence = self.carries + 1;
            let slot = Carry { sequence, serial, floor, upto: self.last.link.number };
            self.sync().map_err(WriteFault::Stuck)?;
            let at = slot.at();
            let written = self.file.write_at(at, &slot.encode(self.seed));
            written.map_err(|error| self.undo(at, CARRY_BYTES, error))?;
            self.sync().map_err(WriteFault::Stuck)
        });
        if let Err(fault) = carried {
            // Without the slot no opening believes what was carried.
            self.last = floor;
            return Err(fault);
        }
        self.carries += 1;
        self.floor = floor;
        self.is_idle = true;
        self.shared.written.store(self.last.link.number, Ordering::Release);
        self.shared.synced.fetch_max(self.last.link.number, Ordering::AcqRel);
        Ok(())
    }

    fn put_all(
        &mut self,
        (stamp, extension): (&RecordMeta, &Extension),
        layer: &Layer,
        counts: &[(Run, Tally)],
    ) -> Result<(), WriteFault> {
        // Records that nobody believes yet are no proof that others were synced.
        let synced = self.shared.synced().min(self.last.link.number);
        let full = (self.size / ROW_PART / 2).min(CARRY_RECORD);
        // The first says what openings and notes before it have said.
        self.draft.begin(stamp, true);
        self.draft.carried(extension);
        let mut left = false;
        for (run, tally) in counts {
            self.draft.counts(*run, &encode_tally(tally));
            left = true;
            self.put_if_full(&mut left, full, stamp, synced)?;
        }
        for (key, op) in layer.iter() {
            // A long row stands alone.
            if op.value().is_some_and(|value| value.len() as u64 > full) {
                self.put_if_full(&mut left, 0, stamp, synced)?;
            }
            self.draft.carried_row(key, op.value().map(|value| &**value));
            left = true;
            self.put_if_full(&mut left, full, stamp, synced)?;
        }
        // At least one: an opening looks for it.
        self.put(synced).map(drop)
    }

    fn put_if_full(
        &mut self,
        left: &mut bool,
        full: u64,
        stamp: &RecordMeta,
        synced: u64,
    ) -> Result<(), WriteFault> {
        if *left && self.draft.size() >= full {
            self.put(synced)?;
            self.draft.begin(stamp, false);
            self.draft.carried(&Extension::default());
            *left = false;
        }
        Ok(())
    }

    /// The features in use.
    pub(crate) fn features(&self) -> &Features {
        &self.slot.features
    }

    /// Writes these features into the slot that does not count, and syncs it.
    pub(crate) fn use_features(&mut self, features: Features) -> Result<(), WriteFault> {
        let slot = Slot { sequence: self.slot.sequence + 1, features };
        let at = head::PAGE as u64 + slot.place() * SLOT_BYTES as u64;
        // A slot that was written in part is not valid, and is the next to be written again.
        self.file.write_at(at, &slot.encode(self.seed)).map_err(WriteFault::Undone)?;
        self.sync().map_err(WriteFault::Stuck)?;
        self.slot = slot;
        Ok(())
    }

    /// A write that failed may have written everything; a kill would then bring back what was
    /// refused. So its header goes, on the medium, before anything is answered.
    fn undo(&self, at: u64, bytes: usize, error: io::Error) -> WriteFault {
        let written = self.shared.written();
        let gone = self.file.write_at(at, &vec![0; bytes]).and_then(|()| self.sync());
        match gone {
            Ok(()) => {
                self.shared.synced.fetch_max(written, Ordering::AcqRel);
                WriteFault::Undone(error)
            }
            Err(_) => {
                self.shared.failed.store(true, Ordering::Release);
                WriteFault::Stuck(error)
            }
        }
    }

    /// Syncs; a failure is remembered for ever, whatever it was done for.
    fn sync(&self) -> io::Result<()> {
        let _turn = self.shared.turn.lock();
        if self.shared.has_failed() {
            return Err(io::Error::other("an earlier sync has failed"));
        }
        let done = self.file.sync();
        if done.is_err() {
            self.shared.failed.store(true, Ordering::Release);
        }
        done
    }
}

/// Fills a new file: head and ring, all written out, so that a record changes bytes only.
pub(crate) fn create(file: &dyn DiskFile, head: &JournalHead) -> io::Result<()> {
    file.write_at(0, &head.encode())?;
    write_zeros(file, HEAD_BYTES as u64, HEAD_BYTES as u64 + head.ring)?;
    file.sync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Value;
    use std::sync::Barrier;

    /// Its first sync fails once it was met.
    #[derive(Debug)]
    struct Double {
        syncs: AtomicU64,
        met: Barrier,
    }

    impl Double {
        fn new() -> Self {
            Self { syncs: AtomicU64::new(0), met: Barrier::new(2) }
        }
    }

    impl DiskFile for Double {
        fn len(&self) -> io::Result<u64> {
            Ok(HEAD_BYTES as u64 + (8 << 20))
        }

        fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }

        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            if self.syncs.fetch_add(1, Ordering::SeqCst) > 0 {
                return Ok(());
            }
            self.met.wait();
            Err(io::Error::other("the system tells one of them"))
        }
    }

    /// Linux tells an error of writing back once to each open file, and all syncs share one. Two
    /// at a time, of a caller and of a checkpoint: one failed, and the other said that all is well.
    #[test]
    fn of_two_syncs_at_a_time_none_passes_if_one_fails() {
        let file = Arc::new(Double::new());
        let head = (&JournalHead { queue: [0; 16], ring: 64 << 10 }, Slot::default());
        let last = Span { link: Link { number: 1, checksum: 0 }, start: 0, end: 0 };
        let ring = Ring::resume(file.clone(), head, last, last, 0);
        let journal = ring.shared().clone();
        journal.written.store(2, Ordering::SeqCst);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| journal.sync());
            while file.syncs.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let second = scope.spawn(|| journal.sync());
            // It waits its turn, or is through by then.
            for _ in 0..10_000 {
                std::thread::yield_now();
            }
            file.met.wait();
            assert!(first.join().unwrap().is_err());
            assert!(second.join().unwrap().is_err());
        });
        assert_eq!(journal.synced(), 1);
    }

    /// Two records of a durable cycle cost 9.3 kB of the device: each tenth one crossed into the
    /// next page, and its sync wrote two.
    #[test]
    fn what_is_synced_by_itself_lies_in_one_page() {
        let head = (&JournalHead { queue: [0; 16], ring: 64 << 10 }, Slot::default());
        let last = Span { link: Link { number: 1, checksum: 0 }, start: 0, end: 0 };
        for (size, alone) in [(300, true), (300, false), (PAGE as usize, true), (5000, true)] {
            let mut ring = Ring::resume(Arc::new(Double::new()), head.clone(), last, last, 0);
            let value = Value::from([7; 5000].get(..size - 112).unwrap());
            let (key, op) = (Key::from_slice(&[1; 9]), RowOp::Add(value));
            for _ in 0..10 {
                let before = ring.last();
                let load = Load { carried: 0, most: u64::MAX };
                ring.append(&RecordMeta::default(), false, [(&key, &op)].into_iter(), load)
                    .unwrap();
                let Span { start, end, .. } = ring.last();
                if alone && end - start <= PAGE {
                    ring.shared.synced.store(ring.shared.written(), Ordering::SeqCst);
                    assert_eq!(start / PAGE, (end - 1) / PAGE, "{size}: one page");
                    let moved = start != before.end;
                    assert!(!moved || start % PAGE == 0 && start - before.end < PAGE);
                } else {
                    assert_eq!(start, before.end, "{size}: no byte is left out");
                }
            }
        }
    }
}
