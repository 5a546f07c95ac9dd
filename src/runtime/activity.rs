//! When each named consumer whose session is open was last active. It is in memory: a take that
//! finds nothing writes no record. The next record of the consumer, and a close, write it down.

use crate::words::sync::{Arc, AtomicU64, Mutex, Ordering};
use std::collections::BTreeMap;

/// The last activities, by the numbers of the consumers.
#[derive(Default)]
pub(crate) struct Activities(Mutex<BTreeMap<u32, Activity>>);

/// Lease time of the last activity of one consumer.
#[derive(Clone, Default)]
pub(crate) struct Activity(Arc<AtomicU64>);

impl Activity {
    pub(crate) fn note(&self, now: u64) {
        self.0.fetch_max(now, Ordering::Relaxed);
    }

    fn time(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Activities {
    /// A session begins, or is joined.
    pub(crate) fn begin(&self, consumer: u32, now: u64) -> Activity {
        let activity = self.0.lock().entry(consumer).or_default().clone();
        activity.note(now);
        activity
    }

    /// The session has ended.
    pub(crate) fn end(&self, consumer: u32) {
        self.0.lock().remove(&consumer);
    }

    pub(crate) fn of(&self, consumer: u32) -> Option<u64> {
        self.0.lock().get(&consumer).map(Activity::time)
    }

    pub(crate) fn all(&self) -> BTreeMap<u32, u64> {
        self.0.lock().iter().map(|(consumer, activity)| (*consumer, activity.time())).collect()
    }
}
