//! Work per task does not grow with the number of tasks, counted in entries visited.

use super::steps;
use crate::{ManualClock, Queue, Tube, TubeOptions};
use std::time::Duration;

fn lone(options: TubeOptions) -> (Queue, Tube, ManualClock) {
    let clock = ManualClock::new();
    // No checkpoint, because the counts compare scans over the same layers.
    let builder = Queue::builder().clock(clock.clone()).by_hand(true).journal_bytes(1 << 30);
    let queue = builder.in_memory().unwrap();
    let tube = queue.create_tube("lone", options).unwrap();
    (queue, tube, clock)
}

fn put(tube: &Tube, tasks: usize) {
    tube.put_many(vec![&b"x"[..]; tasks]).unwrap();
}

/// With ten times as many tasks and more, each task costs the same.
fn is_flat(steps_of: impl Fn(usize) -> u64) {
    let each = [5_000, 40_000].map(|tasks| steps_of(tasks) as f64 / tasks as f64);
    assert!(each[1] <= 1.2 * each[0], "{each:?}");
}

/// Regression: one put in a transaction with 5 000, 10 000, 20 000 due tasks took 0.37, 2.9, 24.5
/// s. Each sweep scanned all rows that the write set had removed.
#[test]
fn due_tasks_in_a_transaction_cost_the_same_each() {
    is_flat(|tasks| {
        let (queue, tube, clock) = lone(TubeOptions::default().ttr(Duration::from_secs(1)));
        for _ in 0..tasks {
            tube.task(b"x").delay(Duration::from_secs(1)).put().unwrap();
        }
        clock.advance(Duration::from_secs(2));
        let steps = steps::during(|| queue.transact(|tx| tube.put_in(tx, b"y")).unwrap());
        assert_eq!(tube.info().unwrap().stats.ready, tasks as u64 + 1);
        steps
    });
}

/// Regression: a take of one group with 2 000, 4 000, 8 000 in flight took 3.2, 32, 203 s. The
/// search for the group's next task scanned all tasks that had been taken.
#[test]
fn tasks_of_one_group_cost_the_same_each() {
    is_flat(|tasks| {
        let (_queue, tube, _) = lone(TubeOptions::default().in_flight(100_000));
        for _ in 0..tasks {
            tube.task(b"x").group("one").put().unwrap();
        }
        let mut taken = Vec::new();
        let steps = steps::during(|| taken = tube.take_many(tasks).unwrap());
        assert_eq!(taken.len(), tasks);
        steps
    });
}

/// A scan that finds a tube empty remembers that all after its tasks is empty, too.
#[test]
fn a_batch_put_into_a_tube_that_was_drained_is_there() {
    let (_queue, tube, _) = lone(TubeOptions::default());
    for _ in 0..3 {
        put(&tube, 300);
        let tasks = tube.take_many(1000).unwrap();
        assert_eq!(tasks.len(), 300);
        tube.ack_many(tasks).unwrap();
        assert!(tube.try_take().unwrap().is_none());
    }
}

/// Regression: each page of leases scanned the leases that were already handed out.
#[test]
fn resumed_leases_cost_the_same_each() {
    is_flat(|tasks| {
        let (queue, tube, _) = lone(TubeOptions::default());
        put(&tube, tasks);
        let grace = Duration::from_secs(60);
        let ada = queue.consumer_with_grace("ada", grace).unwrap();
        for task in tube.by(&ada).take_many(tasks).unwrap() {
            task.detach();
        }
        drop(ada);
        let ada = queue.consumer_with_grace("ada", grace).unwrap();
        let mut tasks_again = Vec::new();
        let steps = steps::during(|| {
            tasks_again = ada.resume(&tube).collect::<crate::Result<_>>().unwrap();
        });
        assert_eq!(tasks_again.len(), tasks);
        steps
    });
}

/// A batch over a tube whose tasks were all taken after the last checkpoint.
#[test]
fn batches_of_a_long_queue_cost_the_same_each() {
    is_flat(|tasks| {
        let (_queue, tube, _) = lone(TubeOptions::default());
        put(&tube, tasks);
        steps::during(|| {
            while let taken @ [_, ..] = &tube.take_many(100).unwrap()[..] {
                taken.iter().for_each(|task| tube.delete(task.id()).unwrap());
            }
        })
    });
}
