//! How a round of the small simulations ends: the process dies, or the power fails.

use crate::disk::SimDisk;
use crate::script::Rng;
use tubewell::Durability;

/// Half of the seeds wait for each sync.
pub fn durability(seed: u64) -> Durability {
    [Durability::Durable, Durability::Relaxed][(seed % 2) as usize]
}

/// Kills the process, or cuts the power, and returns whether it was that. A power cut takes back
/// relaxed changes, which no model of these knows: it comes only to those who wait for the sync.
pub fn crash(disk: &mut SimDisk, durability: Durability, rng: &mut Rng) -> bool {
    let is_cut = durability == Durability::Durable && !rng.one_in(2);
    match is_cut {
        true => disk.cut_power(),
        false => disk.kill(),
    }
    is_cut
}
