//! The numbers of live rows, by tube incarnation and tag. Updated with every write, so that no scan
//! is needed to count.

use super::tables::{NO_ROWS, Tally};
use crate::format::NumberHash;
use crate::format::key::{ByTag, Range, Run, Tag, TagScope};
use std::collections::HashMap;

/// Bytes that the entry of a run takes in a carried record, and each of its counts.
const ENTRY_BYTES: u64 = 11;
const COUNT_BYTES: u64 = 9;

/// The numbers of live rows, by run and tag.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowCounts {
    by_run: Vec<RunCounts>,
    /// The index of each run in `by_run`. Half of the bytes of a `usize`: among 100 000 tubes these
    /// places and the counts themselves are most of what a verb has to load.
    places: HashMap<Run, u32, NumberHash>,
    /// The index of the run that was counted last: consecutive verbs usually use one tube.
    last: usize,
    by_tag: ByTag<u64>,
    /// Runs whose counts have changed since the last freeze.
    moved: Unwritten,
    /// Runs whose counts the running checkpoint writes.
    frozen: Unwritten,
}

/// Runs whose counts the base does not have.
#[derive(Clone, Debug, Default)]
struct Unwritten {
    runs: Vec<Run>,
    /// How many of their counts are not zero.
    counts: u64,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)] // The fields that every step reads come first.
struct RunCounts {
    run: Run,
    moved: bool,
    /// How many of the counts are not zero: only those are written.
    in_use: u8,
    tally: Tally,
}

/// The run under which the rows of a range are counted, if they are counted.
#[inline]
fn tallied(range: Range) -> Option<(Run, usize)> {
    Some((range.run.unwrap_or(Run::QUEUE), range.tag.tallied()?))
}

impl RowCounts {
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

    /// The sum of the counts of a run under these tags, which are counted by run.
    #[inline]
    pub(crate) fn of_tags(&self, run: Run, tags: &[Tag]) -> u64 {
        let Some(counted) = self.find(run).and_then(|at| self.by_run.get(at)) else { return 0 };
        let count = |tag: &Tag| counted.tally.get(tag.tallied()?).copied();
        tags.iter().filter_map(count).sum()
    }

    #[inline]
    fn find(&self, run: Run) -> Option<usize> {
        match self.by_run.get(self.last) {
            Some(last) if last.run == run => Some(self.last),
            _ => self.places.get(&run).map(|at| *at as usize),
        }
    }

    #[inline]
    fn counted_or_new(&mut self, run: Run) -> Option<&mut RunCounts> {
        self.last = match self.find(run) {
            Some(at) => at,
            None => self.insert(run),
        };
        self.by_run.get_mut(self.last)
    }

    /// Returns the index.
    fn insert(&mut self, run: Run) -> usize {
        let at = self.by_run.len();
        self.places.insert(run, at as u32);
        self.by_run.push(RunCounts { run, moved: false, in_use: 0, tally: NO_ROWS });
        at
    }

    fn remove(&mut self, run: Run) {
        let Some(at) = self.places.remove(&run) else { return };
        self.by_run.swap_remove(at as usize);
        if let Some(counted) = self.by_run.get(at as usize) {
            self.places.insert(counted.run, at);
        }
    }

    /// Sets the counts of a run, as the base has them.
    pub(crate) fn set(&mut self, run: Run, tally: Tally) {
        let Some(counted) = self.counted_or_new(run) else { return };
        let before = std::mem::replace(&mut counted.tally, tally);
        let was = u64::from(counted.in_use);
        counted.in_use = tally.iter().filter(|count| **count != 0).count() as u8;
        if counted.moved {
            let is = u64::from(counted.in_use);
            self.moved.counts = self.moved.counts - was + is;
        }
        for tag in Tag::ALL {
            let Some(place) = tag.tallied() else { continue };
            if let (Some(total), Some(before), Some(after)) =
                (self.by_tag.0.get_mut(tag as usize), before.get(place), tally.get(place))
            {
                *total = total.saturating_sub(*before).saturating_add(*after);
            }
        }
    }

    /// Sets the counts of a run that the base does not have yet.
    pub(crate) fn carry(&mut self, run: Run, tally: Tally) {
        self.set(run, tally);
        self.mark_moved(run);
    }

    /// Sets the counts of the mirrored tags from these rows.
    pub(crate) fn recount(&mut self, met: impl Iterator<Item = Range>) {
        for tag in Tag::ALL.into_iter().filter(|tag| tag.scope() == TagScope::Mirrored) {
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
    pub(crate) fn step(&mut self, range: Range, by: i64) {
        if let Some(total) = self.by_tag.0.get_mut(range.tag as usize) {
            *total = total.saturating_add_signed(by);
        }
        let Some((run, place)) = tallied(range) else { return };
        let Some(counted) = self.counted_or_new(run) else { return };
        let Some(count) = counted.tally.get_mut(place) else { return };
        let before = *count;
        *count = before.saturating_add_signed(by);
        let more = i8::from(*count != 0) - i8::from(before != 0);
        counted.in_use = counted.in_use.wrapping_add_signed(more);
        if run.is_temporary() {
            // An empty run is removed: a run is never used again.
            if counted.in_use == 0 {
                self.remove(run);
            }
        } else if counted.moved {
            self.moved.counts = self.moved.counts.wrapping_add_signed(i64::from(more));
        } else {
            counted.moved = true;
            let counts = u64::from(counted.in_use);
            self.moved.counts += counts;
            self.moved.runs.push(run);
        }
    }

    /// The counts of the runs that have changed. From now on they count as written, until `thaw` is
    /// called.
    pub(crate) fn freeze(&mut self) -> Vec<(Run, Tally)> {
        let frozen = self.moved();
        for (run, tally) in &frozen {
            if *tally == NO_ROWS {
                self.remove(*run);
            } else if let Some(counted) = self.counted_or_new(*run) {
                counted.moved = false;
            }
        }
        self.frozen = std::mem::take(&mut self.moved);
        frozen
    }

    /// The counts of the runs that have changed.
    pub(crate) fn moved(&self) -> Vec<(Run, Tally)> {
        let tally = |run| self.find(run).and_then(|at| self.by_run.get(at)).map(|it| it.tally);
        self.moved.runs.iter().map(|run| (*run, tally(*run).unwrap_or(NO_ROWS))).collect()
    }

    /// The most bytes that the counts that the base does not have take in carried records. A run
    /// that has changed since the freeze is in it twice.
    #[inline]
    pub(crate) fn carry_bytes(&self) -> u64 {
        let bytes = |of: &Unwritten| of.runs.len() as u64 * ENTRY_BYTES + of.counts * COUNT_BYTES;
        bytes(&self.moved) + bytes(&self.frozen)
    }

    /// Ends the freeze: the base has the frozen counts.
    pub(crate) fn written(&mut self) {
        self.frozen = Unwritten::default();
    }

    /// Marks the frozen runs as changed again, after a failed checkpoint.
    pub(crate) fn thaw(&mut self) {
        for run in std::mem::take(&mut self.frozen).runs {
            self.mark_moved(run);
        }
    }

    fn mark_moved(&mut self, run: Run) {
        if let Some(counted) = self.counted_or_new(run).filter(|counted| !counted.moved) {
            counted.moved = true;
            let counts = u64::from(counted.in_use);
            self.moved.counts += counts;
            self.moved.runs.push(run);
        }
    }

    /// Every range that has a stored count.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range> {
        self.by_run.iter().flat_map(|counted| {
            Tag::ALL.into_iter().filter_map(|tag| match tag.scope() {
                TagScope::Run | TagScope::Throttle => Some(Range::in_run(tag, counted.run)),
                TagScope::Queue => Some(Range::of(tag)),
                TagScope::Mirrored | TagScope::Temporary => None,
            })
        })
    }

    /// Every run with rows, and its counts.
    #[cfg(test)]
    pub(crate) fn each(&self) -> impl Iterator<Item = (Run, Tally)> {
        self.by_run.iter().map(|counted| (counted.run, counted.tally))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tables::encode_tally;

    #[test]
    fn counts_change_and_empty_runs_are_removed() {
        let mut counts = RowCounts::default();
        let range = Range::in_run(Tag::Ready, Run(7));
        counts.step(range, 1);
        assert_eq!((counts.of(range), counts.of(Range::of(Tag::Ready))), (1, 1));
        assert_eq!(counts.freeze().len(), 1);
        assert_eq!(counts.freeze().len(), 0);
        counts.step(range, -1);
        assert_eq!(counts.freeze(), [(Run(7), NO_ROWS)]);
        assert_eq!(counts.each().count(), 0);
    }

    /// The carry of a full disk has to fit: what is reserved for the counts is never less than what
    /// they take, and without a freeze exactly that.
    #[test]
    fn carry_bytes_are_those_of_the_counts_that_are_not_written() {
        let taken = |counts: &RowCounts| -> u64 {
            let entry = |(_, tally): &(Run, Tally)| ENTRY_BYTES + encode_tally(tally).len() as u64;
            counts.moved().iter().map(entry).sum()
        };
        let mut counts = RowCounts::default();
        let mut state = 7_u64;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % most) as usize
        };
        let tags = [Tag::Ready, Tag::Taken, Tag::Done, Tag::Piece, Tag::Moved];
        for turn in 0..5_000 {
            let tag = tags[below(tags.len() as u64)];
            let run = Run(1 + below(5) as u32);
            let range = match tag.scope() {
                TagScope::Run => Range::in_run(tag, run),
                _ => Range::of(tag),
            };
            match below(100) {
                0 => drop(counts.freeze()),
                1 => counts.thaw(),
                2 => counts.written(),
                3 => {
                    let mut tally = NO_ROWS;
                    tally[below(Tag::TALLIED as u64)] = 2;
                    counts.carry(run, tally);
                }
                4..60 => counts.step(range, 1),
                _ if counts.of(range) > 0 => counts.step(range, -1),
                _ => {}
            }
            if counts.frozen.runs.is_empty() {
                assert_eq!(counts.carry_bytes(), taken(&counts), "turn {turn}");
                continue;
            }
            let mut thawed = counts.clone();
            thawed.thaw();
            assert_eq!(thawed.carry_bytes(), taken(&thawed), "turn {turn}");
            assert!(counts.carry_bytes() >= thawed.carry_bytes(), "turn {turn}");
        }
    }

    #[test]
    fn a_run_keeps_its_counts_when_another_is_removed() {
        let mut counts = RowCounts::default();
        let range = |run| Range::in_run(Tag::Ready, Run(Run::TEMPORARY | run));
        for run in [1, 2, 3, 3] {
            counts.step(range(run), 1);
        }
        counts.step(range(1), -1);
        assert_eq!([1, 2, 3].map(|run| counts.of(range(run))), [0, 1, 2]);
        counts.step(range(3), -1);
        counts.step(range(2), -1);
        assert_eq!([1, 2, 3].map(|run| counts.of(range(run))), [0, 0, 1]);
        assert_eq!(counts.each().count(), 1);
        assert_eq!(counts.of(Range::of(Tag::Ready)), 1);
    }
}
