//! The row writes of one op, and a view of the rows with these writes applied.

use super::cursor::MergeCursor;
use super::dead_ranges::DeadRanges;
use super::layer::Layer;
use crate::format::key::{Key, Range, Tag, copy, is_temporary};
use crate::format::row::DayEntry;
use crate::format::{Met, RowOp, Value, View};
use crate::words::error::Result;
use std::cell::RefCell;

/// A layer over a view that does not change in the meantime, or says so.
#[derive(Debug, Default)]
pub(crate) struct WriteSet {
    /// The writes, in key order, one for each key. A caller that applies them empties the layer.
    /// After that nothing may be written until the set is cleared.
    pub(crate) layer: Layer,
    /// Dead ranges of the view with the writes applied. Dropped with the writes, because writes
    /// that may still be refused must not change the view's own dead ranges.
    dead: RefCell<DeadRanges>,
    /// By how many rows each range changes. Kept once there are many writes; with few they are
    /// counted on request.
    pub(crate) moved: Option<Vec<(Range, i64)>>,
    /// What the op adds to the statistics of days that have a row. They are differences, so each
    /// counts exactly once. They stay until the set is cleared.
    pub(crate) days: Vec<DayEntry>,
    /// Whether a row is written to the disk.
    pub(crate) has_durable: bool,
    /// Whether a row stays in memory only.
    pub(crate) has_temporary: bool,
}

/// Counts the rows of a write in its range.
fn count(moved: &mut Vec<(Range, i64)>, key: &[u8], op: &RowOp) {
    if let (Some(range), by @ (1 | -1)) = (Range::holding(key), op.rows_added()) {
        match moved.iter_mut().rev().find(|(moved, _)| *moved == range) {
            Some((_, count)) => *count += by,
            None => moved.push((range, by)),
        }
    }
}

impl WriteSet {
    /// Removes the writes, and keeps a small part of the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.layer.clear();
        self.dead.get_mut().clear();
        self.moved = None;
        self.days.clear();
        (self.has_durable, self.has_temporary) = (false, false);
    }

    /// Rows were added to the view itself: what it was known not to have it may have now.
    pub(crate) fn view_has_changed(&mut self) {
        self.dead.get_mut().clear();
    }

    /// Whether rows of temporary tubes are among the writes. A tag of a task of a durable tube may
    /// stand at another place in memory: that row follows from others.
    #[inline]
    pub(crate) fn has_own_temporary(&self) -> bool {
        let is_own =
            |key: &Key| is_temporary(key) && key.first() != Some(&(Tag::TopTaggedTemporary as u8));
        self.layer.iter().any(|(key, _)| is_own(key))
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.layer.is_empty()
    }

    /// Adds a write, over an earlier one of the same key.
    #[inline]
    pub(crate) fn write(&mut self, row: (Key, RowOp)) {
        match is_temporary(&row.0) {
            true => self.has_temporary = true,
            false => self.has_durable = true,
        }
        if !self.layer.has_few() {
            self.count_write(&row.0, &row.1);
        }
        let layer = &self.layer;
        let first = |from: &[u8], to: &[u8]| layer.first(from, to).map(|(key, _)| copy(key));
        self.dead.get_mut().follow(&row.0, &row.1, first);
        self.layer.write(row);
    }

    /// Counts a write, and at first all earlier ones.
    #[cold]
    fn count_write(&mut self, key: &[u8], op: &RowOp) {
        let layer = &self.layer;
        let moved = self.moved.get_or_insert_with(|| {
            let mut moved = Vec::new();
            layer.iter().for_each(|(key, op)| count(&mut moved, key, op));
            moved
        });
        count(moved, key, op);
    }

    /// The value of a key in the view with the writes applied.
    pub(crate) fn get(&self, view: &dyn View, key: &[u8]) -> Result<Option<Value>> {
        match self.layer.get(key) {
            Some(op) => Ok(op.value().cloned()),
            None => view.get(key),
        }
    }

    /// The first live row with `from <= key < to`; all keys between are of one tag.
    pub(crate) fn first(&self, view: &dyn View, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let is_one_tag = |tag: &u8| *to <= [tag.saturating_add(1)][..];
        debug_assert!(from >= to || from.first().is_some_and(is_one_tag), "more than one tag");
        let mut dead = self.dead.borrow_mut();
        let Some(dead) = dead.of(from) else { return Ok(None) };
        let below = |from: &[u8], to: &[u8]| view.first(from, to);
        MergeCursor { upper: &self.layer, lower: None, below }.first(dead, (from, to), || false)
    }

    /// By how many rows the writes change a range.
    #[inline]
    pub(crate) fn moved_in(&self, range: Range) -> i64 {
        if let Some(moved) = &self.moved {
            let moved = moved.iter().find(|(moved, _)| *moved == range);
            return moved.map_or(0, |(_, count)| *count);
        }
        let tag = range.tag as u8;
        let is_held = |key: &Key| key.first() == Some(&tag) && Range::holding(key) == Some(range);
        let held = self.layer.iter().filter(|(key, _)| is_held(key));
        held.map(|(_, op)| op.rows_added()).sum()
    }
}
