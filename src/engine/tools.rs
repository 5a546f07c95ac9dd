//! The tools' verbs, for a task by its id or for the next buried ones: bury, kick, delete. They ask
//! nobody who holds the task; whoever did has lost it.

use crate::bytes::key::{self, Key};
use crate::bytes::{Tag, View};
use crate::engine::desk::{Desk, Op, damaged};
use crate::engine::index;
use crate::engine::known::Tube;
use crate::engine::settle::{bounded, bury};
use crate::engine::stored::{Standing, Task};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::SWEEP_TASKS;
use crate::task::{Cause, Reason, State, TaskId};

/// Does this to a task, whoever holds it.
pub(crate) struct Tool {
    pub(crate) tube: u32,
    pub(crate) id: TaskId,
    pub(crate) verb: Verb,
}

pub(crate) enum Verb {
    /// Sets it aside, from any state.
    Bury(Reason),
    /// Brings it back, if it is buried.
    Kick,
    /// Removes it, in any state.
    Delete,
}

/// Brings buried tasks back, up to `most` and no more than one sweep's worth. Answers how many.
pub(crate) struct Kick {
    pub(crate) tube: u32,
    pub(crate) most: u64,
}

impl Op for Tool {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn grows(&self) -> bool {
        !matches!(self.verb, Verb::Delete)
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        vec![self.id]
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<()> {
        let (tube, id) = (&*desk.tube(self.tube)?, self.id);
        let (stored, from) = index::find(desk, tube, id)?;
        let task = stored.task()?;
        match &self.verb {
            Verb::Bury(reason) => set_aside(desk, tube, &task, from, reason),
            Verb::Kick if from.state() == State::Buried => kick(desk, tube, &task, from),
            Verb::Kick => {
                let text = format!("it is {:?}, not Buried", from.state());
                Err(Error::new(ErrorKind::WrongState).because(text).on_task(id))
            }
            Verb::Delete => index::erase(desk, tube, &task, &from, Cause::Delete),
        }
    }
}

/// A task that is aside already stays as it is, with its first reason.
fn set_aside(
    desk: &mut Desk<'_>,
    tube: &Tube,
    task: &Task<'_>,
    from: Standing,
    reason: &Reason,
) -> Result<()> {
    if from.state() == State::Buried {
        return Ok(());
    }
    let to = bury(desk, from.head().clone(), |_| bounded(reason));
    index::shift(desk, tube, task, Some(&from), Some(&to), Cause::Bury)
}

/// A task that `ttl_spares_buried` has kept beyond the end of its life gets a new one. The length
/// of its ttl is not stored: the new life is as long as the first, from the put to that end.
fn kick(desk: &mut Desk<'_>, tube: &Tube, task: &Task<'_>, from: Standing) -> Result<()> {
    let (mut head, now) = (from.head().clone(), desk.now.queue);
    head.attempts = 0;
    if tube.row.options.ttl_spares_buried && head.expires <= now {
        let created = task.read.map_or(0, |(_, row)| row.created);
        let life = head.expires.saturating_sub(created);
        head.expires = now.saturating_add(life);
    }
    index::shift(desk, tube, task, Some(&from), Some(&Standing::Ready(head)), Cause::Kick)
}

impl Op for Kick {
    type Done = u64;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn grows(&self) -> bool {
        true
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<u64> {
        let tube = desk.tube(self.tube)?;
        let range = tube.range(Tag::Buried);
        let mut from: Key = range.start();
        let mut kicked = 0;
        while kicked < self.most.min(SWEEP_TASKS as u64) && desk.count(range) > 0 {
            let Some((met, _)) = desk.first(&from, &range.end())? else { break };
            from = key::after(&met);
            let id = key::id_of(&met).ok_or_else(|| damaged("buried"))?;
            // A damaged one cannot be taken anyway; it stays aside, and the next one is kicked.
            let (stored, standing) = match index::find(desk, &tube, id) {
                Err(error) if error.kind() == ErrorKind::Damaged => continue,
                found => found?,
            };
            let Ok(task) = stored.task() else { continue };
            kick(desk, &tube, &task, standing)?;
            kicked += 1;
        }
        Ok(kicked)
    }
}
