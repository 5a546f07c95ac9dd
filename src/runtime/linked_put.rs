//! A put of one task that comes after more others than one op writes edges of: some edges are
//! written at a time, and after the last of them the put makes the task. The edges of a put that
//! does not finish are removed. It does not write pieces of payloads itself.

use crate::engine::linked::{Earlier, Linked};
use crate::engine::linking::{LinkSome, Unlink};
use crate::engine::put::PutTasks;
use crate::runtime::pipeline::submit;
use crate::runtime::shared::Shared;
use crate::words::dependency::On;
use crate::words::error::Result;
use crate::words::limits::EDGES_OF_OP;
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
    after.is_some_and(|after| after.tasks.len() > EDGES_OF_OP)
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
        last: impl FnOnce(&PutTasks<'_>) -> Result<R>,
    ) -> Result<R> {
        let after = put.tasks.first().and_then(|task| task.extras?.after.as_ref());
        let (Some(after), Some(earlier)) = (after, put.earlier) else { return last(put) };
        let mut tasks = after.tasks.clone();
        tasks.sort_unstable();
        tasks.dedup();
        while self.linked.is_none_or(|linked| linked.done < tasks.len()) {
            self.write_some(put, &tasks)?;
        }
        let earlier = Earlier { found: earlier.found.clone(), linked: self.linked };
        let done = last(&PutTasks { earlier: Some(&earlier), ..*put })?;
        self.linked = None;
        Ok(done)
    }

    fn write_some(&mut self, put: &PutTasks<'_>, tasks: &[(TaskId, On)]) -> Result<()> {
        let step = LinkSome { put, tasks, before: self.linked };
        self.linked = Some(self.core.apply(&step)?.0);
        self.core.state.pass_on();
        Ok(())
    }
}

impl Drop for LinkedPut<'_> {
    fn drop(&mut self) {
        if let Some(linked) = self.linked.take() {
            // If this fails the work row stays, and the next opening removes the edges.
            let _ = submit(self.core, &Unlink(linked));
        }
    }
}

#[cfg(test)]
mod tests;
