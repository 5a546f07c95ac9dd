//! A taken task: how long it is held, by which consumer, and what ends the lease.

use crate::{counts, kind, lone, lone_with, next, secs, state};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;
use tubewell::{ErrorKind, State, TubeOptions};

#[test]
fn a_lease_lapses_exactly_at_its_ttr_and_the_task_returns_charged() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttr(secs(10)).put().unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(10) - Duration::from_micros(1));
    assert_eq!(task.time_left().unwrap(), Some(Duration::from_micros(1)));
    clock.advance(Duration::from_micros(1));
    assert!(task.time_left().unwrap_err().is_lease_lost());
    let info = tube.peek(id).unwrap();
    assert_eq!((info.state, info.attempts), (State::Ready, 1));
    assert!(task.ack().unwrap_err().is_lease_lost());
}

#[test]
fn a_lapsed_task_is_taken_by_anyone_and_the_late_verdict_changes_nothing() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(10)).put().unwrap();
    let late = tube.take().unwrap();
    clock.advance(secs(10));
    let now = tube.take().unwrap();
    assert!(late.bury("too late").unwrap_err().is_lease_lost());
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    now.ack().unwrap();
}

#[test]
fn the_drop_of_a_stale_guard_does_not_touch_the_next_holder() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(10)).put().unwrap();
    let late = tube.take().unwrap();
    clock.advance(secs(10));
    let now = tube.take().unwrap();
    drop(late);
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    now.ack().unwrap();
}

#[test]
fn no_jump_of_the_wall_clock_and_no_suspend_ends_a_lease() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(10)).put().unwrap();
    let task = tube.take().unwrap();
    clock.suspend(secs(86_400));
    clock.set_wall(std::time::UNIX_EPOCH);
    assert_eq!(task.time_left().unwrap(), Some(secs(10)));
    task.ack().unwrap();
}

#[test]
fn touch_adds_to_deadline_ttr_and_ttl() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttr(secs(10)).ttl(secs(60)).put().unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(4));
    task.touch(secs(5)).unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(11)));
    let info = tube.peek(id).unwrap();
    assert_eq!(
        (info.ttr, info.ttl_left, info.lease_left),
        (Some(secs(15)), Some(secs(61)), Some(secs(11)))
    );
}

#[test]
fn a_touch_of_zero_changes_nothing_and_of_max_holds_without_end() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(10)).put().unwrap();
    let task = tube.take().unwrap();
    task.touch(Duration::ZERO).unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(10)));
    task.touch(Duration::MAX).unwrap();
    clock.advance(secs(1_000_000));
    assert_eq!(task.time_left().unwrap(), None);
    assert_eq!(tube.stats().unwrap().calls.touch, 1, "a touch that does nothing is not counted");
}

#[test]
fn renew_starts_the_ttr_again() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(10)).put().unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(7));
    task.renew().unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(10)));
}

#[test]
fn renew_for_sets_a_deadline_also_where_there_was_none() {
    let (tube, clock) = lone();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    assert_eq!(task.time_left().unwrap(), None);
    task.renew_for(secs(3)).unwrap();
    assert_eq!(task.time_left().unwrap(), Some(secs(3)));
    clock.advance(secs(3));
    assert_eq!(state(&tube, id), State::Ready);
}

/// Regression: it ended the lease at once, charged, and the call succeeded.
#[test]
fn a_renewal_for_less_than_a_microsecond_is_refused_and_the_lease_stays() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(10)).put().unwrap();
    let task = tube.take().unwrap();
    let held = tube.ticket(task.ticket());
    for nothing in [Duration::ZERO, Duration::from_nanos(999)] {
        let refused = task.renew_for(nothing).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains("ttr must be at least one microsecond"), "{refused}");
        assert_eq!(kind(held.renew_for(nothing)), ErrorKind::Invalid);
        task.touch(nothing).unwrap();
    }
    assert_eq!(task.time_left().unwrap(), Some(secs(10)));
    clock.advance(secs(9));
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    task.renew_for(Duration::from_micros(1)).unwrap();
    assert_eq!(task.time_left().unwrap(), Some(Duration::from_micros(1)));
}

#[test]
fn a_lost_lease_is_not_extended() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(1)).put().unwrap();
    let task = tube.take().unwrap();
    clock.advance(secs(1));
    for extended in [task.touch(secs(9)), task.renew(), task.renew_for(secs(9))] {
        assert!(extended.unwrap_err().is_lease_lost());
    }
}

#[test]
fn another_thread_keeps_the_lease_alive() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(10)).put().unwrap();
    let task = tube.take().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| task.renew_for(secs(100)).unwrap());
    });
    clock.advance(secs(50));
    task.ack().unwrap();
}

#[test]
fn a_guard_crosses_threads() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    thread::spawn(move || task.ack().unwrap()).join().unwrap();
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn a_dropped_guard_returns_the_task_charged() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    drop(tube.take().unwrap());
    let info = tube.peek(id).unwrap();
    assert_eq!((info.state, info.attempts, info.releases), (State::Ready, 1, 0));
}

#[test]
fn a_panic_returns_the_task() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        let _task = task;
        std::panic::resume_unwind(Box::new("in the middle of work"));
    }));
    assert!(panicked.is_err());
    assert_eq!(tube.peek(id).unwrap().attempts, 1);
    assert_eq!(next(&tube), "a");
}

#[test]
fn the_last_attempts_loss_buries_the_task() {
    let (tube, clock) = lone_with(TubeOptions::default().max_attempts(2));
    let dropped = tube.put(b"dropped").unwrap();
    drop(tube.take().unwrap());
    drop(tube.take().unwrap());
    assert_eq!(state(&tube, dropped), State::Buried);

    let lapsed = tube.task(b"lapsed").ttr(secs(1)).put().unwrap();
    for _ in 0..2 {
        let task = tube.take().unwrap();
        clock.advance(secs(1));
        assert!(task.time_left().is_err());
    }
    assert_eq!(state(&tube, lapsed), State::Buried);
}

#[test]
fn payload_and_lease_come_apart() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    let (payload, lease) = tube.take().unwrap().split();
    lease.ack().unwrap();
    assert_eq!(&*payload, b"a", "at most once: acked first, worked on then");
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn a_detached_ticket_settles_without_a_guard() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    let ticket = tube.take().unwrap().detach();
    assert_eq!((ticket.id(), state(&tube, id)), (id, State::Taken));
    let held = tube.ticket(ticket);
    held.touch(secs(1)).unwrap();
    held.renew().unwrap();
    drop(held);
    assert_eq!(state(&tube, id), State::Taken, "its drop changes nothing");
    tube.ticket(ticket).ack().unwrap();
    assert_eq!(kind(tube.ticket(ticket).ack()), ErrorKind::LeaseLost);
}

#[test]
fn every_verdict_can_be_given_by_ticket() {
    let (tube, _) = lone_with(TubeOptions::default().backoff(tubewell::Backoff::NONE));
    tube.put(b"a").unwrap();
    let ticket = || tube.ticket(tube.take().unwrap().detach());
    ticket().release().unwrap();
    ticket().release_with(tubewell::Release::new().priority(1)).unwrap();
    ticket().retry("no").unwrap();
    ticket().retry_after("no", Duration::ZERO).unwrap();
    ticket().bury("no").unwrap();
    tube.kick(1).unwrap();
    ticket().fail("net", "no").unwrap();
    tube.kick(1).unwrap();
    ticket().ack().unwrap();
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn the_first_verdict_settles() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let ticket = tube.ticket(task.ticket());
    ticket.clone().ack().unwrap();
    assert!(ticket.ack().unwrap_err().is_lease_lost());
    assert!(task.release().unwrap_err().is_lease_lost());
    assert_eq!(tube.len().unwrap(), 0);
}

/// With a codec that stores no names, so that the stored numbers are checked.
#[test]
#[cfg(all(feature = "serde", feature = "bincode"))]
fn a_ticket_that_was_stored_elsewhere_settles() {
    let form = bincode::config::standard();
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    let ticket = tube.take().unwrap().detach();
    let stored = bincode::serde::encode_to_vec((id, ticket), form).unwrap();
    let (read, length) = bincode::serde::decode_from_slice(&stored, form).unwrap();
    let (read_id, read): (tubewell::TaskId, tubewell::Ticket) = read;
    assert_eq!((read_id, read, length), (id, ticket, stored.len()));
    tube.ticket(read).ack().unwrap();
    assert!(tube.is_empty().unwrap());
}

#[test]
fn guards_name_their_tube() {
    let queue = crate::still().0.in_memory().unwrap();
    for name in ["mail", "a/b c"] {
        let tube = queue.tube(name).unwrap();
        tube.put(b"x").unwrap();
        let task = tube.take().unwrap();
        assert_eq!(task.tube(), name);
        let (_, lease) = task.split();
        assert_eq!(lease.tube(), name);
        let held = tube.ticket(lease.detach());
        queue.force_drop_tube(name).unwrap();
        assert_eq!(held.tube(), name, "also after it was dropped");
    }
}
