//! Failures as plain values: the terms of a retry, the last failure of a task, and the groups that
//! failed tasks stand in.

use std::fmt::Display;
use std::time::{Duration, SystemTime};

/// The terms on which a task is tried again after a failure, for
/// [`retry_with`](crate::Lease::retry_with). [`Retry::new`] gives only the error.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Queue, Reason, Retry, State, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let tube = queue.create_tube("letters", TubeOptions::default().max_attempts(2))?;
/// tube.put(b"hello")?;
///
/// let terms = Retry::new("no answer").group("network").after(Duration::ZERO);
/// tube.take()?.retry_with(terms.clone())?;
/// let failure = tube.peek_next(State::Ready)?.unwrap().last_failure.clone().unwrap();
/// assert_eq!((failure.group.as_deref(), &failure.message[..]), (Some("network"), "no answer"));
///
/// tube.take()?.retry_with(terms)?; // the last attempt
/// let (group, message) = ("network".into(), "no answer".into());
/// let buried = tube.peek_next(State::Buried)?.unwrap();
/// assert_eq!(buried.reason, Some(Reason::Exhausted { group, message }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Retry {
    pub(crate) message: String,
    pub(crate) group: Option<String>,
    pub(crate) after: Option<Duration>,
}

impl Retry {
    /// After this error, cut to 4096 bytes; without a failure group, and after the back-off of the
    /// task or of its tube.
    pub fn new(error: impl Display) -> Self {
        Self { message: error.to_string(), group: None, after: None }
    }

    /// In this failure group, cut to 270 bytes: the task is listed there if this was its last
    /// attempt. An empty group is none.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// After this wait, in [queue time](crate#time), instead of the back-off.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue, Retry};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// tube.take()?.retry_with(Retry::new("no answer").after(minute))?;
    /// clock.advance(minute - Duration::from_secs(1));
    /// assert!(tube.try_take()?.is_none());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(tube.try_take()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn after(mut self, wait: Duration) -> Self {
        self.after = Some(wait);
        self
    }
}

/// The last failure of a task: what its last `retry` or `fail` said. A task keeps it when it is
/// tried again or kicked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The failure group, if one was given.
    pub group: Option<String>,
    /// What went wrong.
    pub message: String,
    /// When, in [queue time](crate#time). None if the folder was written by a version that did not
    /// store it.
    pub at: Option<SystemTime>,
    /// The named consumer that held the task, if there was one.
    pub by: Option<String>,
}

/// A failure group and how many buried tasks stand in it, from
/// [`Tube::failure_groups`](crate::Tube::failure_groups) and
/// [`Queue::failure_groups`](crate::Queue::failure_groups).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureGroup {
    /// Its name.
    pub group: String,
    /// How many tasks.
    pub tasks: u64,
}

/// The failure group of a task of this tube that has used up its attempts, if no retry gave one.
pub(crate) fn exhausted_in(tube: &str) -> String {
    format!("failed-retries-{tube}")
}
