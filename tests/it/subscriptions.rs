//! Callbacks on the events that a filter passes: what reaches them, and in which order.

mod ends;

use crate::{secs, still};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use tubewell::{Cause, Event, EventFilter, Queue, State, Subscription, TaskId, Tube};

const ALL: EventFilter = EventFilter::new();

/// A queue without threads, with one tube.
fn lone() -> (Queue, Tube) {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube)
}

/// Subscribes. What the filter passes is received with its payload.
fn subscribe(queue: &Queue, filter: EventFilter) -> (Subscription, Receiver<Event>) {
    let (reported, received) = channel();
    let report = move |event: &Event| drop(reported.send(event.clone()));
    (queue.on_event(filter, report).unwrap(), received)
}

fn causes(received: &Receiver<Event>) -> Vec<Cause> {
    received.try_iter().map(|event| event.cause).collect()
}

/// Steps of all kinds in four tubes. Returns the tasks, in the order of their puts.
fn act(queue: &Queue) -> Vec<TaskId> {
    let mut ids = Vec::new();
    for name in ["other", "shop", "shop:a", "shop:b"] {
        let tube = queue.tube(name).unwrap();
        ids.extend([tube.put(b"a").unwrap(), tube.put(b"b").unwrap(), tube.put(b"c").unwrap()]);
        tube.take().unwrap().ack().unwrap();
        let task = tube.take().unwrap();
        task.touch(secs(1)).unwrap();
        task.bury("no").unwrap();
        tube.kick(1).unwrap();
        tube.take().unwrap().retry_after("no", secs(9)).unwrap();
        tube.pause().unwrap();
    }
    ids
}

#[test]
fn a_filter_passes_what_meets_each_of_its_criteria() {
    type Meets = fn(&Event, TaskId) -> bool;
    type Made = fn(TaskId) -> EventFilter;
    let cases: &[(Made, Meets)] = &[
        (|_| ALL, |_, _| true),
        (|_| ALL.tasks_only(), |it, _| it.task.is_some()),
        (|_| ALL.tube("shop"), |it, _| &*it.tube == "shop"),
        (|_| ALL.tube("shop").tube("other"), |it, _| ["shop", "other"].contains(&&*it.tube)),
        (|_| ALL.tubes_under("shop:"), |it, _| it.tube.starts_with("shop:")),
        (|_| ALL.tubes_under(""), |_, _| true),
        (
            |_| ALL.tubes_under("shop:b").tubes_under("oth").tube("shop"),
            |it, _| &*it.tube != "shop:a",
        ),
        (|_| ALL.cause(Cause::Pause), |it, _| it.cause == Cause::Pause),
        (
            |_| ALL.cause(Cause::Ack).cause(Cause::Retry),
            |it, _| [Cause::Ack, Cause::Retry].contains(&it.cause),
        ),
        (|id| ALL.task(id), |it, id| it.task == Some(id)),
        (
            |id| ALL.task(id).task(TaskId::new(1)),
            |it, id| [Some(id), Some(TaskId::new(1))].contains(&it.task),
        ),
        (|_| ALL.from(State::Taken), |it, _| it.from == Some(State::Taken)),
        (|_| ALL.to(State::Buried), |it, _| it.to == Some(State::Buried)),
        (
            |_| ALL.to(State::Buried).to(State::Ready),
            |it, _| [Some(State::Buried), Some(State::Ready)].contains(&it.to),
        ),
        (
            |id| ALL.task(id).tube("shop:a").from(State::Ready).to(State::Taken),
            |it, id| it.task == Some(id) && it.cause == Cause::Take,
        ),
    ];
    let queue = still().0.in_memory().unwrap();
    // The second task of "shop:a".
    let id = TaskId::new(8);
    let events = queue.events();
    let subscribed: Vec<_> = cases.iter().map(|(made, _)| subscribe(&queue, made(id))).collect();
    assert_eq!(act(&queue)[7], id);
    queue.tick().unwrap();
    let all: Vec<Event> = std::iter::from_fn(|| events.try_recv()).collect();
    for (at, ((_, received), (_, meets))) in subscribed.iter().zip(cases).enumerate() {
        let passed: Vec<Event> = received.try_iter().collect();
        let expected: Vec<Event> = all.iter().filter(|it| meets(it, id)).cloned().collect();
        assert!(!expected.is_empty());
        assert_eq!(passed, expected, "case {at}");
    }
}

#[test]
fn a_filter_that_no_event_meets_passes_none() {
    let queue = still().0.in_memory().unwrap();
    let none = [
        ALL.tube("shop").task(TaskId::new(1)),
        ALL.tube("none"),
        ALL.tubes_under("none"),
        ALL.task(TaskId::new(99)),
        ALL.cause(Cause::Pause).tasks_only(),
        ALL.from(State::Ready).to(State::Ready),
    ];
    let subscribed = none.map(|filter| subscribe(&queue, filter));
    act(&queue);
    queue.tick().unwrap();
    assert!(subscribed.iter().all(|(_, received)| causes(received).is_empty()));
}

#[test]
fn only_those_that_asked_get_payloads() {
    let (queue, tube) = lone();
    let other = queue.tube("other").unwrap();
    let (_plain, plain) = subscribe(&queue, ALL.tasks_only());
    let (_whole, whole) = subscribe(&queue, ALL.tube("t").cause(Cause::Ack).payloads());
    for tube in [&tube, &other] {
        tube.put(b"a").unwrap();
        tube.take().unwrap().ack().unwrap();
    }
    queue.tick().unwrap();
    let whole: Vec<Event> = whole.try_iter().collect();
    assert_eq!(whole.iter().map(Event::payload).collect::<Vec<_>>(), [Some(&b"a"[..])]);
    let plain: Vec<Event> = plain.try_iter().collect();
    assert_eq!(plain.len(), 6);
    assert!(plain.iter().all(|event| event.payload().is_none()));
}

/// A payload is read for an event that no callback with payloads receives, but not kept.
#[test]
fn a_payload_counts_as_kept_only_in_what_is_received() {
    const BYTES: usize = 1 << 20;
    let (queue, tube) = lone();
    let (_whole, whole) = subscribe(&queue, ALL.cause(Cause::Ack).payloads());
    let (_plain, plain) = subscribe(&queue, ALL.cause(Cause::Put));
    for _ in 0..70 {
        tube.put(&vec![7; BYTES]).unwrap();
        tube.delete(tube.peek_next(State::Ready).unwrap().unwrap().id).unwrap();
    }
    queue.tick().unwrap();
    assert_eq!((causes(&plain).len(), causes(&whole).len()), (70, 0));
    assert_eq!(queue.callbacks_dropped(), 0);
}

#[test]
fn an_event_reaches_the_callbacks_in_the_order_of_their_registration() {
    let (queue, tube) = lone();
    let (reported, received) = channel();
    let report = |name: &'static str| {
        let reported = reported.clone();
        move |_: &Event| reported.send(name).unwrap()
    };
    let filters = [ALL, ALL.tube("t"), ALL.tubes_under("t"), ALL.tube("t").tube("u")];
    let names = ["first", "second", "third", "fourth"];
    let mut subscribed = Vec::new();
    for (name, filter) in names.into_iter().zip(filters) {
        subscribed.push(queue.on_event(filter, report(name)).unwrap());
        if name == "second" {
            tube.on_task_change(Some(report("tube"))).unwrap();
        }
    }
    let round = || {
        tube.put(b"a").unwrap();
        queue.tick().unwrap();
        received.try_iter().collect::<Vec<_>>()
    };
    assert_eq!(round(), ["first", "second", "tube", "third", "fourth"]);
    // What replaces a tube's callback has its place.
    tube.on_task_change(Some(report("again"))).unwrap();
    drop(subscribed.remove(0));
    assert_eq!(round(), ["second", "again", "third", "fourth"]);
    tube.set_callback(None).unwrap();
    tube.on_task_change(Some(report("last"))).unwrap();
    assert_eq!(round(), ["second", "third", "fourth", "last"]);
}

#[test]
fn the_same_registered_twice_is_called_twice() {
    let (queue, tube) = lone();
    let (reported, received) = channel();
    let report = move |_: &Event| reported.send(()).unwrap();
    let first = queue.on_event(ALL, report.clone()).unwrap();
    let second = queue.on_event(ALL, report).unwrap();
    let put = || {
        tube.put(b"a").unwrap();
        queue.tick().unwrap();
        received.try_iter().count()
    };
    assert_eq!(put(), 2);
    drop(first);
    assert_eq!(put(), 1);
    drop(second);
    assert_eq!(put(), 0);
}

#[test]
fn a_tubes_own_callback_and_a_subscription_to_its_tasks_do_not_replace_each_other() {
    let (queue, tube) = lone();
    let (_own, received) = subscribe(&queue, ALL.tube("t").tasks_only());
    assert!(tube.on_task_change(Some(|_: &Event| ())).unwrap().is_none());
    assert!(tube.set_callback(None).unwrap().is_some());
    assert!(tube.set_callback(None).unwrap().is_none());
    tube.put(b"a").unwrap();
    queue.tick().unwrap();
    assert_eq!(causes(&received), [Cause::Put]);
}

#[test]
fn a_queue_opened_by_hand_calls_in_its_tick() {
    let (queue, tube) = lone();
    let (_own, received) = subscribe(&queue, ALL);
    tube.put(b"a").unwrap();
    tube.pause().unwrap();
    assert_eq!(causes(&received), []);
    queue.tick().unwrap();
    assert_eq!(causes(&received), [Cause::Put, Cause::Pause]);
}

/// The events of every tube, while several threads work.
#[test]
fn the_thread_of_the_callbacks_calls_in_commit_order() {
    let queue = Queue::in_memory().unwrap();
    let events = queue.events();
    let (_own, received) = subscribe(&queue, ALL);
    thread::scope(|threads| {
        for name in ["a", "b", "c"] {
            let queue = &queue;
            threads.spawn(move || {
                let tube = queue.tube(name).unwrap();
                for _ in 0..50 {
                    tube.put(b"a").unwrap();
                    tube.take().unwrap().ack().unwrap();
                }
            });
        }
    });
    let whole = 3 * (1 + 3 * 50);
    let told: Vec<Event> = received.iter().take(whole).collect();
    assert_eq!(told, events.take(whole).collect::<Vec<_>>());
    assert!(told.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1));
}

/// Also the events that wait for a slow callback are from before.
#[test]
fn a_subscription_begins_with_its_registration() {
    let (queue, tube) = lone();
    let (_early, early) = subscribe(&queue, ALL);
    tube.put(b"a").unwrap();
    let (_late, late) = subscribe(&queue, ALL);
    tube.take().unwrap().detach();
    queue.tick().unwrap();
    assert_eq!(causes(&early), [Cause::Put, Cause::Take]);
    assert_eq!(causes(&late), [Cause::Take]);
}

/// The stream of the last callback ends with it, and the events that waited in it with it.
#[test]
fn a_subscription_after_the_last_one_receives_nothing_of_it() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let ((entered, has_entered), (go_on, gone_on)) = (channel(), channel());
    let gone_on = Mutex::new(gone_on);
    let slow = queue.on_event(ALL, move |_| {
        entered.send(()).unwrap();
        let () = gone_on.lock().unwrap().recv().unwrap();
    });
    tube.put(b"a").unwrap();
    has_entered.recv().unwrap();
    tube.put(b"b").unwrap();
    drop(slow);
    let (_own, received) = subscribe(&queue, ALL);
    go_on.send(()).unwrap();
    tube.take().unwrap().detach();
    assert_eq!(received.recv().unwrap().cause, Cause::Take);
    assert!(has_entered.recv().is_err(), "the slow one was not called again");
}

#[test]
fn what_no_filter_passes_is_not_kept() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let ((entered, has_entered), (go_on, gone_on)) = (channel(), channel());
    let gone_on = Mutex::new(gone_on);
    let _slow = queue.on_event(ALL.cause(Cause::Take).cause(Cause::Ack), move |event| {
        entered.send(event.cause).unwrap();
        let () = gone_on.lock().unwrap().recv().unwrap();
    });
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    assert_eq!(has_entered.recv(), Ok(Cause::Take));
    task.ack().unwrap();
    tube.put_many(vec![b"a".to_vec(); 65_536]).unwrap();
    assert_eq!(queue.callbacks_dropped(), 0);
    (0..2).for_each(|_| go_on.send(()).unwrap());
    assert_eq!(has_entered.recv(), Ok(Cause::Ack));
}

/// Regression: a tick in a callback of a queue without threads called the callbacks for the later
/// events in the middle of an earlier one, as deep as events waited.
#[test]
fn a_tick_in_a_callback_leaves_the_events_in_their_order() {
    let (queue, tube) = lone();
    let handle = queue.clone();
    let ticks = move |_: &Event| handle.tick().unwrap();
    let _ticks = queue.on_event(ALL.cause(Cause::Put), ticks).unwrap();
    let (_later, received) = subscribe(&queue, ALL.cause(Cause::Put));
    let ids = tube.put_many(vec![*b"x"; 10_000]).unwrap();
    queue.tick().unwrap();
    let seen: Vec<_> = received.try_iter().map(|event| event.task.unwrap()).collect();
    assert_eq!(seen, ids);
    // The callback has captured a handle.
    queue.close().unwrap();
}
