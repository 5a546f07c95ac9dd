//! Where tasks are, looked for in a transaction: with its own changes, and under the engine's lock,
//! so that the looks are bounded. It changes nothing.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::dependencies::FoundTasks;
use crate::engine::query;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{BATCH_EDGES_MAX, LOOKS_IN_TRANSACTION, SWEEP_TASKS};
use crate::words::task::TaskId;
use std::iter;

/// Finds tasks of which each may be in any tube.
pub(crate) struct FindTasks<'a> {
    pub(crate) ids: &'a [TaskId],
    /// The tubes where they may well be: these are looked into before the others.
    pub(crate) first: [u32; 2],
}

/// A search: what it has found, and what not yet.
struct TaskSearch {
    found: FoundTasks,
    left: Vec<TaskId>,
    /// How many looks it may still take.
    looks: usize,
    /// A tube that could not be read: what is found nowhere else may be there.
    damage: Option<Error>,
}

impl TaskSearch {
    /// Looks into a tube for all that is left.
    fn look(&mut self, ctx: &OpContext<'_>, number: u32) -> Result<()> {
        let tube = match ctx.tube(number) {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Damaged => {
                self.damage = Some(error);
                return Ok(());
            }
            tube => tube?,
        };
        self.looks = self.looks.checked_sub(1 + self.left.len()).ok_or_else(too_many)?;
        if query::tasks(ctx, &tube) == 0 {
            return Ok(());
        }
        for id in std::mem::take(&mut self.left) {
            // A damaged one is there.
            match sound(query::has(ctx, &tube, id))?.unwrap_or(true) {
                true => _ = self.found.tubes.insert(id, number),
                false => self.left.push(id),
            }
        }
        Ok(())
    }
}

impl Op for FindTasks<'_> {
    type Done = FoundTasks;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<FoundTasks> {
        let found = FoundTasks { most: BATCH_EDGES_MAX, ..FoundTasks::before(ctx.next_id()) };
        let (left, looks) = (Vec::new(), LOOKS_IN_TRANSACTION);
        let mut search = TaskSearch { found, left, looks, damage: None };
        for id in self.ids.iter().filter(|id| (1..search.found.next).contains(&id.get())) {
            match query::moved_to(ctx, *id)? {
                Some(number) => _ = search.found.tubes.insert(*id, number),
                None => search.left.push(*id),
            }
        }
        let [own, last] = self.first;
        for number in iter::once(own).chain((last != own).then_some(last)) {
            search.look(ctx, number)?;
        }
        let mut next = Some(0);
        while let Some(from) = next.filter(|_| !search.left.is_empty()) {
            let (numbers, more) = query::numbers_from(ctx, from, SWEEP_TASKS)?;
            for number in numbers.into_iter().filter(|number| !self.first.contains(number)) {
                search.look(ctx, number)?;
            }
            next = more;
        }
        match search.damage.filter(|_| !search.left.is_empty()) {
            Some(error) => Err(error),
            None => Ok(search.found),
        }
    }
}

fn too_many() -> Error {
    let text = "the tasks that it comes after are looked for in too many tubes under the lock of \
                the transaction; do it after the commit";
    Error::new(ErrorKind::TooLarge).because(text)
}
