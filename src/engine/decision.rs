//! The decision of an op, as a value: row writes and effects; and a view of the rows with these
//! applied. A refused op's decision is dropped.

use crate::engine::effects::Effects;
use crate::format::key::{self, Key, Range};
use crate::format::layer::{Layer, WriteSet};
use crate::format::{Met, RowOp, Value, View};
use crate::words::error::Result;

/// The decision of an op.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    rows: WriteSet,
    /// Whether a row is written to the disk.
    durable: bool,
    /// Whether a row stays in memory only.
    temporary: bool,
    /// In a transaction: whether one of its ops adds tasks to a temporary tube.
    pub(crate) adds_temporary: bool,
    pub(crate) effects: Effects,
}

impl Decision {
    /// Removes the decision. The memory is kept for the next one, unless it is much.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        (self.durable, self.temporary) = (false, false);
        self.effects.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a power cut could undo it. A temporary tube writes nothing to the disk, so there is
    /// nothing to wait for. An op without writes still has read the writes of others.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable || self.rows.is_empty()
    }

    /// Whether it writes rows of temporary tubes.
    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// The row writes, in key order, one for each key. The caller that applies them empties the
    /// layer.
    #[inline]
    pub(crate) fn writes(&mut self) -> &mut Layer {
        self.rows.layer()
    }

    /// Adds a later decision, made over this one.
    pub(crate) fn merge(&mut self, mut later: Self) {
        later.rows.layer().drain_into(|row| self.write(row));
        self.effects.merge(later.effects);
    }

    #[inline]
    pub(crate) fn write(&mut self, row: (Key, RowOp)) {
        match key::is_temporary(&row.0) {
            true => self.temporary = true,
            false => self.durable = true,
        }
        self.rows.write(row);
    }
}

/// A view with a decision applied, for the next op of the same transaction.
pub(crate) struct Over<'a> {
    pub(crate) view: &'a dyn View,
    pub(crate) draft: &'a Decision,
}

/// Most reads come before the first write.
impl View for Over<'_> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let rows = &self.draft.rows;
        if rows.is_empty() { self.view.get(key) } else { rows.get(self.view, key) }
    }

    #[inline]
    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let rows = &self.draft.rows;
        if rows.is_empty() { self.view.first(from, to) } else { rows.first(self.view, from, to) }
    }

    #[inline]
    fn count(&self, range: Range) -> u64 {
        self.view.count(range).saturating_add_signed(self.draft.rows.moved(range))
    }

    fn durable_bytes(&self) -> u64 {
        self.view.durable_bytes().saturating_add_signed(self.draft.effects.durable_bytes)
    }
}
