//! The caller's own keys: which task a key names, and the rows that lead from a key to its tasks. A
//! task with a key has such a row in its tube, among those that count for the key or among the
//! others, and a second one in the queue if its tube's keys are unique there. Which task a put then
//! keeps or puts again is not decided here.

use crate::engine::context::{OpContext, damaged, sound};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{lookup, retention};
use crate::format::feature::UNIQUE;
use crate::format::key::{self, Key};
use crate::format::{Range, Tag, Value, View, row};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::SWEEP_TASKS;
use crate::words::task::{State, TaskId};
use smallvec::SmallVec;

/// Whether a task of the tube in this state counts for its key.
pub(crate) fn counts(tube: &TubeEntry, state: &TaskState) -> bool {
    !matches!(state, TaskState::Trashed(_)) && tube.row.options.unique.counts(state.state())
}

/// The rows of the key of a task in this state. One in the trash has none.
pub(crate) fn rows(task: &TaskRef<'_>, state: &TaskState) -> SmallVec<[(Key, Value); 2]> {
    let mut rows = SmallVec::new();
    let has_rows = match state {
        TaskState::Trashed(_) => false,
        TaskState::Done(row) => row.has_key_rows,
        _ => true,
    };
    if let Some(text) = task.key().filter(|_| has_rows) {
        let (tube, counts) = (task.tube, counts(task.tube, state));
        rows.push((key::key(tube.run(), text, counts, task.id), Value::EMPTY));
        if tube.row.options.unique.in_queue {
            let number = row::number(u64::from(tube.number));
            rows.push((key::queue_key(text, counts, task.id), number));
        }
    }
    rows
}

/// Writes the rows of the key of a task that comes to its tube.
#[cold]
pub(crate) fn add(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, to: &TaskState) {
    for (key, value) in rows(task, to) {
        add_row(ctx, key, value);
    }
}

/// Removes the rows of the key of a task that leaves its tube.
#[cold]
pub(crate) fn remove(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, from: &TaskState) {
    for (key, _) in rows(task, from) {
        ctx.remove(key);
    }
}

/// Moves the rows of the key of a task that goes from one state to another.
pub(crate) fn shift(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    (from, to): (&TaskState, &TaskState),
) {
    if task.key().is_none() {
        return;
    }
    let (old, new) = (rows(task, from), rows(task, to));
    if old == new {
        return;
    }
    for (key, _) in old {
        ctx.remove(key);
    }
    for (key, value) in new {
        add_row(ctx, key, value);
    }
}

fn add_row(ctx: &mut OpContext<'_>, key: Key, value: Value) {
    let is_old = key.first() == Some(&(Tag::Key as u8));
    if !is_old && !key::is_temporary(&key) {
        ctx.needs(&UNIQUE);
    }
    ctx.add(key, value);
}

/// Removes the queue's row of a key when a sweep removes its row under the run.
pub(crate) fn forget(ctx: &mut OpContext<'_>, in_tube: &[u8]) -> Result<()> {
    if let Some(key) = key::queue_key_beside(in_tube)
        && ctx.count(Range::of(Tag::KeyOfQueue)) > 0
        && ctx.row(&key)?.is_some()
    {
        ctx.remove(key);
    }
    Ok(())
}

/// A task that a key leads to, and its tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyedTask {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
}

/// The task that a key names: of those that count for it, or of the others, the one with the
/// highest id.
pub(crate) fn named(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    text: &str,
    counts: bool,
) -> Result<Option<KeyedTask>> {
    if tube.row.options.unique.in_queue {
        return named_in_queue(ctx, text, counts);
    }
    let id = newest(ctx, &key::key_of(tube.run(), text, counts))?;
    Ok(id.map(|id| KeyedTask { tube: tube.number, id }))
}

/// The task of the last row of a key.
fn newest(view: &dyn View, all: &Key) -> Result<Option<TaskId>> {
    Ok(last_below(view, all, u64::MAX)?.map(|(id, _)| id))
}

/// The task of the last row of a key before this id, and what the row says. Mostly there is one
/// row. Several are in the order of their ids, and the last one is found by halves.
fn last_below(view: &dyn View, all: &Key, limit: u64) -> Result<Option<(TaskId, Option<Value>)>> {
    let end = key::with_id(all.clone(), TaskId::new(limit));
    let first_from = |from: &Key| -> Result<Option<(TaskId, Option<Value>)>> {
        let Some((met, row)) = view.first(from, &end)? else { return Ok(None) };
        let id = key::id_of(&met).ok_or_else(|| damaged("key"))?;
        Ok(Some((id, row)))
    };
    let Some(mut last) = first_from(all)? else { return Ok(None) };
    let (mut limit, mut next) = (limit, last.0.get().saturating_add(1));
    while next < limit {
        match first_from(&key::with_id(all.clone(), TaskId::new(next)))? {
            Some(later) => last = later,
            None => limit = next,
        }
        let above = last.0.get().saturating_add(1);
        next = above.saturating_add(limit.saturating_sub(above) / 2);
    }
    Ok(Some(last))
}

/// The same in the queue. The newest rows may lead to tasks of tubes that were dropped or
/// truncated, which a sweep still has to remove, or to tasks in other tubes whose removal is due.
/// Of these so many are passed by as a turn looks at; then the key is free.
#[cold]
fn named_in_queue(ctx: &OpContext<'_>, text: &str, counts: bool) -> Result<Option<KeyedTask>> {
    let (all, mut limit) = (key::queue_key_of(text, counts), u64::MAX);
    for _ in 0..SWEEP_TASKS {
        let Some((id, number)) = last_below(ctx, &all, limit)? else { return Ok(None) };
        let number = number.as_deref().and_then(row::read_number);
        if let Some(tube) = number.and_then(|number| u32::try_from(number).ok())
            && is_alive(ctx, tube, id)?
        {
            return Ok(Some(KeyedTask { tube, id }));
        }
        limit = id.get();
    }
    Ok(None)
}

fn is_alive(ctx: &OpContext<'_>, number: u32, id: TaskId) -> Result<bool> {
    let tube = match ctx.tube(number) {
        Err(error) if error.is_not_found() => return Ok(false),
        tube => tube?,
    };
    match lookup::find(ctx, &tube, id) {
        Err(error) if error.is_not_found() => Ok(false),
        // A damaged one has its key until it is repaired.
        found => {
            Ok(sound(found)?.is_none_or(|(_, state)| !retention::is_past_end(ctx, &tube, &state)))
        }
    }
}

/// Refuses that a task counts for a key of the tube which another one has.
///
/// # Errors
/// `KeyExists`.
pub(crate) fn is_free(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    (text, id): (Option<&str>, TaskId),
) -> Result<()> {
    let Some(text) = text else { return Ok(()) };
    match named(ctx, tube, text, true)? {
        Some(other) if other.id != id => {
            Err(Error::new(ErrorKind::KeyExists).because(text).on_task(other.id))
        }
        _ => Ok(()),
    }
}

/// The same for a step of a task in its tube: only one that makes it count is refused.
pub(crate) fn admits(
    ctx: &OpContext<'_>,
    task: &TaskRef<'_>,
    (from, to): (&TaskState, State),
) -> Result<()> {
    match task.tube.row.options.unique.counts(to) && !counts(task.tube, from) {
        true => is_free(ctx, task.tube, (task.key(), task.id)),
        false => Ok(()),
    }
}
