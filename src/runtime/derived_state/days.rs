//! What is known of the days of tubes that keep statistics: which one has a row, and how long tasks
//! waited and ran since the opening.

use super::DerivedState;
use crate::format::row::{DayEntry, DayItems};
use crate::words::latencies::Latencies;

/// Adds lengths of time to the latencies of their tube.
fn add(to: &mut Latencies, items: &DayItems) {
    to.waits.extend(&items.waits);
    to.runs.extend(&items.runs);
}

impl DerivedState {
    /// Counts what was added to days.
    #[cold]
    pub(super) fn count_days(&mut self, entries: &[DayEntry]) {
        for DayEntry { tube, day, item, .. } in entries.iter().copied() {
            if !self.day_items.keep((tube, day), item) {
                self.turn_to_day(tube, day);
                self.day_items.keep((tube, day), item);
            }
        }
    }

    /// Keeps items of this day, which has a row, from now on.
    #[inline(never)]
    fn turn_to_day(&mut self, number: u32, day: u32) {
        self.settle_day_items();
        if let Some(state) = self.tubes.get_mut(&number) {
            state.tube.day = Some(day);
        }
        self.day_items.restart(Some((number, day)));
    }

    /// Adds the items that are kept to the latencies of their tube.
    pub(super) fn settle_day_items(&mut self) {
        if let Some(((number, _), items)) = self.day_items.kept()
            && let Some(state) = self.tubes.get_mut(&number)
        {
            add(state.latencies.get_or_insert_default(), items);
        }
        self.day_items.restart(None);
    }

    /// How long the tasks of a tube waited and ran, if any did while it kept days.
    pub(crate) fn latencies(&self, number: u32) -> Option<Latencies> {
        let mut latencies = self.tubes.get(&number)?.latencies.as_deref().cloned();
        if let Some((_, items)) = self.day_items.kept().filter(|(day, _)| day.0 == number) {
            add(latencies.get_or_insert_default(), items);
        }
        latencies
    }
}
