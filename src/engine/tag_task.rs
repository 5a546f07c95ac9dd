//! Tags that anyone gives to a task or takes from it, in any state, which stays.

use crate::engine::context::{Op, OpContext};
use crate::engine::log::Logged;
use crate::engine::stored::TaskState;
use crate::engine::tags::TagOwner;
use crate::engine::{lookup, settle, tags, transition};
use crate::words::error::Result;
use crate::words::tags::check;
use crate::words::task::{Cause, TaskId};

/// Adds tags to a task, or removes them from it. What it has is not added again, and what it does
/// not have is not missed.
pub(crate) struct TagTask<'a> {
    pub(crate) tube: u32,
    pub(crate) which: Logged,
    pub(crate) tags: &'a [&'a str],
    pub(crate) is_added: bool,
}

impl Op for TagTask<'_> {
    /// The tags that it has then.
    type Done = Vec<String>;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn adds(&self) -> bool {
        self.is_added
    }

    fn in_doubt(&self, _done: &Vec<String>) -> Vec<TaskId> {
        vec![self.which.id()]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Vec<String>> {
        let tube = &*self.which.tube(ctx, self.tube)?;
        let id = self.which.id();
        if self.is_added {
            check(self.tags)?;
        }
        let (stored, from) = match self.which {
            Logged::Held(ticket) => {
                let (stored, taken) = settle::held(ctx, tube, ticket)?;
                (stored, TaskState::Taken(taken))
            }
            Logged::ById(id) => lookup::find(ctx, tube, id)?,
        };
        let row = match from.progress().is_tagged() {
            true => tags::known_row(ctx, tube.run(), id)?,
            false => None,
        };
        let before = tags::tags_in(row.as_ref());
        let mut after = before.clone();
        match self.is_added {
            true => tags::add(&mut after, self.tags, ctx.now.queue),
            false => after.retain(|(tag, _)| !self.tags.contains(tag)),
        }
        let names: Vec<&str> = after.iter().map(|(tag, _)| *tag).collect();
        if self.is_added {
            check(&names)?;
        }
        let names = names.into_iter().map(str::to_owned).collect();
        if before == after {
            return Ok(names);
        }
        let task = stored.task(tube)?;
        let mut to = match &from {
            TaskState::Fresh(progress) => TaskState::Ready(progress.clone()),
            from => from.clone(),
        };
        tags::say(to.progress_mut(), !after.is_empty())?;
        // Before its row moves: events may read the payload.
        transition::tell(ctx, &task, &from, Cause::Tag)?;
        if from != to {
            transition::restate(ctx, &task, &from, &to)?;
        }
        let at = TagOwner { tube, id };
        tags::exchange(ctx, (at, &before), (at, &after))?;
        Ok(names)
    }
}
