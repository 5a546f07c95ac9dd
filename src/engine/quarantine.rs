//! Sets tasks aside whose rows are damaged: what is still known of them is buried under their ids,
//! where it can be seen and deleted, and their neighbours are served.

use crate::engine::context::{OpContext, damaged, sound};
use crate::engine::pieces::{self, PiecesFound};
use crate::engine::stored::{self, StoredTask, TaskRef, TaskState};
use crate::engine::transition;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{groups, position};
use crate::format::key::{self, Rank};
use crate::format::piece::PieceWork;
use crate::format::row::{BuriedRow, DelayedRow, PayloadPlace, TakenRow, TaskProgress, TaskRow};
use crate::format::{Tag, Value, View};
use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::{Cause, Reason, TaskId};

/// Sets a task aside that cannot be handed over.
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

/// What the index says of a task one of whose rows is damaged.
pub(crate) struct DamagedAt<'a> {
    pub(crate) id: TaskId,
    pub(crate) place: Rank,
    /// Where its own row is, if that is known.
    pub(crate) home: Option<Rank>,
    pub(crate) group: Option<&'a str>,
}

/// Sets a task aside one of whose rows is damaged. If it is its own row, another stands in for it,
/// with the payload if that stands apart. False if the task stands elsewhere: then the damage is in
/// the key of the state's row, which is of another task that nobody knows. It stays as it is.
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
    let (raw, found) = match kept.and_then(|(_, raw)| raw) {
        Some(raw) if TaskRow::decode(&raw).is_some() => (raw, None),
        _ => {
            let found = pieces::find(ctx, (tube.run(), id))?;
            (unknown_task(ctx, &found, group), Some(found))
        }
    };
    let row = TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
    let task = TaskRef { group, ..TaskRef::new(id, (home, place), &raw, row) };
    if transition::has_other_state(ctx, tube, id, &transition::state_key(tube, &task, from))? {
        return Ok(false);
    }
    set_aside(ctx, tube, &task, from, fault)?;
    match (&found, is_there) {
        (None, _) => {}
        (Some(_), true) => ctx.change(key, raw.clone()),
        (Some(_), false) => ctx.add(key, raw.clone()),
    }
    if matches!(found, Some(PiecesFound::Parts)) {
        pieces::discard(ctx, (tube.run(), id), PieceWork::unknown())?;
    }
    Ok(true)
}

/// The row of a task of which nothing is known but what stands beside it.
fn unknown_task(ctx: &OpContext<'_>, found: &PiecesFound, group: Option<&str>) -> Value {
    let payload = match found {
        PiecesFound::Whole(pieces) => PayloadPlace::Apart(*pieces),
        PiecesFound::Nothing | PiecesFound::Parts => PayloadPlace::Inline(&[]),
    };
    let created = ctx.now.queue;
    let (codec, version, key, extension) = (0, 0, None, &[][..]);
    TaskRow { created, codec, version, group, key, extension, payload }.encode()
}

/// Sets a task aside whose own row is damaged and that of its state is not.
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

/// What is known of a task whose row is damaged.
pub(crate) fn unknown() -> TaskProgress {
    TaskProgress::fresh(NEVER, NEVER)
}

/// Sets a task aside whose lease is over and whose row is damaged. Left as it is, it would lock its
/// group for ever.
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

/// Sets a task aside whose delay is over and whose row is damaged. Without its deadline nothing
/// would come by it any more, and if it holds its group that would be locked for ever.
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
    // The deadline that fell due is taken away by whoever met it.
    let delayed = DelayedRow { head: unknown(), due: NEVER, wall: false, holds_group };
    let at = DamagedAt { id, place, home: Some(home), group: group.as_deref() };
    bury_damaged(ctx, tube, at, &TaskState::Delayed(delayed), fault)
}

/// The named consumer that holds a task, or 0, where the task's own row does not tell.
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

/// Does this with a lease, or sets it aside if its row is damaged. False if more is: then nobody
/// can tell where the task belongs, and it stays as it is.
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
