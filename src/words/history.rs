//! The history of a task in plain values: what it keeps, and how much.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{HISTORY_BYTES, HISTORY_BYTES_MAX, HISTORY_ENTRIES};
use crate::words::limits::{HISTORY_ENTRIES_MAX, LOG_BYTES_MAX};
use crate::words::macros::setters;
use std::time::{Duration, SystemTime};

/// What became of a task since its put, from [`Tube::history`](crate::Tube::history) and
/// [`Queue::history`](crate::Queue::history).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct History {
    /// The put, then the newest entries, the oldest of them first. The last one is the present
    /// attempt, while the task is taken.
    pub entries: Vec<HistoryEntry>,
    /// How many entries after the put were removed by the [limits](HistoryLimits), or are damaged.
    pub dropped: u64,
}

/// One entry of a [`History`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// When it happened, in [queue time](crate#time); of an attempt when it ended, and of the
    /// present one when it began; of one that waits for its consumer since an opening the time of
    /// the entry before.
    pub at: SystemTime,
    /// When it should have happened, of the put of a task that a
    /// [schedule](crate::Queue::schedule) has made.
    pub nominal: Option<SystemTime>,
    /// What happened.
    pub event: HistoryEvent,
    /// The number of the attempt that this has ended, or of the present one, or of the one that has
    /// gone on with another holder. `None` if the task was not taken, and of
    /// [`HistoryEvent::Done`].
    pub attempt: Option<u32>,
    /// The named consumer that held the task, if it had one.
    pub by: Option<String>,
    /// How long the attempt took, in [lease time](crate#time); of the present one, and of one that
    /// was adopted, so far. `None`
    /// if it is not known, because the process ended before the attempt did.
    pub held_for: Option<Duration>,
    /// The failure group, of a failure that has one.
    pub group: Option<String>,
    /// The tube that the task has left, of [`Moved`](HistoryEvent::Moved),
    /// [`Advanced`](HistoryEvent::Advanced), and a [`PutAgain`](HistoryEvent::PutAgain) into
    /// another tube.
    pub tube: Option<String>,
    /// The error, the reason, or the line that was logged, cut to 1024 bytes.
    pub text: String,
}

/// What happened to a task, in a [`HistoryEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HistoryEvent {
    /// It was put.
    Put,
    /// It is taken: the present attempt.
    Taken,
    /// It was released: the attempt does not count.
    Released,
    /// It was retried after a failure.
    Retried,
    /// Its ttr passed, and the grace of its tube.
    TimedOut,
    /// Its guard was dropped, its session ended, or its process did.
    Lost,
    /// Its lease was ended by [`force_timeout`](crate::Tube::force_timeout).
    ForcedOut,
    /// The queue was closed while it was taken.
    Closed,
    /// It was buried by a fail, with a failure group.
    Failed,
    /// It was buried, also because its attempts were used up.
    Buried,
    /// It was put into the trash.
    Trashed,
    /// A kick made it ready again.
    Kicked,
    /// It was restored from the trash.
    Restored,
    /// It left a tube, or the state that it had, by `move_to` or `unfail_into`, or with a
    /// [merge](crate::Queue::merge) of its tube.
    Moved,
    /// Its step was done, and it went on to the next one.
    Advanced,
    /// It was finished.
    Done,
    /// It was taken over from a session that had ended, by
    /// [`Adopted::tasks`](crate::Adopted::tasks). The attempt goes on with another holder.
    Adopted,
    /// A put of its key has put it again, with another payload.
    PutAgain,
    /// A line was written: [`Tube::log`](crate::Tube::log), [`Task::log`](crate::Task::log).
    Logged,
}

/// How much of a task's [`History`] its tube keeps, see
/// [`TubeOptions::history`](crate::TubeOptions::history). The put is always known; of the rest the
/// newest entries are kept.
///
/// ```
/// use tubewell::{HistoryEvent, HistoryLimits, Queue, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let limits = HistoryLimits::new().entries(2); // the put and the last one
/// let tube = queue.create_tube("letters", TubeOptions::default().history(limits))?;
/// let id = tube.put(b"hello")?;
/// tube.log(id, "one")?;
/// tube.log(id, "two")?;
/// let history = tube.history(id)?;
/// assert_eq!(history.entries.len(), 2);
/// assert_eq!(history.entries[0].event, HistoryEvent::Put);
/// assert_eq!((&history.entries[1].text[..], history.dropped), ("two", 1));
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde` it can be serialised, with the fields `entries` and `bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[must_use]
pub struct HistoryLimits {
    pub(crate) entries: u32,
    pub(crate) bytes: u32,
}

impl Default for HistoryLimits {
    fn default() -> Self {
        Self::new()
    }
}

impl HistoryLimits {
    /// 100 entries of 4 KiB together.
    pub const fn new() -> Self {
        Self { entries: HISTORY_ENTRIES, bytes: HISTORY_BYTES }
    }

    /// Nothing is stored. The put and the present attempt are known of every task.
    pub const fn none() -> Self {
        Self { entries: 0, bytes: HISTORY_BYTES }
    }

    /// Whether entries are stored besides the put, which is known of every task.
    pub(crate) fn stores(self) -> bool {
        self.entries > 1
    }

    /// Refuses more than a history may have.
    pub(crate) fn check(self) -> Result<()> {
        if self.entries <= HISTORY_ENTRIES_MAX && self.bytes <= HISTORY_BYTES_MAX {
            return Ok(());
        }
        let text = format!(
            "option history takes at most {HISTORY_ENTRIES_MAX} entries and {HISTORY_BYTES_MAX} \
             bytes"
        );
        Err(Error::new(ErrorKind::Invalid).because(text))
    }
}

setters! {
    [] HistoryLimits;

    /// At most so many, the put included; at most 1000. 0 or 1: nothing is stored. Default: 100.
    entries(entries: u32) => entries = entries;

    /// The newest ones whose stored bytes are at most so many together; at most 262 144. The last
    /// one is kept, whatever its size. Default: 4096.
    bytes(bytes: u32) => bytes = bytes;
}

/// Refuses a log line that is empty or too long.
pub(crate) fn check_line(text: &str) -> Result<()> {
    let (kind, fault) = match text.len() {
        0 => (ErrorKind::Invalid, "is empty".to_owned()),
        1..=LOG_BYTES_MAX => return Ok(()),
        bytes => (ErrorKind::TooLarge, format!("has {bytes} bytes, the limit is {LOG_BYTES_MAX}")),
    };
    Err(Error::new(kind).because(format!("the line {fault}")))
}
