//! Named consumers: sessions that own leases. While a session is open, its guards hold the leases.
//! After its end they wait for `resume` or for the end of its grace.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::stored::{self, TaskState};
use crate::engine::sweep::TaskSweep;
use crate::engine::take::{Delivery, hand_out};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{history, query, settle};
use crate::format::extension::Extension;
use crate::format::key::{self, Key};
use crate::format::row::{ConsumerRow, Counters};
use crate::format::{Range, Scan, Tag, View, row};
use crate::words::clock::{NEVER, Now, micros};
use crate::words::consumer::ConsumerOptions;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{SWEEP_BYTES, SWEEP_TASKS, SWEEP_TASKS_FULL, SWEEP_TUBES};
use crate::words::name::label;
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, TaskId};

/// Opens a consumer, or joins it. Returns its number.
pub(crate) struct Join<'a> {
    pub(crate) name: &'a str,
    pub(crate) about: &'a ConsumerOptions,
    /// The process of the caller.
    pub(crate) pid: u32,
    /// Whether it must be known: its session has ended, and is opened again as it was.
    pub(crate) is_known: bool,
}

/// Ends a session. Its leases return by [`End`].
pub(crate) struct Leave {
    pub(crate) consumer: u32,
    /// Lease time of its last activity in this process.
    pub(crate) active: Option<u64>,
    pub(crate) how: Leaving,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Its leases wait for its grace.
    InGrace,
    /// Its leases return now.
    Closes,
    /// The same, and the consumer is not remembered.
    Deregisters,
}

/// A session that has ended.
pub(crate) struct Left {
    /// The token drawn at its end; the session's leases have lower tokens.
    pub(crate) number: u64,
    /// Microseconds for which its leases wait.
    pub(crate) grace: u64,
}

/// Returns leases of a consumer whose session has ended, one sweep at a time: those in one tube, or
/// all of them and at the end the consumer, unless it is remembered for a time. Does nothing if
/// another session of the consumer has begun since.
pub(crate) struct End {
    pub(crate) consumer: u32,
    /// The number of the session's end, see [`Left`].
    pub(crate) left: u64,
    pub(crate) charged: bool,
    /// The only tube whose leases return.
    pub(crate) tube: Option<u32>,
    /// The leases before it have returned, or are so damaged that they stay.
    pub(crate) from: LeasePlace,
    /// Microseconds for which the consumer is remembered, unless it has said for how long.
    pub(crate) keep: u64,
}

/// What is left after one sweep of an [`End`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftover {
    Nothing,
    /// Leases from this place on. A session that has ended gets none, but a merge may take one to a
    /// tube before it: then the walk is done twice.
    Leases(LeasePlace),
    /// The consumer, for so many microseconds.
    Memory(u64),
}

/// A place in the leases of a consumer, which are in the order of tubes, then of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeasePlace {
    /// In the second walk.
    pub(crate) is_again: bool,
    pub(crate) tube: u32,
    pub(crate) task: u64,
}

/// Hands out leases without a holder again, with new tokens: one sweep's leases from an id on, also
/// bounded in payload bytes. Returns also where to continue.
pub(crate) struct Resume {
    pub(crate) tube: u32,
    pub(crate) consumer: u32,
    /// Who holds them from now on: the same, or another one who has adopted its session.
    pub(crate) holder: u32,
    pub(crate) from: TaskId,
}

/// Queue time at which the grace of a session ends that ends now.
pub(crate) fn end_of_grace(row: &ConsumerRow, now: Now) -> u64 {
    now.queue.saturating_add(row.grace).min(NEVER - 1)
}

impl Op for Join<'_> {
    type Done = u32;

    fn grows(&self) -> bool {
        !self.is_known
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<u32> {
        label("consumer name", self.name)?;
        self.about.check()?;
        let name = key::consumer_name(self.name);
        if let Some(number) = query::numbered(ctx.get(&name), "consumer")? {
            let old = query::consumer(ctx, number)?.ok_or_else(query::consumer_closed)?;
            if self.is_known && (old.until == NEVER || old.forgotten().is_some()) {
                return Err(self.left_nothing());
            }
            let mut new = old.clone();
            self.begin(&mut new, ctx.now);
            if new != old {
                ctx.change(key::consumer(number), new.encode());
            }
            return Ok(number);
        }
        if self.is_known {
            return Err(self.left_nothing());
        }
        let mut counters = query::counters(ctx)?;
        let number = query::next_number(&mut counters.consumer, u32::MAX, "consumer")?;
        ctx.set(key::meta(Counters::WHAT), counters.encode())?;
        ctx.add(name, row::number(u64::from(number)));
        let (name, extension) = (self.name.to_owned(), Extension::default());
        let mut row = ConsumerRow { name, grace: 0, until: 0, void_to: 0, extension };
        self.begin(&mut row, ctx.now);
        ctx.add(key::consumer(number), row.encode());
        Ok(number)
    }
}

impl Join<'_> {
    fn left_nothing(&self) -> Error {
        let text = format!("no session of {:?} has ended whose leases wait", self.name);
        Error::new(ErrorKind::WrongState).because(text)
    }

    /// What becomes of the row. A session that is open stays as it is, but for what is given.
    fn begin(&self, row: &mut ConsumerRow, now: Now) {
        if row.until != NEVER {
            row.until = NEVER;
            row.set_forgotten(None);
            // The adopter says nothing of the consumer whose session it opens.
            if !self.is_known {
                row.set_pid(self.pid);
                row.set_active(now.queue);
            }
        }
        let ConsumerOptions { grace, keep, kind, host, meta } = self.about;
        row.grace = grace.map_or(row.grace, micros);
        if let Some(keep) = keep {
            row.set_keep(micros(*keep));
        }
        row.describe(kind.as_deref(), host.as_deref(), meta.as_deref());
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
        let known = row.clone();
        if row.until == NEVER {
            row.until = end_of_grace(&row, ctx.now);
            row.void_to = ctx.token();
            note_activity(&mut row, self.active, ctx.now);
        }
        if self.how == Leaving::Deregisters {
            row.set_keep(0);
            row.set_forgotten(None);
        }
        let waits = self.how == Leaving::InGrace;
        if !waits && row.forgotten().is_none() {
            // After a crash before the leases have returned the next opening returns them.
            row.until = row.until.min(ctx.now.queue);
        }
        if row != known {
            ctx.change(key::consumer(self.consumer), row.encode());
        }
        let grace = if waits { row.grace } else { 0 };
        Ok(Some(Left { number: row.void_to, grace }))
    }
}

impl Op for End {
    type Done = Leftover;

    const FOLLOWS_ENDS: bool = false;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Leftover> {
        let Some(mut row) = query::consumer(ctx, self.consumer)? else {
            return Ok(Leftover::Nothing);
        };
        if row.until == NEVER || row.void_to != self.left {
            // The consumer was opened again: its leases wait for `resume`.
            return Ok(Leftover::Nothing);
        }
        if let Some(next) = self.return_leases(ctx)? {
            return Ok(Leftover::Leases(next));
        }
        if self.tube.is_some() {
            return Ok(Leftover::Nothing);
        }
        let is_one_step = self.from == LeasePlace::default();
        if !is_one_step && !self.from.is_again && ctx.known.has_merged() {
            return Ok(Leftover::Leases(LeasePlace { is_again: true, ..LeasePlace::default() }));
        }
        let (now, known) = (ctx.now.queue, row.forgotten());
        let keep = row.keep().unwrap_or(self.keep);
        let forgotten = known.unwrap_or_else(|| now.saturating_add(keep).min(NEVER - 1));
        if forgotten > now {
            if known.is_none() {
                row.until = forgotten;
                row.set_forgotten(Some(forgotten));
                ctx.change(key::consumer(self.consumer), row.encode());
            }
            return Ok(Leftover::Memory(forgotten - now));
        }
        ctx.remove(key::consumer(self.consumer));
        ctx.remove(key::consumer_name(&row.name));
        Ok(Leftover::Nothing)
    }
}

impl End {
    /// Returns one sweep's leases. Returns where to continue; `None` at the end.
    fn return_leases(&self, ctx: &mut OpContext<'_>) -> Result<Option<LeasePlace>> {
        if ctx.count(Range::of(Tag::OwnerLease)) == 0 {
            return Ok(None);
        }
        let (first, last) = self.tube.map_or((self.from.tube, u32::MAX), |tube| (tube, tube));
        let mut tubes = Scan::through(key::tube(first), &key::tube(last));
        let tasks = if ctx.is_full() { SWEEP_TASKS_FULL } else { SWEEP_TASKS };
        let (mut tubes_left, mut leases_left) = (SWEEP_TUBES, tasks);
        while let Some((met, _)) = tubes.next(ctx)? {
            let number = query::number_in(&met).ok_or_else(|| damaged("tube"))?;
            let task = if number == self.from.tube { self.from.task } else { 0 };
            if tubes_left == 0 {
                return Ok(Some(LeasePlace { tube: number, task, ..self.from }));
            }
            tubes_left -= 1;
            let Some(tube) = sound(ctx.tube(number))? else { continue };
            if ctx.count(tube.range(Tag::OwnerLease)) == 0 {
                continue;
            }
            let mut rows = Scan::prefixed(key::leases_of(tube.run(), self.consumer));
            rows.skip_to(key::owner_lease(tube.run(), self.consumer, TaskId::new(task)));
            while let Some((met, _)) = rows.next(ctx)? {
                let id = key::id_of(&met).ok_or_else(|| damaged("held"))?;
                if leases_left == 0 || ctx.is_sweep_long() {
                    return Ok(Some(LeasePlace { tube: number, task: id.get(), ..self.from }));
                }
                leases_left -= 1;
                self.return_lease(ctx, &tube, id, met)?;
            }
        }
        Ok(None)
    }

    /// Returns one lease, unless it is so damaged that it stays.
    fn return_lease(
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
        sound(settle::return_task(ctx, &stored.task(tube)?, taken, cause))?;
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
        query::open_consumer(ctx, self.holder)?;
        let rows = Scan::prefixed(key::leases_of(tube.run(), self.consumer));
        let from = key::owner_lease(tube.run(), self.consumer, self.from);
        let mut leases = TaskSweep::new(rows, from);
        let (mut handed, mut bytes) = (Vec::new(), 0);
        while bytes < SWEEP_BYTES
            && let Some((id, _)) = leases.next(ctx)?
        {
            let mut left = SWEEP_BYTES - bytes;
            // A damaged lease waits for the end of the grace. The others are handed out.
            if let Some(task) =
                sound(self.resumed(ctx, &tube, id, row.void_to, &mut left))?.flatten()
            {
                bytes += task.payload.bytes();
                handed.push(task);
            }
        }
        Ok((handed, leases.next))
    }
}

impl Resume {
    /// Hands out a lease again, unless it was handed out after the consumer was opened again, or a
    /// `release_all` has voided it.
    fn resumed(
        &self,
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
        let mut progress = taken.progress.clone();
        let noted = history::note_adoption(ctx, &task, (&taken, &mut progress), self.holder)?;
        let from = (&TaskState::Taken(taken), progress);
        let handed = hand_out(ctx, &task, from, content, self.holder, Cause::Touch)?;
        noted.write(ctx);
        Ok(Some(handed))
    }
}

/// Writes down when a consumer was last active in this process, as a lease time.
pub(crate) fn note_activity(row: &mut ConsumerRow, active: Option<u64>, now: Now) {
    if let Some(active) = active {
        row.set_active(now.queue.saturating_sub(now.lease.saturating_sub(active)));
    }
}

/// All consumers, by number.
pub(crate) fn all(view: &dyn View) -> Result<Vec<(u32, ConsumerRow)>> {
    from(view, 0, usize::MAX).map(|(consumers, _)| consumers)
}

/// Some consumers with their numbers, and the number to continue with.
type ConsumerPage = (Vec<(u32, ConsumerRow)>, Option<u32>);

/// Up to `most` consumers by number, from this one on.
pub(crate) fn from(view: &dyn View, first: u32, most: usize) -> Result<ConsumerPage> {
    let mut rows = Scan::over(Range::of(Tag::Consumer));
    rows.skip_to(key::consumer(first));
    let mut consumers = Vec::new();
    while let Some((met, row)) = rows.next(view)? {
        let number = query::number_in(&met).ok_or_else(|| damaged("consumer"))?;
        if consumers.len() == most {
            return Ok((consumers, Some(number)));
        }
        let row = row.as_deref().and_then(ConsumerRow::decode);
        consumers.push((number, row.ok_or_else(|| damaged("consumer"))?));
    }
    Ok((consumers, None))
}
