//! Verbs on a task by its id or on the next buried tasks: bury, kick, delete. They need no lease; a
//! lease on the task is lost.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::settle::buried;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::{lookup, transition};
use crate::format::{Scan, Tag, View, key};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::SWEEP_TASKS;
use crate::words::task::{Cause, Reason, State, TaskId};

/// Applies a verb to a task, also if it is taken.
pub(crate) struct Tool {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    pub(crate) verb: Verb,
}

pub(crate) enum Verb {
    /// Buries it, from any state.
    Bury(Reason),
    /// Makes it ready again, if it is buried.
    Kick,
    /// Removes it, in any state.
    Delete,
}

/// Makes buried tasks ready again, up to `most` and at most one sweep. Returns how many.
pub(crate) struct Kick {
    pub(crate) tube: u32,
    pub(crate) most: u64,
}

impl Op for Tool {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn grows(&self) -> bool {
        !matches!(self.verb, Verb::Delete)
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let (tube, id) = (&*ctx.tube(self.tube)?, self.id);
        let (stored, from) = lookup::find(ctx, tube, id)?;
        let task = stored.task(tube)?;
        match &self.verb {
            // It keeps its first reason.
            Verb::Bury(_) if from.state() == State::Buried => Ok(()),
            Verb::Bury(reason) => {
                let to = buried(ctx, from.head().clone(), reason);
                transition::move_task(ctx, &task, &from, &to, Cause::Bury)
            }
            Verb::Kick if from.state() == State::Buried => kick(ctx, &task, from),
            Verb::Kick => {
                let text = format!("it is {:?}, not Buried", from.state());
                Err(Error::new(ErrorKind::WrongState).because(text).on_task(id))
            }
            Verb::Delete => transition::erase(ctx, &task, &from, Cause::Delete),
        }
    }
}

/// Makes a buried task ready. If `ttl_spares_buried` has kept it after the end of its ttl, it gets
/// a new ttl. The length of a ttl is not stored, so the new one is the time from the put to the old
/// end.
fn kick(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, from: TaskState) -> Result<()> {
    let (mut head, now) = (from.head().clone(), ctx.now.queue);
    head.attempts = 0;
    if task.tube.row.options.ttl_spares_buried && head.expires <= now {
        let created = task.read.map_or(0, |(_, row)| row.created);
        let life = head.expires.saturating_sub(created);
        head.expires = now.saturating_add(life);
    }
    transition::move_task(ctx, task, &from, &TaskState::Ready(head), Cause::Kick)
}

impl Op for Kick {
    type Done = u64;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<u64> {
        let tube = ctx.tube(self.tube)?;
        let range = tube.range(Tag::Buried);
        let mut rows = Scan::over(range);
        let mut kicked = 0;
        while kicked < self.most.min(SWEEP_TASKS as u64) && ctx.count(range) > 0 {
            let Some((met, _)) = rows.next(ctx)? else { break };
            let id = key::id_of(&met).ok_or_else(|| damaged("buried"))?;
            // A damaged task stays buried, and the next one is kicked.
            let found = sound(lookup::find(ctx, &tube, id))?;
            let Some((stored, standing)) = found else { continue };
            let Ok(task) = stored.task(&tube) else { continue };
            kick(ctx, &task, standing)?;
            kicked += 1;
        }
        Ok(kicked)
    }
}
