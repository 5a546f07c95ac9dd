//! Where and how long a task has its key to itself. Plain values.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::State;

/// Where the keys of a tube's tasks are unique, and in which states a task counts. By default they
/// are unique in the tube, and a task counts in every state but Done. A put that meets a task which
/// counts does what its [`Conflict`](crate::Conflict) says; to any other put the key is free.
///
/// Verbs that would bring a second task of a key in are refused, as
/// [`KeyExists`](crate::ErrorKind::KeyExists): a kick, a claim of a buried task, a restore, a
/// move, an advance. A task that returns by itself, after a release, a lapse or a crash, or is
/// claimed while it is delayed, may stand beside another one: then the key names the one with the
/// higher id. A task in the trash never counts.
///
/// ```
/// use tubewell::{Conflict, ErrorKind, Queue, TubeOptions, Unique};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let options = TubeOptions::default().unique(Unique::new().in_queue(true).buried(false));
/// let (letters, parcels) =
///     (queue.create_tube("letters", options.clone())?, queue.create_tube("parcels", options)?);
/// let id = letters.task(b"to ada").key("ada").put()?;
/// let second = |conflict| parcels.task(b"a box").key("ada").on_conflict(conflict).put();
/// assert_eq!(second(Conflict::Reject).unwrap_err().kind(), ErrorKind::KeyExists);
/// assert_eq!(second(Conflict::Replace)?, id); // it has gone to the other tube
///
/// parcels.take()?.fail("post", "too heavy")?;
/// let new = second(Conflict::Reject)?; // a buried task does not count
/// assert_eq!(parcels.kick_task(id).unwrap_err().kind(), ErrorKind::KeyExists);
/// # assert_ne!(new, id);
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde` it can be serialised, with a field for each setter. A field that is
/// absent has its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[must_use]
pub struct Unique {
    pub(crate) in_queue: bool,
    pub(crate) delayed: bool,
    pub(crate) ready: bool,
    pub(crate) taken: bool,
    pub(crate) buried: bool,
    pub(crate) done: bool,
}

impl Default for Unique {
    fn default() -> Self {
        Self::new()
    }
}

impl Unique {
    /// In the tube, in every state but Done.
    pub const fn new() -> Self {
        let (in_queue, done) = (false, false);
        Self { in_queue, delayed: true, ready: true, taken: true, buried: true, done }
    }

    /// Among the tasks of all durable tubes of which the keys are unique in the queue, instead of
    /// in the tube. A temporary tube refuses it. Default: off.
    pub const fn in_queue(mut self, yes: bool) -> Self {
        self.in_queue = yes;
        self
    }

    /// Whether a delayed task counts, and one that waits for others. Default: yes.
    pub const fn delayed(mut self, yes: bool) -> Self {
        self.delayed = yes;
        self
    }

    /// Whether a ready task counts. Default: yes.
    pub const fn ready(mut self, yes: bool) -> Self {
        self.ready = yes;
        self
    }

    /// Whether a taken task counts. Default: yes.
    pub const fn taken(mut self, yes: bool) -> Self {
        self.taken = yes;
        self
    }

    /// Whether a buried task counts. Default: yes.
    pub const fn buried(mut self, yes: bool) -> Self {
        self.buried = yes;
        self
    }

    /// Whether a finished task counts, as long as its tube
    /// [keeps](crate::TubeOptions::keep_finished) it. Default: no.
    pub const fn done(mut self, yes: bool) -> Self {
        self.done = yes;
        self
    }

    /// Whether the keys are unique in the queue.
    pub const fn is_in_queue(&self) -> bool {
        self.in_queue
    }

    /// Whether a task counts in this state.
    pub const fn counts(&self, state: State) -> bool {
        match state {
            State::Delayed | State::Blocked => self.delayed,
            State::Ready => self.ready,
            State::Taken => self.taken,
            State::Buried => self.buried,
            State::Done => self.done,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.delayed || self.ready || self.taken || self.buried || self.done {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Invalid).because("unique takes one state or more that counts"))
    }
}
