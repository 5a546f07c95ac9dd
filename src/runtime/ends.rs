//! Waiting for the end of a task, whatever its tube, also of one that an earlier run has put.

use crate::engine::query;
use crate::runtime::shared::{Shared, end_key};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::{State, TaskId, TaskInfo};
use crate::words::wait::Wait;

/// How a task ended.
pub(crate) enum TaskEnd {
    /// It is done or buried.
    Kept(Box<TaskInfo>),
    Gone,
}

/// Keeps a task among those whose ends are published.
struct Awaited<'a> {
    core: &'a Shared,
    id: TaskId,
}

impl<'a> Awaited<'a> {
    fn new(core: &'a Shared, id: TaskId) -> Self {
        *core.state.lock().derived.awaited.entry(id).or_default() += 1;
        Self { core, id }
    }
}

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        let awaited = &mut self.core.state.lock().derived.awaited;
        match awaited.get_mut(&self.id) {
            Some(calls) if *calls > 1 => *calls -= 1,
            _ => _ = awaited.remove(&self.id),
        }
    }
}

impl Shared {
    /// Waits until the task ends. `None` if the wait is over.
    pub(crate) fn wait_for_end(&self, id: TaskId, wait: Wait<'_>) -> Result<Option<TaskEnd>> {
        if let Some(end) = self.end_of(id)? {
            return Ok(Some(end));
        }
        self.health.runs()?;
        // Before the wait begins to look, so that no end is missed.
        let _awaited = Awaited::new(self, id);
        self.wait_for(&self.ends, end_key(id), 0, wait, || self.end_of(id))
    }

    /// How the task has ended; `None` if it has not.
    fn end_of(&self, id: TaskId) -> Result<Option<TaskEnd>> {
        // Read first: it may be put while the tubes are looked into.
        let was_given = self.look_at(|state, _| Ok(state.was_given(id)))?;
        let state = self.in_its_tube(id, |state, tube, now| {
            Ok(query::info(&state.store, tube, id, now)?.summary.state)
        })?;
        match state {
            Some(State::Done | State::Buried) => {}
            Some(State::Delayed | State::Ready | State::Taken) => return Ok(None),
            None if was_given => return Ok(Some(TaskEnd::Gone)),
            None => {
                let text = "no task was ever given this id";
                return Err(Error::new(ErrorKind::TaskNotFound).because(text));
            }
        }
        match self.find(id, &mut None)? {
            None => Ok(Some(TaskEnd::Gone)),
            Some(task) if matches!(task.state, State::Done | State::Buried) => {
                Ok(Some(TaskEnd::Kept(Box::new(task))))
            }
            // It was kicked meanwhile.
            Some(_) => Ok(None),
        }
    }
}
