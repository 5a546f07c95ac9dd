//! One thread that puts, takes and acks, one by one and in batches, by a clock that stands still.
//! It counts the instructions of each verb in memory, which `.ci/instructions` compares, with
//! `days` in a tube that keeps statistics of days, and with `durable` the functions that a put on a
//! disk enters, which `.ci/functions` counts. By itself it says nothing.

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use tubewell::{ManualClock, Queue, Task, TaskId, Tube, TubeOptions};

const CYCLES: usize = 1000;
const BATCH: usize = 250;
const PAYLOAD: [u8; 256] = [7; 256];

fn main() {
    // Moves what comes after it on the heap, by as much as the environment is longer.
    let moved = std::env::var("MOVED").map_or(0, |moved| moved.len());
    black_box(Box::leak(vec![0_u8; moved].into_boxed_slice()));
    let folder = tempfile::tempdir().unwrap();
    let builder = Queue::builder().clock(ManualClock::new()).by_hand(true);
    let [durable, days] = ["durable", "days"].map(|it| std::env::args().any(|given| given == it));
    let queue =
        if durable { builder.open(folder.path().join("queue")) } else { builder.in_memory() };
    let queue = queue.unwrap();
    let options = TubeOptions::default().keep_days(if days { 30 } else { 0 });
    let tube = queue.create_tube("counted", options).unwrap();
    for _ in 0..if durable { 10 } else { CYCLES } {
        black_box(counted_put(&tube));
        let task = counted_take(&tube);
        counted_ack(task);
    }
    for _ in 0..if durable { 0 } else { CYCLES / BATCH } {
        black_box(counted_batch_put(&tube));
        let tasks = counted_batch_take(&tube);
        counted_batch_ack(&tube, tasks);
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

#[inline(never)]
fn counted_batch_put(tube: &Tube) -> Vec<TaskId> {
    tube.put_many([&PAYLOAD[..]; BATCH]).unwrap()
}

#[inline(never)]
fn counted_batch_take(tube: &Tube) -> Vec<Task> {
    tube.take_many(BATCH).unwrap()
}

#[inline(never)]
fn counted_batch_ack(tube: &Tube, tasks: Vec<Task>) {
    tube.ack_many(tasks).unwrap();
}
