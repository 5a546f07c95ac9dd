//! What the tasks of a queue say of their edges. Looks at no edge.

use crate::format::key::{Direction, Run};
use crate::format::row::EdgeCounts;
use crate::format::{Range, View};
use crate::words::task::{State, TaskId};
use std::collections::{BTreeMap, BTreeSet};

/// What a task says of its edges.
pub(super) struct EdgedTask {
    pub(super) number: u32,
    pub(super) run: Run,
    pub(super) state: State,
    pub(super) counts: BTreeMap<Direction, EdgeCounts>,
}

/// The tasks of a queue that has edges.
#[derive(Default)]
pub(super) struct EdgedTasks {
    pub(super) tasks: BTreeMap<TaskId, EdgedTask>,
    /// They cannot be read, or a sweep removes them.
    pub(super) unknown: BTreeSet<TaskId>,
}

impl EdgedTasks {
    pub(super) fn add(&mut self, id: TaskId, task: EdgedTask) {
        self.tasks.insert(id, task);
    }

    pub(super) fn append(&mut self, mut other: Self, damaged: BTreeSet<TaskId>) {
        self.tasks.append(&mut other.tasks);
        self.unknown.extend(damaged);
    }
}

pub(super) fn directions() -> [(Direction, Run); 4] {
    let [durable, temporary] = Run::BOTH;
    let of = |run| Direction::BOTH.map(|direction| (direction, run));
    let ([first, second], [third, fourth]) = (of(durable), of(temporary));
    [first, second, third, fourth]
}

/// Whether the queue has edges.
pub(super) fn is_any(view: &dyn View) -> bool {
    directions().iter().any(|(direction, run)| view.count(Range::of(direction.tag(*run))) > 0)
}
