//! How long a tube keeps tasks that have ended: finished ones, and buried ones. Plain values, which
//! the engine applies.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::setters;
use std::time::Duration;

/// How long a tube keeps tasks that have ended, see
/// [`TubeOptions::keep_finished`](crate::TubeOptions::keep_finished) and
/// [`TubeOptions::keep_buried`](crate::TubeOptions::keep_buried). Each limit that is given counts:
/// the tasks that ended first are removed, one for one, as others end, or when they are too old. A
/// change of the option while the queue is open holds for those that are kept already, too: what is
/// too old by it, or too much, is removed in steps of at most 64. The calls of other tubes run
/// between them; those of this tube come after the last one.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{ManualClock, Queue, Retention, State, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let clock = ManualClock::new(); // moved by hand
/// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
/// let kept = Retention::new().age(Duration::from_secs(3600)).count(2);
/// let tube = queue.create_tube("letters", TubeOptions::default().keep_finished(kept))?;
/// tube.put_many([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()])?;
/// for _ in 0..3 {
///     tube.take()?.ack()?;
/// }
/// assert_eq!(tube.stats()?.finished, 2);
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(tube.stats()?.finished, 0);
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde` it can be serialised, with the fields `age`, `count` and `bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[must_use]
pub struct Retention {
    pub(crate) age: Option<Duration>,
    pub(crate) count: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl Retention {
    /// Without a limit: they are kept until they are deleted.
    pub const fn new() -> Self {
        Self { age: None, count: None, bytes: None }
    }

    /// Refuses limits that keep nothing.
    pub(crate) fn check(&self, option: &str) -> Result<()> {
        let is_nothing = self.age.is_some_and(|age| age < Duration::from_micros(1))
            || self.count == Some(0)
            || self.bytes == Some(0);
        if is_nothing {
            let text = format!("option {option} keeps nothing; leave it out");
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        Ok(())
    }
}

setters! {
    [] Retention;

    /// For this long after the end, in [queue time](crate#time). A microsecond or more.
    age(age: Duration) => age = Some(age);

    /// The last so many, one or more.
    count(tasks: u64) => count = Some(tasks);

    /// The last ones whose payloads and results have at most so many bytes together, one or more.
    /// The last one is kept, whatever its size.
    bytes(bytes: u64) => bytes = Some(bytes);
}
