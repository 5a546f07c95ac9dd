//! Statistics of days: what a step of a task adds to them, in tubes that keep some. A day begins
//! with a row, which the first step of the day writes; every step after it only says what it adds,
//! and writes no row. Days that are too old are due work. No other file says what is counted. On a
//! full disk nothing is: a row of a day is larger than what a step of a task frees.

use crate::engine::context::{OpContext, decoded, sound};
use crate::engine::effects::NextDue;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key, Run, Tag};
use crate::format::row::{DayEntry, DayItem, DayRow, DelayedRow, TaskRow};
use crate::format::{Deadline, Scan, Value, View};
use crate::words::clock::{NEVER, Now};
use crate::words::error::Result;
use crate::words::limits::SWEEP_TASKS;
use crate::words::statistics::{DAY, DayStatistics};
use crate::words::task::{Cause, TaskId};

/// The day of a queue time.
fn day_of(micros: u64) -> u32 {
    u32::try_from(micros / DAY).unwrap_or(u32::MAX)
}

/// Makes it right of a task that was put before and comes to this tube, or to its end.
#[cold]
pub(crate) fn arrive(ctx: &OpContext<'_>, tube: &TubeEntry, to: &mut TaskState) {
    let is_ready = matches!(to, TaskState::Ready(_)) && tube.row.options.keep_days > 0;
    let progress = to.progress_mut();
    progress.set_ready_since(is_ready.then_some(ctx.now.queue));
}

/// The same of one that comes to the tube as it stands: it goes on being ready.
#[cold]
pub(crate) fn carry(
    ctx: &OpContext<'_>,
    (task, from): (&TaskRef<'_>, &TaskState),
    tube: &TubeEntry,
    to: &mut TaskState,
) -> Result<()> {
    let is_ready = matches!(to, TaskState::Ready(_)) && tube.row.options.keep_days > 0;
    let since = if is_ready { ready_since(ctx, task, from)?.or(Some(ctx.now.queue)) } else { None };
    to.progress_mut().set_ready_since(since);
    Ok(())
}

/// Says since when a new task is ready that has a row.
#[cold]
pub(crate) fn put(ctx: &OpContext<'_>, state: &mut TaskState) {
    if let TaskState::Ready(progress) = state {
        progress.set_ready_since(Some(ctx.now.queue));
    }
}

/// The state with what its row is to say of statistics: since when a task is ready, and nothing in
/// a tube that keeps no days. `None` if it is so, and if there is no room.
#[cold]
#[inline(never)]
pub(crate) fn stated(
    ctx: &OpContext<'_>,
    task: &TaskRef<'_>,
    (from, to): (&TaskState, &TaskState),
) -> Result<Option<TaskState>> {
    let since = match to {
        TaskState::Ready(_) if task.tube.row.options.keep_days > 0 => ready_since(ctx, task, from)?,
        _ => None,
    };
    let before = to.progress().ready_since();
    if before == since {
        return Ok(None);
    }
    let mut to = to.clone();
    to.progress_mut().set_ready_since(since);
    // If nothing has changed there is no room: a caller that goes on with it would never end.
    Ok((to.progress().ready_since() != before).then_some(to))
}

/// Since when a task is ready that becomes or stays ready, if that is known.
#[inline]
fn ready_since(ctx: &OpContext<'_>, task: &TaskRef<'_>, from: &TaskState) -> Result<Option<u64>> {
    let now = ctx.now.queue;
    Ok(match from {
        TaskState::Fresh(_) => created(ctx, task)?,
        TaskState::Ready(progress) => progress.ready_since(),
        // However late the end of the delay is noticed. By the wall clock it is not known when that
        // was.
        TaskState::Delayed(DelayedRow { due, wall: false, .. }) if *due <= now => Some(*due),
        _ => Some(now),
    })
}

/// When a task was put.
fn created(ctx: &OpContext<'_>, task: &TaskRef<'_>) -> Result<Option<u64>> {
    if let Some((_, row)) = task.read {
        return Ok(Some(row.created));
    }
    let own = sound(ctx.get(&key::task(task.tube.run(), &task.home, task.id)))?.flatten();
    Ok(own.and_then(|own| TaskRow::decode(&own).map(|row| row.created)))
}

/// Makes the row of today, unless there is one. It then has a deadline.
fn begin(ctx: &mut OpContext<'_>, tube: &TubeEntry, day: u32) -> Result<()> {
    if tube.day == Some(day) {
        return Ok(());
    }
    let at = key::day(tube.run(), day);
    if ctx.row(&at)?.is_none() {
        ctx.add(at, DayRow::new(ctx.now.queue).encode());
        add(ctx, tube, day, DayItem::Begun);
        let end = end_of(tube, day);
        ctx.effects().deadline(tube.number, NextDue::of(Deadline::Ttl, end));
    }
    Ok(())
}

/// Queue time at which a day is too old.
fn end_of(tube: &TubeEntry, day: u32) -> u64 {
    u64::from(day).saturating_add(u64::from(tube.row.options.keep_days)).saturating_mul(DAY)
}

/// Adds to the days of a tube what a step of a task says, after the step.
#[inline(never)]
pub(crate) fn file(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    (from, to): (&TaskState, Option<&TaskState>),
    cause: Cause,
) -> Result<()> {
    use TaskState::{Buried, Delayed, Done, Fresh, Ready, Taken};
    if ctx.is_full() {
        return Ok(());
    }
    let now = ctx.now;
    let item = match (from, to) {
        // How long it was ready.
        (Fresh(_) | Ready(_), Some(Taken(_))) => ready_since(ctx, task, from)?
            .map(|since| DayItem::Wait(now.queue.saturating_sub(since))),
        (Taken(row), None | Some(Done(_))) if matches!(cause, Cause::Ack | Cause::Advance) => {
            Some(row.held_for(now)).filter(|held| *held != NEVER).map(DayItem::Run)
        }
        (Taken(before), Some(Ready(progress) | Delayed(DelayedRow { progress, .. }))) => {
            let is_charged = matches!(cause, Cause::Retry | Cause::Ttr | Cause::Lost)
                && progress.attempts == before.progress.attempts;
            is_charged.then_some(DayItem::Retry)
        }
        (Buried(_), Some(Buried(_))) => None,
        (_, Some(Buried(_))) => Some(DayItem::Failure),
        _ => None,
    };
    let Some(item) = item else { return Ok(()) };
    let day = day_of(now.queue);
    begin(ctx, task.tube, day)?;
    add(ctx, task.tube, day, item);
    Ok(())
}

/// Counts a task that a repair buries, whatever it was before.
pub(crate) fn failure(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<()> {
    if tube.row.options.keep_days == 0 || ctx.is_full() {
        return Ok(());
    }
    let day = day_of(ctx.now.queue);
    begin(ctx, tube, day)?;
    add(ctx, tube, day, DayItem::Failure);
    Ok(())
}

fn add(ctx: &mut OpContext<'_>, tube: &TubeEntry, day: u32, item: DayItem) {
    ctx.decision.rows.days.push(DayEntry { tube: tube.number, run: tube.run(), day, item });
}

/// Whether a day is too old by now. Its row may still be there, which an opening that only reads
/// does not remove.
pub(crate) fn is_over(tube: &TubeEntry, day: u32, now: Now) -> bool {
    end_of(tube, day) <= now.queue
}

/// Queue time at which the first day of a tube is too old; [`NEVER`] without one.
pub(crate) fn first_end(view: &dyn View, tube: &TubeEntry) -> Result<u64> {
    if view.count(tube.range(Tag::Day)) == 0 {
        return Ok(NEVER);
    }
    let first = Scan::over(tube.range(Tag::Day)).next(view)?;
    let day = first.and_then(|(met, _)| key::of_day(&met));
    Ok(day.map_or(NEVER, |(_, day)| end_of(tube, day)))
}

/// Removes days that are too old, at most `left`. Returns when the next one is.
pub(crate) fn remove_old(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    left: &mut usize,
) -> Result<u64> {
    if ctx.count(tube.range(Tag::Day)) == 0 {
        return Ok(NEVER);
    }
    let mut rows = Scan::over(tube.range(Tag::Day));
    while let Some((met, _)) = rows.next(ctx)? {
        let end = key::of_day(&met).map_or(0, |(_, day)| end_of(tube, day));
        if end > ctx.now.queue || *left == 0 {
            return Ok(end);
        }
        *left -= 1;
        ctx.remove(met);
    }
    Ok(NEVER)
}

/// The statistics of a day in this row, if there is one, without the tasks that are still buried,
/// and the keys from and to which those are counted.
///
/// # Errors
/// `Damaged` if the row is.
pub(crate) fn of_day(
    (run, day): (Run, u32),
    row: Option<Value>,
) -> Result<Option<(DayStatistics, (Key, Key))>> {
    let Some(row) = decoded(Ok(row), DayRow::decode, "day")? else { return Ok(None) };
    let at = |time| key::buried_time(run, time, TaskId::new(0));
    let buried = (at(row.begun), at((u64::from(day) + 1).saturating_mul(DAY)));
    let DayRow { waits, runs, failures, retries, .. } = row;
    Ok(Some((DayStatistics { day, waits, runs, failures, failed: 0, retries }, buried)))
}

/// Counts tasks that are buried, some of those between two keys. Returns how many and where to go
/// on; `None` at the end.
pub(crate) fn failed(view: &dyn View, buried: &(Key, Key)) -> Result<(u64, Option<Key>)> {
    let mut rows = Scan::between(key::copy(&buried.0), key::copy(&buried.1));
    for tasks in 0..SWEEP_TASKS as u64 {
        let Some((met, _)) = rows.next(view)? else { return Ok((tasks, None)) };
        if tasks + 1 == SWEEP_TASKS as u64 {
            return Ok((tasks + 1, Some(key::after(&met))));
        }
    }
    Ok((0, None))
}

/// The days of a tube from this one on, at most so many.
pub(crate) fn days(view: &dyn View, tube: &TubeEntry, from: u32, most: usize) -> Result<Vec<u32>> {
    let (mut rows, mut days) = (Scan::over(tube.range(Tag::Day)), Vec::new());
    let begin: Key = key::day(tube.run(), from);
    rows.skip_to(begin);
    while days.len() < most
        && let Some((met, _)) = rows.next(view)?
    {
        days.extend(key::of_day(&met).map(|(_, day)| day));
    }
    Ok(days)
}
