//! Gates of single tasks of a group: the first task of the group waits for its gates, and those
//! after it wait for it. The clock is manual, so a taker that wakes was woken.

use crate::gates::ENDS_OF_LEASES;
use crate::task_gates::{is_sound, put, two};
use crate::{close_sound, counts, home, killed, kind, secs, still, waiting};
use std::time::Duration;
use tubewell::{
    Conflict, ErrorKind, Filter, NewTask, Queue, State, TaskId, Tube, TubeKind, TubeOptions, WhyNot,
};

fn why(queue: &Queue, id: TaskId) -> Vec<WhyNot> {
    queue.explain(id).unwrap().reasons
}

fn requires(condition: &str) -> WhyNot {
    WhyNot::Requires { condition: condition.into(), is_declared: false }
}

fn behind(first: TaskId) -> WhyNot {
    WhyNot::BehindInGroup { group: "g".into(), first }
}

fn take(tube: &Tube) -> TaskId {
    let task = tube.try_take().unwrap().unwrap();
    let id = task.id();
    task.ack().unwrap();
    id
}

#[test]
fn a_group_waits_for_the_gates_of_its_first_task() {
    let (queue, tubes, _clock) = two();
    for tube in &tubes {
        queue.remove_condition("online").unwrap();
        let first = put(tube, |task| task.group("g").require("online"));
        let second = put(tube, |task| task.group("g"));
        let other = put(tube, |task| task.group("h"));
        let plain = put(tube, |task| task);
        assert_eq!(why(&queue, first), [requires("online")]);
        assert_eq!(why(&queue, second), [behind(first)]);
        assert_eq!(tube.peek_next(State::Ready).unwrap().unwrap().id, other);
        assert_eq!((take(tube), take(tube)), (other, plain));
        assert!(tube.try_take().unwrap().is_none());
        assert!(tube.try_take_group("g").unwrap().is_none());
        assert_eq!(kind(tube.claim(first)), ErrorKind::WrongState);
        assert_eq!(kind(tube.claim(second)), ErrorKind::WrongState);
        is_sound(&queue);
        let taker = waiting(tube, |tube| tube.take().unwrap());
        queue.set_condition("online", true).unwrap();
        let taken = taker.join().unwrap();
        assert_eq!(taken.id(), first);
        let busy = WhyNot::GroupBusy { group: "g".into(), in_flight: 1 };
        assert_eq!(why(&queue, second), std::slice::from_ref(&busy));
        let gated = put(tube, |task| task.group("g").require("paid"));
        assert_eq!(why(&queue, gated), [requires("paid"), busy]);
        taken.ack().unwrap();
        assert_eq!(why(&queue, gated), [requires("paid"), behind(second)]);
        assert_eq!(take(tube), second);
        assert!(tube.peek_next(State::Ready).unwrap().is_none());
        is_sound(&queue);
        tube.truncate().unwrap();
        queue.tick().unwrap();
        is_sound(&queue);
    }
}

/// One that comes before the first task of a group, which waits, is the first then.
#[test]
fn a_better_task_of_the_group_goes_before_the_one_that_waits() {
    let (queue, [a, _b], _clock) = two();
    let waits = put(&a, |task| task.group("g").require("online"));
    assert!(a.try_take().unwrap().is_none());
    let better = put(&a, |task| task.group("g").priority(-1));
    assert_eq!(why(&queue, waits), [requires("online"), behind(better)]);
    is_sound(&queue);
    let task = a.take().unwrap();
    assert_eq!(task.id(), better);
    assert!(a.try_take().unwrap().is_none());
    task.release().unwrap();
    let other = put(&a, |task| task.group("g").priority(-2).require("paid"));
    assert!(a.try_take().unwrap().is_none());
    assert_eq!(why(&queue, better), [behind(other)]);
    is_sound(&queue);
    a.delete(other).unwrap();
    assert_eq!(take(&a), better);
    assert!(a.try_take().unwrap().is_none());
    is_sound(&queue);
    queue.set_condition("online", true).unwrap();
    assert_eq!(take(&a), waits);
    is_sound(&queue);
}

/// Two of a group may be in flight. The line has a gate, then the group is full, then neither.
#[test]
fn a_group_with_two_in_flight_that_may_have_one_later() {
    let (queue, [a, _b], _clock) = two();
    let set = |in_flight: u64| a.set("in_flight", in_flight).unwrap();
    set(2);
    let ids = [(); 2].map(|()| put(&a, |task| task.group("g")));
    let gated = put(&a, |task| task.group("g").require("online"));
    let task = a.take().unwrap();
    assert_eq!(take(&a), ids[1]);
    assert!(a.try_take().unwrap().is_none());
    is_sound(&queue);
    set(1);
    queue.tick().unwrap();
    is_sound(&queue);
    let busy = WhyNot::GroupBusy { group: "g".into(), in_flight: 1 };
    assert_eq!(why(&queue, gated), [requires("online"), busy.clone()]);
    queue.set_condition("online", true).unwrap();
    assert!(a.try_take().unwrap().is_none());
    assert_eq!(why(&queue, gated), [busy]);
    queue.set_condition("online", false).unwrap();
    set(2);
    queue.tick().unwrap();
    assert!(a.try_take().unwrap().is_none());
    is_sound(&queue);
    queue.set_condition("online", true).unwrap();
    assert_eq!(take(&a), gated);
    task.ack().unwrap();
    is_sound(&queue);
}

/// What ends a lease, in whatever way, lets a taker of another group in that waits for the slot.
#[test]
fn every_end_of_a_lease_leaves_the_slot_of_a_task_of_a_group() {
    for (number, end) in ENDS_OF_LEASES.into_iter().enumerate() {
        let (queue, [a, b], clock) = two();
        queue.set_throttle("api", 1).unwrap();
        let first = put(&a, |task| task.group("g").throttle("api").priority(-1));
        let second = put(&b, |task| task.group("h").throttle("api"));
        put(&b, |task| task.group("h"));
        let ada = queue.consumer("ada").unwrap();
        let task = a.by(&ada).take().unwrap();
        assert_eq!(task.id(), first);
        let limit = WhyNot::Throttled { throttle: "api".into(), in_flight: 1, limit: 1 };
        assert_eq!(why(&queue, second), [limit]);
        let taker = waiting(&b, |tube| tube.take().unwrap());
        end(&queue, &a, task, &clock);
        let task = taker.join().unwrap();
        assert_eq!((task.id(), counts(&b)[2]), (second, 1), "end {number}");
        is_sound(&queue);
    }
}

/// A claim and a take of a group enter the gates of the task too.
#[test]
fn chosen_tasks_of_a_group_hold_their_slots() {
    let (queue, [a, _b], _clock) = two();
    queue.set_throttle("api", 1).unwrap();
    let held = || queue.throttle("api").unwrap().unwrap().in_flight;
    let ids = ["g", "h"].map(|group| put(&a, |task| task.group(group).throttle("api")));
    let task = a.claim(ids[1]).unwrap();
    assert_eq!((held(), a.try_take_group("g").unwrap().map(|task| task.id())), (1, None));
    assert!(a.try_take().unwrap().is_none());
    is_sound(&queue);
    task.release().unwrap();
    let task = a.try_take_group("g").unwrap().unwrap();
    assert_eq!((task.id(), held()), (ids[0], 1));
    assert!(a.try_take().unwrap().is_none());
    is_sound(&queue);
    task.ack().unwrap();
    assert_eq!((take(&a), held()), (ids[1], 0));
    is_sound(&queue);
}

/// Gates stay with a task wherever it goes: into tubes whose tasks are all in groups, and back.
#[test]
fn gates_stay_with_the_task_and_so_does_its_group() {
    let (queue, [a, _b], _clock) = two();
    let of_groups = queue.create_tube("u", TubeOptions::new(TubeKind::Utube)).unwrap();
    let fifo = queue.create_tube("f", TubeOptions::new(TubeKind::Fifo)).unwrap();
    let terms = |id: TaskId| {
        let info = queue.find(id).unwrap();
        (info.group.clone(), info.requires.clone(), info.throttles.clone())
    };
    let group = || Some("g".to_owned());
    let (online, api) = (|| vec!["online".to_owned()], || vec!["api".to_owned()]);
    let gated = |task: NewTask<'_>| task.require("online").throttle("api").put().unwrap();
    let both = gated(a.task(b"x").group("g").priority(-1));
    assert_eq!(terms(both), (group(), online(), api()));
    let found = a.search(&Filter::new().throttle("api"), None, 9).unwrap();
    assert_eq!(found.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [both]);
    assert_eq!(terms(a.copy_to(both, &of_groups).unwrap()), (group(), online(), api()));
    let alone = put(&a, |task| task.require("online"));
    let of_all = of_groups.task(b"x").require("online").put().unwrap();
    // Its group is that of the tasks without one, of which one is in flight at a time.
    let next = of_groups.put(b"x").unwrap();
    assert!(of_groups.try_take().unwrap().is_none());
    let first = WhyNot::BehindInGroup { group: String::new(), first: of_all };
    assert_eq!(why(&queue, next), [first]);
    for tube in [&a, &of_groups, &a, &fifo, &of_groups, &fifo, &a] {
        let from = queue.tube(&queue.find(alone).unwrap().tube).unwrap();
        from.move_to(alone, tube).apply().unwrap();
        assert_eq!(terms(alone), (None, online(), vec![]), "{}", tube.name());
        assert!(tube.try_take().unwrap().is_none());
        is_sound(&queue);
    }
    assert_eq!(kind(a.move_to(both, &fifo).apply()), ErrorKind::Unsupported);
    queue.set_condition("online", true).unwrap();
    let mut task = a.take().unwrap();
    assert_eq!(task.id(), both);
    task.advance(&of_groups).unwrap();
    assert_eq!(terms(both), (group(), online(), api()));
    of_groups.bury(both, "no").unwrap();
    assert_eq!(of_groups.kick(1).unwrap().kicked, 1);
    is_sound(&queue);
    queue.create_tube("v", TubeOptions::new(TubeKind::Utube)).unwrap();
    queue.merge("u", "v").unwrap();
    assert_eq!(terms(both), (group(), online(), api()));
    is_sound(&queue);
}

#[test]
fn a_put_again_and_a_batch_give_gates_and_groups() {
    let (queue, [a, _b], _clock) = two();
    let terms = |id: TaskId| {
        let info = queue.find(id).unwrap();
        (info.group.clone(), info.requires.join(" "))
    };
    let group = || Some("g".to_owned());
    let id = put(&a, |task| task.key("k").require("online"));
    assert!(a.try_take().unwrap().is_none());
    let again = || a.task(b"y").key("k").on_conflict(Conflict::Replace);
    assert_eq!(again().group("g").put().unwrap(), id);
    assert_eq!(terms(id), (group(), "online".into()));
    let next = put(&a, |task| task.group("g"));
    assert!(a.try_take().unwrap().is_none());
    is_sound(&queue);
    assert_eq!(again().require("paid").priority(-1).put().unwrap(), id);
    assert_eq!((terms(id), why(&queue, next)), ((group(), "paid".into()), vec![behind(id)]));
    queue.set_condition("paid", true).unwrap();
    assert_eq!((take(&a), take(&a)), (id, next));
    let grouped = a.task(b"x").group("g");
    let gated = a.task(b"x").require("paid");
    let of_both = a.task(b"x").require("paid").group("h");
    let batch = a.batch_of([grouped, gated, of_both, a.task(b"x")]).require("online").group("all");
    let ids = batch.put().unwrap();
    let all = ids.iter().map(|id| terms(*id)).collect::<Vec<_>>();
    let named = |group: &str, gates: &str| (Some(group.to_owned()), gates.to_owned());
    let expected = [("g", "online"), ("all", "paid"), ("h", "paid"), ("all", "online")];
    assert_eq!(all, expected.map(|(group, gates)| named(group, gates)));
    assert_eq!((take(&a), take(&a)), (ids[1], ids[2]));
    assert!(a.try_take().unwrap().is_none());
    is_sound(&queue);
}

#[test]
fn children_of_a_schedule_have_a_group_and_gates() {
    let (queue, [a, _b], _clock) = two();
    let new = queue.schedule("s").every(secs(60)).group("g").require("online");
    let made = new.to(&a).payload(b"x").make().unwrap();
    let info = made.info().unwrap();
    assert_eq!((info.group.as_deref(), info.requires), (Some("g"), vec!["online".to_owned()]));
    queue.tick().unwrap();
    let id = made.info().unwrap().last.unwrap();
    assert_eq!(why(&queue, id), [requires("online")]);
    let next = put(&a, |task| task.group("g"));
    assert!(a.try_take().unwrap().is_none());
    queue.set_condition("online", true).unwrap();
    assert_eq!((take(&a), take(&a)), (id, next));
    is_sound(&queue);
}

/// A kill between any two steps leaves the group and the gates as they were.
#[test]
fn a_killed_queue_has_the_gates_of_groups() {
    let (_home, path) = home();
    let open = |path| still().0.open(path).unwrap();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    queue.set_throttle("api", 1).unwrap();
    let ids = [(); 3].map(|()| put(&tube, |task| task.group("g").throttle("api")));
    let task = put(&tube, |task| task.throttle("api").priority(-1));
    let held = tube.take().unwrap();
    assert_eq!(held.id(), task);
    assert!(tube.try_take().unwrap().is_none());
    let (_copy, files) = killed(&path);
    let copy = open(&files);
    let there = copy.tube("t").unwrap();
    // The lease is over with its process.
    assert_eq!([(); 4].map(|()| take(&there)), [task, ids[0], ids[1], ids[2]]);
    close_sound(copy);
    held.ack().unwrap();
    assert_eq!(ids.map(|_| take(&tube)), ids);
    close_sound(queue);
}

/// Reads see what a take would get, also behind more groups than one step looks at.
#[test]
fn reads_see_past_many_groups_that_wait() {
    let (queue, [a, _b], _clock) = two();
    let groups = (0..1000).map(|number| format!("g{number}")).collect::<Vec<_>>();
    for group in &groups {
        put(&a, |task| task.group(group).require("online"));
    }
    let plain = put(&a, |task| task);
    assert_eq!(a.peek_next(State::Ready).unwrap().map(|task| task.id), Some(plain));
    assert_eq!(why(&queue, plain), [WhyNot::IsNext]);
    assert_eq!(a.peek_many(9).unwrap().iter().map(|task| task.id).collect::<Vec<_>>(), [plain]);
    assert_eq!(take(&a), plain);
    assert!(!a.wait_ready(Duration::ZERO).unwrap());
    is_sound(&queue);
    queue.set_condition("online", true).unwrap();
    assert_eq!(a.take_many(2000).unwrap().len(), 1000);
    is_sound(&queue);
}

/// Also those that stand after another one, where a look does not come.
#[test]
fn a_listing_of_what_may_be_taken_leaves_out_what_waits() {
    let (queue, [a, _b], _clock) = two();
    let first = put(&a, |task| task.group("a"));
    put(&a, |task| task.group("b").require("online"));
    put(&a, |task| task.require("online"));
    let ids = || a.peek_many(9).unwrap().iter().map(|task| task.id).collect::<Vec<_>>();
    assert_eq!(ids(), [first]);
    queue.set_condition("online", true).unwrap();
    assert_eq!(ids().len(), 3);
}
