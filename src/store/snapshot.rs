//! Rows as of one instant, to be read without the store's lock: the base's snapshot, the frozen
//! layer, and of the layers that still change a copied part, bounded in rows and in bytes.

use super::Store;
use super::base::Base;
use super::database::Opening;
use crate::format::key::{Key, after, copy};
use crate::format::layer::{DeadRangesOf, Layer, MergeCursor};
use crate::format::{Met, Value};
use crate::words::error::{Error, Result};
use crate::words::limits::{PAGE_BYTES, PAGE_TASKS};
use crate::words::sync::Arc;
use std::collections::{BTreeMap, VecDeque};

/// What a reader without the lock sees. To be dropped soon: it keeps pages and a layer alive.
pub(crate) struct Snapshot {
    base: Base,
    frozen: Option<Arc<Layer>>,
    copied: Layer,
    /// The keys of a range that are covered: from this one on, and before that one.
    from: Key,
    to: Key,
}

impl Store {
    /// The rows of one tag with `from <= key < to`, or the first of them.
    pub(crate) fn snapshot_range(&self, from: &[u8], to: &[u8]) -> Result<Snapshot> {
        let (copied, from, to) = self.rows.copy_range(from, to);
        self.snapshot(copied, from, to)
    }

    /// The rows of one tag with `from <= key < to`, or the last of them.
    pub(crate) fn snapshot_range_back(&self, from: &[u8], to: &[u8]) -> Result<Snapshot> {
        let (copied, from, to) = self.rows.copy_range_back(from, to);
        self.snapshot(copied, from, to)
    }

    /// The rows of these keys, or of the first of them. Returns how many of the keys it has.
    pub(crate) fn snapshot_rows(&self, keys: &[Key]) -> Result<(Snapshot, usize)> {
        let (copied, count) = self.rows.copy_rows(keys);
        Ok((self.snapshot(copied, Key::new(), Key::new())?, count))
    }

    fn snapshot(&self, copied: Layer, from: Key, to: Key) -> Result<Snapshot> {
        let (base, frozen) = (self.base()?.share(), self.rows.frozen.clone());
        Ok(Snapshot { base, frozen, copied, from, to })
    }

    /// The error of a failed read of a snapshot. `None` if the store has opened the base again or
    /// closed it since: then the caller tries with another snapshot.
    pub(crate) fn failed_read(&self, of: &Arc<Opening>, error: Error) -> Option<Error> {
        let is_current = self.base.as_ref().is_some_and(|base| Arc::ptr_eq(base.opening(), of));
        if is_current { self.read_result::<()>(Err(error)).err() } else { None }
    }
}

impl Snapshot {
    /// The opening that it reads, for `Store::failed_read`.
    pub(crate) fn opening(&self) -> Arc<Opening> {
        self.base.opening().clone()
    }

    /// The value of a key that it was made for.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        let frozen = || self.frozen.as_ref().and_then(|frozen| frozen.get(key));
        match self.copied.get(key).or_else(frozen) {
            Some(op) => Ok(op.value().cloned()),
            None => self.base.get(key),
        }
    }

    /// The living rows of the range, at most so many and at most a page of them, and where the next
    /// page begins.
    pub(crate) fn page(&self, most: usize) -> Result<(VecDeque<Met>, Key)> {
        let below = |from: &[u8], to: &[u8]| self.base.first(from, to);
        let rows = MergeCursor { upper: &self.copied, lower: self.frozen.as_deref(), below };
        let (mut page, mut bytes, mut at) = (VecDeque::new(), 0, self.from.clone());
        let mut dead = DeadRangesOf::default();
        while at < self.to && page.len() < most.min(PAGE_TASKS) && bytes < PAGE_BYTES {
            let Some(met) = rows.first(&mut dead, (&at, &self.to), || false)? else {
                return Ok((page, self.to.clone()));
            };
            at = after(&met.0);
            bytes += met.0.len() + met.1.as_ref().map_or(0, |value| value.len());
            page.push_back(met);
        }
        Ok((page, at))
    }

    /// The keys of the living rows of the range, the last one first, and where the range of the
    /// next page ends. At most so many and at most a page are read of each layer, so a page may
    /// have no living row.
    pub(crate) fn keys_back(&self, most: usize) -> Result<(VecDeque<Key>, Key)> {
        let (mut from, to, most) = (self.from.clone(), &self.to, most.clamp(1, PAGE_TASKS));
        // Once a layer has given a page of keys, those before the last one are not known.
        let mut narrow = |keys: usize, last: Option<&Key>| {
            if let Some(last) = last.filter(|last| keys == most && **last > from) {
                from = copy(last);
            }
        };
        let below =
            if self.from < *to { self.base.last_keys(&self.from, to, most)? } else { Vec::new() };
        narrow(below.len(), below.last());
        let frozen = self.frozen.iter().flat_map(|frozen| frozen.range_back(&self.from, to));
        let frozen: Vec<_> = frozen.take(most).collect();
        narrow(frozen.len(), frozen.last().map(|(key, _)| *key));
        let mut lives: BTreeMap<Key, bool> = below.into_iter().map(|key| (key, true)).collect();
        for (key, op) in frozen.into_iter().chain(self.copied.iter()) {
            lives.insert(copy(key), !op.is_remove());
        }
        let rows = lives.into_iter().rev().take_while(|(key, _)| *key >= from);
        let keys = rows.filter_map(|(key, lives)| lives.then_some(key)).collect();
        Ok((keys, from))
    }
}
