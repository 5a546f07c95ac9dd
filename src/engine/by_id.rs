//! Verbs on tasks by their ids or on the next buried tasks: complete, fail, bury, kick, delete.
//! They need no lease; a lease on the task is lost.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::dependents::Together;
use crate::engine::settle::{buried_with_failure, kicked};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{dependents, finish, history, keys, lookup, transition, trash};
use crate::format::key::{self, Key};
use crate::format::row::BuriedRow;
use crate::format::{Scan, Tag, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{EDGES_LOOKED_MAX, SWEEP_TASKS};
use crate::words::task::{Cause, Reason, State, TaskId};
use crate::words::verb::{Kicked, add_clashes};

/// Applies a verb to a task, also if it is taken. Returns false if its work was done already.
pub(crate) struct Tool<'a> {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    pub(crate) verb: Verb<'a>,
}

pub(crate) enum Verb<'a> {
    /// The work is done, perhaps with a result; the caller need not hold the task.
    Complete(Option<&'a [u8]>),
    /// The work has failed; the caller need not hold the task.
    Fail(Reason),
    Bury(Reason),
    /// Into the trash, also from the buried ones.
    Trash(Reason),
    Kick,
    Delete {
        /// The states in which the task is deleted; `None` is all.
        only_if: Option<&'a [State]>,
        /// Also if other tasks wait for it.
        by_force: bool,
    },
}

/// Removes tasks, in any state, and steps over those that the tube does not have. Returns how many
/// it has found.
pub(crate) struct DeleteMany<'a> {
    pub(crate) tube: u32,
    pub(crate) ids: &'a [TaskId],
    /// All tasks that the call removes.
    pub(crate) all: Together<'a>,
    /// Whether it only looks if others wait for one of them.
    pub(crate) is_check: bool,
}

/// Makes buried tasks ready again, up to `most`, of one sweep. Returns where the next sweep begins.
pub(crate) struct Kick<'a> {
    pub(crate) tube: u32,
    /// Only those that were buried in this failure group up to this queue time, in that order.
    pub(crate) failed: Option<(&'a str, u64)>,
    pub(crate) most: u64,
    pub(crate) from: Option<Key>,
}

/// Makes these tasks ready again, or the first of them if that is much; those that are not buried
/// are stepped over.
pub(crate) struct KickMany<'a> {
    pub(crate) tube: u32,
    /// Only those in this failure group.
    pub(crate) group: Option<&'a str>,
    pub(crate) ids: &'a [TaskId],
}

/// What a step of a kick of several tasks did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KickedSome {
    pub(crate) kicked: u64,
    /// Those that stay buried, because another task counts for their key.
    pub(crate) clashes: Vec<TaskId>,
    /// How many it has looked at: the first ones.
    pub(crate) looked: usize,
}

impl KickedSome {
    pub(crate) fn add_to(self, all: &mut Kicked) {
        all.kicked += self.kicked;
        add_clashes((&mut all.clashed, &mut all.clashes), self.clashes);
    }
}

impl Op for Tool<'_> {
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn adds(&self) -> bool {
        matches!(self.verb, Verb::Complete(Some(_)))
    }

    fn grows(&self) -> bool {
        matches!(self.verb, Verb::Kick)
    }

    fn brings_back(&self) -> bool {
        matches!(self.verb, Verb::Fail(_) | Verb::Bury(_) | Verb::Trash(_))
    }

    fn in_doubt(&self, _done: &bool) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let (tube, id) = (&*ctx.tube(self.tube)?, self.id);
        if let Verb::Complete(Some(result)) = self.verb {
            finish::check(tube, result)?;
        }
        let (stored, from) = lookup::find(ctx, tube, id)?;
        match (&self.verb, &from) {
            (Verb::Complete(_), TaskState::Done(_)) => Ok(false),
            (Verb::Fail(_) | Verb::Bury(_) | Verb::Trash(_) | Verb::Kick, TaskState::Done(_)) => {
                wrong_state(id, &from, "and can only be deleted").map(|()| false)
            }
            _ => self.apply(ctx, &stored.task(tube)?, from).map(|()| true),
        }
    }
}

impl Tool<'_> {
    fn apply(&self, ctx: &mut OpContext<'_>, task: &TaskRef<'_>, from: TaskState) -> Result<()> {
        let (tube, id) = (task.tube, self.id);
        match &self.verb {
            // What became of it is decided.
            Verb::Complete(_) | Verb::Fail(_) if matches!(from, TaskState::Trashed(_)) => {
                wrong_state(id, &from, "in the trash, restore it first")
            }
            Verb::Complete(_) | Verb::Fail(_) if from.state() == State::Buried => {
                wrong_state(id, &from, "kick it first")
            }
            Verb::Complete(result) => finish::finish(ctx, task, &from, *result),
            // It keeps its first reason.
            Verb::Bury(_) | Verb::Trash(_) if matches!(from, TaskState::Trashed(_)) => Ok(()),
            Verb::Bury(_) if from.state() == State::Buried => Ok(()),
            Verb::Fail(reason) | Verb::Bury(reason) | Verb::Trash(reason) => {
                let progress = match &from {
                    TaskState::Blocked(row) => TaskState::unblocked(row, ctx.now),
                    from => from.progress().clone(),
                };
                let mut to = buried_with_failure(ctx, tube, progress, from.holder(), reason)?;
                let cause = trash::cause_of(&to);
                let noted = history::note(ctx, task, (&from, &mut to), cause)?;
                transition::move_task(ctx, task, &from, &to, cause)?;
                noted.write(ctx);
                Ok(())
            }
            Verb::Kick => match from {
                TaskState::Buried(buried) => kick(ctx, task, buried),
                TaskState::Trashed(_) => wrong_state(id, &from, "in the trash, restore it"),
                from => wrong_state(id, &from, "not Buried"),
            },
            Verb::Delete { only_if: Some(states), .. } if !states.contains(&from.state()) => {
                wrong_state(id, &from, &format!("not one of {states:?}"))
            }
            Verb::Delete { by_force, .. } => {
                if !by_force {
                    dependents::ensure_none(ctx, task, &from)?;
                }
                transition::erase(ctx, task, &from, Cause::Delete)
            }
        }
    }
}

/// Makes a buried task ready.
fn kick(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, buried: BuriedRow) -> Result<()> {
    let mut to = TaskState::ready_or_blocked(kicked(ctx, task, &buried), ctx.now);
    let from = TaskState::Buried(buried);
    keys::admits(ctx, task, (&from, to.state()))?;
    let noted = history::note(ctx, task, (&from, &mut to), Cause::Kick)?;
    transition::move_task(ctx, task, &from, &to, Cause::Kick)?;
    noted.write(ctx);
    Ok(())
}

/// Kicks a task if it is buried, in this failure group if one is given. A damaged task stays
/// buried, and one for whose key another task counts. There may be no task, also because the id is
/// of a damaged key.
fn kick_if_buried(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (id, group): (TaskId, Option<&str>),
    done: &mut KickedSome,
) -> Result<()> {
    done.looked += 1;
    let found = match lookup::find(ctx, tube, id) {
        Err(error) if error.is_not_found() => return Ok(()),
        found => sound(found)?,
    };
    let Some((stored, TaskState::Buried(buried))) = found else { return Ok(()) };
    let (Ok(task), true) = (stored.task(tube), group.is_none() || group == buried.failure_group())
    else {
        return Ok(());
    };
    match kick(ctx, &task, buried) {
        Err(error) if error.kind() == ErrorKind::KeyExists => done.clashes.push(id),
        kicked => kicked.map(|()| done.kicked += 1)?,
    }
    Ok(())
}

fn wrong_state(id: TaskId, state: &TaskState, wanted: &str) -> Result<()> {
    let text = format!("it is {:?}, {wanted}", state.state());
    Err(Error::new(ErrorKind::WrongState).because(text).on_task(id))
}

impl Op for DeleteMany<'_> {
    type Done = u64;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn in_doubt(&self, _done: &u64) -> Vec<TaskId> {
        self.ids.to_vec()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<u64> {
        let tube = &*ctx.tube(self.tube)?;
        let (mut found_here, mut left) = (0, EDGES_LOOKED_MAX);
        for id in self.ids {
            let (stored, from) = match lookup::find(ctx, tube, *id) {
                Err(error) if error.is_not_found() => continue,
                found => found.map_err(|error| error.on_task(*id))?,
            };
            let task = stored.task(tube).map_err(|error| error.on_task(*id))?;
            dependents::ensure_among(ctx, (&task, &from), self.all, &mut left)?;
            if !self.is_check {
                transition::erase(ctx, &task, &from, Cause::Delete)?;
            }
            found_here += 1;
        }
        Ok(found_here)
    }
}

impl Op for Kick<'_> {
    type Done = (KickedSome, Option<Key>);

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let tube = ctx.tube(self.tube)?;
        let (start, end) = match self.failed {
            None => (tube.range(Tag::Buried).start(), tube.range(Tag::Buried).end()),
            Some((group, until)) => {
                let tasks = key::buried_group_of(tube.run(), group);
                let end = key::after_time(&tasks, until);
                (tasks, end)
            }
        };
        // A truncate since the last sweep has given the tube another range.
        let from = self.from.as_deref().map(key::copy).unwrap_or_default();
        let mut rows = Scan::between(start.max(from), end);
        let (mut done, mut next) = (KickedSome::default(), None);
        for _ in 0..SWEEP_TASKS {
            if done.kicked == self.most || ctx.count(tube.range(Tag::Buried)) == 0 {
                return Ok((done, None));
            }
            if done.looked > 0 && ctx.is_sweep_long() {
                break;
            }
            let Some((met, _)) = rows.next(ctx)? else { return Ok((done, None)) };
            let id = key::id_of(&met).ok_or_else(|| damaged("buried"))?;
            let group = self.failed.map(|(group, _)| group);
            kick_if_buried(ctx, &tube, (id, group), &mut done)?;
            next = Some(key::after(&met));
        }
        Ok((done, next))
    }
}

impl Op for KickMany<'_> {
    type Done = KickedSome;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn in_doubt(&self, _done: &KickedSome) -> Vec<TaskId> {
        self.ids.to_vec()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<KickedSome> {
        let tube = &*ctx.tube(self.tube)?;
        let mut done = KickedSome::default();
        for id in self.ids {
            if done.looked > 0 && ctx.is_sweep_long() {
                break;
            }
            kick_if_buried(ctx, tube, (*id, self.group), &mut done)?;
        }
        Ok(done)
    }
}
