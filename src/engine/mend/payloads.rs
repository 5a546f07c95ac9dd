//! Pieces of payloads without a sound row that names them, and payloads without some of their
//! pieces. Pieces of a put that was not finished never make a task.

use super::tasks::{self, LeftOver, find, is_buried};
use super::{Mended, done, tubes};
use crate::engine::context::OpContext;
use crate::engine::pieces::{self, Owner};
use crate::engine::stored::TaskState;
use crate::engine::transition;
use crate::format::key::{self, Key, Run};
use crate::format::piece::{PIECE_BYTES_MIN, Pieces};
use crate::format::{Scan, Value, View};
use crate::words::task::TaskId;

/// The tube of tasks of which only a payload is left.
const RECOVERED: &str = "recovered";
/// The same of those of temporary tubes.
const RECOVERED_TEMPORARY: &str = "recovered-temporary";

/// Brings back a task of which only pieces of its payload are left, in a tube for such tasks. Only
/// a whole payload that no work is about is known to be of a task; other pieces go.
pub(super) fn bring_back(ctx: &mut OpContext<'_>, id: TaskId, keys: &[Key]) -> Mended {
    // Its rows may be there by now.
    if tubes::have(ctx, id)? {
        return Ok(None);
    }
    let is_temporary = keys.iter().any(|key| key::is_temporary(key));
    let run = if is_temporary { Run(Run::TEMPORARY) } else { Run::QUEUE };
    let whole = pieces::find(ctx, (run, id))?.whole;
    if !tasks::was_given(ctx, id) {
        return remove_all(ctx, keys, "there was no such task");
    }
    if !whole.is_some_and(|pieces| has_end(&pieces)) {
        return remove_all(
            ctx,
            keys,
            "no other row is of that task, and they are no whole payload",
        );
    }
    let name = if is_temporary { RECOVERED_TEMPORARY } else { RECOVERED };
    let Some(tube) = tubes::named(ctx, name, is_temporary)? else { return Ok(None) };
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
    let ((run, id), generation) = pieces::owner_of(work)?;
    let (mut count, mut bytes) = (0, 0);
    let mut rows = Scan::prefixed(key::pieces_of_payload(run, id, generation));
    while let Some((_, row)) = rows.next(ctx)? {
        (count, bytes) = (count + 1, bytes + row.map_or(0, |row| row.len()));
    }
    pieces::roll_back(ctx, met)?;
    let what = "a payload that no task has yet was rolled back";
    Ok(Some(format!("{what}: {count} pieces with {bytes} bytes of task {id} are removed")))
}

/// Buries a task whose payload is damaged. One that is done keeps its result, and one that is taken
/// its holder: both stay as they are, and are found again. Pieces that are missing become empty
/// ones, also of a task that a sweep removes: they are removed with the task without being looked
/// for.
pub(super) fn lose(
    ctx: &mut OpContext<'_>,
    number: Option<u32>,
    (run, id): Owner,
    pieces: &Pieces,
) -> Mended {
    let mut is_any = false;
    for number in 0..pieces.count() {
        let at = key::piece(run, id, pieces.generation, number);
        if ctx.row(&at)?.is_none() {
            ctx.add(at, Value::EMPTY);
            is_any = true;
        }
    }
    if is_any {
        return done("the missing pieces are empty ones now, and the payload is lost");
    }
    let Some(number) = number else { return Ok(None) };
    let tube = &*ctx.tube(number)?;
    let Some((stored, state)) = find(ctx, tube, id)? else { return Ok(None) };
    if !matches!(state, TaskState::Fresh(_) | TaskState::Ready(_) | TaskState::Delayed(_)) {
        return Ok(None);
    }
    let own = key::task(run, &stored.home, id);
    let at = transition::state_key(&stored.task(tube)?, &state).unwrap_or(own);
    match is_buried(ctx, number, &at)? {
        true => done("the task was buried, its payload is lost"),
        false => Ok(None),
    }
}
