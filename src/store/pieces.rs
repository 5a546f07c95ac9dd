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
    /// Between two steps: whoever waits for the processor may have it.
    fn pass(&self);

    /// Whether what was written so far, so many bytes, is a piece.
    fn is_due(&self, unsynced: u64) -> bool;

    /// Has the piece synced, and leaves the disk to others for a while. What the sync says.
    fn take(&self, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()>;
}

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
        written.unsynced += bytes as u64;
        let unsynced = written.unsynced;
        written.breath.as_ref().filter(|breath| breath.is_due(unsynced)).cloned()
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
