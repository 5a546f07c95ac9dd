//! Tracked tasks: their ids stay tracked after they are gone, and their events are marked.

use crate::{close_sound, home, killed, kind, secs, still};
use std::sync::{Arc, Mutex};
use tubewell::{
    Cause, Conflict, ErrorKind, Event, EventFilter, Queue, State, Subscription, TaskId, Tube,
    TubeOptions,
};

fn tracked(queue: &Queue) -> Vec<(TaskId, bool)> {
    queue.tracked().map(|it| it.unwrap()).map(|it| (it.id, it.task.is_some())).collect()
}

fn sound(queue: &Queue) {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_task_is_tracked_until_it_is_untracked() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    let ids = [tube.put(b"a").unwrap(), other.put(b"b").unwrap(), memory.put(b"c").unwrap()];
    let before = tube.peek(ids[0]).unwrap().created;
    clock.advance(secs(5));
    for id in ids {
        assert_eq!((queue.track(id).unwrap(), queue.track(id).unwrap()), (true, false));
    }
    assert!(tube.peek(ids[0]).unwrap().tracked);
    assert!(!tube.peek(tube.put(b"d").unwrap()).unwrap().tracked);
    assert_eq!(tracked(&queue), ids.map(|id| (id, true)));
    let first = queue.tracked().next().unwrap().unwrap();
    assert_eq!(first.since, before + secs(5));
    assert_eq!(first.task.unwrap().tube, "t");
    sound(&queue);
    tube.delete(ids[0]).unwrap();
    queue.force_drop_tube("other").unwrap();
    queue.tick().unwrap();
    assert_eq!(tracked(&queue), [(ids[0], false), (ids[1], false), (ids[2], true)]);
    sound(&queue);
    assert_eq!(kind(queue.track(ids[0])), ErrorKind::TaskNotFound);
    assert_eq!(kind(queue.track(TaskId::new(99))), ErrorKind::TaskNotFound);
    for id in ids {
        assert_eq!((queue.untrack(id).unwrap(), queue.untrack(id).unwrap()), (true, false));
    }
    assert!(!queue.untrack(TaskId::new(99)).unwrap());
    assert_eq!(tracked(&queue), []);
    sound(&queue);
}

#[test]
fn ids_stay_tracked_after_a_kill() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let memory = queue.create_tube("m", TubeOptions::default().temporary(true)).unwrap();
    let ids = [tube.put(b"a").unwrap(), tube.put(b"b").unwrap(), memory.put(b"c").unwrap()];
    ids.iter().for_each(|id| assert!(queue.track(*id).unwrap()));
    tube.delete(ids[1]).unwrap();
    for checkpointed in [false, true] {
        if checkpointed {
            queue.checkpoint().unwrap();
        }
        let (_copy, copy) = killed(&path);
        let queue = still().0.open(&copy).unwrap();
        assert_eq!(tracked(&queue), [(ids[0], true), (ids[1], false), (ids[2], false)]);
        close_sound(queue);
    }
}

#[test]
fn so_many_are_tracked_at_a_time() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let ids = tube.put_many(vec![*b"x"; 10_001]).unwrap();
    for id in &ids[..10_000] {
        assert!(queue.track(*id).unwrap());
    }
    let full = queue.track(ids[10_000]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full);
    assert!(full.to_string().contains("10000 tasks are tracked; untrack one first"), "{full}");
    assert!(!queue.track(ids[0]).unwrap(), "it is tracked");
    tube.delete(ids[0]).unwrap();
    assert_eq!(queue.track(ids[10_000]).unwrap_err().kind(), ErrorKind::Full, "a gone one counts");
    assert!(queue.untrack(ids[0]).unwrap() && queue.track(ids[10_000]).unwrap());
    assert_eq!(queue.tracked().count(), 10_000);
}

type Seen = Arc<Mutex<Vec<(u64, Cause, bool)>>>;

/// What a subscription of this filter gets at the queue's ticks.
fn subscribed(queue: &Queue, filter: EventFilter) -> (Subscription, Seen) {
    let seen = Seen::default();
    let to = seen.clone();
    let push = move |event: &Event| {
        let id = event.task.map_or(0, |id| id.get());
        to.lock().unwrap().push((id, event.cause, event.is_tracked()));
    };
    (queue.on_event(filter, push).unwrap(), seen)
}

/// Of the seed: put, popped, completed, failed, canceled and stalled of tracked tasks, track and
/// untrack. On one stream each is one event, so the tracked one and the one of the log are the
/// same, in commit order.
#[test]
fn a_subscription_gets_the_events_of_tracked_tasks_alone_in_their_order() {
    let (builder, clock) = still();
    let queue = builder.by_hand(true).in_memory().unwrap();
    let lapse = tubewell::Lapse::new().grace(secs(5));
    let options = TubeOptions::default().ttr(secs(10)).lapse(lapse).max_attempts(1);
    let tube = queue.create_tube("t", options).unwrap();
    let (_watch, seen) = subscribed(&queue, EventFilter::new().tracked());
    let (_all, all) = subscribed(&queue, EventFilter::new().tasks_only());
    let put = |key: &str| tube.task(b"x").key(key).put().unwrap();
    let (done, plain, cancelled, stalled) = (put("a"), put("b"), put("c"), put("d"));
    for id in [done, cancelled, stalled] {
        queue.track(id).unwrap();
    }
    let task = tube.take().unwrap();
    assert_eq!(task.id(), done);
    // A put again of a task in hand: the put, and the lease is lost with it.
    tube.task(b"y").key("a").on_conflict(Conflict::Replace).put().unwrap();
    drop(task);
    tube.take().unwrap().ack().unwrap();
    assert_eq!(tube.peek(plain).unwrap_err().kind(), ErrorKind::TaskNotFound);
    let held = tube.take().unwrap();
    assert_eq!(held.id(), cancelled);
    tube.delete(cancelled).unwrap();
    drop(held);
    let held = tube.take().unwrap();
    clock.advance(secs(10));
    queue.tick().unwrap();
    clock.advance(secs(5));
    queue.tick().unwrap();
    drop(held);
    queue.untrack(stalled).unwrap();
    tube.delete(stalled).unwrap();
    tube.complete_by_id(done).unwrap();
    queue.untrack(done).unwrap(); // gone: no event
    queue.tick().unwrap();
    let events = seen.lock().unwrap().clone();
    let of = |id: TaskId, cause| (id.get(), cause, true);
    use Cause::{Ack, Delete, Put, Stall, Take, Track, Ttr, Untrack};
    assert_eq!(
        events,
        [
            of(done, Track),
            of(cancelled, Track),
            of(stalled, Track),
            of(done, Take),
            of(done, Put),
            of(cancelled, Take),
            of(cancelled, Delete),
            of(stalled, Take),
            of(stalled, Stall),
            of(stalled, Ttr),
            of(stalled, Untrack),
            of(done, Ack),
        ]
    );
    let all: Vec<_> = all.lock().unwrap().iter().copied().filter(|event| event.2).collect();
    assert_eq!(all, events, "one stream");
}

/// A finished task in whose place a new one is put ends, and so does a task that moves.
#[test]
fn the_last_event_of_a_replaced_task_is_marked() {
    let queue = still().0.by_hand(true).in_memory().unwrap();
    let kept = tubewell::Retention::new().count(10);
    let tube = queue.create_tube("t", TubeOptions::default().keep_finished(kept)).unwrap();
    let put = || tube.task(b"x").key("k").on_conflict(Conflict::Replace).put().unwrap();
    let first = put();
    queue.track(first).unwrap();
    tube.take().unwrap().ack().unwrap();
    let (_watch, seen) = subscribed(&queue, EventFilter::new().tracked());
    let second = put();
    assert_ne!(first, second);
    queue.tick().unwrap();
    assert_eq!(*seen.lock().unwrap(), [(first.get(), Cause::Delete, true)]);
    assert!(!tube.peek(second).unwrap().tracked);
    let _: State = tube.peek(second).unwrap().state;
}

#[test]
fn a_moved_task_stays_tracked() {
    let queue = still().0.by_hand(true).in_memory().unwrap();
    let tubes: [Tube; 2] = ["a", "b"].map(|name| queue.tube(name).unwrap());
    let id = tubes[0].put(b"x").unwrap();
    queue.track(id).unwrap();
    let (_watch, seen) = subscribed(&queue, EventFilter::new().tracked());
    tubes[0].take().unwrap().advance(&tubes[1]).unwrap();
    assert!(tubes[1].peek(id).unwrap().tracked);
    assert!(queue.untrack(id).unwrap());
    queue.tick().unwrap();
    let causes: Vec<_> = seen.lock().unwrap().iter().map(|event| event.1).collect();
    assert_eq!(causes, [Cause::Take, Cause::Advance, Cause::Move, Cause::Untrack]);
    sound(&queue);
}
