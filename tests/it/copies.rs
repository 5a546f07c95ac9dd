//! Copies of tasks: a new task with what another one has been given.

use crate::{close_sound, home, kind, lone_with, secs, still};
use std::thread;
use tubewell::{
    Backoff, Codec, Conflict, ErrorKind, Place, Placement, PutView, Queue, Retention, State, Tube,
    TubeKind, TubeOptions,
};

fn made(queue: &Queue, name: &str, options: TubeOptions) -> Tube {
    queue.create_tube(name, options).unwrap()
}

fn plain() -> TubeOptions {
    TubeOptions::default()
}

#[test]
fn a_copy_has_what_the_task_was_given_and_nothing_of_what_became_of_it() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let options =
        plain().keep_finished(Retention::new()).detail("from", "the tube").book("its own");
    let (a, b) = (made(&queue, "a", options), made(&queue, "b", plain().priority(9)));
    let task = a.task(b"sum").key("k").kind("add").priority(3).group("g").ttr(secs(60));
    let task = task.ttl(secs(100)).max_attempts(2).backoff(Backoff::constant(secs(7)));
    let id = task.book("work").detail("to", "ada").put().unwrap();
    clock.advance(secs(30));
    a.take().unwrap().retry_after("no", secs(0)).unwrap();
    a.log(id, "a line").unwrap();

    let copies =
        || [a.copy_to(id, &b).unwrap(), b.copy_to(a.copy_to(id, &b).unwrap(), &b).unwrap()];
    let is_sound = |id| {
        let copy = b.peek(id).unwrap();
        assert_eq!((&copy.payload[..], copy.state, &copy.key), (&b"sum"[..], State::Ready, &None));
        assert_eq!((copy.kind.as_deref(), copy.book.as_deref()), (Some("add"), Some("work")));
        assert_eq!((copy.priority, copy.group.as_deref()), (3, Some("g")));
        assert_eq!((copy.ttr, copy.ttl_left), (Some(secs(60)), Some(secs(100))));
        let details: Vec<_> = copy.details.values().map(String::as_str).collect();
        assert_eq!((copy.max_attempts, &details[..]), (Some(2), &["ada"][..]));
        assert_eq!((copy.attempts, copy.deliveries, copy.history), (0, 0, 1));
        assert_eq!((&copy.last_failure, &copy.result), (&None, &None));
        assert_eq!(copy.age, secs(0));
    };
    copies().into_iter().for_each(is_sound); // of a ready task
    let task = a.take().unwrap();
    copies().into_iter().for_each(is_sound); // a taken one
    task.ack_with(b"42").unwrap();
    copies().into_iter().for_each(is_sound); // a finished one
    assert_eq!(a.peek(id).unwrap().result.as_deref(), Some(&b"42"[..]));

    b.take().unwrap().retry("no").unwrap();
    assert_eq!(b.summaries(State::Delayed).next().unwrap().unwrap().delay_left, Some(secs(7)));
    close_sound(queue);
}

#[test]
fn a_copy_of_a_delayed_or_buried_task_is_ready() {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let (a, b) = (made(&queue, "a", plain()), made(&queue, "b", plain().ttl(secs(5)).ttr(secs(5))));
    let delayed = a.task(b"d").delay(secs(50)).ttl(secs(10)).put().unwrap();
    let buried = a.put(b"b").unwrap();
    let trashed = a.put(b"t").unwrap();
    a.bury(buried, "no").unwrap();
    a.trash(trashed, "no").unwrap();
    for id in [delayed, buried, trashed] {
        let copy = b.peek(a.copy_to(id, &b).unwrap()).unwrap();
        assert_eq!((copy.state, &copy.reason, copy.buries), (State::Ready, &None, 0));
        let ttl = (id == delayed).then(|| secs(10));
        assert_eq!((copy.ttl_left, copy.ttr), (ttl, None), "not those of the tube");
    }
    clock.advance(secs(10));
    let (stats, before) = (b.stats().unwrap(), a.stats().unwrap());
    assert_eq!((stats.ready, before.delayed, before.buried, before.trashed), (2, 1, 1, 1));
    close_sound(queue);
}

#[test]
fn a_payload_in_pieces_is_copied_whole_and_is_not_shared() {
    for options in [plain(), plain().temporary(true)] {
        let (_home, path) = home();
        let queue = still().0.journal_bytes(1 << 20).open(&path).unwrap();
        let (a, b) = (made(&queue, "a", plain()), made(&queue, "b", options));
        let bytes: Vec<u8> = (0..2_000_000_usize).map(|at| (at / 7 + at / 4093) as u8).collect();
        let id = a.put(&bytes).unwrap();
        let there = a.copy_to(id, &b).unwrap();
        a.delete(id).unwrap();
        queue.tick().unwrap();
        let back = b.copy_to(there, &a).unwrap();
        b.truncate().unwrap();
        queue.tick().unwrap();
        assert!(a.peek(back).unwrap().payload == bytes);
        assert!(*a.take().unwrap() == *bytes);
        close_sound(queue);
    }
}

#[test]
fn a_copy_has_one_payload_while_others_are_written() {
    let (_home, path) = home();
    let queue = still().0.open(&path).unwrap();
    let (a, b) = (made(&queue, "a", plain()), made(&queue, "b", plain()));
    let put = |byte| {
        let bytes = vec![byte; 1_000_000];
        a.task(&bytes).key("k").on_conflict(Conflict::Replace).put().unwrap()
    };
    let id = put(0);
    thread::scope(|scope| {
        let writes = scope.spawn(|| (1..30).for_each(|byte| assert_eq!(put(byte), id)));
        while !writes.is_finished() {
            let copy = a.copy_to(id, &b).unwrap();
            let payload = b.peek(copy).unwrap().payload;
            assert!(payload.len() == 1_000_000 && payload.iter().all(|byte| *byte == payload[0]));
            b.delete(copy).unwrap();
        }
    });
    close_sound(queue);
}

/// After all others of its priority, in a group.
struct Grouped;

impl Placement for Grouped {
    fn place(&self, task: &PutView<'_>) -> Place {
        Place::new(&[]).group(format!("{:?} of {}", task.group, task.payload.len()))
    }
}

#[test]
fn a_copy_has_of_another_tube_what_a_put_has() {
    let (builder, _) = still();
    let queue = builder.placement("grouped", Grouped).in_memory().unwrap();
    let (a, b) = (made(&queue, "a", plain()), made(&queue, "b", TubeOptions::new(TubeKind::Fifo)));
    let id = a.task(b"x").priority(3).ttl(secs(9)).backoff(Backoff::NONE).put().unwrap();
    let copy = b.peek(a.copy_to(id, &b).unwrap()).unwrap();
    assert_eq!((copy.priority, copy.ttl_left), (0, None), "it has no priorities and no times");
    let placed = made(&queue, "placed", plain().placement("grouped"));
    let grouped = a.task(b"x").group("g").put().unwrap();
    let copy = placed.peek(a.copy_to(grouped, &placed).unwrap()).unwrap();
    assert_eq!(copy.group.as_deref(), Some("Some(\"g\") of 1"));

    let full = made(&queue, "full", plain().capacity(1));
    full.put(b"y").unwrap();
    let fails = |id, to: &Tube| kind(a.copy_to(id, to));
    assert_eq!(fails(id, &full), ErrorKind::Full);
    assert_eq!(fails(grouped, &b), ErrorKind::Unsupported);
    assert_eq!(fails(full.put_front(b"z").unwrap_or(id), &full), ErrorKind::Full);
    let of_other = full.take().unwrap().id();
    assert_eq!(fails(of_other, &b), ErrorKind::WrongTube);
    assert_eq!(fails(tubewell::TaskId::new(999), &b), ErrorKind::TaskNotFound);
    let other = Queue::in_memory().unwrap().tube("b").unwrap();
    assert_eq!(fails(id, &other), ErrorKind::Invalid);
    queue.drop_tube("full").unwrap();
    assert_eq!(fails(id, &full), ErrorKind::TubeNotFound);
    assert_eq!((a.len().unwrap(), b.len().unwrap()), (2, 1));
    close_sound(queue);
}

struct Text;

impl Codec<String> for Text {
    const ID: u8 = 64;
    const VERSION: u16 = 7;

    fn encode(value: &String, out: &mut Vec<u8>) -> Result<(), tubewell::BoxError> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<String, tubewell::BoxError> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}

#[test]
fn a_copy_keeps_the_codec_of_the_task() {
    let queue = Queue::in_memory().unwrap();
    let a = queue.tube("a").unwrap().with_codec::<String, Text>();
    let b = queue.tube("b").unwrap();
    let id = a.put(&"dear ada".to_owned()).unwrap();
    a.copy_to(id, &b).unwrap();
    // A tube of bytes shows the bytes, and one of the type reads the value.
    assert_eq!(&b.peek_next(State::Ready).unwrap().unwrap().payload[..], b"dear ada");
    assert_eq!(*b.with_codec::<String, Text>().take().unwrap(), "dear ada");
    close_sound(queue);
}

/// A worker was given no bytes as if they were the payload.
#[test]
fn a_task_without_its_payload_has_no_copy() {
    let (builder, _clock) = still();
    let queue = builder.in_memory().unwrap();
    let options = plain().keep_finished(Retention::new()).drop_payloads(true);
    let tube = made(&queue, "a", options);
    let id = tube.put(b"sum").unwrap();
    tube.take().unwrap().ack().unwrap();
    let error = tube.copy_to(id, &tube).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongState);
    assert!(error.to_string().contains("its payload was not kept"), "{error}");
    assert_eq!(tube.stats().unwrap().ready, 0);
    close_sound(queue);
}

/// Regression: the ttl of a copy had the delays in it that the other task had had.
#[test]
fn a_copy_has_the_ttl_that_was_given() {
    let (tube, clock) = lone_with(TubeOptions::default());
    let id = tube.task(b"a").delay(secs(50)).ttl(secs(10)).put().unwrap();
    for (passed, expected) in [(40, 10), (10, 10)] {
        clock.advance(secs(passed));
        let copy = tube.copy_to(id, &tube).unwrap();
        assert_eq!(tube.peek(copy).unwrap().ttl_left, Some(secs(expected)));
        tube.delete(copy).unwrap();
    }
}
