//! The sets of tubes that each tube is in. What becomes ready in a tube wakes the calls that wait
//! on such a set too. Its lock is taken last, and nothing is done under it but to look here.

use crate::format::NumberHash;
use crate::words::sync::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;

/// The sets by the tubes that are in them.
#[derive(Default)]
pub(crate) struct Seats(Mutex<HashMap<u32, SmallVec<[Seat; 1]>, NumberHash>>);

/// A set that a tube is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) set: u32,
    /// Whether the set names the tube. Otherwise it has all with a prefix.
    pub(crate) is_named: bool,
}

impl Seats {
    /// The sets that the tube is in. Usually none.
    pub(crate) fn of(&self, tube: u32) -> SmallVec<[Seat; 1]> {
        self.0.lock().get(&tube).cloned().unwrap_or_default()
    }

    /// Adds a set. Once.
    pub(crate) fn add(&self, tube: u32, seat: Seat) {
        let mut seats = self.0.lock();
        let seats = seats.entry(tube).or_default();
        if !seats.contains(&seat) {
            seats.push(seat);
        }
    }

    /// The tube was dropped. Returns the sets that it was in.
    pub(crate) fn remove_tube(&self, tube: u32) -> SmallVec<[Seat; 1]> {
        self.0.lock().remove(&tube).unwrap_or_default()
    }

    /// The set has ended, which had these tubes.
    pub(crate) fn remove_set(&self, set: u32, tubes: &[u32]) {
        let mut seats = self.0.lock();
        for tube in tubes {
            if let Some(of_tube) = seats.get_mut(tube) {
                of_tube.retain(|seat| seat.set != set);
                if of_tube.is_empty() {
                    seats.remove(tube);
                }
            }
        }
    }

    /// How many tubes are in sets.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}
