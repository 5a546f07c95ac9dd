//! Buries tasks with damaged rows: what is still known of them is kept under their ids, where it
//! can be listed and deleted, and the other tasks are served.

use crate::engine::context::{OpContext, damaged, sound};
use crate::engine::stored::{self, StoredTask, TaskRef, TaskState};
use crate::engine::transition;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{groups, position};
use crate::format::key::{self, Rank};
use crate::format::row::{BuriedRow, DelayedRow, PayloadPlace, TakenRow, TaskProgress, TaskRow};
use crate::format::{Tag, Value, View};
use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::{Cause, Reason, TaskId};

/// Buries a task that cannot be handed out.
pub(crate) fn set_aside(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    task: &TaskRef<'_>,
    from: &TaskState,
    fault: &Error,
) -> Result<()> {
    let head = from.head();
    let head = TaskProgress { buries: head.buries.saturating_add(1), ..head.clone() };
    let to = TaskState::Buried(BuriedRow {
        head,
        time: ctx.now.queue,
        reason: Reason::Undecodable(fault.to_string()),
    });
    transition::move_task(ctx, tube, task, Some(from), Some(&to), Cause::Bury)
}

/// What the index rows state of a task with a damaged row.
pub(crate) struct DamagedAt<'a> {
    pub(crate) id: TaskId,
    pub(crate) place: Rank,
    /// The rank of its own row, if that is known.
    pub(crate) home: Option<Rank>,
    pub(crate) group: Option<&'a str>,
}

/// Buries a task with a damaged row. If its own row is damaged, it is replaced, with the payload if
/// that has its own row. Returns false if the task has another state row: then the damage is in the
/// key of this state row, which belongs to an unknown task. That row stays.
pub(crate) fn bury_damaged(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    DamagedAt { id, place, home, group }: DamagedAt<'_>,
    from: &TaskState,
    fault: &Error,
) -> Result<bool> {
    let home = match home {
        Some(home) => home,
        None => sound(position::of(ctx, tube, id))?.map_or(place, |(home, _, _)| home),
    };
    let key = key::task(tube.run(), &home, id);
    let kept = ctx.first(&key, &key::after(&key))?;
    let is_there = kept.is_some();
    let (raw, is_sound) = match kept.and_then(|(_, raw)| raw) {
        Some(raw) if TaskRow::decode(&raw).is_some() => (raw, true),
        _ => (unknown_task(ctx, tube, id, group)?, false),
    };
    let row = TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
    let task = TaskRef { group, ..TaskRef::new(id, (home, place), &raw, row) };
    if transition::has_other_state(ctx, tube, id, &transition::state_key(tube, &task, from))? {
        return Ok(false);
    }
    set_aside(ctx, tube, &task, from, fault)?;
    match (is_sound, is_there) {
        (true, _) => {}
        (false, true) => ctx.change(key, raw.clone()),
        (false, false) => ctx.add(key, raw.clone()),
    }
    Ok(true)
}

/// A replacement for a task's own row, with only what the other rows state.
fn unknown_task(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    group: Option<&str>,
) -> Result<Value> {
    let payload = match sound(ctx.get(&key::body(tube.run(), id)))?.flatten() {
        Some(payload) => PayloadPlace::Separate(payload.len() as u64),
        None => PayloadPlace::Inline(&[]),
    };
    let created = ctx.now.queue;
    let (codec, version, key, extension) = (0, 0, None, &[][..]);
    Ok(TaskRow { created, codec, version, group, key, extension, payload }.encode())
}

/// Buries a task whose own row is damaged while its state row is not.
pub(crate) fn stand_in_for_task(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (id, stored): (TaskId, &StoredTask),
    from: &TaskState,
    fault: &Error,
) -> Result<bool> {
    let (home, place) = stored.places();
    let (_, _, group) = position::of(ctx, tube, id)?;
    let at = DamagedAt { id, place, home: Some(home), group: group.as_deref() };
    bury_damaged(ctx, tube, at, from, fault)
}

/// The progress of a task whose row is damaged.
pub(crate) fn unknown() -> TaskProgress {
    TaskProgress::fresh(NEVER, NEVER)
}

/// Buries a task whose lease has ended and whose row is damaged. Otherwise it would lock its group
/// without end.
pub(crate) fn bury_damaged_lease(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    fault: &Error,
) -> Result<bool> {
    let (home, place, group) = position::of(ctx, tube, id)?;
    let holder = holder(ctx, tube, id)?;
    let taken = TakenRow { head: unknown(), token: 0, holder, since: 0, deadline: NEVER };
    let at = DamagedAt { id, place, home: Some(home), group: group.as_deref() };
    bury_damaged(ctx, tube, at, &TaskState::Taken(taken), fault)
}

/// Buries a task whose delay has ended and whose row is damaged. Without its deadline no later call
/// would find it, and if it holds its group, the group would stay locked.
pub(crate) fn bury_damaged_delay(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    fault: &Error,
) -> Result<bool> {
    let (home, place, group) = position::of(ctx, tube, id)?;
    let holds_group = match &group {
        Some(group) => groups::is_held_by_the_unknown(ctx, tube, group)?,
        None => false,
    };
    // The caller that found the due deadline removes its row.
    let delayed = DelayedRow { head: unknown(), due: NEVER, wall: false, holds_group };
    let at = DamagedAt { id, place, home: Some(home), group: group.as_deref() };
    bury_damaged(ctx, tube, at, &TaskState::Delayed(delayed), fault)
}

/// The named consumer that holds a task, or 0, for a task whose own row is damaged.
fn holder(ctx: &OpContext<'_>, tube: &TubeEntry, id: TaskId) -> Result<u32> {
    let range = tube.range(Tag::TicketHandle);
    let mut from = range.start();
    while let Some((met, _)) = ctx.first(&from, &range.end())? {
        if key::id_of(&met) == Some(id) {
            let holder = met.get(key::RUN_PREFIX..).and_then(|rest| rest.first_chunk());
            return Ok(holder.map_or(0, |holder| u32::from_be_bytes(*holder)));
        }
        from = key::after(&met);
    }
    Ok(0)
}

/// Applies `work` to a lease, or buries the task if its row is damaged. Returns false if more is
/// damaged: then the task's position is unknown, and it stays as it is.
pub(crate) fn with_lease(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (id, row): (TaskId, Option<Value>),
    work: impl FnOnce(&mut OpContext<'_>, &TaskRef<'_>, TakenRow) -> Result<()>,
) -> Result<bool> {
    let row = row.ok_or_else(|| damaged("taken"));
    let done = match row.and_then(|row| stored::lease(ctx, tube, id, &row)) {
        Ok((stored, taken)) => match stored.task() {
            Ok(task) => work(ctx, &task, taken).map(|()| true),
            Err(fault) => {
                let from = TaskState::Taken(taken);
                stand_in_for_task(ctx, tube, (id, &stored), &from, &fault)
            }
        },
        Err(fault) => bury_damaged_lease(ctx, tube, id, &fault),
    };
    match done {
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(false),
        done => done,
    }
}
