//! Named consumers: sessions that own leases. While a session is open, its guards hold the leases.
//! After its end they wait for `resume` or for the end of its grace.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::stored::{self, Content, TaskState};
use crate::engine::take::Delivery;
use crate::engine::transition;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{query, settle};
use crate::format::extension::Extension;
use crate::format::key::{self, Key};
use crate::format::row::{ConsumerRow, Counters, TakenRow};
use crate::format::{Range, Scan, Tag, View, row};
use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{SWEEP_BYTES, SWEEP_TASKS};
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
/// begun since. Returns whether work is left.
pub(crate) struct End {
    pub(crate) consumer: u32,
    /// The number of the session's end, see [`Left`].
    pub(crate) left: u64,
    pub(crate) charged: bool,
    /// The only tube whose leases return.
    pub(crate) tube: Option<u32>,
}

/// Hands out leases without a holder again, with new tokens: those of at most a page of leases from
/// an id on, bounded in payload bytes too. Answers also where to go on.
pub(crate) struct Resume {
    pub(crate) tube: u32,
    pub(crate) consumer: u32,
    pub(crate) from: TaskId,
}

fn consumer(ctx: &OpContext<'_>, number: u32) -> Result<ConsumerRow> {
    let row = ctx.get(&key::consumer(number))?;
    let row = row.ok_or_else(|| {
        Error::new(ErrorKind::Closed).because("the consumer was closed; open it again")
    })?;
    ConsumerRow::decode(&row).ok_or_else(|| damaged("consumer"))
}

impl Op for Join<'_> {
    type Done = u32;

    fn tube(&self) -> Option<u32> {
        None
    }

    fn grows(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<u32> {
        label("consumer name", self.name)?;
        if let Some(number) = ctx.get(&key::consumer_name(self.name))? {
            let number = row::read_number(&number).and_then(|number| u32::try_from(number).ok());
            let number = number.ok_or_else(|| damaged("consumer"))?;
            let old = consumer(ctx, number)?;
            let new = ConsumerRow { grace: self.grace, until: NEVER, ..old.clone() };
            if new != old {
                ctx.change(key::consumer(number), new.encode());
            }
            return Ok(number);
        }
        let mut counters = query::counters(ctx)?;
        counters.consumer = counters.consumer.checked_add(1).ok_or_else(|| {
            Error::new(ErrorKind::Invalid).because("2^32 consumers were made; no number is left")
        })?;
        ctx.set(key::meta(Counters::WHAT), counters.encode())?;
        let number = counters.consumer;
        ctx.add(key::consumer_name(self.name), row::number(u64::from(number)));
        let (name, extension) = (self.name.to_owned(), Extension::default());
        let row = ConsumerRow { name, grace: self.grace, until: NEVER, void_to: 0, extension };
        ctx.add(key::consumer(number), row.encode());
        Ok(number)
    }
}

impl Op for Leave {
    /// `None` if there is no session to end.
    type Done = Option<Left>;

    fn tube(&self) -> Option<u32> {
        None
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Option<Left>> {
        let mut row = match consumer(ctx, self.consumer) {
            Ok(row) => row,
            // It has ended before: a caller whose close failed may close again.
            Err(error) if error.is_closed() => return Ok(None),
            Err(error) => return Err(error),
        };
        if row.until == NEVER {
            row.until = ctx.now.queue.saturating_add(row.grace).min(NEVER - 1);
            row.void_to = ctx.token();
            ctx.change(key::consumer(self.consumer), row.encode());
        }
        Ok(Some(Left { number: row.void_to, grace: row.grace }))
    }
}

impl Op for End {
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        None
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let row = match consumer(ctx, self.consumer) {
            Ok(row) => row,
            Err(error) if error.is_closed() => return Ok(false),
            Err(error) => return Err(error),
        };
        if row.until == NEVER || row.void_to != self.left {
            // It was opened again: its leases wait for `resume`.
            return Ok(false);
        }
        let mut left = SWEEP_TASKS;
        let numbers = match self.tube {
            Some(number) => vec![number],
            None => query::numbers(ctx)?,
        };
        for number in numbers {
            let Some(tube) = ctx.sound_tube(number)? else { continue };
            if ctx.count(tube.range(Tag::Held)) == 0 {
                continue;
            }
            let mut rows = Scan::prefixed(key::held_by(tube.run(), self.consumer));
            while let Some((met, _)) = rows.next(ctx)? {
                if left == 0 || ctx.is_sweep_long() {
                    return Ok(true);
                }
                let id = key::id_of(&met).ok_or_else(|| damaged("held"))?;
                // A lease that stays does not count, so that the next sweep gets further.
                left -= usize::from(self.give_back(ctx, &tube, id, met)?);
            }
        }
        if self.tube.is_none() {
            ctx.remove(key::consumer(self.consumer));
            ctx.remove(key::consumer_name(&row.name));
        }
        Ok(false)
    }
}

impl End {
    /// Returns one lease. Returns false if it is so damaged that it stays.
    fn give_back(
        &self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        id: TaskId,
        held: Key,
    ) -> Result<bool> {
        let row = match ctx.get(&key::taken(tube.run(), id)) {
            Ok(None) => {
                ctx.remove(held);
                return Ok(true);
            }
            row => row.and_then(|row| row.ok_or_else(|| damaged("taken"))),
        };
        let lease = stored::mended_lease(ctx, tube, id, row)?;
        let Some((stored, taken)) = lease else { return Ok(false) };
        let ended = settle::end_lease(ctx, tube, &stored.task()?, taken, self.charged);
        Ok(sound(ended)?.is_some())
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
        let row = consumer(ctx, self.consumer)?;
        let mut rows = Scan::prefixed(key::held_by(tube.run(), self.consumer));
        rows.skip_to(key::held(tube.run(), self.consumer, self.from));
        let (mut handed, mut last, mut bytes) = (Vec::new(), self.from, 0);
        for _ in 0..SWEEP_TASKS {
            if bytes >= SWEEP_BYTES || ctx.is_sweep_long() {
                break;
            }
            let Some((met, _)) = rows.next(ctx)? else { return Ok((handed, None)) };
            let id = key::id_of(&met).ok_or_else(|| damaged("held"))?;
            last = id;
            // A damaged one waits for the end of the grace, and its neighbours are handed out.
            if let Some(task) = sound(resumed(ctx, &tube, id, row.void_to))?.flatten() {
                bytes += task.payload.len();
                handed.push(task);
            }
        }
        Ok((handed, Some(TaskId::new(last.get().saturating_add(1)))))
    }
}

/// Hands out a lease again, unless it was handed out after the consumer was opened again.
fn resumed(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    void_to: u64,
) -> Result<Option<Delivery>> {
    let Some(row) = ctx.get(&key::taken(tube.run(), id))? else { return Ok(None) };
    let (stored, taken) = stored::lease(ctx, tube, id, &row)?;
    if taken.token > void_to {
        return Ok(None);
    }
    let task = stored.task()?;
    let Content { codec, version, payload } = task.content(ctx, tube)?;
    let now = ctx.now.lease;
    let token = ctx.token();
    let deadline = now.saturating_add(taken.head.ttr);
    let renewed = TakenRow { token, since: now, deadline, ..taken.clone() };
    let handed = Delivery {
        id,
        token,
        attempts: taken.head.attempts,
        deliveries: taken.head.deliveries,
        codec,
        version,
        payload,
    };
    let (from, to) = (TaskState::Taken(taken), TaskState::Taken(renewed));
    transition::move_task(ctx, tube, &task, &from, &to, Cause::Touch)?;
    Ok(Some(handed))
}

fn number_of(consumer: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(consumer.get(1..5)?.try_into().ok()?))
}

/// All consumers, by number.
pub(crate) fn all(view: &dyn View) -> Result<Vec<(u32, ConsumerRow)>> {
    let mut rows = Scan::over(Range::of(Tag::Consumer));
    let mut consumers = Vec::new();
    while let Some((met, row)) = rows.next(view)? {
        match (number_of(&met), row.as_deref().and_then(ConsumerRow::decode)) {
            (Some(number), Some(row)) => consumers.push((number, row)),
            _ => return Err(damaged("consumer")),
        }
    }
    Ok(consumers)
}
