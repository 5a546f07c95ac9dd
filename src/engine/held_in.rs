//! In which tube a task in hand is: in the one that it was taken from, unless that was merged into
//! another one since. Every verb of a lease asks here for its tube.

use crate::engine::context::OpContext;
use crate::engine::lease_time;
use crate::engine::query;
use crate::engine::tube_cache::{TubeEntry, TubeRef};
use crate::format::View;
use crate::format::key;
use crate::format::row::TakenRow;
use crate::words::clock::Now;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::Ticket;

/// The tube of a task that was taken from the one of this number.
///
/// # Errors
/// `TubeNotFound` if that was dropped, and the task was not merged into another one before.
#[inline(always)]
pub(crate) fn tube<'a>(ctx: &OpContext<'a>, number: u32, ticket: Ticket) -> Result<TubeRef<'a>> {
    match ctx.known.has_merged() {
        false => ctx.tube(number),
        true => followed(ctx, number, ticket),
    }
}

#[cold]
#[inline(never)]
fn followed<'a>(ctx: &OpContext<'a>, number: u32, ticket: Ticket) -> Result<TubeRef<'a>> {
    let tube = ctx.tube(number);
    match merged_into(ctx, tube.as_deref(), ticket, ctx.now)? {
        Some(other) => ctx.tube(other),
        None => tube,
    }
}

/// The tube that a lease has gone to, with its token; `None` if it is in this one, which may be
/// damaged, or has ended. The due work of the other tube may not be done: a lease that has lapsed
/// there has ended.
///
/// # Errors
/// `LeaseLost` if this tube is gone, and the task is in another one without this lease.
pub(crate) fn merged_into(
    view: &dyn View,
    tube: Result<&TubeEntry, &Error>,
    ticket: Ticket,
    now: Now,
) -> Result<Option<u32>> {
    let tube = match tube {
        Err(error) if !error.is_not_found() => return Ok(None),
        tube => tube.ok(),
    };
    if let Some(tube) = tube
        && view.get(&key::taken(tube.run(), ticket.id))?.is_some()
    {
        return Ok(None);
    }
    let Some(number) = query::moved_to(view, ticket.id)? else { return Ok(None) };
    let other = match query::tube(view, number) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let row = view.get(&key::taken(other.run(), ticket.id))?;
    let is_held = row.as_deref().and_then(TakenRow::decode).is_some_and(|(_, (taken, _))| {
        taken.token == ticket.token
            && lease_time::end_of(&other, &taken) > now.lease
            && taken.progress.expires > now.queue
    });
    match (is_held, tube) {
        (true, _) => Ok(Some(number)),
        (false, Some(_)) => Ok(None),
        (false, None) => Err(Error::new(ErrorKind::LeaseLost).on_task(ticket.id)),
    }
}
