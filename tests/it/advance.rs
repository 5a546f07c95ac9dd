//! `ManualClock::advance_until`: time passes for a call that waits, from point to point.

use crate::{is_gone, kind, next, secs, until_waiting, waiting};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;
use tubewell::{Clock, ErrorKind, ManualClock, Queue, Result, Stop, Task, Tube, TubeOptions};

/// A queue with its threads or without them.
fn queue(by_hand: bool) -> (Queue, Tube, ManualClock) {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).by_hand(by_hand).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube, clock)
}

/// What the call returns, and after which time.
fn timed<R>(clock: &ManualClock, call: impl FnOnce() -> R) -> (R, Duration) {
    let begun = clock.monotonic();
    let returned = clock.advance_until(call);
    (returned, clock.monotonic() - begun)
}

fn text(task: Result<Option<Task>>) -> Option<String> {
    let task = task.unwrap()?;
    let text = String::from_utf8(task.to_vec()).unwrap();
    task.ack().unwrap();
    Some(text)
}

/// The text of the task that a take of a day gets, and when.
fn taken(tube: &Tube, clock: &ManualClock) -> (Option<String>, Duration) {
    timed(clock, || text(tube.take_timeout(secs(86_400))))
}

#[test]
fn a_wait_that_finds_nothing_takes_exactly_its_length() {
    for by_hand in [false, true] {
        let (_queue, tube, clock) = queue(by_hand);
        for length in [secs(60), Duration::from_micros(1), Duration::ZERO, secs(1 << 30)] {
            let (found, after) = timed(&clock, || text(tube.take_timeout(length)));
            assert_eq!((found, after), (None, length));
            let (ready, after) = timed(&clock, || tube.wait_ready(length).unwrap());
            assert_eq!((ready, after), (false, length));
        }
    }
}

#[test]
fn a_call_that_does_not_wait_moves_nothing() {
    let (_queue, tube, clock) = queue(false);
    let put = timed(&clock, || tube.task(b"a").delay(secs(5)).put().map(drop).unwrap());
    assert_eq!(put, ((), Duration::ZERO));
    assert_eq!(taken(&tube, &clock), (Some("a".into()), secs(5)));
}

#[test]
fn time_stands_still_while_the_call_does_something_else() {
    for by_hand in [false, true] {
        let (queue, tube, clock) = queue(by_hand);
        let other = queue.tube("other").unwrap();
        let (found, after) = timed(&clock, || {
            for _ in 0..100 {
                other.task(b"").delay(secs(5)).put().unwrap();
                thread::yield_now();
            }
            text(tube.take_timeout(secs(60)))
        });
        assert_eq!((found, after), (None, secs(60)), "by hand: {by_hand}");
        assert_eq!(other.stats().unwrap().ready, 100);
    }
}

#[test]
fn whatever_makes_a_task_ready_is_a_point() {
    for by_hand in [false, true] {
        let (queue, tube, clock) = queue(by_hand);
        tube.task(b"delay").delay(secs(3600)).put().unwrap();
        assert_eq!(taken(&tube, &clock), (Some("delay".into()), secs(3600)));
        tube.task(b"run_at").run_at(clock.wall() + secs(9)).put().unwrap();
        assert_eq!(taken(&tube, &clock), (Some("run_at".into()), secs(9)));
        tube.task(b"ttr").ttr(secs(7)).put().unwrap();
        tube.take().unwrap().detach();
        assert_eq!(taken(&tube, &clock), (Some("ttr".into()), secs(7)));
        tube.put(b"retry").unwrap();
        tube.take().unwrap().retry_after("no", secs(6)).unwrap();
        assert_eq!(taken(&tube, &clock), (Some("retry".into()), secs(6)));
        tube.put(b"grace").unwrap();
        let ada = queue.consumer_with_grace("ada", secs(5)).unwrap();
        tube.by(&ada).take().unwrap().detach();
        drop(ada);
        assert_eq!(taken(&tube, &clock), (Some("grace".into()), secs(5)));
        tube.put(b"pause").unwrap();
        tube.pause_for(secs(4)).unwrap();
        assert_eq!(taken(&tube, &clock), (Some("pause".into()), secs(4)));
    }
}

#[test]
fn a_put_waits_for_room_in_its_own_tube_and_for_that_of_others() {
    for by_hand in [false, true] {
        let clock = ManualClock::new();
        let builder = Queue::builder().clock(clock.clone()).by_hand(by_hand);
        let queue = builder.durable_bytes_max(3).in_memory().unwrap();
        let tube = queue.create_tube("t", TubeOptions::default().capacity(1)).unwrap();
        let other = queue.tube("other").unwrap();
        let put = || tube.task(b"12").wait_for_room(secs(60)).put();
        put().unwrap();
        let (refused, after) = timed(&clock, put);
        assert_eq!((kind(refused), after), (ErrorKind::Full, secs(60)));
        tube.take().unwrap().ack().unwrap();
        other.task(b"12").ttl(secs(5)).put().unwrap();
        let (id, after) = timed(&clock, put);
        assert_eq!(after, secs(5), "a ttl in another tube makes room");
        tube.update(id.unwrap()).ttl(secs(8)).apply().unwrap();
        let (put, after) = timed(&clock, put);
        assert!(put.is_ok() && after == secs(8), "{after:?}");
    }
}

/// Each of the two moves the clock as far as both sleep.
#[test]
fn of_two_sleepers_the_earlier_one_wakes_first() {
    for by_hand in [false, true] {
        let (queue, tube, clock) = queue(by_hand);
        let tubes = ["a", "b"].map(|name| queue.tube(name).unwrap());
        // The first point is beyond the start of both calls.
        let begun = clock.monotonic();
        let woken = clock.advance_until(|| {
            let wakes = |tube: &Tube, length: Duration| {
                let mut at = Vec::new();
                for _ in 0..6 {
                    assert!(tube.take_timeout(length).unwrap().is_none());
                    at.push(clock.monotonic() - begun);
                }
                at
            };
            thread::scope(|threads| {
                let other = threads.spawn(|| clock.advance_until(|| wakes(&tubes[1], secs(3))));
                until_waiting(&tubes[1], 1);
                let own = wakes(&tubes[0], secs(2));
                // It ends its part, so that the clock goes on for the other.
                let rest = clock.advance_until(|| tube.take_timeout(secs(60))).unwrap();
                assert!(rest.is_none());
                (own, other.join().unwrap())
            })
        });
        assert_eq!(woken.0, [2, 4, 6, 8, 10, 12].map(secs));
        assert_eq!(woken.1, [3, 6, 9, 12, 15, 18].map(secs));
    }
}

#[test]
fn what_one_call_puts_the_other_takes_at_that_time() {
    for by_hand in [false, true] {
        for _ in 0..50 {
            let (queue, tube, clock) = queue(by_hand);
            let idle = queue.tube("idle").unwrap();
            let begun = clock.monotonic();
            let take = || (text(tube.take_timeout(secs(60))), clock.monotonic() - begun);
            let taken = clock.advance_until(|| {
                thread::scope(|threads| {
                    let taker = threads.spawn(|| clock.advance_until(take));
                    until_waiting(&tube, 1);
                    assert!(idle.take_timeout(secs(5)).unwrap().is_none());
                    tube.put(b"a").unwrap();
                    assert!(idle.take_timeout(secs(1)).unwrap().is_none());
                    taker.join().unwrap()
                })
            });
            assert_eq!(taken, (Some("a".into()), secs(5)));
        }
    }
}

/// It is not known what that thread does after its wait, but its wait is known.
#[test]
fn a_waiter_of_another_thread_is_served_before_time_goes_on() {
    for by_hand in [false, true] {
        for _ in 0..50 {
            let (queue, tube, clock) = queue(by_hand);
            let other = queue.tube("other").unwrap();
            let waiter = waiting(&other, |other| other.take_timeout(secs(5)).unwrap().unwrap());
            other.task(b"a").delay(secs(3)).put().unwrap();
            assert_eq!(taken(&tube, &clock), (None, secs(86_400)));
            assert_eq!(waiter.join().unwrap().age(), secs(3));
        }
    }
}

#[test]
fn a_stop_ends_it_and_a_later_call_goes_on() {
    let (_queue, tube, clock) = queue(false);
    let stop = Stop::new();
    let stopper = thread::spawn({
        let (tube, stop) = (tube.clone(), stop.clone());
        move || {
            until_waiting(&tube, 1);
            stop.stop();
        }
    });
    let stopped = timed(&clock, || text(tube.take_until(&stop)));
    assert_eq!(stopped.0, None);
    stopper.join().unwrap();
    assert_eq!(timed(&clock, || text(tube.take_timeout(secs(1)))), (None, secs(1)));
}

#[test]
fn a_panic_ends_it() {
    let (_queue, tube, clock) = queue(false);
    let panicked = catch_unwind(AssertUnwindSafe(|| clock.advance_until(|| panic!("planned"))));
    assert!(panicked.is_err());
    let before = clock.monotonic();
    let waiter = waiting(&tube, |tube| text(tube.take_timeout(secs(5))));
    assert_eq!(clock.monotonic(), before, "nothing runs that it would advance for");
    tube.put(b"a").unwrap();
    assert_eq!(waiter.join().unwrap().as_deref(), Some("a"));
}

#[test]
fn queues_of_one_clock_are_one() {
    for by_hand in [false, true] {
        let (_queue, tube, clock) = queue(by_hand);
        let builder = Queue::builder().clock(clock.clone()).by_hand(by_hand);
        let second = builder.in_memory().unwrap();
        let other = second.tube("t").unwrap();
        let id = other.task(b"a").ttl(secs(5)).put().unwrap();
        let ends = second.events();
        assert_eq!(timed(&clock, || text(tube.take_timeout(secs(60)))), (None, secs(60)));
        assert!(is_gone(&other, id));
        let event = ends.recv().unwrap();
        assert_eq!(event.cause, tubewell::Cause::Ttl);
        second.close().unwrap();
        assert_eq!(timed(&clock, || text(tube.take_timeout(secs(60)))), (None, secs(60)));
        tube.put(b"b").unwrap();
        assert_eq!(next(&tube), "b");
    }
}
