//! The base: a redb database and one read snapshot of it, renewed at each checkpoint. Every call
//! into redb that this file makes is fenced: an error is translated, a panic becomes `Broken`.

use super::disk::DiskFile;
use super::paced_io::PacedWriter;
use super::range_cache::{CachedRange, RangeCache, SequentialScan};
use super::reserve::BaseFile;
use super::tables::{
    ANCHOR, Bytes, CheckpointPosition, ROWS, STATE, Tally, decode_tally, run_of, unseal,
};
use crate::format::key::{Key, Run, after, copy};
use crate::format::{Met, Value};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::plain::{AtomicBool, Mutex};
use crate::words::sync::{Arc, Ordering};
use redb::ReadableTableMetadata;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, StorageBackend};
use std::cell::RefCell;
use std::io;
use std::iter::successors;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Rows that are read ahead before it is asked again whether it may go on: a few pages.
const AHEAD_STEP: usize = 16;

/// The worst that failed, or the first of it, which decides what can be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A read, a write or a change of length: open the files again and go on.
    Retryable { full: bool },
    /// A sync: what the file shows is no longer what is on the medium.
    Sync,
}

impl Fault {
    fn kind(self) -> ErrorKind {
        match self {
            Self::Retryable { full: true } => ErrorKind::DiskFull,
            _ => ErrorKind::Io,
        }
    }
}

/// What became of one opening of the base's file. Told and asked by redb, inside its own locks.
#[derive(Debug, Default)]
pub(crate) struct FileHealth {
    fault: Mutex<Option<Fault>>,
    /// The file was opened again, or the store is closed: whoever still reads through the old
    /// opening must not see pages that are another's by now, nor write any.
    cut: AtomicBool,
}

impl FileHealth {
    pub(crate) fn fault(&self) -> Option<Fault> {
        *self.fault.lock()
    }

    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
    }

    /// Whether nothing was refused to redb.
    fn is_clean(&self) -> bool {
        self.fault().is_none() && !self.cut.load(Ordering::Acquire)
    }

    fn note<T>(&self, done: io::Result<T>, sync: bool) -> io::Result<T> {
        if let Err(error) = &done {
            let kind = error.kind();
            let full = matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
            let fault = if sync { Fault::Sync } else { Fault::Retryable { full } };
            let mut noted = self.fault.lock();
            if sync || noted.is_none() {
                *noted = Some(fault);
            }
        }
        done
    }
}

/// redb's file on our disk. redb's own locks are not used: the journal's is taken before.
#[derive(Debug)]
struct Backend {
    file: Arc<BaseFile>,
    fate: Arc<FileHealth>,
    writer: Arc<PacedWriter>,
}

impl Backend {
    fn whole(&self) -> io::Result<&BaseFile> {
        if self.fate.cut.load(Ordering::Acquire) {
            return Err(io::Error::other("the store has let go of this opening of its base"));
        }
        Ok(&self.file)
    }

    fn file(&self) -> io::Result<&dyn DiskFile> {
        Ok(&*self.whole()?.file)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.whole()?.seen())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.fate.note(self.file()?.read_at(offset, out), false)?;
        // A page that was read beside a new opening may be that opening's.
        self.whole().map(drop)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.fate.note(self.whole()?.set_seen(len), false)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.fate.note(self.file()?.sync(), true)?;
        self.writer.synced();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.fate.note(self.file()?.write_at(offset, data), false)?;
        match self.writer.note_write(data.len()) {
            Some(pacer) => pacer.sync_and_pause(&mut || self.sync_data()),
            None => Ok(()),
        }
    }
}

/// Runs redb behind a fence.
pub(crate) fn fenced<T>(
    fate: &FileHealth,
    work: impl FnOnce() -> std::result::Result<T, redb::Error>,
) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(translated(error, fate)),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let error = Error::new(ErrorKind::Broken).because(format!("the base panicked: {text}"));
            Err(if fate.is_clean() { error.caused_by(CorruptionPanic) } else { error })
        }
    }
}

/// Why redb panicked though nothing was refused to it.
#[derive(Debug)]
struct CorruptionPanic;

impl std::error::Error for CorruptionPanic {}

impl std::fmt::Display for CorruptionPanic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no read, write or sync had failed before")
    }
}

/// Whether redb panicked over what it read.
pub(super) fn is_corruption_panic(error: &Error) -> bool {
    let mut causes = successors(std::error::Error::source(error), |cause| cause.source());
    causes.any(|cause| cause.is::<CorruptionPanic>())
}

/// What an opening says over which redb panicked: the next one will see the same bytes.
pub(super) fn unreadable(error: Error) -> Error {
    Error::new(ErrorKind::Damaged).because("base.redb cannot be read").caused_by(error)
}

/// The same of an opening that failed for whatever reason.
pub(super) fn of_its_bytes(error: Error) -> Error {
    if is_corruption_panic(&error) { unreadable(error) } else { error }
}

fn translated(error: redb::Error, fate: &FileHealth) -> Error {
    match error {
        redb::Error::Io(error) => Error::io(error),
        redb::Error::PreviousIo => Error::new(fate.fault().map_or(ErrorKind::Io, Fault::kind))
            .because("an earlier read or write of base.redb failed"),
        // Our own tables; the application's errors are its own.
        error @ (redb::Error::Corrupted(_)
        | redb::Error::TableDoesNotExist(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }) => {
            Error::new(ErrorKind::Damaged).because("base.redb").caused_by(error)
        }
        error => Error::new(ErrorKind::Io).because("base.redb").caused_by(error),
    }
}

/// Whether a file ended before what was to be read of it.
fn is_cut(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(|cause: &io::Error| cause.kind() == io::ErrorKind::UnexpectedEof)
}

/// One opening of the database, shared with those who write to it without the store's lock.
#[derive(Debug)]
pub(crate) struct Opening {
    /// Taken out when the opening ends, behind a fence, since redb writes in its destructor.
    db: Option<Database>,
    /// `None` in memory.
    pub(super) file: Option<Arc<BaseFile>>,
    pub(crate) fate: Arc<FileHealth>,
    pub(crate) writer: Arc<PacedWriter>,
}

impl Opening {
    fn of_file(file: Arc<BaseFile>, cache: usize) -> Result<Self> {
        let fate = Arc::new(FileHealth::default());
        let writer = Arc::new(PacedWriter::default());
        let tap = Backend { file: file.clone(), fate: fate.clone(), writer: writer.clone() };
        let opened = fenced(&fate, || {
            let mut builder = Database::builder();
            Ok(builder.set_cache_size(cache).create_with_backend(tap)?)
        });
        match (opened, fate.fault()) {
            (Ok(db), _) => Ok(Self { db: Some(db), file: Some(file), fate, writer }),
            (Err(error), Some(Fault::Sync)) => Err(Error::not_synced("base.redb", error)),
            // Not the disk's word: redb does not know these bytes.
            (Err(error), fault)
                if error.kind() == ErrorKind::Io && (fault.is_none() || is_cut(&error)) =>
            {
                Err(Error::new(ErrorKind::Damaged).because("base.redb").caused_by(error))
            }
            // What was refused is what is to be said, also if redb panicked over it.
            (Err(error), Some(fault)) if error.kind() == ErrorKind::Broken => {
                Err(Error::new(fault.kind()).caused_by(error))
            }
            (Err(error), _) => Err(error),
        }
    }

    fn in_memory(cache: usize) -> Result<Self> {
        let fate = Arc::new(FileHealth::default());
        let db = fenced(&fate, || {
            let mut builder = Database::builder();
            Ok(builder.set_cache_size(cache).create_with_backend(InMemoryBackend::new())?)
        })?;
        Ok(Self { db: Some(db), file: None, fate, writer: Arc::default() })
    }

    pub(crate) fn db(&self) -> std::result::Result<&Database, redb::Error> {
        self.db.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    /// Bytes of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.as_ref().and_then(|file| file.file.len().ok()).unwrap_or(0)
    }

    /// `None` in memory.
    pub(crate) fn file(&self) -> Option<Arc<dyn DiskFile>> {
        self.file.as_ref().map(|file| file.file.clone())
    }

    pub(crate) fn db_mut(&mut self) -> std::result::Result<&mut Database, redb::Error> {
        self.db.as_mut().ok_or(redb::Error::DatabaseClosed)
    }

    pub(crate) fn begin_write(&self) -> Result<redb::WriteTransaction> {
        fenced(&self.fate, || {
            let mut txn = self.db()?.begin_write()?;
            // Also means two phases: what a commit shows is then whole without its checksums, and
            // the next opening need not walk the file.
            txn.set_quick_repair(true);
            Ok(txn)
        })
    }

    pub(crate) fn begin_read(&self) -> Result<ReadTransaction> {
        fenced(&self.fate, || Ok(self.db()?.begin_read()?))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            // A panic here has nobody to tell; the next opening repairs.
            let _ = fenced(&self.fate, || {
                drop(db);
                Ok(())
            });
        }
    }
}

/// The database under one snapshot.
pub(crate) struct Base {
    opening: Arc<Opening>,
    rows: Arc<ReadOnlyTable<Bytes, Bytes>>,
    windows: RefCell<RangeCache>,
    anchor: CheckpointPosition,
}

impl Base {
    /// Makes an empty base with nothing but an anchor in it, and closes it.
    pub(crate) fn create(file: Arc<dyn DiskFile>, anchor: &CheckpointPosition) -> Result<()> {
        let file = BaseFile::new(file).map_err(Error::io)?;
        let opening = Opening::of_file(Arc::new(file), 1 << 20)?;
        initialise(&opening, anchor)
    }

    pub(crate) fn in_memory(cache: usize, anchor: &CheckpointPosition) -> Result<Self> {
        let opening = Opening::in_memory(cache)?;
        initialise(&opening, anchor)?;
        Self::over(Arc::new(opening))
    }

    /// # Errors
    /// `Damaged` if this is no base of ours; `Io` or `DiskFull` from the disk; `Broken` if redb
    /// panicked.
    pub(crate) fn open(file: BaseFile, cache: usize) -> Result<Self> {
        // redb would make a new database in an empty file.
        if file.seen() == 0 {
            return Err(Error::new(ErrorKind::Damaged).because("base.redb is empty"));
        }
        Self::over(Arc::new(Opening::of_file(Arc::new(file), cache)?))
    }

    /// Takes a snapshot of what is committed.
    pub(crate) fn over(opening: Arc<Opening>) -> Result<Self> {
        let (rows, anchor) = fenced(&opening.fate, || {
            let read = opening.db()?.begin_read()?;
            let state = read.open_table(STATE)?;
            let anchor = state.get(ANCHOR)?;
            let anchor = anchor.and_then(|sealed| {
                unseal(ANCHOR, sealed.value()).and_then(CheckpointPosition::decode)
            });
            Ok((Arc::new(read.open_table(ROWS)?), anchor))
        })?;
        let anchor = anchor
            .ok_or_else(|| Error::new(ErrorKind::Damaged).because("base.redb has no anchor"))?;
        Ok(Self { opening, rows, windows: RefCell::default(), anchor })
    }

    /// The same snapshot for another reader.
    pub(super) fn share(&self) -> Self {
        let (opening, rows, anchor) =
            (self.opening.clone(), self.rows.clone(), self.anchor.clone());
        Self { opening, rows, windows: RefCell::default(), anchor }
    }

    pub(crate) fn anchor(&self) -> &CheckpointPosition {
        &self.anchor
    }

    /// Whether it is as it was made.
    pub(crate) fn is_new(&self) -> Result<bool> {
        let genesis =
            CheckpointPosition::genesis(self.anchor.queue, self.anchor.span.link.checksum);
        let is_empty = fenced(&self.opening.fate, || Ok(self.rows.is_empty()?))?;
        Ok(is_empty && self.anchor == genesis)
    }

    pub(crate) fn opening(&self) -> &Arc<Opening> {
        &self.opening
    }

    /// Gives up the snapshot, so that its pages may be written again.
    pub(crate) fn into_opening(self) -> Arc<Opening> {
        self.opening
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        // A task whose turn came stands in a window that was read when it came.
        if let Some(met) = self.windows.borrow().look(key, &after(key)) {
            let value = |(_, value): &Met| value.clone().ok_or_else(|| damaged(key));
            return met.map(value).transpose();
        }
        fenced(&self.opening.fate, || {
            let Some(sealed) = self.rows.get(key)? else { return Ok(None) };
            Ok(Some(unseal(key, sealed.value()).map(Value::from)))
        })?
        .map(|value| value.ok_or_else(|| damaged(key)))
        .transpose()
    }

    /// The first row with `from <= key < to`, from a window of rows read ahead: the snapshot does
    /// not change, so taking in order costs one seek for many rows.
    #[inline]
    pub(crate) fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        if let Some(met) = self.windows.borrow().look(from, to) {
            return Ok(met.map(handed));
        }
        self.first_of_new_window(from, to)
    }

    #[cold]
    fn first_of_new_window(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let window = self.read_window(from)?;
        let met = window.look(from, to).flatten().map(handed);
        if window.is_small() {
            self.windows.borrow_mut().keep(Key::from_slice(from), window);
        }
        Ok(met)
    }

    fn read_window(&self, from: &[u8]) -> Result<CachedRange> {
        let tag = from.first().copied().unwrap_or_default();
        fenced(&self.opening.fate, || {
            let mut window = CachedRange::default();
            for row in self.rows.range::<&[u8]>(from..)? {
                let (key, sealed) = row?;
                if window.push(tag, key.value(), unseal(key.value(), sealed.value())) {
                    return Ok(window);
                }
            }
            Ok(window.close())
        })
    }

    /// Brings the rows that reading in order comes to next into redb's cache, and the system's:
    /// twice what was read since the snapshot was taken, but at most so many bytes, and only while
    /// it may. What a row refers to, such as a long payload, is not among them.
    pub(crate) fn read_ahead(&self, most: u64, may_go_on: &dyn Fn() -> bool) -> Result<()> {
        let courses = self.windows.borrow().courses();
        // A listing of everything is worth no more than all there is to share.
        let wanted = |course: &SequentialScan| (course.bytes as u64 * 2).min(most);
        let all: u64 = courses.iter().map(wanted).sum();
        let most = most.min(all);
        fenced(&self.opening.fate, || {
            for course in courses {
                let share = u128::from(wanted(&course)) * u128::from(most);
                let mut left = (share / u128::from(all.max(1))) as u64;
                let rows = self.rows.range::<&[u8]>(course.from.as_slice()..)?;
                for (number, row) in rows.enumerate() {
                    let (key, sealed) = row?;
                    left = left.saturating_sub((key.value().len() + sealed.value().len()) as u64);
                    if left == 0 || key.value().first() != course.from.first() {
                        break;
                    }
                    if number % AHEAD_STEP == 0 && !may_go_on() {
                        return Ok(());
                    }
                }
            }
            Ok(())
        })
    }

    /// Every row, in order. A damaged value is `None`.
    pub(crate) fn each(
        &self,
        from: &[u8],
        to: &[u8],
        mut met: impl FnMut(&[u8], Option<&[u8]>),
    ) -> Result<()> {
        fenced(&self.opening.fate, || {
            for row in self.rows.range::<&[u8]>(from..to)? {
                let (key, sealed) = row?;
                met(key.value(), unseal(key.value(), sealed.value()));
            }
            Ok(())
        })
    }

    /// The counts of every run that has rows.
    pub(crate) fn tallies(&self) -> Result<Vec<(Run, Tally)>> {
        let tallies = fenced(&self.opening.fate, || {
            let state = self.opening.db()?.begin_read()?.open_table(STATE)?;
            let mut tallies = Some(Vec::new());
            for row in state.range::<&[u8]>(..)? {
                let (key, sealed) = row?;
                let Some(run) = run_of(key.value()) else { continue };
                let tally = unseal(key.value(), sealed.value()).and_then(decode_tally);
                tallies = tallies.zip(tally).map(|(mut tallies, tally)| {
                    tallies.push((run, tally));
                    tallies
                });
            }
            Ok(tallies)
        })?;
        tallies.ok_or_else(|| Error::new(ErrorKind::Damaged).because("the counts in base.redb"))
    }
}

fn initialise(opening: &Opening, anchor: &CheckpointPosition) -> Result<()> {
    let txn = opening.begin_write()?;
    fenced(&opening.fate, || {
        txn.open_table(ROWS)?;
        let mut buffer = Vec::new();
        let sealed = super::tables::seal(ANCHOR, &anchor.encode(), &mut buffer);
        txn.open_table(STATE)?.insert(ANCHOR, sealed)?;
        Ok(txn.commit()?)
    })
}

fn damaged(key: &[u8]) -> Error {
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    Error::new(ErrorKind::Damaged).because(format!("the row {key} in base.redb"))
}

fn handed((key, value): &Met) -> Met {
    (copy(key), value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A write that failed for want of room was noted and the failed sync behind it was not: the
    /// store opened its files again and went on, over pages that were never on the medium.
    #[test]
    fn a_failed_sync_outweighs_whatever_failed_before() {
        let fate = FileHealth::default();
        let full = || io::Result::<()>::Err(io::ErrorKind::StorageFull.into());
        assert!(fate.note(full(), false).is_err());
        assert_eq!(fate.fault(), Some(Fault::Retryable { full: true }));
        assert!(fate.note(full(), true).is_err());
        assert_eq!(fate.fault(), Some(Fault::Sync));
        assert!(fate.note(full(), false).is_err());
        assert_eq!(fate.fault(), Some(Fault::Sync));
    }
}
