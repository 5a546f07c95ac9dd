//! Tasks by their ids, without a lease: completed, failed and deleted.

use crate::{drain, is_gone, kind, last_error, lone, lone_with, secs, still};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};
use tubewell::{
    Cause, Clock, ErrorKind, Event, Reason, Result, Retention, State, TaskId, Tube, TubeOptions,
};

/// A task in each state but Buried.
fn unfinished(tube: &Tube) -> [TaskId; 3] {
    let taken = tube.put(b"taken").unwrap();
    tube.claim(taken).unwrap().detach();
    let delayed = tube.task(b"delayed").delay(secs(100)).put().unwrap();
    let ready = tube.put(b"ready").unwrap();
    [taken, delayed, ready]
}

#[test]
fn a_task_that_is_queued_or_taken_is_completed() {
    let (tube, _) = lone();
    for id in unfinished(&tube) {
        assert!(tube.complete_by_id(id).unwrap());
        assert!(is_gone(&tube, id));
        assert!(!tube.complete_by_id(id).unwrap());
    }
    let stats = tube.stats().unwrap();
    assert_eq!((stats.calls.ack, stats.done, stats.total), (3, 3, 0));
}

/// A worker whose lease has lapsed may still say that the work is done, and the next holder has
/// lost its lease then.
#[test]
fn a_task_is_completed_after_its_lease_has_lapsed() {
    let (tube, clock) = lone_with(TubeOptions::default().ttr(secs(5)));
    tube.put(b"a").unwrap();
    let late = tube.take().unwrap();
    clock.advance(secs(5));
    let second = tube.take().unwrap();
    assert_eq!(second.id(), late.id());
    assert!(tube.complete_by_id(late.id()).unwrap());
    assert!(late.ack().unwrap_err().is_lease_lost());
    assert!(second.ack().unwrap_err().is_lease_lost());
    assert!(tube.is_empty().unwrap());
}

#[test]
fn of_all_who_complete_a_task_at_once_one_is_told_so() {
    let (tube, _) = lone();
    for _ in 0..50 {
        let id = tube.put(b"a").unwrap();
        let task = tube.take().unwrap();
        let said: Vec<bool> = thread::scope(|scope| {
            let by_id = || tube.complete_by_id(id).unwrap();
            let callers: Vec<_> = (0..3).map(|_| scope.spawn(by_id)).collect();
            let holder = scope.spawn(|| match task.ack() {
                Err(error) => !error.is_lease_lost(),
                Ok(()) => true,
            });
            callers.into_iter().chain([holder]).map(|caller| caller.join().unwrap()).collect()
        });
        assert_eq!(said.iter().filter(|done| **done).count(), 1, "{said:?}");
    }
    assert_eq!(tube.stats().unwrap().calls.ack, 50);
}

#[test]
fn a_task_is_failed_from_each_state_and_its_holder_loses_it() {
    let (tube, _) = lone();
    for (at, id) in unfinished(&tube).into_iter().enumerate() {
        assert!(tube.fail_by_id(id, "address", format!("street {at}")).unwrap());
        let task = tube.peek(id).unwrap();
        let (group, message) = ("address".into(), format!("street {at}"));
        assert_eq!(last_error(&task), Some(&*message));
        assert_eq!(task.reason, Some(Reason::Failed { group, message }));
        assert_eq!((task.state, task.buries, task.due), (State::Buried, 1, None));
    }
    let taken = tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    assert!(tube.fail_by_id(taken, "address", "").unwrap());
    assert!(task.ack().unwrap_err().is_lease_lost());
    assert!(!tube.fail_by_id(TaskId::new(9_999_999), "address", "").unwrap());
}

/// What became of a buried task is decided; a kick makes it open again.
#[test]
fn a_buried_task_is_neither_completed_nor_failed() {
    let (tube, _) = lone();
    let id = tube.put(b"a").unwrap();
    tube.bury(id, "first").unwrap();
    assert_eq!(kind(tube.complete_by_id(id)), ErrorKind::WrongState);
    assert_eq!(kind(tube.fail_by_id(id, "g", "second")), ErrorKind::WrongState);
    let text = tube.complete_by_id(id).unwrap_err().to_string();
    assert!(text.starts_with(&format!("complete task {id} in tube \"lone\": ")), "{text}");
    assert!(text.contains("kick it first"), "{text}");
    assert_eq!(tube.peek(id).unwrap().reason, Some(Reason::Buried("first".into())));
    tube.kick_task(id).unwrap();
    assert!(tube.complete_by_id(id).unwrap());
}

#[test]
fn completing_a_task_opens_its_group() {
    let (tube, _) = lone();
    let first = tube.task(b"first").group("g").put().unwrap();
    tube.task(b"second").group("g").put().unwrap();
    tube.take().unwrap().detach();
    assert!(tube.try_take().unwrap().is_none());
    assert!(tube.complete_by_id(first).unwrap());
    assert_eq!(&tube.take().unwrap()[..], b"second");
}

#[test]
fn its_events_are_an_ack_and_a_bury() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let (one, two) = (tube.put(b"a").unwrap(), tube.put(b"b").unwrap());
    let events = queue.events();
    tube.complete_by_id(one).unwrap();
    tube.fail_by_id(two, "g", "no").unwrap();
    let step = |event: Event| (event.task, event.from, event.to, event.cause);
    let seen: Vec<_> = std::iter::from_fn(|| events.try_recv()).map(step).collect();
    let (ready, buried) = (Some(State::Ready), Some(State::Buried));
    assert_eq!(
        seen,
        [(Some(one), ready, None, Cause::Ack), (Some(two), ready, buried, Cause::Bury)]
    );
}

#[test]
fn tasks_are_deleted_together_and_missing_ones_are_stepped_over() {
    let queue = still().0.in_memory().unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
    let [taken, delayed, ready] = unfinished(&tube);
    let buried = tube.put(b"buried").unwrap();
    tube.bury(buried, "").unwrap();
    let (kept, foreign) = (tube.put(b"kept").unwrap(), other.put(b"foreign").unwrap());
    let never = TaskId::new(9_999_999);
    let ids = [buried, never, taken, foreign, delayed, taken, ready];
    assert_eq!(tube.delete_many(&ids).unwrap(), 4);
    assert_eq!(tube.delete_many(&ids).unwrap(), 0);
    assert_eq!(tube.delete_many(&[]).unwrap(), 0);
    assert_eq!(tube.stats().unwrap().calls.delete, 4);
    assert_eq!((tube.peek(kept).unwrap().id, drain(&other)), (kept, "foreign".into()));
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// More than one step takes.
#[test]
fn many_tasks_are_deleted_in_one_call() {
    let (tube, _) = lone();
    let put = tube.put_all((0..70_000_u32).map(|number| number.to_be_bytes())).unwrap();
    let ids: Vec<_> = (1..=put + 1).map(TaskId::new).collect();
    assert_eq!(tube.delete_many(&ids).unwrap(), put);
    assert!(tube.is_empty().unwrap());
}

/// Every verb that is given an id.
fn by_id(tube: &Tube, id: TaskId) -> Vec<(&'static str, Result<()>)> {
    let was_not = |done: Result<bool>| done.map(|done| assert!(!done));
    vec![
        ("peek", tube.peek(id).map(drop)),
        ("claim", tube.claim(id).map(drop)),
        ("kick", tube.kick_task(id)),
        ("bury", tube.bury(id, "")),
        ("delete", tube.delete(id)),
        ("delete", tube.force_delete(id)),
        ("delete", tube.delete_only_if(id, &[State::Ready])),
        ("update", tube.update(id).priority(1).apply()),
        ("move", tube.move_to(id, tube).apply()),
        ("copy", tube.copy_to(id, tube).map(drop)),
        ("trash", tube.trash(id, "no")),
        ("restore", tube.restore(id)),
        ("log", tube.log(id, "line")),
        ("tag", tube.tag(id, ["a"]).map(drop)),
        ("untag", tube.untag(id, ["a"]).map(drop)),
        ("depend", tube.depend(id, [TaskId::new(1)])),
        ("undepend", tube.undepend(id, [TaskId::new(1)])),
        ("undepend", tube.undepend_all(id)),
        ("read the history", tube.history(id).map(drop)),
        ("read the checkpoint", tube.last_checkpoint(id).map(drop)),
        ("complete", was_not(tube.complete_by_id(id))),
        ("complete", was_not(tube.complete_by_id_with(id, b"r"))),
        ("fail", was_not(tube.fail_by_id(id, "g", "no"))),
    ]
}

#[test]
fn a_task_of_another_tube_is_refused_with_the_name_of_that_tube() {
    let queue = still().0.in_memory().unwrap();
    for number in 0..100 {
        let options = TubeOptions::default().keep_finished(Retention::new());
        queue.create_tube(&format!("tube {number}"), options).unwrap().put(b"x").unwrap();
    }
    let (tube, home) = (queue.tube("tube 3").unwrap(), queue.tube("tube 77").unwrap());
    let id = home.put(b"a").unwrap();
    home.claim(id).unwrap().detach();
    for (verb, refused) in by_id(&tube, id) {
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), error.is_not_found()), (ErrorKind::WrongTube, true));
        let text = error.to_string();
        let begin = format!("{verb} task {id} in tube \"tube 3\": ");
        assert!(text.starts_with(&begin) && text.contains("in tube \"tube 77\""), "{text}");
    }
    assert_eq!(home.peek(id).unwrap().state, State::Taken, "nothing happened");
    home.delete(id).unwrap();
    for (verb, refused) in by_id(&tube, id) {
        match verb {
            "complete" | "fail" => refused.unwrap(),
            _ => assert_eq!(kind(refused), ErrorKind::TaskNotFound, "{verb}"),
        }
    }
}

#[test]
fn tasks_of_many_tubes_are_found_and_missing_ones_left_out() {
    let queue = still().0.in_memory().unwrap();
    let tubes: Vec<_> =
        (0..70).map(|number| queue.tube(&format!("tube {number}")).unwrap()).collect();
    let mut ids: Vec<_> =
        tubes.iter().map(|tube| tube.put(tube.name().as_bytes()).unwrap()).collect();
    ids.push(ids[3]);
    ids.insert(5, TaskId::new(9_999_999));
    tubes[10].delete(ids[11]).unwrap();
    queue.force_drop_tube("tube 20").unwrap();
    let found: Vec<_> = queue.find_many(ids.clone()).collect::<Result<_>>().unwrap();
    let expected: Vec<_> = (0..70).filter(|number| ![10, 20].contains(number)).chain([3]).collect();
    assert_eq!(found.len(), expected.len());
    for (task, number) in found.iter().zip(expected) {
        let name = format!("tube {number}");
        assert_eq!((&*task.tube, &task.payload[..]), (&*name, name.as_bytes()));
    }
    queue.close().unwrap();
    assert_eq!(queue.find_many(ids).next().unwrap().unwrap_err().kind(), ErrorKind::Closed);
}

/// Counts how often it is read: at least once for each look into the queue.
struct Counting(Arc<AtomicUsize>);

impl Clock for Counting {
    fn monotonic(&self) -> Duration {
        self.0.fetch_add(1, Ordering::Relaxed);
        secs(1)
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH
    }
}

#[test]
fn every_call_about_a_task_begins_where_the_last_one_was_found() {
    let reads = Arc::new(AtomicUsize::new(0));
    let queue = still().0.clock(Counting(reads.clone())).in_memory().unwrap();
    let tubes: Vec<Tube> = (0..1000).map(|at| queue.tube(&at.to_string()).unwrap()).collect();
    for tube in &tubes {
        tube.put(b"beside").unwrap();
    }
    let ids = tubes[990].put_many([&b"a"[..]; 9]).unwrap();
    let count = |call: &dyn Fn()| {
        let before = reads.load(Ordering::Relaxed);
        call();
        reads.load(Ordering::Relaxed) - before
    };
    let searched = count(&|| _ = queue.explain(ids[0]).unwrap());
    assert!(searched > 20, "{searched} looks");
    let calls: [&dyn Fn(); 6] = [
        &|| _ = queue.explain(ids[1]).unwrap(),
        &|| _ = queue.find(ids[2]).unwrap(),
        &|| _ = queue.history(ids[3]).unwrap(),
        &|| _ = queue.wait_for(ids[4], Duration::ZERO).unwrap(),
        &|| assert_eq!(kind(tubes[5].peek(ids[5])), ErrorKind::WrongTube),
        &|| assert_eq!(queue.find_many([ids[6], ids[7]]).count(), 2),
    ];
    for (at, call) in calls.into_iter().enumerate() {
        let looks = count(call);
        assert!(looks < searched / 2, "call {at}: {looks} looks, a search has {searched}");
    }
}
