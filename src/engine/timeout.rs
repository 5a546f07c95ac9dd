//! A timeout by force: taken tasks leave their holders and go ahead of every priority. Each keeps
//! its own rank in its progress until it is taken again, or until a call gives it another one.

use crate::engine::context::{Op, OpContext};
use crate::engine::stored::TaskState;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{history, lookup, transition};
use crate::format::feature::LAPSES;
use crate::format::key::Rank;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, TaskId};
use std::collections::BTreeSet;

/// Ends the leases on these tasks, or on none if one of them is not taken. An id that is given
/// twice counts once.
pub(crate) struct ForceTimeout<'a> {
    pub(crate) tube: u32,
    pub(crate) ids: &'a [TaskId],
}

impl Op for ForceTimeout<'_> {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_ids(self.ids.len().min(BATCH_TASKS_MAX) as u64)
    }

    fn grows(&self) -> bool {
        true
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        self.ids.to_vec()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        if self.ids.len() > BATCH_TASKS_MAX {
            let text = format!("a forced timeout takes at most {BATCH_TASKS_MAX} tasks");
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        let tube = &*ctx.tube(self.tube)?;
        let mut done = BTreeSet::new();
        for id in self.ids.iter().filter(|id| done.insert(**id)) {
            time_out(ctx, tube, *id).map_err(|error| error.on_task(*id))?;
        }
        Ok(())
    }
}

fn time_out(ctx: &mut OpContext<'_>, tube: &TubeEntry, id: TaskId) -> Result<()> {
    let (stored, from) = lookup::find(ctx, tube, id)?;
    let task = stored.task(tube)?;
    let TaskState::Taken(taken) = &from else {
        let text = format!("it is {:?}, not Taken", from.state());
        return Err(Error::new(ErrorKind::WrongState).because(text));
    };
    let mut progress = taken.progress.clone();
    progress.attempts = progress.attempts.saturating_sub(1);
    if !progress.set_own_rank(&task.place) {
        return Err(Error::new(ErrorKind::TooLarge).because("its row has no room for more fields"));
    }
    // The rows of a temporary tube reach no disk.
    if !tube.run().is_temporary() {
        ctx.needs(&LAPSES);
    }
    let place: Rank = task.place.ahead(ctx.id());
    let mut to = TaskState::Ready(progress);
    let noted = history::note(ctx, &task, (&from, &mut to), Cause::Timeout)?;
    transition::move_to_rank(ctx, &task, (&from, &to), place, Cause::Timeout)?;
    noted.write(ctx);
    Ok(())
}
