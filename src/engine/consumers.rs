//! Named consumers: sessions that own leases. While one is open its leases are its guards'; once
//! it left they wait for `resume` or for the end of its grace.

use crate::engine::context::{Op, OpContext, damaged};
use crate::engine::stored::{self, Content, TaskState};
use crate::engine::take::Delivery;
use crate::engine::transition;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{quarantine, query, settle};
use crate::format::extension::Extension;
use crate::format::key::{self, Key};
use crate::format::row::{ConsumerRow, Counters, TakenRow};
use crate::format::{Range, Scan, Tag, View, row};
use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{PAGE_TASKS, SWEEP_BYTES, SWEEP_TASKS};
use crate::words::name::label;
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, TaskId};
use std::collections::BTreeMap;

/// Opens a consumer, or joins it. Answers its number.
pub(crate) struct Join<'a> {
    pub(crate) name: &'a str,
    /// Microseconds that its leases outlive it.
    pub(crate) grace: u64,
}

/// The last handle went: leases wait for the grace, if there is one.
pub(crate) struct Leave {
    pub(crate) consumer: u32,
}

/// A session that has ended.
pub(crate) struct Left {
    /// Drawn by its end; its leases are those below.
    pub(crate) number: u64,
    /// Microseconds of its grace.
    pub(crate) grace: u64,
}

/// Returns leases of a consumer whose session is over, one sweep's worth, and forgets it at the
/// end. Does nothing if another session of the consumer has begun since. Answers whether there is
/// more to do.
pub(crate) struct End {
    pub(crate) consumer: u32,
    /// The number of the session's end, see [`Left`].
    pub(crate) left: u64,
    pub(crate) charged: bool,
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
    let row =
        row.ok_or_else(|| Error::new(ErrorKind::Closed).because("the consumer was closed"))?;
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
        counters.consumer = counters
            .consumer
            .checked_add(1)
            .ok_or_else(|| Error::new(ErrorKind::Invalid).because("2^32 consumers were made"))?;
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
    /// `None` if nobody is left to end.
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
            // Ended since: a close whose answer was an error is asked for again.
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
            // Opened again since: its leases wait for `resume`.
            return Ok(false);
        }
        let mut left = SWEEP_TASKS;
        for number in query::numbers(ctx)? {
            let Some(tube) = ctx.sound_tube(number)? else { continue };
            if ctx.count(tube.range(Tag::TicketHandle)) == 0 {
                continue;
            }
            let mut rows = Scan::prefixed(key::held_by(tube.run(), self.consumer));
            while let Some((met, _)) = rows.next(ctx)? {
                if left == 0 || ctx.is_sweep_long() {
                    return Ok(true);
                }
                let id = key::id_of(&met).ok_or_else(|| damaged("held"))?;
                // What stays as it is does not count, so that the next sweep comes further.
                left -= usize::from(self.give_back(ctx, &tube, id, met)?);
            }
        }
        ctx.remove(key::consumer(self.consumer));
        ctx.remove(key::consumer_name(&row.name));
        Ok(false)
    }
}

impl End {
    /// Returns one lease. False if it is damaged so that it stays as it is.
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
            Err(error) if error.kind() == ErrorKind::Damaged => None,
            row => row?,
        };
        quarantine::with_lease(ctx, tube, (id, row), |ctx, task, taken| {
            if self.charged {
                settle::give_back(ctx, tube, task, taken, Cause::Lost)
            } else {
                settle::give_back_uncharged(ctx, tube, task, taken, Cause::Close)
            }
        })
    }
}

impl Op for Resume {
    type Done = (Vec<Delivery>, Option<TaskId>);

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(PAGE_TASKS as u64)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let tube = ctx.tube(self.tube)?;
        let row = consumer(ctx, self.consumer)?;
        let mut rows = Scan::prefixed(key::held_by(tube.run(), self.consumer));
        rows.skip_to(key::held(tube.run(), self.consumer, self.from));
        let (mut handed, mut last, mut bytes) = (Vec::new(), self.from, 0);
        for _ in 0..PAGE_TASKS {
            if bytes >= SWEEP_BYTES || ctx.is_sweep_long() {
                break;
            }
            let Some((met, _)) = rows.next(ctx)? else { return Ok((handed, None)) };
            let id = key::id_of(&met).ok_or_else(|| damaged("held"))?;
            last = id;
            match resumed(ctx, &tube, id, row.void_to) {
                // It waits for the end of the grace, and its neighbours are handed out.
                Err(error) if error.kind() == ErrorKind::Damaged => {}
                Ok(Some(task)) => {
                    bytes += task.payload.len();
                    handed.push(task);
                }
                done => drop(done?),
            }
        }
        Ok((handed, Some(TaskId::new(last.get().saturating_add(1)))))
    }
}

/// Hands out a lease again, unless its consumer got it since it came back.
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
    transition::move_task(ctx, tube, &task, Some(&from), Some(&to), Cause::Touch)?;
    Ok(Some(handed))
}

/// The consumers there are, at open. One whose row is damaged is forgotten, since nobody knows how
/// long its leases were to outlive it; then each name leads to its consumer again.
pub(crate) fn mended(ctx: &mut OpContext<'_>) -> Result<Vec<(u32, ConsumerRow)>> {
    let mut rows = Scan::over(Range::of(Tag::Consumer));
    while let Some((met, row)) = rows.next(ctx)? {
        if row.as_deref().and_then(ConsumerRow::decode).is_none() {
            ctx.remove(met);
        }
    }
    let consumers = all(ctx)?;
    let mut names: BTreeMap<Key, u32> =
        consumers.iter().map(|(number, row)| (key::consumer_name(&row.name), *number)).collect();
    let mut rows = Scan::over(Range::of(Tag::ConsumerName));
    while let Some((met, row)) = rows.next(ctx)? {
        let told = row.as_deref().and_then(row::read_number);
        match names.remove(&met).map(u64::from) {
            Some(number) if told == Some(number) => {}
            Some(number) => ctx.change(met, row::number(number)),
            None => ctx.remove(met),
        }
    }
    for (name, number) in names {
        ctx.add(name, row::number(u64::from(number)));
    }
    Ok(consumers)
}

fn number_of(consumer: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(consumer.get(1..5)?.try_into().ok()?))
}

/// The consumers there are, by number.
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
