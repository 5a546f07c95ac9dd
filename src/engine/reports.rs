//! What was reported of the work on a task, in rows that go with the task. A task of which nothing
//! was reported has no such row and no byte of it.

use crate::engine::context::{OpContext, damaged, sound};
use crate::engine::lookup;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, ReportPart, Run};
use crate::format::row::{ReportRow, StoredReports, TaskProgress};
use crate::format::{Range, View};
use crate::words::clock::{NEVER, instant};
use crate::words::error::Result;
use crate::words::report::{Phase, WorkProgress};
use crate::words::task::TaskId;

/// What was reported of a task in this state. Of a damaged row nothing is known.
pub(crate) fn read(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    state: &TaskState,
) -> Result<(Option<Phase>, Option<WorkProgress>)> {
    let taken = matches!(state, TaskState::Taken(_));
    let reserved = taken.then_some(Phase::Reserved);
    if !state.progress().reports().has(ReportPart::Report) {
        return Ok((reserved, None));
    }
    let row = sound(view.get(&key::report(tube.run(), id, ReportPart::Report)))?.flatten();
    let Some(row) = row.as_deref().and_then(ReportRow::decode) else {
        return Ok((reserved, None));
    };
    let is_started = row.started != NEVER && row.delivery == state.progress().deliveries;
    let phase = match reserved {
        Some(_) if is_started => {
            Some(Phase::Started { at: instant(row.started), meta: row.meta.to_owned() })
        }
        reserved => reserved,
    };
    let progress = (row.progressed != NEVER).then(|| WorkProgress {
        percent: row.percent,
        text: row.text.to_owned(),
        at: instant(row.progressed),
    });
    Ok((phase, progress))
}

/// The last checkpoint of a task, in any state.
///
/// # Errors
/// `TaskNotFound`, or `Damaged` if it is damaged, or another row of the task.
pub(crate) fn checkpoint(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<Option<Vec<u8>>> {
    let (_, state) = lookup::find(view, tube, id)?;
    if !state.progress().reports().has(ReportPart::Checkpoint) {
        return Ok(None);
    }
    let row = view.get(&key::report(tube.run(), id, ReportPart::Checkpoint))?;
    row.map(|row| Some(row.to_vec())).ok_or_else(|| damaged("checkpoint"))
}

/// Removes what was reported of a task that is removed, or whose step is done.
pub(crate) fn erase(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, progress: &TaskProgress) {
    for part in progress.reports().parts() {
        ctx.remove(key::report(task.tube.run(), task.id, part));
    }
}

/// Removes the checkpoint of a task whose work is done.
pub(crate) fn forget_checkpoint(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    progress: &mut TaskProgress,
) {
    let reports = progress.reports();
    if reports.has(ReportPart::Checkpoint) {
        let _shrinks = progress.set_reports(reports.without(ReportPart::Checkpoint));
        ctx.remove(key::report(task.tube.run(), task.id, ReportPart::Checkpoint));
    }
}

/// Says in a state whose row was damaged which rows there are.
pub(crate) fn recover(
    ctx: &OpContext<'_>,
    run: Run,
    id: TaskId,
    progress: &mut TaskProgress,
) -> Result<()> {
    let _fits = progress.set_reports(found(ctx, run, id)?);
    let row = sound(ctx.get(&key::report(run, id, ReportPart::Report)))?.flatten();
    if let Some(row) = row.as_deref().and_then(ReportRow::decode) {
        // A later lease must not have the number of the delivery that was started.
        progress.deliveries = progress.deliveries.max(row.delivery);
    }
    Ok(())
}

/// Which rows there are of a task.
fn found(view: &dyn View, run: Run, id: TaskId) -> Result<StoredReports> {
    let mut found = StoredReports::default();
    let range = Range::holding(&key::reports_of(run, id));
    if range.is_none_or(|range| view.count(range) == 0) {
        return Ok(found);
    }
    for part in ReportPart::ALL {
        if view.row(&key::report(run, id, part))?.is_some() {
            found = found.with(part);
        }
    }
    Ok(found)
}
