//! The one error type of the library: what was tried, on what, why it failed, and what to do. It
//! never carries a payload. This file imports nothing of the crate that can fail.

use crate::words::task::TaskId;
use std::fmt;
use std::path::{Path, PathBuf};

/// What every call of the library returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) type ErrorCause = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Why a call failed. One small opaque type for the whole library: [`kind`](Error::kind) returns
/// the case, the predicates answer what callers branch on, and the text says what to do.
///
/// ```
/// use tubewell::{ErrorKind, Queue, TaskId};
///
/// # fn main() -> tubewell::Result<()> {
/// let tube = Queue::in_memory()?.tube("letters")?;
/// let error = tube.claim(TaskId::new(7)).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::TaskNotFound);
/// assert!(error.is_not_found());
/// assert_eq!(error.to_string(), "claim task 7 in tube \"letters\": no such task");
/// # Ok(())
/// # }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    action: &'static str,
    tube: Option<Box<str>>,
    task: Option<TaskId>,
    tasks: Vec<TaskId>,
    folder: Option<PathBuf>,
    detail: Option<Box<str>>,
    row: Option<DamagedRow>,
    index: Option<usize>,
    put: Option<u64>,
    source: Option<ErrorCause>,
}

/// A damaged row that a rule met, and that can be repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DamagedRow {
    pub(crate) tube: u32,
    pub(crate) key: Box<[u8]>,
}

/// The cases, each with the text that says what to do.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $text:literal;)*) => {
        /// The cases of [`Error`].
        ///
        /// Four of them may come from any call that reads or writes the folder, whether it names
        /// them under `# Errors` or not: [`Io`](ErrorKind::Io), [`Damaged`](ErrorKind::Damaged),
        /// [`DiskFull`](ErrorKind::DiskFull) and [`Broken`](ErrorKind::Broken). A fifth,
        /// [`Unknown`](ErrorKind::Unknown), may come from any call that waits for a sync. A sixth,
        /// [`ReadOnly`](ErrorKind::ReadOnly), comes from every call that writes to a queue that is
        /// open read-only.
        ///
        /// ```
        /// use tubewell::{ErrorKind, Queue, TubeOptions};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let queue = Queue::in_memory()?;
        /// let tube = queue.create_tube("letters", TubeOptions::default().capacity(1))?;
        /// tube.put(b"to ada")?;
        /// match tube.put(b"to bob") {
        ///     Err(error) if error.kind() == ErrorKind::Full => tube.take()?.ack()?,
        ///     other => panic!("{other:?}"),
        /// }
        /// tube.put(b"to bob")?;
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])* $kind,)*
        }

        impl ErrorKind {
            fn text(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// An argument is outside its limits. Nothing happened.
    Invalid = "invalid argument";
    /// The tube's kind does not allow this option. Nothing happened.
    Unsupported = "this kind of tube does not support it; use TubeKind::General";
    /// The payload is larger than the queue's limit. Nothing was written.
    TooLarge = "the payload is too large";
    /// The tube has reached its capacity, or all durable tubes or all temporary tubes together have
    /// reached their byte limit. Nothing happened.
    Full = "full; ack or delete tasks, or wait for room";
    /// A task with this key exists, and the put had [`Conflict::Reject`](crate::Conflict::Reject).
    /// Nothing happened.
    KeyExists = "a task with this key exists";
    /// No task has this id: it is gone, or the id was never given.
    TaskNotFound = "no such task";
    /// The task of this id is in another tube, which the error names. Nothing happened.
    WrongTube = "the task is in another tube; use that one";
    /// The verb does not apply to a task in this state. Nothing happened.
    WrongState = "the task's state does not allow this";
    /// The lease has ended: the task was settled, buried, deleted or taken again, its ttr or ttl
    /// passed, or its session ended. Nothing happened.
    LeaseLost = "the lease is no longer held; the task may be another's by now";
    /// No tube has this name.
    TubeNotFound = "no such tube; create it first";
    /// No schedule has this name.
    ScheduleNotFound = "no such schedule; make it first";
    /// A tube of this name exists.
    TubeExists = "a tube of this name exists; use if_not_exists() to share it";
    /// A tube with this name exists, but its kind or its options differ.
    TubeMismatch = "a tube of this name exists with another kind or other options";
    /// The tube has waiting takers or taken tasks, or should be empty and is not: it was not
    /// dropped. Or it has tasks on whose rows a [setting](crate::Tube::set) depends: it was not
    /// changed.
    TubeBusy = "the tube is in use; let it drain, or drop it by force";
    /// The `Placement` that the tube was made with is not registered.
    DriverMissing = "the tube's placement is not registered; give it to the builder";
    /// Other tasks wait for the task, and the call does not name all of them.
    /// [`Error::tasks`] names one of them. Nothing was removed by that step.
    HasDependents = "other tasks wait for it; delete them with it, or with force";
    /// A task would wait for itself, by itself or by tasks that wait for it.
    Cycle = "a task cannot wait for itself; leave out what waits for it";
    /// So many tasks come before those that a task is to come after that it was not found out
    /// whether one of them waits for it.
    TooDeep = "too many tasks come before those; name tasks with fewer before them";
    /// The queue, or the consumer, was closed.
    Closed = "closed; open it again";
    /// An earlier failure stopped the queue. Close it and open it again.
    Broken = "the queue has stopped after a failure; close it and open it again";
    /// A sync failed: the call took place entirely or not at all, and opening the queue again
    /// decides which. [`Error::tasks`] lists the tasks that the call put, save of a `put_all`, or
    /// that it was given.
    Unknown = "a sync failed, so the outcome is unknown; open the queue again, which decides it";
    /// The disk is full. Puts are refused, and later also other verbs that add bytes, such as a
    /// bury with a reason. Takes, acks and deletes still work.
    DiskFull = "the disk is full; make room, acks and deletes still work";
    /// Another queue, in this process or in another, has the folder open.
    Locked = "the folder is open in this or another process; close that one first";
    /// The queue is open [read-only](crate::Builder::read_only), and the call writes; or an opening
    /// of this kind found no queue. Nothing happened.
    ReadOnly = "not possible read-only; open the queue without read_only";
    /// The path is not the folder of a queue. Nothing in it was changed.
    NotAQueue = "this is not a queue's folder; give an empty or a new one";
    /// A newer version of the library wrote the folder. Nothing in it was changed.
    NewerFormat = "written by a newer version of tubewell; update this program";
    /// Data on the disk is damaged, or the two files of the folder do not belong together.
    Damaged = "damaged; restore the folder from a copy";
    /// The operating system refused a read, a write or a sync.
    Io = "the operating system refused it";
    /// A payload could not be encoded or decoded.
    Codec = "the payload cannot be encoded or decoded";
    /// A plain verb, or a second `transact`, was called inside `transact`.
    InTransaction = "not possible inside transact; use the transaction's own verbs";
    /// The closure given to `transact` or `read` returned an error;
    /// [`into_source`](Error::into_source) returns that error. Nothing happened.
    Rejected = "rolled back, because the closure returned an error";
    /// The caller's progress function stopped the call. What was done before stays done.
    Cancelled = "stopped by the progress function";
}

/// Constructors are `#[cold]`, which keeps error code out of the code of successful calls, so that
/// the latter fits the processor's instruction cache.
impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Inner {
            kind,
            action: "",
            tube: None,
            task: None,
            tasks: Vec::new(),
            folder: None,
            detail: None,
            row: None,
            index: None,
            put: None,
            source: None,
        }))
    }

    /// An error of the operating system. A full disk gets its own kind.
    #[cold]
    pub(crate) fn io(error: std::io::Error) -> Self {
        let full = matches!(
            error.kind(),
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
        );
        Self::new(if full { ErrorKind::DiskFull } else { ErrorKind::Io }).caused_by(error)
    }

    /// A sync of a file with tasks failed. The kind is `Io` also on a full disk: the state of the
    /// medium is unknown, and freeing space does not change that.
    #[cold]
    pub(crate) fn not_synced(name: &str, cause: impl Into<ErrorCause>) -> Self {
        Self::new(ErrorKind::Io).because(format!("{name} was not synced")).caused_by(cause)
    }

    /// Adds the exact fault.
    #[cold]
    pub(crate) fn because(mut self, detail: impl Into<Box<str>>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    #[cold]
    pub(crate) fn caused_by(mut self, cause: impl Into<ErrorCause>) -> Self {
        self.0.source = Some(cause.into());
        self
    }

    /// Names the verb, unless a lower layer has named one.
    #[cold]
    pub(crate) fn during(mut self, action: &'static str) -> Self {
        if self.0.action.is_empty() {
            self.0.action = action;
        }
        self
    }

    #[cold]
    pub(crate) fn in_tube(mut self, tube: &str) -> Self {
        self.0.tube.get_or_insert_with(|| tube.into());
        self
    }

    #[cold]
    pub(crate) fn on_task(mut self, task: TaskId) -> Self {
        self.0.task.get_or_insert(task);
        self
    }

    /// Names the row that is damaged, unless it is named.
    #[cold]
    pub(crate) fn at_row(mut self, tube: u32, key: &[u8]) -> Self {
        self.0.row.get_or_insert_with(|| DamagedRow { tube, key: key.into() });
        self
    }

    /// The row that is damaged and can be repaired.
    pub(crate) fn row(&self) -> Option<&DamagedRow> {
        self.0.row.as_ref()
    }

    #[cold]
    pub(crate) fn with_tasks(mut self, tasks: Vec<TaskId>) -> Self {
        self.0.tasks = tasks;
        self
    }

    /// Names the task of a batch that was refused, by its index.
    #[cold]
    pub(crate) fn at_index(mut self, index: usize) -> Self {
        self.0.index.get_or_insert(index);
        self
    }

    /// Says how many tasks were put before the error.
    #[cold]
    pub(crate) fn after_puts(mut self, put: u64) -> Self {
        self.0.put = Some(put);
        self.0.index = None;
        self
    }

    #[cold]
    pub(crate) fn at(mut self, folder: &Path) -> Self {
        self.0.folder.get_or_insert_with(|| folder.to_owned());
        self
    }

    /// The case.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The task that the call was about, or of several the one for which it was refused.
    pub fn task(&self) -> Option<TaskId> {
        self.0.task
    }

    /// For [`ErrorKind::Unknown`] the tasks whose outcome is unknown; for
    /// [`ErrorKind::HasDependents`] a task that waits for the one that was to be removed; for a
    /// batch the tasks that were not settled because their leases were lost.
    pub fn tasks(&self) -> &[TaskId] {
        &self.0.tasks
    }

    /// Which task of a batch was refused, counted from 0. Then none of the batch was put.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::builder().payload_bytes_max(3).in_memory()?.tube("letters")?;
    /// let refused = tube.put_many([b"a".to_vec(), b"long".to_vec()]).unwrap_err();
    /// assert_eq!(refused.index(), Some(1));
    /// assert!(tube.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn index(&self) -> Option<usize> {
        self.0.index
    }

    /// How many tasks [`put_all`](crate::Tube::put_all) had put before it failed: the first ones of
    /// its iterator. Those of the refused group were taken from the iterator and are not put.
    /// `None` if a sync failed, of which it is not known what is on the disk, and for every other
    /// call.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::builder().payload_bytes_max(1).in_memory()?.tube("letters")?;
    /// let payloads = (0..3000).map(|number| vec![0; 1 + number / 2000]); // some are too long
    /// let refused = tube.put_all(payloads).unwrap_err();
    /// assert_eq!(refused.tasks_put(), Some(1024)); // the first group
    /// assert_eq!(tube.len()?, 1024);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tasks_put(&self) -> Option<u64> {
        self.0.put
    }

    /// Whether the tube, or the disk, has no room for a put.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().capacity(1))?;
    /// tube.put(b"to ada")?;
    /// assert!(tube.put(b"to bob").unwrap_err().is_full());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Full | ErrorKind::DiskFull)
    }

    /// Whether the caller no longer holds the task.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// tube.bury(id, "called back")?; // meanwhile
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_lease_lost(&self) -> bool {
        self.0.kind == ErrorKind::LeaseLost
    }

    /// Whether the queue or the consumer was closed.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// queue.close()?;
    /// assert!(tube.put(b"hello").unwrap_err().is_closed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_closed(&self) -> bool {
        self.0.kind == ErrorKind::Closed
    }

    /// Whether the outcome is unknown; opening the queue again decides it.
    pub fn is_outcome_unknown(&self) -> bool {
        self.0.kind == ErrorKind::Unknown
    }

    /// Whether there is no such task or tube: also if the task is in another tube.
    ///
    /// ```
    /// use tubewell::{Queue, TaskId};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (letters, parcels) = (queue.tube("letters")?, queue.tube("parcels")?);
    /// let id = letters.put(b"hello")?;
    /// assert!(letters.peek(TaskId::new(7)).unwrap_err().is_not_found());
    /// assert!(parcels.peek(id).unwrap_err().is_not_found()); // it is in the other one
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_not_found(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::TaskNotFound
                | ErrorKind::WrongTube
                | ErrorKind::TubeNotFound
                | ErrorKind::ScheduleNotFound
        )
    }

    /// The cause, such as the error that a closure given to `transact` returned.
    pub fn into_source(self) -> Option<Box<dyn std::error::Error + Send + Sync + 'static>> {
        self.0.source
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if !inner.action.is_empty() {
            write!(f, "{}", inner.action)?;
            if let Some(task) = inner.task {
                write!(f, " task {task}")?;
            }
            if let Some(tube) = &inner.tube {
                write!(f, " in tube {tube:?}")?;
            }
            if let Some(folder) = &inner.folder {
                write!(f, " at {}", folder.display())?;
            }
            f.write_str(": ")?;
        }
        f.write_str(inner.kind.text())?;
        if let Some(detail) = &inner.detail {
            write!(f, " ({detail})")?;
        }
        if let Some(index) = inner.index {
            write!(f, "; number {index} of the batch, counted from 0, and nothing was put")?;
        }
        if let Some(put) = inner.put {
            write!(f, "; {put} tasks were put")?;
        }
        if let Some(source) = &inner.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|cause| cause as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_action_tube_and_task_and_what_to_do() {
        let error =
            Error::new(ErrorKind::LeaseLost).during("ack").in_tube("mail").on_task(TaskId::new(7));
        let text = error.to_string();
        assert!(
            text.starts_with("ack task 7 in tube \"mail\": the lease is no longer held"),
            "{text}"
        );
    }

    #[test]
    fn it_is_small_and_crosses_threads() {
        fn crosses<T: Send + Sync + 'static>() {}
        crosses::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
