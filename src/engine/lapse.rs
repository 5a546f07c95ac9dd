//! What becomes of a task whose lease lapses: its ttr is over, or the grace after it. The tube says
//! whether the task is stalled first, where it returns to, and whether the attempt counts.

use crate::engine::context::OpContext;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::{history, lease_time, settle, transition};
use crate::format::key::{Order, Rank};
use crate::format::row::TakenRow;
use crate::words::error::Result;
use crate::words::lapse::{Lapse, ReturnTo};
use crate::words::task::Cause;
use std::time::Duration;

/// The deadline of a lease has passed.
pub(crate) fn apply(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, taken: TakenRow) -> Result<()> {
    let terms = task.tube.row.options.lapse;
    // The holder of a voided lease has lost it already.
    if terms == Lapse::new() || settle::is_voided(task.tube, &taken) {
        return settle::return_task(ctx, task, taken, Cause::Ttr);
    }
    if let Some(stalled) = lease_time::stalled(task.tube, &taken) {
        let (from, to) = (TaskState::Taken(taken), TaskState::Taken(stalled));
        transition::move_task(ctx, task, &from, &to, Cause::Stall)?;
        ctx.effects().count_stalled(task.tube.number, 1);
        return Ok(());
    }
    let wait = match terms.to {
        ReturnTo::After(delay) => delay,
        ReturnTo::Place | ReturnTo::Front | ReturnTo::Back => Duration::ZERO,
    };
    let mut progress = taken.progress.clone();
    let mut to = if terms.charged {
        settle::failed(ctx, task.tube, progress, wait)
    } else {
        progress.attempts = progress.attempts.saturating_sub(1);
        settle::later(ctx, task.tube, progress, wait)
    };
    let order = match (terms.to, &to) {
        (ReturnTo::Front, TaskState::Ready(_)) => Order::front(ctx.id()),
        (ReturnTo::Back, TaskState::Ready(_)) => Order::back(ctx.id()),
        _ => task.place.order,
    };
    let place = Rank { order, ..task.place };
    let from = TaskState::Taken(taken);
    let noted = history::note(ctx, task, (&from, &mut to), Cause::Ttr)?;
    transition::move_to_rank(ctx, task, (&from, &to), place, Cause::Ttr)?;
    noted.write(ctx);
    Ok(())
}
