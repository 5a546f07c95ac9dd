//! Checks the statistics of the days of a tube: each row can be read, and is of its day.

use super::seen::Audit;
use super::{Finding, Fix};
use crate::format::key;
use crate::format::row::DayRow;
use crate::format::{Scan, Tag};
use crate::words::error::Result;
use crate::words::statistics::DAY;

impl Audit<'_> {
    /// Reads the rows of days, and compares their number with the stored count.
    pub(super) fn compare_days(&mut self) -> Result<()> {
        let (mut rows, mut seen) = (Scan::over(self.tube.range(Tag::Day)), 0_u64);
        while let Some((key, row)) = rows.next(self.view)? {
            seen += 1;
            // After the last day there is no time at which it would be too old.
            let day = key::of_day(&key).map(|(_, day)| u64::from(day));
            let Some(day) = day.filter(|day| *day < u64::MAX / DAY) else {
                self.say(format!("Day: an invalid key: {key:02x?}"), Fix::Remove(key));
                continue;
            };
            let row = row.as_deref().and_then(DayRow::decode);
            if row.is_none_or(|row| row.begun / DAY != day) {
                let line = self.line(format!("Day: a damaged row: {key:02x?}"));
                (self.report)(Finding::new(line, Fix::Day(key::copy(&key))).beside(key));
            }
        }
        let stored = self.view.count(self.tube.range(Tag::Day));
        if stored != seen {
            let line = format!("Day: {seen} rows, but the stored count is {stored}");
            self.say(line, Fix::Nothing);
        }
        Ok(())
    }
}
