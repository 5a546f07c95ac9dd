//! The queue handle: makes, finds and drops tubes, opens consumers, closes the queue.

use crate::api::callback_list::Callback;
use crate::api::placement::Placement;
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::engine::{query, tubes};
use crate::runtime::events::{Event, Interest};
use crate::runtime::shared::Shared;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::explain::Explanation;
use crate::words::macros::debug;
use crate::words::name::label;
use crate::words::options::TubeOptions;
use crate::words::sync::{Arc, Mutex, RwLock};
use crate::words::task::{TaskId, TaskInfo};
use std::collections::BTreeMap;

/// A durable work queue: tubes of tasks in one folder. Clones are handles of one queue. The queue
/// is open until [`close`](Queue::close), or until the last of its handles is dropped; tubes,
/// guards, [`TicketHandle`](crate::TicketHandle)s, consumers, receipts, listings and streams of
/// events are handles too.
///
/// ```
/// use tubewell::Queue;
///
/// # fn main() -> tubewell::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("work.queue");
/// let queue = Queue::open(&path)?;
/// queue.tube("letters")?.put(b"hello")?;
/// drop(queue);
///
/// let queue = Queue::open(&path)?;
/// let task = queue.tube("letters")?.take()?;
/// assert_eq!(&task[..], b"hello");
/// task.ack()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Queue {
    pub(crate) inner: Arc<QueueInner>,
}

impl Queue {
    pub(crate) fn over(
        core: Arc<Shared>,
        placements: BTreeMap<String, Arc<dyn Placement>>,
    ) -> Self {
        let (callbacks, making, sessions) = (Arc::default(), RwLock::new(()), Mutex::default());
        Self { inner: Arc::new(QueueInner { core, placements, callbacks, making, sessions }) }
    }

    /// Makes a call that concerns the whole queue, and adds its name to an error.
    pub(crate) fn call<R>(
        &self,
        action: &'static str,
        call: impl FnOnce(&Shared) -> Result<R>,
    ) -> Result<R> {
        call(&self.inner.core).map_err(|error| error.during(action))
    }

    /// Opens the tube of this name, of any kind, or makes it with the general kind.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?; // makes it
    /// assert_eq!(tube.info()?.options, TubeOptions::default());
    /// tube.put(b"hello")?;
    /// assert_eq!(queue.tube("letters")?.len()?, 1); // the same tube
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that is empty, longer than 255 bytes or has
    /// control characters; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction); [`Unknown`](ErrorKind::Unknown) if the sync of
    /// a new tube failed.
    pub fn tube(&self, name: &str) -> Result<Tube> {
        let create = || self.create(name, &TubeOptions::default(), tubes::Exists::Any);
        let tube = self.look_up(name).and_then(|found| found.map_or_else(create, Ok));
        tube.map_err(|error| error.during("open tube").in_tube(name))
    }

    /// Makes a tube.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue, TubeKind, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let options = TubeOptions::new(TubeKind::Fifo);
    /// queue.create_tube("letters", options.clone())?;
    ///
    /// let again = queue.create_tube("letters", options.clone());
    /// assert_eq!(again.unwrap_err().kind(), ErrorKind::TubeExists);
    /// queue.create_tube("letters", options.if_not_exists())?;
    /// let other = queue.create_tube("letters", TubeOptions::default().if_not_exists());
    /// assert_eq!(other.unwrap_err().kind(), ErrorKind::TubeMismatch);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeExists`](ErrorKind::TubeExists) if there is one of this name, or, with
    /// [`if_not_exists`](TubeOptions::if_not_exists), [`TubeMismatch`](ErrorKind::TubeMismatch) if
    /// its kind or options are others; [`Unsupported`](ErrorKind::Unsupported) for an option that
    /// the kind does not allow; [`TooLarge`](ErrorKind::TooLarge) for details above 4 KiB;
    /// [`Invalid`](ErrorKind::Invalid) for other options that make no sense; as
    /// [`tube`](Queue::tube).
    pub fn create_tube(&self, name: &str, options: TubeOptions) -> Result<Tube> {
        let (options, exists) = Self::met(options);
        let tube = self.create(name, &options, exists);
        tube.map_err(|error| error.during("create tube").in_tube(name))
    }

    /// Makes a tube as [`create_tube`](Queue::create_tube) does, with a callback as
    /// [`on_task_change`](Tube::on_task_change) sets it. The callback of a new tube misses no step.
    /// If the tube [exists](TubeOptions::if_not_exists), its callback is replaced and returned
    /// with it.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use tubewell::{Cause, Event, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (sender, received) = mpsc::channel();
    /// let send = move |event: &Event| sender.send(event.cause).unwrap();
    /// let (tube, _) = queue.create_tube_with("letters", TubeOptions::default(), send)?;
    /// tube.put(b"hello")?;
    /// assert_eq!(received.recv(), Ok(Cause::Put));
    ///
    /// let there = TubeOptions::default().if_not_exists();
    /// let (tube, replaced) = queue.create_tube_with("letters", there, |_: &Event| ())?;
    /// tube.set_callback(replaced)?; // the first one again
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`create_tube`](Queue::create_tube); [`Io`](ErrorKind::Io) if the thread of the callbacks
    /// cannot be started. Then an earlier callback stays.
    pub fn create_tube_with(
        &self,
        name: &str,
        options: TubeOptions,
        on_change: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<(Tube, Option<Callback>)> {
        let (core, callbacks) = (&self.inner.core, &self.inner.callbacks);
        let callback = Callback::new(on_change, Interest::Event);
        let failed = |error: Error| error.during("create tube").in_tube(name);
        core.enter().map_err(failed)?;
        // No other call makes or drops a tube from the look to the end.
        let _making = self.inner.making.write();
        let is_there = self.find_tube(name)?.is_some();
        let (options, exists) = Self::met(options);
        if is_there {
            let tube = self.create_alone(name, &options, exists).map_err(failed)?;
            let of = (name, Some(tube.number));
            let replaced = callbacks.set(core, of, Some(callback)).map_err(failed)?;
            return Ok((tube, replaced));
        }
        // Before the tube, so that it is there at the first step.
        let of = (name, None);
        let before = callbacks.set(core, of, Some(callback.clone())).map_err(failed)?;
        match self.create_alone(name, &options, exists) {
            Ok(tube) => Ok((tube, before)),
            Err(error) => {
                callbacks.replace(core, name, Some(&callback), before).map_err(failed)?;
                Err(failed(error))
            }
        }
    }

    /// The options of a tube that is made, and what a tube of its name means.
    fn met(mut options: TubeOptions) -> (TubeOptions, tubes::Exists) {
        let exists = match std::mem::take(&mut options.if_not_exists) {
            true => tubes::Exists::Same,
            false => tubes::Exists::Refuse,
        };
        (options, exists)
    }

    /// Makes a tube, not while a call makes one with its callback.
    fn create(&self, name: &str, options: &TubeOptions, exists: tubes::Exists) -> Result<Tube> {
        // In a transaction the lock would wait for a call that waits for the transaction.
        self.inner.core.enter()?;
        let _making = self.inner.making.read();
        self.create_alone(name, options, exists)
    }

    fn create_alone(
        &self,
        name: &str,
        options: &TubeOptions,
        exists: tubes::Exists,
    ) -> Result<Tube> {
        let op = tubes::Create { name, options, exists };
        let tube = self.inner.core.run(&op, self.inner.durability())?;
        Ok(Tube::over(&self.inner, tube))
    }

    /// The tube of this name, if there is one. Never makes one.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// assert!(queue.find_tube("letters")?.is_none());
    /// queue.tube("letters")?;
    /// assert!(queue.find_tube("letters")?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name as [`tube`](Queue::tube) refuses it;
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn find_tube(&self, name: &str) -> Result<Option<Tube>> {
        self.look_up(name).map_err(|error| error.during("find tube").in_tube(name))
    }

    fn look_up(&self, name: &str) -> Result<Option<Tube>> {
        label("tube name", name)?;
        let found = self.inner.core.look(|view, _| {
            query::tube_named(view, name)?.map(|number| query::tube(view, number)).transpose()
        })?;
        Ok(found.map(|tube| Tube::over(&self.inner, tube)))
    }

    /// All that the queue knows of a task, whatever its tube: [`TaskSummary::tube`] names it. Looks
    /// into every tube that has tasks, a few at a time; other calls do not wait for all of it.
    ///
    /// ```
    /// use tubewell::{Queue, State, TaskId};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.tube("letters")?.put(b"to ada")?;
    /// let id = queue.tube("mail")?.put(b"to bob")?;
    /// let task = queue.find(id)?;
    /// assert_eq!((task.tube.as_str(), task.state), ("mail", State::Ready));
    /// assert_eq!(task.payload, b"to bob");
    /// assert!(queue.find(TaskId::new(9_999_999)).unwrap_err().is_not_found());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound) if no tube has it, also if it was removed, or if
    /// the number was never given; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction).
    ///
    /// [`TaskSummary::tube`]: crate::TaskSummary::tube
    pub fn find(&self, id: TaskId) -> Result<TaskInfo> {
        self.call("find", |core| in_any_tube(id, core.find(id)))
    }

    /// The tasks of these ids, whatever their tubes, in the order of the ids; those that no tube
    /// has are left out. Each is read when the iterator comes to it, first in the tube where the
    /// last call about a task of any tube has found one. An item is an error where
    /// [`find`](Queue::find) returns one.
    ///
    /// ```
    /// use tubewell::{Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let ids = tube.put_many([b"to ada".to_vec(), b"to bob".to_vec()])?;
    /// let last = queue.tube("mail")?.put(b"to eve")?;
    /// tube.delete(ids[0])?;
    /// let found = queue.find_many([ids[0], ids[1], last]).collect::<Result<Vec<_>>>()?;
    /// let found: Vec<_> = found.iter().map(|task| (&task.tube[..], &task.payload[..])).collect();
    /// assert_eq!(found, [("letters", &b"to bob"[..]), ("mail", &b"to eve"[..])]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn find_many(
        &self,
        ids: impl IntoIterator<Item = TaskId>,
    ) -> impl Iterator<Item = Result<TaskInfo>> {
        ids.into_iter().filter_map(move |id| {
            let found = self.call("find", |core| core.find(id));
            found.map_err(|error| error.on_task(id)).transpose()
        })
    }

    /// Why a task is not running, as a value and, displayed, in words: it is delayed or buried, its
    /// tube is paused, its group is busy, or others come before it. Reads a few rows, however many
    /// tasks stand before it.
    ///
    /// ```
    /// use tubewell::{Queue, WhyNot};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let first = tube.task(b"first").group("ada").put()?;
    /// let second = tube.task(b"second").group("ada").put()?;
    /// assert_eq!(queue.explain(first)?.reasons, [WhyNot::IsNext]);
    /// let task = tube.take()?;
    /// let why = queue.explain(second)?;
    /// assert_eq!(why.reasons, [WhyNot::GroupBusy { group: "ada".into(), in_flight: 1 }]);
    /// assert_eq!(
    ///     why.to_string(),
    ///     "task 2 in tube \"letters\" is Ready: of its group \"ada\" 1 are in flight, as \
    ///      many as may be or more"
    /// );
    /// # task.ack()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`find`](Queue::find).
    pub fn explain(&self, id: TaskId) -> Result<Explanation> {
        self.call("explain", |core| in_any_tube(id, core.explain(id)))
    }

    /// Removes a tube and its tasks, in one small step for any number of tasks. It is not refused
    /// because tasks of other tubes [wait for them](crate::NewTask::after): of these, those that
    /// wait for a success or a failure go by [their policy](crate::NewTask::orphaned).
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// assert_eq!(queue.drop_tube("letters").unwrap_err().kind(), ErrorKind::TubeBusy);
    /// task.release()?;
    /// queue.drop_tube("letters")?;
    /// assert_eq!(tube.put(b"hello").unwrap_err().kind(), ErrorKind::TubeNotFound);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](ErrorKind::TubeNotFound); [`TubeBusy`](ErrorKind::TubeBusy) while calls
    /// wait for its tasks or some are taken; as [`tube`](Queue::tube).
    pub fn drop_tube(&self, name: &str) -> Result<()> {
        self.remove(name, tubes::Used::Refuse)
    }

    /// Removes a tube if no task is in it, in any state; a finished task that it keeps is one.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let refused = queue.drop_tube_if_empty("letters").unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::TubeBusy);
    /// tube.take()?.ack()?;
    /// queue.drop_tube_if_empty("letters")?;
    /// assert!(queue.find_tube("letters")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeBusy`](ErrorKind::TubeBusy) also while any task is in it; as
    /// [`drop_tube`](Queue::drop_tube).
    pub fn drop_tube_if_empty(&self, name: &str) -> Result<()> {
        self.remove(name, tubes::Used::RefuseTasks)
    }

    /// Removes a tube and its tasks, also while calls wait for them or they are taken. Waiting
    /// takes and the verdicts on its tasks return [`TubeNotFound`](ErrorKind::TubeNotFound).
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// queue.force_drop_tube("letters")?;
    /// assert!(task.ack().unwrap_err().is_not_found());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](ErrorKind::TubeNotFound); as [`tube`](Queue::tube).
    pub fn force_drop_tube(&self, name: &str) -> Result<()> {
        self.remove(name, tubes::Used::Drop)
    }

    fn remove(&self, name: &str, used: tubes::Used) -> Result<()> {
        let removed = (|| {
            let tube = self.look_up(name)?.ok_or_else(|| Error::new(ErrorKind::TubeNotFound))?;
            let core = &self.inner.core;
            let awaited = core.takers.count_named(tube.number) > 0;
            let op = tubes::Drop { tube: tube.number, awaited, used };
            let _making = self.inner.making.read();
            core.run(&op, self.inner.durability())
        })();
        removed.map_err(|error| error.during("drop tube").in_tube(name))
    }

    /// The names of all tubes, sorted by their bytes. They are read in steps, and are not of one
    /// instant: a tube that is made or dropped meanwhile may be among them or not.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.tube("mail")?;
    /// queue.tube("letters")?;
    /// assert_eq!(queue.tubes()?, ["letters", "mail"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn tubes(&self) -> Result<Vec<String>> {
        self.call("list tubes", |core| core.names(""))
    }

    /// Ends the queue, for every handle: new and waiting calls return
    /// [`Closed`](ErrorKind::Closed), running calls finish, taken tasks return to their places and
    /// their attempts do not count (those of consumers with a grace wait for it to end), and the
    /// folder is released. It never waits for guards: they keep their payloads, their verdicts
    /// return [`Closed`](ErrorKind::Closed), their drop does nothing. A second close does nothing.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// queue.close()?;
    /// assert!(tube.try_take().unwrap_err().is_closed());
    /// assert!(task.ack().unwrap_err().is_closed());
    ///
    /// let queue = Queue::open(&path)?;
    /// assert_eq!(queue.tube("letters")?.take()?.attempt(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error of the last checkpoint, such as [`Io`](ErrorKind::Io), or
    /// [`Broken`](ErrorKind::Broken) if the queue had stopped before. The folder is released also
    /// then, and nothing that was written is lost. [`InTransaction`](ErrorKind::InTransaction).
    pub fn close(&self) -> Result<()> {
        let closed = self.call("close", |core| core.close());
        self.inner.callbacks.clear();
        closed
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.inner.core.health.is_closing()
    }
}

/// What was found of a task, or that no tube has it.
pub(crate) fn in_any_tube<R>(id: TaskId, found: Result<Option<R>>) -> Result<R> {
    let missing = || Error::new(ErrorKind::TaskNotFound).because("in any tube");
    found.and_then(|found| found.ok_or_else(missing)).map_err(|error| error.on_task(id))
}

debug!([] Queue, "Queue", this, "is_closed": &this.is_closed());
