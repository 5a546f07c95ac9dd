//! Changes of one task by its id, in any state: priority, ttl, ttr, how it is retried, and when it
//! becomes ready. All in one step; a lease on the task stays.

use crate::engine::context::{Op, OpContext};
use crate::engine::stored::{self, TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{keys, lease_time, lookup, query, retry, transition};
use crate::format::row::{BlockedRow, DelayedRow, TakenRow, TaskProgress};
use crate::words::backoff::RetryTerms;
use crate::words::clock::{NEVER, micros};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::options::is_nothing;
use crate::words::task::{Cause, TaskId};
use crate::words::verb::Extend;
use std::time::{Duration, SystemTime};

/// Changes a task. What is not given stays as it is.
pub(crate) struct Update {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    pub(crate) changes: Changes,
}

/// What of a task is changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changes {
    pub(crate) priority: Option<i64>,
    pub(crate) delay: Option<Duration>,
    pub(crate) run_at: Option<SystemTime>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) retry: RetryTerms,
}

impl Changes {
    /// Whether it says when the task becomes ready.
    pub(crate) fn is_moved(&self) -> bool {
        self.delay.is_some() || self.run_at.is_some()
    }
}

impl Op for Update {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn grows(&self) -> bool {
        true
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let (tube, changes) = (&*ctx.tube(self.tube)?, &self.changes);
        check(tube, changes)?;
        let (mut stored, from) = lookup::find(ctx, tube, self.id)?;
        if changes.ttl.is_some() {
            stored = stored.whole(ctx, tube)?;
        }
        let task = stored.task(tube)?;
        if let TaskState::Done(_) = from {
            let text = "it is Done, and can only be deleted";
            return Err(Error::new(ErrorKind::WrongState).because(text).on_task(self.id));
        }
        let to = changed(ctx, &task, &from, changes);
        let mut to = to.map_err(|error| error.on_task(self.id))?;
        if from.state() != to.state() {
            keys::admits(ctx, &task, (&from, to.state()))?;
        }
        let is_placed = changes.priority.is_some() || changes.is_moved();
        // A task that stands ahead of every priority has its own place again.
        let own = if is_placed { to.progress_mut().take_own_rank() } else { None };
        let place = TaskRef { place: own.unwrap_or(task.place), ..task };
        let place = place.place_with(changes.priority);
        let is_same = match (&from, &to) {
            (TaskState::Fresh(old), TaskState::Ready(new)) => old == new,
            (from, to) => from == to,
        };
        if is_same && place == task.place {
            return Ok(());
        }
        transition::move_to_rank(ctx, &task, (&from, &to), place, Cause::Update)
    }
}

/// Refuses what the tube's kind does not allow, and times that mean nothing.
pub(crate) fn check(tube: &TubeEntry, changes: &Changes) -> Result<()> {
    let kind = tube.row.options.kind;
    let switches = kind.switches();
    let off = match changes {
        Changes { priority: Some(_), .. } if !switches.priority => Some("priority"),
        _ if switches.timed => None,
        Changes { ttl: Some(_), .. } => Some("ttl"),
        Changes { ttr: Some(_), .. } => Some("ttr"),
        Changes { delay: Some(_), .. } => Some("delay"),
        Changes { run_at: Some(_), .. } => Some("run_at"),
        _ if changes.retry.backoff.is_some() => Some("backoff"),
        _ => None,
    };
    if let Some(option) = off {
        let text = format!("option {option} with kind {kind:?}");
        return Err(Error::new(ErrorKind::Unsupported).because(text));
    }
    let text = match changes {
        _ if changes.ttl.is_some_and(is_nothing) || changes.ttr.is_some_and(is_nothing) => {
            "ttl and ttr must be at least one microsecond"
        }
        Changes { delay: Some(_), run_at: Some(_), .. } => "set either delay or run_at, not both",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::Invalid).because(text))
}

/// The state after the changes. With a ttl the task's own row was read.
fn changed(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: &TaskState,
    changes: &Changes,
) -> Result<TaskState> {
    let tube = task.tube;
    let is_moved = changes.is_moved();
    let mut progress = match from {
        TaskState::Delayed(row) if is_moved => TaskState::undelayed(row, ctx.now),
        from => from.progress().clone(),
    };
    if let Some(ttl) = changes.ttl {
        let (now, ttl) = (ctx.now.queue, micros(ttl));
        let wait = match from {
            TaskState::Delayed(row) if !is_moved => stored::wait_left(row, ctx.now),
            _ => 0,
        };
        // One that is as it was is no change.
        let is_new = progress.expires != now.saturating_add(ttl).saturating_add(wait);
        let life = task.read.map(|(_, row)| progress.life(row.lives_since()));
        if is_new || life != Some(ttl) {
            progress.begin_life_again(now, ttl);
            progress.add_wait(wait);
        }
    }
    if let Some(ttr) = changes.ttr {
        progress.ttr = micros(ttr);
    }
    retry::set(ctx, tube, &mut progress, changes.retry)?;
    match from {
        TaskState::Fresh(_) | TaskState::Ready(_) | TaskState::Delayed(_) if is_moved => {
            Ok(due_again(ctx, from, progress, changes))
        }
        TaskState::Fresh(_) | TaskState::Ready(_) => Ok(TaskState::Ready(progress)),
        TaskState::Delayed(row) => Ok(TaskState::Delayed(DelayedRow { progress, ..row.clone() })),
        TaskState::Blocked(row) => Ok(TaskState::Blocked(waiting(ctx, row, progress, changes))),
        from if is_moved => {
            let text = format!(
                "it is {:?}, and only one that is ready, delayed or blocked has a delay",
                from.state()
            );
            Err(Error::new(ErrorKind::WrongState).because(text))
        }
        TaskState::Taken(row) => {
            let is_renewed = changes.ttr.is_some() && !is_suspended(ctx, row)?;
            let mut row = TakenRow { progress, ..row.clone() };
            if is_renewed {
                lease_time::extend(ctx, tube, &mut row, Extend::Renew);
            }
            Ok(TaskState::Taken(row))
        }
        // It was refused.
        TaskState::Done(row) => Ok(TaskState::Done(row.clone())),
        TaskState::Buried(row) => {
            let mut row = row.clone();
            row.progress = progress;
            Ok(TaskState::Buried(row))
        }
        TaskState::Trashed(row) => {
            let mut row = row.clone();
            row.progress = progress;
            Ok(TaskState::Trashed(row))
        }
    }
}

/// A blocked task after the changes. A delay that it is given ends by itself, before or after the
/// wait.
fn waiting(
    ctx: &OpContext<'_>,
    row: &BlockedRow,
    progress: TaskProgress,
    changes: &Changes,
) -> BlockedRow {
    let mut row = BlockedRow { progress, ..row.clone() };
    if changes.ttl.is_some() {
        row.since = ctx.now.queue;
    }
    if changes.is_moved() {
        let due = ctx.due(changes.delay, changes.run_at);
        (row.due, row.wall) = due.unwrap_or_default();
    }
    row
}

/// Whether the lease is one of an earlier process that waits for its consumer: its ttr begins when
/// the consumer resumes it.
fn is_suspended(ctx: &OpContext<'_>, row: &TakenRow) -> Result<bool> {
    if row.holder == 0 || row.deadline != NEVER {
        return Ok(false);
    }
    Ok(query::consumer(ctx, row.holder)?.is_some_and(|consumer| row.token <= consumer.void_to))
}

/// Ready or delayed, by the new delay.
fn due_again(
    ctx: &OpContext<'_>,
    from: &TaskState,
    progress: TaskProgress,
    changes: &Changes,
) -> TaskState {
    let holds_group = matches!(from, TaskState::Delayed(row) if row.holds_group);
    match ctx.due(changes.delay, changes.run_at) {
        None => TaskState::Ready(progress),
        Some((due, wall)) => {
            TaskState::delayed(DelayedRow { progress, due, wall, holds_group }, ctx.now)
        }
    }
}
