//! Consumers: sessions that own leases, with a name or without.

use crate::api::queue_inner::{Identity, LeaseOwner, QueueInner, Session};
use crate::engine::consumers::{Join, Leaving};
use crate::engine::query;
use crate::runtime::reentrancy;
use crate::runtime::session_leases::{self, SessionLeases};
use crate::runtime::sessions;
use crate::words::consumer::ConsumerOptions;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::debug;
use crate::words::sync::{Arc, AtomicBool, Ordering, Weak};
use std::collections::BTreeMap;

/// A session that owns the leases of the tubes bound to it with [`Tube::by`](crate::Tube::by).
/// Clones, those tubes and their guards keep the session open. One without a name, from
/// [`Queue::session`](crate::Queue::session), returns its tasks when it ends; what follows is about
/// those with a name.
///
/// After the last handle is dropped, or the process has ended, the leases outlive the session by
/// its grace: [lease time](crate#time) while the queue stays open, queue time while it is closed.
/// After a kill the grace begins with the next opening. A consumer of this name that is opened in
/// that time gets the leases with [`resume`](Consumer::resume). Without a grace, and at its end,
/// the tasks return to their places; their attempt counts, unless a close of the queue returns
/// them.
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

impl Consumer {
    /// Opens the session or joins it. What is not given stays.
    pub(crate) fn open(
        inner: &Arc<QueueInner>,
        name: &str,
        about: &ConsumerOptions,
    ) -> Result<Self> {
        // The holder of `sessions` waits for the engine's lock, which a transaction of this thread
        // holds.
        reentrancy::ensure_outside()?;
        // It may be the last handle, whose drop takes the lock: it is dropped after the lock.
        let open;
        // Held over the join, so that the drop of an earlier session's last handle cannot end this
        // one.
        let mut sessions = inner.sessions.lock();
        open = Self::among(&sessions, name);
        if let Some(consumer) = &open
            && *about == ConsumerOptions::new()
        {
            inner.core.health.serves()?;
            return Ok(consumer.clone());
        }
        let grace = about.grace.or(open.is_none().then_some(inner.core.live.session_grace()));
        let about = &ConsumerOptions { grace, ..about.clone() };
        let begun = Self::begin(inner, name, about, false)?;
        if let Some(consumer) = &open {
            return Ok(consumer.clone());
        }
        let session = Self::new(inner, begun);
        sessions.insert(name.to_owned(), Arc::downgrade(&session.0));
        Ok(session)
    }

    /// Opens the session of a consumer whose last one has ended, as it was.
    ///
    /// # Errors
    /// `WrongState` if its session is open, or if no such consumer is known.
    pub(crate) fn reopen(inner: &Arc<QueueInner>, name: &str) -> Result<Self> {
        reentrancy::ensure_outside()?;
        let open;
        let mut sessions = inner.sessions.lock();
        open = Self::among(&sessions, name);
        if open.is_some() {
            let text = format!("the session of {name:?} is open");
            return Err(Error::new(ErrorKind::WrongState).because(text));
        }
        let session = Self::new(inner, Self::begin(inner, name, &ConsumerOptions::new(), true)?);
        sessions.insert(name.to_owned(), Arc::downgrade(&session.0));
        Ok(session)
    }

    /// The open session of this name.
    fn among(sessions: &BTreeMap<String, Weak<Session>>, name: &str) -> Option<Self> {
        let open = sessions.get(name).and_then(Weak::upgrade).map(Self);
        open.filter(|consumer| !consumer.is_closed())
    }

    fn begin(
        inner: &QueueInner,
        name: &str,
        about: &ConsumerOptions,
        is_known: bool,
    ) -> Result<LeaseOwner> {
        let op = Join { name, about, pid: std::process::id(), is_known };
        let (number, activity) = inner.core.join(&op, inner.durability())?;
        Ok(LeaseOwner::Named { name: name.to_owned(), number, activity })
    }

    /// A session without a name and without rows.
    pub(crate) fn nameless(inner: &Arc<QueueInner>) -> Self {
        Self::new(inner, LeaseOwner::Nameless(SessionLeases::default()))
    }

    fn new(inner: &Arc<QueueInner>, owner: LeaseOwner) -> Self {
        let identity = Identity { inner: inner.clone(), owner, closed: AtomicBool::new(false) };
        Self(Arc::new(Session(Arc::new(identity))))
    }

    /// Ends the session of this name, open or not, and forgets the consumer.
    pub(crate) fn deregister(inner: &Arc<QueueInner>, name: &str) -> Result<()> {
        reentrancy::ensure_outside()?;
        let open;
        let mut sessions = inner.sessions.lock();
        open = Self::among(&sessions, name);
        if let Some(consumer) = &open {
            return consumer.identity().end(&mut sessions, Leaving::Deregisters);
        }
        let number = inner.core.look(|view, _| query::consumer_named(view, name))?;
        let leave = |number| inner.core.leave((number, Leaving::Deregisters), inner.durability());
        number.map_or(Ok(()), leave)
    }

    /// The consumer's name; `None` if the session has none.
    pub fn name(&self) -> Option<&str> {
        match &self.identity().owner {
            LeaseOwner::Named { name, .. } => Some(name),
            LeaseOwner::Nameless(_) => None,
        }
    }

    /// Whether [`close`](Consumer::close) ended the session.
    pub fn is_closed(&self) -> bool {
        self.identity().closed.load(Ordering::Acquire)
    }

    /// Ends the session now, for every clone and without its grace: its tasks return to their
    /// places and their attempts count, its guards lose their leases, its waiting takes return
    /// [`Closed`](ErrorKind::Closed). A second close does nothing, or tries again what was refused.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let ada = queue.consumer_with_grace("ada", Duration::MAX)?;
    /// let task = tube.by(&ada).take()?;
    /// ada.clone().close()?; // for every clone
    /// assert!(ada.is_closed());
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// assert!(tube.by(&ada).try_take().unwrap_err().is_closed());
    /// assert_eq!(tube.take()?.attempt(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) if the queue was closed;
    /// [`InTransaction`](ErrorKind::InTransaction); [`DiskFull`](ErrorKind::DiskFull) or
    /// [`Io`](ErrorKind::Io) if the disk refuses the end of the session. The session is closed all
    /// the same. Its tasks return as soon as the disk has room: before a later call, or by the
    /// queue's own thread.
    pub fn close(&self) -> Result<()> {
        let closed = reentrancy::ensure_outside().and_then(|()| self.identity().close());
        closed.map_err(|error| error.during("close consumer"))
    }

    /// Its number, or 0, while it may hold tasks. It is active now.
    pub(crate) fn number(&self) -> Result<u32> {
        match &self.identity().owner {
            LeaseOwner::Named { name, .. } if self.is_closed() => {
                let text = format!("consumer {name:?} was closed; open it again");
                Err(Error::new(ErrorKind::Closed).because(text))
            }
            LeaseOwner::Named { number, .. } => {
                self.note_active();
                Ok(*number)
            }
            LeaseOwner::Nameless(_) if self.is_closed() => Err(session_leases::closed()),
            LeaseOwner::Nameless(_) => Ok(0),
        }
    }

    /// It is active now.
    pub(crate) fn note_active(&self) {
        if let LeaseOwner::Named { activity, .. } = &self.identity().owner {
            activity.note(self.identity().inner.core.lease_now());
        }
    }

    /// The leases that it keeps in memory.
    pub(crate) fn leases(&self) -> Option<&SessionLeases> {
        match &self.identity().owner {
            LeaseOwner::Named { .. } => None,
            LeaseOwner::Nameless(leases) => Some(leases),
        }
    }

    /// Set once it is closed.
    pub(crate) fn closed(&self) -> &AtomicBool {
        &self.identity().closed
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0.0
    }
}

impl Identity {
    /// Ends the session for every clone.
    fn close(&self) -> Result<()> {
        match &self.owner {
            LeaseOwner::Named { .. } => self.end(&mut self.inner.sessions.lock(), Leaving::Closes),
            LeaseOwner::Nameless(leases) => {
                self.inner.core.health.serves()?;
                self.closed.store(true, Ordering::Release);
                // A waiting take of this session that looked before is refused now.
                self.inner.core.takers.recheck_all();
                sessions::end_nameless(&self.inner.core, leases)
            }
        }
    }

    /// Ends the session of a name for every clone. The lock is held all the time, so that no new
    /// session of the same name can begin and be ended by this call.
    fn end(&self, sessions: &mut BTreeMap<String, Weak<Session>>, how: Leaving) -> Result<()> {
        let LeaseOwner::Named { name, number, .. } = &self.owner else { return Ok(()) };
        let core = &self.inner.core;
        if self.closed.load(Ordering::Acquire) {
            // What was refused is tried again.
            return if core.health.serves().is_ok() { core.leave_again(*number) } else { Ok(()) };
        }
        core.health.serves()?;
        self.closed.store(true, Ordering::Release);
        sessions.remove(name);
        core.leave((*number, how), self.inner.durability())
    }

    /// The drop of the last handle. The tasks return now if there is no grace.
    fn leave(&self) -> Result<()> {
        let (name, number) = match &self.owner {
            LeaseOwner::Named { name, number, .. } => (name, *number),
            LeaseOwner::Nameless(leases) => {
                return sessions::end_nameless(&self.inner.core, leases);
            }
        };
        let mut sessions = self.inner.sessions.lock();
        let joined_since = sessions.get(name).is_some_and(|next| next.strong_count() > 0);
        if joined_since || self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        sessions.remove(name);
        self.inner.core.leave((number, Leaving::InGrace), self.inner.durability())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let identity = self.0.clone();
        // No caller can receive the error. Either the disk has refused the end, which is tried
        // again, or the queue is closed or broken, and its next opening returns the tasks.
        reentrancy::defer_until_outside(move || drop(identity.leave()));
    }
}

debug!([] Consumer, "Consumer", this, "name": &this.name());
