//! The keys of work that is left to do: a row each for a kind of work, a run and a task.

use super::{Key, Run, Tag, tagged, with_id};
use crate::format::pack::Unpacker;
use crate::words::task::TaskId;

/// The kinds of work for a sweep. Each has a range of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Work {
    /// The run no longer belongs to a tube: its rows are removed.
    Clear = 1,
    /// Leases that a tube has voided: their tasks become ready.
    Release = 2,
    /// A put is writing the pieces of its payload. No sweep does this; an opening rolls it back.
    Staged = 3,
    /// The pieces of a payload that no task has any more are removed.
    Pieces = 4,
    /// Rows of a tube follow a change of its options.
    Follow = 5,
    /// The tasks that come after one that has ended are told so.
    Cascade = 6,
    /// The edges of a task that has ended to those that it came after are removed.
    Unlink = 7,
    /// A put is writing the edges of its task. No sweep does this; an opening rolls it back.
    Linking = 8,
    /// The tasks of a tube are moved to another one. No sweep does this: the call does, or the
    /// timer.
    Merge = 9,
}

impl Work {
    pub(crate) const ALL: [Self; 9] = [
        Self::Clear,
        Self::Release,
        Self::Staged,
        Self::Pieces,
        Self::Follow,
        Self::Cascade,
        Self::Unlink,
        Self::Linking,
        Self::Merge,
    ];

    /// The kinds of work on the edges of one task.
    pub(crate) const OF_EDGES: [Self; 3] = [Self::Cascade, Self::Unlink, Self::Linking];
}

/// The beginning of the keys of all work of one kind.
pub(crate) fn work_of(kind: Work) -> Key {
    tagged(Tag::Work, &[kind as u8])
}

/// The beginning of the keys of all work of one kind under a run.
pub(crate) fn work_of_run(kind: Work, run: Run) -> Key {
    let mut key = work_of(kind);
    key.extend_from_slice(&run.0.to_be_bytes());
    key
}

/// The key of work under a run, with the id of the task that it belongs to, or 0.
pub(crate) fn work(kind: Work, run: Run, id: TaskId) -> Key {
    with_id(work_of_run(kind, run), id)
}

/// The key of work on the pieces of one payload of a task. A task may have such work for several
/// of its payloads; that of the put's, of generation 1, has no generation in its key.
pub(crate) fn piece_work(kind: Work, run: Run, id: TaskId, generation: u32) -> Key {
    let mut key = work(kind, run, id);
    if generation > 1 {
        key.extend_from_slice(&generation.to_be_bytes());
    }
    key
}

/// The task and the generation in a key of [`piece_work`].
pub(crate) fn of_piece_work(work: &[u8]) -> Option<(TaskId, u32)> {
    let mut rest = Unpacker::new(work.get(6..)?);
    let id = TaskId::new(rest.u64()?);
    let generation = if rest.rest().is_empty() { 1 } else { rest.u32()? };
    rest.end((id, generation))
}

/// The run in a key of [`Tag::Work`].
pub(crate) fn run_of_work(work: &[u8]) -> Option<Run> {
    Some(Run(u32::from_be_bytes(work.get(2..6)?.try_into().ok()?)))
}
