//! Taking: which task, by which consumer, with which wait.

use crate::{kind, lone, lone_with, next, secs};
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tubewell::{Clock, ErrorKind, Queue, State, TaskId, TubeKind, TubeOptions};

#[test]
fn a_take_without_a_wait_returns_at_once() {
    let (tube, _) = lone();
    assert!(tube.try_take().unwrap().is_none());
    assert!(tube.take_timeout(secs(0)).unwrap().is_none());
    tube.put(b"a").unwrap();
    assert!(tube.take_timeout(secs(0)).unwrap().is_some());
}

#[test]
fn a_taken_task_is_not_taken_again() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    assert_eq!(task.id(), id);
    assert_eq!(tube.peek(id).unwrap().state, State::Taken);
    assert!(tube.try_take().unwrap().is_none());
    task.ack().unwrap();
}

#[test]
fn every_delivery_is_counted_and_every_attempt() {
    let (tube, _) = lone();
    tube.put(b"a").unwrap();
    for number in 1..=3 {
        let task = tube.take().unwrap();
        assert_eq!((task.deliveries(), task.attempt()), (number, number));
        drop(task);
    }
    tube.take().unwrap().release().unwrap();
    let task = tube.take().unwrap();
    assert_eq!((task.deliveries(), task.attempt()), (5, 4), "a release gives its attempt back");
}

#[test]
fn many_are_taken_in_one_step_without_waiting() {
    let (tube, _) = lone();
    assert!(tube.take_many(5).unwrap().is_empty());
    tube.put_many([b"a", b"b", b"c"].map(|text| text.to_vec())).unwrap();
    let tasks = tube.take_many(2).unwrap();
    assert_eq!(tasks.iter().map(|task| task.to_vec()).collect::<Vec<_>>(), [b"a", b"b"]);
    assert_eq!(tube.take_many(5).unwrap().len(), 1);
}

#[test]
fn a_chosen_task_is_claimed_past_all_others() {
    let (tube, _) = lone();
    tube.put(b"first").unwrap();
    let chosen = tube.put(b"chosen").unwrap();
    let task = tube.claim(chosen).unwrap();
    assert_eq!((&task[..], task.attempt()), (&b"chosen"[..], 1));
    task.ack().unwrap();
    assert_eq!(next(&tube), "first");
}

#[test]
fn a_delayed_or_a_buried_task_is_claimed_but_no_taken_one() {
    let (tube, clock) = lone();
    let delayed = tube.task(b"x").delay(secs(100)).ttl(secs(10)).put().unwrap();
    let task = tube.claim(delayed).unwrap();
    assert_eq!((task.attempt(), task.time_left().unwrap()), (1, Some(secs(10))), "its ttl goes on");
    assert_eq!(kind(tube.claim(delayed)), ErrorKind::WrongState, "also by the same taker");
    clock.advance(secs(100));
    assert!(task.ack().unwrap_err().is_lease_lost(), "and ends");

    let failed = tube.put(b"x").unwrap();
    tube.take().unwrap().retry_after("no", Duration::ZERO).unwrap();
    tube.take().unwrap().bury("no").unwrap();
    let task = tube.claim(failed).unwrap();
    assert_eq!((task.attempt(), task.deliveries()), (1, 3), "as after a kick");
    task.ack().unwrap();
    assert_eq!(kind(tube.claim(TaskId::new(9_999_999))), ErrorKind::TaskNotFound);
}

/// After the clock was set back the rest of the delay was longer than at the put. It was taken from
/// the ttl, and the claimed task expired at once.
#[test]
fn a_claim_after_the_clock_was_set_back_leaves_the_ttl() {
    let (tube, clock) = lone();
    let id = tube.task(b"a").run_at(clock.wall() + secs(10)).ttl(secs(5)).put().unwrap();
    clock.set_wall(clock.wall() - secs(100));
    let task = tube.claim(id).unwrap();
    clock.advance(secs(14));
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(1)));
    task.ack().unwrap();
}

/// Regression: the message named the group "", which no caller has given.
#[test]
fn a_claim_in_a_utube_names_no_group_that_a_task_does_not_have() {
    let (tube, _) = lone_with(TubeOptions::new(TubeKind::Utube));
    let [first, second] = ["a", "b"].map(|text| tube.put(text.as_bytes()).unwrap());
    let refused = |id| tube.claim(id).unwrap_err().to_string();
    let comes_first = format!("task {first} of the tasks without a group comes first");
    assert!(refused(second).contains(&comes_first), "{}", refused(second));
    let _held = tube.claim(first).unwrap();
    let text = refused(second);
    assert!(
        text.contains("as many of the tasks without a group are in flight as may be"),
        "{text}"
    );
    assert_eq!(tube.peek(second).unwrap().group, None);
}

#[test]
fn a_claim_keeps_to_the_rules_of_the_group() {
    let (tube, _) = lone();
    let put = |group: &str| tube.task(b"x").group(group).put().unwrap();
    let [first, second, third] = ["g"; 3].map(put);
    let refused = tube.claim(second).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongState);
    assert!(refused.to_string().contains(&format!("task {first} of its group")), "{refused}");
    let held = tube.claim(first).unwrap();
    assert_eq!(kind(tube.claim(second)), ErrorKind::WrongState, "it is locked");
    held.bury("no").unwrap();
    let held = tube.claim(first).unwrap();
    held.ack().unwrap();
    tube.update(second).delay(secs(1)).apply().unwrap();
    assert_eq!(tube.claim(third).unwrap().id(), third, "one that is delayed is not waited for");

    let (tube, _) = lone_with(TubeOptions::default().hold_group_while_delayed(true));
    let put = || tube.task(b"x").group("g");
    let holding = put().put().unwrap();
    tube.take().unwrap().retry_after("no", secs(60)).unwrap();
    let front = put().front().put().unwrap();
    assert_eq!(kind(tube.claim(front)), ErrorKind::WrongState, "the delayed one holds the group");
    assert_eq!(tube.claim(holding).unwrap().id(), holding);

    let (tube, _) = lone_with(TubeOptions::default().in_flight(2));
    let put = || tube.task(b"x").group("g").put().unwrap();
    let [_, second, third] = [put(), put(), put()];
    let _held = tube.claim(third).unwrap();
    assert_eq!(tube.claim(second).unwrap().id(), second, "not in order with two in flight");
}

#[test]
fn a_paused_tube_hands_out_only_what_is_claimed() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.pause().unwrap();
    assert!(tube.try_take().unwrap().is_none());
    assert!(tube.take_many(3).unwrap().is_empty());
    tube.claim(id).unwrap().release().unwrap();
    assert_eq!(tube.peek(id).unwrap().state, State::Ready, "a pause is no state");
    tube.resume().unwrap();
    assert_eq!(next(&tube), "a");
}

#[test]
fn as_many_waiting_takers_as_puts_get_one_each() {
    const TAKERS: usize = 8;
    let tube = Queue::in_memory().unwrap().tube("t").unwrap();
    let (reported, received) = mpsc::channel();
    let takers: Vec<_> = (0..TAKERS)
        .map(|_| {
            let (tube, reported) = (tube.clone(), reported.clone());
            thread::spawn(move || {
                let task = tube.take().unwrap();
                reported.send(task.id()).unwrap();
                task.ack().unwrap();
            })
        })
        .collect();
    crate::until_waiting(&tube, TAKERS);
    let put: BTreeSet<TaskId> = (0..TAKERS).map(|_| tube.put(b"x").unwrap()).collect();
    takers.into_iter().for_each(|taker| taker.join().unwrap());
    assert_eq!(received.try_iter().collect::<BTreeSet<_>>(), put);
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn parallel_puts_get_different_ids() {
    let tube = Queue::in_memory().unwrap().tube("t").unwrap();
    let putters: Vec<_> = (0..4)
        .map(|_| {
            let tube = tube.clone();
            thread::spawn(move || (0..100).map(|_| tube.put(b"x").unwrap()).collect::<Vec<_>>())
        })
        .collect();
    let ids: BTreeSet<TaskId> =
        putters.into_iter().flat_map(|putter| putter.join().unwrap()).collect();
    assert_eq!(ids.len(), 400);
}

#[test]
fn takers_of_one_tube_never_share_a_task() {
    let tube = Queue::in_memory().unwrap().tube("t").unwrap();
    tube.put_many((0..500_u32).map(|at| at.to_be_bytes().to_vec())).unwrap();
    let takers: Vec<_> = (0..4)
        .map(|_| {
            let tube = tube.clone();
            thread::spawn(move || {
                let mut ids = Vec::new();
                while let Some(task) = tube.try_take().unwrap() {
                    ids.push(task.id());
                    task.ack().unwrap();
                }
                ids
            })
        })
        .collect();
    let ids: Vec<TaskId> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
    assert_eq!(ids.len(), 500);
    assert_eq!(ids.into_iter().collect::<BTreeSet<_>>().len(), 500);
}
