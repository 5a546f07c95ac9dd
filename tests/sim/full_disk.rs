//! Full disks, block budget by block budget: what is refused is refused as a whole, what was
//! promised goes on, and with room the same queue serves as before.

use crate::disk::SimDisk;
use crate::trust::{numbers, open, open_at};
use redb::ReadableTable;
use std::time::Duration;
use tubewell::{Durability, ErrorKind, ManualClock, Queue, Result};

/// Every budget is tried until so many in a row refused nothing: from there on they are alike.
const AMPLE: u64 = 16;

/// R3: from an almost empty disk to the full need of a queue, block by block: puts are refused once
/// it is full, acks go on until the queue is empty, and with room puts are taken again by the same
/// queue. What was answered lasts.
#[test]
fn r3_every_block_budget_of_a_full_disk() {
    let payload = |number: u64| {
        let mut bytes = vec![number as u8; 400];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        bytes
    };
    let (mut ample, mut resumed_by_itself) = (0, 0);
    for budget in 0.. {
        if ample == AMPLE {
            assert!(budget > 100, "budget {budget}: everything went in");
            assert!(resumed_by_itself > 10, "{resumed_by_itself}");
            break;
        }
        let disk = SimDisk::new(budget);
        let clock = ManualClock::new();
        let (queue, tube) = open_at(&disk, Durability::Durable, &clock);
        disk.set_quota(disk.blocks() + budget as usize);
        let mut there = Vec::new();
        let mut refused = false;
        for number in 0..2000u64 {
            match tube.put(&payload(number)) {
                Ok(_) => there.push(number),
                Err(error) => {
                    assert!(error.is_full(), "budget {budget}: a put says {error}");
                    refused = true;
                    if there.len() as u64 + 3 < number {
                        break;
                    }
                }
            }
        }
        ample = if refused { 0 } else { ample + 1 };
        // Acks are promised at every budget, half of them one by one and half by tens.
        for round in 0.. {
            let most = if round % 2 == 0 { 1 } else { 10 };
            let tasks = tube.take_many(most).unwrap_or_else(|e| panic!("budget {budget}: {e}"));
            if tasks.is_empty() {
                break;
            }
            there.drain(..tasks.len());
            tube.ack_many(tasks).unwrap_or_else(|e| panic!("budget {budget}: {e}"));
            if budget % 2 == 1 && there.len() < 300 {
                // In the middle of it the process dies, and the disk is as full as before.
                break;
            }
        }
        if !there.is_empty() {
            disk.cut_power();
            drop((queue, tube));
            let (queue, tube) = open(&disk, Durability::Durable);
            assert_eq!(tube.len().unwrap(), there.len() as u64, "budget {budget}");
            while let Some(task) = tube.try_take().unwrap() {
                task.ack().unwrap_or_else(|e| panic!("budget {budget}: {e}"));
            }
            assert_eq!(queue.check().unwrap(), Vec::<String>::new());
            continue;
        }
        assert_eq!(tube.len().unwrap(), 0, "budget {budget}");
        disk.set_quota(usize::MAX);
        // Room came back: the ballast stands again with the next checkpoint, also one that has
        // nothing to move (at budget 60 the last ack had caused one), and at the latest
        // with the first put a second after the last try.
        if budget % 4 == 0 {
            queue.checkpoint().unwrap_or_else(|e| panic!("budget {budget}: {e}"));
        } else if let Err(error) = tube.put(&payload(4)) {
            assert_eq!(error.kind(), ErrorKind::DiskFull, "budget {budget}");
            clock.advance(Duration::from_secs(1));
            resumed_by_itself += 1;
        } else {
            tube.take().unwrap().ack().unwrap();
        }
        let id = tube.put(&payload(5)).unwrap_or_else(|e| panic!("budget {budget}: {e}"));
        disk.cut_power();
        drop((queue, tube));
        let (queue, tube) = open(&disk, Durability::Durable);
        assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        assert_eq!(tube.len().unwrap(), 1, "budget {budget}");
        assert_eq!(tube.try_take().unwrap().unwrap().id(), id);
    }
}

/// R3 for transactions: at every block budget each is done or refused as a whole, the tasks and the
/// application's rows together, and with room they are done again by the same queue.
#[test]
fn r3_a_transaction_at_every_block_budget_is_done_or_not() {
    const OWN: redb::TableDefinition<u64, &[u8]> = redb::TableDefinition::new("own");
    let own = |queue: &Queue| {
        let rows = queue.read(|reading| -> Result<Vec<u64>> {
            reading.table(OWN)?.iter()?.map(|row| Ok(row?.0.value())).collect()
        });
        // The table comes with the first row.
        rows.unwrap_or_default()
    };
    let bytes = [7; 3000];
    let (mut refusals, mut ample) = (0, 0);
    for budget in 0.. {
        if ample == AMPLE {
            break;
        }
        let before = refusals;
        let disk = SimDisk::new(budget);
        let (queue, tube) = open(&disk, Durability::Durable);
        disk.set_quota(disk.blocks() + budget as usize);
        let transact = |number: u64| {
            queue.transact(|tx| {
                tx.table(OWN)?.insert(number, bytes.as_slice())?;
                tx.put(&tube, &number.to_be_bytes()).map(drop)
            })
        };
        let mut there = Vec::new();
        for number in 0..100 {
            match transact(number) {
                Ok(()) => there.push(number),
                Err(error) => {
                    let told = error.kind();
                    let cause = error.into_source().and_then(|cause| cause.downcast().ok());
                    let told = cause.map_or(told, |cause: Box<tubewell::Error>| cause.kind());
                    assert_eq!(told, ErrorKind::DiskFull, "budget {budget}");
                    refusals += 1;
                }
            }
            if refusals % 8 == 1 {
                assert_eq!((numbers(&queue), own(&queue)), (there.clone(), there.clone()));
            }
        }
        ample = if refusals > before { 0 } else { ample + 1 };
        assert_eq!((numbers(&queue), own(&queue)), (there.clone(), there.clone()));
        if budget % 2 == 0 {
            disk.set_quota(usize::MAX);
            transact(100).unwrap_or_else(|error| panic!("budget {budget}: {error}"));
            there.push(100);
        }
        disk.cut_power();
        drop((queue, tube));
        let (queue, _) = open(&disk, Durability::Durable);
        assert_eq!((numbers(&queue), own(&queue)), (there.clone(), there), "budget {budget}");
    }
    assert!(refusals > 100, "{refusals}");
}
