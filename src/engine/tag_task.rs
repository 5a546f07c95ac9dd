//! Tags that anyone gives to a task or takes from it, in any state, which stays.

use crate::engine::context::{Op, OpContext};
use crate::engine::stored::TaskState;
use crate::engine::{lookup, tags, transition};
use crate::words::error::Result;
use crate::words::tags::check;
use crate::words::task::{Cause, TaskId};

/// Adds tags to a task, or removes them from it. What it has is not added again, and what it does
/// not have is not missed.
pub(crate) struct TagTask<'a> {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    pub(crate) tags: &'a [&'a str],
    pub(crate) is_added: bool,
}

impl Op for TagTask<'_> {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn adds(&self) -> bool {
        self.is_added
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let tube = &*ctx.tube(self.tube)?;
        let (stored, from) = lookup::find(ctx, tube, self.id)?;
        let row = match from.head().is_tagged() {
            true => tags::row_of(ctx, tube.run(), self.id)?,
            false => None,
        };
        let before = tags::tags_in(row.as_ref());
        let mut after = before.clone();
        match self.is_added {
            true => tags::add(&mut after, self.tags, ctx.now.queue),
            false => after.retain(|(tag, _)| !self.tags.contains(tag)),
        }
        if self.is_added {
            check(self.tags.iter().copied())?;
            check(after.iter().map(|(tag, _)| *tag))?;
        }
        if before == after {
            return Ok(());
        }
        let task = stored.task(tube)?;
        let mut to = match &from {
            TaskState::Fresh(head) => TaskState::Ready(head.clone()),
            from => from.clone(),
        };
        tags::say(to.head_mut(), !after.is_empty())?;
        // Before its row moves: events may read the payload.
        transition::tell(ctx, &task, &from, Cause::Tag)?;
        if from != to {
            transition::restate(ctx, &task, &from, &to)?;
        }
        tags::write(ctx, (tube, self.id), &before, &after)
    }
}
