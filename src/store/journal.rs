//! The journal as callers that wait for a sync use it, without the store's lock: which record was
//! written last, and which records are on the medium. It writes no record; see `store::ring`.

use super::disk::DiskFile;
use crate::words::error::{Error, ErrorKind, Result};
#[cfg(shuttle)]
use crate::words::planted::is_planted;
use crate::words::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, RwLock};
use std::io;

/// The shared state of the journal's file.
#[derive(Debug)]
pub(crate) struct Journal {
    /// `None` after the store is closed, because an open file keeps the folder's lock. A sync holds
    /// the read lock, so that a close waits for it.
    file: RwLock<Option<Arc<dyn DiskFile>>>,
    /// Held during a sync. If two syncs run at a time and one fails, the system returns the error
    /// to only one of them, and the other one would return success.
    sync_lock: Mutex<()>,
    written: AtomicU64,
    synced: AtomicU64,
    failed: AtomicBool,
    /// Lease time of the oldest record that no sync has begun to cover; 0 if there is none. The
    /// writers set it, see `runtime::group_commit`.
    pub(crate) oldest: AtomicU64,
}

impl Journal {
    /// The journal up to this record, which is on the medium.
    pub(super) fn new(file: Arc<dyn DiskFile>, last: u64) -> Self {
        Self {
            file: RwLock::new(Some(file)),
            sync_lock: Mutex::new(()),
            written: AtomicU64::new(last),
            synced: AtomicU64::new(last),
            failed: AtomicBool::new(false),
            oldest: AtomicU64::new(0),
        }
    }

    /// Syncs everything written before the call. Returns the number of the last synced record.
    ///
    /// # Errors
    /// `Io` if the sync failed. Every later call fails as well: what the file shows is no longer
    /// what is on the medium, and a later sync that succeeds does not prove that it is.
    pub(crate) fn sync(&self) -> Result<u64> {
        let _lock = self.sync_lock.lock();
        if self.has_failed() {
            return Err(failed());
        }
        let held = self.file.read();
        let Some(file) = &*held else {
            // The store is closed. Its last checkpoint has synced all records, also for a caller
            // that comes only now.
            let synced = self.synced();
            let all = synced >= self.written();
            return if all { Ok(synced) } else { Err(Error::new(ErrorKind::Closed)) };
        };
        // Cleared before `written` is read: the writer of a later record sets it again.
        self.oldest.store(0, Ordering::SeqCst);
        // Read before the sync begins: the sync may or may not cover what is written during it.
        let written = self.written.load(Ordering::Acquire);
        if self.synced.load(Ordering::Acquire) < written {
            if let Err(error) = file.sync() {
                self.fail();
                return Err(Error::not_synced("the journal", error));
            }
            // A planted fault. .ci/canaries checks that a test finds it.
            #[cfg(shuttle)]
            let written = if is_planted("synced_late") { self.written() } else { written };
            self.set_synced(written);
        }
        Ok(self.synced())
    }

    /// Syncs the writer's file. A failure is kept, whatever the sync was for.
    pub(super) fn sync_file(&self, file: &dyn DiskFile) -> io::Result<()> {
        let _lock = self.sync_lock.lock();
        if self.has_failed() {
            return Err(io::Error::other("an earlier sync has failed"));
        }
        file.sync().inspect_err(|_| self.fail())
    }

    /// Syncs what was written in the head before the call.
    ///
    /// # Errors
    /// As [`sync`](Self::sync); `Closed` after the file was closed.
    pub(crate) fn sync_head(&self) -> Result<()> {
        let _lock = self.sync_lock.lock();
        if self.has_failed() {
            return Err(failed());
        }
        let held = self.file.read();
        let Some(file) = &*held else { return Err(Error::new(ErrorKind::Closed)) };
        file.sync().map_err(|error| {
            self.fail();
            Error::not_synced("the journal's head", error)
        })
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

    #[inline]
    pub(super) fn set_written(&self, number: u64) {
        self.written.store(number, Ordering::Release);
    }

    pub(super) fn set_synced(&self, number: u64) {
        self.synced.fetch_max(number, Ordering::AcqRel);
    }

    /// No sync succeeds after this.
    pub(super) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Closes the file, which releases the folder's lock, although other threads may still have
    /// this journal. Waits for running syncs.
    pub(crate) fn release(&self) {
        self.file.write().take();
    }
}

/// What every sync after a failed one returns.
fn failed() -> Error {
    Error::new(ErrorKind::Broken).because("a sync of the journal has failed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// A file whose first sync fails after the test has met it at the barrier.
    #[derive(Debug)]
    struct FailsOnce {
        syncs: AtomicU64,
        met: Barrier,
    }

    impl DiskFile for FailsOnce {
        fn len(&self) -> io::Result<u64> {
            Ok(0)
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
            Err(io::Error::other("the system returns the error once"))
        }
    }

    /// Regression: Linux returns an error of writing back once for each open file, and all syncs
    /// share one open file. A caller and a checkpoint synced at the same time: one sync failed, and
    /// the other one returned success.
    #[test]
    fn of_two_syncs_at_a_time_none_passes_if_one_fails() {
        let file = Arc::new(FailsOnce { syncs: AtomicU64::new(0), met: Barrier::new(2) });
        let journal = Journal::new(file.clone(), 1);
        journal.set_written(2);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| journal.sync());
            while file.syncs.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            let second = scope.spawn(|| journal.sync());
            // By then it waits for its turn, or has returned.
            for _ in 0..10_000 {
                std::thread::yield_now();
            }
            file.met.wait();
            assert!(first.join().unwrap().is_err());
            assert!(second.join().unwrap().is_err());
        });
        assert_eq!(journal.synced(), 1);
    }
}
