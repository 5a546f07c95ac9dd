//! Many in one step.

mod large;
mod terms;

use crate::disk::{Event, Recorder};
use crate::{drain, home, is_gone, killed, kind, lone, lone_with, open, secs};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tubewell::{
    Durability, ErrorKind, Lease, Queue, State, Task, Transaction, Tube, TubeKind, TubeOptions,
};

fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn a_batch_is_put_in_its_order() {
    let (tube, _) = lone();
    let ids = tube.put_many(bytes(&["a", "b", "c"])).unwrap();
    assert!(ids.is_sorted() && ids.len() == 3);
    assert_eq!(drain(&tube), "a b c");
}

#[test]
fn an_empty_batch_is_nothing() {
    let (tube, _) = lone();
    assert!(tube.put_many(bytes(&[])).unwrap().is_empty());
    assert!(tube.take_many(0).unwrap().is_empty());
    tube.ack_many(Vec::<Lease>::new()).unwrap();
}

#[test]
fn a_batch_with_one_that_is_refused_puts_none() {
    let queue = crate::still().0.payload_bytes_max(10).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let refused = tube.put_many(bytes(&["short", "much too long for it", "short"]));
    assert_eq!(kind(refused), ErrorKind::TooLarge);
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn a_batch_has_its_options_in_common() {
    let (tube, clock) = lone();
    tube.put(b"later").unwrap();
    let batch = tube.batch(bytes(&["a", "b"])).priority(-1).group("g").ttr(secs(5)).ttl(secs(50));
    for id in batch.delay(secs(10)).put().unwrap() {
        let task = tube.peek(id).unwrap();
        assert_eq!((task.state, task.priority), (State::Delayed, -1));
        assert_eq!((task.group.as_deref(), task.ttr), (Some("g"), Some(secs(5))));
        assert_eq!(task.ttl_left, Some(secs(50)), "a delay is added to it");
    }
    clock.advance(secs(10));
    let first = tube.take().unwrap();
    assert_eq!((&first[..], &tube.take().unwrap()[..]), (&b"a"[..], &b"later"[..]), "one group");
    first.ack().unwrap();
    assert_eq!(drain(&tube), "b later");

    let noon = std::time::UNIX_EPOCH + secs(4_000_000_000);
    let ids = tube.batch(bytes(&["a"])).run_at(noon).put().unwrap();
    assert_eq!(tube.peek(ids[0]).unwrap().due, Some(noon));
}

#[test]
fn a_batch_is_as_durable_as_it_says() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let syncs = || queue.space().unwrap().syncs;
    let before = syncs();
    tube.batch(bytes(&["a", "b"])).durability(Durability::Relaxed).put().unwrap();
    assert_eq!(syncs(), before);
    tube.batch(bytes(&["c", "d"])).put().unwrap();
    assert_eq!(syncs(), before + 1);
    assert_eq!(drain(&tube), "a b c d");
}

/// The folder after a kill in the middle of the last write: the journal as before, with the first
/// part of the bytes that differ.
fn torn(path: &Path, before: &[u8], part: impl FnOnce(usize) -> usize) -> (TempDir, PathBuf) {
    let (home, copy) = killed(path);
    let after = fs::read(copy.join("journal")).unwrap();
    let differs: Vec<usize> = (0..after.len()).filter(|at| before[*at] != after[*at]).collect();
    let (first, end) = (differs[0], differs[differs.len() - 1] + 1);
    let cut = first + part(end - first);
    let torn = [&after[..cut], &before[cut..]].concat();
    fs::write(copy.join("journal"), torn).unwrap();
    (home, copy)
}

/// A batch is one record of the journal: a kill during its write leaves none of it.
#[test]
fn a_batch_is_written_whole_or_not_at_all() {
    type Step = fn(&Tube, &mut Vec<Task>);
    let put: Step = |tube, _| drop(tube.put_many(vec![b"x".to_vec(); 100]).unwrap());
    let take: Step = |tube, tasks| *tasks = tube.take_many(100).unwrap();
    let ack: Step = |tube, tasks| tube.ack_many(tasks.drain(..)).unwrap();
    // For each verb, the number of tasks and how many were ever taken: without the batch, and with
    // it.
    let steps = [(put, (0, 0), (100, 0)), (take, (100, 0), (100, 100)), (ack, (100, 100), (0, 0))];
    let (_home, path) = home();
    let tube = open(&path).tube("t").unwrap();
    let mut tasks = Vec::new();
    for (no, (step, without, with)) in steps.into_iter().enumerate() {
        let before = fs::read(path.join("journal")).unwrap();
        step(&tube, &mut tasks);
        let found = |part: fn(usize) -> usize| {
            let (_copy, copy) = torn(&path, &before, part);
            let tube = open(&copy).tube("t").unwrap();
            let all: Vec<_> = tube.tasks(State::Ready).map(|task| task.unwrap()).collect();
            (all.len(), all.iter().filter(|task| task.attempts > 0).count())
        };
        for part in [|_| 0, |all| all / 4, |all| all / 2, |all| all - 1] {
            assert_eq!(found(part), without, "step {no}");
        }
        assert_eq!(found(|all| all), with, "step {no}");
    }
}

#[test]
fn a_batch_is_one_write_and_one_sync_of_the_journal() {
    let disk = Recorder::default();
    let queue = Queue::builder().by_hand(true).disk(disk.lend()).open_disk().unwrap();
    let tube = queue.tube("t").unwrap();
    let mut taken = Vec::new();
    let mut done_in = |batch: &mut dyn FnMut(&mut Vec<Task>)| {
        disk.begin();
        batch(&mut taken);
        let events = disk.events();
        let writes = events.iter().filter(|event| matches!(event, Event::Write(..))).count();
        assert!(events.iter().all(|event| event.file() == 1), "the journal alone");
        (writes, events.len() - writes)
    };
    assert_eq!(done_in(&mut |_| drop(tube.put_many(vec![[7; 100]; 500]).unwrap())), (1, 1));
    assert_eq!(done_in(&mut |taken| *taken = tube.take_many(500).unwrap()), (1, 0));
    assert_eq!(done_in(&mut |taken| tube.ack_many(taken.drain(..)).unwrap()), (1, 1));
    assert!(tube.is_empty().unwrap());
    let mut own = |_: &mut Vec<Task>| {
        let tasks = (0..500_i64).map(|no| tube.task(&[7; 100]).priority(no % 5).ttr(secs(9)));
        drop(tube.batch_of(tasks).put().unwrap());
    };
    assert_eq!(done_in(&mut own), (1, 1), "each has terms of its own");
    assert_eq!(tube.len().unwrap(), 500);
}

#[test]
fn an_option_that_is_refused_refuses_the_batch() {
    let (tube, _) = lone_with(TubeOptions::new(TubeKind::Fifo));
    let batch = || tube.batch(bytes(&["a", "b"]));
    assert_eq!(kind(batch().priority(1).put()), ErrorKind::Unsupported);
    assert_eq!(kind(batch().delay(secs(1)).put()), ErrorKind::Unsupported);
    assert_eq!(kind(batch().group("g").put()), ErrorKind::Unsupported);
    assert_eq!(tube.len().unwrap(), 0);
    let (tube, _) = lone();
    assert_eq!(kind(tube.batch(bytes(&["a"])).ttl(secs(0)).put()), ErrorKind::Invalid);
}

#[test]
fn a_batch_is_put_with_its_transaction_or_not() {
    let queue = crate::still().0.in_memory().unwrap();
    let (tube, other) = (queue.tube("t").unwrap(), queue.tube("u").unwrap());
    let stranger = lone().0;
    let put = |tx: &Transaction<'_>| tube.batch(bytes(&["b", "c"])).priority(-1).put_in(tx);
    let undone = queue.transact(|tx| {
        put(tx).unwrap();
        assert_eq!(kind(stranger.batch(bytes(&["x"])).put_in(tx)), ErrorKind::Invalid);
        assert_eq!(kind(tube.batch(vec![Vec::new(); 65_537]).put_in(tx)), ErrorKind::Invalid);
        Err::<(), _>("no")
    });
    assert_eq!((kind(undone), tube.len().unwrap()), (ErrorKind::Rejected, 0));
    let ids = queue.transact(|tx| {
        other.put_in(tx, b"a")?;
        put(tx)
    });
    assert!(ids.as_ref().is_ok_and(|ids| ids.is_sorted() && ids.len() == 2));
    assert_eq!((drain(&tube), drain(&other)), ("b c".into(), "a".into()));
}

#[test]
fn a_batch_has_65_536_tasks_at_most() {
    let (tube, _) = lone();
    assert_eq!(kind(tube.put_many(vec![Vec::new(); 65_537])), ErrorKind::Invalid);
    assert_eq!(kind(tube.put_many(std::iter::repeat(Vec::new()))), ErrorKind::Invalid);
    assert_eq!(tube.put_many(vec![Vec::new(); 65_536]).unwrap().len(), 65_536);
    assert_eq!(tube.take_many(usize::MAX).unwrap().len(), 65_536);
}

#[test]
fn ack_many_acks_what_is_still_held_and_names_the_rest() {
    let (tube, _) = lone();
    let ids = tube.put_many(bytes(&["a", "b", "c"])).unwrap();
    let tasks = tube.take_many(3).unwrap();
    tube.delete(ids[1]).unwrap();
    let lost = tube.ack_many(tasks).unwrap_err();
    assert!(lost.is_lease_lost());
    assert_eq!(lost.tasks(), [ids[1]]);
    assert!(is_gone(&tube, ids[0]) && is_gone(&tube, ids[2]));
}

#[test]
fn ack_many_takes_leases_as_well_as_tasks() {
    let (tube, _) = lone();
    tube.put_many(bytes(&["a", "b"])).unwrap();
    let leases: Vec<Lease> =
        tube.take_many(2).unwrap().into_iter().map(|task| task.split().1).collect();
    tube.ack_many(leases).unwrap();
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn a_task_of_another_tube_is_refused_and_none_is_acked() {
    let queue = crate::still().0.in_memory().unwrap();
    let (a, b) = (queue.tube("a").unwrap(), queue.tube("b").unwrap());
    a.put(b"x").unwrap();
    b.put(b"y").unwrap();
    let tasks = [a.take().unwrap(), b.take().unwrap()];
    assert_eq!(kind(a.ack_many(tasks)), ErrorKind::Invalid);
    assert_eq!((drain(&a), drain(&b)), ("x".into(), "y".into()));
}

#[test]
fn a_batch_larger_than_the_journal_goes_through() {
    let (_home, path) = home();
    let queue = crate::still().0.journal_bytes(64 << 10).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put_many((0..300).map(|_| vec![7; 1000])).unwrap();
    crate::close_sound(queue);
    drop(tube);
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    assert_eq!(tube.take_many(1000).unwrap().len(), 300);
}

#[test]
fn a_taken_batch_returns_as_a_batch() {
    let (tube, clock) = lone();
    for text in ["a", "b"] {
        tube.task(text.as_bytes()).ttr(secs(5)).put().unwrap();
    }
    let tasks = tube.take_many(2).unwrap();
    clock.advance(secs(5));
    assert_eq!(tube.ack_many(tasks).unwrap_err().tasks().len(), 2);
    assert_eq!(drain(&tube), "a b");
}
