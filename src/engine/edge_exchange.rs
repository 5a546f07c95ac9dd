//! A task that is put again after other tasks than before, or whose next step comes after some: the
//! edges that it has had go, and new ones come, in one step. No task may come to wait for itself.

use crate::engine::context::OpContext;
use crate::engine::dependencies::{FoundTasks, NewEdges, block, count, some_of};
use crate::engine::edges;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Direction, Run};
use crate::format::row::{EdgeCounts, EdgeRow};
use crate::format::{Scan, View};
use crate::words::dependency::After;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::CYCLE_EDGES_MAX;
use crate::words::task::TaskId;
use std::collections::BTreeSet;

/// The edges of a task that is put again.
pub(crate) struct EdgeExchange<'a> {
    old: Vec<(TaskId, EdgeRow, bool)>,
    pub(crate) new: NewEdges<'a>,
}

impl<'a> EdgeExchange<'a> {
    /// Looks at the edges before and after. `id` is the task after the put.
    ///
    /// # Errors
    /// `Cycle`, `TooDeep`; `TooLarge` if it has more edges than one step removes; as
    /// [`NewEdges::of`].
    pub(crate) fn of(
        ctx: &OpContext<'a>,
        old: &TaskRef<'_>,
        (tube, id): (&TubeEntry, TaskId),
        (after, found): (&After, &FoundTasks),
    ) -> Result<Self> {
        if after.tasks.iter().any(|(earlier, _)| *earlier == old.id) {
            return Err(Error::new(ErrorKind::Cycle).on_task(old.id));
        }
        let new = NewEdges::of(ctx, (tube, id), after, found)?;
        let held = match old.id == id {
            true => some_of(ctx, (old.tube, id), found.most + 1)?,
            false => Vec::new(),
        };
        if held.len() > found.most {
            let most = found.most;
            let text = format!("it comes after more than {most} tasks; one step replaces no more");
            return Err(Error::new(ErrorKind::TooLarge).because(text).on_task(id));
        }
        let mut left = CYCLE_EDGES_MAX;
        for earlier in new.earlier() {
            ensure_acyclic(ctx, tube.run(), (earlier, id), &mut left)?;
        }
        Ok(Self { old: held, new })
    }

    /// The state of the task with its new edges: this one, in which it is delayed or ready.
    pub(crate) fn block(&self, ctx: &OpContext<'_>, next: TaskState) -> Result<TaskState> {
        let mut next = next;
        edges::say(next.progress_mut(), Direction::Dependency, EdgeCounts::default())?;
        block(ctx, next, self.new.counts())
    }

    /// Writes the edges after, and removes those before that are not among them. In this order, so
    /// that a finished task that it comes after before and after is not released between.
    pub(crate) fn write(&self, ctx: &mut OpContext<'_>, of: (&TubeEntry, TaskId)) -> Result<()> {
        let ((tube, id), new) = (of, self.new.keys());
        let old = self.old.iter().map(|(earlier, _, is_met)| (*earlier, *is_met)).collect();
        self.new.write_over(ctx, of, &old)?;
        for (earlier, edge, is_met) in &self.old {
            if new.contains(&(*earlier, *is_met)) {
                continue;
            }
            for at in [
                key::edge(Direction::Dependency, tube.run(), (id, *earlier), *is_met),
                key::edge(Direction::Dependent, tube.run(), (*earlier, id), *is_met),
            ] {
                if ctx.row(&at)?.is_some() {
                    ctx.remove(at);
                }
            }
            let number = edges::tube_of(ctx, edge.tube, *earlier)?;
            count(ctx, (number, *earlier), if *is_met { (0, -1) } else { (-1, 0) })?;
        }
        Ok(())
    }
}

/// Refuses that a task comes after one that waits for it, by itself or by others. Looks at so many
/// edges.
pub(crate) fn ensure_acyclic(
    view: &dyn View,
    run: Run,
    (earlier, later): (TaskId, TaskId),
    left: &mut usize,
) -> Result<()> {
    let (mut next, mut seen) = (vec![earlier], BTreeSet::from([earlier]));
    while let Some(at) = next.pop() {
        if at == later {
            let text = format!("task {earlier} waits for it");
            return Err(Error::new(ErrorKind::Cycle).because(text).on_task(later));
        }
        let mut rows = Scan::prefixed(key::edges_in(Direction::Dependency, run, at, false));
        while let Some((met, _)) = rows.next(view)? {
            let Some(fewer) = left.checked_sub(1) else {
                let text = format!("more than {CYCLE_EDGES_MAX} edges are before it");
                return Err(Error::new(ErrorKind::TooDeep).because(text).on_task(later));
            };
            *left = fewer;
            next.extend(key::id_of(&met).filter(|id| seen.insert(*id)));
        }
    }
    Ok(())
}
