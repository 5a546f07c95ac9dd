//! The end of a queue: by `close` or by the drop of the last handle, in any order and place.

use crate::{close_sound, counts, drain, home, kind, next, ok, open, secs, still};
use std::panic::catch_unwind;
use std::thread;
use std::time::Duration;
use tubewell::{Durability, ErrorKind, Queue, State};

#[test]
fn a_second_close_does_nothing() {
    let queue = Queue::in_memory().unwrap();
    queue.close().unwrap();
    queue.close().unwrap();
}

#[test]
fn a_guard_that_outlives_its_queue_keeps_its_payload_and_nothing_else() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    for text in ["a", "b", "c", "d", "e", "f"] {
        tube.put(text.as_bytes()).unwrap();
    }
    let mut tasks = tube.take_many(6).unwrap();
    queue.close().unwrap();
    assert_eq!(&tasks[0][..], b"a");
    assert_eq!(kind(tasks[0].touch(secs(1))), ErrorKind::Closed);
    assert_eq!(kind(tasks[0].time_left()), ErrorKind::Closed);
    let mut task = || tasks.pop().unwrap();
    assert_eq!(kind(task().ack()), ErrorKind::Closed);
    assert_eq!(kind(task().release()), ErrorKind::Closed);
    assert_eq!(kind(task().retry("no")), ErrorKind::Closed);
    assert_eq!(kind(task().bury("no")), ErrorKind::Closed);
    assert_eq!(kind(task().fail("g", "no")), ErrorKind::Closed);
    let last = task();

    let again = open(&path);
    drop(last);
    let tube = again.tube("t").unwrap();
    assert!(tube.tasks(State::Ready).all(|task| task.unwrap().attempts == 0), "uncharged");
    assert_eq!(drain(&tube), "a b c d e f");
    close_sound(again);
}

#[test]
fn the_last_handle_closes_silently() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let events = queue.events();
    drop(queue);
    drop(tube);
    drop(events);
    assert_eq!(kind(still().0.open(&path)), ErrorKind::Locked, "a guard keeps it open");
    task.release().unwrap();
    assert_eq!(next(&open(&path).tube("t").unwrap()), "a");
}

#[test]
fn handles_go_in_any_order() {
    for first in 0..4 {
        let (_home, path) = home();
        let queue = Queue::open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        tube.put(b"a").unwrap();
        let ada = queue.consumer("ada").unwrap();
        let task = tube.by(&ada).take().unwrap();
        let mut handles: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(queue), Box::new(tube), Box::new(ada), Box::new(task)];
        handles.rotate_left(first);
        handles.into_iter().for_each(drop);
        let queue = open(&path);
        assert_eq!(drain(&queue.tube("t").unwrap()), "a", "from {first}");
        close_sound(queue);
    }
}

#[test]
fn handles_go_while_a_panic_unwinds() {
    let (_home, path) = home();
    let unwound = catch_unwind(|| {
        let queue = Queue::open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        tube.put(b"a").unwrap();
        let _task = tube.take().unwrap();
        std::panic::resume_unwind(Box::new("in the middle of work"));
    });
    assert!(unwound.is_err());
    let queue = open(&path);
    assert_eq!(drain(&queue.tube("t").unwrap()), "a");
    close_sound(queue);
}

#[test]
fn the_last_handles_go_inside_a_transaction() {
    let (_home, path) = home();
    let queue = Queue::open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    let other = queue.clone();
    queue
        .transact(move |tx| {
            tx.ack(&task)?;
            drop((task, tube, other));
            ok(())
        })
        .unwrap();
    drop(queue);
    assert!(open(&path).tube("t").unwrap().is_empty().unwrap());
}

#[test]
fn the_last_handle_goes_in_a_callback() {
    let (_home, path) = home();
    let queue = Queue::open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let own = std::sync::Mutex::new(Some(queue.clone()));
    tube.on_task_change(Some(move |_: &tubewell::Event| drop(own.lock().unwrap().take()))).unwrap();
    tube.put(b"a").unwrap();
    drop((queue, tube));
    // The callback's thread may be the one that closes.
    let mut opened = None;
    crate::until(|| {
        opened = still().0.open(&path).ok();
        opened.is_some()
    });
    assert_eq!(drain(&opened.unwrap().tube("t").unwrap()), "a");
}

#[test]
fn close_in_the_midst_of_calls_loses_nothing_that_returned() {
    let (_home, path) = home();
    let queue = Queue::builder().durability(Durability::Relaxed).open(&path).unwrap();
    let tube = queue.tube("t").unwrap();
    let putters: Vec<_> = (0..4)
        .map(|_| {
            let tube = tube.clone();
            thread::spawn(move || {
                let mut ids = Vec::new();
                loop {
                    match tube.put(b"x") {
                        Ok(id) => ids.push(id),
                        Err(error) => {
                            assert!(error.is_closed(), "{error}");
                            return ids;
                        }
                    }
                }
            })
        })
        .collect();
    crate::until(|| tube.len().unwrap() > 50);
    queue.close().unwrap();
    let mut put: Vec<_> = putters.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    put.sort();
    let tube = open(&path).tube("t").unwrap();
    let kept: Vec<_> = tube.tasks(State::Ready).map(|task| task.unwrap().id).collect();
    assert_eq!(kept, put);
}

#[test]
fn close_never_waits_for_guards() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put(b"a").unwrap();
    let task = tube.take().unwrap();
    assert_eq!(counts(&tube), [0, 0, 1, 0]);
    queue.close().unwrap();
    drop(task);
}

#[test]
fn a_receipt_kept_over_a_close_is_synced() {
    let (_home, path) = home();
    let queue = open(&path);
    let receipt = queue.tube("t").unwrap().put_receipt(b"a").unwrap();
    queue.close().unwrap();
    let id = receipt.id();
    assert_eq!(receipt.wait().unwrap(), id);
}

/// Regression: the ops by which a close returns leases were too large for a small journal, were run
/// as a transaction, and were refused because the queue was closing: the next opening charged every
/// lease.
#[test]
fn a_close_returns_more_leases_than_a_record_holds() {
    let (_home, path) = home();
    let small = || still().0.journal_bytes(64 << 10).durability(Durability::Relaxed).open(&path);
    let queue = small().unwrap();
    let tube = queue.tube("t").unwrap();
    tube.put_many((0..30).map(|_| vec![7; 300])).unwrap();
    tube.put_many((30..60).map(|_| vec![7; 300])).unwrap();
    tube.put_many((60..128).map(|_| vec![7; 100])).unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| tube.try_take().unwrap()).collect();
    assert_eq!(taken.len(), 128);
    queue.close().unwrap();
    drop((taken, tube, queue));
    let queue = small().unwrap();
    let tube = queue.tube("t").unwrap();
    assert_eq!(counts(&tube), [128, 0, 0, 0]);
    assert!(tube.tasks(State::Ready).all(|task| task.unwrap().attempts == 0));
}

/// Regression: a close is refused inside a transaction. The close by a last handle was refused in
/// another queue's transaction, was not tried again, and its folder stayed locked.
#[test]
fn a_last_handle_may_go_inside_another_queues_transaction() {
    let (_home, path) = home();
    // With threads, which would keep it.
    let (here, there) = (Queue::in_memory().unwrap(), Queue::open(&path).unwrap());
    there.tube("t").unwrap().put(b"a").unwrap();
    here.transact(move |_| {
        drop(there);
        ok(())
    })
    .unwrap();
    assert_eq!(next(&open(&path).tube("t").unwrap()), "a");
}

/// Regression: the thread that syncs relaxed writes went from its rest, which only a write or the
/// close ends, to a wait for the interval. The close waited for that thread.
#[test]
fn a_close_does_not_wait_for_the_flush_interval() {
    for drops in [false, true] {
        for _ in 0..10 {
            let (_home, path) = home();
            let queue = Queue::builder().flush_interval(Duration::MAX).open(&path).unwrap();
            // Nothing is written, and in most rounds the thread is at rest after this.
            (0..100).for_each(|_| thread::yield_now());
            if drops {
                drop(queue);
            } else {
                queue.close().unwrap();
            }
        }
    }
}
