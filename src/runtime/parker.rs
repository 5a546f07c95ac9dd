//! How a thread of the queue is woken: the timer by an earlier deadline, a manual clock, or the end
//! of a busy time; the checkpointer by a journal that fills up.

use crate::words::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use std::time::Duration;

/// Where a thread sleeps, and how it is woken.
#[derive(Default)]
pub(crate) struct Parker {
    wanted: Mutex<Wanted>,
    condvar: Condvar,
    /// Lease time of the last write for the disk.
    last_write: AtomicU64,
    /// The timer waits for the end of a busy time, to run a checkpoint then.
    awaits_quiet: AtomicBool,
}

/// What the thread is woken for.
#[derive(Default)]
struct Wanted {
    look: bool,
    end: bool,
    /// The thread has nothing to do until this lease time.
    rests_until: Option<u64>,
}

impl Parker {
    /// Makes the thread look again.
    pub(crate) fn wake(&self) {
        self.wanted.lock().look = true;
        self.condvar.notify_one();
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.wanted.lock().end = true;
        self.condvar.notify_one();
    }

    /// Notes a write. The first write of a busy time wakes the timer, which then waits for the end
    /// of the busy time.
    pub(crate) fn note_write(&self, lease: u64) {
        self.last_write.store(lease, Ordering::Relaxed);
        if !self.awaits_quiet.load(Ordering::Relaxed)
            && !self.awaits_quiet.swap(true, Ordering::Relaxed)
        {
            self.wake();
        }
    }

    /// Lease time of the last write, while the timer waits for the end of a busy time.
    pub(crate) fn quiet_since(&self) -> Option<u64> {
        let awaits = self.awaits_quiet.load(Ordering::Relaxed);
        awaits.then(|| self.last_write.load(Ordering::Relaxed))
    }

    /// The busy time is over; the next write begins another.
    pub(crate) fn end_busy_time(&self) {
        self.awaits_quiet.store(false, Ordering::Relaxed);
    }

    /// Notes that the thread has nothing to do until this lease time. It ends with the next sleep.
    pub(crate) fn rest(&self, until: u64) {
        self.wanted.lock().rests_until = Some(until);
    }

    /// Until when the thread has nothing to do; `None` while it has.
    pub(crate) fn rests_until(&self) -> Option<u64> {
        let wanted = self.wanted.lock();
        wanted.rests_until.filter(|_| !wanted.look)
    }

    /// Sleeps until it is woken, or for `nap`. Returns false after the queue was closed.
    pub(crate) fn sleep(&self, nap: Option<Duration>) -> bool {
        let mut wanted = self.wanted.lock();
        let sleeps = |wanted: &mut Wanted| !wanted.look && !wanted.end;
        match nap {
            Some(nap) if sleeps(&mut wanted) => _ = self.condvar.wait_for(&mut wanted, nap),
            Some(_) => {}
            None => self.condvar.wait_while(&mut wanted, sleeps),
        }
        (wanted.look, wanted.rests_until) = (false, None);
        !wanted.end
    }
}
