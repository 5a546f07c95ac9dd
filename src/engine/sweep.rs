//! A verb that concerns many tasks is one small commit and a work row. This file does the rest of
//! the work, in bounded steps, also after a crash.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::tube_cache::TubeRef;
use crate::engine::{
    edges, failures, follow, keys, pieces, query, settle, slots, stored, tags, transition,
};
use crate::format::key::{self, Key, Run, Work};
use crate::format::row::{TaskRow, WorkRow};
use crate::format::{Met, Range, Scan, Tag, View};
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::{LOOKS_OF_STEP, PIECES_OF_STEP, SWEEP_BYTES, SWEEP_TASKS};
use crate::words::task::{Cause, TaskId};

/// One step of the first work of each kind. Returns whether there was any.
pub(crate) struct Sweep;

impl Op for Sweep {
    type Done = bool;

    const FOLLOWS_ENDS: bool = false;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let (mut is_any, mut damage) = (false, None);
        for kind in [Work::Clear, Work::Release, Work::Pieces] {
            match step_first(ctx, kind) {
                Err(error) if error.kind() == ErrorKind::Damaged => damage = Some(error),
                done => is_any |= done?,
            }
            if ctx.is_sweep_long() {
                break;
            }
        }
        match damage.filter(|_| !is_any) {
            Some(error) => Err(error),
            None => Ok(is_any),
        }
    }
}

/// One step of the first work of a kind that can be done. Work that meets damage waits for a
/// repair, and stops no other.
///
/// # Errors
/// `Damaged` if there is work, and none of it can be done.
fn step_first(ctx: &mut OpContext<'_>, kind: Work) -> Result<bool> {
    let (mut works, mut damage) = (Scan::prefixed(key::work_of(kind)), None);
    for _ in 0..LOOKS_OF_STEP {
        let Some(met) = works.next(ctx)? else { break };
        match ctx.attempt(|ctx| step(ctx, kind, met)) {
            Err(error) if error.kind() == ErrorKind::Damaged => damage = Some(error),
            done => return done.map(|()| true),
        }
    }
    damage.map_or(Ok(false), Err)
}

/// One step of the sweep that lets rows of a tube follow a change of its options. It is an op of
/// its own, so that a step that is refused, as on a full disk, does not stop the others. Returns
/// whether there was any.
pub(crate) struct FollowOptions {
    /// `None` is the first tube with such work.
    pub(crate) tube: Option<u32>,
}

impl Op for FollowOptions {
    type Done = bool;

    const FOLLOWS_ENDS: bool = false;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let Some(number) = self.tube else {
            return Ok(sound(step_first(ctx, Work::Follow))?.unwrap_or(false));
        };
        let tube = ctx.tube(number)?;
        let work = ctx.row(&follow::work_of(&tube))?;
        let is_any = work.is_some() || tube.row.pending.is_any();
        match work {
            Some(met) => step(ctx, Work::Follow, met)?,
            // Its row was lost.
            None => _ = follow::step(ctx, &tube)?,
        }
        Ok(is_any)
    }
}

/// The tubes with voided leases whose tasks are not ready yet.
pub(crate) fn releasing(view: &dyn View) -> Result<Vec<u32>> {
    let mut tubes = Vec::new();
    if view.count(Range::of(Tag::Work)) > 0 {
        let mut rows = Scan::prefixed(key::work_of(Work::Release));
        while let Some((_, row)) = rows.next(view)? {
            let work = row.as_deref().and_then(WorkRow::decode);
            tubes.extend(work.map(|work| work.tube));
        }
    }
    Ok(tubes)
}

/// The rows of one sweep over keys that end with a task's id, one for each task, in order.
pub(crate) struct TaskSweep {
    rows: Scan,
    /// The most rows that this sweep still reads.
    left: usize,
    /// The task at which the next sweep begins; `None` after the last.
    pub(crate) next: Option<TaskId>,
}

impl TaskSweep {
    /// Begins at this key.
    pub(crate) fn new(mut rows: Scan, from: Key) -> Self {
        let next = key::id_of(&from);
        rows.skip_to(from);
        Self { rows, left: SWEEP_TASKS, next }
    }

    /// The next row, with its task. `None` after the last row, and when the sweep has done enough.
    pub(crate) fn next(&mut self, ctx: &OpContext<'_>) -> Result<Option<(TaskId, Met)>> {
        if self.left == 0 || self.next.is_none() || ctx.is_sweep_long() {
            return Ok(None);
        }
        self.left -= 1;
        let Some(met) = self.rows.next(ctx)? else {
            self.next = None;
            return Ok(None);
        };
        let id = key::id_of(&met.0).ok_or_else(|| damaged("index"))?;
        self.next = id.get().checked_add(1).map(TaskId::new);
        Ok(Some((id, met)))
    }
}

/// Does one sweep of a work row, and stores where to continue.
pub(crate) fn step(ctx: &mut OpContext<'_>, kind: Work, (at, row): Met) -> Result<()> {
    let run = key::run_of_work(&at).ok_or_else(|| damaged("work"))?;
    let work = row.as_deref().and_then(WorkRow::decode);
    let left = match kind {
        Work::Clear => clear(ctx, run)?.then(|| work.unwrap_or_default().encode()),
        Work::Release => release(ctx, run, work)?.map(|left| left.encode()),
        Work::Follow => follow(ctx, run, work)?.map(|left| left.encode()),
        Work::Pieces => {
            let of = pieces::owner_of(&at)?;
            pieces::step(ctx, of, row.as_deref())?.map(|left| left.encode())
        }
        // The call that writes the pieces ends this work, or an opening does.
        Work::Staged | Work::Linking | Work::Merge => return Ok(()),
        // These have an op of their own.
        Work::Cascade | Work::Unlink => return Ok(()),
    };
    match left {
        Some(left) => ctx.change(at, left),
        None => ctx.remove(at),
    }
    Ok(())
}

/// Bytes of a row that count as one more row of a sweep.
const ROW_BYTES: usize = SWEEP_BYTES / (SWEEP_TASKS * 2);

/// Removes rows of a run that belongs to no tube any more. The payload bytes of its tasks count
/// until then. Returns whether there are more rows.
fn clear(ctx: &mut OpContext<'_>, run: Run) -> Result<bool> {
    let mut left = SWEEP_TASKS * 2;
    // Slots of throttles are left first: others wait for them. Then the rows of tasks go: they lead
    // to the pieces.
    let first = [Tag::Taken].into_iter().chain(Tag::TASKS);
    let others = Tag::in_runs().filter(|tag| *tag != Tag::Taken && !Tag::TASKS.contains(tag));
    for tag in first.chain(others) {
        let range = Range::in_run(tag, run);
        let mut rows = Scan::over(range);
        while ctx.count(range) > 0 {
            if left == 0 {
                return Ok(true);
            }
            let Some(met) = rows.next(ctx)? else { break };
            ctx.remove(key::copy(&met.0));
            let read = met.1.as_ref().map_or(0, |row| row.len());
            left = left.saturating_sub(1 + read / ROW_BYTES);
            if Tag::TASKS.contains(&tag) {
                let pieces = clear_payload(ctx, run, &met)?;
                left = left.saturating_sub(pieces);
                if let Some(id) = key::id_of(&met.0) {
                    for rows in [key::history_of(run, id), key::reports_of(run, id)] {
                        left = left.saturating_sub(clear_rows(ctx, rows)?);
                    }
                    left = left.saturating_sub(tags::clear(ctx, run, id)?);
                    left = left.saturating_sub(edges::clear(ctx, run, id)?);
                }
            } else if tag == Tag::BuriedGroup {
                failures::forget_failed(ctx, &met.0)?;
            } else if tag == Tag::Taken {
                left = left.saturating_sub(slots::clear(ctx, run, &met)?);
            } else if let Tag::Key | Tag::KeyUncounted = tag {
                keys::forget(ctx, &met.0)?;
            }
        }
    }
    Ok(false)
}

/// Removes the rows whose keys begin so: of a task that is removed. Returns how many there were.
fn clear_rows(ctx: &mut OpContext<'_>, prefix: Key) -> Result<usize> {
    if Range::holding(&prefix).is_none_or(|range| ctx.count(range) == 0) {
        return Ok(0);
    }
    let (mut rows, mut removed) = (Scan::prefixed(prefix), 0);
    while let Some((met, _)) = rows.next(ctx)? {
        ctx.remove(met);
        removed += 1;
    }
    Ok(removed)
}

/// Removes the payload of a task whose own row is removed. Returns the number of pieces, or more.
fn clear_payload(ctx: &mut OpContext<'_>, run: Run, (key, row): &Met) -> Result<usize> {
    let Some(id) = key::id_of(key) else { return Ok(0) };
    let Some(task) = row.as_deref().and_then(TaskRow::decode) else {
        if ctx.row(&key::moved(run, id))?.is_some() {
            ctx.remove(key::moved(run, id));
        }
        let bytes = pieces::remove_found(ctx, (run, id))?;
        ctx.effects().count_bytes(run, -(bytes as i64));
        return Ok(PIECES_OF_STEP);
    };
    ctx.effects().count_bytes(run, -(task.payload.bytes() as i64));
    transition::forget_moved(ctx, (run, id), &task)?;
    let Some(pieces) = task.payload.pieces() else { return Ok(0) };
    pieces::remove(ctx, (run, id), &pieces)?;
    Ok(pieces.count() as usize)
}

/// The tube of a run. Where the work row is damaged, the tube rows are searched.
fn tube_of<'a>(
    ctx: &OpContext<'a>,
    run: Run,
    work: Option<&WorkRow>,
) -> Result<Option<TubeRef<'a>>> {
    let numbers = match work {
        Some(work) => vec![work.tube],
        None => query::numbers(ctx)?,
    };
    for number in numbers {
        match ctx.tube(number) {
            Ok(tube) if tube.run() == run => return Ok(Some(tube)),
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

/// Returns leases that `release_all` voided. Returns the work that is left; `None` if the run no
/// longer belongs to a tube.
fn release(ctx: &mut OpContext<'_>, run: Run, work: Option<WorkRow>) -> Result<Option<WorkRow>> {
    let Some(tube) = tube_of(ctx, run, work.as_ref())? else { return Ok(None) };
    let work = work.unwrap_or_default();
    let from = key::taken(run, TaskId::new(work.from));
    let mut leases = TaskSweep::new(Scan::over(tube.range(Tag::Taken)), from);
    while let Some((id, (_, row))) = leases.next(ctx)? {
        // A damaged lease stays: its task is unknown.
        let lease = row.map(|row| stored::lease(ctx, &tube, id, &row));
        let Some(Ok((stored, taken))) = lease else { continue };
        let Ok(task) = stored.task(&tube) else { continue };
        if settle::is_voided(&tube, &taken) {
            // If the task is damaged, none of its rows was written. The other tasks return.
            sound(settle::return_task(ctx, &task, taken, Cause::Release))?;
        }
    }
    Ok(leases.next.map(|next| WorkRow { tube: tube.number, from: next.get(), ..work }))
}

/// Lets rows follow a change of options. Returns the work that is left; `None` if the run no longer
/// belongs to a tube.
fn follow(ctx: &mut OpContext<'_>, run: Run, work: Option<WorkRow>) -> Result<Option<WorkRow>> {
    let Some(tube) = tube_of(ctx, run, work.as_ref())? else { return Ok(None) };
    let is_left = follow::step(ctx, &tube)?;
    Ok(is_left.then(|| WorkRow { tube: tube.number, ..work.unwrap_or_default() }))
}
