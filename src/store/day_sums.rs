//! What was added to the statistics of days and is not in their rows yet, in memory. It reads and
//! writes no row.

use crate::format::key::{self, Run};
use crate::format::row::{DAY_ROW_BYTES_MAX, DayDelta, DayEntry, KeptItems};
use std::collections::BTreeMap;

/// The most bytes of the row of a day in a carried record.
const CARRIED_MAX: u64 = DAY_ROW_BYTES_MAX as u64 + 16;

/// A day of a run.
pub(super) type Day = (Run, u32);

/// What is collected, of each day by itself.
#[derive(Clone, Debug, Default)]
pub(super) struct DaySums {
    days: BTreeMap<Day, Box<DayDelta>>,
    /// The last ones, whose day has a sum that lacks them.
    last: KeptItems<Day>,
    /// At most so many bytes will the rows take in carried records.
    pub(super) carry_bytes: u64,
}

/// The most bytes of the row of a day of this run in a carried record.
fn carried_of(run: Run) -> u64 {
    if run.is_temporary() { 0 } else { CARRIED_MAX }
}

impl DaySums {
    pub(super) fn len(&self) -> usize {
        self.days.len()
    }

    /// Keeps one of the day of the last one. False if it is of another day, or too many are kept.
    #[inline]
    pub(super) fn keep(&mut self, entry: DayEntry) -> bool {
        self.last.keep((entry.run, entry.day), entry.item)
    }

    pub(super) fn add(&mut self, entry: DayEntry) {
        if !self.keep(entry) {
            self.turn_to((entry.run, entry.day));
            self.keep(entry);
        }
    }

    /// Keeps items of this day from now on.
    fn turn_to(&mut self, of: Day) {
        self.settle();
        let Self { days, carry_bytes, last } = self;
        days.entry(of).or_insert_with(|| {
            *carry_bytes += carried_of(of.0);
            Box::default()
        });
        last.restart(Some(of));
    }

    /// Adds those that are kept to their sum.
    pub(super) fn settle(&mut self) {
        if let Some((of, items)) = self.last.kept()
            && let Some(sum) = self.days.get_mut(&of)
        {
            sum.add(items);
        }
        self.last.restart(None);
    }

    /// What was collected of the first day, once all is settled.
    pub(super) fn first(&self) -> Option<(Day, &DayDelta)> {
        self.days.first_key_value().map(|(of, sum)| (*of, &**sum))
    }

    /// What was collected of this day.
    pub(super) fn of(&self, of: Day) -> Option<DayDelta> {
        let mut sum = DayDelta::clone(self.days.get(&of)?);
        if let Some((_, items)) = self.last.kept().filter(|(last, _)| *last == of) {
            sum.add(items);
        }
        Some(sum)
    }

    /// What was collected of this day is over.
    pub(super) fn remove(&mut self, of: Day) {
        if self.last.kept().is_some_and(|(last, _)| last == of) {
            self.last.restart(None);
        }
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

    /// By how much these entries raise `carry_bytes` at most. Those of a day stand together in a
    /// record.
    pub(super) fn growth(&self, entries: &[DayEntry]) -> u64 {
        let last = self.last.kept().map(|(last, _)| last);
        if matches!(entries, [entry] if last == Some((entry.run, entry.day))) {
            return 0;
        }
        let is_new = |of: &&[DayEntry]| {
            let first = of.first().filter(|it| !it.run.is_temporary());
            first.is_some_and(|it| !self.days.contains_key(&(it.run, it.day)))
        };
        let days = entries.chunk_by(|a, b| a.run == b.run && a.day == b.day).filter(is_new);
        days.count() as u64 * CARRIED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::row::{DayItem, DayItems};

    /// Items are kept to be added together. A sum that lacked them would be written to the row of
    /// its day, and they would be lost or counted for another.
    #[test]
    fn sums_have_the_items_that_are_kept() {
        let (mut sums, mut model) = (DaySums::default(), BTreeMap::<Day, DayDelta>::new());
        for number in 0..3000_u64 {
            // Turns of one item and of more than are kept.
            let turn = if number < 1000 { number } else { number / 450 };
            let of = (Run(1 + turn as u32 % 2), turn as u32 % 3);
            let item = match number % 7 {
                0 => DayItem::Failure,
                1 => DayItem::Retry,
                2 | 3 => DayItem::Run(number << 20),
                _ => DayItem::Wait(number << 10),
            };
            sums.add(DayEntry { tube: 0, run: of.0, day: of.1, item });
            let mut items = DayItems::default();
            items.push(item);
            model.entry(of).or_default().add(&items);
            for day in model.keys() {
                assert_eq!(sums.of(*day).as_ref(), model.get(day), "{number}");
            }
            if number % 700 == 699 {
                sums.remove(of);
                model.remove(&of);
                assert_eq!(sums.of(of), None);
            }
            assert_eq!(sums.carry_bytes, model.len() as u64 * CARRIED_MAX);
        }
        sums.settle();
        while let Some((of, sum)) = sums.first() {
            assert_eq!(Some(sum), model.get(&of));
            sums.remove(of);
        }
        assert_eq!((sums.len(), sums.carry_bytes), (0, 0));
    }
}
