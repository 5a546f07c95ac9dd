//! A clock that is moved by hand and calls no one, for queues that are opened by hand: a call that
//! sleeps looks again only if something wakes it.

use shuttle::sync::Mutex;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tubewell::{Clock, Durability, Queue};

/// The clock. Clones are the same one.
#[derive(Clone)]
pub(crate) struct QuietClock {
    start: SystemTime,
    passed: Arc<Mutex<Duration>>,
}

impl QuietClock {
    /// Lets time pass.
    pub(crate) fn advance(&self, by: Duration) {
        *self.passed.lock().unwrap() += by;
    }

    /// How much time has passed.
    pub(crate) fn since_start(&self) -> Duration {
        *self.passed.lock().unwrap()
    }
}

impl Clock for QuietClock {
    fn monotonic(&self) -> Duration {
        self.since_start()
    }

    fn wall(&self) -> SystemTime {
        self.start + self.since_start()
    }

    fn nap(&self, _left: Duration) -> Option<Duration> {
        None
    }
}

/// A queue in memory with such a clock, which begins at this time of day. What is due it does at
/// the next call or tick.
pub(crate) fn quiet(start: SystemTime) -> (Queue, QuietClock) {
    let clock = QuietClock { start, passed: Arc::default() };
    let builder = Queue::builder().clock(clock.clone()).by_hand(true);
    (builder.durability(Durability::Relaxed).in_memory().unwrap(), clock)
}
