//! What a durable ack costs that keeps a result with its task, beside one that keeps nothing.
//!
//!     cargo bench --bench results

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::twins::together;
use common::{Figure, PAYLOAD, Ratio, Run, figure};
use std::sync::Mutex;
use std::time::Duration;
use tubewell::{Durability, Queue, Retention, Task, Tube, TubeOptions};

const THREADS: u64 = 16;

fn main() {
    let run = Run::begin("results");
    durable_results(&run);
    run.end();
}

fn open(run: &Run, durability: Durability) -> Queue {
    let path = run.folder.fresh("queue");
    Queue::builder().durability(durability).open(path).unwrap()
}

/// The durable acks of tasks that were put and taken before, shared among so many threads.
fn acks(tube: &Tube, threads: u64, times: u64, ack: impl Fn(Task) + Sync) -> Duration {
    let relaxed = tube.durability(Durability::Relaxed);
    let taken = |_| {
        relaxed.put_many((0..times).map(|_| [7; PAYLOAD])).unwrap();
        Mutex::new(tube.take_many(times as usize).unwrap())
    };
    let parts: Vec<_> = (0..threads).map(taken).collect();
    together(threads, |number| parts[number as usize].lock().unwrap().drain(..).for_each(&ack))
}

/// An ack that keeps a result with the task, beside one that keeps nothing. Where the retention is
/// small, each such ack also removes the oldest task that was kept.
fn durable_results(run: &Run) {
    let queue = open(run, Durability::Durable);
    let tube = |name: &str, count| {
        let kept = TubeOptions::default().keep_finished(Retention::new().count(count));
        queue.create_tube(name, kept).unwrap()
    };
    const KEPT: u64 = 10_000;
    let [all, some] = [tube("all", u64::MAX), tube("some", KEPT)];
    let filling = some.durability(Durability::Relaxed);
    filling.put_many((0..KEPT).map(|_| [7; PAYLOAD])).unwrap();
    filling.take_many(KEPT as usize).unwrap().into_iter().for_each(|task| task.ack().unwrap());
    let plain = queue.tube("plain").unwrap();
    let result = "durable ack with a result of 256 bytes";
    for (keeping, threads, what) in [
        (&all, 1, format!("{result}, one thread")),
        (&all, THREADS, format!("{result}, 16 threads")),
        (&some, 1, format!("{result} that removes another, one thread")),
        (&some, THREADS, format!("{result} that removes another, 16 threads")),
    ] {
        if !run.wants(&what) {
            continue;
        }
        let figure = Figure {
            of: threads as f64,
            twin_of: threads as f64,
            ..figure(&what, "bare ack", Ratio::Rate, "≥ 0.85")
        };
        run.pair(
            &figure,
            |times| acks(keeping, threads, times, |task| task.ack_with(&[7; PAYLOAD]).unwrap()),
            |times| acks(&plain, threads, times, |task| task.ack().unwrap()),
        );
    }
}
