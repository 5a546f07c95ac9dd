//! Arguments and results of some verbs: the terms of a release, what a put does about an existing
//! key, what it did, and the verdicts on a taken task. Plain values, which the engine applies.

use crate::words::dependency::After;
use crate::words::durability::Durability;
use crate::words::limits::NAMES_SHOWN;
use crate::words::macros::setters;
use crate::words::task::{Reason, TaskId};
use std::time::{Duration, SystemTime};

/// What a keyed put does if a task has the key: one in its tube, in any state but Done, unless
/// [`TubeOptions::unique`](crate::TubeOptions::unique) says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Conflict {
    /// Keeps the existing task and returns its id. The default.
    #[default]
    Keep,
    /// Refuses with [`ErrorKind::KeyExists`](crate::ErrorKind::KeyExists).
    Reject,
    /// Puts the existing task again, in whatever state it is, with this payload: it keeps its id
    /// and everything that the put does not give, stands at the back of its priority, lives for its
    /// ttl from now on, and its attempts are 0. A lease on it is lost. Its progress and its
    /// checkpoint are gone; its history and its last failure stay.
    ///
    /// A buried or a finished task is brought back also where it does not count for the key. An id
    /// ends once: in the place of a finished task the put makes a new one, which takes over its
    /// history and all that the put does not give. The finished one is gone with its result, also
    /// for tasks that [come after](crate::NewTask::after) it, which go on.
    Replace,
    /// As [`Replace`](Self::Replace), if the existing task waits, ready or delayed: of many puts in
    /// a short time the newest payload is worked on, after a delay that begins again with each.
    /// Beside a task whose work has begun, or that is buried, the put makes a new one, which the
    /// key names from then on.
    Debounce,
}

/// What a [`merge`](crate::Queue::merge) did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// How many tasks this call has moved.
    pub moved: u64,
    /// How many tasks stay because another task has their key.
    pub clashed: u64,
    /// The first 100 of those.
    pub clashes: Vec<TaskId>,
    /// The other tube had no room for this task, and the merge has ended there: it stays, and those
    /// after it.
    pub stopped_at: Option<TaskId>,
    /// It was ended meanwhile: one of the tubes was dropped, the first one was truncated, or
    /// another call, or the queue itself, that did the same merge came to its end, or stopped.
    pub is_cut_short: bool,
}

/// What a verb did that makes buried tasks ready again: [`Tube::kick`](crate::Tube::kick),
/// [`Tube::kick_where`](crate::Tube::kick_where), [`Tube::unfail`](crate::Tube::unfail) or
/// [`Queue::unfail`](crate::Queue::unfail).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kicked {
    /// How many tasks it has kicked.
    pub kicked: u64,
    /// How many tasks it met that stay buried, because another task counts for their key by now.
    pub clashed: u64,
    /// The first 100 of those.
    pub clashes: Vec<TaskId>,
}

/// Counts tasks that stay because another task has their key, and names the first of them.
pub(crate) fn add_clashes((clashed, named): (&mut u64, &mut Vec<TaskId>), more: Vec<TaskId>) {
    *clashed += more.len() as u64;
    let room = NAMES_SHOWN.saturating_sub(named.len());
    named.extend(more.into_iter().take(room));
}

/// What a put did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PutOutcome {
    /// The task is new.
    New,
    /// A task with the key existed and was kept.
    Existing,
    /// A task with the key existed and was put again, with this payload.
    Replaced,
}

/// What a put did, and to which task; from [`NewTask::put_outcome`](crate::NewTask::put_outcome).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Put {
    /// The task: the new one, or the existing one that was kept or put again.
    pub id: TaskId,
    /// Whether the task is new.
    pub outcome: PutOutcome,
}

/// The terms on which a task is released. [`Release::new`] keeps everything as it was: the task
/// is ready at its old place.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Queue, Release};
///
/// # fn main() -> tubewell::Result<()> {
/// let tube = Queue::in_memory()?.tube("letters")?;
/// tube.put_many([b"a".to_vec(), b"b".to_vec()])?;
/// tube.take()?.release_with(Release::new().to_back())?;
/// let task = tube.take()?;
/// assert_eq!(&task[..], b"b");
/// task.release_with(Release::new().priority(-1).delay(Duration::from_secs(60)))?;
/// let stats = tube.stats()?;
/// assert_eq!((stats.ready, stats.delayed), (1, 1));
/// assert_eq!(tube.take()?.attempt(), 1); // a release gives the attempt back
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Release {
    pub(crate) delay: Option<Duration>,
    pub(crate) priority: Option<i64>,
    pub(crate) to_back: bool,
    pub(crate) ttl: Option<Duration>,
}

impl Release {
    /// Ready at once, at its old rank.
    pub const fn new() -> Self {
        Self { delay: None, priority: None, to_back: false, ttl: None }
    }

    /// Ready after this long, in [queue time](crate#time). The delay is added to the ttl; the ttr
    /// does not change.
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// With another priority. Smaller first.
    pub const fn priority(mut self, priority: i64) -> Self {
        self.priority = Some(priority);
        self
    }

    /// After every task of its priority that was put so far. A tube with a
    /// [placement](crate::TubeOptions::placement) refuses it.
    pub const fn to_back(mut self) -> Self {
        self.to_back = true;
        self
    }

    /// With a new ttl, from now on, in [queue time](crate#time). A microsecond or more.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

/// The terms on which a task goes on to another tube, see [`Task::advance`](crate::Task::advance).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Advance<'a> {
    pub(crate) delay: Option<Duration>,
    pub(crate) priority: Option<i64>,
    pub(crate) result: Option<&'a [u8]>,
    pub(crate) after: After,
}

impl<'a> Advance<'a> {
    /// At once, with its priority, and without a result.
    pub const fn new() -> Self {
        Self { delay: None, priority: None, result: None, after: After::new() }
    }

    /// The next step waits for these tasks, at most 256, as one that is put
    /// [after](crate::NewTask::after) them does: for their success, or on [other terms](After).
    /// What the step before has waited for is not among its
    /// [dependencies](crate::Queue::dependencies) any more. It replaces an earlier call.
    ///
    /// ```
    /// use tubewell::{Advance, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (parse, store) = (queue.tube("parse")?, queue.tube("store")?);
    /// let page = parse.put(b"a page")?;
    /// let mut task = parse.take()?;
    /// let image = parse.put(b"an image of it")?;
    /// task.advance_with(&store, Advance::new().after(&[image]))?;
    /// assert_eq!(store.peek(page)?.state, State::Blocked);
    /// parse.take()?.ack()?;
    /// assert_eq!(store.take()?.id(), page);
    /// # Ok(())
    /// # }
    /// ```
    pub fn after(mut self, tasks: impl Into<After>) -> Self {
        self.after = tasks.into();
        self
    }

    /// Ready after this long, in [queue time](crate#time). The delay is added to the ttl.
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// With another priority. Smaller first.
    pub const fn priority(mut self, priority: i64) -> Self {
        self.priority = Some(priority);
        self
    }

    /// With the result of this step, at most 16 KiB, which the next step reads as
    /// [`Lease::passed`](crate::Lease::passed). It replaces the result of the step before.
    pub const fn result(mut self, result: &'a [u8]) -> Self {
        self.result = Some(result);
        self
    }
}

/// What [`Tube::unfail_into`](crate::Tube::unfail_into) or
/// [`Queue::unfail_into`](crate::Queue::unfail_into) has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfailed {
    /// How many tasks were put into the other tube.
    pub moved: u64,
    /// The tasks that stay buried, because the other tube has another task of their key.
    pub clashes: Vec<TaskId>,
    /// Whether it has ended because the other tube has no room for more.
    pub is_full: bool,
}

/// How a lease is extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extend {
    /// Adds this to the deadline, the ttr and the ttl.
    Add(Duration),
    /// Sets the deadline to now + ttr.
    Renew,
    /// Sets the deadline to now + this, also if there was none.
    RenewFor(Duration),
}

/// How a taker settles or extends a task.
pub(crate) enum Verdict<'a> {
    /// The task is finished. It is removed, unless its tube keeps it.
    Ack,
    /// The same with a result, for a tube that keeps it.
    Finish(&'a [u8]),
    /// The task is returned, and the attempt is not counted.
    Release(Release),
    /// The task is returned after a failure, and the attempt is counted; `after` replaces the
    /// back-off. An empty group is none.
    Retry { error: &'a str, group: &'a str, after: Option<Duration> },
    /// The task is buried, perhaps with another priority.
    Bury { reason: Reason, priority: Option<i64> },
    /// The guard was dropped: the task is returned, and the attempt is counted.
    Lost,
    /// The lease is extended.
    Touch(Extend),
}

impl Verdict<'_> {
    /// Buried at its priority.
    pub(crate) fn bury(reason: Reason) -> Self {
        Self::Bury { reason, priority: None }
    }

    /// The verb, for messages.
    pub(crate) fn action(&self) -> &'static str {
        match self {
            Self::Ack | Self::Finish(_) => "ack",
            Self::Release(_) => "release",
            Self::Retry { .. } => "retry",
            Self::Bury { reason: Reason::Failed { .. }, .. } => "fail",
            Self::Bury { reason: Reason::Trashed(_), .. } => "trash",
            Self::Bury { .. } => "bury",
            Self::Lost => "drop",
            Self::Touch(Extend::Add(_)) => "touch",
            Self::Touch(_) => "renew",
        }
    }

    /// How durable the call is when it returns, if the handle asks for `asked`. A verb that changes
    /// only the lease does not wait for the disk: a power cut that undoes it ends the lease as
    /// well.
    pub(crate) fn durability(&self, asked: Durability) -> Durability {
        match self {
            Self::Lost | Self::Touch(_) => Durability::Relaxed,
            Self::Release(terms) if *terms == Release::new() => Durability::Relaxed,
            _ => asked,
        }
    }
}

/// How a tube is paused, for [`Tube::pause_with`](crate::Tube::pause_with). Without an end it is
/// paused until it is resumed.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{PauseTerms, Queue};
///
/// # fn main() -> tubewell::Result<()> {
/// let tube = Queue::in_memory()?.tube("letters")?;
/// tube.put(b"hello")?;
/// let task = tube.take()?;
/// tube.pause_with(PauseTerms::new().length(Duration::from_secs(60)).time_out_running())?;
/// assert!(task.ack().unwrap_err().is_lease_lost());
/// tube.resume()?;
/// assert_eq!(tube.take()?.attempt(), 1); // the attempt that was cut off does not count
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct PauseTerms {
    pub(crate) end: PauseEnd,
    pub(crate) times_out: bool,
}

/// When a pause ends by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PauseEnd {
    Never,
    After(Duration),
    /// By the wall clock as it is at the call.
    At(SystemTime),
}

impl PauseTerms {
    /// A pause without an end.
    pub const fn new() -> Self {
        Self { end: PauseEnd::Never, times_out: false }
    }
}

impl Default for PauseTerms {
    fn default() -> Self {
        Self::new()
    }
}

setters! {
    [] PauseTerms;

    /// It ends after this long, in [queue time](crate#time): a microsecond or more.
    length(length: Duration) => end = PauseEnd::After(length);

    /// It ends at this time of day, in the future, by the clock as it is at the call.
    until(time: SystemTime) => end = PauseEnd::At(time);

    /// In the same step all leases on tasks of the tube end, as by
    /// [`release_all`](crate::Tube::release_all): their attempts do not count.
    time_out_running() => times_out = true;
}
