//! The queue returns to its size: tasks that are gone leave no row, and its files stop growing.

use crate::{close_sound, home, secs, still};
use std::path::Path;
use tubewell::{Conflict, Durability, Queue, Retention, Task, Tube, TubeOptions, Unique};

/// Tasks that are put, taken and settled together.
const TURN: usize = 1000;

/// Rows of every tag, in the base.
fn rows(queue: &Queue) -> u64 {
    queue.checkpoint().unwrap();
    queue.base_space().unwrap().rows
}

/// Ends the task in one of five ways; some come back before.
fn settle(tube: &Tube, at: usize, task: Task) {
    let id = task.id();
    match at % 5 {
        0 => task.ack().unwrap(),
        1 => task.ack_with(&[b'r'; 256]).unwrap(),
        2 => task.fail("group", "message").unwrap(),
        3 => {
            task.retry_after("at first", secs(0)).unwrap();
            tube.claim(id).unwrap().ack_with(b"at last").unwrap();
        }
        _ => {
            task.log("a line").unwrap();
            task.progress(50, "half").unwrap();
            task.checkpoint(b"half").unwrap();
            task.bury("later").unwrap();
        }
    }
}

/// Puts so many tasks with a key, a group, a kind, three tags and a detail, one in ten of them
/// again, takes them and settles them.
fn turn(tube: &Tube, of: usize) {
    for at in of * TURN..(of + 1) * TURN {
        let key = format!("key {at}");
        let group = format!("group {}", at % 7);
        let payload = [at as u8; 30];
        let task = || tube.task(&payload).key(&key).group(&group).kind("mail");
        let own = format!("tag {}", at % 5000);
        let tags = ["all", &own, &key];
        let id = task().ttl(secs(100)).detail("n", &key).tags(tags).put().unwrap();
        if at % 10 == 0 {
            assert_eq!(task().on_conflict(Conflict::Replace).put().unwrap(), id);
        }
    }
    let taken = tube.take_many(TURN).unwrap();
    assert_eq!(taken.len(), TURN);
    taken.into_iter().enumerate().for_each(|(at, task)| settle(tube, at, task));
}

/// A hundred thousand tasks with keys, tags, history, results, failures and reports, all finished
/// or buried, and then swept by their age.
#[test]
fn tasks_that_were_swept_leave_no_row() {
    let (builder, clock) = still();
    let (_folder, path) = home();
    let queue = builder.durability(Durability::Relaxed).open(&path).unwrap();
    let kept = Retention::new().age(secs(10));
    let options = TubeOptions::default().keep_finished(kept).keep_buried(kept);
    let options = options.in_flight(TURN as u32).unique(Unique::new().in_queue(true));
    let tube = queue.create_tube("t", options).unwrap();
    let empty = rows(&queue);
    for of in 0..100 {
        turn(&tube, of);
    }
    let stats = tube.stats().unwrap();
    assert_eq!((stats.finished, stats.buried), (60_000, 40_000));
    assert!(rows(&queue) > empty + 500_000);
    assert_eq!(queue.tag_count("all").unwrap(), 100_000);
    assert_eq!(queue.top_tags().count(), 5001);
    clock.advance(secs(10));
    queue.tick().unwrap();
    let stats = tube.stats().unwrap();
    assert_eq!((stats.finished, stats.buried), (0, 0));
    assert_eq!(rows(&queue), empty);
    close_sound(queue);
}

/// Bytes of all files of the queue.
fn bytes(path: &Path) -> u64 {
    let length = |file: std::io::Result<std::fs::DirEntry>| file?.metadata().map(|file| file.len());
    std::fs::read_dir(path).unwrap().map(|file| length(file).unwrap()).sum()
}

/// Delayed, keyed and buried tasks come and go; a thousand of each are there at any time.
#[test]
fn the_files_stop_growing_under_churn() {
    let (builder, clock) = still();
    let (_folder, path) = home();
    let builder = builder.durability(Durability::Relaxed).journal_bytes(1 << 20);
    let queue = builder.open(&path).unwrap();
    let kept = Retention::new().count(TURN as u64);
    let options = TubeOptions::default().keep_finished(kept).keep_buried(kept);
    let tube = queue.create_tube("t", options.in_flight(TURN as u32)).unwrap();
    let mut sizes = Vec::new();
    for of in 0..40 {
        for at in 0..TURN {
            tube.task(&[at as u8; 300]).delay(secs(60)).put().unwrap();
        }
        turn(&tube, of);
        clock.advance(secs(60));
        let due = tube.take_many(TURN).unwrap();
        assert_eq!(due.len(), TURN);
        due.into_iter().for_each(|task| task.ack_with(b"result").unwrap());
        queue.checkpoint().unwrap();
        sizes.push(bytes(&path));
    }
    // The first turns fill what is kept.
    let (first, later) = sizes.split_at(10);
    let most = first.iter().max().unwrap();
    assert!(later.iter().all(|size| size <= most), "{sizes:?}");
    close_sound(queue);
}
