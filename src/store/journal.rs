//! The journal: one file, preallocated, written in place as a ring of records, each hanging on the
//! one before. It never writes over a record that the base does not hold, nor over the last that
//! it does: that one proves at the next opening that the two files belong together.

use super::disk::DiskFile;
use super::features::{Features, SLOT_BYTES, Slot};
use super::head::{self, HEAD_BYTES, JournalHead};
use super::record::{HEADER_BYTES, Link, NOTE_BYTES, RecordBuilder, RecordMeta};
use crate::format::RowOp;
use crate::format::extension::Extension;
use crate::format::key::Key;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BALLAST_BYTES;
use crate::words::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, RwLock};
use std::io;

/// Bytes of a page of the medium: a sync writes whole ones.
const PAGE: u64 = head::PAGE as u64;
/// Bytes of zeros written at a time. A system may keep as large a page in its cache as was written
/// at once, and then every record written into it costs more: on Linux 6.18, 0.9 µs up to 64 KiB,
/// 2.4 µs from 1 MiB.
const ZEROS: usize = 64 << 10;
/// Bytes of the record buffer that are kept between records.
const DRAFT_KEPT: usize = 1 << 20;

/// The journal as those see it who wait for a sync. Used without the store's lock.
#[derive(Debug)]
pub(crate) struct Journal {
    /// Gone once the store is closed, and the folder's lock with it. Read while it is synced, so
    /// that a close waits for that.
    file: RwLock<Option<Arc<dyn DiskFile>>>,
    /// TicketHandle over a sync. Of two at a time the system tells only one that it failed, and the
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

/// Where a record stands in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) link: Link,
    pub(crate) start: u64,
    pub(crate) end: u64,
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
    /// Start of the last record that the base holds; from here to `end` nothing is written over.
    start: u64,
    last: Span,
    /// Whether the last record only says what is synced, or nothing was written since the opening.
    is_idle: bool,
    slot: Slot,
    draft: RecordBuilder,
}

impl Ring {
    /// Goes on behind `last`, the tail of the chain; `start` is where the base's last record is.
    pub(crate) fn resume(
        file: Arc<dyn DiskFile>,
        (head, slot): (&JournalHead, Slot),
        start: u64,
        last: Span,
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
            start,
            last,
            is_idle: true,
            slot,
            draft: RecordBuilder::default(),
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
        let (start, end) = (self.start, self.last.end);
        if end >= start { end - start } else { self.size - start + end }
    }

    /// The base now holds everything up to this record.
    pub(crate) fn free_before(&mut self, anchor: Span) {
        self.start = anchor.start;
    }

    /// A record that is at most a quarter of the ring fits behind every checkpoint, wherever the
    /// one record that is then still protected lies.
    pub(crate) fn record_max(&self) -> u64 {
        self.size / 4
    }

    /// Where a record of this size may stand. One byte always stays free between head and tail,
    /// so that a full ring is not an empty one.
    fn place(&self, size: u64) -> Option<u64> {
        let end = self.last.end;
        let page = page_behind(end);
        if self.spares_a_page(size) && page + size <= self.bound(end) {
            return Some(page);
        }
        self.place_behind(end, size)
    }

    /// The same, not at a page, behind a record that ends here.
    fn place_behind(&self, end: u64, size: u64) -> Option<u64> {
        if end + size <= self.bound(end) {
            return Some(end);
        }
        (end >= self.start && size < self.start).then_some(0)
    }

    /// Up to where what is written from here on may reach.
    fn bound(&self, at: u64) -> u64 {
        if at >= self.start { self.size } else { self.start - 1 }
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

    /// Writes one record; `reserves` if the reserved numbers have moved. Its number. Leaves room
    /// for a note.
    pub(crate) fn append<'a>(
        &mut self,
        stamp: &RecordMeta,
        reserves: bool,
        rows: impl Iterator<Item = (&'a Key, &'a RowOp)>,
    ) -> Result<u64, WriteFault> {
        self.draft.begin(stamp, reserves);
        for (key, op) in rows {
            self.draft.row(key, op);
        }
        self.write(NOTE_BYTES)
    }

    /// Writes a record without rows, for what it reserves, into the room that others leave.
    pub(crate) fn note(&mut self, stamp: &RecordMeta) -> Result<u64, WriteFault> {
        self.draft.begin(stamp, true);
        self.write(0)
    }

    /// Writes a record that only says that all before it is synced, once behind the last other
    /// one. Without it, damage to the last records would pass for the torn tail of a power cut.
    /// False while a record is not synced.
    pub(crate) fn idle(&mut self, stamp: &RecordMeta) -> Result<bool, WriteFault> {
        // What the base holds cannot be missing.
        let is_held = self.last.start == self.start;
        if self.is_idle || is_held {
            return Ok(true);
        }
        if self.shared.synced() < self.last.link.number {
            return Ok(false);
        }
        self.draft.begin(stamp, false);
        self.write(NOTE_BYTES)?;
        self.is_idle = true;
        Ok(true)
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
        let number = self.write(0)?;
        // Nobody misses it.
        self.is_idle = true;
        Ok(number)
    }

    /// Writes the draft, and leaves room for a record of `spare` bytes behind it.
    fn write(&mut self, spare: u64) -> Result<u64, WriteFault> {
        let size = self.draft.size();
        if size > self.record_max() {
            self.draft.shrink(DRAFT_KEPT);
            return Err(WriteFault::TooLarge);
        }
        let start = self.place(size).ok_or(WriteFault::NoRoom)?;
        let end = start + size;
        if spare > 0 && self.place_behind(end, spare).is_none() {
            return Err(WriteFault::NoRoom);
        }
        let link = self.draft.seal(self.last.link, self.shared.synced(), self.seed);
        self.draft.fill(self.filled(start, end) - end);
        let at = HEAD_BYTES as u64 + start;
        if let Err(error) = self.file.write_at(at, self.draft.bytes()) {
            return Err(self.undo(at, error));
        }
        self.last = Span { link, start, end };
        self.is_idle = false;
        self.shared.written.store(link.number, Ordering::Release);
        Ok(link.number)
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
    fn undo(&self, at: u64, error: io::Error) -> WriteFault {
        let written = self.shared.written();
        let gone = self.file.write_at(at, &[0; HEADER_BYTES]).and_then(|()| self.sync());
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

    /// Frees the space behind the ring, for a checkpoint that met a full disk.
    pub(crate) fn free_ballast(&self) -> io::Result<()> {
        cut_ballast(&*self.file, self.size)?;
        self.sync()
    }

    pub(crate) fn has_ballast(&self) -> io::Result<bool> {
        Ok(self.file.len()? >= HEAD_BYTES as u64 + self.size + BALLAST_BYTES)
    }

    /// Writes the ballast out: a length alone holds no space.
    pub(crate) fn restore_ballast(&self) -> io::Result<()> {
        let from = HEAD_BYTES as u64 + self.size;
        let filled = zeros(&*self.file, from, BALLAST_BYTES).and_then(|()| self.sync());
        if filled.is_err() {
            // Half a ballast would pass for a whole one at the next look.
            let _ = self.file.set_len(from);
        }
        filled
    }
}

fn zeros(file: &dyn DiskFile, from: u64, count: u64) -> io::Result<()> {
    let chunk = vec![0; ZEROS.min(count as usize)];
    let mut done = 0;
    while done < count {
        let part = chunk.get(..(count - done).min(ZEROS as u64) as usize).unwrap_or_default();
        file.write_at(from + done, part)?;
        done += part.len() as u64;
    }
    Ok(())
}

/// Frees the space behind a ring of this size, once it is synced.
pub(crate) fn cut_ballast(file: &dyn DiskFile, ring: u64) -> io::Result<()> {
    file.set_len(HEAD_BYTES as u64 + ring)
}

/// Fills a new file: head, ring, ballast, all written out, so that a record changes bytes only.
pub(crate) fn create(file: &dyn DiskFile, head: &JournalHead) -> io::Result<()> {
    file.write_at(0, &head.encode())?;
    zeros(file, HEAD_BYTES as u64, head.ring + BALLAST_BYTES)?;
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
        let ring = Ring::resume(file.clone(), head, 0, last);
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
            let mut ring = Ring::resume(Arc::new(Double::new()), head.clone(), 0, last);
            let value = Value::from([7; 5000].get(..size - 112).unwrap());
            let (key, op) = (Key::from_slice(&[1; 9]), RowOp::Add(value));
            for _ in 0..10 {
                let before = ring.last();
                ring.append(&RecordMeta::default(), false, [(&key, &op)].into_iter()).unwrap();
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
