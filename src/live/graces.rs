//! Sessions that ended and wait for their grace: until then their leases may be resumed, behind it
//! they return. It keeps no lease; what is forgotten here is in the rows at the next opening.

use crate::clock::NEVER;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The consumers that left.
pub(crate) struct Graces {
    waiting: Mutex<Vec<Grace>>,
    /// Lease time of the first of them to end, or [`NEVER`], so that asking costs one load.
    next: AtomicU64,
}

struct Grace {
    consumer: u32,
    /// Lease time.
    until: u64,
}

impl Default for Graces {
    fn default() -> Self {
        Self { waiting: Mutex::default(), next: AtomicU64::new(NEVER) }
    }
}

impl Graces {
    /// Lease time at which the next one ends.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    pub(crate) fn keep(&self, consumer: u32, until: u64) {
        let mut waiting = self.waiting.lock();
        self.next.fetch_min(until, Ordering::AcqRel);
        waiting.push(Grace { consumer, until });
    }

    /// The consumer is back.
    pub(crate) fn forget(&self, consumer: u32) {
        self.waiting.lock().retain(|grace| grace.consumer != consumer);
    }

    /// Takes out one that is over. Nobody else gets it.
    pub(crate) fn over(&self, now: u64) -> Option<u32> {
        let mut waiting = self.waiting.lock();
        let at = waiting.iter().position(|grace| grace.until <= now);
        let over = at.map(|at| waiting.swap_remove(at).consumer);
        let next = waiting.iter().map(|grace| grace.until).min().unwrap_or(NEVER);
        self.next.store(next, Ordering::Release);
        over
    }
}
