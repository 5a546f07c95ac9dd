//! Finished tasks that their tubes keep: results, retention of finished and of buried tasks, and
//! the wait for the end of a task.

use crate::{close_sound, home, killed, kind, secs, still};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tubewell::{
    Advance, Cause, Ended, ErrorKind, EventFilter, ManualClock, Queue, Retention, State, Stop,
    TaskId, Tube, TubeOptions,
};

const ALL: Retention = Retention::new();

fn keeping(kept: Retention) -> TubeOptions {
    TubeOptions::default().keep_finished(kept)
}

fn put(tube: &Tube, payload: &str) -> TaskId {
    tube.put(payload.as_bytes()).unwrap()
}

fn finish(tube: &Tube, payload: &str) -> TaskId {
    let id = put(tube, payload);
    let task = tube.claim(id).unwrap();
    task.ack_with(payload.as_bytes()).unwrap();
    id
}

fn newest(tube: &Tube) -> Vec<TaskId> {
    tube.finished().map(|task| task.unwrap().id).collect()
}

/// A queue in memory with one tube.
fn alone(options: TubeOptions) -> (Queue, Tube) {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.create_tube("t", options).unwrap();
    (queue, tube)
}

#[test]
fn a_finished_task_is_kept_whole_with_its_result_and_over_a_reopening() {
    let (_folder, path) = home();
    let clock = ManualClock::new();
    let open = || Queue::builder().clock(clock.clone()).by_hand(true).open(&path).unwrap();
    let queue = open();
    let tube = queue.create_tube("t", keeping(ALL)).unwrap();
    let task = tube.task(b"sum").kind("add").priority(3).group("g").key("k");
    let id = task.ttl(secs(60)).put().unwrap();
    tube.take().unwrap().retry_after("at first", secs(0)).unwrap();
    clock.advance(secs(1));
    tube.take().unwrap().ack_with(b"42").unwrap();
    let large = tube.put(&vec![7; 100_000]).unwrap();
    tube.take().unwrap().ack().unwrap();
    queue.close().unwrap();

    clock.advance(secs(600));
    let queue = open();
    let tube = queue.tube("t").unwrap();
    let done = tube.peek(id).unwrap();
    assert_eq!((done.state, done.result.as_deref()), (State::Done, Some(&b"42"[..])));
    assert_eq!((&done.payload[..], done.kind.as_deref()), (&b"sum"[..], Some("add")));
    assert_eq!((done.group.as_deref(), done.key.as_deref()), (Some("g"), Some("k")));
    assert_eq!((done.deliveries, done.attempts, done.priority), (2, 2, 3));
    assert_eq!(done.finished, Some(done.created + secs(1)));
    assert_eq!((&done.last_failure, done.ttl_left), (&None, None), "its ttl ended with it");
    let done = tube.peek(large).unwrap();
    assert_eq!((done.payload.len(), done.result.as_deref()), (100_000, None));
    let stats = tube.stats().unwrap();
    assert_eq!((stats.finished, stats.total, stats.ready), (2, 0, 0));
    assert!(tube.is_empty().unwrap());
    assert_eq!(newest(&tube), [large, id]);
    assert_eq!(tube.tasks(State::Done).count(), 2);
    assert_eq!(queue.explain(id).unwrap().to_string().matches("finished").count(), 1);

    tube.delete(id).unwrap();
    assert_eq!(tube.truncate().unwrap(), 1);
    assert_eq!(tube.stats().unwrap().finished, 0);
    close_sound(queue);
}

#[test]
fn a_finished_task_frees_its_key_its_group_and_its_place() {
    let (queue, tube) = alone(keeping(ALL).capacity(1));
    let first = tube.task(b"a").key("k").group("g").put().unwrap();
    assert_eq!(kind(tube.put(b"b")), ErrorKind::Full);
    thread::scope(|scope| {
        let put = || tube.task(b"b").group("g").wait_for_room(Duration::MAX).put();
        let waits = scope.spawn(put);
        while queue.waiters().unwrap().is_empty() {
            thread::yield_now();
        }
        tube.take().unwrap().ack().unwrap();
        waits.join().unwrap().unwrap();
    });
    tube.take().unwrap().ack().unwrap();
    assert_ne!(tube.task(b"b").key("k").put().unwrap(), first);
    assert_eq!(&tube.take().unwrap()[..], b"b");
    assert_eq!(tube.stats().unwrap().finished, 2);
    close_sound(queue);
}

#[test]
fn a_finished_task_can_only_be_deleted() {
    let (queue, tube) = alone(keeping(ALL));
    let id = finish(&tube, "a");
    let other = queue.tube("other").unwrap();
    let wrong = ErrorKind::WrongState;
    assert_eq!(kind(tube.bury(id, "x")), wrong);
    assert_eq!(kind(tube.kick_task(id)), wrong);
    assert!(!tube.complete_by_id(id).unwrap());
    assert!(!tube.complete_by_id_with(id, b"late").unwrap());
    assert_eq!(kind(tube.fail_by_id(id, "g", "m")), wrong);
    assert_eq!(kind(tube.update(id).priority(1).apply()), wrong);
    assert_eq!(kind(tube.move_to(id, &other).apply()), wrong);
    assert_eq!(kind(tube.claim(id)), wrong);
    assert_eq!(kind(tube.delete_only_if(id, &[State::Ready])), wrong);
    assert_eq!(tube.peek(id).unwrap().state, State::Done);
    tube.delete_only_if(id, &[State::Done]).unwrap();
    assert_eq!(kind(tube.peek(id)), ErrorKind::TaskNotFound);
    close_sound(queue);
}

#[test]
fn a_task_is_completed_once_by_its_id_and_its_ticket_is_lost() {
    let (queue, tube) = alone(keeping(ALL));
    let id = put(&tube, "a");
    let task = tube.take().unwrap();
    let ticket = task.ticket();
    let wins = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let done = tube.complete_by_id_with(id, b"r").unwrap();
                wins.fetch_add(usize::from(done), Ordering::Relaxed);
            });
        }
    });
    assert_eq!(wins.into_inner(), 1);
    assert_eq!(kind(task.ack_with(b"late")), ErrorKind::LeaseLost);
    assert_eq!(kind(tube.ticket(ticket).ack()), ErrorKind::LeaseLost);
    assert_eq!(tube.peek(id).unwrap().result.as_deref(), Some(&b"r"[..]));
    close_sound(queue);
}

#[test]
fn a_result_is_refused_where_it_is_not_kept_or_too_long_and_the_task_returns() {
    let (queue, tube) = alone(TubeOptions::default());
    let id = put(&tube, "a");
    assert_eq!(kind(tube.complete_by_id_with(id, b"r")), ErrorKind::Unsupported);
    assert_eq!(kind(tube.take().unwrap().ack_with(b"r")), ErrorKind::Unsupported);
    let task = tube.take().unwrap();
    assert_eq!(task.attempt(), 2, "the guard has returned it");
    task.ack().unwrap();
    let kept = queue.create_tube("kept", keeping(ALL)).unwrap();
    let id = put(&kept, "a");
    let limit = vec![1; 16 << 10];
    let over = vec![1; (16 << 10) + 1];
    assert_eq!(kind(kept.take().unwrap().ack_with(&over)), ErrorKind::TooLarge);
    let task = kept.take().unwrap();
    assert_eq!(kind(kept.complete_by_id_with(id, &over)), ErrorKind::TooLarge);
    task.ack_with(&limit).unwrap();
    assert_eq!(kept.peek(id).unwrap().result.as_ref(), Some(&limit));
    let by_id = put(&kept, "b");
    assert!(kept.complete_by_id_with(by_id, &limit).unwrap());
    assert_eq!(kept.peek(by_id).unwrap().result, Some(limit));
    for nothing in [ALL.count(0), ALL.bytes(0), ALL.age(Duration::ZERO)] {
        let refused = queue.create_tube("x", keeping(nothing));
        assert_eq!(kind(refused), ErrorKind::Invalid);
        let refused = queue.create_tube("x", TubeOptions::default().keep_buried(nothing));
        assert_eq!(kind(refused), ErrorKind::Invalid);
    }
    close_sound(queue);
}

#[test]
fn the_oldest_go_by_count_by_bytes_and_by_age() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let count = queue.create_tube("count", keeping(ALL.count(3))).unwrap();
    let ids: Vec<_> = ["a", "b", "c", "d", "e"].map(|text| finish(&count, text)).to_vec();
    assert_eq!(newest(&count), [ids[4], ids[3], ids[2]]);
    assert_eq!(count.stats().unwrap().calls.retention, 2);

    // Ten bytes of payload and result: "aa" counts four.
    let bytes = queue.create_tube("bytes", keeping(ALL.bytes(10))).unwrap();
    let ids: Vec<_> = ["aa", "bb", "cc"].map(|text| finish(&bytes, text)).to_vec();
    assert_eq!(newest(&bytes), [ids[2], ids[1]]);
    let larger = finish(&bytes, "0123456789");
    assert_eq!(newest(&bytes), [larger], "the last one stays, whatever its size");
    bytes.delete(larger).unwrap();
    let small = finish(&bytes, "a");
    assert_eq!(newest(&bytes), [small]);

    let age = queue.create_tube("age", keeping(ALL.age(secs(10)))).unwrap();
    let first = finish(&age, "a");
    clock.advance(secs(5));
    let second = finish(&age, "b");
    assert_eq!(newest(&age), [second, first]);
    clock.advance(secs(5));
    assert_eq!(age.stats().unwrap().finished, 1);
    assert_eq!(newest(&age), [second]);
    assert_eq!(age.stats().unwrap().calls.retention, 1);
    close_sound(queue);
}

#[test]
fn buried_tasks_go_by_their_retention_and_a_kick_ends_it() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = TubeOptions::default().keep_buried(ALL.age(secs(10)).count(2).bytes(100));
    let tube = queue.create_tube("t", options.max_attempts(1)).unwrap();
    let ids = ["a", "b", "c"].map(|text| put(&tube, text));
    tube.take().unwrap().fail("g", "m").unwrap();
    tube.take().unwrap().retry("its last attempt").unwrap();
    assert_eq!(tube.failed("g").count(), 1);
    tube.take().unwrap().bury("aside").unwrap();
    assert_eq!((tube.failed("g").count(), tube.stats().unwrap().buried), (0, 2));
    assert!(tube.failure_groups().unwrap().iter().all(|group| group.group != "g"));
    assert_eq!(kind(tube.peek(ids[0])), ErrorKind::TaskNotFound);

    tube.kick_task(ids[1]).unwrap();
    clock.advance(secs(10));
    let stats = tube.stats().unwrap();
    assert_eq!((stats.buried, stats.ready, stats.calls.retention), (0, 1, 2));
    let by_ttl = tube.task(b"d").ttl(secs(3)).put().unwrap();
    tube.bury(by_ttl, "aside").unwrap();
    clock.advance(secs(3));
    assert_eq!(kind(tube.peek(by_ttl)), ErrorKind::TaskNotFound, "its ttl is earlier");
    assert_eq!(tube.stats().unwrap().calls.ttl, 1);

    // Of two that are too long together the older one goes.
    let long = [(); 2].map(|()| tube.put(&[7; 60]).unwrap());
    long.iter().for_each(|id| tube.bury(*id, "long").unwrap());
    assert_eq!(tube.buried().map(|task| task.unwrap().id).collect::<Vec<_>>(), [long[1]]);
    close_sound(queue);
}

#[test]
fn each_end_is_an_event_to_done_and_its_removal_one_of_retention() {
    let (queue, tube) = alone(keeping(ALL.count(1)));
    let events = queue.events();
    let ids = [finish(&tube, "a"), finish(&tube, "b")];
    let mut seen = Vec::new();
    while let Some(event) = events.try_recv() {
        if matches!(event.cause, Cause::Ack | Cause::Retention) {
            seen.push((event.task, event.cause, event.to));
        }
    }
    let done = Some(State::Done);
    let wanted = [
        (Some(ids[0]), Cause::Ack, done),
        (Some(ids[1]), Cause::Ack, done),
        (Some(ids[0]), Cause::Retention, None),
    ];
    assert_eq!(seen, wanted);
    let _ = EventFilter::new().to(State::Done);
    close_sound(queue);
}

#[test]
fn a_result_is_one_commit_with_what_a_transaction_puts() {
    let (queue, tube) = alone(keeping(ALL));
    let id = put(&tube, "a");
    let task = tube.take().unwrap();
    queue
        .transact(|tx| {
            tx.ack_with(&task, b"r")?;
            tx.put(&tube, b"next").map(drop)
        })
        .unwrap();
    drop(task);
    assert_eq!(tube.peek(id).unwrap().result.as_deref(), Some(&b"r"[..]));
    assert_eq!(&tube.take().unwrap()[..], b"next");
    close_sound(queue);
}

#[test]
fn a_temporary_tube_keeps_results_too() {
    let (_folder, path) = home();
    let queue = Queue::open(&path).unwrap();
    let options = keeping(ALL.count(2).bytes(1000)).temporary(true);
    let tube = queue.create_tube("t", options).unwrap();
    let ids = ["a", "b", "c"].map(|text| finish(&tube, text));
    assert_eq!(newest(&tube), [ids[2], ids[1]]);
    queue.close().unwrap();
    let queue = Queue::open(&path).unwrap();
    assert_eq!(queue.tube("t").unwrap().stats().unwrap().finished, 0);
    close_sound(queue);
}

#[test]
fn a_wait_ends_with_the_result_the_bury_or_the_end() {
    let (queue, tube) = alone(keeping(ALL.count(10)));
    let ids = ["a", "b", "c", "d"].map(|text| put(&tube, text));
    assert!(queue.wait_for(ids[0], Duration::ZERO).unwrap().is_none());
    thread::scope(|scope| {
        let all = ids.map(|id| {
            let queue = &queue;
            scope.spawn(move || queue.wait_for(id, Duration::MAX).unwrap().expect("an end"))
        });
        tube.take().unwrap().ack_with(b"r").unwrap();
        tube.take().unwrap().bury("aside").unwrap();
        tube.delete(ids[2]).unwrap();
        let other = queue.tube("other").unwrap();
        let mut task = tube.take().unwrap();
        task.advance_with(&other, Advance::new()).unwrap();
        drop(task);
        other.take().unwrap().ack().unwrap();
        let [a, b, c, d] = all.map(|wait| wait.join().unwrap());
        match (a, b) {
            (Ended::Done(done), Ended::Buried(aside)) => {
                assert_eq!(done.result.as_deref(), Some(&b"r"[..]));
                assert_eq!(aside.id, ids[1]);
            }
            ends => panic!("{ends:?}"),
        }
        assert!(matches!((c, d), (Ended::Gone, Ended::Gone)));
    });
    assert!(matches!(queue.wait_for(ids[0], Duration::ZERO).unwrap(), Some(Ended::Done(_))));
    let stop = Stop::new();
    thread::scope(|scope| {
        let wait = |id| {
            let (queue, stop) = (&queue, &stop);
            scope.spawn(move || queue.wait_for_until(id, stop))
        };
        let waits = wait(put(&tube, "e"));
        tube.take().unwrap().ack_with(b"r").unwrap();
        assert!(matches!(waits.join().unwrap().unwrap(), Some(Ended::Done(_))));
        let waits = wait(put(&tube, "f"));
        stop.stop();
        assert!(waits.join().unwrap().unwrap().is_none());
    });
    let never = TaskId::new(1_000_000);
    assert_eq!(kind(queue.wait_for(never, Duration::MAX)), ErrorKind::TaskNotFound);
    assert_eq!(kind(queue.wait_for(TaskId::new(0), Duration::MAX)), ErrorKind::TaskNotFound);
    close_sound(queue);
}

/// After a kill the ids of the block that was begun may have been given: they are gone.
#[test]
fn a_wait_is_also_for_tasks_of_an_earlier_run() {
    for is_killed in [false, true] {
        let (_folder, path) = home();
        let queue = Queue::open(&path).unwrap();
        let tube = queue.create_tube("t", keeping(ALL)).unwrap();
        let [waits, gone] = ["a", "b"].map(|text| put(&tube, text));
        tube.delete(gone).unwrap();
        let done = finish(&tube, "c");
        let copy = is_killed.then(|| killed(&path));
        queue.close().unwrap();

        let path = copy.as_ref().map_or(&path, |(_, copy)| copy);
        let queue = Queue::open(path).unwrap();
        let tube = queue.tube("t").unwrap();
        let now = |id| queue.wait_for(id, Duration::MAX);
        assert!(matches!(now(gone).unwrap(), Some(Ended::Gone)));
        assert!(matches!(now(done).unwrap(), Some(Ended::Done(_))));
        let next = TaskId::new(done.get() + 1);
        match is_killed {
            true => assert!(matches!(now(next).unwrap(), Some(Ended::Gone))),
            false => assert_eq!(kind(now(next)), ErrorKind::TaskNotFound),
        }
        let beyond = TaskId::new(put(&tube, "d").get() + 1);
        assert_eq!(kind(now(beyond)), ErrorKind::TaskNotFound);
        let ended = thread::scope(|scope| {
            let blocked = scope.spawn(|| queue.wait_for(waits, Duration::MAX));
            tube.claim(waits).unwrap().ack_with(b"r").unwrap();
            blocked.join().unwrap().unwrap()
        });
        match ended {
            Some(Ended::Done(task)) => assert_eq!(task.result.as_deref(), Some(&b"r"[..])),
            ended => panic!("{ended:?}"),
        }
        close_sound(queue);
    }
}

#[test]
fn a_wait_ends_when_the_tube_goes_and_when_the_queue_closes() {
    let (queue, tube) = alone(TubeOptions::default());
    let other = queue.tube("other").unwrap();
    let (kept, dropped) = (put(&tube, "a"), put(&other, "b"));
    let truncated = put(&tube, "c");
    thread::scope(|scope| {
        let wait = |id| {
            let queue = &queue;
            scope.spawn(move || queue.wait_for(id, Duration::MAX))
        };
        let (first, second) = (wait(dropped), wait(truncated));
        queue.force_drop_tube("other").unwrap();
        assert!(matches!(first.join().unwrap().unwrap(), Some(Ended::Gone)));
        tube.truncate().unwrap();
        assert!(matches!(second.join().unwrap().unwrap(), Some(Ended::Gone)));
        let last = put(&tube, "d");
        let closed = wait(last);
        queue.close().unwrap();
        assert_eq!(kind(closed.join().unwrap()), ErrorKind::Closed);
    });
    let _ = kept;
}

/// Regression: a finished task has its row in one of two indexes, and goes to the other when a task
/// is put after it or the last one of those ends. A listing that had read both before left it out.
#[test]
fn a_listing_has_a_finished_task_that_others_begin_or_cease_to_come_after() {
    let (builder, _clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", keeping(ALL)).unwrap();
    let [first, second] = [put(&tube, "first"), put(&tube, "second")];
    [first, second].iter().for_each(|id| tube.claim(*id).unwrap().ack().unwrap());
    let rest = |listing: tubewell::NewestFirst| {
        listing.map(|task| task.map(|task| task.id)).collect::<Result<Vec<_>, _>>().unwrap()
    };
    for is_put in [true, false] {
        for all in [false, true] {
            let put_after = || tube.task(b"child").after([first]).put().unwrap();
            let before = (!is_put).then(put_after);
            let mut listing = if all { queue.finished() } else { tube.finished() };
            assert_eq!(listing.next().unwrap().unwrap().id, second);
            let child = before.unwrap_or_else(put_after);
            if !is_put {
                tube.delete(child).unwrap();
                queue.tick().unwrap();
            }
            assert_eq!(rest(listing), [first]);
            if is_put {
                tube.delete(child).unwrap();
                queue.tick().unwrap();
            }
        }
    }
}

/// A page of each side is read at one look, however the tasks are spread over the two.
#[test]
fn a_listing_of_finished_tasks_of_both_sorts_is_in_one_order() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("t", keeping(ALL)).unwrap();
    let mut ids: Vec<TaskId> = Vec::new();
    for number in 0..1500 {
        let id = put(&tube, "x");
        if !(300..900).contains(&number) || number % 7 == 0 {
            tube.task(b"child").after([id]).delay(secs(1)).put().unwrap();
        }
        tube.claim(id).unwrap().ack().unwrap();
        if number % 3 == 0 {
            clock.advance(Duration::from_millis(1));
        }
        ids.push(id);
    }
    ids.reverse();
    let listed = |listing: tubewell::NewestFirst| listing.map(|task| task.unwrap().id).collect();
    let (of_tube, of_queue): (Vec<_>, Vec<_>) = (listed(tube.finished()), listed(queue.finished()));
    assert!(of_tube == ids && of_queue == ids);
}
