//! The state of a task, and the one way to change it: [`move_task`]. A task has one row that gives
//! its state, or none while it is fresh; the other rows of a state (the group's line,
//! the holder's list) are derived here and nowhere else.

use crate::engine::context::{EventSubscribers, OpContext, sound};
use crate::engine::effects::{Change, NextDue};
use crate::engine::pieces;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{
    failures, fresh, groups, history, keys, kinds, lookup, query, reports, retention, trash,
};
use crate::format::key::{self, Key, Rank, Run};
use crate::format::row::{StoredHome, TakenRow, TaskRow};
use crate::format::{Deadline, Met, Range, Scan, Value, View};
use crate::words::clock::NEVER;
use crate::words::error::{ErrorKind, Result};
use crate::words::sync::Arc;
use crate::words::task::{Cause, TaskId};
use crate::words::unique::Unique;
use smallvec::SmallVec;
use std::mem::discriminant;

/// The most tasks that one more removes: more than one, so that a tube comes back under its limits
/// after a task of many bytes.
const TRIMMED_MAX: usize = 4;

/// The key of the row that gives a standing; `None` for a fresh task.
#[inline(always)]
pub(crate) fn state_key(task: &TaskRef<'_>, standing: &TaskState) -> Option<Key> {
    let (run, id) = (task.tube.run(), task.id);
    Some(match standing {
        TaskState::Fresh(_) => return None,
        TaskState::Ready(_) => lookup::ready_key(task.tube, task.group, &task.place, id),
        TaskState::Delayed(_) => key::delayed(run, id),
        TaskState::Taken(_) => key::taken(run, id),
        TaskState::Buried(_) => key::buried(run, &task.place, id),
        TaskState::Done(_) => key::done(run, id),
        TaskState::Trashed(_) => key::trashed(run, &task.place, id),
    })
}

/// The same of the task at another rank.
#[cold]
fn key_at(task: &TaskRef<'_>, place: Rank, standing: &TaskState) -> Option<Key> {
    state_key(&TaskRef { place, ..*task }, standing)
}

/// The row that gives a standing; `None` for a fresh task.
#[inline]
pub(crate) fn state_row(task: &TaskRef<'_>, standing: &TaskState) -> Option<(Key, Value)> {
    let key = state_key(task, standing)?;
    let home = &StoredHome::new(&task.home, &task.place);
    let value = match standing {
        TaskState::Fresh(_) => return None,
        TaskState::Ready(head) => head.encode(home),
        TaskState::Delayed(delayed) => delayed.encode(&task.away(), home),
        TaskState::Taken(taken) => taken.encode(&task.away(), home),
        TaskState::Buried(row) | TaskState::Trashed(row) => row.encode(home),
        TaskState::Done(done) => done.encode(&task.away(), home),
    };
    Some((key, value))
}

/// The row of a deadline of a task in this state. That of the end of a delay is a copy of the row
/// of the state, because many delays may end at once: a row that is read by its id is far from the
/// one before it.
pub(crate) fn due_row(task: &TaskRef<'_>, standing: &TaskState, what: Deadline) -> Value {
    match what {
        Deadline::Delay | Deadline::RunAt => {
            state_row(task, standing).map_or(Value::EMPTY, |(_, row)| row)
        }
        Deadline::Ttr | Deadline::Ttl => Value::EMPTY,
    }
}

pub(crate) fn in_flight(standing: Option<&TaskState>) -> i64 {
    match standing {
        Some(TaskState::Taken(_)) => 1,
        Some(TaskState::Delayed(row)) => i64::from(row.holds_group),
        _ => 0,
    }
}

/// The keys of the other index rows of a state: the holder of its lease, of a buried task the time
/// of its bury and the group of its failure, in its tube and in the whole queue, and of a finished
/// one and of one in the trash its time. A plain task has none before.
pub(crate) fn index_keys(task: &TaskRef<'_>, standing: &TaskState) -> SmallVec<[Key; 3]> {
    let (run, id) = (task.tube.run(), task.id);
    let mut keys = SmallVec::new();
    match standing {
        TaskState::Taken(row) if row.holder != 0 => keys.push(key::held(run, row.holder, id)),
        TaskState::Buried(row) => {
            keys.push(key::buried_time(run, row.time, id));
            if let Some(group) = row.failure_group() {
                keys.push(key::buried_group(run, group, row.time, id));
                keys.push(key::failed(run, group, row.time, id));
            }
        }
        TaskState::Done(row) => keys.push(key::done_time(run, row.time, id)),
        TaskState::Trashed(row) => keys.push(key::trashed_time(run, row.time, id)),
        _ => {}
    }
    keys
}

/// Whether a state has such rows.
fn has_index(standing: Option<&TaskState>) -> bool {
    match standing {
        Some(TaskState::Taken(row)) => row.holder != 0,
        Some(TaskState::Buried(_) | TaskState::Done(_) | TaskState::Trashed(_)) => true,
        _ => false,
    }
}

/// The state without the stall of the lease before it; `None` if it says nothing of one, or is a
/// lease.
#[inline]
fn unstalled(to: &TaskState) -> Option<TaskState> {
    let is_taken = matches!(to, TaskState::Taken(_));
    (!is_taken && to.head().lapsed() != NEVER).then(|| {
        let mut to = to.clone();
        to.head_mut().end_stall();
        to
    })
}

/// Counts that a task is no more stalled, if it was.
#[cold]
pub(crate) fn end_stall(ctx: &mut OpContext<'_>, tube: &TubeEntry, from: &TaskState) {
    if matches!(from, TaskState::Taken(row) if row.is_stalled()) {
        ctx.effects().count_stalled(tube.number, -1);
    }
}

/// Moves a task from one standing to another, with all rows that hang on it. Its payload, its key
/// and its place are not its business: see [`put`] and [`erase`].
pub(crate) fn move_task(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: &TaskState,
    to: &TaskState,
    cause: Cause,
) -> Result<()> {
    if let TaskState::Fresh(_) = from {
        let task = &TaskRef { home: fresh::leave(ctx, task), ..*task };
        return Transition { task, from: Some(from), to: Some(to), before: None }
            .carry_out(ctx, cause);
    }
    if let Some(to) = unstalled(to) {
        move_task(ctx, task, from, &to, cause)?;
        end_stall(ctx, task.tube, from);
        return Ok(());
    }
    Transition { task, from: Some(from), to: Some(to), before: None }.carry_out(ctx, cause)
}

/// As [`move_task`], of a task that gets another rank. Its home stays.
pub(crate) fn move_to_rank(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    (from, to): (&TaskState, &TaskState),
    place: Rank,
    cause: Cause,
) -> Result<()> {
    if place == task.place {
        return move_task(ctx, task, from, to, cause);
    }
    if let Some(to) = unstalled(to) {
        move_to_rank(ctx, task, (from, &to), place, cause)?;
        end_stall(ctx, task.tube, from);
        return Ok(());
    }
    let home = if let TaskState::Fresh(_) = from { fresh::leave(ctx, task) } else { task.home };
    let ranked = &TaskRef { home, place, ..*task };
    let before = Some(task.place);
    Transition { task: ranked, from: Some(from), to: Some(to), before }.carry_out(ctx, cause)?;
    let key = key::position(task.tube.run(), task.id);
    match (task.has_position(), ranked.has_position()) {
        (false, true) => ctx.add(key, ranked.position_row()),
        (true, true) => ctx.change(key, ranked.position_row()),
        (true, false) => ctx.remove(key),
        (false, false) => {}
    }
    Ok(())
}

/// As [`move_task`], of a task that has another own row after the step, without its payload. What
/// stands apart of that is the caller's to remove; what is published still has it.
#[cold]
pub(crate) fn strip(
    ctx: &mut OpContext<'_>,
    (old, from): (&TaskRef<'_>, &TaskState),
    (new, to): (&TaskRef<'_>, &TaskState),
    cause: Cause,
) -> Result<()> {
    if let Some(to) = unstalled(to) {
        strip(ctx, (old, from), (new, &to), cause)?;
        end_stall(ctx, old.tube, from);
        return Ok(());
    }
    let home = if let TaskState::Fresh(_) = from { fresh::leave(ctx, old) } else { old.home };
    let new = &TaskRef { home, ..*new };
    Transition { task: new, from: Some(from), to: Some(to), before: None }.step(ctx)?;
    if let Some((raw, _)) = new.read {
        ctx.change(key::task(new.tube.run(), &home, new.id), raw.clone());
    }
    ctx.effects().count_bytes(new.tube.run(), new.bytes as i64 - old.bytes as i64);
    let published = Transition { task: old, from: Some(from), to: Some(to), before: None };
    published.record(ctx, cause)?;
    published.trim(ctx)
}

/// Brings a new task into its tube. Its own row was read; what stands apart of its payload is the
/// caller's to write, and the row of its kind: most tasks have none, and no question is asked here.
#[inline]
pub(crate) fn put(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    to: &TaskState,
    cause: Cause,
) -> Result<()> {
    Transition { task, from: None, to: Some(to), before: None }.carry_out(ctx, cause)?;
    add_own(ctx, task, to);
    Ok(())
}

/// Brings a task into its tube that was put before, with the row of its kind.
#[cold]
pub(crate) fn arrive(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    to: &TaskState,
    cause: Cause,
) -> Result<()> {
    put(ctx, task, to, cause)?;
    add_kind(ctx, task);
    Ok(())
}

fn add_kind(ctx: &mut OpContext<'_>, task: &TaskRef<'_>) {
    let kind = task.read.and_then(|(_, row)| row.kind());
    kinds::add(ctx, task.tube, task.id, kind);
}

/// Adds the task's own row, and the rows that lead to it.
#[inline(always)]
fn add_own(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, to: &TaskState) {
    let (run, id) = (task.tube.run(), task.id);
    if let Some((raw, _)) = task.read {
        ctx.add(key::task(run, &task.home, id), raw.clone());
    }
    if task.has_position() {
        ctx.add(key::position(run, id), task.position_row());
    }
    ctx.effects().count_bytes(run, task.bytes as i64);
    if task.key().is_some() {
        keys::add(ctx, task, to);
    }
}

/// Puts a task of a tube again there, at another place and with another row of its own. It is one
/// step, and one change.
#[cold]
pub(crate) fn replace(
    ctx: &mut OpContext<'_>,
    (old, from): (&TaskRef<'_>, &TaskState),
    (new, to): (&TaskRef<'_>, &TaskState),
    cause: Cause,
) -> Result<()> {
    exchange_rows(ctx, (old, from), (new, to))?;
    Transition { task: new, from: Some(from), to: Some(to), before: None }.record(ctx, cause)
}

/// Removes all rows of a task that stands there, and writes those of one that comes in its place.
/// Nothing is published.
fn exchange_rows(
    ctx: &mut OpContext<'_>,
    (old, from): (&TaskRef<'_>, &TaskState),
    (new, to): (&TaskRef<'_>, &TaskState),
) -> Result<()> {
    Transition { task: old, from: Some(from), to: None, before: None }.step(ctx)?;
    remove_own(ctx, old, from);
    Transition { task: new, from: None, to: Some(to), before: None }.step(ctx)?;
    add_own(ctx, new, to);
    add_kind(ctx, new);
    Ok(())
}

/// Puts a task again that comes from another tube, or a new one in the place of a finished one.
/// They are two steps: the put, then the end of what was there, because a holder loses its lease by
/// the put. What has finished is not published with the payload of the new task.
#[cold]
pub(crate) fn succeed(
    ctx: &mut OpContext<'_>,
    (old, from): (&TaskRef<'_>, &TaskState),
    (new, to): (&TaskRef<'_>, &TaskState),
    cause: Cause,
) -> Result<()> {
    exchange_rows(ctx, (old, from), (new, to))?;
    Transition { task: new, from: None, to: Some(to), before: None }.record(ctx, cause)?;
    let leaves = Transition { task: old, from: Some(from), to: None, before: None };
    if old.id != new.id {
        leaves.publish(ctx, Cause::Delete);
        return Ok(());
    }
    leaves.record(ctx, Cause::Move)?;
    note_way(ctx, new.tube);
    Ok(())
}

/// Notes where the task of the last step goes, if events are read.
pub(crate) fn note_way(ctx: &mut OpContext<'_>, to: &TubeEntry) {
    if ctx.wants.is_some()
        && let Some((step, notes)) = ctx.effects().notes_of_last()
    {
        notes.say(step, |words| words.to_tube = Some(to.row.name.as_str().into()));
    }
}

/// Removes a task.
pub(crate) fn erase(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: &TaskState,
    cause: Cause,
) -> Result<()> {
    remove(ctx, task, from, cause)?;
    if let Some((_, row)) = task.read {
        let owner = (task.tube.run(), task.id);
        if let Some(pieces) = row.payload.pieces() {
            pieces::remove(ctx, owner, &pieces)?;
        }
        forget_moved(ctx, owner, &row)?;
    }
    // Most tasks have no section, and so neither a history nor reports.
    if !from.head().extension.is_empty() {
        end_stall(ctx, task.tube, from);
        history::erase(ctx, task, from.head());
        reports::erase(ctx, task, from.head());
    }
    Ok(())
}

/// Removes a task that has ended, because its tube keeps it no longer. Calls that wait for its end
/// get it as it was.
#[cold]
pub(crate) fn retire(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, from: &TaskState) -> Result<()> {
    if ctx.known.is_awaited(task.id) {
        let found = query::info(ctx, task.tube, task.id, ctx.now).and_then(|found| {
            let payload = found.payload(ctx, task.tube)?.read(ctx)?;
            Ok(found.with(payload))
        });
        let found = sound(found)?;
        ctx.effects().retired.extend(found);
    }
    erase(ctx, task, from, Cause::Retention)
}

/// Removes the row that leads to a task, if it came from another tube.
pub(crate) fn forget_moved(
    ctx: &mut OpContext<'_>,
    (run, id): (Run, TaskId),
    row: &TaskRow<'_>,
) -> Result<()> {
    if row.is_moved() && ctx.row(&key::moved(run, id))?.is_some() {
        ctx.remove(key::moved(run, id));
    }
    Ok(())
}

/// Removes a task from its tube. What stands apart of its payload stays.
#[inline(always)]
pub(crate) fn remove(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: &TaskState,
    cause: Cause,
) -> Result<()> {
    Transition { task, from: Some(from), to: None, before: None }.carry_out(ctx, cause)?;
    remove_own(ctx, task, from);
    Ok(())
}

/// Removes the task's own row, and the rows that lead to it.
#[inline]
fn remove_own(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, from: &TaskState) {
    let (run, id) = (task.tube.run(), task.id);
    ctx.remove(key::task(run, &task.home, id));
    if task.has_position() {
        ctx.remove(key::position(run, id));
    }
    ctx.effects().count_bytes(run, -(task.bytes as i64));
    // The own row of a plain task was not read.
    if let Some((_, row)) = task.read {
        if row.key.is_some() {
            keys::remove(ctx, task, from);
        }
        if !row.extension.is_empty() {
            kinds::remove(ctx, task);
        }
    }
}

/// Writes what a row of a state says besides the state, which stays. So nothing is published and
/// nothing counted; a fresh task gets a row.
pub(crate) fn restate(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: &TaskState,
    to: &TaskState,
) -> Result<()> {
    let home = if let TaskState::Fresh(_) = from { fresh::leave(ctx, task) } else { task.home };
    let task = &TaskRef { home, ..*task };
    Transition { task, from: Some(from), to: Some(to), before: None }.step(ctx)
}

/// Removes the deadline of a lease, also of a stalled one, until its consumer resumes it or the
/// grace of that is over. The task stays taken, so nothing is published and nothing counted.
pub(crate) fn suspend(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, taken: TakenRow) -> Result<()> {
    let mut to = TakenRow { deadline: NEVER, since: NEVER, ..taken.clone() };
    to.head.end_stall();
    let (from, to) = (TaskState::Taken(taken), TaskState::Taken(to));
    Transition { task, from: Some(&from), to: Some(&to), before: None }.step(ctx)?;
    end_stall(ctx, task.tube, &from);
    Ok(())
}

/// A step of a task from one state to another.
struct Transition<'a> {
    task: &'a TaskRef<'a>,
    from: Option<&'a TaskState>,
    to: Option<&'a TaskState>,
    /// The rank before the step, if it is another.
    before: Option<Rank>,
}

impl<'a> Transition<'a> {
    /// The key of the row of the state before the step.
    #[inline(always)]
    fn leaves(&self) -> Option<Key> {
        let from = self.from?;
        match self.before {
            None => state_key(self.task, from),
            Some(place) => key_at(self.task, place, from),
        }
    }

    #[inline(always)]
    fn carry_out(&self, ctx: &mut OpContext<'_>, cause: Cause) -> Result<()> {
        self.step(ctx)?;
        self.record(ctx, cause)?;
        match self.to {
            Some(TaskState::Buried(_) | TaskState::Done(_)) => self.trim(ctx),
            _ => Ok(()),
        }
    }

    /// Removes the tasks that ended first while there are more than the tube keeps, but not the one
    /// that has just ended.
    #[cold]
    fn trim(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let (tube, last) = (self.task.tube, self.task.id);
        let Some(tag) = self.to.and_then(retention::tag_of) else { return Ok(()) };
        // The other case is that it was updated, and has ended before.
        if ctx.effects().retires_none || self.from.and_then(retention::tag_of) == Some(tag) {
            return Ok(());
        }
        let mut rows = Scan::over(tube.range(retention::by_time(tag)));
        for _ in 0..TRIMMED_MAX {
            if !retention::is_over(ctx, tube, tag)? {
                break;
            }
            let Some((met, _)) = rows.next(ctx)? else { break };
            let Some(id) = key::id_of(&met).filter(|id| *id != last) else { continue };
            let found = match lookup::find(ctx, tube, id) {
                // A dead index row, or a task that is damaged: it stays for its repair.
                Err(error) if error.is_not_found() || error.kind() == ErrorKind::Damaged => {
                    continue;
                }
                found => found?,
            };
            let is_of_it = retention::tag_of(&found.1) == Some(tag);
            if let (Ok(task), true) = (found.0.task(tube), is_of_it)
                // One for which calls wait goes with a later end.
                && !(ctx.is_sweep_long() && ctx.known.is_awaited(id))
            {
                retire(ctx, &task, &found.1)?;
            }
        }
        Ok(())
    }

    /// Moves the rows. After an error none has moved: a caller that continues finds the task where
    /// it was.
    fn step(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let Self { task, from, to, before } = *self;
        // The keys of some states contain the rank.
        let has_same_key =
            before.is_none() || matches!(to, Some(TaskState::Delayed(_) | TaskState::Taken(_)));
        let stays = has_same_key && from.map(discriminant) == to.map(discriminant);
        let in_group = match task.group {
            Some(group) if !stays => Some(self.plan(ctx, group)?),
            _ => None,
        };
        if has_index(from) || has_index(to) || self.shifts_key() {
            self.shift_index(ctx)?;
        }
        self.shift_deadlines(ctx);

        if let Some(plan) = in_group {
            plan.carry_out(ctx, task.tube);
            return Ok(());
        }
        if !stays && let Some(key) = self.leaves() {
            ctx.remove(key);
        }
        let enters = match to {
            // Asked here, because most puts bring a fresh task, which has no such row.
            None | Some(TaskState::Fresh(_)) => None,
            Some(to) => state_row(task, to),
        };
        if let Some((key, value)) = enters {
            if stays { ctx.change(key, value) } else { ctx.add(key, value) }
        }
        if matches!(to, Some(TaskState::Fresh(_) | TaskState::Ready(_))) && !stays {
            ctx.effects().wake(task.tube.number, 1);
        }
        Ok(())
    }

    /// The effect of the step on the task's group.
    fn plan(&self, ctx: &OpContext<'_>, group: &'a str) -> Result<groups::Plan<'a>> {
        let leaves = self.leaves();
        let enters = self.to.and_then(|to| state_row(self.task, to));
        let in_flight = in_flight(self.to) - in_flight(self.from);
        let turn = self.task.is_next.then_some((self.task.place, self.task.id));
        let step = groups::Step { group, leaves, enters, in_flight, turn };
        groups::plan(ctx, self.task.tube, step)
    }

    #[inline]
    fn shift_deadlines(&self, ctx: &mut OpContext<'_>) {
        let none = [(Deadline::Ttl, NEVER), (Deadline::Ttr, NEVER)];
        let old = self.from.map_or(none, |from| from.deadlines(self.task.tube));
        let new = self.to.map_or(none, |to| to.deadlines(self.task.tube));
        if old != new || matches!(self.to, Some(TaskState::Delayed(_))) {
            self.write_deadlines(ctx, old.into_iter().zip(new));
        }
    }

    /// Writes the rows of the deadlines: each before the step, and the same one after it. The row
    /// of a delay's end may change without its deadline.
    #[inline(never)]
    fn write_deadlines(
        &self,
        ctx: &mut OpContext<'_>,
        both: impl Iterator<Item = ((Deadline, u64), (Deadline, u64))>,
    ) {
        let (tube, id) = (self.task.tube, self.task.id);
        for (old, new) in both {
            if old != new && old.1 != NEVER {
                ctx.remove(key::due(tube.run(), old.0, old.1, id));
            }
            let Some(to) = self.to.filter(|_| new.1 != NEVER) else { continue };
            let (key, row) =
                (key::due(tube.run(), new.0, new.1, id), due_row(self.task, to, new.0));
            if old != new {
                ctx.add(key, row);
                ctx.effects().deadline(tube.number, NextDue::of(new.0, new.1));
            } else if !row.is_empty() {
                ctx.change(key, row);
            }
        }
    }

    /// Whether the task may begin to count for its key, or cease to, with a step between any
    /// states.
    #[inline(always)]
    fn shifts_key(&self) -> bool {
        // A task that is put or removed has its rows written with it.
        let stays = self.from.is_some() && self.to.is_some();
        stays && self.task.key().is_some() && self.task.tube.row.options.unique != Unique::new()
    }

    /// Reads before it writes.
    #[cold]
    fn shift_index(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let counted = failures::plan(ctx, self.task.tube, self.from, self.to)?;
        let kept = retention::plan(ctx, self.task, self.from, self.to)?;
        let keys_of = |standing| index_keys(self.task, standing);
        let old = self.from.map(keys_of).unwrap_or_default();
        let new = self.to.map(keys_of).unwrap_or_default();
        for key in old.iter().filter(|key| !new.contains(key)) {
            ctx.remove(key::copy(key));
        }
        for key in new.into_iter().filter(|key| !old.contains(key)) {
            ctx.add(key, Value::EMPTY);
        }
        trash::enter(ctx, self.task, self.to);
        if let (Some(from), Some(to)) = (self.from, self.to) {
            keys::shift(ctx, self.task, (from, to));
        }
        retention::write(ctx, kept)?;
        failures::write(ctx, self.task.tube, counted)
    }

    /// Records the step for publication, while the payload row still exists.
    #[inline(always)]
    fn record(&self, ctx: &mut OpContext<'_>, cause: Cause) -> Result<()> {
        self.publish(ctx, cause);
        match ctx.wants {
            Some(wants) => self.note(ctx, cause, wants),
            None => Ok(()),
        }
    }

    /// Notes what events say of the last step besides the step.
    #[cold]
    #[inline(never)]
    fn note(
        &self,
        ctx: &mut OpContext<'_>,
        cause: Cause,
        wants: &dyn EventSubscribers,
    ) -> Result<()> {
        self.note_words(ctx, cause)?;
        record_payload(ctx, self.task, wants)
    }

    /// Records the plain step.
    #[inline(always)]
    fn publish(&self, ctx: &mut OpContext<'_>, cause: Cause) {
        let (from, to) = (self.from.map(TaskState::state), self.to.map(TaskState::state));
        let (tube, task) = (self.task.tube.number, self.task.id);
        ctx.effects().changes.push(Change { tube, task, from, to, cause });
    }

    /// Notes the words of the last step, if it has some.
    fn note_words(&self, ctx: &mut OpContext<'_>, cause: Cause) -> Result<()> {
        let mut holders = self.to.into_iter().chain(self.from).map(TaskState::holder);
        let holder = holders.find(|holder| *holder != 0).unwrap_or(0);
        let payload_generation = self.task.read.map_or(0, |(_, row)| row.payload_generation());
        let failure = self.failure(cause);
        if holder == 0 && payload_generation == 0 && failure.is_none() {
            return Ok(());
        }
        let kept = |text: &str| Some(text).filter(|text| !text.is_empty()).map(Box::from);
        let holder = query::holder(ctx, holder)?.map(Box::from);
        let (group, message) = failure.unwrap_or_default();
        if let Some((step, notes)) = ctx.effects().notes_of_last() {
            notes.say(step, |words| {
                (words.holder, words.payload_generation) = (holder, payload_generation);
                (words.failure_group, words.message) = (kept(group), kept(message));
            });
        }
        Ok(())
    }

    /// The failure group and the text of a step by which a task fails or is set aside.
    fn failure(&self, cause: Cause) -> Option<(&'a str, &'a str)> {
        match self.to? {
            TaskState::Buried(row) | TaskState::Trashed(row)
                if self.from.map(discriminant) != self.to.map(discriminant) =>
            {
                Some((row.reason.failure_group().unwrap_or_default(), row.reason.text()))
            }
            to if cause == Cause::Retry => {
                let head = to.head();
                let group = head.failure().map(|failure| failure.group).unwrap_or_default();
                Some((group, &head.last_error))
            }
            _ => None,
        }
    }
}

/// Adds the payload to the last step, if it is wanted. A damaged or missing payload is left out and
/// one that was not kept; an error means that nothing could be read, and ends the op.
fn record_payload(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    wants: &dyn EventSubscribers,
) -> Result<()> {
    let is_dropped = task.read.is_some_and(|(_, row)| row.is_payload_dropped());
    if !is_dropped
        && wants.payloads_of(&task.tube.row.name)
        && let Some(payload) = sound(task.content(ctx).and_then(|found| found.payload.read(ctx)))?
    {
        // A separate copy, because the row's memory may be shared with others.
        let payload = Arc::from(&*payload);
        if let Some((step, notes)) = ctx.effects().notes_of_last() {
            notes.add_payload(step, payload, wants.bytes_kept());
        }
    }
    Ok(())
}

/// Removes the queue's row about a buried task when a sweep removes its row under the run.
pub(crate) fn forget_failed(ctx: &mut OpContext<'_>, buried_group: &[u8]) -> Result<()> {
    if let Some(key) = key::failed_beside(buried_group)
        && ctx.row(&key)?.is_some()
    {
        ctx.remove(key);
    }
    Ok(())
}

/// How many payload bytes are counted for the task of this row. If the row is damaged, the payload
/// row states it, if there is one; otherwise it is unknown. The stored total may then be too high,
/// never too low, and `check` reports it.
pub(crate) fn payload_bytes(view: &dyn View, (key, row): Met) -> Result<Option<u64>> {
    let run = Range::holding(&key).and_then(|range| range.run);
    let (Some(run), Some(id)) = (run, key::id_of(&key)) else { return Ok(None) };
    if let Some(task) = row.as_deref().and_then(TaskRow::decode) {
        return Ok(Some(task.payload.bytes()));
    }
    let found = pieces::find(view, (run, id))?;
    Ok(found.whole.map(|pieces| u64::from(pieces.bytes)))
}
