//! The rows of a state of a task: the one that gives it, those of its deadlines, and those by which
//! it is found. Writes none of them.

use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::{lookup, slots};
use crate::format::key::{self, Key, Rank};
use crate::format::row::StoredHome;
use crate::format::{Deadline, Value};
use smallvec::SmallVec;

/// The key of the row that gives a state; `None` for a fresh task.
#[inline(always)]
pub(crate) fn state_key(task: &TaskRef<'_>, state: &TaskState) -> Option<Key> {
    let (run, id) = (task.tube.run(), task.id);
    Some(match state {
        TaskState::Fresh(_) => return None,
        TaskState::Ready(_) => lookup::ready_key(task.tube, task.group, &task.place, id),
        TaskState::Delayed(_) => key::delayed(run, id),
        TaskState::Blocked(_) => key::blocked(run, id),
        TaskState::Taken(_) => key::taken(run, id),
        TaskState::Buried(_) => key::buried(run, &task.place, id),
        TaskState::Done(_) => key::done(run, id),
        TaskState::Trashed(_) => key::trashed(run, &task.place, id),
    })
}

/// The same of the task at another rank.
#[cold]
pub(crate) fn key_at(task: &TaskRef<'_>, place: Rank, state: &TaskState) -> Option<Key> {
    state_key(&TaskRef { place, ..*task }, state)
}

/// The row that gives a state; `None` for a fresh task.
#[inline]
pub(crate) fn state_row(task: &TaskRef<'_>, state: &TaskState) -> Option<(Key, Value)> {
    let key = state_key(task, state)?;
    let home = &StoredHome::new(&task.home, &task.place);
    let value = match state {
        TaskState::Fresh(_) => return None,
        TaskState::Ready(progress) => progress.encode(home),
        TaskState::Delayed(delayed) => delayed.encode(&task.away(), home),
        TaskState::Blocked(blocked) => blocked.encode(&task.away(), home),
        TaskState::Taken(taken) => taken.encode(&task.away(), home),
        TaskState::Buried(row) | TaskState::Trashed(row) => row.encode(home),
        TaskState::Done(done) => done.encode(&task.away(), home),
    };
    Some((key, value))
}

/// The row of a deadline of a task in this state. That of the end of a delay is a copy of the row
/// of the state, because many delays may end at once: a row that is read by its id is far from the
/// one before it.
pub(crate) fn due_row(task: &TaskRef<'_>, state: &TaskState, what: Deadline) -> Value {
    match what {
        Deadline::Delay | Deadline::RunAt => {
            state_row(task, state).map_or(Value::EMPTY, |(_, row)| row)
        }
        Deadline::Ttr | Deadline::Ttl => Value::EMPTY,
    }
}

pub(crate) fn in_flight(state: Option<&TaskState>) -> i64 {
    match state {
        Some(TaskState::Taken(_)) => 1,
        Some(TaskState::Delayed(row)) => i64::from(row.holds_group),
        _ => 0,
    }
}

/// The keys of the other index rows of a state: the holder of its lease and the slots of throttles
/// that it holds, of a buried task the time of its bury and the group of its failure, in its tube
/// and in the whole queue, and of a finished one and of one in the trash its time. A plain task
/// has none before.
pub(crate) fn index_keys(task: &TaskRef<'_>, state: &TaskState) -> SmallVec<[Key; 3]> {
    let (run, id) = (task.tube.run(), task.id);
    let mut keys = SmallVec::new();
    match state {
        TaskState::Taken(row) => {
            if row.holder != 0 {
                keys.push(key::owner_lease(run, row.holder, id));
            }
            let held = row.progress.slots().into_iter();
            keys.extend(held.map(|throttle| slots::slot(task.tube, throttle, id)));
        }
        TaskState::Buried(row) => {
            keys.push(key::buried_time(run, row.time, id));
            if let Some(group) = row.failure_group() {
                keys.push(key::buried_group(run, group, row.time, id));
                keys.push(key::failed(run, group, row.time, id));
            }
        }
        TaskState::Done(row) if state.is_held() => keys.push(key::held_time(run, row.time, id)),
        TaskState::Done(row) => keys.push(key::done_time(run, row.time, id)),
        TaskState::Trashed(row) => keys.push(key::trashed_time(run, row.time, id)),
        _ => {}
    }
    keys
}
