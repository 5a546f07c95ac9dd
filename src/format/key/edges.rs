//! The keys of the edges between tasks: which tasks come after which. Each edge has two rows, one
//! for each direction. They stand under no tube, so that a move need not write them under another
//! key. Those between tasks of temporary tubes have tags of their own.

use super::{Key, Run, Tag, tagged, with_id};
use crate::format::pack::Unpacker;
use crate::words::task::TaskId;

/// The two directions of an edge, from a task to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// To a task that comes after it.
    Dependent,
    /// To one that it comes after.
    Dependency,
}

impl Direction {
    pub(crate) const BOTH: [Self; 2] = [Self::Dependent, Self::Dependency];

    pub(crate) fn other(self) -> Self {
        match self {
            Self::Dependent => Self::Dependency,
            Self::Dependency => Self::Dependent,
        }
    }

    /// The tag of its rows, of durable or of temporary tubes.
    pub(crate) fn tag(self, run: Run) -> Tag {
        match (self, run.is_temporary()) {
            (Self::Dependent, false) => Tag::Dependent,
            (Self::Dependent, true) => Tag::DependentTemporary,
            (Self::Dependency, false) => Tag::Dependency,
            (Self::Dependency, true) => Tag::DependencyTemporary,
        }
    }
}

/// The beginning of the keys of all edges of a task in one direction.
pub(crate) fn edges_of(direction: Direction, run: Run, id: TaskId) -> Key {
    tagged(direction.tag(run), &id.get().to_be_bytes())
}

/// The same of those that are met, or of those that are open.
pub(crate) fn edges_in(direction: Direction, run: Run, id: TaskId, is_met: bool) -> Key {
    let mut key = edges_of(direction, run, id);
    key.push(u8::from(is_met));
    key
}

/// The key of an edge from the first task to the second one.
pub(crate) fn edge(
    direction: Direction,
    run: Run,
    (from, to): (TaskId, TaskId),
    is_met: bool,
) -> Key {
    with_id(edges_in(direction, run, from, is_met), to)
}

/// The two tasks in a key of [`edge`], and whether it is met.
pub(crate) fn of_edge(key: &[u8]) -> Option<((TaskId, TaskId), bool)> {
    let mut rest = Unpacker::new(key.get(1..)?);
    let from = TaskId::new(rest.u64()?);
    let is_met = match rest.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let to = TaskId::new(rest.u64()?);
    rest.end(((from, to), is_met))
}

/// The direction and the run of a key of [`edge`]: that of the queue, or the same of temporary
/// tubes.
pub(crate) fn direction_of(key: &[u8]) -> Option<(Direction, Run)> {
    let tag = Tag::of(*key.first()?)?;
    let all = Direction::BOTH.into_iter().flat_map(|it| Run::BOTH.map(|run| (it, run)));
    all.into_iter().find(|(direction, run)| direction.tag(*run) == tag)
}
