//! A line that anyone writes into the history of a task, whose state stays.

use crate::engine::context::{Op, OpContext};
use crate::engine::history::{Noted, append, line};
use crate::engine::stored::TaskState;
use crate::engine::tube_cache::TubeRef;
use crate::engine::{held_in, lookup, query, settle, transition};
use crate::format::row::HistoryRow;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::history::{HistoryEvent, check_line};
use crate::words::task::{TaskId, Ticket};

/// Which task a line, or a tag, is about.
#[derive(Clone, Copy)]
pub(crate) enum Logged {
    /// The one of this lease.
    Held(Ticket),
    /// This one, in any state.
    ById(TaskId),
}

impl Logged {
    pub(crate) fn id(self) -> TaskId {
        match self {
            Self::Held(ticket) => ticket.id,
            Self::ById(id) => id,
        }
    }

    /// The tube of the task, by the number that the call gives.
    pub(crate) fn tube<'a>(self, ctx: &OpContext<'a>, number: u32) -> Result<TubeRef<'a>> {
        match self {
            Self::Held(ticket) => held_in::tube(ctx, number, ticket),
            Self::ById(_) => ctx.tube(number),
        }
    }
}

/// Adds a line to the history of a task. Its state stays.
pub(crate) struct Log<'a> {
    pub(crate) tube: u32,
    pub(crate) which: Logged,
    pub(crate) text: &'a str,
}

impl Op for Log<'_> {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn adds(&self) -> bool {
        true
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        vec![self.which.id()]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let tube = &*self.which.tube(ctx, self.tube)?;
        if !tube.row.options.history.stores() {
            let text = "a line in a history, of which the tube keeps none";
            return Err(Error::new(ErrorKind::Unsupported).because(text));
        }
        check_line(self.text)?;
        let (stored, from, by) = match self.which {
            Logged::Held(ticket) => {
                let (stored, taken) = settle::held(ctx, tube, ticket)?;
                let by = query::holder(ctx, taken.holder)?;
                (stored, TaskState::Taken(taken), by)
            }
            Logged::ById(id) => {
                let (stored, from) = lookup::find(ctx, tube, id)?;
                (stored, from, None)
            }
        };
        let task = stored.task(tube)?;
        let mut to = match &from {
            TaskState::Fresh(progress) => TaskState::Ready(progress.clone()),
            from => from.clone(),
        };
        let row = line(HistoryEvent::Logged, ctx.now.queue, self.text);
        let row = HistoryRow { by: by.as_deref().unwrap_or_default(), ..row };
        let mut noted = Noted::default();
        append(ctx, &task, to.progress_mut(), &row, &mut noted)?;
        transition::restate(ctx, &task, &from, &to)?;
        noted.write(ctx);
        Ok(())
    }
}
