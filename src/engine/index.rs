//! Where a task stands, and the one way to move it: [`shift`]. Every state has one row of its own
//! that tells it, and a task is in exactly one of them; what else hangs on a state (deadlines, the
//! group's line, the holder's list) is derived here and nowhere else.

use crate::bytes::key::{self, Key, Place};
use crate::bytes::row::{Away, BuriedRow, DelayedRow, Head, Homed, PositionRow, TakenRow, TaskRow};
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

/// A task as its state's row tells of it, with what the caller said as far as it was read.
pub(crate) struct Stored {
    id: TaskId,
    home: Place,
    place: Place,
    said: Said,
}

/// What the caller said of a task.
enum Said {
    /// Its row was not read: the state's row says that it has no key, the group of its tube's kind,
    /// and a payload of so many bytes.
    Plain {
        group: Option<&'static str>,
        bytes: u64,
        apart: bool,
    },
    Read(Value),
    /// Its row is damaged, or not there.
    Lost,
}

/// A task, without its state.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) id: TaskId,
    /// Where its own row is.
    pub(crate) home: Place,
    /// Where it stands among the ready ones, now or when it is back.
    pub(crate) place: Place,
    pub(crate) group: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    /// Of the payload.
    pub(crate) bytes: u64,
    /// Whether the payload has a row of its own.
    pub(crate) apart: bool,
    /// Whether its own row has fields of later versions.
    pub(crate) extended: bool,
    /// Its own row, if it was read.
    pub(crate) read: Option<(&'a Value, TaskRow<'a>)>,
}

/// What is handed over of a task.
pub(crate) struct Content {
    pub(crate) created: u64,
    pub(crate) codec: u8,
    pub(crate) version: u16,
    pub(crate) payload: Payload,
}

impl Stored {
    /// The task.
    ///
    /// # Errors
    /// `Damaged` if its own row was needed, and is damaged or gone.
    #[inline]
    pub(crate) fn task(&self) -> Result<Task<'_>> {
        let Self { id, home, place, .. } = *self;
        match &self.said {
            Said::Plain { group, bytes, apart } => {
                let (group, bytes, apart) = (*group, *bytes, *apart);
                let (key, extended, read) = (None, false, None);
                Ok(Task { id, home, place, group, key, bytes, apart, extended, read })
            }
            Said::Read(raw) => {
                let row = TaskRow::decode(raw).ok_or_else(|| damaged("task"))?;
                Ok(Task::new(id, (home, place), raw, row))
            }
            Said::Lost => Err(damaged("task")),
        }
    }

    /// The home and the place of the task.
    pub(crate) fn places(&self) -> (Place, Place) {
        (self.home, self.place)
    }

    /// The same with the task's own row read in any case.
    pub(crate) fn whole(mut self, view: &dyn View, tube: &Tube) -> Result<Self> {
        if matches!(self.said, Said::Plain { .. }) {
            self.said = said(view, tube, self.id, &self.home)?;
        }
        Ok(self)
    }
}

impl<'a> Task<'a> {
    pub(crate) fn new(
        id: TaskId,
        (home, place): (Place, Place),
        raw: &'a Value,
        row: TaskRow<'a>,
    ) -> Self {
        let TaskRow { group, key, payload, .. } = row;
        let (bytes, apart) = (payload.bytes(), payload.is_apart());
        let extended = !row.extension.is_empty();
        Self { id, home, place, group, key, bytes, apart, extended, read: Some((raw, row)) }
    }

    /// Its payload, and what is said of it.
    ///
    /// # Errors
    /// `Damaged` if any of it is, or is gone.
    #[inline]
    pub(crate) fn content(&self, view: &dyn View, tube: &Tube) -> Result<Content> {
        match &self.read {
            Some((raw, row)) => content(view, tube, self.id, raw, row),
            None => self.read_content(view, tube),
        }
    }

    fn read_content(&self, view: &dyn View, tube: &Tube) -> Result<Content> {
        let raw = view.get(&key::task(tube.run(), &self.home, self.id))?;
        let raw = raw.ok_or_else(|| damaged("task"))?;
        let row = TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
        content(view, tube, self.id, &raw, &row)
    }

    /// Where it was put and stands, as its own row would say.
    fn position(&self) -> PositionRow<'a> {
        PositionRow { home: self.home, place: self.place, group: self.group }
    }

    /// The row by which it is found, if it needs one.
    pub(crate) fn position_row(&self, tube: &Tube) -> Option<Value> {
        places::row_of(tube, self.id, &self.position())
    }

    /// What the row of a state without a place says of it.
    fn away(&self, tube: &Tube) -> Away {
        let plain = places::plain(tube, self.id);
        Away {
            place: (self.place != plain.place).then_some(self.place),
            grouped: self.group != plain.group,
            keyed: self.key.is_some(),
            extended: self.extended,
            apart: self.apart,
            bytes: u32::try_from(self.bytes).unwrap_or(u32::MAX),
        }
    }
}

#[inline]
fn content(
    view: &dyn View,
    tube: &Tube,
    id: TaskId,
    raw: &Value,
    row: &TaskRow<'_>,
) -> Result<Content> {
    let payload = Payload::read(view, tube.run(), id, raw, row.payload)?;
    Ok(Content { created: row.created, codec: row.codec, version: row.version, payload })
}

/// Reads what the caller said of a task.
#[inline]
fn said(view: &dyn View, tube: &Tube, id: TaskId, home: &Place) -> Result<Said> {
    match view.get(&key::task(tube.run(), home, id)) {
        Ok(Some(raw)) => Ok(Said::Read(raw)),
        Ok(None) => Ok(Said::Lost),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(Said::Lost),
        Err(error) => Err(error),
    }
}

/// Reads the state in a row that tells one, and the task with it. `at` is the place in the row's
/// key, for states that have one there.
///
/// # Errors
/// `Damaged` if the state does not decode.
#[inline]
pub(crate) fn open(
    view: &dyn View,
    tube: &Tube,
    (tag, id, at): (Tag, TaskId, Option<Place>),
    raw: &Value,
) -> Result<(Stored, Standing)> {
    let (standing, place, home) = match (tag.state(), at) {
        (Some(State::Ready), Some(at)) => {
            let (head, home) = Head::decode(raw).ok_or_else(|| damaged("ready"))?;
            (Standing::Ready(head), at, home)
        }
        (Some(State::Buried), Some(at)) => {
            let (row, home) = BuriedRow::decode(raw).ok_or_else(|| damaged("buried"))?;
            (Standing::Buried(row), at, home)
        }
        (Some(State::Delayed), _) => {
            let (away, homed) = DelayedRow::decode(raw).ok_or_else(|| damaged("delayed"))?;
            let (stored, row) = open_away(view, tube, id, &away, homed)?;
            return Ok((stored, Standing::Delayed(row)));
        }
        (Some(State::Taken), _) => {
            let (stored, taken) = lease(view, tube, id, raw)?;
            return Ok((stored, Standing::Taken(taken)));
        }
        (Some(State::Ready | State::Buried) | None, _) => return Err(damaged("state")),
    };
    let home = home.unwrap_or(place);
    let said = said(view, tube, id, &home)?;
    Ok((Stored { id, home, place, said }, standing))
}

#[inline]
fn open_away<T>(
    view: &dyn View,
    tube: &Tube,
    id: TaskId,
    away: &Away,
    (row, home): Homed<T>,
) -> Result<(Stored, T)> {
    let plain = places::plain(tube, id);
    let place = away.place.unwrap_or(plain.place);
    let home = home.unwrap_or(place);
    let said = if away.grouped || away.keyed || away.extended {
        said(view, tube, id, &home)?
    } else {
        Said::Plain { group: plain.group, bytes: u64::from(away.bytes), apart: away.apart }
    };
    Ok((Stored { id, home, place, said }, row))
}

/// Reads the state in the row of a taken task, and the task with it.
///
/// # Errors
/// `Damaged` if the state does not decode.
#[inline]
pub(crate) fn lease(
    view: &dyn View,
    tube: &Tube,
    id: TaskId,
    raw: &Value,
) -> Result<(Stored, TakenRow)> {
    let (away, homed) = TakenRow::decode(raw).ok_or_else(|| damaged("taken"))?;
    open_away(view, tube, id, &away, homed)
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
    view.get(key)?.map(|raw| open(view, tube, at, &raw)).transpose()
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
