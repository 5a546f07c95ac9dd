//! The state of a task, and the one way to change it: [`move_task`]. A task has exactly one state
//! row; the other rows of a state (deadlines, the group's line, the holder's list) are derived here
//! and nowhere else.

use crate::engine::context::{OpContext, sound};
use crate::engine::effects::Change;
use crate::engine::pieces::{self, PiecesFound};
use crate::engine::stored::{self, StoredTask, TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{groups, position};
use crate::format::key::{self, Key, Rank};
use crate::format::row::{BuriedRow, TakenRow, TaskRow};
use crate::format::{Deadline, Met, Range, Tag, Value, View};
use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use crate::words::task::{Cause, TaskId};
use smallvec::SmallVec;

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
    let (tag, key) = match what {
        Deadline::Delay | Deadline::RunAt => (Tag::Delayed, key::delayed(tube.run(), id)),
        Deadline::Ttr => (Tag::Taken, key::taken(tube.run(), id)),
        // A damaged one stays for the verb that it is next for.
        Deadline::Ttl => return sound(seek(ctx, tube, id)).map(Option::flatten),
    };
    let found = look(ctx, tube, (tag, id, None), key::copy(&key));
    ctx.or_repair(tube, || key, found).map(Option::flatten)
}

fn look(
    view: &dyn View,
    tube: &TubeEntry,
    at: (Tag, TaskId, Option<Rank>),
    key: Key,
) -> Result<Option<FoundTask>> {
    if view.count(tube.range(at.0)) == 0 {
        return Ok(None);
    }
    let Some(raw) = view.get(&key)? else { return Ok(None) };
    let (stored, standing) = stored::open(view, tube, at, &raw)?;
    Ok(Some((key, stored, standing)))
}

fn seek(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<Option<FoundTask>> {
    let run = tube.run();
    for (tag, key) in [(Tag::Taken, key::taken(run, id)), (Tag::Delayed, key::delayed(run, id))] {
        if let Some(found) = look(view, tube, (tag, id, None), key)? {
            return Ok(Some(found));
        }
    }
    let (_, place, group) = position::of(view, tube, id)?;
    let ready = match &group {
        Some(group) => (Tag::Line, key::line(run, group, &place, id)),
        None => (Tag::Ready, key::ready(run, &place, id)),
    };
    for (tag, key) in [ready, (Tag::Buried, key::buried(run, &place, id))] {
        if let Some(found) = look(view, tube, (tag, id, Some(place)), key)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Whether the task of this id has another state row than this one.
pub(crate) fn has_other_state(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    at: &Key,
) -> Result<bool> {
    let run = tube.run();
    let mut keys = vec![key::taken(run, id), key::delayed(run, id)];
    match position::of(view, tube, id) {
        Ok((_, place, group)) => keys.extend([
            key::buried(run, &place, id),
            match &group {
                Some(group) => key::line(run, group, &place, id),
                None => key::ready(run, &place, id),
            },
        ]),
        Err(error) if error.kind() == ErrorKind::Damaged => {}
        Err(error) => return Err(error),
    }
    for key in keys.iter().filter(|key| *key != at) {
        if view.first(key, &key::after(key))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The key of the row that gives a standing.
#[inline(always)]
pub(crate) fn state_key(tube: &TubeEntry, task: &TaskRef<'_>, standing: &TaskState) -> Key {
    let (run, id) = (tube.run(), task.id);
    match (standing, task.group) {
        (TaskState::Ready(_), Some(group)) => key::line(run, group, &task.place, id),
        (TaskState::Ready(_), None) => key::ready(run, &task.place, id),
        (TaskState::Delayed(_), _) => key::delayed(run, id),
        (TaskState::Taken(_), _) => key::taken(run, id),
        (TaskState::Buried(_), _) => key::buried(run, &task.place, id),
    }
}

/// The value of the state row.
#[inline]
pub(crate) fn state_value(tube: &TubeEntry, task: &TaskRef<'_>, standing: &TaskState) -> Value {
    let home = Some(&task.home).filter(|home| **home != task.place);
    match standing {
        TaskState::Ready(head) => head.encode(home),
        TaskState::Delayed(delayed) => delayed.encode(&task.away(tube), home),
        TaskState::Taken(taken) => taken.encode(&task.away(tube), home),
        TaskState::Buried(buried) => buried.encode(home),
    }
}

/// The deadlines of a state: the task's own, and its lease's; [`NEVER`] is none.
pub(crate) fn deadlines(tube: &TubeEntry, standing: &TaskState) -> [(Deadline, u64); 2] {
    let (what, when, lease) = match standing {
        TaskState::Ready(head) => (Deadline::Ttl, head.expires, NEVER),
        TaskState::Delayed(row) => (row.deadline(), row.due, NEVER),
        TaskState::Taken(row) => (Deadline::Ttl, row.head.expires, row.deadline),
        TaskState::Buried(_) if tube.row.options.ttl_spares_buried => (Deadline::Ttl, NEVER, NEVER),
        TaskState::Buried(row) => (Deadline::Ttl, row.head.expires, NEVER),
    };
    [(what, when), (Deadline::Ttr, lease)]
}

pub(crate) fn in_flight(standing: Option<&TaskState>) -> i64 {
    match standing {
        Some(TaskState::Taken(_)) => 1,
        Some(TaskState::Delayed(row)) => i64::from(row.holds_group),
        _ => 0,
    }
}

pub(crate) fn holder(standing: Option<&TaskState>) -> u32 {
    match standing {
        Some(TaskState::Taken(row)) => row.holder,
        _ => 0,
    }
}

/// Moves a task from one standing to another, with all rows that hang on it. Its payload, its key
/// and its place are not its business: see [`put`] and [`erase`].
pub(crate) fn move_task(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    task: &TaskRef<'_>,
    from: &TaskState,
    to: &TaskState,
    cause: Cause,
) -> Result<()> {
    Transition { task, from: Some(from), to: Some(to) }.carry_out(ctx, tube, cause)
}

/// Brings a task into existence. Its own row was read; what stands apart of its payload is the
/// caller's to write.
#[inline]
pub(crate) fn put(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    task: &TaskRef<'_>,
    to: &TaskState,
) -> Result<()> {
    let (run, id) = (tube.run(), task.id);
    Transition { task, from: None, to: Some(to) }.carry_out(ctx, tube, Cause::Put)?;
    if let Some((raw, _)) = task.read {
        ctx.add(key::task(run, &task.home, id), raw.clone());
    }
    if let Some(position) = task.position_row(tube) {
        ctx.add(key::position(run, id), position);
    }
    ctx.effects().bytes_in(run, task.bytes);
    if let Some(text) = task.key {
        ctx.add(key::key(run, text, id), Value::EMPTY);
    }
    Ok(())
}

/// A step of a task from one state to another.
struct Transition<'a> {
    task: &'a TaskRef<'a>,
    from: Option<&'a TaskState>,
    to: Option<&'a TaskState>,
}

impl<'a> Transition<'a> {
    #[inline]
    fn carry_out(&self, ctx: &mut OpContext<'_>, tube: &TubeEntry, cause: Cause) -> Result<()> {
        step(ctx, tube, self)?;
        self.record(ctx, tube, cause)
    }

    /// The key of the row that gives one of the two standings.
    #[inline]
    fn key(&self, tube: &TubeEntry, standing: &TaskState) -> Key {
        state_key(tube, self.task, standing)
    }

    /// The effect of the step on the task's group.
    fn plan(
        &self,
        ctx: &OpContext<'_>,
        tube: &TubeEntry,
        group: &'a str,
    ) -> Result<groups::Plan<'a>> {
        let key = |standing| self.key(tube, standing);
        let value = |to| state_value(tube, self.task, to);
        let (leaves, enters) = (self.from.map(key), self.to.map(|to| (key(to), value(to))));
        let in_flight = in_flight(self.to) - in_flight(self.from);
        groups::plan(ctx, tube, groups::Step { group, leaves, enters, in_flight })
    }

    /// Records the step for publication, while the payload row still exists.
    #[inline]
    fn record(&self, ctx: &mut OpContext<'_>, tube: &TubeEntry, cause: Cause) -> Result<()> {
        let (from, to) = (self.from.map(TaskState::state), self.to.map(TaskState::state));
        ctx.effects().change(Change { tube: tube.number, task: self.task.id, from, to, cause });
        if ctx.wants_payloads() { record_payload(ctx, tube, self.task) } else { Ok(()) }
    }
}

/// Adds the payload to the last step, if it is wanted. A damaged or missing payload is left out; an
/// error means that nothing could be read, and ends the op.
#[cold]
fn record_payload(ctx: &mut OpContext<'_>, tube: &TubeEntry, task: &TaskRef<'_>) -> Result<()> {
    if !ctx.wants_payloads_of(tube) {
        return Ok(());
    }
    match task.content(ctx, tube) {
        // A separate copy, because the row's memory may be shared with others.
        Ok(content) => ctx.record_payload(Arc::from(&*content.payload)),
        Err(error) if error.kind() == ErrorKind::Damaged => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Moves the rows. After an error none has moved: a caller that continues finds the task where it
/// was.
fn step(ctx: &mut OpContext<'_>, tube: &TubeEntry, way: &Transition<'_>) -> Result<()> {
    let Transition { task, from, to } = *way;
    let stays = matches!((from, to), (Some(from), Some(to)) if from.state() == to.state());
    let in_group = match task.group {
        Some(group) if !stays => Some(way.plan(ctx, tube, group)?),
        _ => None,
    };
    shift_deadlines(ctx, tube, way);
    shift_holder(ctx, tube, way);
    shift_buried(ctx, tube, way);

    if let Some(plan) = in_group {
        plan.carry_out(ctx, tube);
        return Ok(());
    }
    if let Some(from) = from.filter(|_| !stays) {
        ctx.remove(way.key(tube, from));
    }
    if let Some(to) = to {
        let (key, value) = (way.key(tube, to), state_value(tube, task, to));
        if stays { ctx.change(key, value) } else { ctx.add(key, value) }
    }
    if matches!(to, Some(TaskState::Ready(_))) && !stays {
        ctx.effects().wake(tube.number, 1);
    }
    Ok(())
}

/// Removes the deadline of a lease, until its consumer resumes it or its grace is over. The task
/// stays taken, so nothing is published and nothing counted.
pub(crate) fn suspend(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    task: &TaskRef<'_>,
    taken: TakenRow,
) -> Result<()> {
    let to = TaskState::Taken(TakenRow { deadline: NEVER, ..taken.clone() });
    let from = TaskState::Taken(taken);
    let way = Transition { task, from: Some(&from), to: Some(&to) };
    step(ctx, tube, &way)
}

fn shift_deadlines(ctx: &mut OpContext<'_>, tube: &TubeEntry, way: &Transition<'_>) {
    let (run, id) = (tube.run(), way.task.id);
    let none = [(Deadline::Ttl, NEVER), (Deadline::Ttr, NEVER)];
    let old = way.from.map_or(none, |from| deadlines(tube, from));
    let new = way.to.map_or(none, |to| deadlines(tube, to));
    if old == new {
        return;
    }
    for (old, new) in old.into_iter().zip(new).filter(|(old, new)| old != new) {
        if old.1 != NEVER {
            ctx.remove(key::due(run, old.0, old.1, id));
        }
        if new.1 != NEVER {
            ctx.add_deadline(tube, id, new.0, new.1);
        }
    }
}

fn shift_holder(ctx: &mut OpContext<'_>, tube: &TubeEntry, way: &Transition<'_>) {
    let (run, old, new) = (tube.run(), holder(way.from), holder(way.to));
    if old == new {
        return;
    }
    if old != 0 {
        ctx.remove(key::held(run, old, way.task.id));
    }
    if new != 0 {
        ctx.add(key::held(run, new, way.task.id), Value::EMPTY);
    }
}

/// The index rows of a buried task: by the time of its bury, and if it failed by its failure group,
/// in its tube and in the whole queue.
pub(crate) fn buried_rows(tube: &TubeEntry, id: TaskId, row: &BuriedRow) -> SmallVec<[Key; 3]> {
    let (run, time) = (tube.run(), row.time);
    let mut keys = SmallVec::from_iter([key::buried_time(run, time, id)]);
    if let Some(group) = row.failure_group() {
        keys.push(key::buried_group(run, group, time, id));
        keys.push(key::failed(run, group, time, id));
    }
    keys
}

fn shift_buried(ctx: &mut OpContext<'_>, tube: &TubeEntry, way: &Transition<'_>) {
    let id = way.task.id;
    match (way.from, way.to) {
        (Some(TaskState::Buried(from)), Some(TaskState::Buried(to))) if from == to => {}
        (from, to) => {
            if let Some(TaskState::Buried(from)) = from {
                buried_rows(tube, id, from).into_iter().for_each(|key| ctx.remove(key));
            }
            if let Some(TaskState::Buried(to)) = to {
                let keys = buried_rows(tube, id, to).into_iter();
                keys.for_each(|key| ctx.add(key, Value::EMPTY));
            }
        }
    }
}

/// Removes the queue's row about a buried task when a sweep removes its row under the run.
pub(crate) fn forget_failed(ctx: &mut OpContext<'_>, buried_group: &[u8]) -> Result<()> {
    let Some(key) = key::failed_beside(buried_group) else { return Ok(()) };
    if ctx.first(&key, &key::after(&key))?.is_some() {
        ctx.remove(key);
    }
    Ok(())
}

/// Removes a task.
pub(crate) fn erase(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    task: &TaskRef<'_>,
    from: &TaskState,
    cause: Cause,
) -> Result<()> {
    let (run, id) = (tube.run(), task.id);
    let way = Transition { task, from: Some(from), to: None };
    step(ctx, tube, &way)?;
    way.record(ctx, tube, cause)?;
    ctx.remove(key::task(run, &task.home, id));
    if task.position_row(tube).is_some() {
        ctx.remove(key::position(run, id));
    }
    ctx.effects().bytes_out(run, task.bytes);
    if let Some(pieces) = task.pieces() {
        pieces::remove(ctx, (run, id), &pieces)?;
    }
    if let Some(text) = task.key {
        ctx.remove(key::key(run, text, id));
    }
    Ok(())
}

/// How many payload bytes are counted for the task of this row. If the row is damaged, the payload
/// row states it, if there is one; otherwise it is unknown. The stored total may then be too high,
/// never too low, and `check` reports it.
pub(crate) fn payload_bytes(view: &dyn View, (key, row): Met) -> Result<Option<u64>> {
    let run = Range::holding(&key).and_then(|range| range.run);
    let (Some(run), Some(id)) = (run, key::id_of(&key)) else { return Ok(None) };
    if let Some(task) = row.as_deref().and_then(TaskRow::decode) {
        return Ok(Some(task.payload.bytes()));
    }
    match pieces::find(view, (run, id))? {
        PiecesFound::Whole(pieces) => Ok(Some(u64::from(pieces.bytes))),
        PiecesFound::Nothing | PiecesFound::Parts => Ok(None),
    }
}
