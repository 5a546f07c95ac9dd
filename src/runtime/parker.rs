//! How a thread of the queue is woken: the timer by an earlier deadline, a manual clock, or the end
//! of a busy time; the checkpointer by a journal that fills up.

use crate::words::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use std::time::Duration;

/// Where a thread sleeps, and how it is woken.
#[derive(Default)]
pub(crate) struct Parker {
    called: Mutex<Called>,
    bell: Condvar,
    /// Lease time of the last write for the disk.
    last_write: AtomicU64,
    /// The timer knows that there is something to checkpoint after the queue has become quiet.
    minds_quiet: AtomicBool,
}

#[derive(Default)]
struct Called {
    rung: bool,
    closed: bool,
}

impl Parker {
    /// Makes the thread look again.
    pub(crate) fn ring(&self) {
        self.called.lock().rung = true;
        self.bell.notify_one();
    }

    pub(crate) fn close(&self) {
        self.called.lock().closed = true;
        self.bell.notify_one();
    }

    /// Notes a write. The first write of a busy time wakes the timer, which then waits for the end
    /// of the busy time.
    pub(crate) fn wrote(&self, lease: u64) {
        self.last_write.store(lease, Ordering::Relaxed);
        if !self.minds_quiet.load(Ordering::Relaxed)
            && !self.minds_quiet.swap(true, Ordering::Relaxed)
        {
            self.ring();
        }
    }

    /// Lease time of the last write, while the timer waits for the end of a busy time.
    pub(crate) fn quiet_since(&self) -> Option<u64> {
        let minds = self.minds_quiet.load(Ordering::Relaxed);
        minds.then(|| self.last_write.load(Ordering::Relaxed))
    }

    /// The busy time is over; the next write begins another.
    pub(crate) fn mind_no_quiet(&self) {
        self.minds_quiet.store(false, Ordering::Relaxed);
    }

    /// Sleeps until it is woken, or for `nap`. Returns false after the queue was closed.
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
