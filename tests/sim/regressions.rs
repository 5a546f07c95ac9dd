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
