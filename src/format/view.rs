//! The two seams between the engine and the store: what it reads, and what it decides.

use crate::format::key::{Key, Range, after, end_of};
use crate::format::value::Value;
use crate::words::error::Result;

/// What happens to one row. The writer tells what it found, so that the overlay knows without
/// looking whether a layer beneath has the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RowOp {
    /// The view has no such row; now it has.
    Add(Value),
    /// The view has the row; its value is replaced as a whole.
    Change(Value),
    /// The view has the row; it goes.
    Remove,
}

impl RowOp {
    /// The row's value from then on.
    #[inline]
    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Self::Add(value) | Self::Change(value) => Some(value),
            Self::Remove => None,
        }
    }

    /// The same.
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

    /// How many rows more there are by this write.
    #[inline]
    pub(crate) fn rows_added(&self) -> i64 {
        match self {
            Self::Add(_) => 1,
            Self::Change(_) => 0,
            Self::Remove => -1,
        }
    }
}

/// A row met by a walk. A value that is damaged on the disk is `None`: the walker decides what to
/// do about it, and goes on.
pub(crate) type Met = (Key, Option<Value>);

/// The rows as the engine reads them.
pub(crate) trait View {
    /// The value of a key.
    ///
    /// # Errors
    /// `Damaged` if the row's checksum does not match; `Io` or `Broken` from the store.
    fn get(&self, key: &[u8]) -> Result<Option<Value>>;

    /// The first living row with `from <= key < to`, between which all keys are of one tag.
    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>>;

    /// How many living rows a range has. Kept, never counted.
    fn count(&self, range: Range) -> u64;

    /// Bytes of the payloads of all durable tubes. Kept, never counted.
    fn durable_bytes(&self) -> u64;
}

/// A walk over the living rows of a range, in key order. It goes on after the row that it met last,
/// so rows may be removed behind it.
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

    /// Goes on from this key, if it comes later.
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
