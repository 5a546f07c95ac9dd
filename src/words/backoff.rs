//! How long a task waits after a failure.

use std::time::Duration;

/// How long a task waits after `retry`, in [queue time](crate#time), by the number of attempts it
/// has used: `first`, then `factor` times as long each time, and never longer than `most`.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Backoff, Queue, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let backoff = Backoff::doubling(Duration::from_secs(5)).at_most(Duration::from_secs(60));
/// let seconds = [1, 2, 3, 4, 5, 6].map(|attempts| backoff.wait(attempts).as_secs());
/// assert_eq!(seconds, [5, 10, 20, 40, 60, 60]);
///
/// let queue = Queue::in_memory()?;
/// let tube = queue.create_tube("letters", TubeOptions::default().backoff(backoff))?;
/// assert_eq!(tube.info()?.options.get_backoff(), backoff);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub(crate) first: Duration,
    pub(crate) factor: u32,
    pub(crate) most: Duration,
}

impl Backoff {
    /// No waiting: a retried task is ready at once.
    pub const NONE: Self = Self { first: Duration::ZERO, factor: 1, most: Duration::ZERO };

    /// `first`, then twice as long each time, at most an hour.
    pub const fn doubling(first: Duration) -> Self {
        Self { first, factor: 2, most: Duration::from_secs(3600) }
    }

    /// The same wait each time.
    pub const fn constant(wait: Duration) -> Self {
        Self { first: wait, factor: 1, most: wait }
    }

    /// Multiplies by `factor` each time instead, up to [`at_most`](Backoff::at_most).
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

    /// How long the first wait is.
    pub const fn get_first(&self) -> Duration {
        self.first
    }

    /// How many times as long each wait is as the one before.
    pub const fn get_factor(&self) -> u32 {
        self.factor
    }

    /// What no wait is longer than.
    pub const fn get_most(&self) -> Duration {
        self.most
    }

    /// How long a task waits that has used this many attempts, from 1.
    pub fn wait(&self, attempts: u32) -> Duration {
        let grown = self.factor.saturating_pow(attempts.saturating_sub(1));
        self.first.saturating_mul(grown).min(self.most)
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
    }
}
