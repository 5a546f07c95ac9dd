//! Row writes in key order, one for each key. A few stand in one sorted list, which is enough for
//! most ops. Many stand by tag, each tag in its own map: writes of one tag usually arrive in key
//! order. A later write of a key is folded into the earlier one.

use super::leaf_map::LeafMap;
use crate::format::key::{Key, Tag, after, copy};
use crate::format::{RowOp, Value};

/// Approximate bytes of memory of an entry without its key and value.
const ENTRY_BYTES: usize = 96;
/// Bytes of a row write in a journal record without its key: kind and length of the key.
const RECORD_ROW_BYTES: usize = 3;
/// Bytes of the length before a value in a journal record.
const RECORD_VALUE_BYTES: usize = 4;

/// Most writes that stand in the sorted list. An insertion into it moves the later ones.
const FEW: usize = 16;

/// The last write of each key. `Add`: a value, with no row below. `Change`: a value that replaces
/// one below. `Remove`: a tombstone over a value below.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Sorted by key; empty once `used` is not 0.
    few: Vec<(Key, RowOp)>,
    by_tag: [LeafMap<RowOp>; Tag::SPACE],
    /// A bit for each tag that may have entries in `by_tag`.
    used: u128,
    /// Sums of the entries in `by_tag`. Those of the sorted list are summed on request: the write
    /// set of an op is written far more often than it is measured.
    sums: Sums,
    /// Bytes of all entries that were ever inserted in `by_tag`.
    inserted: usize,
}

/// What is summed over entries.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    entries: usize,
    tombstones: usize,
    /// Bytes of all keys and values.
    bytes: usize,
}

impl Sums {
    /// Of one entry.
    #[inline]
    fn of(key: &Key, op: &RowOp) -> Self {
        let value = op.value();
        let bytes = key.len() + value.map_or(0, |value| value.len());
        Self { entries: 1, tombstones: usize::from(value.is_none()), bytes }
    }

    #[inline]
    fn add(&mut self, more: Self) {
        self.entries += more.entries;
        self.tombstones += more.tombstones;
        self.bytes += more.bytes;
    }

    #[inline]
    fn subtract(&mut self, less: Self) {
        self.entries -= less.entries;
        self.tombstones -= less.tombstones;
        self.bytes -= less.bytes;
    }

    /// Approximate bytes of memory.
    #[inline]
    fn memory(self) -> usize {
        self.bytes + self.entries * ENTRY_BYTES
    }
}

const _: () = assert!(Tag::SPACE <= u128::BITS as usize);

impl Default for Layer {
    fn default() -> Self {
        let by_tag = std::array::from_fn(|_| LeafMap::default());
        let few = Vec::new();
        Self { few, by_tag, used: 0, sums: Sums::default(), inserted: 0 }
    }
}

#[inline]
fn slot(key: &[u8]) -> usize {
    usize::from(key.first().copied().unwrap_or_default())
}

/// Folds two writes of one key, whose kinds are correct, into one. `None` if the row was added and
/// removed.
pub(crate) fn fold(earlier: &RowOp, later: RowOp) -> Option<RowOp> {
    match (earlier, later) {
        (RowOp::Add(_), RowOp::Remove) => None,
        (RowOp::Add(_), RowOp::Change(value)) => Some(RowOp::Add(value)),
        (RowOp::Remove, RowOp::Add(value)) => Some(RowOp::Change(value)),
        (earlier, later) => {
            debug_assert!(
                matches!((earlier, &later), (RowOp::Change(_), RowOp::Change(_) | RowOp::Remove)),
                "a row was written without being read first"
            );
            Some(later)
        }
    }
}

impl Layer {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.sums.entries == 0
    }

    /// The number of entries, with tombstones.
    #[inline]
    pub(crate) fn entries(&self) -> usize {
        self.few.len() + self.sums.entries
    }

    /// Whether there are only a few writes.
    #[inline]
    pub(crate) fn has_few(&self) -> bool {
        self.used == 0
    }

    #[inline]
    fn sums(&self) -> Sums {
        let mut sums = self.sums;
        self.few.iter().for_each(|(key, op)| sums.add(Sums::of(key, op)));
        sums
    }

    /// Whether at least half of the entries are tombstones.
    pub(crate) fn mostly_removes(&self) -> bool {
        let sums = self.sums();
        sums.tombstones * 2 >= sums.entries
    }

    /// Approximate bytes of memory of an entry.
    pub(crate) fn entry_bytes(key: &Key, value: &Value) -> usize {
        ENTRY_BYTES + key.len() + value.len()
    }

    /// Approximate bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.sums().memory()
    }

    /// Total bytes ever inserted, never reduced. It bounds the memory that the layer keeps: one
    /// value that stays keeps the whole piece that it shares with others.
    pub(crate) fn inserted_bytes(&self) -> usize {
        let few = self.few.iter().map(|(key, op)| Sums::of(key, op).memory());
        self.inserted + few.sum::<usize>()
    }

    /// Bytes that the entries would take as row writes of journal records, without the records'
    /// headers.
    #[inline]
    pub(crate) fn carry_bytes(&self) -> u64 {
        let Sums { entries, tombstones, bytes } = self.sums();
        let values = entries - tombstones;
        (bytes + entries * RECORD_ROW_BYTES + values * RECORD_VALUE_BYTES) as u64
    }

    /// Where a key is in the sorted list; as an error, where it would be inserted.
    #[inline]
    fn find_few(&self, key: &[u8]) -> Result<usize, usize> {
        // An op mostly writes rows of different tags, which one byte shows.
        let order = |row: &Key| row.first().cmp(&key.first()).then_with(|| row.as_slice().cmp(key));
        match self.few.last() {
            Some((last, _)) if order(last).is_ge() => {
                self.few.binary_search_by(|(row, _)| order(row))
            }
            _ => Err(self.few.len()),
        }
    }

    /// The sorted list from this key on.
    #[inline]
    fn few_from(&self, key: &[u8]) -> impl Iterator<Item = (&Key, &RowOp)> + use<'_> {
        let at = self.find_few(key).unwrap_or_else(|at| at);
        self.few.get(at..).unwrap_or_default().iter().map(|(key, op)| (key, op))
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&RowOp> {
        if self.used == 0 {
            let at = self.find_few(key).ok()?;
            return self.few.get(at).map(|(_, op)| op);
        }
        self.by_tag.get(slot(key))?.get(key)
    }

    /// Entries of one tag with `from <= key < to`, in order.
    pub(crate) fn range<'a>(
        &'a self,
        from: &[u8],
        to: &[u8],
    ) -> impl Iterator<Item = (&'a Key, &'a RowOp)> + use<'a> {
        let rows = self.by_tag.get(slot(from)).filter(|_| from < to).map(|rows| rows.from(from));
        let end = copy(to);
        let rows = self.few_from(from).chain(rows.into_iter().flatten());
        rows.take_while(move |(key, _)| **key < end)
    }

    /// The same, the last one first.
    pub(crate) fn range_back<'a>(
        &'a self,
        from: &[u8],
        to: &[u8],
    ) -> impl Iterator<Item = (&'a Key, &'a RowOp)> + use<'a> {
        let (start, end) = (copy(from), copy(to));
        let rows = self.by_tag.get(slot(from)).filter(|_| from < to);
        let rows = rows.map(|rows| rows.before_key(to)).into_iter().flatten();
        let few = self.few.iter().rev().map(|(key, op)| (key, op));
        let few = few.skip_while(move |(key, _)| **key >= end);
        few.chain(rows).take_while(move |(key, _)| **key >= start)
    }

    /// The first entry of one tag with `from <= key < to`.
    #[inline]
    pub(crate) fn first<'a>(&'a self, from: &[u8], to: &[u8]) -> Option<(&'a Key, &'a RowOp)> {
        if self.used == 0 {
            return self.few_from(from).next().filter(|(key, _)| key.as_slice() < to);
        }
        let rows = self.by_tag.get(slot(from))?;
        // Takes remove from one end, where no search is needed.
        let (key, op) = match rows.first()? {
            (key, op) if key.as_slice() >= from => (key, op),
            _ => rows.from(from).next()?,
        };
        (key.as_slice() < to).then_some((key, op))
    }

    /// All entries, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &RowOp)> {
        let few = self.few.iter().map(|(key, op)| (key, op));
        few.chain(tags(self.used).filter_map(|tag| self.by_tag.get(tag)).flat_map(LeafMap::iter))
    }

    /// Entries after a key, or all, in order.
    pub(crate) fn after<'a>(
        &'a self,
        last: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a RowOp)> + use<'a> {
        let first = last.map_or(0, |last| slot(last));
        let from = last.map_or_else(Key::new, |last| after(last));
        let maps = self.by_tag.get(first..).unwrap_or_default();
        self.few_from(&from).chain(maps.iter().flat_map(move |rows| rows.from(&from)))
    }

    /// Adds a write whose kind is correct (see [`RowOp`]), over an earlier one of the same key.
    #[inline]
    pub(crate) fn write(&mut self, row: (Key, RowOp)) {
        if self.used != 0 || self.few.len() >= FEW {
            return self.write_to_map(row, fold);
        }
        match self.find_few(&row.0) {
            // Most writes come in key order.
            Err(at) if at == self.few.len() => self.few.push(row),
            Err(at) => self.few.insert(at, row),
            Ok(at) => self.fold_few(at, row),
        }
    }

    /// A task that becomes ready and is taken in one op writes a row and removes it.
    #[cold]
    fn fold_few(&mut self, at: usize, (_, later): (Key, RowOp)) {
        let Some((_, earlier)) = self.few.get_mut(at) else { return };
        match fold(earlier, later) {
            Some(op) => *earlier = op,
            None => _ = self.few.remove(at),
        }
    }

    /// Adds a write whose kind may be wrong: the rows below may already contain later writes, from
    /// a checkpoint in slices whose last slice is missing.
    pub(crate) fn write_unsure(&mut self, key: Key, value: Option<Value>) {
        let op = value.map_or(RowOp::Remove, RowOp::Change);
        self.write_to_map((key, op), |_, later| Some(later));
    }

    /// Adds a write to the map of its tag, over an earlier one by `fold`. A layer that lives long
    /// gets its writes so from the first on: the list is slower for each of many.
    #[inline]
    pub(crate) fn write_to_map(
        &mut self,
        row: (Key, RowOp),
        fold: impl FnOnce(&RowOp, RowOp) -> Option<RowOp>,
    ) {
        if !self.few.is_empty() {
            self.spread();
        }
        let slot = slot(&row.0);
        let Some(rows) = self.by_tag.get_mut(slot) else { return };
        let written = Sums::of(&row.0, &row.1);
        self.inserted += written.memory();
        let at = match rows.find(&row.0) {
            Err(at) => {
                self.used |= 1 << slot;
                self.sums.add(written);
                return rows.insert(at, row);
            }
            Ok(at) => at,
        };
        let Some(kept) = rows.at_mut(at) else { return };
        let (key, op) = row;
        self.sums.subtract(Sums::of(&key, kept));
        match fold(kept, op) {
            Some(op) => {
                self.sums.add(Sums::of(&key, &op));
                *kept = op;
            }
            None => rows.remove(at),
        }
    }

    /// Moves the rows of whole tags from a layer of later writes, without a search for each row. It
    /// moves those of a tag with many rows, if all are added, come after all rows of the tag here,
    /// and `moves` agrees, which gets the first and the last key. A batch of puts writes such rows.
    pub(crate) fn append(&mut self, later: &mut Self, mut moves: impl FnMut(&Key, &Key) -> bool) {
        if later.used != 0 && !self.few.is_empty() {
            self.spread();
        }
        for tag in tags(later.used) {
            let (Some(to), Some(rows)) = (self.by_tag.get_mut(tag), later.by_tag.get_mut(tag))
            else {
                continue;
            };
            let Some(((first, _), (last, _))) = rows.first().zip(rows.last()) else { continue };
            let come_after = to.last().is_none_or(|(last, _)| last < first);
            let are_added = || rows.iter().all(|(_, op)| matches!(op, RowOp::Add(_)));
            if rows.has_many() && come_after && are_added() && moves(first, last) {
                for (key, op) in rows.iter() {
                    let moved = Sums::of(key, op);
                    self.sums.add(moved);
                    self.inserted += moved.memory();
                }
                self.used |= 1 << tag;
                to.append(rows);
            }
        }
    }

    /// Moves the sorted list to the maps by tag.
    #[cold]
    fn spread(&mut self) {
        let mut few = std::mem::take(&mut self.few);
        few.drain(..).for_each(|row| self.write_to_map(row, fold));
        self.few = few;
    }

    /// Applies another layer over this one. The kinds of all writes count as unsure: the checkpoint
    /// that failed may have written any part of them below.
    pub(crate) fn cover_with(&mut self, mut upper: Self) {
        self.spread();
        for op in self.by_tag.iter_mut().flat_map(LeafMap::values_mut) {
            if let RowOp::Add(value) = op {
                *op = RowOp::Change(value.clone());
            }
        }
        upper.drain_into(|(key, op)| self.write_unsure(key, op.into_value()));
    }

    /// Drops the entries whose rows below are already the same.
    pub(crate) fn keep(&mut self, mut keeps: impl FnMut(&Key, &RowOp) -> bool) {
        std::mem::take(self).drain_into(|(key, op)| {
            if keeps(&key, &op) {
                self.write_unsure(key, op.into_value());
            }
        });
    }

    /// Removes all entries, in order, and keeps a small part of the memory.
    #[inline]
    pub(crate) fn drain_into(&mut self, mut each: impl FnMut((Key, RowOp))) {
        if self.used == 0 {
            return self.few.drain(..).for_each(each);
        }
        for tag in tags(self.used) {
            if let Some(rows) = self.by_tag.get_mut(tag) {
                rows.drain_into(&mut each);
            }
        }
        (self.used, self.sums, self.inserted) = (0, Sums::default(), 0);
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        // Usually the caller that applied the writes has emptied the layer.
        if self.used != 0 || !self.few.is_empty() {
            self.drain_into(drop);
        }
    }
}

/// The tags of a bit set, in order.
#[inline]
fn tags(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let tag = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (tag < u128::BITS).then_some(tag as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Key {
        Key::from_slice(&[0x10, 0, 0, 0, 1, number])
    }

    fn value(number: u8) -> Value {
        Value::from([number])
    }

    fn add(layer: &mut Layer, number: u8) {
        layer.write((key(number), RowOp::Add(value(number))));
    }

    #[test]
    fn a_removal_leaves_a_tombstone_only_over_a_row_below() {
        let mut layer = Layer::default();
        add(&mut layer, 1);
        layer.write((key(1), RowOp::Remove));
        assert_eq!(layer.get(&key(1)), None, "added and removed here");
        layer.write((key(2), RowOp::Remove));
        assert_eq!(layer.get(&key(2)), Some(&RowOp::Remove));
        add(&mut layer, 2);
        assert_eq!(layer.get(&key(2)), Some(&RowOp::Change(value(2))));
        layer.write((key(2), RowOp::Remove));
        assert_eq!(layer.get(&key(2)), Some(&RowOp::Remove), "a later row over it was removed");
        layer.write((key(3), RowOp::Change(value(9))));
        layer.write((key(3), RowOp::Remove));
        assert_eq!(layer.get(&key(3)), Some(&RowOp::Remove));
        add(&mut layer, 4);
        layer.write((key(4), RowOp::Change(value(7))));
        assert_eq!(layer.get(&key(4)), Some(&RowOp::Add(value(7))));
        layer.write((key(4), RowOp::Remove));
        assert_eq!(layer.entries(), 2);
        assert_eq!(layer.bytes(), 2 * (ENTRY_BYTES + 6));
    }

    #[test]
    fn a_covered_layer_takes_every_write_as_unsure() {
        let mut lower = Layer::default();
        add(&mut lower, 1);
        add(&mut lower, 2);
        let mut upper = Layer::default();
        upper.write((key(1), RowOp::Remove));
        add(&mut upper, 3);
        lower.cover_with(upper);
        assert_eq!(lower.get(&key(1)), Some(&RowOp::Remove));
        assert_eq!(lower.get(&key(3)), Some(&RowOp::Change(value(3))));
        lower.write((key(2), RowOp::Remove));
        assert_eq!(lower.get(&key(2)), Some(&RowOp::Remove));
        lower.write_unsure(key(2), None);
        lower.write_unsure(key(1), Some(value(8)));
        assert_eq!(lower.get(&key(1)), Some(&RowOp::Change(value(8))));
        assert_eq!((lower.entries(), lower.get(&key(2))), (3, Some(&RowOp::Remove)));
    }

    #[test]
    fn rows_moved_as_a_whole_are_as_rows_moved_one_by_one() {
        let at = |tag, number: u16| {
            let [high, low] = number.to_be_bytes();
            Key::from_slice(&[tag, 0, 0, 0, 1, high, low])
        };
        let many = |tag, numbers: std::ops::Range<u16>| {
            numbers.map(move |number| (at(tag, number), RowOp::Add(value(7))))
        };
        let layer = |rows: &mut dyn Iterator<Item = (Key, RowOp)>| {
            let mut layer = Layer::default();
            rows.for_each(|row| layer.write(row));
            layer
        };
        let removed = std::iter::once((at(0x16, 5), RowOp::Remove));
        let below = layer(&mut many(0x10, 0..3).chain(many(0x12, 500..510)));
        // Of these only the first and the last tag move as a whole: of one there are few rows, one
        // begins before rows that are below, one removes.
        let (few, before) = (many(0x11, 0..9), many(0x12, 0..200));
        let removes = many(0x16, 6..200).chain(removed);
        let rows = many(0x10, 3..200).chain(few).chain(before).chain(removes);
        let later = layer(&mut rows.chain(many(0x1e, 0..200)));
        let (mut moved, mut left) = (below.clone(), later.clone());
        let mut tags = Vec::new();
        moved.append(&mut left, |first, last| {
            assert_eq!(first[0], last[0]);
            tags.push(first[0]);
            true
        });
        assert_eq!(tags, [0x10, 0x1e]);
        left.drain_into(|row| moved.write(row));
        let (mut singly, mut later) = (below, later);
        later.drain_into(|row| singly.write(row));
        assert!(moved.iter().eq(singly.iter()) && left.is_empty());
        let sizes = |layer: &Layer| (layer.entries(), layer.bytes(), layer.inserted_bytes());
        assert_eq!(sizes(&moved), sizes(&singly));
        assert_eq!(moved.carry_bytes(), singly.carry_bytes());
        assert_eq!(moved.get(&at(0x10, 150)), Some(&RowOp::Add(value(7))));
    }

    #[test]
    fn ranges_stay_in_their_tag_and_never_panic() {
        let mut layer = Layer::default();
        add(&mut layer, 1);
        layer.write((Key::from_slice(&[0x12, 0, 0, 0, 1]), RowOp::Remove));
        assert_eq!(layer.range(&[0x10], &[0x11]).count(), 1);
        assert_eq!(layer.range(&[0x10], &key(1)).count(), 0);
        assert_eq!(layer.range(&key(1), &[0x11]).count(), 1);
        assert_eq!(layer.range(&[0x12], &[0x13]).count(), 1);
        assert_eq!(layer.range(&[0x13], &[0x10]).count(), 0);
        assert_eq!(layer.range(&[0x10], &[0x10]).count(), 0);
        assert_eq!(layer.range(&[0xff], &[0xff; 8]).count(), 0);
        assert_eq!((layer.iter().count(), layer.after(None).count()), (2, 2));
        assert_eq!(layer.after(Some(&key(1))).count(), 1);
    }

    #[test]
    fn a_few_writes_answer_as_many_do() {
        let at = |tag, number| Key::from_slice(&[tag, 0, 0, 0, 1, number]);
        let keys = [at(0x10, 1), at(0x10, 3), at(0x10, 5), at(0x12, 1), at(0x1e, 2)];
        let mut few = Layer::default();
        for place in [3, 0, 4, 2, 1] {
            few.write((copy(&keys[place]), RowOp::Add(value(place as u8))));
        }
        let mut many = few.clone();
        many.spread();
        assert_eq!((few.few.len(), few.used, many.few.len()), (keys.len(), 0, 0));
        assert!(few.iter().eq(many.iter()) && few.after(None).eq(many.after(None)));
        let near = (0..7).flat_map(|number| [0x10, 0x11, 0x12, 0x1e].map(|tag| at(tag, number)));
        for from in near {
            assert_eq!(few.get(&from), many.get(&from));
            assert!(few.after(Some(&from)).eq(many.after(Some(&from))));
            for to in [at(from[0], 2), at(from[0], 5), Key::from_slice(&[from[0] + 1])] {
                assert_eq!(few.first(&from, &to), many.first(&from, &to));
                assert!(few.range(&from, &to).eq(many.range(&from, &to)));
            }
        }
        few.write((copy(&keys[1]), RowOp::Remove));
        many.write((copy(&keys[1]), RowOp::Remove));
        assert!(few.iter().eq(many.iter()) && few.entries() == 4 && few.bytes() == many.bytes());
        let mut drained = Vec::new();
        few.drain_into(|(key, _)| drained.push(key));
        add(&mut few, 7);
        assert_eq!((drained.len(), few.few.len(), few.entries()), (4, 1, 1));
    }

    #[test]
    fn a_row_written_and_removed_leaves_the_others_in_the_list() {
        let mut layer = Layer::default();
        let mut write = |number, op| layer.write((key(number), op));
        write(1, RowOp::Add(value(1)));
        write(2, RowOp::Remove);
        write(1, RowOp::Remove);
        write(2, RowOp::Add(value(2)));
        assert_eq!((layer.few.len(), layer.used, layer.get(&key(1))), (1, 0, None));
        assert_eq!(layer.get(&key(2)), Some(&RowOp::Change(value(2))));
        (3..40).for_each(|number| layer.write((key(number), RowOp::Remove)));
        assert_eq!((layer.few.len(), layer.entries()), (0, 38));
    }

    /// After any sequence of writes, the byte counts are those of the remaining entries.
    #[test]
    fn its_bytes_are_those_of_the_entries_that_are_left() {
        let mut state = 7_u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % most) as u8
        };
        let mut layer = Layer::default();
        let mut there: Vec<bool> = (0..40).map(|number| number % 2 == 0).collect();
        for step in 0..4000 {
            let number = below(40);
            let is_there = &mut there[usize::from(number)];
            let bytes = Value::from(vec![7; usize::from(below(200))].as_slice());
            let op = match (*is_there, below(2)) {
                (false, _) => RowOp::Add(bytes),
                (true, 0) => RowOp::Change(bytes),
                (true, _) => RowOp::Remove,
            };
            *is_there = !op.is_remove();
            let tag = [0x03, 0x10, 0x1b][usize::from(number) % 3];
            layer.write((Key::from_slice(&[tag, 0, 0, 0, 1, number]), op));
            if step % 100 == 99 {
                let carry = |(key, op): (&Key, &RowOp)| {
                    3 + key.len() as u64 + op.value().map_or(0, |value| 4 + value.len() as u64)
                };
                assert_eq!(layer.carry_bytes(), layer.iter().map(carry).sum::<u64>());
                assert_eq!(layer.entries(), layer.iter().count());
                let memory = layer.iter().map(|(key, op)| Sums::of(key, op).memory());
                assert_eq!(layer.bytes(), memory.sum::<usize>());
            }
        }
        let mut keys = Vec::new();
        layer.drain_into(|(key, _)| keys.push(key));
        assert!(keys.is_sorted() && keys.len() > 20);
        assert_eq!((layer.carry_bytes(), layer.bytes(), layer.iter().count()), (0, 0, 0));
    }
}
