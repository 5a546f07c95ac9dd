//! What a task is, in plain values: its id, its state, where it stands, and what a user may know
//! of it. No rule lives here.

use std::fmt;
use std::ops::Deref;
use std::time::{Duration, SystemTime};

/// The number of a task: from 1, growing in put order, never given twice by one queue, even if
/// the put was taken back by a power cut. With the feature `serde` it can be serialised.
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

/// The right to settle one taken task: its id and the token of the hand-out. Plain data; it may be
/// copied and sent, and with the feature `serde` stored. It does not know its tube: whoever keeps
/// it keeps that too, and gives it to [`Tube::ticket`](crate::Tube::ticket). It is worth nothing
/// once the task was settled, lapsed or taken again.
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

/// Where a task stands in its life. A paused tube, a locked group and a reached limit are not
/// states: they only keep a ready task from being taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// Waits for its time.
    Delayed,
    /// May be taken.
    Ready,
    /// Is in somebody's hands.
    Taken,
    /// Was set aside: no take finds it until it is kicked.
    Buried,
}

/// Why a task was buried.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// By `bury`, with the caller's words.
    Buried(String),
    /// By `fail`, under a group of failures.
    Failed {
        /// The group of failures, to tell alike ones by.
        group: String,
        /// What went wrong.
        message: String,
    },
    /// All attempts are used up; the text is the task's last real error, if it had one.
    Exhausted(String),
    /// The payload does not decode, or its row on the disk is damaged.
    Undecodable(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buried(text) => f.write_str(text),
            Self::Failed { group, message } => write!(f, "{group}: {message}"),
            Self::Exhausted(text) if text.is_empty() => f.write_str("attempts exhausted"),
            Self::Exhausted(text) => write!(f, "attempts exhausted: {text}"),
            Self::Undecodable(text) => write!(f, "undecodable: {text}"),
        }
    }
}

/// What moved a task from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// `put`.
    Put,
    /// `take` or `claim`.
    Take,
    /// `touch` or `renew`, or `resume` of a consumer; the state stays.
    Touch,
    /// `ack`.
    Ack,
    /// `release`, or `release_all`.
    Release,
    /// `retry`, also of the last attempt, which buries.
    Retry,
    /// `bury` or `fail`, or the payload or the row did not decode.
    Bury,
    /// `kick`.
    Kick,
    /// `delete`, or a keyed put that replaced it.
    Delete,
    /// A delay, a back-off or the wait for a `run_at` ended.
    Delay,
    /// The task's ttl passed.
    Ttl,
    /// The lease's ttr passed. The last attempt is buried.
    Ttr,
    /// The guard was dropped, the session ended, or the process died. The last attempt is buried.
    Lost,
    /// The queue was closed.
    Close,
}

/// Everything there is to know of one task: its summary, which it derefs to, and its payload.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskInfo {
    /// All but the payload.
    pub summary: TaskSummary,
    /// The payload's bytes.
    pub payload: Vec<u8>,
}

impl Deref for TaskInfo {
    type Target = TaskSummary;

    fn deref(&self) -> &TaskSummary {
        &self.summary
    }
}

/// Everything there is to know of one task but its payload, which is not read for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskSummary {
    /// Its number.
    pub id: TaskId,
    /// The tube's name.
    pub tube: String,
    /// Its state.
    pub state: State,
    /// Smaller first.
    pub priority: i64,
    /// Its group, if it has one.
    pub group: Option<String>,
    /// The caller's own key, if it has one.
    pub key: Option<String>,
    /// How many bytes the payload has.
    pub payload_bytes: u64,
    /// When it was put, in [queue time](crate#time).
    pub created: SystemTime,
    /// When it will be ready, while it is delayed: in queue time, or in wall time if it was put
    /// with a `run_at`. None if it is delayed for ever.
    pub due: Option<SystemTime>,
    /// What is left of its ttl, in queue time; while it is delayed, what will be left when it is
    /// due. None if it lives for ever.
    pub ttl_left: Option<Duration>,
    /// How long a taker may hold it, in [lease time](crate#time); none if for ever.
    pub ttr: Option<Duration>,
    /// What is left of the lease, in lease time, while it is taken and the lease has an end.
    pub lease_left: Option<Duration>,
    /// The consumer that holds it, while it is taken by one that has a name.
    pub holder: Option<String>,
    /// How often it was handed out. Only grows.
    pub deliveries: u32,
    /// What `max_attempts` compares. Given back by release, zero again after a kick.
    pub attempts: u32,
    /// How often it was released.
    pub releases: u32,
    /// How often it was buried.
    pub buries: u32,
    /// Why it is buried, while it is.
    pub reason: Option<Reason>,
    /// The text of its last failure.
    pub last_error: Option<String>,
}
