//! A large payload is put in turns: its pieces are written a few at a time under a work row, and
//! the put itself then makes the task and removes that row. No crash leaves a piece that no row
//! names: an opening removes the pieces of a call that did not finish.

use crate::engine::context::{Op, OpContext};
use crate::engine::pieces::{self, Staged, StagedPayload};
use crate::engine::put::{PutTasks, StagedFor};
use crate::format::Scan;
use crate::format::feature::PAYLOADS;
use crate::format::key::{self, Work};
use crate::format::piece::Pieces;
use crate::words::error::Result;
use crate::words::limits::PIECES_OF_STEP;
use crate::words::numbers::Numbers;
use crate::words::task::TaskId;

/// Writes the first pieces of a payload, or the next ones. Returns what is written; `None` if the
/// payload is not to be written in turns.
pub(crate) struct StagePieces<'a> {
    pub(crate) put: &'a PutTasks<'a>,
    /// Index of the task in the batch.
    pub(crate) task: usize,
    pub(crate) pieces: Pieces,
    /// The most pieces of this turn.
    pub(crate) most: u32,
    pub(crate) before: Option<Staged>,
    /// The id of the batch's first task, if it is drawn already.
    pub(crate) first: Option<u64>,
}

/// Removes the pieces of a call that does not finish.
pub(crate) struct GiveUp(pub(crate) StagedPayload);

/// Removes the pieces of calls that did not finish before the opening, of a few calls at a time.
/// Returns whether there may be more.
pub(crate) struct RollBack;

impl Op for StagePieces<'_> {
    type Done = Option<Staged>;

    fn tube(&self) -> Option<u32> {
        self.before.is_none().then_some(self.put.tube)
    }

    fn numbers(&self) -> Numbers {
        // The ids of the whole batch, whose tasks are in the order of their ids.
        let tasks = if self.first.is_none() { self.put.tasks.len() } else { 0 };
        Numbers::of_ids(tasks as u64)
    }

    fn adds(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let Some(task) = self.put.tasks.get(self.task) else { return Ok(None) };
        let mut staged = match self.before {
            Some(before) => before,
            None => {
                let Some(place) = self.put.admits(ctx, (self.task, task))? else { return Ok(None) };
                let first = self.first.unwrap_or_else(|| ctx.ids(self.put.tasks.len() as u64));
                let pieces = self.pieces;
                let (run, id, pieces) = match place {
                    StagedFor::New(run) => (run, TaskId::new(first + self.task as u64), pieces),
                    StagedFor::Again(run, id, generation) => {
                        ctx.needs(&PAYLOADS);
                        (run, id, Pieces { generation, ..pieces })
                    }
                };
                let payload = StagedPayload { run, id, pieces, written: 0 };
                Staged { task: self.task, first, payload }
            }
        };
        staged.payload.advance(ctx, task.payload, self.most)?;
        Ok(Some(staged))
    }
}

impl Op for GiveUp {
    type Done = ();

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        self.0.give_up(ctx)
    }
}

impl Op for RollBack {
    type Done = bool;

    const FOLLOWS_ENDS: bool = false;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let mut rows = Scan::prefixed(key::work_of(Work::Staged));
        for _ in 0..PIECES_OF_STEP {
            let Some(met) = rows.next(ctx)? else { return Ok(false) };
            pieces::roll_back(ctx, met)?;
        }
        Ok(true)
    }
}
