//! When leases return: at the end of a session, at the end of its grace, at an opening and at a
//! close. Every step is an op; this file decides which thread does it, and when.

use crate::engine::consumers::{self, End, Left};
use crate::engine::query;
use crate::engine::recover::{ExpireSessions, ExpiredSessions, ReturnLeases};
use crate::engine::repair::Repair;
use crate::engine::staging::RollBack;
use crate::runtime::grace_timers::Grace;
use crate::runtime::pipeline::submit;
use crate::runtime::shared::Shared;
use crate::words::error::{ErrorKind, Result};
use crate::words::task::TaskId;

/// Ends a consumer's session: its leases wait for its grace, or return now.
pub(crate) fn end(parts: &Shared, consumer: u32, left: Left, now: bool) -> Result<()> {
    parts.takers.recheck_all();
    let grace = if now { 0 } else { left.grace };
    let until = parts.lease_now().saturating_add(grace);
    let ended = Grace { consumer, left: left.number, until };
    parts.grace_timers.insert(ended);
    if grace > 0 {
        parts.timer.wake();
        return Ok(());
    }
    let returned = end_session(parts, ended, None);
    // A waiting take of this consumer that looked before the consumer was removed looks again.
    parts.takers.recheck_all();
    returned
}

/// Returns all leases of the consumers whose grace is over, in this tube or in all tubes. An op in
/// a tube needs only those of its tube; the timer does the rest.
#[cold]
pub(crate) fn end_graces(parts: &Shared, tube: Option<u32>) -> Result<()> {
    for grace in parts.grace_timers.expired(parts.lease_now()) {
        end_session(parts, grace, tube)?;
    }
    Ok(())
}

/// Returns all leases of a session, in this tube or in all tubes.
fn end_session(parts: &Shared, grace: Grace, tube: Option<u32>) -> Result<()> {
    while return_leases(parts, grace, tube)? {
        parts.state.pass_on();
    }
    Ok(())
}

/// Returns some leases of a session, in this tube or in all tubes. Answers whether some are left.
/// After a failing disk the next call tries again; after damage no call does.
pub(crate) fn return_leases(parts: &Shared, grace: Grace, tube: Option<u32>) -> Result<bool> {
    let Grace { consumer, left, .. } = grace;
    let (more, is_over) = match submit(parts, &End { consumer, left, charged: true, tube }) {
        Ok((more, _)) => (Ok(more), !more && tube.is_none()),
        // The tube was dropped, and its leases with it.
        Err(error) if error.is_not_found() && tube.is_some() => (Ok(false), false),
        Err(error) => {
            let is_damaged = error.kind() == ErrorKind::Damaged;
            (Err(error), is_damaged)
        }
    };
    if is_over {
        parts.grace_timers.remove(grace);
    }
    more
}

/// Gives up the puts that wrote pieces of their payloads and did not finish before the opening.
pub(crate) fn roll_back_puts(parts: &Shared) -> Result<()> {
    while submit(parts, &RollBack)?.0 {}
    Ok(())
}

/// Returns every lease that does not wait for a named consumer, and ends the consumers that have
/// no grace left.
pub(crate) fn void_leases(parts: &Shared, charged: bool) -> Result<()> {
    submit(parts, &Repair::Consumers)?;
    let (ExpiredSessions { over, void_to }, _) = submit(parts, &ExpireSessions)?;
    let tubes = query::numbers(&parts.state.lock().store)?;
    for tube in tubes {
        let mut from = Some(TaskId::new(0));
        while let Some(start) = from {
            from = submit(parts, &ReturnLeases { tube, from: start, charged })?.0;
        }
    }
    for consumer in over {
        let end = End { consumer, left: void_to, charged, tube: None };
        while submit(parts, &end)?.0 {}
    }
    let consumers = consumers::all(&parts.state.lock().store)?;
    let (queue, lease) = {
        let now = parts.state.lock().now(&*parts.settings.clock);
        (now.queue, now.lease)
    };
    for (consumer, row) in consumers {
        let until = lease.saturating_add(row.until.saturating_sub(queue));
        parts.grace_timers.insert(Grace { consumer, left: row.void_to, until });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Range, Tag, View};
    use crate::words::clock::NEVER;
    use crate::words::limits::SWEEP_TASKS;
    use crate::{ManualClock, Queue, Tube};
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    fn queue() -> (Queue, Tube, ManualClock) {
        let clock = ManualClock::new();
        let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        (queue, tube, clock)
    }

    fn take_all(queue: &Queue, tube: &Tube, tasks: usize) {
        tube.put_many((0..tasks).map(|_| b"x".to_vec())).unwrap();
        let ada = queue.consumer_with_grace("ada", MINUTE).unwrap();
        let taken = tube.by(&ada).take_many(tasks).unwrap();
        assert_eq!(taken.len(), tasks);
        taken.into_iter().for_each(|task| _ = task.detach());
    }

    /// Regression: the thread that ended a session first removed it from the list. A tick at the
    /// same time then returned while up to 1 000 of its tasks were still taken.
    #[test]
    fn a_tick_beside_the_end_of_a_session_leaves_none_of_its_tasks_taken() {
        let (queue, tube, clock) = queue();
        take_all(&queue, &tube, 1000);
        clock.advance(MINUTE);
        // Another thread has begun to end it.
        assert_eq!(tube.hold.core.grace_timers.expired(NEVER - 1).len(), 1);
        queue.tick().unwrap();
        assert_eq!(tube.stats().unwrap().taken, 0);
        assert_eq!(tube.hold.core.grace_timers.next(), NEVER);
    }

    /// Regression: every call first returned all leases of an ended session, also in other tubes. A
    /// put waited while 500 000 tasks of another tube returned.
    #[test]
    fn a_call_returns_no_leases_of_other_tubes() {
        const TASKS: usize = 4 * SWEEP_TASKS;
        let (queue, tube, clock) = queue();
        take_all(&queue, &tube, TASKS);
        let core = &tube.hold.core;
        let taken = || core.state.lock().store.count(Range::of(Tag::Taken)) as usize;
        clock.advance(MINUTE);
        let other = queue.tube("other").unwrap();
        other.put(b"x").unwrap();
        assert_eq!(other.stats().unwrap().ready, 1);
        assert_eq!(taken(), TASKS);
        let grace = core.grace_timers.expired(core.lease_now()).remove(0);
        assert!(return_leases(core, grace, None).unwrap());
        assert_eq!(taken(), TASKS - SWEEP_TASKS, "the timer goes step by step");
        tube.put(b"x").unwrap();
        assert_eq!(taken(), 0);
        queue.tick().unwrap();
        assert_eq!(core.grace_timers.next(), NEVER);
    }

    /// Regression: a consumer was opened again before the end of its session was noted. The stale
    /// note then ended a later session before its grace was over.
    #[test]
    fn a_stale_grace_ends_no_later_session() {
        let (queue, tube, clock) = queue();
        take_all(&queue, &tube, 1);
        let core = &tube.hold.core;
        let stale = core.grace_timers.expired(NEVER - 1).remove(0);
        let again = queue.consumer_with_grace("ada", MINUTE).unwrap();
        clock.advance(MINUTE / 2);
        drop(again);
        core.grace_timers.insert(stale);
        clock.advance(MINUTE / 2);
        queue.tick().unwrap();
        assert_eq!(tube.stats().unwrap().taken, 1, "half of the grace is left");
        clock.advance(MINUTE / 2);
        queue.tick().unwrap();
        assert_eq!(tube.stats().unwrap().taken, 0);
    }

    /// Regression: each closed consumer left its name in memory: 30 MiB for 200 000.
    #[test]
    fn a_closed_consumer_leaves_nothing_in_memory() {
        let (queue, tube, _) = queue();
        for number in 0..1000 {
            let consumer = queue.consumer_with_grace(&number.to_string(), MINUTE).unwrap();
            consumer.close().unwrap();
            consumer.close().unwrap();
        }
        assert_eq!(tube.hold.sessions.lock().len(), 0);
        assert_eq!(tube.hold.core.grace_timers.next(), NEVER);
    }
}
