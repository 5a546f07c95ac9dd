//! Whether a checkpoint beside the callers may take its time: as long as half of the ring is free
//! and nobody waits for its end. It leaves the processor to whoever wants it then, and the disk, if
//! there are callers that sync. Hints only: a checkpoint is right whatever they say.

use crate::store::Breath;
use crate::sync::plain::{AtomicBool, AtomicU64, AtomicUsize, park_timeout};
use crate::sync::{Ordering, yield_now};
use std::time::Duration;

/// Bytes of a piece, and how long the breath behind it is. On the disk of BENCHMARKS.md a caller
/// that syncs 4 000 times a second beside checkpoints of 6 MB waits, at the 99.9th percentile,
/// 11 ms where they are written at once, 15 in pieces without breaths, 1.3 in these.
const PIECE: u64 = 128 << 10;
const BREATH: Duration = Duration::from_millis(1);

/// Seen by the checkpoint under way.
#[derive(Debug, Default)]
pub(crate) struct Leisure {
    /// Somebody has waited for a sync since the last checkpoint.
    durable: AtomicBool,
    /// The callers have filled half of the ring.
    crowded: AtomicBool,
    /// How many wait for the writer.
    awaited: AtomicUsize,
    /// Microseconds of breath so far.
    taken: AtomicU64,
}

impl Leisure {
    /// How long a breath is.
    pub(crate) const BREATH: Duration = BREATH;

    /// A checkpoint begins.
    pub(crate) fn begins(&self) {
        self.crowded.store(false, Ordering::Relaxed);
        self.taken.store(0, Ordering::Relaxed);
    }

    /// It is over.
    pub(crate) fn ends(&self) {
        self.durable.store(false, Ordering::Relaxed);
    }

    /// A caller waits for a sync.
    #[inline]
    pub(crate) fn has_durable_callers(&self) {
        // Mostly it is set, and only read by many at a time.
        if !self.durable.load(Ordering::Relaxed) {
            self.durable.store(true, Ordering::Relaxed);
        }
    }

    /// So many bytes of a ring of this size are in use.
    pub(crate) fn used(&self, used: u64, size: u64) {
        if used >= size / 2 {
            self.crowded.store(true, Ordering::Relaxed);
        }
    }

    /// Does what may wait for the checkpoint's end, which hurries meanwhile.
    pub(crate) fn without<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        let done = wait();
        self.awaited.fetch_sub(1, Ordering::Relaxed);
        done
    }

    fn has_time(&self) -> bool {
        !self.crowded.load(Ordering::Relaxed) && self.awaited.load(Ordering::Relaxed) == 0
    }

    /// Microseconds of breath that the checkpoint has taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Breath for Leisure {
    /// Where all processors are busy, a caller that has just been woken would wait for the end of
    /// our time slice, which is milliseconds.
    fn pass(&self) {
        if self.has_time() {
            yield_now();
        }
    }

    fn is_due(&self, unsynced: u64) -> bool {
        unsynced >= PIECE && self.durable.load(Ordering::Relaxed) && self.has_time()
    }

    fn take(&self) {
        self.taken.fetch_add(BREATH.as_micros() as u64, Ordering::Relaxed);
        park_timeout(BREATH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_takes_its_time_only_if_it_has_some() {
        let leisure = Leisure::default();
        leisure.begins();
        assert!(!leisure.is_due(PIECE), "nobody syncs");
        leisure.has_durable_callers();
        assert!(leisure.is_due(PIECE) && !leisure.is_due(PIECE - 1));
        leisure.used(49, 100);
        assert!(leisure.is_due(PIECE), "half of the ring is free");
        let awaited = leisure.without(|| leisure.is_due(PIECE));
        assert!(!awaited && leisure.is_due(PIECE), "while somebody waits");
        leisure.used(50, 100);
        leisure.used(49, 100);
        assert!(!leisure.is_due(PIECE), "until this checkpoint is over");
        leisure.take();
        assert_eq!(leisure.taken(), 1_000);
        leisure.ends();
        leisure.begins();
        assert!(!leisure.is_due(PIECE), "whoever synced before it may be gone");
        assert_eq!(leisure.taken(), 0);
        leisure.has_durable_callers();
        assert!(leisure.is_due(PIECE));
    }
}
