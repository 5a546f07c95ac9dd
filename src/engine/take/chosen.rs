//! Takes of a chosen task, and of the first one of a chosen group. The gates of the tube let it
//! through or refuse it.

use super::{Delivery, ensure_open, take};
use crate::engine::context::{Op, OpContext, damaged};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::{gates, groups, keys, lines, lookup, settle, slots, state_rows, task_gates};
use crate::format::View;
use crate::format::key::{self, Direction};
use crate::format::row::TaskProgress;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::SWEEP_BYTES;
use crate::words::name::label;
use crate::words::numbers::Numbers;
use crate::words::task::{State, TaskId};
use crate::words::task_gates::group_in;

/// Takes this task, also before its delay has ended, while it is buried, and in a paused tube.
pub(crate) struct Claim {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    pub(crate) holder: u32,
}

/// Takes the first ready task of a group, if the group may be taken from.
pub(crate) struct TakeGroup<'a> {
    pub(crate) tube: u32,
    pub(crate) group: &'a str,
    pub(crate) holder: u32,
}

impl Op for Claim {
    type Done = Delivery;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let tube = ctx.tube(self.tube)?;
        ensure_open(ctx, self.holder)?;
        let (stored, state) = lookup::find(ctx, &tube, self.id)?;
        let task = stored.task(&tube)?;
        let progress = match &state {
            TaskState::Fresh(progress) | TaskState::Ready(progress) => progress.clone(),
            TaskState::Delayed(row) => TaskState::undelayed(row, ctx.now),
            TaskState::Blocked(_) => {
                return Err(refused(self.id, "it waits for other tasks".to_owned()));
            }
            TaskState::Buried(row) if row.progress.edges(Direction::Dependency).open > 0 => {
                return Err(refused(self.id, "it waits for other tasks, kick it".to_owned()));
            }
            TaskState::Buried(row) => {
                keys::admits(ctx, &task, (&state, State::Taken))?;
                settle::kicked(ctx, &task, row)
            }
            TaskState::Taken(_) => return Err(refused(self.id, "it is taken".to_owned())),
            TaskState::Done(_) => return Err(refused(self.id, "it is finished".to_owned())),
            TaskState::Trashed(_) => {
                return Err(refused(self.id, "it is in the trash, restore it first".to_owned()));
            }
        };
        gates::enter(ctx, &tube, self.id, ctx.now)?;
        if let Some(own) = task_gates::of(task.group, &progress) {
            lines::enter(ctx, own, self.id, ctx.now)?;
        }
        if let Some(group) = group_in(task.group) {
            enter_group(ctx, &task, group, &state)?;
        }
        let handed = take_chosen(ctx, &task, (&state, progress), self.holder)?;
        slots::note_looks(ctx, &tube, 1);
        gates::count_taken(ctx, &tube, 1)?;
        Ok(handed)
    }
}

impl Op for TakeGroup<'_> {
    type Done = Option<Delivery>;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let tube = ctx.tube(self.tube)?;
        ensure_open(ctx, self.holder)?;
        let options = &tube.row.options;
        if !options.kind.switches().grouped {
            let text = format!("groups with kind {:?}", options.kind);
            return Err(Error::new(ErrorKind::Unsupported).because(text));
        }
        label("group name", self.group)?;
        let most = tube.row.most_in_flight(self.group);
        // What closes the way is noted, so that a call that waits is woken when it opens.
        if tube.row.may_be_closed() && gates::admit(ctx, &tube)? == 0
            || groups::in_flight(ctx, &tube, self.group)? >= most
        {
            return Ok(None);
        }
        let line = key::line_of(tube.run(), self.group);
        let Some((first, row)) = ctx.first(&line, &key::end_of(&line))? else { return Ok(None) };
        if lines::stops_group(ctx, &tube, (&first, row.as_ref()))? {
            return Ok(None);
        }
        let id = key::id_of(&first).ok_or_else(|| damaged("line"))?;
        let (stored, state) = lookup::find(ctx, &tube, id)?;
        let task = stored.task(&tube)?;
        let progress = state.progress().clone();
        let handed = take_chosen(ctx, &task, (&state, progress), self.holder)?;
        slots::note_looks(ctx, &tube, 1);
        gates::count_taken(ctx, &tube, 1)?;
        Ok(Some(handed))
    }
}

/// Takes a task that was found by its id or as the first of its group.
fn take_chosen(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: (&TaskState, TaskProgress),
    holder: u32,
) -> Result<Delivery> {
    let mut content = task.content(ctx)?;
    content.payload.read_if_short(ctx, &mut { SWEEP_BYTES })?;
    take(ctx, task, from, content, holder)
}

/// Whether a chosen task may be taken now by the rules of its group. A group that has one task in
/// flight is taken in order, so nothing overtakes its first task.
fn enter_group(
    ctx: &OpContext<'_>,
    task: &TaskRef<'_>,
    group: &str,
    state: &TaskState,
) -> Result<()> {
    let (tube, most) = (task.tube, task.tube.row.most_in_flight(group));
    let own = state_rows::in_flight(Some(state)).unsigned_abs();
    if groups::in_flight(ctx, tube, group)?.saturating_sub(own) >= most {
        return Err(refused(
            task.id,
            format!("as many of {} are in flight as may be", named(group)),
        ));
    }
    let line = key::line_of(tube.run(), group);
    // A task that holds its group while it is delayed is the one in flight.
    if most == 1
        && own == 0
        && let Some((first, _)) =
            ctx.first(&line, &key::line(tube.run(), group, &task.place, task.id))?
        && let Some(first) = key::id_of(&first)
    {
        return Err(refused(task.id, format!("task {first} of {} comes first", named(group))));
    }
    Ok(())
}

/// A group in a message. Tasks without one form a group of no name in some kinds of tubes.
fn named(group: &str) -> String {
    match group {
        "" => "the tasks without a group".into(),
        group => format!("its group {group:?}"),
    }
}

fn refused(id: TaskId, text: String) -> Error {
    Error::new(ErrorKind::WrongState).because(text).on_task(id)
}
