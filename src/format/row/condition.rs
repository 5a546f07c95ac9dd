//! The row of a named condition: whether it is set. Its name is in the key.

use crate::format::extension::Extension;
use crate::format::pack::{Packer, Unpacker, Value};

/// A named condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConditionRow {
    pub(crate) is_set: bool,
    /// Fields of later versions.
    pub(crate) extension: Extension,
}

impl ConditionRow {
    pub(crate) fn of(is_set: bool) -> Self {
        Self { is_set, extension: Extension::EMPTY }
    }

    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u8(self.is_set.into());
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let is_set = row.u8().filter(|set| *set < 2)? == 1;
        Some(Self { is_set, extension: Extension::of_rest(row)? })
    }
}
