//! The most payload bytes that all durable tubes may hold together: what counts, what frees, and
//! that the count is correct after everything that can happen to a queue.

use crate::{close_sound, home, killed, kind, open, secs, still, until};
use std::fs;
use std::path::Path;
use std::thread;
use tubewell::{Conflict, Durability, ErrorKind, Queue, Release, Result, Task, Tube};
use tubewell::{TubeKind, TubeOptions};

/// A payload in a row of its own.
const BIG: usize = 70_000;

/// A tube of the general kind in a queue in memory with this limit.
fn limited(most: u64) -> (Queue, Tube) {
    let queue = still().0.durable_bytes_max(most).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube)
}

fn open_limited(path: &Path, most: u64) -> (Queue, Tube) {
    let queue = still().0.durable_bytes_max(most).open(path).unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube)
}

/// A test that is wrong about the tasks must not wait.
fn take(tube: &Tube) -> Task {
    tube.try_take().unwrap().expect("a task")
}

fn held(queue: &Queue) -> u64 {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    queue.space().unwrap().durable_bytes
}

fn is_full<T: std::fmt::Debug>(put: Result<T>) -> bool {
    kind(put) == ErrorKind::Full
}

#[test]
fn below_at_and_above_the_limit() {
    for most in [100, BIG as u64] {
        let exactly = vec![1; most as usize];
        let (queue, tube) = limited(most);
        tube.put(&exactly[1..]).unwrap();
        assert_eq!(held(&queue), most - 1);
        let (queue, tube) = limited(most);
        tube.put(&exactly).unwrap();
        assert_eq!(held(&queue), most);
        tube.put(b"").unwrap();
        assert!(is_full(tube.put(b"x")));
        let (queue, tube) = limited(most - 1);
        assert!(is_full(tube.put(&exactly)));
        assert_eq!((held(&queue), tube.len().unwrap()), (0, 0));
    }
}

#[test]
fn a_refusal_states_the_bytes_and_what_to_do() {
    let (_queue, tube) = limited(10);
    tube.put(b"sixsix").unwrap();
    let error = tube.put(b"fives").unwrap_err();
    assert!(error.is_full());
    let text = error.to_string();
    for part in
        ["put in tube \"t\"", "is 10", "6 payload bytes are held", "5 more", "ack or delete"]
    {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

#[test]
fn without_a_limit_there_is_none() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(&vec![0; 1 << 20]).unwrap();
    tube.put(b"x").unwrap();
    assert_eq!(held(&queue), (1 << 20) + 1);
}

#[test]
fn a_batch_is_put_as_a_whole_or_not() {
    let (queue, tube) = limited(10);
    assert!(is_full(tube.put_many([&b"aaaa"[..], b"bbbb", b"ccc"])));
    assert_eq!((held(&queue), tube.len().unwrap()), (0, 0));
    tube.put_many([&b"aaaa"[..], b"bbbb", b"cc"]).unwrap();
    assert_eq!((held(&queue), tube.len().unwrap()), (10, 3));
}

#[test]
fn all_durable_tubes_share_it() {
    let (queue, tube) = limited(10);
    let other = queue.create_tube("u", TubeOptions::new(TubeKind::Fifo)).unwrap();
    tube.put(b"sixsix").unwrap();
    assert!(is_full(other.put(b"fives")));
    other.put(b"four").unwrap();
    assert!(is_full(tube.put(b"x")));
    assert_eq!(held(&queue), 10);
}

#[test]
fn payloads_count_in_every_state() {
    let (queue, tube) = limited(10);
    let id = tube.put(b"sixsix").unwrap();
    tube.task(b"four").delay(secs(9)).put().unwrap();
    assert!(is_full(tube.put(b"x")));
    let task = take(&tube);
    assert!(is_full(tube.put(b"x")));
    task.bury("no").unwrap();
    assert!(is_full(tube.put(b"x")));
    tube.kick(1).unwrap();
    assert!(is_full(tube.put(b"x")));
    let release = Release::new().priority(5).to_back();
    take(&tube).release_with(release).unwrap();
    tube.claim(id).unwrap().retry("again").unwrap();
    assert_eq!(held(&queue), 10);
}

/// Removes the tube's only task.
type Go = fn(&Queue, &Tube);

#[test]
fn every_removed_task_frees_its_bytes() {
    let goes: [(&str, Go); 6] = [
        ("ack", |_, tube| take(tube).ack().unwrap()),
        ("ack_many", |_, tube| tube.ack_many(tube.take_many(1).unwrap()).unwrap()),
        ("delete", |_, tube| tube.delete(take(tube).detach().id()).unwrap()),
        ("delete buried", |_, tube| {
            let id = take(tube).detach().id();
            tube.bury(id, "no").unwrap();
            tube.delete(id).unwrap();
        }),
        ("truncate", |queue, tube| {
            tube.truncate().unwrap();
            queue.tick().unwrap();
        }),
        ("transact", |queue, tube| {
            let task = take(tube);
            queue.transact(|tx| tx.ack(&task)).unwrap();
        }),
    ];
    for (name, go) in goes {
        for size in [0, 8, 4096, 4097, BIG] {
            let (queue, tube) = limited(size as u64);
            tube.put(&vec![1; size]).unwrap();
            assert!(is_full(tube.put(b"x")), "{name}, {size}");
            go(&queue, &tube);
            assert_eq!(held(&queue), 0, "{name}, {size}");
            tube.put(&vec![2; size]).unwrap();
            assert_eq!(held(&queue), size as u64, "{name}, {size}");
        }
    }
}

#[test]
fn a_life_that_ends_frees_its_bytes() {
    let (builder, clock) = still();
    let queue = builder.durable_bytes_max(10).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.task(&[1; 10]).ttl(secs(5)).put().unwrap();
    assert!(is_full(tube.put(b"x")));
    clock.advance(secs(5));
    tube.put(&[2; 10]).unwrap();
    assert_eq!(held(&queue), 10);
}

#[test]
fn a_put_that_replaces_counts_what_it_frees() {
    let (queue, tube) = limited(BIG as u64);
    let put = |payload: &[u8], conflict| tube.task(payload).key("k").on_conflict(conflict).put();
    let first = put(&vec![1; BIG], Conflict::Replace).unwrap();
    assert_eq!(put(b"kept", Conflict::Keep).unwrap(), first, "nothing is added");
    assert_eq!(kind(put(b"no", Conflict::Reject)), ErrorKind::KeyExists);
    assert_eq!(put(&vec![2; BIG], Conflict::Replace).unwrap(), first, "put again");
    assert!(is_full(put(&vec![3; BIG + 1], Conflict::Replace)));
    assert!(tube.peek(first).unwrap().payload == vec![2; BIG], "a refused put replaces nothing");
    assert_eq!(held(&queue), BIG as u64);
    put(b"small", Conflict::Replace).unwrap();
    assert_eq!(held(&queue), 5);
}

#[test]
fn a_cleared_run_frees_its_bytes_with_its_rows() {
    let (_home, path) = home();
    for drops in [false, true] {
        let (queue, tube) = open_limited(&path, 3 * BIG as u64);
        for _ in 0..500 {
            tube.put(b"four").unwrap();
        }
        tube.put(&vec![1; BIG]).unwrap();
        if drops {
            drop(tube);
            queue.drop_tube("t").unwrap();
        } else {
            tube.truncate().unwrap();
        }
        let all = 2000 + BIG as u64;
        assert_eq!(held(&queue), all, "the sweep has not come yet");
        let (_copy, copy) = killed(&path);
        let (after, again) = open_limited(&copy, all);
        assert_eq!(held(&after), all);
        assert!(is_full(again.put(b"x")));
        after.tick().unwrap();
        assert_eq!(held(&after), 0, "the kill did not lose it");
        again.put(&vec![1; BIG]).unwrap();
        close_sound(after);
        queue.tick().unwrap();
        assert_eq!(held(&queue), 0);
        close_sound(queue);
    }
}

#[test]
fn a_transaction_counts_what_it_has_done_so_far() {
    let (queue, tube) = limited(10);
    tube.put(&[1; 10]).unwrap();
    let task = take(&tube);
    let done = queue.transact(|tx| -> Result<()> {
        assert!(is_full(tx.put(&tube, b"x")));
        tx.ack(&task)?;
        tx.put(&tube, b"sixsix")?;
        assert!(is_full(tx.put(&tube, b"fives")));
        tx.put(&tube, b"four").map(drop)
    });
    done.unwrap();
    assert_eq!((held(&queue), tube.len().unwrap()), (10, 2));
}

#[test]
fn a_transaction_that_is_rolled_back_moves_nothing() {
    let (_home, path) = home();
    let (queue, tube) = open_limited(&path, 10);
    tube.put(b"sixsix").unwrap();
    let task = take(&tube);
    let undone = queue.transact(|tx| -> Result<()> {
        tx.put(&tube, b"four")?;
        tx.ack(&task)?;
        Err(tx.put(&tube, &[0; 7]).unwrap_err())
    });
    assert_eq!(kind(undone), ErrorKind::Rejected);
    assert_eq!(held(&queue), 6);
    assert!(is_full(tube.put(b"fives")));
    tube.put(b"four").unwrap();
    task.ack().unwrap();
    assert_eq!(held(&queue), 4);
    close_sound(queue);
}

#[test]
fn a_put_too_large_for_the_journal_is_counted_too() {
    let (_home, path) = home();
    let open = || {
        let builder = still().0.journal_bytes(64 << 10).durable_bytes_max(100_000);
        let queue = builder.open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        (queue, tube)
    };
    let (queue, tube) = open();
    tube.put(&vec![1; BIG]).unwrap();
    assert_eq!(held(&queue), BIG as u64);
    assert!(is_full(tube.put(&vec![1; BIG])));
    assert_eq!(held(&queue), BIG as u64);
    // Many records, so that the ring is full now and then.
    for _ in 0..300 {
        let id = tube.durability(Durability::Relaxed).put(&[1; 2000]).unwrap();
        tube.durability(Durability::Relaxed).delete(id).unwrap();
    }
    assert_eq!(held(&queue), BIG as u64);
    close_sound(queue);
    drop(tube);
    let (queue, tube) = open();
    assert_eq!(held(&queue), BIG as u64);
    take(&tube).ack().unwrap();
    assert_eq!(held(&queue), 0);
    close_sound(queue);
}

#[test]
fn temporary_tubes_do_not_count() {
    let (queue, tube) = limited(10);
    let options = TubeOptions::default().temporary(true);
    let temporary = queue.create_tube("temporary", options).unwrap();
    tube.put(&[1; 10]).unwrap();
    temporary.put(&[1; 1000]).unwrap();
    temporary.put(&vec![1; BIG]).unwrap();
    assert_eq!(held(&queue), 10);
    take(&temporary).ack().unwrap();
    assert_eq!(held(&queue), 10);
    temporary.truncate().unwrap();
    queue.tick().unwrap();
    assert_eq!(held(&queue), 10);
}

#[test]
fn the_count_outlives_the_process() {
    let (_home, path) = home();
    let (queue, tube) = open_limited(&path, 1 << 20);
    tube.put(&vec![1; BIG]).unwrap();
    tube.put(b"four").unwrap();
    let (_copy, copy) = killed(&path);
    assert_eq!(held(&open(&copy)), BIG as u64 + 4, "replayed");
    queue.checkpoint().unwrap();
    tube.delete(tube.put(b"five!").unwrap()).unwrap();
    take(&tube).ack().unwrap();
    let (_copy, copy) = killed(&path);
    assert_eq!(held(&open(&copy)), 4, "it also falls");
    close_sound(queue);
    drop(tube);
    let queue = open(&path);
    assert_eq!(held(&queue), 4);
    close_sound(queue);
}

#[test]
fn a_lower_limit_on_what_is_held_refuses_puts_until_it_is_drained() {
    let (_home, path) = home();
    let (queue, tube) = open_limited(&path, 100);
    for _ in 0..10 {
        tube.put(&[1; 10]).unwrap();
    }
    close_sound(queue);
    drop(tube);
    let (queue, tube) = open_limited(&path, 25);
    assert!(is_full(tube.put(b"x")));
    assert!(is_full(tube.put(b"")), "above is above");
    take(&tube).release().unwrap();
    let buried = take(&tube);
    let id = buried.id();
    buried.bury("no").unwrap();
    assert_eq!(tube.kick(1).unwrap().kicked, 1);
    tube.delete(id).unwrap();
    let task = take(&tube);
    queue.transact(|tx| tx.ack(&task)).unwrap();
    while queue.space().unwrap().durable_bytes > 20 {
        assert!(is_full(tube.put(b"fives")));
        take(&tube).ack().unwrap();
    }
    tube.put(b"fives").unwrap();
    assert_eq!((held(&queue), tube.len().unwrap()), (25, 3));
    close_sound(queue);
}

#[test]
fn puts_wait_for_room_that_another_tube_makes() {
    let (queue, tube) = limited(10);
    let other = queue.tube("other").unwrap();
    other.put(b"sixsix").unwrap();
    other.put(b"four").unwrap();
    let puts = [&b"fives"[..], b"four"].map(|payload| {
        let tube = tube.clone();
        thread::spawn(move || tube.task(payload).wait_for_room(secs(60)).put().unwrap())
    });
    take(&other).ack().unwrap();
    until(|| puts.iter().any(thread::JoinHandle::is_finished));
    take(&other).ack().unwrap();
    until(|| puts.iter().all(thread::JoinHandle::is_finished));
    assert_eq!((held(&queue), tube.len().unwrap()), (9, 2));
}

/// A task whose row is damaged can only be removed by a truncate, and counts until then. If its
/// payload has its own row, that row states its bytes; if not, they are unknown and stay counted.
#[test]
fn the_bytes_of_a_damaged_task_are_known_if_its_payload_has_its_own_row() {
    for (size, left) in [(40, 40), (BIG, 0)] {
        let (_home, path) = home();
        let (queue, tube) = open_limited(&path, 1 << 20);
        let payload = vec![0x55; size];
        tube.task(&payload).group("needle-in-a-haystack").put().unwrap();
        close_sound(queue);
        drop(tube);
        // Only in the task's own row the payload, or its length, follows the group.
        let base = path.join("base.redb");
        let mut bytes = fs::read(&base).unwrap();
        let behind = if size == BIG { (size as u64).to_be_bytes() } else { [0x55; 8] };
        let own = [&b"\x14needle-in-a-haystack"[..], &behind].concat();
        let found = |at: &usize| bytes[*at..].starts_with(&own);
        let places: Vec<usize> = (0..bytes.len()).filter(found).collect();
        assert!(!places.is_empty());
        places.iter().for_each(|at| bytes[at + 10] ^= 1);
        fs::write(&base, bytes).unwrap();

        let (queue, tube) = open_limited(&path, 1 << 20);
        assert_eq!(queue.space().unwrap().durable_bytes, size as u64);
        assert!(tube.try_take().unwrap().is_none(), "buried");
        assert_eq!(queue.space().unwrap().durable_bytes, size as u64);
        tube.truncate().unwrap();
        queue.tick().unwrap();
        assert_eq!(tube.len().unwrap(), 0);
        assert_eq!(queue.space().unwrap().durable_bytes, left);
        let lines = queue.check().unwrap();
        let reported = lines.iter().any(|line| line.contains("the stored count is"));
        assert_eq!(reported, left > 0, "{lines:?}");
        // redb has found its page damaged and releases the file.
        drop(queue.close());
    }
}
