//! The decision of an op, as a value: row writes and effects; and a view of the rows with these
//! applied. A refused op's decision is dropped.

use crate::engine::effects::Effects;
use crate::format::Range;
use crate::format::feature::Needs;
use crate::format::key::{Key, Run};
use crate::format::layer::WriteSet;
use crate::format::{Met, Tag, Value, View};
use crate::words::error::Result;
use std::collections::BTreeMap;

/// By how many tasks the counts of tags change, of durable or of temporary tubes.
pub(crate) type TagChanges = BTreeMap<(Run, Box<str>), i64>;

/// The decision of an op.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// The row writes. The caller that applies them empties their layer.
    pub(crate) rows: WriteSet,
    /// In a transaction: whether one of its ops adds tasks to a temporary tube.
    pub(crate) adds_temporary: bool,
    pub(crate) effects: Effects,
    /// In a batch of puts with tags: by how many the counts of tags change, which it writes last.
    pub(crate) tag_changes: Option<Box<TagChanges>>,
    /// The features that the rows need, if they need any.
    pub(crate) needs: Option<Needs>,
    /// The memory of the last part that was decided over this decision: it has a map for each tag.
    part: Option<Box<Self>>,
}

impl Decision {
    /// Removes the decision. The memory is kept for the next one, unless it is much.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.effects.clear();
        self.needs = None;
    }

    /// Whether a power cut could undo it. A temporary tube writes nothing to the disk, so there is
    /// nothing to wait for. An op without writes still has read the writes of others.
    #[inline]
    pub(crate) fn is_durable(&self) -> bool {
        self.rows.has_durable || self.rows.is_empty()
    }

    /// Whether it writes rows of this run.
    pub(crate) fn has_rows_of(&self, run: Run) -> bool {
        let of_run =
            |(key, _): (&Key, _)| Range::holding(key).is_some_and(|it| it.run == Some(run));
        self.rows.layer.iter().any(of_run)
    }

    /// Whether both write the same row.
    #[cold]
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let (own, other) = (&self.rows.layer, &other.rows.layer);
        let (few, many) = if own.entries() < other.entries() { (own, other) } else { (other, own) };
        few.iter().any(|(key, _)| many.get(key).is_some())
    }

    /// Begins a part, which is decided over this decision. It is empty.
    pub(crate) fn begin_part(&mut self) -> Box<Self> {
        let mut part = self.part.take().unwrap_or_default();
        part.effects.borders.clone_from(&self.effects.borders);
        part
    }

    /// Adds a part.
    pub(crate) fn add_part(&mut self, mut part: Box<Self>) {
        part.rows.layer.drain_into(|row| self.rows.write(row));
        self.rows.days.append(&mut part.rows.days);
        self.effects.append(&mut part.effects);
        self.needs = self.needs.into_iter().chain(part.needs).reduce(Needs::with);
        self.drop_part(part);
    }

    /// Ends a part that is not added.
    pub(crate) fn drop_part(&mut self, mut part: Box<Self>) {
        part.clear();
        part.effects.clear_rest();
        (part.adds_temporary, part.tag_changes) = (false, None);
        self.part = Some(part);
    }
}

/// A view with a decision applied, for the next op of the same transaction.
pub(crate) struct Over<'a> {
    pub(crate) view: &'a dyn View,
    pub(crate) decision: &'a Decision,
}

/// Most reads come before the first write.
impl View for Over<'_> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let rows = &self.decision.rows;
        if rows.is_empty() { self.view.get(key) } else { rows.get(self.view, key) }
    }

    #[inline]
    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let rows = &self.decision.rows;
        if rows.is_empty() { self.view.first(from, to) } else { rows.first(self.view, from, to) }
    }

    #[inline]
    fn count(&self, range: Range) -> u64 {
        let (rows, before) = (&self.decision.rows, self.view.count(range));
        if rows.is_empty() { before } else { before.saturating_add_signed(rows.moved_in(range)) }
    }

    #[inline]
    fn count_all(&self, run: Run, tags: &[Tag]) -> u64 {
        if self.decision.rows.is_empty() {
            return self.view.count_all(run, tags);
        }
        tags.iter().map(|tag| self.count(Range::in_run(*tag, run))).sum()
    }

    fn durable_bytes(&self) -> u64 {
        self.view.durable_bytes().saturating_add_signed(self.decision.effects.durable_bytes)
    }

    fn is_full(&self) -> bool {
        self.view.is_full()
    }
}
