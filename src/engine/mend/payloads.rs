//! Pieces of payloads without a sound row that names them, and payloads without some of their
//! pieces. Pieces of a put that was not finished never make a task.

use super::tasks::{self, LeftOver};
use super::tubes::{self, NamedTube};
use super::{Mended, done};
use crate::engine::context::OpContext;
use crate::engine::pieces::{self, Owner};
use crate::format::key::{self, Key, Run};
use crate::format::piece::{PIECE_BYTES_MIN, Pieces};
use crate::format::{Value, View};
use crate::words::task::TaskId;

const PAYLOAD_DAMAGED: &str = "its payload is damaged";

/// The tube of tasks of which only a payload is left.
const RECOVERED: &str = "recovered";

/// Brings back a task of which only pieces of its payload are left, in a tube for such tasks. Only
/// a whole payload that no work is about is known to be of a task; other pieces go. `was_given`
/// says whether its id had been given when no tube was found to have it.
pub(super) fn bring_back(
    ctx: &mut OpContext<'_>,
    (id, was_given): (TaskId, bool),
    keys: &[Key],
) -> Mended {
    if !was_given {
        return match tasks::was_given(ctx, id) {
            // They may be those of a new task.
            true => Ok(None),
            false => remove_all(ctx, keys, "there was no such task"),
        };
    }
    let whole = pieces::find(ctx, (Run::QUEUE, id))?.whole;
    if !whole.is_some_and(|pieces| has_end(&pieces)) {
        return remove_all(
            ctx,
            keys,
            "no other row is of that task, and they are no whole payload",
        );
    }
    let name = RECOVERED;
    let tube = match tubes::named(ctx, name)? {
        NamedTube::There(tube) => tube,
        NamedTube::Made => return Ok(Some(format!("the tube {name:?} was made for such tasks"))),
        NamedTube::Unfit => return Ok(None),
    };
    let reason = "only its payload was left, and no row said of which tube".to_owned();
    let done = tasks::bring_back_in(ctx, &tube, id, reason, LeftOver::default())?;
    Ok(done.map(|_| format!("the task was brought back, buried, in the tube {name:?}")))
}

/// Whether the last piece is the end of its payload: it is shorter than those that others follow.
fn has_end(pieces: &Pieces) -> bool {
    let last = pieces.count().checked_sub(1).and_then(|last| pieces.piece(last));
    last.is_some_and(|last| last.len() < PIECE_BYTES_MIN)
}

fn remove_all(ctx: &mut OpContext<'_>, keys: &[Key], why: &str) -> Mended {
    let (mut count, mut bytes) = (0, 0);
    for key in keys {
        if let Some((_, row)) = ctx.row(key)? {
            (count, bytes) = (count + 1, bytes + row.map_or(0, |row| row.len()));
            ctx.remove(key::copy(key));
        }
    }
    Ok(Some(format!("{count} pieces with {bytes} bytes were removed: {why}")))
}

/// Ends a call that writes pieces, of which this is the row of work. A sweep removes the pieces.
pub(super) fn roll_back(ctx: &mut OpContext<'_>, work: &Key) -> Mended {
    let Some(met) = ctx.row(work)? else { return Ok(None) };
    let ((_, id), _) = pieces::owner_of(work)?;
    pieces::roll_back(ctx, met)?;
    Ok(Some(format!("the pieces of a payload that task {id} does not have yet are removed")))
}

/// Buries a task whose payload is damaged. One that is done keeps its result, and one that is taken
/// its holder: both stay as they are, and are found again. Pieces that are missing become empty
/// ones, also of a task that a sweep removes: they are removed with the task without being looked
/// for.
pub(super) fn lose(
    ctx: &mut OpContext<'_>,
    number: Option<u32>,
    (run, id): Owner,
    (pieces, missing): (&Pieces, &[u32]),
) -> Mended {
    let mut is_any = false;
    for number in missing {
        let at = key::piece(run, id, pieces.generation, *number);
        if ctx.row(&at)?.is_none() {
            ctx.add(at, Value::EMPTY);
            is_any = true;
        }
    }
    if is_any {
        return done("the missing pieces are empty ones now, and the payload is lost");
    }
    number
        .map_or(Ok(None), |number| tasks::bury_without_payload(ctx, (number, id), PAYLOAD_DAMAGED))
}
