//! Sessions that ended and wait for their grace: until then their leases may be resumed, afterwards
//! they return. No lease is kept here; what is forgotten here is in the rows at the next opening.

use crate::words::clock::NEVER;
use crate::words::sync::{AtomicU64, Mutex, Ordering};

/// The consumers that left.
pub(crate) struct GraceTimers {
    waiting: Mutex<Vec<Grace>>,
    /// Lease time of the first of them to end, or [`NEVER`], so that asking costs one load.
    next: AtomicU64,
}

/// The grace of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace {
    pub(crate) consumer: u32,
    /// The number that the consumer's leaving drew. It tells this session from later ones.
    pub(crate) left: u64,
    /// Lease time.
    pub(crate) until: u64,
}

impl Default for GraceTimers {
    fn default() -> Self {
        Self { waiting: Mutex::default(), next: AtomicU64::new(NEVER) }
    }
}

impl GraceTimers {
    /// Lease time at which the next one ends.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    pub(crate) fn insert(&self, grace: Grace) {
        self.change(|waiting| waiting.push(grace));
    }

    /// The consumer is back.
    pub(crate) fn forget(&self, consumer: u32) {
        self.change(|waiting| waiting.retain(|grace| grace.consumer != consumer));
    }

    /// The leases of this session have returned.
    pub(crate) fn remove(&self, ended: Grace) {
        self.change(|waiting| waiting.retain(|grace| *grace != ended));
    }

    /// One that is over. It stays until it is removed, so that nobody passes by while its leases
    /// return.
    pub(crate) fn expired(&self, now: u64) -> Option<Grace> {
        self.waiting.lock().iter().find(|grace| grace.until <= now).copied()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Grace>)) {
        let mut waiting = self.waiting.lock();
        change(&mut waiting);
        let next = waiting.iter().map(|grace| grace.until).min().unwrap_or(NEVER);
        self.next.store(next, Ordering::Release);
    }
}
