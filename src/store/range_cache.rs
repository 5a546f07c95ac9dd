//! Rows of a snapshot that were read ahead, so that reading in order costs one seek for many rows.
//! Independent of redb; the cached rows are those of the snapshot and are dropped with it.

use crate::format::key::{Key, after};
use crate::format::{Met, Value};
use std::cell::Cell;

/// A range ends at this many rows or at `BYTES`, whichever comes first.
const ROWS: usize = 64;
const BYTES: usize = 32 << 10;
/// How many ranges are kept.
const RANGES_MAX: usize = 32;

/// All rows of the snapshot from the range's start to its end.
#[derive(Default)]
pub(super) struct CachedRange {
    rows: Vec<Met>,
    bytes: usize,
    /// The first key not covered.
    end: Key,
    /// Whether the snapshot has no rows after these.
    ends: bool,
    /// Bytes of the ranges just before this one.
    before: usize,
    used: Cell<u64>,
}

/// The position of a sequential scan.
pub(super) struct SequentialScan {
    /// Where it continues.
    pub(super) from: Key,
    /// Bytes that it read since the snapshot was taken.
    pub(super) bytes: usize,
}

impl CachedRange {
    /// Adds the next row; a damaged value is `None`. Whether the range ends here: it is full, or
    /// the row has another tag. Such a row is not added, since it may be large.
    pub(super) fn push(&mut self, tag: u8, key: &[u8], value: Option<&[u8]>) -> bool {
        if key.first() != Some(&tag) {
            self.end = Key::from_slice(key);
            return true;
        }
        self.bytes += key.len() + value.map_or(0, <[u8]>::len);
        self.rows.push((Key::from_slice(key), value.map(Value::from)));
        let is_full = self.rows.len() >= ROWS || self.bytes >= BYTES;
        if is_full {
            self.end = after(key);
        }
        is_full
    }

    /// Whether it is small enough to be kept. A long row makes it too large.
    pub(super) fn is_small(&self) -> bool {
        self.bytes <= 2 * BYTES
    }

    /// Marks that there is no row after these.
    pub(super) fn close(mut self) -> Self {
        self.ends = true;
        self
    }

    /// The first row with `from <= key < to`, if there is one. `None` if the range ends too early
    /// to know.
    #[inline]
    pub(super) fn lookup(&self, from: &[u8], to: &[u8]) -> Option<Option<&Met>> {
        let at = self.rows.partition_point(|(key, _)| key.as_slice() < from);
        match self.rows.get(at) {
            Some(met) if met.0.as_slice() < to => Some(Some(met)),
            Some(_) => Some(None),
            None if self.ends || to <= self.end.as_slice() => Some(None),
            None => None,
        }
    }
}

/// A few ranges, by their start; the least recently used one is replaced.
#[derive(Default)]
pub(super) struct RangeCache {
    by_start: Vec<(Key, CachedRange)>,
    /// The range that was used last, which usually answers again.
    last: Cell<usize>,
    clock: Cell<u64>,
}

impl RangeCache {
    /// As [`CachedRange::lookup`], in the range that reaches far enough.
    #[inline]
    pub(super) fn lookup(&self, from: &[u8], to: &[u8]) -> Option<Option<&Met>> {
        if let Some(answer) = self.lookup_in(self.last.get(), from, to) {
            return Some(answer);
        }
        let starts_before = |(start, _): &(Key, CachedRange)| start.as_slice() <= from;
        self.lookup_in(self.by_start.partition_point(starts_before).checked_sub(1)?, from, to)
    }

    #[inline]
    fn lookup_in(&self, at: usize, from: &[u8], to: &[u8]) -> Option<Option<&Met>> {
        let (start, range) = self.by_start.get(at)?;
        if start.as_slice() > from {
            return None;
        }
        let answer = range.lookup(from, to)?;
        range.used.set(self.tick());
        self.last.set(at);
        Some(answer)
    }

    #[inline]
    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// The sequential scans: each continues more than one range and has more rows of its tag.
    pub(super) fn sequential_scans(&self) -> Vec<SequentialScan> {
        let next = self.by_start.iter().skip(1).map(|(start, _)| Some(start)).chain([None]);
        let goes_on =
            |it: &CachedRange, next: Option<&Key>| next.is_some_and(|next| *next <= it.end);
        let open = self.by_start.iter().zip(next).filter(|((start, range), next)| {
            let is_scan = range.before > 0 && !goes_on(range, *next);
            is_scan && !range.ends && start.first() == range.end.first()
        });
        open.map(|((_, it), _)| SequentialScan {
            from: it.end.clone(),
            bytes: it.before + it.bytes,
        })
        .collect()
    }

    pub(super) fn keep(&mut self, start: Key, mut range: CachedRange) {
        range.used.set(self.tick());
        let place = |kept: &[(Key, CachedRange)]| kept.partition_point(|(other, _)| *other < start);
        let mut at = place(&self.by_start);
        if let Some((_, last)) = at.checked_sub(1).and_then(|before| self.by_start.get(before))
            && start <= last.end
        {
            range.before = last.before + last.bytes;
        }
        if let Some(same) = self.by_start.get_mut(at).filter(|(other, _)| *other == start) {
            same.1 = range;
        } else {
            if self.by_start.len() >= RANGES_MAX {
                let used = |at: &usize| self.by_start.get(*at).map(|(_, range)| range.used.get());
                if let Some(oldest) = (0..self.by_start.len()).min_by_key(used) {
                    self.by_start.remove(oldest);
                    at = place(&self.by_start);
                }
            }
            self.by_start.insert(at, (start, range));
        }
        self.last.set(at);
    }
}
