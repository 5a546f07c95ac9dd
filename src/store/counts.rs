//! How many living rows there are, by tube incarnation and tag. Kept with every write, so that
//! nothing is ever counted.

use super::tables::{TALLY_TAGS, Tally};
use crate::bytes::key::{Range, Run, Tag};
use crate::bytes::layer::TAGS;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
    by_tag: [u64; TAGS],
    /// Runs whose counts have moved since the last freeze.
    moved: Vec<Run>,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    run: Run,
    tally: Tally,
    moved: bool,
}

fn place(tag: Tag) -> usize {
    (tag as usize).saturating_sub(Tag::Place as usize)
}

const _: () = assert!(Tag::Held as usize - Tag::Place as usize + 1 == TALLY_TAGS);

impl Counts {
    #[inline]
    pub(crate) fn of(&self, range: Range) -> u64 {
        let count = match range.run {
            Some(run) => {
                self.find(run).and_then(|at| self.by_run.get(at)?.tally.get(place(range.tag)))
            }
            None => self.by_tag.get(range.tag as usize),
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
        for (total, count) in self.by_tag.iter_mut().skip(Tag::Place as usize).zip(tally) {
            *total = total.saturating_add(count);
        }
        self.insert(run, tally);
    }

    /// Sets the counts of the tags without runs to what is met.
    pub(crate) fn recount(&mut self, met: impl Iterator<Item = Range>) {
        if let Some(totals) = self.by_tag.get_mut(..Tag::Place as usize) {
            totals.fill(0);
        }
        for range in met {
            if let Some(total) = self.by_tag.get_mut(range.tag as usize) {
                *total += 1;
            }
        }
    }

    #[inline]
    pub(crate) fn step(&mut self, range: Range, up: bool) {
        let turn = |count: &mut u64| {
            *count = if up { count.saturating_add(1) } else { count.saturating_sub(1) };
        };
        if let Some(total) = self.by_tag.get_mut(range.tag as usize) {
            turn(total);
        }
        let Some(run) = range.run else { return };
        let Some(counted) = self.counted_or_new(run) else { return };
        if let Some(count) = counted.tally.get_mut(place(range.tag)) {
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
