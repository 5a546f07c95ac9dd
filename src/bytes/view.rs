//! The two seams between the engine and the store: what it reads, and what it decides.

use crate::bytes::key::{Key, Range};
use crate::bytes::value::Value;
use crate::error::Result;

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

/// One row write: what the engine decides and the store carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowWrite {
    pub(crate) key: Key,
    pub(crate) op: RowOp,
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
