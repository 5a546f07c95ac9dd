//! The ways out of the trash: back to the board, or to nothing.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::moves::room;
use crate::engine::settle::kicked;
use crate::engine::stored::TaskState;
use crate::engine::{dependents, history, keys, lookup, transition};
use crate::format::key::{self, Key};
use crate::format::{Scan, Tag};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::SWEEP_TASKS;
use crate::words::task::{Cause, TaskId};

/// Makes a task in the trash ready again.
pub(crate) struct Restore {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    /// Puts wait for room in the tube, and what there is belongs to them.
    pub(crate) others_wait: bool,
}

/// Removes tasks that came to the trash up to this queue time, of one sweep. Returns how many it
/// has removed, and where the next sweep begins.
pub(crate) struct EmptyTrash {
    pub(crate) tube: u32,
    pub(crate) until: u64,
    pub(crate) from: Option<Key>,
}

impl Op for Restore {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn grows(&self) -> bool {
        true
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let tube = &*ctx.tube(self.tube)?;
        let (stored, from) = lookup::find(ctx, tube, self.id)?;
        let task = stored.task(tube)?;
        let TaskState::Trashed(row) = &from else {
            let text = format!("it is {:?}, not in the trash", from.state());
            return Err(Error::new(ErrorKind::WrongState).because(text).on_task(self.id));
        };
        let mut to = TaskState::ready_or_blocked(kicked(ctx, &task, row), ctx.now);
        keys::admits(ctx, &task, (&from, to.state()))?;
        room(ctx, tube, self.others_wait)?;
        let noted = history::note(ctx, &task, (&from, &mut to), Cause::Restore)?;
        transition::move_task(ctx, &task, &from, &to, Cause::Restore)?;
        noted.write(ctx);
        Ok(())
    }
}

impl Op for EmptyTrash {
    type Done = (u64, Option<Key>);

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let tube = &*ctx.tube(self.tube)?;
        let start = tube.range(Tag::TrashedTime).start();
        let end = key::after_time(&start, self.until);
        // A truncate since the last sweep has given the tube another range.
        let from = self.from.as_deref().map(key::copy).unwrap_or_default();
        let from = start.max(from);
        // The due work of the tube, with which this may be one decision, may leave it no row.
        let (mut removed, mut left, mut next) = (0, SWEEP_TASKS, Some(key::copy(&from)));
        let mut rows = Scan::between(from, end);
        while left > 0 && !ctx.is_sweep_long() {
            let Some((met, _)) = rows.next(ctx)? else { return Ok((removed, None)) };
            next = Some(key::after(&met));
            left -= 1;
            let id = key::id_of(&met).ok_or_else(|| damaged("trash"))?;
            let found = match lookup::find(ctx, tube, id) {
                Err(error) if error.is_not_found() => None,
                found => sound(found)?,
            };
            // A damaged one stays for `check`, as does a row of a damaged key.
            let Some((stored, state @ TaskState::Trashed(_))) = found else { continue };
            let Ok(task) = stored.task(tube) else { continue };
            left = left.saturating_sub(task.pieces().map_or(0, |it| it.count() as usize));
            match dependents::ensure_none(ctx, &task, &state) {
                Err(error) if error.kind() == ErrorKind::HasDependents => continue,
                done => done?,
            }
            transition::erase(ctx, &task, &state, Cause::Delete)?;
            removed += 1;
        }
        Ok((removed, next))
    }
}
