//! The time of a lease: its ttr and the grace after it. A lease whose ttr has passed and that is in
//! its grace is *stalled*. It has one deadline, the end of its grace, where it had the end of its
//! ttr.

use crate::engine::context::OpContext;
use crate::engine::tube_cache::TubeEntry;
use crate::format::row::TakenRow;
use crate::words::clock::micros;
use crate::words::verb::Extend;

/// The lease in its grace, which begins at its deadline; `None` if it has no grace, or is in it
/// already.
pub(crate) fn stalled(tube: &TubeEntry, taken: &TakenRow) -> Option<TakenRow> {
    let grace = micros(tube.row.options.lapse.grace);
    if taken.is_stalled() || grace == 0 {
        return None;
    }
    let deadline = taken.deadline.saturating_add(grace);
    let mut stalled = TakenRow { deadline, ..taken.clone() };
    // Without room it would stall again at the end of each grace.
    stalled.progress.stall(taken.deadline).then_some(stalled)
}

/// Lease time at which a lease is lost: the end of its grace, also if nothing has noticed yet that
/// its ttr has passed.
pub(crate) fn end_of(tube: &TubeEntry, taken: &TakenRow) -> u64 {
    let left = stalled(tube, taken);
    left.as_ref().unwrap_or(taken).deadline
}

/// Lease time at which the ttr ends.
pub(crate) fn end_of_ttr(taken: &TakenRow) -> u64 {
    taken.progress.lapsed().min(taken.deadline)
}

/// Extends a lease. A stall ends if the ttr ends in the future again, and is counted no more;
/// otherwise its grace moves with it.
pub(crate) fn extend(ctx: &mut OpContext<'_>, tube: &TubeEntry, taken: &mut TakenRow, how: Extend) {
    let (was_stalled, now) = (taken.is_stalled(), ctx.now.lease);
    move_end(taken, how, now);
    if was_stalled && !taken.is_stalled() {
        ctx.effects().count_stalled(tube.number, -1);
    }
}

fn move_end(taken: &mut TakenRow, how: Extend, now: u64) {
    let end = match how {
        Extend::Add(by) => {
            let by = micros(by);
            taken.progress.ttr = taken.progress.ttr.saturating_add(by);
            taken.progress.lengthen_life(by);
            let end = end_of_ttr(taken).saturating_add(by);
            if taken.is_stalled() && end <= now {
                taken.deadline = taken.deadline.saturating_add(by);
                // It has a field of this length already.
                let _fits = taken.progress.stall(end);
                return;
            }
            end
        }
        Extend::Renew => now.saturating_add(taken.progress.ttr),
        Extend::RenewFor(length) => now.saturating_add(micros(length)),
    };
    taken.deadline = end;
    taken.progress.end_stall();
}
