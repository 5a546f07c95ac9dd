//! A verb that concerns many tasks is one small commit and a work row. This file does the rest of
//! the work, in bounded steps, also after a crash.

use crate::engine::context::{Op, OpContext, damaged};
use crate::engine::tube_cache::TubeRef;
use crate::engine::{query, settle, stored, transition};
use crate::format::key::{self, Key, Run, Work};
use crate::format::row::WorkRow;
use crate::format::{Met, Range, Tag, View};
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::SWEEP_TASKS;
use crate::words::task::{Cause, TaskId};

/// One step of the first work of each kind. Returns whether there was any.
pub(crate) struct Sweep;

impl Op for Sweep {
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        None
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let mut is_any = false;
        for kind in Work::ALL {
            let from = key::work_of(kind);
            if let Some(met) = ctx.first(&from, &key::end_of(&from))? {
                step(ctx, kind, met)?;
                is_any = true;
            }
        }
        Ok(is_any)
    }
}

/// Does one sweep of a work row, and stores where to continue.
pub(crate) fn step(ctx: &mut OpContext<'_>, kind: Work, (at, row): Met) -> Result<()> {
    let run = key::run_of_work(&at).ok_or_else(|| damaged("work"))?;
    let work = row.as_deref().and_then(WorkRow::decode);
    let left = match kind {
        Work::Clear => clear(ctx, run)?.then(|| work.unwrap_or_default()),
        Work::Release => release(ctx, run, work)?,
    };
    match left {
        Some(left) => ctx.change(at, left.encode()),
        None => ctx.remove(at),
    }
    Ok(())
}

/// Removes rows of a run that no longer belongs to a tube. Their payload bytes count until then.
/// Returns whether there are more.
fn clear(ctx: &mut OpContext<'_>, run: Run) -> Result<bool> {
    let mut left = SWEEP_TASKS * 2;
    // A payload row states the bytes of a damaged task row, so it is removed after that.
    for tag in [Tag::Task].into_iter().chain(Tag::in_runs().filter(|tag| *tag != Tag::Task)) {
        let range = Range::in_run(tag, run);
        let mut from: Key = range.start();
        while ctx.count(range) > 0 {
            if left == 0 {
                return Ok(true);
            }
            let Some(met) = ctx.first(&from, &range.end())? else { break };
            from = key::after(&met.0);
            ctx.remove(key::copy(&met.0));
            if tag == Tag::Task {
                let bytes = transition::payload_bytes(ctx, met)?;
                ctx.bytes_out(run, bytes.unwrap_or(0));
            } else if tag == Tag::BuriedGroup {
                transition::forget_failed(ctx, &met.0)?;
            }
            left -= 1;
        }
    }
    Ok(false)
}

/// The tube of a run. If a damaged work row does not state it, the tubes are searched.
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
    let range = tube.range(Tag::Taken);
    let mut from = TaskId::new(work.as_ref().map_or(0, |work| work.from));
    for _ in 0..SWEEP_TASKS {
        let start = key::taken(run, from);
        let Some((met, row)) = ctx.first(&start, &range.end())? else { return Ok(None) };
        let id = key::id_of(&met).ok_or_else(|| damaged("taken"))?;
        from = TaskId::new(id.get().saturating_add(1));
        // A damaged lease stays: its task is unknown.
        let lease = row.map(|row| stored::lease(ctx, &tube, id, &row));
        let Some(Ok((stored, taken))) = lease else { continue };
        let Ok(task) = stored.task() else { continue };
        if settle::is_voided(&tube, &taken) {
            match settle::give_back_uncharged(ctx, &tube, &task, taken, Cause::Release) {
                // It wrote nothing; the other leases are returned.
                Err(error) if error.kind() == ErrorKind::Damaged => {}
                done => done?,
            }
        }
    }
    let (tube, from) = (tube.number, from.get());
    Ok(Some(WorkRow { tube, from, ..work.unwrap_or_default() }))
}
