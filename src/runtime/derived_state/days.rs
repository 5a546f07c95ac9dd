//! What is known of the days of tubes that keep statistics: which one has a row, and how long tasks
//! waited and ran since the opening.

use super::DerivedState;
use crate::engine::effects::Effects;
use crate::format::row::DayItem;
use crate::words::latencies::Latencies;

impl DerivedState {
    /// Counts what was added to days.
    #[cold]
    pub(super) fn count_days(&mut self, effects: &mut Effects) {
        for (number, day, item) in effects.days.drain(..) {
            let Some(state) = self.tubes.get_mut(&number) else { continue };
            state.tube.day = Some(day);
            let latencies = state.latencies.get_or_insert_default();
            match item {
                DayItem::Wait(micros) => latencies.waits.add(micros),
                DayItem::Run(micros) => latencies.runs.add(micros),
                DayItem::Failure | DayItem::Retry | DayItem::Begun => {}
            }
        }
    }

    /// How long the tasks of a tube waited and ran, if any did while it kept days.
    pub(crate) fn latencies(&self, number: u32) -> Option<Latencies> {
        self.tubes.get(&number)?.latencies.as_deref().cloned()
    }
}
