//! The statistics of the days of a tube. Nothing is counted here.

use crate::api::tube::Tube;
use crate::engine::{query, statistics};
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::latencies::Latencies;
use crate::words::limits::SWEEP_TASKS;
use crate::words::statistics::DayStatistics;

/// Statistics of days, and since the queue was opened.
impl<T: ?Sized> Tube<T> {
    /// What happened in the tube on a day: waits, runs, failures and retries. `None` if nothing
    /// did, if the day is kept no longer, and in a tube that keeps none:
    /// [`keep_days`](crate::TubeOptions::keep_days) says for how many days, the default is 0. A day
    /// is a UTC day of [queue time](crate#time), counted from the beginning of 1970:
    /// [`DayStatistics::day_of`] gives that of a time, and [`days`](Tube::days) those that there
    /// are.
    ///
    /// They are exact, also after a kill: each step of a task counts once, and counts exactly if
    /// the step itself has lasted. After a [`truncate`](Tube::truncate) they begin again. As long
    /// as puts fail with [`DiskFull`](ErrorKind::DiskFull) no step is counted. How often a tube did
    /// what since the queue was opened, [`stats`](Tube::stats) says, of every tube, and
    /// [`latencies`](Tube::latencies) how long it took.
    ///
    /// The tasks that are [still buried](DayStatistics::failed) are looked up, some at a time, and
    /// others get in between: a call takes the longer the more there are of the day.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new(); // moved by hand
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().keep_days(30))?;
    /// tube.put_many([b"a".to_vec(), b"b".to_vec()])?;
    /// clock.advance(Duration::from_secs(3));
    /// let task = tube.take()?; // has waited for three seconds
    /// clock.advance(Duration::from_secs(65));
    /// task.ack()?; // has run for more than a minute
    /// tube.take()?.bury("no stamp")?;
    ///
    /// let today = tube.days()?[0];
    /// let all = tube.statistics(today)?.unwrap();
    /// assert_eq!((all.waits.count(), all.runs.count()), (2, 1));
    /// assert_eq!(all.runs.mean(), Duration::from_secs(65));
    /// assert_eq!(all.waits.buckets()[3], 1); // of the second from 3 to 4
    /// assert_eq!((all.failures, all.failed), (1, 1));
    /// tube.kick(1)?;
    /// let all = tube.statistics(today)?.unwrap();
    /// assert_eq!((all.failures, all.failed), (1, 0)); // it has failed, and is so no more
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if it was dropped;
    /// [`Damaged`](ErrorKind::Damaged) if the row of the day is; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn statistics(&self, day: u32) -> Result<Option<DayStatistics>> {
        self.name_errors("statistics", {
            let core = &self.inner.core;
            core.catch_up(self.number).and_then(|()| {
                // The first ones in one step with the row.
                let first = core.look_at(|state, now| {
                    let tube = query::tube(&state.store, self.number)?;
                    if statistics::is_over(&tube, day, now) {
                        return Ok(None);
                    }
                    let row = state.store.day_row(tube.run(), day)?;
                    let Some((of, buried)) = statistics::of_day((tube.run(), day), row)? else {
                        return Ok(None);
                    };
                    let some = statistics::failed(&state.store, &buried)?;
                    Ok(Some((of, buried, some)))
                })?;
                let Some((mut of, mut buried, (mut some, mut next))) = first else {
                    return Ok(None);
                };
                of.failed = some;
                while let Some(from) = next {
                    buried.0 = from;
                    (some, next) =
                        core.look_at(|state, _| statistics::failed(&state.store, &buried))?;
                    of.failed += some;
                }
                Ok(Some(of))
            })
        })
    }

    /// How long the tasks of the tube waited and ran since the queue was opened: to draw
    /// quantiles, beside the counts of [`stats`](Tube::stats). The [statistics](Tube::statistics)
    /// of days have whole seconds, these are exact to an eighth, and count the same steps. They are
    /// kept in memory, also over a truncate, in a tube that keeps days; `None` in one that keeps
    /// none.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let clock = ManualClock::new(); // moved by hand
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().keep_days(1))?;
    /// tube.put(b"a")?;
    /// clock.advance(Duration::from_millis(30));
    /// let task = tube.take()?;
    /// clock.advance(Duration::from_millis(4));
    /// task.ack()?;
    /// let latencies = tube.latencies()?.unwrap();
    /// assert_eq!(latencies.waits.quantile(0.99), Some(Duration::from_millis(30)));
    /// assert_eq!(latencies.runs.mean(), Duration::from_millis(4));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`statistics`](Tube::statistics), save `Damaged`.
    pub fn latencies(&self) -> Result<Option<Latencies>> {
        let read = || {
            let core = &self.inner.core;
            core.catch_up(self.number)?;
            core.look_at(|state, _| {
                let tube = query::tube(&state.store, self.number)?;
                let has_days = tube.row.options.keep_days > 0;
                let latencies = || state.derived.latencies(self.number).unwrap_or_default();
                Ok(has_days.then(latencies))
            })
        };
        self.name_errors("latencies", read())
    }

    /// The days of which there are [statistics](Tube::statistics), the first one first. They are
    /// read some at a time, and others get in between.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, DayStatistics, ManualClock, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let (clock, day) = (ManualClock::new(), Duration::from_secs(86_400));
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().keep_days(30))?;
    /// let first = DayStatistics::day_of(clock.wall());
    /// tube.put_many([*b"a", *b"b"])?;
    /// tube.take()?.ack()?;
    /// clock.advance(2 * day);
    /// tube.take()?.ack()?;
    /// assert_eq!(tube.days()?, [first, first + 2]); // nothing happened in between
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`statistics`](Tube::statistics), save `Damaged`.
    pub fn days(&self) -> Result<Vec<u32>> {
        let read = || {
            let core = &self.inner.core;
            core.catch_up(self.number)?;
            let (mut all, mut from) = (Vec::new(), Some(0));
            while let Some(first) = from {
                let (some, next) = core.look_at(|state, now| {
                    let tube = query::tube(&state.store, self.number)?;
                    let mut some = statistics::days(&state.store, &tube, first, SWEEP_TASKS)?;
                    let is_last = some.len() < SWEEP_TASKS;
                    let next = some.last().and_then(|last| last.checked_add(1));
                    some.retain(|day| !statistics::is_over(&tube, *day, now));
                    Ok((some, next.filter(|_| !is_last)))
                })?;
                from = next;
                all.extend(some);
            }
            Ok(all)
        };
        self.name_errors("days", read())
    }
}
