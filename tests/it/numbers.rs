//! Ids of tasks begin at 1 and have no gap without a crash.

use crate::{close_sound, home, killed, open};

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
