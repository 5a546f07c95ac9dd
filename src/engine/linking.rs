//! A task that comes after many others is put in turns: its edges are written a group at a time
//! under a work row, and the put itself then makes the task and removes that row. Until then no
//! call sees it: an end of an earlier task changes the work row. An opening removes the edges of a
//! call that did not finish.

use crate::engine::context::{Op, OpContext};
use crate::engine::dependencies::NewEdges;
use crate::engine::edges::{begin_unlink, scope};
use crate::engine::linked::{Linked, read};
use crate::engine::put::PutTasks;
use crate::format::Scan;
use crate::format::feature::DEPENDENCIES;
use crate::format::key::{self, Work};
use crate::format::row::{LinkingRow, task_of_work};
use crate::words::dependency::{After, On};
use crate::words::error::Result;
use crate::words::limits::{EDGES_OF_OP, EDGES_OF_STEP};
use crate::words::numbers::Numbers;
use crate::words::task::TaskId;

/// Writes the first edges of the task of a put, or the next ones. Returns what is written; `None`
/// if the put will find the task of its key and leave it as it is.
pub(crate) struct LinkSome<'a> {
    pub(crate) put: &'a PutTasks<'a>,
    /// The earlier tasks, each once.
    pub(crate) tasks: &'a [(TaskId, On)],
    pub(crate) before: Option<Linked>,
}

/// Removes the edges of a call that does not finish.
pub(crate) struct Unlink(pub(crate) Linked);

/// The same of calls that did not finish before the opening, of a few at a time. Returns whether
/// there may be more.
pub(crate) struct RollBackLinks;

impl Op for LinkSome<'_> {
    type Done = Option<Linked>;

    fn tube(&self) -> Option<u32> {
        self.before.is_none().then_some(self.put.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_ids(u64::from(self.before.is_none()))
    }

    fn adds(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Option<Linked>> {
        let tube = &*ctx.tube(self.put.tube)?;
        let given = self.put.tasks.first().and_then(|task| task.extras?.after.as_ref());
        let (first, given) = (self.before.is_none(), given.unwrap_or(After::NONE));
        if let (true, Some(task)) = (first, self.put.tasks.first())
            && !self.put.admits_linked(ctx, tube, task)?
        {
            return Ok(None);
        }
        let linked = match self.before {
            Some(before) => before,
            None => Linked { run: tube.run(), id: TaskId::new(ctx.id()), done: 0 },
        };
        let some = self.tasks.iter().skip(linked.done).take(EDGES_OF_OP);
        let (missing, orphaned) = (given.missing, given.orphaned);
        let tasks = some.copied().collect();
        let after = After { is_given: true, tasks, missing, orphaned };
        let edges = NewEdges::of(ctx, (tube, linked.id), &after, self.put.found())?;
        let at = key::work(Work::Linking, scope(linked.run), linked.id);
        let mut work = match first {
            true => LinkingRow::default(),
            false => read(ctx, &linked)?,
        };
        edges.write(ctx, (tube, linked.id))?;
        let counts = edges.counts();
        work.counts.open = work.counts.open.saturating_add(counts.open);
        work.counts.met = work.counts.met.saturating_add(counts.met);
        work.is_cancelled |= edges.is_cancelled;
        ctx.needs(&DEPENDENCIES);
        ctx.set(at, work.encode())?;
        Ok(Some(Linked { done: linked.done + after.tasks.len(), ..linked }))
    }
}

impl Op for Unlink {
    type Done = ();

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        self.0.give_up(ctx)
    }
}

impl Op for RollBackLinks {
    type Done = bool;

    const FOLLOWS_ENDS: bool = false;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let mut rows = Scan::prefixed(key::work_of(Work::Linking));
        for _ in 0..EDGES_OF_STEP {
            let Some((at, _)) = rows.next(ctx)? else { return Ok(false) };
            if let (Some(run), Some(id)) = (key::run_of_work(&at), task_of_work(&at)) {
                begin_unlink(ctx, (run, id))?;
            }
            ctx.remove(at);
        }
        Ok(true)
    }
}
