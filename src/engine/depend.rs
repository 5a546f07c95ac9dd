//! Edges of a task that is there are added and removed, as long as it waits for others.

use crate::engine::context::{Op, OpContext};
use crate::engine::dependencies::{FoundTasks, NewEdges, count};
use crate::engine::edge_exchange::ensure_acyclic;
use crate::engine::edges;
use crate::engine::stored::{StoredTask, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{lookup, transition};
use crate::format::key::{self, Direction};
use crate::format::row::{BlockedRow, EdgeCounts};
use crate::format::{Scan, View};
use crate::words::dependency::After;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{CYCLE_EDGES_MAX, EDGES_MAX, EDGES_OF_OP};
use crate::words::task::{Cause, TaskId};

/// Lets a blocked task come after more tasks, at most so many as one op writes. Those that it
/// comes after already stay as they are.
pub(crate) struct Depend<'a> {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    pub(crate) after: &'a After,
    pub(crate) found: &'a FoundTasks,
}

/// Lets a blocked task wait for these tasks no more, or for none; at most so many as one op writes.
/// Returns whether it still waits for others.
pub(crate) struct Undepend<'a> {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    /// `None` is all.
    pub(crate) tasks: Option<&'a [TaskId]>,
}

/// The task, which waits for others.
fn blocked(ctx: &OpContext<'_>, tube: &TubeEntry, id: TaskId) -> Result<(StoredTask, BlockedRow)> {
    match lookup::find(ctx, tube, id)? {
        (stored, TaskState::Blocked(row)) => Ok((stored, row)),
        (_, state) => {
            let text = format!("it is {:?}, not Blocked", state.state());
            Err(Error::new(ErrorKind::WrongState).because(text).on_task(id))
        }
    }
}

impl Op for Depend<'_> {
    /// Whether the task is there. It is removed if one of these has ended otherwise than it waits
    /// for, and its terms say so.
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn grows(&self) -> bool {
        true
    }

    fn in_doubt(&self, _done: &bool) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let (tube, id) = (&*ctx.tube(self.tube)?, self.id);
        let (stored, row) = blocked(ctx, tube, id)?;
        let After { missing, orphaned, .. } = *self.after;
        let mut after = After { missing, orphaned, ..After::new() };
        for (earlier, on) in &self.after.tasks {
            let mut is_known = false;
            for is_met in [false, true] {
                let of = (id, *earlier);
                let at = key::edge(Direction::Dependency, tube.run(), of, is_met);
                is_known |= ctx.row(&at)?.is_some();
            }
            if !is_known {
                after.tasks.push((*earlier, *on));
            }
        }
        let new = NewEdges::of(ctx, (tube, id), &after, self.found)?;
        let mut left = CYCLE_EDGES_MAX;
        for earlier in new.earlier() {
            ensure_acyclic(ctx, tube.run(), (earlier, id), &mut left)?;
        }
        let (mut to, more) = (row.clone(), new.counts());
        let mut counts = to.progress.edges(Direction::Dependency);
        counts.open = counts.open.saturating_add(more.open);
        counts.met = counts.met.saturating_add(more.met);
        if u64::from(counts.open) + u64::from(counts.met) > EDGES_MAX as u64 {
            let text = format!("a task comes after at most {EDGES_MAX} others");
            return Err(Error::new(ErrorKind::Invalid).because(text).on_task(id));
        }
        edges::say(&mut to.progress, Direction::Dependency, counts)?;
        let task = stored.task(tube)?;
        let (from, to) = (TaskState::Blocked(row), TaskState::Blocked(to));
        new.write(ctx, (tube, id))?;
        transition::restate(ctx, &task, &from, &to)?;
        if new.is_cancelled {
            let stored = stored.whole(ctx, tube)?;
            transition::erase(ctx, &stored.task(tube)?, &to, Cause::Cancel)?;
        }
        Ok(!new.is_cancelled)
    }
}

impl Op for Undepend<'_> {
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn grows(&self) -> bool {
        true
    }

    fn in_doubt(&self, _done: &bool) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let (tube, id) = (&*ctx.tube(self.tube)?, self.id);
        let (stored, row) = blocked(ctx, tube, id)?;
        let tasks = match self.tasks {
            Some(tasks) => tasks.iter().take(EDGES_OF_OP).copied().collect(),
            None => {
                let mut rows = Scan::prefixed(key::edges_of(Direction::Dependency, tube.run(), id));
                let mut some = Vec::new();
                while some.len() < EDGES_OF_OP
                    && let Some((met, _)) = rows.next(ctx)?
                {
                    some.extend(key::id_of(&met));
                }
                some
            }
        };
        let mut counts = row.progress.edges(Direction::Dependency);
        for earlier in &tasks {
            for is_met in [false, true] {
                let at = key::edge(Direction::Dependency, tube.run(), (id, *earlier), is_met);
                let Some((at, value)) = ctx.row(&at)? else { continue };
                let of = (Direction::Dependency, tube.run());
                let edge = edges::read(ctx, of, (id, *earlier), is_met, value.as_ref())?;
                let number = edges::tube_of(ctx, edge.map_or(0, |edge| edge.tube), *earlier)?;
                ctx.remove(at);
                let back = key::edge(Direction::Dependent, tube.run(), (*earlier, id), is_met);
                if ctx.row(&back)?.is_some() {
                    ctx.remove(back);
                    count(ctx, (number, *earlier), if is_met { (0, -1) } else { (-1, 0) })?;
                }
                let EdgeCounts { open, met } = &mut counts;
                let fewer = if is_met { met } else { open };
                *fewer = fewer.saturating_sub(1);
            }
        }
        // None is left, also if rows were missing.
        if self.tasks.is_none() && tasks.len() < EDGES_OF_OP {
            counts = EdgeCounts::default();
        }
        let mut to = row.clone();
        edges::say(&mut to.progress, Direction::Dependency, counts)?;
        let task = stored.task(tube)?;
        let from = TaskState::Blocked(row);
        if counts.open == 0 {
            let to = TaskState::released(&to, ctx.now);
            transition::move_task(ctx, &task, &from, &to, Cause::Unblock)?;
            return Ok(false);
        }
        transition::restate(ctx, &task, &from, &TaskState::Blocked(to))?;
        Ok(true)
    }
}
