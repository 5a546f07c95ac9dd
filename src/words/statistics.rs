//! Statistics of one day of a tube: how long its tasks waited and ran, and what became of them.
//! Plain values; the engine says what is filed, and where.

use crate::words::clock::instant;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How many buckets a histogram has: 60 of a second each, then 59 of a minute, 23 of an hour and 6
/// of a day.
pub(crate) const BUCKETS: usize = 148;
/// The most microseconds that are counted of one length of time: almost nine years. The sum of the
/// squares of 2^32 of them fits.
pub(crate) const LENGTH_MAX: u64 = (1 << 48) - 1;

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// Microseconds of a day of queue time.
pub(crate) const DAY: u64 = 24 * HOUR;

/// The bucket of a length of time in microseconds. The last one has all that are longer.
pub(crate) fn bucket(micros: u64) -> usize {
    let (unit, before) = match micros {
        0..MINUTE => (SECOND, 0),
        MINUTE..HOUR => (MINUTE, 59),
        HOUR..DAY => (HOUR, 118),
        _ => (DAY, 141),
    };
    ((micros / unit) as usize + before).min(BUCKETS - 1)
}

/// Microseconds at which a bucket begins.
fn begins(bucket: usize) -> u64 {
    match bucket as u64 {
        at @ 0..60 => at * SECOND,
        at @ 60..119 => (at - 59) * MINUTE,
        at @ 119..142 => (at - 118) * HOUR,
        at => (at - 141) * DAY,
    }
}

/// Which one of so many lengths of time, from the shortest on, is the longest of this part of them:
/// at least the first, and never more than there are.
pub(crate) fn rank(count: u64, part: f64) -> u64 {
    ((count as f64 * part.clamp(0.0, 1.0)).ceil() as u64).max(1).min(count)
}

/// The mean of so many, in whole microseconds; zero without any.
pub(crate) fn mean(sum: u128, count: u64) -> Duration {
    let mean = sum.checked_div(u128::from(count)).unwrap_or(0);
    Duration::from_micros(u64::try_from(mean).unwrap_or(u64::MAX))
}

/// How long tasks waited, or ran: count, mean, deviation and a histogram, of one day of a tube; see
/// [`DayStatistics`].
///
/// The histogram has 148 buckets: 60 of a second each, from 0 to 59; 59 of a minute; 23 of an hour;
/// and 6 of a day, of which the last has also all that is longer. A length of time stands in the
/// bucket of its whole seconds, minutes, hours or days.
#[derive(Clone, PartialEq, Eq)]
pub struct Distribution {
    pub(crate) count: u64,
    /// Microseconds.
    pub(crate) sum: u128,
    /// Of the microseconds.
    pub(crate) squares: u128,
    pub(crate) buckets: [u64; BUCKETS],
}

impl Distribution {
    pub(crate) const NONE: Self = Self { count: 0, sum: 0, squares: 0, buckets: [0; BUCKETS] };

    /// Adds lengths of time in microseconds, at most 2^16 of them.
    #[inline]
    pub(crate) fn extend(&mut self, lengths: &[u64]) {
        let (mut count, mut sum, mut squares) = (0, 0, 0);
        for micros in lengths.iter().map(|micros| *micros.min(&LENGTH_MAX)) {
            count += 1;
            sum += micros;
            squares += u128::from(micros) * u128::from(micros);
            if let Some(tasks) = self.buckets.get_mut(bucket(micros)) {
                *tasks = tasks.saturating_add(1);
            }
        }
        self.count = self.count.saturating_add(count);
        self.sum = self.sum.saturating_add(u128::from(sum));
        self.squares = self.squares.saturating_add(squares);
    }

    /// Adds all of another one.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.squares = self.squares.saturating_add(other.squares);
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to = to.saturating_add(*from);
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All together.
    pub fn total(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.sum).unwrap_or(u64::MAX))
    }

    /// The mean, in whole microseconds; zero without any.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let (clock, secs) = (ManualClock::new(), Duration::from_secs);
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().keep_days(1))?;
    /// for wait in [3, 65] {
    ///     tube.put(b"hello")?;
    ///     clock.advance(secs(wait));
    ///     tube.take()?.ack()?;
    /// }
    /// let waits = tube.statistics(tube.days()?[0])?.unwrap().waits;
    /// assert_eq!((waits.total(), waits.mean()), (secs(68), secs(34)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn mean(&self) -> Duration {
        mean(self.sum, self.count)
    }

    /// The standard deviation of the sample, in whole microseconds; zero with fewer than two.
    pub fn deviation(&self) -> Duration {
        let count = u128::from(self.count);
        if count < 2 {
            return Duration::ZERO;
        }
        // Of whole numbers as long as they fit: the difference of two large ones loses digits.
        let exact = count.checked_mul(self.squares).zip(self.sum.checked_mul(self.sum));
        let spread = match exact {
            Some((squares, square)) => squares.saturating_sub(square) as f64 / count as f64,
            None => self.squares as f64 - self.sum as f64 * (self.sum as f64 / count as f64),
        };
        let variance = spread.max(0.0) / (count - 1) as f64;
        Duration::from_micros(variance.sqrt().round() as u64)
    }

    /// How many stand in each of the 148 buckets, the shortest first.
    pub fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// The shortest length of time that stands in a bucket, by its index from 0 to 147. The next
    /// bucket begins where it ends; a higher index is that of the last one.
    pub fn bucket_start(index: usize) -> Duration {
        Duration::from_micros(begins(index.min(BUCKETS - 1)))
    }

    /// A length of time that this part of all, from 0 to 1, did not exceed: the end of the bucket
    /// in which the last of them stands, so that it is at most one second, minute, hour or day too
    /// long. `None` without any, and [`Duration::MAX`] where it stands in the last bucket, which
    /// has no end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let (clock, secs) = (ManualClock::new(), Duration::from_secs);
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().keep_days(1))?;
    /// for wait in [3, 65] {
    ///     tube.put(b"hello")?;
    ///     clock.advance(secs(wait));
    ///     tube.take()?.ack()?;
    /// }
    /// let waits = tube.statistics(tube.days()?[0])?.unwrap().waits;
    /// assert_eq!(waits.quantile(0.5), Some(secs(4))); // the end of its second
    /// assert_eq!(waits.quantile(1.0), Some(secs(120))); // the end of its minute
    /// # Ok(())
    /// # }
    /// ```
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let mut left = rank(self.count, part);
        if left == 0 {
            return None;
        }
        for (index, tasks) in self.buckets.iter().enumerate() {
            match left.checked_sub(*tasks) {
                Some(after) if after > 0 => left = after,
                _ if index + 1 < BUCKETS => return Some(Self::bucket_start(index + 1)),
                _ => break,
            }
        }
        Some(Duration::MAX)
    }
}

impl Default for Distribution {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distribution")
            .field("count", &self.count)
            .field("mean", &self.mean())
            .field("deviation", &self.deviation())
            .finish_non_exhaustive()
    }
}

/// What happened in a tube on one day: see [`Tube::statistics`](crate::Tube::statistics).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DayStatistics {
    /// The day: whole days of [queue time](crate#time) since the beginning of 1970, UTC.
    pub day: u32,
    /// How long the tasks had been ready that were taken on this day: since the put, or since they
    /// last became ready again. A claim of a task that was not ready is not among them, nor a wait
    /// of unknown length: that of a task which was ready before its tube kept statistics, unless it
    /// was put plainly and not changed since.
    pub waits: Distribution,
    /// How long the tasks were held that were finished on this day, by an ack, a completion or an
    /// advance. One that was held for an unknown time is left out, as after an adoption.
    pub runs: Distribution,
    /// How often tasks were buried, for whatever reason, the trash aside.
    pub failures: u64,
    /// How many tasks are still buried in the tube that were buried on this day, since the first
    /// step that it counts. Looked up when it is asked for.
    pub failed: u64,
    /// How often tasks returned with their attempt counted: after a retry, a lapse, or when the
    /// holder was lost.
    pub retries: u64,
}

impl DayStatistics {
    /// The day of this time of day, UTC, for [`Tube::statistics`](crate::Tube::statistics). A time
    /// before 1970 is of day 0.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use tubewell::DayStatistics;
    ///
    /// let noon = UNIX_EPOCH + Duration::from_secs(365 * 86_400 + 43_200);
    /// assert_eq!(DayStatistics::day_of(noon), 365);
    /// ```
    pub fn day_of(time: SystemTime) -> u32 {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        u32::try_from(since.as_secs() / (DAY / SECOND)).unwrap_or(u32::MAX)
    }

    /// When the day begins.
    pub fn begins(&self) -> SystemTime {
        instant(u64::from(self.day).saturating_mul(DAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_are_seconds_then_minutes_hours_and_days() {
        let secs = |secs: u64| secs * SECOND;
        let places = [
            (0, 0),
            (SECOND - 1, 0),
            (secs(1), 1),
            (secs(59), 59),
            (secs(60) - 1, 59),
            (secs(60), 60),
            (secs(119), 60),
            (secs(120), 61),
            (secs(3599), 118),
            (secs(3600), 119),
            (secs(7200), 120),
            (secs(86_399), 141),
            (secs(86_400), 142),
            (secs(6 * 86_400), 147),
            (secs(7 * 86_400), 147),
            (u64::MAX, 147),
        ];
        for (micros, place) in places {
            assert_eq!(bucket(micros), place, "{micros}");
        }
        for place in 0..BUCKETS {
            assert_eq!(bucket(begins(place)), place);
            assert!(place == 0 || bucket(begins(place) - 1) == place - 1);
        }
    }

    #[test]
    fn means_deviations_and_quantiles() {
        let mut all = Distribution::NONE;
        assert_eq!((all.mean(), all.deviation(), all.quantile(0.5)), Default::default());
        [2, 4, 4, 4, 5, 5, 7, 9].into_iter().for_each(|secs| all.extend(&[secs * SECOND]));
        assert_eq!((all.count(), all.mean()), (8, Duration::from_secs(5)));
        // The sum of the squares of the differences is 32; of a sample it is divided by 7.
        assert_eq!(all.deviation(), Duration::from_micros(2_138_090));
        assert_eq!(all.quantile(0.0), Some(Duration::from_secs(3)));
        assert_eq!(all.quantile(0.5), Some(Duration::from_secs(5)));
        assert_eq!(all.quantile(1.0), Some(Duration::from_secs(10)));
        assert_eq!(all.quantile(f64::NAN), Some(Duration::from_secs(3)));
        all.extend(&[u64::MAX]);
        assert_eq!(all.quantile(1.0), Some(Duration::MAX));
        // Beyond what whole numbers hold.
        (0..1 << 10).for_each(|_| all.extend(&[u64::MAX]));
        assert!(all.deviation() > Duration::ZERO);
    }
}
