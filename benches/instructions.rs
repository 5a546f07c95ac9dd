//! One thread that puts, takes and acks in memory, by a clock that stands still: for counting the
//! instructions of each verb. `.ci/instructions` runs it and compares; by itself it says nothing.

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use tubewell::{ManualClock, Queue, Task, TaskId, Tube};

const CYCLES: usize = 1000;
const PAYLOAD: [u8; 256] = [7; 256];

fn main() {
    let queue = Queue::builder().clock(ManualClock::new()).by_hand(true).in_memory().unwrap();
    let tube = queue.tube("counted").unwrap();
    for _ in 0..CYCLES {
        black_box(counted_put(&tube));
        let task = counted_take(&tube);
        counted_ack(task);
    }
}

#[inline(never)]
fn counted_put(tube: &Tube) -> TaskId {
    tube.put(&PAYLOAD).unwrap()
}

#[inline(never)]
fn counted_take(tube: &Tube) -> Task {
    tube.try_take().unwrap().unwrap()
}

#[inline(never)]
fn counted_ack(task: Task) {
    task.ack().unwrap();
}
