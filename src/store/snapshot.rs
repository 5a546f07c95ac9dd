//! Rows as of one instant, to be read without the store's lock: the base's snapshot, the frozen
//! layer, and of the layers that still change a copied part, bounded in rows and in bytes.

use super::Store;
use super::base::Base;
use super::database::Opening;
use crate::format::key::{Key, after};
use crate::format::layer::{DeadRangesOf, Layer, Merged};
use crate::format::{Met, Value};
use crate::words::error::{Error, Result};
use crate::words::limits::{PAGE_BYTES, PAGE_TASKS};
use crate::words::sync::Arc;
use std::collections::VecDeque;

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

    /// The living rows of the range, at most a page of them, and where the next page begins.
    pub(crate) fn page(&self) -> Result<(VecDeque<Met>, Key)> {
        let below = |from: &[u8], to: &[u8]| self.base.first(from, to);
        let rows = Merged { upper: &self.copied, lower: self.frozen.as_deref(), below };
        let (mut page, mut bytes, mut at) = (VecDeque::new(), 0, self.from.clone());
        let mut dead = DeadRangesOf::default();
        while at < self.to && page.len() < PAGE_TASKS && bytes < PAGE_BYTES {
            let Some(met) = rows.first(&mut dead, (&at, &self.to), || false)? else {
                return Ok((page, self.to.clone()));
            };
            at = after(&met.0);
            bytes += met.0.len() + met.1.as_ref().map_or(0, |value| value.len());
            page.push_back(met);
        }
        Ok((page, at))
    }
}
