//! Tracked tasks: ids that someone watches. An id stays tracked after its task is gone, until it is
//! untracked, so its row stands under no tube and no end of a task removes it.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::{lookup, transition};
use crate::format::feature::TRACKING;
use crate::format::key::{self, Range};
use crate::format::{Scan, Tag, View, row};
use crate::words::clock::instant;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::TRACKED_MAX;
use crate::words::task::{Cause, TaskId};
use std::time::SystemTime;

/// Tracks a task of this tube. Returns whether it was not tracked before.
pub(crate) struct Track {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
}

impl Op for Track {
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn adds(&self) -> bool {
        true
    }

    fn in_doubt(&self, _done: &bool) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let tube = &*ctx.tube(self.tube)?;
        let (stored, state) = lookup::find(ctx, tube, self.id)?;
        let (task, key) = (stored.task(tube)?, key::tracked(self.id));
        match ctx.row(&key)? {
            Some((_, row)) if row.as_deref().and_then(row::read_number).is_some() => {
                return Ok(false);
            }
            // Since when it is tracked is not known any more.
            Some(_) => {
                ctx.change(key, row::number(ctx.now.queue));
                return Ok(false);
            }
            None => {}
        }
        let tracked = ctx.count(Range::of(Tag::Tracked));
        if tracked >= TRACKED_MAX {
            let text = format!("{tracked} tasks are tracked; untrack one first");
            return Err(Error::new(ErrorKind::Full).because(text));
        }
        ctx.needs(&TRACKING);
        ctx.add(key, row::number(ctx.now.queue));
        transition::tell(ctx, &task, &state, Cause::Track)?;
        Ok(true)
    }
}

/// Tracks a task no more, of this tube or, without one, of an id whose task is gone. Returns
/// whether it was tracked.
pub(crate) struct Untrack {
    pub(crate) tube: Option<u32>,
    pub(crate) id: TaskId,
}

impl Op for Untrack {
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        self.tube
    }

    fn in_doubt(&self, _done: &bool) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let key = key::tracked(self.id);
        if ctx.row(&key)?.is_none() {
            return Ok(false);
        }
        if let Some(number) = self.tube {
            let tube = &*ctx.tube(number)?;
            // Of a task that cannot be read there is no event.
            if let Some((stored, state)) = sound(lookup::find(ctx, tube, self.id))?
                && let Some(task) = sound(stored.task(tube))?
            {
                // Before the row goes: this event is one of a tracked task, too.
                transition::tell(ctx, &task, &state, Cause::Untrack)?;
            }
        }
        ctx.remove(key);
        Ok(true)
    }
}

/// The tracked ids from this one on, at most so many, each with the time since when it is.
pub(crate) fn tracked_from(
    view: &dyn View,
    first: TaskId,
    most: usize,
) -> Result<Vec<(TaskId, SystemTime)>> {
    let mut rows = Scan::between(key::tracked(first), Range::of(Tag::Tracked).end());
    let mut found = Vec::new();
    while found.len() < most {
        let Some((met, row)) = rows.next(view)? else { break };
        // Of a damaged row the time is not known.
        let since = row.as_deref().and_then(row::read_number).unwrap_or_default();
        found.extend(key::id_of(&met).map(|id| (id, instant(since))));
    }
    Ok(found)
}
