//! Waits: which calls wake a waiter, and what ends a wait. The clock is manual, so a waiter that
//! wakes was woken.

use crate::{counts, kind, next, secs, still, until, waiting};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tubewell::{
    Conflict, ErrorKind, ManualClock, PutOutcome, Queue, Result, Retention, Stop, Task, Tube,
    TubeKind,
};
use tubewell::{TubeOptions, WaitsFor};

fn queue() -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube, clock)
}

fn text(task: Result<Option<Task>>) -> Option<String> {
    let task = task.unwrap()?;
    let text = String::from_utf8(task.to_vec()).unwrap();
    task.ack().unwrap();
    Some(text)
}

/// The task that a waiting taker gets after this event.
fn woken_by(event: impl FnOnce(&Queue, &Tube, &ManualClock)) -> Option<String> {
    let (queue, tube, clock) = queue();
    let taker = waiting(&tube, |tube| text(tube.take().map(Some)));
    event(&queue, &tube, &clock);
    taker.join().unwrap()
}

#[test]
fn a_put_wakes_a_waiting_taker() {
    assert_eq!(woken_by(|_, tube, _| assert!(tube.put(b"a").is_ok())), Some("a".into()));
}

#[test]
fn the_end_of_a_delay_wakes_a_waiting_taker() {
    let woken = woken_by(|queue, tube, clock| {
        tube.task(b"a").delay(secs(5)).put().unwrap();
        clock.advance(secs(5));
        queue.tick().unwrap();
    });
    assert_eq!(woken, Some("a".into()));
}

#[test]
fn a_kick_wakes_a_waiting_taker() {
    let woken = woken_by(|_, tube, _| {
        let id = tube.task(b"a").delay(secs(5)).put().unwrap();
        tube.bury(id, "").unwrap();
        tube.kick(1).unwrap();
    });
    assert_eq!(woken, Some("a".into()));
}

#[test]
fn release_drop_lapse_and_a_sessions_end_wake_a_waiting_taker() {
    type Return = fn(&Queue, Task, &ManualClock);
    let returns: [Return; 4] = [
        |_, task, _| task.release().unwrap(),
        |_, task, _| drop(task),
        |queue, task, clock| {
            task.renew_for(secs(5)).unwrap();
            task.detach();
            clock.advance(secs(5));
            queue.tick().unwrap();
        },
        |queue, _task, _| queue.consumer("ada").unwrap().close().unwrap(),
    ];
    for give_back in returns {
        let (queue, tube, clock) = queue();
        tube.put(b"a").unwrap();
        let ada = queue.consumer("ada").unwrap();
        let task = tube.by(&ada).take().unwrap();
        let taker = waiting(&tube, |tube| text(tube.take().map(Some)));
        give_back(&queue, task, &clock);
        assert_eq!(taker.join().unwrap(), Some("a".into()));
    }
}

#[test]
fn the_opening_of_a_group_wakes_a_waiting_taker() {
    let (_queue, tube, _) = queue();
    tube.task(b"a").group("g").put().unwrap();
    tube.task(b"b").group("g").put().unwrap();
    let task = tube.take().unwrap();
    let taker = waiting(&tube, |tube| text(tube.take().map(Some)));
    task.ack().unwrap();
    assert_eq!(taker.join().unwrap(), Some("b".into()));
}

/// Which taker a put wakes is tested in `wake.rs`: a registered taker looks once more before it
/// sleeps, and may find the task of another wake-up.
#[test]
fn every_put_serves_one_waiter() {
    let (_queue, tube, _) = queue();
    let (served, of) = channel();
    let takers: Vec<_> = (0..4)
        .map(|_| {
            let served = served.clone();
            waiting(&tube, move |tube| served.send(text(tube.take().map(Some))))
        })
        .collect();
    for put in ["a", "b", "c", "d"] {
        tube.put(put.as_bytes()).unwrap();
        assert_eq!(of.recv().unwrap(), Some(put.into()));
    }
    takers.into_iter().for_each(|taker| taker.join().unwrap().unwrap());
}

#[test]
fn one_batch_wakes_as_many_as_it_has_tasks() {
    let (_queue, tube, _) = queue();
    let takers: Vec<_> =
        (0..4).map(|_| waiting(&tube, |tube| text(tube.take().map(Some)))).collect();
    tube.put_many(["x"; 4].map(|text| text.as_bytes().to_vec())).unwrap();
    for taker in takers {
        assert_eq!(taker.join().unwrap(), Some("x".into()));
    }
}

#[test]
fn a_timeout_is_over_exactly_at_its_end() {
    let (_queue, tube, clock) = queue();
    let taker = waiting(&tube, |tube| text(tube.take_timeout(secs(5))));
    clock.advance(secs(5) - Duration::from_micros(1));
    assert!(!taker.is_finished());
    clock.advance(Duration::from_micros(1));
    assert_eq!(taker.join().unwrap(), None);
}

#[test]
fn a_timeout_goes_by_lease_time() {
    let (_queue, tube, clock) = queue();
    let taker = waiting(&tube, |tube| text(tube.take_timeout(secs(5))));
    clock.suspend(secs(86_400));
    assert_eq!(tube.info().unwrap().waiters, 1, "a suspend is no waiting");
    clock.advance(secs(5));
    assert_eq!(taker.join().unwrap(), None);
}

#[test]
fn a_timeout_of_max_waits_without_end() {
    let (_queue, tube, clock) = queue();
    let taker = waiting(&tube, |tube| text(tube.take_timeout(Duration::MAX)));
    clock.advance(secs(1_000_000_000));
    tube.put(b"a").unwrap();
    assert_eq!(taker.join().unwrap(), Some("a".into()));
}

#[test]
fn the_machines_clock_ends_a_timeout_too() {
    let tube = Queue::in_memory().unwrap().tube("t").unwrap();
    assert!(tube.take_timeout(Duration::from_millis(2)).unwrap().is_none());
}

#[test]
fn a_waiter_that_times_out_uses_up_no_wake_up() {
    let (_queue, tube, clock) = queue();
    let early = waiting(&tube, |tube| text(tube.take_timeout(secs(5))));
    let late = waiting(&tube, |tube| text(tube.take().map(Some)));
    clock.advance(secs(5));
    assert_eq!(early.join().unwrap(), None);
    tube.put(b"a").unwrap();
    assert_eq!(late.join().unwrap(), Some("a".into()));
}

#[test]
fn stop_ends_every_wait_with_it_now_and_later() {
    let (_queue, tube, _) = queue();
    let stop = Stop::new();
    let takers: Vec<_> = (0..3)
        .map(|_| {
            let stop = stop.clone();
            waiting(&tube, move |tube| text(tube.take_until(&stop)))
        })
        .collect();
    stop.stop();
    stop.stop();
    for taker in takers {
        assert_eq!(taker.join().unwrap(), None);
    }
    tube.put(b"a").unwrap();
    assert!(stop.is_stopped());
    assert!(tube.take_until(&stop).unwrap().is_none(), "nothing is taken any more");
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
}

#[test]
fn without_a_stop_take_until_takes() {
    let (_queue, tube, _) = queue();
    let taker = waiting(&tube, |tube| text(tube.take_until(&Stop::new())));
    tube.put(b"a").unwrap();
    assert_eq!(taker.join().unwrap(), Some("a".into()));
}

#[test]
fn close_ends_every_wait() {
    let (queue, tube, _) = queue();
    let full = queue.create_tube("full", TubeOptions::default().capacity(1)).unwrap();
    full.put(b"a").unwrap();
    let takers = [
        waiting(&tube, |tube| kind(tube.take())),
        waiting(&tube, |tube| kind(tube.take_timeout(secs(5)))),
        waiting(&tube, |tube| kind(tube.take_until(&Stop::new()))),
    ];
    let (reported, received) = channel();
    let others = [
        announced(&reported, &tube, |tube| kind(tube.wait_ready(secs(5)))),
        announced(&reported, &full, |tube| kind(tube.task(b"b").wait_for_room(secs(5)).put())),
    ];
    for _ in &others {
        received.recv().unwrap();
    }
    queue.close().unwrap();
    for waiter in takers.into_iter().chain(others) {
        assert_eq!(waiter.join().unwrap(), ErrorKind::Closed);
    }
}

/// Starts a thread that reports before it waits.
fn announced<R: Send + 'static>(
    reported: &std::sync::mpsc::Sender<()>,
    tube: &Tube,
    wait: impl FnOnce(&Tube) -> R + Send + 'static,
) -> JoinHandle<R> {
    let (reported, tube) = (reported.clone(), tube.clone());
    thread::spawn(move || {
        reported.send(()).unwrap();
        wait(&tube)
    })
}

#[test]
fn a_forced_drop_ends_the_waits_of_its_tube() {
    let (queue, tube, _) = queue();
    let taker = waiting(&tube, |tube| kind(tube.take()));
    assert_eq!(kind(queue.drop_tube("t")), ErrorKind::TubeBusy, "a taker waits");
    queue.force_drop_tube("t").unwrap();
    assert_eq!(taker.join().unwrap(), ErrorKind::TubeNotFound);
}

#[test]
fn a_closed_consumers_waits_end_and_take_nothing() {
    let (queue, tube, _) = queue();
    let ada = queue.consumer("ada").unwrap();
    let taker = waiting(&tube.by(&ada), |tube| kind(tube.take()));
    ada.close().unwrap();
    tube.put(b"a").unwrap();
    assert_eq!(taker.join().unwrap(), ErrorKind::Closed);
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
}

#[test]
fn waiting_takers_keep_waiting_through_a_pause() {
    let (_queue, tube, _) = queue();
    let taker = waiting(&tube, |tube| text(tube.take().map(Some)));
    tube.pause().unwrap();
    tube.put(b"a").unwrap();
    assert_eq!((tube.info().unwrap().waiters, counts(&tube)), (1, [1, 0, 0, 0]));
    tube.resume().unwrap();
    assert_eq!(taker.join().unwrap(), Some("a".into()));
}

#[test]
fn wait_ready_returns_and_takes_nothing() {
    let (_queue, tube, clock) = queue();
    assert!(!tube.wait_ready(Duration::ZERO).unwrap());
    tube.put(b"a").unwrap();
    assert!(tube.wait_ready(Duration::ZERO).unwrap());
    assert_eq!(next(&tube), "a");

    let (reported, received) = channel();
    let onlooker = announced(&reported, &tube, |tube| tube.wait_ready(secs(5)).unwrap());
    received.recv().unwrap();
    clock.advance(secs(5));
    until_over(&onlooker, &clock);
    assert!(!onlooker.join().unwrap());
}

/// Advances the clock until the thread has ended: it may have begun to wait after the last step.
fn until_over<R>(thread: &JoinHandle<R>, clock: &ManualClock) {
    crate::until(|| {
        clock.advance(secs(5));
        thread.is_finished()
    });
}

#[test]
fn wait_ready_never_uses_up_a_takers_wake_up() {
    let (_queue, tube, _) = queue();
    let (reported, received): (_, Receiver<()>) = channel();
    let onlookers: Vec<_> = (0..3)
        .map(|_| announced(&reported, &tube, |tube| tube.wait_ready(Duration::MAX).unwrap()))
        .collect();
    for _ in &onlookers {
        received.recv().unwrap();
    }
    let taker = waiting(&tube, |tube| tube.take().unwrap());
    tube.put(b"a").unwrap();
    let task = taker.join().unwrap();
    task.release().unwrap();
    for onlooker in onlookers {
        assert!(onlooker.join().unwrap());
    }
}

#[test]
fn a_put_waits_for_room() {
    let (queue, _, clock) = queue();
    let options = TubeOptions::new(TubeKind::LimFifoTtl).capacity(1);
    let tube = queue.create_tube("full", options).unwrap();
    type Leave = fn(&Tube, Task, &ManualClock);
    let leaves: [Leave; 4] = [
        |_, task, _| task.ack().unwrap(),
        |tube, task, _| tube.delete(task.id()).unwrap(),
        |tube, _task, _| _ = tube.truncate().unwrap(),
        |tube, _task, clock| {
            clock.advance(secs(100));
            drop(tube.stats().unwrap());
        },
    ];
    for leave in leaves {
        tube.task(b"a").ttl(secs(100)).put().unwrap();
        let task = tube.take().unwrap();
        let (reported, received) = channel();
        let putter = announced(&reported, &tube, |tube| {
            tube.task(b"b").wait_for_room(secs(1000)).put().unwrap()
        });
        received.recv().unwrap();
        leave(&tube, task, &clock);
        let id = putter.join().unwrap();
        tube.delete(id).unwrap();
    }
}

#[test]
fn a_put_that_finds_no_room_in_time_is_refused() {
    let (queue, _, clock) = queue();
    let options = TubeOptions::new(TubeKind::LimFifoTtl).capacity(1);
    let tube = queue.create_tube("full", options).unwrap();
    tube.put(b"a").unwrap();
    let (reported, received) = channel();
    let putter =
        announced(&reported, &tube, |tube| kind(tube.task(b"b").wait_for_room(secs(5)).put()));
    received.recv().unwrap();
    until_over(&putter, &clock);
    assert_eq!(putter.join().unwrap(), ErrorKind::Full);
    assert_eq!(crate::drain(&tube), "a");
}

#[test]
fn stop_ends_the_waits_for_room_and_for_what_is_ready() {
    let (queue, tube, _) = queue();
    let full = queue.create_tube("full", TubeOptions::default().capacity(1)).unwrap();
    full.put(b"a").unwrap();
    let stop = Stop::new();
    let (reported, received) = channel();
    let onlooker = announced(&reported, &tube, {
        let stop = stop.clone();
        move |tube| tube.wait_ready_until(&stop).unwrap()
    });
    let putter = announced(&reported, &full, {
        let stop = stop.clone();
        move |tube| kind(tube.task(b"b").wait_for_room_until(&stop).put())
    });
    received.recv().unwrap();
    received.recv().unwrap();
    stop.stop();
    assert!(!onlooker.join().unwrap());
    assert_eq!(putter.join().unwrap(), ErrorKind::Full);

    assert!(!full.wait_ready_until(&stop).unwrap(), "it returns without a look");
    assert_eq!(kind(full.task(b"b").wait_for_room_until(&stop).put()), ErrorKind::Full);
    assert_eq!(next(&full), "a");
    full.task(b"b").wait_for_room_until(&stop).put().unwrap();
    assert_eq!(next(&full), "b");
}

#[test]
fn without_a_stop_a_put_gets_room_and_wait_ready_returns() {
    let (queue, _, _) = queue();
    let full = queue.create_tube("full", TubeOptions::default().capacity(1)).unwrap();
    full.put(b"a").unwrap();
    let task = full.take().unwrap();
    let (reported, received) = channel();
    let onlooker = announced(&reported, &full, |tube| tube.wait_ready_until(&Stop::new()).unwrap());
    let putter = announced(&reported, &full, |tube| {
        tube.task(b"b").wait_for_room_until(&Stop::new()).put().unwrap()
    });
    received.recv().unwrap();
    received.recv().unwrap();
    task.ack().unwrap();
    let id = putter.join().unwrap();
    assert!(onlooker.join().unwrap());
    assert_eq!(full.take().unwrap().id(), id);
}

/// Starts a put that waits for room until the stop; returns when it waits.
fn putting(queue: &Queue, tube: &Tube, payload: &'static [u8], stop: &Stop) -> JoinHandle<bool> {
    let before = queue.waiters().unwrap().len();
    let (tube, stop) = (tube.clone(), stop.clone());
    let put = move || tube.task(payload).wait_for_room_until(&stop).put().is_ok();
    let thread = thread::spawn(put);
    until(|| queue.waiters().unwrap().len() > before);
    thread
}

#[test]
fn waiting_puts_get_room_in_the_order_in_which_they_came() {
    let (queue, other, _) = queue();
    let tube = queue.create_tube("full", TubeOptions::default().capacity(2)).unwrap();
    tube.put_many([*b"a", *b"b"]).unwrap();
    let stop = Stop::new();
    let puts = [b"1", b"2", b"3", b"4", b"5"].map(|payload| putting(&queue, &tube, payload, &stop));
    let waiters = queue.waiters().unwrap();
    assert!(waiters.iter().all(|waiter| waiter.waits_for == WaitsFor::Room));
    other.put(b"a neighbour does not wait").unwrap();
    let mut out = String::new();
    for _ in 0..7 {
        out += &text(tube.take().map(Some)).unwrap();
    }
    assert_eq!(out, "ab12345");
    for put in puts {
        assert!(put.join().unwrap());
    }
}

/// A put of few bytes took the room that a put of many waited for, again and again.
#[test]
fn later_puts_stand_behind_one_that_waits() {
    let (builder, _clock) = still();
    let queue = builder.durable_bytes_max(100).in_memory().unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    tube.task(&[0; 60]).key("k").put().unwrap();
    let stop = Stop::new();
    let large = putting(&queue, &tube, &[1; 50], &stop);
    let small = putting(&queue, &tube, b"small", &Stop::new());
    // There are 40 bytes of room.
    assert_eq!(kind(tube.put(b"x")), ErrorKind::Full);
    assert_eq!(kind(tube.put_many([*b"x"])), ErrorKind::Full);
    assert_eq!(kind(tube.batch_of([tube.task(b"x")]).put()), ErrorKind::Full);
    assert_eq!(kind(tube.put_all([*b"x"])), ErrorKind::Full);
    let in_transaction = queue.transact(|tx| {
        assert_eq!(kind(tube.task(b"x").put_in(tx)), ErrorKind::Full);
        Result::<()>::Ok(())
    });
    in_transaction.unwrap();
    other.put(b"x").unwrap();
    // These need no room of others.
    let keyed = tube.task(b"x").key("k").put_outcome().unwrap();
    assert_eq!(keyed.outcome, PutOutcome::Existing);
    let replaced = tube.task(&[2; 60]).key("k").on_conflict(Conflict::Replace).put_outcome();
    assert_eq!(replaced.unwrap().outcome, PutOutcome::Replaced);

    // Those behind it get the room that it does not take. Regression: where nothing else had made
    // room since, they slept on.
    stop.stop();
    assert!(!large.join().unwrap());
    assert!(small.join().unwrap());
    tube.put(b"x").unwrap();
}

/// Each ack frees room for several, of which only the first is woken.
#[test]
fn freed_bytes_serve_all_for_whom_there_is_room() {
    let (builder, _clock) = still();
    let queue = builder.durable_bytes_max(100).in_memory().unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    other.put(&[0; 100]).unwrap();
    let stop = Stop::new();
    let puts = [&[1; 30], &[2; 30], &[3; 30], &[4; 30]]
        .map(|payload| putting(&queue, &tube, payload, &stop));
    let closing = putting(&queue, &other, b"0123456789a", &stop);
    other.take().unwrap().ack().unwrap();
    until(|| tube.len().unwrap() + other.len().unwrap() == 3);
    stop.stop();
    let served = puts.into_iter().chain([closing]);
    assert_eq!(served.map(|put| usize::from(put.join().unwrap())).sum::<usize>(), 3);
}

/// What ends a task needs no room: it is not held up by the puts that wait for a place or for
/// bytes, also with a result that is longer than its payload.
#[test]
fn acks_go_before_the_puts_that_wait_for_room() {
    let (builder, _clock) = still();
    let queue = builder.durable_bytes_max(100).in_memory().unwrap();
    let keeping = TubeOptions::default().keep_finished(Retention::new().count(10));
    let narrow = queue.create_tube("narrow", keeping.clone().capacity(2)).unwrap();
    let other = queue.create_tube("other", keeping).unwrap();
    narrow.put_many([*b"a", *b"b"]).unwrap();
    other.put_many([[0; 49], [0; 49]]).unwrap();
    let held = [&narrow, &other].map(|tube| tube.take_many(2).unwrap());
    let stop = Stop::new();
    let long = putting(&queue, &other, &[1; 99], &stop);
    let short = putting(&queue, &narrow, b"", &stop);
    assert_eq!(kind(narrow.put(b"")), ErrorKind::Full);
    for task in held.into_iter().flatten() {
        task.ack_with(&[7; 60]).unwrap();
    }
    assert!(short.join().unwrap(), "an ack has made a place");
    stop.stop();
    assert!(!long.join().unwrap(), "the payloads are kept with their tasks");
    assert_eq!([&narrow, &other].map(|tube| tube.stats().unwrap().done), [2, 2]);
}

#[test]
fn the_close_and_the_end_of_a_tube_end_all_waits_for_room() {
    let ends: [fn(&Queue); 2] =
        [|queue| queue.force_drop_tube("full").unwrap(), |queue| queue.close().unwrap()];
    for end in ends {
        let (queue, _, _) = queue();
        let tube = queue.create_tube("full", TubeOptions::default().capacity(1)).unwrap();
        tube.put(b"a").unwrap();
        let waits: Vec<_> = (0..20).map(|_| putting(&queue, &tube, b"b", &Stop::new())).collect();
        end(&queue);
        for wait in waits {
            assert!(!wait.join().unwrap());
        }
    }
}

#[test]
fn what_is_due_wakes_by_the_queues_own_thread() {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.task(b"a").delay(secs(5)).put().unwrap();
    let taker = waiting(&tube, |tube| text(tube.take().map(Some)));
    clock.advance(secs(5));
    assert_eq!(taker.join().unwrap(), Some("a".into()));
    queue.close().unwrap();
}

#[test]
fn on_the_machines_clock_a_delay_wakes_too() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let taker = waiting(&tube, |tube| text(tube.take().map(Some)));
    tube.task(b"a").delay(Duration::from_millis(5)).put().unwrap();
    assert_eq!(taker.join().unwrap(), Some("a".into()));
}

/// Regression: a consumer with more leases than one step returns is open until the last has
/// returned. A take of its own that looked in between slept again and was not woken.
#[test]
fn a_closed_consumers_take_ends_however_much_it_holds() {
    let (queue, tube, _) = queue();
    let ada = queue.consumer("ada").unwrap();
    let full = queue.tube("full").unwrap();
    full.put_many((0..1000).map(|_| b"x".to_vec())).unwrap();
    for task in full.by(&ada).take_many(1000).unwrap() {
        task.detach();
    }
    let takers: Vec<_> = (0..8)
        .map(|_| {
            let ada = ada.clone();
            waiting(&tube, move |tube| kind(tube.by(&ada).take()))
        })
        .collect();
    ada.close().unwrap();
    for taker in takers {
        assert_eq!(taker.join().unwrap(), ErrorKind::Closed);
    }
    assert_eq!(counts(&full), [1000, 0, 0, 0]);
}

#[test]
fn a_wait_with_a_time_and_a_stop_ends_at_the_first_of_both() {
    let clock = tubewell::ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let tube = queue.create_tube("t", TubeOptions::default().capacity(1)).unwrap();
    for by_stop in [true, false] {
        let stop = Stop::new();
        let taker = thread::spawn({
            let (tube, stop) = (tube.clone(), stop.clone());
            move || tube.take_timeout_until(secs(60), &stop).unwrap().is_none()
        });
        crate::until_waiting(&tube, 1);
        // One that waits for room in a full tube ends in the same two ways.
        let full = queue.create_tube("full", TubeOptions::default().capacity(1).if_not_exists());
        let full = full.unwrap();
        let _ = full.put(b"a");
        let putter = thread::spawn({
            let stop = stop.clone();
            move || {
                let put = full.task(b"b").wait_for_room(secs(60)).wait_for_room_until(&stop);
                kind(put.put())
            }
        });
        crate::until(|| queue.waiters().unwrap().len() == 2);
        if by_stop {
            stop.stop();
        } else {
            clock.advance(secs(60));
        }
        assert!(taker.join().unwrap());
        assert_eq!(putter.join().unwrap(), ErrorKind::Full);
    }
    // Both have ended before the call.
    let stop = Stop::new();
    stop.stop();
    tube.put(b"a").unwrap();
    assert!(tube.take_timeout_until(Duration::ZERO, &stop).unwrap().is_none());
    assert!(!tube.wait_ready_timeout_until(Duration::ZERO, &stop).unwrap());
    let waits = || tube.task(b"b").wait_for_room(secs(60)).wait_for_room_until(&stop);
    assert_eq!(kind(waits().put()), ErrorKind::Full, "no room, and no wait");
    assert!(tube.wait_ready_timeout_until(Duration::ZERO, &Stop::new()).unwrap());
    assert!(tube.take_timeout_until(Duration::MAX, &Stop::new()).unwrap().is_some());
}
