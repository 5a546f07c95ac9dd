//! What a tube says of its gates: how many of its tasks may be taken, how often, in which hours,
//! which conditions they require, and which throttles they share with other tubes. Plain values;
//! what a gate lets through now is decided elsewhere.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::hours::Hours;
use crate::words::limits::{REQUIRED_MAX, THROTTLES_OF_TUBE_MAX};
use crate::words::macros::{getters, setters};
use crate::words::name::label;
use std::collections::BTreeSet;
use std::time::Duration;

/// The gates that all tasks of a tube need. Without one there is no value of this type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gates {
    /// The most tasks that may be in flight. 0: no limit.
    pub(crate) limit: u64,
    /// How often a task may be taken.
    pub(crate) rate: Option<Rate>,
    /// The names of the conditions that must be set.
    pub(crate) required: BTreeSet<String>,
    /// When a task may be taken.
    pub(crate) hours: Option<Hours>,
    /// The names of the throttles of which a taken task holds a slot.
    pub(crate) throttles: BTreeSet<String>,
}

/// The name of a condition, unless it is too long.
pub(crate) fn condition_name(name: &str) -> Result<&str> {
    label("name of a condition", name)
}

/// The name of a throttle, unless it is too long.
pub(crate) fn throttle_name(name: &str) -> Result<&str> {
    label("name of a throttle", name)
}

/// A gate that several tubes name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedGate<'a> {
    Condition(&'a str),
    Throttle(&'a str),
}

impl Gates {
    /// The names of this kind of gates.
    pub(crate) fn names(&self, kind: NamedGate<'_>) -> &BTreeSet<String> {
        match kind {
            NamedGate::Condition(_) => &self.required,
            NamedGate::Throttle(_) => &self.throttles,
        }
    }

    /// Refuses gates that make no sense.
    pub(crate) fn check(&self) -> Result<()> {
        self.required.iter().try_for_each(|name| condition_name(name).map(drop))?;
        if self.required.len() > REQUIRED_MAX {
            let count = self.required.len();
            let text = format!("a tube requires at most {REQUIRED_MAX} conditions, not {count}");
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        self.throttles.iter().try_for_each(|name| throttle_name(name).map(drop))?;
        if self.throttles.len() > THROTTLES_OF_TUBE_MAX {
            let count = self.throttles.len();
            let text = format!("a tube has at most {THROTTLES_OF_TUBE_MAX} throttles, not {count}");
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        self.hours.as_ref().map_or(Ok(()), Hours::check)?;
        self.rate.map_or(Ok(()), |rate| rate.check())
    }
}

/// A named condition of the queue, from [`Queue::conditions`](crate::Queue::conditions).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Condition {
    /// Its name.
    pub name: String,
    /// Whether it is set. While it is not, no task is taken from the tubes that
    /// [require](crate::TubeOptions::require) it.
    pub is_set: bool,
    /// Whether it is stored in the queue. Otherwise it is forgotten when the queue is closed.
    pub is_stored: bool,
}

/// A throttle of the queue, from [`Queue::throttles`](crate::Queue::throttles).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThrottleInfo {
    /// Its name.
    pub name: String,
    /// How many tasks of all tubes with the [throttle](crate::TubeOptions::throttle) may be taken
    /// at the same time. 0: no limit.
    pub limit: u64,
    /// How long the limit is still in force, in [queue time](crate#time). `None`: until it is set
    /// again.
    pub left: Option<Duration>,
    /// How many taken tasks hold a slot of it; more than the limit after that was lowered.
    pub in_flight: u64,
}

/// How often the tasks of a tube are taken, see [`TubeOptions::rate`](crate::TubeOptions::rate): so
/// many in each interval, evenly spaced, in [queue time](crate#time).
///
/// Of three in a minute, one is taken every 20 seconds. After a time without takes, a
/// [burst](Rate::burst) of several may be taken at once; then they are spaced again. What is
/// released, retried or lost counts again when it is taken again. The takes whose leases a
/// [close](crate::Queue::close) returns do not count, as far as time has not made up for them.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{ManualClock, Queue, Rate, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let clock = ManualClock::new();
/// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
/// let rate = Rate::new(3).per(Duration::from_secs(60)).burst(2);
/// let tube = queue.create_tube("api", TubeOptions::default().rate(rate))?;
/// tube.put_many((0..9).map(|_| b"call".to_vec()))?;
/// assert_eq!(tube.take_many(9)?.len(), 2);
/// clock.advance(Duration::from_secs(20));
/// assert_eq!(tube.take_many(9)?.len(), 1);
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(tube.take_many(9)?.len(), 2);
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde` it can be serialised, with the fields `tasks`, `per` and `burst`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[must_use]
pub struct Rate {
    pub(crate) tasks: u32,
    pub(crate) per: Duration,
    pub(crate) burst: u32,
}

impl Default for Rate {
    /// One a second.
    fn default() -> Self {
        Self::new(1)
    }
}

impl Rate {
    /// So many tasks a second, 1 or more, in a burst of one.
    pub const fn new(tasks: u32) -> Self {
        Self { tasks, per: Duration::from_secs(1), burst: 1 }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let is_nothing = self.tasks == 0 || self.burst == 0 || self.per < Duration::from_micros(1);
        // It is stored in microseconds, of which the highest number is no length.
        if is_nothing || self.per >= Duration::from_micros(u64::MAX) {
            let text = "a rate takes a task or more, a burst of one or more, and an interval of a \
                        microsecond or more that ends";
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        Ok(())
    }
}

setters! {
    [] Rate;

    /// In each interval of this length, a microsecond or more. Default: a second.
    per(interval: Duration) => per = interval;

    /// How many may be taken at once after a time without takes, 1 or more. Default: 1.
    burst(tasks: u32) => burst = tasks;
}

getters! {
    Rate;

    /// How many tasks are taken in each interval.
    get_tasks() -> u32 => tasks;

    /// The interval.
    get_per() -> Duration => per;

    /// How many may be taken at once.
    get_burst() -> u32 => burst;
}
