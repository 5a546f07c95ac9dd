//! Rows of a snapshot that were read ahead, so that reading in order costs one seek for many rows.
//! Independent of redb; the cached rows are those of the snapshot and are dropped with it.

use crate::format::key::{self, ByTag, Key, Range, after, copy};
use crate::format::{Met, Value};
use crate::words::task::TaskId;
use std::cell::Cell;
use std::collections::VecDeque;

/// A range ends at this many rows or at `BYTES`, whichever comes first.
pub(super) const RANGE_ROWS: usize = 64;
const BYTES: usize = 32 << 10;
/// How much longer a range is than the one before it, while single rows are looked up in order.
const GROWTH: usize = 4;
/// How many ranges are kept.
const RANGES_MAX: usize = 32;
/// How many rows are kept that were looked up by themselves.
const SINGLES_MAX: usize = 8;

/// All rows of the snapshot from the range's start to its end.
#[derive(Default)]
pub(super) struct CachedRange {
    rows: Vec<Met>,
    bytes: usize,
    /// The first key not covered.
    end: Key,
    /// Whether the snapshot has no rows after these.
    pub(super) ends: bool,
    /// Bytes of the ranges just before this one.
    before: usize,
    /// Where the last look-up ended: the next one usually ends there or at the row after it.
    near: Cell<usize>,
    /// Whether the last row was looked up.
    is_read: Cell<bool>,
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
    /// Adds the next row; a damaged value is `None`. Whether the range ends here: it is full, has
    /// `most` rows, or the row has another tag. Such a row is not added, since it may be large.
    pub(super) fn push(&mut self, tag: u8, key: &[u8], value: Option<&[u8]>, most: usize) -> bool {
        if key.first() != Some(&tag) {
            self.end = Key::from_slice(key);
            return true;
        }
        self.bytes += key.len() + value.map_or(0, <[u8]>::len);
        self.rows.push((Key::from_slice(key), value.map(Value::read)));
        let is_full = self.rows.len() >= most || self.bytes >= BYTES;
        if is_full {
            self.end = after(key);
        }
        is_full
    }

    /// The index of the first row with `from <= key`.
    #[inline]
    fn position(&self, from: &[u8]) -> usize {
        let near = self.near.get();
        let is_before = |at: usize| self.rows.get(at).is_some_and(|(key, _)| key.as_slice() < from);
        if is_before(near) {
            if near + 1 >= self.rows.len() || !is_before(near + 1) {
                return near + 1;
            }
        } else if near <= self.rows.len() && near.checked_sub(1).is_none_or(is_before) {
            return near;
        }
        self.rows.partition_point(|(key, _)| key.as_slice() < from)
    }

    /// The first row with `from <= key < to`, if there is one. `None` if the range ends too early
    /// to know.
    #[inline]
    pub(super) fn lookup(&self, from: &[u8], to: &[u8]) -> Option<Option<&Met>> {
        let at = self.position(from);
        self.near.set(at);
        match self.rows.get(at) {
            Some(met) if met.0.as_slice() < to => {
                if at + 1 == self.rows.len() {
                    self.is_read.set(true);
                }
                Some(Some(met))
            }
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
    /// The range of each tag that was used last, which usually answers again.
    last: ByTag<Cell<usize>>,
    clock: Cell<u64>,
    /// The rows that were looked up last by themselves, also that there is none. Among the ranges
    /// each of them would replace one.
    singles: VecDeque<(Key, Option<Option<Value>>)>,
}

impl RangeCache {
    /// As [`CachedRange::lookup`], in the range that reaches far enough.
    #[inline]
    pub(super) fn lookup(&self, from: &[u8], to: &[u8]) -> Option<Option<&Met>> {
        if let Some(last) = self.last_of(from)
            && let Some(answer) = self.lookup_in(last.get(), from, to)
        {
            return Some(answer);
        }
        let starts_before = |(start, _): &(Key, CachedRange)| start.as_slice() <= from;
        self.lookup_in(self.by_start.partition_point(starts_before).checked_sub(1)?, from, to)
    }

    #[inline]
    fn lookup_in(&self, at: usize, from: &[u8], to: &[u8]) -> Option<Option<&Met>> {
        let (start, range) = self.by_start.get(at)?;
        let is_of_tag = range.ends || start.first() == from.first();
        if !is_of_tag || start.as_slice() > from {
            return None;
        }
        let answer = range.lookup(from, to)?;
        range.used.set(self.tick());
        if let Some(last) = self.last_of(from) {
            last.set(at);
        }
        Some(answer)
    }

    #[inline]
    fn last_of(&self, key: &[u8]) -> Option<&Cell<usize>> {
        self.last.0.get(usize::from(*key.first()?))
    }

    /// The value of a row that was looked up by itself; the inner `None` says that there is no such
    /// row, and a damaged value is `None` too.
    pub(super) fn single(&self, key: &[u8]) -> Option<Option<&Option<Value>>> {
        let found = self.singles.iter().find(|(single, _)| single.as_slice() == key);
        found.map(|(_, value)| value.as_ref())
    }

    /// Keeps a row that was looked up by itself, unless it is long.
    pub(super) fn keep_single(&mut self, key: Key, row: Option<Option<Value>>) {
        if row.iter().flatten().any(|value| value.len() > BYTES) {
            return;
        }
        if self.singles.len() >= SINGLES_MAX {
            self.singles.pop_front();
        }
        self.singles.push_back((key, row));
    }

    #[inline]
    fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// Where to begin a range for a key that was not found here, and how many rows it should have,
    /// if rows are looked up in order: the range or the single row before it was read to its end,
    /// and the new one is long enough for the key, by the ids of the tasks.
    pub(super) fn next_range(&self, key: &[u8]) -> Option<(Key, usize)> {
        let id_of = |key: &[u8]| key::id_of(key).map(TaskId::get);
        let id = id_of(key)?;
        let is_near = |last: &[u8], most: usize| {
            let steps = id_of(last).and_then(|last| id.checked_sub(last));
            steps.is_some_and(|steps| 0 < steps && steps <= most as u64)
                && Range::holding(last) == Range::holding(key)
        };
        let before = self.by_start.partition_point(|(start, _)| start.as_slice() <= key);
        if let Some((_, range)) = before.checked_sub(1).and_then(|at| self.by_start.get(at))
            && range.is_read.get()
            && let Some((last, _)) = range.rows.last()
        {
            let most = (range.rows.len() * GROWTH).min(RANGE_ROWS);
            if is_near(last, most) {
                return Some((copy(&range.end), most));
            }
        }
        let mut singles = self.singles.iter().filter(|(_, row)| row.is_some());
        // Keys of ranked rows are not in the order of the ids.
        let (single, _) =
            singles.find(|(single, _)| single.as_slice() < key && is_near(single, GROWTH))?;
        Some((after(single), GROWTH))
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

    /// Keeps a range, unless a long row makes it too large.
    pub(super) fn keep(&mut self, start: Key, mut range: CachedRange) {
        if range.bytes > 2 * BYTES {
            return;
        }
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
        if let Some(last) = self.by_start.get(at).and_then(|(start, _)| self.last_of(start)) {
            last.set(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Tag;

    fn key(number: u64) -> Key {
        let mut key = Key::from_slice(&[0x17, 0, 0, 0, 1]);
        key.extend_from_slice(&number.to_be_bytes());
        key
    }

    /// Looks rows up as the base does. Returns how many rows each look-up reads.
    fn read(cache: &mut RangeCache, numbers: impl IntoIterator<Item = u64>) -> Vec<usize> {
        let read = |number| {
            let met = cache.lookup(&key(number), &after(&key(number))).is_some();
            if met || cache.single(&key(number)).is_some() {
                return 0;
            }
            let Some((from, most)) = cache.next_range(&key(number)) else {
                cache.keep_single(key(number), Some(Some(Value::from(*b"x"))));
                return 1;
            };
            let mut range = CachedRange::default();
            let rows = (1..).map(key).filter(|row| *row >= from);
            rows.into_iter().find(|row| range.push(0x17, row, Some(b"x"), most));
            assert!(range.lookup(&key(number), &after(&key(number))).is_some());
            cache.keep(from, range);
            most
        };
        numbers.into_iter().map(read).filter(|rows| *rows > 0).collect()
    }

    #[test]
    fn ranges_grow_while_rows_are_looked_up_in_order() {
        let mut cache = RangeCache::default();
        assert_eq!(read(&mut cache, 1..101), [1, 4, 16, 64, 64]);
        let scans = cache.sequential_scans();
        assert_eq!(scans.len(), 1, "so they are read ahead");
        assert_eq!(scans[0].from, after(&key(149)));
    }

    #[test]
    fn rows_looked_up_in_any_order_are_read_one_by_one_or_a_few() {
        let mut cache = RangeCache::default();
        assert_eq!(read(&mut cache, [90, 50, 30, 10]), [1; 4]);
        assert_eq!(read(&mut cache, [93, 53, 33, 12]), [4; 4], "after a row that was read");
        assert_eq!(read(&mut cache, [98, 58, 38, 16]), [1; 4], "after rows that were not");
    }

    #[test]
    fn rows_too_far_apart_for_a_range_are_read_one_by_one() {
        let mut cache = RangeCache::default();
        assert_eq!(read(&mut cache, (1..100).step_by(10)), [1; 10]);
    }

    /// Regression: a row of a higher rank and a lower id counted as the row before, and the range
    /// after it, which does not contain the key, answered that there is no such row.
    #[test]
    fn a_range_never_begins_after_the_key() {
        let ranked = |rank: u8, id: u64| {
            let mut key = Key::from_slice(&[Tag::Task as u8, 0, 0, 0, 1, rank]);
            key.extend_from_slice(&id.to_be_bytes());
            key
        };
        let mut cache = RangeCache::default();
        cache.keep_single(ranked(7, 1), Some(Some(Value::from(*b"x"))));
        assert_eq!(cache.next_range(&ranked(6, 2)), None);
        assert_eq!(cache.next_range(&ranked(7, 2)), Some((after(&ranked(7, 1)), GROWTH)));
    }

    #[test]
    fn a_missing_row_is_looked_up_once() {
        let mut cache = RangeCache::default();
        cache.keep_single(key(5), None);
        assert_eq!((cache.single(&key(5)), cache.single(&key(6))), (Some(None), None));
        assert!(cache.next_range(&key(6)).is_none());
    }
}
