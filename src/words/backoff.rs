//! How often a task is tried, and how long it waits after a failure.

use crate::words::task::TaskId;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// How long a task waits after `retry`, in [queue time](crate#time), by the number of attempts it
/// has used: `first`, then `factor` times as long each time and a `step` longer, and never longer
/// than `most`. With a *jitter* each wait is shorter by a part that depends on the task, so that
/// tasks that failed together do not come back together.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Backoff, Queue, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let seconds =
///     |backoff: Backoff| [1, 2, 3, 4, 5, 6].map(|attempts| backoff.wait(attempts).as_secs());
/// let five = Duration::from_secs(5);
/// assert_eq!(seconds(Backoff::constant(five)), [5, 5, 5, 5, 5, 5]);
/// assert_eq!(seconds(Backoff::linear(five)), [5, 10, 15, 20, 25, 30]);
/// let backoff = Backoff::doubling(five).at_most(Duration::from_secs(60));
/// assert_eq!(seconds(backoff), [5, 10, 20, 40, 60, 60]);
///
/// let queue = Queue::in_memory()?;
/// let backoff = backoff.jitter(20); // up to 20 % shorter
/// let tube = queue.create_tube("letters", TubeOptions::default().backoff(backoff))?;
/// assert_eq!(tube.info()?.options.get_backoff(), backoff);
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde` it can be serialised, with the fields `first`, `factor`, `step`, `most`
/// and `jitter`. A field that is absent is as in `Backoff::doubling` of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default = "Backoff::general", deny_unknown_fields)
)]
pub struct Backoff {
    pub(crate) first: Duration,
    pub(crate) factor: u32,
    pub(crate) step: Duration,
    pub(crate) most: Duration,
    /// Percent of a wait.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "jitter"))]
    pub(crate) jitter: u8,
}

/// Reads a jitter. Its setter bounds it.
#[cfg(feature = "serde")]
fn jitter<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    let percent = serde::Deserialize::deserialize(from)?;
    Ok(Backoff::NONE.jitter(percent).jitter)
}

impl Backoff {
    /// No waiting: a retried task is ready at once.
    pub const NONE: Self = Self::constant(Duration::ZERO);

    /// That of the general kind of tube.
    pub(crate) const fn general() -> Self {
        Self::doubling(Duration::from_secs(1))
    }

    /// `first`, then twice as long each time, at most an hour.
    pub const fn doubling(first: Duration) -> Self {
        Self { factor: 2, most: Duration::from_secs(3600), ..Self::constant(first) }
    }

    /// `step`, then longer by `step` each time, at most an hour.
    pub const fn linear(step: Duration) -> Self {
        Self { step, most: Duration::from_secs(3600), ..Self::constant(step) }
    }

    /// The same wait each time.
    pub const fn constant(wait: Duration) -> Self {
        Self { first: wait, factor: 1, step: Duration::ZERO, most: wait, jitter: 0 }
    }

    /// Multiplies by `factor` each time instead, up to [`at_most`](Backoff::at_most).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Backoff;
    ///
    /// let backoff = Backoff::constant(Duration::from_secs(1)).factor(3);
    /// let backoff = backoff.at_most(Duration::from_secs(60));
    /// let waits = [1, 2, 3, 4, 5].map(|attempts| backoff.wait(attempts).as_secs());
    /// assert_eq!(waits, [1, 3, 9, 27, 60]);
    /// ```
    #[must_use]
    pub const fn factor(mut self, factor: u32) -> Self {
        self.factor = factor;
        self
    }

    /// Never waits longer than `most`.
    #[must_use]
    pub const fn at_most(mut self, most: Duration) -> Self {
        self.most = most;
        self
    }

    /// Makes each wait shorter by up to this many percent of it, at most 100. How much is drawn
    /// from the task's id and its attempts, so it is the same after a crash. Default: 0.
    #[must_use]
    pub const fn jitter(mut self, percent: u8) -> Self {
        self.jitter = if percent > 100 { 100 } else { percent };
        self
    }

    /// How long the first wait is.
    pub const fn get_first(&self) -> Duration {
        self.first
    }

    /// How many times as long each wait is as the one before.
    pub const fn get_factor(&self) -> u32 {
        self.factor
    }

    /// How much longer each wait is than the one before, besides the factor.
    pub const fn get_step(&self) -> Duration {
        self.step
    }

    /// What no wait is longer than.
    pub const fn get_most(&self) -> Duration {
        self.most
    }

    /// By how many percent at most a wait is shorter.
    pub const fn get_jitter(&self) -> u8 {
        self.jitter
    }

    /// How long a task waits that has used this many attempts, from 1, without the jitter.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Backoff;
    ///
    /// let backoff = Backoff::doubling(Duration::from_secs(1)).jitter(50);
    /// assert_eq!(backoff.wait(1), Duration::from_secs(1)); // with the jitter up to half less
    /// assert_eq!(backoff.wait(4), Duration::from_secs(8));
    /// assert_eq!(backoff.wait(100), Duration::from_secs(3600)); // the most
    /// ```
    pub fn wait(&self, attempts: u32) -> Duration {
        let before = attempts.saturating_sub(1);
        // In 128 bits: a factor beyond 32 bits makes a wait of hours of one of a microsecond.
        let factor = u128::from(self.factor).saturating_pow(before);
        let grown = self.first.as_nanos().saturating_mul(factor);
        let added = self.step.as_nanos().saturating_mul(before.into());
        let wait = grown.saturating_add(added);
        if wait >= self.most.as_nanos() {
            return self.most;
        }
        let (seconds, nanos) = (wait / 1_000_000_000, wait % 1_000_000_000);
        Duration::new(u64::try_from(seconds).unwrap_or(u64::MAX), nanos as u32)
    }

    /// How long this task waits.
    pub(crate) fn wait_of(&self, id: TaskId, attempts: u32) -> Duration {
        let wait = self.wait(attempts);
        if self.jitter == 0 {
            return wait;
        }
        let mut seed = [0; 12];
        seed[..8].copy_from_slice(&id.get().to_be_bytes());
        seed[8..].copy_from_slice(&attempts.to_be_bytes());
        // Of 2^32.
        let drawn = xxh3_64(&seed) >> 32;
        let most = wait.as_micros() * u128::from(self.jitter) / 100;
        let less = (most * u128::from(drawn)) >> 32;
        wait.saturating_sub(Duration::from_micros(u64::try_from(less).unwrap_or(u64::MAX)))
    }
}

/// How often one task is tried and how long it waits in between, where that is not as its tube has
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetryTerms {
    /// Attempts before it is buried as exhausted; 0 is no limit.
    pub(crate) max_attempts: Option<u32>,
    pub(crate) backoff: Option<Backoff>,
}

impl RetryTerms {
    /// With those of `common` where it has none.
    pub(crate) fn or(self, common: Self) -> Self {
        Self {
            max_attempts: self.max_attempts.or(common.max_attempts),
            backoff: self.backoff.or(common.backoff),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_and_saturates() {
        let backoff = Backoff::doubling(Duration::from_secs(1));
        assert_eq!(backoff.wait(1), Duration::from_secs(1));
        assert_eq!(backoff.wait(4), Duration::from_secs(8));
        assert_eq!(backoff.wait(u32::MAX), Duration::from_secs(3600));
        assert_eq!(Backoff::NONE.wait(9), Duration::ZERO);
        let linear = Backoff::linear(Duration::from_secs(600));
        assert_eq!(
            [1, 2, 6, 7, u32::MAX].map(|n| linear.wait(n).as_secs()),
            [600, 1200, 3600, 3600, 3600]
        );
        let longest = Backoff::linear(Duration::MAX).at_most(Duration::MAX);
        assert_eq!(longest.wait(u32::MAX), Duration::MAX);
    }

    #[test]
    fn a_jitter_spreads_the_waits_of_tasks_and_lengthens_none() {
        let backoff = Backoff::constant(Duration::from_secs(1000)).jitter(20);
        let waits: Vec<u64> = (1..=1000)
            .map(|id| backoff.wait_of(TaskId::new(id), 1).as_secs())
            .inspect(|wait| assert!((800..=1000).contains(wait), "{wait}"))
            .collect();
        let in_quarter =
            |from| waits.iter().filter(|wait| (from..from + 50).contains(*wait)).count();
        assert!([800, 850, 900, 950].into_iter().all(|from| in_quarter(from) > 150));
        let again = |attempts| backoff.wait_of(TaskId::new(7), attempts);
        assert_eq!(again(1), again(1));
        assert_ne!(again(1), again(2));
    }

    #[test]
    fn a_jitter_is_bounded_at_both_ends() {
        assert_eq!(Backoff::NONE.jitter(200).get_jitter(), 100);
        for id in (0..100).chain([u64::MAX]).map(TaskId::new) {
            assert_eq!(Backoff::NONE.jitter(100).wait_of(id, 1), Duration::ZERO);
            let long = Backoff::constant(Duration::MAX).jitter(100);
            assert!(long.wait_of(id, u32::MAX) <= Duration::MAX);
        }
    }
}
