//! All rows of durable tubes as of one instant, to be read without the store's lock, for as long as
//! reading everything takes. What the layers hold is copied under the lock, so that a checkpoint
//! should come first. The rows of temporary tubes are left out: they may be many, and every
//! checkpoint leaves them where they are. It writes nothing.

use super::Store;
use super::base::{Base, hex};
use super::database::Opening;
use super::day_sums::DaySums;
use super::redb_errors::{corruption_as_damage, is_corruption_panic};
use super::view::Rows;
use crate::format::key::Range;
use crate::format::layer::Layer;
use crate::format::{Met, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a reader of everything sees.
pub(crate) struct WholeSnapshot {
    base: Base,
    rows: Rows,
    durable_bytes: u64,
}

/// A stored count of rows that is not their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WrongCount {
    pub(crate) range: Range,
    pub(crate) stored: u64,
    pub(crate) rows: u64,
}

impl WrongCount {
    /// What is to be added to the stored count, also if it has changed since.
    pub(crate) fn difference(&self) -> i64 {
        self.rows.wrapping_sub(self.stored) as i64
    }
}

impl Store {
    /// The rows of durable tubes as they are now. Copies those that changed since the last
    /// checkpoint, and those that are kept in memory.
    pub(crate) fn whole_snapshot(&mut self) -> Result<WholeSnapshot> {
        self.reopen_if_failed()?;
        self.write_days()?;
        let rows = Rows {
            active: self.rows.active.clone(),
            frozen: self.rows.frozen.clone(),
            temporary: Layer::default(),
            mirror: self.rows.mirror.clone(),
            counts: self.rows.counts.clone(),
            dead: RefCell::default(),
            days: DaySums::default(),
        };
        Ok(WholeSnapshot {
            base: self.base()?.share(),
            rows,
            durable_bytes: self.meta.durable_bytes,
        })
    }
}

impl WholeSnapshot {
    /// The opening that it reads, for `Store::failed_read`.
    pub(crate) fn opening(&self) -> Arc<Opening> {
        self.base.opening().clone()
    }

    /// The error of a failed read if the bytes of the base are damaged, and whether redb could not
    /// go on with them.
    ///
    /// # Errors
    /// Any other error.
    pub(crate) fn damage(error: Error) -> Result<(Error, bool)> {
        let is_unreadable = is_corruption_panic(&error);
        match corruption_as_damage(error) {
            error if error.kind() == ErrorKind::Damaged => Ok((error, is_unreadable)),
            error => Err(error),
        }
    }

    /// Counts all rows. From then on its own counts are right: no scan trusts a wrong one. Returns
    /// also a line for each row of the base that should not be there.
    pub(crate) fn recount(&mut self, strays: &mut dyn FnMut(String)) -> Result<Vec<WrongCount>> {
        let ranges = self.rows.counts.ranges().filter(|range| !range.is_temporary());
        let mut counted: BTreeMap<Range, u64> = ranges.map(|range| (range, 0)).collect();
        let mut count = |key: &[u8]| {
            if let Some(range) = Range::holding(key) {
                *counted.entry(range).or_default() += 1;
            }
        };
        let rows = &self.rows;
        self.base.each(&[], &[u8::MAX; 8], |key, _| {
            if let Some(stray) = stray_in_base(key) {
                strays(stray);
            } else if rows.entry(key).is_none() {
                count(key);
            }
        })?;
        let upper = [rows.frozen.as_deref(), Some(&rows.active)].into_iter().flatten();
        let lives: BTreeMap<_, _> =
            upper.flat_map(Layer::iter).map(|(key, op)| (key, !op.is_remove())).collect();
        lives.into_iter().filter(|(_, lives)| *lives).for_each(|(key, _)| count(key));
        let mut wrong = Vec::new();
        for (range, rows) in counted {
            let stored = self.rows.counts.of(range);
            if stored != rows {
                let found = WrongCount { range, stored, rows };
                self.rows.counts.step(range, found.difference());
                wrong.push(found);
            }
        }
        Ok(wrong)
    }
}

/// What is wrong with a row that should not be in the base, whatever its value is.
pub(super) fn stray_in_base(key: &[u8]) -> Option<String> {
    match Range::holding(key) {
        None => Some(format!("the row {} has no tag or no run", hex(key))),
        Some(range) if range.is_temporary() => {
            Some(format!("the row {} of a temporary tube is in the base", hex(key)))
        }
        Some(_) => None,
    }
}

impl View for WholeSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.rows.get(&self.base, key)
    }

    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        self.rows.first(&self.base, from, to)
    }

    fn count(&self, range: Range) -> u64 {
        if range.is_temporary() { 0 } else { self.rows.counts.of(range) }
    }

    fn durable_bytes(&self) -> u64 {
        self.durable_bytes
    }

    fn has_temporary(&self) -> bool {
        false
    }
}
