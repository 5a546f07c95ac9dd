//! The application's tables and the queue's verbs in one commit. The only file outside the store
//! that names redb, and only for the application's own tables.

use crate::api::batch::{TaskList, ids};
use crate::api::lease::Lease;
use crate::api::put::{NewTask, Payloads, one};
use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::ticket_handle::TicketHandle;
use crate::api::tube::Tube;
use crate::engine::Op;
use crate::engine::dependencies::FoundTasks;
use crate::engine::find_tasks::FindTasks;
use crate::engine::payload_verb::VerbWithPayload;
use crate::engine::replace::Replacement;
use crate::engine::settle::Adding;
use crate::runtime::pipeline::follow_ends;
use crate::runtime::staged_put::PutsDone;
use crate::runtime::transaction::TransactionCommit;
use crate::store::is_app_table;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::TaskId;
use crate::words::verb::Verdict;
use redb::{Key, ReadOnlyTable, ReadTransaction, StorageError, Table, TableDefinition, TableError};
use redb::{TableHandle, Value};
use std::borrow::Borrow;
use std::error::Error as StdError;

/// The application's tables.
impl Queue {
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
        self.call("transact", |core| {
            core.enter()?;
            let session = TransactionCommit::begin(core)?;
            let tx = Transaction { inner: &self.inner, session };
            let done = work(&tx).map_err(rejected)?;
            if let Some(began) = tx.session.commit()? {
                follow_ends(core, *began);
            }
            Ok(done)
        })
    }

    /// Reads the application's own tables, as of one instant. Other calls do not wait for it.
    ///
    /// ```
    /// use redb::TableDefinition;
    /// use tubewell::{Queue, Result};
    ///
    /// const YEARS: TableDefinition<&str, u64> = TableDefinition::new("years");
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.transact(|tx| -> Result<()> {
    ///     tx.table(YEARS)?.insert("Alien", 1979)?;
    ///     Ok(())
    /// })?;
    /// let year = queue.read(|reading| -> Result<_> {
    ///     Ok(reading.table(YEARS)?.get("Alien")?.map(|year| year.value()))
    /// })?;
    /// assert_eq!(year, Some(1979));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Rejected`](ErrorKind::Rejected) with the closure's error;
    /// [`InTransaction`](ErrorKind::InTransaction); [`Closed`](ErrorKind::Closed);
    /// [`Io`](ErrorKind::Io).
    pub fn read<R, E>(&self, work: impl FnOnce(&Reading) -> Result<R, E>) -> Result<R>
    where
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.call("read", |core| {
            core.enter()?;
            let opening = core.reading()?.store.opening()?;
            work(&Reading(opening.begin_read()?)).map_err(rejected)
        })
    }
}

/// One commit that is being built, given to the closure of
/// [`Queue::transact`](crate::Queue::transact). Its verdicts are those of a [`Lease`], and only
/// borrow the guard: if the transaction is not committed, the lease stays. After the commit the
/// guard has no task.
pub struct Transaction<'a> {
    inner: &'a Arc<QueueInner>,
    session: TransactionCommit<'a>,
}

impl Transaction<'_> {
    /// One of the application's own tables, made if it does not exist. Names that begin with
    /// `tubewell` are reserved for the queue.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a reserved name, a table of other types, or a table that
    /// is open already; [`Io`](ErrorKind::Io).
    pub fn table<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<Table<'_, K, V>> {
        let open = own(definition.name())
            .and_then(|()| Ok(self.session.app()?.transaction()?.open_table(definition)?));
        open.map_err(|error| error.during("open table"))
    }

    /// Puts a task.
    ///
    /// # Errors
    /// As [`Tube::put`]; [`Invalid`](ErrorKind::Invalid) if the tube is of another queue.
    pub fn put<T: ?Sized>(&self, tube: &Tube<T>, payload: &T) -> Result<TaskId> {
        tube.put_in(self, payload)
    }

    /// Adds a verdict.
    pub(crate) fn settle(&self, task: &impl AsRef<Lease>, verdict: Verdict<'_>) -> Result<()> {
        let held = task.as_ref().active();
        held.settle_by(verdict, |op, _| {
            self.same_queue(&held.inner)?;
            match op.verdict {
                Verdict::Finish(_) => self.run(&Adding(op)),
                _ => self.run(op),
            }
        })
    }

    /// Adds a verdict that brings a payload.
    pub(crate) fn settle_with(
        &self,
        held: &TicketHandle,
        verdict: Verdict<'_>,
        new: Replacement<'_>,
    ) -> Result<()> {
        held.settle_by(verdict, |op, _| {
            self.same_queue(&held.inner)?;
            self.run(&VerbWithPayload { verb: op, new })
        })
    }

    /// Adds an op.
    pub(crate) fn run<O: Op>(&self, op: &O) -> Result<O::Done> {
        self.session.run(op)
    }

    /// Finds the tasks that a put or an advance comes after, first in this tube.
    pub(crate) fn find(&self, ids: &[TaskId], first: u32) -> Result<FoundTasks> {
        let first = [first, self.inner.core.last_found()];
        self.run(&FindTasks { ids, first })
    }

    /// Refuses a handle of another queue.
    pub(crate) fn same_queue(&self, inner: &Arc<QueueInner>) -> Result<()> {
        self.inner.ensure_owns(inner, || "the tube or the task".to_owned())
    }
}

impl<T: ?Sized> Tube<T> {
    /// Puts a task inside a transaction: it can be taken after the commit.
    ///
    /// ```
    /// use tubewell::{BoxError, ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let failed = queue.transact(|tx| {
    ///     tube.put_in(tx, b"to ada")?;
    ///     Err::<(), BoxError>("no stamp".into())
    /// });
    /// assert_eq!(failed.unwrap_err().kind(), ErrorKind::Rejected);
    /// assert!(tube.is_empty()?); // nothing happened
    /// queue.transact(|tx| tube.put_in(tx, b"to bob"))?;
    /// assert_eq!(&tube.take()?[..], b"to bob");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tube::put`]; [`Invalid`](ErrorKind::Invalid) if the transaction is of another queue.
    pub fn put_in(&self, tx: &Transaction<'_>, payload: &T) -> Result<TaskId> {
        self.task(payload).put_in(tx)
    }
}

impl<T: ?Sized, P> NewTask<'_, T, P> {
    fn run_in(self, tx: &Transaction<'_>) -> Result<PutsDone>
    where
        P: Payloads<T>,
    {
        let first = self.tube.number;
        let find = |ids: &[TaskId]| tx.find(ids, first);
        self.submit_after(find, |tube, op| {
            tx.same_queue(&tube.inner)?;
            tx.run(op)
        })
    }
}

impl<T: ?Sized> NewTask<'_, T> {
    /// Puts the task inside a transaction: it can be taken after the commit. Never waits for room.
    /// It may come after at most 10 000 others, also after those that the transaction puts.
    ///
    /// ```
    /// use tubewell::{Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let letter = queue.transact(|tx| {
    ///     let draft = tube.task(b"draft").priority(-1).put_in(tx)?;
    ///     tube.task(b"letter").after([draft]).put_in(tx)
    /// })?;
    /// assert_eq!(tube.peek(letter)?.state, State::Blocked);
    /// tube.take()?.ack()?;
    /// assert_eq!(tube.take()?.id(), letter);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`put`](NewTask::put); [`TooLarge`](ErrorKind::TooLarge) if it comes [after
    /// others](NewTask::after) that are looked for in too many tubes, so that their number times
    /// that of the tubes is above 65 536, where its own tube and the one in which a task was found
    /// last come first; [`Invalid`](ErrorKind::Invalid) if the transaction is of another queue.
    pub fn put_in(self, tx: &Transaction<'_>) -> Result<TaskId> {
        one(&self.run_in(tx)?).map(|put| put.id)
    }
}

impl<T: ?Sized, B: Borrow<T>> NewTask<'_, T, Vec<B>> {
    /// Puts the batch inside a transaction: its tasks can be taken after the commit. Never waits
    /// for room.
    ///
    /// # Errors
    /// As [`put`](NewTask::put), and then none was put; [`TooLarge`](ErrorKind::TooLarge) for tasks
    /// before them in too many tubes, as for one task; [`Invalid`](ErrorKind::Invalid) if the
    /// transaction is of another queue.
    pub fn put_in(self, tx: &Transaction<'_>) -> Result<Vec<TaskId>> {
        self.run_in(tx).map(|done| ids(&done))
    }
}

impl<T: ?Sized> NewTask<'_, T, TaskList<'_, T>> {
    /// Puts the tasks inside a transaction: they can be taken after the commit.
    ///
    /// # Errors
    /// As [`put`](Self::put), and then none was put; [`TooLarge`](ErrorKind::TooLarge) for tasks
    /// before them in too many tubes, as for one task; [`Invalid`](ErrorKind::Invalid) if the
    /// transaction is of another queue.
    pub fn put_in(self, tx: &Transaction<'_>) -> Result<Vec<TaskId>> {
        self.run_in(tx).map(|done| ids(&done))
    }
}

/// The application's tables as of one instant, given to the closure of
/// [`Queue::read`](crate::Queue::read).
pub struct Reading(ReadTransaction);

impl Reading {
    /// One of the application's own tables.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a reserved name, a table of other types, or a table that
    /// does not exist; [`Io`](ErrorKind::Io).
    pub fn table<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<ReadOnlyTable<K, V>> {
        let open = own(definition.name()).and_then(|()| Ok(self.0.open_table(definition)?));
        open.map_err(|error| error.during("open table"))
    }
}

/// The error of the closure, which ends the transaction.
fn rejected(cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
    Error::new(ErrorKind::Rejected).caused_by(cause)
}

/// Refuses the names of the queue's own tables.
fn own(name: &str) -> Result<()> {
    if is_app_table(name) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Invalid).because(format!("table {name:?} is the queue's")))
}

/// Lets `?` work on the application's tables inside a closure.
impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Io(error) => Error::io(error),
            StorageError::Corrupted(_) => Error::new(ErrorKind::Damaged).caused_by(error),
            // The queue was closed during a read.
            StorageError::DatabaseClosed => Error::new(ErrorKind::Closed),
            _ => Error::new(ErrorKind::Io).caused_by(error),
        }
    }
}

/// Lets `?` work on the application's tables inside a closure.
impl From<TableError> for Error {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Storage(error) => error.into(),
            _ => Error::new(ErrorKind::Invalid).caused_by(error),
        }
    }
}

debug!([] Transaction<'_>, "Transaction", _this);

debug!([] Reading, "Reading", _this);
