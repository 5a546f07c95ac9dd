//! Finds a task by its id: the row that gives its state, or the row of a fresh task. Every verb on
//! a task by its id begins here.

use crate::engine::context::{OpContext, sound};
use crate::engine::position;
use crate::engine::stored::{self, StoredTask, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Home, Key, Rank};
use crate::format::{Deadline, Met, Range, Scan, Tag, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::TaskId;

/// The task and its state.
///
/// # Errors
/// `TaskNotFound`, or `Damaged` if one of its rows is damaged.
pub(crate) fn find(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
) -> Result<(StoredTask, TaskState)> {
    let missing = || Error::new(ErrorKind::TaskNotFound).on_task(id);
    let (_, stored, standing) = seek(view, tube, id)?.ok_or_else(missing)?;
    Ok((stored, standing))
}

/// A task as it was found, with the key of the row of its state.
type FoundTask = (Key, StoredTask, TaskState);

/// The task that a deadline is of, in the state that the deadline is of. `None` if it is not.
pub(crate) fn find_due(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    what: Deadline,
) -> Result<Option<FoundTask>> {
    let key = match what {
        Deadline::Delay | Deadline::RunAt => key::delayed(tube.run(), id),
        Deadline::Ttr => key::taken(tube.run(), id),
        // A damaged one stays for the verb that it is next for.
        Deadline::Ttl => return sound(seek(ctx, tube, id)).map(Option::flatten),
    };
    let found = look(ctx, tube, key::copy(&key));
    ctx.or_repair(tube, || key, found).map(Option::flatten)
}

fn look(view: &dyn View, tube: &TubeEntry, key: Key) -> Result<Option<FoundTask>> {
    if Range::holding(&key).is_none_or(|range| view.count(range) == 0) {
        return Ok(None);
    }
    let Some(raw) = view.get(&key)? else { return Ok(None) };
    let (stored, standing) = stored::open(view, tube, &key, &raw)?;
    Ok(Some((key, stored, standing)))
}

/// The keys that the state row of a task has in the states whose keys contain its rank, and the key
/// of a fresh task's row.
fn ranked_keys(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<([Key; 2], Key)> {
    let (rank, place, group) = position::of(view, tube, id)?;
    let ready = ready_key(tube, group.as_deref(), &place, id);
    let fresh = key::task(tube.run(), &Home { rank, is_fresh: true }, id);
    Ok(([ready, key::buried(tube.run(), &place, id)], fresh))
}

fn seek(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<Option<FoundTask>> {
    for key in [key::taken(tube.run(), id), key::delayed(tube.run(), id)] {
        if let Some(found) = look(view, tube, key)? {
            return Ok(Some(found));
        }
    }
    // A row that gives a state comes before the task's own.
    let (states, fresh) = ranked_keys(view, tube, id)?;
    for key in states.into_iter().chain([fresh]) {
        if let Some(found) = look(view, tube, key)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The row that gives the state of the task of this id, also if its value is damaged; another than
/// this row.
pub(crate) fn state_row(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    at: Option<&Key>,
) -> Result<Option<Met>> {
    let mut keys = vec![key::taken(tube.run(), id), key::delayed(tube.run(), id)];
    match sound(ranked_keys(view, tube, id))? {
        Some((states, _)) => keys.extend(states),
        None => keys.extend(ranked_key(view, tube, id)?),
    }
    for key in keys.iter().filter(|key| Some(*key) != at) {
        let may_exist = Range::holding(key).is_some_and(|range| view.count(range) > 0);
        if may_exist && let Some(met) = view.row(key)? {
            return Ok(Some(met));
        }
    }
    Ok(None)
}

/// The key of the row that gives the state of a task whose position row is damaged, if the key
/// contains the rank. Reads all ready and all buried tasks of the tube.
#[cold]
fn ranked_key(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<Option<Key>> {
    for tag in [Tag::Ready, Tag::Line, Tag::Buried] {
        let mut rows = Scan::over(tube.range(tag));
        while let Some((key, _)) = rows.next(view)? {
            if key::id_of(&key) == Some(id) {
                return Ok(Some(key));
            }
        }
    }
    Ok(None)
}

/// The key of the row of a ready task.
#[inline(always)]
pub(crate) fn ready_key(tube: &TubeEntry, group: Option<&str>, place: &Rank, id: TaskId) -> Key {
    match group {
        Some(group) => key::line(tube.run(), group, place, id),
        None => key::ready(tube.run(), place, id),
    }
}
