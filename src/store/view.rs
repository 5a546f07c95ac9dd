//! All rows as one: the layer being written, perhaps a frozen one beneath it, the base beneath
//! both, and beside them what never goes to disk. Learns where only dead rows lie, from rows that
//! were applied and never from a list that may still be dropped.

use super::base::Base;
use super::overlay::{Counts, Entry, Layer};
use super::skips::{Skips, SkipsOf};
use crate::bytes::key::{Key, Range, Run, Tag, after, copy, is_temporary};
use crate::bytes::{Met, RowOp, RowWrite, Value};
use crate::error::Result;
use crate::sync::Arc;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Bytes that a temporary row takes beside its key and value, roughly.
const TEMPORARY_ROW_BYTES: u64 = 64;

/// Tags of few and often read rows, which are kept in memory as a whole.
fn is_mirrored(tag: u8) -> bool {
    tag < Tag::Place as u8
}

fn tag_of(key: &[u8]) -> u8 {
    key.first().copied().unwrap_or_default()
}

fn bounds<'k>(from: &'k [u8], to: &'k [u8]) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    (Bound::Included(from), Bound::Excluded(to))
}

/// The rows above the base.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) active: Layer,
    pub(crate) frozen: Option<Arc<Layer>>,
    temporary: BTreeMap<Key, Value>,
    temporary_bytes: u64,
    /// A damaged value is `None`.
    mirror: BTreeMap<Key, Option<Value>>,
    pub(crate) counts: Counts,
    pub(super) skips: RefCell<Skips>,
}

impl Rows {
    /// Takes over what the base holds.
    pub(crate) fn load(base: &Base) -> Result<Self> {
        let mut rows = Self::default();
        for (run, tally) in base.tallies()? {
            rows.counts.set(run, tally);
        }
        let mirror = &mut rows.mirror;
        base.each(&[], &[Tag::Place as u8], |key, value| {
            mirror.insert(Key::from_slice(key), value.map(Value::alone));
        })?;
        rows.count_mirror();
        Ok(rows)
    }

    /// Counts what is mirrored anew. A replay cannot move these counts on: the base may already
    /// show later rows than its anchor says, and with it the mirror.
    pub(crate) fn count_mirror(&mut self) {
        self.counts.recount(self.mirror.keys().filter_map(|key| Range::holding(key)));
    }

    pub(crate) fn temporary_bytes(&self) -> u64 {
        self.temporary_bytes
    }

    pub(crate) fn overlay_bytes(&self) -> usize {
        self.active.bytes() + self.frozen.as_ref().map_or(0, |frozen| frozen.bytes())
    }

    pub(crate) fn overlay_rows(&self) -> usize {
        self.active.rows() + self.frozen.as_ref().map_or(0, |frozen| frozen.rows())
    }

    /// What the layers say about a key, the upper first.
    pub(crate) fn entry(&self, key: &[u8]) -> Option<&Entry> {
        let frozen = || self.frozen.as_ref().and_then(|frozen| frozen.get(key));
        self.active.get(key).or_else(frozen)
    }

    #[inline]
    pub(crate) fn get(&self, base: &Base, key: &[u8]) -> Result<Option<Value>> {
        let Some(tag) = key.first() else { return Ok(None) };
        if is_mirrored(*tag) {
            return match self.mirror.get(key) {
                Some(Some(value)) => Ok(Some(value.clone())),
                Some(None) => base.get(key),
                None => Ok(None),
            };
        }
        if is_temporary(key) {
            return Ok(self.temporary.get(key).cloned());
        }
        match self.entry(key) {
            Some(entry) => Ok(entry.value.clone()),
            None => base.get(key),
        }
    }

    pub(crate) fn counted(&self, range: Range) -> u64 {
        self.counts.of(range)
    }

    #[inline]
    pub(crate) fn first(&self, base: &Base, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        // An upside-down range would panic in the maps.
        if from >= to {
            return Ok(None);
        }
        let (first, last) = (tag_of(from), tag_of(to));
        if first == last {
            return self.first_of(base, first, from, to);
        }
        for tag in first..=last.min(Tag::Held as u8) {
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
        if is_mirrored(tag) {
            let first = self.mirror.range::<[u8], _>(bounds(from, to)).next();
            return Ok(first.map(|(key, value)| (copy(key), value.clone())));
        }
        if is_temporary(from) {
            return Ok(self.first_temporary(tag, from, to));
        }
        if tag_of(to) == tag && !is_temporary(to) {
            return self.first_durable(base, tag, from, to);
        }
        // Temporary runs have the highest bit: they stand behind all others of the tag.
        let border = [tag, 0x80];
        match self.first_durable(base, tag, from, &border)? {
            None => Ok(self.first_temporary(tag, &border, to)),
            met => Ok(met),
        }
    }

    /// Whether the counts alone say that there is nothing to find.
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
        let (key, value) = self.temporary.range::<[u8], _>(bounds(from, to)).next()?;
        Some((copy(key), Some(value.clone())))
    }

    fn first_durable(&self, base: &Base, tag: u8, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let mut skips = self.skips.borrow_mut();
        let Some(skips) = skips.of(tag) else { return Ok(None) };
        let moved = skips.end_around(from);
        let at = moved.as_deref().unwrap_or(from);
        let above = self.first_above(at, to);
        // A row that lives says as much as the counts.
        let lives = above.is_some_and(|(_, entry)| entry.value.is_some());
        if !lives && self.is_empty_between(tag, from, to) {
            return Ok(None);
        }
        // What lies beneath is seen only where it stands before.
        let met = match (base.first(at, above.map_or(to, |(key, _)| key))?, above) {
            (Some(beneath), _) => Some(beneath),
            (None, Some((key, Entry { value: Some(value), .. }))) => {
                Some((copy(key), Some(value.clone())))
            }
            (None, Some(_)) => return self.walk(base, skips, from, to),
            (None, None) => None,
        };
        if let (Some(end), Some((found, _))) = (&moved, &met) {
            skips.stretch(end, found);
        }
        Ok(met)
    }

    /// The first entry of the layers, a dead mark perhaps.
    #[inline]
    fn first_above(&self, from: &[u8], to: &[u8]) -> Option<(&Key, &Entry)> {
        let lower = self.frozen.as_ref().and_then(|frozen| frozen.first(from, to));
        match (self.active.first(from, to), lower) {
            (Some(upper), Some(lower)) if lower.0 < upper.0 => Some(lower),
            (upper, lower) => upper.or(lower),
        }
    }

    /// The first row behind dead ones, whose stretch is learnt.
    fn walk(
        &self,
        base: &Base,
        skips: &mut SkipsOf,
        from: &[u8],
        to: &[u8],
    ) -> Result<Option<Met>> {
        let mut moved = None;
        let mut walked = false;
        let met = 'seek: loop {
            if let Some(end) = skips.end_around(moved.as_deref().unwrap_or(from)) {
                moved = Some(end);
            }
            let at = moved.as_deref().unwrap_or(from);
            if at >= to {
                break None;
            }
            let mut upper = self.active.range(at, to).peekable();
            let mut lower = self.frozen.as_ref().map(|frozen| frozen.range(at, to).peekable());
            let mut beneath = base.first(at, to)?;
            loop {
                let lower_next = lower.as_mut().and_then(|lower| lower.peek().copied());
                let (key, entry) = match (upper.peek().copied(), lower_next) {
                    (Some(upper), Some(lower)) if lower.0 < upper.0 => lower,
                    (Some(upper), _) => upper,
                    (None, Some(lower)) => lower,
                    (None, None) => break 'seek beneath,
                };
                if beneath.as_ref().is_some_and(|(found, _)| found < key) {
                    break 'seek beneath;
                }
                if let Some(value) = &entry.value {
                    break 'seek Some((copy(key), Some(value.clone())));
                }
                walked = true;
                if skips.end_around(key).is_some() {
                    moved = Some(copy(key));
                    continue 'seek;
                }
                if beneath.as_ref().is_some_and(|(found, _)| found == key) {
                    beneath = base.first(&after(key), to)?;
                }
                upper.next_if(|(dead, _)| *dead == key);
                if let Some(lower) = &mut lower {
                    lower.next_if(|(dead, _)| *dead == key);
                }
            }
        };
        if walked {
            let end = met.as_ref().map_or(to, |(key, _)| key.as_slice());
            skips.learn(from, end);
        }
        Ok(met)
    }

    /// Bytes of temporary rows after these writes.
    pub(crate) fn temporary_bytes_after(&self, writes: &[RowWrite]) -> u64 {
        let added = |write: &RowWrite| match &write.op {
            RowOp::Add(value) if is_temporary(&write.key) => {
                (write.key.len() + value.len()) as u64 + TEMPORARY_ROW_BYTES
            }
            _ => 0,
        };
        writes.iter().map(added).fold(self.temporary_bytes, u64::saturating_add)
    }

    /// Planted: the list may still be dropped. .ci/canaries shows that a test finds it.
    #[cfg(canary_skip_dropped)]
    pub(crate) fn learn_from_unwritten(&self, writes: &[RowWrite]) {
        let removes = |write: &&RowWrite| matches!(write.op, RowOp::Remove);
        for RowWrite { key, .. } in writes.iter().filter(removes) {
            let tag = key.first().copied().unwrap_or_default();
            if let Some(skips) = self.skips.borrow_mut().of(tag) {
                skips.stretch(key, &after(key));
            }
        }
    }

    /// Moves the counts by a list, or back.
    pub(crate) fn count(&mut self, writes: &[RowWrite], forward: bool) {
        for RowWrite { key, op } in writes {
            let up = match op {
                RowOp::Add(_) => forward,
                RowOp::Remove => !forward,
                RowOp::Change(_) => continue,
            };
            if let Some(range) = Range::holding(key) {
                self.counts.step(range, up);
            }
        }
    }

    /// Takes over a row write that is counted already, and in the base if it goes there.
    pub(crate) fn absorb(&mut self, write: RowWrite) {
        if is_temporary(&write.key) {
            self.apply_temporary(write.key, write.op);
        } else {
            self.reflect(&write.key, &write.op);
        }
    }

    /// Carries out one row write that told the truth about what it found.
    #[inline]
    pub(crate) fn apply(&mut self, write: RowWrite) {
        let RowWrite { key, op } = write;
        self.count_step(&key, &op);
        if is_temporary(&key) {
            self.apply_temporary(key, op);
            return;
        }
        self.reflect(&key, &op);
        if self.skips.get_mut().of(tag_of(&key)).is_some_and(|skips| !skips.is_empty()) {
            self.move_skips(&key, &op);
        }
        self.active.apply(key, op);
    }

    /// Moves what is taken for dead along with a row write, before that is applied.
    fn move_skips(&mut self, key: &Key, op: &RowOp) {
        let Some(skips) = self.skips.get_mut().of(tag_of(key)) else { return };
        let lives = |from: &[u8], to: &[u8]| {
            let frozen = self.frozen.as_ref();
            self.active.range(from, to).next().is_some()
                || frozen.is_some_and(|it| it.range(from, to).next().is_some())
        };
        match op {
            RowOp::Add(_) => skips.cut(key, lives),
            RowOp::Change(_) => {}
            RowOp::Remove => skips.stretch(key, &after(key)),
        }
    }

    /// Carries out a row write of the journal.
    pub(crate) fn replay(&mut self, key: &[u8], value: Option<&[u8]>, adds: bool) {
        let key = Key::from_slice(key);
        let value = value.map(Value::from);
        let op = match (&value, adds) {
            (Some(value), true) => RowOp::Add(value.clone()),
            (Some(value), false) => RowOp::Change(value.clone()),
            (None, _) => RowOp::Remove,
        };
        self.count_step(&key, &op);
        self.reflect(&key, &op);
        self.active.apply_unsure(key, value);
    }

    #[inline]
    fn count_step(&mut self, key: &[u8], op: &RowOp) {
        let up = match op {
            RowOp::Add(_) => true,
            RowOp::Remove => false,
            RowOp::Change(_) => return,
        };
        if let Some(range) = Range::holding(key) {
            self.counts.step(range, up);
        }
    }

    #[inline]
    fn reflect(&mut self, key: &Key, op: &RowOp) {
        if is_mirrored(tag_of(key)) {
            self.reflect_mirrored(key, op);
        }
    }

    fn reflect_mirrored(&mut self, key: &Key, op: &RowOp) {
        match op {
            RowOp::Add(value) | RowOp::Change(value) => {
                self.mirror.insert(copy(key), Some(Value::alone(value)));
            }
            RowOp::Remove => {
                self.mirror.remove(key);
            }
        }
    }

    fn apply_temporary(&mut self, key: Key, op: RowOp) {
        let weight =
            |key: &Key, value: &Value| (key.len() + value.len()) as u64 + TEMPORARY_ROW_BYTES;
        let gone = match op {
            RowOp::Add(value) | RowOp::Change(value) => {
                self.temporary_bytes += weight(&key, &value);
                let before = self.temporary.insert(copy(&key), Value::alone(&value));
                before.map(|before| weight(&key, &before))
            }
            RowOp::Remove => self.temporary.remove(&key).map(|before| weight(&key, &before)),
        };
        self.temporary_bytes = self.temporary_bytes.saturating_sub(gone.unwrap_or(0));
    }

    /// The frozen layer is gone, and with it the dead marks that it held. Where the active one has
    /// some as well, the next look would walk over every row taken while the checkpoint ran.
    pub(crate) fn settle_skips(&mut self) {
        let Self { active, skips, .. } = self;
        skips.get_mut().keep(|from, to| active.range(from, to).next().is_some());
    }

    /// The active layer over the frozen one becomes one active layer again.
    pub(crate) fn thaw(&mut self) {
        let Some(frozen) = self.frozen.take() else { return };
        let mut lower = Arc::try_unwrap(frozen).unwrap_or_else(|shared| (*shared).clone());
        lower.cover_with(std::mem::take(&mut self.active));
        self.active = lower;
    }

    /// Every row of the temporary tubes, and of the mirror.
    pub(crate) fn beside(&self) -> impl Iterator<Item = &Key> {
        self.temporary.keys()
    }

    pub(crate) fn mirrored(&self) -> impl Iterator<Item = (&Key, Option<&Value>)> {
        self.mirror.iter().map(|(key, value)| (key, value.as_ref()))
    }

    /// Every stretch that is taken for dead.
    pub(crate) fn skipped(&self) -> Vec<(Key, Key)> {
        self.skips.borrow().all()
    }

    /// Runs that have a count.
    pub(crate) fn counted_runs(&self) -> Vec<Run> {
        self.counts.each().map(|(run, _)| run).collect()
    }
}
