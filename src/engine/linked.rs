//! What a put knows of the tasks that its tasks come after, and the edges that are written of a
//! task that is not put yet, under a work row.

use crate::engine::context::OpContext;
use crate::engine::dependencies::FoundTasks;
use crate::engine::edges::{begin_unlink, scope};
use crate::format::View;
use crate::format::key::{self, Run, Work};
use crate::format::row::LinkingRow;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::TaskId;

/// What a put knows of the tasks that its tasks come after.
pub(crate) struct Earlier {
    /// Where they are.
    pub(crate) found: FoundTasks,
    /// The edges of the only task, if they are written already.
    pub(crate) linked: Option<Linked>,
}

/// The edges that are written of a task that is not put yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked {
    pub(crate) run: Run,
    pub(crate) id: TaskId,
    /// Of how many earlier tasks.
    pub(crate) done: usize,
}

/// What the work row says of the edges that are written.
///
/// # Errors
/// `Closed` if an opening or a call that gave up has begun to remove them.
pub(crate) fn read(ctx: &OpContext<'_>, linked: &Linked) -> Result<LinkingRow> {
    let at = key::work(Work::Linking, scope(linked.run), linked.id);
    let row = ctx.row(&at)?.and_then(|(_, row)| row);
    row.as_deref().and_then(LinkingRow::decode).ok_or_else(|| Error::new(ErrorKind::Closed))
}

impl Linked {
    /// Removes the edges: the task is not put.
    pub(crate) fn give_up(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let at = key::work(Work::Linking, scope(self.run), self.id);
        if ctx.row(&at)?.is_some() {
            ctx.remove(at);
            begin_unlink(ctx, (self.run, self.id))?;
        }
        Ok(())
    }

    /// Ends the work: the edges are the task's from now on.
    pub(crate) fn end(&self, ctx: &mut OpContext<'_>) -> Result<LinkingRow> {
        let work = read(ctx, self)?;
        ctx.remove(key::work(Work::Linking, scope(self.run), self.id));
        Ok(work)
    }
}
