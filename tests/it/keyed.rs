//! The caller's own key: one existing task of a tube can have it.

use crate::{kind, lone, lone_with, next, secs};
use std::thread;
use tubewell::{Conflict, ErrorKind, PutOutcome, Queue, TaskId, Tube, TubeKind, TubeOptions};

fn put(tube: &Tube, conflict: Conflict) -> (TaskId, PutOutcome) {
    let put = tube.task(b"x").key("k").on_conflict(conflict).put_outcome().unwrap();
    (put.id, put.outcome)
}

#[test]
fn by_default_the_existing_task_is_kept() {
    let (tube, _) = lone();
    let first = tube.task(b"first").key("k").put().unwrap();
    let put = tube.task(b"second").key("k").put_outcome().unwrap();
    assert_eq!((put.id, put.outcome), (first, PutOutcome::Existing));
    assert_eq!(crate::drain(&tube), "first");
}

#[test]
fn reject_refuses() {
    let (tube, _) = lone();
    assert_eq!(put(&tube, Conflict::Reject).1, PutOutcome::New);
    let refused = tube.task(b"x").key("k").on_conflict(Conflict::Reject).put();
    assert_eq!(kind(refused), ErrorKind::KeyExists);
}

#[test]
fn a_key_exists_in_every_state_of_its_task() {
    let (tube, _) = lone();
    let (id, _) = put(&tube, Conflict::Keep);
    let exists = || put(&tube, Conflict::Keep) == (id, PutOutcome::Existing);
    assert!(exists(), "ready");
    let task = tube.take().unwrap();
    assert!(exists(), "taken");
    task.release_with(tubewell::Release::new().delay(secs(9))).unwrap();
    assert!(exists(), "delayed");
    tube.bury(id, "").unwrap();
    assert!(exists(), "buried");
}

#[test]
fn a_key_is_free_again_once_its_task_is_gone() {
    let (tube, clock) = lone();
    let ends: [fn(&Tube, TaskId); 4] = [
        |tube, _| tube.take().unwrap().ack().unwrap(),
        |tube, id| tube.delete(id).unwrap(),
        |tube, _| _ = tube.truncate().unwrap(),
        |_, _| {},
    ];
    for (at, end) in ends.into_iter().enumerate() {
        let id = tube.task(b"x").key("k").ttl(secs(10)).put().unwrap();
        end(&tube, id);
        clock.advance(secs(10));
        assert_eq!(put(&tube, Conflict::Reject).1, PutOutcome::New, "{at}");
        assert_eq!(next(&tube), "x");
    }
}

#[test]
fn a_key_is_of_one_tube() {
    let queue = crate::still().0.in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    a.task(b"x").key("k").put().unwrap();
    assert_eq!(put(&b, Conflict::Reject).1, PutOutcome::New);
}

#[test]
fn a_kept_key_is_found_in_a_full_tube_and_replaced_in_one() {
    let (tube, _) = lone_with(TubeOptions::new(TubeKind::LimFifoTtl).capacity(1));
    let (id, _) = put(&tube, Conflict::Keep);
    assert_eq!(put(&tube, Conflict::Keep), (id, PutOutcome::Existing));
    assert_eq!(put(&tube, Conflict::Replace).1, PutOutcome::Replaced);
}

#[test]
fn of_parallel_puts_exactly_one_is_new() {
    let tube = Queue::in_memory().unwrap().tube("t").unwrap();
    let putters: Vec<_> = (0..8)
        .map(|_| {
            let tube = tube.clone();
            thread::spawn(move || put(&tube, Conflict::Keep))
        })
        .collect();
    let done: Vec<_> = putters.into_iter().map(|putter| putter.join().unwrap()).collect();
    assert_eq!(done.iter().filter(|(_, outcome)| *outcome == PutOutcome::New).count(), 1);
    assert!(done.iter().all(|(id, _)| *id == done[0].0));
}

#[test]
fn a_key_is_checked() {
    let (tube, _) = lone();
    let long = "k".repeat(256);
    for key in ["", "a\tb", &long] {
        assert_eq!(kind(tube.task(b"x").key(key).put()), ErrorKind::Invalid);
    }
    tube.task(b"x").key(&long[1..]).put().unwrap();
}

#[test]
fn keys_survive_a_kill() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    let (id, _) = put(&queue.tube("t").unwrap(), Conflict::Keep);
    let (_copy, copy) = crate::killed(&path);
    let after = crate::open(&copy);
    assert_eq!(put(&after.tube("t").unwrap(), Conflict::Keep), (id, PutOutcome::Existing));
    crate::close_sound(after);
}
