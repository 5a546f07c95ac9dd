//! Due work is done on time without a call: by the queue's own thread. The tests wait for events
//! only, because any verb would do the work itself.

use crate::secs;
use tubewell::{Cause, Clock, ManualClock, Queue, State, Tube};

/// The step that happens without a call after five seconds.
fn falls_due(prepare: impl FnOnce(&Queue, &Tube, &ManualClock)) -> (Cause, Option<State>) {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    prepare(&queue, &tube, &clock);
    let events = queue.events();
    clock.advance(secs(5));
    let event = events.recv().unwrap();
    (event.cause, event.to)
}

#[test]
fn a_delay_ends_by_the_queues_own_thread() {
    let due = falls_due(|_, tube, _| _ = tube.task(b"a").delay(secs(5)).put().unwrap());
    assert_eq!(due, (Cause::Delay, Some(State::Ready)));
}

#[test]
fn a_time_of_day_comes_by_the_queues_own_thread() {
    let due = falls_due(|_, tube, clock| {
        tube.task(b"a").run_at(clock.wall() + secs(5)).put().unwrap();
    });
    assert_eq!(due, (Cause::Delay, Some(State::Ready)));
}

#[test]
fn a_life_ends_by_the_queues_own_thread() {
    let due = falls_due(|_, tube, _| _ = tube.task(b"a").ttl(secs(5)).put().unwrap());
    assert_eq!(due, (Cause::Ttl, None));
}

#[test]
fn a_lease_lapses_by_the_queues_own_thread() {
    let due = falls_due(|_, tube, _| {
        tube.task(b"a").ttr(secs(5)).put().unwrap();
        tube.take().unwrap().detach();
    });
    assert_eq!(due, (Cause::Ttr, Some(State::Ready)));
}

#[test]
fn a_grace_ends_by_the_queues_own_thread() {
    let due = falls_due(|queue, tube, _| {
        tube.put(b"a").unwrap();
        let ada = queue.consumer_with_grace("ada", secs(5)).unwrap();
        tube.by(&ada).take().unwrap().detach();
    });
    assert_eq!(due, (Cause::Lost, Some(State::Ready)));
}
