//! The history of a task: an entry whenever it comes back, moves, fails or is logged to. A plain
//! put, take or ack writes none: the put and the present attempt are read off the task's rows. An
//! entry is a small row of its own, and the oldest goes for it when the tube keeps no more.

use crate::engine::context::{OpContext, damaged};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{last_change, lookup, query};
use crate::format::extension::Extension;
use crate::format::feature::HISTORY;
use crate::format::key::{self, Key, Run, is_temporary};
use crate::format::row::{HistoryRow, StoredHistory, TakenRow, TaskProgress};
use crate::format::{Scan, Value, View};
use crate::words::clock::{NEVER, Now, instant};
use crate::words::error::Result;
use crate::words::history::{History, HistoryEntry, HistoryEvent};
use crate::words::limits::{HISTORY_ENTRIES_MAX, LOG_BYTES_MAX};
use crate::words::name::cut;
use crate::words::task::{Cause, Reason, TaskId};
use std::ops;
use std::time::Duration;

/// Entries that come and go with a step of a task. They are written after it: a step that is
/// refused leaves none.
#[must_use]
#[derive(Default)]
pub(crate) struct Noted(Vec<(Key, Option<Value>)>);

impl Noted {
    pub(crate) fn write(self, ctx: &mut OpContext<'_>) {
        for (key, value) in self.0 {
            match value {
                None => ctx.remove(key),
                Some(value) => {
                    if !is_temporary(&key) {
                        ctx.needs(&HISTORY);
                    }
                    ctx.add(key, value);
                }
            }
        }
    }
}

/// Whether steps of a task are noted. On a full disk they are not, so that what returns takes no
/// space.
fn takes_entries(ctx: &OpContext<'_>, task: &TaskRef<'_>) -> bool {
    task.tube.row.options.history.stores() && !ctx.is_full()
}

/// The entry of a step, which the state after it names.
pub(crate) fn note(
    ctx: &OpContext<'_>,
    task: &TaskRef<'_>,
    states: (&TaskState, &mut TaskState),
    cause: Cause,
) -> Result<Noted> {
    note_move(ctx, task, states, cause, None)
}

/// The same of a step by which the task leaves this tube, if it does.
pub(crate) fn note_move(
    ctx: &OpContext<'_>,
    task: &TaskRef<'_>,
    (from, to): (&TaskState, &mut TaskState),
    cause: Cause,
    left: Option<&TubeEntry>,
) -> Result<Noted> {
    let mut noted = Noted::default();
    let Some(event) = event_of(cause, to) else { return Ok(noted) };
    if !takes_entries(ctx, task) {
        return Ok(noted);
    }
    let (mut place, text) = told(event, to);
    if let Some(left) = left {
        place.clone_from(&left.row.name);
    }
    let by = query::holder(ctx, from.holder())?.unwrap_or_default();
    let (attempt, held) = match from {
        // A merge ends no attempt.
        TaskState::Taken(row) if cause != Cause::Merge => {
            (row.progress.attempts, row.held_for(ctx.now))
        }
        _ => (0, NEVER),
    };
    let (by, place, text) = (&by, &place, cut(&text, LOG_BYTES_MAX));
    let (when, extension) = (ctx.now.queue, Extension::EMPTY);
    let row = HistoryRow { when, event, attempt, held, by, place, text, extension };
    let exhausted = match to {
        // A merge buries nothing.
        TaskState::Buried(row) if cause != Cause::Merge => {
            Some(&row.reason).filter(|reason| is_exhausted(reason)).cloned()
        }
        _ => None,
    };
    append(ctx, task, to.progress_mut(), &row, &mut noted)?;
    if let Some(reason) = exhausted {
        let text = &reason.to_string();
        let row = line(HistoryEvent::Buried, when, text);
        append(ctx, task, to.progress_mut(), &row, &mut noted)?;
    }
    Ok(noted)
}

/// The entry of a lease that goes to another holder, which the attempt outlives.
pub(crate) fn note_adoption(
    ctx: &OpContext<'_>,
    task: &TaskRef<'_>,
    (taken, progress): (&TakenRow, &mut TaskProgress),
    holder: u32,
) -> Result<Noted> {
    let mut noted = Noted::default();
    if holder == taken.holder || !takes_entries(ctx, task) {
        return Ok(noted);
    }
    let by = query::holder(ctx, taken.holder)?.unwrap_or_default();
    let row = line(HistoryEvent::Adopted, ctx.now.queue, "");
    let held = taken.held_for(ctx.now);
    let row = HistoryRow { attempt: progress.attempts, held, by: &by, ..row };
    append(ctx, task, progress, &row, &mut noted)?;
    Ok(noted)
}

fn is_exhausted(reason: &Reason) -> bool {
    matches!(reason, Reason::Exhausted { .. })
}

/// An entry that no attempt has ended with.
pub(crate) fn line(event: HistoryEvent, when: u64, text: &str) -> HistoryRow<'_> {
    let (attempt, held, by, place) = (0, NEVER, "", "");
    let (text, extension) = (cut(text, LOG_BYTES_MAX), Extension::EMPTY);
    HistoryRow { when, event, attempt, held, by, place, text, extension }
}

/// What is told of a step: the failure group, and the error or the reason.
fn told(event: HistoryEvent, to: &TaskState) -> (String, String) {
    let progress = to.progress();
    match to {
        // What a merge moves stays as it was.
        _ if event == HistoryEvent::Moved => Default::default(),
        _ if event == HistoryEvent::Retried => {
            let group = progress.failure().map(|failure| failure.group.to_owned());
            (group.unwrap_or_default(), progress.last_error.clone())
        }
        TaskState::Buried(row) | TaskState::Trashed(row) => match &row.reason {
            Reason::Failed { group, message } => (group.clone(), message.clone()),
            Reason::Buried(text) | Reason::Trashed(text) => (String::new(), text.clone()),
            reason @ Reason::Undecodable(_) => (String::new(), reason.to_string()),
            Reason::Exhausted { .. } => Default::default(),
        },
        _ => Default::default(),
    }
}

/// What a step is in a history; `None` if it is no entry.
fn event_of(cause: Cause, to: &TaskState) -> Option<HistoryEvent> {
    Some(match cause {
        Cause::Put => HistoryEvent::PutAgain,
        Cause::Release => HistoryEvent::Released,
        Cause::Retry => HistoryEvent::Retried,
        Cause::Ttr => HistoryEvent::TimedOut,
        Cause::Lost => HistoryEvent::Lost,
        Cause::Timeout => HistoryEvent::ForcedOut,
        Cause::Close => HistoryEvent::Closed,
        Cause::Kick => HistoryEvent::Kicked,
        Cause::Trash => HistoryEvent::Trashed,
        Cause::Restore => HistoryEvent::Restored,
        Cause::Move | Cause::Merge => HistoryEvent::Moved,
        Cause::Advance => HistoryEvent::Advanced,
        Cause::Bury => match to {
            TaskState::Buried(row) if matches!(row.reason, Reason::Failed { .. }) => {
                HistoryEvent::Failed
            }
            _ => HistoryEvent::Buried,
        },
        _ => return None,
    })
}

/// Adds an entry, and removes the oldest ones that the tube does not keep.
pub(crate) fn append(
    ctx: &OpContext<'_>,
    task: &TaskRef<'_>,
    progress: &mut TaskProgress,
    row: &HistoryRow<'_>,
    noted: &mut Noted,
) -> Result<()> {
    let (run, id, limits) = (task.tube.run(), task.id, task.tube.row.options.history);
    let mut stored = progress.history().unwrap_or_default();
    stored.first = stored.numbers().start;
    let (before, number, value) = (stored, stored.next, row.encode());
    let Some(next) = number.checked_add(1) else { return Ok(()) };
    stored.next = next;
    stored.bytes = stored.bytes.saturating_add(value.len() as u32);
    // The put is one of the entries.
    while stored.first < number && (stored.len() >= limits.entries || stored.bytes > limits.bytes) {
        let oldest = ctx.row(&key::history(run, id, stored.first))?;
        stored.first += 1;
        stored.bytes = match oldest {
            Some((_, Some(oldest))) => stored.bytes.saturating_sub(oldest.len() as u32),
            _ => bytes_of(ctx, (run, id), stored.first..number)? + value.len() as u32,
        };
    }
    if !progress.set_history(stored) {
        return Ok(());
    }
    noted.0.push((key::history(run, id, number), Some(value)));
    let removed = (before.first..stored.first).map(|oldest| (key::history(run, id, oldest), None));
    noted.0.extend(removed);
    Ok(())
}

/// Bytes of the entries of these numbers that are not damaged.
fn bytes_of(view: &dyn View, (run, id): (Run, TaskId), numbers: ops::Range<u32>) -> Result<u32> {
    let mut bytes = 0_u32;
    for number in numbers {
        if let Some((_, Some(row))) = view.row(&key::history(run, id, number))? {
            bytes = bytes.saturating_add(row.len() as u32);
        }
    }
    Ok(bytes)
}

/// Removes the history of a task that is removed.
pub(crate) fn erase(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, progress: &TaskProgress) {
    if let Some(stored) = progress.history() {
        for number in stored.numbers() {
            ctx.remove(key::history(task.tube.run(), task.id, number));
        }
    }
}

/// Passes the history of a finished task on to the task that comes in its place.
pub(crate) fn pass_on(
    ctx: &mut OpContext<'_>,
    (old, state): (&TaskRef<'_>, &TaskState),
    new: &TaskRef<'_>,
    progress: &mut TaskProgress,
) -> Result<()> {
    let run = old.tube.run();
    if let Some(stored) = progress.history() {
        for number in stored.numbers() {
            let row = ctx.row(&key::history(run, old.id, number))?;
            if let Some((met, _)) = &row {
                ctx.remove(key::copy(met));
            }
            // In the place of a damaged one stands a row that cannot be read: each has its row.
            let value = row.and_then(|(_, value)| value).unwrap_or(Value::EMPTY);
            ctx.add(key::history(run, new.id, number), value);
        }
    }
    let TaskState::Done(done) = state else { return Ok(()) };
    let mut noted = Noted::default();
    if takes_entries(ctx, new) {
        append(ctx, new, progress, &line(HistoryEvent::Done, done.time, ""), &mut noted)?;
    }
    noted.write(ctx);
    Ok(())
}

/// Says in a state whose row was damaged which entries there are.
pub(crate) fn recover(
    ctx: &OpContext<'_>,
    run: Run,
    id: TaskId,
    progress: &mut TaskProgress,
) -> Result<()> {
    let mut rows = Scan::prefixed(key::history_of(run, id));
    let mut found: Option<StoredHistory> = None;
    while let Some((met, row)) = rows.next(ctx)? {
        let Some(number) = key::history_number(&met) else { continue };
        let before = found.filter(|it| number - it.first < HISTORY_ENTRIES_MAX);
        if before.is_none() && row.is_none() {
            // The number of a damaged entry may be any.
            continue;
        }
        let first = before.map_or(number, |found| found.first);
        let bytes = row.map_or(0, |row| row.len() as u32);
        let bytes = before.map_or(0, |found| found.bytes).saturating_add(bytes);
        found = Some(StoredHistory { first, next: number.saturating_add(1), bytes });
    }
    if let Some(found) = found {
        let _fits = progress.set_history(found);
    }
    Ok(())
}

/// The history of a task.
///
/// # Errors
/// `TaskNotFound`, or `Damaged` if another row of the task is damaged.
pub(crate) fn read(view: &dyn View, tube: &TubeEntry, id: TaskId, now: Now) -> Result<History> {
    let (stored, state) = lookup::find(view, tube, id)?;
    let stored = stored.whole(view, tube)?;
    let (_, row) = stored.task(tube)?.read.ok_or_else(|| damaged("task"))?;
    let mut history = History::default();
    let nominal = row.spawned().map(|spawned| instant(spawned.nominal));
    let put = told_as(line(HistoryEvent::Put, row.created, ""));
    history.entries.push(HistoryEntry { nominal, ..put });
    let kept = state.progress().history().unwrap_or_default();
    history.dropped = u64::from(kept.first);
    for number in kept.numbers() {
        let row = view.row(&key::history(tube.run(), id, number))?.and_then(|(_, row)| row);
        match row.as_deref().and_then(HistoryRow::decode) {
            Some(row) => history.entries.push(told_as(row)),
            None => history.dropped += 1,
        }
    }
    match &state {
        TaskState::Taken(taken) => {
            let held = if now.lease == NEVER { NEVER } else { taken.held_for(now) };
            let since = match held {
                // One that waits for its holder since an opening: not before what is known.
                NEVER => last_change::read(view, tube, id, &state, now)?.when.max(row.created),
                held => now.queue.saturating_sub(held),
            };
            let by = query::holder(view, taken.holder)?.unwrap_or_default();
            let row = line(HistoryEvent::Taken, since, "");
            let row = HistoryRow { attempt: taken.progress.attempts, held, by: &by, ..row };
            history.entries.push(told_as(row));
        }
        TaskState::Done(done) => {
            history.entries.push(told_as(line(HistoryEvent::Done, done.time, "")));
        }
        _ => {}
    }
    Ok(history)
}

fn told_as(row: HistoryRow<'_>) -> HistoryEntry {
    let kept = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    use HistoryEvent::{Advanced, Moved, PutAgain};
    let is_move = matches!(row.event, Moved | Advanced | PutAgain);
    let place = kept(row.place);
    let (group, tube) = if is_move { (None, place) } else { (place, None) };
    HistoryEntry {
        at: instant(row.when),
        nominal: None,
        event: row.event,
        attempt: Some(row.attempt).filter(|attempt| *attempt > 0),
        by: kept(row.by),
        held_for: (row.held != NEVER).then(|| Duration::from_micros(row.held)),
        group,
        tube,
        text: row.text.to_owned(),
    }
}
