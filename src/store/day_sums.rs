//! What was added to the statistics of days and is not in their rows yet, in memory. It reads and
//! writes no row.

use crate::format::key::{self, Run};
use crate::format::row::{DAY_ROW_BYTES_MAX, DayDelta, DayEntry};
use std::collections::BTreeMap;

/// The most bytes of the row of a day in a carried record.
const CARRIED_MAX: u64 = DAY_ROW_BYTES_MAX as u64 + 16;

/// What is collected, of each day by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct DaySums {
    pub(super) days: BTreeMap<(Run, u32), Box<DayDelta>>,
    /// At most so many bytes will the rows take in carried records.
    pub(super) carry_bytes: u64,
}

/// The most bytes of the row of a day of this run in a carried record.
fn carried_of(run: Run) -> u64 {
    if run.is_temporary() { 0 } else { CARRIED_MAX }
}

impl DaySums {
    pub(super) fn add(&mut self, entry: DayEntry) {
        let DayEntry { run, day, item } = entry;
        let Self { days, carry_bytes } = self;
        let of = days.entry((run, day)).or_insert_with(|| {
            *carry_bytes += carried_of(run);
            Box::default()
        });
        of.add(item);
    }

    /// What was collected of this day is over.
    pub(super) fn remove(&mut self, of: (Run, u32)) {
        if self.days.remove(&of).is_some() {
            self.carry_bytes -= carried_of(of.0);
        }
    }

    /// The row of this day is written or removed: what was collected for the one before is over.
    pub(super) fn forget(&mut self, key: &[u8]) {
        if let Some(of) = key::of_day(key) {
            self.remove(of);
        }
    }

    /// By how much these entries raise `carry_bytes` at most. Those of a day
    /// stand together in a record.
    #[cold]
    pub(super) fn growth(&self, entries: &[DayEntry]) -> u64 {
        let is_new = |of: &&[DayEntry]| {
            let first = of.first().filter(|it| !it.run.is_temporary());
            first.is_some_and(|it| !self.days.contains_key(&(it.run, it.day)))
        };
        let days = entries.chunk_by(|a, b| a.run == b.run && a.day == b.day).filter(is_new);
        days.count() as u64 * CARRIED_MAX
    }
}
