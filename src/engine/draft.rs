//! What an op decides, as a value: row writes and effects; and how the rows look with
//! them carried out. It is dropped without a trace if the op is refused.

use crate::bytes::key::{self, Key, Range};
use crate::bytes::{Met, RowOp, RowWrite, Value, View};
use crate::engine::effects::Effects;
use crate::engine::list::List;
use crate::error::Result;

/// What an op decided.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    rows: List,
    /// Whether a row goes to the disk.
    durable: bool,
    pub(crate) effects: Effects,
}

impl Draft {
    /// Nothing is decided any more. The memory is kept for what will be, unless it is much.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.durable = false;
        self.effects.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a power cut could take it back. What a temporary tube did never touches the disk, so
    /// nothing is waited for; an op that wrote nothing has at least seen what others wrote.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable || self.rows.is_empty()
    }

    /// The row writes, in key order, one a key. Whoever carries them out empties the list.
    #[inline]
    pub(crate) fn writes(&mut self) -> &mut Vec<RowWrite> {
        self.rows.writes()
    }

    /// Adds a later draft, made over this one.
    pub(crate) fn merge(&mut self, mut later: Self) {
        for RowWrite { key, op } in later.rows.writes().drain(..) {
            self.write(key, op);
        }
        self.effects.merge(later.effects);
    }

    #[inline]
    pub(crate) fn write(&mut self, key: Key, op: RowOp) {
        self.durable |= !key::is_temporary(&key);
        self.rows.write(key, op);
    }
}

/// A view with a draft on top, as the next op of the same transaction sees it.
pub(crate) struct Over<'a> {
    pub(crate) view: &'a dyn View,
    pub(crate) draft: &'a Draft,
}

/// Most reads come before the first write.
impl View for Over<'_> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        if self.draft.rows.is_empty() { self.view.get(key) } else { self.get_merged(key) }
    }

    #[inline]
    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        if self.draft.rows.is_empty() {
            self.view.first(from, to)
        } else {
            self.first_merged(from, to)
        }
    }

    #[inline]
    fn count(&self, range: Range) -> u64 {
        let count = self.view.count(range);
        if self.draft.rows.is_empty() {
            return count;
        }
        count.saturating_add_signed(self.draft.rows.moved(range))
    }

    fn durable_bytes(&self) -> u64 {
        self.view.durable_bytes().saturating_add_signed(self.draft.effects.durable_bytes)
    }
}

impl Over<'_> {
    fn get_merged(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.draft.rows.get(key) {
            Some(RowOp::Add(value) | RowOp::Change(value)) => Ok(Some(value.clone())),
            Some(RowOp::Remove) => Ok(None),
            None => self.view.get(key),
        }
    }

    fn first_merged(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let mut from = Key::from_slice(from);
        loop {
            let beneath = self.view.first(&from, to)?;
            let own = self.draft.rows.first(&from, to).map(|(key, op)| match op {
                RowOp::Add(value) | RowOp::Change(value) => (key::copy(key), Some(value.clone())),
                RowOp::Remove => (key::copy(key), None),
            });
            let (beneath, own) = match (beneath, own) {
                (Some(beneath), own) => (beneath, own),
                (None, own) => return Ok(own),
            };
            if own.as_ref().is_some_and(|own| own.0 <= beneath.0) {
                return Ok(own);
            }
            if self.draft.rows.get(&beneath.0).is_some() {
                // Removed by this draft: a change would have been its own row just above.
                from = key::after(&beneath.0);
                continue;
            }
            return Ok(Some(beneath));
        }
    }
}
