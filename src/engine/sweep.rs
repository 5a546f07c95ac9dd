//! What touches many tasks is one small commit and a work row; here the rest is done, in bounded
//! steps, also after a crash.

use crate::bytes::key::{self, Key, Run};
use crate::bytes::row::WorkRow;
use crate::bytes::{Range, Tag, Value, View};
use crate::engine::desk::{Desk, Op, damaged};
use crate::engine::index;
use crate::engine::{look, settle};
use crate::error::{ErrorKind, Result};
use crate::limits::SWEEP_TASKS;
use crate::task::{Cause, TaskId};

/// One step of the first work row there is. Answers whether there was one.
pub(crate) struct Sweep;

impl Op for Sweep {
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        None
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<bool> {
        let range = Range::of(Tag::Work);
        let Some((met, row)) = desk.first(&range.start(), &range.end())? else { return Ok(false) };
        let run = met.get(1..5).and_then(|run| run.try_into().ok()).map(u32::from_be_bytes);
        let run = run.map(Run).ok_or_else(|| damaged("work"))?;
        step(desk, run, row)?;
        Ok(true)
    }
}

/// What a sweep has to do under a run. Of a damaged row it is known by whose the run is.
fn work(desk: &Desk<'_>, run: Run, row: Option<Value>) -> Result<WorkRow> {
    if let Some(work) = row.as_deref().and_then(WorkRow::decode) {
        return Ok(work);
    }
    for tube in look::numbers(desk)? {
        if desk.tube(tube)?.run() == run {
            return Ok(WorkRow::Release { tube, from: 0 });
        }
    }
    Ok(WorkRow::Clear)
}

/// Does one sweep's worth of a work row, and notes how far it came.
pub(crate) fn step(desk: &mut Desk<'_>, run: Run, row: Option<Value>) -> Result<()> {
    let work = work(desk, run, row)?;
    let left = match work {
        WorkRow::Clear => clear(desk, run)?.then_some(work),
        WorkRow::Release { tube, from } => {
            release(desk, tube, from)?.map(|from| WorkRow::Release { tube, from })
        }
    };
    match left {
        Some(left) => desk.change(key::work(run), left.encode()),
        None => desk.remove(key::work(run)),
    }
    Ok(())
}

/// Removes rows of a run that belongs to no tube any more, whose payload bytes are held until
/// then. Whether there are more.
fn clear(desk: &mut Desk<'_>, run: Run) -> Result<bool> {
    let mut left = SWEEP_TASKS * 2;
    // A payload tells its bytes where the task's row does not, so it goes after that.
    let others = Tag::ALL.into_iter().filter(|tag| tag.in_run() && !Tag::STATES.contains(tag));
    for tag in Tag::STATES.into_iter().chain(others) {
        let range = Range::in_run(tag, run);
        let mut from: Key = range.start();
        while desk.count(range) > 0 {
            if left == 0 {
                return Ok(true);
            }
            let Some(met) = desk.first(&from, &range.end())? else { break };
            from = key::after(&met.0);
            desk.remove(key::copy(&met.0));
            if Tag::STATES.contains(&tag) {
                let bytes = index::payload_bytes(desk, tag, met)?;
                desk.bytes_out(run, bytes.unwrap_or(0));
            }
            left -= 1;
        }
    }
    Ok(false)
}

/// Returns leases that `release_all` voided, from an id on. Where to go on, if there are more.
fn release(desk: &mut Desk<'_>, tube: u32, from: u64) -> Result<Option<u64>> {
    let tube = desk.tube(tube)?;
    let range = tube.range(Tag::Taken);
    let mut from = TaskId::new(from);
    for _ in 0..SWEEP_TASKS {
        let start = key::taken(tube.run(), from);
        let Some((met, row)) = desk.first(&start, &range.end())? else { return Ok(None) };
        let id = key::id_of(&met).ok_or_else(|| damaged("taken"))?;
        from = TaskId::new(id.get().saturating_add(1));
        // A damaged one stays: nobody knows whose it is.
        let Some(Ok((stored, taken))) = row.map(|row| index::lease(id, row)) else { continue };
        let Ok(task) = stored.task() else { continue };
        if settle::is_voided(&tube, &taken) {
            match settle::give_back_uncharged(desk, &tube, &task, taken, Cause::Release) {
                // Nothing of it was written; the others are returned.
                Err(error) if error.kind() == ErrorKind::Damaged => {}
                done => done?,
            }
        }
    }
    Ok(Some(from.get()))
}
