//! Sets tasks aside whose rows are damaged: what is still known of them is buried under their ids,
//! where it can be seen and deleted, and their neighbours are served.

use crate::bytes::key::{self, Place};
use crate::bytes::row::{BuriedRow, Contents, DelayedRow, Head, TakenRow, TaskRow};
use crate::bytes::{Tag, Value, View};
use crate::clock::NEVER;
use crate::engine::desk::{Desk, damaged, sound};
use crate::engine::index;
use crate::engine::known::Tube;
use crate::engine::stored::{self, Standing, Stored, Task};
use crate::engine::{groups, places};
use crate::error::{Error, ErrorKind, Result};
use crate::task::{Cause, Reason, TaskId};

/// Sets a task aside that cannot be handed over.
pub(crate) fn set_aside(
    desk: &mut Desk<'_>,
    tube: &Tube,
    task: &Task<'_>,
    from: &Standing,
    fault: &Error,
) -> Result<()> {
    let head = from.head();
    let head = Head { buries: head.buries.saturating_add(1), ..head.clone() };
    let to = Standing::Buried(BuriedRow {
        head,
        time: desk.now.queue,
        reason: Reason::Undecodable(fault.to_string()),
    });
    index::shift(desk, tube, task, Some(from), Some(&to), Cause::Bury)
}

/// What the index says of a task one of whose rows is damaged.
pub(crate) struct At<'a> {
    pub(crate) id: TaskId,
    pub(crate) place: Place,
    /// Where its own row is, if that is known.
    pub(crate) home: Option<Place>,
    pub(crate) group: Option<&'a str>,
}

/// Sets a task aside one of whose rows is damaged. If it is its own row, another stands in for it,
/// with the payload if that stands apart. False if the task stands elsewhere: then the damage is in
/// the key of the state's row, which is of another task that nobody knows. It stays as it is.
pub(crate) fn stand_in(
    desk: &mut Desk<'_>,
    tube: &Tube,
    At { id, place, home, group }: At<'_>,
    from: &Standing,
    fault: &Error,
) -> Result<bool> {
    let home = match home {
        Some(home) => home,
        None => sound(places::of(desk, tube, id))?.map_or(place, |(home, _, _)| home),
    };
    let key = key::task(tube.run(), &home, id);
    let kept = desk.first(&key, &key::after(&key))?;
    let is_there = kept.is_some();
    let (raw, is_sound) = match kept.and_then(|(_, raw)| raw) {
        Some(raw) if TaskRow::decode(&raw).is_some() => (raw, true),
        _ => (unknown_task(desk, tube, id, group)?, false),
    };
    let row = TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
    let task = Task { group, ..Task::new(id, (home, place), &raw, row) };
    if index::stands_elsewhere(desk, tube, id, &index::state_key(tube, &task, from))? {
        return Ok(false);
    }
    set_aside(desk, tube, &task, from, fault)?;
    match (is_sound, is_there) {
        (true, _) => {}
        (false, true) => desk.change(key, raw.clone()),
        (false, false) => desk.add(key, raw.clone()),
    }
    Ok(true)
}

/// The row of a task of which nothing is known but what stands beside it.
fn unknown_task(desk: &Desk<'_>, tube: &Tube, id: TaskId, group: Option<&str>) -> Result<Value> {
    let payload = match sound(desk.get(&key::body(tube.run(), id)))?.flatten() {
        Some(payload) => Contents::Apart(payload.len() as u64),
        None => Contents::Inline(&[]),
    };
    let created = desk.now.queue;
    let (codec, version, key, extension) = (0, 0, None, &[][..]);
    Ok(TaskRow { created, codec, version, group, key, extension, payload }.encode())
}

/// Sets a task aside whose own row is damaged and that of its state is not.
pub(crate) fn stand_in_for_task(
    desk: &mut Desk<'_>,
    tube: &Tube,
    (id, stored): (TaskId, &Stored),
    from: &Standing,
    fault: &Error,
) -> Result<bool> {
    let (home, place) = stored.places();
    let (_, _, group) = places::of(desk, tube, id)?;
    let at = At { id, place, home: Some(home), group: group.as_deref() };
    stand_in(desk, tube, at, from, fault)
}

/// What is known of a task whose row is damaged.
pub(crate) fn unknown() -> Head {
    Head::fresh(NEVER, NEVER)
}

/// Sets a task aside whose lease is over and whose row is damaged. Left as it is, it would lock its
/// group for ever.
pub(crate) fn stand_in_for_lease(
    desk: &mut Desk<'_>,
    tube: &Tube,
    id: TaskId,
    fault: &Error,
) -> Result<bool> {
    let (home, place, group) = places::of(desk, tube, id)?;
    let holder = holder(desk, tube, id)?;
    let taken = TakenRow { head: unknown(), token: 0, holder, since: 0, deadline: NEVER };
    let at = At { id, place, home: Some(home), group: group.as_deref() };
    stand_in(desk, tube, at, &Standing::Taken(taken), fault)
}

/// Sets a task aside whose delay is over and whose row is damaged. Without its deadline nothing
/// would come by it any more, and if it holds its group that would be locked for ever.
pub(crate) fn stand_in_for_delay(
    desk: &mut Desk<'_>,
    tube: &Tube,
    id: TaskId,
    fault: &Error,
) -> Result<bool> {
    let (home, place, group) = places::of(desk, tube, id)?;
    let holds_group = match &group {
        Some(group) => groups::is_held_by_the_unknown(desk, tube, group)?,
        None => false,
    };
    // The deadline that fell due is taken away by whoever met it.
    let delayed = DelayedRow { head: unknown(), due: NEVER, wall: false, holds_group };
    let at = At { id, place, home: Some(home), group: group.as_deref() };
    stand_in(desk, tube, at, &Standing::Delayed(delayed), fault)
}

/// The named consumer that holds a task, or 0, where the task's own row does not tell.
fn holder(desk: &Desk<'_>, tube: &Tube, id: TaskId) -> Result<u32> {
    let range = tube.range(Tag::Held);
    let mut from = range.start();
    while let Some((met, _)) = desk.first(&from, &range.end())? {
        if key::id_of(&met) == Some(id) {
            let holder = met.get(key::RUN_PREFIX..).and_then(|rest| rest.first_chunk());
            return Ok(holder.map_or(0, |holder| u32::from_be_bytes(*holder)));
        }
        from = key::after(&met);
    }
    Ok(0)
}

/// Does this with a lease, or sets it aside if its row is damaged. False if more is: then nobody
/// can tell where the task belongs, and it stays as it is.
pub(crate) fn with_lease(
    desk: &mut Desk<'_>,
    tube: &Tube,
    (id, row): (TaskId, Option<Value>),
    work: impl FnOnce(&mut Desk<'_>, &Task<'_>, TakenRow) -> Result<()>,
) -> Result<bool> {
    let row = row.ok_or_else(|| damaged("taken"));
    let done = match row.and_then(|row| stored::lease(desk, tube, id, &row)) {
        Ok((stored, taken)) => match stored.task() {
            Ok(task) => work(desk, &task, taken).map(|()| true),
            Err(fault) => {
                let from = Standing::Taken(taken);
                stand_in_for_task(desk, tube, (id, &stored), &from, &fault)
            }
        },
        Err(fault) => stand_in_for_lease(desk, tube, id, &fault),
    };
    match done {
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(false),
        done => done,
    }
}
