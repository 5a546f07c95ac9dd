//! Buried tasks come back by a kick, and only by a kick.

use crate::{counts, drain, kind, lone, lone_with, secs};
use tubewell::{ErrorKind, State, Tube, TubeOptions};

fn bury_all(tube: &Tube) {
    while let Some(task) = tube.try_take().unwrap() {
        task.bury("").unwrap();
    }
}

#[test]
fn a_kick_tells_how_many_it_kicked() {
    let (tube, _) = lone();
    assert_eq!(tube.kick(1).unwrap(), 0);
    tube.put(b"a").unwrap();
    bury_all(&tube);
    assert_eq!(tube.kick(100_500).unwrap(), 1);
    assert_eq!(tube.kick(0).unwrap(), 0);
}

#[test]
fn kicks_go_by_priority_then_put_order() {
    let (tube, _) = lone();
    for (text, priority) in [("c", 1), ("b", 0), ("a", -1), ("d", 1)] {
        tube.task(text.as_bytes()).priority(priority).put().unwrap();
    }
    bury_all(&tube);
    assert_eq!(tube.kick(2).unwrap(), 2);
    assert_eq!(drain(&tube), "a b");
    assert_eq!(tube.kick(9).unwrap(), 2);
    assert_eq!(drain(&tube), "c d");
}

#[test]
fn more_are_kicked_than_one_step_holds() {
    let (tube, _) = lone();
    tube.put_many((0..500).map(|_| b"x".to_vec())).unwrap();
    bury_all(&tube);
    assert_eq!(tube.kick(400).unwrap(), 400);
    assert_eq!(counts(&tube), [400, 0, 0, 100]);
}

#[test]
fn a_kicked_task_has_all_its_attempts_again() {
    let (tube, _) = lone_with(TubeOptions::default().max_attempts(1));
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().retry("no").unwrap();
    tube.kick(1).unwrap();
    let info = tube.peek(id).unwrap();
    assert_eq!((info.state, info.attempts, info.deliveries), (State::Ready, 0, 1));
    assert_eq!((info.reason, info.last_error.as_deref()), (None, Some("no")));
    assert_eq!(tube.take().unwrap().attempt(), 1);
}

#[test]
fn one_task_is_kicked_by_its_id() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    let chosen = tube.put(b"b").unwrap();
    bury_all(&tube);
    tube.kick_task(chosen).unwrap();
    assert_eq!(drain(&tube), "b");
}

#[test]
fn only_a_buried_task_is_kicked_by_its_id() {
    let (tube, _) = lone();
    let ready = tube.put(b"a").unwrap();
    let delayed = tube.task(b"b").delay(secs(1)).put().unwrap();
    assert_eq!(kind(tube.kick_task(ready)), ErrorKind::WrongState);
    assert_eq!(kind(tube.kick_task(delayed)), ErrorKind::WrongState);
    let _task = tube.take().unwrap();
    assert_eq!(kind(tube.kick_task(ready)), ErrorKind::WrongState);
}

#[test]
fn a_ttr_means_nothing_to_a_buried_task() {
    let (tube, clock) = lone();
    tube.task(b"a").ttr(secs(1)).put().unwrap();
    bury_all(&tube);
    clock.advance(secs(100));
    assert_eq!(counts(&tube), [0, 0, 0, 1]);
}
