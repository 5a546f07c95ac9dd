//! What a copy of a task is put with, as one look finds it. Decides nothing: the copy is a put.

use crate::engine::context::damaged;
use crate::engine::new_row::{Extras, NewRow};
use crate::engine::payload::StoredPayload;
use crate::engine::stored::{StoredTask, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{lookup, task_gates};
use crate::format::View;
use crate::words::backoff::RetryTerms;
use crate::words::clock::{NEVER, Now};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::TaskId;
use crate::words::task_gates::group_in;
use crate::words::tube_kind::Switches;
use std::time::Duration;

/// A task of which a copy is to be made, without its payload.
pub(crate) struct Original {
    stored: StoredTask,
    priority: i64,
    /// `Duration::MAX` without end.
    ttl: Duration,
    ttr: Duration,
    retry: RetryTerms,
    /// Its gates as the name of a line.
    gates: Option<String>,
}

impl Original {
    /// The task of this id, with its payload as far as that was read.
    ///
    /// # Errors
    /// `TaskNotFound`, `WrongState` if its tube has kept it without its payload, or `Damaged` if
    /// one of its rows is damaged.
    pub(crate) fn of(
        view: &dyn View,
        tube: &TubeEntry,
        id: TaskId,
        now: Now,
    ) -> Result<(Self, StoredPayload)> {
        let (stored, state) = lookup::find(view, tube, id)?;
        let stored = stored.whole(view, tube)?;
        let task = stored.task(tube)?;
        let (_, row) = task.read.ok_or_else(|| damaged("task"))?;
        if row.is_payload_dropped() {
            return Err(Error::new(ErrorKind::WrongState).because("its payload was not kept"));
        }
        let progress = match &state {
            TaskState::Delayed(row) => TaskState::undelayed(row, now),
            state => state.progress().clone(),
        };
        let length = |micros| match micros {
            NEVER => Duration::MAX,
            micros => Duration::from_micros(micros),
        };
        let ttl = progress.life(row.lives_since()).max(1);
        let (priority, retry) = (task.own_priority(&progress), progress.retry_terms());
        let (ttl, ttr) = (length(ttl), length(progress.ttr));
        let gates = task_gates::of(task.group, &progress).map(str::to_owned);
        let payload = task.content(view)?.payload;
        Ok((Self { stored, priority, ttl, ttr, retry, gates }, payload))
    }

    /// The row of the copy, in a tube that has these switches. It has no priority and no times
    /// where the tube has none.
    pub(crate) fn row<'a>(&'a self, payload: &'a [u8], switches: Switches) -> Result<NewRow<'a>> {
        let row = self.stored.own().ok_or_else(|| damaged("task"))?;
        Ok(NewRow {
            payload,
            codec: row.codec,
            version: row.version,
            priority: Some(self.priority).filter(|_| switches.priority),
            group: group_in(row.group).filter(|group| !group.is_empty()),
            ttl: Some(self.ttl).filter(|_| switches.timed),
            ttr: Some(self.ttr).filter(|_| switches.timed),
            ..NewRow::PLAIN
        })
    }

    /// What the copy has besides; usually nothing.
    pub(crate) fn extras(&self, switches: Switches) -> Option<Box<Extras<'_>>> {
        let row = self.stored.own()?;
        let backoff = self.retry.backoff.filter(|_| switches.timed);
        let retry = RetryTerms { backoff, ..self.retry };
        let (kind, book, details) = (row.kind(), row.book(), row.details());
        if retry == RetryTerms::default()
            && (kind, book, &self.gates) == (None, None, &None)
            && details.is_empty()
        {
            return None;
        }
        let mut extras = Box::<Extras<'_>>::default();
        extras.retry = retry;
        extras.gate_as(self.gates.as_deref());
        extras.label(|labels| {
            (labels.kind, labels.book) = (kind, book);
            labels.details = details.into_iter().collect();
        });
        Some(extras)
    }
}
