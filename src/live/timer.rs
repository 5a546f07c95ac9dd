//! Makes things happen on time: sleeps until the first deadline and works off what is due. What is
//! correct does not depend on it, for every verb does the same in its own tube.

use crate::clock::NEVER;
use crate::engine::due::{NextDue, WorkOff};
use crate::engine::sweep::Sweep;
use crate::error::Result;
use crate::limits::TIMER_NAP_MAX;
use crate::live::core::Core;
use crate::sync::Arc;
use std::time::Duration;

/// Before what failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

impl Core {
    /// The timer's thread.
    pub(crate) fn keep_time(self: &Arc<Self>) {
        loop {
            let nap = match self.work_off_all() {
                Ok(next) => self.nap(next),
                // What fails here fails again for the next verb, which can say so. A disk may
                // mend; a broken queue does not.
                Err(_) if self.is_broken() => None,
                Err(_) => self.settings.clock.nap(AGAIN),
            };
            if !self.alarm.sleep(nap) {
                return;
            }
        }
    }

    fn is_broken(&self) -> bool {
        self.is_open().is_err() || self.state.lock().is_open().is_err()
    }

    /// How long the timer may sleep; `None` until it is called.
    fn nap(&self, next: NextDue) -> Option<Duration> {
        let now = self.state.lock().now(&*self.settings.clock);
        let left = |when: u64, now: u64| (when != NEVER).then(|| when.saturating_sub(now));
        let lease = next.lease.min(self.graces.next()).min(self.next_quiet());
        let by_lease = left(lease, now.lease);
        // A jump of these clocks gives no sign, so they are looked at again before long.
        let jumpy = [left(next.queue, now.queue), left(next.wall, now.wall)];
        let jumpy = jumpy
            .into_iter()
            .flatten()
            .min()
            .map(|left| left.min(TIMER_NAP_MAX.as_micros() as u64));
        let left = by_lease.into_iter().chain(jumpy).min()?;
        self.settings.clock.nap(Duration::from_micros(left))
    }

    /// Works off everything that is due now, and all sweeps. Answers the first deadlines to come.
    pub(crate) fn work_off_all(&self) -> Result<NextDue> {
        while self.apply_own(&Sweep)? == Some(true) {}
        let mut next = NextDue::NONE;
        let tubes: Vec<u32> = self.state.lock().notes.due.values().map(|(tube, _)| *tube).collect();
        for tube in tubes {
            loop {
                let mut state = self.state.lock();
                state.is_open()?;
                let now = state.now(&*self.settings.clock);
                let due = state.is_due(tube, now).inspect_err(|error| state.heal_after(error));
                if !due? {
                    let bound = state.notes.due.values().find(|(number, _)| *number == tube);
                    next = next.earlier(bound.map_or(NextDue::NONE, |(_, bound)| *bound));
                    break;
                }
                drop(state);
                // The other tubes have deadlines of their own.
                if self.apply_own(&WorkOff { tube })?.is_none() {
                    break;
                }
            }
        }
        self.end_graces()?;
        self.checkpoint_if_quiet()?;
        Ok(next)
    }

    /// The queue's own op; `None` once the queue closes.
    fn apply_own<O: crate::engine::Op>(&self, op: &O) -> Result<Option<O::Done>> {
        if self.is_open().is_err() {
            return Ok(None);
        }
        match self.apply_inside(op) {
            Ok((done, _)) => Ok(Some(done)),
            // Dropped while it was looked at.
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lease time at which the queue will have been quiet for long enough.
    fn next_quiet(&self) -> u64 {
        self.alarm.quiet_since().map_or(NEVER, |since| since.saturating_add(self.quiet()))
    }

    /// A quiet queue is checkpointed if that spares a kill something.
    fn checkpoint_if_quiet(&self) -> Result<()> {
        if self.lease_now() < self.next_quiet() {
            return Ok(());
        }
        self.alarm.mind_no_quiet();
        let worth_it = self.state.lock().store.wants_quiet_checkpoint();
        if worth_it && self.is_open().is_ok() { self.checkpoint() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SWEEP_TASKS;
    use crate::{Clock, ManualClock, Queue};
    use std::collections::BTreeMap;

    /// The deadlines of a dropped tube stayed. Once one of them had come, the timer had nothing to
    /// work off and nothing to wait for, and looked again for ever.
    #[test]
    fn a_dropped_tube_keeps_no_deadline() {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        tube.task(b"a").delay(Duration::from_secs(1)).put().unwrap();
        tube.task(b"b").ttr(Duration::from_secs(1)).put().unwrap();
        tube.take().unwrap().detach();
        let core = tube.hold.core();
        assert_ne!(core.work_off_all().unwrap(), NextDue::NONE);
        queue.force_drop_tube("t").unwrap();
        assert_eq!(core.work_off_all().unwrap(), NextDue::NONE);
        clock.advance(Duration::from_secs(2));
        assert_eq!(core.work_off_all().unwrap(), NextDue::NONE);
    }

    /// T3. An event tells by its mark which commit it came with.
    #[test]
    fn what_is_due_at_once_goes_in_commits_of_one_sweep_each() {
        for tick in [false, true] {
            let clock = ManualClock::new();
            let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
            let tube = queue.tube("t").unwrap();
            for number in 0..300 {
                let (task, minute) = (tube.task(b"x"), Duration::from_secs(60));
                match number % 3 {
                    0 => task.delay(minute).put(),
                    1 => task.ttl(minute).put(),
                    _ => task.run_at(clock.wall() + minute).put(),
                }
                .unwrap();
            }
            let events = queue.events();
            clock.suspend(Duration::from_secs(10 * 365 * 86_400));
            if tick {
                queue.tick().unwrap();
            } else {
                assert_eq!(tube.len().unwrap(), 200);
            }
            let mut commits = BTreeMap::new();
            std::iter::from_fn(|| events.try_recv())
                .for_each(|event| *commits.entry(event.mark).or_insert(0) += 1);
            let sizes: Vec<usize> = commits.into_values().collect();
            assert_eq!(sizes, [SWEEP_TASKS, SWEEP_TASKS, 300 - 2 * SWEEP_TASKS], "tick: {tick}");
        }
    }
}
