//! The row of a throttle: its limit. Its name is in the key.

use crate::format::extension::Extension;
use crate::format::key::Run;
use crate::format::pack::{Packer, Unpacker, Value};

/// A throttle of the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThrottleRow {
    /// Under which its slots are, of the runs of durable tubes. No tube has it.
    pub(crate) run: Run,
    /// How many of its slots may be held. 0: no limit.
    pub(crate) limit: u64,
    /// Queue time until which the limit is in force; [`NEVER`](crate::words::clock::NEVER) without
    /// an end.
    pub(crate) ends: u64,
    /// Fields of later versions.
    pub(crate) extension: Extension,
}

impl ThrottleRow {
    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u32(self.run.0).u64(self.limit).u64(self.ends);
        self.extension.end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let run = Run(row.u32()?);
        let is_run = run != Run::QUEUE && !run.is_temporary();
        let (limit, ends) = (row.u64()?, row.u64()?);
        let extension = Extension::of_rest(row)?;
        is_run.then_some(Self { run, limit, ends, extension })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::clock::NEVER;

    #[test]
    fn golden_throttle() {
        let row = ThrottleRow { run: Run(7), limit: 2, ends: NEVER, extension: Extension::EMPTY };
        let bytes = [&[0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2][..], &[255; 8]].concat();
        assert_eq!(&row.encode()[..], &bytes[..]);
        assert_eq!(ThrottleRow::decode(&bytes), Some(row));
        // The run of no tube, one of a temporary tube, and a row that is cut.
        for wrong in [[0, 0, 0, 0], [128, 0, 0, 7]] {
            assert_eq!(ThrottleRow::decode(&[&wrong[..], &bytes[4..]].concat()), None);
        }
        assert_eq!(ThrottleRow::decode(&bytes[..19]), None);
    }
}
