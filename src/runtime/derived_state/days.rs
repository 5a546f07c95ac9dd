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
        // Most ops have one, of the day of the one before.
        if !matches!(entries, [entry] if self.keep_day_item(entry)) {
            self.count_each_day(entries);
        }
    }

    /// Keeps one of the day of the last one. False if it is of another day, or enough are kept.
    #[inline]
    fn keep_day_item(&mut self, entry: &DayEntry) -> bool {
        self.day_items.keep((entry.tube, entry.day), entry.item)
    }

    #[inline(never)]
    fn count_each_day(&mut self, entries: &[DayEntry]) {
        for entry in entries {
            if !self.keep_day_item(entry) {
                self.turn_to_day(entry.tube, entry.day);
                self.keep_day_item(entry);
            }
        }
    }

    /// Keeps items of this day, which has a row, from now on.
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
