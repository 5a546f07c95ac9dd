//! Rows written since the last checkpoint, in memory: one layer of them, and the counts of all
//! rows. No I/O, and no knowledge of what lies beneath but one bit an entry.

use super::sorted::Sorted;
use super::tables::Tally;
use crate::bytes::key::{ByTag, Key, Range, Run, Scope, Tag, after, copy};
use crate::bytes::{RowOp, Value};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What a layer says about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// `None` is a dead mark: the row is gone, whatever lies beneath.
    pub(crate) value: Option<Value>,
    /// Whether the layers beneath show the key, or may.
    pub(crate) beneath: bool,
}

/// Bytes that an entry takes beside its key and value, roughly.
const ENTRY_BYTES: usize = 96;

/// What was written, in order, each tag by itself: what comes there mostly comes in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    by_tag: ByTag<Sorted<Entry>>,
    bytes: usize,
    rows: usize,
    came: usize,
}

#[inline]
fn slot(key: &[u8]) -> usize {
    usize::from(key.first().copied().unwrap_or_default()) % Tag::SPACE
}

#[inline]
fn weight(key: &[u8], value: Option<&Value>) -> usize {
    ENTRY_BYTES + key.len() + value.map_or(0, |value| value.len())
}

impl Layer {
    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.by_tag.0.get(slot(key))?.get(key)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of all that ever came, which bound the memory that the layer keeps: a value that
    /// stays keeps that of its neighbours.
    pub(crate) fn came(&self) -> usize {
        self.came
    }

    /// Entries of one tag with `from <= key < to`, dead marks among them, in order.
    pub(crate) fn range<'a>(
        &'a self,
        from: &[u8],
        to: &[u8],
    ) -> impl Iterator<Item = (&'a Key, &'a Entry)> + use<'a> {
        let rows = self.by_tag.0.get(slot(from)).filter(|_| from < to).map(|rows| rows.from(from));
        let end = copy(to);
        rows.into_iter().flatten().take_while(move |(key, _)| **key < end)
    }

    /// The first of them.
    #[inline]
    pub(crate) fn first<'a>(&'a self, from: &[u8], to: &[u8]) -> Option<(&'a Key, &'a Entry)> {
        let rows = self.by_tag.0.get(slot(from))?;
        // Takes go from one end, where no search is needed.
        let (key, entry) = match rows.first()? {
            (key, entry) if key.as_slice() >= from => (key, entry),
            _ => rows.from(from).next()?,
        };
        (key.as_slice() < to).then_some((key, entry))
    }

    /// Entries behind a key, or all, in order.
    pub(crate) fn behind<'a>(
        &'a self,
        last: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Entry)> + use<'a> {
        let first = last.map_or(0, |last| slot(last));
        let from = last.map_or_else(Key::new, |last| after(last));
        let maps = self.by_tag.0.get(first..).unwrap_or_default();
        maps.iter().flat_map(move |rows| rows.from(&from))
    }

    /// Carries out one row write that told the truth about what it found.
    #[inline]
    pub(crate) fn apply(&mut self, key: Key, op: RowOp) {
        let Some(rows) = self.by_tag.0.get_mut(slot(&key)) else { return };
        let (value, beneath) = match op {
            RowOp::Add(value) => (Some(value), false),
            RowOp::Change(value) => (Some(value), true),
            RowOp::Remove => (None, true),
        };
        let added = weight(&key, value.as_ref());
        self.came += added;
        let at = match rows.find(&key) {
            Ok(at) => at,
            Err(at) => {
                self.bytes += added;
                self.rows += 1;
                return rows.insert(at, key, Entry { value, beneath });
            }
        };
        let Some(entry) = rows.at_mut(at) else { return };
        self.bytes -= weight(&key, entry.value.as_ref());
        if value.is_some() || entry.beneath {
            self.bytes += added;
            entry.value = value;
        } else {
            // The row was made and unmade here: nothing beneath needs hiding.
            self.rows -= 1;
            rows.remove(at);
        }
    }

    /// Carries out a row write without believing it: what lies beneath may already hold later
    /// rows, written by a checkpoint in slices whose last slice is missing.
    pub(crate) fn apply_unsure(&mut self, key: Key, value: Option<Value>) {
        let Some(rows) = self.by_tag.0.get_mut(slot(&key)) else { return };
        let added = weight(&key, value.as_ref());
        self.bytes += added;
        self.came += added;
        let entry = Entry { value, beneath: true };
        match rows.find(&key) {
            Ok(at) => {
                let Some(before) = rows.at_mut(at) else { return };
                self.bytes -= weight(&key, before.value.as_ref());
                *before = entry;
            }
            Err(at) => {
                self.rows += 1;
                rows.insert(at, key, entry);
            }
        }
    }

    /// Lays another layer over this one. Nothing is known any more of what lies beneath: the
    /// checkpoint that failed may have written any part of it.
    pub(crate) fn cover_with(&mut self, upper: Self) {
        for (key, entry) in upper.by_tag.0.into_iter().flat_map(Sorted::into_rows) {
            self.apply_unsure(key, entry.value);
        }
        for entry in self.by_tag.0.iter_mut().flat_map(Sorted::values_mut) {
            entry.beneath = true;
        }
    }
}

/// Mixes the few bytes of a run; the std hasher costs more than the map.
#[derive(Default)]
pub(crate) struct RunHasher(u64);

impl Hasher for RunHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}

/// How many living rows there are, by run and tag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    by_run: Vec<Counted>,
    /// Where in `by_run` a run stands.
    places: HashMap<Run, usize, BuildHasherDefault<RunHasher>>,
    /// Where the run stands that was counted last: verbs mostly go on in one tube.
    last: usize,
    by_tag: ByTag<u64>,
    /// Runs whose counts have moved since the last freeze.
    moved: Vec<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    run: Run,
    tally: Tally,
    moved: bool,
}

/// Under which run the rows of a range are counted, if they are.
#[inline]
fn tallied(range: Range) -> Option<(Run, usize)> {
    Some((range.run.unwrap_or(Run::QUEUE), range.tag.tallied()?))
}

impl Counts {
    #[inline]
    pub(crate) fn of(&self, range: Range) -> u64 {
        let count = match (range.run, range.tag.tallied()) {
            (Some(run), Some(place)) => {
                self.find(run).and_then(|at| self.by_run.get(at)?.tally.get(place))
            }
            _ => self.by_tag.0.get(range.tag as usize),
        };
        count.copied().unwrap_or(0)
    }

    #[inline]
    fn find(&self, run: Run) -> Option<usize> {
        match self.by_run.get(self.last) {
            Some(last) if last.run == run => Some(self.last),
            _ => self.places.get(&run).copied(),
        }
    }

    #[inline]
    fn counted_or_new(&mut self, run: Run) -> Option<&mut Counted> {
        self.last = match self.find(run) {
            Some(at) => at,
            None => self.insert(run, Tally::default()),
        };
        self.by_run.get_mut(self.last)
    }

    /// Where it stands.
    fn insert(&mut self, run: Run, tally: Tally) -> usize {
        let at = self.by_run.len();
        self.places.insert(run, at);
        self.by_run.push(Counted { run, tally, moved: false });
        at
    }

    fn remove(&mut self, run: Run) {
        let Some(at) = self.places.remove(&run) else { return };
        self.by_run.swap_remove(at);
        if let Some(counted) = self.by_run.get(at) {
            self.places.insert(counted.run, at);
        }
    }

    pub(crate) fn set(&mut self, run: Run, tally: Tally) {
        for tag in Tag::ALL {
            let count = tag.tallied().and_then(|place| tally.get(place));
            if let (Some(total), Some(count)) = (self.by_tag.0.get_mut(tag as usize), count) {
                *total = total.saturating_add(*count);
            }
        }
        self.insert(run, tally);
    }

    /// Sets the counts of the mirrored tags to what is met.
    pub(crate) fn recount(&mut self, met: impl Iterator<Item = Range>) {
        for tag in Tag::ALL.into_iter().filter(|tag| tag.scope() == Scope::Mirrored) {
            if let Some(total) = self.by_tag.0.get_mut(tag as usize) {
                *total = 0;
            }
        }
        for range in met {
            if let Some(total) = self.by_tag.0.get_mut(range.tag as usize) {
                *total += 1;
            }
        }
    }

    #[inline]
    pub(crate) fn step(&mut self, range: Range, up: bool) {
        let turn = |count: &mut u64| {
            *count = if up { count.saturating_add(1) } else { count.saturating_sub(1) };
        };
        if let Some(total) = self.by_tag.0.get_mut(range.tag as usize) {
            turn(total);
        }
        let Some((run, place)) = tallied(range) else { return };
        let Some(counted) = self.counted_or_new(run) else { return };
        if let Some(count) = counted.tally.get_mut(place) {
            turn(count);
        }
        if run.is_temporary() {
            // A run that is empty is not kept for ever: runs are never used again.
            if counted.tally == Tally::default() {
                self.remove(run);
            }
        } else if !counted.moved {
            counted.moved = true;
            self.moved.push(run);
        }
    }

    /// The counts of the runs that have moved, which are now taken for written.
    pub(crate) fn freeze(&mut self) -> Vec<(Run, Tally)> {
        let moved = std::mem::take(&mut self.moved);
        let mut frozen = Vec::with_capacity(moved.len());
        for run in moved {
            let at = self.find(run);
            let Some(counted) = at.and_then(|at| self.by_run.get_mut(at)) else { continue };
            counted.moved = false;
            let tally = counted.tally;
            frozen.push((run, tally));
            if tally == Tally::default() {
                self.remove(run);
            }
        }
        frozen
    }

    /// Takes these runs for unwritten again, after a checkpoint that failed.
    pub(crate) fn thaw(&mut self, frozen: Vec<Run>) {
        for run in frozen {
            let Some(counted) = self.counted_or_new(run) else { continue };
            if !counted.moved {
                counted.moved = true;
                self.moved.push(run);
            }
        }
    }

    /// Every run with rows, and its counts.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Run, Tally)> {
        self.by_run.iter().map(|counted| (counted.run, counted.tally))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Key {
        Key::from_slice(&[0x10, 0, 0, 0, 1, number])
    }

    fn add(layer: &mut Layer, number: u8) {
        layer.apply(key(number), RowOp::Add(Value::from([number])));
    }

    #[test]
    fn a_removal_marks_only_what_lies_beneath() {
        let mut layer = Layer::default();
        add(&mut layer, 1);
        layer.apply(key(1), RowOp::Remove);
        assert_eq!(layer.get(&key(1)), None, "made and unmade here");
        layer.apply(key(2), RowOp::Remove);
        let dead = Entry { value: None, beneath: true };
        assert_eq!(layer.get(&key(2)), Some(&dead));
        add(&mut layer, 2);
        layer.apply(key(2), RowOp::Remove);
        assert_eq!(layer.get(&key(2)), Some(&dead), "the mark survives a row made over it");
        layer.apply(key(3), RowOp::Change(Value::from([9])));
        layer.apply(key(3), RowOp::Remove);
        assert_eq!(layer.get(&key(3)), Some(&dead));
        assert_eq!(layer.rows(), 2);
        assert_eq!(layer.bytes(), 2 * (ENTRY_BYTES + 6));
    }

    #[test]
    fn a_covered_layer_believes_nothing() {
        let mut lower = Layer::default();
        add(&mut lower, 1);
        add(&mut lower, 2);
        let mut upper = Layer::default();
        upper.apply(key(1), RowOp::Remove);
        lower.cover_with(upper);
        assert_eq!(lower.get(&key(1)), Some(&Entry { value: None, beneath: true }));
        lower.apply(key(2), RowOp::Remove);
        assert_eq!(lower.get(&key(2)), Some(&Entry { value: None, beneath: true }));
    }

    #[test]
    fn ranges_stay_in_their_tag_and_never_panic() {
        let mut layer = Layer::default();
        add(&mut layer, 1);
        layer.apply(Key::from_slice(&[0x12, 0, 0, 0, 1]), RowOp::Remove);
        assert_eq!(layer.range(&[0x10], &[0x11]).count(), 1);
        assert_eq!(layer.range(&[0x10], &key(1)).count(), 0);
        assert_eq!(layer.range(&key(1), &[0x11]).count(), 1);
        assert_eq!(layer.range(&[0x12], &[0x13]).count(), 1);
        assert_eq!(layer.range(&[0x13], &[0x10]).count(), 0);
        assert_eq!(layer.range(&[0x10], &[0x10]).count(), 0);
        assert_eq!(layer.range(&[0xff], &[0xff; 8]).count(), 0);
        assert_eq!(layer.behind(None).count(), 2);
        assert_eq!(layer.behind(Some(&key(1))).count(), 1);
    }

    #[test]
    fn counts_move_and_empty_runs_go() {
        let mut counts = Counts::default();
        let range = Range::in_run(Tag::Ready, Run(7));
        counts.step(range, true);
        assert_eq!((counts.of(range), counts.of(Range::of(Tag::Ready))), (1, 1));
        assert_eq!(counts.freeze().len(), 1);
        assert_eq!(counts.freeze().len(), 0);
        counts.step(range, false);
        assert_eq!(counts.freeze(), [(Run(7), Tally::default())]);
        assert_eq!(counts.each().count(), 0);
    }

    #[test]
    fn a_run_keeps_its_counts_when_another_goes() {
        let mut counts = Counts::default();
        let range = |run| Range::in_run(Tag::Ready, Run(Run::TEMPORARY | run));
        for run in [1, 2, 3, 3] {
            counts.step(range(run), true);
        }
        counts.step(range(1), false);
        assert_eq!([1, 2, 3].map(|run| counts.of(range(run))), [0, 1, 2]);
        counts.step(range(3), false);
        counts.step(range(2), false);
        assert_eq!([1, 2, 3].map(|run| counts.of(range(run))), [0, 0, 1]);
        assert_eq!(counts.each().count(), 1);
        assert_eq!(counts.of(Range::of(Tag::Ready)), 1);
    }
}
