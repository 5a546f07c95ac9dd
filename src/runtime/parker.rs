//! How a thread of the queue is called: the timer by an earlier deadline, a clock moved by hand,
//! the end of a busy time; the checkpointer by a journal that fills up.

use crate::words::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use std::time::Duration;

/// Where a thread sleeps, and how it is called.
#[derive(Default)]
pub(crate) struct Parker {
    called: Mutex<Called>,
    bell: Condvar,
    /// Lease time of the last write for the disk.
    last_write: AtomicU64,
    /// The timer has been told that there is something to checkpoint once the queue is quiet.
    minds_quiet: AtomicBool,
}

#[derive(Default)]
struct Called {
    rung: bool,
    closed: bool,
}

impl Parker {
    /// There is something new to see: the thread looks again.
    pub(crate) fn ring(&self) {
        self.called.lock().rung = true;
        self.bell.notify_one();
    }

    pub(crate) fn close(&self) {
        self.called.lock().closed = true;
        self.bell.notify_one();
    }

    /// DerivedState a write. The first one of a busy time wakes the timer, which then minds the
    /// quiet.
    pub(crate) fn wrote(&self, lease: u64) {
        self.last_write.store(lease, Ordering::Relaxed);
        if !self.minds_quiet.load(Ordering::Relaxed)
            && !self.minds_quiet.swap(true, Ordering::Relaxed)
        {
            self.ring();
        }
    }

    /// Lease time of the last write, while the end of a busy time is awaited.
    pub(crate) fn quiet_since(&self) -> Option<u64> {
        let minds = self.minds_quiet.load(Ordering::Relaxed);
        minds.then(|| self.last_write.load(Ordering::Relaxed))
    }

    /// The busy time is over; the next write begins another.
    pub(crate) fn mind_no_quiet(&self) {
        self.minds_quiet.store(false, Ordering::Relaxed);
    }

    /// Sleeps until it is called, or for a while. False once the queue closes.
    pub(crate) fn sleep(&self, nap: Option<Duration>) -> bool {
        let mut called = self.called.lock();
        if !called.rung && !called.closed {
            match nap {
                Some(nap) => {
                    self.bell.wait_for(&mut called, nap);
                }
                None => self.bell.wait_while(&mut called, |called| !called.rung && !called.closed),
            }
        }
        called.rung = false;
        !called.closed
    }
}
