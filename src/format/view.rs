//! The two interfaces between the engine and the store: what the engine reads, and what it decides.

use crate::format::key::{Key, Range, Run, Tag, after, copy, end_of};
use crate::format::pack::Value;
use crate::words::error::{ErrorKind, Result};

/// What happens to one row. The variant states whether the view had the row, so that the layer need
/// not look for it below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowOp {
    /// The view has no such row; it is added.
    Add(Value),
    /// The view has the row; its value is replaced as a whole.
    Change(Value),
    /// The view has the row; it is removed.
    Remove,
}

impl RowOp {
    /// The row's value after the write.
    #[inline]
    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Self::Add(value) | Self::Change(value) => Some(value),
            Self::Remove => None,
        }
    }

    /// The same, owned.
    #[inline]
    pub(crate) fn into_value(self) -> Option<Value> {
        match self {
            Self::Add(value) | Self::Change(value) => Some(value),
            Self::Remove => None,
        }
    }

    #[inline]
    pub(crate) fn is_remove(&self) -> bool {
        matches!(self, Self::Remove)
    }

    /// By how many the write changes the number of rows.
    #[inline]
    pub(crate) fn rows_added(&self) -> i64 {
        match self {
            Self::Add(_) => 1,
            Self::Change(_) => 0,
            Self::Remove => -1,
        }
    }
}

/// A row found by a scan. `None` is a value that is damaged on the disk: the caller decides what to
/// do about it, and the scan can continue.
pub(crate) type Met = (Key, Option<Value>);

/// The rows that the engine reads.
pub(crate) trait View {
    /// The value of a key.
    ///
    /// # Errors
    /// `Damaged` if the row's checksum does not match; `Io` or `Broken` from the store.
    fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// The first live row with `from <= key < to`; all keys between are of one tag.
    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>>;

    /// The row of a key, also if its value is damaged.
    fn row(&self, key: &[u8]) -> Result<Option<Met>> {
        match self.get(key) {
            // A scan finds out whether it is the value.
            Err(error) if error.kind() == ErrorKind::Damaged => self.first(key, &after(key)),
            value => Ok(value?.map(|value| (copy(key), Some(value)))),
        }
    }

    /// The number of live rows in a range. Stored, never counted by a scan.
    fn count(&self, range: Range) -> u64;

    /// The number of live rows of a run under any of these tags.
    fn count_all(&self, run: Run, tags: &[Tag]) -> u64 {
        tags.iter().map(|tag| self.count(Range::in_run(*tag, run))).sum()
    }

    /// Bytes of the payloads of all durable tubes. Stored, never counted by a scan.
    fn durable_bytes(&self) -> u64;

    /// Whether it has the rows of temporary tubes, if there are any.
    fn has_temporary(&self) -> bool {
        true
    }

    /// Whether the disk is full, so that a decision leaves out the rows that it can do without.
    fn is_full(&self) -> bool {
        false
    }
}

/// The last key of a live row in a range. It is found by halving, for rows are read forward only:
/// at most eight looks for each byte of the key.
///
/// # Errors
/// As [`View::first`].
pub(crate) fn last_key(view: &dyn View, range: Range) -> Result<Option<Key>> {
    let end = range.end();
    let from = |key: &[u8]| view.first(key, &end).map(|met| met.map(|(found, _)| found));
    let mut prefix = range.start();
    let Some(mut last) = from(&prefix)? else { return Ok(None) };
    // The last key begins with the prefix, and is not before `last`.
    while let Some(later) = from(&after(&last))? {
        last = later;
        let (mut low, mut high) = (last.get(prefix.len()).copied().unwrap_or_default(), u8::MAX);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            let mut probe = prefix.clone();
            probe.push(middle);
            match from(&probe)? {
                Some(later) => (low, last) = (middle, later),
                None => high = middle - 1,
            }
        }
        prefix.push(low);
    }
    Ok(Some(last))
}

/// A scan over the live rows of a range, in key order. It continues after the last row that it
/// returned, so the caller may remove rows that were returned.
#[derive(Debug)]
pub(crate) struct Scan {
    from: Key,
    end: Key,
}

impl Scan {
    /// All rows of a range.
    pub(crate) fn over(range: Range) -> Self {
        Self { from: range.start(), end: range.end() }
    }

    /// All rows whose keys begin with `prefix`.
    pub(crate) fn prefixed(prefix: Key) -> Self {
        Self { end: end_of(&prefix), from: prefix }
    }

    /// The rows with `from <= key < end`.
    pub(crate) fn between(from: Key, end: Key) -> Self {
        Self { from, end }
    }

    /// The rows from the first key on, up to the last and with it.
    pub(crate) fn through(from: Key, last: &[u8]) -> Self {
        Self { from, end: after(last) }
    }

    /// Continues from this key, if it comes later.
    pub(crate) fn skip_to(&mut self, from: Key) {
        if from > self.from {
            self.from = from;
        }
    }

    /// The next row.
    ///
    /// # Errors
    /// As [`View::first`].
    pub(crate) fn next(&mut self, view: &dyn View) -> Result<Option<Met>> {
        let met = view.first(&self.from, &self.end)?;
        if let Some((key, _)) = &met {
            self.from = after(key);
        }
        Ok(met)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Tag;
    use crate::format::key::Run;
    use std::collections::BTreeSet;
    use std::ops::Bound::{Excluded, Included};

    struct Keys(BTreeSet<Key>);

    impl View for Keys {
        fn get(&self, _: &[u8]) -> Result<Option<Value>> {
            Ok(None)
        }

        fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
            let keys = self.0.range::<[u8], _>((Included(from), Excluded(to)));
            Ok(keys.map(|key| (key.clone(), None)).next())
        }

        fn count(&self, _: Range) -> u64 {
            0
        }

        fn durable_bytes(&self) -> u64 {
            0
        }
    }

    #[test]
    fn the_last_key_of_a_range_is_found() {
        let range = Range::in_run(Tag::Group, Run(3));
        let mut keys = Keys(BTreeSet::from([range.end()]));
        assert_eq!(last_key(&keys, range).unwrap(), None);
        let mut chance = 1_u64;
        for _ in 0..300 {
            let mut key = range.start();
            for _ in 0..chance % 7 {
                chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                key.push([0, 1, b'a', 0xfe, 0xff][(chance >> 33) as usize % 5]);
            }
            chance = chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1) >> 1;
            keys.0.insert(key);
            let last = keys.0.range(..range.end()).next_back().cloned();
            assert_eq!(last_key(&keys, range).unwrap(), last);
        }
        assert!(keys.0.len() > 100);
    }
}
