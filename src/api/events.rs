//! The stream of changes, as users read it.

use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::runtime::events::{Event, Interest, Subscriber};
use crate::runtime::group_commit::Mark;
use crate::words::error::Result;
use crate::words::event_options::EventOptions;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use std::time::Duration;

/// Every step of every task and every change of a tube since the subscription, in commit order,
/// from [`Queue::events`](crate::Queue::events). It never delays the queue: for a slow reader the
/// oldest events are dropped and counted. Truncate and drop of a tube make one event of the tube
/// and none of each task.
///
/// A change of a task's [tags](crate::Tube::tag) is one, and so is that it [is
/// tracked](crate::Queue::track) or is no more. What else changes no state makes none: the reports
/// of a holder ([`start`](crate::Task::start), [`progress`](crate::Task::progress),
/// [`checkpoint`](crate::Task::checkpoint)), lines of a [history](crate::Tube::log), rows of the
/// application's own tables, and consumers that come, go or are forgotten. The steps of what a
/// consumer held are events.
///
/// As an iterator it waits for the next event and ends when the queue is closed. It is a handle
/// that keeps its queue open: a thread that reads to the end needs a
/// [`close`](crate::Queue::close).
///
/// ```
/// use tubewell::{Cause, Queue, State};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let events = queue.events();
/// let tube = queue.tube("letters")?;
/// let made = events.recv().unwrap();
/// assert_eq!((&*made.tube, made.task, made.cause), ("letters", None, Cause::CreateTube));
/// let id = tube.put(b"hello")?;
/// tube.take()?.ack()?;
///
/// let put = events.recv().unwrap();
/// assert_eq!((put.task, put.from, put.to), (Some(id), None, Some(State::Ready)));
/// queue.close()?;
/// let rest: Vec<Cause> = events.map(|event| event.cause).collect();
/// assert_eq!(rest, [Cause::Take, Cause::Ack]);
/// # Ok(())
/// # }
/// ```
pub struct Events {
    inner: Arc<QueueInner>,
    subscriber: Arc<Subscriber>,
}

/// Events.
impl Queue {
    /// Subscribes to every step of every task and every change of a tube from now on. For a slow
    /// reader 4096 events are kept.
    pub fn events(&self) -> Events {
        self.events_with(EventOptions::new())
    }

    /// As [`events`](Queue::events), with the tasks' payloads or with other bounds for kept events.
    ///
    /// ```
    /// use tubewell::{Cause, EventOptions, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let events = queue.events_with(EventOptions::new().payloads());
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// tube.take()?.ack()?;
    /// queue.close()?;
    ///
    /// let done = events.last().unwrap();
    /// assert_eq!((done.cause, done.to), (Cause::Ack, None));
    /// assert_eq!(done.payload(), Some(&b"hello"[..])); // of a task that is gone
    /// # Ok(())
    /// # }
    /// ```
    pub fn events_with(&self, options: EventOptions) -> Events {
        let interest = if options.payloads { Interest::Payload } else { Interest::Event };
        // An op that is running may have skipped what its first steps say besides.
        let _between = self.inner.core.quiesce();
        let subscriber = self.inner.core.hub.subscribe(options, Arc::new(interest));
        Events { inner: self.inner.clone(), subscriber }
    }

    /// How many events were dropped before a callback was called for them, because the callbacks of
    /// this queue were too slow: those of [`on_event`](Queue::on_event) and of
    /// [`on_task_change`](crate::Tube::on_task_change) together.
    pub fn callbacks_dropped(&self) -> u64 {
        self.inner.callbacks.dropped()
    }
}

impl Events {
    /// The next event; waits for it. `None` after the queue is closed and all events are read.
    pub fn recv(&self) -> Option<Event> {
        self.subscriber.next(None)
    }

    /// The next event, if there is one now.
    ///
    /// ```
    /// use tubewell::{Cause, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let events = queue.events();
    /// assert!(events.try_recv().is_none());
    /// queue.tube("letters")?;
    /// assert_eq!(events.try_recv().unwrap().cause, Cause::CreateTube);
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_recv(&self) -> Option<Event> {
        self.subscriber.try_next()
    }

    /// The next event; waits for it at most this long, by the machine's clock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Cause, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let events = queue.events();
    /// assert!(events.recv_timeout(Duration::from_millis(1)).is_none()); // its time is over
    /// queue.tube("letters")?;
    /// let made = events.recv_timeout(Duration::from_secs(60)).unwrap();
    /// assert_eq!(made.cause, Cause::CreateTube);
    /// # Ok(())
    /// # }
    /// ```
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Event> {
        self.subscriber.next(Some(timeout))
    }

    /// How many events were dropped because this reader was too slow.
    ///
    /// ```
    /// use tubewell::{EventOptions, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let events = queue.events_with(EventOptions::new().kept(2));
    /// let ids = tube.put_many([*b"a", *b"b", *b"c"])?;
    /// assert_eq!(events.dropped(), 1);
    /// assert_eq!(events.recv().unwrap().task, Some(ids[1])); // the oldest one is gone
    /// # Ok(())
    /// # }
    /// ```
    pub fn dropped(&self) -> u64 {
        self.subscriber.dropped()
    }

    /// Waits until the change of this event, of the same queue, is synced; then no power cut can
    /// undo it.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// let tube = queue.tube("letters")?;
    /// let events = queue.events();
    /// let receipt = tube.put_receipt(b"hello")?; // does not wait for the sync
    /// let put = events.recv().unwrap();
    /// events.synced(&put)?;
    /// assert!(receipt.is_synced());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Unknown`](crate::ErrorKind::Unknown) if the sync failed.
    pub fn synced(&self, event: &Event) -> Result<()> {
        self.inner.core.wait(Mark(event.mark)).map_err(|error| error.during("sync"))
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.recv()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.inner.core.hub.unsubscribe(&self.subscriber);
    }
}

debug!([] Events, "Events", this, "dropped": &this.dropped());
