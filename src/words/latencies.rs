//! How long tasks waited and ran since the queue was opened, in buckets of which each is an eighth
//! of a power of two wide, so that quantiles are as exact for milliseconds as for hours. Plain
//! values; the engine says what is counted.

use crate::words::statistics::{LENGTH_MAX, mean, rank};
use std::time::Duration;

/// Buckets between a power of two and the next one.
const PARTS: u64 = 8;
/// Its logarithm.
const PARTS_LOG: u32 = PARTS.trailing_zeros();

/// The bucket of a length of time in microseconds. Those below eight have one each.
fn bucket(micros: u64) -> u16 {
    let micros = micros.min(LENGTH_MAX);
    if micros < PARTS {
        return micros as u16;
    }
    let shift = micros.ilog2() - PARTS_LOG;
    (u64::from(shift) * PARTS + (micros >> shift)) as u16
}

/// The last microsecond of a bucket.
fn end(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    ((bucket % PARTS + PARTS + 1) << shift) - 1
}

/// Lengths of time, such as waits: how many, their mean, the longest, and quantiles.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// Those that are not empty, of which there are few, each with how many stand in it.
    buckets: Vec<(u16, u64)>,
    /// The index of the last one that was added to, which usually is the next one too.
    near: usize,
    count: u64,
    /// Microseconds.
    sum: u128,
    longest: u64,
}

impl PartialEq for Latency {
    fn eq(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.count, it.sum, it.longest);
        of(self) == of(other) && self.buckets == other.buckets
    }
}

impl Eq for Latency {}

impl Latency {
    /// Adds lengths of time in microseconds, at most 2^16 of them.
    #[inline]
    pub(crate) fn extend(&mut self, lengths: &[u64]) {
        let (mut count, mut sum) = (0, 0);
        for micros in lengths.iter().map(|micros| *micros.min(&LENGTH_MAX)) {
            self.place(bucket(micros));
            count += 1;
            sum += micros;
            self.longest = self.longest.max(micros);
        }
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(u128::from(sum));
    }

    #[inline]
    fn place(&mut self, bucket: u16) {
        if self.buckets.get(self.near).is_none_or(|(near, _)| *near != bucket) {
            self.near = self.buckets.partition_point(|(other, _)| *other < bucket);
            if self.buckets.get(self.near).is_none_or(|(other, _)| *other != bucket) {
                self.buckets.insert(self.near, (bucket, 0));
            }
        }
        if let Some((_, tasks)) = self.buckets.get_mut(self.near) {
            *tasks = tasks.saturating_add(1);
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, in whole microseconds; zero without any.
    pub fn mean(&self) -> Duration {
        mean(self.sum, self.count)
    }

    /// The longest; zero without any. What is longer than 8.9 years counts as that.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.longest)
    }

    /// A length of time that this part of all, from 0 to 1, did not exceed: too long by less than
    /// an eighth. `None` without any.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let (clock, millis) = (ManualClock::new(), Duration::from_millis);
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().keep_days(1))?;
    /// for wait in [10, 20, 400] {
    ///     tube.put(b"hello")?;
    ///     clock.advance(millis(wait));
    ///     tube.take()?.ack()?;
    /// }
    /// let waits = tube.latencies()?.unwrap().waits;
    /// assert!((millis(20)..millis(23)).contains(&waits.quantile(0.5).unwrap()));
    /// assert_eq!(waits.quantile(1.0), Some(millis(400))); // the longest
    /// # Ok(())
    /// # }
    /// ```
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let mut left = rank(self.count, part);
        for (bucket, tasks) in &self.buckets {
            left = left.saturating_sub(*tasks);
            if left == 0 {
                return Some(Duration::from_micros(end(*bucket).min(self.longest)));
            }
        }
        None
    }
}

/// How long the tasks of a tube waited and ran since the queue was opened; from
/// [`Tube::latencies`](crate::Tube::latencies).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latencies {
    /// How long the tasks had been ready that were taken, as
    /// [`DayStatistics::waits`](crate::DayStatistics::waits).
    pub waits: Latency,
    /// How long the tasks were held that were finished, as
    /// [`DayStatistics::runs`](crate::DayStatistics::runs).
    pub runs: Latency,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_an_eighth_wide() {
        let mut next = 0;
        for index in 0..=bucket(u64::MAX) {
            let (first, last) = (next, end(index));
            assert_eq!((bucket(first), bucket(last)), (index, index));
            assert!(last - first < (first / PARTS).max(1), "{index}: {first} to {last}");
            next = last + 1;
        }
        assert_eq!(next, LENGTH_MAX + 1);
    }

    #[test]
    fn quantiles_are_near_and_never_too_short() {
        let mut all = Latency::default();
        assert_eq!((all.quantile(0.5), all.mean(), all.longest()), Default::default());
        all.extend(&(1..=1000).map(|millis| millis * 1000).collect::<Vec<_>>());
        let of = |part| all.quantile(part).unwrap().as_micros() as f64 / 1e6;
        for part in [0.001, 0.01, 0.5, 0.9, 0.99, 1.0] {
            assert!((part..part * 1.125).contains(&of(part)), "{part}: {}", of(part));
        }
        let second = Duration::from_secs(1);
        assert_eq!((all.count(), all.longest()), (1000, second));
        assert_eq!(all.mean(), Duration::from_micros(500_500));
        assert_eq!((all.quantile(f64::NAN), all.quantile(2.0)), (all.quantile(0.0), Some(second)));
        all.extend(&[u64::MAX]);
        assert_eq!(all.quantile(1.0), Some(Duration::from_micros(LENGTH_MAX)));
    }
}
