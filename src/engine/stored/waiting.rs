//! The states of a task that waits for others, and the way out of them.

use super::TaskState;
use crate::format::key::Direction;
use crate::format::row::{BlockedRow, DelayedRow, TaskProgress};
use crate::words::clock::Now;

impl TaskState {
    /// What is left of a task that waits for others, when it waits for none any more or is
    /// changed: the time for which it has waited is added to its ttl.
    #[cold]
    pub(crate) fn unblocked(row: &BlockedRow, now: Now) -> TaskProgress {
        let mut progress = row.progress.clone();
        progress.add_wait(now.queue.saturating_sub(row.since));
        progress
    }

    /// The state of a task that waits for no other one any more.
    #[cold]
    pub(crate) fn released(row: &BlockedRow, now: Now) -> Self {
        let (progress, due, wall) = (Self::unblocked(row, now), row.due, row.wall);
        let time = if wall { now.wall } else { now.queue };
        if due <= time {
            return Self::Ready(progress);
        }
        Self::delayed(DelayedRow { progress, due, wall, holds_group: false }, now)
    }

    /// Ready, unless it waits for others.
    pub(crate) fn ready_or_blocked(progress: TaskProgress, now: Now) -> Self {
        if progress.extension.is_empty() || progress.edges(Direction::Dependency).open == 0 {
            return Self::Ready(progress);
        }
        Self::Blocked(BlockedRow { progress, since: now.queue, due: 0, wall: false })
    }

    /// The same state, in which it is delayed or ready, of a task that waits for others first.
    #[cold]
    pub(crate) fn blocked(self, now: Now) -> Self {
        let (progress, due, wall) = match &self {
            Self::Delayed(row) => (Self::undelayed(row, now), row.due, row.wall),
            state => (state.progress().clone(), 0, false),
        };
        let mut row = BlockedRow { progress, since: now.queue, due, wall };
        // It is ready since the end of its wait.
        row.progress.set_ready_since(None);
        Self::Blocked(row)
    }
}
