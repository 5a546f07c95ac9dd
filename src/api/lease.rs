//! A task in hand. A verdict uses the guard up; a guard that is dropped without one returns the
//! task. Only the lease has a drop, so a task comes apart into payload and lease.

use crate::api::consumer::Consumer;
use crate::api::ticket_handle::TicketHandle;
use crate::runtime::reentrancy;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::task::{TaskId, Ticket};
use crate::words::verb::{Release, Verdict};
use std::fmt;
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
    held: TicketHandle,
    /// Keeps the session open for as long as its guards live.
    consumer: Option<Consumer>,
    armed: bool,
    /// Whether a drop counts the attempt.
    charged: bool,
}

impl Lease {
    pub(crate) fn new(held: TicketHandle, consumer: Option<Consumer>) -> Self {
        Self { held, consumer, armed: true, charged: true }
    }

    pub(crate) fn held(&self) -> &TicketHandle {
        &self.held
    }

    /// Ends the guard, not the lease.
    pub(crate) fn disarm(&mut self) {
        self.armed = false;
    }

    /// Returns the task of which the caller has seen nothing, uncharged.
    pub(crate) fn return_unseen(mut self) {
        self.charged = false;
    }

    /// Carries a verdict out and ends the guard. One that fails leaves the rest to the drop.
    #[inline]
    pub(crate) fn settle(mut self, verdict: Verdict<'_>) -> Result<()> {
        self.held.settle(verdict)?;
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
        let verdict = if self.charged { Verdict::Lost } else { Verdict::Release(Release::new()) };
        reentrancy::defer_until_outside(move || {
            // Lost, closed or broken: then there is nothing to return.
            drop(held.settle(verdict));
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
    pub(crate) lease: Lease,
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
