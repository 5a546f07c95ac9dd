//! A batch of tasks with options of their own, and a batch read from an iterator.

use crate::{drain, kind, lone, lone_with, secs, still};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tubewell::{BoxError, Codec, Conflict, Durability, ErrorKind, PutOutcome, State, TubeOptions};

#[test]
fn each_task_has_its_own_terms_and_those_of_the_batch_for_the_rest() {
    let (tube, _) = lone();
    let ids = tube
        .batch_of([
            tube.task(b"a").priority(3).ttl(secs(9)),
            tube.task(b"b").delay(secs(5)).group("g"),
            tube.task(b"c").key("k").ttr(secs(1)),
        ])
        .priority(7)
        .ttr(secs(2))
        .ttl(secs(100))
        .put()
        .unwrap();
    let seen = ids.iter().map(|id| tube.peek(*id).unwrap());
    let seen: Vec<_> = seen.map(|task| (task.priority, task.ttr, task.ttl_left)).collect();
    assert_eq!(
        seen,
        [
            (3, Some(secs(2)), Some(secs(9))),
            (7, Some(secs(2)), Some(secs(100))),
            (7, Some(secs(1)), Some(secs(100)))
        ]
    );
    let delayed = tube.peek(ids[1]).unwrap();
    assert_eq!((delayed.state, delayed.group.as_deref()), (State::Delayed, Some("g")));
    assert_eq!(tube.peek(ids[2]).unwrap().key.as_deref(), Some("k"));
}

#[test]
fn a_start_of_its_own_replaces_the_delay_of_the_batch() {
    let (tube, _) = lone();
    let past = std::time::SystemTime::UNIX_EPOCH;
    let tasks = [tube.task(b"a").run_at(past), tube.task(b"b")];
    let ids = tube.batch_of(tasks).delay(secs(5)).put().unwrap();
    let states = ids.iter().map(|id| tube.peek(*id).unwrap().state);
    assert_eq!(states.collect::<Vec<_>>(), [State::Ready, State::Delayed]);
}

#[test]
fn the_outcome_of_each_key_is_returned() {
    let (tube, _) = lone();
    let old = tube.task(b"old").key("k").put().unwrap();
    let tasks = [
        tube.task(b"a").key("k"),
        tube.task(b"b").key("new"),
        tube.task(b"c").key("new"),
        tube.task(b"d").key("k").on_conflict(Conflict::Replace),
    ];
    let done = tube.batch_of(tasks).put_outcomes().unwrap();
    assert_eq!((done[0].id, done[0].outcome), (old, PutOutcome::Existing));
    assert_eq!(done[1].outcome, PutOutcome::New);
    assert_eq!((done[2].id, done[2].outcome), (done[1].id, PutOutcome::Existing), "of this batch");
    assert_eq!(done[3].outcome, PutOutcome::Replaced);
    assert_eq!(drain(&tube), "b d");
}

#[test]
fn one_that_is_refused_is_named_and_none_is_in() {
    let queue = still().0.payload_bytes_max(4).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let other = queue.tube("other").unwrap();
    tube.task(b"old").key("k").put().unwrap();
    let stop = tubewell::Stop::new();
    let wrong = [
        (tube.task(b"much too long"), ErrorKind::TooLarge),
        (tube.task(b"x").ttr(Duration::ZERO), ErrorKind::Invalid),
        (tube.task(b"x").delay(secs(1)).run_at(std::time::SystemTime::now()), ErrorKind::Invalid),
        (tube.task(b"x").group(""), ErrorKind::Invalid),
        (tube.task(b"x").key("k").on_conflict(Conflict::Reject), ErrorKind::KeyExists),
        (other.task(b"x"), ErrorKind::Invalid),
        (tube.task(b"x").wait_for_room(secs(1)), ErrorKind::Invalid),
        (tube.task(b"x").wait_for_room_until(&stop), ErrorKind::Invalid),
        (tube.task(b"x").durability(Durability::Relaxed), ErrorKind::Invalid),
    ];
    for (task, why) in wrong {
        let refused = tube.batch_of([tube.task(b"a"), tube.task(b"b"), task]).put().unwrap_err();
        assert_eq!((refused.kind(), refused.index()), (why, Some(2)), "{refused}");
        assert!(refused.to_string().contains("number 2 of the batch"), "{refused}");
        assert_eq!(tube.len().unwrap(), 1);
    }
    assert!(tube.batch_of([]).put().unwrap().is_empty());
}

/// The index was left out where the op, or the pieces of a large payload, refused the only task.
#[test]
fn the_only_task_of_a_batch_is_named_and_a_single_put_has_no_index() {
    let queue = still().0.durable_bytes_max(1 << 20).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let wrong = || tube.task(b"x").ttl(Duration::ZERO);
    assert_eq!(tube.batch_of([wrong()]).put().unwrap_err().index(), Some(0));
    assert_eq!(wrong().put().unwrap_err().index(), None);
    let large = vec![0; 8 << 20];
    let full = |refused: tubewell::Error| (refused.kind(), refused.index());
    let tasks = [tube.task(b"x"), tube.task(&large)];
    assert_eq!(full(tube.batch_of(tasks).put().unwrap_err()), (ErrorKind::Full, Some(1)));
    assert_eq!(full(tube.put(&large).unwrap_err()), (ErrorKind::Full, None));
    assert!(tube.is_empty().unwrap());
}

#[test]
fn a_batch_that_does_not_fit_the_capacity_is_refused_as_a_whole() {
    let (tube, _) = lone_with(TubeOptions::default().capacity(2));
    let tasks = || [tube.task(b"a"), tube.task(b"b"), tube.task(b"c")];
    let refused = tube.batch_of(tasks()).put().unwrap_err();
    assert_eq!((refused.kind(), refused.index()), (ErrorKind::Full, Some(2)));
    assert!(tube.is_empty().unwrap());
}

#[test]
fn all_of_an_iterator_is_put_in_order_and_in_groups() {
    let (tube, _) = lone();
    let names = (0..3000).map(|number: u32| format!("{number:04}").into_bytes());
    assert_eq!(tube.put_all(names.clone()).unwrap(), 3000);
    let taken = tube.take_many(3000).unwrap();
    assert!(taken.iter().map(|task| task.to_vec()).eq(names));
    assert_eq!(tube.put_all(Vec::<Vec<u8>>::new()).unwrap(), 0);
}

#[test]
fn what_was_put_before_a_refusal_stays_and_is_counted() {
    let (tube, _) = lone_with(TubeOptions::default().capacity(2500));
    let refused = tube.put_all((0..3000).map(|_| b"x".to_vec())).unwrap_err();
    assert_eq!((refused.kind(), refused.tasks_put()), (ErrorKind::Full, Some(2048)));
    assert!(refused.to_string().contains("2048 tasks were put"), "{refused}");
    assert_eq!(tube.len().unwrap(), 2048);
}

#[test]
fn large_payloads_make_small_groups() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let events = queue.events();
    tube.put_all((0..6).map(|_| vec![7; 400 << 10])).unwrap();
    let causes = std::iter::from_fn(|| events.try_recv()).count();
    assert_eq!(causes, 6);
    let limited = still().0.durable_bytes_max(5 * (400 << 10)).in_memory().unwrap();
    let refused = limited.tube("t").unwrap().put_all((0..6).map(|_| vec![7; 400 << 10]));
    assert_eq!(refused.unwrap_err().tasks_put(), Some(3), "a group ends at a megabyte");
}

/// The bytes that count are those of the payloads, not of the values that are encoded to them: 1024
/// values of a megabyte were read, held and encoded at once.
#[cfg(feature = "bincode")]
#[test]
fn large_values_make_small_groups() {
    let limited = still().0.durable_bytes_max(5 * (410 << 10)).in_memory().unwrap();
    let tube = limited.tube("t").unwrap().typed::<String>();
    let refused = tube.put_all((0..6).map(|_| "x".repeat(400 << 10)));
    assert_eq!(refused.unwrap_err().tasks_put(), Some(3), "a group ends at a megabyte");

    let (bytes, _) = lone();
    let (tube, most_ahead) = (bytes.typed::<Vec<u8>>(), std::cell::Cell::new(0));
    let values = (0..20_u8).map(|number| {
        let ahead = u64::from(number) - bytes.len().unwrap();
        most_ahead.set(most_ahead.get().max(ahead));
        vec![number; 1 << 20]
    });
    assert_eq!((tube.put_all(values).unwrap(), most_ahead.get()), (20, 0), "one by one");
    let last = tube.take_many(20).unwrap().pop().unwrap();
    assert_eq!((last.len(), last[0]), (1 << 20, 19));
}

/// A value that cannot be encoded ends the put as any other refusal does.
#[test]
fn a_value_that_is_not_encoded_leaves_the_groups_before() {
    let (bytes, _) = lone();
    let tube = bytes.with_codec::<u64, Few>();
    let refused = tube.put_all(0..3000).unwrap_err();
    assert_eq!((refused.kind(), refused.tasks_put()), (ErrorKind::Codec, Some(2048)));
    assert!(refused.to_string().starts_with("put in tube"), "{refused}");
    assert_eq!(bytes.len().unwrap(), 2048);
}

/// Numbers below 2500.
struct Few;

impl Codec<u64> for Few {
    const ID: u8 = 64;
    const VERSION: u16 = 1;

    fn encode(value: &u64, out: &mut Vec<u8>) -> Result<(), BoxError> {
        out.extend(value.to_be_bytes());
        if *value < 2500 { Ok(()) } else { Err("too many".into()) }
    }

    fn decode(bytes: &[u8]) -> Result<u64, BoxError> {
        Ok(u64::from_be_bytes(bytes.try_into()?))
    }
}

#[test]
fn an_iterator_that_panics_leaves_the_groups_before() {
    let (tube, _) = lone();
    let payloads = (0..2000).map(|number| {
        assert!(number < 1500, "planned");
        b"x".to_vec()
    });
    assert!(catch_unwind(AssertUnwindSafe(|| tube.put_all(payloads))).is_err());
    assert_eq!(tube.len().unwrap(), 1024);
    tube.put(b"y").unwrap();
}

#[test]
fn a_batch_in_a_transaction_is_put_with_it_or_not_at_all() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let tasks = || [tube.task(b"a").priority(1), tube.task(b"b")];
    let undone = queue.transact(|tx| {
        tube.batch_of(tasks()).put_in(tx)?;
        Err::<(), _>(Box::<dyn std::error::Error + Send + Sync>::from("no"))
    });
    assert_eq!(kind(undone), ErrorKind::Rejected);
    assert!(tube.is_empty().unwrap());
    queue.transact(|tx| tube.batch_of(tasks()).put_in(tx)).unwrap();
    assert_eq!(drain(&tube), "b a");
}

#[test]
fn what_is_reported_as_put_is_synced() {
    let (_home, path) = crate::home();
    let queue = crate::open(&path);
    let tube = queue.tube("t").unwrap();
    let mut events = queue.events();
    // The last group is refused for its size, which waits for nothing by itself.
    let large = vec![7; 17 << 20];
    let payloads = (0..1024).map(|_| b"x".to_vec()).chain([large]);
    let refused = tube.put_all(payloads).unwrap_err();
    assert_eq!((refused.kind(), refused.tasks_put()), (ErrorKind::TooLarge, Some(1024)));
    let syncs = queue.space().unwrap().syncs;
    let last = events.nth(1023).unwrap();
    events.synced(&last).unwrap();
    assert_eq!(queue.space().unwrap().syncs, syncs, "no sync was left to do");
}

#[test]
fn a_dropped_tube_refuses_a_batch() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    queue.drop_tube("t").unwrap();
    assert_eq!(kind(tube.batch_of([tube.task(b"a")]).put()), ErrorKind::TubeNotFound);
    assert_eq!(kind(tube.put_all([b"a".to_vec()])), ErrorKind::TubeNotFound);
}
