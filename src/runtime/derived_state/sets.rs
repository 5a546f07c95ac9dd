//! The sets of tubes that handles on several tubes take from: they begin, are filled, and end.

use super::DerivedState;
use crate::engine::tube_set::{Choice, TubeOrder, TubeSet};
use crate::runtime::tube_sets::{PrefixedTubes, TubeSets};
use crate::words::sync::Arc;

impl DerivedState {
    /// Begins a set of tubes. Returns its number.
    pub(crate) fn begin_set(&mut self, choice: Choice, prefix: Option<&Arc<PrefixedTubes>>) -> u32 {
        let seats = &self.seats;
        let sets = self.sets.get_or_insert_with(|| Box::new(TubeSets::new(seats.clone())));
        sets.begin(choice, prefix)
    }

    /// Adds a tube to a set, unless it was dropped.
    pub(crate) fn add_to_set(&mut self, set: u32, (tube, place, weight): (u32, u32, u32)) {
        if let (Some(sets), Some(state)) = (&mut self.sets, self.tubes.get(&tube)) {
            sets.add(set, tube, (TubeOrder { place, name: state.name.clone() }, weight));
        }
    }

    /// Ends a set. Its number is in use until it is freed.
    pub(crate) fn end_set(&mut self, set: u32) -> Option<TubeSet> {
        self.sets.as_mut()?.end(set)
    }

    /// Frees the number of a set that has ended, after its seats are gone.
    pub(crate) fn free_set(&mut self, set: u32) {
        if let Some(sets) = &mut self.sets {
            sets.free(set);
            if sets.is_empty() {
                self.sets = None;
            }
        }
    }
}
