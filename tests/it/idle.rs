//! What is written when no caller writes any more: one record that says that all is synced, and
//! then nothing.

use crate::{close_sound, home, killed, still, until};
use std::fs;
use std::time::Duration;
use tubewell::{Durability, ErrorKind, Queue};

/// Bytes of a record without rows.
const IDLE: u64 = 64;

fn used(queue: &Queue) -> u64 {
    queue.space().unwrap().journal_used
}

/// Regression: up to 28 of 1 500 flushed relaxed tasks were lost without an error. Damage to the
/// last records counted as the torn tail of a power cut, because no record proved that they had
/// been synced.
#[test]
fn f19_damage_to_flushed_records_is_reported_and_nothing_is_changed() {
    for flushed in [true, false] {
        let (_home, path) = home();
        let queue = still().0.durability(Durability::Relaxed).open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        queue.flush().unwrap();
        for number in 0..28 {
            tube.put(format!("payload {number:02}").as_bytes()).unwrap();
        }
        if flushed {
            queue.flush().unwrap();
        }
        let (_copy, copy) = killed(&path);
        let file = copy.join("journal");
        let mut journal = fs::read(&file).unwrap();
        let at = journal.windows(10).position(|bytes| bytes == b"payload 00").unwrap();
        journal[at] ^= 1;
        fs::write(&file, &journal).unwrap();
        match still().0.open(&copy) {
            Err(error) => {
                assert!(flushed && error.kind() == ErrorKind::Damaged, "{error}");
                assert!(fs::read(&file).unwrap() == journal);
            }
            Ok(queue) => {
                assert!(!flushed, "28 tasks are lost without an error");
                assert!(queue.tube("t").unwrap().is_empty().unwrap());
                close_sound(queue);
            }
        }
        close_sound(queue);
    }
}

#[test]
fn a_flush_by_hand_says_it_once() {
    let (_home, path) = home();
    let queue = still().0.durability(Durability::Relaxed).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let before = used(&queue);
    queue.flush().unwrap();
    assert_eq!(used(&queue), before + IDLE);
    queue.flush().unwrap();
    let written = queue.space().unwrap().written_bytes;
    for _ in 0..100 {
        queue.flush().unwrap();
    }
    let space = queue.space().unwrap();
    assert_eq!((space.journal_used, space.written_bytes), (before + IDLE, written));
    tube.durability(Durability::Durable).put(b"b").unwrap();
    let record = used(&queue) - before - IDLE;
    tube.durability(Durability::Durable).put(b"c").unwrap();
    assert_eq!(used(&queue), before + IDLE + 2 * record, "a durable put writes its record alone");
    close_sound(queue);
}

#[test]
fn the_flusher_says_it_once_and_then_nothing_is_written() {
    for durability in [Durability::Relaxed, Durability::Durable] {
        let (_home, path) = home();
        // By hand, to learn how many bytes it will be.
        let queue = still().0.durability(durability).open(&path).unwrap();
        queue.tube("t").unwrap();
        queue.flush().unwrap();
        let before = used(&queue);
        queue.tube("t").unwrap().put(b"a").unwrap();
        let record = used(&queue) - before;
        close_sound(queue);

        let builder = Queue::builder().flush_interval(Duration::from_millis(1));
        let queue = builder.durability(durability).open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        let before = used(&queue);
        tube.put(b"b").unwrap();
        until(|| used(&queue) == before + record + IDLE);
        let written = queue.space().unwrap().written_bytes;
        for _ in 0..20 {
            queue.flush().unwrap();
        }
        assert_eq!(queue.space().unwrap().written_bytes, written);
        close_sound(queue);
    }
}
