//! What a caller reads of a task, by its id or as a row of a listing. Reads the rows of one task,
//! and of its payload nothing.

use crate::engine::context::damaged;
use crate::engine::payload::{Payload, StoredPayload};
use crate::engine::stored::{self, StoredTask, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{edges, groups, last_change, lookup, query, reports, retry, tags, task_gates};
use crate::format::key::{self, Direction, Key};
use crate::format::row::{TakenRow, TaskProgress, TaskRow};
use crate::format::{Deadline, Met, Tag, View};
use crate::words::clock::{NEVER, Now, instant};
use crate::words::details::Details;
use crate::words::error::Result;
use crate::words::failure::Failure;
use crate::words::task::{State, TakenInfo, TaskId, TaskInfo, TaskSummary};
use crate::words::task_gates::{group_in, names};
use std::time::{Duration, SystemTime};

/// A task that was found. Its payload may be in pieces, and is read only if the caller wants it.
pub(crate) struct TaskDescription {
    stored: StoredTask,
    pub(crate) summary: TaskSummary,
    result: Option<Box<[u8]>>,
}

impl TaskDescription {
    /// Its payload. Reads nothing.
    pub(crate) fn payload(&self, view: &dyn View, tube: &TubeEntry) -> Result<StoredPayload> {
        Ok(self.stored.task(tube)?.content(view)?.payload)
    }

    /// All of it, with its payload.
    pub(crate) fn with(self, payload: Payload) -> TaskInfo {
        let Self { stored, summary, result } = self;
        let passed = stored.own().and_then(|row| row.passed()).map(<[u8]>::to_vec);
        let (payload, result) = (payload.into_bytes().into_vec(), result.map(<[u8]>::into_vec));
        TaskInfo { summary, payload, passed, result }
    }
}

/// The task of this id.
///
/// # Errors
/// `TaskNotFound`, or `Damaged` if one of its rows is damaged.
pub(crate) fn info(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    now: Now,
) -> Result<TaskDescription> {
    let (stored, state) = lookup::find(view, tube, id)?;
    describe(view, tube, stored, &state, now)
}

/// The task of a state that the next verb would use first.
///
/// # Errors
/// `Damaged` if one of its rows is damaged.
pub(crate) fn next(
    view: &dyn View,
    tube: &TubeEntry,
    state: State,
    now: Now,
) -> Result<Option<TaskDescription>> {
    let id = query::next(view, tube, state, now)?;
    id.map(|id| info(view, tube, id, now)).transpose()
}

fn describe(
    view: &dyn View,
    tube: &TubeEntry,
    stored: StoredTask,
    state: &TaskState,
    now: Now,
) -> Result<TaskDescription> {
    let stored = stored.whole(view, tube)?;
    let task = stored.task(tube)?;
    let (_, row) = task.read.ok_or_else(|| damaged("task"))?;
    let progress = state.progress();
    let (phase, work) = reports::read(view, tube, task.id, state)?;
    let reported = work.as_ref().map_or(SystemTime::UNIX_EPOCH, |work| work.at);
    let last = last_change::read(view, tube, task.id, state, now)?;
    let [requires, throttles] = names(task_gates::of(task.group, progress));
    let mut info = TaskSummary {
        id: task.id,
        tube: tube.row.name.clone(),
        state: state.state(),
        priority: task.own_priority(progress),
        group: group_in(task.group).filter(|it| !it.is_empty()).map(str::to_owned),
        requires,
        throttles,
        key: task.key().map(str::to_owned),
        kind: row.kind().map(str::to_owned),
        book: book(tube, &row),
        details: details(tube, &row),
        spawned_from: row.spawned().map(|spawned| spawned.by.to_owned()),
        nominal: row.spawned().map(|spawned| instant(spawned.nominal)),
        tags: tags::read(view, tube.run(), task.id, progress)?,
        tracked: query::is_tracked(view, task.id)?,
        payload_bytes: task.bytes,
        payload_generation: row.payload_generation(),
        payload_dropped: row.is_payload_dropped(),
        created: instant(row.created),
        age: Duration::from_micros(now.queue.saturating_sub(row.created)),
        updated: instant(last.when.max(row.created)).max(reported),
        due: None,
        delay_left: None,
        ttl_left: left(progress.expires, now.queue),
        ttr: (progress.ttr != NEVER).then(|| Duration::from_micros(progress.ttr)),
        lease_left: None,
        grace_left: None,
        holder: None,
        previous_holder: last.holder,
        phase,
        progress: work,
        deliveries: progress.deliveries,
        attempts: progress.attempts,
        max_attempts: retry::max_attempts(tube, progress),
        releases: progress.releases,
        buries: progress.buries,
        reason: None,
        buried: None,
        last_failure: last_failure(progress),
        finished: None,
        dependencies: edges::linked(view, tube, task.id, (progress, Direction::Dependency))?,
        dependents: edges::linked(view, tube, task.id, (progress, Direction::Dependent))?,
        history: state.history_entries(),
    };
    add_state(&mut info, view, state, now)?;
    let result = match state {
        TaskState::Done(done) => done.result.clone(),
        _ => None,
    };
    Ok(TaskDescription { stored, summary: info, result })
}

/// The book of a task, or else of its tube.
pub(crate) fn book(tube: &TubeEntry, row: &TaskRow<'_>) -> Option<String> {
    row.book().or(tube.row.options.book.as_deref()).map(str::to_owned)
}

/// The details of a task and its tube's; of a name that both have, the task's.
pub(crate) fn details(tube: &TubeEntry, row: &TaskRow<'_>) -> Details {
    let mut details = Details::clone(&tube.row.options.details);
    let own = row.details().into_iter();
    details.extend(own.map(|(name, text)| (name.to_owned(), text.to_owned())));
    details
}

/// Adds what only its state says.
fn add_state(info: &mut TaskSummary, view: &dyn View, state: &TaskState, now: Now) -> Result<()> {
    match state {
        TaskState::Fresh(_) | TaskState::Ready(_) => {}
        TaskState::Delayed(delayed) => {
            info.due = (delayed.due != NEVER).then(|| instant(delayed.due));
            let wait = stored::wait_left(delayed, now);
            info.delay_left = (wait != NEVER).then(|| Duration::from_micros(wait));
            // The rest of the ttl when the delay ends.
            let due = now.queue.saturating_add(wait);
            info.ttl_left = left(delayed.progress.expires, due);
        }
        TaskState::Blocked(row) => {
            // It does not run.
            info.ttl_left = left(row.progress.expires, row.since);
        }
        TaskState::Taken(taken) => {
            info.lease_left = left(taken.deadline.min(taken.progress.lapsed()), now.lease);
            if taken.is_stalled() {
                let end = left(taken.deadline, now.lease);
                info.grace_left = Some(end.unwrap_or(Duration::MAX));
            }
            info.holder = query::holder(view, taken.holder)?;
        }
        TaskState::Buried(row) | TaskState::Trashed(row) => {
            (info.reason, info.buried) = (Some(row.reason.clone()), Some(instant(row.time)));
        }
        TaskState::Done(done) => {
            info.ttl_left = None;
            info.finished = Some(instant(done.time));
        }
    }
    Ok(())
}

/// The time from `now` to `until`; `None` without an end.
fn left(until: u64, now: u64) -> Option<Duration> {
    (until != NEVER).then(|| Duration::from_micros(until.saturating_sub(now)))
}

/// What the last retry or fail of a task said.
fn last_failure(progress: &TaskProgress) -> Option<Failure> {
    let kept = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let (message, more) = (progress.last_error.clone(), progress.failure());
    let Some(more) = more else {
        // By a version that stored no more.
        return (!message.is_empty()).then_some(Failure {
            group: None,
            message,
            at: None,
            by: None,
        });
    };
    let (group, at, by) = (kept(more.group), Some(instant(more.when)), kept(more.by));
    Some(Failure { group, message, at, by })
}

/// The delayed or taken task of a deadline.
///
/// # Errors
/// `Damaged` if one of its rows is damaged or missing, and if it no longer has this deadline.
fn listed_due(view: &dyn View, tube: &TubeEntry, due: &Key, now: Now) -> Result<TaskDescription> {
    let id = key::id_of(due).ok_or_else(|| damaged("due"))?;
    let key = match key::is_lease_end(due) {
        true => key::taken(tube.run(), id),
        false => key::delayed(tube.run(), id),
    };
    let row = view.get(&key)?.ok_or_else(|| damaged("state"))?;
    let (stored, state) = stored::open(view, tube, &key, &row)?;
    let (what, when) = match &state {
        TaskState::Delayed(row) => (row.deadline(), row.due),
        TaskState::Taken(row) => (Deadline::Ttr, row.deadline),
        _ => return Err(damaged("due")),
    };
    if key::due(tube.run(), what, when, id) != *due {
        return Err(damaged("due"));
    }
    describe(view, tube, stored, &state, now)
}

/// The ready task that is the head of its group.
///
/// # Errors
/// `Damaged` if one of its rows is damaged or missing, and if it is no longer the head.
fn listed_head(view: &dyn View, tube: &TubeEntry, head: &Met, now: Now) -> Result<TaskDescription> {
    let (key, group) = head;
    match groups::at_head(view, tube, key, group.clone())? {
        Some((line, Some(row))) => {
            let (stored, state) = stored::open(view, tube, &line, &row)?;
            describe(view, tube, stored, &state, now)
        }
        _ => Err(damaged("head")),
    }
}

/// The task of a row of its state, of its deadline, or of its group's head.
///
/// # Errors
/// `Damaged` if one of its rows is damaged or missing.
pub(crate) fn listed(
    view: &dyn View,
    tube: &TubeEntry,
    listed: &Met,
    now: Now,
) -> Result<TaskDescription> {
    let (met, row) = listed;
    let is_of = |tag: Tag| met.first() == Some(&(tag as u8));
    if is_of(Tag::Due) {
        return listed_due(view, tube, met, now);
    }
    if is_of(Tag::OpenHead) {
        return listed_head(view, tube, listed, now);
    }
    let row = row.as_ref().ok_or_else(|| damaged("state"))?;
    let (stored, state) = stored::open(view, tube, met, row)?;
    describe(view, tube, stored, &state, now)
}

/// The taken task of a row.
///
/// # Errors
/// `Damaged` if one of its rows is damaged.
pub(crate) fn taken(
    view: &dyn View,
    tube: &TubeEntry,
    (met, row): &Met,
    now: Now,
) -> Result<TakenInfo> {
    let id = key::id_of(met).ok_or_else(|| damaged("taken"))?;
    let row = row.as_deref().and_then(TakenRow::decode);
    let (_, (taken, _)) = row.ok_or_else(|| damaged("taken"))?;
    // Read-only there is no lease time, and so no measure of it.
    let held = if now.lease == NEVER { 0 } else { now.lease.saturating_sub(taken.since) };
    Ok(TakenInfo {
        tube: tube.row.name.clone(),
        id,
        holder: query::holder(view, taken.holder)?,
        is_stalled: taken.is_stalled(),
        held_for: Duration::from_micros(held),
    })
}
