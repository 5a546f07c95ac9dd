//! At open every lease is void: the lock on the folder proves that no holder is alive. Tasks of a
//! named consumer with grace stay taken, without a holder, until the stored end of its grace. The
//! steps are bounded, and their number grows with the taken tasks. At close leases return too,
//! uncharged.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::stored::{self, TaskRef};
use crate::engine::sweep::TaskSweep;
use crate::engine::transition;
use crate::engine::{consumers, query, settle};
use crate::format::key;
use crate::format::row::TakenRow;
use crate::format::{Scan, Tag, View};
use crate::words::clock::NEVER;
use crate::words::error::Result;
use crate::words::numbers::Numbers;
use crate::words::task::TaskId;
use std::collections::BTreeMap;

/// Ends every session that the previous process left open, or that a close finds open. A grace that
/// has not begun begins now: it is unknown when a killed process last ran, because its last record
/// may be hours older.
pub(crate) struct ExpireSessions {
    /// When consumers were last active in this process, by their numbers, as lease times.
    pub(crate) active: BTreeMap<u32, u64>,
}

/// Gives back the leases of one tube from an id on, at open or at close. Returns where to continue.
pub(crate) struct ReturnLeases {
    pub(crate) tube: u32,
    pub(crate) from: TaskId,
    /// False at close: the attempt does not count.
    pub(crate) charged: bool,
}

impl Op for ExpireSessions {
    /// The consumers whose leases must return now, each with the number of its session's end.
    type Done = Vec<(u32, u64)>;

    const FOLLOWS_ENDS: bool = false;

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let mut over = Vec::new();
        let void_to = ctx.token();
        for (number, row) in consumers::all(ctx)? {
            let mut expired = row.clone();
            if row.until == NEVER {
                expired.void_to = void_to;
                expired.until = consumers::end_of_grace(&row, ctx.now);
                let active = self.active.get(&number).copied();
                consumers::note_activity(&mut expired, active, ctx.now);
            }
            if row.grace == 0 || expired.until <= ctx.now.queue {
                over.push((number, expired.void_to));
            }
            // Of one whose session has ended nothing changes.
            if expired != row {
                ctx.change(key::consumer(number), expired.encode());
            }
        }
        Ok(over)
    }
}

impl Op for ReturnLeases {
    type Done = Option<TaskId>;

    const FOLLOWS_ENDS: bool = false;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let Some(tube) = sound(ctx.tube(self.tube))? else { return Ok(None) };
        let range = tube.range(Tag::Taken);
        if ctx.count(range) == 0 {
            return Ok(None);
        }
        let from = key::taken(tube.run(), self.from);
        let mut leases = TaskSweep::new(Scan::over(range), from);
        while let Some((id, (_, row))) = leases.next(ctx)? {
            if let Some((stored, taken)) = stored::lease_or_repair(ctx, &tube, id, Ok(row))? {
                // If the task is so damaged that it cannot return, the other tasks still do.
                sound(self.return_lease(ctx, &stored.task(&tube)?, taken))?;
            }
        }
        Ok(leases.next)
    }
}

impl ReturnLeases {
    fn return_lease(
        &self,
        ctx: &mut OpContext<'_>,
        task: &TaskRef<'_>,
        taken: TakenRow,
    ) -> Result<()> {
        // Whether it waits for its named consumer.
        let waits = taken.holder != 0
            && !settle::is_voided(task.tube, &taken)
            && query::consumer(ctx, taken.holder)?
                .is_some_and(|row| row.grace > 0 && row.until > ctx.now.queue);
        if waits {
            // Lease time starts again with each process, so its times are invalid.
            return match (taken.deadline, taken.progress.lapsed(), taken.since) {
                (NEVER, NEVER, NEVER) => Ok(()),
                _ => transition::suspend(ctx, task, taken),
            };
        }
        // Lease time of an earlier process: how long the lease was held is not known.
        let since = if self.charged { NEVER } else { taken.since };
        let taken = TakenRow { since, ..taken };
        settle::return_task(ctx, task, taken, settle::cause_of_end(self.charged))
    }
}
