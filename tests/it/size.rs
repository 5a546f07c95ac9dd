//! The queue returns to its size: tasks that are gone leave no row, and its files stop growing.

use crate::{close_sound, home, secs, still};
use std::path::Path;
use tubewell::{
    Advance, Conflict, Durability, HistoryLimits, ManualClock, Missed, Orphaned, Queue, Result,
    Retention, State, Task, Tube, TubeOptions, Unique,
};

/// Tasks that are put, taken and settled together.
const TURN: usize = 1000;

/// Rows of every tag, in the base.
fn rows(queue: &Queue) -> u64 {
    queue.checkpoint().unwrap();
    queue.base_space().unwrap().rows
}

/// Ends the task in one of five ways; some come back before, go on, or were elsewhere.
fn settle((tube, aside): (&Tube, &Tube), at: usize, mut task: Task) {
    let id = task.id();
    match at % 5 {
        0 => task.ack().unwrap(),
        1 => task.ack_with(&[b'r'; 256]).unwrap(),
        2 => task.fail("group", "message").unwrap(),
        3 => {
            match at % 3 {
                0 => task.retry_after("at first", secs(0)).unwrap(),
                1 => task.advance_with(tube, Advance::new().result(b"a step")).unwrap(),
                _ => {
                    tube.move_to(id, aside).kind("moved").apply().unwrap();
                    aside.claim(id).unwrap().advance(tube).unwrap();
                }
            }
            tube.claim(id).unwrap().ack_with(b"at last").unwrap();
        }
        _ => {
            task.log("a line").unwrap();
            task.progress(50, "half").unwrap();
            task.checkpoint(b"half").unwrap();
            if at.is_multiple_of(3) {
                task.with_payload(&[at as u8; 9000]).trash("no").unwrap();
                tube.restore(id).unwrap();
                task = tube.claim(id).unwrap();
            }
            task.bury("later").unwrap();
        }
    }
}

/// Puts so many tasks with a key, a group, a kind, three tags and a detail, one in ten of them
/// again, takes them and settles them.
fn turn((tube, aside): (&Tube, &Tube), of: usize) {
    for at in of * TURN..(of + 1) * TURN {
        let key = format!("key {at}");
        let group = format!("group {}", at % 7);
        let payload = vec![at as u8; if at % 100 == 7 { 9000 } else { 30 }];
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
    taken.into_iter().enumerate().for_each(|(at, task)| settle((tube, aside), at, task));
}

/// What keeps tasks that have ended for ten seconds, and days for one.
fn swept() -> TubeOptions {
    let kept = Retention::new().age(secs(10));
    let options = TubeOptions::default().keep_finished(kept).keep_buried(kept).keep_days(1);
    options.in_flight(TURN as u32).unique(Unique::new().in_queue(true))
}

/// Declares a condition and two throttles, and makes a tube behind one of them.
fn gated(queue: &Queue) -> Tube {
    queue.set_condition("online", false).unwrap();
    queue.set_throttle("of tube", 100).unwrap();
    queue.set_throttle("of task", 30).unwrap();
    queue.create_tube("gated", swept().throttle("of tube")).unwrap()
}

/// Puts so many tasks, of which each five come after one another, with every policy, and stand
/// behind gates of their own.
fn put_gated(tube: &Tube, of: usize) {
    let mut before = Vec::new();
    for at in 0..TURN {
        let key = format!("gated {of} {at}");
        let policy = [Orphaned::Hold, Orphaned::Cancel, Orphaned::Ignore][at % 3];
        let task = tube.task(b"gated").key(&key).tag("gated").orphaned(policy);
        let task = match at % 5 {
            0 => task.require("online"),
            1 => task,
            2 => task.after(before.clone()),
            3 => task.after_any_end(before.clone()).require("online"),
            _ => task.after_failure(before.clone()).require("online").throttle("of task"),
        };
        if at % 5 == 0 {
            before.clear();
        }
        before.push(task.put().unwrap());
    }
}

/// Takes and settles all that can be taken. Returns how many there were.
fn work_off((tube, aside): (&Tube, &Tube)) -> usize {
    let mut settled = 0;
    loop {
        let taken = tube.take_many(TURN).unwrap();
        if taken.is_empty() {
            return settled;
        }
        for task in taken {
            settle((tube, aside), settled, task);
            settled += 1;
        }
    }
}

/// Tasks that wait for one another and for gates, and children of a schedule, come and end. What
/// is held by its policy waits for nothing then, and ends too.
fn gated_turn(queue: &Queue, (tube, aside): (&Tube, &Tube), clock: &ManualClock, of: usize) {
    queue.set_condition("online", false).unwrap();
    put_gated(tube, of);
    clock.advance(secs(2));
    assert!(work_off((tube, aside)) >= TURN / 5);
    let stats = tube.stats().unwrap();
    assert!(stats.ready > TURN as u64 / 5 && stats.blocked > TURN as u64 / 5, "{stats:?}");
    queue.checkpoint().unwrap();
    queue.set_condition("online", true).unwrap();
    assert!(work_off((tube, aside)) > TURN / 5);
    let blocked: Vec<_> = tube.summaries(State::Blocked).collect::<Result<_>>().unwrap();
    assert!(!blocked.is_empty());
    blocked.iter().for_each(|task| tube.undepend_all(task.id).unwrap());
    assert_eq!(work_off((tube, aside)), blocked.len());
    let stats = tube.stats().unwrap();
    assert_eq!((stats.ready, stats.blocked, stats.taken), (0, 0, 0));
}

/// A hundred thousand tasks with keys, tags, history, results, failures and reports, and some
/// with dependencies, gates and a schedule, all finished or buried, and then swept by their age.
#[test]
fn tasks_that_were_swept_leave_no_row() {
    let (builder, clock) = still();
    let (_folder, path) = home();
    let queue = builder.durability(Durability::Relaxed).open(&path).unwrap();
    let tubes = [queue.create_tube("t", swept()).unwrap(), gated(&queue)];
    let aside = queue.create_tube("aside", TubeOptions::default().history(HistoryLimits::none()));
    let aside = aside.unwrap();
    let ada = queue.consumer("ada").unwrap();
    let by_ada = tubes[0].by(&ada);
    let empty = rows(&queue);
    for of in 0..100 {
        turn((if of % 2 == 0 { &tubes[0] } else { &by_ada }, &aside), of);
    }
    let stats = tubes[0].stats().unwrap();
    assert_eq!((stats.finished, stats.buried), (60_000, 40_000));
    assert!(rows(&queue) > empty + 500_000);
    assert_eq!(queue.tag_count("all").unwrap(), 100_000);
    assert_eq!(queue.top_tags().count(), 5001);
    let often = queue.schedule("often").every(secs(1)).missed(Missed::CatchUp(2)).tag("child");
    let often = often.require("online").throttle("of task").to(&tubes[1]).make().unwrap();
    for of in 0..3 {
        gated_turn(&queue, (&tubes[1], &aside), &clock, of);
    }
    assert_eq!(often.info().unwrap().children, 7);
    assert!(often.remove().unwrap());
    clock.advance(secs(10));
    queue.tick().unwrap();
    assert!(tubes.iter().all(|tube| tube.stats().unwrap().total == 0));
    assert_eq!((queue.top_tags().count(), queue.tag_count("gated").unwrap()), (0, 0));
    // The day of each tube is there until it is over, with the count of the days of the tube.
    // Then there is only what was made before.
    assert_eq!(tubes.each_ref().map(|tube| tube.days().unwrap().len()), [1, 1]);
    assert_eq!(rows(&queue), empty + 4);
    clock.advance(secs(86_400));
    queue.tick().unwrap();
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
    let aside = queue.tube("aside").unwrap();
    let mut sizes = Vec::new();
    for of in 0..40 {
        for at in 0..TURN {
            tube.task(&[at as u8; 300]).delay(secs(60)).put().unwrap();
        }
        turn((&tube, &aside), of);
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
