//! A task in plain values: its id, its state, its ticket, and what a user may read of it.

use crate::words::failure::Failure;
use crate::words::report::{Phase, WorkProgress};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::time::{Duration, SystemTime};

/// The number of a task: from 1, growing in put order. One queue never gives a number twice, also
/// if a power cut undid the put. With the feature `serde` it can be serialised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TaskId(u64);

impl TaskId {
    /// The id of this number, such as one that was printed or stored by the application.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({})", self.0)
    }
}

/// The right to settle one taken task: its id and the lease's token. Plain data: it may be copied
/// and sent, and with the feature `serde` stored. It does not contain the tube's name; the caller
/// keeps that too, and passes the ticket to [`Tube::ticket`](crate::Tube::ticket). It is invalid
/// once the task was settled, its lease has ended, or it was taken again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Ticket {
    pub(crate) id: TaskId,
    pub(crate) token: u64,
}

impl Ticket {
    /// The task.
    pub fn id(self) -> TaskId {
        self.id
    }
}

/// The state of a task. A paused tube and a locked group are not states: they only prevent that a
/// ready task is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// Waits until its delay ends.
    Delayed,
    /// Waits for [tasks that it comes after](crate::NewTask::after).
    Blocked,
    /// May be taken.
    Ready,
    /// A taker holds it.
    Taken,
    /// Kept with a [`Reason`]: no take returns it until it is kicked, or restored from the trash.
    Buried,
    /// Finished, and kept by [its tube](crate::TubeOptions::keep_finished). Its only way is to be
    /// removed.
    Done,
}

impl State {
    /// Whether a task in it has ended, if only until it is kicked.
    pub(crate) fn is_end(self) -> bool {
        matches!(self, Self::Buried | Self::Done)
    }
}

/// Why a task was buried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// By `bury`, with the caller's text.
    Buried(String),
    /// By `fail`, with a failure group.
    Failed {
        /// The failure group: equal failures share one.
        group: String,
        /// What went wrong.
        message: String,
    },
    /// All attempts are used up.
    Exhausted {
        /// The failure group of the task's last failure; without one `failed-retries-` and the
        /// tube's name. Empty if a version buried it that had no such groups.
        group: String,
        /// The message of its last failure; empty without one.
        message: String,
    },
    /// The payload cannot be decoded, or its row on the disk is damaged.
    Undecodable(String),
    /// In the trash, with the caller's text: no kick returns it, only
    /// [`restore`](crate::Tube::restore).
    Trashed(String),
}

impl Reason {
    /// The error, or the caller's text.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Buried(text) | Self::Undecodable(text) | Self::Trashed(text) => text,
            Self::Failed { message, .. } | Self::Exhausted { message, .. } => message,
        }
    }

    /// The failure group that a task buried so stands in, if it stands in one.
    pub(crate) fn failure_group(&self) -> Option<&str> {
        match self {
            Self::Failed { group, .. } => Some(group),
            // A version without such groups wrote no group.
            Self::Exhausted { group, .. } => Some(&**group).filter(|group| !group.is_empty()),
            Self::Buried(_) | Self::Undecodable(_) | Self::Trashed(_) => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buried(text) => f.write_str(text),
            Self::Failed { group, message } => write!(f, "{group}: {message}"),
            Self::Exhausted { message, .. } if message.is_empty() => {
                f.write_str("attempts exhausted")
            }
            Self::Exhausted { message, .. } => write!(f, "attempts exhausted: {message}"),
            Self::Undecodable(text) => write!(f, "undecodable: {text}"),
            Self::Trashed(text) => write!(f, "trashed: {text}"),
        }
    }
}

/// What moved a task from one state to another, or how a tube was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// `put`. If the task was there already, a put of its key has put it again.
    Put,
    /// `take` or `claim`.
    Take,
    /// `touch` or `renew`, or `resume` of a consumer; the state does not change.
    Touch,
    /// `ack`, or `complete_by_id`.
    Ack,
    /// `release`, or `release_all`.
    Release,
    /// `retry`, also at the last attempt, which buries the task.
    Retry,
    /// `bury` or `fail`, or a payload or a row that cannot be decoded.
    Bury,
    /// `kick`.
    Kick,
    /// `delete`, `empty_trash`, or a keyed put in the place of a finished task.
    Delete,
    /// A delay, a back-off or the wait for a `run_at` ended.
    Delay,
    /// The task's ttl passed.
    Ttl,
    /// The tube's [`Retention`](crate::Retention) removed a task that had ended.
    Retention,
    /// The lease's ttr passed, and its grace if the tube has one. A task without attempts left is
    /// buried.
    Ttr,
    /// The lease's ttr passed, and the task is stalled: its [grace](crate::Lapse::grace) began. The
    /// state does not change.
    Stall,
    /// `force_timeout`.
    Timeout,
    /// The guard was dropped, the session ended, or the process ended. A task without attempts left
    /// is buried.
    Lost,
    /// `update`; the state changes only with the delay.
    Update,
    /// `advance`: the task's step is done, and it left the tube, or the state, for the next one.
    Advance,
    /// The task came to the tube by `advance` or `move_to`, or left it by `move_to`.
    Move,
    /// `trash`.
    Trash,
    /// `restore`.
    Restore,
    /// The tasks that it came after have ended, and it waits for none of them any more.
    Unblock,
    /// It was removed, as [its policy](crate::Orphaned::Cancel) says, because one that it came
    /// after ended so that its wait is never met.
    Cancel,
    /// Its tube was [merged](crate::Queue::merge) into another one; the state does not change, and
    /// a lease on it goes on.
    Merge,
    /// The queue was closed.
    Close,
    /// `tag` or `untag`; the state does not change.
    Tag,
    /// `track`; the state does not change.
    Track,
    /// `untrack`; the state does not change.
    Untrack,
    /// A tube was made.
    CreateTube,
    /// A tube was dropped, with its tasks.
    DropTube,
    /// A tube was truncated: all of its tasks were removed.
    Truncate,
    /// A tube was paused, or the end of its pause was moved.
    Pause,
    /// A tube was resumed, or its pause ended.
    Resume,
    /// A setting of a tube or of the queue was set.
    SetSetting,
    /// A setting of a tube or of the queue was unset.
    UnsetSetting,
    /// A [schedule](crate::Queue::schedule) was made, changed, paused or resumed.
    SetSchedule,
    /// A schedule was removed.
    RemoveSchedule,
    /// A fire of a schedule has made no task, or this build cannot read its cron text, so that it
    /// stands still: see [`Event::message`](crate::Event::message).
    MissedFire,
}

/// All that the queue knows of one task: its summary, which it derefs to, and its payload. From
/// [`Tube::peek`](crate::Tube::peek), [`Tube::peek_next`](crate::Tube::peek_next),
/// [`Tube::tasks`](crate::Tube::tasks) and [`Queue::find`](crate::Queue::find).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskInfo {
    /// All but the payload.
    pub summary: TaskSummary,
    /// The payload's bytes. Empty where it was not kept, see
    /// [`payload_dropped`](TaskSummary::payload_dropped).
    pub payload: Vec<u8>,
    /// The result of the step before, if the task [has advanced](crate::Task::advance) with one.
    pub passed: Option<Vec<u8>>,
    /// Its result, if it was [finished with one](crate::Task::ack_with).
    pub result: Option<Vec<u8>>,
}

impl Deref for TaskInfo {
    type Target = TaskSummary;

    fn deref(&self) -> &TaskSummary {
        &self.summary
    }
}

/// All that the queue knows of one task except its payload. From
/// [`Tube::summaries`](crate::Tube::summaries), and in a [`TaskInfo`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskSummary {
    /// Its number.
    pub id: TaskId,
    /// The tube's name.
    pub tube: String,
    /// Its state.
    pub state: State,
    /// Its priority. Smaller first.
    pub priority: i64,
    /// Its group, if it has one.
    pub group: Option<String>,
    /// The conditions that it [requires](crate::NewTask::require) itself, beside those of its tube.
    pub requires: Vec<String>,
    /// The [throttles](crate::NewTask::throttle) of its own, beside those of its tube.
    pub throttles: Vec<String>,
    /// The caller's own key, if it has one.
    pub key: Option<String>,
    /// Its kind, if it was given one.
    pub kind: Option<String>,
    /// The book that it belongs to, if it or its tube was given one.
    pub book: Option<String>,
    /// Its details and its tube's, by name.
    pub details: BTreeMap<String, String>,
    /// The name of the [schedule](crate::Queue::schedule) that has made it, if one has.
    pub spawned_from: Option<String>,
    /// When that schedule should have made it, by the schedule's clock.
    pub nominal: Option<SystemTime>,
    /// Its [tags](crate::Tube::tag), in the order in which it got them.
    pub tags: Vec<String>,
    /// Whether it is [tracked](crate::Queue::track).
    pub tracked: bool,
    /// How many bytes the payload has.
    pub payload_bytes: u64,
    /// Grows when the payload [is replaced](crate::Task::with_payload); 0 is the payload of the
    /// put. Of a task whose own row was damaged, and is repaired, it may begin again.
    pub payload_generation: u32,
    /// Whether it was finished in a tube that [drops payloads](crate::TubeOptions::drop_payloads):
    /// its payload is gone, and `payload_bytes` is 0.
    pub payload_dropped: bool,
    /// When it was put, in [queue time](crate#time).
    pub created: SystemTime,
    /// How long ago that was, in queue time.
    pub age: Duration,
    /// When it last changed, in queue time, as far as its rows say: the newest of its put, its
    /// take, its bury, its end, its last failure, its last progress and its history. The end of a
    /// delay, an [update](crate::Tube::update) and, in a tube without history, a release or a kick
    /// leave no time behind.
    pub updated: SystemTime,
    /// When it becomes ready, while it is delayed: in queue time, or in wall time if it was put
    /// with a `run_at`. None if the delay has no end.
    pub due: Option<SystemTime>,
    /// How long it still waits for that, by the same clock. None if it is not delayed, or if the
    /// delay has no end.
    pub delay_left: Option<Duration>,
    /// What is left of its ttl, in queue time; while it is delayed, what will be left when the
    /// delay ends. None if it has no ttl.
    pub ttl_left: Option<Duration>,
    /// How long a taker may hold it, in [lease time](crate#time). None without a limit.
    pub ttr: Option<Duration>,
    /// What is left of the lease by its deadline, in lease time, while it is taken and the lease
    /// has one: a lease ends with [`ttl_left`](TaskSummary::ttl_left) if that is less. Zero while
    /// it [is stalled](TaskSummary::is_stalled), and in a queue that is open
    /// [read-only](crate::Builder::read_only).
    pub lease_left: Option<Duration>,
    /// What is left of its [grace](crate::Lapse::grace), in lease time, while it is stalled:
    /// `Duration::MAX` without end.
    pub grace_left: Option<Duration>,
    /// The named consumer that holds it, while it is taken by one.
    pub holder: Option<String>,
    /// The named consumer that held it in the last attempt that has ended, as far as the last eight
    /// entries of its [history](crate::Tube::history) say.
    pub previous_holder: Option<String>,
    /// Whether its work has begun, while it is taken.
    pub phase: Option<Phase>,
    /// The last progress that was reported of it, also by an earlier attempt. An
    /// [advance](crate::Task::advance) forgets it.
    pub progress: Option<WorkProgress>,
    /// How often it was taken. Never decreases.
    pub deliveries: u32,
    /// Compared with `max_attempts`. A release subtracts one, a kick sets it to zero.
    pub attempts: u32,
    /// After how many attempts it is buried as exhausted: its own limit, or its tube's. None
    /// without a limit.
    pub max_attempts: Option<u32>,
    /// How often it was released.
    pub releases: u32,
    /// How often it was buried or put into the trash.
    pub buries: u32,
    /// Why it is buried, while it is.
    pub reason: Option<Reason>,
    /// When it was buried or put into the trash, in [queue time](crate#time), while it is.
    pub buried: Option<SystemTime>,
    /// What its last retry or fail said. None of a finished task.
    pub last_failure: Option<Failure>,
    /// When it was finished, in [queue time](crate#time), if it is.
    pub finished: Option<SystemTime>,
    /// The tasks that it still [waits for](crate::NewTask::after).
    pub dependencies: LinkedTasks,
    /// The tasks that still wait for it.
    pub dependents: LinkedTasks,
    /// How many entries its [history](crate::Tube::history) has. They are read by that call: each
    /// has a row of its own, and what a look at a task reads does not grow with their number.
    pub history: u64,
}

impl TaskSummary {
    /// Whether it is stalled: taken, its ttr over, and in its [grace](crate::Lapse::grace).
    pub fn is_stalled(&self) -> bool {
        self.grace_left.is_some()
    }
}

/// Tasks that a task is tied to: how many, and the first of them, at most 100.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkedTasks {
    /// How many there are.
    pub count: u64,
    /// The first 100, in the order of their ids. Empty in a listing.
    pub first: Vec<TaskId>,
}

/// A taken task, from [`Queue::taken`](crate::Queue::taken).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenInfo {
    /// The tube's name.
    pub tube: String,
    /// The task.
    pub id: TaskId,
    /// The named consumer that holds it, if there is one.
    pub holder: Option<String>,
    /// Whether it is stalled, see [`TaskSummary::is_stalled`].
    pub is_stalled: bool,
    /// How long it has been held, in [lease time](crate#time).
    pub held_for: Duration,
}
