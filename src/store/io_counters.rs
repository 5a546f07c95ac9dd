//! Counts the calls to the disk. It is between the store and its two files, passes every call on,
//! and changes nothing.

use super::disk::{Disk, DiskFile, Found, Staging};
use crate::words::sync::{Arc, AtomicU64, Ordering};
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
    /// A disk whose calls are counted here.
    pub(crate) fn of(disk: Arc<dyn Disk>) -> (Arc<dyn Disk>, Arc<Self>) {
        let counters = Arc::<Self>::default();
        (Arc::new(CountedDisk { disk, counters: counters.clone() }), counters)
    }

    /// Bytes given to writes, also to those that failed.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct CountedDisk {
    disk: Arc<dyn Disk>,
    counters: Arc<IoCounters>,
}

impl CountedDisk {
    fn counted(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(CountedFile { file, counters: self.counters.clone() })
    }
}

impl Disk for CountedDisk {
    fn folder(&self) -> &Path {
        self.disk.folder()
    }

    fn found(&self) -> io::Result<Found> {
        self.disk.found()
    }

    fn stage(&self) -> io::Result<Box<dyn Staging>> {
        self.disk.stage()
    }

    fn open_journal(&self) -> io::Result<Option<Arc<dyn DiskFile>>> {
        Ok(self.disk.open_journal()?.map(|file| self.counted(file)))
    }

    fn open_base(&self) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.counted(self.disk.open_base()?))
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
