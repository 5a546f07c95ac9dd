//! Tasks whose history, reports or tags are not as their progress says.

use super::tasks::find;
use super::{Mended, done};
use crate::engine::audit::is_sound_report;
use crate::engine::context::OpContext;
use crate::engine::pieces::Owner;
use crate::engine::stored::TaskState;
use crate::engine::{edges, history, state_rows, tags, transition};
use crate::format::View;
use crate::format::extension::Extension;
use crate::format::key::{self, Direction};
use crate::format::row::{EdgeCounts, HistoryRow, StoredHistory, StoredReports, TaskProgress};
use crate::words::clock::NEVER;
use crate::words::error::Result;
use crate::words::history::HistoryEvent;
use crate::words::limits::HISTORY_ENTRIES_MAX;
use crate::words::task::{Cause, TaskId};

const ENTRY_LOST: &str = "this entry was damaged or missing";

/// Makes the progress of a task say which entries and reports there are, and whether there are
/// tags.
pub(super) fn count(ctx: &mut OpContext<'_>, number: u32, id: TaskId) -> Mended {
    let tube = &*ctx.tube(number)?;
    let Some((stored, mut state)) = find(ctx, tube, id)? else { return Ok(None) };
    let run = tube.run();
    if let Some(stored) = state.progress().history() {
        let counted = entries(ctx, (run, id), stored)?;
        let _fits = state.progress_mut().set_history(counted);
    }
    let mut left = StoredReports::default();
    for part in state.progress().reports().parts() {
        let at = key::report(run, id, part);
        match ctx.row(&at)? {
            Some((_, Some(row))) if is_sound_report(part, &row) => left = left.with(part),
            Some(_) => ctx.remove(at),
            None => {}
        }
    }
    let _fits = state.progress_mut().set_reports(left);
    tags::recover(ctx, run, id, state.progress_mut())?;
    tags::write_again(ctx, tube, id)?;
    let task = stored.task(tube)?;
    let Some((key, value)) = state_rows::state_row(&task, &state) else { return Ok(None) };
    if ctx.row(&key)?.and_then(|(_, row)| row).as_ref() != Some(&value) {
        ctx.set(key, value)?;
    }
    done("what is left of it was counted again; a lost entry says that it is lost")
}

/// Writes the row of the tags of a task again, with those that still lead to it.
pub(super) fn tags(
    ctx: &mut OpContext<'_>,
    (number, id): (u32, TaskId),
    found: &[(String, u64)],
) -> Mended {
    let run = ctx.tube(number)?.run();
    let mut left = Vec::new();
    for (tag, time) in found {
        if ctx.row(&key::tagged_task(run, tag, *time, id))?.is_some() {
            left.push((tag.clone(), *time));
        }
    }
    if tags::row_of(ctx, run, id)?.is_none()
        && let Some(row) = tags::row_with(left)
    {
        ctx.set(key::task_tags(run, id), row)?;
    }
    count(ctx, number, id)
}

/// Counts the entries of a history, and writes those that are damaged or missing again, without
/// what they said.
fn entries(
    ctx: &mut OpContext<'_>,
    (run, id): Owner,
    stored: StoredHistory,
) -> Result<StoredHistory> {
    if stored.next.saturating_sub(stored.first) > HISTORY_ENTRIES_MAX {
        let mut progress = TaskProgress::fresh(NEVER, NEVER);
        history::recover(ctx, run, id, &mut progress)?;
        return Ok(progress.history().unwrap_or_default());
    }
    let mut bytes = 0_u32;
    for number in stored.first..stored.next {
        let at = key::history(run, id, number);
        let row = ctx.row(&at)?.and_then(|(_, row)| row);
        if let Some(row) = row.filter(|row| HistoryRow::decode(row).is_some()) {
            bytes = bytes.saturating_add(row.len() as u32);
            continue;
        }
        let (event, extension) = (HistoryEvent::Logged, Extension::default());
        let (when, held, attempt) = (ctx.now.queue, NEVER, 0);
        let (by, place, text) = ("", "", ENTRY_LOST);
        let row = HistoryRow { when, event, attempt, held, by, place, text, extension }.encode();
        bytes = bytes.saturating_add(row.len() as u32);
        ctx.set(at, row)?;
    }
    Ok(StoredHistory { bytes, ..stored })
}

/// Makes the state of a task say which edges it has. One that waits for none any more is released,
/// and one that has open ones waits.
pub(super) fn edges(ctx: &mut OpContext<'_>, number: u32, id: TaskId) -> Mended {
    let tube = &*ctx.tube(number)?;
    let Some((stored, from)) = find(ctx, tube, id)? else { return Ok(None) };
    let (task, run) = (stored.task(tube)?, tube.run());
    let mut to = match from.clone() {
        TaskState::Fresh(progress) => TaskState::Ready(progress),
        state => state,
    };
    edges::recover(ctx, run, id, to.progress_mut())?;
    let is_open = to.progress().edges(Direction::Dependency).open > 0;
    let (to, cause) = match &to {
        TaskState::Blocked(row) if !is_open => {
            (TaskState::released(row, ctx.now), Some(Cause::Unblock))
        }
        TaskState::Ready(_) | TaskState::Delayed(_) if is_open => {
            (to.blocked(ctx.now), Some(Cause::Update))
        }
        TaskState::Taken(_) | TaskState::Done(_) if is_open => {
            // It has gone on without them.
            edges::begin_unlink(ctx, (run, id))?;
            let mut to = to;
            let _fits = to.progress_mut().set_edges(Direction::Dependency, EdgeCounts::default());
            (to, None)
        }
        _ => (to, None),
    };
    let leaves = matches!(to, TaskState::Taken(_) | TaskState::Done(_)) && is_open;
    if cause.is_none() && !leaves && from.progress() == to.progress() {
        return Ok(None);
    }
    match cause {
        Some(cause) => transition::move_task(ctx, &task, &from, &to, cause)?,
        None => transition::restate(ctx, &task, &from, &to)?,
    }
    done("what it waits for, and what waits for it, was counted again")
}
