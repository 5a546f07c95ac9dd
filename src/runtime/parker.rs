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
    /// The timer sleeps longer than until the first deadline.
    is_late: AtomicBool,
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

    /// Lets the timer sleep longer than until the first deadline, unless a call waits. A wait that
    /// is not seen here begins later, and wakes the timer.
    pub(crate) fn may_be_late(&self, does_a_call_wait: impl FnOnce() -> bool) -> bool {
        self.is_late.store(true, Ordering::SeqCst);
        let waits = does_a_call_wait();
        if waits {
            self.is_late.store(false, Ordering::SeqCst);
        }
        !waits
    }

    /// A call waits from now on, so the timer has to be on time.
    pub(crate) fn be_on_time(&self) {
        if self.is_late.load(Ordering::SeqCst) && self.is_late.swap(false, Ordering::SeqCst) {
            self.wake();
        }
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
        self.is_late.store(false, Ordering::SeqCst);
        !wanted.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_late_only_while_no_call_waits() {
        let timer = Parker::default();
        timer.rest(7);
        assert!(!timer.may_be_late(|| true));
        timer.be_on_time();
        assert_eq!(timer.rests_until(), Some(7), "it was on time");
        let begins_meanwhile = || {
            timer.be_on_time();
            false
        };
        timer.may_be_late(begins_meanwhile);
        assert_eq!(timer.rests_until(), None, "it looks again");
        assert!(timer.sleep(None));
        timer.rest(8);
        assert!(timer.may_be_late(|| false));
        timer.be_on_time();
        assert_eq!(timer.rests_until(), None, "a wait that begins wakes it");
        assert!(timer.sleep(None));
        timer.rest(9);
        timer.be_on_time();
        assert_eq!(timer.rests_until(), Some(9), "once");
    }
}
