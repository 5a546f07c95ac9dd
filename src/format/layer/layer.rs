//! Row writes in key order, one a key, each tag by itself: what is written under a tag mostly comes
//! in order. A later write of a key is folded into the earlier one.

use super::leaf_map::LeafMap;
use crate::format::key::{Key, Tag, after, copy};
use crate::format::{RowOp, Value};

/// Bytes of memory that an entry takes beside its key and value, roughly.
const ENTRY_BYTES: usize = 96;
/// Bytes of a row write in a journal record beside its key: kind and length of the key.
const RECORD_ROW_BYTES: usize = 3;
/// Bytes of the length before a value in a journal record.
const RECORD_VALUE_BYTES: usize = 4;

/// What was written. `Add`: a value, and nothing lies beneath. `Change`: a value over another.
/// `Remove`: a tombstone over a value.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    by_tag: [LeafMap<RowOp>; Tag::SPACE],
    /// A bit for each tag that may have entries.
    used: u128,
    entries: usize,
    tombstones: usize,
    /// Bytes of all keys and values.
    bytes: usize,
    inserted: usize,
}

const _: () = assert!(Tag::SPACE <= u128::BITS as usize);

impl Default for Layer {
    fn default() -> Self {
        let by_tag = std::array::from_fn(|_| LeafMap::default());
        Self { by_tag, used: 0, entries: 0, tombstones: 0, bytes: 0, inserted: 0 }
    }
}

#[inline]
fn slot(key: &[u8]) -> usize {
    usize::from(key.first().copied().unwrap_or_default())
}

fn bytes(key: &Key, op: &RowOp) -> usize {
    key.len() + op.value().map_or(0, |value| value.len())
}

/// Two writes of one key as one. `None` if the row was made and removed.
fn fold(earlier: &RowOp, later: RowOp) -> Option<RowOp> {
    match (earlier, later) {
        (RowOp::Add(_), RowOp::Remove) => None,
        (RowOp::Add(_), RowOp::Change(value)) => Some(RowOp::Add(value)),
        (RowOp::Remove, RowOp::Add(value)) => Some(RowOp::Change(value)),
        (earlier, later) => {
            debug_assert!(
                matches!((earlier, &later), (RowOp::Change(_), RowOp::Change(_) | RowOp::Remove)),
                "a row was written without having been read"
            );
            Some(later)
        }
    }
}

impl Layer {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many entries there are, tombstones among them.
    pub(crate) fn entries(&self) -> usize {
        self.entries
    }

    /// How many of the entries are tombstones.
    pub(crate) fn tombstones(&self) -> usize {
        self.tombstones
    }

    /// Bytes of memory that an entry takes, roughly.
    pub(crate) fn entry_bytes(key: &Key, value: &Value) -> usize {
        ENTRY_BYTES + key.len() + value.len()
    }

    /// Bytes of memory, roughly.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.entries * ENTRY_BYTES
    }

    /// Bytes of memory of all that was ever written, which bound what the layer keeps: a value that
    /// stays keeps the memory that it shares with others.
    pub(crate) fn inserted_bytes(&self) -> usize {
        self.inserted
    }

    /// Bytes that the entries would take as row writes of journal records, without the records'
    /// headers.
    #[inline]
    pub(crate) fn carry_bytes(&self) -> u64 {
        let values = self.entries - self.tombstones;
        (self.bytes + self.entries * RECORD_ROW_BYTES + values * RECORD_VALUE_BYTES) as u64
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&RowOp> {
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
        rows.into_iter().flatten().take_while(move |(key, _)| **key < end)
    }

    /// The first of them.
    #[inline]
    pub(crate) fn first<'a>(&'a self, from: &[u8], to: &[u8]) -> Option<(&'a Key, &'a RowOp)> {
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
        Tags(self.used).filter_map(|tag| self.by_tag.get(tag)).flat_map(LeafMap::iter)
    }

    /// Entries after a key, or all, in order.
    pub(crate) fn after<'a>(
        &'a self,
        last: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a RowOp)> + use<'a> {
        let first = last.map_or(0, |last| slot(last));
        let from = last.map_or_else(Key::new, |last| after(last));
        let maps = self.by_tag.get(first..).unwrap_or_default();
        maps.iter().flat_map(move |rows| rows.from(&from))
    }

    /// Adds a write that told the truth about what it found, over an earlier one of the same key.
    #[inline]
    pub(crate) fn write(&mut self, key: Key, op: RowOp) {
        self.lay(key, op, fold);
    }

    /// Adds a write without believing it: what lies beneath may already hold later rows, written by
    /// a checkpoint in slices whose last slice is missing.
    pub(crate) fn write_unsure(&mut self, key: Key, value: Option<Value>) {
        let op = value.map_or(RowOp::Remove, RowOp::Change);
        self.lay(key, op, |_, later| Some(later));
    }

    #[inline]
    fn lay(&mut self, key: Key, op: RowOp, fold: impl Fn(&RowOp, RowOp) -> Option<RowOp>) {
        let slot = slot(&key);
        let Some(rows) = self.by_tag.get_mut(slot) else { return };
        self.inserted += ENTRY_BYTES + bytes(&key, &op);
        match rows.find(&key) {
            Err(at) => {
                self.used |= 1 << slot;
                self.entries += 1;
                self.tombstones += usize::from(op.is_remove());
                self.bytes += bytes(&key, &op);
                rows.insert(at, key, op);
            }
            Ok(at) => {
                let Some(kept) = rows.at_mut(at) else { return };
                self.tombstones -= usize::from(kept.is_remove());
                self.bytes -= bytes(&key, kept);
                if let Some(op) = fold(kept, op) {
                    self.tombstones += usize::from(op.is_remove());
                    self.bytes += bytes(&key, &op);
                    *kept = op;
                } else {
                    self.entries -= 1;
                    rows.remove(at);
                }
            }
        }
    }

    /// Lays another layer over this one. Nothing is known any more of what lies beneath: the
    /// checkpoint that failed may have written any part of it.
    pub(crate) fn cover_with(&mut self, mut upper: Self) {
        for op in self.by_tag.iter_mut().flat_map(LeafMap::values_mut) {
            if let RowOp::Add(value) = op {
                *op = RowOp::Change(value.clone());
            }
        }
        upper.drain_into(|key, op| self.write_unsure(key, op.into_value()));
    }

    /// Drops entries that lie beneath as they are.
    pub(crate) fn keep(&mut self, mut keeps: impl FnMut(&Key, &RowOp) -> bool) {
        std::mem::take(self).drain_into(|key, op| {
            if keeps(&key, &op) {
                self.write_unsure(key, op.into_value());
            }
        });
    }

    /// Removes all entries, in order, and keeps a little of the memory.
    #[inline]
    pub(crate) fn drain_into(&mut self, mut each: impl FnMut(Key, RowOp)) {
        for tag in Tags(self.used) {
            if let Some(rows) = self.by_tag.get_mut(tag) {
                rows.drain_into(&mut each);
            }
        }
        (self.used, self.entries, self.tombstones) = (0, 0, 0);
        (self.bytes, self.inserted) = (0, 0);
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.drain_into(|_, _| {});
    }
}

/// The tags of a bit set, in order.
struct Tags(u128);

impl Iterator for Tags {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let tag = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (tag < u128::BITS).then_some(tag as usize)
    }
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
        layer.write(key(number), RowOp::Add(value(number)));
    }

    #[test]
    fn a_removal_leaves_a_tombstone_only_over_what_lies_beneath() {
        let mut layer = Layer::default();
        add(&mut layer, 1);
        layer.write(key(1), RowOp::Remove);
        assert_eq!(layer.get(&key(1)), None, "made and removed here");
        layer.write(key(2), RowOp::Remove);
        assert_eq!(layer.get(&key(2)), Some(&RowOp::Remove));
        add(&mut layer, 2);
        assert_eq!(layer.get(&key(2)), Some(&RowOp::Change(value(2))));
        layer.write(key(2), RowOp::Remove);
        assert_eq!(layer.get(&key(2)), Some(&RowOp::Remove), "it outlives a row made over it");
        layer.write(key(3), RowOp::Change(value(9)));
        layer.write(key(3), RowOp::Remove);
        assert_eq!(layer.get(&key(3)), Some(&RowOp::Remove));
        add(&mut layer, 4);
        layer.write(key(4), RowOp::Change(value(7)));
        assert_eq!(layer.get(&key(4)), Some(&RowOp::Add(value(7))));
        layer.write(key(4), RowOp::Remove);
        assert_eq!(layer.entries(), 2);
        assert_eq!(layer.bytes(), 2 * (ENTRY_BYTES + 6));
    }

    #[test]
    fn a_covered_layer_believes_nothing() {
        let mut lower = Layer::default();
        add(&mut lower, 1);
        add(&mut lower, 2);
        let mut upper = Layer::default();
        upper.write(key(1), RowOp::Remove);
        add(&mut upper, 3);
        lower.cover_with(upper);
        assert_eq!(lower.get(&key(1)), Some(&RowOp::Remove));
        assert_eq!(lower.get(&key(3)), Some(&RowOp::Change(value(3))));
        lower.write(key(2), RowOp::Remove);
        assert_eq!(lower.get(&key(2)), Some(&RowOp::Remove));
        lower.write_unsure(key(2), None);
        lower.write_unsure(key(1), Some(value(8)));
        assert_eq!(lower.get(&key(1)), Some(&RowOp::Change(value(8))));
        assert_eq!((lower.entries(), lower.get(&key(2))), (3, Some(&RowOp::Remove)));
    }

    #[test]
    fn ranges_stay_in_their_tag_and_never_panic() {
        let mut layer = Layer::default();
        add(&mut layer, 1);
        layer.write(Key::from_slice(&[0x12, 0, 0, 0, 1]), RowOp::Remove);
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

    /// Whatever is written over whatever, the counts are those of the entries that are there.
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
            layer.write(Key::from_slice(&[tag, 0, 0, 0, 1, number]), op);
            if step % 100 == 99 {
                let carry = |(key, op): (&Key, &RowOp)| {
                    3 + key.len() as u64 + op.value().map_or(0, |value| 4 + value.len() as u64)
                };
                assert_eq!(layer.carry_bytes(), layer.iter().map(carry).sum::<u64>());
                assert_eq!(layer.entries(), layer.iter().count());
                let memory = layer.iter().map(|(key, op)| ENTRY_BYTES + super::bytes(key, op));
                assert_eq!(layer.bytes(), memory.sum::<usize>());
            }
        }
        let mut keys = Vec::new();
        layer.drain_into(|key, _| keys.push(key));
        assert!(keys.is_sorted() && keys.len() > 20);
        assert_eq!((layer.carry_bytes(), layer.bytes(), layer.iter().count()), (0, 0, 0));
    }
}
