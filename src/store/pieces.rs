//! The base's file written in pieces, each synced by itself and followed by a breath. A disk that
//! syncs brings to the medium whatever was written before, also to another file: a caller's sync
//! waits for all of a checkpoint that was written at once, and hardly notices a piece of it.

use crate::sync::Arc;
use crate::sync::plain::Mutex;
use std::{fmt, io};

/// Knows whether a checkpoint may take its time. Asked inside redb's own locks, which the store's
/// own reads do without: it must not wait for anybody, and nobody who holds the store's lock may
/// begin a transaction of redb's beside a checkpoint.
pub(crate) trait Breath: Send + Sync {
    /// Between two steps, and now and then within a commit: whoever waits for the processor may
    /// have it.
    fn pass(&self);

    /// Whether what was written so far, so many bytes, is a piece.
    fn is_due(&self, unsynced: u64) -> bool;

    /// Has the piece synced, and leaves the disk to others for a while. What the sync says.
    fn take(&self, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

/// Bytes between two chances to pass: a commit writes megabytes in one call of redb's, and where
/// nobody syncs it has no pieces.
const PASS: u64 = 32 << 10;

/// What was written to the base since its last sync.
#[derive(Default)]
pub(crate) struct Pieces(Mutex<Written>);

#[derive(Default)]
struct Written {
    unsynced: u64,
    /// Of the checkpoint under way, if it may take its time.
    breath: Option<Arc<dyn Breath>>,
}

impl Pieces {
    /// From now on it is written in pieces, or at once.
    pub(super) fn breathe(&self, breath: Option<Arc<dyn Breath>>) {
        self.0.lock().breath = breath;
    }

    /// Counts a write. The breath to take behind a sync, if a piece ends here.
    pub(super) fn wrote(&self, bytes: usize) -> Option<Arc<dyn Breath>> {
        let mut written = self.0.lock();
        let before = written.unsynced;
        written.unsynced += bytes as u64;
        let unsynced = written.unsynced;
        let breath = written.breath.clone()?;
        drop(written);
        if breath.is_due(unsynced) {
            return Some(breath);
        }
        if before / PASS < unsynced / PASS {
            breath.pass();
        }
        None
    }

    pub(super) fn synced(&self) {
        self.0.lock().unsynced = 0;
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pieces").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Ordering;
    use crate::sync::plain::AtomicUsize;

    /// Pieces of so many bytes.
    struct Counted(u64, AtomicUsize);

    impl Breath for Counted {
        fn pass(&self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }

        fn is_due(&self, unsynced: u64) -> bool {
            unsynced >= self.0
        }

        fn take(&self, _: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
            Ok(())
        }
    }

    /// A commit beside callers that do not sync has no pieces; it kept its processor for
    /// milliseconds, and a caller that shared it stood still for a time slice.
    #[test]
    fn a_long_write_passes_now_and_then_also_without_pieces() {
        let page = 4 << 10;
        for (piece, pieces, passes) in [(u64::MAX, 0, 32), (4 * PASS, 8, 24)] {
            let written = Pieces::default();
            assert!(written.wrote(100 * page).is_none(), "no checkpoint is under way");
            written.synced();
            let breath = Arc::new(Counted(piece, AtomicUsize::new(0)));
            written.breathe(Some(breath.clone()));
            let mut due = 0;
            for _ in 0..32 * PASS / page as u64 {
                if written.wrote(page).is_some() {
                    written.synced();
                    due += 1;
                }
            }
            assert_eq!((due, breath.1.load(Ordering::Relaxed)), (pieces, passes));
        }
    }
}
