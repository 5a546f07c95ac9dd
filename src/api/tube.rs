//! The tube handle: its tube, consumer and durability, and the verbs that concern the whole tube.

use crate::api::callback_list::Callback;
use crate::api::codec::{Codec, Coding};
use crate::api::consumer::Consumer;
use crate::api::queue_inner::QueueInner;
use crate::api::ticket_handle::TicketHandle;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{Op, tubes};
use crate::runtime::events::{Event, Interest};
use crate::words::durability::Durability;
use crate::words::error::{Error, Result};
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::Ticket;
use crate::words::verb::PauseTerms;
use std::time::{Duration, SystemTime};

/// A tube of tasks: of bytes, or of a type through a [`Codec`]. Cheap to clone, usable from any
/// thread, keeps its queue open. Two handles are equal if they are of the same tube of the same
/// queue, with whatever codec, consumer and durability.
///
/// Without options, a task has priority 0, no group, no key, no delay, no ttl and no ttr;
/// [`task`](Tube::task) sets each of them.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Queue, State};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let tube = queue.tube("letters")?;
///
/// let later = tube.put(b"later")?;
/// let sooner = tube.task(b"sooner").priority(-1).put()?; // smaller first
/// tube.task(b"next year").delay(Duration::from_secs(365 * 86_400)).put()?;
///
/// let task = tube.take()?;
/// assert_eq!((task.id(), &task[..]), (sooner, &b"sooner"[..]));
/// task.bury("no such address")?;
/// assert_eq!(tube.peek_next(State::Ready)?.map(|task| task.id), Some(later));
///
/// let stats = tube.stats()?;
/// assert_eq!((stats.ready, stats.delayed, stats.buried, stats.total), (1, 1, 1, 3));
/// assert!(tube == queue.tube("letters")? && tube != queue.tube("parcels")?);
/// # Ok(())
/// # }
/// ```
pub struct Tube<T: ?Sized = [u8]> {
    pub(crate) inner: Arc<QueueInner>,
    pub(crate) number: u32,
    pub(crate) name: Arc<str>,
    pub(crate) placement: Option<Arc<str>>,
    pub(crate) consumer: Option<Consumer>,
    pub(crate) durability: Durability,
    /// Of the tasks that are put through this handle.
    pub(crate) kind: Option<Arc<str>>,
    pub(crate) coding: Coding<T>,
}

impl Tube {
    pub(crate) fn over(inner: &Arc<QueueInner>, TubeEntry { number, row, .. }: TubeEntry) -> Self {
        Self {
            inner: inner.clone(),
            number,
            name: row.name.into(),
            placement: row.options.placement.map(Arc::from),
            consumer: None,
            durability: inner.durability(),
            kind: None,
            coding: Coding::BYTES,
        }
    }

    /// What the handles of several tubes have in common.
    pub(crate) fn of_several(inner: &Arc<QueueInner>) -> Self {
        Self {
            inner: inner.clone(),
            number: 0,
            name: Arc::from(""),
            placement: None,
            consumer: None,
            durability: inner.durability(),
            kind: None,
            coding: Coding::BYTES,
        }
    }
}

impl<T: ?Sized> Tube<T> {
    /// The tube's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tube for values of another type, through this codec. The tasks are the same: this handle
    /// encodes what it puts and decodes what it takes.
    pub fn with_codec<U, C: Codec<U>>(&self) -> Tube<U> {
        let Self { inner, number, name, placement, consumer, durability, kind, .. } = self.clone();
        let coding = Coding::of::<C>();
        Tube { inner, number, name, placement, consumer, durability, kind, coding }
    }

    /// The tube as used by this consumer, whose session owns the leases that are taken through this
    /// handle. Takes are refused as [`Invalid`](crate::ErrorKind::Invalid) if the consumer is of
    /// another queue.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let task = tube.by(&queue.consumer("ada")?).take()?;
    /// assert_eq!(queue.taken()?[0].holder.as_deref(), Some("ada"));
    /// let stranger = Queue::in_memory()?.consumer("bob")?; // of another queue
    /// assert_eq!(tube.by(&stranger).try_take().unwrap_err().kind(), ErrorKind::Invalid);
    /// # task.ack()
    /// # }
    /// ```
    #[must_use]
    pub fn by(&self, consumer: &Consumer) -> Self {
        Self { consumer: Some(consumer.clone()), ..self.clone() }
    }

    /// The tube with this durability instead of the queue's, for the verbs of this handle and of
    /// its guards.
    ///
    /// ```
    /// use tubewell::{Durability, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// let tube = queue.tube("letters")?;
    /// let relaxed = tube.durability(Durability::Relaxed);
    /// let syncs = queue.space()?.syncs;
    /// for _ in 0..100 {
    ///     relaxed.put(b"hello")?; // returns when the operating system has it
    /// }
    /// tube.put(b"the last")?; // returns when this and all before it is synced
    /// assert!(queue.space()?.syncs < syncs + 100);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn durability(&self, durability: Durability) -> Self {
        Self { durability, ..self.clone() }
    }

    /// The tube with this kind for the tasks that are put through this handle, unless a put
    /// [gives another](crate::NewTask::kind). Puts are refused as
    /// [`Invalid`](crate::ErrorKind::Invalid) if it is empty, longer than 255 bytes or has control
    /// characters.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("work")?;
    /// let mail = tube.kind("mail");
    /// let id = mail.put(b"ada@example.org")?;
    /// assert_eq!(tube.peek(id)?.kind.as_deref(), Some("mail"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn kind(&self, kind: &str) -> Self {
        Self { kind: Some(Arc::from(kind)), ..self.clone() }
    }

    /// The verdicts on a taken task by its ticket, without a guard.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    ///
    /// let ticket = tube.take()?.detach();
    /// tube.ticket(ticket).ack()?;
    /// assert!(tube.ticket(ticket).ack().unwrap_err().is_lease_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn ticket(&self, ticket: Ticket) -> TicketHandle {
        let (inner, name) = (self.inner.clone(), self.name.clone());
        TicketHandle { inner, number: self.number, name, ticket, durability: self.durability }
    }

    /// Returns every taken task to its place. All leases are lost, and their attempts do not count.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// tube.release_all()?;
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// assert_eq!(tube.take()?.attempt(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`delete`](Tube::delete), without [`TaskNotFound`](crate::ErrorKind::TaskNotFound).
    pub fn release_all(&self) -> Result<()> {
        self.run("release all", &tubes::ReleaseAll { tube: self.number }).map(drop)
    }

    /// Removes all tasks, in every state, in one small step for any number of tasks. Returns how
    /// many there were. It makes one [event](crate::Queue::events) of the tube and none of each
    /// task, and the tasks do not count as [calls](crate::TubeStats::calls), because they are not
    /// read one by one.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put_many([b"a".to_vec(), b"b".to_vec()])?;
    /// let task = tube.take()?;
    /// assert_eq!(tube.truncate()?, 2);
    /// assert!(tube.is_empty()?);
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`delete`](Tube::delete), without [`TaskNotFound`](crate::ErrorKind::TaskNotFound).
    pub fn truncate(&self) -> Result<u64> {
        self.run("truncate", &tubes::Truncate { tube: self.number })
    }

    /// Stops takes until [`resume`](Tube::resume), also after the queue is opened again. All other
    /// verbs still work, also [`claim`](Tube::claim). A pause with an end loses it.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"a")?;
    /// tube.pause()?;
    /// tube.put(b"b")?;
    /// assert!(tube.try_take()?.is_none());
    /// tube.resume()?;
    /// assert_eq!(&tube.take()?[..], b"a");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`delete`](Tube::delete), without [`TaskNotFound`](crate::ErrorKind::TaskNotFound).
    pub fn pause(&self) -> Result<()> {
        self.pause_with(PauseTerms::new())
    }

    /// Stops takes as [`pause`](Tube::pause) does, for this long in [queue time](crate#time). It
    /// replaces a pause that the tube has, also one without an end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new();
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// tube.pause_for(Duration::from_secs(60))?;
    /// assert_eq!(tube.info()?.pause_left, Some(Duration::from_secs(60)));
    /// assert!(tube.try_take()?.is_none());
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(&tube.try_take()?.unwrap()[..], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for less than a microsecond; as
    /// [`pause`](Tube::pause).
    pub fn pause_for(&self, length: Duration) -> Result<()> {
        self.pause_with(PauseTerms::new().length(length))
    }

    /// Stops takes as [`pause_for`](Tube::pause_for) does, until this time of day by the clock as
    /// it is now. A clock that is set afterwards does not move the end.
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let minute = Duration::from_secs(60);
    /// let noon = SystemTime::UNIX_EPOCH + 12 * 60 * minute;
    /// let clock = ManualClock::at(noon);
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// tube.pause_until(noon + minute)?;
    /// assert_eq!(tube.info()?.pause_left, Some(minute));
    /// clock.set_wall(noon - minute); // does not move the end
    /// assert!(tube.try_take()?.is_none());
    /// clock.advance(minute);
    /// assert_eq!(&tube.try_take()?.unwrap()[..], b"hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) for a time that has passed; as
    /// [`pause`](Tube::pause).
    pub fn pause_until(&self, time: SystemTime) -> Result<()> {
        self.pause_with(PauseTerms::new().until(time))
    }

    /// Stops takes on these terms; [`PauseTerms`] has an example.
    ///
    /// # Errors
    /// As [`pause_for`](Tube::pause_for) and [`pause_until`](Tube::pause_until).
    pub fn pause_with(&self, terms: PauseTerms) -> Result<()> {
        self.run("pause", &tubes::Pause { tube: self.number, terms: Some(terms) })
    }

    /// Allows takes again.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    /// tube.pause()?;
    /// assert!(tube.try_take()?.is_none());
    /// tube.resume()?;
    /// assert!(tube.try_take()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`delete`](Tube::delete), without [`TaskNotFound`](crate::ErrorKind::TaskNotFound).
    pub fn resume(&self) -> Result<()> {
        self.run("resume", &tubes::Pause { tube: self.number, terms: None })
    }

    /// Calls `on_change` for every step of a task of this tube, in commit order, on a thread that
    /// all callbacks of the queue share, or in [`tick`](crate::Queue::tick) if the queue was opened
    /// [`by_hand`](crate::Builder::by_hand). No lock is held: it may call any verb. It replaces an
    /// earlier callback, which is returned and may still be running; `None` removes it. A panic in
    /// it is caught. A close of the queue removes it; a drop of the tube does too, after the call
    /// for the last step. The queue never waits for it: of the steps that no callback was called
    /// for yet, the newest 65 536 are kept (and 64 MiB of their payloads), and
    /// [`Queue::callbacks_dropped`](crate::Queue::callbacks_dropped) counts the others. A callback
    /// that owns a handle of its queue keeps the queue open until it is removed.
    /// [`Queue::on_event`](crate::Queue::on_event) takes any number of callbacks, with filters and
    /// for any tubes.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use tubewell::{Cause, Event, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let (sender, received) = mpsc::channel();
    /// tube.on_task_change(Some(move |event: &Event| {
    ///     let _ = sender.send(event.cause);
    /// }))?;
    /// tube.put(b"hello")?;
    /// tube.take()?.ack()?;
    /// let causes: Vec<Cause> = received.iter().take(3).collect();
    /// assert_eq!(causes, [Cause::Put, Cause::Take, Cause::Ack]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](crate::ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`Closed`](crate::ErrorKind::Closed); [`Io`](crate::ErrorKind::Io) if the thread cannot be
    /// started.
    pub fn on_task_change(
        &self,
        on_change: Option<impl Fn(&Event) + Send + Sync + 'static>,
    ) -> Result<Option<Callback>> {
        self.set_callback(on_change.map(|call| Callback::new(call, Interest::Event)))
    }

    /// As [`on_task_change`](Tube::on_task_change), with the task's payload in every event; each of
    /// the two replaces the other. For the cost see
    /// [`EventOptions::payloads`](crate::EventOptions::payloads).
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use tubewell::{Cause, Event, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let (sender, received) = mpsc::channel();
    /// tube.on_task_change_with_payload(Some(move |event: &Event| {
    ///     let _ = sender.send((event.cause, event.payload().map(<[u8]>::to_vec)));
    /// }))?;
    /// tube.delete(tube.put(b"hello")?)?;
    /// let (payload, last) = (Some(b"hello".to_vec()), received.iter().nth(1));
    /// assert_eq!(last, Some((Cause::Delete, payload)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`on_task_change`](Tube::on_task_change).
    pub fn on_task_change_with_payload(
        &self,
        on_change: Option<impl Fn(&Event) + Send + Sync + 'static>,
    ) -> Result<Option<Callback>> {
        self.set_callback(on_change.map(|call| Callback::new(call, Interest::Payload)))
    }

    /// Sets a callback that was replaced before, also one of another tube; `None` removes the
    /// present one. Returns that.
    ///
    /// ```
    /// use tubewell::{Event, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.on_task_change(Some(|_: &Event| ()))?;
    /// let before = tube.on_task_change(Some(|event: &Event| println!("{event:?}")))?;
    /// let between = tube.set_callback(before)?;
    /// assert!(between.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`on_task_change`](Tube::on_task_change).
    pub fn set_callback(&self, callback: Option<Callback>) -> Result<Option<Callback>> {
        let tube = (&*self.name, Some(self.number));
        let set = self.inner.callbacks.set(&self.inner.core, tube, callback);
        self.name_errors("on_task_change", set)
    }

    pub(crate) fn run<O: Op>(&self, action: &'static str, op: &O) -> Result<O::Done> {
        self.name_errors(action, self.inner.core.run(op, self.durability))
    }

    /// Adds the verb and the tube's name to an error.
    #[inline]
    pub(crate) fn name_errors<R>(&self, action: &'static str, result: Result<R>) -> Result<R> {
        result.map_err(|error: Error| error.during(action).in_tube(&self.name))
    }
}

impl<T: ?Sized> Clone for Tube<T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            number: self.number,
            name: self.name.clone(),
            placement: self.placement.clone(),
            consumer: self.consumer.clone(),
            durability: self.durability,
            kind: self.kind.clone(),
            coding: self.coding,
        }
    }
}

impl<T: ?Sized, U: ?Sized> PartialEq<Tube<U>> for Tube<T> {
    fn eq(&self, other: &Tube<U>) -> bool {
        self.number == other.number && Arc::ptr_eq(&self.inner.core, &other.inner.core)
    }
}

impl<T: ?Sized> Eq for Tube<T> {}

debug!([T: ?Sized] Tube<T>, "Tube", this, "name": &this.name);
