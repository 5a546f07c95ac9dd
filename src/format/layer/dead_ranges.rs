//! Key ranges without a live row, so that no scan walks over the same tombstones twice. Scans add
//! them, and a row write inside a range cuts it.

use super::steps::step;
use crate::format::RowOp;
use crate::format::key::{ByTag, Key, after, copy};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Most ranges of a tag that are kept when a layer is dropped. Usually there is one for each end
/// that takes remove from. Where there are many, as with thousands of groups, each saves only a
/// short scan, and checking all of them would delay callers.
const KEPT: usize = 256;

/// Ranges without a live row, one set for each tag.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadRanges {
    by_tag: ByTag<DeadRangesOf>,
    /// Whether any set was requested since the last clearing.
    used: bool,
}

impl DeadRanges {
    #[inline]
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.used) {
            self.by_tag.0.iter_mut().for_each(|dead| dead.0.clear());
        }
    }

    /// All ranges.
    pub(crate) fn all(&self) -> Vec<(Key, Key)> {
        self.by_tag.0.iter().flat_map(|dead| dead.0.clone()).collect()
    }

    /// Keeps the ranges for which `worth` is true. Drops all ranges of a tag that has many.
    pub(crate) fn keep(&mut self, worth: impl Fn(&[u8], &[u8]) -> bool) {
        for dead in &mut self.by_tag.0 {
            if dead.0.len() > KEPT {
                dead.0.clear();
            }
            dead.0.retain(|start, end| worth(start, end));
        }
    }

    /// The ranges of the key's tag.
    #[inline]
    pub(crate) fn of(&mut self, key: &[u8]) -> Option<&mut DeadRangesOf> {
        self.used = true;
        self.by_tag.0.get_mut(usize::from(*key.first()?))
    }

    /// Updates the ranges for a row write, before that is applied. `has_rows` says whether layers
    /// have entries in a range; without entries the range saves no scan.
    #[inline]
    pub(crate) fn follow(
        &mut self,
        key: &Key,
        op: &RowOp,
        has_rows: impl Fn(&[u8], &[u8]) -> bool,
    ) {
        if !self.used {
            return;
        }
        let Some(dead) = self.of(key).filter(|dead| !dead.0.is_empty()) else { return };
        match op {
            RowOp::Add(_) => dead.cut(key, has_rows),
            RowOp::Change(_) => {}
            RowOp::Remove => dead.extend(key, &after(key)),
        }
    }
}

/// Start → end of ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadRangesOf(BTreeMap<Key, Key>);

impl DeadRangesOf {
    /// The last range that does not start after a key.
    fn last_to(&self, key: &[u8]) -> Option<(&Key, &Key)> {
        // Usually there is one, at the end that takes remove from.
        let last = self.0.last_key_value()?;
        if last.0.as_slice() <= key {
            return Some(last);
        }
        self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }

    /// The range that contains a key.
    fn around(&self, key: &[u8]) -> Option<(&Key, &Key)> {
        self.last_to(key).filter(|(_, end)| key < end.as_slice())
    }

    /// The end of the range that contains a key.
    #[inline]
    pub(crate) fn end_around(&self, key: &[u8]) -> Option<Key> {
        self.around(key).map(|(_, end)| copy(end))
    }

    /// Rows are added from this key on: every range ends before it.
    pub(crate) fn end_before(&mut self, key: &[u8]) {
        while let Some(mut last) = self.0.last_entry() {
            if last.key().as_slice() < key {
                if last.get().as_slice() > key {
                    *last.get_mut() = Key::from_slice(key);
                }
                return;
            }
            last.remove();
        }
    }

    /// Records that there is no live row with `from <= key < to`.
    pub(crate) fn insert(&mut self, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        let (mut start, mut end) = (Key::from_slice(from), Key::from_slice(to));
        if let Some((left, left_end)) = self.last_to(from)
            && left_end.as_slice() >= from
        {
            start = copy(left);
            if *left_end > end {
                end = copy(left_end);
            }
        }
        // Each range removed here was inserted once, so the cost is constant on average.
        loop {
            step();
            let inside = (Bound::Included(start.as_slice()), Bound::Included(end.as_slice()));
            let Some((next, next_end)) = self.0.range::<[u8], _>(inside).next() else { break };
            if *next_end > end {
                end = copy(next_end);
            }
            let next = copy(next);
            self.0.remove(&next);
        }
        self.0.insert(start, end);
    }

    /// Extends the range that ends at `end`, if there is one, to `to`: there is no live row between
    /// the two. Takes from one end extend it row by row, and no scan over tombstones is needed.
    pub(crate) fn extend(&mut self, end: &[u8], to: &[u8]) {
        // There is no range after the last that it could touch.
        if let Some(mut last) = self.0.last_entry()
            && last.key().as_slice() < end
        {
            if last.get().as_slice() == end {
                *last.get_mut() = Key::from_slice(to);
            }
            return;
        }
        let before = (Bound::Unbounded, Bound::Excluded(end));
        let Some((_, ends)) = self.0.range_mut::<[u8], _>(before).next_back() else { return };
        if ends.as_slice() != end {
            return;
        }
        *ends = Key::from_slice(to);
        let met = (Bound::Included(end), Bound::Included(to));
        if self.0.range::<[u8], _>(met).next().is_some() {
            self.insert(end, to);
        }
    }

    /// A row is added inside: the parts of the range are kept that still save a scan.
    pub(crate) fn cut(&mut self, key: &[u8], worth: impl Fn(&[u8], &[u8]) -> bool) {
        let Some((start, end)) = self.around(key) else { return };
        let (start, end) = (copy(start), copy(end));
        self.0.remove(&start);
        let next = after(key);
        if worth(&next, &end) {
            self.0.insert(next, end);
        }
        if worth(&start, key) {
            self.0.insert(start, Key::from_slice(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(dead: &DeadRangesOf) -> Vec<(u8, u8)> {
        dead.0.iter().map(|(from, to)| (from[0], to[0])).collect()
    }

    #[test]
    fn ranges_merge_and_are_cut() {
        let mut dead = DeadRangesOf::default();
        dead.insert(&[1], &[3]);
        dead.insert(&[5], &[7]);
        assert_eq!(pairs(&dead), [(1, 3), (5, 7)]);
        dead.insert(&[3], &[5]);
        assert_eq!(pairs(&dead), [(1, 7)]);
        dead.insert(&[2], &[4]);
        dead.insert(&[4], &[4]);
        assert_eq!(pairs(&dead), [(1, 7)]);
        assert_eq!(dead.end_around(&[6, 6]).as_deref(), Some([7].as_slice()));
        assert_eq!(dead.end_around(&[7]), None);
        dead.cut(&[4], |_, _| true);
        assert_eq!(dead.end_around(&[4]), None);
        assert_eq!(dead.end_around(&[4, 0]).as_deref(), Some([7].as_slice()));
        assert_eq!(dead.end_around(&[3, 9]).as_deref(), Some([4].as_slice()));
        dead.cut(&[2], |_, _| false);
        assert_eq!(dead.end_around(&[1]), None);
        assert_eq!(dead.end_around(&[3]), None);
    }

    #[test]
    fn ranges_go_on_from_their_end() {
        let mut dead = DeadRangesOf::default();
        dead.extend(&[1], &[2]);
        assert_eq!(pairs(&dead), []);
        dead.insert(&[1], &[3]);
        dead.insert(&[6], &[8]);
        dead.extend(&[2], &[4]);
        dead.extend(&[4], &[5]);
        assert_eq!(pairs(&dead), [(1, 3), (6, 8)], "no range ends there");
        dead.extend(&[3], &[5]);
        assert_eq!(pairs(&dead), [(1, 5), (6, 8)]);
        dead.extend(&[5], &[7]);
        assert_eq!(pairs(&dead), [(1, 8)], "it merges with the range that it touches");
    }

    #[test]
    fn ranges_end_before_rows_added_after_them() {
        let mut dead = DeadRangesOf::default();
        dead.insert(&[1], &[3]);
        dead.insert(&[5], &[7]);
        dead.insert(&[8], &[9]);
        dead.end_before(&[9]);
        assert_eq!(pairs(&dead), [(1, 3), (5, 7), (8, 9)]);
        dead.end_before(&[6]);
        assert_eq!(pairs(&dead), [(1, 3), (5, 6)]);
        dead.end_before(&[5]);
        assert_eq!(pairs(&dead), [(1, 3)]);
        dead.end_before(&[1]);
        assert_eq!(pairs(&dead), []);
    }

    #[test]
    fn ranges_without_use_are_dropped_with_the_layer() {
        let mut dead = DeadRanges::default();
        let of = |dead: &mut DeadRanges| pairs(dead.of(&[1]).unwrap());
        dead.of(&[1]).unwrap().insert(&[1], &[3]);
        dead.of(&[1]).unwrap().insert(&[5], &[7]);
        dead.keep(|from, _| from == [5]);
        assert_eq!(of(&mut dead), [(5, 7)]);
        (0..=KEPT as u16).for_each(|at| {
            dead.of(&[2])
                .unwrap()
                .insert(&[&at.to_be_bytes()[..], &[1]].concat(), &(at + 1).to_be_bytes());
        });
        dead.keep(|_, _| true);
        assert_eq!(
            (of(&mut dead), dead.all().len()),
            (vec![(5, 7)], 1),
            "many ranges of a tag are dropped at once"
        );
    }
}
