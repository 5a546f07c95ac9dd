//! The end of a task whose work is done: it is removed, or kept with its result where its tube
//! keeps finished tasks.

use crate::engine::context::{OpContext, sound};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{edges, pieces, reports, retention, transition};
use crate::format::key;
use crate::format::row::{DoneRow, PayloadPlace, TakenRow, TaskRow, dropped_section};
use crate::format::{Tag, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::RESULT_BYTES_MAX;
use crate::words::task::Cause;

/// Refuses a result that is too long, or that the tube would not keep.
pub(crate) fn check(tube: &TubeEntry, result: &[u8]) -> Result<()> {
    if tube.row.options.keep_finished.is_none() {
        let text = "a result, which the tube does not keep; make it with keep_finished";
        return Err(Error::new(ErrorKind::Unsupported).because(text));
    }
    fits(result)
}

/// Refuses a result that is too long.
pub(crate) fn fits(result: &[u8]) -> Result<()> {
    if result.len() <= RESULT_BYTES_MAX {
        return Ok(());
    }
    let text = format!("the result has {} bytes, the limit is {RESULT_BYTES_MAX}", result.len());
    Err(Error::new(ErrorKind::TooLarge).because(text))
}

/// Ends a taken task, as [`finish`] does.
#[cold]
pub(crate) fn finish_taken(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    taken: TakenRow,
    result: Option<&[u8]>,
) -> Result<()> {
    finish(ctx, task, &TaskState::Taken(taken), result)
}

/// Ends a task. On a full disk it is removed in any case: to keep it would need more rows.
pub(crate) fn finish(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: &TaskState,
    result: Option<&[u8]>,
) -> Result<()> {
    match task.tube.row.options.keep_finished {
        Some(_) if !ctx.is_full() => keep(ctx, task, from, result),
        _ => transition::erase(ctx, task, from, Cause::Ack),
    }
}

fn keep(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: &TaskState,
    result: Option<&[u8]>,
) -> Result<()> {
    let mut progress = from.progress().clone();
    progress.clear_failure();
    reports::forget_checkpoint(ctx, task, &mut progress);
    progress.set_kept_until(retention::until(ctx, task.tube, Tag::Done));
    edges::leave(ctx, task, &mut progress)?;
    let (time, result, has_key_rows) = (ctx.now.queue, result.map(Box::from), task.key().is_some());
    let to = TaskState::Done(DoneRow { progress, time, result, has_key_rows });
    if task.tube.row.options.drop_payloads {
        return keep_without_payload(ctx, task, (from, &to));
    }
    transition::move_task(ctx, task, from, &to, Cause::Ack)
}

/// Ends a task of which all but the payload is kept. If its own row is damaged or missing, no row
/// says what to remove, and it ends with what there is.
#[cold]
fn keep_without_payload(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    (from, to): (&TaskState, &TaskState),
) -> Result<()> {
    let (run, id) = (task.tube.run(), task.id);
    let read = match task.read {
        Some((raw, _)) => Some(raw.clone()),
        None => sound(ctx.get(&key::task(run, &task.home, id)))?.flatten(),
    };
    let whole = read.as_ref().and_then(|raw| TaskRow::decode(raw).map(|row| (raw, row)));
    let section = whole.and_then(|(_, row)| dropped_section(row.extension));
    let (Some((raw, row)), Some(section)) = (whole, section) else {
        return transition::move_task(ctx, task, from, to, Cause::Ack);
    };
    let left = TaskRow { extension: &section, payload: PayloadPlace::Inline(&[]), ..row };
    let left_raw = left.encode();
    let old = TaskRef { read: Some((raw, row)), ..*task };
    let new = TaskRef { bytes: 0, read: Some((&left_raw, left)), ..*task };
    transition::strip(ctx, (&old, from), (&new, to), Cause::Ack)?;
    match row.payload.pieces() {
        Some(pieces) => pieces::remove(ctx, (run, id), &pieces),
        None => Ok(()),
    }
}
