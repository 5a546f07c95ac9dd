//! Where a task stands, and the one way to move it: [`shift`]. Every state has one row of its own
//! that tells it, and a task is in exactly one of them; what else hangs on a state (deadlines, the
//! group's line, the holder's list) is derived here and nowhere else.

use crate::bytes::key::{self, Key};
use crate::bytes::row::{BuriedRow, DelayedRow, Head, TakenRow, TaskRow};
use crate::bytes::{Deadline, Value, View};
use crate::clock::NEVER;
use crate::engine::desk::{Change, Desk, Tube, damaged};
use crate::engine::groups;
use crate::error::{Error, ErrorKind, Result};
use crate::task::{Cause, State, TaskId};

/// A task's state with all that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Ready(Head),
    Delayed(DelayedRow),
    Taken(TakenRow),
    Buried(BuriedRow),
}

impl Standing {
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

/// A task's own row, read and decodable.
pub(crate) struct Stored {
    pub(crate) id: TaskId,
    raw: Value,
}

impl Stored {
    /// Reads the task of this id.
    ///
    /// # Errors
    /// `Damaged` if the row is.
    pub(crate) fn read(view: &dyn View, tube: &Tube, id: TaskId) -> Result<Option<Self>> {
        let Some(raw) = view.get(&key::task(tube.run(), id))? else { return Ok(None) };
        Self::of(id, raw).map(Some)
    }

    /// A row that was just encoded, or read.
    pub(crate) fn of(id: TaskId, raw: Value) -> Result<Self> {
        TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
        Ok(Self { id, raw })
    }

    pub(crate) fn row(&self) -> TaskRow<'_> {
        // Decoded once when it was made.
        TaskRow::decode(&self.raw).unwrap_or_else(|| unreachable!("checked by Stored::of"))
    }

    pub(crate) fn raw(&self) -> &Value {
        &self.raw
    }
}

/// The task and its standing.
///
/// # Errors
/// `TaskNotFound`, or `Damaged` if one of its rows is.
pub(crate) fn find(view: &dyn View, tube: &Tube, id: TaskId) -> Result<(Stored, Standing)> {
    let missing = || Error::new(ErrorKind::TaskNotFound).on_task(id);
    let stored = Stored::read(view, tube, id)?.ok_or_else(missing)?;
    let standing = standing(view, tube, &stored)?.ok_or_else(|| damaged("state"))?;
    Ok((stored, standing))
}

/// The task that a deadline is of, in the state that the deadline is of. `None` if it is not.
pub(crate) fn find_due(
    view: &dyn View,
    tube: &Tube,
    id: TaskId,
    what: Deadline,
) -> Result<Option<(Stored, Standing)>> {
    let Some(stored) = Stored::read(view, tube, id)? else { return Ok(None) };
    let standing = match what {
        Deadline::Delay | Deadline::RunAt => view.get(&key::delayed(tube.run(), id))?.map(|row| {
            DelayedRow::decode(&row).map(Standing::Delayed).ok_or_else(|| damaged("delayed"))
        }),
        Deadline::Ttr => view
            .get(&key::taken(tube.run(), id))?
            .map(|row| TakenRow::decode(&row).map(Standing::Taken).ok_or_else(|| damaged("taken"))),
        Deadline::Ttl => standing(view, tube, &stored)?.map(Ok),
    };
    Ok(standing.transpose()?.map(|standing| (stored, standing)))
}

fn standing(view: &dyn View, tube: &Tube, stored: &Stored) -> Result<Option<Standing>> {
    let (run, id, row) = (tube.run(), stored.id, stored.row());
    if let Some(taken) = view.get(&key::taken(run, id))? {
        return TakenRow::decode(&taken)
            .map(Standing::Taken)
            .ok_or_else(|| damaged("taken"))
            .map(Some);
    }
    if let Some(head) = view.get(&ready_key(tube, id, &row))? {
        return Head::decode(&head, &row)
            .map(Standing::Ready)
            .ok_or_else(|| damaged("ready"))
            .map(Some);
    }
    if let Some(delayed) = view.get(&key::delayed(run, id))? {
        let delayed = DelayedRow::decode(&delayed).map(Standing::Delayed);
        return delayed.ok_or_else(|| damaged("delayed")).map(Some);
    }
    if let Some(buried) = view.get(&key::buried(run, &row.place, id))? {
        let buried = BuriedRow::decode(&buried).map(Standing::Buried);
        return buried.ok_or_else(|| damaged("buried")).map(Some);
    }
    Ok(None)
}

fn ready_key(tube: &Tube, id: TaskId, row: &TaskRow<'_>) -> Key {
    match row.group {
        Some(group) => key::line(tube.run(), group, &row.place, id),
        None => key::ready(tube.run(), &row.place, id),
    }
}

/// The key of the row that tells a standing.
fn state_key(tube: &Tube, id: TaskId, row: &TaskRow<'_>, standing: &Standing) -> Key {
    let run = tube.run();
    match standing {
        Standing::Ready(_) => ready_key(tube, id, row),
        Standing::Delayed(_) => key::delayed(run, id),
        Standing::Taken(_) => key::taken(run, id),
        Standing::Buried(_) => key::buried(run, &row.place, id),
    }
}

/// The state row of a standing.
pub(crate) fn state_row(
    tube: &Tube,
    id: TaskId,
    row: &TaskRow<'_>,
    standing: &Standing,
) -> (Key, Value) {
    let value = match standing {
        Standing::Ready(head) => head.encode(row),
        Standing::Delayed(delayed) => delayed.encode(),
        Standing::Taken(taken) => taken.encode(),
        Standing::Buried(buried) => buried.encode(),
    };
    (state_key(tube, id, row, standing), value)
}

/// The deadlines of a standing, at most one a sort.
pub(crate) fn deadlines(tube: &Tube, standing: &Standing) -> [Option<(Deadline, u64)>; 2] {
    let some = |what, when| (when != NEVER).then_some((what, when));
    let ttl = |head: &Head| some(Deadline::Ttl, head.expires);
    match standing {
        Standing::Ready(head) => [ttl(head), None],
        Standing::Delayed(row) => [some(row.deadline(), row.due), None],
        Standing::Taken(row) => [ttl(&row.head), some(Deadline::Ttr, row.deadline)],
        Standing::Buried(_) if tube.row.options.ttl_spares_buried => [None, None],
        Standing::Buried(row) => [ttl(&row.head), None],
    }
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

/// Moves a task from one standing to another, or into or out of existence, with all rows that hang
/// on it. The task's own row, payload and key are not its business: see [`erase`].
pub(crate) fn shift(
    desk: &mut Desk<'_>,
    tube: &Tube,
    stored: &Stored,
    from: Option<&Standing>,
    to: Option<&Standing>,
    cause: Cause,
) -> Result<()> {
    let id = stored.id;
    shift_deadlines(desk, tube, id, from, to);
    shift_holder(desk, tube, id, from, to);

    let row = stored.row();
    let leaves = from.map(|from| state_key(tube, id, &row, from));
    let enters = to.map(|to| state_row(tube, id, &row, to));
    let same_row = leaves.is_some() && leaves.as_ref() == enters.as_ref().map(|(key, _)| key);
    let was_ready = matches!(from, Some(Standing::Ready(_)));
    let is_ready = matches!(to, Some(Standing::Ready(_)));
    if same_row {
        if let Some((key, value)) = enters {
            desk.change(key, value);
        }
    } else if let Some(group) = row.group {
        let mut step = groups::Step {
            group,
            leaves: None,
            enters: None,
            in_flight: in_flight(to) - in_flight(from),
        };
        match leaves {
            Some(key) if was_ready => step.leaves = Some(key),
            Some(key) => desk.remove(key),
            None => {}
        }
        match enters {
            Some(row) if is_ready => step.enters = Some(row),
            Some((key, value)) => desk.add(key, value),
            None => {}
        }
        groups::step(desk, tube, step)?;
    } else {
        if let Some(key) = leaves {
            desk.remove(key);
        }
        if let Some((key, value)) = enters {
            desk.add(key, value);
        }
        if is_ready {
            desk.wake(tube.number);
        }
    }

    let (from, to) = (from.map(Standing::state), to.map(Standing::state));
    desk.tell(Change { tube: tube.number, task: id, from, to, cause });
    Ok(())
}

/// Lets a lease end no more, until its consumer comes back or its grace is over. The task stays
/// where it is, so nothing is told and nothing counted.
pub(crate) fn suspend(desk: &mut Desk<'_>, tube: &Tube, stored: &Stored, taken: TakenRow) {
    let to = Standing::Taken(TakenRow { deadline: NEVER, ..taken.clone() });
    shift_deadlines(desk, tube, stored.id, Some(&Standing::Taken(taken)), Some(&to));
    let (key, value) = state_row(tube, stored.id, &stored.row(), &to);
    desk.change(key, value);
}

fn shift_deadlines(
    desk: &mut Desk<'_>,
    tube: &Tube,
    id: TaskId,
    from: Option<&Standing>,
    to: Option<&Standing>,
) {
    let run = tube.run();
    let old = from.map_or([None, None], |from| deadlines(tube, from));
    let new = to.map_or([None, None], |to| deadlines(tube, to));
    for (what, when) in old.iter().flatten().filter(|old| !new.contains(&Some(**old))) {
        desk.remove(key::due(run, *what, *when, id));
    }
    for (what, when) in new.iter().flatten().filter(|new| !old.contains(&Some(**new))) {
        desk.add(key::due(run, *what, *when, id), Value::from([]));
    }
}

fn shift_holder(
    desk: &mut Desk<'_>,
    tube: &Tube,
    id: TaskId,
    from: Option<&Standing>,
    to: Option<&Standing>,
) {
    let run = tube.run();
    if holder(from) == holder(to) {
        return;
    }
    if holder(from) != 0 {
        desk.remove(key::held(run, holder(from), id));
    }
    if holder(to) != 0 {
        desk.add(key::held(run, holder(to), id), Value::from([]));
    }
}

/// Takes a task out of existence.
pub(crate) fn erase(
    desk: &mut Desk<'_>,
    tube: &Tube,
    stored: &Stored,
    from: &Standing,
    cause: Cause,
) -> Result<()> {
    shift(desk, tube, stored, Some(from), None, cause)?;
    let (run, row) = (tube.run(), stored.row());
    desk.remove(key::task(run, stored.id));
    if row.payload.is_none() {
        desk.remove(key::body(run, stored.id));
    }
    if let Some(text) = row.key {
        desk.remove(key::key(run, text));
    }
    Ok(())
}
