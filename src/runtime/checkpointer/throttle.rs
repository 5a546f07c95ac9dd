//! Whether a checkpoint in the background may slow down: while less than half of the ring is in use
//! and no caller waits for its end. Then it yields the processor, and the disk if there are callers
//! that sync. These are hints only: a checkpoint is correct whatever they are.

use super::{HURRY_AT_DIVISOR, SYNC_BYTES, SYNC_PAUSE, YIELD_MAX};
use crate::store::IoPacer;
use crate::words::clock::{Clock, micros};
use crate::words::sync::plain::{AtomicBool, AtomicU64, AtomicUsize, park_timeout, yield_now};
use crate::words::sync::{Arc, Ordering};
use std::io;

/// Read by the running checkpoint.
pub(crate) struct Throttle {
    /// A caller has waited for a sync since the last checkpoint.
    durable: AtomicBool,
    /// The callers have filled half of the ring.
    ring_half_full: AtomicBool,
    /// How many threads wait for the writer's lock.
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

    /// Whether a pause would end by itself; with a manual clock it does not.
    pub(crate) fn can_rest(&self) -> bool {
        self.clock.nap(SYNC_PAUSE).is_some()
    }

    /// A checkpoint starts.
    pub(crate) fn start(&self) {
        self.ring_half_full.store(false, Ordering::Relaxed);
        self.yielded_micros.store(0, Ordering::Relaxed);
    }

    /// The checkpoint has ended.
    pub(crate) fn finish(&self) {
        self.durable.store(false, Ordering::Relaxed);
    }

    /// Notes that a caller waits for a sync.
    #[inline]
    pub(crate) fn note_durable_caller(&self) {
        // Usually it is set already; a load does not disturb the other readers.
        if !self.durable.load(Ordering::Relaxed) {
            self.durable.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that `used` bytes of a ring of `size` bytes are in use.
    pub(crate) fn used(&self, used: u64, size: u64) {
        // In memory there is no ring.
        if size > 0 && used >= size / HURRY_AT_DIVISOR {
            self.ring_half_full.store(true, Ordering::Relaxed);
        }
    }

    /// Runs `wait`, which may wait for the checkpoint's end. The checkpoint hurries in the
    /// meantime.
    pub(crate) fn while_awaited<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        let done = wait();
        self.awaited.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Whether a thread waits for the writer's lock.
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    fn may_yield(&self) -> bool {
        let late = self.yielded_micros() >= micros(YIELD_MAX);
        !late && !self.ring_half_full.load(Ordering::Relaxed) && !self.is_awaited()
    }

    /// Microseconds that the checkpoint has left to others between its pieces.
    pub(crate) fn yielded_micros(&self) -> u64 {
        self.yielded_micros.load(Ordering::Relaxed)
    }
}

impl IoPacer for Throttle {
    /// If all processors are busy, a caller that was just woken would otherwise wait for the end of
    /// this thread's time slice, which is milliseconds.
    fn yield_cpu(&self) {
        if self.may_yield() {
            yield_now();
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
    use std::time::Duration;

    #[test]
    fn a_checkpoint_takes_its_time_only_if_it_has_some() {
        let clock = ManualClock::new();
        let throttle = Throttle::new(Arc::new(clock.clone()));
        throttle.start();
        assert!(!throttle.sync_due(SYNC_BYTES), "no caller syncs");
        throttle.note_durable_caller();
        assert!(throttle.sync_due(SYNC_BYTES) && !throttle.sync_due(SYNC_BYTES - 1));
        throttle.used(49, 100);
        throttle.used(0, 0);
        assert!(throttle.sync_due(SYNC_BYTES), "half of the ring is free, or there is no ring");
        let beside = throttle.while_awaited(|| throttle.sync_due(SYNC_BYTES));
        assert!(!beside && throttle.sync_due(SYNC_BYTES), "a caller waits");
        let mut in_200_ms = || {
            clock.advance(Duration::from_millis(200));
            Ok(())
        };
        throttle.sync_and_pause(&mut in_200_ms).unwrap();
        assert!(throttle.sync_due(SYNC_BYTES));
        throttle.sync_and_pause(&mut in_200_ms).unwrap();
        assert_eq!((throttle.yielded_micros(), throttle.sync_due(SYNC_BYTES)), (400_000, false));
        throttle.start();
        assert!(throttle.sync_due(SYNC_BYTES), "the next one may pause again");
        throttle.used(50, 100);
        throttle.used(49, 100);
        assert!(!throttle.sync_due(SYNC_BYTES), "the ring was half full in this one");
        throttle.finish();
        throttle.start();
        assert!(!throttle.sync_due(SYNC_BYTES), "callers that synced before it do not count");
        throttle.note_durable_caller();
        assert!(throttle.sync_due(SYNC_BYTES));
    }
}
