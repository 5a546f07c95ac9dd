//! Sets tasks aside whose rows are damaged: what is still known of them is buried under their ids,
//! where it can be seen and deleted, and their neighbours are served.

use crate::bytes::key::{self, Place};
use crate::bytes::row::{BuriedRow, Contents, DelayedRow, Head, TakenRow, TaskRow};
use crate::bytes::{Tag, Value, View};
use crate::clock::NEVER;
use crate::engine::desk::Desk;
use crate::engine::index::{self, Standing, Task};
use crate::engine::known::Tube;
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

/// Sets a task aside whose row is damaged, by where it stands and with its payload if that stands
/// apart. False if the task stands elsewhere: then the damage is in this row's key, and the row is
/// of another task that nobody knows. It stays as it is.
pub(crate) fn stand_in(
    desk: &mut Desk<'_>,
    tube: &Tube,
    id: TaskId,
    (place, group): (Place, Option<&str>),
    from: &Standing,
    fault: &Error,
) -> Result<bool> {
    let created = desk.now.queue;
    let payload = Contents::Inline(&[]);
    let mut row = TaskRow { place, created, codec: 0, version: 0, group, key: None, payload };
    if index::stands_elsewhere(desk, tube, id, &index::state_key(tube, id, &row, from))? {
        return Ok(false);
    }
    match desk.get(&key::body(tube.run(), id)) {
        Ok(Some(payload)) => row.payload = Contents::Apart(payload.len() as u64),
        Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
        _ => {}
    }
    let task = Task { id, raw: &row.encode(), from: 0, row };
    set_aside(desk, tube, &task, from, fault)?;
    Ok(true)
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
    let (place, group) = places::of(desk, tube, id)?;
    let holder = holder(desk, tube, id)?;
    let taken = TakenRow { head: unknown(), token: 0, holder, since: 0, deadline: NEVER };
    stand_in(desk, tube, id, (place, group.as_deref()), &Standing::Taken(taken), fault)
}

/// Sets a task aside whose delay is over and whose row is damaged. Without its deadline nothing
/// would come by it any more, and if it holds its group that would be locked for ever.
pub(crate) fn stand_in_for_delay(
    desk: &mut Desk<'_>,
    tube: &Tube,
    id: TaskId,
    fault: &Error,
) -> Result<bool> {
    let (place, group) = places::of(desk, tube, id)?;
    let holds_group = match &group {
        Some(group) => groups::is_held_by_the_unknown(desk, tube, group)?,
        None => false,
    };
    // The deadline that fell due is taken away by whoever met it.
    let delayed = DelayedRow { head: unknown(), due: NEVER, wall: false, holds_group };
    stand_in(desk, tube, id, (place, group.as_deref()), &Standing::Delayed(delayed), fault)
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
    let done = match index::whole_lease(id, row) {
        Ok((stored, taken)) => work(desk, &stored.task()?, taken).map(|()| true),
        Err(fault) => stand_in_for_lease(desk, tube, id, &fault),
    };
    match done {
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(false),
        done => done,
    }
}
