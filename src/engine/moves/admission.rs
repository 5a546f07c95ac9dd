//! What another tube asks of a task that is moved into it: its kind, its names, its key and room.

use super::{Move, Which};
use crate::engine::context::OpContext;
use crate::engine::new_row::NewRow;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{finish, keys, query, update};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task_gates::group_in;

/// Whether a tube has a place for a task that comes to it from elsewhere, and no put waits for
/// that.
pub(crate) fn room(ctx: &OpContext<'_>, to: &TubeEntry, others_wait: bool) -> Result<()> {
    let full = |text: String| Err(Error::new(ErrorKind::Full).because(text));
    match to.row.options.capacity {
        Some(capacity) if query::at_work(ctx, to) >= capacity => {
            full(format!("its capacity is {capacity}"))
        }
        _ if others_wait => full("earlier puts wait for room".to_owned()),
        _ => Ok(()),
    }
}

impl Move<'_> {
    /// Refuses what the kind of the other tube does not allow, and names that are none. What a put
    /// gives it has refused.
    pub(crate) fn check(&self, to: &TubeEntry) -> Result<()> {
        if self.which.is_again() {
            return Ok(());
        }
        update::check(to, &self.changes)?;
        self.which.given().map_or(Ok(()), |given| given.check_names(to))
    }

    /// Whether the other tube takes the task.
    pub(crate) fn admit(
        &self,
        (from, to): (&TubeEntry, &TubeEntry),
        (task, state): (&TaskRef<'_>, &TaskState),
    ) -> Result<()> {
        let unsupported = |text: &str| Err(Error::new(ErrorKind::Unsupported).because(text));
        let options = &to.row.options;
        let is_again = self.which.is_again();
        let is_done = matches!(state, TaskState::Done(_));
        if is_done && !is_again {
            let text = "it is Done, and can only be deleted";
            return Err(Error::new(ErrorKind::WrongState).because(text).on_task(task.id));
        }
        if from.run().is_temporary() != to.run().is_temporary() {
            return unsupported("a move between a temporary and a durable tube");
        }
        // A put again in its own tube has asked the placement, as every put has.
        if options.placement.is_some() && !(is_again && from.number == to.number) {
            return unsupported("a move into a tube with a placement");
        }
        let given = self.which.given().and_then(NewRow::placed_group);
        let group = given.or(group_in(task.group)).filter(|group| !group.is_empty());
        if group.is_some() && !options.kind.switches().grouped {
            let text = format!("a task with a group in a tube of kind {:?}", options.kind);
            return unsupported(&text);
        }
        match self.which {
            Which::Held(_, Some(result)) => finish::fits(result),
            _ => Ok(()),
        }
    }

    /// Whether the key is free there for the state that the task gets, and there is room for it.
    pub(super) fn ensure_free(
        &self,
        ctx: &OpContext<'_>,
        (old, state): (&TaskRef<'_>, &TaskState),
        (new, next): (&TaskRef<'_>, &TaskState),
    ) -> Result<()> {
        let (to, stays) = (new.tube, old.tube.number == new.tube.number);
        let counted = stays && old.key() == new.key() && keys::counts(to, state);
        if keys::counts(to, next) && !counted {
            keys::is_free(ctx, to, (new.key(), old.id))?;
        }
        // One from the trash comes back to its own tube, and a finished one under another id.
        let is_out = matches!(state, TaskState::Done(_) | TaskState::Trashed(_));
        if stays && !is_out {
            return Ok(());
        }
        // Puts that wait for bytes are before it only if it brings some.
        room(ctx, to, self.others_wait || self.puts_wait && new.bytes > old.bytes)
    }
}
