//! The queue handle: makes tubes and consumers, runs transactions, and has the calls that concern
//! the whole queue.

use crate::api::consumer::Consumer;
use crate::api::events::Events;
use crate::api::inspect::{self, TubeStats, WaiterInfo};
use crate::api::queue_inner::QueueInner;
use crate::api::transact::{Reading, Transaction};
use crate::api::tube::Tube;
use crate::api::upkeep;
use crate::engine::{query, tubes};
use crate::runtime::checkpointer::checkpoint;
use crate::store::{BaseSpace, Progress, Space};
use crate::words::clock::ClockStep;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::debug;
use crate::words::name::label;
use crate::words::options::{EventOptions, TubeOptions};
use crate::words::sync::Arc;
use crate::words::task::TakenInfo;
use std::error::Error as StdError;
use std::ops::ControlFlow;
use std::time::Duration;

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
    hold: Arc<QueueInner>,
}

impl Queue {
    pub(crate) fn over(hold: Arc<QueueInner>) -> Self {
        Self { hold }
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
        let tube = match self.find(name) {
            Ok(None) => self.create(name, &TubeOptions::default(), tubes::Exists::Any),
            Ok(Some(tube)) => Ok(tube),
            Err(error) => Err(error),
        };
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
    /// the kind does not allow; [`Invalid`](ErrorKind::Invalid) for other options that make no
    /// sense; as [`tube`](Queue::tube).
    pub fn create_tube(&self, name: &str, mut options: TubeOptions) -> Result<Tube> {
        let exists = match std::mem::take(&mut options.if_not_exists) {
            true => tubes::Exists::Same,
            false => tubes::Exists::Refuse,
        };
        let tube = self.create(name, &options, exists);
        tube.map_err(|error| error.during("create tube").in_tube(name))
    }

    fn create(&self, name: &str, options: &TubeOptions, exists: tubes::Exists) -> Result<Tube> {
        let op = tubes::Create { name, options, exists };
        let tube = self.hold.core.run(&op, self.hold.settings.durability)?;
        Ok(Tube::over(&self.hold, tube))
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
        self.find(name).map_err(|error| error.during("find tube").in_tube(name))
    }

    fn find(&self, name: &str) -> Result<Option<Tube>> {
        label("tube name", name)?;
        let found = self.hold.core.look(|view, _| {
            query::tube_named(view, name)?.map(|number| query::tube(view, number)).transpose()
        })?;
        Ok(found.map(|tube| Tube::over(&self.hold, tube)))
    }

    /// Removes a tube and its tasks, in one small step for any number of tasks.
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
        self.remove(name, false)
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
        self.remove(name, true)
    }

    fn remove(&self, name: &str, force: bool) -> Result<()> {
        let removed = (|| {
            let tube = self.find(name)?.ok_or_else(|| Error::new(ErrorKind::TubeNotFound))?;
            let core = &self.hold.core;
            let awaited = core.takers.count(tube.number) > 0;
            let op = tubes::Drop { tube: tube.number, awaited, force };
            core.run(&op, self.hold.settings.durability)?;
            self.hold.callbacks.set(core, name, None)
        })();
        removed.map_err(|error| error.during("drop tube").in_tube(name))
    }

    /// The names of all tubes, sorted by their bytes.
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
        let names = self.hold.core.look(|view, _| query::names(view));
        names.map_err(|error| error.during("list tubes"))
    }

    /// Joins the open session of this name, which keeps its grace. If there is none, begins one
    /// with the [builder's grace](crate::Builder::session_grace), also if an earlier session has
    /// left leases. [`Consumer`] has an example.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that is empty, longer than 255 bytes or has
    /// control characters; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn consumer(&self, name: &str) -> Result<Consumer> {
        let open = Consumer::open(&self.hold, name, None);
        open.map_err(|error| error.during("open consumer"))
    }

    /// As [`consumer`](Queue::consumer), with this grace from now on. Zero: no grace;
    /// [`Duration::MAX`]: without end.
    ///
    /// # Errors
    /// As [`consumer`](Queue::consumer).
    pub fn consumer_with_grace(&self, name: &str, grace: Duration) -> Result<Consumer> {
        let open = Consumer::open(&self.hold, name, Some(grace));
        open.map_err(|error| error.during("open consumer"))
    }

    /// Writes the application's own tables and calls the queue's verbs in one commit: all of it
    /// happens, synced, or nothing. If the closure returns an error or panics, nothing happens.
    ///
    /// Every other call waits in the meantime, so keep the closure short. A transaction costs two
    /// syncs that no other call shares, so let one do the work of many. Plain verbs inside the
    /// closure return [`InTransaction`](ErrorKind::InTransaction); a thread that the closure waits
    /// for must not call any. A guard that is dropped inside returns its task after the
    /// transaction.
    ///
    /// ```
    /// use redb::TableDefinition;
    /// use tubewell::{Queue, Result};
    ///
    /// const DIGESTS: TableDefinition<&str, u64> = TableDefinition::new("digests");
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (files, next) = (queue.tube("files")?, queue.tube("mail")?);
    /// files.put(b"a.txt")?;
    ///
    /// let task = files.take()?;
    /// queue.transact(|tx| {
    ///     let mut digests = tx.table(DIGESTS)?; // may stay open beside the verbs
    ///     digests.insert("a.txt", 42)?;
    ///     tx.ack(&task)?;
    ///     next.put_in(tx, b"a.txt is done")
    /// })?;
    ///
    /// let digest = queue.read(|r| -> Result<_> {
    ///     Ok(r.table(DIGESTS)?.get("a.txt")?.map(|digest| digest.value()))
    /// })?;
    /// assert_eq!(digest, Some(42));
    /// assert_eq!((files.len()?, next.len()?), (0, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Rejected`](ErrorKind::Rejected) with the closure's error, which
    /// [`Error::into_source`] returns; [`InTransaction`](ErrorKind::InTransaction);
    /// [`Closed`](ErrorKind::Closed); [`Full`](ErrorKind::Full) if the verbs together exceed the
    /// limit of the temporary tubes, [`DiskFull`](ErrorKind::DiskFull) and [`Io`](ErrorKind::Io),
    /// and then nothing happened; [`Unknown`](ErrorKind::Unknown) if the sync failed.
    pub fn transact<R, E>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<R, E>) -> Result<R>
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Transaction::run(&self.hold, work).map_err(|error| error.during("transact"))
    }

    /// Reads the application's own tables, as of one instant. Other calls do not wait for it.
    ///
    /// # Errors
    /// [`Rejected`](ErrorKind::Rejected) with the closure's error;
    /// [`InTransaction`](ErrorKind::InTransaction); [`Closed`](ErrorKind::Closed);
    /// [`Io`](ErrorKind::Io).
    pub fn read<R, E>(&self, work: impl FnOnce(&Reading) -> Result<R, E>) -> Result<R>
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        Reading::run(&self.hold, work).map_err(|error| error.during("read"))
    }

    /// The counts of every tube, in the order in which the tubes were made, as of one instant. A
    /// damaged tube is left out; [`check`](Queue::check) reports it. Other calls wait in the
    /// meantime, for one or two reads for each tube.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// queue.tube("mail")?;
    /// let stats = queue.stats()?;
    /// assert_eq!((stats[0].tube.as_str(), stats[0].ready), ("letters", 1));
    /// assert_eq!((stats[1].tube.as_str(), stats[1].ready), ("mail", 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn stats(&self) -> Result<Vec<TubeStats>> {
        inspect::all_stats(&self.hold).map_err(|error| error.during("stats"))
    }

    /// The takes that wait for tasks, the longest wait first.
    ///
    /// # Errors
    /// As [`stats`](Queue::stats).
    pub fn waiters(&self) -> Result<Vec<WaiterInfo>> {
        inspect::waiters(&self.hold).map_err(|error| error.during("list waiters"))
    }

    /// The taken tasks of all tubes, by tube and id, without those of damaged tubes.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// let taken = queue.taken()?;
    /// assert_eq!((taken[0].id, taken[0].tube.as_str()), (task.id(), "letters"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`stats`](Queue::stats).
    pub fn taken(&self) -> Result<Vec<TakenInfo>> {
        inspect::taken(&self.hold).map_err(|error| error.during("list taken tasks"))
    }

    /// Subscribes to every step of every task from now on. For a slow reader 4096 events are kept.
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
        Events::subscribe(&self.hold, options)
    }

    /// How many steps were dropped before a [callback](Tube::on_task_change) was called for them,
    /// because the callbacks of this queue were too slow.
    pub fn callbacks_dropped(&self) -> u64 {
        self.hold.callbacks.dropped()
    }

    /// Reads both files and every row, and returns one line for each disagreement; for a sound
    /// queue none. It changes and repairs nothing. Other calls wait in the meantime, and it needs
    /// as much memory again as [`cache_bytes`](crate::Builder::cache_bytes).
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// assert!(queue.check()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Io`](ErrorKind::Io).
    pub fn check(&self) -> Result<Vec<String>> {
        upkeep::check(&self.hold.core).map_err(|error| error.during("check"))
    }

    /// The bytes that the queue uses, on the disk and in memory, and how much it has written since
    /// it was opened. Reads only counters.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// let space = queue.space()?;
    /// assert_eq!((space.durable_bytes, space.tasks_put), (5, 1));
    /// assert!(space.syncs > 0 && space.written_per_task() > Some(5));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn space(&self) -> Result<Space> {
        upkeep::space(&self.hold.core).map_err(|error| error.during("space"))
    }

    /// Moves the writes since the last checkpoint from memory to the folder's base now. The queue
    /// does so by itself when an eighth of the journal is in use, or half of that after a minute
    /// without writes, and at its close.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// assert!(queue.space()?.overlay_rows > 0);
    /// queue.checkpoint()?;
    /// assert_eq!(queue.space()?.overlay_rows, 0);
    /// assert!(queue.base_space()?.rows > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`DiskFull`](ErrorKind::DiskFull) if there is space for only a part, and then the journal
    /// keeps the rest; [`Io`](ErrorKind::Io), and then nothing has changed.
    pub fn checkpoint(&self) -> Result<()> {
        checkpoint(&self.hold.core).map_err(|error| error.during("checkpoint"))
    }

    /// What the base's file consists of, the application's own tables included. Reads every page
    /// that leads to a row, which takes about a second for some hundred megabytes. Other calls do
    /// not wait. Writes since the last checkpoint do not count.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Io`](ErrorKind::Io).
    pub fn base_space(&self) -> Result<BaseSpace> {
        upkeep::base_space(&self.hold.core).map_err(|error| error.during("base space"))
    }

    /// Returns unused space to the file system. Other calls wait in the meantime, long if there is
    /// much of it. While a thread reads or writes the application's tables, the file is left as it
    /// is.
    ///
    /// # Errors
    /// As [`checkpoint`](Queue::checkpoint).
    pub fn compact(&self) -> Result<()> {
        self.compact_with(|_| ControlFlow::Continue(()))
    }

    /// As [`compact`](Queue::compact), and calls `progress` after each round with the bytes
    /// returned so far. `Break` ends it after that round.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use tubewell::{Queue, Stage};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// let tube = queue.tube("films")?;
    /// tube.put(&vec![0; 4 << 20])?;
    /// queue.checkpoint()?;
    /// tube.take()?.ack()?;
    ///
    /// let mut given_back = 0;
    /// queue.compact_with(|progress| {
    ///     assert_eq!(progress.stage, Stage::Compact);
    ///     given_back = progress.done;
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(given_back > 4 << 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`checkpoint`](Queue::checkpoint); [`Cancelled`](ErrorKind::Cancelled) by `progress`; the
    /// rounds before it are kept.
    pub fn compact_with(&self, progress: impl FnMut(Progress) -> ControlFlow<()>) -> Result<()> {
        upkeep::compact(&self.hold.core, progress).map_err(|error| error.during("compact"))
    }

    /// How far the wall clock moved between the last write and this opening, if queue time did not
    /// follow it entirely: it moved back, or by more than
    /// [`clock_gap_max`](crate::Builder::clock_gap_max). `None` also if the machine was not
    /// restarted in the meantime and its boot clock shows how much time has passed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let (clock, day) = (ManualClock::new(), Duration::from_secs(86_400));
    /// Queue::builder().clock(clock.clone()).open(&path)?.close()?;
    /// clock.reboot(40 * day);
    /// let queue = Queue::builder().clock(clock).open(&path)?;
    /// let step = queue.clock_step().unwrap();
    /// assert_eq!((step.by, step.counted), (40 * day, 30 * day));
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock_step(&self) -> Option<ClockStep> {
        self.hold.core.clock_step
    }

    /// Returns after everything written so far is synced.
    ///
    /// ```
    /// use tubewell::{Durability, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::builder().durability(Durability::Relaxed).open(&path)?;
    /// let receipt = queue.tube("letters")?.put_receipt(b"hello")?;
    /// queue.flush()?;
    /// assert!(receipt.is_synced());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Unknown`](ErrorKind::Unknown) if the sync failed; [`Closed`](ErrorKind::Closed), because
    /// the close has synced everything; [`InTransaction`](ErrorKind::InTransaction).
    pub fn flush(&self) -> Result<()> {
        self.hold.core.flush().map_err(|error| error.during("flush"))
    }

    /// Handles all that is due now, the removals that are left, and the callbacks. The queue's
    /// threads do this by themselves, unless it was opened [`by_hand`](crate::Builder::by_hand),
    /// which has an example.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Broken`](ErrorKind::Broken).
    pub fn tick(&self) -> Result<()> {
        let core = &self.hold.core;
        let ticked = upkeep::tick(core);
        if core.settings.by_hand {
            self.hold.callbacks.call_all();
        }
        ticked.map_err(|error| error.during("tick"))
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
        let closed = self.hold.core.close();
        self.hold.callbacks.clear();
        closed.map_err(|error| error.during("close"))
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.hold.core.health.is_closing()
    }
}

debug!([] Queue, "Queue", this, "is_closed": &this.is_closed());
