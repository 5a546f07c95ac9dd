//! Temporary tubes: tasks in memory only, definitions on the disk.

use crate::{close_sound, counts, drain, home, killed, kind, next, open, secs, still};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};
use tubewell::{
    Advance, Clock, ErrorKind, ManualClock, Queue, Retention, Retry, State, Tube, TubeOptions,
    Unique,
};

fn temporary() -> TubeOptions {
    TubeOptions::default().temporary(true)
}

#[test]
fn the_tube_outlives_the_process_and_its_tasks_do_not() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", temporary()).unwrap();
    tube.put(b"a").unwrap();
    queue.tube("durable").unwrap().put(b"b").unwrap();
    assert!(tube.info().unwrap().temporary);
    close_sound(queue);
    drop(tube);

    let queue = open(&path);
    let tube = queue.find_tube("t").unwrap().unwrap();
    assert_eq!((tube.info().unwrap().options, tube.len().unwrap()), (temporary(), 0));
    assert_eq!(drain(&queue.tube("durable").unwrap()), "b");
    close_sound(queue);
}

#[test]
fn a_kill_takes_its_tasks() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", temporary()).unwrap();
    tube.put(b"a").unwrap();
    let _task = tube.take().unwrap();
    let (_copy, copy) = killed(&path);
    let after = open(&copy);
    assert_eq!(counts(&after.tube("t").unwrap()), [0, 0, 0, 0]);
    close_sound(after);
}

#[test]
fn its_tasks_never_touch_the_disk() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.create_tube("t", temporary()).unwrap();
    let other = temporary().keep_finished(Retention::new()).unique(Unique::new().done(true));
    let other = queue.create_tube("other", other).unwrap();
    let text = "needle in a haystack";
    let needle = text.as_bytes();
    tube.put(needle).unwrap();
    tube.put(&needle.repeat(1000)).unwrap();
    let ids = [(); 5].map(|()| {
        let payload = needle.repeat(9000);
        let key = format!("{text} {}", tube.len().unwrap());
        let task = tube.task(&payload).priority(1).key(&key).kind(text).group(text);
        task.book(text).detail(text, text).put().unwrap()
    });
    let [done, advanced, buried, trashed, failed] = ids;
    let task = tube.claim(done).unwrap();
    task.start(text).unwrap();
    task.progress(1, text).unwrap();
    task.checkpoint(needle).unwrap();
    task.log(text).unwrap();
    task.retry_with(Retry::new(text).group(text).after(secs(0))).unwrap();
    tube.move_to(done, &other).apply().unwrap();
    other.claim(done).unwrap().ack_with(needle).unwrap();
    let mut task = tube.claim(advanced).unwrap();
    task.with_payload(&needle.repeat(9000)).renew().unwrap();
    task.advance_with(&other, Advance::new().result(needle)).unwrap();
    tube.bury(buried, text).unwrap();
    tube.trash(trashed, text).unwrap();
    tube.fail_by_id(failed, text, text).unwrap();
    tube.unfail_into(text, 1, &other).unwrap();
    tube.copy_to(buried, &other).unwrap();
    queue.checkpoint().unwrap();
    queue.flush().unwrap();
    for name in ["base.redb", "journal"] {
        let bytes = std::fs::read(path.join(name)).unwrap();
        assert!(!bytes.windows(needle.len()).any(|part| part == needle), "{name}");
    }
    assert_eq!(next(&tube).as_bytes(), needle);
    close_sound(queue);
}

#[test]
fn it_works_like_any_other_while_the_queue_is_open() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.create_tube("t", temporary()).unwrap();
    let id = tube.put(b"a").unwrap();
    tube.take().unwrap().bury("no").unwrap();
    assert_eq!(tube.kick(1).unwrap().kicked, 1);
    tube.take().unwrap().release().unwrap();
    tube.delete(id).unwrap();
    tube.put(b"b").unwrap();
    tube.truncate().unwrap();
    assert_eq!(tube.len().unwrap(), 0);
}

#[test]
fn its_bytes_are_bounded() {
    let queue = still().0.temporary_bytes_max(64 << 10).in_memory().unwrap();
    let tube = queue.create_tube("t", temporary()).unwrap();
    let refused = (0..100).find_map(|_| tube.put(&[0; 4000]).err()).expect("no limit");
    assert_eq!(refused.kind(), ErrorKind::Full);
    next_bytes(&queue);
    tube.put(&[0; 1000]).unwrap();
}

/// Frees space.
fn next_bytes(queue: &Queue) {
    queue.tube("t").unwrap().take().unwrap().ack().unwrap();
}

#[test]
fn temporary_and_durable_are_two_different_tubes_options() {
    let queue = still().0.in_memory().unwrap();
    queue.create_tube("t", temporary()).unwrap();
    let other = queue.create_tube("t", TubeOptions::default().if_not_exists());
    assert_eq!(kind(other), ErrorKind::TubeMismatch);
}

/// Reports when a thread of this test goes to sleep.
struct Told(ManualClock, Sender<()>);

impl Clock for Told {
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn wall(&self) -> SystemTime {
        self.0.wall()
    }

    fn nap(&self, left: Duration) -> Option<Duration> {
        if thread::current().name() == Some("putter") {
            self.1.send(()).unwrap();
        }
        self.0.nap(left)
    }
}

/// Regression: a put that waited for bytes of another temporary tube slept on when they were freed,
/// and of two puts that waited for the bytes of one large task only one was woken.
#[test]
fn a_put_waiting_for_bytes_gets_them_from_any_tube() {
    type Leave = fn(&Queue, &Tube);
    let leaves: [Leave; 4] = [
        |_, other| other.take().unwrap().ack().unwrap(),
        |_, other| _ = other.truncate().unwrap(),
        |queue, _| queue.force_drop_tube("other").unwrap(),
        |queue, other| {
            let task = other.take().unwrap();
            queue.transact(|tx| tx.ack(&task)).unwrap();
        },
    ];
    for leave in leaves {
        let (reported, received) = channel();
        let builder = Queue::builder().clock(Told(ManualClock::new(), reported));
        let queue = builder.temporary_bytes_max(64 << 10).in_memory().unwrap();
        let tube = queue.create_tube("t", temporary()).unwrap();
        let other = queue.create_tube("other", temporary()).unwrap();
        other.put(&[0; 60 << 10]).unwrap();
        let putters = [(); 2].map(|()| {
            let tube = tube.clone();
            let put = move || tube.task(&[0; 20 << 10]).wait_for_room(secs(1000)).put().unwrap();
            let putter = thread::Builder::new().name("putter".into()).spawn(put).unwrap();
            received.recv().unwrap();
            putter
        });
        leave(&queue, &other);
        for putter in putters {
            putter.join().unwrap();
        }
        assert_eq!(counts(&tube), [2, 0, 0, 0]);
    }
}

/// Puts until the temporary tubes have no byte left.
fn fill(tube: &Tube) {
    let refused = (0..2000).find_map(|_| tube.put(b"ten bytes.").err()).expect("no limit");
    assert_eq!(refused.kind(), ErrorKind::Full);
}

/// Regression: after their bytes were used up, everything that made a temporary row longer was
/// refused: a take, the end of a delay, an ended lease; and so every verb that first does this due
/// work. A dropped guard left its task taken, without a holder.
#[test]
fn at_the_limit_of_their_bytes_only_new_tasks_are_refused() {
    type Verb = fn(&Queue, &Tube, &ManualClock);
    let verbs: [Verb; 14] = [
        |_, tube, _| drop(tube.take().unwrap()),
        |_, tube, _| assert!(tube.take_many(200).unwrap().len() > 10),
        |_, tube, _| tube.take().unwrap().bury("no ".repeat(40)).unwrap(),
        |_, tube, _| tube.take().unwrap().retry("no").unwrap(),
        |_, tube, _| tube.delete(tube.peek_next(State::Ready).unwrap().unwrap().id).unwrap(),
        |_, tube, _| assert!(tube.len().unwrap() > 10),
        |_, tube, _| assert!(tube.truncate().unwrap() > 10),
        |_, tube, _| tube.pause().unwrap(),
        |_, tube, _| tube.release_all().unwrap(),
        |queue, _, _| queue.force_drop_tube("t").unwrap(),
        |queue, _, _| assert_eq!(queue.stats().unwrap().len(), 2),
        |queue, _, clock| {
            let late = queue.tube("durable").unwrap();
            late.task(b"late").delay(secs(1)).put().unwrap();
            clock.advance(secs(1));
            queue.tick().unwrap();
            assert_eq!(counts(&late), [1, 0, 0, 0]);
        },
        |queue, tube, _| {
            let task = tube.take().unwrap();
            queue.transact(|tx| tx.release(&task)).unwrap();
            let durable = queue.tube("durable").unwrap();
            queue.transact(|tx| durable.put_in(tx, b"beside")).unwrap();
            fill(tube);
            assert_eq!(kind(queue.transact(|tx| tube.put_in(tx, b"more"))), ErrorKind::Full);
        },
        |queue, _, _| queue.close().unwrap(),
    ];
    for (number, verb) in verbs.iter().enumerate() {
        let (builder, clock) = still();
        let queue = builder.temporary_bytes_max(64 << 10).in_memory().unwrap();
        queue.tube("durable").unwrap();
        let tube = queue.create_tube("t", temporary().ttr(secs(1))).unwrap();
        (0..20).for_each(|_| _ = tube.task(b"later").delay(secs(2)).put().unwrap());
        fill(&tube);
        let taken: Vec<_> = (0..20).map(|_| tube.take().unwrap()).collect();
        drop(tube.take().unwrap());
        assert_eq!(counts(&tube)[2], 20, "the dropped guard gave its task back");
        clock.advance(secs(2));
        verb(&queue, &tube, &clock);
        // Leases and delays have ended, by the timer or by a verb.
        if ![6, 9, 13].contains(&number) {
            assert!(counts(&tube)[1] < 2, "verb {number}");
            fill(&tube);
        }
        drop(taken);
    }
}
