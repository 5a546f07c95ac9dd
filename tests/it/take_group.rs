//! Calls that wait for the tasks of one group of a tube, beside those that take any.

use crate::{close_sound, kind, lone, lone_with, secs, still, until, waiting};
use std::thread::JoinHandle;
use tubewell::{ErrorKind, Stop, Tube, TubeKind, TubeOptions};

fn put(tube: &Tube, text: &str, group: &str) {
    tube.task(text.as_bytes()).group(group).put().unwrap();
}

/// A call that waits for a task of the group and returns its text.
fn taker(tube: &Tube, group: &'static str) -> JoinHandle<String> {
    waiting(tube, move |tube| text(tube.take_group(group)))
}

fn text(taken: tubewell::Result<tubewell::Task>) -> String {
    let task = taken.unwrap();
    let text = String::from_utf8(task.to_vec()).unwrap();
    task.ack().unwrap();
    text
}

/// Each change after which the first task of the group may be taken wakes a call that waits for it.
#[test]
fn all_that_lets_a_task_of_the_group_through_wakes_the_call() {
    let (tube, clock) = lone();
    let call = taker(&tube, "g");
    put(&tube, "put", "g");
    assert_eq!(call.join().unwrap(), "put");

    put(&tube, "held", "g");
    let held = tube.take().unwrap();
    put(&tube, "unlocked", "g");
    let call = taker(&tube, "g");
    held.ack().unwrap();
    assert_eq!(call.join().unwrap(), "unlocked");

    tube.pause().unwrap();
    put(&tube, "resumed", "g");
    let call = taker(&tube, "g");
    tube.resume().unwrap();
    assert_eq!(call.join().unwrap(), "resumed");

    tube.task(b"late").group("g").delay(secs(5)).put().unwrap();
    let call = taker(&tube, "g");
    clock.advance(secs(5));
    assert_eq!(call.join().unwrap(), "late");

    put(&tube, "buried", "g");
    let id = tube.take().unwrap().id();
    tube.bury(id, "no").unwrap();
    let call = taker(&tube, "g");
    tube.kick_task(id).unwrap();
    assert_eq!(call.join().unwrap(), "buried");
}

#[test]
fn an_open_gate_wakes_the_call() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.task(b"online").group("g").require("online").put().unwrap();
    let call = taker(&tube, "g");
    queue.set_condition("online", true).unwrap();
    assert_eq!(call.join().unwrap(), "online");

    queue.set_throttle("gpu", 1).unwrap();
    let other = queue.tube("other").unwrap();
    other.task(b"x").throttle("gpu").put().unwrap();
    let held = other.take().unwrap();
    tube.task(b"slot").group("g").throttle("gpu").put().unwrap();
    let call = taker(&tube, "g");
    held.ack().unwrap();
    assert_eq!(call.join().unwrap(), "slot");
    close_sound(queue);
}

/// A wake-up for a task of another group goes from call to call until one can use it, and stays
/// with none that cannot.
#[test]
fn a_wake_up_that_a_call_cannot_use_goes_on() {
    let (tube, _) = lone();
    let first = taker(&tube, "a");
    let second = taker(&tube, "b");
    let any = waiting(&tube, |tube| text(tube.take()));
    let last = taker(&tube, "c");
    put(&tube, "c1", "c"); // passed on by the first two; the third takes it
    assert_eq!(any.join().unwrap(), "c1");
    put(&tube, "c2", "c");
    assert_eq!(last.join().unwrap(), "c2");
    put(&tube, "b1", "b");
    assert_eq!(second.join().unwrap(), "b1");
    put(&tube, "d1", "d"); // no call waits for it
    put(&tube, "a1", "a");
    assert_eq!(first.join().unwrap(), "a1");
    assert_eq!(crate::drain(&tube), "d1");
}

/// A hundred calls for as many groups, and each gets its own task.
#[test]
fn many_calls_wait_for_different_groups() {
    let (tube, _) = lone();
    let groups: Vec<String> = (0..100).map(|number| format!("g{number}")).collect();
    let wait = |group: &String| {
        let group = group.clone();
        waiting(&tube, move |tube| text(tube.take_group(&group)))
    };
    let calls: Vec<_> = groups.iter().map(wait).collect();
    for group in groups.iter().rev() {
        put(&tube, group, group);
    }
    for (call, group) in calls.into_iter().zip(groups) {
        assert_eq!(call.join().unwrap(), group);
    }
    assert!(tube.is_empty().unwrap());
}

/// A slot of a throttle that is kept for a tube whose only call wants another group goes to others.
#[test]
fn a_slot_that_no_call_can_use_is_free_for_other_tubes() {
    let queue = still().0.in_memory().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|name| queue.tube(name).unwrap());
    queue.set_throttle("gpu", 1).unwrap();
    for tube in [&a, &b, &c] {
        tube.task(b"x").group("g").throttle("gpu").put().unwrap();
    }
    let held = c.take().unwrap();
    let stop = Stop::new();
    let own = stop.clone();
    let call = waiting(&a, move |tube| tube.take_group_until("h", &own).unwrap().is_none());
    held.ack().unwrap();
    until(|| b.try_take().unwrap().is_some());
    stop.stop();
    assert!(call.join().unwrap());
    close_sound(queue);
}

#[test]
fn a_wait_for_a_group_ends_with_its_time_its_stop_and_its_tube() {
    let (tube, clock) = lone();
    put(&tube, "x", "other");
    let call = waiting(&tube, |tube| tube.take_group_timeout("g", secs(5)).unwrap().is_none());
    clock.advance(secs(5));
    assert!(call.join().unwrap());

    let stop = Stop::new();
    let own = stop.clone();
    let call = waiting(&tube, move |tube| tube.take_group_until("g", &own).unwrap().is_none());
    stop.stop();
    assert!(call.join().unwrap());
    assert_eq!(kind(tube.take_group_timeout("", secs(5))), ErrorKind::Invalid);

    let queue = still().0.in_memory().unwrap();
    let dropped = queue.tube("dropped").unwrap();
    let call = waiting(&dropped, |tube| kind(tube.take_group("g")));
    queue.force_drop_tube("dropped").unwrap();
    assert_eq!(call.join().unwrap(), ErrorKind::TubeNotFound);
    let tube = queue.tube("t").unwrap();
    let call = waiting(&tube, |tube| kind(tube.take_group("g")));
    queue.close().unwrap();
    assert_eq!(call.join().unwrap(), ErrorKind::Closed);

    let (fifo, _) = lone_with(TubeOptions::new(TubeKind::Fifo));
    assert_eq!(kind(fifo.take_group("g")), ErrorKind::Unsupported);
}
