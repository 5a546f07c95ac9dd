//! Counts the calls to the disk. It is between the store and its two files, passes every call on,
//! and changes nothing.

use super::disk::{Access, Disk, DiskFile};
use crate::words::error::{Error, Result};
use crate::words::sync::plain::AtomicU64;
use crate::words::sync::{Arc, Ordering};
use std::io;
use std::path::Path;

/// Since the opening, for both files.
#[derive(Debug, Default)]
pub(crate) struct IoCounters {
    /// Bytes asked for by reads. Only tests read it.
    pub(super) read: AtomicU64,
    written: AtomicU64,
    syncs: AtomicU64,
}

impl IoCounters {
    /// Bytes given to writes, also to those that failed.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

/// A disk whose files are counted.
#[derive(Debug)]
pub(crate) struct CountedDisk {
    disk: Arc<dyn Disk>,
    access: Access,
    pub(super) counters: Arc<IoCounters>,
}

impl CountedDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>, access: Access) -> Self {
        Self { disk, access, counters: Arc::default() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.disk.folder()
    }

    /// As [`Disk::open_journal`].
    pub(crate) fn open_journal(&self) -> Result<Option<Arc<dyn DiskFile>>> {
        let file = self.disk.open_journal(self.access).map_err(Error::io)?;
        Ok(file.map(|file| self.counted(file)))
    }

    /// As [`Disk::open_base`].
    pub(crate) fn open_base(&self) -> Result<Arc<dyn DiskFile>> {
        self.disk.open_base(self.access).map(|file| self.counted(file)).map_err(Error::io)
    }

    fn counted(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(CountedFile { file, counters: self.counters.clone() })
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Arc<dyn DiskFile>,
    counters: Arc<IoCounters>,
}

impl DiskFile for CountedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.counters.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.counters.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.file.write_at(offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
        self.file.allocate(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }
}
