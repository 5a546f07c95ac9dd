//! What a step says of itself to events, besides the step.

use super::Transition;
use crate::engine::context::{EventSubscribers, OpContext, sound};
use crate::engine::query::{self, is_tracked};
use crate::engine::stored::{TaskRef, TaskState};
use crate::words::error::Result;
use crate::words::sync::Arc;
use crate::words::task::{Cause, TaskId};
use std::mem::discriminant;

/// Notes of the last step, of which nothing else is noted, whether its task is tracked.
pub(crate) fn note_tracked(ctx: &mut OpContext<'_>, id: TaskId) -> Result<()> {
    if ctx.wants.is_some()
        && is_tracked(ctx, id)?
        && let Some((step, notes)) = ctx.effects().notes_of_last()
    {
        notes.say(step, |words| words.is_tracked = true);
    }
    Ok(())
}

/// Publishes a change of a task whose state stays.
#[cold]
pub(crate) fn tell(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    state: &TaskState,
    cause: Cause,
) -> Result<()> {
    Transition { task, from: Some(state), to: Some(state), before: None }.record(ctx, cause)
}

impl<'a> Transition<'a> {
    /// Notes what events say of the last step besides the step.
    #[cold]
    #[inline(never)]
    pub(super) fn note(
        &self,
        ctx: &mut OpContext<'_>,
        cause: Cause,
        wants: &dyn EventSubscribers,
    ) -> Result<()> {
        self.note_words(ctx, cause)?;
        record_payload(ctx, self.task, wants)
    }

    /// Notes the words of the last step, if it has some.
    fn note_words(&self, ctx: &mut OpContext<'_>, cause: Cause) -> Result<()> {
        let mut holders = self.to.into_iter().chain(self.from).map(TaskState::holder);
        let holder = holders.find(|holder| *holder != 0).unwrap_or(0);
        let payload_generation = self.task.read.map_or(0, |(_, row)| row.payload_generation());
        let failure = self.failure(cause);
        let is_tracked = is_tracked(ctx, self.task.id)?;
        if holder == 0 && payload_generation == 0 && failure.is_none() && !is_tracked {
            return Ok(());
        }
        let kept = |text: &str| Some(text).filter(|text| !text.is_empty()).map(Box::from);
        let holder = query::holder(ctx, holder)?.map(Box::from);
        let (group, message) = failure.unwrap_or_default();
        if let Some((step, notes)) = ctx.effects().notes_of_last() {
            notes.say(step, |words| {
                (words.holder, words.payload_generation) = (holder, payload_generation);
                words.is_tracked = is_tracked;
                (words.failure_group, words.message) = (kept(group), kept(message));
            });
        }
        Ok(())
    }

    /// The failure group and the text of a step by which a task fails or is set aside.
    fn failure(&self, cause: Cause) -> Option<(&'a str, &'a str)> {
        match self.to? {
            // It has failed before.
            _ if cause == Cause::Merge => None,
            TaskState::Buried(row) | TaskState::Trashed(row)
                if self.from.map(discriminant) != self.to.map(discriminant) =>
            {
                Some((row.reason.failure_group().unwrap_or_default(), row.reason.text()))
            }
            to if cause == Cause::Retry => {
                let progress = to.progress();
                let group = progress.failure().map(|failure| failure.group).unwrap_or_default();
                Some((group, &progress.last_error))
            }
            _ => None,
        }
    }
}

/// Adds the payload to the last step, if it is wanted. A damaged or missing payload is left out and
/// one that was not kept; an error means that nothing could be read, and ends the op.
fn record_payload(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    wants: &dyn EventSubscribers,
) -> Result<()> {
    let is_dropped = task.read.is_some_and(|(_, row)| row.is_payload_dropped());
    if !is_dropped
        && wants.payloads_of(&task.tube.row.name)
        && let Some(payload) = sound(task.content(ctx).and_then(|found| found.payload.read(ctx)))?
    {
        // A separate copy, because the row's memory may be shared with others.
        let payload = Arc::from(&*payload);
        if let Some((step, notes)) = ctx.effects().notes_of_last() {
            notes.add_payload(step, payload, wants.bytes_kept());
        }
    }
    Ok(())
}
