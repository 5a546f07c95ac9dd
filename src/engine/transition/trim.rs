//! The end of tasks that a tube keeps no longer: because more have ended since, because they are
//! too old, or because its options have changed.

use super::{Transition, erase};
use crate::engine::context::{OpContext, sound};
use crate::engine::effects::NextDue;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{description, edges, lookup, retention};
use crate::format::key;
use crate::format::{Deadline, Scan, Tag, View};
use crate::words::clock::NEVER;
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::TRIMMED_MAX;
use crate::words::task::{Cause, TaskId};
use std::mem::discriminant;

impl Transition<'_> {
    /// What follows from the end of a task that its tube keeps, or sets aside.
    #[cold]
    pub(super) fn end(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        if let Some(to) = self.to.filter(|to| !to.head().extension.is_empty())
            && self.from.map(discriminant) != self.to.map(discriminant)
        {
            edges::end(ctx, self.task, to)?;
        }
        self.trim(ctx)
    }

    /// Removes tasks while there are more than the tube keeps, but not the one that has just ended.
    fn trim(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let Some(tag) = self.to.and_then(retention::tag_of) else { return Ok(()) };
        // The other case is that it was updated, and has ended before.
        if ctx.effects().retires_none || self.from.and_then(retention::tag_of) == Some(tag) {
            return Ok(());
        }
        trim(ctx, self.task.tube, tag, Some(self.task.id))
    }
}

/// Removes the tasks that ended first while there are more than the tube keeps, at most a few, and
/// not this one. What is left is due work.
#[cold]
pub(crate) fn trim(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    tag: Tag,
    spared: Option<TaskId>,
) -> Result<()> {
    let next = remove_some(ctx, tube, tag, (&mut { TRIMMED_MAX }, spared))?;
    if next <= ctx.now.queue {
        ctx.effects().deadline(tube.number, NextDue::of(Deadline::Ttl, next));
    }
    Ok(())
}

/// The tasks that a tube keeps no longer go, in at most `left` looks. Returns when the next ones
/// do.
pub(crate) fn remove_unkept(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    left: &mut usize,
) -> Result<u64> {
    let mut next = NEVER;
    for tag in [Tag::Done, Tag::Buried] {
        if ctx.count(tube.range(retention::by_time(tag))) > 0 {
            next = next.min(remove_some(ctx, tube, tag, (left, None))?);
        }
    }
    Ok(next)
}

/// The same for the state of one tag, apart from this task.
#[cold]
fn remove_some(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    tag: Tag,
    (left, spared): (&mut usize, Option<TaskId>),
) -> Result<u64> {
    let mut rows = Scan::over(tube.range(retention::by_time(tag)));
    // What cannot be removed is not looked for again and again.
    let (had, mut is_any) = (*left, false);
    loop {
        let Some((met, _)) = rows.next(ctx)? else { return Ok(NEVER) };
        let end = key::time_of(&met).map_or(NEVER, |ended| retention::end_of(tube, tag, ended));
        if end > ctx.now.queue && !retention::is_over(ctx, tube, tag)? {
            return Ok(end);
        }
        if *left == 0 || is_any && spared.is_none() && ctx.is_sweep_long() {
            return Ok(if is_any || had == 0 { 0 } else { NEVER });
        }
        *left -= 1;
        let Some(id) = key::id_of(&met).filter(|id| Some(*id) != spared) else { continue };
        let found = match lookup::find(ctx, tube, id) {
            // A dead index row, or a task that is damaged: it stays for its repair.
            Err(error) if error.is_not_found() || error.kind() == ErrorKind::Damaged => {
                continue;
            }
            found => found?,
        };
        let is_of_it = retention::tag_of(&found.1) == Some(tag);
        if let (Ok(task), true) = (found.0.task(tube), is_of_it)
            // One for which calls wait goes with a later end.
            && !(ctx.is_sweep_long() && ctx.known.is_awaited(id))
        {
            retire(ctx, &task, &found.1)?;
            is_any = true;
        }
    }
}

/// Removes a task that has ended, because its tube keeps it no longer. Calls that wait for its end
/// get it as it was.
#[cold]
pub(crate) fn retire(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, from: &TaskState) -> Result<()> {
    if ctx.known.is_awaited(task.id) {
        let found = description::info(ctx, task.tube, task.id, ctx.now).and_then(|found| {
            let payload = found.payload(ctx, task.tube)?.read(ctx)?;
            Ok(found.with(payload))
        });
        let found = sound(found)?;
        ctx.effects().retired.extend(found);
    }
    erase(ctx, task, from, Cause::Retention)
}
