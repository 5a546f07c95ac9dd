//! The keys of rows about one task that stand under no tube, so that a move need not write them
//! under another key. Those of temporary tubes have tags of their own.

use super::{Key, Run, Tag, tagged};
use crate::format::pack::Unpacker;
use crate::words::task::TaskId;

/// The key of the row that leads to a task which came from another tube.
pub(crate) fn moved(run: Run, id: TaskId) -> Key {
    let tag = if run.is_temporary() { Tag::MovedTemporary } else { Tag::Moved };
    tagged(tag, &id.get().to_be_bytes())
}

/// The beginning of the keys of the pieces of one payload of a task.
pub(crate) fn pieces_of_payload(run: Run, id: TaskId, generation: u32) -> Key {
    let mut key = pieces_of(run, id);
    key.extend_from_slice(&generation.to_be_bytes());
    key
}

/// The beginning of the keys of all pieces of a task of this run.
pub(crate) fn pieces_of(run: Run, id: TaskId) -> Key {
    let tag = if run.is_temporary() { Tag::PieceTemporary } else { Tag::Piece };
    tagged(tag, &id.get().to_be_bytes())
}

pub(crate) fn piece(run: Run, id: TaskId, generation: u32, number: u32) -> Key {
    let mut key = pieces_of_payload(run, id, generation);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The id, the generation and the number in the key of a piece.
pub(crate) fn of_piece(key: &[u8]) -> Option<(TaskId, u32, u32)> {
    let mut key = Unpacker::new(key.get(1..)?);
    let (id, generation, number) = (TaskId::new(key.u64()?), key.u32()?, key.u32()?);
    key.end((id, generation, number))
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
