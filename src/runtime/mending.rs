//! The repair of a queue that is served. It looks at all rows in a snapshot, without the engine's
//! lock, and mends what it has found op by op. Nothing is held between two ops: other calls go on.
//! It decides nothing about rows.

use crate::engine::cascade::FollowEnds;
use crate::engine::mend::{Mend, RepairPlan};
use crate::engine::sweep::{FollowOptions, Sweep};
use crate::format::key::Work;
use crate::runtime::checkpointer::{checkpoint, look_for_room, unless_full};
use crate::runtime::shared::Shared;
use crate::store::{BaseTransaction, StoreFailure, WholeSnapshot, WrongCount};
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{FIXES_OF_OP, REPAIR_ROUNDS, SWEEP_TUBES};
use crate::words::repairs::Repairs;

/// Repairs what can be repaired.
pub(crate) fn repair(core: &Shared) -> Result<Repairs> {
    repair_with(core, |_| ())
}

/// The same; `after` is called after each op with the number of findings that it was given.
fn repair_with(core: &Shared, mut after: impl FnMut(usize)) -> Result<Repairs> {
    core.enter()?;
    core.health.runs()?;
    let _one = core.repairing.lock();
    let mut repairs = Repairs::default();
    let ended = rounds(core, &mut repairs, &mut after);
    // A merge may go on that had no work row.
    core.find_merges();
    match ended {
        // What was done stays done, and the caller is to know of it.
        Err(error) if !repairs.steps.is_empty() => repairs.stopped_by = Some(error.to_string()),
        ended => ended?,
    }
    Ok(repairs)
}

/// Looks and mends until nothing is done any more.
fn rounds(core: &Shared, repairs: &mut Repairs, after: &mut dyn FnMut(usize)) -> Result<()> {
    let (mut last, mut all) = (Vec::new(), false);
    for round in 0.. {
        let (wrong, mut plan) = look(core)?;
        let mut steps = Vec::new();
        if round < REPAIR_ROUNDS
            && let Err(error) = mend(core, (&wrong, &plan, all), &mut steps, after)
        {
            repairs.add(steps);
            // Its own error would be the same one.
            let _ = search_again(core);
            return Err(error);
        }
        if round < REPAIR_ROUNDS && steps.is_empty() && plan.changes_tubes() && !all {
            // Their rows are others by now, or nothing mends them.
            all = true;
            continue;
        }
        all = false;
        // What is mended again and again stays.
        if steps.is_empty() || steps == last {
            wrong.iter().for_each(|wrong| plan.note(counted(wrong)));
            repairs.left = plan.lines;
            repairs.lines_left_out = plan.lines_left_out;
            return Ok(());
        }
        last.clone_from(&steps);
        repairs.add(steps);
        search_again(core)?;
        // Work that begins again, and what it removes.
        while sweep(core)? {}
    }
    Ok(())
}

/// Does some of the work that is left. Returns whether there is more.
fn sweep(core: &Shared) -> Result<bool> {
    let swept = core.run(&Sweep, Durability::Relaxed);
    let mut told = false;
    for kind in [Work::Unlink, Work::Cascade] {
        match core.run(&FollowEnds { kind, of: None }, Durability::Relaxed) {
            // It waits for room, or is mended by a later round.
            Err(error) if matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::Damaged) => {}
            step => told |= step?.is_any,
        }
    }
    let followed = core.run(&FollowOptions { tube: None }, Durability::Relaxed)? || told;
    match swept {
        // Its row is mended by a later round.
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(followed),
        more => more.map(|more| more || followed),
    }
}

/// What memory has of fresh tasks and deadlines does not count any more, and all that wait look
/// again.
fn search_again(core: &Shared) -> Result<()> {
    let numbers = core.running()?.derived.numbers();
    for some in numbers.chunks(SWEEP_TUBES) {
        let mut state = core.running()?;
        state.derived.look_again(some);
        drop(core.release(state));
        core.state.pass_on();
    }
    core.recheck_all();
    Ok(())
}

/// Mends what one look has found. Adds the steps, also those before an error.
fn mend(
    core: &Shared,
    (wrong, plan, all): (&[WrongCount], &RepairPlan, bool),
    steps: &mut Vec<String>,
    after: &mut dyn FnMut(usize),
) -> Result<()> {
    for counts in wrong.chunks(FIXES_OF_OP) {
        correct_counts(core, counts)?;
        steps.extend(counts.iter().map(corrected));
        after(counts.len());
    }
    plan.each_op(all, |findings| {
        let done = core.run(&Mend { findings }, Durability::Durable)?;
        let is_mended = !done.is_empty();
        steps.extend(done);
        after(findings.len());
        Ok(is_mended)
    })
}

/// Looks at all rows, without the engine's lock. A checkpoint before it leaves little to copy under
/// the lock.
fn look(core: &Shared) -> Result<(Vec<WrongCount>, RepairPlan)> {
    loop {
        unless_full(checkpoint(core))?;
        let mut state = core.running()?;
        let (mut snapshot, stalled) = (state.store.whole_snapshot()?, state.derived.all_stalled());
        let plan = RepairPlan::new(state.next_id());
        drop(state);
        let opening = snapshot.opening();
        let read = read_all(&mut snapshot, &stalled, plan);
        drop(snapshot);
        let Err(error) = read else { return read };
        let mut state = core.running()?;
        if state.store.refuses_reads(&error) {
            drop(state);
            core.await_reopening();
        } else if let Some(error) = state.store.failed_read(&opening, error) {
            state.reopen_after(&error);
            return Err(error);
        }
    }
}

/// Reads all rows. Damage of the base that redb finds is a line of the plan, and no count is known
/// to be wrong if not all rows could be counted. Of a base in which redb cannot read a page nothing
/// is mended, because a write could need that page, and would stop the queue.
fn read_all(
    snapshot: &mut WholeSnapshot,
    stalled: &[(u32, u64)],
    mut plan: RepairPlan,
) -> Result<(Vec<WrongCount>, RepairPlan)> {
    let (counted, mut unreadable) = match snapshot.recount(&mut |stray| plan.note(stray)) {
        // Every row was asked for, so that it is a page which cannot be read.
        Err(error) => (Vec::new(), Some((WholeSnapshot::damage(error)?.0, true))),
        Ok(wrong) => (wrong, None),
    };
    let looked = plan.look(snapshot).and_then(|()| plan.add_stalled(snapshot, stalled));
    if let Err(error) = looked {
        let damage = WholeSnapshot::damage(error)?;
        if unreadable.is_none() || damage.1 {
            unreadable = Some(damage);
        }
    }
    match unreadable {
        None => Ok((counted, plan)),
        Some((error, true)) => {
            plan.leave_all(format!("{error}; nothing is mended"));
            Ok((Vec::new(), plan))
        }
        Some((error, false)) => {
            plan.note(error.to_string());
            Ok((counted, plan))
        }
    }
}

/// Corrects counts of rows, in a commit of the base as one of a transaction.
fn correct_counts(core: &Shared, wrong: &[WrongCount]) -> Result<()> {
    let turn = core.writer();
    look_for_room(core, &turn)?;
    let opening = core.running()?.store.opening()?;
    let txn = BaseTransaction::begin(opening)?;
    let mut state = core.running()?;
    let advance = state.advance(0);
    let done = state.store.correct_counts(txn, wrong, advance);
    drop(core.release(state));
    match done {
        Ok(_) => Ok(()),
        Err(StoreFailure::Broken(error) | StoreFailure::Refused(error)) => Err(error),
        Err(StoreFailure::NoRoom | StoreFailure::TooLarge) => Err(Error::new(ErrorKind::Full)),
    }
}

fn corrected(wrong: &WrongCount) -> String {
    format!("{}: the count was corrected", counted(wrong))
}

/// As a check says it.
fn counted(wrong: &WrongCount) -> String {
    let WrongCount { range, stored, rows } = wrong;
    format!("{range:?} counts {stored} rows and has {rows}")
}

#[cfg(test)]
mod tests;
