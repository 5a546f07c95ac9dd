//! Ids of tasks begin at 1 and have no gap without a crash.

use crate::{close_sound, home, killed, open};
use tubewell::TubeOptions;

/// Regression: ids and tokens came from one sequence, and every opening began a new block of 65
/// 536: the tenth task of a queue that was opened three times had the number 131 080.
#[test]
fn a_queue_that_is_closed_and_opened_numbers_its_tasks_without_a_gap() {
    let (_home, path) = home();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let queue = open(&path);
        let tube = queue.tube("t").unwrap();
        for _ in 0..3 {
            ids.push(tube.put(b"x").unwrap().get());
            tube.take().unwrap().ack().unwrap();
        }
        drop(tube);
        close_sound(queue);
    }
    assert_eq!(ids, (1..=15).collect::<Vec<_>>());
}

/// A refused put draws no number, and a number that no caller has seen is given to the next put.
#[test]
fn a_refused_put_leaves_no_gap() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", tubewell::TubeOptions::default().capacity(2)).unwrap();
    assert_eq!(tube.put(b"a").unwrap().get(), 1);
    assert!(tube.put_many(["b", "c", "d"].map(str::as_bytes)).is_err());
    assert_eq!(tube.put(b"b").unwrap().get(), 2);
    close_sound(queue);
}

#[test]
fn a_killed_queue_begins_a_new_block() {
    let (_home, path) = home();
    let queue = open(&path);
    assert_eq!(queue.tube("t").unwrap().put(b"a").unwrap().get(), 1);
    let (_copy, copy) = killed(&path);
    let again = open(&copy);
    assert_eq!(again.tube("t").unwrap().put(b"b").unwrap().get(), 65_537);
    close_sound(again);
    let again = open(&copy);
    assert_eq!(again.tube("t").unwrap().put(b"c").unwrap().get(), 65_538);
    close_sound(again);
}

/// Regression: a reservation counted as written with the next record. That may be the note that all
/// is synced, which has none: numbers beyond the old block were given, and after a kill again.
#[test]
fn numbers_that_no_record_reserves_are_not_given() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let options = TubeOptions::default().temporary(true);
    let temporary = queue.create_tube("temporary", options).unwrap();
    tube.put(b"a").unwrap();
    // More than half of the block. What is put into a temporary tube has no record.
    temporary.put_many(vec![*b"x"; 33_000]).unwrap();
    // Asks for the next block.
    temporary.put(b"x").unwrap();
    // The first writes the note that all is synced, the second syncs it.
    queue.flush().unwrap();
    queue.flush().unwrap();
    let last = *temporary.put_many(vec![*b"x"; 40_000]).unwrap().last().unwrap();
    let (_copy, copy) = killed(&path);
    let again = open(&copy);
    let next = again.tube("t").unwrap().put(b"b").unwrap();
    assert!(next > last, "{next:?} was given before: the last one was {last:?}");
    close_sound(again);
    close_sound(queue);
}
