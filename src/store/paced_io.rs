//! The base's file written in writer, each synced by itself and followed by a pacer. A disk that
//! syncs brings to the medium whatever was written before, also to another file: a caller's sync
//! waits for all of a checkpoint that was written at once, and hardly notices a piece of it.

use crate::words::sync::Arc;
use crate::words::sync::plain::Mutex;
use std::{fmt, io};

/// Knows whether a checkpoint may take its time. Asked inside redb's own locks, which the store's
/// own reads do without: it must not wait for anybody, and nobody who holds the store's lock may
/// begin a transaction of redb's beside a checkpoint.
pub(crate) trait IoPacer: Send + Sync {
    /// Between two steps, and now and then within a commit: whoever waits for the processor may
    /// have it.
    fn yield_cpu(&self);

    /// Whether what was written so far, so many bytes, is a piece.
    fn sync_due(&self, unsynced: u64) -> bool;

    /// Has the piece synced, and leaves the disk to others for a while. What the sync says.
    fn sync_and_pause(&self, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

/// Bytes between two chances to pass: a commit writes megabytes in one call of redb's, and where
/// nobody syncs it has no writer.
const PASS: u64 = 32 << 10;

/// What was written to the base since its last sync.
#[derive(Default)]
pub(crate) struct PacedWriter(Mutex<Written>);

#[derive(Default)]
struct Written {
    unsynced: u64,
    /// Of the checkpoint under way, if it may take its time.
    pacer: Option<Arc<dyn IoPacer>>,
}

impl PacedWriter {
    /// From now on it is written in writer, or at once.
    pub(super) fn set_pacer(&self, pacer: Option<Arc<dyn IoPacer>>) {
        self.0.lock().pacer = pacer;
    }

    /// Counts a write. The pacer to take behind a sync, if a piece ends here.
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

    /// PacedWriter of so many bytes.
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

    /// A commit beside callers that do not sync has no writer; it kept its processor for
    /// milliseconds, and a caller that shared it stood still for a time slice.
    #[test]
    fn a_long_write_passes_now_and_then_also_without_pieces() {
        let page = 4 << 10;
        for (piece, writer, passes) in [(u64::MAX, 0, 32), (4 * PASS, 8, 24)] {
            let written = PacedWriter::default();
            assert!(written.note_write(100 * page).is_none(), "no checkpoint is under way");
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
