//! A put of one task that comes after more others than one op writes edges of: some edges are
//! written at a time, and after the last of them the put makes the task. The edges of a put that
//! does not finish are removed. It does not write pieces of payloads itself.

use crate::engine::dependencies::FoundTasks;
use crate::engine::linked::{Earlier, Linked};
use crate::engine::linking::{LinkSome, Unlink};
use crate::engine::put::PutTasks;
use crate::runtime::pipeline::submit;
use crate::runtime::shared::Shared;
use crate::words::dependency::{After, On};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{EDGES_OF_OP, KEY_TRIES_MAX};
use crate::words::task::TaskId;

/// The edges that are written of a put that is not done yet. The drop removes them.
pub(crate) struct LinkedPut<'a> {
    core: &'a Shared,
    linked: Option<Linked>,
}

/// Whether it is one task with more edges than one op writes.
#[cold]
pub(crate) fn is_long(put: &PutTasks<'_>) -> bool {
    let [task] = put.tasks else { return false };
    let after = task.extras.and_then(|extras| extras.after.as_ref());
    let is_many = |after: &After| after.each_once().len() > EDGES_OF_OP;
    after.is_some_and(|after| after.tasks.len() > EDGES_OF_OP && is_many(after))
}

impl<'a> LinkedPut<'a> {
    pub(crate) fn new(core: &'a Shared) -> Self {
        Self { core, linked: None }
    }

    /// Writes the edges, and does the put as `last` does. After a refusal no edge is left: it may
    /// wait for room without an end, and holds none of the earlier tasks meanwhile.
    #[cold]
    pub(crate) fn apply<R>(
        mut self,
        put: &PutTasks<'_>,
        mut last: impl FnMut(&PutTasks<'_>) -> Result<R>,
    ) -> Result<R> {
        let after = put.tasks.first().and_then(|task| task.extras?.after.as_ref());
        let Some(after) = after else { return last(put) };
        let tasks = after.each_once();
        let mut tries_left = KEY_TRIES_MAX;
        loop {
            tries_left -= 1;
            match self.attempt(put, &tasks, &mut last) {
                // Another call has put or ended the task of its key meanwhile.
                Err(error) if error.kind() == ErrorKind::WrongState && tries_left > 0 => {
                    self.give_up();
                }
                done => return done,
            }
        }
    }

    fn attempt<R>(
        &mut self,
        put: &PutTasks<'_>,
        tasks: &[(TaskId, On)],
        last: &mut impl FnMut(&PutTasks<'_>) -> Result<R>,
    ) -> Result<R> {
        while self.linked.is_none_or(|linked| linked.done < tasks.len()) {
            if !self.write_some(put, tasks)? {
                // Unless the task of its key has gone meanwhile: then there are too many edges.
                return last(put).map_err(|error| match error.kind() {
                    ErrorKind::Invalid => {
                        let text = "the task of its key has changed while its edges were written";
                        Error::new(ErrorKind::WrongState).because(text)
                    }
                    _ => error,
                });
            }
        }
        let found = put.earlier.map_or(FoundTasks::NONE, |earlier| &earlier.found).clone();
        let earlier = Earlier { found, linked: self.linked };
        let done = last(&PutTasks { earlier: Some(&earlier), ..*put })?;
        self.linked = None;
        Ok(done)
    }

    /// Returns whether the put will make a task.
    fn write_some(&mut self, put: &PutTasks<'_>, tasks: &[(TaskId, On)]) -> Result<bool> {
        let step = LinkSome { put, tasks, before: self.linked };
        let Some(linked) = self.core.apply(&step)?.0 else { return Ok(false) };
        self.linked = Some(linked);
        self.core.state.pass_on();
        Ok(true)
    }

    fn give_up(&mut self) {
        if let Some(linked) = self.linked.take() {
            // If this fails the work row stays, and the next opening removes the edges.
            let _ = submit(self.core, &Unlink(linked));
        }
    }
}

impl Drop for LinkedPut<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(test)]
mod tests;
