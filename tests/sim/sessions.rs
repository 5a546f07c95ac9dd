//! Named consumers at their end, in cases that exceed a script: more leases than one sweep returns,
//! and more names than a script has.

use crate::disk::{Fault, SimDisk};
use crate::step::End;
use crate::trust::{numbers, open, put};
use tubewell::Durability;

/// More leases than one sweep returns: a consumer's end is several commits, and after an
/// interruption at any point each task is there again, charged once.
#[test]
fn s1_s8_a_consumers_end_in_several_sweeps_cut_off_at_every_call() {
    for end in [End::Kill, End::Cut] {
        let mut at = 1;
        loop {
            let disk = SimDisk::new(at);
            let (queue, tube) = open(&disk, Durability::Durable);
            (0..300).for_each(|number| put(&tube.durability(Durability::Relaxed), number).unwrap());
            let consumer = queue.consumer("c").unwrap();
            for task in tube.by(&consumer).take_many(300).unwrap() {
                task.split().1.detach();
            }
            queue.flush().unwrap();
            disk.plan(Fault::Die(at));
            let closed = consumer.close();
            let was_struck = disk.is_dead();
            match end {
                End::Cut => disk.cut_power(),
                _ => disk.kill(),
            }
            disk.plan(Fault::None);
            drop((consumer, queue, tube));
            let (queue, tube) = open(&disk, Durability::Durable);
            assert_eq!(numbers(&queue), (0..300).collect::<Vec<_>>(), "{end:?} at {at}");
            let tasks = tube.take_many(300).unwrap();
            assert_eq!(tasks.len(), 300, "{end:?} at {at}");
            assert!(tasks.iter().all(|task| task.attempt() == 2), "{end:?} at {at}");
            if !was_struck {
                closed.unwrap();
                assert!(at > 3, "{at} calls");
                break;
            }
            at += 1;
        }
    }
}

/// Consumers are opened and closed; what is kept of them must not grow.
#[test]
fn a_consumer_that_ended_leaves_no_rows() {
    let disk = SimDisk::new(1);
    let (queue, tube) = open(&disk, Durability::Durable);
    let rows = |name: String| {
        let consumer = queue.consumer(&name).unwrap();
        put(&tube, 7).unwrap();
        let task = tube.by(&consumer).try_take().unwrap().unwrap();
        consumer.close().unwrap();
        drop(task);
        tube.try_take().unwrap().unwrap().ack().unwrap();
        queue.checkpoint().unwrap();
        queue.space().unwrap().overlay_rows + queue.base_space().unwrap().rows
    };
    let first = rows("first".into());
    (0..20).for_each(|number| assert_eq!(rows(format!("c{number}")), first));
}
