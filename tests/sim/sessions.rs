//! Named consumers at their end, in cases that exceed a script: more leases than one sweep returns,
//! and more names than a script has.

use crate::disk::{Fault, SimDisk};
use crate::step::End;
use crate::trust::{numbers, open, put};
use tubewell::{Durability, ErrorKind};

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

/// Regression: one failed write, of the end of a session, left its tasks taken until the process
/// ended, and its consumer open: nothing tried it again.
#[test]
fn a_session_ends_though_the_write_of_its_end_failed_once() {
    for is_closed in [false, true] {
        let disk = SimDisk::new(1);
        let (queue, tube) = open(&disk, Durability::Durable);
        put(&tube, 7).unwrap();
        let ada = queue.consumer("ada").unwrap();
        tube.by(&ada).take().unwrap().detach();
        queue.flush().unwrap();
        disk.plan(Fault::Once(1));
        if is_closed {
            assert_eq!(ada.close().unwrap_err().kind(), ErrorKind::Io);
            assert!(tube.by(&ada).try_take().unwrap_err().is_closed());
        }
        drop(ada);
        disk.plan(Fault::None);
        let again = queue.consumer("ada").unwrap();
        assert!(again.resume(&tube).next().is_none(), "it has ended before the next one begins");
        assert_eq!(tube.stats().unwrap().taken, 0);
        queue.close().unwrap();
    }
}

/// Regression: the drop of a guard that one failed write refused left its task taken until its ttr
/// or the end of the process, also after the close of its session.
#[test]
fn a_guard_is_returned_though_the_write_of_its_drop_failed_once() {
    for has_session in [false, true] {
        let disk = SimDisk::new(1);
        let (queue, tube) = open(&disk, Durability::Durable);
        put(&tube, 7).unwrap();
        let session = queue.session();
        let by = if has_session { &tube.by(&session) } else { &tube };
        let task = by.take().unwrap();
        queue.flush().unwrap();
        disk.plan(Fault::Once(1));
        drop(task);
        disk.plan(Fault::None);
        session.close().unwrap();
        assert_eq!(tube.try_take().unwrap().expect("it is ready").deliveries(), 2);
    }
}
