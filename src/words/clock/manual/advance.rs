//! Advances a manual clock for calls that wait on it: from one point that a sleeper waits for to
//! the next, and never while a known thread is awake. The last thread that falls asleep advances
//! it; there is no thread for that.

use crate::words::clock::ManualClock;
use crate::words::sync::{ThreadId, Weak, current};
use std::time::Duration;

/// What waits on a clock: a queue, with its own threads and the calls that wait in it. It calls
/// [`ManualClock::rested`] whenever one of them falls asleep or ends its wait.
pub(crate) trait Sleepers: Send + Sync {
    /// The threads that sleep in a call.
    fn asleep(&self) -> Vec<ThreadId>;

    /// How long until the first of all sleepers is to be woken, at most `Duration::MAX`. `None`
    /// while one of them is awake. Without threads of its own the queue does first what is due.
    fn left(&self) -> Option<Duration>;
}

impl ManualClock {
    /// Calls `call`, and lets time pass whenever it waits: all readings advance to the first point
    /// that a sleeper waits for, which is the end of a wait, a delay, a back-off, a ttl, a ttr, a
    /// grace or a pause, or a `run_at`. That repeats until the call returns. No real time passes.
    ///
    /// The clock knows, of every open queue that it was given to: the takes, the `wait_ready` and
    /// the puts that wait for room, of all threads, and the queue's own threads for deadlines and
    /// for checkpoints. It advances only while all of them sleep, and so does `call`. While `call`
    /// does something else, time stands still.
    ///
    /// It knows of no other thread: one that works, one that waits for something else, a reader of
    /// events, a callback. If what such a thread does must come before the next point, run it in an
    /// `advance_until` of its own: the clock advances only while all such calls sleep. Start that
    /// thread from inside of this call, so that the clock does not advance before.
    ///
    /// If no sleeper waits for a point, the call blocks as it would without this: a
    /// [`take`](crate::Tube::take) without a limit from a queue in which nothing is ever due. So it
    /// does if it waits for another thread by other means.
    ///
    /// In a queue [by hand](crate::Builder::by_hand) due work is done as by
    /// [`tick`](crate::Queue::tick), without its callbacks.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let (hour, day) = (Duration::from_secs(3600), Duration::from_secs(86_400));
    /// let clock = ManualClock::new();
    /// let tube = Queue::builder().clock(clock.clone()).in_memory()?.tube("letters")?;
    /// tube.task(b"hello").delay(hour).put()?;
    ///
    /// let begun = clock.monotonic();
    /// let task = clock.advance_until(|| tube.take_timeout(day))?.unwrap();
    /// assert_eq!(clock.monotonic() - begun, hour); // the end of the delay
    /// task.ack()?;
    ///
    /// assert!(clock.advance_until(|| tube.take_timeout(day))?.is_none());
    /// assert_eq!(clock.monotonic() - begun, hour + day); // the end of the wait
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance_until<R>(&self, call: impl FnOnce() -> R) -> R {
        let thread = current().id();
        self.calls.lock().push(thread);
        let _running = RunningCall { clock: self, thread };
        call()
    }

    /// Adds a queue that waits on this clock.
    pub(crate) fn add_sleepers(&self, queue: Weak<dyn Sleepers>) {
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(queue);
    }

    /// A sleeper has fallen asleep, or one has gone. Advances if now all sleep.
    pub(crate) fn rested(&self) {
        // Held until the clock is moved: of two threads only one may advance from this point.
        let calls = self.calls.lock();
        if calls.is_empty() {
            return;
        }
        let queues = self.queues.lock().clone();
        let queues: Vec<_> = queues.iter().filter_map(Weak::upgrade).collect();
        let asleep: Vec<_> = queues.iter().flat_map(|queue| queue.asleep()).collect();
        if !calls.iter().all(|call| asleep.contains(call)) {
            return;
        }
        let lengths: Option<Vec<_>> = queues.iter().map(|queue| queue.left()).collect();
        let first = lengths.and_then(|lengths| lengths.into_iter().min());
        if let Some(first) = first.filter(|first| *first < Duration::MAX) {
            self.advance(first);
        }
    }
}

/// A call that the clock advances for, until it has ended.
struct RunningCall<'a> {
    clock: &'a ManualClock,
    thread: ThreadId,
}

impl Drop for RunningCall<'_> {
    fn drop(&mut self) {
        let mut calls = self.clock.calls.lock();
        let own = calls.iter().position(|call| *call == self.thread);
        own.map(|own| calls.swap_remove(own));
        drop(calls);
        // The others may have waited for this one.
        self.clock.rested();
    }
}
