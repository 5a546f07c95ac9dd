//! One opening of the base's database: redb over the base's file. A file is opened by redb once at
//! a time: two openings would not know of each other's pages.

use super::disk::DiskFile;
use super::paced_io::PacedWriter;
use super::redb_errors::{Fault, FileHealth, fenced};
use super::reserve::BaseFile;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use redb::backends::InMemoryBackend;
use redb::{Database, ReadTransaction, ReadableDatabase, StorageBackend, WriteTransaction};
use std::io;

/// The base's file as redb uses it. redb's own file locks are not used: the opening holds the
/// journal's lock.
#[derive(Debug)]
struct Backend {
    file: Arc<BaseFile>,
    health: Arc<FileHealth>,
    writer: Arc<PacedWriter>,
}

impl Backend {
    /// # Errors
    /// If the file was opened again since, or the store is closed.
    fn attached(&self) -> io::Result<&BaseFile> {
        if self.health.is_detached() {
            return Err(io::Error::other("this handle of base.redb is closed"));
        }
        Ok(&self.file)
    }

    fn file(&self) -> io::Result<&dyn DiskFile> {
        Ok(&*self.attached()?.file)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.attached()?.seen())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.health.note(self.file()?.read_at(offset, out), false)?;
        // If the file was opened again during the read, the next opening may have written the page.
        self.attached().map(drop)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.health.note(self.attached()?.set_seen(len), false)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.health.note(self.file()?.sync(), true)?;
        self.writer.synced();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.health.note(self.file()?.write_at(offset, data), false)?;
        match self.writer.note_write(data.len()) {
            Some(pacer) => pacer.sync_and_pause(&mut || self.sync_data()),
            None => Ok(()),
        }
    }
}

/// Whether a file ended before the last byte of a read.
fn is_too_short(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(|cause: &io::Error| cause.kind() == io::ErrorKind::UnexpectedEof)
}

/// Opens the database of a backend, or makes one there.
fn create(health: &FileHealth, backend: impl StorageBackend, cache: usize) -> Result<Database> {
    let create = || Ok(Database::builder().set_cache_size(cache).create_with_backend(backend)?);
    fenced(health, create)
}

/// One opening of the database. Threads that read or write it without the store's lock share it.
#[derive(Debug)]
pub(crate) struct Opening {
    /// `None` only while it is dropped: redb writes in its destructor, which runs in `fenced`.
    db: Option<Database>,
    /// `None` in memory.
    pub(super) file: Option<Arc<BaseFile>>,
    pub(crate) health: Arc<FileHealth>,
    pub(crate) writer: Arc<PacedWriter>,
}

impl Opening {
    pub(super) fn of_file(file: Arc<BaseFile>, cache: usize) -> Result<Self> {
        let health = Arc::new(FileHealth::default());
        let writer = Arc::new(PacedWriter::default());
        let backend =
            Backend { file: file.clone(), health: health.clone(), writer: writer.clone() };
        match (create(&health, backend, cache), health.fault()) {
            (Ok(db), _) => Ok(Self { db: Some(db), file: Some(file), health, writer }),
            (Err(error), Some(Fault::Sync)) => Err(Error::not_synced("base.redb", error)),
            // The disk has reported no fault, or the file is too short: the bytes are not redb's.
            (Err(error), fault)
                if error.kind() == ErrorKind::Io && (fault.is_none() || is_too_short(&error)) =>
            {
                Err(Error::new(ErrorKind::Damaged)
                    .because("base.redb is cut short, or is not a database")
                    .caused_by(error))
            }
            // The disk's fault is the cause, also of a panic of redb.
            (Err(error), Some(fault)) if error.kind() == ErrorKind::Broken => {
                Err(Error::new(fault.kind()).caused_by(error))
            }
            (Err(error), _) => Err(error),
        }
    }

    pub(super) fn in_memory(cache: usize) -> Result<Self> {
        let health = Arc::new(FileHealth::default());
        let db = create(&health, InMemoryBackend::new(), cache)?;
        Ok(Self { db: Some(db), file: None, health, writer: Arc::default() })
    }

    pub(crate) fn db(&self) -> std::result::Result<&Database, redb::Error> {
        self.db.as_ref().ok_or(redb::Error::DatabaseClosed)
    }

    pub(crate) fn db_mut(&mut self) -> std::result::Result<&mut Database, redb::Error> {
        self.db.as_mut().ok_or(redb::Error::DatabaseClosed)
    }

    /// Bytes of the file; 0 in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.as_ref().and_then(|file| file.file.len().ok()).unwrap_or(0)
    }

    pub(crate) fn begin_write(&self) -> Result<WriteTransaction> {
        fenced(&self.health, || {
            let mut txn = self.db()?.begin_write()?;
            // With it redb also commits in two phases. Then the data of a visible commit is whole
            // without its checksums, and the next opening need not read the whole file.
            txn.set_quick_repair(true);
            Ok(txn)
        })
    }

    /// A snapshot of the base. Drop it soon: it keeps every page that is replaced in the meantime.
    /// Must not be called with the store's lock held: redb blocks it while the file grows, and with
    /// a small cache for a piece of a checkpoint.
    pub(crate) fn begin_read(&self) -> Result<ReadTransaction> {
        fenced(&self.health, || Ok(self.db()?.begin_read()?))
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            // A failure cannot be returned from here. The next opening repairs the file.
            let _ = fenced(&self.health, || {
                drop(db);
                Ok(())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::disk::OsFile;
    use crate::store::scratch::ScratchFile;
    use crate::store::tables::ROWS;
    use crate::words::sync::{AtomicBool, Ordering};

    /// A base that is only read is repaired in memory. Its bound: redb reads every page, and writes
    /// the first.
    #[test]
    fn a_repair_writes_one_page() {
        let file: Arc<dyn DiskFile> = Arc::new(OsFile(tempfile::tempfile().unwrap()));
        let opening =
            Opening::of_file(Arc::new(BaseFile::new(file.clone()).unwrap()), 1 << 20).unwrap();
        for round in 0..10_u8 {
            // As in a compaction, without what makes a repair short.
            let txn = opening.db().unwrap().begin_write().unwrap();
            for number in 0..1000_u32 {
                let key = [&[round][..], &number.to_be_bytes()].concat();
                txn.open_table(ROWS).unwrap().insert(&*key, &[7; 1000][..]).unwrap();
            }
            txn.commit().unwrap();
        }
        // As after a kill.
        opening.health.detach();
        drop(opening);
        let scratch = Arc::new(ScratchFile::over(file).unwrap());
        let repaired = Arc::new(AtomicBool::new(false));
        let note = repaired.clone();
        let file = Arc::new(BaseFile::new(scratch.clone()).unwrap());
        let backend = Backend { file, health: Arc::default(), writer: Arc::default() };
        let db = Database::builder()
            .set_cache_size(1 << 20)
            .set_repair_callback(move |_| note.store(true, Ordering::SeqCst))
            .create_with_backend(backend)
            .unwrap();
        assert!(repaired.load(Ordering::SeqCst));
        assert!(scratch.len().unwrap() > 10_000_000);
        assert_eq!(scratch.pages(), 1);
        drop(db);
    }
}
