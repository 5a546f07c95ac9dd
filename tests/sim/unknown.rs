//! Calls that are not known to be synced: receipts, and calls whose sync failed. Such a call
//! reports it once and names its tasks, and the next opening decides for all of them alike.

use crate::disk::{Fault, SimDisk};
use crate::script::Rng;
use crate::seeds::{are_all, seeds};
use crate::trust::open;
use crate::world::kind_of;
use std::collections::BTreeSet;
use tubewell::{Durability, ErrorKind, Queue, Receipt, Result, State, Task, TaskId, Tube};

/// More than a sector, so that a cut can tear it. Eight of them fill less than an eighth of the
/// ring, where a checkpoint would sync them.
fn payload(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(90)
}

/// The numbers of the receipts' tasks that exist, whole and in put order.
fn there(queue: &Queue, seed: u64) -> Vec<u64> {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new(), "seed {seed}");
    let tube = queue.tube("t").unwrap();
    let number = |bytes: &[u8]| {
        let number = u64::from_be_bytes(bytes[..8].try_into().unwrap());
        assert_eq!(bytes, payload(number), "seed {seed}: half of a task");
        number
    };
    let ready = tube.tasks(State::Ready).collect::<Result<Vec<_>>>().unwrap();
    ready.iter().map(|task| number(&task.payload)).collect()
}

fn receipts(tube: &Tube, count: u64) -> Vec<Receipt> {
    (0..count).map(|number| tube.put_receipt(&payload(number)).unwrap()).collect()
}

#[test]
fn s2_a_receipt_that_was_waited_for_is_final_and_no_other_is_half() {
    let (mut lost, mut kept) = (0, 0);
    for seed in seeds(120) {
        let (disk, mut rng) = (SimDisk::new(seed), Rng::new(seed));
        let (queue, tube) = open(&disk, rng.of(&[Durability::Durable, Durability::Relaxed]));
        let mut receipts = receipts(&tube, 4);
        let waited = receipts.remove(rng.below(4) as usize);
        let id = waited.id();
        assert!(!waited.is_synced(), "seed {seed}");
        assert_eq!(waited.wait().unwrap(), id);
        let (before, behind): (Vec<_>, Vec<_>) = receipts.into_iter().partition(|r| r.id() < id);
        assert!(before.iter().chain(&behind).all(Receipt::is_synced), "one sync for all before it");
        (4..8).for_each(|number| drop(tube.put_receipt(&payload(number)).unwrap()));
        disk.cut_power();
        drop((queue, tube));
        let found = there(&open(&disk, Durability::Durable).0, seed);
        assert!(found.len() >= 4, "seed {seed}: {found:?}");
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "seed {seed}");
        lost += 8 - found.len();
        kept += found.len() - 4;
    }
    assert!(!are_all() || lost > 0 && kept > 0, "{lost} lost, {kept} kept");
}

#[test]
fn s6_a_receipt_whose_sync_fails_names_its_task() {
    for seed in seeds(80) {
        let disk = SimDisk::new(seed);
        let (queue, tube) = open(&disk, Durability::Durable);
        let receipts = receipts(&tube, 3);
        disk.plan(if seed % 2 == 0 { Fault::LoseSync(1) } else { Fault::Once(1) });
        for receipt in receipts {
            let id = receipt.id();
            let error = receipt.wait().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unknown, "seed {seed}: {error}");
            assert_eq!(error.tasks(), [id], "seed {seed}");
        }
        disk.plan(Fault::None);
        let refused = tube.put_receipt(&payload(9)).map(drop);
        assert_eq!(kind_of(&refused), Some(ErrorKind::Broken), "seed {seed}");
        let _ = queue.close();
        drop((queue, tube));
        if seed % 3 > 0 {
            disk.cut_power();
        }
        let decided = there(&open(&disk, Durability::Durable).0, seed);
        assert_eq!(decided, (0..decided.len() as u64).collect::<Vec<_>>(), "seed {seed}");
        disk.cut_power();
        assert_eq!(there(&open(&disk, Durability::Durable).0, seed), decided, "permanently");
    }
}

fn ids(queue: &Queue) -> BTreeSet<TaskId> {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    let tube = queue.tube("t").unwrap();
    let states = [State::Ready, State::Taken].map(|state| tube.tasks(state));
    states.into_iter().flatten().map(|task| task.unwrap().id).collect()
}

/// A call by its name, and the number of tasks that it changes. It gets a taken one.
type Call = (&'static str, usize, fn(&Queue, &Tube, &Task) -> Result<()>);

const CALLS: [Call; 5] = [
    ("put", 1, |_, tube, _| tube.put(&payload(5)).map(drop)),
    ("put_many", 3, |_, tube, _| tube.put_many([5, 6, 7].map(payload)).map(drop)),
    ("ack_many", 2, |_, tube, _| tube.ack_many(tube.take_many(2)?)),
    // Larger than a record of the journal may be, so it goes to the base at once.
    ("a large put", 1, |_, tube, _| tube.put(&vec![7; 40_000]).map(drop)),
    ("transact", 2, |queue, tube, task| {
        queue.transact(|tx| {
            tx.put(tube, &payload(5))?;
            tx.ack(task)
        })
    }),
];

/// All named tasks were added, or all were removed, or nothing happened.
#[test]
fn s5_s6_a_failed_sync_names_every_task_of_a_call() {
    for (name, count, call) in CALLS {
        let mut unknown = 0;
        for at in 1.. {
            let disk = SimDisk::new(at);
            let (queue, tube) = open(&disk, Durability::Durable);
            let put = |number| tube.put(&payload(number)).unwrap();
            let _: Vec<_> = (0..4).map(put).collect();
            let task = tube.take().unwrap();
            queue.flush().unwrap();
            let before = ids(&queue);
            disk.plan(Fault::LoseSync(at));
            let done = call(&queue, &tube, &task);
            if disk.strikes() == 0 {
                done.unwrap();
                break;
            }
            disk.plan(Fault::None);
            let _ = queue.close();
            drop((queue, tube, task));
            if at % 2 == 0 {
                disk.cut_power();
            }
            let decided = ids(&open(&disk, Durability::Durable).0);
            match done {
                // The failed sync is that of the checkpoint after it.
                Ok(()) => assert_eq!((&before ^ &decided).len(), count, "{name} at {at}"),
                Err(error) => {
                    let mut either = vec![before.clone()];
                    if error.is_outcome_unknown() {
                        unknown += 1;
                        let named: BTreeSet<_> = error.tasks().iter().copied().collect();
                        assert_eq!(named.len(), count, "{name} at {at} names {named:?}");
                        either.push(&before ^ &named);
                    }
                    let reported = format!("{name} at {at}: {error}, {either:?}");
                    assert!(either.contains(&decided), "{reported}, {decided:?}");
                }
            }
            disk.cut_power();
            assert_eq!(ids(&open(&disk, Durability::Durable).0), decided, "{name} at {at}");
        }
        assert!(unknown > 0, "{name} is never in doubt");
    }
}
