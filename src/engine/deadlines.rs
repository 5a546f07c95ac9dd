//! When a state ends by itself. Writes no row.

use crate::engine::stored::TaskState;
use crate::engine::tube_cache::TubeEntry;
use crate::format::Deadline;
use crate::words::clock::NEVER;

/// The deadlines of a state: the task's own, and its lease's; [`NEVER`] is none.
#[inline]
pub(crate) fn of(tube: &TubeEntry, standing: &TaskState) -> [(Deadline, u64); 2] {
    let (what, when, lease) = match standing {
        TaskState::Fresh(head) | TaskState::Ready(head) => (Deadline::Ttl, head.expires, NEVER),
        TaskState::Delayed(row) => (row.deadline(), row.due, NEVER),
        TaskState::Taken(row) => (Deadline::Ttl, row.head.expires, row.deadline),
        TaskState::Buried(_) | TaskState::Trashed(_) | TaskState::Done(_) => {
            (Deadline::Ttl, removal(tube, standing), NEVER)
        }
    };
    [(what, when), (Deadline::Ttr, lease)]
}

/// Until when a task is kept that has ended: to the end of its ttl, or as its tube keeps it. The
/// ttl of a finished task ended with it.
#[cold]
fn removal(tube: &TubeEntry, standing: &TaskState) -> u64 {
    let head = standing.head();
    let is_spared = tube.row.options.ttl_spares_buried || matches!(standing, TaskState::Done(_));
    let expires = if is_spared { NEVER } else { head.expires };
    expires.min(head.kept_until())
}
