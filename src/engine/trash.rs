//! The trash: tasks that have left the board and are kept for review. A task in it has a state of
//! its own, which users see as buried. It holds no key, and its tube has room for another one.

use crate::engine::context::OpContext;
use crate::engine::stored::{TaskRef, TaskState};
use crate::format::feature::TRASH;
use crate::words::task::Cause;

/// Why a task came to this state, in which it is set aside.
pub(crate) fn cause_of(state: &TaskState) -> Cause {
    match state {
        TaskState::Trashed(_) => Cause::Trash,
        _ => Cause::Bury,
    }
}

/// What else comes with a step into the trash.
pub(crate) fn enter(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, to: Option<&TaskState>) {
    let run = task.tube.run();
    if let Some(TaskState::Trashed(_)) = to {
        if !run.is_temporary() {
            ctx.needs(&TRASH);
        }
        // There is room for another task.
        if task.tube.row.options.capacity.is_some() {
            ctx.effects().wake(task.tube.number, usize::MAX);
        }
    }
}
