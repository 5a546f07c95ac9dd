//! Who waits while the journal has no room for puts before the next checkpoint.

use super::{alone, complete};
use crate::{Durability, Queue, Tube};
use std::thread::{self, yield_now};

/// Acks some tasks beside a thread that calls `fill` until it waits for a checkpoint.
fn acks_beside(fill: impl Fn(&Tube) + Send + 'static) {
    let folder = tempfile::tempdir().unwrap();
    let builder = Queue::builder().by_hand(true).journal_bytes(256 << 10);
    let queue = builder.open(folder.path()).unwrap();
    let tube = queue.tube("t").unwrap().durability(Durability::Relaxed);
    tube.put_many(vec![[1; 100]; 40]).unwrap();
    let held = tube.take_many(40).unwrap().into_iter().map(|task| task.detach().id());
    let held: Vec<_> = held.collect();
    // Each ack adds tombstones then.
    queue.checkpoint().unwrap();
    let core = queue.inner.core.clone();
    // No checkpoint begins while this is held.
    let writer = core.writer();
    let putter = thread::spawn({
        let (tube, core) = (tube.clone(), core.clone());
        move || {
            let before = core.state.lock().store.checkpoints();
            while !core.state.lock().store.checkpoints().are_more_than(before) {
                fill(&tube);
            }
        }
    });
    while !core.throttle.is_awaited() {
        yield_now();
    }
    let puts = || tube.stats().unwrap().calls.put;
    let put = puts();
    assert!(put > 100, "{put} puts before one waits");
    for id in held {
        // It panics if it has to wait.
        assert!(alone(&core, &complete(&tube, id)));
    }
    assert!(core.throttle.is_awaited(), "the put still waits");
    assert_eq!(puts(), put);
    drop(writer);
    putter.join().unwrap();
    assert!(puts() > put);
}

/// The last part of what the base still has to get is for those who end tasks: they go before the
/// puts that wait for a checkpoint, of which an ack may be what makes room.
#[test]
fn acks_go_before_the_puts_that_wait_for_the_base() {
    acks_beside(|tube| _ = tube.put(&[2; 500]).unwrap());
}

/// The same of the last bytes of the ring. Regression: where tasks came and went beside a long
/// checkpoint, acks waited with the puts.
#[test]
fn acks_go_before_the_puts_that_wait_for_the_ring() {
    acks_beside(|tube| {
        tube.put(&[2; 500]).unwrap();
        tube.take().unwrap().ack().unwrap();
    });
}
