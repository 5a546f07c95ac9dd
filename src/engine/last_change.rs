//! When a task last changed and who held it before, as far as its rows say: a plain task stores no
//! such time, so that it costs nothing. It must never read more than a few rows.

use crate::engine::context::sound;
use crate::engine::stored::TaskState;
use crate::engine::tube_cache::TubeEntry;
use crate::format::row::{HistoryRow, StoredHistory};
use crate::format::{View, key};
use crate::words::clock::{NEVER, Now};
use crate::words::error::Result;
use crate::words::history::HistoryEvent;
use crate::words::task::TaskId;

/// How many of the newest entries of a history are looked at.
const ENTRIES: u32 = 8;

/// What the history of a task says of it.
#[derive(Default)]
pub(crate) struct LastChange {
    /// Queue time; 0 if nothing is known but its put.
    pub(crate) when: u64,
    /// The named consumer that held it in the last attempt that has ended.
    pub(crate) holder: Option<String>,
}

/// Of a task in this state. Damaged entries say nothing.
pub(crate) fn read(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    state: &TaskState,
    now: Now,
) -> Result<LastChange> {
    let progress = state.progress();
    let mut last = LastChange { when: of_state(state, now), holder: None };
    if let Some(failure) = progress.failure() {
        last.when = last.when.max(failure.when);
    }
    let StoredHistory { first, next, .. } = progress.history().unwrap_or_default();
    for number in (first..next).rev().take(ENTRIES as usize) {
        let row = sound(view.get(&key::history(tube.run(), id, number)))?.flatten();
        let Some(row) = row.as_deref().and_then(HistoryRow::decode) else { continue };
        last.when = last.when.max(row.when);
        // An adopted attempt goes on, and the last one of a finished task left no entry.
        let is_end = row.attempt > 0 && row.event != HistoryEvent::Adopted;
        if is_end && !matches!(state, TaskState::Done(_)) {
            last.holder = Some(row.by.to_owned()).filter(|by| !by.is_empty());
            break;
        }
    }
    Ok(last)
}

/// When its state began, if the state says so.
fn of_state(state: &TaskState, now: Now) -> u64 {
    match state {
        // The time of a lease is of another clock.
        TaskState::Taken(taken) if now.lease != NEVER => {
            now.queue.saturating_sub(taken.held_for(now).min(now.queue))
        }
        TaskState::Buried(row) | TaskState::Trashed(row) => row.time,
        TaskState::Done(done) => done.time,
        _ => 0,
    }
}
