//! Where a task stands, and the one way to move it: [`shift`]. Every state has one row of its own
//! that tells it, and a task is in exactly one of them; what else hangs on a state (deadlines, the
//! group's line, the holder's list) is derived here and nowhere else.

use crate::bytes::key::{self, Key};
use crate::bytes::row::{BuriedRow, DelayedRow, Head, TakenRow, TaskRow};
use crate::bytes::{Deadline, Met, Range, Tag, Value, View};
use crate::clock::{NEVER, Now};
use crate::engine::desk::{Desk, damaged};
use crate::engine::effects::Change;
use crate::engine::known::Tube;
use crate::engine::payload::Payload;
use crate::engine::{groups, places};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Arc;
use crate::task::{Cause, State, TaskId};
use smallvec::SmallVec;

/// A task's state with all that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Ready(Head),
    Delayed(DelayedRow),
    Taken(TakenRow),
    Buried(BuriedRow),
}

impl Standing {
    /// Delayed until the row's `due`. The end of the task's life moves by the length of the delay
    /// here, when the delay is asked for. Neither the end of the delay nor a verb that finds it
    /// ended moves it again.
    pub(crate) fn delayed(mut row: DelayedRow, now: Now) -> Self {
        row.head.expires = row.head.expires.saturating_add(wait_left(&row, now));
        Self::Delayed(row)
    }

    pub(crate) fn state(&self) -> State {
        match self {
            Self::Ready(_) => State::Ready,
            Self::Delayed(_) => State::Delayed,
            Self::Taken(_) => State::Taken,
            Self::Buried(_) => State::Buried,
        }
    }

    pub(crate) fn head(&self) -> &Head {
        match self {
            Self::Ready(head) => head,
            Self::Delayed(row) => &row.head,
            Self::Taken(row) => &row.head,
            Self::Buried(row) => &row.head,
        }
    }
}

/// Microseconds that a delayed task still waits, by the clock of its delay; [`NEVER`] for ever.
pub(crate) fn wait_left(row: &DelayedRow, now: Now) -> u64 {
    let now = if row.wall { now.wall } else { now.queue };
    if row.due == NEVER { NEVER } else { row.due.saturating_sub(now) }
}

/// A row that tells a task's state, with what the caller said behind it, not looked at yet.
pub(crate) struct Stored {
    id: TaskId,
    raw: Value,
    /// Where what the caller said begins.
    from: usize,
}

impl Stored {
    /// The task of the row.
    ///
    /// # Errors
    /// `Damaged` if what the caller said does not decode.
    #[inline]
    pub(crate) fn task(&self) -> Result<Task<'_>> {
        let row = self.raw.get(self.from..).and_then(TaskRow::decode);
        let row = row.ok_or_else(|| damaged("task"))?;
        Ok(Task { id: self.id, raw: &self.raw, from: self.from, row })
    }
}

/// What the caller said of a task, and the row that says it.
pub(crate) struct Task<'a> {
    pub(crate) id: TaskId,
    pub(crate) raw: &'a Value,
    /// Where in `raw` that begins.
    pub(crate) from: usize,
    pub(crate) row: TaskRow<'a>,
}

impl Task<'_> {
    /// What the caller said, as bytes.
    fn bytes(&self) -> &[u8] {
        self.raw.get(self.from..).unwrap_or_default()
    }

    /// Its payload.
    ///
    /// # Errors
    /// `Damaged` if it is, or is gone.
    #[inline]
    pub(crate) fn payload(&self, view: &dyn View, tube: &Tube) -> Result<Payload> {
        Payload::read(view, tube.run(), self.id, self.raw, self.row.payload)
    }
}

/// Reads the state in a row that tells one.
///
/// # Errors
/// `Damaged` if it does not decode.
#[inline]
pub(crate) fn open(tag: Tag, id: TaskId, raw: Value) -> Result<(Stored, Standing)> {
    let opened = match tag.state() {
        Some(State::Ready) => Head::decode(&raw).map(|(row, from)| (Standing::Ready(row), from)),
        Some(State::Delayed) => {
            DelayedRow::decode(&raw).map(|(row, from)| (Standing::Delayed(row), from))
        }
        Some(State::Taken) => {
            TakenRow::decode(&raw).map(|(row, from)| (Standing::Taken(row), from))
        }
        Some(State::Buried) => {
            BuriedRow::decode(&raw).map(|(row, from)| (Standing::Buried(row), from))
        }
        None => None,
    };
    let (standing, from) = opened.ok_or_else(|| damaged("state"))?;
    Ok((Stored { id, raw, from }, standing))
}

/// Reads the state in the row of a taken task.
///
/// # Errors
/// `Damaged` if it does not decode.
#[inline]
pub(crate) fn lease(id: TaskId, raw: Value) -> Result<(Stored, TakenRow)> {
    let (taken, from) = TakenRow::decode(&raw).ok_or_else(|| damaged("taken"))?;
    Ok((Stored { id, raw, from }, taken))
}

/// Reads the state and the task in the row of a taken task, as a walk met it.
///
/// # Errors
/// `Damaged` if any of it is.
pub(crate) fn whole_lease(id: TaskId, row: Option<Value>) -> Result<(Stored, TakenRow)> {
    let (stored, taken) = lease(id, row.ok_or_else(|| damaged("taken"))?)?;
    stored.task()?;
    Ok((stored, taken))
}

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
    look(view, tube, id, tag, &key)
}

fn look(
    view: &dyn View,
    tube: &Tube,
    id: TaskId,
    tag: Tag,
    key: &[u8],
) -> Result<Option<(Stored, Standing)>> {
    if view.count(tube.range(tag)) == 0 {
        return Ok(None);
    }
    view.get(key)?.map(|raw| open(tag, id, raw)).transpose()
}

fn seek(view: &dyn View, tube: &Tube, id: TaskId) -> Result<Option<(Stored, Standing)>> {
    let run = tube.run();
    for (tag, key) in [(Tag::Taken, key::taken(run, id)), (Tag::Delayed, key::delayed(run, id))] {
        if let Some(found) = look(view, tube, id, tag, &key)? {
            return Ok(Some(found));
        }
    }
    let (place, group) = places::of(view, tube, id)?;
    let ready = match &group {
        Some(group) => (Tag::Line, key::line(run, group, &place, id)),
        None => (Tag::Ready, key::ready(run, &place, id)),
    };
    for (tag, key) in [ready, (Tag::Buried, key::buried(run, &place, id))] {
        if let Some(found) = look(view, tube, id, tag, &key)? {
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
        Ok((place, group)) => keys.extend([
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
pub(crate) fn state_key(tube: &Tube, id: TaskId, row: &TaskRow<'_>, standing: &Standing) -> Key {
    let run = tube.run();
    match (standing, row.group) {
        (Standing::Ready(_), Some(group)) => key::line(run, group, &row.place, id),
        (Standing::Ready(_), None) => key::ready(run, &row.place, id),
        (Standing::Delayed(_), _) => key::delayed(run, id),
        (Standing::Taken(_), _) => key::taken(run, id),
        (Standing::Buried(_), _) => key::buried(run, &row.place, id),
    }
}

/// The value of the row that tells a standing.
fn state_value(standing: &Standing, task: &[u8]) -> Value {
    match standing {
        Standing::Ready(head) => head.encode(task),
        Standing::Delayed(delayed) => delayed.encode(task),
        Standing::Taken(taken) => taken.encode(task),
        Standing::Buried(buried) => buried.encode(task),
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
    step(desk, tube, &way, to.map(|to| state_value(to, task.bytes())))?;
    way.tell(desk, tube, cause)
}

/// Brings a task into existence, with its payload if that stands apart. Unless it is delayed, its
/// row is the one among the ready ones already.
#[inline]
pub(crate) fn put(
    desk: &mut Desk<'_>,
    tube: &Tube,
    task: &Task<'_>,
    to: &Standing,
    apart: Option<&[u8]>,
) -> Result<()> {
    let (run, id, row) = (tube.run(), task.id, &task.row);
    if let Some(place) = places::row_of(tube, id, row) {
        desk.add(key::place(run, id), place);
    }
    desk.bytes_in(run, row.payload.bytes());
    if let Some(payload) = apart {
        desk.add(key::body(run, id), Value::from(payload));
    }
    if let Some(text) = row.key {
        desk.add(key::key(run, text, id), Value::from([]));
    }
    match to {
        Standing::Ready(_) => {
            let way = Way { task, from: None, to: Some(to) };
            step(desk, tube, &way, Some(task.raw.clone()))?;
            way.tell(desk, tube, Cause::Put)
        }
        _ => shift(desk, tube, task, None, Some(to), Cause::Put),
    }
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
        state_key(tube, self.task.id, &self.task.row, standing)
    }

    /// What the step means for the task's group.
    fn plan(
        &self,
        desk: &Desk<'_>,
        tube: &Tube,
        group: &'a str,
        value: Option<Value>,
    ) -> Result<groups::Plan<'a>> {
        let key = |standing| self.key(tube, standing);
        let (leaves, enters) = (self.from.map(key), self.to.map(key).zip(value));
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
    match task.payload(desk, tube) {
        // A copy of its own: the row's memory may be shared with others.
        Ok(payload) => desk.tell_payload(Arc::from(&*payload)),
        Err(error) if error.kind() == ErrorKind::Damaged => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Moves the rows, with this value for the state that is entered. An error means that none has
/// moved: whoever goes on over it goes on with the task where it was.
fn step(desk: &mut Desk<'_>, tube: &Tube, way: &Way<'_>, mut value: Option<Value>) -> Result<()> {
    let Way { task, from, to } = *way;
    let stays = matches!((from, to), (Some(from), Some(to)) if from.state() == to.state());
    let in_group = match task.row.group {
        Some(group) if !stays => Some(way.plan(desk, tube, group, value.take())?),
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
    if let (Some(to), Some(value)) = (to, value) {
        let key = way.key(tube, to);
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
    step(desk, tube, &way, Some(state_value(&to, task.bytes())))
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
    let (run, id, row) = (tube.run(), task.id, &task.row);
    let way = Way { task, from: Some(from), to: None };
    step(desk, tube, &way, None)?;
    way.tell(desk, tube, cause)?;
    if places::row_of(tube, id, row).is_some() {
        desk.remove(key::place(run, id));
    }
    desk.bytes_out(run, row.payload.bytes());
    if row.payload.is_apart() {
        desk.remove(key::body(run, id));
    }
    if let Some(text) = row.key {
        desk.remove(key::key(run, text, id));
    }
    Ok(())
}

/// How many payload bytes the task of this row is counted with. Where the row is damaged the
/// payload tells, if it stands apart; else it is not known any more: the kept total may then be too
/// high, never too low, and `check` says so.
pub(crate) fn payload_bytes(view: &dyn View, tag: Tag, (key, row): Met) -> Result<Option<u64>> {
    let run = Range::holding(&key).and_then(|range| range.run);
    let (Some(run), Some(id)) = (run, key::id_of(&key)) else { return Ok(None) };
    let opened = row.and_then(|row| open(tag, id, row).ok());
    if let Some(Ok(task)) = opened.as_ref().map(|(stored, _)| stored.task()) {
        return Ok(Some(task.row.payload.bytes()));
    }
    match view.get(&key::body(run, id)) {
        Ok(body) => Ok(body.map(|body| body.len() as u64)),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(None),
        Err(error) => Err(error),
    }
}
