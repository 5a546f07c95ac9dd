//! A task that is put again in its place or elsewhere, and a new one in the place of a finished
//! one.

use super::{Transition, add_kind, add_own, note_tracked, remove_own};
use crate::engine::context::OpContext;
use crate::engine::step_notes::StepWords;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::words::error::Result;
use crate::words::task::Cause;

/// Puts a task of a tube again there, at another place and with another row of its own. It is one
/// step, and one change.
#[cold]
pub(crate) fn replace(
    ctx: &mut OpContext<'_>,
    (old, from): (&TaskRef<'_>, &TaskState),
    (new, to): (&TaskRef<'_>, &TaskState),
    cause: Cause,
) -> Result<()> {
    exchange_rows(ctx, (old, from), (new, to))?;
    Transition { task: new, from: Some(from), to: Some(to), before: None }.record(ctx, cause)
}

/// Removes all rows of a task that stands there, and writes those of one that comes in its place.
/// Nothing is published.
fn exchange_rows(
    ctx: &mut OpContext<'_>,
    (old, from): (&TaskRef<'_>, &TaskState),
    (new, to): (&TaskRef<'_>, &TaskState),
) -> Result<()> {
    let leaves = Transition { task: old, from: Some(from), to: None, before: None };
    leaves.step(ctx)?;
    leaves.file(ctx, Cause::Put)?;
    remove_own(ctx, old, from);
    Transition { task: new, from: None, to: Some(to), before: None }.step(ctx)?;
    add_own(ctx, new, to);
    add_kind(ctx, new);
    Ok(())
}

/// Puts a task again that comes from another tube, or a new one in the place of a finished one.
/// They are two steps: the put, then the end of what was there, because a holder loses its lease by
/// the put. What has finished is not published with the payload of the new task.
#[cold]
pub(crate) fn succeed(
    ctx: &mut OpContext<'_>,
    (old, from): (&TaskRef<'_>, &TaskState),
    (new, to): (&TaskRef<'_>, &TaskState),
    cause: Cause,
) -> Result<()> {
    exchange_rows(ctx, (old, from), (new, to))?;
    Transition { task: new, from: None, to: Some(to), before: None }.record(ctx, cause)?;
    let leaves = Transition { task: old, from: Some(from), to: None, before: None };
    if old.id != new.id {
        leaves.publish(ctx, Cause::Delete);
        return note_tracked(ctx, old.id);
    }
    leaves.record(ctx, Cause::Move)?;
    note_way(ctx, new.tube);
    Ok(())
}

/// Takes a task to another tube as it stands. What has ended there does not end once more, so
/// nothing follows from it.
#[cold]
pub(crate) fn pass(
    ctx: &mut OpContext<'_>,
    (old, from): (&TaskRef<'_>, &TaskState),
    (new, to): (&TaskRef<'_>, &TaskState),
    cause: Cause,
) -> Result<()> {
    let leaves = Transition { task: old, from: Some(from), to: None, before: None };
    leaves.step(ctx)?;
    leaves.record(ctx, cause)?;
    note_way(ctx, new.tube);
    remove_own(ctx, old, from);
    let comes = Transition { task: new, from: None, to: Some(to), before: None };
    comes.step(ctx)?;
    comes.record(ctx, cause)?;
    add_own(ctx, new, to);
    add_kind(ctx, new);
    if matches!(to, TaskState::Taken(row) if row.is_stalled()) {
        ctx.effects().count_stalled(old.tube.number, -1);
        ctx.effects().count_stalled(new.tube.number, 1);
    }
    Ok(())
}

/// Notes where the task of the last step goes, if events are read.
pub(crate) fn note_way(ctx: &mut OpContext<'_>, to: &TubeEntry) {
    note_of_last(ctx, |words| words.to_tube = Some(to.row.name.as_str().into()));
}

/// Notes that the last step, by which a lease has ended, is its holder's put.
pub(crate) fn note_holder(ctx: &mut OpContext<'_>) {
    note_of_last(ctx, |words| words.is_of_holder = true);
}

fn note_of_last(ctx: &mut OpContext<'_>, say: impl FnOnce(&mut StepWords)) {
    if ctx.wants.is_some()
        && let Some((step, notes)) = ctx.effects().notes_of_last()
    {
        notes.say(step, say);
    }
}
