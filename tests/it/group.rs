//! Groups: in order, one in flight, independent of each other.

use crate::{counts, drain, kind, lone, lone_with, next, secs};
use tubewell::{ErrorKind, Release, Task, Tube, TubeKind, TubeOptions};

fn put(tube: &Tube, group: &str, texts: &[&str]) {
    for text in texts {
        tube.task(text.as_bytes()).group(group).put().unwrap();
    }
}

fn take(tube: &Tube, text: &str) -> Task {
    let task = tube.try_take().unwrap().expect("a task");
    assert_eq!(&task[..], text.as_bytes());
    task
}

fn is_locked(tube: &Tube) -> bool {
    tube.try_take().unwrap().is_none()
}

#[test]
fn a_group_is_locked_while_one_of_its_tasks_is_taken() {
    let (tube, _) = lone();
    put(&tube, "g", &["a", "b"]);
    let task = take(&tube, "a");
    assert!(is_locked(&tube));
    task.ack().unwrap();
    assert_eq!(next(&tube), "b");
}

#[test]
fn other_groups_and_groupless_tasks_are_not_held_up() {
    let (tube, _) = lone();
    put(&tube, "g", &["g1", "g2"]);
    put(&tube, "h", &["h1", "h2"]);
    tube.put(b"free1").unwrap();
    tube.put(b"free2").unwrap();
    let _held = [take(&tube, "g1"), take(&tube, "h1"), take(&tube, "free1"), take(&tube, "free2")];
    assert!(is_locked(&tube));
}

#[test]
fn between_groups_the_first_takeable_task_decides() {
    let (tube, _) = lone();
    put(&tube, "g", &["1"]);
    put(&tube, "h", &["2"]);
    put(&tube, "g", &["3"]);
    tube.task(b"0").group("h").priority(-1).put().unwrap();
    assert_eq!(drain(&tube), "0 1 2 3");
}

/// A group that never runs empty delays no other group (O2).
#[test]
fn a_busy_group_starves_no_other_of_its_priority() {
    let (tube, _) = lone();
    put(&tube, "busy", &["1", "2", "3"]);
    put(&tube, "h", &["h"]);
    let mut before = 0;
    loop {
        let task = tube.try_take().unwrap().expect("a task");
        put(&tube, "busy", &["more"]);
        if &task[..] == b"h" {
            break;
        }
        task.ack().unwrap();
        before += 1;
    }
    assert_eq!(before, 3, "the tasks before it, and none after it");
}

#[test]
fn priority_also_orders_within_a_group() {
    let (tube, _) = lone();
    put(&tube, "g", &["b"]);
    tube.task(b"a").group("g").priority(-1).put().unwrap();
    assert_eq!(drain(&tube), "a b");
}

#[test]
fn a_group_opens_by_ack_bury_delete_release_drop_and_lapse() {
    type End = fn(&Tube, Task, &tubewell::ManualClock);
    let ends: [(&str, End, &str); 8] = [
        ("ack", |_, task, _| task.ack().unwrap(), "b"),
        ("bury", |_, task, _| task.bury("").unwrap(), "b"),
        ("bury by id", |tube, task, _| tube.bury(task.id(), "").unwrap(), "b"),
        ("delete", |tube, task, _| tube.delete(task.id()).unwrap(), "b"),
        ("release", |_, task, _| task.release().unwrap(), "a"),
        (
            "delayed release",
            |_, task, _| task.release_with(Release::new().delay(secs(9))).unwrap(),
            "b",
        ),
        ("drop", |_, task, _| drop(task), "a"),
        (
            "lapse",
            |_, task, clock| {
                task.detach();
                clock.advance(secs(60));
            },
            "a",
        ),
    ];
    for (how, end, comes) in ends {
        let (tube, clock) = lone_with(TubeOptions::default().ttr(secs(60)));
        put(&tube, "g", &["a", "b"]);
        end(&tube, take(&tube, "a"), &clock);
        assert_eq!(next(&tube), comes, "{how}");
    }
}

#[test]
fn a_consumers_end_opens_its_groups() {
    let queue = crate::still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    put(&tube, "g", &["a", "b"]);
    let ada = queue.consumer("ada").unwrap();
    let task = tube.by(&ada).take().unwrap();
    ada.close().unwrap();
    assert!(task.ack().unwrap_err().is_lease_lost());
    assert_eq!(drain(&tube), "a b");
}

#[test]
fn an_option_holds_the_group_through_a_retry() {
    let (tube, clock) = lone_with(TubeOptions::default().hold_group_while_delayed(true));
    put(&tube, "g", &["a", "b"]);
    take(&tube, "a").retry("no").unwrap();
    assert!(is_locked(&tube), "b must not overtake a");
    clock.advance(secs(1));
    assert_eq!(drain(&tube), "a b");
}

#[test]
fn holding_ends_when_the_delayed_task_leaves() {
    let (tube, _) = lone_with(TubeOptions::default().hold_group_while_delayed(true));
    put(&tube, "g", &["a", "b"]);
    let task = take(&tube, "a");
    let id = task.id();
    task.release_with(Release::new().delay(secs(60))).unwrap();
    assert!(is_locked(&tube));
    tube.delete(id).unwrap();
    assert_eq!(next(&tube), "b");
}

#[test]
fn a_delayed_put_holds_no_group() {
    let (tube, _) = lone_with(TubeOptions::default().hold_group_while_delayed(true));
    tube.task(b"later").group("g").delay(secs(60)).put().unwrap();
    put(&tube, "g", &["now"]);
    assert_eq!(next(&tube), "now");
}

#[test]
fn as_many_in_flight_as_the_tube_says() {
    let (tube, _) = lone_with(TubeOptions::default().in_flight(2));
    put(&tube, "g", &["a", "b", "c"]);
    let first = take(&tube, "a");
    let second = take(&tube, "b");
    assert!(is_locked(&tube));
    second.ack().unwrap();
    let third = take(&tube, "c");
    first.ack().unwrap();
    third.ack().unwrap();
}

#[test]
fn take_many_keeps_to_the_limit() {
    let (tube, _) = lone();
    put(&tube, "g", &["g1", "g2", "g3"]);
    put(&tube, "h", &["h1", "h2"]);
    tube.put(b"free").unwrap();
    let tasks = tube.take_many(10).unwrap();
    let texts: Vec<_> = tasks.iter().map(|task| task.to_vec()).collect();
    assert_eq!(texts, [&b"g1"[..], b"h1", b"free"]);
}

#[test]
fn a_utubes_groupless_tasks_share_one_group() {
    let (tube, _) = lone_with(TubeOptions::new(TubeKind::Utube));
    tube.put(b"a").unwrap();
    tube.put(b"b").unwrap();
    let task = take(&tube, "a");
    assert!(is_locked(&tube));
    task.ack().unwrap();
    assert_eq!(next(&tube), "b");
}

#[test]
fn a_locked_task_is_ready_all_the_same() {
    let (tube, _) = lone();
    put(&tube, "g", &["a", "b"]);
    let _task = take(&tube, "a");
    assert_eq!(counts(&tube), [1, 0, 1, 0]);
    assert!(tube.peek_next(tubewell::State::Ready).unwrap().is_none(), "but no task can be taken");
}

/// A wish of tarantool's users: take from a chosen sub-queue.
#[test]
fn the_first_task_of_a_chosen_group_is_taken_as_far_as_the_group_may_be_taken_from() {
    let (tube, clock) = lone_with(TubeOptions::default().in_flight(2));
    tube.put(b"plain").unwrap();
    for (text, group) in [("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")] {
        tube.task(text.as_bytes()).group(group).put().unwrap();
    }
    tube.task(b"a0").group("a").priority(-1).put().unwrap();
    tube.task(b"late").group("c").delay(secs(5)).put().unwrap();
    let take = |group| tube.try_take_group(group).unwrap();
    let first = take("a").unwrap();
    assert_eq!((&first[..], first.attempt()), (&b"a0"[..], 1));
    let second = take("a").unwrap();
    assert_eq!(&second[..], b"a1");
    assert!(take("a").is_none() && take("none").is_none() && take("c").is_none());
    first.ack().unwrap();
    tube.pause().unwrap();
    assert!(take("a").is_none());
    tube.resume().unwrap();
    assert_eq!(&take("a").unwrap()[..], b"a2", "dropped, it returns");
    clock.advance(secs(5));
    assert_eq!(&take("c").unwrap()[..], b"late");
    assert_eq!(kind(tube.try_take_group("")), ErrorKind::Invalid);
    second.ack().unwrap();
    assert_eq!(crate::drain(&tube), "plain a2 a3 b1 late");
    let (fifo, _) = lone_with(TubeOptions::new(TubeKind::Fifo));
    assert_eq!(kind(fifo.try_take_group("a")), ErrorKind::Unsupported);
}

#[test]
fn a_group_name_is_checked() {
    let (tube, _) = lone();
    let long = "g".repeat(256);
    for group in ["", "a\nb", &long] {
        assert_eq!(kind(tube.task(b"x").group(group).put()), ErrorKind::Invalid);
    }
    tube.task(b"x").group(&long[1..]).put().unwrap();
    tube.task(b"x").group("with: any/separator.at|all").put().unwrap();
}

#[test]
fn groups_survive_a_kill() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    let tube = queue.tube("t").unwrap();
    put(&tube, "g", &["a", "b"]);
    let _task = take(&tube, "a");
    let (_copy, copy) = crate::killed(&path);
    let after = crate::open(&copy);
    let tube = after.tube("t").unwrap();
    let task = take(&tube, "a");
    assert!(is_locked(&tube));
    task.ack().unwrap();
    assert_eq!(next(&tube), "b");
    crate::close_sound(after);
}
