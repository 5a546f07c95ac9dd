//! All rows as one view: the active layer, possibly a frozen one below it, the base below both, and
//! the temporary layer beside them, which is never written to the disk. Dead ranges are derived
//! from rows that were applied, never from writes that may still be refused.

use super::base::Base;
use super::counts::RowCounts;
use super::day_sums::DaySums;
use super::record::RecordRow;
use crate::format::key::{Key, Range, Tag, TagScope, after, copy, is_temporary};
use crate::format::layer::{DeadRanges, Layer, MergeCursor, WriteSet, fold};
use crate::format::{Met, RowOp, Value};
use crate::words::error::Result;
use crate::words::limits::{PAGE_BYTES, PAGE_TASKS};
use crate::words::sync::Arc;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The scope of a tag's rows; [`TagScope::Run`] for a byte that is not a tag.
#[inline]
fn scope_of(tag: u8) -> TagScope {
    Tag::of(tag).map_or(TagScope::Run, Tag::scope)
}

fn tag_of(key: &[u8]) -> u8 {
    key.first().copied().unwrap_or_default()
}

fn bounds<'k>(from: &'k [u8], to: &'k [u8]) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    (Bound::Included(from), Bound::Excluded(to))
}

/// A part of a layer, bounded in rows and in bytes.
#[derive(Default)]
struct Part {
    rows: Layer,
    bytes: usize,
}

impl Part {
    fn is_full(&self) -> bool {
        self.rows.entries() >= PAGE_TASKS || self.bytes >= PAGE_BYTES
    }

    fn push(&mut self, key: Key, op: RowOp) {
        self.bytes += key.len() + op.value().map_or(0, |value| value.len());
        self.rows.write((key, op));
    }
}

/// The rows above the base.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) active: Layer,
    pub(crate) frozen: Option<Arc<Layer>>,
    /// Rows of temporary tubes. There is no layer below, so it has no tombstones.
    pub(super) temporary: Layer,
    /// A damaged value is `None`.
    pub(super) mirror: BTreeMap<Key, Option<Value>>,
    pub(crate) counts: RowCounts,
    pub(super) dead: RefCell<DeadRanges>,
    /// What is not in the rows of days yet.
    pub(super) days: DaySums,
}

impl Rows {
    /// Loads what is kept in memory from the base.
    pub(crate) fn load(base: &Base) -> Result<Self> {
        let mut rows = Self::default();
        for (run, tally) in base.tallies()? {
            rows.counts.set(run, tally);
        }
        let mirror = &mut rows.mirror;
        for tag in Tag::ALL.into_iter().filter(|tag| tag.scope() == TagScope::Mirrored) {
            let range = Range::of(tag);
            base.each(&range.start(), &range.end(), |key, value| {
                mirror.insert(Key::from_slice(key), value.map(Value::alone));
            })?;
        }
        rows.count_mirror();
        Ok(rows)
    }

    /// Counts the mirrored rows again. A replay cannot update these counts: the base, and with it
    /// the mirror, may already show later rows than its anchor says.
    pub(crate) fn count_mirror(&mut self) {
        self.counts.recount(self.mirror.keys().filter_map(|key| Range::holding(key)));
    }

    /// Bytes that the layers and the counts take in carried records.
    #[inline]
    pub(crate) fn carry_bytes(&self) -> u64 {
        let frozen = self.frozen.as_ref().map_or(0, |frozen| frozen.carry_bytes());
        self.active.carry_bytes() + frozen + self.counts.carry_bytes() + self.days.carry_bytes
    }

    /// The entry for a key in the layers, the upper layer first.
    pub(crate) fn entry(&self, key: &[u8]) -> Option<&RowOp> {
        let frozen = || self.frozen.as_ref().and_then(|frozen| frozen.get(key));
        self.active.get(key).or_else(frozen)
    }

    #[inline(always)]
    pub(crate) fn get(&self, base: &Base, key: &[u8]) -> Result<Option<Value>> {
        let Some(tag) = key.first() else { return Ok(None) };
        if scope_of(*tag) == TagScope::Mirrored {
            return match self.mirror.get(key) {
                Some(Some(value)) => Ok(Some(value.clone())),
                Some(None) => base.get(key),
                None => Ok(None),
            };
        }
        if is_temporary(key) {
            return Ok(self.temporary.get(key).and_then(RowOp::value).cloned());
        }
        match self.entry(key) {
            Some(op) => Ok(op.value().cloned()),
            None => base.get(key),
        }
    }

    #[inline]
    pub(crate) fn first(&self, base: &Base, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        // A reversed range would panic in the maps.
        if from >= to {
            return Ok(None);
        }
        let (first, last) = (tag_of(from), tag_of(to));
        if first == last {
            return self.first_of(base, first, from, to);
        }
        for tag in first..=last.min(Tag::SPACE as u8) {
            let (begin, next) = ([tag], [tag + 1]);
            let start = if tag == first { from } else { &begin };
            let end = if tag == last { to } else { &next };
            if let Some(met) = self.first_of(base, tag, start, end)? {
                return Ok(Some(met));
            }
        }
        Ok(None)
    }

    fn first_of(&self, base: &Base, tag: u8, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let scope = scope_of(tag);
        if scope == TagScope::Mirrored {
            let first = self.mirror.range::<[u8], _>(bounds(from, to)).next();
            return Ok(first.map(|(key, value)| (copy(key), value.clone())));
        }
        if is_temporary(from) {
            return Ok(self.first_temporary(tag, from, to));
        }
        let is_durable = scope == TagScope::Queue || tag_of(to) == tag && !is_temporary(to);
        if is_durable {
            return self.first_durable(base, tag, from, to);
        }
        // Temporary runs have the highest bit: they come after all others of the tag.
        let border = [tag, 0x80];
        match self.first_durable(base, tag, from, &border)? {
            None => Ok(self.first_temporary(tag, &border, to)),
            met => Ok(met),
        }
    }

    /// Whether the counts alone show that the range has no row.
    fn is_empty_between(&self, tag: u8, from: &[u8], to: &[u8]) -> bool {
        let Some(tag) = Tag::of(tag) else { return true };
        match Range::holding(from) {
            Some(range) if to <= range.end().as_slice() => self.counts.of(range) == 0,
            _ => self.counts.of(Range::of(tag)) == 0,
        }
    }

    fn first_temporary(&self, tag: u8, from: &[u8], to: &[u8]) -> Option<Met> {
        if self.is_empty_between(tag, from, to) {
            return None;
        }
        let (key, op) = self.temporary.first(from, to)?;
        Some((copy(key), op.value().cloned()))
    }

    fn first_durable(&self, base: &Base, tag: u8, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let mut dead = self.dead.borrow_mut();
        let Some(dead) = dead.of(from) else { return Ok(None) };
        let below = |from: &[u8], to: &[u8]| base.first(from, to);
        MergeCursor { upper: &self.active, lower: self.frozen.as_deref(), below }.first(
            dead,
            (from, to),
            || self.is_empty_between(tag, from, to),
        )
    }

    /// Bytes that these writes add to the temporary rows, minus those that they free.
    pub(crate) fn temporary_growth(&self, writes: &Layer) -> i64 {
        let row = |key: &Key, value: Option<&Value>| {
            value.map_or(0, |value| Layer::entry_bytes(key, value) as i64)
        };
        let grows = |(key, op): (&Key, &RowOp)| {
            let before = self.temporary.get(key).and_then(RowOp::value);
            row(key, op.value()) - row(key, before)
        };
        writes.iter().filter(|(key, _)| is_temporary(key)).map(grows).sum()
    }

    /// A planted fault: the writes may still be dropped. .ci/canaries checks that a test finds it.
    #[cfg(test)]
    pub(crate) fn learn_from_unwritten(&self, writes: &Layer) {
        for (key, _) in writes.iter().filter(|(_, op)| op.is_remove()) {
            if let Some(dead) = self.dead.borrow_mut().of(key) {
                dead.extend(key, &crate::format::key::after(key));
            }
        }
    }

    /// Adds these writes to the counts, or subtracts them.
    pub(crate) fn count(&mut self, writes: &Layer, forward: bool) {
        for (key, op) in writes.iter() {
            let added = if forward { op.rows_added() } else { -op.rows_added() };
            if let Some(range) = Range::holding(key) {
                self.count_step(range, added);
            }
        }
    }

    /// Applies a row write that is counted already, and that is in the base if it belongs there.
    pub(crate) fn absorb(&mut self, row: (Key, RowOp)) {
        if is_temporary(&row.0) {
            self.write_temporary(row);
        } else {
            self.reflect(&row.0, row.1.value());
        }
    }

    /// Applies row writes whose kinds are correct, and empties their layer.
    #[inline]
    pub(crate) fn apply(&mut self, writes: &mut WriteSet) {
        let WriteSet { layer, moved, .. } = writes;
        let is_counted = moved.is_some();
        if let Some(counted) = moved {
            counted.iter().for_each(|(range, by)| self.count_step(*range, *by));
            self.append(layer);
        }
        layer.drain_into(|row| self.write(row, is_counted));
    }

    /// Moves the rows of a batch of puts as a whole.
    #[cold]
    fn append(&mut self, writes: &mut Layer) {
        let Self { active, dead, .. } = self;
        active.append(writes, |first, last| {
            let is_kept_apart = scope_of(tag_of(first)) == TagScope::Mirrored || is_temporary(last);
            if let Some(dead) = dead.get_mut().of(first).filter(|_| !is_kept_apart) {
                dead.end_before(first);
            }
            !is_kept_apart
        });
    }

    /// Counts a row, unless that is done, and writes it.
    #[inline(always)]
    pub(super) fn write(&mut self, row: (Key, RowOp), is_counted: bool) {
        let (key, op) = &row;
        // Looked up once: every row of every verb comes here.
        if let Some(range) = Range::holding(key) {
            if !is_counted {
                self.count_step(range, op.rows_added());
            }
            if range.is_temporary() {
                return self.write_temporary(row);
            }
            if range.tag.scope() == TagScope::Mirrored {
                self.reflect_mirrored(key, op.value());
            }
        }
        let (active, frozen) = (&self.active, &self.frozen);
        let first = |from: &[u8], to: &[u8]| {
            let layers = [Some(active), frozen.as_deref()].into_iter().flatten();
            layers.filter_map(|layer| layer.first(from, to)).map(|(key, _)| copy(key)).min()
        };
        self.dead.get_mut().follow(key, op, first);
        self.active.write_to_map(row, fold);
    }

    /// Temporary rows live longer than their neighbours, so their values get memory of their own.
    fn write_temporary(&mut self, (key, op): (Key, RowOp)) {
        let op = match op {
            RowOp::Add(value) => RowOp::Add(Value::alone(&value)),
            RowOp::Change(value) => RowOp::Change(Value::alone(&value)),
            RowOp::Remove => RowOp::Remove,
        };
        self.temporary.write_to_map((key, op), fold);
    }

    /// Applies a row write of the journal. A carried row is counted already.
    pub(crate) fn replay(&mut self, row: RecordRow<'_>, is_carried: bool) {
        let (key, value) = (Key::from_slice(row.key), row.value.map(Value::from));
        let added = i64::from(row.adds) - i64::from(value.is_none());
        if let Some(range) = Range::holding(&key).filter(|_| !is_carried) {
            self.count_step(range, added);
        }
        self.reflect(&key, value.as_ref());
        if tag_of(&key) == Tag::Day as u8 {
            self.days.forget(&key);
        }
        self.active.write_unsure(key, value);
    }

    #[inline]
    fn count_step(&mut self, range: Range, added: i64) {
        if added != 0 {
            self.counts.step(range, added);
        }
    }

    #[inline]
    fn reflect(&mut self, key: &Key, value: Option<&Value>) {
        if scope_of(tag_of(key)) == TagScope::Mirrored {
            self.reflect_mirrored(key, value);
        }
    }

    fn reflect_mirrored(&mut self, key: &Key, value: Option<&Value>) {
        match value {
            Some(value) => drop(self.mirror.insert(copy(key), Some(Value::alone(value)))),
            None => drop(self.mirror.remove(key)),
        }
    }

    /// Called after the frozen layer and its tombstones are dropped. Keeps the dead ranges in which
    /// the active layer has tombstones too; otherwise the next scan would walk over every row taken
    /// during the checkpoint.
    pub(crate) fn settle_dead(&mut self) {
        let active = &self.active;
        self.dead.get_mut().keep(|from, to| active.first(from, to).is_some());
    }

    /// Merges the frozen layer back into the active one, with its counts.
    pub(crate) fn thaw(&mut self) {
        self.counts.thaw();
        let Some(frozen) = self.frozen.take() else { return };
        let mut lower = Arc::try_unwrap(frozen).unwrap_or_else(|shared| (*shared).clone());
        lower.cover_with(std::mem::take(&mut self.active));
        self.active = lower;
    }

    /// Copies what the layers that still change say of one tag's keys with `from <= key < to`, and
    /// from where to where the copy goes. What is known to be dead in front is left out.
    pub(super) fn copy_range(&self, from: &[u8], to: &[u8]) -> (Layer, Key, Key) {
        let moved = self.dead.borrow_mut().of(from).and_then(|dead| dead.end_around(from));
        let from = moved.unwrap_or_else(|| copy(from));
        let layer = if is_temporary(&from) { &self.temporary } else { &self.active };
        let mut part = Part::default();
        for (key, op) in layer.range(&from, to) {
            if part.is_full() {
                return (part.rows, from, copy(key));
            }
            part.push(copy(key), op.clone());
        }
        (part.rows, from, copy(to))
    }

    /// As [`copy_range`](Self::copy_range), from the end of the range backwards.
    pub(super) fn copy_range_back(&self, from: &[u8], to: &[u8]) -> (Layer, Key, Key) {
        let layer = if is_temporary(from) { &self.temporary } else { &self.active };
        let mut part = Part::default();
        for (key, op) in layer.range_back(from, to) {
            if part.is_full() {
                return (part.rows, after(key), copy(to));
            }
            part.push(copy(key), op.clone());
        }
        (part.rows, copy(from), copy(to))
    }

    /// Copies what they say of the first of these keys; of how many.
    pub(super) fn copy_rows(&self, keys: &[Key]) -> (Layer, usize) {
        let mut part = Part::default();
        for (count, key) in keys.iter().enumerate() {
            if part.is_full() {
                return (part.rows, count);
            }
            let op = if is_temporary(key) {
                Some(self.temporary.get(key).cloned().unwrap_or(RowOp::Remove))
            } else if scope_of(tag_of(key)) == TagScope::Mirrored {
                match self.mirror.get(key) {
                    Some(Some(value)) => Some(RowOp::Add(value.clone())),
                    // The base says that it is damaged.
                    Some(None) => None,
                    None => Some(RowOp::Remove),
                }
            } else {
                self.active.get(key).cloned()
            };
            if let Some(op) = op {
                part.push(copy(key), op);
            }
        }
        (part.rows, keys.len())
    }
}
