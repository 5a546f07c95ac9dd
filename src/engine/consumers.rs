//! Named consumers: sessions that own leases. While a session is open, its guards hold the leases.
//! After its end they wait for `resume` or for the end of its grace.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::stored::{self, TaskState};
use crate::engine::sweep::TaskSweep;
use crate::engine::take::{Delivery, hand_out};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{query, settle};
use crate::format::extension::Extension;
use crate::format::key::{self, Key};
use crate::format::row::{ConsumerRow, Counters};
use crate::format::{Range, Scan, Tag, View, row};
use crate::words::clock::{NEVER, Now};
use crate::words::error::Result;
use crate::words::limits::{SWEEP_BYTES, SWEEP_TASKS, SWEEP_TUBES};
use crate::words::name::label;
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, TaskId};

/// Opens a consumer, or joins it. Returns its number.
pub(crate) struct Join<'a> {
    pub(crate) name: &'a str,
    /// Microseconds that its leases outlive the session.
    pub(crate) grace: u64,
}

/// Ends a session after the drop of its last handle: leases wait for the grace, if there is one.
pub(crate) struct Leave {
    pub(crate) consumer: u32,
}

/// A session that has ended.
pub(crate) struct Left {
    /// The token drawn at its end; the session's leases have lower tokens.
    pub(crate) number: u64,
    /// Microseconds of its grace.
    pub(crate) grace: u64,
}

/// Returns leases of a consumer whose session has ended, one sweep at a time: those in one tube, or
/// all of them and at the end the consumer. Does nothing if another session of the consumer has
/// begun since. Returns where to continue; `None` at the end. No lease appears before that
/// place later, because a session that has ended gets none.
pub(crate) struct End {
    pub(crate) consumer: u32,
    /// The number of the session's end, see [`Left`].
    pub(crate) left: u64,
    pub(crate) charged: bool,
    /// The only tube whose leases return.
    pub(crate) tube: Option<u32>,
    /// The leases before it have returned, or are so damaged that they stay.
    pub(crate) from: LeasePlace,
}

/// A place in the leases of a consumer, which are in the order of tubes, then of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeasePlace {
    pub(crate) tube: u32,
    pub(crate) task: u64,
}

/// Hands out leases without a holder again, with new tokens: one sweep's leases from an id on, also
/// bounded in payload bytes. Returns also where to continue.
pub(crate) struct Resume {
    pub(crate) tube: u32,
    pub(crate) consumer: u32,
    pub(crate) from: TaskId,
}

/// Queue time at which the grace of a session ends that ends now.
pub(crate) fn end_of_grace(row: &ConsumerRow, now: Now) -> u64 {
    now.queue.saturating_add(row.grace).min(NEVER - 1)
}

impl Op for Join<'_> {
    type Done = u32;

    fn grows(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<u32> {
        label("consumer name", self.name)?;
        let name = key::consumer_name(self.name);
        if let Some(number) = query::numbered(ctx.get(&name), "consumer")? {
            let old = query::consumer(ctx, number)?.ok_or_else(query::consumer_closed)?;
            let new = ConsumerRow { grace: self.grace, until: NEVER, ..old.clone() };
            if new != old {
                ctx.change(key::consumer(number), new.encode());
            }
            return Ok(number);
        }
        let mut counters = query::counters(ctx)?;
        let number = query::next_number(&mut counters.consumer, u32::MAX, "consumer")?;
        ctx.set(key::meta(Counters::WHAT), counters.encode())?;
        ctx.add(name, row::number(u64::from(number)));
        let (name, extension) = (self.name.to_owned(), Extension::default());
        let row = ConsumerRow { name, grace: self.grace, until: NEVER, void_to: 0, extension };
        ctx.add(key::consumer(number), row.encode());
        Ok(number)
    }
}

impl Op for Leave {
    /// `None` if there is no session to end.
    type Done = Option<Left>;

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Option<Left>> {
        // It may have ended before: a caller whose close failed may close again.
        let Some(mut row) = query::consumer(ctx, self.consumer)? else { return Ok(None) };
        if row.until == NEVER {
            row.until = end_of_grace(&row, ctx.now);
            row.void_to = ctx.token();
            ctx.change(key::consumer(self.consumer), row.encode());
        }
        Ok(Some(Left { number: row.void_to, grace: row.grace }))
    }
}

impl Op for End {
    type Done = Option<LeasePlace>;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Option<LeasePlace>> {
        let Some(row) = query::consumer(ctx, self.consumer)? else { return Ok(None) };
        if row.until == NEVER || row.void_to != self.left {
            // The consumer was opened again: its leases wait for `resume`.
            return Ok(None);
        }
        let next = self.return_leases(ctx)?;
        if next.is_none() && self.tube.is_none() {
            ctx.remove(key::consumer(self.consumer));
            ctx.remove(key::consumer_name(&row.name));
        }
        Ok(next)
    }
}

impl End {
    /// Returns one sweep's leases. Returns where to continue; `None` at the end.
    fn return_leases(&self, ctx: &mut OpContext<'_>) -> Result<Option<LeasePlace>> {
        if ctx.count(Range::of(Tag::Held)) == 0 {
            return Ok(None);
        }
        let (first, last) = self.tube.map_or((self.from.tube, u32::MAX), |tube| (tube, tube));
        let mut tubes = Scan::through(key::tube(first), &key::tube(last));
        let (mut tubes_left, mut leases_left) = (SWEEP_TUBES, SWEEP_TASKS);
        while let Some((met, _)) = tubes.next(ctx)? {
            let number = query::number_in(&met).ok_or_else(|| damaged("tube"))?;
            let task = if number == self.from.tube { self.from.task } else { 0 };
            if tubes_left == 0 {
                return Ok(Some(LeasePlace { tube: number, task }));
            }
            tubes_left -= 1;
            let Some(tube) = sound(ctx.tube(number))? else { continue };
            if ctx.count(tube.range(Tag::Held)) == 0 {
                continue;
            }
            let mut rows = Scan::prefixed(key::held_by(tube.run(), self.consumer));
            rows.skip_to(key::held(tube.run(), self.consumer, TaskId::new(task)));
            while let Some((met, _)) = rows.next(ctx)? {
                let id = key::id_of(&met).ok_or_else(|| damaged("held"))?;
                if leases_left == 0 || ctx.is_sweep_long() {
                    return Ok(Some(LeasePlace { tube: number, task: id.get() }));
                }
                leases_left -= 1;
                self.give_back(ctx, &tube, id, met)?;
            }
        }
        Ok(None)
    }

    /// Returns one lease, unless it is so damaged that it stays.
    fn give_back(
        &self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        id: TaskId,
        held: Key,
    ) -> Result<()> {
        let row = ctx.get(&key::taken(tube.run(), id));
        if matches!(row, Ok(None)) {
            ctx.remove(held);
            return Ok(());
        }
        let lease = stored::lease_or_repair(ctx, tube, id, row)?;
        let Some((stored, taken)) = lease else { return Ok(()) };
        let cause = settle::cause_of_end(self.charged);
        sound(settle::give_back(ctx, &stored.task(tube)?, taken, cause))?;
        Ok(())
    }
}

impl Op for Resume {
    type Done = (Vec<Delivery>, Option<TaskId>);

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(SWEEP_TASKS as u64)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let tube = ctx.tube(self.tube)?;
        let row = query::open_consumer(ctx, self.consumer)?;
        let rows = Scan::prefixed(key::held_by(tube.run(), self.consumer));
        let from = key::held(tube.run(), self.consumer, self.from);
        let mut leases = TaskSweep::new(rows, from);
        let (mut handed, mut bytes) = (Vec::new(), 0);
        while bytes < SWEEP_BYTES
            && let Some((id, _)) = leases.next(ctx)?
        {
            let mut left = SWEEP_BYTES - bytes;
            // A damaged lease waits for the end of the grace. The others are handed out.
            if let Some(task) = sound(resumed(ctx, &tube, id, row.void_to, &mut left))?.flatten() {
                bytes += task.payload.bytes();
                handed.push(task);
            }
        }
        Ok((handed, leases.next))
    }
}

/// Hands out a lease again, unless it was handed out after the consumer was opened again, or a
/// `release_all` has voided it.
fn resumed(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    void_to: u64,
    bytes_left: &mut usize,
) -> Result<Option<Delivery>> {
    let Some(row) = ctx.get(&key::taken(tube.run(), id))? else { return Ok(None) };
    let (stored, taken) = stored::lease(ctx, tube, id, &row)?;
    if taken.token > void_to || settle::is_voided(tube, &taken) {
        return Ok(None);
    }
    let task = stored.task(tube)?;
    let mut content = task.content(ctx)?;
    content.payload.read_if_short(ctx, bytes_left)?;
    let (head, holder) = (taken.head.clone(), taken.holder);
    let from = (&TaskState::Taken(taken), head);
    hand_out(ctx, &task, from, content, holder, Cause::Touch).map(Some)
}

/// All consumers, by number.
pub(crate) fn all(view: &dyn View) -> Result<Vec<(u32, ConsumerRow)>> {
    let mut rows = Scan::over(Range::of(Tag::Consumer));
    let mut consumers = Vec::new();
    while let Some((met, row)) = rows.next(view)? {
        match (query::number_in(&met), row.as_deref().and_then(ConsumerRow::decode)) {
            (Some(number), Some(row)) => consumers.push((number, row)),
            _ => return Err(damaged("consumer")),
        }
    }
    Ok(consumers)
}
