//! Taken tasks as guards. A verdict consumes the guard; the drop of a guard without a verdict
//! returns the task. Only the lease implements `Drop`, so a task can be split into payload and
//! lease.

use crate::api::consumer::Consumer;
use crate::api::lost::{self, LostCallback};
use crate::api::ticket_handle::TicketHandle;
use crate::engine::take::AboutTask;
use crate::runtime::events::Event;
use crate::runtime::{reentrancy, sessions};
use crate::words::clock::NEVER;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::macros::debug;
use crate::words::task::Ticket;
use crate::words::verb::{Release, Verdict};
use std::ops::Deref;
use std::time::Duration;

/// The lease on one taken task, as a guard. Every verdict consumes it. Dropped without a verdict,
/// it returns the task to its place and counts the attempt; after the last attempt it buries the
/// task as exhausted.
///
/// A lease keeps its queue open. After [`Queue::close`](crate::Queue::close) it has lost its task:
/// verdicts return [`Closed`](ErrorKind::Closed), the drop does nothing. When a verdict fails and
/// nothing happened, such as on a full disk, the task is returned as by the drop.
///
/// ```
/// use tubewell::Queue;
///
/// # fn main() -> tubewell::Result<()> {
/// let tube = Queue::in_memory()?.tube("letters")?;
/// tube.put(b"hello")?;
/// let (payload, lease) = tube.take()?.split();
/// assert_eq!(&*payload, b"hello");
/// lease.ack()?; // at most once: from here on the payload is only in memory
/// assert!(tube.is_empty()?);
/// # Ok(())
/// # }
/// ```
#[must_use = "a lease dropped without a verdict returns the task, and the attempt counts"]
pub struct Lease {
    pub(crate) held: TicketHandle,
    /// Keeps the session open while its guards exist.
    consumer: Option<Consumer>,
    armed: bool,
    /// Whether user code has seen the payload. Only then a drop counts the attempt.
    pub(crate) seen: bool,
    /// Calls its holder when it is lost.
    lost: Option<Box<LostCallback>>,
}

impl Lease {
    pub(crate) fn new(held: TicketHandle, consumer: Option<Consumer>) -> Self {
        Self { held, consumer, armed: true, seen: false, lost: None }
    }

    /// Ends the guard without a verdict by its drop: the lease has ended.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// Ends the guard of a task that has gone on. It keeps its session open no longer.
    pub(crate) fn finish(&mut self) {
        self.hush();
        self.disarm();
        let consumer = self.consumer.take();
        forget(consumer.as_ref(), &self.held);
    }

    /// The right to settle, for a verb of a holder that is active now.
    #[inline]
    pub(crate) fn active(&self) -> &TicketHandle {
        if let Some(consumer) = &self.consumer {
            consumer.note_active();
        }
        &self.held
    }

    /// Applies a verdict and ends the guard. If the verdict fails, the drop returns the task.
    #[inline]
    pub(crate) fn settle(mut self, verdict: Verdict<'_>) -> Result<()> {
        self.hush();
        self.active().settle(verdict)?;
        self.disarm();
        Ok(())
    }

    /// Runs a verb that ends the lease, and the guard. If it is refused, the lease stays. One that
    /// was lost meanwhile, by another call, is the answer: its callback was not called.
    pub(crate) fn settle_kept(
        &mut self,
        verb: impl FnOnce(&TicketHandle) -> Result<()>,
    ) -> Result<()> {
        self.lost.iter().for_each(|lost| lost.mute());
        let done = verb(self.active());
        if done.is_ok() {
            self.finish();
        } else if self.lost.as_ref().is_some_and(|lost| lost.unmute()) {
            // After a failed sync the error of that is the answer.
            let left = self.held.left().map_err(|error| self.held.named(error, "settle"));
            return left.err().filter(|error| error.is_lease_lost()).map_or(done, Err);
        }
        done
    }

    /// Its holder ends the lease, and need not be told so.
    #[inline]
    pub(crate) fn hush(&mut self) {
        if self.lost.is_some() {
            self.lost = None;
        }
    }

    /// Calls `f` when the lease lapses and when it is lost, as long as this guard exists; a second
    /// call replaces the first. In a tube with a [grace](crate::Lapse::grace) it is called at the
    /// end of the ttr, with [`Cause::Stall`](crate::Cause::Stall), while a renew still helps; and
    /// with the event by which the lease is lost, whatever that is: the end of the ttr or of the
    /// grace, a ttl, a bury or a delete by others, a `release_all`, the end of the tube. A verdict
    /// through this guard does not call it; one through its ticket or in a transaction does.
    ///
    /// It is called as [`Queue::on_event`](crate::Queue::on_event) calls: in another thread, after
    /// the commit, with no lock held. Without a verb in the tube the queue's own thread finds a
    /// lapse on time; in a queue [`by_hand`](crate::Builder::by_hand) a
    /// [`tick`](crate::Queue::tick) does.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.task(b"hello").ttr(Duration::from_secs(60)).put()?;
    ///
    /// let mut task = tube.take()?;
    /// let stop = Arc::new(AtomicBool::new(false));
    /// let flag = Arc::clone(&stop);
    /// task.on_lost(move |_| flag.store(true, Ordering::Relaxed))?;
    /// clock.advance(Duration::from_secs(60));
    /// queue.tick()?;
    /// assert!(stop.load(Ordering::Relaxed)); // the work looks at it now and then
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if the lease is lost already, and `f` is not called;
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Io`](ErrorKind::Io) if the thread of the callbacks cannot be started.
    pub fn on_lost(&mut self, f: impl Fn(&Event) + Send + Sync + 'static) -> Result<()> {
        self.lost = Some(Box::new(lost::register(&self.held, f)?));
        Ok(())
    }

    /// Ends the guard and keeps the lease: the task stays taken until the ticket settles it, its
    /// ttr passes, or the queue or its consumer's session ends.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let (_payload, lease) = tube.take()?.split();
    /// let ticket = lease.detach();
    /// assert_eq!(tube.stats()?.taken, 1); // without a guard
    /// tube.ticket(ticket).ack()?;
    /// assert!(tube.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(mut self) -> Ticket {
        self.disarm();
        // Its session keeps the lease.
        self.consumer = None;
        self.ticket()
    }

    #[cold]
    fn end(&mut self) {
        self.hush();
        if !self.armed {
            return forget(self.consumer.as_ref(), &self.held);
        }
        let (held, consumer) = (self.held.clone(), self.consumer.take());
        let is_charged = self.seen;
        let verdict = if is_charged { Verdict::Lost } else { Verdict::Release(Release::new()) };
        reentrancy::defer_until_outside(move || {
            // If it is lost, or the queue is closed or broken, there is nothing to return.
            if let Err(error) = held.settle(verdict) {
                let lease = (held.number, held.ticket);
                sessions::return_later(&held.inner.core, (lease, is_charged), &error);
            }
            forget(consumer.as_ref(), &held);
            drop(consumer);
        });
    }
}

/// Removes a lease that has ended from those that its session keeps in memory.
fn forget(consumer: Option<&Consumer>, held: &TicketHandle) {
    if let Some(leases) = consumer.and_then(Consumer::leases) {
        leases.remove(&[(held.number, held.ticket)]);
    }
}

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        if self.armed || self.consumer.is_some() {
            self.end();
        }
    }
}

impl AsRef<Lease> for Lease {
    fn as_ref(&self) -> &Lease {
        self
    }
}

/// A taken task: its payload, which it derefs to, and the lease on it. It is settled by one of
/// [`ack`](Task::ack), [`release`](Task::release), [`retry`](Task::retry), [`bury`](Task::bury),
/// [`fail`](Task::fail). Dropped without one of them, also by a panic, it returns to its tube, see
/// [`Lease`].
///
/// ```
/// use tubewell::Queue;
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let tube = queue.tube("letters")?;
/// tube.put(b"hello")?;
///
/// let task = tube.take()?;
/// assert_eq!((&task[..], task.attempt()), (&b"hello"[..], 1));
/// drop(task); // no verdict: it returns, and the attempt counts
///
/// let task = tube.take()?;
/// assert_eq!(task.attempt(), 2);
/// task.ack()?;
/// assert_eq!(tube.len()?, 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "a task dropped without a verdict returns to its tube, and the attempt counts"]
pub struct Task<T: ?Sized = [u8]> {
    payload: Box<T>,
    pub(crate) lease: Lease,
    about: AboutTask,
}

impl<T: ?Sized> Task<T> {
    pub(crate) fn new(payload: Box<T>, lease: Lease, about: AboutTask) -> Self {
        Self { payload, lease, about }
    }

    /// The number of this attempt, from 1: compared with `max_attempts`. A release subtracts it
    /// again.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    /// tube.take()?.release()?; // does not count
    /// drop(tube.take()?); // counts
    /// let task = tube.take()?;
    /// assert_eq!((task.attempt(), task.deliveries()), (2, 3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn attempt(&self) -> u32 {
        self.about.attempts
    }

    /// How often the task was taken, this time included.
    pub fn deliveries(&self) -> u32 {
        self.about.deliveries
    }

    /// The task's priority when it was taken. Smaller first.
    pub fn priority(&self) -> i64 {
        self.about.priority
    }

    /// How long a taker may hold it, in [lease time](crate#time): its ttr when it was taken. `None`
    /// without a limit. [`time_left`](Task::time_left) returns how much of it is left.
    pub fn ttr(&self) -> Option<Duration> {
        (self.about.ttr != NEVER).then(|| Duration::from_micros(self.about.ttr))
    }

    /// How old the task was when it was taken: the time since its put, in
    /// [queue time](crate#time), with all delays and earlier attempts.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.task(b"hello").priority(-1).ttr(Duration::from_secs(60)).put()?;
    /// clock.advance(Duration::from_secs(5));
    /// let task = tube.take()?;
    /// assert_eq!((task.priority(), task.age()), (-1, Duration::from_secs(5)));
    /// assert_eq!(task.ttr(), Some(Duration::from_secs(60)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn age(&self) -> Duration {
        Duration::from_micros(self.about.age)
    }

    /// The lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// As [`Lease::on_lost`].
    ///
    /// # Errors
    /// As [`Lease::on_lost`].
    pub fn on_lost(&mut self, f: impl Fn(&Event) + Send + Sync + 'static) -> Result<()> {
        self.lease.on_lost(f)
    }

    /// Splits the task into payload and lease, for example to ack first and work afterwards.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let (payload, lease) = tube.take()?.split();
    /// drop(lease); // no verdict: the task returns
    /// assert_eq!(&payload[..], b"hello");
    /// assert_eq!(tube.take()?.attempt(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(self) -> (Box<T>, Lease) {
        (self.payload, self.lease)
    }

    /// As [`Lease::detach`].
    pub fn detach(self) -> Ticket {
        self.lease.detach()
    }
}

impl<T: ?Sized> Deref for Task<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.payload
    }
}

impl<T: ?Sized> AsRef<Lease> for Task<T> {
    fn as_ref(&self) -> &Lease {
        &self.lease
    }
}

impl<T: ?Sized> From<Task<T>> for Lease {
    fn from(task: Task<T>) -> Self {
        task.lease
    }
}

debug!([] Lease, "Lease", this, "tube": &this.held.name, "ticket": &this.held.ticket);

debug!(
    [T: ?Sized + std::fmt::Debug] Task<T>, "Task", this,
    "tube": &this.lease.held.name,
    "id": &this.id(),
    "attempt": &this.attempt(),
    "payload": &&*this.payload
);
