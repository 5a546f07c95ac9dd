//! A disk in memory that records what each sync has covered: the writes before it began, and no
//! write during it. The explorer may run other threads during a sync of the journal. The base's
//! file is used by redb under its own locks: there it may not.

use crate::still;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::sync::{Condvar, Mutex};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex as Plain, MutexGuard, OnceLock, PoisonError};
use tubewell::testing::{self, Access, DiskFile, FileName, Found, Staging};
use tubewell::{Builder, Durability, ManualClock, Queue, Tube};

/// Bytes of both files.
type Files = [Vec<u8>; 2];

/// The state from which every scenario on a disk starts: a queue with an empty tube `t`.
static INITIAL: OnceLock<Files> = OnceLock::new();

/// Makes the queue from which scenarios start, in a schedule of its own.
pub(crate) fn create_queue(config: &shuttle::Config) {
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(0, 1);
    shuttle::Runner::new(scheduler, config.clone()).run(|| {
        INITIAL.get_or_init(|| {
            let disk = Disk::empty();
            let queue = disk.builder(Queue::builder()).by_hand(true).open_disk().unwrap();
            queue.tube("t").unwrap();
            queue.close().unwrap();
            disk.state().files.clone().unwrap()
        });
    });
}

fn slot(name: FileName) -> usize {
    match name {
        FileName::Base => 0,
        FileName::Journal => 1,
    }
}

#[derive(Default)]
struct State {
    /// `None` before the creation.
    files: Option<Files>,
    /// Whether the files have their names.
    settled: bool,
    /// What was written to the journal, in order.
    log: Vec<Vec<u8>>,
    /// How many syncs of the journal succeed; after that all fail.
    good_syncs: Option<u32>,
    syncs: u32,
    failed: bool,
    /// How many writes to either file succeed; then one fails.
    good_writes: Option<u32>,
    base_syncs: u32,
    /// Exists as long as the journal is open.
    lock: Option<Arc<()>>,
}

fn is_free(state: &State) -> bool {
    state.lock.as_ref().is_none_or(|lock| Arc::strong_count(lock) == 1)
}

/// The disk. All clones are the same one.
#[derive(Clone)]
pub(crate) struct Disk(Arc<Shared>);

struct Shared {
    state: Plain<State>,
    /// How much of the log is on the medium.
    covered: Mutex<usize>,
    came: Condvar,
    /// Counts the points at which the explorer may run other threads.
    between: AtomicU64,
}

impl Disk {
    fn empty() -> Self {
        Self(Arc::new(Shared {
            state: Plain::default(),
            covered: Mutex::new(0),
            came: Condvar::new(),
            between: AtomicU64::new(0),
        }))
    }

    /// With a queue on it that has an empty tube `t`.
    pub(crate) fn new() -> Self {
        let disk = Self::empty();
        disk.state().files = INITIAL.get().cloned();
        disk.state().settled = true;
        disk
    }

    /// A builder for a queue on this disk, with the smallest journal.
    pub(crate) fn builder(&self, builder: Builder) -> Builder {
        builder.disk(Arc::new(self.clone())).journal_bytes(64 << 10).cache_bytes(1 << 20)
    }

    /// A tube of a queue on this disk, and its clock.
    pub(crate) fn serve(&self, durability: Durability) -> (Queue, Tube, ManualClock) {
        let (builder, clock) = still();
        let queue = self.builder(builder.durability(durability)).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        (queue, tube, clock)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many more syncs of the journal succeed.
    pub(crate) fn fail_after(&self, good_syncs: u32) {
        self.state().good_syncs = Some(good_syncs);
    }

    /// So many more writes succeed, to either file, and then one does not.
    pub(crate) fn fail_a_write_after(&self, good_writes: u32) {
        self.state().good_writes = Some(good_writes);
    }

    /// Whether that write has failed.
    pub(crate) fn has_failed_a_write(&self) -> bool {
        self.state().good_writes.is_none()
    }

    /// No write fails any more.
    pub(crate) fn mend(&self) {
        self.state().good_writes = None;
    }

    pub(crate) fn syncs(&self) -> u32 {
        self.state().syncs
    }

    /// Whether a sync was called after the last one that was to succeed.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().failed
    }

    pub(crate) fn base_syncs(&self) -> u32 {
        self.state().base_syncs
    }

    /// How many records were written up to the one that contains these bytes; none if it was never
    /// written.
    fn written(&self, bytes: &[u8]) -> Option<usize> {
        let state = self.state();
        let holds = |write: &Vec<u8>| write.windows(bytes.len()).any(|part| part == bytes);
        state.log.iter().position(holds).map(|at| at + 1)
    }

    /// Whether a sync that began after these bytes were written has returned.
    pub(crate) fn is_durable(&self, bytes: &[u8]) -> bool {
        let covered = *self.0.covered.lock().unwrap();
        self.written(bytes).is_some_and(|written| written <= covered)
    }

    /// Waits until they are durable.
    pub(crate) fn until_durable(&self, bytes: &[u8]) {
        let mut covered = self.0.covered.lock().unwrap();
        while self.written(bytes).is_none_or(|written| written > *covered) {
            covered = self.0.came.wait(covered).unwrap();
        }
    }

    /// How many tasks the closed queue has; its rows must agree.
    pub(crate) fn left(&self) -> u64 {
        let queue = self.builder(Queue::builder()).by_hand(true).open_disk().unwrap();
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        let left = queue.tube("t").unwrap().len().unwrap();
        queue.close().unwrap();
        left
    }

    /// Whether no process has the folder open.
    pub(crate) fn is_free(&self) -> bool {
        is_free(&self.state())
    }

    /// Waits until it is closed: the thread that closes it may be one of the queue.
    pub(crate) fn until_free(&self) {
        while !self.is_free() {
            shuttle::thread::yield_now();
        }
    }

    fn open(&self, name: FileName, lock: Option<Arc<()>>) -> Arc<dyn DiskFile> {
        Arc::new(Open { disk: self.clone(), at: slot(name), _lock: lock })
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a disk in memory")
    }
}

impl testing::Disk for Disk {
    fn folder(&self) -> &Path {
        Path::new("explored.queue")
    }

    fn found(&self) -> io::Result<Found> {
        let settled = self.state().settled;
        Ok(if settled { Found::Whole } else { Found::Nothing })
    }

    fn stage(&self) -> io::Result<Box<dyn Staging>> {
        self.state().files = Some(Files::default());
        Ok(Box::new(StagingFiles(self.clone())))
    }

    fn open_journal(&self, _: Access) -> io::Result<Option<Arc<dyn DiskFile>>> {
        let mut state = self.state();
        if !is_free(&state) {
            return Ok(None);
        }
        let lock = Arc::new(());
        state.lock = Some(lock.clone());
        drop(state);
        Ok(Some(self.open(FileName::Journal, Some(lock))))
    }

    fn open_base(&self, _: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.open(FileName::Base, None))
    }
}

struct StagingFiles(Disk);

impl Staging for StagingFiles {
    fn create(&self, name: FileName) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.0.open(name, None))
    }

    fn settle(self: Box<Self>) -> io::Result<bool> {
        self.0.state().settled = true;
        Ok(true)
    }
}

struct Open {
    disk: Disk,
    at: usize,
    _lock: Option<Arc<()>>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "file {} in memory", self.at)
    }
}

impl Open {
    fn with<R>(&self, work: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let mut state = self.disk.state();
        work(&mut state.files.as_mut().unwrap()[self.at])
    }

    fn is_journal(&self) -> bool {
        self.at == slot(FileName::Journal)
    }
}

impl DiskFile for Open {
    fn len(&self) -> io::Result<u64> {
        Ok(self.with(|bytes| bytes.len() as u64))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = offset as usize;
        self.with(|bytes| {
            let bytes = bytes.get(at..at + out.len()).ok_or(ErrorKind::UnexpectedEof)?;
            out.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let (at, end) = (offset as usize, offset as usize + data.len());
        let left = self.disk.state().good_writes;
        self.disk.state().good_writes = left.and_then(|left| left.checked_sub(1));
        if left == Some(0) {
            return Err(io::Error::other("simulated: a write fails"));
        }
        self.with(|bytes| {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[at..end].copy_from_slice(data);
        });
        if self.is_journal() {
            self.disk.state().log.push(data.to_vec());
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|bytes| bytes.resize(len as usize, 0));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if !self.is_journal() {
            self.disk.state().base_syncs += 1;
            return Ok(());
        }
        let covers = self.disk.state().log.len();
        // The sync takes time; other threads run.
        self.disk.0.between.fetch_add(1, Ordering::SeqCst);
        {
            let mut state = self.disk.state();
            state.syncs += 1;
            if state.good_syncs == Some(0) {
                state.failed = true;
                return Err(io::Error::other("simulated: a sync fails"));
            }
            state.good_syncs = state.good_syncs.map(|left| left - 1);
        }
        let mut covered = self.disk.0.covered.lock().unwrap();
        *covered = covers.max(*covered);
        self.disk.0.came.notify_all();
        Ok(())
    }
}
