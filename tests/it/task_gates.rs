//! Gates of single tasks: a task that needs a condition or a slot of a throttle waits for that, and
//! the others of its tube go on. The clock is manual, so a taker that wakes was woken.

use crate::gates::ENDS_OF_LEASES;
use crate::throttles::served;
use crate::{close_sound, counts, home, killed, kind, secs, still, waiting};
use tubewell::{
    Backoff, Conflict, Durability, ErrorKind, Filter, ManualClock, NewTask, Queue, Retention,
    State, Task, TaskId, Tube, TubeKind, TubeOptions, WhyNot,
};

/// A still queue, with two tubes without gates; the second is temporary.
pub(crate) fn two() -> (Queue, [Tube; 2], ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let kept = TubeOptions::default().keep_finished(Retention::new());
    let a = queue.create_tube("a", kept).unwrap();
    let b = queue.create_tube("b", TubeOptions::default().temporary(true)).unwrap();
    (queue, [a, b], clock)
}

pub(crate) fn put<'a>(tube: &'a Tube, gates: impl FnOnce(NewTask<'a>) -> NewTask<'a>) -> TaskId {
    gates(tube.task(b"x")).put().unwrap()
}

pub(crate) fn is_sound(queue: &Queue) {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

fn held(queue: &Queue, throttle: &str) -> u64 {
    queue.throttle(throttle).unwrap().unwrap().in_flight
}

fn requires(condition: &str, is_declared: bool) -> WhyNot {
    WhyNot::Requires { condition: condition.into(), is_declared }
}

#[test]
fn a_task_waits_for_its_own_conditions_and_the_others_pass() {
    let (queue, tubes, _clock) = two();
    for tube in &tubes {
        queue.remove_condition("paid").unwrap();
        let both = put(tube, |task| task.priority(-3).require("online").require("paid"));
        let online = put(tube, |task| task.priority(-2).require("online"));
        let later = put(tube, |task| task.priority(-1).require("online"));
        let plain = put(tube, |task| task);
        assert_eq!(queue.explain(both).unwrap().reasons[0], requires("online", false));
        let task = tube.take().unwrap();
        assert_eq!(task.id(), plain);
        task.ack().unwrap();
        assert!(tube.try_take().unwrap().is_none());
        is_sound(&queue);
        assert_eq!(kind(tube.claim(online)), ErrorKind::WrongState);
        let refused = tube.claim(online).unwrap_err().to_string();
        assert!(refused.contains("\"online\""), "{refused}");
        assert_eq!(counts(tube), [3, 0, 0, 0]);
        let taker = waiting(tube, |tube| tube.take().unwrap());
        queue.set_condition_for_run("online", true).unwrap();
        let taken = taker.join().unwrap();
        assert_eq!(taken.id(), online);
        assert_eq!(queue.explain(both).unwrap().reasons, [requires("paid", false)]);
        let task = tube.take().unwrap();
        assert_eq!(task.id(), later);
        queue.set_condition("paid", true).unwrap();
        let last = tube.take().unwrap();
        assert_eq!(last.id(), both);
        // They are ready again, the guards of all are gone.
        queue.remove_condition("online").unwrap();
        queue.set_condition("paid", false).unwrap();
        [taken, task, last].into_iter().for_each(drop);
        assert!(tube.try_take().unwrap().is_none());
        is_sound(&queue);
        tube.truncate().unwrap();
        queue.tick().unwrap();
        is_sound(&queue);
    }
}

/// Tasks of one tube with a throttle, of which some have a second one: no take hands out more than
/// each lets through, and those of the batch itself count.
#[test]
fn every_take_stops_at_the_throttles_of_the_tasks() {
    let (queue, [a, b], _clock) = two();
    queue.set_throttle("api", 3).unwrap();
    queue.set_throttle("gpu", 1).unwrap();
    for tube in [&a, &b] {
        tube.batch(vec![*b"x"; 9]).priority(-2).throttle("api").throttle("gpu").put().unwrap();
        tube.batch(vec![*b"x"; 9]).priority(-1).throttle("api").put().unwrap();
    }
    let both = queue.tubes_of(["a", "b"]).unwrap();
    let round = queue.tubes_of(["a", "b"]).unwrap().round_robin();
    let takes: [&dyn Fn() -> Vec<Task>; 5] = [
        &|| a.take_many(9).unwrap(),
        &|| [a.take_many(2).unwrap(), b.take_many(9).unwrap()].into_iter().flatten().collect(),
        &|| both.take_many(9).unwrap(),
        &|| round.take_many(9).unwrap(),
        &|| (0..9).map_while(|_| round.try_take().unwrap()).collect(),
    ];
    for (number, take) in takes.into_iter().enumerate() {
        let taken = take();
        assert_eq!((held(&queue, "api"), held(&queue, "gpu")), (3, 1), "take {number}");
        assert_eq!(taken.len(), 3);
        let throttles = |task: &Task| queue.find(task.id()).unwrap().throttles.clone();
        assert_eq!(taken.iter().filter(|task| throttles(task) == ["api", "gpu"]).count(), 1);
        assert!(a.take_many(9).unwrap().is_empty() && b.try_take().unwrap().is_none());
        assert!(both.take_many(2).unwrap().is_empty() && round.try_take().unwrap().is_none());
        is_sound(&queue);
        taken.into_iter().for_each(|task| task.release().unwrap());
        assert_eq!((held(&queue, "api"), held(&queue, "gpu")), (0, 0));
    }
    let id = a.peek_next(State::Ready).unwrap().unwrap().id;
    let claimed = a.claim(id).unwrap();
    assert_eq!((held(&queue, "api"), held(&queue, "gpu")), (1, 1));
    claimed.ack().unwrap();
    is_sound(&queue);
}

/// What ends a lease, in whatever way, lets a taker in that waits for the slot.
#[test]
fn every_end_of_a_lease_leaves_the_slot_of_a_task() {
    for (number, end) in ENDS_OF_LEASES.into_iter().enumerate() {
        for same in [true, false] {
            let (queue, [a, b], clock) = two();
            queue.set_throttle("api", 1).unwrap();
            let first = put(&a, |task| task.throttle("api").priority(-1));
            let of = if same { &a } else { &b };
            put(of, |task| task.throttle("api"));
            let ada = queue.consumer("ada").unwrap();
            let task = a.by(&ada).take().unwrap();
            assert_eq!(task.id(), first);
            let taker = waiting(of, |tube| _ = tube.take().unwrap().detach());
            end(&queue, &a, task, &clock);
            taker.join().unwrap();
            assert_eq!(held(&queue, "api"), 1, "end {number}");
            assert!(b.try_take().unwrap().is_none(), "end {number}");
            is_sound(&queue);
        }
    }
}

/// A thousand tenants whose throttles are full stand before one task: it is found at once, by calls
/// that do not wait too, and each of them goes on when its own slot is left.
#[test]
fn many_closed_gates_before_an_open_task() {
    let (queue, [a, b], _clock) = two();
    let names: Vec<String> = (0..1000).map(|number| format!("tenant {number}")).collect();
    for tube in [&a, &b] {
        for name in &names {
            queue.set_throttle(name, 1).unwrap();
            for _ in 0..3 {
                put(tube, |task| task.throttle(name));
            }
        }
    }
    let mut busy = a.take_many(4000).unwrap();
    assert_eq!(busy.len(), 1000);
    for tube in [&a, &b] {
        let open = tube.put(b"open").unwrap();
        let task = tube.try_take().unwrap().unwrap();
        assert_eq!(task.id(), open);
        task.ack().unwrap();
        let open = put(tube, |task| task.throttle("unlimited"));
        let several = queue.tubes_of([tube.name()]).unwrap();
        let taken = several.try_take().unwrap().unwrap();
        assert_eq!(taken.id(), open);
        taken.ack().unwrap();
        assert!(several.try_take().unwrap().is_none() && tube.try_take().unwrap().is_none());
    }
    is_sound(&queue);
    for at in [7, 500, 0] {
        let task = busy.remove(at);
        let name = &queue.find(task.id()).unwrap().throttles[0];
        task.ack().unwrap();
        let next = a.try_take().unwrap().unwrap();
        assert_eq!(&queue.find(next.id()).unwrap().throttles[0], name);
        assert!(b.try_take().unwrap().is_none());
        next.ack().unwrap();
        for (tube, left) in [(&a, 1), (&b, 3)] {
            let drained = || tube.try_take().unwrap().map(|task| task.ack().unwrap());
            assert_eq!(std::iter::from_fn(drained).count(), left);
        }
    }
    is_sound(&queue);
}

/// A condition that opens and closes writes none of the tasks behind it, and they come out by their
/// priorities.
#[test]
fn many_tasks_behind_a_condition_come_out_in_their_order() {
    let (_home, path) = home();
    let queue = still().0.durability(Durability::Relaxed).open(&path).unwrap();
    let a = queue.tube("a").unwrap();
    let used = || queue.space().unwrap().journal_used;
    let set_online = |is_set| {
        let before = used();
        queue.set_condition("online", is_set).unwrap();
        let bytes = used() - before;
        assert!((1..500).contains(&bytes), "{bytes} bytes");
    };
    for number in 0..500_i64 {
        put(&a, |task| task.priority(number * 7 % 500).require("online"));
        put(&a, |task| task.priority(number * 7 % 500).require("online").require("set"));
    }
    queue.set_condition("set", true).unwrap();
    assert!(a.try_take().unwrap().is_none());
    for most in [1, 10, 2000] {
        set_online(true);
        let taken = a.take_many(most).unwrap();
        assert_eq!(taken.len(), most.min(1000));
        let priorities: Vec<i64> = taken.iter().map(Task::priority).collect();
        assert!(priorities.is_sorted() && priorities.iter().zip(0..).all(|(is, at)| *is == at / 2));
        taken.into_iter().for_each(|task| task.release().unwrap());
        set_online(false);
        assert!(a.try_take().unwrap().is_none());
        is_sound(&queue);
    }
    close_sound(queue);
}

/// The first of a line is changed while it is behind a gate.
#[test]
fn a_line_behind_a_gate_has_another_first_task() {
    type Change = fn(&Tube, TaskId, &ManualClock);
    let changes: [Change; 7] = [
        |tube, id, _| tube.delete(id).unwrap(),
        |tube, id, _| tube.bury(id, "no").unwrap(),
        |tube, id, _| tube.update(id).priority(5).apply().map(drop).unwrap(),
        |tube, id, _| tube.update(id).delay(secs(1000)).apply().map(drop).unwrap(),
        |_, _, clock| clock.advance(secs(60)),
        |tube, id, _| tube.trash(id, "no").unwrap(),
        |tube, _, _| _ = put(tube, |task| task.priority(-9).require("online")),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        for closed_before in [true, false] {
            let (queue, tubes, clock) = two();
            for tube in &tubes {
                let first = put(tube, |task| task.priority(-1).ttl(secs(60)).require("online"));
                let second = put(tube, |task| task.require("online"));
                if closed_before {
                    assert!(tube.try_take().unwrap().is_none());
                }
                change(tube, first, &clock);
                assert!(tube.try_take().unwrap().is_none());
                is_sound(&queue);
                queue.set_condition("online", true).unwrap();
                let mut taken = tube.take_many(9).unwrap();
                taken.sort_by_key(Task::priority);
                let is_second = taken.iter().any(|task| task.id() == second);
                assert!(is_second, "change {number}");
                if number != 6 {
                    assert_eq!(taken[0].id(), second, "change {number}");
                }
                taken.into_iter().for_each(|task| task.ack().unwrap());
                queue.set_condition("online", false).unwrap();
                is_sound(&queue);
            }
        }
    }
}

/// A busy taker of one tube would take each slot again before a taker of another tube wakes.
#[test]
fn slots_go_round_the_tubes_whose_takers_wait() {
    let (queue, [a, b], _clock) = two();
    queue.set_throttle("api", 1).unwrap();
    let c = queue.create_tube("c", TubeOptions::default().throttle("api")).unwrap();
    for tube in [&a, &b] {
        tube.batch(vec![*b"x"; 4]).throttle("api").put().unwrap();
    }
    c.put_many(vec![*b"x"; 4]).unwrap();
    let held = c.take().unwrap();
    let served = served(&[&a, &a, &b, &b, &c], || held.release().unwrap());
    assert_eq!(served, ["a", "b", "c", "a", "b"]);
    is_sound(&queue);
}

/// What opens a throttle lets takers in: a higher limit, none, its removal, the end of its limit,
/// and a slot that is released by force.
#[test]
fn a_throttle_is_opened_in_every_way() {
    type Open = fn(&Queue, TaskId, &ManualClock);
    let opens: [Open; 5] = [
        |queue, _, _| assert!(queue.set_throttle("api", 2).unwrap()),
        |queue, _, _| assert!(queue.set_throttle("api", 0).unwrap()),
        |queue, _, _| assert!(queue.remove_throttle("api").unwrap()),
        |queue, _, clock| {
            clock.advance(secs(60));
            queue.tick().unwrap();
        },
        |queue, id, _| assert_eq!(queue.release_throttle("api", &[id]).unwrap(), 1),
    ];
    for (number, open) in opens.into_iter().enumerate() {
        for waits in [true, false] {
            let (queue, tubes, clock) = two();
            for tube in &tubes {
                queue.set_throttle_for("api", 1, secs(60)).unwrap();
                let first = put(tube, |task| task.throttle("api"));
                let second = put(tube, |task| task.throttle("api"));
                let held = tube.take().unwrap();
                if waits {
                    let taker = waiting(tube, |tube| tube.take().unwrap().detach().id());
                    open(&queue, first, &clock);
                    assert_eq!(taker.join().unwrap(), second, "{number}");
                } else {
                    assert!(tube.try_take().unwrap().is_none());
                    open(&queue, first, &clock);
                    assert_eq!(tube.try_take().unwrap().unwrap().detach().id(), second, "{number}");
                }
                is_sound(&queue);
                held.ack().unwrap();
                tube.truncate().unwrap();
                queue.tick().unwrap();
                queue.remove_throttle("api").unwrap();
            }
        }
    }
}

/// Lines that stand behind gates do so after a kill, and what has opened meanwhile is looked at.
#[test]
fn lines_behind_gates_outlive_the_process() {
    let (_home, path) = home();
    let open = |path: &std::path::Path| still().0.open(path).unwrap();
    let queue = open(&path);
    queue.set_throttle("api", 1).unwrap();
    queue.set_condition("paid", true).unwrap();
    queue.set_condition_for_run("online", true).unwrap();
    let tube = queue.tube("t").unwrap();
    let [one, two] = [(); 2].map(|()| put(&tube, |task| task.throttle("api").require("paid")));
    let online = put(&tube, |task| task.require("online").priority(1));
    let [task, other] = [(); 2].map(|()| tube.take().unwrap());
    assert_eq!((task.id(), other.id()), (one, online));
    assert!(tube.try_take().unwrap().is_none());
    let (_copy, copy) = killed(&path);
    task.detach();
    other.detach();
    close_sound(queue);
    for path in [path, copy] {
        let queue = open(&path);
        let tube = queue.tube("t").unwrap();
        is_sound(&queue);
        assert_eq!(held(&queue, "api"), 0);
        let taken = tube.take().unwrap();
        assert_eq!(taken.id(), one);
        assert!(tube.try_take().unwrap().is_none(), "the condition was one for the run");
        assert_eq!(queue.requiring("online").count(), 1);
        taken.ack().unwrap();
        let info = queue.find(two).unwrap();
        let [paid, api] = ["paid", "api"].map(|name| [name.to_owned()]);
        assert_eq!((&info.requires[..], &info.throttles[..]), (&paid[..], &api[..]));
        assert_eq!(tube.take().unwrap().id(), two);
        close_sound(queue);
    }
}

/// The gates of a task stay with it, in whatever way it comes to be ready again.
#[test]
fn gates_stay_with_the_task() {
    let (queue, [a, _temporary], clock) = two();
    let other = queue.tube("other").unwrap();
    type Pass = fn(&Queue, [&Tube; 2], TaskId, &ManualClock);
    let ways: [Pass; 10] = [
        |_, [a, _], id, _| drop(a.claim(id).unwrap()),
        |_, [a, _], id, _| a.claim(id).unwrap().retry("again").unwrap(),
        |_, [a, _], id, _| {
            a.bury(id, "no").unwrap();
            assert_eq!(a.kick(9).unwrap().kicked, 1);
        },
        |_, [a, _], id, _| {
            a.trash(id, "no").unwrap();
            a.restore(id).unwrap();
        },
        |_, [a, _], id, clock| {
            a.update(id).delay(secs(5)).apply().unwrap();
            clock.advance(secs(5));
        },
        |_, [a, other], id, _| a.move_to(id, other).apply().map(drop).unwrap(),
        |_, [a, other], id, _| a.claim(id).unwrap().advance(other).unwrap(),
        |_, [a, other], id, _| {
            a.copy_to(id, other).unwrap();
            a.delete(id).unwrap();
        },
        |queue, [a, other], _, _| _ = queue.merge(a.name(), other.name()).unwrap(),
        |_, [a, _], id, _| {
            let again = a.task(b"y").key("k").on_conflict(Conflict::Replace).put().unwrap();
            assert_eq!(again, id);
        },
    ];
    for (number, way) in ways.into_iter().enumerate() {
        queue.set_throttle("api", 1).unwrap();
        queue.set_condition("online", true).unwrap();
        let id =
            put(&a, |task| task.key("k").backoff(Backoff::NONE).require("online").throttle("api"));
        way(&queue, [&a, &other], id, &clock);
        queue.set_condition("online", false).unwrap();
        let tube = if counts(&a)[0] == 1 { &a } else { &other };
        assert_eq!(counts(tube)[0], 1, "way {number}");
        assert!(tube.try_take().unwrap().is_none(), "way {number}");
        queue.set_condition("online", true).unwrap();
        let task = tube.take().unwrap();
        assert_eq!(held(&queue, "api"), 1, "way {number}");
        let info = queue.find(task.id()).unwrap();
        assert_eq!((info.requires.len(), info.throttles.len(), &info.group), (1, 1, &None));
        task.ack().unwrap();
        is_sound(&queue);
    }
}

/// A put again says others; a batch has common ones.
#[test]
fn gates_are_given_again() {
    let (queue, [a, _b], _clock) = two();
    let again = || a.task(b"y").key("k").on_conflict(Conflict::Replace);
    let id = put(&a, |task| task.key("k").require("online"));
    assert!(a.try_take().unwrap().is_none());
    assert_eq!(again().require("paid").put().unwrap(), id);
    assert_eq!(queue.find(id).unwrap().requires, ["paid"]);
    assert_eq!(again().put().unwrap(), id);
    assert_eq!(queue.find(id).unwrap().requires, ["paid"]);
    let batch = [a.task(b"x").require("paid"), a.task(b"x"), a.task(b"x").throttle("gpu")];
    let ids = a.batch_of(batch).require("online").put().unwrap();
    let gates = |at: usize| {
        let info = queue.find(ids[at]).unwrap();
        (info.requires.clone(), info.throttles.clone())
    };
    assert_eq!(gates(0), (vec!["paid".to_owned()], vec![]));
    assert_eq!(gates(1), (vec!["online".to_owned()], vec![]));
    assert_eq!(gates(2), (vec![], vec!["gpu".to_owned()]));
    is_sound(&queue);
}

/// What an open gate would let through stands behind another one, and what is behind it is found.
#[test]
fn a_take_of_several_looks_behind_a_gate_until_it_has_them() {
    let (queue, [a, _b], _clock) = two();
    queue.set_throttle("gpu", 1).unwrap();
    let gated = |priority: i64, others: &[&str]| {
        let task = a.task(b"x").priority(priority).require("online");
        others.iter().fold(task, |task, name| task.throttle(name)).put().unwrap()
    };
    let first = gated(-3, &["gpu"]);
    gated(-2, &["gpu", "disk"]);
    gated(-1, &["gpu", "net"]);
    let last = gated(0, &[]);
    let several = queue.tubes_of(["a"]).unwrap();
    let takes: [&dyn Fn() -> Vec<Task>; 2] =
        [&|| a.take_many(3).unwrap(), &|| several.take_many(3).unwrap()];
    for take in takes {
        assert!(a.try_take().unwrap().is_none() && several.try_take().unwrap().is_none());
        queue.set_condition("online", true).unwrap();
        let taken = take();
        assert_eq!(taken.iter().map(Task::id).collect::<Vec<_>>(), [first, last]);
        taken.into_iter().for_each(|task| task.release().unwrap());
        queue.set_condition("online", false).unwrap();
    }
    let second = gated(1, &[]);
    queue.set_condition("online", true).unwrap();
    assert_eq!(queue.explain(second).unwrap().reasons, [WhyNot::Behind { next: last }]);
    assert_eq!(a.peek_many(9).unwrap().len(), 4, "one of each line");
    is_sound(&queue);
}

/// Regression: what was due opened the gate in the same step in which a call looked behind it, and
/// the call found nothing.
#[test]
fn what_is_due_opens_a_gate_for_the_call_that_does_it() {
    type Due = fn(&Queue);
    let due: [Due; 2] =
        [|queue| assert!(queue.set_throttle_for("gpu", 1, secs(60)).unwrap()), |_| ()];
    for due in due {
        let takes: [fn(&Tube) -> bool; 3] = [
            |tube| tube.try_take().unwrap().is_some(),
            |tube| !tube.take_many(2).unwrap().is_empty(),
            |tube| tube.peek_next(State::Ready).unwrap().is_some(),
        ];
        for take in takes {
            let (queue, [a, _b], clock) = two();
            queue.set_throttle("gpu", 1).unwrap();
            for _ in 0..2 {
                put(&a, |task| task.throttle("gpu").ttr(secs(60)));
            }
            let held = a.take().unwrap();
            assert!(a.try_take().unwrap().is_none());
            due(&queue);
            assert!(a.try_take().unwrap().is_none());
            clock.advance(secs(60));
            assert!(take(&a));
            drop(held);
        }
    }
}

/// Calls that wait for a task that could be taken are told of a slot that is left.
#[test]
fn a_slot_that_is_left_is_told_to_those_who_wait_for_ready_tasks() {
    let (queue, [a, b], _clock) = two();
    queue.set_throttle("gpu", 1).unwrap();
    [&a, &b].into_iter().for_each(|tube| _ = put(tube, |task| task.throttle("gpu")));
    let first = b.take().unwrap();
    assert!(a.try_take().unwrap().is_none());
    first.release().unwrap();
    let again = b.take().unwrap();
    let own = a.clone();
    let waits = std::thread::spawn(move || own.wait_ready(secs(1000)).unwrap());
    crate::until(|| queue.waiters().unwrap().len() == 1);
    again.ack().unwrap();
    assert!(waits.join().unwrap());
    a.take().unwrap().ack().unwrap();
}

/// A search finds the tasks that have a gate themselves, behind which other tasks of the tube do
/// not stand.
#[test]
fn a_search_finds_the_tasks_with_a_gate() {
    let (queue, [tube, _], _clock) = two();
    let paid = put(&tube, |task| task.require("paid").require("online"));
    let both = put(&tube, |task| task.require("paid").throttle("api"));
    put(&tube, |task| task.require("online"));
    put(&tube, |task| task.group("paid"));
    put(&tube, |task| task);
    let found = |filter: &Filter| {
        let page = tube.search(filter, None, 99).unwrap();
        page.tasks.iter().map(|task| task.id).collect::<Vec<_>>()
    };
    assert_eq!(found(&Filter::new().requires("paid")), [paid, both]);
    assert_eq!(found(&Filter::new().requires("paid").throttle("api")), [both]);
    assert_eq!(found(&Filter::new().throttle("paid")), []);
    assert_eq!(found(&Filter::new().group("paid")).len(), 1);
    assert!(tube.try_take().unwrap().is_some());
    let behind = queue.requiring("paid").collect::<tubewell::Result<Vec<_>>>().unwrap();
    assert_eq!(behind, [("a".to_owned(), 5)]);
}

#[test]
fn gates_that_are_refused() {
    let (queue, [a, _b], _clock) = two();
    let refused = |task: NewTask<'_>| kind(task.put());
    let task = || a.task(b"x");
    for name in ["", "a\nb", "a\u{1}b", &"n".repeat(255)] {
        assert_eq!(refused(task().require(name)), ErrorKind::Invalid);
        assert_eq!(refused(task().throttle(name)), ErrorKind::Invalid);
    }
    task().require(&"n".repeat(254)).put().unwrap();
    let names: Vec<String> = (0..17).map(|number| number.to_string()).collect();
    let required = |most: usize| names[..most].iter().fold(task(), |task, name| task.require(name));
    assert_eq!(refused(required(17)), ErrorKind::Invalid);
    required(16).put().unwrap();
    let throttled = |most: usize| names[..most].iter().fold(task(), |task, it| task.throttle(it));
    assert_eq!(refused(throttled(9)), ErrorKind::Invalid);
    throttled(8).put().unwrap().get();
    assert_eq!(refused(task().group("\u{1}online")), ErrorKind::Invalid);
    assert_eq!(kind(a.try_take_group("\u{1}online")), ErrorKind::Invalid);
    // A kind without groups has tasks with gates.
    let fifo = queue.create_tube("f", TubeOptions::new(TubeKind::Fifo)).unwrap();
    let id = fifo.task(b"x").require("online").put().unwrap();
    assert!(fifo.try_take().unwrap().is_none());
    fifo.copy_to(id, &fifo).unwrap();
    assert_eq!(kind(fifo.task(b"x").group("g").put()), ErrorKind::Unsupported);
    is_sound(&queue);
}
