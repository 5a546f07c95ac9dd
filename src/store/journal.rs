//! The journal: one file, preallocated, written in place as a ring of records, each hanging on the
//! one before. It never writes over a record that the base does not hold, nor over the last that
//! it does: that one proves at the next opening that the two files belong together.

use super::disk::DiskFile;
use super::record::{
    ALIGN, Draft, HEAD_BYTES, HEADER_BYTES, Head, Header, Kind, Link, STAMP_BYTES, Stamp, is_whole,
};
use crate::bytes::RowWrite;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::BALLAST_BYTES;
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, RwLock};
use std::io;

/// Bytes read or written at a time where a file is walked as a whole.
const CHUNK: usize = 1 << 20;
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
    /// Held over a sync. Of two at a time the system tells only one that it failed, and the other
    /// would pass for a good one.
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
                return Err(Error::io(error).because("the journal was not synced"));
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
    draft: Draft,
}

impl Ring {
    /// Goes on behind `last`, the tail of the chain; `start` is where the base's last record is.
    pub(crate) fn resume(file: Arc<dyn DiskFile>, head: &Head, start: u64, last: Span) -> Self {
        let shared = Arc::new(Journal {
            file: RwLock::new(Some(file.clone())),
            turn: Mutex::new(()),
            written: AtomicU64::new(last.link.number),
            synced: AtomicU64::new(last.link.number),
            failed: AtomicBool::new(false),
            oldest: AtomicU64::new(0),
        });
        let draft = Draft::default();
        Self { file, shared, seed: head.seed(), size: head.ring, start, last, draft }
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
        let (start, end) = (self.start, self.last.end);
        if end >= start {
            if end + size <= self.size { Some(end) } else { (size < start).then_some(0) }
        } else {
            (size < start - end).then_some(end)
        }
    }

    /// Writes one record. Its number.
    pub(crate) fn append<'a>(
        &mut self,
        stamp: &Stamp,
        rows: impl Iterator<Item = &'a RowWrite>,
    ) -> Result<u64, WriteFault> {
        self.draft.begin(stamp);
        for row in rows {
            self.draft.row(row);
        }
        self.write(Kind::Rows)
    }

    /// Writes the record that begins an opening.
    pub(crate) fn append_opening(&mut self, stamp: &Stamp, nonce: u64) -> Result<u64, WriteFault> {
        self.draft.begin(stamp);
        self.draft.nonce(nonce);
        self.write(Kind::Opening)
    }

    fn write(&mut self, kind: Kind) -> Result<u64, WriteFault> {
        let size = self.draft.size();
        if size > self.record_max() {
            self.draft.shrink(DRAFT_KEPT);
            return Err(WriteFault::TooLarge);
        }
        let start = self.place(size).ok_or(WriteFault::NoRoom)?;
        let link = self.draft.seal(kind, self.last.link, self.shared.synced(), self.seed);
        let at = HEAD_BYTES as u64 + start;
        if let Err(error) = self.file.write_at(at, self.draft.bytes()) {
            return Err(self.undo(at, error));
        }
        self.last = Span { link, start, end: start + size };
        self.shared.written.store(link.number, Ordering::Release);
        Ok(link.number)
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
        self.file.set_len(HEAD_BYTES as u64 + self.size)?;
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

/// Fills a new file: head, ring, ballast, all written out, so that a record changes bytes only.
pub(crate) fn create(file: &dyn DiskFile, head: &Head) -> io::Result<()> {
    file.write_at(0, &head.encode())?;
    zeros(file, HEAD_BYTES as u64, head.ring + BALLAST_BYTES)?;
    file.sync()
}

/// Walks a ring by position, with one chunk of it in memory.
pub(crate) struct Reader<'a> {
    file: &'a dyn DiskFile,
    head: &'a Head,
    chunk: Vec<u8>,
    at: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, head: &'a Head) -> Self {
        Self { file, head, chunk: Vec::new(), at: 0 }
    }

    /// `None` past the end of the ring.
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

    /// The record at this place, if there is a whole one.
    pub(crate) fn record(&mut self, at: u64) -> io::Result<Option<(Header, &[u8])>> {
        let (ring, seed) = (self.head.ring, self.head.seed());
        let Some(header) = self.get(at, HEADER_BYTES)?.and_then(Header::read) else {
            return Ok(None);
        };
        if header.size() > ring / 4 {
            return Ok(None);
        }
        let Some(record) = self.get(at, header.size() as usize)? else { return Ok(None) };
        Ok(is_whole(record, &header, seed).then_some((header, record)))
    }

    /// Whether it may be a header: what is not synced yet is in the ring, so a record is no further
    /// from the last synced one than records fit in. Rows look like headers otherwise, at some of
    /// their bytes, and a megabyte was read for each.
    fn is_likely(&self, header: &Header) -> bool {
        let records_max = self.head.ring / (HEADER_BYTES + STAMP_BYTES) as u64;
        header.number - header.synced <= records_max
    }

    /// The record that hangs on `last`: behind it, or at the ring's start where it did not fit.
    pub(crate) fn next(&mut self, last: Span) -> io::Result<Option<(Header, Span, &[u8])>> {
        let mut found = None;
        for at in [last.end, 0] {
            let follows = self.record(at)?.filter(|(header, _)| {
                header.number == last.link.number + 1 && header.prev == last.link.checksum
            });
            if let Some((header, _)) = follows {
                let end = at + header.size();
                found = Some((header, Span { link: header.link(), start: at, end }));
                break;
            }
        }
        let Some((header, span)) = found else { return Ok(None) };
        let record = self.get(span.start, HEADER_BYTES + header.len)?;
        let body = record.and_then(|record| record.get(HEADER_BYTES..));
        Ok(body.map(|body| (header, span, body)))
    }

    /// Looks through the whole ring for records behind a gap that say that what is missing at
    /// `tail` was synced. Where they stand.
    pub(crate) fn beyond(
        &mut self,
        tail: u64,
        mut progress: impl FnMut(u64) -> Result<()>,
    ) -> Result<Vec<u64>> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < self.head.ring {
            if at.is_multiple_of(CHUNK as u64) {
                progress(at)?;
            }
            let header = self.get(at, HEADER_BYTES).map_err(Error::io)?.and_then(Header::read);
            // The cheap question first: nearly every place answers it.
            if header.is_some_and(|header| header.synced > tail && self.is_likely(&header))
                && self.record(at).map_err(Error::io)?.is_some()
            {
                found.push(at);
            }
            at += ALIGN as u64;
        }
        Ok(found)
    }
}

/// Writes what was replayed once more, byte for byte: after a kill or a failed sync the operating
/// system may show bytes that are not on the medium and that no sync would write.
pub(crate) fn write_again(file: &dyn DiskFile, head: &Head, from: u64, to: u64) -> io::Result<()> {
    let parts = if to >= from { [(from, to), (0, 0)] } else { [(from, head.ring), (0, to)] };
    let mut chunk = Vec::new();
    for (mut at, end) in parts {
        while at < end {
            chunk.resize((end - at).min(CHUNK as u64) as usize, 0);
            file.read_at(HEAD_BYTES as u64 + at, &mut chunk)?;
            file.write_at(HEAD_BYTES as u64 + at, &chunk)?;
            at += chunk.len() as u64;
        }
    }
    Ok(())
}

/// Takes the headers of these records away, so that no later opening meets them.
pub(crate) fn wipe(file: &dyn DiskFile, places: &[u64]) -> io::Result<()> {
    for at in places {
        file.write_at(HEAD_BYTES as u64 + at, &[0; HEADER_BYTES])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// A file full of row keys, which counts what is read of it, and whose first sync fails once
    /// it was met.
    #[derive(Debug)]
    struct Double {
        read: AtomicU64,
        syncs: AtomicU64,
        met: Barrier,
    }

    impl Double {
        fn new() -> Self {
            Self { read: AtomicU64::new(0), syncs: AtomicU64::new(0), met: Barrier::new(2) }
        }
    }

    impl DiskFile for Double {
        fn len(&self) -> io::Result<u64> {
            Ok(HEAD_BYTES as u64 + (8 << 20))
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            // Priority and order of a ready task, as a header has number, synced, length and kind.
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
        let head = Head { queue: [0; 16], ring: 64 << 10 };
        let last = Span { link: Link { number: 1, checksum: 0 }, start: 0, end: 0 };
        let ring = Ring::resume(file.clone(), &head, 0, last);
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

    /// Keys of ready tasks passed for headers of long records, and an opening read a megabyte for
    /// each: 0.15 s where 5 ms were enough.
    #[test]
    fn rows_that_look_like_headers_are_read_once() {
        let file = Double::new();
        let head = Head { queue: [0; 16], ring: 8 << 20 };
        let found = Reader::new(&file, &head).beyond(1000, |_| Ok(())).unwrap();
        assert_eq!(found, []);
        assert!(file.read.load(Ordering::SeqCst) < 9 << 20, "{file:?}");
    }
}
