//! Whether a checkpoint beside the callers may take its time: as long as half of the ring is free
//! and nobody waits for its end. It leaves the processor to whoever wants it then, and the disk, if
//! there are callers that sync. Hints only: a checkpoint is right whatever they say.

use crate::clock::{Clock, micros};
use crate::store::Breath;
use crate::sync::plain::{AtomicBool, AtomicU64, AtomicUsize, park_timeout, yield_now};
use crate::sync::{Arc, Ordering};
use std::io;
use std::time::Duration;

/// Bytes of a piece, and how long the breath behind it is. On the disk of BENCHMARKS.md a caller
/// that syncs 4 000 times a second beside checkpoints of 6 MB waits, at the 99.9th percentile,
/// 11 ms where they are written at once, 15 in pieces without breaths, 1.3 in these.
const PIECE: u64 = 128 << 10;
const BREATH: Duration = Duration::from_millis(1);
/// Most time that a checkpoint takes for that: on a card whose sync takes 50 ms each piece does.
const MOST: Duration = Duration::from_millis(250);

/// Seen by the checkpoint under way.
pub(crate) struct Leisure {
    /// Somebody has waited for a sync since the last checkpoint.
    durable: AtomicBool,
    /// The callers have filled half of the ring.
    crowded: AtomicBool,
    /// How many wait for the writer.
    awaited: AtomicUsize,
    /// Microseconds that it has taken for that so far.
    taken: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl Leisure {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            durable: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            awaited: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            clock,
        }
    }

    /// Whether a breath would end by itself, as it does not on a clock that is moved by hand.
    pub(crate) fn can_rest(&self) -> bool {
        self.clock.nap(BREATH).is_some()
    }

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
        // In memory there is no ring.
        if size > 0 && used >= size / 2 {
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

    /// Whether somebody waits for the writer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    fn has_time(&self) -> bool {
        let late = self.taken() >= micros(MOST);
        !late && !self.crowded.load(Ordering::Relaxed) && !self.is_awaited()
    }

    /// Leaves the processor to whoever waits for it. Where all are busy, a caller that has just
    /// been woken would wait for the end of our time slice, which is milliseconds.
    pub(crate) fn give_way(&self) {
        yield_now();
    }

    /// Microseconds that the checkpoint has taken for pieces and breaths.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Breath for Leisure {
    fn pass(&self) {
        if self.has_time() {
            self.give_way();
        }
    }

    fn is_due(&self, unsynced: u64) -> bool {
        unsynced >= PIECE && self.durable.load(Ordering::Relaxed) && self.has_time()
    }

    fn take(&self, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let began = self.clock.monotonic();
        let synced = sync();
        park_timeout(BREATH);
        let took = self.clock.monotonic().saturating_sub(began);
        self.taken.fetch_add(micros(took), Ordering::Relaxed);
        synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn a_checkpoint_takes_its_time_only_if_it_has_some() {
        let clock = ManualClock::new();
        let leisure = Leisure::new(Arc::new(clock.clone()));
        leisure.begins();
        assert!(!leisure.is_due(PIECE), "nobody syncs");
        leisure.has_durable_callers();
        assert!(leisure.is_due(PIECE) && !leisure.is_due(PIECE - 1));
        leisure.used(49, 100);
        leisure.used(0, 0);
        assert!(leisure.is_due(PIECE), "half of the ring is free, or there is none");
        let beside = leisure.without(|| leisure.is_due(PIECE));
        assert!(!beside && leisure.is_due(PIECE), "while somebody waits");
        let mut in_200_ms = || {
            clock.advance(Duration::from_millis(200));
            Ok(())
        };
        leisure.take(&mut in_200_ms).unwrap();
        assert!(leisure.is_due(PIECE));
        leisure.take(&mut in_200_ms).unwrap();
        assert_eq!((leisure.taken(), leisure.is_due(PIECE)), (400_000, false));
        leisure.begins();
        assert!(leisure.is_due(PIECE), "the next one has time again");
        leisure.used(50, 100);
        leisure.used(49, 100);
        assert!(!leisure.is_due(PIECE), "until this one is over");
        leisure.ends();
        leisure.begins();
        assert!(!leisure.is_due(PIECE), "whoever synced before it may be gone");
        leisure.has_durable_callers();
        assert!(leisure.is_due(PIECE));
    }
}
