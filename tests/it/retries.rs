//! How often a task is tried and how long it waits in between: by its own terms, else by its
//! tube's.

use crate::{drain, exhausted, kind, lone, lone_with, secs, state};
use tubewell::{Backoff, ErrorKind, State, TubeKind, TubeOptions};

fn waits(tube: &tubewell::Tube, clock: &tubewell::ManualClock, attempts: usize) -> Vec<u64> {
    (0..attempts)
        .map(|_| {
            tube.take().unwrap().retry("no").unwrap();
            let wait = tube.peek_next(State::Delayed).unwrap().unwrap().delay_left.unwrap();
            clock.advance(wait);
            wait.as_secs()
        })
        .collect()
}

#[test]
fn a_linear_back_off_grows_by_its_step() {
    let backoff = Backoff::linear(secs(10)).at_most(secs(35));
    let (tube, clock) = lone_with(TubeOptions::default().backoff(backoff));
    tube.put(b"a").unwrap();
    assert_eq!(waits(&tube, &clock, 5), [10, 20, 30, 35, 35]);
}

#[test]
fn a_jitter_spreads_tasks_that_failed_together() {
    let backoff = Backoff::constant(secs(100)).jitter(50);
    let (tube, clock) = lone_with(TubeOptions::default().backoff(backoff));
    tube.put_many((0..50_u8).map(|number| [number])).unwrap();
    for task in tube.take_many(50).unwrap() {
        task.retry("no").unwrap();
    }
    let waits: Vec<_> =
        tube.summaries(State::Delayed).map(|task| task.unwrap().delay_left.unwrap()).collect();
    assert!(waits.iter().all(|wait| (secs(50)..=secs(100)).contains(wait)), "{waits:?}");
    assert!(waits[49] - waits[0] > secs(30), "{waits:?}");
    clock.advance(secs(100));
    assert_eq!(tube.stats().unwrap().ready, 50);
}

#[test]
fn a_task_has_terms_of_its_own() {
    let options = TubeOptions::default().max_attempts(2).backoff(Backoff::constant(secs(9)));
    let (tube, clock) = lone_with(options);
    let own = tube.task(b"own").max_attempts(3).backoff(Backoff::linear(secs(5))).put().unwrap();
    assert_eq!(tube.peek(own).unwrap().max_attempts, Some(3));
    assert_eq!(waits(&tube, &clock, 2), [5, 10]);
    tube.take().unwrap().retry("last").unwrap();
    assert_eq!(tube.peek(own).unwrap().reason, Some(exhausted("last")));

    let plain = tube.put(b"plain").unwrap();
    assert_eq!(tube.peek(plain).unwrap().max_attempts, Some(2));
    assert_eq!(waits(&tube, &clock, 1), [9]);
    tube.take().unwrap().retry("no").unwrap();
    assert_eq!(state(&tube, plain), State::Buried);

    // After a kick it has the same terms again.
    tube.kick_task(own).unwrap();
    assert_eq!(waits(&tube, &clock, 2), [5, 10]);
}

#[test]
fn retries_are_one_less_than_attempts_and_zero_attempts_are_no_limit() {
    let (tube, _) = lone_with(TubeOptions::default().retries(0).backoff(Backoff::NONE));
    let once = tube.task(b"once").retries(0).put().unwrap();
    tube.take().unwrap().retry("no").unwrap();
    assert_eq!(state(&tube, once), State::Buried);
    let twice = tube.task(b"twice").retries(1).put().unwrap();
    (0..2).for_each(|_| tube.take().unwrap().retry("no").unwrap());
    assert_eq!(state(&tube, twice), State::Buried);
    let always = tube.task(b"always").max_attempts(0).put().unwrap();
    assert_eq!(tube.peek(always).unwrap().max_attempts, None);
    (0..50).for_each(|_| tube.take().unwrap().retry("no").unwrap());
    assert_eq!(state(&tube, always), State::Ready);
}

/// A guard that is dropped and a lease that lapses are failed attempts too.
#[test]
fn its_own_limit_counts_however_an_attempt_ends() {
    let (tube, clock) = lone_with(TubeOptions::default().ttr(secs(5)));
    let id = tube.task(b"a").max_attempts(2).put().unwrap();
    drop(tube.take().unwrap());
    tube.take().unwrap().detach();
    clock.advance(secs(5));
    assert_eq!(state(&tube, id), State::Buried);
}

#[test]
fn terms_are_changed_in_every_state() {
    let (tube, _) = lone_with(TubeOptions::default().backoff(Backoff::NONE));
    let buried = tube.put(b"buried").unwrap();
    tube.bury(buried, "no").unwrap();
    let taken = tube.put(b"taken").unwrap();
    let task = tube.take().unwrap();
    let delayed = tube.task(b"delayed").delay(secs(5)).put().unwrap();
    let ready = tube.put(b"ready").unwrap();
    for id in [buried, taken, delayed, ready] {
        let before = tube.peek(id).unwrap();
        tube.update(id).max_attempts(1).apply().unwrap();
        let after = tube.peek(id).unwrap();
        assert_eq!((after.state, after.max_attempts), (before.state, Some(1)));
        assert_eq!((after.attempts, after.ttl_left), (before.attempts, before.ttl_left));
        // The one that is not given stays.
        tube.update(id).backoff(Backoff::constant(secs(7))).apply().unwrap();
        assert_eq!(tube.peek(id).unwrap().max_attempts, Some(1));
    }
    task.retry("first and last").unwrap();
    assert_eq!(state(&tube, taken), State::Buried);
    let updates = tube.stats().unwrap().calls.update;
    tube.update(ready).max_attempts(1).apply().unwrap();
    assert_eq!(tube.stats().unwrap().calls.update, updates, "nothing changed");
    tube.update(ready).max_attempts(2).apply().unwrap();
    tube.take().unwrap().retry("no").unwrap();
    assert_eq!(tube.peek(ready).unwrap().delay_left, Some(secs(7)));
}

#[test]
fn tasks_of_a_batch_have_the_batchs_terms_where_they_have_none() {
    let (tube, _) = lone();
    let ids = tube
        .batch_of([tube.task(b"a").max_attempts(5), tube.task(b"b")])
        .max_attempts(7)
        .backoff(Backoff::constant(secs(3)))
        .put()
        .unwrap();
    let most: Vec<_> = ids.iter().map(|id| tube.peek(*id).unwrap().max_attempts).collect();
    assert_eq!(most, [Some(5), Some(7)]);
    for id in ids {
        tube.take().unwrap().retry("no").unwrap();
        assert_eq!(tube.peek(id).unwrap().delay_left, Some(secs(3)));
    }
    let batch = tube.batch([b"c".to_vec()]).retries(1).put().unwrap();
    assert_eq!(tube.peek(batch[0]).unwrap().max_attempts, Some(2));
}

#[test]
fn a_back_off_is_refused_where_the_kind_has_no_times() {
    let (tube, _) = lone_with(TubeOptions::new(TubeKind::Fifo));
    let id = tube.task(b"a").max_attempts(2).put().unwrap();
    let backoff = Backoff::constant(secs(1));
    assert_eq!(kind(tube.task(b"b").backoff(backoff).put()), ErrorKind::Unsupported);
    assert_eq!(kind(tube.update(id).backoff(backoff).apply()), ErrorKind::Unsupported);
    tube.update(id).max_attempts(3).apply().unwrap();
    assert_eq!(kind(tube.take().unwrap().snooze(secs(1))), ErrorKind::Unsupported);
    assert_eq!(drain(&tube), "a");
}

#[test]
fn a_snoozed_task_keeps_its_place_and_its_attempts() {
    let (tube, clock) = lone();
    tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    for _ in 0..30 {
        tube.take().unwrap().snooze(secs(5)).unwrap();
        clock.advance(secs(5));
    }
    let task = tube.take().unwrap();
    assert_eq!((&task[..], task.attempt(), task.deliveries()), (&b"a"[..], 1, 31));
}

/// Regression: the factor was raised to a power in 32 bits, so that a wait that begins short never
/// grew to its longest.
#[test]
fn a_short_first_wait_grows_to_the_longest() {
    use std::time::Duration;
    use tubewell::Backoff;

    let day = secs(86_400);
    let backoff = Backoff::doubling(Duration::from_micros(1)).at_most(day);
    assert_eq!(backoff.wait(38), day); // 2^37 microseconds are 38 hours
}
