//! Time: delays, ttls, days. The test moves the clock, so it can check exact instants.

use crate::{counts, drain, is_gone, kind, lone, lone_with, next, secs, state};
use std::time::Duration;
use tubewell::{Clock, ErrorKind, Release, State, TubeKind, TubeOptions};

const TICK: Duration = Duration::from_micros(1);

#[test]
fn a_delayed_task_is_never_early_and_due_exactly_at_its_time() {
    let (tube, clock) = lone();
    tube.task(b"a").delay(secs(10)).put().unwrap();
    clock.advance(secs(10) - TICK);
    assert!(tube.try_take().unwrap().is_none());
    clock.advance(TICK);
    assert_eq!(next(&tube), "a");
}

#[test]
fn a_delay_of_zero_is_none_and_one_of_max_never_ends() {
    let (tube, clock) = lone();
    let now = tube.task(b"now").delay(Duration::ZERO).put().unwrap();
    let never = tube.task(b"never").delay(Duration::MAX).put().unwrap();
    clock.advance(secs(500 * 365 * 86_400));
    assert_eq!((state(&tube, now), state(&tube, never)), (State::Ready, State::Delayed));
}

#[test]
fn the_delay_is_added_to_the_ttl() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttl(secs(60)).delay(secs(80)).put().unwrap();
    clock.advance(secs(139));
    assert_eq!(state(&tube, id), State::Ready);
    clock.advance(secs(1));
    assert!(is_gone(&tube, id));
}

#[test]
fn a_task_lives_as_long_as_its_ttl() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttl(secs(10)).put().unwrap();
    clock.advance(secs(10) - TICK);
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(TICK));
    clock.advance(TICK);
    assert!(is_gone(&tube, id));
}

#[test]
fn an_expired_task_is_never_handed_out() {
    let (tube, clock) = lone();
    for round in 0..20 {
        for _ in 0..20 {
            tube.task(b"old").ttl(secs(1)).put().unwrap();
        }
        clock.advance(secs(1));
        tube.task(b"new").ttl(secs(1)).put().unwrap();
        assert_eq!(drain(&tube), "new", "round {round}");
    }
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn a_buried_task_dies_at_its_ttl() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttl(secs(10)).put().unwrap();
    tube.bury(id, "").unwrap();
    clock.advance(secs(10));
    assert!(is_gone(&tube, id));
}

#[test]
fn a_tube_may_spare_its_buried_tasks() {
    let (tube, clock) = lone_with(TubeOptions::default().ttl_spares_buried(true));
    let id = tube.task(b"a").ttl(secs(10)).put().unwrap();
    tube.bury(id, "").unwrap();
    clock.advance(secs(1000));
    assert_eq!(state(&tube, id), State::Buried);
}

#[test]
fn a_taken_task_dies_at_its_ttl_and_its_lease_is_lost() {
    for kind in [TubeKind::General, TubeKind::FifoTtl, TubeKind::LimFifoTtl, TubeKind::UtubeTtl] {
        let (tube, clock) = lone_with(TubeOptions::new(kind));
        let id = tube.task(b"a").ttl(secs(10)).ttr(secs(60)).put().unwrap();
        let task = tube.take().unwrap();
        assert_eq!(
            task.time_left().unwrap(),
            Some(secs(10)),
            "{kind:?}: the earlier of ttr and ttl"
        );
        clock.advance(secs(10));
        assert!(task.time_left().unwrap_err().is_lease_lost(), "{kind:?}");
        assert!(is_gone(&tube, id), "{kind:?}");
        assert!(task.ack().unwrap_err().is_lease_lost(), "{kind:?}");
    }
}

#[test]
fn a_delayed_tasks_life_stands_still() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttl(secs(10)).delay(secs(100)).put().unwrap();
    clock.advance(secs(99));
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(10)));
}

#[test]
fn a_delayed_release_moves_the_ttl_and_leaves_the_ttr() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttl(secs(10)).ttr(secs(20)).put().unwrap();
    tube.take().unwrap().release_with(Release::new().delay(secs(5))).unwrap();
    assert_eq!(state(&tube, id), State::Delayed);
    clock.advance(secs(5));
    let info = tube.peek(id).unwrap();
    assert_eq!(
        (info.state, info.ttl_left, info.ttr),
        (State::Ready, Some(secs(10)), Some(secs(20)))
    );
}

#[test]
fn a_plain_release_leaves_the_ttl_running() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttl(secs(10)).put().unwrap();
    clock.advance(secs(4));
    tube.take().unwrap().release().unwrap();
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(6)));
    clock.advance(secs(6));
    assert!(is_gone(&tube, id));
}

#[test]
fn a_release_may_set_a_new_ttl() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttl(secs(10)).put().unwrap();
    clock.advance(secs(4));
    tube.take().unwrap().release_with(Release::new().ttl(secs(100))).unwrap();
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(100)));
}

#[test]
fn run_at_goes_by_the_time_of_day() {
    let (tube, clock) = lone();
    let noon = clock.wall() + secs(60);
    tube.task(b"a").run_at(noon).put().unwrap();
    clock.freeze_wall(secs(120));
    assert!(tube.try_take().unwrap().is_none(), "two minutes passed, but it is not noon");
    clock.set_wall(noon);
    assert_eq!(next(&tube), "a");
}

#[test]
fn run_at_in_the_past_is_at_once() {
    let (tube, clock) = lone();
    tube.task(b"a").run_at(clock.wall() - secs(1)).put().unwrap();
    tube.task(b"b").run_at(std::time::UNIX_EPOCH).put().unwrap();
    assert_eq!(drain(&tube), "a b");
}

#[test]
fn the_ttl_of_run_at_counts_from_then() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").run_at(clock.wall() + secs(60)).ttl(secs(10)).put().unwrap();
    clock.advance(secs(60));
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(10)));
    clock.advance(secs(10));
    assert!(is_gone(&tube, id));
}

/// Regression: the ttl of a `run_at` began when a verb or the timer noticed that the time had come.
/// It ends at put + ttl + the requested delay, whenever it is noticed.
#[test]
fn the_ttl_of_run_at_ends_at_its_time_however_late_it_is_noticed() {
    for late in [0, 1, 9] {
        let (tube, clock) = lone();
        let id = tube.task(b"a").run_at(clock.wall() + secs(60)).ttl(secs(10)).put().unwrap();
        clock.advance(secs(60 + late));
        let info = tube.peek(id).unwrap();
        assert_eq!((info.state, info.ttl_left), (State::Ready, Some(secs(10 - late))));
        clock.advance(secs(10 - late));
        assert!(is_gone(&tube, id));
    }
    let (tube, clock) = lone();
    let id = tube.task(b"a").run_at(clock.wall() + secs(60)).ttl(secs(10)).put().unwrap();
    clock.advance(secs(70));
    assert!(tube.try_take().unwrap().is_none());
    assert!(is_gone(&tube, id));
}

#[test]
fn no_change_of_the_wall_clock_moves_the_end_of_a_life() {
    let (tube, clock) = lone();
    let noon = clock.wall() + secs(60);
    let id = tube.task(b"a").run_at(noon).ttl(secs(10)).put().unwrap();
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(10)));
    clock.set_wall(noon - secs(65));
    let info = tube.peek(id).unwrap();
    let left = "the wait is five seconds longer";
    assert_eq!((info.state, info.ttl_left), (State::Delayed, Some(secs(5))), "{left}");
    clock.freeze_wall(secs(200));
    let info = tube.peek(id).unwrap();
    let runs = "no ttl passes while it is delayed";
    assert_eq!((info.state, info.ttl_left), (State::Delayed, Some(Duration::ZERO)), "{runs}");
    clock.set_wall(noon);
    assert!(is_gone(&tube, id));
}

/// Regression: its ttl began at the bury. A bury, like the end of a delay, does not move the end of
/// the ttl.
#[test]
fn a_task_that_is_buried_while_delayed_keeps_its_end() {
    for by_wall in [false, true] {
        let (tube, clock) = lone();
        let put = tube.task(b"a").ttl(secs(10));
        let put = if by_wall { put.run_at(clock.wall() + secs(20)) } else { put.delay(secs(20)) };
        let id = put.put().unwrap();
        clock.advance(secs(15));
        tube.bury(id, "").unwrap();
        assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(15)));
        clock.advance(secs(10));
        assert_eq!(state(&tube, id), State::Buried);
        tube.kick_task(id).unwrap();
        assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(5)));
        clock.advance(secs(5));
        assert!(is_gone(&tube, id));
    }
}

#[test]
fn every_delay_that_is_asked_for_is_added_to_the_ttl() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").ttl(secs(100)).delay(secs(1)).put().unwrap();
    let end = clock.wall() + secs(100 + 1 + 20 + 300 + 4000);
    let wait = |by| {
        assert_eq!(state(&tube, id), State::Delayed);
        clock.advance(by + secs(1)); // noticed late
        tube.take().unwrap()
    };
    wait(secs(1)).release_with(Release::new().delay(secs(20))).unwrap();
    wait(secs(20)).retry_after("no", secs(300)).unwrap();
    wait(secs(300)).release_with(Release::new().delay(secs(4000))).unwrap();
    wait(secs(4000)).release().unwrap();
    let left = end.duration_since(clock.wall()).unwrap();
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(left));
    clock.advance(left - TICK);
    assert_eq!(state(&tube, id), State::Ready);
    clock.advance(TICK);
    assert!(is_gone(&tube, id));
}

/// Regression: `peek_next` used the deadlines, and a delay without end has none; and `due` was an
/// instant far away.
#[test]
fn a_delay_without_end_is_found_and_never_due() {
    let (tube, clock) = lone();
    let far = std::time::UNIX_EPOCH.checked_add(secs(u64::MAX / 1_000_000 + 1));
    let by_wall = far.map(|far| tube.task(b"wall").run_at(far).ttl(secs(9)).put().unwrap());
    let first = tube.task(b"first").delay(Duration::MAX).ttl(secs(9)).put().unwrap();
    let second = tube.put(b"second").unwrap();
    tube.take().unwrap().release_with(Release::new().delay(Duration::MAX)).unwrap();
    let all: Vec<_> = by_wall.into_iter().chain([first, second]).collect();

    let next = tube.peek_next(State::Delayed).unwrap().unwrap();
    assert_eq!((next.id, next.due, next.ttl_left), (all[0], None, None));
    let listed: Vec<_> = tube.tasks(State::Delayed).map(Result::unwrap).collect();
    assert_eq!(listed.iter().map(|task| task.id).collect::<Vec<_>>(), all);
    assert!(listed.iter().all(|task| task.due.is_none()));

    let sooner = tube.task(b"sooner").delay(secs(10)).put().unwrap();
    let next = tube.peek_next(State::Delayed).unwrap().unwrap();
    assert_eq!((next.id, next.due), (sooner, Some(clock.wall() + secs(10))));
    clock.advance(secs(10));
    assert_eq!(tube.peek_next(State::Delayed).unwrap().unwrap().id, all[0]);
}

/// Regression: of a delay and a `run_at` of one time the smaller id was next.
#[test]
fn of_two_delayed_tasks_of_one_time_the_delay_is_next() {
    let (tube, clock) = lone();
    let by_wall = tube.task(b"wall").run_at(clock.wall() + secs(10)).put().unwrap();
    let next = || tube.peek_next(State::Delayed).unwrap().unwrap().id;
    assert_eq!(next(), by_wall);
    let by_delay = tube.task(b"delay").delay(secs(10)).put().unwrap();
    assert_eq!(next(), by_delay);
    let sooner = tube.task(b"sooner").run_at(clock.wall() + secs(9)).put().unwrap();
    assert_eq!(next(), sooner);
    clock.set_wall(clock.wall() - secs(5));
    assert_eq!(next(), by_delay, "it has 10 seconds left, the other 14");
}

#[test]
fn delay_and_run_at_exclude_each_other() {
    let (tube, clock) = lone();
    let put = tube.task(b"a").delay(secs(1)).run_at(clock.wall()).put();
    assert_eq!(kind(put), ErrorKind::Invalid);
}

#[test]
fn a_wall_clock_set_back_extends_no_delay() {
    let (tube, clock) = lone();
    tube.task(b"a").delay(secs(10)).put().unwrap();
    clock.set_wall(clock.wall() - secs(86_400));
    clock.advance(secs(10));
    assert_eq!(next(&tube), "a");
}

#[test]
fn after_a_suspend_delays_are_due() {
    let (tube, clock) = lone();
    tube.task(b"a").delay(secs(3600)).put().unwrap();
    clock.suspend(secs(3600));
    assert_eq!(next(&tube), "a");
}

#[test]
fn a_tick_works_off_what_is_due_by_itself() {
    let (builder, clock) = crate::still();
    let queue = builder.in_memory().unwrap();
    let (tube, events) = (queue.tube("t").unwrap(), queue.events());
    tube.task(b"a").ttl(secs(1)).put().unwrap();
    tube.task(b"b").delay(secs(1)).put().unwrap();
    clock.advance(secs(1));
    queue.tick().unwrap();
    let mut causes: Vec<_> =
        std::iter::from_fn(|| events.try_recv()).map(|event| event.cause).collect();
    causes.sort();
    assert_eq!(
        causes,
        [tubewell::Cause::Put, tubewell::Cause::Put, tubewell::Cause::Delay, tubewell::Cause::Ttl]
    );
}

#[test]
fn more_due_at_once_than_one_sweep_takes() {
    let (tube, clock) = lone();
    for _ in 0..300 {
        tube.task(b"x").delay(secs(1)).put().unwrap();
        tube.task(b"y").ttl(secs(1)).put().unwrap();
    }
    clock.advance(secs(1));
    assert_eq!(counts(&tube), [300, 0, 0, 0]);
}

#[test]
fn time_without_end_saturates() {
    let (tube, clock) = lone();
    let put = tube.task(b"a").ttl(Duration::MAX).ttr(Duration::MAX);
    let id = put.put().unwrap();
    let task = tube.take().unwrap();
    assert_eq!(task.time_left().unwrap(), None);
    task.touch(Duration::MAX).unwrap();
    clock.advance(secs(1_000_000_000));
    assert_eq!(task.time_left().unwrap(), None);
    assert_eq!(tube.peek(id).unwrap().ttl_left, None);
    task.ack().unwrap();
}
