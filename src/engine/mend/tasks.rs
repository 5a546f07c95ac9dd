//! Tasks that cannot be read, or of which rows are missing. Each is kept under its id: buried, with
//! what other rows still say of it.

use super::{Mended, attempt, done, found};
use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::effects::Change;
use crate::engine::pieces::{self, Owner};
use crate::engine::repair::{self, Repair};
use crate::engine::stored::{self, StoredTask, TaskRef, TaskState};
use crate::engine::transition;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{
    edges, history, kinds, lookup, position, reports, settle, state_rows, statistics, tags,
    task_gates,
};
use crate::format::key::{self, Home, Key, Rank};
use crate::format::row::{BuriedRow, DoneRow, PositionRow, TaskProgress, TaskRow, dropped_section};
use crate::format::{Range, Tag, Value, View};
use crate::words::clock::NEVER;
use crate::words::error::{DamagedRow, Result};
use crate::words::task::{Cause, Reason, State, TaskId};
use std::collections::BTreeSet;

const STATE_LOST: &str = "the row of its state was missing";
const STATE_DAMAGED: &str = "the row of its state was damaged";
pub(super) const PAYLOAD_NOT_KEPT: &str = "its payload was not kept";

/// The task of a row that gives its state, or of its own row without one.
pub(super) fn bury(ctx: &mut OpContext<'_>, number: u32, at: &Key) -> Mended {
    if let Some(done) = keep_done(ctx, number, at)? {
        return Ok(Some(done));
    }
    if is_buried(ctx, number, at)? {
        return done("the task was buried");
    }
    let tube = &*ctx.tube(number)?;
    let (Some(tag), Some(id)) = (at.first().copied().and_then(Tag::of), key::id_of(at)) else {
        return Ok(None);
    };
    // Another row gives its state: the one of this key goes.
    if tag.state().is_some() && lookup::state_row(ctx, tube, id, Some(at))?.is_some() {
        ctx.remove(key::copy(at));
        return done("the row was removed, another one gives the state of the task");
    }
    match tag.state() {
        Some(state) => restate(ctx, tube, (tag, state, id), at),
        None if Tag::TASKS.contains(&tag) => bury_own(ctx, tube, (tag, id), at),
        None => Ok(None),
    }
}

/// Writes the own row of a task again that is done, and of which the row of the state is sound:
/// that one has its result. Its payload stays if it is in pieces that are whole.
fn keep_done(ctx: &mut OpContext<'_>, number: u32, at: &Key) -> Mended {
    let (tag, id) = (at.first().copied().and_then(Tag::of), key::id_of(at));
    let Some(id) = id.filter(|_| tag == Some(Tag::Done)) else { return Ok(None) };
    let tube = &*ctx.tube(number)?;
    let Some((_, Some(raw))) = ctx.row(at)? else { return Ok(None) };
    let opened = sound(stored::open(ctx, tube, at, &raw))?;
    let Some((stored, state @ TaskState::Done(_))) = opened else { return Ok(None) };
    let own = key::task(tube.run(), &stored.home, id);
    let is_sound = |raw: &Value| TaskRow::decode(raw).is_some();
    if ctx.row(&own)?.and_then(|(_, raw)| raw).is_some_and(|raw| is_sound(&raw))
        || lookup::state_row(ctx, tube, id, Some(at))?.is_some()
    {
        return Ok(None);
    }
    let found = pieces::find(ctx, (tube.run(), id))?;
    let is_moved = ctx.row(&key::moved(tube.run(), id))?.is_some();
    let kind = kinds::recover(ctx, tube, id)?;
    let group = stored.stated_group().flatten();
    let mut raw = repair::unknown_task(ctx, &found, (group, kind.as_deref()), is_moved);
    let mut what = "its own row was written again, with its payload, and the task is done";
    if found.whole.is_none() {
        let row = TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
        let Some(section) = dropped_section(row.extension) else { return Ok(None) };
        raw = TaskRow { extension: &section, ..row }.encode();
        what = "its own row was written again, and the task is done: its payload is lost";
    }
    let row = TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
    let task = TaskRef::new(tube, id, (stored.home, stored.place), &raw, row);
    // It says besides what there is in the own row.
    let Some((key, value)) = state_rows::state_row(&task, &state) else { return Ok(None) };
    ctx.set(own, raw.clone())?;
    ctx.set(key, value)?;
    found.discard_others(ctx, (tube.run(), id))?;
    done(what)
}

/// Buries the task of this row as a rule that meets it would. Returns whether it did.
fn is_buried(ctx: &mut OpContext<'_>, tube: u32, at: &Key) -> Result<bool> {
    let row = Repair::Row(DamagedRow { tube, key: at.as_slice().into() });
    let repaired = ctx.repaired.clone();
    let done = attempt(ctx, &repaired, |ctx| row.decide(ctx).map(Some));
    let Some(((), decision)) = found(done)?.flatten() else { return Ok(false) };
    ctx.decision.add_part(decision);
    Ok(true)
}

/// What is known of the progress of a task without a sound row of its state.
fn progress_left(ctx: &OpContext<'_>, (run, id): Owner) -> Result<TaskProgress> {
    let mut progress = TaskProgress::fresh(NEVER, NEVER);
    history::recover(ctx, run, id, &mut progress)?;
    reports::recover(ctx, run, id, &mut progress)?;
    tags::recover(ctx, run, id, &mut progress)?;
    edges::recover(ctx, run, id, &mut progress)?;
    Ok(progress)
}

/// Buries a task that has only its own row.
fn bury_own(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (tag, id): (Tag, TaskId),
    at: &Key,
) -> Mended {
    let Some(rank) = key::place_of(at, key::RUN_PREFIX) else { return Ok(None) };
    // A row of its state that is damaged is a fault of its own, and its key says what it was.
    if lookup::state_row(ctx, tube, id, None)?.is_some() {
        return Ok(None);
    }
    let home = Home { rank, is_fresh: tag == Tag::Fresh };
    let progress = progress_left(ctx, (tube.run(), id))?;
    let own = ctx.row(at)?.and_then(|(_, row)| row);
    let row = own.as_deref().and_then(TaskRow::decode);
    let state = if row.is_some_and(|row| row.is_payload_dropped()) {
        // Only a task that was done is kept like this.
        let time = repair::ended(ctx, tube, id)?.unwrap_or(ctx.now.queue);
        TaskState::Done(DoneRow { progress, time, result: None, has_key_rows: true })
    } else {
        settle::buried(ctx, tube, progress, &Reason::Undecodable(STATE_LOST.to_owned()))
    };
    write_state(ctx, tube, (id, home, rank), &state, LeftOver::default())
}

/// Writes the row of a state again that cannot be read.
fn restate(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (tag, state, id): (Tag, State, TaskId),
    at: &Key,
) -> Mended {
    let position = sound(position::of(ctx, tube, id))?;
    let in_key = key::rank_in_state(tag, at).filter(|_| tag_has_place(tag));
    // Without its position row its own row says where it was put, and without that nothing does.
    let own = match position {
        Some(_) => None,
        None => lookup::own_home(ctx, tube, id)?.map(|home| home.rank),
    };
    let rank = position.as_ref().map(|row| row.home).or(own).or(in_key);
    let place = in_key.or(position.map(|row| row.place)).or(own);
    let plain = position::plain(tube, id);
    let (place, rank) = place.zip(rank).unwrap_or((plain, plain));
    let is_fresh = ctx.row(&key::task(tube.run(), &Home { rank, is_fresh: true }, id))?.is_some();
    let home = Home { rank, is_fresh };
    let progress = progress_left(ctx, (tube.run(), id))?;
    let time = ctx.now.queue;
    let known = LeftOver { state: Some(state), ..LeftOver::default() };
    let state = match state {
        State::Done => {
            TaskState::Done(DoneRow { progress, time, result: None, has_key_rows: true })
        }
        State::Buried if tag == Tag::Trashed => {
            let reason = Reason::Trashed(STATE_DAMAGED.to_owned());
            TaskState::Trashed(BuriedRow { progress, time, reason })
        }
        State::Ready | State::Delayed | State::Blocked | State::Taken | State::Buried => {
            let reason = Reason::Undecodable(STATE_DAMAGED.to_owned());
            settle::buried(ctx, tube, progress, &reason)
        }
    };
    let key = match &state {
        TaskState::Buried(_) => key::buried(tube.run(), &place, id),
        TaskState::Trashed(_) => key::trashed(tube.run(), &place, id),
        _ => key::done(tube.run(), id),
    };
    let done = write_state(ctx, tube, (id, home, place), &state, known)?;
    if done.is_some() && key != *at {
        ctx.remove(key::copy(at));
    }
    Ok(done)
}

fn tag_has_place(tag: Tag) -> bool {
    matches!(tag, Tag::Ready | Tag::Line | Tag::Buried | Tag::Trashed)
}

/// What rows say of a task that has no row of its own.
#[derive(Default)]
pub(super) struct LeftOver {
    text: Option<String>,
    group: Option<String>,
    /// The state that it was in, if the key of a damaged row says that.
    state: Option<State>,
}

/// Writes the row of the state of a task, and its own row if that is damaged or missing. The rows
/// that follow from them are written by later fixes.
fn write_state(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (id, home, place): (TaskId, Home, Rank),
    state: &TaskState,
    known: LeftOver,
) -> Mended {
    let mut state = state.clone();
    let (run, own) = (tube.run(), ctx.row(&key::task(tube.run(), &home, id))?);
    let is_sound = |raw: &Value| TaskRow::decode(raw).is_some();
    let apart = Home { is_fresh: false, ..home };
    let (raw, found) = match own.as_ref().and_then(|(_, raw)| raw.clone()).filter(is_sound) {
        Some(raw) => (raw, None),
        None => {
            let found = pieces::find(ctx, (run, id))?;
            let is_moved = ctx.row(&key::moved(run, id))?.is_some();
            let kind = kinds::recover(ctx, tube, id)?;
            // Without its group it stands in the line of its gates.
            let own = state.progress().gates().map(str::to_owned);
            let (group, gates) = task_gates::stand(tube, known.group.as_deref(), own.as_deref());
            let raw = repair::unknown_task(ctx, &found, (group, kind.as_deref()), is_moved);
            let row = TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
            task_gates::set(state.progress_mut(), gates)?;
            (TaskRow { key: known.text.as_deref(), ..row }.encode(), Some(found))
        }
    };
    let row = TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
    let task = TaskRef::new(tube, id, (apart, place), &raw, row);
    let Some((key, value)) = state_rows::state_row(&task, &state) else { return Ok(None) };
    // Its own row leaves the fresh ones, because the task may stand between tasks that are fresh.
    if own.is_some() && home.is_fresh {
        ctx.remove(key::task(run, &home, id));
    }
    ctx.set(key::task(run, &apart, id), raw.clone())?;
    ctx.set(key, value)?;
    let has_payload = found.is_none();
    if let Some(found) = found {
        found.discard_others(ctx, (run, id))?;
    }
    let (from, to) = (known.state, Some(state.state()));
    if from != to && to == Some(State::Buried) {
        statistics::failure(ctx, tube)?;
        let (tube, task, cause) = (tube.number, id, Cause::Bury);
        ctx.effects().changes.push(Change { tube, task, from, to, cause });
        transition::note_tracked(ctx, id)?;
    }
    let what = match &state {
        TaskState::Done(_) => "the task is done, as it was",
        TaskState::Trashed(_) => "the task stays in the trash",
        _ => "the task was buried",
    };
    let left = if has_payload { "" } else { ", with what is left of it" };
    Ok(Some(format!("{what}{left}")))
}

/// Removes rows of a task that is in another tube. What is beside it, under no tube, stays with it.
pub(super) fn remove_double(ctx: &mut OpContext<'_>, keys: &[Key]) -> Mended {
    let mut is_any = false;
    for key in keys {
        if ctx.row(key)?.is_some() {
            ctx.remove(key::copy(key));
            is_any = true;
        }
    }
    Ok(is_any.then(|| "what stood here was removed, the task stays where it is".to_owned()))
}

/// Brings back a task of which only these rows are left. Of a task that never was they go.
pub(super) fn bring_back(ctx: &mut OpContext<'_>, number: u32, id: TaskId, keys: &[Key]) -> Mended {
    if !was_given(ctx, id) {
        return remove_all(ctx, keys);
    }
    let tube = &*ctx.tube(number)?;
    let (mut known, mut tags) = (LeftOver::default(), BTreeSet::new());
    for key in keys {
        let Some(tag) = Range::holding(key).map(|range| range.tag) else { continue };
        tags.insert(tag);
        if matches!(tag, Tag::Key | Tag::KeyUncounted) {
            // The text of a key and the name of a group stand in the same way.
            known.text = key::group_of(key).map(str::to_owned);
        } else if matches!(tag, Tag::OpenHead | Tag::ClosedHead) {
            let row = ctx.row(key)?.and_then(|(_, row)| row);
            let group = row.as_deref().and_then(|row| std::str::from_utf8(row).ok());
            known.group = group.filter(|group| group.len() < 256).map(str::to_owned);
        }
    }
    let tags: Vec<_> = tags.into_iter().map(|tag| format!("{tag:?}")).collect();
    let reason = format!("its own rows were missing; of it were left: {}", tags.join(", "));
    let done = bring_back_in(ctx, tube, id, reason, known)?;
    Ok(done.map(|_| "the task was brought back, buried, with what is left of it".to_owned()))
}

pub(super) fn bring_back_in(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    reason: String,
    known: LeftOver,
) -> Mended {
    let plain = position::plain(tube, id);
    let position = sound(position::of(ctx, tube, id))?;
    let PositionRow { home, place } = position.unwrap_or(PositionRow { home: plain, place: plain });
    let progress = progress_left(ctx, (tube.run(), id))?;
    let state = settle::buried(ctx, tube, progress, &Reason::Undecodable(reason));
    let home = Home { rank: home, is_fresh: false };
    write_state(ctx, tube, (id, home, place), &state, known)
}

pub(super) fn was_given(ctx: &OpContext<'_>, id: TaskId) -> bool {
    (1..ctx.numbers.next.ids).contains(&id.get())
}

fn remove_all(ctx: &mut OpContext<'_>, keys: &[Key]) -> Mended {
    for key in keys {
        if ctx.row(key)?.is_some() {
            ctx.remove(key::copy(key));
        }
    }
    done("the rows were removed: there was no such task")
}

/// Gives a fresh task a row of its state.
pub(super) fn unfresh(ctx: &mut OpContext<'_>, number: u32, at: &Key) -> Mended {
    let tube = &*ctx.tube(number)?;
    let Some((_, Some(raw))) = ctx.row(at)? else { return Ok(None) };
    let Some((stored, TaskState::Fresh(progress))) = sound(stored::open(ctx, tube, at, &raw))?
    else {
        return Ok(None);
    };
    let apart = Home { is_fresh: false, ..stored.home };
    let task = TaskRef { home: apart, ..stored.task(tube)? };
    let Some((key, value)) = state_rows::state_row(&task, &TaskState::Ready(progress)) else {
        return Ok(None);
    };
    ctx.remove(key::copy(at));
    ctx.set(key::task(tube.run(), &apart, task.id), raw.clone())?;
    ctx.set(key, value)?;
    ctx.effects().wake(number, 1);
    done("that one got a row of its state")
}

/// A task that can be read, and its state.
pub(super) fn find(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
) -> Result<Option<(StoredTask, TaskState)>> {
    let found_it = lookup::find(ctx, tube, id);
    found(found_it.and_then(|(stored, state)| Ok((stored.whole(ctx, tube)?, state))))
}

/// Returns a task whose consumer does not exist.
pub(super) fn release(ctx: &mut OpContext<'_>, number: u32, id: TaskId) -> Mended {
    let tube = &*ctx.tube(number)?;
    let Some((stored, TaskState::Taken(taken))) = find(ctx, tube, id)? else { return Ok(None) };
    settle::return_task(ctx, &stored.task(tube)?, taken, Cause::Close)?;
    done("the task was released")
}

/// Buries a task that waits and has no payload that can be read. It says why until a new one
/// replaces that. A taken one keeps its holder, whose verdict ends it.
pub(super) fn bury_without_payload(
    ctx: &mut OpContext<'_>,
    (number, id): (u32, TaskId),
    why: &str,
) -> Mended {
    let tube = &*ctx.tube(number)?;
    let Some((stored, state)) = find(ctx, tube, id)? else { return Ok(None) };
    let progress = match &state {
        TaskState::Fresh(progress) | TaskState::Ready(progress) => progress.clone(),
        TaskState::Delayed(row) => row.progress.clone(),
        TaskState::Blocked(row) => TaskState::unblocked(row, ctx.now),
        _ => return Ok(None),
    };
    let task = stored.task(tube)?;
    let reason = Reason::Undecodable(why.to_owned());
    let mut to = settle::buried(ctx, tube, progress, &reason);
    let noted = history::note(ctx, &task, (&state, &mut to), Cause::Bury)?;
    transition::move_task(ctx, &task, &state, &to, Cause::Bury)?;
    noted.write(ctx);
    done("the task was buried, its payload is lost")
}
