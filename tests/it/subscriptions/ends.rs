//! How a subscription ends: by its drop, wherever that is, or with the queue. And what a panic of a
//! callback reaches.

use super::{ALL, causes, lone, subscribe};
use crate::{home, kind, ok, open, still, until};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{TryRecvError, channel};
use std::sync::{Arc, Mutex};
use tubewell::{Cause, ErrorKind, Event, Queue, Subscription};

#[test]
fn a_panic_reaches_no_other_callback() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let (_before, before) = subscribe(&queue, ALL);
    let _panics = queue.on_event(ALL, |_| resume_unwind(Box::new("a panic of the callback")));
    let (_after, after) = subscribe(&queue, ALL);
    tube.put(b"a").unwrap();
    tube.take().unwrap().detach();
    for received in [before, after] {
        assert_eq!(received.recv().unwrap().cause, Cause::Put);
        assert_eq!(received.recv().unwrap().cause, Cause::Take);
    }
    queue.close().unwrap();
}

/// Panics when it is dropped.
struct Fuse;

impl Drop for Fuse {
    fn drop(&mut self) {
        resume_unwind(Box::new("a panic of what a callback has captured"));
    }
}

/// It is dropped in the thread of the callbacks if the subscription ends inside its own callback.
#[test]
fn a_panic_in_the_drop_of_a_callback_reaches_no_other() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let own = Arc::new(Mutex::new(None));
    let (of_own, fuse) = (own.clone(), Fuse);
    let subscription = queue.on_event(ALL, move |_| {
        let _ = &fuse;
        drop(of_own.lock().unwrap().take());
    });
    *own.lock().unwrap() = Some(subscription.unwrap());
    let (_after, after) = subscribe(&queue, ALL);
    tube.put(b"a").unwrap();
    tube.take().unwrap().detach();
    assert_eq!(after.recv().unwrap().cause, Cause::Put);
    assert_eq!(after.recv().unwrap().cause, Cause::Take);
}

#[test]
fn a_drop_deregisters_and_drops_what_was_captured() {
    let (queue, tube) = lone();
    let (_other, other) = subscribe(&queue, ALL);
    let (own, received) = subscribe(&queue, ALL);
    tube.put(b"a").unwrap();
    queue.tick().unwrap();
    assert_eq!(causes(&received), [Cause::Put]);
    tube.put(b"b").unwrap();
    drop(own);
    assert_eq!(received.try_recv(), Err(TryRecvError::Disconnected));
    queue.tick().unwrap();
    assert_eq!(causes(&other), [Cause::Put, Cause::Put]);
}

#[test]
fn a_subscription_may_be_dropped_in_its_own_callback() {
    for by_hand in [false, true] {
        let queue = Queue::builder().by_hand(by_hand).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let own: Arc<Mutex<Option<Subscription>>> = Arc::default();
        let (of_own, (reported, received)) = (own.clone(), channel());
        let once = move |event: &Event| {
            drop(of_own.lock().unwrap().take());
            reported.send(event.cause).unwrap();
        };
        *own.lock().unwrap() = Some(queue.on_event(ALL, once).unwrap());
        tube.put(b"a").unwrap();
        tube.take().unwrap().detach();
        if by_hand {
            queue.tick().unwrap();
        }
        // The end: what it has captured is dropped after the call.
        assert_eq!(received.iter().collect::<Vec<_>>(), [Cause::Put]);
        queue.close().unwrap();
    }
}

#[test]
fn a_callback_that_an_earlier_one_removes_is_not_called() {
    let (queue, tube) = lone();
    let next: Arc<Mutex<Option<Subscription>>> = Arc::default();
    let of_next = next.clone();
    let _first = queue.on_event(ALL, move |_| drop(of_next.lock().unwrap().take()));
    let (second, received) = subscribe(&queue, ALL);
    *next.lock().unwrap() = Some(second);
    tube.put(b"a").unwrap();
    queue.tick().unwrap();
    assert_eq!(received.try_recv(), Err(TryRecvError::Disconnected));
}

/// The drop does not wait, so it cannot wait for itself: the caller may hold what the callback
/// needs.
#[test]
fn a_subscription_may_be_dropped_while_its_callback_runs() {
    let queue = Queue::in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let ((entered, has_entered), (reported, received)) = (channel(), channel());
    let needed = Arc::new(Mutex::new(()));
    let of_needed = needed.clone();
    let own = queue.on_event(ALL, move |event| {
        entered.send(()).unwrap();
        drop(of_needed.lock().unwrap());
        reported.send(event.cause).unwrap();
    });
    let held = needed.lock().unwrap();
    tube.put(b"a").unwrap();
    has_entered.recv().unwrap();
    tube.take().unwrap().detach();
    drop(own);
    assert_eq!(received.try_recv(), Err(TryRecvError::Empty), "it is running");
    drop(held);
    assert_eq!(received.iter().collect::<Vec<_>>(), [Cause::Put], "the last call");
    assert!(has_entered.recv().is_err());
}

#[test]
fn a_transaction_may_subscribe_and_deregister() {
    let (queue, tube) = lone();
    let (before, earlier) = subscribe(&queue, ALL.payloads());
    let within = queue.transact(|tx| {
        drop(before);
        tube.put_in(tx, b"a")?;
        ok(subscribe(&queue, ALL.payloads()))
    });
    let (_own, received) = within.unwrap();
    queue.tick().unwrap();
    assert_eq!(earlier.try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(causes(&received), [Cause::Put]);
}

#[test]
fn a_close_drops_the_callbacks() {
    let (queue, tube) = lone();
    let (own, received) = subscribe(&queue, ALL);
    tube.put(b"a").unwrap();
    queue.close().unwrap();
    assert_eq!(received.try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(kind(queue.on_event(ALL, |_| ())), ErrorKind::Closed);
    drop(own);
}

#[test]
fn a_subscription_keeps_no_queue_open() {
    let (_home, path) = home();
    let queue = open(&path);
    let (own, received) = subscribe(&queue, ALL);
    drop(queue);
    assert_eq!(received.try_recv(), Err(TryRecvError::Disconnected));
    let queue = open(&path);
    drop(own);
    queue.tube("t").unwrap();
}

/// What it has captured is dropped with no lock held, here, in its own callback, and in a
/// transaction of another queue.
#[test]
fn a_callback_may_have_captured_the_last_handle_of_its_queue() {
    let is_locked = |path: &Path| still().0.open(path).is_err();
    for way in 0..3 {
        let (_home, path) = home();
        let queue = Queue::open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        let own: Arc<Mutex<Option<Subscription>>> = Arc::default();
        let (of_own, handle) = (own.clone(), queue.clone());
        let watch = move |event: &Event| {
            let _ = &handle;
            if event.cause == Cause::Put {
                drop(of_own.lock().unwrap().take());
            }
        };
        *own.lock().unwrap() = Some(queue.on_event(ALL, watch).unwrap());
        drop(queue);
        match way {
            0 => {
                drop(tube);
                assert!(is_locked(&path));
                drop(own.lock().unwrap().take());
            }
            1 => {
                tube.put(b"a").unwrap();
                drop(tube);
            }
            _ => {
                drop(tube);
                let other = Queue::in_memory().unwrap();
                let taken = own.lock().unwrap().take();
                other
                    .transact(|_| {
                        drop(taken);
                        ok(())
                    })
                    .unwrap();
            }
        }
        // The thread of the callbacks may be the one that closes.
        until(|| !is_locked(&path));
    }
}
