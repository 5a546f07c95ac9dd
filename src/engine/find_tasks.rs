//! Where tasks are, looked for in a transaction: with its own changes, and under the engine's lock,
//! so that the looks are bounded. It changes nothing.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::dependencies::FoundTasks;
use crate::engine::query;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{BATCH_EDGES_MAX, LOOKS_IN_TRANSACTION, SWEEP_TASKS};
use crate::words::task::TaskId;

/// Finds tasks of which each may be in any tube.
pub(crate) struct FindTasks<'a> {
    pub(crate) ids: &'a [TaskId],
}

impl Op for FindTasks<'_> {
    type Done = FoundTasks;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<FoundTasks> {
        let mut found = FoundTasks { most: BATCH_EDGES_MAX, ..FoundTasks::before(ctx.next_id()) };
        let mut left = Vec::new();
        for id in self.ids.iter().filter(|id| (1..found.next).contains(&id.get())) {
            match query::moved_to(ctx, *id)? {
                Some(number) => _ = found.tubes.insert(*id, number),
                None => left.push(*id),
            }
        }
        let (mut looks, mut next) = (LOOKS_IN_TRANSACTION, Some(0));
        while let Some(first) = next.filter(|_| !left.is_empty()) {
            let (numbers, more) = query::numbers_from(ctx, first, SWEEP_TASKS)?;
            for number in numbers {
                looks = looks.checked_sub(1 + left.len()).ok_or_else(too_many)?;
                let Some(tube) = query::sound_tube(ctx, number)? else { continue };
                if query::tasks(ctx, &tube) == 0 {
                    continue;
                }
                let mut elsewhere = Vec::new();
                for id in left {
                    // A damaged one is there.
                    match sound(query::has(ctx, &tube, id))?.unwrap_or(true) {
                        true => _ = found.tubes.insert(id, number),
                        false => elsewhere.push(id),
                    }
                }
                left = elsewhere;
            }
            next = more;
        }
        Ok(found)
    }
}

fn too_many() -> Error {
    let text = "the tasks that it comes after are looked for in too many tubes under the lock of \
                the transaction; put it after the commit";
    Error::new(ErrorKind::TooLarge).because(text)
}
