//! Waiters that leave, are woken and time out at once: no wake-up is lost.

use crate::{explore, lone, relaxed, secs, still};
use shuttle::thread::{JoinHandle, spawn};
use std::time::Duration;
use tubewell::{Clock, Durability, ManualClock, Stop, Tube, TubeOptions};

/// A taker that waits for one task.
fn takes_one(tube: &Tube) -> JoinHandle<()> {
    let tube = tube.clone();
    spawn(move || tube.take().unwrap().ack().unwrap())
}

/// If the waiter that leaves got the only task, there is one more for the waiter that stays.
fn serve_the_rest(tube: &Tube, leaving: JoinHandle<bool>, others: [JoinHandle<()>; 2]) {
    if leaving.join().unwrap() {
        tube.put(b"b").unwrap();
    }
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn a_waiter_that_leaves_passes_its_wake_up_on() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let stop = Stop::new();
        let leaving = spawn({
            let (tube, stop) = (tube.clone(), stop.clone());
            move || tube.take_until(&stop).unwrap().map(|task| task.ack().unwrap()).is_some()
        });
        let staying = takes_one(&tube);
        let stopper = spawn(move || stop.stop());
        tube.put(b"a").unwrap();
        serve_the_rest(&tube, leaving, [staying, stopper]);
        queue.close().unwrap();
    });
}

#[test]
fn a_put_wakes_one_taker_while_another_runs_out_of_time() {
    explore(|| {
        let (queue, tube, clock) = lone();
        let patient = takes_one(&tube);
        let hasty = spawn({
            let tube = tube.clone();
            move || {
                let taken = tube.take_timeout(secs(1)).unwrap();
                taken.map(|task| task.ack().unwrap()).is_some()
            }
        });
        let putter = spawn({
            let tube = tube.clone();
            move || tube.put(b"a").map(drop).unwrap()
        });
        clock.advance(secs(1));
        putter.join().unwrap();
        // The taker that came late waits its second from then on; one more task is for the
        // remaining one.
        tube.put(b"b").unwrap();
        patient.join().unwrap();
        clock.advance(secs(1));
        let left = if hasty.join().unwrap() { 0 } else { 1 };
        assert_eq!(tube.len().unwrap(), left);
        queue.close().unwrap();
    });
}

/// Two calls for a group each, and one for any task. Whichever is woken for a task, the two tasks
/// that are put first are taken, and of the next two the one that the last call waits for.
#[test]
fn a_wake_up_that_a_call_for_a_group_cannot_use_goes_on() {
    explore(|| {
        let (queue, _clock) = relaxed();
        let tube = queue.tube("t").unwrap();
        let of_group = |group: &'static str| {
            let tube = tube.clone();
            spawn(move || tube.take_group(group).unwrap().ack().unwrap())
        };
        let calls = [of_group("g"), takes_one(&tube), of_group("h")];
        let putter = spawn({
            let tube = tube.clone();
            move || {
                for _ in 0..2 {
                    tube.task(b"h").group("h").put().unwrap();
                }
            }
        });
        for _ in 0..2 {
            tube.task(b"g").group("g").put().unwrap();
        }
        putter.join().unwrap();
        calls.into_iter().for_each(|call| call.join().unwrap());
        assert_eq!(tube.len().unwrap(), 1);
        queue.close().unwrap();
    });
}

#[test]
fn a_put_that_waits_for_room_gets_it() {
    explore(|| {
        let (builder, _clock) = still();
        let queue = builder.durability(Durability::Relaxed).in_memory().unwrap();
        let tube = queue.create_tube("t", TubeOptions::default().capacity(1)).unwrap();
        tube.put(b"a").unwrap();
        let putters: Vec<_> = [b"b", b"c"]
            .into_iter()
            .map(|name| {
                let tube = tube.clone();
                spawn(move || tube.task(name).wait_for_room(secs(1)).put().map(drop).unwrap())
            })
            .collect();
        let deleter = takes_one(&tube);
        tube.take().unwrap().ack().unwrap();
        deleter.join().unwrap();
        putters.into_iter().for_each(|putter| putter.join().unwrap());
        assert_eq!(tube.len().unwrap(), 1);
        queue.close().unwrap();
    });
}

#[test]
fn a_stop_and_the_end_of_the_time_that_come_together_lose_no_wake_up() {
    explore(|| {
        let (queue, tube, clock) = lone();
        let stop = Stop::new();
        let leaving = spawn({
            let (tube, stop) = (tube.clone(), stop.clone());
            move || {
                let taken = tube.take_timeout_until(secs(1), &stop).unwrap();
                taken.map(|task| task.ack().unwrap()).is_some()
            }
        });
        let staying = takes_one(&tube);
        let stopper = spawn(move || stop.stop());
        tube.put(b"a").unwrap();
        clock.advance(secs(1));
        serve_the_rest(&tube, leaving, [staying, stopper]);
        queue.close().unwrap();
    });
}

/// Of two puts that wait in turn the first may leave at any time; the other gets the room.
#[test]
fn a_put_that_gives_up_its_wait_for_room_lets_the_next_look() {
    explore(|| {
        let (builder, _clock) = still();
        let queue = builder.durability(Durability::Relaxed).in_memory().unwrap();
        let tube = queue.create_tube("t", TubeOptions::default().capacity(1)).unwrap();
        tube.put(b"a").unwrap();
        let stop = Stop::new();
        let leaving = spawn({
            let (tube, stop) = (tube.clone(), stop.clone());
            move || tube.task(b"b").wait_for_room_until(&stop).put().is_ok()
        });
        let staying = spawn({
            let tube = tube.clone();
            move || tube.task(b"c").wait_for_room_until(&Stop::new()).put().map(drop).unwrap()
        });
        let stopper = spawn(move || stop.stop());
        tube.take().unwrap().ack().unwrap();
        if leaving.join().unwrap() {
            tube.take().unwrap().ack().unwrap();
        }
        staying.join().unwrap();
        stopper.join().unwrap();
        assert_eq!(tube.len().unwrap(), 1);
        queue.close().unwrap();
    });
}

/// Regression: a taker that was woken and then refused kept the wake-up.
#[test]
fn a_taker_of_a_closed_consumer_passes_its_wake_up_on() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let ada = queue.consumer("ada").unwrap();
        let refused = spawn({
            let tube = tube.by(&ada);
            // The close may return its task before the ack.
            move || tube.take().is_ok_and(|task| task.ack().is_ok())
        });
        let served = takes_one(&tube);
        let closer = spawn(move || ada.close().unwrap());
        tube.put(b"a").unwrap();
        serve_the_rest(&tube, refused, [closer, served]);
        queue.close().unwrap();
    });
}

/// Regression: the stop was checked before the engine's lock was taken: a take got a task that was
/// put after `stop` had returned.
#[test]
fn what_is_put_after_the_stop_is_not_taken() {
    explore(|| {
        let (queue, tube, _clock) = lone();
        let stop = Stop::new();
        let taker = spawn({
            let (tube, stop) = (tube.clone(), stop.clone());
            move || assert!(tube.take_until(&stop).unwrap().is_none())
        });
        stop.stop();
        tube.put(b"late").unwrap();
        taker.join().unwrap();
        assert_eq!(tube.len().unwrap(), 1);
        queue.close().unwrap();
    });
}

/// Whichever thread falls asleep last, it sees that all sleep and moves the clock.
#[test]
fn the_last_that_falls_asleep_moves_the_clock() {
    /// Whether a take found something; otherwise it waited exactly so long.
    fn finds(tube: &Tube, clock: &ManualClock, length: Duration) -> bool {
        let take = || {
            let begun = clock.monotonic();
            let found = tube.take_timeout(length).unwrap().map(|task| task.ack().unwrap());
            assert!(found.is_some() || clock.monotonic() - begun == length);
            found.is_some()
        };
        clock.advance_until(take)
    }
    explore(|| {
        let (queue, tube, clock) = lone();
        let other = queue.tube("other").unwrap();
        let stop = Stop::new();
        // The clock knows of it while it waits.
        let unknown = spawn({
            let (other, stop) = (other.clone(), stop.clone());
            move || assert!(other.take_until(&stop).unwrap().is_none())
        });
        let taker = spawn({
            let (tube, clock) = (tube.clone(), clock.clone());
            move || finds(&tube, &clock, secs(3))
        });
        assert!(!finds(&other, &clock, secs(2)));
        tube.put(b"a").unwrap();
        let found = taker.join().unwrap();
        assert_eq!(tube.len().unwrap(), u64::from(!found));
        stop.stop();
        assert!(!finds(&other, &clock, secs(2)));
        unknown.join().unwrap();
        queue.close().unwrap();
    });
}

/// The same for one that waits for room: the put behind it gets the room.
#[test]
fn a_stop_and_the_end_of_the_time_that_come_together_lose_no_room() {
    explore(|| {
        let (builder, clock) = still();
        let queue = builder.durability(Durability::Relaxed).in_memory().unwrap();
        let tube = queue.create_tube("t", TubeOptions::default().capacity(1)).unwrap();
        tube.put(b"a").unwrap();
        let stop = Stop::new();
        let leaving = spawn({
            let (tube, stop) = (tube.clone(), stop.clone());
            move || {
                let put = tube.task(b"b").wait_for_room(secs(1)).wait_for_room_until(&stop);
                put.put().is_ok()
            }
        });
        let staying = spawn({
            let tube = tube.clone();
            move || tube.task(b"c").wait_for_room_until(&Stop::new()).put().map(drop).unwrap()
        });
        let stopper = spawn(move || stop.stop());
        clock.advance(secs(1));
        tube.take().unwrap().ack().unwrap();
        if leaving.join().unwrap() {
            tube.take().unwrap().ack().unwrap();
        }
        staying.join().unwrap();
        stopper.join().unwrap();
        assert_eq!(tube.len().unwrap(), 1);
        queue.close().unwrap();
    });
}
