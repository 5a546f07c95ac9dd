//! Buried tasks come back by a kick, and only by a kick.

use crate::{counts, drain, is_gone, kind, last_error, lone, lone_with, secs, state};
use std::time::Duration;
use tubewell::{ErrorKind, State, TaskId, Tube, TubeOptions};

fn bury_all(tube: &Tube) {
    while let Some(task) = tube.try_take().unwrap() {
        task.bury("").unwrap();
    }
}

#[test]
fn a_kick_returns_how_many_it_kicked() {
    let (tube, _) = lone();
    assert_eq!(tube.kick(1).unwrap().kicked, 0);
    tube.put(b"a").unwrap();
    bury_all(&tube);
    assert_eq!(tube.kick(100_500).unwrap().kicked, 1);
    assert_eq!(tube.kick(0).unwrap().kicked, 0);
}

#[test]
fn kicks_go_by_priority_then_put_order() {
    let (tube, _) = lone();
    for (text, priority) in [("c", 1), ("b", 0), ("a", -1), ("d", 1)] {
        tube.task(text.as_bytes()).priority(priority).put().unwrap();
    }
    bury_all(&tube);
    assert_eq!(tube.kick(2).unwrap().kicked, 2);
    assert_eq!(drain(&tube), "a b");
    assert_eq!(tube.kick(9).unwrap().kicked, 2);
    assert_eq!(drain(&tube), "c d");
}

#[test]
fn more_are_kicked_than_one_step_holds() {
    let (tube, _) = lone();
    tube.put_many((0..500).map(|_| b"x".to_vec())).unwrap();
    bury_all(&tube);
    assert_eq!(tube.kick(400).unwrap().kicked, 400);
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
    assert_eq!((info.reason.clone(), last_error(&info)), (None, Some("no")));
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

/// Regression: a kick returned 1 and the task was removed: `ttl_spares_buried` had kept it after
/// its ttl, and the kick made it ready with that passed ttl. It must get a ttl as long as its first
/// one.
#[test]
fn a_kick_gives_a_spared_task_its_whole_life_again() {
    let kicks: [fn(&Tube, TaskId); 2] = [
        |tube, _| assert_eq!(tube.kick(1).unwrap().kicked, 1),
        |tube, id| tube.kick_task(id).unwrap(),
    ];
    for kick in kicks {
        let (tube, clock) = lone_with(TubeOptions::default().ttl_spares_buried(true));
        let id = tube.task(b"a").ttl(secs(10)).put().unwrap();
        tube.bury(id, "").unwrap();
        clock.advance(secs(1000));
        assert_eq!(tube.peek(id).unwrap().ttl_left, Some(Duration::ZERO));
        kick(&tube, id);
        let info = tube.peek(id).unwrap();
        assert_eq!((info.state, info.ttl_left), (State::Ready, Some(secs(10))));
        clock.advance(secs(4));
        tube.take().unwrap().bury("again").unwrap();
        kick(&tube, id);
        assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(6)), "it has not passed");
        clock.advance(secs(6));
        assert!(is_gone(&tube, id));
    }
}

/// The same for a task that was buried while it was delayed, and for one whose ttl was extended:
/// the new ttl is longer by that.
#[test]
fn the_life_of_a_kicked_task_is_as_long_as_it_was_to_be() {
    let (tube, clock) = lone_with(TubeOptions::default().ttl_spares_buried(true));
    let delayed = tube.task(b"a").delay(secs(5)).ttl(secs(10)).put().unwrap();
    let by_wall = tube
        .task(b"b")
        .run_at(tubewell::Clock::wall(&clock) + secs(7))
        .ttl(secs(10))
        .put()
        .unwrap();
    let endless = tube.put(b"c").unwrap();
    for id in [delayed, by_wall, endless] {
        tube.bury(id, "").unwrap();
    }
    clock.advance(secs(1000));
    assert_eq!(tube.kick(9).unwrap().kicked, 3);
    let left = |id| tube.peek(id).unwrap().ttl_left;
    // Without the delays.
    assert_eq!(left(delayed), Some(secs(10)));
    assert_eq!(left(by_wall), Some(secs(10)));
    assert_eq!(left(endless), None);
    clock.advance(secs(1_000_000));
    assert_eq!(state(&tube, endless), State::Ready);
    assert_eq!(tube.len().unwrap(), 1);
}
