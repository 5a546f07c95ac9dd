//! An ordered map by key, in leaves of at most 64 rows. It is fast for keys appended at the end,
//! looked up in order and removed from the front: these need no search, and allocate nothing once
//! the leaves exist. Other accesses take two binary searches. Inserting a leaf between others moves
//! the list of leaves, so the map must not hold millions of rows. Measured against `BTreeMap`: a
//! third of the time for a batch in order, 0.77 to 0.86 of it for rows inserted and removed one by
//! one.

use super::steps::step;
use crate::format::key::{Key, copy};
use crate::words::sync::Ordering::Relaxed;
use crate::words::sync::plain::AtomicUsize;
use std::cmp::Ordering;
use std::collections::VecDeque;

/// Most rows of a leaf: few enough to be moved for one that is inserted between them.
const LEAF_ROWS: usize = 64;
/// Rows that a full leaf keeps when a row is inserted after them. The others move to a new leaf: an
/// empty new leaf would be made and dropped each time a row is added and removed there.
const KEPT_ROWS: usize = LEAF_ROWS / 4 * 3;

/// An ordered map by key.
#[derive(Clone, Debug)]
pub(crate) struct LeafMap<T> {
    /// No leaf is empty, unless it is the only one.
    leaves: VecDeque<Leaf<T>>,
    /// The memory of the leaf that was dropped last.
    spare: VecDeque<(Key, T)>,
    hint: Hint,
}

#[derive(Clone, Debug)]
struct Leaf<T> {
    /// A lower bound of the leaf's keys. All keys of earlier leaves are smaller.
    low: Key,
    rows: VecDeque<(Key, T)>,
}

impl<T> Leaf<T> {
    #[inline]
    fn insert(&mut self, at: usize, row: (Key, T)) {
        if at == 0 && row.0 < self.low {
            self.low = copy(&row.0);
        }
        if at == self.rows.len() {
            self.rows.push_back(row);
        } else {
            self.rows.insert(at, row);
        }
    }
}

/// Where a row is, or where it is to be inserted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    leaf: usize,
    row: usize,
}

/// A key to which others are compared by their first 16 bytes as one number, then by their last 16.
struct Sought<'a> {
    key: &'a [u8],
    head: Option<u128>,
    tail: Option<u128>,
}

/// The first 16 bytes as a number, with zeros for what is missing; `None` of less than 8 bytes. Of
/// two keys with different heads the one with the lesser head is the lesser key.
#[inline]
fn head(key: &[u8]) -> Option<u128> {
    if let Some(head) = key.first_chunk() {
        return Some(u128::from_be_bytes(*head));
    }
    let first = u64::from_be_bytes(*key.first_chunk()?);
    let last = u64::from_be_bytes(*key.last_chunk()?);
    // The two overlap.
    let missing = 8 * (16 - key.len());
    Some(u128::from(first) << 64 | u128::from(last) << missing & u128::from(u64::MAX))
}

/// The last 16 bytes as a number, if they and the first 16 are the whole key.
#[inline]
fn tail(key: &[u8]) -> Option<u128> {
    let tail = key.last_chunk().filter(|_| key.len() <= 32)?;
    Some(u128::from_be_bytes(*tail))
}

impl<'a> Sought<'a> {
    fn new(key: &'a [u8]) -> Self {
        Self { key, head: head(key), tail: tail(key) }
    }

    /// How the other key compares with this one.
    #[inline]
    fn order(&self, other: &Key) -> Ordering {
        match (head(other), self.head) {
            (Some(head), Some(own)) if head != own => head.cmp(&own),
            _ => match (tail(other), self.tail) {
                (Some(tail), Some(own)) if other.len() == self.key.len() => tail.cmp(&own),
                _ => other.as_slice().cmp(self.key),
            },
        }
    }
}

/// Where the last search ended: the next key is usually there or beside it. It may be stale.
/// Atomic, because a frozen layer is shared between threads.
#[derive(Debug, Default)]
struct Hint(AtomicUsize);

impl Hint {
    fn get(&self) -> Position {
        let at = self.0.load(Relaxed);
        Position { leaf: at / LEAF_ROWS, row: at % LEAF_ROWS }
    }

    fn set(&self, at: Position) {
        self.0.store(at.leaf * LEAF_ROWS + at.row, Relaxed);
    }
}

impl Clone for Hint {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<T> Default for LeafMap<T> {
    fn default() -> Self {
        Self { leaves: VecDeque::new(), spare: VecDeque::new(), hint: Hint::default() }
    }
}

impl<T> LeafMap<T> {
    /// `Ok`: where the key is. `Err`: where it is to be inserted.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Result<Position, Position> {
        let Some(Leaf { rows, .. }) = self.leaves.back() else {
            return Err(Position { leaf: 0, row: 0 });
        };
        let behind = Position { leaf: self.leaves.len() - 1, row: rows.len() };
        match rows.back().map(|(last, _)| last.as_slice().cmp(key)) {
            Some(Ordering::Greater) => self.search(key),
            Some(Ordering::Equal) => Ok(Position { row: behind.row - 1, ..behind }),
            _ => Err(behind),
        }
    }

    #[inline(never)]
    fn search(&self, key: &[u8]) -> Result<Position, Position> {
        let found = self.search_near(key).unwrap_or_else(|| self.search_all(key));
        let (Ok(at) | Err(at)) = found;
        self.hint.set(at);
        found
    }

    /// Compares the key with the rows where the last search ended. `None` if it is neither one of
    /// them nor beside one.
    fn search_near(&self, key: &[u8]) -> Option<Result<Position, Position>> {
        let near = self.hint.get();
        let Leaf { low, rows } = self.leaves.get(near.leaf)?;
        let at = |row| Position { row, ..near };
        let order = |row: usize| rows.get(row).map(|(row, _)| row.as_slice().cmp(key));
        // Tombstones grow at the end of a leaf between others, row by row.
        let is_before_next_leaf =
            || self.leaves.get(near.leaf + 1).is_none_or(|next| next.low.as_slice() > key);
        match (order(near.row), near.row.checked_sub(1)) {
            (Some(Ordering::Equal), _) => Some(Ok(near)),
            (Some(Ordering::Less), _) => match order(near.row + 1) {
                Some(Ordering::Greater) => Some(Err(at(near.row + 1))),
                Some(Ordering::Equal) => Some(Ok(at(near.row + 1))),
                Some(Ordering::Less) => None,
                None => is_before_next_leaf().then_some(Err(at(near.row + 1))),
            },
            (Some(Ordering::Greater), None) => (low.as_slice() <= key).then_some(Err(near)),
            (None, None) => None,
            (greater_or_end, Some(before)) => match order(before)? {
                Ordering::Less if greater_or_end.is_some() => Some(Err(near)),
                Ordering::Less => is_before_next_leaf().then_some(Err(near)),
                Ordering::Equal => Some(Ok(at(before))),
                Ordering::Greater => None,
            },
        }
    }

    fn search_all(&self, key: &[u8]) -> Result<Position, Position> {
        step();
        let to = Sought::new(key);
        let behind = self.leaves.partition_point(|leaf| to.order(&leaf.low).is_le());
        let leaf = behind.saturating_sub(1);
        let Some(Leaf { rows, .. }) = self.leaves.get(leaf) else {
            return Err(Position { leaf, row: 0 });
        };
        let at = |row| Position { leaf, row };
        rows.binary_search_by(|(row, _)| to.order(row)).map(at).map_err(at)
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&T> {
        let at = self.find(key).ok()?;
        self.at(at).map(|(_, value)| value)
    }

    #[inline]
    pub(crate) fn at(&self, at: Position) -> Option<(&Key, &T)> {
        let (key, value) = self.leaves.get(at.leaf)?.rows.get(at.row)?;
        Some((key, value))
    }

    /// The row at a position, or the first one after it, with its position.
    pub(crate) fn at_or_next(&self, at: Position) -> Option<(Position, &Key, &T)> {
        let next = Position { leaf: at.leaf + 1, row: 0 };
        let found = [at, next].into_iter().find_map(|at| Some((at, self.at(at)?)));
        found.map(|(at, (key, value))| (at, key, value))
    }

    /// The position before this one.
    #[inline]
    pub(crate) fn before(&self, at: Position) -> Option<Position> {
        if let Some(row) = at.row.checked_sub(1) {
            return Some(Position { row, ..at });
        }
        let leaf = at.leaf.checked_sub(1)?;
        let row = self.leaves.get(leaf)?.rows.len().checked_sub(1)?;
        Some(Position { leaf, row })
    }

    /// The position of the last row.
    #[inline]
    pub(crate) fn last_position(&self) -> Option<Position> {
        self.before(Position { leaf: self.leaves.len(), row: 0 })
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, at: Position) -> Option<&mut T> {
        let (_, value) = self.leaves.get_mut(at.leaf)?.rows.get_mut(at.row)?;
        Some(value)
    }

    /// Replaces the key at a position by a later one, which is still before the next row's.
    pub(crate) fn advance(&mut self, at: Position, to: Key) {
        if let Some(Leaf { low, rows }) = self.leaves.get_mut(at.leaf + 1)
            && *low <= to
            && let Some((first, _)) = rows.front()
        {
            // It was the bound of rows that are gone.
            *low = copy(first);
        }
        if let Some((key, _)) = self.leaves.get_mut(at.leaf).and_then(|it| it.rows.get_mut(at.row))
        {
            debug_assert!(*key <= to, "a key went back");
            *key = to;
        }
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<(&Key, &T)> {
        self.at(Position { leaf: 0, row: 0 })
    }

    /// All rows.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.leaves.iter().flat_map(|leaf| &leaf.rows).map(|(key, value)| (key, value))
    }

    /// Rows from this key on.
    pub(crate) fn from<'a>(
        &'a self,
        key: &[u8],
    ) -> impl Iterator<Item = (&'a Key, &'a T)> + use<'a, T> {
        let Position { leaf, row } = self.find(key).unwrap_or_else(|at| at);
        let mut skipped = row;
        let leaves = self.leaves.range(leaf..);
        let rows = leaves.flat_map(move |leaf| leaf.rows.range(std::mem::take(&mut skipped)..));
        rows.map(|(key, value)| (key, value))
    }

    /// Rows before this key, the last one first.
    pub(crate) fn before_key<'a>(
        &'a self,
        key: &[u8],
    ) -> impl Iterator<Item = (&'a Key, &'a T)> + use<'a, T> {
        let (Ok(end) | Err(end)) = self.find(key);
        let at = std::iter::successors(self.before(end), |at| self.before(*at));
        at.map_while(|at| self.at(at))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.leaves.iter_mut().flat_map(|leaf| &mut leaf.rows).map(|(_, value)| value)
    }

    /// Removes all rows, in order, and keeps the memory of one leaf.
    #[inline]
    pub(crate) fn drain_into(&mut self, mut each: impl FnMut((Key, T))) {
        for leaf in &mut self.leaves {
            leaf.rows.drain(..).for_each(&mut each);
        }
        if self.leaves.len() > 1 {
            self.leaves.truncate(1);
            self.leaves.shrink_to(LEAF_ROWS);
        }
    }

    /// Whether there are more rows than fit in a leaf.
    pub(crate) fn has_many(&self) -> bool {
        self.leaves.len() > 1
    }

    #[inline]
    pub(crate) fn last(&self) -> Option<(&Key, &T)> {
        let (key, value) = self.leaves.back()?.rows.back()?;
        Some((key, value))
    }

    /// Moves all rows of another map, whose keys are greater than all here, with their leaves.
    pub(crate) fn append(&mut self, later: &mut Self) {
        debug_assert!(self.last().zip(later.first()).is_none_or(|(last, first)| last.0 < first.0));
        if self.last().is_none() {
            self.leaves.clear();
        }
        if let Some(Leaf { low, rows }) = later.leaves.front_mut()
            && let Some((first, _)) = rows.front()
        {
            // It may be the bound of rows that were drained.
            *low = copy(first);
            self.leaves.append(&mut later.leaves);
        }
    }

    /// Inserts a row at a position that `find` returned as `Err`.
    #[inline]
    pub(crate) fn insert(&mut self, at: Position, row: (Key, T)) {
        match self.leaves.get_mut(at.leaf) {
            Some(leaf) if leaf.rows.len() < LEAF_ROWS => leaf.insert(at.row, row),
            _ => self.insert_in_full(at, row),
        }
    }

    #[cold]
    fn insert_in_full(&mut self, at: Position, row: (Key, T)) {
        let at = self.make_room(at, &row.0);
        if let Some(leaf) = self.leaves.get_mut(at.leaf) {
            leaf.insert(at.row, row);
        }
    }

    /// Splits a full leaf. Returns the position where the row is then to be inserted.
    fn make_room(&mut self, at: Position, key: &Key) -> Position {
        let mut rows = std::mem::take(&mut self.spare);
        // The first leaf grows with its rows, because an op writes few rows of each tag.
        if !self.leaves.is_empty() {
            rows.reserve(LEAF_ROWS);
        }
        let next = Position { leaf: at.leaf + 1, row: 0 };
        let is_last = next.leaf >= self.leaves.len();
        match self.leaves.get_mut(at.leaf) {
            Some(full) if !is_last || at.row < full.rows.len() => {
                let kept = if at.row < full.rows.len() { LEAF_ROWS / 2 } else { KEPT_ROWS };
                rows.extend(full.rows.drain(kept..));
                let low = rows.front().map_or_else(|| copy(key), |(first, _)| copy(first));
                self.leaves.insert(next.leaf, Leaf { low, rows });
                // A position before the first moved row is the position after the last row that
                // stays.
                if at.row <= kept { at } else { Position { row: at.row - kept, ..next } }
            }
            _ => {
                self.leaves.push_back(Leaf { low: copy(key), rows });
                Position { leaf: self.leaves.len() - 1, row: 0 }
            }
        }
    }

    /// Removes the row at this position.
    #[inline]
    pub(crate) fn remove(&mut self, at: Position) {
        let Some(leaf) = self.leaves.get_mut(at.leaf) else { return };
        if at.row == 0 {
            leaf.rows.pop_front();
        } else {
            leaf.rows.remove(at.row);
        }
        if leaf.rows.is_empty() && self.leaves.len() > 1 {
            self.spare = self.leaves.remove(at.leaf).map_or_else(VecDeque::new, |leaf| leaf.rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn key(number: u16) -> Key {
        copy(&number.to_be_bytes())
    }

    /// Checks the invariants of the leaves, and that they hold the same rows as the model.
    fn check(map: &LeafMap<u64>, model: &BTreeMap<Key, u64>) {
        assert!(map.from(&[]).eq(model));
        assert_eq!(map.first(), model.first_key_value());
        for (at, leaf) in map.leaves.iter().enumerate() {
            assert!(leaf.rows.len() <= LEAF_ROWS);
            assert!(!leaf.rows.is_empty() || map.leaves.len() == 1);
            assert!(leaf.rows.front().is_none_or(|(first, _)| leaf.low <= *first));
            let before = at.checked_sub(1).and_then(|before| map.leaves[before].rows.back());
            assert!(before.is_none_or(|(last, _)| *last < leaf.low));
        }
    }

    fn put(map: &mut LeafMap<u64>, model: &mut BTreeMap<Key, u64>, key: Key, value: u64) {
        match map.find(&key) {
            Ok(at) => *map.at_mut(at).unwrap() = value,
            Err(at) => map.insert(at, (copy(&key), value)),
        }
        model.insert(key, value);
    }

    fn remove(map: &mut LeafMap<u64>, model: &mut BTreeMap<Key, u64>, key: &Key) {
        let found = map.find(key);
        assert_eq!(found.is_ok(), model.remove(key).is_some());
        found.into_iter().for_each(|at| map.remove(at));
    }

    /// Inserts rows in order, in reverse order, in ranges between others and at random positions,
    /// and removes them from the front, the end and at random. After each step the map equals a
    /// `BTreeMap`.
    #[test]
    fn it_equals_a_btree_map_after_each_step() {
        let mut random = 1_u64;
        let mut below = |most: u16| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as u16 % most
        };
        for round in 0..24 {
            let (mut map, mut model) = (LeafMap::default(), BTreeMap::new());
            for step in 0..600 {
                let (from, rows) = (below(8) * 4000, 1 + below(40));
                for number in 0..rows {
                    let number = match (round + step / 200) % 4 {
                        0 => 4 * step + number,
                        1 => 40_000 - 40 * step - number,
                        2 => from + 4 * step + number,
                        _ => below(3000),
                    };
                    put(&mut map, &mut model, key(number), u64::from(step));
                }
                for _ in 0..below(rows + 8) {
                    let gone = match (round + step / 150) % 3 {
                        0 => model.first_key_value().map(|(key, _)| copy(key)),
                        1 => model.last_key_value().map(|(key, _)| copy(key)),
                        _ => model.range(key(below(40_000))..).next().map(|(key, _)| copy(key)),
                    };
                    remove(&mut map, &mut model, &gone.unwrap_or_else(|| key(7)));
                }
                let sought = key(below(40_000));
                let next = model.range(copy(&sought)..).next().map(|(key, _)| copy(key));
                if let (Some(next), Err(at)) = (next, map.find(&sought))
                    && let Some(before) = map.before(at)
                {
                    let (moved, value) = map.at(before).unwrap();
                    model.remove(moved);
                    model.insert(copy(&sought), *value);
                    map.advance(before, copy(&sought));
                    assert_eq!(map.at_or_next(at).unwrap().1, &next);
                }
                let last = map.last_position().and_then(|last| map.at(last));
                assert_eq!((last, map.last()), (model.last_key_value(), last));
                assert_eq!(map.get(&sought), model.get(&sought));
                assert!(map.from(&sought).take(200).eq(model.range(sought..).take(200)));
                if step % 20 == 0 {
                    check(&map, &model);
                }
            }
            map.values_mut().for_each(|value| *value += 1);
            model.values_mut().for_each(|value| *value += 1);
            check(&map, &model);
            let mut rows = Vec::new();
            map.drain_into(|row| rows.push(row));
            assert!(rows.into_iter().eq(model));
            assert_eq!((map.first(), map.leaves.len().min(1)), (None, map.leaves.len()));
        }
    }

    /// Keys of every length around those of the head and the tail, which differ in one byte, in
    /// their length, or in zeros at the end.
    #[test]
    fn a_key_is_compared_as_its_bytes_are() {
        let mut keys = Vec::new();
        for length in 0..36 {
            keys.push(vec![0; length]);
            for at in 0..length {
                for byte in [1, 0x80] {
                    let mut key = vec![0; length];
                    key[at] = byte;
                    keys.push(key);
                }
            }
        }
        for key in &keys {
            let sought = Sought::new(key);
            assert!(keys.iter().all(|other| sought.order(&copy(other)) == other.cmp(key)));
        }
    }

    #[test]
    fn rows_inserted_in_order_fill_their_leaves() {
        let leaves = |keys: &mut dyn Iterator<Item = u16>| {
            let (mut map, mut model) = (LeafMap::default(), BTreeMap::new());
            keys.for_each(|number| put(&mut map, &mut model, key(number), 0));
            check(&map, &model);
            map.leaves.len()
        };
        let full = 6400 / LEAF_ROWS;
        assert_eq!(leaves(&mut (0..6400)), full);
        let in_two = &mut (0..6400).map(|number| number % 2 * 10_000 + number / 2);
        assert!(leaves(in_two) <= full * 7 / 6 + 2);
        assert!(leaves(&mut (0..6400).rev()) <= 2 * full + 1);
        // Each row is inserted just after a full leaf.
        let back = (100..6500).rev();
        let behind_full = &mut (0..LEAF_ROWS as u16).chain([60_000]).chain(back);
        assert!(leaves(behind_full) <= 2 * full + 3);
    }

    /// Regression: at the end of a leaf between others, where tombstones grow as tasks are taken,
    /// every look-up and every insertion searched the whole map.
    #[test]
    fn rows_appended_to_a_leaf_between_others_need_few_searches() {
        let (mut map, mut model) = (LeafMap::default(), BTreeMap::new());
        (0..200).for_each(|number| put(&mut map, &mut model, key(60_000 + number), 0));
        let searches = crate::format::layer::steps::during(|| {
            for number in 0..2000 {
                assert_eq!(map.get(&key(number)), None);
                put(&mut map, &mut model, key(number), 0);
            }
        });
        assert!(searches <= 2000 / 8, "{searches}");
        check(&map, &model);
    }

    /// The second map may have kept a leaf, whose bound is less than keys of the first map.
    #[test]
    fn a_map_appended_keeps_the_invariants() {
        for here in [0, 1, LEAF_ROWS as u16, 200] {
            let (mut map, mut model) = (LeafMap::default(), BTreeMap::new());
            let mut later = LeafMap::default();
            (0..here).for_each(|number| put(&mut map, &mut model, key(number), 1));
            for round in 1..4 {
                put(&mut later, &mut BTreeMap::new(), key(0), 0);
                later.drain_into(drop);
                for number in 0..100 {
                    put(&mut later, &mut model, key(round * 1000 + number), 2);
                }
                map.append(&mut later);
                check(&map, &model);
                assert_eq!((later.first(), later.last()), (None, None));
            }
            map.append(&mut later);
            let middle = key(1001);
            remove(&mut map, &mut model, &middle);
            put(&mut map, &mut model, middle, 3);
            check(&map, &model);
        }
    }

    /// Regression: a row inserted and removed between two full leaves made and dropped a leaf each
    /// time.
    #[test]
    fn a_row_added_and_removed_makes_no_leaf_each_time() {
        let (mut map, mut model) = (LeafMap::default(), BTreeMap::new());
        let many = LEAF_ROWS as u16 * 4;
        (0..many).for_each(|number| put(&mut map, &mut model, key(4 * number), 0));
        let between = key(LEAF_ROWS as u16 * 4 - 1);
        put(&mut map, &mut model, copy(&between), 0);
        let leaves = map.leaves.len();
        for _ in 0..10 {
            remove(&mut map, &mut model, &between);
            assert_eq!(map.leaves.len(), leaves);
            put(&mut map, &mut model, copy(&between), 0);
            assert_eq!(map.leaves.len(), leaves);
        }
        check(&map, &model);
    }

    /// A window that moves on allocates nothing after it has reached its full length.
    #[test]
    fn rows_appended_and_removed_in_front_reuse_leaves() {
        let (mut map, mut model) = (LeafMap::default(), BTreeMap::new());
        for number in 0..20_000 {
            let (leaves, spare) = (map.leaves.len(), map.spare.capacity());
            put(&mut map, &mut model, key(number), 0);
            let grew = map.leaves.len() > leaves;
            assert!(!grew || number < 200 || spare >= LEAF_ROWS, "{number}");
            if let Some(gone) = number.checked_sub(100) {
                remove(&mut map, &mut model, &key(gone));
            }
            assert!(map.leaves.len() <= 3, "{number}");
        }
        check(&map, &model);
    }
}
