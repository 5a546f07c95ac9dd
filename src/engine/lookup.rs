//! Finds a task by its id: the row that gives its state, or the row of a fresh task. Every verb on
//! a task by its id begins here.

use crate::engine::context::{OpContext, decoded, sound};
use crate::engine::position;
use crate::engine::stored::{self, StoredTask, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Home, Key, Rank, Run};
use crate::format::row::{PositionRow, TaskRow};
use crate::format::{Deadline, Met, Range, Scan, Tag, Value, View};
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
    let (_, stored, state) = seek(view, tube, id)?.ok_or_else(missing)?;
    Ok((stored, state))
}

/// The same of a task that waits for others, if it does.
pub(crate) fn find_blocked(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
) -> Result<Option<(StoredTask, TaskState)>> {
    let found = look(view, tube, key::blocked(tube.run(), id))?;
    Ok(found.map(|(_, stored, state)| (stored, state)))
}

/// A task as it was found, with the key of the row of its state.
type FoundTask = (Key, StoredTask, TaskState);

/// The task that a deadline is of, in the state that the deadline is of. `None` if it is not. The
/// row of the end of a delay has a copy of the state; without a sound copy the state's row is read.
pub(crate) fn find_due(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    what: Deadline,
    row: Option<&Value>,
) -> Result<Option<FoundTask>> {
    let key = match what {
        Deadline::Delay | Deadline::RunAt => key::delayed(tube.run(), id),
        Deadline::Ttr => key::taken(tube.run(), id),
        // A damaged one stays for the verb that it is next for.
        Deadline::Ttl => return sound(seek(ctx, tube, id)).map(Option::flatten),
    };
    if let Some(copy) = row.filter(|_| what != Deadline::Ttr)
        && let Some((stored, state)) = sound(stored::open(ctx, tube, &key, copy))?
    {
        return Ok(Some((key, stored, state)));
    }
    let found = look(ctx, tube, key::copy(&key));
    ctx.or_repair(tube, || key, found).map(Option::flatten)
}

/// A delayed task by the copy of its state, the row of which is this one and damaged. Reads the
/// ends of all delays of the tube.
pub(crate) fn copied(
    view: &dyn View,
    tube: &TubeEntry,
    at: &Key,
) -> Result<Option<(StoredTask, TaskState)>> {
    for what in Deadline::OF_DELAYED {
        let mut rows = Scan::prefixed(key::due_of(tube.run(), what));
        while let Some((met, copy)) = rows.next(view)? {
            if key::id_of(&met) != key::id_of(at) {
                continue;
            }
            let opened = copy.map(|copy| sound(stored::open(view, tube, at, &copy)));
            return opened.transpose().map(Option::flatten);
        }
    }
    Ok(None)
}

fn look(view: &dyn View, tube: &TubeEntry, key: Key) -> Result<Option<FoundTask>> {
    if Range::holding(&key).is_none_or(|range| view.count(range) == 0) {
        return Ok(None);
    }
    let Some(raw) = view.get(&key)? else { return Ok(None) };
    let (stored, state) = stored::open(view, tube, &key, &raw)?;
    Ok(Some((key, stored, state)))
}

/// The keys that the row of a task may have in the states whose keys contain its rank.
fn ranked_keys(tube: &TubeEntry, id: TaskId, place: &Rank, group: Option<&str>) -> [Key; 3] {
    let run = tube.run();
    [ready_key(tube, group, place, id), key::buried(run, place, id), key::trashed(run, place, id)]
}

/// The group of the task of this id that was put here. Its own row is not read if no task of the
/// tube is in a line.
///
/// # Errors
/// `Damaged` if its own row is damaged.
fn group_in_line(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    home: Rank,
) -> Result<Option<String>> {
    if view.count(tube.range(Tag::Line)) == 0 {
        return Ok(None);
    }
    Ok(own_group(view, tube, id, home)?.unwrap_or_else(|| tube.plain_group().map(str::to_owned)))
}

/// The group in the own row of the task of this id that was put here; `None` without such a row.
///
/// # Errors
/// `Damaged` if its own row is damaged.
pub(crate) fn own_group(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    rank: Rank,
) -> Result<Option<Option<String>>> {
    for is_fresh in [false, true] {
        let own = view.get(&key::task(tube.run(), &Home { rank, is_fresh }, id));
        let group = |row: &[u8]| TaskRow::decode(row).map(|row| row.group.map(str::to_owned));
        if let Some(group) = decoded(own, group, "task")? {
            return Ok(Some(group));
        }
    }
    Ok(None)
}

/// The key of the row of a state that does not contain the rank.
type KeyOf = fn(Run, TaskId) -> Key;

fn seek(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<Option<FoundTask>> {
    let run = tube.run();
    let by_id: [(Tag, KeyOf); 4] = [
        (Tag::Taken, key::taken),
        (Tag::Delayed, key::delayed),
        (Tag::Done, key::done),
        (Tag::Blocked, key::blocked),
    ];
    for (tag, key) in by_id {
        if view.count(tube.range(tag)) > 0
            && let Some(found) = look(view, tube, key(run, id))?
        {
            return Ok(Some(found));
        }
    }
    let PositionRow { home, place } = position::of(view, tube, id)?;
    let group = group_in_line(view, tube, id, home)?;
    // A row that gives a state comes before the task's own.
    let fresh = key::task(tube.run(), &Home { rank: home, is_fresh: true }, id);
    for key in ranked_keys(tube, id, &place, group.as_deref()).into_iter().chain([fresh]) {
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
    let run = tube.run();
    let mut keys =
        vec![key::taken(run, id), key::delayed(run, id), key::done(run, id), key::blocked(run, id)];
    match sound(position::of(view, tube, id))? {
        Some(PositionRow { home, place }) => {
            // Without the task's own row its group is not known.
            let group = sound(group_in_line(view, tube, id, home))?.flatten();
            keys.extend(ranked_keys(tube, id, &place, group.as_deref()));
        }
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

/// Where the own row of a task is whose position row is damaged. Reads all tasks of the tube.
#[cold]
pub(crate) fn own_home(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<Option<Home>> {
    for tag in Tag::TASKS {
        let mut rows = Scan::over(tube.range(tag));
        while let Some((met, _)) = rows.next(view)? {
            let rank =
                key::place_of(&met, key::RUN_PREFIX).filter(|_| key::id_of(&met) == Some(id));
            if let Some(rank) = rank {
                return Ok(Some(Home { rank, is_fresh: tag == Tag::Fresh }));
            }
        }
    }
    Ok(None)
}

/// The key of the row that gives the state of a task whose position row is damaged, if the key
/// contains the rank. Reads all ready and all buried tasks of the tube.
#[cold]
fn ranked_key(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<Option<Key>> {
    for tag in [Tag::Ready, Tag::Line, Tag::Buried, Tag::Trashed] {
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
