//! Faults that the simulation found, each as a short story.

use crate::disk::{Fault, SimDisk};
use crate::seeds::{are_all, seeds};
use crate::trust::{numbers, open, open_on, put};
use std::time::Duration;
use tubewell::testing::{FileName, Found};
use tubewell::{ConsumerOptions, Durability, ManualClock, Queue, TubeKind, TubeOptions};

/// The process that made the queue was killed between the rename and the sync of the parent folder.
/// The next one found a complete queue, took durable puts, and a power cut undid the rename: the
/// folder was lost with everything in it. An opening must sync the name as well.
#[test]
fn a_kill_in_the_creation_and_a_power_cut_after_it() {
    for make in [SimDisk::new, SimDisk::with_a_folder] {
        let mut renamed = 0;
        for at in 1..80 {
            for seed in seeds(8) {
                let disk = make(seed);
                disk.plan(Fault::Die(at));
                let created = open_on(disk.lend(), Durability::Durable);
                if created.is_ok() {
                    break;
                }
                disk.kill();
                disk.plan(Fault::None);
                renamed += usize::from(!disk.bytes(FileName::Base).is_empty());
                let (queue, tube) = open(&disk, Durability::Durable);
                put(&tube, 7).unwrap();
                disk.cut_power();
                drop((queue, tube));
                let kept = numbers(&open(&disk, Durability::Durable).0);
                assert_eq!(kept, [7], "call {at}, seed {seed}");
            }
        }
        assert!(!are_all() || renamed > 0);
    }
}

/// F7. A queue was made in a folder beside the existing one and renamed over it. Now it is made in
/// it, and the two files are renamed one after the other: after a power cut at any call, and at any
/// call of the next creation, a queue can be made there, and it lasts.
#[test]
fn a_power_cut_at_every_call_of_a_creation_and_in_the_one_after_it() {
    for make in [SimDisk::new, SimDisk::with_a_folder] {
        let (mut died, mut unfinished) = (0, 0);
        for at in 1..100 {
            let died_before = died;
            for seed in seeds(3) {
                let disk = make(seed);
                for at in [at, 1 + (at * 31 + seed * 17) % 40] {
                    disk.plan(Fault::Die(at));
                    died += usize::from(open_on(disk.lend(), Durability::Durable).is_err());
                    // Some of the names, some of the bytes; or all that the process has written.
                    if seed % 3 == 0 {
                        disk.kill()
                    } else {
                        disk.cut_power()
                    }
                    disk.plan(Fault::None);
                    let found = disk.lend().found().unwrap();
                    assert!(!matches!(found, Found::Missing(_)), "call {at}, seed {seed}");
                    unfinished += usize::from(found == Found::Unfinished);
                }
                let (queue, tube) = open(&disk, Durability::Durable);
                put(&tube, 7).unwrap();
                disk.cut_power();
                drop((queue, tube));
                let kept = numbers(&open(&disk, Durability::Durable).0);
                assert_eq!(kept, [7], "call {at}, seed {seed}");
            }
            if died == died_before {
                break;
            }
        }
        assert!(!are_all() || died > 60, "{died}");
        assert!(!are_all() || (unfinished > 0) == make(0).is_within(), "{unfinished}");
    }
}

/// Seed 294: `release_all` is one small commit, and a sweep returns the tasks later. After a kill
/// between the two, the opening returned the taken tasks as lost, charged, and so undid a verb that
/// had returned.
#[test]
fn a_kill_between_release_all_and_its_sweep() {
    let disk = SimDisk::new(1);
    let (queue, tube) = open(&disk, Durability::Durable);
    put(&tube, 7).unwrap();
    let task = tube.try_take().unwrap().unwrap();
    tube.release_all().unwrap();
    disk.kill();
    drop((task, queue, tube));
    let (_, tube) = open(&disk, Durability::Durable);
    let task = tube.try_take().unwrap().unwrap();
    assert_eq!((task.attempt(), task.deliveries()), (1, 2));
}

/// Seed 762: a day passed at once, so a task's delay and its ttl were both over. A verb does due
/// work until nothing is left; inside a transaction it was done once, which ended the delay and
/// left an expired task in the place of the one that was put.
#[test]
fn a_delay_and_a_ttl_that_end_before_a_transaction() {
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
    let one = TubeOptions::new(TubeKind::General).capacity(1);
    let tube = queue.create_tube("t", one).unwrap();
    let second = Duration::from_secs(1);
    tube.task(b"old").delay(second).ttl(second).put().unwrap();
    clock.advance(Duration::from_secs(86_400));
    queue.transact(|tx| tx.put(&tube, b"new").map(drop)).unwrap();
    assert_eq!(&*tube.try_take().unwrap().unwrap(), b"new");
}

/// A write of the journal failed, once, in the call that found a consumer's grace over, or that
/// closed its session. The session was removed nevertheless: its tasks stayed taken, without a
/// holder, until the queue was opened again.
#[test]
fn a_failed_write_at_the_end_of_a_session() {
    for by_close in [false, true] {
        for at in 1..8 {
            let (disk, clock) = (SimDisk::new(at), ManualClock::new());
            let builder = Queue::builder().clock(clock.clone()).by_hand(true).disk(disk.lend());
            let queue = builder.open_disk().unwrap();
            let tube = queue.tube("t").unwrap();
            (0..3).for_each(|number| put(&tube, number).unwrap());
            let grace = Duration::from_secs(if by_close { 3600 } else { 5 });
            let consumer = queue.consumer_with_grace("c", grace).unwrap();
            let tasks = tube.by(&consumer).take_many(3).unwrap();
            for task in tasks {
                task.split().1.detach();
            }
            if by_close {
                disk.plan(Fault::Once(at));
                let closed = consumer.close();
                disk.plan(Fault::None);
                if closed.is_err() && queue.tick().is_ok() {
                    consumer.close().unwrap();
                }
            } else {
                drop(consumer);
                clock.advance(grace);
                disk.plan(Fault::Once(at));
                let _ = queue.tick();
                disk.plan(Fault::None);
            }
            // A failed sync has broken the queue; otherwise it goes on.
            if queue.tick().is_ok() {
                assert_eq!(tube.take_many(9).unwrap().len(), 3, "{by_close}, call {at}");
            }
        }
    }
}

/// A write of the journal failed, once, in the call that closed or deregistered a consumer, and the
/// queue was closed next. The refused end was forgotten: after the next opening the tasks waited
/// for the consumer's grace.
#[test]
fn a_session_whose_end_failed_gets_no_grace_at_the_next_opening() {
    let mut refused = 0;
    for deregisters in [false, true] {
        for at in 1..4 {
            let disk = SimDisk::new(at);
            let (queue, tube) = open(&disk, Durability::Durable);
            put(&tube, 1).unwrap();
            let hour = Duration::from_secs(3600);
            let about = ConsumerOptions::new().grace(hour).keep(hour);
            let consumer = queue.consumer_with("c", about).unwrap();
            tube.by(&consumer).try_take().unwrap().unwrap().detach();
            disk.refuse_with(std::io::ErrorKind::StorageFull);
            disk.plan(Fault::Once(at));
            let ended = match deregisters {
                true => queue.deregister(&["c"]),
                false => consumer.close(),
            };
            disk.plan(Fault::None);
            if queue.close().is_err() {
                continue; // A failed sync has broken the queue.
            }
            refused += u32::from(ended.is_err());
            drop((consumer, queue, tube));
            let (queue, tube) = open(&disk, Durability::Durable);
            assert!(tube.try_take().unwrap().is_some(), "{deregisters}, call {at}: {ended:?}");
            assert_eq!(queue.consumers().unwrap().len(), usize::from(!deregisters));
        }
    }
    assert!(refused > 1, "{refused}");
}

/// A read of the base failed while a transaction was about to be committed. Nothing was committed,
/// but the number of this commit had not been set yet, so the commit before it was taken for it:
/// the call succeeded, and lost its writes and every row that was not in the base. Acked tasks came
/// back.
#[test]
fn a_failed_read_in_the_commit_of_a_transaction() {
    let mut struck = 0;
    for at in 1..60 {
        let disk = SimDisk::new(at);
        let builder = Queue::builder().clock(ManualClock::new()).cache_bytes(0).by_hand(true);
        let queue = builder.disk(disk.lend()).open_disk().unwrap();
        let tube = queue.tube("t").unwrap();
        (0..100).for_each(|number| put(&tube, number).unwrap());
        queue.checkpoint().unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        disk.plan(Fault::ReadOnce(at));
        let done = queue.transact(|tx| tx.put(&tube, &100u64.to_be_bytes()).map(drop)).is_ok();
        struck += disk.strikes();
        disk.plan(Fault::None);
        disk.kill();
        drop((queue, tube));
        let found = numbers(&open(&disk, Durability::Durable).0);
        assert_eq!(found, (1..100 + u64::from(done)).collect::<Vec<_>>(), "read {at}");
    }
    assert!(struck > 3, "{struck}");
}

/// Seed 2: an opening gave leases that wait for a named consumer no end, and counted each as lost,
/// although its task had not moved.
#[test]
fn a_lease_that_waits_for_its_consumer_is_not_counted_as_lost() {
    let disk = SimDisk::new(1);
    let (queue, tube) = open(&disk, Durability::Durable);
    let hour = Duration::from_secs(3600);
    tube.task(b"x").ttr(hour).put().unwrap();
    let consumer = queue.consumer_with_grace("c", hour).unwrap();
    tube.by(&consumer).try_take().unwrap().unwrap().split().1.detach();
    disk.kill();
    drop((consumer, queue, tube));
    let (_, tube) = open(&disk, Durability::Durable);
    let stats = tube.stats().unwrap();
    assert_eq!((stats.taken, stats.calls.lost), (1, 0));
}

/// Seed 4175: a sync of the base failed during a transaction that was rolled back. The queue went
/// on, and reported that it was broken only at its next checkpoint.
#[test]
fn a_failed_sync_beneath_a_transaction_stops_the_queue_at_once() {
    const OWN: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("own");
    let mut struck = 0;
    for large in [1 << 10, 1 << 20, 4 << 20] {
        let disk = SimDisk::new(1);
        let (queue, tube) = open(&disk, Durability::Durable);
        let bytes = vec![7; large];
        disk.plan(Fault::LoseSync(1));
        let done = queue.transact(|tx| {
            let mut own = tx.table(OWN)?;
            for row in 0..4 {
                own.insert(row, bytes.as_slice())?;
            }
            Err::<(), _>(tubewell::Error::from(redb::StorageError::Corrupted("no".into())))
        });
        assert!(done.is_err());
        let has_lost_a_sync = disk.has_lost_a_sync();
        disk.plan(Fault::None);
        struck += u32::from(has_lost_a_sync);
        assert_eq!(put(&tube, 1).is_err(), has_lost_a_sync, "{large}");
    }
    assert!(struck > 0);
}
