//! Whose leases live how long: sessions begin and end, graces run out, and an opening or a
//! close voids what no holder may keep. Every step is an op; here is only who does them, and
//! when.

use crate::engine::consumers::{self, End, Left};
use crate::engine::query;
use crate::engine::recover::{ExpireSessions, ExpiredSessions, ReturnLeases};
use crate::engine::repair::Repair;
use crate::engine::staging::RollBack;
use crate::runtime::grace_timers::Grace;
use crate::runtime::pipeline::submit_internal;
use crate::runtime::shared::Shared;
use crate::words::clock::NEVER;
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
        parts.alarm.ring();
        return Ok(());
    }
    let returned = end_session(parts, ended);
    // Before its last task had returned, its waiting takes could look and find the session open.
    parts.takers.recheck_all();
    returned
}

/// Returns the leases of consumers whose grace is over.
pub(crate) fn end_graces(parts: &Shared) -> Result<()> {
    let next = parts.grace_timers.next();
    if next == NEVER {
        return Ok(());
    }
    let now = parts.lease_now();
    if now < next {
        return Ok(());
    }
    while let Some(grace) = parts.grace_timers.expired(now) {
        end_session(parts, grace)?;
    }
    Ok(())
}

/// After a failing disk the next call tries again; after damage no call does.
fn end_session(parts: &Shared, grace: Grace) -> Result<()> {
    let Grace { consumer, left, .. } = grace;
    let ended = end_all(parts, &End { consumer, left, charged: true });
    if ended.as_ref().map_or_else(|error| error.kind() == ErrorKind::Damaged, |()| true) {
        parts.grace_timers.remove(grace);
    }
    ended
}

fn end_all(parts: &Shared, end: &End) -> Result<()> {
    while submit_internal(parts, end)?.0 {
        parts.state.pass_on();
    }
    Ok(())
}

/// Gives up the puts that wrote pieces of their payloads and did not finish before the opening.
pub(crate) fn roll_back_puts(parts: &Shared) -> Result<()> {
    while submit_internal(parts, &RollBack)?.0 {}
    Ok(())
}

/// Returns every lease that does not wait for a named consumer, and ends the consumers that have
/// no grace left.
pub(crate) fn void_leases(parts: &Shared, charged: bool) -> Result<()> {
    submit_internal(parts, &Repair::Consumers)?;
    let (ExpiredSessions { over, void_to }, _) = submit_internal(parts, &ExpireSessions)?;
    let tubes = query::numbers(&parts.state.lock().store)?;
    for tube in tubes {
        let mut from = Some(TaskId::new(0));
        while let Some(start) = from {
            from = submit_internal(parts, &ReturnLeases { tube, from: start, charged })?.0;
        }
    }
    for consumer in over {
        end_all(parts, &End { consumer, left: void_to, charged })?;
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
        assert!(tube.hold.core.grace_timers.expired(MINUTE.as_micros() as u64 * 9).is_some());
        queue.tick().unwrap();
        assert_eq!(tube.stats().unwrap().taken, 0);
        assert_eq!(tube.hold.core.grace_timers.next(), NEVER);
    }

    /// Regression: a consumer was opened again before the end of its session was noted. The stale
    /// note then ended a later session before its grace was over.
    #[test]
    fn a_stale_grace_ends_no_later_session() {
        let (queue, tube, clock) = queue();
        take_all(&queue, &tube, 1);
        let core = &tube.hold.core;
        let stale = core.grace_timers.expired(NEVER - 1).unwrap();
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
