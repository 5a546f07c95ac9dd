//! Named consumers: sessions that own leases.

use crate::api::queue_inner::QueueInner;
use crate::engine::consumers::Join;
use crate::runtime::reentrancy;
use crate::words::clock::micros;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::{Arc, AtomicBool, Ordering, Weak};
use std::any::Any;
use std::fmt;
use std::time::Duration;

/// A named session that owns the leases of the tubes bound to it with
/// [`Tube::by`](crate::Tube::by). Clones, those tubes and their guards keep the session open.
///
/// When the last of them goes, or the process dies, the leases outlive the session by its grace:
/// [lease time](crate#time) while the queue stays open, queue time while it is closed; of a process
/// that was killed it begins with the next opening. [`resume`](Consumer::resume) hands them out
/// again to whoever opens the consumer of this name in that time. Without a grace, and at its end,
/// the tasks return to their places; charged, but for those that a close of the queue returns.
///
/// ```
/// use std::time::Duration;
/// use tubewell::Queue;
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let tube = queue.tube("letters")?;
/// tube.put(b"hello")?;
///
/// let ada = queue.consumer_with_grace("ada", Duration::from_secs(60))?;
/// tube.by(&ada).take()?.detach(); // the guard goes, the lease stays
/// assert_eq!(queue.taken()?[0].holder.as_deref(), Some("ada"));
/// drop(ada); // its grace begins
///
/// let ada = queue.consumer_with_grace("ada", Duration::from_secs(60))?;
/// let mut tasks = ada.resume(&tube);
/// tasks.next().unwrap()?.ack()?;
/// assert!(tasks.next().is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Consumer(Arc<Session>);

/// The life of a session: its end is the drop of the last handle.
struct Session(Arc<Identity>);

struct Identity {
    hold: Arc<QueueInner>,
    name: String,
    number: u32,
    closed: AtomicBool,
}

impl Consumer {
    /// Opens the session or joins it. A grace that is not given stays what it is.
    pub(crate) fn open(
        hold: &Arc<QueueInner>,
        name: &str,
        grace: Option<Duration>,
    ) -> Result<Self> {
        // Who holds the sessions waits for the engine, which a transaction of this thread holds.
        reentrancy::ensure_outside()?;
        // TicketHandle over the join, so that the last handle of an earlier session cannot end this
        // one.
        let mut sessions = hold.sessions.lock();
        let open = sessions.get(name).and_then(Weak::upgrade);
        let open = open.and_then(|session| session.downcast::<Session>().ok()).map(Self);
        let open = open.filter(|consumer| !consumer.is_closed());
        if let (Some(consumer), None) = (&open, grace) {
            hold.core().health.serves()?;
            return Ok(consumer.clone());
        }
        let op = Join { name, grace: micros(grace.unwrap_or(hold.settings.session_grace)) };
        let number = hold.core().join(&op, hold.settings.durability)?;
        if let Some(consumer) = open {
            return Ok(consumer);
        }
        let closed = AtomicBool::new(false);
        let identity = Identity { hold: hold.clone(), name: name.to_owned(), number, closed };
        let session = Arc::new(Session(Arc::new(identity)));
        let weak: Weak<dyn Any + Send + Sync> = Arc::<Session>::downgrade(&session);
        sessions.insert(name.to_owned(), weak);
        Ok(Self(session))
    }

    /// The consumer's name.
    pub fn name(&self) -> &str {
        &self.identity().name
    }

    /// Whether [`close`](Consumer::close) ended the session.
    pub fn is_closed(&self) -> bool {
        self.identity().closed.load(Ordering::Acquire)
    }

    /// Ends the session now, for every clone and whatever its grace: its tasks return to their
    /// places, charged, its guards have lost their leases, its waiting takes return
    /// [`Closed`](ErrorKind::Closed). A second close does nothing.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) if the queue was closed;
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn close(&self) -> Result<()> {
        let identity = self.identity();
        let fail = |error: Error| error.during("close consumer");
        reentrancy::ensure_outside().map_err(fail)?;
        identity.close().map_err(fail)
    }

    pub(crate) fn hold(&self) -> &Arc<QueueInner> {
        &self.identity().hold
    }

    /// Its number, as long as it may hold tasks.
    pub(crate) fn number(&self) -> Result<u32> {
        if self.is_closed() {
            let text = format!("consumer {:?} was closed", self.name());
            return Err(Error::new(ErrorKind::Closed).because(text));
        }
        Ok(self.identity().number)
    }

    fn identity(&self) -> &Identity {
        &self.0.0
    }
}

impl Identity {
    /// Ends the session for every clone. The lock is held over it, so that no session of the same
    /// name begins in between and is ended with this one.
    fn close(&self) -> Result<()> {
        let mut sessions = self.hold.sessions.lock();
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        // Refused by the disk, it may be asked for again.
        self.end(true).inspect_err(|_| self.closed.store(false, Ordering::Release))?;
        sessions.remove(&self.name);
        Ok(())
    }

    /// Leaves, and returns its tasks if there is no grace to wait for.
    fn end(&self, at_once: bool) -> Result<()> {
        self.hold.core().leave(self.number, at_once, self.hold.settings.durability)
    }

    /// The last handle is gone.
    fn leave(&self) -> Result<()> {
        let mut sessions = self.hold.sessions.lock();
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let joined_since = sessions.get(&self.name).is_some_and(|next| next.strong_count() > 0);
        if joined_since {
            return Ok(());
        }
        sessions.remove(&self.name);
        self.end(false)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let identity = self.0.clone();
        // Nobody hears of an error: the queue is closed or broken, and opening it again returns
        // the tasks.
        reentrancy::defer_until_outside(move || drop(identity.leave()));
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("name", &self.name()).finish_non_exhaustive()
    }
}
