//! Tasks that go to another tube: by their holder, step by step, and by their ids.

use crate::{
    close_sound, counts, drain, home, killed, kind, last_error, listed, secs, state, still, until,
    waiting,
};
use std::cell::Cell;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tubewell::{
    Advance, Backoff, Cause, Clock, Conflict, ErrorKind, EventOptions, ManualClock, Place,
    Placement, PutView, Queue, Reason, Retry, State, Stop, Tube, TubeKind, TubeOptions,
};

fn two() -> (Queue, Tube, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    (queue, a, b, clock)
}

fn sound(queue: &Queue) {
    queue.tick().unwrap();
    assert_eq!(queue.check().unwrap(), [""; 0]);
}

#[test]
fn a_task_goes_through_its_steps_with_one_id() {
    let (queue, a, b, clock) = two();
    let id = a.task(b"x").key("k").group("g").priority(3).ttr(secs(60)).put().unwrap();
    b.task(b"before").group("g").priority(3).put().unwrap();
    let created = a.peek(id).unwrap().created;
    clock.advance(secs(5));
    let mut task = a.take().unwrap();
    task.advance_with(&b, Advance::new().result(b"one")).unwrap();
    assert!(a.is_empty().unwrap());

    let seen = b.peek(id).unwrap();
    assert_eq!((seen.state, seen.priority, seen.key.as_deref()), (State::Ready, 3, Some("k")));
    assert_eq!((seen.group.as_deref(), seen.ttr), (Some("g"), Some(secs(60))));
    assert_eq!((seen.created, seen.attempts, seen.deliveries), (created, 0, 1));
    assert_eq!((&seen.payload[..], seen.passed.as_deref()), (&b"x"[..], Some(&b"one"[..])));
    assert_eq!(queue.find(id).unwrap().tube, "b");
    assert_eq!(kind(a.peek(id)), ErrorKind::WrongTube);

    b.take().unwrap().ack().unwrap(); // the one before it in its group
    let mut task = b.take().unwrap();
    assert_eq!((task.id(), task.attempt()), (id, 1));
    assert_eq!(task.passed().unwrap().as_deref(), Some(&b"one"[..]));
    // Without a result the next step finds none. Back to the first tube, and to the same again.
    task.advance(&a).unwrap();
    let mut task = a.take().unwrap();
    assert_eq!(task.passed().unwrap(), None);
    task.advance(&a).unwrap();
    assert_eq!(a.take().unwrap().id(), id);
    sound(&queue);
    a.delete(id).unwrap();
    assert_eq!(kind(queue.find(id)), ErrorKind::TaskNotFound);
    sound(&queue);
}

#[test]
fn a_step_that_is_done_clears_attempts_and_failure() {
    let (queue, a, b, _) = two();
    let id = a.put(b"x").unwrap();
    a.take().unwrap().retry_with(Retry::new("no").after(secs(0))).unwrap();
    a.take().unwrap().advance(&b).unwrap();
    let seen = b.peek(id).unwrap();
    assert_eq!((seen.attempts, last_error(&seen)), (0, None));

    // A task that is moved by its id keeps its failure.
    b.take().unwrap().fail("g", "broken").unwrap();
    b.move_to(id, &a).apply().unwrap();
    let seen = a.peek(id).unwrap();
    assert_eq!(
        (seen.state, seen.reason.clone(), last_error(&seen)),
        (State::Ready, None, Some("broken"))
    );
    assert_eq!(b.failure_groups().unwrap(), []);
    sound(&queue);
}

#[test]
fn a_task_is_moved_from_each_state() {
    let (queue, a, b, clock) = two();
    let ready = a.task(b"ready").ttl(secs(100)).put().unwrap();
    let delayed = a.task(b"delayed").delay(secs(50)).put().unwrap();
    let wall = a.task(b"wall").run_at(clock.wall() + secs(70)).put().unwrap();
    let buried = a.put(b"buried").unwrap();
    a.bury(buried, "no").unwrap();
    let taken = a.put(b"taken").unwrap();
    let held = a.claim(taken).unwrap();
    clock.advance(secs(20));
    for id in [buried, taken, wall, ready, delayed] {
        a.move_to(id, &b).apply().unwrap();
    }
    assert!(a.is_empty().unwrap() && held.ack().unwrap_err().is_lease_lost());
    assert_eq!(counts(&b), [3, 2, 0, 0]);
    assert_eq!(listed(&b, State::Ready), "buried taken ready", "in the order of the moves");
    let left = |id| b.peek(id).unwrap().delay_left;
    assert_eq!((left(delayed), left(wall)), (Some(secs(30)), Some(secs(50))));
    assert_eq!(b.peek(ready).unwrap().ttl_left, Some(secs(100)), "it begins again");
    clock.advance(secs(30));
    assert_eq!(drain(&b), "buried taken ready delayed");
    clock.advance(secs(20));
    assert_eq!(drain(&b), "wall");
    sound(&queue);
}

#[test]
fn a_move_may_change_what_it_keeps() {
    let (_queue, a, b, _) = two();
    let id = a.task(b"x").priority(1).ttl(secs(10)).delay(secs(9)).put().unwrap();
    let moving = a.move_to(id, &b).priority(7).delay(secs(2)).ttl(secs(50)).ttr(secs(3));
    moving.max_attempts(1).apply().unwrap();
    let seen = b.peek(id).unwrap();
    assert_eq!((seen.priority, seen.delay_left, seen.ttl_left), (7, Some(secs(2)), Some(secs(50))));
    assert_eq!((seen.ttr, seen.max_attempts), (Some(secs(3)), Some(1)));
    let mut task = b.claim(id).unwrap();
    task.advance_with(&a, Advance::new().priority(-1).delay(secs(4))).unwrap();
    let seen = a.peek(id).unwrap();
    assert_eq!((seen.priority, seen.delay_left), (-1, Some(secs(4))));
}

/// What names the task and says when it runs goes over to the new names, in every index.
#[test]
fn a_move_may_change_the_names_of_a_task() {
    let (queue, a, b, _) = two();
    let put = a.task(b"x").key("k").group("g").kind("draft").tags(["red", "blue"]);
    let id = put.require("online").put().unwrap();
    let other = a.task(b"y").group("g").put().unwrap();
    let moving = a.move_to(id, &b).key("k2").group("h").kind("letter").tags(["blue", "new"]);
    moving.throttle("api").apply().unwrap();
    let seen = b.peek(id).unwrap();
    assert_eq!((seen.key.as_deref(), seen.group.as_deref()), (Some("k2"), Some("h")));
    assert_eq!(
        (seen.kind.as_deref(), &seen.tags[..]),
        (Some("letter"), &["blue", "new"].map(String::from)[..])
    );
    assert_eq!((seen.requires.len(), seen.throttles.join(" ")), (0, "api".to_owned()));
    sound(&queue);
    // The first key names nothing there, the second one this task; its first group goes on.
    assert_ne!(b.task(b"z").key("k").put().unwrap(), id);
    assert_eq!(b.task(b"z").key("k2").put().unwrap(), id);
    assert_eq!(a.take().unwrap().id(), other);
    assert_eq!(b.try_take_group("h").unwrap().unwrap().id(), id);
    assert_eq!(queue.tag_count("red").unwrap(), 0);
    sound(&queue);
}

/// Of each size: within its row, in pieces, and in pieces that are written in turns before the
/// move. The old one leaves nothing, and a refused move leaves the old one.
#[test]
fn a_move_may_bring_a_payload_and_details() {
    let sizes = [0, 10, 5_000, 3 << 20];
    let of = |bytes: usize, byte: u8| vec![byte; bytes];
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.open(&path).unwrap();
    let a = queue.tube("a").unwrap();
    let b = queue.create_tube("b", TubeOptions::default().capacity(1)).unwrap();
    let held = || queue.space().unwrap().durable_bytes;
    for (first, second) in sizes.iter().flat_map(|first| sizes.map(|second| (*first, second))) {
        let (old, new) = (of(first, 1), of(second, 2));
        let put = a.task(&old).book("paper").detail("by", "ada").detail("to", "cy");
        let id = put.delay(secs(9)).put().unwrap();
        let moving = a.move_to(id, &b).payload(&new).book("ledger").detail("by", "bob");
        moving.apply().unwrap();
        let seen = b.peek(id).unwrap();
        assert!(seen.payload == new, "{first} to {second}");
        assert_eq!((seen.state, seen.payload_generation), (State::Delayed, 1));
        assert_eq!(seen.book.as_deref(), Some("ledger"));
        let details = seen.details.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        assert_eq!(details.collect::<Vec<_>>(), [("by", "bob"), ("to", "cy")]);
        assert_eq!(held(), second as u64);

        let next = a.put(&old).unwrap();
        let refused = a.move_to(next, &b).payload(&new).apply().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Full);
        assert!(a.peek(next).unwrap().payload == old);
        assert_eq!(held(), (first + second) as u64);
        assert_eq!(queue.check().unwrap(), [""; 0]);
        a.delete(next).unwrap();
        b.delete(id).unwrap();
        assert_eq!(held(), 0);
    }
    clock.advance(secs(9));
    // Of a taken one the lease ends; in its own tube it goes to the back.
    let ids = [b"1", b"2"].map(|text| a.put(text).unwrap());
    let mut task = a.take().unwrap();
    a.move_to(ids[0], &a).payload(b"3").apply().unwrap();
    assert!(task.is_lost().unwrap());
    assert_eq!(task.with_payload(b"4").renew().unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(drain(&a), "2 3");
    close_sound(queue);
}

#[cfg(feature = "bincode")]
#[test]
fn a_payload_of_a_move_is_encoded_where_the_one_before_was() {
    let (queue, a, ..) = two();
    let value = queue.tube("v").unwrap().typed::<u32>();
    let id = value.put(&7).unwrap();
    let refused = value.move_to(id, &a).payload(b"8").apply().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    value.move_to(id, &value).payload(&value.encode(&8).unwrap()).apply().unwrap();
    assert_eq!(*value.take().unwrap(), 8);
    sound(&queue);
}

/// In its own tube, too: it goes to the back under its new key. A key that another task has is
/// refused, and the task is what it was.
#[test]
fn a_move_in_its_own_tube_asks_for_the_new_key() {
    let (queue, a, b, _) = two();
    let id = a.task(b"x").key("k").group("g").put().unwrap();
    a.task(b"y").key("taken").put().unwrap();
    b.task(b"z").key("k").put().unwrap();
    assert_eq!(kind(a.move_to(id, &a).key("taken").apply()), ErrorKind::KeyExists);
    assert_eq!(kind(a.move_to(id, &b).apply()), ErrorKind::KeyExists);
    for wrong in
        [a.move_to(id, &a).key(""), a.move_to(id, &a).group("\n"), a.move_to(id, &b).kind("")]
    {
        assert_eq!(kind(wrong.apply()), ErrorKind::Invalid);
    }
    let long = "t".repeat(300);
    assert_eq!(kind(a.move_to(id, &b).tags([&*long]).apply()), ErrorKind::Invalid);
    assert_eq!(a.peek(id).unwrap().key.as_deref(), Some("k"));
    a.move_to(id, &a).key("free").apply().unwrap();
    assert_eq!(a.task(b"x").key("free").put().unwrap(), id);
    a.move_to(id, &b).key("k2").apply().unwrap();
    assert_eq!(b.peek(id).unwrap().key.as_deref(), Some("k2"));
    sound(&queue);
}

/// A kind of tube that has no priorities or times takes the task without them.
#[test]
fn what_the_kind_of_the_next_tube_lacks_is_left_out_or_refused() {
    let (queue, a, _, _) = two();
    let fifo = queue.create_tube("fifo", TubeOptions::new(TubeKind::Fifo)).unwrap();
    let higher = queue.create_tube("higher", TubeOptions::default().higher_first(true)).unwrap();
    let id = a.task(b"x").priority(5).ttl(secs(9)).ttr(secs(9)).put().unwrap();
    a.take().unwrap().advance(&fifo).unwrap();
    let seen = fifo.peek(id).unwrap();
    assert_eq!((seen.priority, seen.ttl_left, seen.ttr), (0, None, None));
    fifo.put(b"later").unwrap();
    assert_eq!(listed(&fifo, State::Ready), "x later");
    let waits = a.task(b"waits").backoff(Backoff::constant(secs(50))).put().unwrap();
    a.take().unwrap().advance(&fifo).unwrap();
    fifo.claim(waits).unwrap().retry("no").unwrap();
    assert_eq!(state(&fifo, waits), State::Ready, "it has no times");

    let high = a.task(b"high").priority(9).put().unwrap();
    higher.task(b"low").priority(1).put().unwrap();
    a.move_to(high, &higher).apply().unwrap();
    assert_eq!((higher.peek(high).unwrap().priority, drain(&higher)), (9, "high low".into()));

    let grouped = a.task(b"x").group("g").put().unwrap();
    assert_eq!(kind(a.move_to(grouped, &fifo).apply()), ErrorKind::Unsupported);
    let plain = a.put(b"x").unwrap();
    assert_eq!(kind(a.move_to(plain, &fifo).delay(secs(1)).apply()), ErrorKind::Unsupported);
    assert_eq!(kind(a.move_to(plain, &fifo).priority(1).apply()), ErrorKind::Unsupported);
    assert_eq!(kind(a.move_to(plain, &higher).ttl(Duration::ZERO).apply()), ErrorKind::Invalid);
    assert_eq!(counts(&a), [2, 0, 0, 0]);
    sound(&queue);
}

/// A placement that has one place.
pub(crate) struct Last;

impl Placement for Last {
    fn place(&self, _: &PutView<'_>) -> Place {
        Place::new(&[9])
    }
}

/// Nothing happens, and the guard still holds its task.
#[test]
fn a_refused_advance_leaves_the_task_taken() {
    let (builder, _) = still();
    let queue = builder.placement("last", Last).in_memory().unwrap();
    let a = queue.tube("a").unwrap();
    let made = |name: &str, options: TubeOptions| queue.create_tube(name, options).unwrap();
    let plain = TubeOptions::default;
    let full = made("full", plain().capacity(1));
    full.put(b"x").unwrap();
    let keyed = made("keyed", plain());
    keyed.task(b"x").key("k").put().unwrap();
    let dropped = made("dropped", plain());
    queue.drop_tube("dropped").unwrap();
    let elsewhere = still().0.in_memory().unwrap().tube("a").unwrap();

    let id = a.task(b"x").key("k").put().unwrap();
    let mut task = a.take().unwrap();
    let ticket = a.ticket(task.ticket());
    for (next, refusal) in [
        (&full, ErrorKind::Full),
        (&keyed, ErrorKind::KeyExists),
        (&made("memory", plain().temporary(true)), ErrorKind::Unsupported),
        (&made("placed", plain().placement("last")), ErrorKind::Unsupported),
        (&dropped, ErrorKind::TubeNotFound),
        (&elsewhere, ErrorKind::Invalid),
    ] {
        assert_eq!(kind(task.advance(next)), refusal);
        assert_eq!(kind(ticket.advance(next)), refusal);
        assert_eq!(kind(a.move_to(id, next).apply()), refusal);
        assert_eq!(state(&a, id), State::Taken);
    }
    let fifo = made("fifo", TubeOptions::new(TubeKind::Fifo));
    let of_group = a.task(b"x").group("g").put().unwrap();
    let mut grouped = a.claim(of_group).unwrap();
    assert_eq!(kind(grouped.advance(&fifo)), ErrorKind::Unsupported);
    for terms in [Advance::new().priority(1), Advance::new().delay(secs(1))] {
        assert_eq!(kind(task.advance_with(&fifo, terms)), ErrorKind::Unsupported);
    }
    assert_eq!((state(&a, of_group), state(&a, id)), (State::Taken, State::Taken));
    grouped.ack().unwrap();
    let long = vec![7; (16 << 10) + 1];
    assert_eq!(kind(task.advance_with(&a, Advance::new().result(&long))), ErrorKind::TooLarge);

    // Room comes, and the same guard goes on.
    full.take().unwrap().ack().unwrap();
    let result = vec![7; 16 << 10];
    task.advance_with(&full, Advance::new().result(&result)).unwrap();
    assert_eq!(full.peek(id).unwrap().passed, Some(result));
    assert!(task.advance(&a).unwrap_err().is_lease_lost());
    drop(task);
    assert_eq!((counts(&a), counts(&full)), ([0; 4], [1, 0, 0, 0]));
    sound(&queue);
}

#[test]
fn an_advance_wakes_a_taker_and_makes_room() {
    let queue = Queue::in_memory().unwrap();
    let a = queue.create_tube("a", TubeOptions::default().capacity(1)).unwrap();
    let b = queue.tube("b").unwrap();
    a.put(b"x").unwrap();
    let mut task = a.take().unwrap();
    let taker = waiting(&b, |b| b.take().unwrap().to_vec());
    task.advance(&b).unwrap();
    assert_eq!(taker.join().unwrap(), b"x");
    a.put(b"y").unwrap();
}

#[test]
fn events_and_counts_tell_of_both_tubes() {
    let (queue, a, b, _) = two();
    let events = queue.events_with(EventOptions::new().payloads());
    let id = a.put(b"x").unwrap();
    a.take().unwrap().advance(&b).unwrap();
    b.move_to(id, &a).apply().unwrap();
    let told: Vec<_> = std::iter::from_fn(|| events.try_recv())
        .map(|event| {
            assert_eq!((event.task, event.payload()), (Some(id), Some(&b"x"[..])));
            (event.tube.to_string(), event.from, event.to, event.cause)
        })
        .collect();
    let (ready, taken) = (Some(State::Ready), Some(State::Taken));
    let step = |tube: &str, from, to, cause| (tube.to_owned(), from, to, cause);
    assert_eq!(
        told,
        [
            step("a", None, ready, Cause::Put),
            step("a", ready, taken, Cause::Take),
            step("a", taken, None, Cause::Advance),
            step("b", None, ready, Cause::Move),
            step("b", ready, None, Cause::Move),
            step("a", None, ready, Cause::Move),
        ]
    );
    let calls = |tube: &Tube| tube.stats().map(|it| (it.calls.advance, it.calls.moved)).unwrap();
    assert_eq!((calls(&a), calls(&b)), ((1, 1), (0, 2)));
}

/// Of 16 MiB no piece is written again: the journal grows by a few rows.
#[test]
fn the_pieces_of_a_payload_stay_where_they_are() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let payload: Vec<u8> = (0..16 << 20).map(|at: u32| (at >> 7) as u8).collect();
    let id = a.put(&payload).unwrap();
    queue.checkpoint().unwrap();
    let used = || queue.space().unwrap().journal_used;
    let before = used();
    let mut task = a.take().unwrap();
    task.advance(&b).unwrap();
    b.move_to(id, &a).apply().unwrap();
    assert!(used() - before < 8192, "{} bytes", used() - before);
    assert!(a.take().unwrap()[..] == payload[..]);
    assert_eq!(queue.space().unwrap().durable_bytes, 16 << 20);
    a.delete(id).unwrap();
    sound(&queue);
    assert_eq!(queue.space().unwrap().durable_bytes, 0);
    close_sound(queue);
}

#[test]
fn a_kill_after_an_advance_finds_the_task_in_the_next_tube_once() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let ids = a.put_many([b"1".to_vec(), b"2".to_vec()]).unwrap();
    let mut task = a.take().unwrap();
    task.advance_with(&b, Advance::new().result(b"r")).unwrap();
    let (_copy, copied) = killed(&path);
    let after = still().0.open(&copied).unwrap();
    let (a, b) = (after.tube("a").unwrap(), after.tube("b").unwrap());
    assert_eq!((counts(&a), counts(&b)), ([1, 0, 0, 0], [1, 0, 0, 0]));
    assert_eq!(after.find(ids[0]).unwrap().passed.as_deref(), Some(&b"r"[..]));
    // A tube that is dropped or truncated takes the way to its tasks with it.
    after.force_drop_tube("b").unwrap();
    assert_eq!(kind(after.find(ids[0])), ErrorKind::TaskNotFound);
    sound(&after);
    a.move_to(ids[1], &after.tube("c").unwrap()).apply().unwrap();
    after.tube("c").unwrap().truncate().unwrap();
    sound(&after);
    close_sound(after);
}

#[test]
fn keys_follow_their_task() {
    let (queue, a, b, _) = two();
    let id = a.task(b"x").key("k").put().unwrap();
    a.move_to(id, &b).apply().unwrap();
    let again = a.task(b"y").key("k").put_outcome().unwrap();
    assert_ne!(again.id, id, "the key is free in the tube that it left");
    let kept = b.task(b"z").key("k").put_outcome().unwrap();
    assert_eq!(kept.id, id);
    let replace = b.task(b"z").key("k").on_conflict(Conflict::Replace);
    assert_eq!(replace.put().unwrap(), id);
    assert_eq!(queue.find(id).unwrap().payload, b"z");
    sound(&queue);
}

#[test]
fn sessions_lose_what_goes_on() {
    let (queue, a, b, _) = two();
    let id = a.put(b"x").unwrap();
    let ada = queue.consumer("ada").unwrap();
    let mut task = a.by(&ada).take().unwrap();
    task.advance(&b).unwrap();
    drop(task);
    ada.close().unwrap();
    assert_eq!((state(&b, id), b.peek(id).unwrap().holder.clone()), (State::Ready, None));
    b.bury(id, "no").unwrap();
    b.move_to(id, &b).apply().unwrap();
    assert_eq!(b.peek(id).unwrap().reason, None::<Reason>);
    sound(&queue);
}

/// A task that goes round would have lived longer with every step.
#[test]
fn the_ttl_begins_again_at_every_move_as_long_as_it_was() {
    let (queue, a, b, clock) = two();
    let id = a.task(b"x").ttl(secs(100)).put().unwrap();
    for step in 0..6 {
        let (from, to) = if step % 2 == 0 { (&a, &b) } else { (&b, &a) };
        clock.advance(secs(60));
        from.take().unwrap().advance(to).unwrap();
        assert_eq!(to.peek(id).unwrap().ttl_left, Some(secs(100)));
    }
    let mut task = a.take().unwrap();
    task.advance_with(&a, Advance::new().delay(secs(9))).unwrap();
    clock.advance(secs(9));
    a.take().unwrap().advance(&a).unwrap();
    assert_eq!(a.peek(id).unwrap().ttl_left, Some(secs(100)), "without the delay");
    clock.advance(secs(100));
    assert!(a.try_take().unwrap().is_none());
    sound(&queue);
}

/// It was looked for in the tube that it had just left.
#[test]
fn a_task_is_found_while_it_moves() {
    let queue = Queue::in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let id = a.put(b"x").unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                a.move_to(id, &b).apply().unwrap();
                b.move_to(id, &a).apply().unwrap();
            }
        });
        for _ in 0..2000 {
            let found = queue.find(id).and_then(|_| queue.explain(id)).map(drop);
            let peeked = a.peek(id).map(drop);
            let is_missed = peeked.is_err_and(|error| error.kind() != ErrorKind::WrongTube);
            if found.is_err() || is_missed {
                stop.store(true, Ordering::Relaxed);
                panic!("{found:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// The row that leads to a task stayed, because its own row could not say that there was one.
#[test]
fn a_damaged_task_that_is_swept_leaves_no_way_to_it() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let id = a.put(b"to be damaged").unwrap();
    a.move_to(id, &b).apply().unwrap();
    close_sound(queue);
    let file = path.join("base.redb");
    let mut bytes = fs::read(&file).unwrap();
    let text = b"to be damaged";
    let at: Vec<_> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
    assert!(!at.is_empty());
    at.iter().for_each(|at| bytes[*at] ^= 1);
    fs::write(file, bytes).unwrap();
    let queue = still().0.open(&path).unwrap();
    queue.force_drop_tube("b").unwrap();
    queue.tick().unwrap();
    let faults = queue.check().unwrap();
    assert!(faults.iter().all(|fault| !fault.contains("Moved")), "{faults:?}");
    assert_eq!(kind(queue.find(id)), ErrorKind::TaskNotFound);
}

#[test]
fn a_guard_that_has_gone_on_keeps_no_session_open() {
    let (queue, a, b, _) = two();
    let (one, other) = (a.put(b"1").unwrap(), a.put(b"2").unwrap());
    let ada = queue.consumer("ada").unwrap();
    let mut task = a.by(&ada).claim(one).unwrap();
    a.by(&ada).claim(other).unwrap().detach();
    task.advance(&b).unwrap();
    drop(ada);
    assert_eq!(state(&a, other), State::Ready, "its session has ended");
    drop(task);
    assert_eq!(state(&b, one), State::Ready);
}

#[test]
fn a_put_that_waits_for_room_comes_before_an_advance() {
    let queue = Queue::in_memory().unwrap();
    let a = queue.tube("a").unwrap();
    let b = queue.create_tube("b", TubeOptions::default().capacity(1)).unwrap();
    let first = b.put(b"first").unwrap();
    a.put(b"x").unwrap();
    let mut task = a.take().unwrap();
    let stop = Stop::new();
    thread::scope(|scope| {
        scope.spawn(|| b.task(b"waits").wait_for_room_until(&stop).put().unwrap());
        until(|| !queue.waiters().unwrap().is_empty());
        assert_eq!(kind(task.advance(&b)), ErrorKind::Full);
        b.delete(first).unwrap();
    });
    assert_eq!(listed(&b, State::Ready), "waits");
    b.take().unwrap().ack().unwrap();
    task.advance(&b).unwrap();
}

/// A call takes no more of an endless list of tags than it needs to refuse it.
#[test]
fn a_move_with_an_endless_list_of_tags_is_refused() {
    let queue = still().0.in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let id = a.put(b"x").unwrap();
    let read = Cell::new(0);
    // As `repeat("a")`, with which the call never returns and takes all memory.
    let tags = (0..1_000_000).map(|_| {
        read.set(read.get() + 1);
        "a"
    });
    assert_eq!(kind(a.move_to(id, &b).tags(tags).apply()), ErrorKind::TooLarge);
    assert!(read.get() <= 2000, "{} tags were read", read.get());
    assert_eq!(a.peek(id).unwrap().tags, [""; 0]);
}

/// Regression: a put that waited for `durable_bytes_max` in a tube made every advance, move and
/// unfail into it `Full`. Where that tube was the only way out of another one, nothing ever freed
/// the bytes for which the put waited.
#[test]
fn a_put_that_waits_for_bytes_holds_no_move_up() {
    for capacity in [0, 10] {
        let queue = Queue::builder().durable_bytes_max(6).in_memory().unwrap();
        let a = queue.tube("a").unwrap();
        let b = queue.create_tube("b", TubeOptions::default().capacity(capacity)).unwrap();
        a.put(b"to ada").unwrap();
        let mut task = a.take().unwrap();
        thread::scope(|scope| {
            let put = scope.spawn(|| b.task(b"to bob").wait_for_room(Duration::MAX).put());
            until(|| !queue.waiters().unwrap().is_empty());
            task.advance(&b).unwrap();
            b.take().unwrap().ack().unwrap();
            assert!(put.join().unwrap().is_ok());
        });
    }
}

/// A move that brings bytes comes after the puts that wait for them.
#[test]
fn a_put_that_waits_for_bytes_comes_before_a_move_with_more_of_them() {
    let queue = Queue::builder().durable_bytes_max(10).in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    let id = a.put(b"12").unwrap();
    let mut task = a.take().unwrap();
    thread::scope(|scope| {
        let put = scope.spawn(|| b.task(b"123456789").wait_for_room(Duration::MAX).put());
        until(|| !queue.waiters().unwrap().is_empty());
        assert_eq!(kind(task.with_payload(b"12345678").advance(&b)), ErrorKind::Full);
        assert_eq!(kind(a.move_to(id, &b).payload(b"12345678").apply()), ErrorKind::Full);
        task.with_payload(b"1").advance(&b).unwrap();
        assert!(put.join().unwrap().is_ok());
    });
}
