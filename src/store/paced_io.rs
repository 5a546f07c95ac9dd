//! Writes the base's file in pieces, with a sync and a pause after each. A sync also brings to the
//! medium what was written before to other files: a caller's sync waits for a whole checkpoint that
//! was written at once, but only a short time for a piece of it.

use crate::words::sync::Arc;
use crate::words::sync::plain::Mutex;
use std::{fmt, io};

/// Decides whether a checkpoint may slow down. Called inside redb's own locks, which the store's
/// own reads do not take: it must not block on another thread, and a thread that holds the store's
/// lock must not begin a transaction of redb during a checkpoint.
pub(crate) trait IoPacer: Send + Sync {
    /// Yields the processor to a waiting thread. Called between two steps, and from time to time
    /// within a commit.
    fn yield_cpu(&self);

    /// Whether the bytes written since the last sync are a full piece.
    fn sync_due(&self, unsynced: u64) -> bool;

    /// Syncs the piece, then leaves the disk to others for a while. Returns the result of the sync.
    fn sync_and_pause(&self, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

/// Bytes between two calls of `yield_cpu`: a commit writes megabytes in one call of redb, and
/// without callers that sync it has no pieces.
const PASS: u64 = 32 << 10;

/// Counts what was written to the base since its last sync.
#[derive(Default)]
pub(crate) struct PacedWriter(Mutex<Written>);

#[derive(Default)]
struct Written {
    unsynced: u64,
    /// The pacer of the running checkpoint, if it may slow down.
    pacer: Option<Arc<dyn IoPacer>>,
}

impl PacedWriter {
    /// From now on writes are paced, or not.
    pub(super) fn set_pacer(&self, pacer: Option<Arc<dyn IoPacer>>) {
        self.0.lock().pacer = pacer;
    }

    /// Counts a write. If a piece ends with it, returns the pacer that must sync it.
    pub(super) fn note_write(&self, bytes: usize) -> Option<Arc<dyn IoPacer>> {
        let mut written = self.0.lock();
        let before = written.unsynced;
        written.unsynced += bytes as u64;
        let unsynced = written.unsynced;
        let pacer = written.pacer.clone()?;
        drop(written);
        if pacer.sync_due(unsynced) {
            return Some(pacer);
        }
        if before / PASS < unsynced / PASS {
            pacer.yield_cpu();
        }
        None
    }

    pub(super) fn synced(&self) {
        self.0.lock().unsynced = 0;
    }
}

impl fmt::Debug for PacedWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedWriter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::sync::Ordering;
    use crate::words::sync::plain::AtomicUsize;

    /// A pacer with pieces of so many bytes, which counts the yields.
    struct Counted(u64, AtomicUsize);

    impl IoPacer for Counted {
        fn yield_cpu(&self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }

        fn sync_due(&self, unsynced: u64) -> bool {
            unsynced >= self.0
        }

        fn sync_and_pause(&self, _: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
            Ok(())
        }
    }

    /// Regression: a commit without syncing callers has no pieces. It kept its processor for
    /// milliseconds, and a caller on the same processor waited for a time slice.
    #[test]
    fn a_long_write_passes_now_and_then_also_without_pieces() {
        let page = 4 << 10;
        for (piece, writer, passes) in [(u64::MAX, 0, 32), (4 * PASS, 8, 24)] {
            let written = PacedWriter::default();
            assert!(written.note_write(100 * page).is_none(), "no checkpoint is running");
            written.synced();
            let pacer = Arc::new(Counted(piece, AtomicUsize::new(0)));
            written.set_pacer(Some(pacer.clone()));
            let mut due = 0;
            for _ in 0..32 * PASS / page as u64 {
                if written.note_write(page).is_some() {
                    written.synced();
                    due += 1;
                }
            }
            assert_eq!((due, pacer.1.load(Ordering::Relaxed)), (writer, passes));
        }
    }
}
