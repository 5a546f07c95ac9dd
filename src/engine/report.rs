//! The reports of the holder of a task: that its work has begun, how far it is, and a checkpoint
//! from which the next attempt goes on. The state of the task stays, so nothing is published.

use crate::engine::context::{Op, OpContext};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::{held_in, settle, transition};
use crate::format::feature::REPORTS;
use crate::format::key::{self, ReportPart};
use crate::format::row::{ReportRow, TaskProgress};
use crate::format::{Value, View};
use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{CHECKPOINT_BYTES_MAX, LABEL_BYTES_MAX, LOG_BYTES_MAX};
use crate::words::report::WorkReport;
use crate::words::task::{TaskId, Ticket};

/// Stores a report about the task of a lease.
pub(crate) struct ReportHeld<'a> {
    pub(crate) tube: u32,
    pub(crate) ticket: Ticket,
    pub(crate) report: WorkReport<'a>,
}

impl Op for ReportHeld<'_> {
    type Done = ();

    // Delays that have ended make nothing of the task in hand.
    const SEES_DELAYS: bool = false;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn adds(&self) -> bool {
        true
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        vec![self.ticket.id]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let tube = &*held_in::tube(ctx, self.tube, self.ticket)?;
        check(self.report)?;
        let (stored, taken) = settle::held(ctx, tube, self.ticket)?;
        let task = stored.task(tube)?;
        let (part, value) = match self.report {
            WorkReport::Checkpoint(state) => (ReportPart::Checkpoint, Value::read(state)),
            report => (ReportPart::Report, row_after(ctx, &task, &taken.progress, report)?),
        };
        let before = taken.progress.reports();
        if !before.has(part) {
            let mut to = taken.clone();
            if !to.progress.set_reports(before.with(part)) {
                let text = "fields of a later version leave no room for a report";
                return Err(Error::new(ErrorKind::Unsupported).because(text));
            }
            let (from, to) = (TaskState::Taken(taken), TaskState::Taken(to));
            transition::restate(ctx, &task, &from, &to)?;
        }
        if !tube.run().is_temporary() {
            ctx.needs(&REPORTS);
        }
        ctx.set(key::report(tube.run(), task.id, part), value)
    }
}

/// The row of the reports after one more. One that is damaged begins again.
fn row_after(
    ctx: &OpContext<'_>,
    task: &TaskRef<'_>,
    progress: &TaskProgress,
    report: WorkReport<'_>,
) -> Result<Value> {
    let at = key::report(task.tube.run(), task.id, ReportPart::Report);
    let found = if progress.reports().has(ReportPart::Report) { ctx.row(&at)? } else { None };
    let found = found.and_then(|(_, row)| row);
    let mut row = found.as_deref().and_then(ReportRow::decode).unwrap_or_else(ReportRow::new);
    if row.delivery != progress.deliveries {
        (row.delivery, row.started, row.meta) = (progress.deliveries, NEVER, "");
    }
    match report {
        WorkReport::Start(meta) => {
            row.started = row.started.min(ctx.now.queue);
            row.meta = meta;
        }
        WorkReport::Progress(percent, text) => {
            (row.progressed, row.percent, row.text) = (ctx.now.queue, percent, text);
        }
        WorkReport::Checkpoint(_) => {}
    }
    Ok(row.encode())
}

/// Refuses a percentage above 100, and what is too long.
fn check(report: WorkReport<'_>) -> Result<()> {
    let (what, bytes, most) = match report {
        WorkReport::Progress(percent @ 101.., _) => {
            let text = format!("a progress of {percent} percent; it goes from 0 to 100");
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        WorkReport::Start(meta) => ("text of a start", meta.len(), LABEL_BYTES_MAX),
        WorkReport::Progress(_, text) => ("text of a progress", text.len(), LOG_BYTES_MAX),
        WorkReport::Checkpoint(state) => ("checkpoint", state.len(), CHECKPOINT_BYTES_MAX),
    };
    if bytes <= most {
        return Ok(());
    }
    let text = format!("the {what} has {bytes} bytes, the limit is {most}");
    Err(Error::new(ErrorKind::TooLarge).because(text))
}
