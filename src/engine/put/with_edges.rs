//! The part of a put that concerns the tasks which its tasks come after.

use super::PutTasks;
use crate::engine::context::OpContext;
use crate::engine::dependencies::{FoundTasks, NewEdges, block};
use crate::engine::new_row::Extras;
use crate::engine::stored::TaskState;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{kinds, tags, task_gates};
use crate::format::row::LinkingRow;
use crate::words::dependency::After;
use crate::words::error::Result;
use crate::words::task::TaskId;

impl PutTasks<'_> {
    /// The id of the only task, if it was drawn with its first edges.
    #[inline]
    pub(crate) fn linked_id(&self) -> Option<u64> {
        self.earlier.and_then(|earlier| earlier.linked).map(|linked| linked.id.get())
    }

    /// Where the tasks are that its tasks come after.
    pub(crate) fn found(&self) -> &FoundTasks {
        self.earlier.map_or(FoundTasks::NONE, |earlier| &earlier.found)
    }

    /// Refuses a batch with too many edges.
    #[cold]
    pub(super) fn check_edges(&self) -> Result<()> {
        let after = self.tasks.iter().filter_map(|task| task.extras?.after.as_ref());
        let edges: usize = after.map(|after| after.tasks.len()).sum();
        if self.is_batch { After::ensure_fit_batch(edges) } else { Ok(()) }
    }

    /// Writes the edges of a new task to those that it comes after. Returns its first state with
    /// them, and whether by one of them it is removed at once.
    fn edges(
        &self,
        ctx: &mut OpContext<'_>,
        of: (&TubeEntry, TaskId),
        extras: &Extras<'_>,
        started: TaskState,
    ) -> Result<(TaskState, bool)> {
        let (counts, is_cancelled) = match self.earlier.and_then(|earlier| earlier.linked) {
            Some(linked) => {
                let LinkingRow { counts, is_cancelled } = linked.end(ctx)?;
                (counts, is_cancelled)
            }
            None => {
                let after = extras.after.as_ref().unwrap_or(After::NONE);
                let edges = NewEdges::of(ctx, of, after, self.found())?;
                edges.write(ctx, of)?;
                (edges.counts(), edges.is_cancelled)
            }
        };
        Ok((block(ctx, started, counts)?, is_cancelled))
    }

    /// The first state of a task with what few tasks are put with, the gates among it that its line
    /// does not say, and whether it is removed at once. Writes its edges and the rows of its kind
    /// and its tags.
    #[cold]
    pub(super) fn start(
        &self,
        ctx: &mut OpContext<'_>,
        (tube, id): (&TubeEntry, TaskId),
        extras: &Extras<'_>,
        (state, gates): (&TaskState, Option<&str>),
    ) -> Result<(TaskState, bool)> {
        let started = extras.start(ctx, tube, (state, gates))?;
        task_gates::note(ctx, tube, (extras.line(), gates));
        kinds::add(ctx, tube, id, extras.labels().kind);
        if !extras.tags().is_empty() {
            tags::put(ctx, tube, id, extras.tags())?;
        }
        if !extras.is_after_any() {
            return Ok((started, false));
        }
        self.edges(ctx, (tube, id), extras, started)
    }
}
