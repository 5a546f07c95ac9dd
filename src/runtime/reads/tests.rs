//! What is copied under the engine's lock is bounded, and nothing is read from the disk there.

use crate::engine::payload::StoredPayload;
use crate::engine::take::Take;
use crate::engine::tube_cache::KnownTubes;
use crate::format::key::Key;
use crate::format::{Range, RowOp, Tag};
use crate::words::limits::{PAGE_BYTES, PAGE_TASKS, SWEEP_BYTES};
use crate::{Durability, ErrorKind, ManualClock, Queue, State, Tube};

/// A queue in a folder with a small cache, so that what is read comes from the disk.
fn open(home: &tempfile::TempDir) -> (Queue, Tube) {
    let builder = Queue::builder().by_hand(true).clock(ManualClock::new());
    let queue = builder.cache_bytes(1 << 16).open(home.path().join("q")).unwrap();
    let tube = queue.tube("t").unwrap().durability(Durability::Relaxed);
    (queue, tube)
}

fn read_bytes(tube: &Tube) -> u64 {
    tube.inner.core.state.lock().store.read_bytes()
}

/// The rows and the bytes of each copy that a listing of the ready tasks makes of the active layer.
fn copies(tube: &Tube, tag: Tag) -> Vec<(usize, usize)> {
    let state = tube.inner.core.state.lock();
    let run = state.derived.known(tube.number).unwrap().run();
    let range = Range::in_run(tag, run);
    let (mut from, mut copies) = (range.start(), Vec::new());
    let before = state.store.read_bytes();
    while from < range.end() {
        let (copied, to) = state.store.copied_range(&from, &range.end());
        let bytes = |(key, op): (&Key, &RowOp)| key.len() + op.value().map_or(0, |row| row.len());
        copies.push((copied.entries(), copied.iter().map(bytes).sum()));
        from = to;
    }
    assert_eq!(state.store.read_bytes(), before, "the disk was read under the lock");
    copies
}

/// A listing read 256 tasks with their payloads under the engine's lock: all tubes waited 16 s for
/// a page of 256 tasks of 16 MiB, which took 4.1 GiB.
#[test]
fn a_listing_copies_a_bounded_part_of_the_active_layer() {
    let home = tempfile::tempdir().unwrap();
    let (queue, fresh) = open(&home);
    fresh.put_many(vec![&b"x"[..]; 1000]).unwrap();
    assert_eq!(copies(&fresh, Tag::Fresh).into_iter().max().unwrap().0, PAGE_TASKS);
    // A task that is put before one that is taken has a row that says that it is ready.
    let tube = queue.tube("ready").unwrap().durability(Durability::Relaxed);
    tube.task(b"held").priority(1).put().unwrap();
    let _held = tube.take().unwrap();
    let copies = |tube: &Tube| copies(tube, Tag::Ready);
    let most = |tube: &Tube| copies(tube).into_iter().max().unwrap();
    let before = tube.put_many(vec![&b"x"[..]; 1000]).unwrap();
    assert_eq!(most(&tube).0, PAGE_TASKS);
    // Tombstones count, too.
    tube.inner.core.state.lock().store.checkpoint().unwrap();
    tube.take_many(999).unwrap().into_iter().for_each(|task| _ = task.detach());
    assert_eq!(most(&tube).0, PAGE_TASKS);
    // Where a look has learnt that all are dead they are not copied, and hide what is below them.
    let last = tube.take_many(1).unwrap().remove(0);
    last.release().unwrap();
    assert_eq!(copies(&tube).len(), 1);
    assert_eq!(tube.tasks(State::Ready).count(), 1);
    assert_eq!(tube.take_many(1).unwrap().remove(0).detach().id(), before[999]);
    // Long rows: what the tasks failed with.
    let ids = tube.put_many(vec![&b"x"[..]; 100]).unwrap();
    for id in ids {
        let error = "e".repeat(4000);
        let task = tube.claim(id).unwrap();
        task.retry_after(&error, std::time::Duration::ZERO).unwrap();
    }
    let (rows, bytes) = copies(&tube).into_iter().max_by_key(|copy| copy.1).unwrap();
    assert!(rows < 20 && (PAGE_BYTES..PAGE_BYTES + 5000).contains(&bytes), "{rows} {bytes}");
    assert_eq!(tube.tasks(State::Ready).count(), 100);
}

/// The first task of a listing is there after its own payload, not after those of a page.
#[test]
fn a_page_is_bounded_in_bytes() {
    const PAYLOAD: usize = 256 << 10;
    let home = tempfile::tempdir().unwrap();
    let (queue, tube) = open(&home);
    for _ in 0..40 {
        tube.put(&[7; PAYLOAD]).unwrap();
    }
    queue.close().unwrap();
    let (_queue, tube) = open(&home);
    let mut before = read_bytes(&tube);
    let mut read = || {
        let read = read_bytes(&tube) - before;
        before += read;
        read as usize
    };
    assert_eq!(tube.summaries(State::Ready).count(), 40);
    // A page of redb may hold the last rows of tasks and the first piece of a payload.
    let summaries = read();
    assert!(summaries < 2 * PAYLOAD, "summaries read no payload: {summaries}");
    let mut tasks = tube.tasks(State::Ready);
    for _ in 0..40 {
        assert_eq!(tasks.next().unwrap().unwrap().payload, [7; PAYLOAD]);
        // redb reads pages of a power of two, and may look at one twice.
        let read = read();
        assert!(read < 5 * PAYLOAD, "{read} bytes for one task");
    }
    assert!(tasks.next().is_none());
    tube.peek_next(State::Ready).unwrap().unwrap();
    assert!(read() < 5 * PAYLOAD);
}

/// A take of 16 MiB read and hashed them under the engine's lock: every tube waited for the disk.
#[test]
fn a_take_reads_a_bounded_part_of_payloads_under_the_lock() {
    const PAYLOAD: usize = SWEEP_BYTES / 4;
    let home = tempfile::tempdir().unwrap();
    let (queue, tube) = open(&home);
    let payload = |number: u8| vec![number; PAYLOAD];
    for number in 0..40 {
        tube.put(&payload(number)).unwrap();
    }
    tube.put(&vec![40; SWEEP_BYTES + 1]).unwrap();
    queue.close().unwrap();
    let (_queue, tube) = open(&home);
    let before = read_bytes(&tube);
    let take = Take::new(tube.number, 100, 0);
    let (handed, _) = tube.inner.core.apply(&take).unwrap();
    let is_read = |at: usize| matches!(handed[at].payload, StoredPayload::Read(_));
    assert_eq!((0..41).filter(|at| is_read(*at)).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let read = (read_bytes(&tube) - before) as usize;
    assert!(read < 3 * SWEEP_BYTES, "{read} bytes under the lock");
    for (number, handed) in (0..40).zip(handed) {
        let task = tube.open_task(tube.guard(&handed), handed).unwrap().unwrap();
        assert!(*task == *payload(number), "task {number}");
        task.ack().unwrap();
    }
}

/// A task that is lost before its payload was read is not handed out. Nothing returns it either: it
/// may be another's by now.
#[test]
fn a_task_that_is_lost_before_its_payload_was_read_is_not_handed_out() {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let id = tube.put(&vec![7; SWEEP_BYTES + 1]).unwrap();
    let take = Take::new(tube.number, 1, 0);
    let take = || tube.inner.core.apply(&take).unwrap().0.remove(0);
    let first = take();
    let first_lease = tube.guard(&first);
    tube.release_all().unwrap();
    let second = take();
    let second_lease = tube.guard(&second);
    // The payload is there, and so the first does not learn that it was lost: as with every task.
    assert_eq!(
        tube.open_task(first_lease, first).unwrap().unwrap().ack().unwrap_err().kind(),
        ErrorKind::LeaseLost
    );
    tube.delete(id).unwrap();
    queue.tick().unwrap();
    let lost = tube.open_task(second_lease, second).unwrap().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::LeaseLost);
    assert!(tube.is_empty().unwrap());
}

/// A listing of a state that no task is in read the rows of the base that come after that range.
#[test]
fn a_listing_of_no_tasks_reads_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (queue, tube) = open(&home);
    tube.put_many(vec![[7; 1000]; 1000]).unwrap();
    queue.close().unwrap();
    let (_queue, tube) = open(&home);
    let before = read_bytes(&tube);
    for state in [State::Delayed, State::Taken, State::Buried] {
        assert_eq!(tube.tasks(state).count(), 0);
    }
    assert_eq!(read_bytes(&tube), before);
    assert_eq!(tube.tasks(State::Ready).count(), 1000);
    assert!(read_bytes(&tube) > before);
}
