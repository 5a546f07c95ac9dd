//! A put that meets the task of its key, and puts it again.

use crate::{close_sound, drain, home, kind, last_error, lone, lone_with, open, secs, still};
use std::sync::mpsc::channel;
use std::thread;
use tubewell::{
    Backoff, Cause, Conflict, ErrorKind, HistoryEvent, NewTask, PutOutcome, Queue, Release,
    Retention, State, Task, TaskId, Tube, TubeOptions,
};

const LARGE: usize = 1 << 20;

fn sound(queue: &Queue) {
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

/// Puts the task of the key again.
fn again<'a>(tube: &'a Tube, payload: &'a [u8]) -> NewTask<'a> {
    tube.task(payload).key("k").on_conflict(Conflict::Replace)
}

#[test]
fn what_the_put_does_not_give_is_kept() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let store = builder.open(&path).unwrap();
    let tube = store.create_tube("t", TubeOptions::default().ttr(secs(9))).unwrap();
    let first = tube.task(b"first").key("k").priority(3).group("g").ttl(secs(60)).ttr(secs(7));
    let first = first.kind("mail").book("b").detail("to", "ada").detail("cc", "bob");
    let id = first.max_attempts(2).backoff(Backoff::constant(secs(1))).put().unwrap();
    let before = tube.peek(id).unwrap();
    clock.advance(secs(10));

    let put = again(&tube, b"second").put_outcome().unwrap();
    assert_eq!((put.id, put.outcome), (id, PutOutcome::Replaced));
    let seen = tube.peek(id).unwrap();
    assert_eq!((&seen.payload[..], seen.payload_generation), (&b"second"[..], 1));
    assert_eq!((seen.created, seen.age), (before.created, secs(10)));
    assert_eq!((seen.priority, seen.group.as_deref(), seen.ttr), (3, Some("g"), Some(secs(7))));
    assert_eq!((seen.ttl_left, seen.max_attempts), (Some(secs(60)), Some(2)));
    assert_eq!(
        (&seen.kind, &seen.book, &seen.details),
        (&before.kind, &before.book, &before.details)
    );

    tube.take().unwrap().retry("its own back-off").unwrap();
    assert_eq!(tube.peek(id).unwrap().delay_left, Some(secs(1)));

    let given = again(&tube, b"third").priority(1).group("h").ttl(secs(20)).ttr(secs(8));
    let given = given.kind("fax").book("c").detail("cc", "eve").delay(secs(5)).max_attempts(4);
    assert_eq!(given.put().unwrap(), id);
    drop(tube);
    close_sound(store);

    let store = still().0.clock(clock.clone()).open(&path).unwrap();
    let tube = store.tube("t").unwrap();
    let seen = tube.peek(id).unwrap();
    assert_eq!((seen.state, seen.delay_left), (State::Delayed, Some(secs(5))));
    assert_eq!((seen.priority, seen.group.as_deref(), seen.ttr), (1, Some("h"), Some(secs(8))));
    assert_eq!((seen.ttl_left, seen.max_attempts), (Some(secs(20)), Some(4)));
    assert_eq!((seen.kind.as_deref(), seen.book.as_deref()), (Some("fax"), Some("c")));
    let details: Vec<_> = seen.details.iter().map(|(name, text)| (&name[..], &text[..])).collect();
    assert_eq!(details, [("cc", "eve"), ("to", "ada")]);
    clock.advance(secs(5));
    assert_eq!(drain(&tube), "third");
    drop(tube);
    close_sound(store);
}

#[test]
fn a_task_is_put_again_in_every_state_at_the_back_and_with_new_attempts() {
    for temporary in [false, true] {
        let queue = still().0.in_memory().unwrap();
        let options = TubeOptions::default().temporary(temporary).backoff(Backoff::NONE);
        let tube = queue.create_tube("t", options).unwrap();
        let id = tube.task(b"a").key("k").put().unwrap();
        tube.put(b"other").unwrap();
        let put = |payload| assert_eq!(again(&tube, payload).put().unwrap(), id);
        put(b"b");
        let other = tube.take().unwrap();
        assert_eq!(&other[..], b"other", "a fresh task stands at the back");

        let task = tube.take().unwrap();
        task.retry("no").unwrap();
        put(b"c");
        let task = tube.take().unwrap();
        assert_eq!((task.id(), task.attempt(), task.deliveries()), (id, 1, 2));

        put(b"d");
        assert!(task.ack().unwrap_err().is_lease_lost(), "the lease has ended");
        tube.take().unwrap().release_with(Release::new().delay(secs(9))).unwrap();
        put(b"e");
        assert_eq!(tube.peek(id).unwrap().state, State::Ready, "the delay is over");
        tube.take().unwrap().fail("post", "no such street").unwrap();
        put(b"f");
        assert_eq!(queue.failure_groups().unwrap(), []);
        let seen = tube.peek(id).unwrap();
        assert_eq!(
            (seen.state, seen.reason.clone(), last_error(&seen)),
            (State::Ready, None, Some("no such street"))
        );
        sound(&queue);
        let task = tube.take().unwrap();
        assert_eq!((&task[..], task.attempt()), (&b"f"[..], 1));
        task.ack().unwrap();
        other.ack().unwrap();
        assert_eq!(tube.len().unwrap(), 0);
        sound(&queue);
    }
}

#[test]
fn it_is_one_event_and_an_entry_of_the_history() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.task(b"a").key("k").put().unwrap();
    let _task = tube.take().unwrap();
    let events = queue.events();
    again(&tube, b"b").put().unwrap();
    let seen: Vec<_> = std::iter::from_fn(|| events.try_recv()).collect();
    let seen: Vec<_> = seen.iter().map(|it| (it.task, it.from, it.to, it.cause)).collect();
    assert_eq!(seen, [(Some(id), Some(State::Taken), Some(State::Ready), Cause::Put)]);
    let entries = tube.history(id).unwrap().entries;
    let entries: Vec<_> = entries.iter().map(|entry| (entry.event, entry.attempt)).collect();
    assert_eq!(entries, [(HistoryEvent::Put, None), (HistoryEvent::PutAgain, Some(1))]);
    assert_eq!(tube.stats().unwrap().calls.put, 2);
}

#[test]
fn the_holder_is_told_unless_it_is_the_caller() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let (mine, other) = ("k", "other");
    for (holding, key, told) in [(false, mine, 1), (true, mine, 0), (true, other, 0)] {
        tube.task(b"a").key(mine).put().unwrap();
        let mut task = tube.take().unwrap();
        let (sender, calls) = channel();
        task.on_lost(move |event| sender.send(event.cause).unwrap()).unwrap();
        let put = tube.task(b"b").key(key).on_conflict(Conflict::Replace);
        let put = if holding { put.holding(&task) } else { put };
        put.put().unwrap();
        queue.tick().unwrap();
        let all: Vec<_> = calls.try_iter().collect();
        assert_eq!(all, vec![Cause::Put; told], "{holding} {key}");
        assert_eq!(task.is_lost().unwrap(), key == mine);
        if key == other {
            // The lease goes on, and its loss is told.
            tube.release_all().unwrap();
            queue.tick().unwrap();
            assert_eq!(calls.try_iter().collect::<Vec<_>>(), [Cause::Release]);
        }
        drop(task);
        tube.truncate().unwrap();
    }
}

/// Regression: the put of another caller, which had ended the lease before, was taken for the
/// holder's own.
#[test]
fn the_put_of_another_is_told_also_before_a_put_of_the_holder() {
    type PutAgain = fn(&Queue, &Tube, &Task);
    let puts: [PutAgain; 3] = [
        |_, tube, task| _ = tube.task(b"b").key("k").must_exist().holding(task).put().unwrap(),
        |_, tube, task| {
            let put = tube.task(b"b").key("k").must_exist().holding(task);
            assert_eq!(tube.batch_of([put]).put().unwrap(), [task.id()]);
        },
        |queue, tube, task| {
            let put = || tube.task(b"b").key("k").must_exist().holding(task);
            queue.transact(|tx| put().put_in(tx).map(drop)).unwrap();
        },
    ];
    for (put, is_first) in puts.iter().flat_map(|put| [(put, true), (put, false)]) {
        let queue = still().0.in_memory().unwrap();
        let (tube, other) = (queue.tube("t").unwrap(), queue.tube("other").unwrap());
        tube.task(b"a").key("k").put().unwrap();
        let mut task = tube.take().unwrap();
        let (sender, calls) = channel();
        task.on_lost(move |event| sender.send(event.cause).unwrap()).unwrap();
        if !is_first {
            tube.move_to(task.id(), &other).apply().unwrap();
            other.move_to(task.id(), &tube).apply().unwrap();
        }
        put(&queue, &tube, &task);
        queue.tick().unwrap();
        assert!(task.is_lost().unwrap());
        let told = if is_first { vec![] } else { vec![Cause::Move] };
        assert_eq!(calls.try_iter().collect::<Vec<_>>(), told);
    }
}

#[test]
fn what_must_exist_is_put_again_or_refused() {
    let (tube, _) = lone();
    let must = || tube.task(b"b").key("k").must_exist();
    assert_eq!(kind(must().put()), ErrorKind::TaskNotFound);
    assert_eq!(kind(tube.task(b"b").must_exist().put()), ErrorKind::Invalid, "without a key");
    assert_eq!(kind(must().on_conflict(Conflict::Debounce).put()), ErrorKind::Invalid);
    let large = vec![7; LARGE];
    assert_eq!(kind(tube.task(&large).key("k").must_exist().put()), ErrorKind::TaskNotFound);
    let id = tube.task(b"a").key("k").put().unwrap();
    assert_eq!(must().put().unwrap(), id);
    let kept = must().on_conflict(Conflict::Keep).put_outcome().unwrap();
    assert_eq!((kept.id, kept.outcome), (id, PutOutcome::Existing));
    let batch = tube.batch_of([tube.task(b"c").key("none").must_exist(), must()]).put();
    assert_eq!(
        (batch.as_ref().unwrap_err().index(), kind(batch)),
        (Some(0), ErrorKind::TaskNotFound)
    );
    assert_eq!(drain(&tube), "b");
}

#[test]
fn of_debounced_puts_the_newest_payload_is_worked_on_after_one_delay() {
    let (tube, clock) = lone();
    let put = |payload: &'static [u8]| {
        let put = tube.task(payload).key("k").delay(secs(10)).on_conflict(Conflict::Debounce);
        put.put_outcome().map(|put| (put.id, put.outcome)).unwrap()
    };
    let (id, outcome) = put(b"a");
    assert_eq!(outcome, PutOutcome::New);
    clock.advance(secs(9));
    assert_eq!(put(b"b"), (id, PutOutcome::Replaced));
    clock.advance(secs(9));
    assert!(tube.try_take().unwrap().is_none(), "the delay began again");
    clock.advance(secs(1));
    assert_eq!(tube.peek(id).unwrap().state, State::Ready);
    assert_eq!(put(b"c"), (id, PutOutcome::Replaced), "ready, it waits again");
    clock.advance(secs(10));
    let task = tube.take().unwrap();
    assert_eq!(&task[..], b"c");

    // Its work has begun: the next put is a new task, which later ones go into.
    let (second, outcome) = put(b"d");
    assert_eq!((outcome, second == id), (PutOutcome::New, false));
    assert_eq!(put(b"e"), (second, PutOutcome::Replaced));
    task.release().unwrap();
    assert_eq!(put(b"f"), (second, PutOutcome::Replaced), "the key names the newest");
    assert_eq!(drain(&tube), "c");
    clock.advance(secs(10));
    tube.bury(second, "").unwrap();
    assert_eq!(put(b"g").1, PutOutcome::New);
    assert_eq!(tube.stats().unwrap().buried, 1);
}

#[test]
fn of_many_tasks_of_a_key_the_newest_is_named() {
    let (builder, _) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let put = || tube.task(b"x").key("k").on_conflict(Conflict::Debounce).put().unwrap();
    let mut held = Vec::new();
    for _ in 0..10 {
        let id = put();
        held.push((id, tube.take().unwrap()));
        tube.put(b"between").unwrap();
        tube.claim(TaskId::new(id.get() + 1)).unwrap().ack().unwrap();
    }
    sound(&queue);
    let named = || tube.task(b"y").key("k").put().unwrap();
    while let Some((id, task)) = held.pop() {
        assert_eq!(named(), id);
        task.ack().unwrap();
    }
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn large_payloads_are_put_again_without_a_piece_left() {
    for temporary in [false, true] {
        let queue = still().0.in_memory().unwrap();
        let options = TubeOptions::default().temporary(temporary);
        let tube = queue.create_tube("t", options).unwrap();
        let id = tube.task(&vec![1; LARGE]).key("k").put().unwrap();
        for fill in 2..5 {
            let payload = vec![fill; LARGE + usize::from(fill)];
            assert_eq!(again(&tube, &payload).put().unwrap(), id);
            let debounced = tube.task(&payload).key("k").on_conflict(Conflict::Debounce);
            assert_eq!(debounced.put().unwrap(), id);
            sound(&queue);
            assert!(tube.peek(id).unwrap().payload == payload);
        }
        // In a batch the second one meets what the first has put.
        let large = vec![9; LARGE];
        let twice =
            [&large, &large].map(|it| tube.task(it).key("new").on_conflict(Conflict::Replace));
        let ids = tube.batch_of(twice).put().unwrap();
        assert_eq!(tube.len().unwrap(), 2);
        tube.delete(*ids.last().unwrap()).unwrap();
        tube.delete(id).unwrap();
        sound(&queue);
        let space = queue.space().unwrap();
        assert_eq!((space.durable_bytes, tube.len().unwrap()), (0, 0));
    }
}

/// Regression: a buried task was taken out of what its tube keeps with the bytes of the new
/// payload.
#[test]
fn what_a_tube_keeps_is_counted_with_the_old_payload() {
    let queue = still().0.in_memory().unwrap();
    let kept = Retention::new().bytes(10_000);
    let tube = queue.create_tube("t", TubeOptions::default().keep_buried(kept)).unwrap();
    let id = tube.task(b"short").key("k").put().unwrap();
    tube.bury(id, "").unwrap();
    again(&tube, &[1; 5000]).put().unwrap();
    sound(&queue);
    tube.bury(id, "").unwrap();
    sound(&queue);
    again(&tube, b"").put().unwrap();
    sound(&queue);
    assert_eq!(queue.space().unwrap().durable_bytes, 0);
}

/// Regression: the pieces of the second one were written for what it would have met without the
/// first. So the batch was refused, or its first task was lost.
#[test]
fn a_batch_may_have_a_key_twice() {
    let queue = still().0.in_memory().unwrap();
    let options = TubeOptions::default().keep_finished(Retention::new());
    let tube = queue.create_tube("t", options).unwrap();
    let large = vec![7; LARGE];
    let replace = |payload| tube.task(payload).key("k").on_conflict(Conflict::Replace);
    let id = tube.task(b"a").key("k").priority(3).put().unwrap();
    for first in [&b"small"[..], &large] {
        let ids = tube.batch_of([replace(first), replace(&large)]).put().unwrap();
        assert_eq!(ids, [id, id]);
        sound(&queue);
    }
    let debounced = tube.task(&large).key("k").on_conflict(Conflict::Debounce);
    let _task = tube.take().unwrap();
    let ids = tube.batch_of([replace(b"small"), debounced]).put().unwrap();
    assert_eq!(ids, [id, id]);

    tube.take().unwrap().ack().unwrap();
    let ids = tube.batch_of([replace(&large), replace(&large)]).put().unwrap();
    assert!(ids[0] > id && ids[0] == ids[1]);
    let seen = tube.peek(ids[0]).unwrap();
    assert!(seen.payload == large && seen.priority == 3);
    sound(&queue);
    tube.delete(ids[0]).unwrap();
    sound(&queue);
    assert_eq!(queue.space().unwrap().durable_bytes, 0);
}

/// Large payloads are written before their put, which may then find another task under the key.
/// Regression: pieces for one task were given to another one, and stayed behind.
#[test]
fn racing_puts_of_a_key_leave_one_whole_task() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let putters: Vec<_> = (1..5_u8)
        .map(|fill| {
            let tube = tube.clone();
            thread::spawn(move || {
                let payload = vec![fill; LARGE];
                for _ in 0..4 {
                    match again(&tube, &payload).put() {
                        Ok(_) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::WrongState),
                    }
                    if let Some(task) = tube.try_take().unwrap() {
                        assert!(task.iter().all(|byte| *byte == task[0]));
                        let _lost_to_a_put = task.ack();
                    }
                }
            })
        })
        .collect();
    putters.into_iter().for_each(|putter| putter.join().unwrap());
    tube.task(b"end").key("k").on_conflict(Conflict::Replace).put().unwrap();
    assert_eq!(tube.len().unwrap(), 1);
    assert_eq!(drain(&tube), "end");
    sound(&queue);
    assert_eq!(queue.space().unwrap().durable_bytes, 0);
}

#[test]
fn a_refused_put_changes_nothing() {
    let (tube, _) = lone_with(TubeOptions::default().capacity(1));
    let id = tube.task(b"a").key("k").detail("a", &"x".repeat(4000)).put().unwrap();
    let detail = "y".repeat(4000);
    let refusals = [
        (again(&tube, b"b").detail("b", &detail).put(), ErrorKind::TooLarge),
        (again(&tube, b"b").ttl(secs(0)).put(), ErrorKind::Invalid),
        (again(&tube, b"b").group("\n").put(), ErrorKind::Invalid),
        (again(&tube, &vec![0; 65 << 20]).put(), ErrorKind::TooLarge),
    ];
    for (refused, wanted) in refusals {
        assert_eq!(kind(refused), wanted);
        let seen = tube.peek(id).unwrap();
        assert_eq!((&seen.payload[..], seen.payload_generation), (&b"a"[..], 0));
    }
    assert_eq!(kind(tube.put(b"other")), ErrorKind::Full);
    assert_eq!(again(&tube, b"b").put().unwrap(), id, "it takes no more room");
}

#[test]
fn a_transaction_puts_again_with_all_the_rest_or_not() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let id = tube.task(b"a").key("k").put().unwrap();
    let put = |fails: bool| {
        queue.transact(|tx| {
            let put = again(&tube, b"b").put_in(tx)?;
            if fails { Err::<_, tubewell::BoxError>("no".into()) } else { Ok(put) }
        })
    };
    assert!(put(true).is_err());
    assert_eq!(tube.peek(id).unwrap().payload, b"a");
    assert_eq!(put(false).unwrap(), id);
    assert_eq!(tube.peek(id).unwrap().payload, b"b");
    drop(tube);
    close_sound(queue);
}

/// Regression: the length of a ttl that began again had the delays in it that the task had had.
#[test]
fn a_put_again_lives_for_its_ttl_without_the_delays_before() {
    let (tube, clock) = lone_with(TubeOptions::default());
    let id = tube.task(b"a").key("k").delay(secs(50)).ttl(secs(10)).put().unwrap();
    clock.advance(secs(50));
    assert_eq!(tube.peek(id).unwrap().state, State::Ready);
    tube.task(b"b").key("k").on_conflict(Conflict::Replace).put().unwrap();
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(10)));
}

/// Regression: each debounce added the part of the delay that had passed to the ttl.
#[test]
fn a_debounce_does_not_lengthen_the_ttl() {
    let (tube, clock) = lone_with(TubeOptions::default().ttl(secs(60)));
    let put = || {
        let put = tube.task(b"x").key("k").delay(secs(10)).on_conflict(Conflict::Debounce);
        put.put().unwrap()
    };
    let id = put();
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(60)));
    for _ in 0..100 {
        clock.advance(secs(9));
        assert_eq!(put(), id);
    }
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(60)));
}

/// A ttl that an update, a release or a kick has given keeps its length too.
#[test]
fn a_ttl_that_was_given_later_keeps_its_length() {
    let (tube, clock) = lone_with(TubeOptions::default().ttl_spares_buried(true));
    let id = tube.task(b"a").key("k").ttl(secs(100)).put().unwrap();
    let again = |left: u64| {
        clock.advance(secs(5));
        tube.task(b"b").key("k").on_conflict(Conflict::Replace).put().unwrap();
        assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(left)));
        clock.advance(secs(5));
    };
    again(100);
    tube.update(id).ttl(secs(30)).apply().unwrap();
    again(30);
    tube.take().unwrap().release_with(Release::new().ttl(secs(20)).delay(secs(9))).unwrap();
    again(20);
    let task = tube.take().unwrap();
    task.touch(secs(3)).unwrap();
    task.bury("no").unwrap();
    clock.advance(secs(50));
    tube.kick_task(id).unwrap();
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(23)));
    again(23);
    tube.bury(id, "no").unwrap();
    clock.advance(secs(50));
    tube.kick_task(id).unwrap();
    assert_eq!(tube.peek(id).unwrap().ttl_left, Some(secs(23)));
}
