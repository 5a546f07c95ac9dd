//! The row of a finished task that its tube keeps.

use crate::format::pack::{Packer, Unpacker, Value, bits};
use crate::format::row::progress::{Homed, StoredHome, TaskProgress};
use crate::format::row::state::Away;

/// A finished task that its tube keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoneRow {
    pub(crate) progress: TaskProgress,
    /// Queue time of its end.
    pub(crate) time: u64,
    pub(crate) result: Option<Box<[u8]>>,
    /// Whether rows lead from its key to it. An early version wrote none.
    pub(crate) has_key_rows: bool,
}

impl DoneRow {
    /// Bytes of the result.
    pub(crate) fn result_bytes(&self) -> u64 {
        self.result.as_ref().map_or(0, |result| result.len() as u64)
    }

    pub(crate) fn encode(&self, away: &Away<'_>, home: &StoredHome) -> Value {
        let mut row = Packer::new();
        let flags = away.flags([self.result.is_some(), self.has_key_rows]);
        row.u8(flags).u64(self.time).u32(away.bytes);
        if let Some(result) = &self.result {
            debug_assert!(result.len() <= usize::from(u16::MAX));
            row.u16(result.len() as u16).bytes(result);
        }
        away.pack(&mut row);
        self.progress.end_row(row, home)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<(Away<'_>, Homed<Self>)> {
        let mut rest = Unpacker::new(row);
        let (flags, time, bytes) = (rest.u8()?, rest.u64()?, rest.u32()?);
        let [has_result, has_key_rows, ..] = bits(flags);
        let result = if has_result {
            let length = usize::from(rest.u16()?);
            Some(Box::from(rest.bytes(length)?))
        } else {
            None
        };
        let away = Away::unpack(flags, bytes, &mut rest)?;
        let (progress, home) = TaskProgress::decode(rest.rest())?;
        Some((away, (Self { progress, time, result, has_key_rows }, home)))
    }
}
