//! A verdict, a step or a move of a task that brings a new payload: each is one op. A payload that
//! is too large for one record is written in turns before the op.

use crate::engine::context::{Op, OpContext, damaged};
use crate::engine::held_in;
use crate::engine::moves::Move;
use crate::engine::pieces::StagedPayload;
use crate::engine::replace::{Replacement, generation_after};
use crate::engine::settle::{self, Settle};
use crate::engine::stored::StoredTask;
use crate::engine::tube_cache::TubeRef;
use crate::format::feature::PAYLOADS;
use crate::format::key;
use crate::format::piece::Pieces;
use crate::words::error::Result;
use crate::words::numbers::Numbers;
use crate::words::task::TaskId;

/// A verb on a task that may bring a payload.
pub(crate) trait PayloadVerb: Op {
    /// The task and its tube, before its payload is written in turns; `None` if it is of none.
    /// Refuses what no payload changes.
    fn target<'t>(&self, ctx: &mut OpContext<'t>) -> Result<Option<(TubeRef<'t>, StoredTask)>>;

    /// Decides, on the task with the new payload.
    ///
    /// # Errors
    /// `LeaseLost` also where the verb without a payload answers with the lost leases.
    fn decide_with(&self, ctx: &mut OpContext<'_>, new: &Replacement<'_>) -> Result<Self::Done>;
}

/// A verb with the payload that it brings. A full disk refuses it as it refuses a put.
pub(crate) struct VerbWithPayload<'a, V> {
    pub(crate) verb: &'a V,
    pub(crate) new: Replacement<'a>,
}

impl<V: PayloadVerb> Op for VerbWithPayload<'_, V> {
    type Done = V::Done;

    const SEES_DELAYS: bool = V::SEES_DELAYS;

    fn tube(&self) -> Option<u32> {
        self.verb.tube()
    }

    fn numbers(&self) -> Numbers {
        self.verb.numbers()
    }

    fn adds(&self) -> bool {
        true
    }

    fn in_doubt(&self, done: &Self::Done) -> Vec<TaskId> {
        self.verb.in_doubt(done)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        self.verb.decide_with(ctx, &self.new)
    }
}

/// Writes the first pieces of the payload of a verb, or the next ones. Returns what is written;
/// `None` if they are not to be written in turns.
pub(crate) struct StageReplacement<'a, V> {
    pub(crate) verb: &'a V,
    pub(crate) new: &'a Replacement<'a>,
    pub(crate) pieces: Pieces,
    /// The most pieces of this turn.
    pub(crate) most: u32,
    pub(crate) before: Option<StagedPayload>,
}

impl<V: PayloadVerb> Op for StageReplacement<'_, V> {
    type Done = Option<StagedPayload>;

    const SEES_DELAYS: bool = V::SEES_DELAYS;

    fn tube(&self) -> Option<u32> {
        if self.before.is_none() { self.verb.tube() } else { None }
    }

    fn adds(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let mut staged = match self.before {
            Some(before) => before,
            None => {
                let Some((tube, stored)) = self.verb.target(ctx)? else { return Ok(None) };
                let (tube, stored) = (&*tube, stored.whole(ctx, &tube)?);
                let task = stored.task(tube)?;
                let (_, row) = task.read.ok_or_else(|| damaged("task"))?;
                self.new.check(ctx, tube, &row)?;
                if tube.run().is_temporary() {
                    return Ok(None);
                }
                let (run, id) = (tube.run(), task.id);
                let generation = generation_after(ctx, tube, id, &row)?;
                let pieces = Pieces { generation, ..self.pieces };
                ctx.needs(&PAYLOADS);
                StagedPayload { run, id, pieces, written: 0 }
            }
        };
        staged.advance(ctx, self.new.payload.bytes, self.most)?;
        Ok(Some(staged))
    }
}

impl PayloadVerb for Settle<'_> {
    fn target<'t>(&self, ctx: &mut OpContext<'t>) -> Result<Option<(TubeRef<'t>, StoredTask)>> {
        let Some(ticket) = self.tickets.first() else { return Ok(None) };
        let tube = held_in::tube(ctx, self.tube, *ticket)?;
        settle::check_with_payload(&tube, &self.verdict)?;
        let (stored, _) = settle::held(ctx, &tube, *ticket)?;
        Ok(Some((tube, stored)))
    }

    fn decide_with(&self, ctx: &mut OpContext<'_>, new: &Replacement<'_>) -> Result<Self::Done> {
        for ticket in self.tickets {
            let tube = &*held_in::tube(ctx, self.tube, *ticket)?;
            settle::check_with_payload(tube, &self.verdict)?;
            let (stored, taken) = settle::held(ctx, tube, *ticket)?;
            let bytes = stored.task(tube)?.bytes as i64;
            let stored = new.of(ctx, tube, stored, ticket.id)?;
            let task = stored.task(tube)?;
            ctx.effects().count_bytes(tube.run(), task.bytes as i64 - bytes);
            let (raw, _) = task.read.ok_or_else(|| damaged("task"))?;
            ctx.change(key::task(tube.run(), &task.home, task.id), raw.clone());
            settle::settle_replaced(ctx, task, taken, &self.verdict)?;
        }
        Ok(Vec::new())
    }
}

impl PayloadVerb for Move<'_> {
    fn target<'t>(&self, ctx: &mut OpContext<'t>) -> Result<Option<(TubeRef<'t>, StoredTask)>> {
        let (tube, to) = (self.tube_of_task(ctx)?, ctx.tube(self.to)?);
        self.check(&to)?;
        let (stored, state) = self.find(ctx, &tube)?;
        self.admit((&tube, &to), (&stored.task(&tube)?, &state))?;
        Ok(Some((tube, stored)))
    }

    fn decide_with(&self, ctx: &mut OpContext<'_>, new: &Replacement<'_>) -> Result<()> {
        self.decide_on(ctx, Some(new))
    }
}
