//! A task in hand. A verdict uses the guard up; a guard that is dropped without one returns the
//! task. Only the lease has a drop, so a task comes apart into payload and lease.

use crate::consumer::Consumer;
use crate::engine::settle::Verdict;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::held::{Held, failed};
use crate::live::inside;
use crate::options::Durability;
use crate::task::{Reason, TaskId, Ticket};
use crate::verb::Release;
use std::fmt;
use std::fmt::Display;
use std::ops::Deref;
use std::time::Duration;

/// The hold on one taken task. Every verdict uses it up. Dropped without one, it returns the task
/// to its place with its attempt counted; or sets it aside, as exhausted, if that was its last.
///
/// A lease keeps its queue open. One that outlives [`Queue::close`](crate::Queue::close) has lost
/// its task: verdicts return [`Closed`](ErrorKind::Closed), the drop does nothing. A verdict that
/// fails without having happened, such as on a full disk, returns the task as the drop does.
#[must_use = "a lease dropped without a verdict returns the task, charged"]
pub struct Lease {
    held: Held,
    /// Keeps the session open for as long as its guards live.
    consumer: Option<Consumer>,
    armed: bool,
}

impl Lease {
    pub(crate) fn new(held: Held, consumer: Option<Consumer>) -> Self {
        Self { held, consumer, armed: true }
    }

    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Ends the guard, not the lease.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    fn settle(mut self, verdict: impl FnOnce(&Held) -> Result<()>) -> Result<()> {
        verdict(&self.held)?;
        self.disarm();
        Ok(())
    }

    /// The task.
    pub fn id(&self) -> TaskId {
        self.held.ticket.id
    }

    /// The name of the task's tube.
    pub fn tube(&self) -> &str {
        self.held.tube()
    }

    /// The right to settle the task, as plain data. The guard stays; whoever comes first settles.
    pub fn ticket(&self) -> Ticket {
        self.held.ticket
    }

    /// Done: the task is gone.
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if it was settled, lapsed, buried, deleted or taken
    /// away; [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Unknown`](ErrorKind::Unknown) if the sync failed.
    pub fn ack(self) -> Result<()> {
        self.settle(Held::do_ack)
    }

    /// Back to its place at once, its attempt given back.
    ///
    /// # Errors
    /// As [`ack`](Lease::ack).
    pub fn release(self) -> Result<()> {
        self.settle(|held| held.do_release(Release::new()))
    }

    /// Back on these terms, its attempt given back.
    ///
    /// # Errors
    /// As [`ack`](Lease::ack); [`Unsupported`](ErrorKind::Unsupported) if the tube's kind has the
    /// switch for a term off, and for the back of a tube with a placement;
    /// [`Invalid`](ErrorKind::Invalid) for a ttl of less than a microsecond.
    pub fn release_with(self, terms: Release) -> Result<()> {
        self.settle(|held| held.do_release(terms))
    }

    /// Back after a failure, its attempt kept: ready when the tube's back-off has passed, or
    /// buried as exhausted with this error, cut to 4096 bytes, if that was its last attempt.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Backoff, ManualClock, Queue, Reason, State, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let backoff = Backoff::constant(Duration::from_secs(10));
    /// let options = TubeOptions::default().max_attempts(2).backoff(backoff);
    /// let tube = queue.create_tube("letters", options)?;
    /// tube.put(b"hello")?;
    ///
    /// tube.take()?.retry("no answer")?;
    /// assert!(tube.try_take()?.is_none());
    /// clock.advance(Duration::from_secs(10));
    /// tube.take()?.retry("still no answer")?;
    /// let buried = tube.peek_next(State::Buried)?.unwrap();
    /// assert_eq!(buried.reason, Some(Reason::Exhausted("still no answer".into())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ack`](Lease::ack).
    pub fn retry(self, error: impl Display) -> Result<()> {
        self.settle(|held| held.do_retry(&error, None))
    }

    /// As [`retry`](Lease::retry), with this wait instead of the tube's back-off.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    ///
    /// tube.take()?.retry_after("the server is busy", Duration::from_secs(60))?;
    /// let delayed = tube.peek_next(State::Delayed)?.unwrap();
    /// assert_eq!(delayed.last_error.as_deref(), Some("the server is busy"));
    /// assert_eq!(delayed.attempts, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ack`](Lease::ack); [`Unsupported`](ErrorKind::Unsupported) if the tube's kind has no
    /// times and `wait` is not zero.
    pub fn retry_after(self, error: impl Display, wait: Duration) -> Result<()> {
        self.settle(|held| held.do_retry(&error, Some(wait)))
    }

    /// Aside, with a reason cut to 4096 bytes, until it is kicked or deleted.
    ///
    /// # Errors
    /// As [`ack`](Lease::ack).
    pub fn bury(self, reason: impl Display) -> Result<()> {
        self.settle(|held| held.do_bury("bury", Reason::Buried(reason.to_string())))
    }

    /// Aside as [`bury`](Lease::bury), under a group of failures; see
    /// [`Reason::Failed`](crate::Reason::Failed). Group and message are cut to 4096 bytes each.
    ///
    /// ```
    /// use tubewell::{Queue, Reason, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    ///
    /// tube.take()?.fail("address", "no such street")?;
    /// let buried = tube.peek_next(State::Buried)?.unwrap();
    /// let (group, message) = ("address".into(), "no such street".into());
    /// assert_eq!(buried.reason, Some(Reason::Failed { group, message }));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ack`](Lease::ack).
    pub fn fail(self, group: impl Into<String>, message: impl Display) -> Result<()> {
        self.settle(|held| held.do_bury("fail", failed(group, message)))
    }

    /// Adds this much to the lease's deadline, to the task's ttr and to its ttl. Zero changes
    /// nothing; [`Duration::MAX`] makes them endless. May be called from another thread.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.task(b"hello").ttr(Duration::from_secs(60)).put()?;
    /// let task = tube.take()?;
    /// clock.advance(Duration::from_secs(50));
    /// task.touch(Duration::from_secs(30))?;
    /// assert_eq!(task.left()?, Some(Duration::from_secs(40)));
    /// task.renew()?; // a full ttr, which is longer now
    /// assert_eq!(task.left()?, Some(Duration::from_secs(90)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if the task is not held any more;
    /// [`Unsupported`](ErrorKind::Unsupported) if the tube's kind has no times;
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn touch(&self, by: Duration) -> Result<()> {
        self.held.touch(by)
    }

    /// Sets the lease's deadline to now + ttr: a heartbeat. A task without a ttr is held for ever
    /// again.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.task(b"hello").ttr(Duration::from_secs(60)).put()?;
    /// let task = tube.take()?;
    /// for _ in 0..3 {
    ///     clock.advance(Duration::from_secs(40));
    ///     task.renew()?;
    /// }
    /// assert_eq!(task.left()?, Some(Duration::from_secs(60)));
    /// clock.advance(Duration::from_secs(60));
    /// assert!(task.renew().unwrap_err().is_lease_lost());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`touch`](Lease::touch).
    pub fn renew(&self) -> Result<()> {
        self.held.renew()
    }

    /// Sets the lease's deadline to now + `length`, also if it had none. Its ttr stays.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new(); // stands still
    /// let tube = Queue::builder().clock(clock).in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// assert_eq!(task.left()?, None); // for ever
    /// task.renew_for(Duration::from_secs(60))?;
    /// assert_eq!(task.left()?, Some(Duration::from_secs(60)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`touch`](Lease::touch); [`Invalid`](ErrorKind::Invalid) for a length of less than a
    /// microsecond, and the lease stays as it was.
    pub fn renew_for(&self, length: Duration) -> Result<()> {
        self.held.renew_for(length)
    }

    /// How long the task may still be held: until its deadline or the end of its ttl, whichever
    /// comes first. `None`: for ever.
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if it is not held any more;
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn left(&self) -> Result<Option<Duration>> {
        self.held.left()
    }

    /// Ends the guard and keeps the lease: the task stays taken until the ticket settles it, its
    /// ttr passes, or the queue or its consumer's session ends.
    pub fn detach(mut self) -> Ticket {
        self.disarm();
        self.ticket()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (held, consumer) = (self.held.clone(), self.consumer.take());
        inside::run_outside(move || {
            // Lost, closed or broken: then there is nothing to return.
            drop(held.run("drop", &held.verdict(Verdict::Lost), Durability::Relaxed));
            drop(consumer);
        });
    }
}

impl AsRef<Lease> for Lease {
    fn as_ref(&self) -> &Lease {
        self
    }
}

/// A taken task: its payload, which it derefs to, and the lease on it. It is settled by exactly
/// one of [`ack`](Task::ack), [`release`](Task::release), [`retry`](Task::retry),
/// [`bury`](Task::bury), [`fail`](Task::fail); dropped without, also by a panic, it returns as
/// described at [`Lease`].
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
/// drop(task); // no verdict: returned, and charged
///
/// let task = tube.take()?;
/// assert_eq!(task.attempt(), 2);
/// task.ack()?;
/// assert_eq!(tube.len()?, 0);
/// # Ok(())
/// # }
/// ```
#[must_use = "a task dropped without a verdict returns to its tube, charged"]
pub struct Task<T: ?Sized = [u8]> {
    payload: Box<T>,
    lease: Lease,
    attempt: u32,
    deliveries: u32,
}

impl<T: ?Sized> Task<T> {
    pub(crate) fn new(payload: Box<T>, lease: Lease, attempt: u32, deliveries: u32) -> Self {
        Self { payload, lease, attempt, deliveries }
    }

    /// Its number.
    pub fn id(&self) -> TaskId {
        self.lease.id()
    }

    /// The name of its tube, such as for a loop that works on tasks of several.
    pub fn tube(&self) -> &str {
        self.lease.tube()
    }

    /// The right to settle it, as plain data.
    pub fn ticket(&self) -> Ticket {
        self.lease.ticket()
    }

    /// The number of this attempt, from 1: what `max_attempts` compares. Releases give theirs
    /// back.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How often the task was handed out, this time included.
    pub fn deliveries(&self) -> u32 {
        self.deliveries
    }

    /// The lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Takes payload and lease apart, such as to ack first and work then.
    pub fn split(self) -> (Box<T>, Lease) {
        (self.payload, self.lease)
    }

    /// As [`Lease::ack`].
    ///
    /// # Errors
    /// As [`Lease::ack`].
    pub fn ack(self) -> Result<()> {
        self.lease.ack()
    }

    /// As [`Lease::release`].
    ///
    /// # Errors
    /// As [`Lease::ack`].
    pub fn release(self) -> Result<()> {
        self.lease.release()
    }

    /// As [`Lease::release_with`].
    ///
    /// # Errors
    /// As [`Lease::release_with`].
    pub fn release_with(self, terms: Release) -> Result<()> {
        self.lease.release_with(terms)
    }

    /// As [`Lease::retry`].
    ///
    /// # Errors
    /// As [`Lease::ack`].
    pub fn retry(self, error: impl Display) -> Result<()> {
        self.lease.retry(error)
    }

    /// As [`Lease::retry_after`].
    ///
    /// # Errors
    /// As [`Lease::retry_after`].
    pub fn retry_after(self, error: impl Display, wait: Duration) -> Result<()> {
        self.lease.retry_after(error, wait)
    }

    /// As [`Lease::bury`].
    ///
    /// # Errors
    /// As [`Lease::ack`].
    pub fn bury(self, reason: impl Display) -> Result<()> {
        self.lease.bury(reason)
    }

    /// As [`Lease::fail`].
    ///
    /// # Errors
    /// As [`Lease::ack`].
    pub fn fail(self, group: impl Into<String>, message: impl Display) -> Result<()> {
        self.lease.fail(group, message)
    }

    /// As [`Lease::touch`].
    ///
    /// # Errors
    /// As [`Lease::touch`].
    pub fn touch(&self, by: Duration) -> Result<()> {
        self.lease.touch(by)
    }

    /// As [`Lease::renew`].
    ///
    /// # Errors
    /// As [`Lease::touch`].
    pub fn renew(&self) -> Result<()> {
        self.lease.renew()
    }

    /// As [`Lease::renew_for`].
    ///
    /// # Errors
    /// As [`Lease::renew_for`].
    pub fn renew_for(&self, length: Duration) -> Result<()> {
        self.lease.renew_for(length)
    }

    /// As [`Lease::left`].
    ///
    /// # Errors
    /// As [`Lease::left`].
    pub fn left(&self) -> Result<Option<Duration>> {
        self.lease.left()
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

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tube, ticket) = (&self.held.at.name, self.held.ticket);
        f.debug_struct("Lease").field("tube", tube).field("ticket", &ticket).finish_non_exhaustive()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("tube", &self.lease.held.at.name)
            .field("id", &self.id())
            .field("attempt", &self.attempt)
            .field("payload", &&*self.payload)
            .finish_non_exhaustive()
    }
}
