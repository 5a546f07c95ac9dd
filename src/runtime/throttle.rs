//! Whether a checkpoint beside the callers may take its time: as long as half of the ring is free
//! and nobody waits for its end. It leaves the processor to whoever wants it then, and the disk, if
//! there are callers that sync. Hints only: a checkpoint is right whatever they say.

use crate::store::IoPacer;
use crate::words::clock::{Clock, micros};
use crate::words::sync::plain::{AtomicBool, AtomicU64, AtomicUsize, park_timeout, yield_now};
use crate::words::sync::{Arc, Ordering};
use std::io;
use std::time::Duration;

/// Bytes of a piece, and how long the pacer behind it is. On the disk of BENCHMARKS.md a caller
/// that syncs 4 000 times a second beside checkpoints of 6 MB waits, at the 99.9th percentile,
/// 11 ms where they are written at once, 15 in pieces without breaths, 1.3 in these.
const SYNC_BYTES: u64 = 128 << 10;
const SYNC_PAUSE: Duration = Duration::from_millis(1);
/// Most time that a checkpoint takes for that: on a card whose sync takes 50 ms each piece does.
const YIELD_MAX: Duration = Duration::from_millis(250);

/// Seen by the checkpoint under way.
pub(crate) struct Throttle {
    /// Somebody has waited for a sync since the last checkpoint.
    durable: AtomicBool,
    /// The callers have filled half of the ring.
    ring_half_full: AtomicBool,
    /// How many wait for the writer.
    awaited: AtomicUsize,
    /// Microseconds that it has left to others so far.
    yielded_micros: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl Throttle {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            durable: AtomicBool::new(false),
            ring_half_full: AtomicBool::new(false),
            awaited: AtomicUsize::new(0),
            yielded_micros: AtomicU64::new(0),
            clock,
        }
    }

    /// Whether a pacer would end by itself, as it does not on a clock that is moved by hand.
    pub(crate) fn can_rest(&self) -> bool {
        self.clock.nap(SYNC_PAUSE).is_some()
    }

    /// A checkpoint starts.
    pub(crate) fn start(&self) {
        self.ring_half_full.store(false, Ordering::Relaxed);
        self.yielded_micros.store(0, Ordering::Relaxed);
    }

    /// It is over.
    pub(crate) fn finish(&self) {
        self.durable.store(false, Ordering::Relaxed);
    }

    /// A caller waits for a sync.
    #[inline]
    pub(crate) fn note_durable_caller(&self) {
        // Mostly it is set, and only read by many at a time.
        if !self.durable.load(Ordering::Relaxed) {
            self.durable.store(true, Ordering::Relaxed);
        }
    }

    /// So many bytes of a ring of this size are in use.
    pub(crate) fn used(&self, used: u64, size: u64) {
        // In memory there is no ring.
        if size > 0 && used >= size / 2 {
            self.ring_half_full.store(true, Ordering::Relaxed);
        }
    }

    /// Does what may wait for the checkpoint's end, which hurries meanwhile.
    pub(crate) fn while_awaited<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        let done = wait();
        self.awaited.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Whether somebody waits for the writer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    fn may_yield(&self) -> bool {
        let late = self.yielded_micros() >= micros(YIELD_MAX);
        !late && !self.ring_half_full.load(Ordering::Relaxed) && !self.is_awaited()
    }

    /// Leaves the processor to whoever waits for it. Where all are busy, a caller that has just
    /// been woken would wait for the end of our time slice, which is milliseconds.
    pub(crate) fn yield_cpu(&self) {
        yield_now();
    }

    /// Microseconds that the checkpoint has left to others between its pieces.
    pub(crate) fn yielded_micros(&self) -> u64 {
        self.yielded_micros.load(Ordering::Relaxed)
    }
}

impl IoPacer for Throttle {
    fn yield_cpu(&self) {
        if self.may_yield() {
            self.yield_cpu();
        }
    }

    fn sync_due(&self, unsynced: u64) -> bool {
        unsynced >= SYNC_BYTES && self.durable.load(Ordering::Relaxed) && self.may_yield()
    }

    fn sync_and_pause(&self, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        let began = self.clock.monotonic();
        let synced = sync();
        park_timeout(SYNC_PAUSE);
        let took = self.clock.monotonic().saturating_sub(began);
        self.yielded_micros.fetch_add(micros(took), Ordering::Relaxed);
        synced
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::clock::ManualClock;

    #[test]
    fn a_checkpoint_takes_its_time_only_if_it_has_some() {
        let clock = ManualClock::new();
        let throttle = Throttle::new(Arc::new(clock.clone()));
        throttle.start();
        assert!(!throttle.sync_due(SYNC_BYTES), "nobody syncs");
        throttle.note_durable_caller();
        assert!(throttle.sync_due(SYNC_BYTES) && !throttle.sync_due(SYNC_BYTES - 1));
        throttle.used(49, 100);
        throttle.used(0, 0);
        assert!(throttle.sync_due(SYNC_BYTES), "half of the ring is free, or there is none");
        let beside = throttle.while_awaited(|| throttle.sync_due(SYNC_BYTES));
        assert!(!beside && throttle.sync_due(SYNC_BYTES), "while somebody waits");
        let mut in_200_ms = || {
            clock.advance(Duration::from_millis(200));
            Ok(())
        };
        throttle.sync_and_pause(&mut in_200_ms).unwrap();
        assert!(throttle.sync_due(SYNC_BYTES));
        throttle.sync_and_pause(&mut in_200_ms).unwrap();
        assert_eq!((throttle.yielded_micros(), throttle.sync_due(SYNC_BYTES)), (400_000, false));
        throttle.start();
        assert!(throttle.sync_due(SYNC_BYTES), "the next one has time again");
        throttle.used(50, 100);
        throttle.used(49, 100);
        assert!(!throttle.sync_due(SYNC_BYTES), "until this one is over");
        throttle.finish();
        throttle.start();
        assert!(!throttle.sync_due(SYNC_BYTES), "whoever synced before it may be gone");
        throttle.note_durable_caller();
        assert!(throttle.sync_due(SYNC_BYTES));
    }
}
