//! Damaged rows of the base: `check` reports each, other rows are served, and no task is lost.

mod kinds;

use crate::{counts, drain, home, is_mended, killed, kind, next, open, secs, state, still};
use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tubewell::{
    Consumer, ErrorKind, Queue, Reason, Result, State, TaskId, Ticket, Tube, TubeOptions,
};
use xxhash_rust::xxh3::xxh3_64;

const GROUP: u8 = 0x15;
const OPEN_HEAD: u8 = 0x14;
const LINE: u8 = 0x13;
const FRESH: u8 = 0x11;
/// The first tube's.
const RUN: [u8; 4] = [0, 0, 0, 1];

/// A key of the first tube.
fn key(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    [&[tag], &RUN[..], &parts.concat()].concat()
}

/// The key of the work of one kind under the tube's run.
fn work(kind: u8) -> Vec<u8> {
    [&[0x04, kind], &RUN[..], &[0; 8]].concat()
}

/// The rank of a task of priority 0 that was put at the end.
fn place(id: TaskId) -> Vec<u8> {
    let middle = 1_u64 << 63;
    [middle, middle | id.get(), id.get()].map(u64::to_be_bytes).concat()
}

/// A value as the base stores it.
fn sealed(key: &[u8], value: &[u8]) -> Vec<u8> {
    let checksum = (xxh3_64(value) ^ xxh3_64(key).rotate_left(32)) as u32;
    [value, &checksum.to_be_bytes()].concat()
}

/// Flips a bit in every copy of these bytes, at this offset from their beginning.
fn flip(folder: &Path, bytes: &[u8], behind: usize) {
    let base = folder.join("base.redb");
    let held = fs::read(&base).unwrap();
    let mut file = OpenOptions::new().write(true).open(&base).unwrap();
    let met = |at: &usize| held[*at..].starts_with(bytes);
    let places: Vec<usize> = (0..held.len()).filter(met).map(|at| at + behind).collect();
    assert!(!places.is_empty(), "the row was not found");
    for at in places {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(&[held[at] ^ 0x20]).unwrap();
    }
}

/// Flips a bit in the value of a row.
pub(crate) fn flip_value(folder: &Path, key: &[u8], value: &[u8]) {
    flip(folder, &sealed(key, value), 0);
}

fn flip_counter(folder: &Path, in_flight: u64) {
    flip_value(folder, &key(GROUP, &[b"\x06needle"]), &in_flight.to_be_bytes());
}

/// The files after a kill, with two tubes and a taken task in one of them.
fn two_tubes() -> (TempDir, PathBuf) {
    let (_home, path) = home();
    let queue = open(&path);
    let (bad, good) = (queue.tube("needle").unwrap(), queue.tube("good").unwrap());
    for tube in [&bad, &good] {
        (0..2).for_each(|_| _ = tube.put(b"a").unwrap());
    }
    let ada = queue.consumer("ada").unwrap();
    let held = [bad.by(&ada).take().unwrap(), good.by(&ada).take().unwrap(), bad.take().unwrap()];
    let copied = checkpointed(&queue, &path);
    drop(held);
    copied
}

/// All verbs of the tube that need only its own rows.
fn is_served(queue: &Queue) {
    let good = queue.tube("good").unwrap();
    assert_eq!(counts(&good), [2, 0, 0, 0]);
    good.put(b"b").unwrap();
    let ada = queue.consumer("ada").unwrap();
    let held = good.by(&ada).take().unwrap();
    assert_eq!(queue.taken().unwrap().len(), 1);
    assert!(queue.stats().unwrap().iter().any(|stats| stats.ready == 2));
    drop(held);
    ada.close().unwrap();
    queue.tick().unwrap();
    assert_eq!(drain(&good), "a a b");
}

/// Regression: the row of one tube had a flipped byte, the queue did not open, and no tube was
/// served.
#[test]
fn a_damaged_tube_refuses_its_own_verbs_and_no_open() {
    let (_copy, copy) = two_tubes();
    flip(&copy, b"\x06needle", 1);
    for _ in 0..2 {
        let (builder, clock) = still();
        let queue = builder.open(&copy).unwrap();
        assert_eq!(kind(queue.tube("needle")), ErrorKind::Damaged);
        assert_eq!(kind(queue.drop_tube("needle")), ErrorKind::Damaged);
        assert_eq!(queue.find_tube("good").unwrap().unwrap().name(), "good");
        clock.advance(secs(1));
        queue.tick().unwrap();
        queue.close().unwrap();
    }
    let queue = open(&copy);
    is_served(&queue);
    assert!(faults(&queue).starts_with("the row 0300000001 is damaged"), "{}", faults(&queue));
}

#[test]
fn a_tube_with_a_damaged_name_row_is_found() {
    let (_copy, copy) = two_tubes();
    flip_value(&copy, b"\x02needle", &1_u64.to_be_bytes());
    let queue = open(&copy);
    assert_eq!(drain(&queue.tube("needle").unwrap()), "a a");
    is_served(&queue);
    assert!(faults(&queue).starts_with("the row 026e6565646c65 is damaged"), "{}", faults(&queue));
}

#[test]
fn damaged_counters_refuse_new_tubes_and_nothing_else() {
    let (_copy, copy) = two_tubes();
    flip_value(&copy, b"\x01\x01", &[2_u32, 2, 1].map(u32::to_be_bytes).concat());
    let queue = open(&copy);
    assert_eq!(kind(queue.tube("new")), ErrorKind::Damaged);
    assert_eq!(drain(&queue.tube("needle").unwrap()), "a a");
    assert!(faults(&queue).starts_with("the row 0101 is damaged"), "{}", faults(&queue));
}

fn put(tube: &Tube, group: &str, texts: &[&str]) -> Vec<TaskId> {
    let put = |text: &&str| tube.task(text.as_bytes()).group(group).ttr(secs(60)).put().unwrap();
    texts.iter().map(put).collect()
}

/// The files after a kill, with all rows in the base.
fn checkpointed(queue: &Queue, path: &Path) -> (TempDir, PathBuf) {
    queue.checkpoint().unwrap();
    killed(path)
}

fn faults(queue: &Queue) -> String {
    queue.check().unwrap().join("\n")
}

/// Regression: a group's counter had a flipped byte. The lease of its task ended, the task's taken
/// row was removed, and only then was the counter read: the task was lost.
#[test]
fn a_damaged_counter_loses_no_task_whose_lease_lapses() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let ids = put(&tube, "needle", &["a", "b"]);
    put(&tube, "hay", &["c"]);
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    tube.by(&ada).take().unwrap().detach();
    let (_copy, copy) = checkpointed(&queue, &path);
    flip_counter(&copy, 1);

    let (builder, clock) = still();
    let queue = builder.open(&copy).unwrap();
    let tube = queue.tube("t").unwrap();
    assert!(faults(&queue).contains("damaged row"), "{}", faults(&queue));
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    let lease = crate::resumed(&ada, &tube).remove(0).detach();
    clock.advance(secs(61));
    queue.tick().unwrap();
    assert_eq!(state(&tube, ids[0]), State::Ready);
    assert_eq!(kind(tube.ticket(lease).ack()), ErrorKind::LeaseLost);
    assert_eq!(counts(&tube), [3, 0, 0, 0]);
    is_mended(&queue);
    assert_eq!(drain(&tube), "a b c");
    is_mended(&queue);
}

/// Regression: the same byte and a kill: the task could not be returned, so the queue did not open.
#[test]
fn a_damaged_counter_refuses_no_open() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    put(&tube, "needle", &["a", "b"]);
    put(&tube, "hay", &["c"]);
    let _held = tube.take().unwrap();
    let (_copy, copy) = checkpointed(&queue, &path);
    flip_counter(&copy, 1);

    let queue = open(&copy);
    let tube = queue.tube("t").unwrap();
    assert_eq!(counts(&tube), [3, 0, 0, 0]);
    is_mended(&queue);
    assert_eq!(drain(&tube), "a b c");
    is_mended(&queue);
}

/// The tasks in flight are counted again: those that are taken, and those that hold the group while
/// they are delayed.
#[test]
fn a_damaged_counter_is_counted_again() {
    let (_home, path) = home();
    let queue = open(&path);
    let options = TubeOptions::default().in_flight(3).hold_group_while_delayed(true);
    let tube = queue.create_tube("t", options).unwrap();
    put(&tube, "needle", &["a", "b", "c", "d", "e"]);
    put(&tube, "hay", &["f"]);
    tube.task(b"later").group("needle").delay(secs(500)).put().unwrap();
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    let mine = tube.by(&ada);
    mine.take().unwrap().retry_after("not now", secs(100)).unwrap();
    mine.take().unwrap().detach();
    let (_copy, copy) = checkpointed(&queue, &path);
    flip_counter(&copy, 2);

    let queue = open(&copy);
    let tube = queue.tube("t").unwrap();
    put(&tube, "needle", &["g"]);
    is_mended(&queue);
    let third = tube.take().unwrap();
    assert_eq!(&third[..], b"c");
    let other = tube.take().unwrap();
    assert_eq!(&other[..], b"f", "three of the group are in flight");
    assert!(tube.try_take().unwrap().is_none());
    is_mended(&queue);
    third.ack().unwrap();
    assert_eq!(next(&tube), "d");
    other.ack().unwrap();
    is_mended(&queue);
}

/// A queue killed while ada held the first of two tasks of a group, and one of another group. The
/// row of the first has a flipped byte; its payload has its own row.
fn with_a_damaged_lease(grace: Duration) -> (TempDir, PathBuf, TaskId) {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let id = tube.task(&STRAW).group("needle").ttr(secs(60)).put().unwrap();
    put(&tube, "needle", &["b"]);
    put(&tube, "hay", &["c"]);
    let ada = queue.consumer_with_grace("ada", grace).unwrap();
    let _held = [tube.by(&ada).take().unwrap(), tube.by(&ada).take().unwrap()];
    let (copied, copy) = checkpointed(&queue, &path);
    flip(&copy, &[b"\x06needle", &(STRAW.len() as u64).to_be_bytes()[..]].concat(), 7);
    (copied, copy, id)
}

const STRAW: [u8; 5000] = [b's'; 5000];

/// One of two leases of a group is damaged as well as the group's counter. Only one returns.
#[test]
fn a_damaged_lease_is_counted_too() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", TubeOptions::default().in_flight(2)).unwrap();
    let id = tube.task(&STRAW).group("needle").put().unwrap();
    put(&tube, "needle", &["b", "c", "d"]);
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    let _held = [tube.by(&ada).take().unwrap(), tube.by(&ada).take().unwrap()];
    let (_copy, copy) = checkpointed(&queue, &path);
    flip(&copy, &[b"\x06needle", &(STRAW.len() as u64).to_be_bytes()[..]].concat(), 7);
    flip_counter(&copy, 2);

    let queue = open(&copy);
    let tube = queue.tube("t").unwrap();
    is_aside(&tube, id);
    let _third = tube.try_take().unwrap().expect("a task");
    assert!(tube.try_take().unwrap().is_none(), "two are in flight");
    is_mended(&queue);
}

fn is_aside(tube: &Tube, id: TaskId) {
    let aside = tube.peek(id).unwrap();
    assert_eq!((aside.state, aside.group.as_deref()), (State::Buried, Some("needle")));
    assert!(matches!(aside.reason, Some(Reason::Undecodable(_))), "{:?}", aside.reason);
    assert_eq!(aside.payload, STRAW);
}

/// Regression: a consumer without grace was killed with a task whose row had a flipped byte. The
/// scan of the taken tasks skipped it, the end of the consumer failed, and the queue did not open.
#[test]
fn a_damaged_lease_of_a_consumer_refuses_no_open() {
    let (_copy, copy, id) = with_a_damaged_lease(secs(0));
    let (builder, clock) = still();
    let queue = builder.open(&copy).unwrap();
    let tube = queue.tube("t").unwrap();
    is_aside(&tube, id);
    assert_eq!(counts(&tube), [2, 0, 0, 1]);
    assert_eq!(drain(&tube), "b c", "its group is not locked");
    // Its deadline stays until it is due.
    clock.advance(secs(61));
    queue.tick().unwrap();
    is_mended(&queue);
    tube.kick_task(id).unwrap();
    tube.take().unwrap().ack().unwrap();
    is_mended(&queue);
}

#[test]
fn a_damaged_lease_hides_no_other_from_a_consumer_that_comes_back() {
    let (_copy, copy, id) = with_a_damaged_lease(secs(1000));
    let (builder, clock) = still();
    let queue = builder.open(&copy).unwrap();
    let tube = queue.tube("t").unwrap();
    is_aside(&tube, id);
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    let mut back = crate::resumed(&ada, &tube);
    assert_eq!((back.len(), &back[0][..]), (1, &b"c"[..]));
    back.remove(0).ack().unwrap();
    assert_eq!(drain(&tube), "b");
    clock.advance(secs(61));
    queue.tick().unwrap();
    is_mended(&queue);
}

/// The grace of a damaged consumer is unknown, so its leases return. Its name can be used again.
#[test]
fn a_damaged_consumer_refuses_no_open() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    put(&tube, "needle", &["a"]);
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    let bob = queue.consumer_with_grace("bob", secs(1000)).unwrap();
    tube.put(b"b").unwrap();
    let _held = [tube.by(&ada).take().unwrap(), tube.by(&bob).take().unwrap()];
    let (_copy, copy) = checkpointed(&queue, &path);
    flip(&copy, b"\x03ada", 1);

    let queue = open(&copy);
    let tube = queue.tube("t").unwrap();
    assert_eq!(counts(&tube), [1, 0, 1, 0]);
    assert_eq!(drain(&tube), "a");
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    assert!(crate::resumed(&ada, &tube).is_empty());
    let bob = queue.consumer_with_grace("bob", secs(1000)).unwrap();
    assert_eq!(crate::resumed(&bob, &tube).len(), 1);
    is_mended(&queue);
}

/// Regression: its name row named another number, or none, and every opening of the consumer
/// failed.
#[test]
fn a_damaged_name_of_a_consumer_is_written_again() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    put(&tube, "needle", &["a"]);
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    let _held = tube.by(&ada).take().unwrap();
    let (_copy, copy) = checkpointed(&queue, &path);
    flip_value(&copy, b"\x06ada", &1_u64.to_be_bytes());

    let queue = open(&copy);
    let tube = queue.tube("t").unwrap();
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    assert_eq!(crate::resumed(&ada, &tube).len(), 1);
    is_mended(&queue);
}

/// Every verb in the tube begins with the rest of a sweep whose work row is damaged.
#[test]
fn a_damaged_sweep_of_leases_goes_on() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    put(&tube, "needle", &["a", "b"]);
    tube.take().unwrap().detach();
    tube.release_all().unwrap();
    let (_copy, copy) = checkpointed(&queue, &path);
    flip_value(&copy, &work(2), b"\0\0\0\x01\0\0\0\0\0\0\0\0");

    let queue = open(&copy);
    assert_eq!(drain(&queue.tube("t").unwrap()), "a b");
    is_mended(&queue);
}

/// Regression: no sweep and no deadline got further than the damaged work row.
#[test]
fn a_damaged_sweep_of_a_run_goes_on() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    tube.put(b"gone").unwrap();
    tube.truncate().unwrap();
    tube.task(b"later").delay(secs(5)).put().unwrap();
    let (_copy, copy) = checkpointed(&queue, &path);
    flip_value(&copy, &work(1), &[0; 12]);

    let (builder, clock) = still();
    let queue = builder.open(&copy).unwrap();
    let tube = queue.tube("t").unwrap();
    clock.advance(secs(6));
    queue.tick().unwrap();
    assert_eq!(counts(&tube), [1, 0, 0, 0]);
    is_mended(&queue);
}

/// Regression: a head with a flipped byte led to no group, so its task was buried as one without a
/// group. A row that did not exist was removed, the head stayed, and each take that found it
/// counted one more ready task as buried, until takes found the tube empty.
#[test]
fn a_damaged_head_hides_no_task() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let ids = put(&tube, "needle", &["0", "x"]);
    let texts = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
    tube.put_many(texts.map(str::as_bytes)).unwrap();
    queue.close().unwrap();
    flip_value(&path, &key(OPEN_HEAD, &[&place(ids[0])]), b"needle");

    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    assert!(faults(&queue).contains("OpenHead: a damaged row"), "{}", faults(&queue));
    let held: Vec<_> = (0..10).map(|_| tube.try_take().unwrap().expect("a task")).collect();
    assert!(held.iter().map(|task| task[0]).eq(b'0'..=b'9'));
    assert_eq!(counts(&tube), [1, 0, 10, 0]);
    is_mended(&queue);
    held.into_iter().for_each(|task| task.ack().unwrap());
    assert_eq!(drain(&tube), "x");
    is_mended(&queue);
}

/// The damage is in the head's key, so that no task has it, and its group has no head.
#[test]
fn a_head_without_a_task_is_removed_and_its_group_gets_one() {
    let (_home, path) = with_a_head_without_a_task();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    assert_eq!(drain(&tube), "a b c d e");
    assert_eq!(counts(&tube), [0, 0, 0, 0]);
    is_mended(&queue);
}

/// No take has found the damaged head yet when the group moves on. A head that the group does not
/// have must not be removed: too low a count of heads would hide the head of another group.
#[test]
fn a_group_without_its_head_moves_on() {
    let (_home, path) = with_a_head_without_a_task();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    tube.task(b"z").group("needle").priority(-1).put().unwrap();
    assert_eq!(drain(&tube), "z a b c d e");
    assert_eq!(counts(&tube), [0, 0, 0, 0]);
    is_mended(&queue);
}

fn with_a_head_without_a_task() -> (TempDir, PathBuf) {
    let (home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let ids = put(&tube, "needle", &["a", "b"]);
    put(&tube, "hay", &["c"]);
    tube.put_many(["d", "e"].map(str::as_bytes)).unwrap();
    queue.close().unwrap();
    // In its id, so that the rows stay in order.
    flip(&path, &key(OPEN_HEAD, &[&place(ids[0])]), 28);
    (home, path)
}

/// The head's task is not in its group's line: the damage is in the key of the line's row, which is
/// now in the line of another group.
#[test]
fn a_task_in_the_line_of_another_group_is_buried() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let ids = put(&tube, "needle", &["a", "b"]);
    tube.put_many(["c", "d", "e"].map(str::as_bytes)).unwrap();
    queue.close().unwrap();
    flip(&path, &key(LINE, &[b"\x06needle", &place(ids[0])]), 11);

    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    assert!(faults(&queue).contains("Line: a damaged row"), "{}", faults(&queue));
    assert_eq!(drain(&tube), "b c d e");
    assert_eq!(counts(&tube), [0, 0, 0, 1]);
    assert!(matches!(tube.peek(ids[0]).unwrap().reason, Some(Reason::Undecodable(_))));
}

/// Regression: the damage is in the key of a ready task and makes it the key of another task that
/// is elsewhere. The task that was buried for it had the other's id and payload, and its removal
/// removed both.
#[test]
fn a_row_under_the_id_of_another_task_is_not_taken_for_it() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let large = b"x".repeat(2000);
    let ids = tube.put_many(vec![&large[..]; 40]).unwrap();
    queue.close().unwrap();
    flip(&path, &key(FRESH, &[&place(ids[0])]), 28);

    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let held: Vec<_> = (0..39).map(|_| tube.try_take().unwrap().expect("a task")).collect();
    assert!(tube.try_take().unwrap().is_none());
    assert!(held.iter().all(|task| **task == large));
    assert_eq!(counts(&tube), [1, 0, 39, 0]);
}

/// Two tasks are held, and the row of the first is damaged during its lease.
fn gone_bad(queue: &Queue, path: &Path, holder: Option<&Consumer>) -> (Tube, [Ticket; 2]) {
    let tube = queue.tube("t").unwrap();
    put(&tube, "needle", &["straw one", "straw two"]);
    put(&tube, "hay", &["straw three"]);
    let mine = holder.map_or_else(|| tube.clone(), |holder| tube.by(holder));
    let held = [(), ()].map(|()| mine.take().unwrap().detach());
    // More than the one page of rows that is always in memory.
    queue.tube("u").unwrap().put_many(vec![&b"u"[..]; 500]).unwrap();
    queue.checkpoint().unwrap();
    // The row of its lease: the group and then how often it was delivered.
    flip(path, b"\x06needle\x05\x00\x00\x00\x01", 0);
    (tube, held)
}

/// When its lease ends it is buried, and its group is served.
#[test]
fn a_damaged_lease_that_lapses_is_buried() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.cache_bytes(0).open(&path).unwrap();
    let (tube, [first, second]) = gone_bad(&queue, &path, None);
    assert_eq!(kind(tube.ticket(first).touch(secs(1))), ErrorKind::Damaged);
    tube.ticket(second).touch(secs(60)).unwrap();
    clock.advance(secs(61));
    queue.tick().unwrap();
    assert_eq!(counts(&tube), [1, 0, 1, 1]);
    assert_eq!(tube.peek(first.id()).unwrap().group.as_deref(), Some("needle"));
    assert_eq!(drain(&tube), "straw two");
}

/// Its consumer resumes the other one, and at its end the damaged one is buried.
#[test]
fn a_damaged_lease_does_not_prevent_a_consumers_end() {
    let (_home, path) = home();
    let queue = still().0.cache_bytes(0).open(&path).unwrap();
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    let (tube, [first, second]) = gone_bad(&queue, &path, Some(&ada));
    drop(ada);
    let ada = queue.consumer_with_grace("ada", secs(1000)).unwrap();
    let back = crate::resumed(&ada, &tube);
    assert_eq!((back.len(), back[0].id()), (1, second.id()));
    ada.close().unwrap();
    assert_eq!(counts(&tube), [2, 0, 0, 1]);
    assert_eq!(state(&tube, first.id()), State::Buried);
    assert_eq!(drain(&tube), "straw two straw three");
}

/// The tasks of a tube whose row is damaged are there, and a repair brings them back. Regression: a
/// search over all tubes took them for gone, so a wait for one ended, and a task that came after
/// one was ready at once.
#[test]
fn a_task_of_a_damaged_tube_is_not_gone() {
    let (_home, path) = home();
    let queue = open(&path);
    let (bad, good) = (queue.tube("needle").unwrap(), queue.tube("good").unwrap());
    let id = bad.put(b"a").unwrap();
    good.put(b"b").unwrap();
    let (_copy, copy) = checkpointed(&queue, &path);
    flip(&copy, b"\x06needle", 1);

    let queue = open(&copy);
    let good = queue.tube("good").unwrap();
    assert_eq!(kind(queue.wait_for(id, Duration::ZERO)), ErrorKind::Damaged);
    assert_eq!(kind(queue.find(id)), ErrorKind::Damaged);
    assert_eq!(kind(good.task(b"after").after([id]).put()), ErrorKind::Damaged);
    // One that was never given is nowhere, and what can be removed is removed.
    let never = TaskId::new(9_999_999);
    assert_eq!(kind(queue.find(never)), ErrorKind::TaskNotFound);
    assert_eq!(kind(queue.wait_for(never, Duration::ZERO)), ErrorKind::TaskNotFound);
    let other = good.put(b"c").unwrap();
    assert_eq!(kind(queue.delete_many(&[id, other])), ErrorKind::Damaged);
    assert_eq!(kind(queue.find(other)), ErrorKind::Damaged);
    let put = queue.transact(|tx| -> Result<_> {
        let put = good.task(b"after").after([id]).put_in(tx);
        assert_eq!(kind(put), ErrorKind::Damaged);
        Ok(())
    });
    put.unwrap();
    queue.repair().unwrap();
    assert_eq!(queue.find(id).unwrap().state, State::Ready);
    let after = good.task(b"after").after([id]).put().unwrap();
    assert_eq!(good.peek(after).unwrap().state, State::Blocked);
}
