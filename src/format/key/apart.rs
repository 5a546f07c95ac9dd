//! The keys of rows about one task that stand under no tube, so that a move need not write them
//! under another key. Those of temporary tubes have tags of their own.

use super::{Key, Run, Tag, tagged};
use crate::words::task::TaskId;

/// The key of the row that leads to a task which came from another tube.
pub(crate) fn moved(run: Run, id: TaskId) -> Key {
    let tag = if run.is_temporary() { Tag::MovedTemporary } else { Tag::Moved };
    tagged(tag, &id.get().to_be_bytes())
}

/// The beginning of the keys of the entries of a task's history.
pub(crate) fn history_of(run: Run, id: TaskId) -> Key {
    let tag = if run.is_temporary() { Tag::HistoryTemporary } else { Tag::History };
    tagged(tag, &id.get().to_be_bytes())
}

pub(crate) fn history(run: Run, id: TaskId, number: u32) -> Key {
    let mut key = history_of(run, id);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The number in a key of [`history`].
pub(crate) fn history_number(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*key.get(9..)?.first_chunk()?))
}

/// The beginning of the keys of what was reported of a task.
pub(crate) fn reports_of(run: Run, id: TaskId) -> Key {
    let tag = if run.is_temporary() { Tag::ReportTemporary } else { Tag::Report };
    tagged(tag, &id.get().to_be_bytes())
}

pub(crate) fn report(run: Run, id: TaskId, part: ReportPart) -> Key {
    let mut key = reports_of(run, id);
    key.push(part as u8);
    key
}

/// The rows of what was reported of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportPart {
    /// A `ReportRow`.
    Report = 1,
    /// The bytes of the last checkpoint.
    Checkpoint = 2,
}

impl ReportPart {
    pub(crate) const ALL: [Self; 2] = [Self::Report, Self::Checkpoint];
}
