//! The tube handle: its tube, consumer and durability, and the verbs that concern the whole tube or
//! a task by its id.

use crate::api::callbacks::Callback;
use crate::api::codec::{Codec, Coding};
use crate::api::consumer::Consumer;
use crate::api::queue_inner::QueueInner;
use crate::api::ticket_handle::TicketHandle;
use crate::engine::by_id::{self, Tool, Verb};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{Op, tubes};
use crate::runtime::events::{Event, Interest};
use crate::words::error::{Error, Result};
use crate::words::limits::SWEEP_TASKS;
use crate::words::macros::debug;
use crate::words::options::Durability;
use crate::words::sync::Arc;
use crate::words::task::{Reason, TaskId, Ticket};
use std::fmt::Display;

/// A tube of tasks: of bytes, or of a type through a [`Codec`]. Cheap to clone, usable from any
/// thread, keeps its queue open.
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
/// # Ok(())
/// # }
/// ```
pub struct Tube<T: ?Sized = [u8]> {
    pub(crate) hold: Arc<QueueInner>,
    pub(crate) number: u32,
    pub(crate) name: Arc<str>,
    pub(crate) placement: Option<Arc<str>>,
    pub(crate) consumer: Option<Consumer>,
    pub(crate) durability: Durability,
    pub(crate) coding: Coding<T>,
}

impl Tube {
    pub(crate) fn over(hold: &Arc<QueueInner>, TubeEntry { number, row, .. }: TubeEntry) -> Self {
        Self {
            hold: hold.clone(),
            number,
            name: row.name.into(),
            placement: row.options.placement.map(Arc::from),
            consumer: None,
            durability: hold.settings.durability,
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
        let Self { hold, number, name, placement, consumer, durability, .. } = self.clone();
        let coding = Coding::of::<C>();
        Tube { hold, number, name, placement, consumer, durability, coding }
    }

    /// The tube as used by this consumer, whose session owns the leases that are taken through this
    /// handle. Takes are refused as [`Invalid`](crate::ErrorKind::Invalid) if the consumer is of
    /// another queue.
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
        let (hold, name) = (self.hold.clone(), self.name.clone());
        TicketHandle { hold, number: self.number, name, ticket, durability: self.durability }
    }

    /// Makes up to `most` buried tasks ready again, smallest priority first, then put order, with
    /// their attempts set to zero. Works in steps of 64; other calls run between them. Returns how
    /// many.
    ///
    /// A ttl continues. If it passed while the task was buried, in a tube with
    /// [`ttl_spares_buried`](crate::TubeOptions::ttl_spares_buried), it starts again.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put_many([b"to ada".to_vec(), b"to bob".to_vec()])?;
    /// tube.take()?.bury("no stamp")?;
    /// tube.take()?.bury("no such street")?;
    ///
    /// assert_eq!(tube.kick(1)?, 1);
    /// let task = tube.take()?;
    /// assert_eq!((&task[..], task.attempt()), (&b"to ada"[..], 1));
    /// assert_eq!(tube.kick(10)?, 1); // the other one
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](crate::ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`Closed`](crate::ErrorKind::Closed);
    /// [`InTransaction`](crate::ErrorKind::InTransaction);
    /// [`Unknown`](crate::ErrorKind::Unknown) if the sync failed. After an error the steps before
    /// it stay done.
    pub fn kick(&self, most: u64) -> Result<u64> {
        let mut kicked = 0;
        while kicked < most {
            let step = (most - kicked).min(SWEEP_TASKS as u64);
            let op = by_id::Kick { tube: self.number, most: step };
            let done = self.run("kick", &op)?;
            kicked += done;
            if done < step {
                break;
            }
        }
        Ok(kicked)
    }

    /// Makes one buried task ready again, as [`kick`](Tube::kick) does.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// tube.take()?.bury("no stamp")?;
    /// tube.kick_task(id)?;
    /// assert_eq!(tube.kick_task(id).unwrap_err().kind(), ErrorKind::WrongState); // it is ready
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](crate::ErrorKind::TaskNotFound);
    /// [`WrongState`](crate::ErrorKind::WrongState) if it is not buried; as
    /// [`delete`](Tube::delete).
    pub fn kick_task(&self, id: TaskId) -> Result<()> {
        self.run_on("kick", id, Verb::Kick)
    }

    /// Removes a task, in any state. A lease on it is lost.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// tube.delete(id)?;
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](crate::ErrorKind::TaskNotFound);
    /// [`TubeNotFound`](crate::ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`Closed`](crate::ErrorKind::Closed);
    /// [`InTransaction`](crate::ErrorKind::InTransaction);
    /// [`Unknown`](crate::ErrorKind::Unknown) if the sync failed.
    pub fn delete(&self, id: TaskId) -> Result<()> {
        self.run_on("delete", id, Verb::Delete)
    }

    /// Buries a task, in any state, with a reason cut to 4096 bytes. A lease on it is lost. A task
    /// that is buried already keeps its first reason.
    ///
    /// ```
    /// use tubewell::{Queue, Reason};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// tube.bury(id, "the sender has called it back")?;
    /// tube.bury(id, "too late")?;
    /// let reason = tube.peek(id)?.reason.clone();
    /// assert_eq!(reason, Some(Reason::Buried("the sender has called it back".into())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`delete`](Tube::delete).
    pub fn bury(&self, id: TaskId, reason: impl Display) -> Result<()> {
        let reason = Reason::Buried(reason.to_string());
        self.run_on("bury", id, Verb::Bury(reason))
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
    /// many there were. They make no [events](crate::Queue::events) and do not count as
    /// [calls](crate::TubeStats::calls), because the tasks are not read one by one.
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
    /// verbs still work.
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
        self.run("pause", &tubes::Pause { tube: self.number, paused: true }).map(drop)
    }

    /// Allows takes again.
    ///
    /// # Errors
    /// As [`delete`](Tube::delete), without [`TaskNotFound`](crate::ErrorKind::TaskNotFound).
    pub fn resume(&self) -> Result<()> {
        self.run("resume", &tubes::Pause { tube: self.number, paused: false }).map(drop)
    }

    /// Calls `on_change` for every step of a task of this tube, in commit order, on a thread that
    /// all callbacks of the queue share, or in [`tick`](crate::Queue::tick) if the queue was opened
    /// [`by_hand`](crate::Builder::by_hand). No lock is held: it may call any verb. It replaces an
    /// earlier callback; `None` removes it. A panic in it is caught. A close of the queue removes
    /// it. The queue never waits for it: of the steps that no callback was called for yet, the
    /// newest 65 536 are kept (and 64 MiB of their payloads), and
    /// [`Queue::callbacks_dropped`](crate::Queue::callbacks_dropped) counts the others. A callback
    /// that owns a handle of its queue keeps the queue open until it is removed.
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
    /// [`Closed`](crate::ErrorKind::Closed); [`Io`](crate::ErrorKind::Io) if the thread cannot be
    /// started.
    pub fn on_task_change(
        &self,
        on_change: Option<impl Fn(&Event) + Send + Sync + 'static>,
    ) -> Result<()> {
        self.set_callback(on_change, Interest::Events)
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
    ) -> Result<()> {
        self.set_callback(on_change, Interest::Payloads)
    }

    fn set_callback(
        &self,
        on_change: Option<impl Fn(&Event) + Send + Sync + 'static>,
        interest: Interest,
    ) -> Result<()> {
        let callback = on_change.map(|call| Callback { call: Arc::new(call), interest });
        let set = self.hold.callbacks.set(&self.hold.core, &self.name, callback);
        self.name_errors("on_task_change", set)
    }

    pub(crate) fn run<O: Op>(&self, action: &'static str, op: &O) -> Result<O::Done> {
        self.name_errors(action, self.hold.core.run(op, self.durability))
    }

    fn run_on(&self, action: &'static str, id: TaskId, verb: Verb) -> Result<()> {
        let op = Tool { tube: self.number, id, verb };
        self.run(action, &op).map_err(|error| error.on_task(id))
    }

    /// Adds the verb and the tube's name to an error.
    pub(crate) fn name_errors<R>(&self, action: &'static str, result: Result<R>) -> Result<R> {
        result.map_err(|error: Error| error.during(action).in_tube(&self.name))
    }
}

impl<T: ?Sized> Clone for Tube<T> {
    fn clone(&self) -> Self {
        Self {
            hold: self.hold.clone(),
            number: self.number,
            name: self.name.clone(),
            placement: self.placement.clone(),
            consumer: self.consumer.clone(),
            durability: self.durability,
            coding: self.coding,
        }
    }
}

debug!([T: ?Sized] Tube<T>, "Tube", this, "name": &this.name);
