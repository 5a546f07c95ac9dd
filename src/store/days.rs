//! What was added to the statistics of days and is not in their rows yet. The rows are written to
//! the overlay before it is frozen, carried or read, without a record: the records say what they
//! add, and a replay leads to the same rows. Each addition counts exactly once. It belongs to the
//! record that has it, and a record before the anchor is never replayed.

use super::base::Base;
use super::day_sums::DaySums;
use super::view::Rows;
use super::{Store, StoreFailure};
use crate::format::key::{self, Key, Run};
use crate::format::layer::{Layer, WriteSet};
use crate::format::pack::Unpacker;
use crate::format::row::{DayEntry, DayItem, DayRow};
use crate::format::{RowOp, Value, View};
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::{DAYS_COLLECTED_MAX, DAYS_COLLECTED_PART, DAYS_REPLAYED_MAX};

/// The row of a day with what was collected. `None` if it was removed, and of one that is damaged,
/// which stays for its repair.
fn with(read: Result<Option<Value>>, add: impl FnOnce(&mut DayRow)) -> Result<Option<Value>> {
    let row = match read {
        Err(error) if error.kind() == ErrorKind::Damaged => None,
        row => row?,
    };
    Ok(row.as_deref().and_then(DayRow::decode).map(|mut row| {
        add(&mut row);
        row.encode()
    }))
}

impl Rows {
    /// Adds to the rows of days what was collected for them. After an error what is left stays
    /// collected.
    pub(super) fn write_days(&mut self, base: &Base) -> Result<()> {
        self.days.settle();
        while let Some((of, sum)) = self.days.first() {
            let at = key::day(of.0, of.1);
            let row = with(self.get(base, &at), |row| row.add(sum))?;
            self.days.remove(of);
            if let Some(row) = row {
                self.write((at, RowOp::Change(row)), true);
            }
        }
        Ok(())
    }

    /// Bounds what a replay collects: between two records the rows may be written at any time.
    pub(super) fn write_days_of_replay(&mut self, base: &Base) -> Result<()> {
        if self.days.len() <= DAYS_REPLAYED_MAX { Ok(()) } else { self.write_days(base) }
    }

    /// Collects what a record of the journal adds to a day. `None` for bytes that are not that.
    pub(super) fn replay_day(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let (run, day) = key::of_day(key)?;
        let mut rest = Unpacker::new(value);
        while !rest.rest().is_empty() {
            let item = DayItem::unpack(&mut rest)?;
            self.days.add(DayEntry { tube: 0, run, day, item });
        }
        Some(())
    }
}

impl Store {
    /// Brings the rows of days up to date.
    pub(crate) fn write_days(&mut self) -> Result<()> {
        if self.rows.days.len() == 0 {
            return Ok(());
        }
        let Some(base) = &self.base else { return self.base().map(drop) };
        let done = self.rows.write_days(base);
        self.read_result(done)
    }

    /// The row of a day with all that was added to it.
    pub(crate) fn day_row(&self, run: Run, day: u32) -> Result<Option<Value>> {
        let collected = self.rows.days.of((run, day));
        match (self.get(&key::day(run, day))?, collected) {
            // One that is damaged is shown as it is.
            (Some(row), Some(sum)) => {
                Ok(with(Ok(Some(row.clone())), |whole| whole.add(&sum))?.or(Some(row)))
            }
            (row, _) => Ok(row),
        }
    }

    /// Collects what these writes, which were applied, add to days. Nothing that was collected for
    /// an earlier row of a day counts.
    #[cold]
    pub(super) fn collect_days(&mut self, writes: &WriteSet) {
        // Most ops have one, of the day of the one before.
        if !matches!(writes.days[..], [entry] if self.rows.days.keep(entry)) {
            self.collect_all(&writes.days);
        }
    }

    #[inline(never)]
    fn collect_all(&mut self, entries: &[DayEntry]) {
        for entry in entries.iter().filter(|entry| matches!(entry.item, DayItem::Begun)) {
            self.rows.days.remove((entry.run, entry.day));
        }
        entries.iter().for_each(|entry| self.rows.days.add(*entry));
        let days = self.rows.days.len();
        let journal = self.ring.as_ref().map_or(self.config.journal_bytes, |ring| ring.size);
        let bytes_max = journal / DAYS_COLLECTED_PART;
        if days > DAYS_COLLECTED_MAX || self.rows.days.carry_bytes > bytes_max {
            // After an error they stay collected, and who needs the rows gets the error.
            let _ = self.write_days();
        }
    }

    /// Adds to these writes, which go to the base with the overlay, the rows of the days to which
    /// they add something.
    pub(super) fn add_day_rows(
        &mut self,
        writes: &mut Layer,
        entries: &[DayEntry],
    ) -> Result<(), StoreFailure> {
        self.write_days().map_err(StoreFailure::Refused)?;
        let mut sums = DaySums::default();
        entries.iter().for_each(|entry| sums.add(*entry));
        sums.settle();
        while let Some((of, sum)) = sums.first() {
            let at: Key = key::day(of.0, of.1);
            let read = match writes.get(&at) {
                Some(op) => Ok(op.value().cloned()),
                None => self.base().and_then(|base| self.rows.get(base, &at)),
            };
            if let Some(row) = with(read, |row| row.add(sum)).map_err(StoreFailure::Refused)? {
                writes.write((at, RowOp::Change(row)));
            }
            sums.remove(of);
        }
        Ok(())
    }
}
