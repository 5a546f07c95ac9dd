//! The end of tasks that a tube keeps no longer: because more have ended since, because they are
//! too old, or because its options have changed.

use super::{Transition, erase};
use crate::engine::context::{OpContext, sound};
use crate::engine::effects::NextDue;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{description, edges, lookup, retention};
use crate::format::key;
use crate::format::{Deadline, Scan, Tag};
use crate::words::clock::NEVER;
use crate::words::error::Result;
use crate::words::limits::TRIMMED_MAX;
use crate::words::task::{Cause, TaskId};
use std::mem::discriminant;

impl Transition<'_> {
    /// What follows from the end of a task that its tube keeps, or sets aside.
    #[cold]
    pub(super) fn end(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        if let Some(to) = self.to.filter(|to| !to.progress().extension.is_empty())
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

/// Removes the tasks that ended first while the tube does not keep them, at most a few, and not
/// this one. What is left is due work, now or when the next one is too old: a task that was held by
/// others may have been put there at an end that is not its tube's any more.
#[cold]
pub(crate) fn trim(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    tag: Tag,
    spared: Option<TaskId>,
) -> Result<()> {
    let mut trim = Trim { left: TRIMMED_MAX, spared, ..Trim::default() };
    let next = match trim.remove_some(ctx, tube, tag)? {
        Trimmed::Until(end) => end,
        Trimmed::Cut => 0,
    };
    if next != NEVER {
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
    let mut trim = Trim { left: *left, is_due_work: true, ..Trim::default() };
    let (mut next, mut is_cut) = (NEVER, false);
    for tag in [Tag::Done, Tag::Buried] {
        if retention::may_end(ctx, tube, tag) {
            match trim.remove_some(ctx, tube, tag)? {
                Trimmed::Until(end) => next = next.min(end),
                Trimmed::Cut => is_cut = true,
            }
        }
    }
    // What cannot be removed is not looked for again and again.
    let goes_on = is_cut && (trim.is_any || *left == 0 || ctx.is_sweep_long());
    *left = trim.left;
    Ok(if goes_on { 0 } else { next })
}

/// The removal of tasks that a tube keeps no longer.
#[derive(Default)]
struct Trim {
    /// Looks that are left.
    left: usize,
    spared: Option<TaskId>,
    /// It is not part of the end of a task, and leaves the rest to the next sweep.
    is_due_work: bool,
    /// Whether a task was removed.
    is_any: bool,
}

/// How far a removal has come.
enum Trimmed {
    /// The next ones go at this time.
    Until(u64),
    /// There may be more.
    Cut,
}

impl Trim {
    /// Those of the state of one tag.
    #[cold]
    fn remove_some(
        &mut self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        tag: Tag,
    ) -> Result<Trimmed> {
        let mut rows = Scan::over(tube.range(retention::by_time(tag)));
        // They stay for their repair, and none that is sound goes in their place.
        let mut damaged = 0;
        loop {
            let Some((met, _)) = rows.next(ctx)? else { return Ok(Trimmed::Until(NEVER)) };
            let end = key::time_of(&met).map_or(NEVER, |ended| retention::end_of(tube, tag, ended));
            if end > ctx.now.queue && !retention::is_over(ctx, tube, tag, damaged)? {
                return Ok(Trimmed::Until(end));
            }
            if self.left == 0 || self.is_due_work && ctx.is_sweep_long() {
                return Ok(Trimmed::Cut);
            }
            self.left -= 1;
            let Some(id) = key::id_of(&met).filter(|id| Some(*id) != self.spared) else { continue };
            let found = match lookup::find(ctx, tube, id) {
                // A dead index row.
                Err(error) if error.is_not_found() => continue,
                found => sound(found)?,
            };
            let Some((stored, state)) = found else {
                damaged += 1;
                continue;
            };
            if retention::tag_of(&state) != Some(tag) {
                continue;
            }
            match stored.task(tube) {
                // One for which calls wait goes with a later end.
                Ok(_) if ctx.is_sweep_long() && ctx.known.is_awaited(id) => {}
                Ok(task) => {
                    retire(ctx, &task, &state)?;
                    self.is_any = true;
                }
                Err(_) => damaged += 1,
            }
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
