//! Where a task stands, and the one way to move it: [`shift`]. Every state has one row of its own
//! that tells it, and a task is in exactly one of them; what else hangs on a state (deadlines, the
//! group's line, the holder's list) is derived here and nowhere else.

use crate::bytes::key::{self, Key, Place};
use crate::bytes::row::{BuriedRow, TakenRow, TaskRow};
use crate::bytes::{Deadline, Met, Range, Tag, Value, View};
use crate::clock::NEVER;
use crate::engine::desk::Desk;
use crate::engine::effects::Change;
use crate::engine::known::Tube;
use crate::engine::stored::{self, Standing, Stored, Task};
use crate::engine::{groups, places};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;
use crate::task::{Cause, TaskId};
use smallvec::SmallVec;

/// The task and its standing.
///
/// # Errors
/// `TaskNotFound`, or `Damaged` if one of its rows is.
pub(crate) fn find(view: &dyn View, tube: &Tube, id: TaskId) -> Result<(Stored, Standing)> {
    let missing = || Error::new(ErrorKind::TaskNotFound).on_task(id);
    seek(view, tube, id)?.ok_or_else(missing)
}

/// The task that a deadline is of, in the state that the deadline is of. `None` if it is not.
pub(crate) fn find_due(
    view: &dyn View,
    tube: &Tube,
    id: TaskId,
    what: Deadline,
) -> Result<Option<(Stored, Standing)>> {
    let (tag, key) = match what {
        Deadline::Delay | Deadline::RunAt => (Tag::Delayed, key::delayed(tube.run(), id)),
        Deadline::Ttr => (Tag::Taken, key::taken(tube.run(), id)),
        Deadline::Ttl => return seek(view, tube, id),
    };
    look(view, tube, (tag, id, None), &key)
}

fn look(
    view: &dyn View,
    tube: &Tube,
    at: (Tag, TaskId, Option<Place>),
    key: &[u8],
) -> Result<Option<(Stored, Standing)>> {
    if view.count(tube.range(at.0)) == 0 {
        return Ok(None);
    }
    view.get(key)?.map(|raw| stored::open(view, tube, at, &raw)).transpose()
}

fn seek(view: &dyn View, tube: &Tube, id: TaskId) -> Result<Option<(Stored, Standing)>> {
    let run = tube.run();
    for (tag, key) in [(Tag::Taken, key::taken(run, id)), (Tag::Delayed, key::delayed(run, id))] {
        if let Some(found) = look(view, tube, (tag, id, None), &key)? {
            return Ok(Some(found));
        }
    }
    let (_, place, group) = places::of(view, tube, id)?;
    let ready = match &group {
        Some(group) => (Tag::Line, key::line(run, group, &place, id)),
        None => (Tag::Ready, key::ready(run, &place, id)),
    };
    for (tag, key) in [ready, (Tag::Buried, key::buried(run, &place, id))] {
        if let Some(found) = look(view, tube, (tag, id, Some(place)), &key)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Whether another row than this one tells a state of the task of this id.
pub(crate) fn stands_elsewhere(view: &dyn View, tube: &Tube, id: TaskId, at: &Key) -> Result<bool> {
    let run = tube.run();
    let mut keys = vec![key::taken(run, id), key::delayed(run, id)];
    match places::of(view, tube, id) {
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

/// The key of the row that tells a standing.
#[inline]
pub(crate) fn state_key(tube: &Tube, task: &Task<'_>, standing: &Standing) -> Key {
    let (run, id) = (tube.run(), task.id);
    match (standing, task.group) {
        (Standing::Ready(_), Some(group)) => key::line(run, group, &task.place, id),
        (Standing::Ready(_), None) => key::ready(run, &task.place, id),
        (Standing::Delayed(_), _) => key::delayed(run, id),
        (Standing::Taken(_), _) => key::taken(run, id),
        (Standing::Buried(_), _) => key::buried(run, &task.place, id),
    }
}

/// The value of the row that tells a standing.
#[inline]
pub(crate) fn state_value(tube: &Tube, task: &Task<'_>, standing: &Standing) -> Value {
    let home = Some(&task.home).filter(|home| **home != task.place);
    match standing {
        Standing::Ready(head) => head.encode(home),
        Standing::Delayed(delayed) => delayed.encode(&task.away(tube), home),
        Standing::Taken(taken) => taken.encode(&task.away(tube), home),
        Standing::Buried(buried) => buried.encode(home),
    }
}

/// The deadlines of a standing: the task's own, and its lease's; [`NEVER`] is none.
pub(crate) fn deadlines(tube: &Tube, standing: &Standing) -> [(Deadline, u64); 2] {
    let (what, when, lease) = match standing {
        Standing::Ready(head) => (Deadline::Ttl, head.expires, NEVER),
        Standing::Delayed(row) => (row.deadline(), row.due, NEVER),
        Standing::Taken(row) => (Deadline::Ttl, row.head.expires, row.deadline),
        Standing::Buried(_) if tube.row.options.ttl_spares_buried => (Deadline::Ttl, NEVER, NEVER),
        Standing::Buried(row) => (Deadline::Ttl, row.head.expires, NEVER),
    };
    [(what, when), (Deadline::Ttr, lease)]
}

pub(crate) fn in_flight(standing: Option<&Standing>) -> i64 {
    match standing {
        Some(Standing::Taken(_)) => 1,
        Some(Standing::Delayed(row)) => i64::from(row.holds_group),
        _ => 0,
    }
}

pub(crate) fn holder(standing: Option<&Standing>) -> u32 {
    match standing {
        Some(Standing::Taken(row)) => row.holder,
        _ => 0,
    }
}

/// Moves a task from one standing to another, or out of existence, with all rows that hang on it.
/// Its payload, its key and its place are not its business: see [`put`] and [`erase`].
pub(crate) fn shift(
    desk: &mut Desk<'_>,
    tube: &Tube,
    task: &Task<'_>,
    from: Option<&Standing>,
    to: Option<&Standing>,
    cause: Cause,
) -> Result<()> {
    let way = Way { task, from, to };
    step(desk, tube, &way)?;
    way.tell(desk, tube, cause)
}

/// Brings a task into existence, with its payload if that stands apart. Its own row was read.
#[inline]
pub(crate) fn put(
    desk: &mut Desk<'_>,
    tube: &Tube,
    task: &Task<'_>,
    to: &Standing,
    apart: Option<&[u8]>,
) -> Result<()> {
    let (run, id) = (tube.run(), task.id);
    if let Some(payload) = apart {
        desk.add(key::body(run, id), Value::from(payload));
    }
    shift(desk, tube, task, None, Some(to), Cause::Put)?;
    if let Some((raw, _)) = task.read {
        desk.add(key::task(run, &task.home, id), raw.clone());
    }
    if let Some(position) = task.position_row(tube) {
        desk.add(key::position(run, id), position);
    }
    desk.bytes_in(run, task.bytes);
    if let Some(text) = task.key {
        desk.add(key::key(run, text, id), Value::from([]));
    }
    Ok(())
}

/// A task on its way from one standing to another.
struct Way<'a> {
    task: &'a Task<'a>,
    from: Option<&'a Standing>,
    to: Option<&'a Standing>,
}

impl<'a> Way<'a> {
    /// The key of the row that tells one of the two standings.
    #[inline]
    fn key(&self, tube: &Tube, standing: &Standing) -> Key {
        state_key(tube, self.task, standing)
    }

    /// What the step means for the task's group.
    fn plan(&self, desk: &Desk<'_>, tube: &Tube, group: &'a str) -> Result<groups::Plan<'a>> {
        let key = |standing| self.key(tube, standing);
        let value = |to| state_value(tube, self.task, to);
        let (leaves, enters) = (self.from.map(key), self.to.map(|to| (key(to), value(to))));
        let in_flight = in_flight(self.to) - in_flight(self.from);
        groups::plan(desk, tube, groups::Step { group, leaves, enters, in_flight })
    }

    /// Tells of the step, while the payload is still there.
    #[inline]
    fn tell(&self, desk: &mut Desk<'_>, tube: &Tube, cause: Cause) -> Result<()> {
        let (from, to) = (self.from.map(Standing::state), self.to.map(Standing::state));
        desk.tell(Change { tube: tube.number, task: self.task.id, from, to, cause });
        if desk.tells_payloads() { tell_payload(desk, tube, self.task) } else { Ok(()) }
    }
}

/// Adds the payload to the step that was told last, if it is wanted. One that is damaged or gone is
/// not told; an error means that nothing could be read, and nobody goes on over it.
#[cold]
fn tell_payload(desk: &mut Desk<'_>, tube: &Tube, task: &Task<'_>) -> Result<()> {
    if !desk.tells_payloads_of(tube) {
        return Ok(());
    }
    match task.content(desk, tube) {
        // A copy of its own: the row's memory may be shared with others.
        Ok(content) => desk.tell_payload(Arc::from(&*content.payload)),
        Err(error) if error.kind() == ErrorKind::Damaged => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Moves the rows. An error means that none has moved: whoever goes on over it goes on with the
/// task where it was.
fn step(desk: &mut Desk<'_>, tube: &Tube, way: &Way<'_>) -> Result<()> {
    let Way { task, from, to } = *way;
    let stays = matches!((from, to), (Some(from), Some(to)) if from.state() == to.state());
    let in_group = match task.group {
        Some(group) if !stays => Some(way.plan(desk, tube, group)?),
        _ => None,
    };
    shift_deadlines(desk, tube, way);
    shift_holder(desk, tube, way);
    shift_buried(desk, tube, way);

    if let Some(plan) = in_group {
        plan.carry_out(desk, tube);
        return Ok(());
    }
    if let Some(from) = from.filter(|_| !stays) {
        desk.remove(way.key(tube, from));
    }
    if let Some(to) = to {
        let (key, value) = (way.key(tube, to), state_value(tube, task, to));
        if stays { desk.change(key, value) } else { desk.add(key, value) }
    }
    if matches!(to, Some(Standing::Ready(_))) && !stays {
        desk.wake(tube.number);
    }
    Ok(())
}

/// Lets a lease end no more, until its consumer comes back or its grace is over. The task stays
/// where it is, so nothing is told and nothing counted.
pub(crate) fn suspend(
    desk: &mut Desk<'_>,
    tube: &Tube,
    task: &Task<'_>,
    taken: TakenRow,
) -> Result<()> {
    let to = Standing::Taken(TakenRow { deadline: NEVER, ..taken.clone() });
    let from = Standing::Taken(taken);
    let way = Way { task, from: Some(&from), to: Some(&to) };
    step(desk, tube, &way)
}

fn shift_deadlines(desk: &mut Desk<'_>, tube: &Tube, way: &Way<'_>) {
    let (run, id) = (tube.run(), way.task.id);
    let none = [(Deadline::Ttl, NEVER), (Deadline::Ttr, NEVER)];
    let old = way.from.map_or(none, |from| deadlines(tube, from));
    let new = way.to.map_or(none, |to| deadlines(tube, to));
    if old == new {
        return;
    }
    for (old, new) in old.into_iter().zip(new).filter(|(old, new)| old != new) {
        if old.1 != NEVER {
            desk.remove(key::due(run, old.0, old.1, id));
        }
        if new.1 != NEVER {
            desk.add_deadline(tube, id, new.0, new.1);
        }
    }
}

fn shift_holder(desk: &mut Desk<'_>, tube: &Tube, way: &Way<'_>) {
    let (run, old, new) = (tube.run(), holder(way.from), holder(way.to));
    if old == new {
        return;
    }
    if old != 0 {
        desk.remove(key::held(run, old, way.task.id));
    }
    if new != 0 {
        desk.add(key::held(run, new, way.task.id), Value::from([]));
    }
}

/// The index rows of a buried task: by the time of its bury, and if it failed by the group of the
/// failure, in its tube and in the whole queue.
pub(crate) fn buried_rows(tube: &Tube, id: TaskId, row: &BuriedRow) -> SmallVec<[Key; 3]> {
    let (run, time) = (tube.run(), row.time);
    let mut keys = SmallVec::from_iter([key::buried_time(run, time, id)]);
    if let Some(group) = row.failure_group() {
        keys.push(key::buried_group(run, group, time, id));
        keys.push(key::failed(run, group, time, id));
    }
    keys
}

fn shift_buried(desk: &mut Desk<'_>, tube: &Tube, way: &Way<'_>) {
    let id = way.task.id;
    match (way.from, way.to) {
        (Some(Standing::Buried(from)), Some(Standing::Buried(to))) if from == to => {}
        (from, to) => {
            if let Some(Standing::Buried(from)) = from {
                buried_rows(tube, id, from).into_iter().for_each(|key| desk.remove(key));
            }
            if let Some(Standing::Buried(to)) = to {
                let keys = buried_rows(tube, id, to).into_iter();
                keys.for_each(|key| desk.add(key, Value::from([])));
            }
        }
    }
}

/// Removes the queue's row about a buried task whose row under its run goes, in a sweep.
pub(crate) fn forget_failed(desk: &mut Desk<'_>, buried_group: &[u8]) -> Result<()> {
    let Some(key) = key::failed_beside(buried_group) else { return Ok(()) };
    if desk.first(&key, &key::after(&key))?.is_some() {
        desk.remove(key);
    }
    Ok(())
}

/// Takes a task out of existence.
pub(crate) fn erase(
    desk: &mut Desk<'_>,
    tube: &Tube,
    task: &Task<'_>,
    from: &Standing,
    cause: Cause,
) -> Result<()> {
    let (run, id) = (tube.run(), task.id);
    let way = Way { task, from: Some(from), to: None };
    step(desk, tube, &way)?;
    way.tell(desk, tube, cause)?;
    desk.remove(key::task(run, &task.home, id));
    if task.position_row(tube).is_some() {
        desk.remove(key::position(run, id));
    }
    desk.bytes_out(run, task.bytes);
    if task.apart {
        desk.remove(key::body(run, id));
    }
    if let Some(text) = task.key {
        desk.remove(key::key(run, text, id));
    }
    Ok(())
}

/// How many payload bytes the task of this row of its own is counted with. Where the row is damaged
/// the payload tells, if it stands apart; else it is not known any more: the kept total may then be
/// too high, never too low, and `check` says so.
pub(crate) fn payload_bytes(view: &dyn View, (key, row): Met) -> Result<Option<u64>> {
    let run = Range::holding(&key).and_then(|range| range.run);
    let (Some(run), Some(id)) = (run, key::id_of(&key)) else { return Ok(None) };
    if let Some(task) = row.as_deref().and_then(TaskRow::decode) {
        return Ok(Some(task.payload.bytes()));
    }
    match view.get(&key::body(run, id)) {
        Ok(body) => Ok(body.map(|body| body.len() as u64)),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(None),
        Err(error) => Err(error),
    }
}
