//! Key ranges without a live row, so that no scan walks over the same tombstones twice. Scans add
//! them, and a row write inside a range cuts it.

use super::leaf_map::{LeafMap, Position};
use super::steps::step;
use crate::format::RowOp;
use crate::format::key::{ByTag, Key, after, copy};

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
            let sets = self.by_tag.0.iter_mut().filter(|dead| dead.0.last().is_some());
            sets.for_each(|dead| dead.0.drain_into(drop));
        }
    }

    /// All ranges.
    pub(crate) fn all(&self) -> Vec<(Key, Key)> {
        let ranges = self.by_tag.0.iter().flat_map(|dead| dead.0.iter());
        ranges.map(|(start, end)| (copy(start), copy(end))).collect()
    }

    /// Keeps the ranges for which `worth` is true. Drops all ranges of a tag that has many.
    pub(crate) fn keep(&mut self, worth: impl Fn(&[u8], &[u8]) -> bool) {
        for dead in &mut self.by_tag.0 {
            let mut ranges = Vec::new();
            dead.0.drain_into(|range| ranges.push(range));
            if ranges.len() > KEPT {
                continue;
            }
            for (start, end) in ranges.into_iter().filter(|(start, end)| worth(start, end)) {
                dead.insert(&start, &end);
            }
        }
    }

    /// The ranges of the key's tag.
    #[inline]
    pub(crate) fn of(&mut self, key: &[u8]) -> Option<&mut DeadRangesOf> {
        self.used = true;
        self.by_tag.0.get_mut(usize::from(*key.first()?))
    }

    /// Updates the ranges for a row write, before that is applied. `first` is the first key of the
    /// layers' entries in a range; without entries the range saves no scan.
    #[inline]
    pub(crate) fn follow(
        &mut self,
        key: &Key,
        op: &RowOp,
        first: impl Fn(&[u8], &[u8]) -> Option<Key>,
    ) {
        if !self.used {
            return;
        }
        let Some(dead) = key.first().and_then(|tag| self.by_tag.0.get_mut(usize::from(*tag)))
        else {
            return;
        };
        if dead.0.last().is_none() {
            return;
        }
        match op {
            RowOp::Add(_) => dead.cut(key, first),
            RowOp::Change(_) => {}
            RowOp::Remove => dead.extend(key, &after(key)),
        }
    }
}

/// Start → end of ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeadRangesOf(LeafMap<Key>);

impl DeadRangesOf {
    /// The last range that does not start after a key.
    fn last_to(&self, key: &[u8]) -> Option<Position> {
        self.0.find(key).map_or_else(|at| self.0.before(at), Some)
    }

    /// The range that contains a key.
    fn around(&self, key: &[u8]) -> Option<Position> {
        let at = self.last_to(key)?;
        self.0.at(at).is_some_and(|(_, end)| key < end.as_slice()).then_some(at)
    }

    /// The end of the range that contains a key.
    #[inline]
    pub(crate) fn end_around(&self, key: &[u8]) -> Option<Key> {
        self.0.last()?;
        self.around(key).and_then(|at| self.0.at(at)).map(|(_, end)| copy(end))
    }

    /// Rows are added from this key on: every range ends before it.
    pub(crate) fn end_before(&mut self, key: &[u8]) {
        while let Some(at) = self.0.last_position() {
            if self.0.at(at).is_some_and(|(start, _)| start.as_slice() < key) {
                if let Some(end) = self.0.at_mut(at).filter(|end| end.as_slice() > key) {
                    *end = Key::from_slice(key);
                }
                return;
            }
            self.0.remove(at);
        }
    }

    /// Records that there is no live row with `from <= key < to`.
    pub(crate) fn insert(&mut self, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        let (mut start, mut end) = (Key::from_slice(from), Key::from_slice(to));
        if let Some((left, left_end)) = self.last_to(from).and_then(|at| self.0.at(at))
            && left_end.as_slice() >= from
        {
            start = copy(left);
            if *left_end > end {
                end = copy(left_end);
            }
        }
        // Each range removed here was inserted once, so the cost is constant on average.
        let at = loop {
            step();
            let at = self.0.find(&start).unwrap_or_else(|at| at);
            match self.0.at_or_next(at) {
                Some((at, next, next_end)) if *next <= end => {
                    if *next_end > end {
                        end = copy(next_end);
                    }
                    self.0.remove(at);
                }
                _ => break at,
            }
        };
        self.0.insert(at, (start, end));
    }

    /// Extends the range that ends at `end`, if there is one, to `to`: there is no live row between
    /// the two. Takes from one end extend it row by row, and no scan over tombstones is needed.
    pub(crate) fn extend(&mut self, end: &[u8], to: &[u8]) {
        let Some((last, _)) = self.0.last() else { return };
        // There is no range after the last that it could touch.
        let is_last = last.as_slice() < end;
        let at = if is_last {
            self.0.last_position()
        } else {
            let (Ok(at) | Err(at)) = self.0.find(end);
            self.0.before(at)
        };
        let Some(ends) = at.and_then(|at| self.0.at_mut(at)) else { return };
        if ends.as_slice() != end {
            return;
        }
        *ends = Key::from_slice(to);
        if !is_last && self.0.from(end).next().is_some_and(|(next, _)| next.as_slice() <= to) {
            self.insert(end, to);
        }
    }

    /// A row is added inside: the parts of the range are kept that still save a scan.
    pub(crate) fn cut(&mut self, key: &[u8], first: impl Fn(&[u8], &[u8]) -> Option<Key>) {
        let Some(at) = self.around(key) else { return };
        let Some((start, end)) = self.0.at(at) else { return };
        let next = after(key);
        let (has_left, has_right) = match first(start, end) {
            None => (false, false),
            // Usually one search is enough.
            Some(first) if first.as_slice() > key => (false, true),
            Some(met) => (met.as_slice() < key, first(&next, end).is_some()),
        };
        if !has_left {
            // Rows that are added in order move its start.
            return if has_right { self.0.advance(at, next) } else { self.0.remove(at) };
        }
        let left = |end: &mut Key| std::mem::replace(end, Key::from_slice(key));
        let right = self.0.at_mut(at).map(left).filter(|_| has_right);
        if let Some(end) = right
            && let Err(at) = self.0.find(&next)
        {
            self.0.insert(at, (next, end));
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
        dead.cut(&[4], |from, _| Some(Key::from_slice(from)));
        assert_eq!(dead.end_around(&[4]), None);
        assert_eq!(dead.end_around(&[4, 0]).as_deref(), Some([7].as_slice()));
        assert_eq!(dead.end_around(&[3, 9]).as_deref(), Some([4].as_slice()));
        dead.cut(&[2], |_, _| None);
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

    /// The key of a place: at an even one a key of two bytes, at the next one the key after it.
    fn at(place: usize) -> Key {
        let key = Key::from_slice(&(place as u16 / 2).to_be_bytes());
        if place.is_multiple_of(2) { key } else { after(&key) }
    }

    /// The ranges of dead places.
    fn runs(dead: &[bool]) -> Vec<(Key, Key)> {
        let is_dead = |place: usize| dead.get(place).copied().unwrap_or_default();
        let starts = (0..dead.len()).filter(|it| is_dead(*it) && (*it == 0 || !is_dead(it - 1)));
        let end = |start: usize| (start..).find(|it| !is_dead(*it)).unwrap();
        starts.map(|start| (at(start), at(end(start)))).collect()
    }

    /// So many ranges that their map has many leaves.
    #[test]
    fn many_ranges_are_what_a_list_of_dead_keys_says() {
        const KEYS: usize = 6000;
        let mut random = 1_u64;
        let mut below = |most: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % most
        };
        let (mut dead, mut model) = (DeadRangesOf::default(), vec![false; 2 * KEYS]);
        for step in 0..20_000 {
            let key = 2 * below(KEYS);
            let to = (key + 1 + below(12)).min(model.len());
            match below(if step % 2000 == 1999 { 40 } else { 39 }) {
                0..12 => {
                    dead.insert(&at(key), &at(to));
                    model[key..to].fill(true);
                }
                12..24 => {
                    dead.extend(&at(key), &at(to));
                    if key > 0 && model[key - 1] && !model[key] {
                        model[key..to].fill(true);
                    }
                }
                24..39 => {
                    let [left, right] = [below(4) > 0, below(4) > 0];
                    let entries = [(left && key > 0, key.saturating_sub(1)), (right, key + 1)];
                    let entries = entries.into_iter().filter(|it| it.0).map(|it| at(it.1));
                    let entries: Vec<_> = entries.collect();
                    dead.cut(&at(key), |from, to| {
                        entries
                            .iter()
                            .find(|it| from <= it.as_slice() && it.as_slice() < to)
                            .cloned()
                    });
                    if model[key] {
                        let start = (0..key).rev().find(|it| !model[*it]).map_or(0, |it| it + 1);
                        let end = (key..).find(|it| !model.get(*it).copied().unwrap_or_default());
                        model[start..key].fill(left && start < key);
                        model[key..end.unwrap()].fill(right);
                        model[key] = false;
                    }
                }
                _ => {
                    dead.end_before(&at(key));
                    model[key..].fill(false);
                }
            }
            assert_eq!(dead.end_around(&at(key)).is_some(), model[key]);
            if step % 100 == 0 {
                let ranges: Vec<_> =
                    dead.0.iter().map(|(from, to)| (copy(from), copy(to))).collect();
                assert_eq!(ranges, runs(&model), "step {step}");
            }
        }
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
