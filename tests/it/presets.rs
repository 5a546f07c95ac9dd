//! The five kinds of the tarantool queue: presets of four switches, and nothing is ignored.

use crate::{drain, kind, lone_with, secs};
use std::time::{Duration, SystemTime};
use tubewell::TubeKind::{Fifo, FifoTtl, General, LimFifoTtl, Utube, UtubeTtl};
use tubewell::{Backoff, ErrorKind, NewTask, Queue, Release, Result, TubeKind, TubeOptions};

const ALL: [TubeKind; 6] = [General, Fifo, FifoTtl, LimFifoTtl, Utube, UtubeTtl];

/// The switches of each kind.
fn has(kind: TubeKind, switch: &str) -> bool {
    match switch {
        "priority" | "timed" => !matches!(kind, Fifo | Utube),
        "grouped" => matches!(kind, General | Utube | UtubeTtl),
        "capacity" => matches!(kind, General | LimFifoTtl),
        _ => unreachable!("{switch}"),
    }
}

/// The refusal names the option and the kind.
fn is_named<T: std::fmt::Debug>(refused: Result<T>, option: &str, tube_kind: TubeKind) {
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{tube_kind:?} {option}");
    let named = format!("option {option} with kind {tube_kind:?}");
    assert!(error.to_string().contains(&named), "{error}: not {named}");
}

#[test]
fn a_tubes_option_whose_switch_is_off_is_refused() {
    type With = fn(TubeOptions) -> TubeOptions;
    let options: [(&str, &str, With); 9] = [
        ("priority", "priority", |options| options.priority(1)),
        ("timed", "ttl", |options| options.ttl(secs(1))),
        ("timed", "ttr", |options| options.ttr(secs(1))),
        ("timed", "backoff", |options| options.backoff(Backoff::constant(secs(1)))),
        ("timed", "ttl_spares_buried", |options| options.ttl_spares_buried(true)),
        ("grouped", "in_flight", |options| options.in_flight(2)),
        ("grouped", "hold_group_while_delayed", |options| options.hold_group_while_delayed(true)),
        ("capacity", "capacity", |options| options.capacity(9)),
        ("priority", "priority", |options| options.temporary(true).priority(2)),
    ];
    for tube_kind in ALL {
        for (switch, option, with) in options {
            let queue = Queue::in_memory().unwrap();
            let made = queue.create_tube("t", with(TubeOptions::new(tube_kind)));
            match has(tube_kind, switch) {
                true => drop(made.unwrap()),
                false => is_named(made, option, tube_kind),
            }
        }
    }
}

#[test]
fn a_puts_option_whose_switch_is_off_is_refused() {
    type With = for<'a> fn(NewTask<'a>) -> NewTask<'a>;
    let options: [(&str, &str, With); 6] = [
        ("priority", "priority", |put| put.priority(1)),
        ("timed", "ttl", |put| put.ttl(secs(1))),
        ("timed", "ttr", |put| put.ttr(secs(1))),
        ("timed", "delay", |put| put.delay(secs(1))),
        ("timed", "run_at", |put| put.run_at(SystemTime::UNIX_EPOCH)),
        ("grouped", "group", |put| put.group("g")),
    ];
    for tube_kind in ALL {
        let (tube, _) = lone_with(TubeOptions::new(tube_kind));
        for (switch, option, with) in options {
            let put = with(tube.task(b"x")).put();
            match has(tube_kind, switch) {
                true => drop(put.unwrap()),
                false => is_named(put, option, tube_kind),
            }
        }
    }
}

#[test]
fn a_verbs_term_whose_switch_is_off_is_refused_and_the_task_returns() {
    for tube_kind in [Fifo, Utube] {
        let (tube, _) = lone_with(TubeOptions::new(tube_kind));
        tube.put(b"x").unwrap();
        let task = tube.take().unwrap();
        for touched in [task.touch(secs(1)), task.renew(), task.renew_for(secs(1))] {
            assert_eq!(kind(touched), ErrorKind::Unsupported, "{tube_kind:?}");
        }
        task.release().unwrap();
        for terms in
            [Release::new().delay(secs(1)), Release::new().priority(1), Release::new().ttl(secs(1))]
        {
            let released = tube.take().unwrap().release_with(terms);
            assert_eq!(kind(released), ErrorKind::Unsupported, "{tube_kind:?} {terms:?}");
        }
        let retried = tube.take().unwrap().retry_after("no", secs(1));
        assert_eq!(kind(retried), ErrorKind::Unsupported);
        assert_eq!(drain(&tube), "x", "a verdict that did not happen is a drop");
    }
}

#[test]
fn the_preset_kinds_retry_at_once_and_without_a_limit() {
    for tube_kind in [Fifo, FifoTtl, LimFifoTtl, Utube, UtubeTtl] {
        let (tube, _) = lone_with(TubeOptions::new(tube_kind));
        tube.put(b"x").unwrap();
        for _ in 0..30 {
            tube.take().unwrap().retry("again").unwrap();
        }
        assert_eq!(drain(&tube), "x", "{tube_kind:?}");
    }
}

#[test]
fn every_kind_goes_through_its_states() {
    for tube_kind in ALL {
        let (tube, _) = lone_with(TubeOptions::new(tube_kind));
        let ids: Vec<_> = (0..4).map(|_| tube.put(b"x").unwrap()).collect();
        tube.take().unwrap().ack().unwrap();
        tube.take().unwrap().bury("no").unwrap();
        assert_eq!(tube.kick(9).unwrap().kicked, 1);
        tube.delete(ids[2]).unwrap();
        assert_eq!(tube.take().unwrap().id(), ids[1], "{tube_kind:?}");
        assert_eq!(tube.len().unwrap(), 2);
        tube.truncate().unwrap();
        assert_eq!(tube.len().unwrap(), 0);
    }
}

#[test]
fn capacity_counts_every_state() {
    let (tube, _) = lone_with(TubeOptions::new(LimFifoTtl).capacity(4));
    tube.put(b"taken").unwrap();
    let task = tube.take().unwrap();
    let buried = tube.put(b"buried").unwrap();
    tube.bury(buried, "").unwrap();
    tube.task(b"delayed").delay(secs(1)).put().unwrap();
    tube.put(b"ready").unwrap();
    let full = tube.put(b"one more").unwrap_err();
    assert!(full.is_full());
    assert_eq!(full.kind(), ErrorKind::Full);
    task.ack().unwrap();
    tube.put(b"one more").unwrap();
}

#[test]
fn a_capacity_of_zero_is_none() {
    let (tube, _) = lone_with(TubeOptions::new(LimFifoTtl).capacity(0));
    tube.put_many((0..100).map(|_| b"x".to_vec())).unwrap();
    assert_eq!(tube.info().unwrap().options, TubeOptions::new(LimFifoTtl));
}

#[test]
fn a_batch_that_does_not_fit_puts_nothing() {
    let (tube, _) = lone_with(TubeOptions::new(LimFifoTtl).capacity(2));
    let full = tube.put_many((0..3).map(|_| b"x".to_vec()));
    assert_eq!(kind(full), ErrorKind::Full);
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn a_put_that_may_wait_for_no_time_is_refused_at_once() {
    let (tube, _) = lone_with(TubeOptions::new(LimFifoTtl).capacity(1));
    tube.put(b"x").unwrap();
    let full = tube.task(b"y").wait_for_room(Duration::ZERO).put();
    assert_eq!(kind(full), ErrorKind::Full);
}
