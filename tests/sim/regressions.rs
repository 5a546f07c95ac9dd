//! What the simulation found, each kept as the short story that it is.

use crate::disk::{Fault, SimDisk};
use crate::trust::{numbers, open, put};
use tubewell::Durability;

/// The process that made the queue was killed between the rename and the sync of the folder above.
/// The next one found a whole queue, took durable puts, and a power cut took the name back: the
/// folder was gone with everything in it. An opening has to make sure of the name as well.
#[test]
fn a_kill_in_the_birth_and_a_power_cut_after_it() {
    let mut renamed = 0;
    for at in 1..80 {
        for seed in 0..8 {
            let disk = SimDisk::new(seed);
            disk.plan(Fault::Die(at));
            let born = crate::trust::open_on(disk.lend(), Durability::Durable);
            if born.is_ok() {
                break;
            }
            disk.kill();
            disk.plan(Fault::None);
            renamed += usize::from(!disk.bytes(tubewell::testing::FileName::Base).is_empty());
            let (queue, tube) = open(&disk, Durability::Durable);
            put(&tube, 7).unwrap();
            disk.cut_power();
            drop((queue, tube));
            assert_eq!(numbers(&open(&disk, Durability::Durable).0), [7], "call {at}, seed {seed}");
        }
    }
    assert!(renamed > 0);
}

/// Seed 294: `release_all` is one small commit, and a sweep returns the tasks behind it. A kill
/// came between the two, and the opening returned what it found taken as lost, charged; a verb that
/// had answered was taken back.
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
