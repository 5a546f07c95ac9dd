//! The state of a task, and the one way to change it: [`move_task`]. A task has one row that gives
//! its state, or none while it is fresh; the other rows of a state (the group's line,
//! the holder's list) are derived here and nowhere else.

use crate::engine::context::OpContext;
use crate::engine::effects::{Change, NextDue};
use crate::engine::pieces;
use crate::engine::state_rows::{due_row, in_flight, index_keys, key_at, state_key, state_row};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{edges, failures, fresh, groups, history, keys, kinds, reports, retention};
use crate::engine::{slots, statistics, tags, trash};
use crate::format::key::{self, Key, Rank, Run};
use crate::format::row::{TakenRow, TaskRow};
use crate::format::{Deadline, Value, View};
use crate::words::clock::NEVER;
use crate::words::error::Result;
use crate::words::task::{Cause, TaskId};
use crate::words::unique::Unique;
use std::mem::discriminant;

mod trim;
mod notes;
mod again;

pub(crate) use again::{note_holder, note_way, pass, replace, succeed};
pub(crate) use notes::{note_tracked, tell};
pub(crate) use trim::{remove_unkept, retire, trim};

/// Whether a tube keeps statistics of days.
#[inline]
fn keeps_days(tube: &TubeEntry) -> bool {
    tube.row.options.keep_days > 0
}

/// Whether a state has rows by which it is found.
fn has_index(state: Option<&TaskState>) -> bool {
    match state {
        Some(TaskState::Taken(row)) => row.holder != 0 || row.progress.has_slots(),
        Some(TaskState::Buried(_) | TaskState::Done(_) | TaskState::Trashed(_)) => true,
        _ => false,
    }
}

/// The state without what it says of the lease before it; `None` if it says nothing of one, or is a
/// lease.
#[inline]
fn unleased(to: &TaskState) -> Option<TaskState> {
    let is_taken = matches!(to, TaskState::Taken(_));
    (!is_taken && to.progress().has_lease_fields()).then(|| {
        let mut to = to.clone();
        to.progress_mut().end_lease();
        to
    })
}

/// Whether the row of a state is to say something of statistics, or may say what it is not to say
/// any more. Most tasks have no section.
#[inline(always)]
fn may_state(tube: &TubeEntry, to: &TaskState) -> bool {
    !to.progress().extension.is_empty() || matches!(to, TaskState::Ready(_)) && keeps_days(tube)
}

/// Counts that a task is no more stalled, if it was.
#[cold]
pub(crate) fn end_stall(ctx: &mut OpContext<'_>, tube: &TubeEntry, from: &TaskState) {
    if matches!(from, TaskState::Taken(row) if row.is_stalled()) {
        ctx.effects().count_stalled(tube.number, -1);
    }
}

/// Moves a task from one state to another, with all rows that hang on it. Its payload, its key
/// and its place are not its business: see [`put`] and [`erase`].
pub(crate) fn move_task(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: &TaskState,
    to: &TaskState,
    cause: Cause,
) -> Result<()> {
    if may_state(task.tube, to)
        && let Some(to) = statistics::stated(ctx, task, (from, to))?
    {
        return move_task(ctx, task, from, &to, cause);
    }
    if let TaskState::Fresh(_) = from {
        let task = &TaskRef { home: fresh::leave(ctx, task), ..*task };
        return Transition { task, from: Some(from), to: Some(to), before: None }
            .carry_out(ctx, cause);
    }
    if let Some(to) = unleased(to) {
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
    if let Some(to) = unleased(to) {
        move_to_rank(ctx, task, (from, &to), place, cause)?;
        end_stall(ctx, task.tube, from);
        return Ok(());
    }
    if may_state(task.tube, to)
        && let Some(to) = statistics::stated(ctx, task, (from, to))?
    {
        return move_to_rank(ctx, task, (from, &to), place, cause);
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
    if let Some(to) = unleased(to) {
        strip(ctx, (old, from), (new, &to), cause)?;
        end_stall(ctx, old.tube, from);
        return Ok(());
    }
    if may_state(old.tube, to)
        && let Some(to) = statistics::stated(ctx, old, (from, to))?
    {
        return strip(ctx, (old, from), (new, &to), cause);
    }
    let home = if let TaskState::Fresh(_) = from { fresh::leave(ctx, old) } else { old.home };
    let new = &TaskRef { home, ..*new };
    Transition { task: new, from: Some(from), to: Some(to), before: None }.step(ctx)?;
    if let Some((raw, _)) = new.read {
        ctx.change(key::task(new.tube.run(), &home, new.id), raw.clone());
    }
    ctx.effects().count_bytes(new.tube.run(), new.bytes as i64 - old.bytes as i64);
    let published = Transition { task: old, from: Some(from), to: Some(to), before: None };
    published.file(ctx, cause)?;
    published.record(ctx, cause)?;
    published.end(ctx)
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
    // Most tasks have no section, and so neither a history nor reports nor tags.
    if !from.progress().extension.is_empty() {
        end_stall(ctx, task.tube, from);
        history::erase(ctx, task, from.progress());
        reports::erase(ctx, task, from.progress());
        tags::erase(ctx, task, from.progress())?;
        edges::erase(ctx, task, from, cause)?;
    }
    Ok(())
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
    if may_state(task.tube, to)
        && let Some(to) = statistics::stated(ctx, task, (from, to))?
    {
        return restate(ctx, task, from, &to);
    }
    let home = if let TaskState::Fresh(_) = from { fresh::leave(ctx, task) } else { task.home };
    let task = &TaskRef { home, ..*task };
    Transition { task, from: Some(from), to: Some(to), before: None }.step(ctx)
}

/// Removes the deadline of a lease, also of a stalled one, until its consumer resumes it or the
/// grace of that is over. The task stays taken, so nothing is published and nothing counted.
pub(crate) fn suspend(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, taken: TakenRow) -> Result<()> {
    let mut to = TakenRow { deadline: NEVER, since: NEVER, ..taken.clone() };
    to.progress.end_stall();
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
        self.file(ctx, cause)?;
        self.record(ctx, cause)?;
        match self.to {
            Some(TaskState::Buried(_) | TaskState::Done(_) | TaskState::Trashed(_)) => {
                self.end(ctx)
            }
            _ => Ok(()),
        }
    }

    /// Adds to the statistics of the tube what the step says, if it keeps some.
    #[inline(always)]
    fn file(&self, ctx: &mut OpContext<'_>, cause: Cause) -> Result<()> {
        match self.from {
            Some(from) if keeps_days(self.task.tube) => {
                statistics::file(ctx, self.task, (from, self.to), cause)
            }
            _ => Ok(()),
        }
    }

    /// Moves the rows. After an error none has moved: a caller that continues finds the task where
    /// it was.
    fn step(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let Self { task, from, to, before } = *self;
        // The keys of some states contain the rank.
        let has_same_key = before.is_none()
            || matches!(
                to,
                Some(TaskState::Delayed(_) | TaskState::Blocked(_) | TaskState::Taken(_))
            );
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
        let head = self.task.is_next.then_some((self.task.place, self.task.id));
        let step = groups::Step { group, leaves, enters, in_flight, head };
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
        let keys_of = |state| index_keys(self.task, state);
        let old = self.from.map(keys_of).unwrap_or_default();
        let new = self.to.map(keys_of).unwrap_or_default();
        for key in old.iter().filter(|key| !new.contains(key)) {
            slots::note_left(ctx, key);
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

    /// Records the plain step.
    #[inline(always)]
    fn publish(&self, ctx: &mut OpContext<'_>, cause: Cause) {
        let (from, to) = (self.from.map(TaskState::state), self.to.map(TaskState::state));
        let (tube, task) = (self.task.tube.number, self.task.id);
        ctx.effects().changes.push(Change { tube, task, from, to, cause });
    }
}
