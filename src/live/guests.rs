//! A checkpoint with guests: the application's tables and the queue's verbs in one commit of the
//! base. It takes the writer, then the engine, and keeps both until the commit has returned.

use crate::engine::Op;
use crate::engine::desk::Draft;
use crate::engine::due::WorkOff;
use crate::engine::settle::Lost;
use crate::error::{Error, ErrorKind, Result};
use crate::live::commit::State;
use crate::live::core::Core;
use crate::live::gate::Mark;
use crate::live::inside;
use crate::store::Guests;
use crate::sync::MutexGuard;

/// An open transaction.
pub(crate) struct Session<'a> {
    core: &'a Core,
    // Dropped in this order: the engine's lock goes before the writer's.
    state: Option<MutexGuard<'a, State>>,
    _writer: MutexGuard<'a, ()>,
    guests: Option<Guests>,
    draft: Draft,
}

impl<'a> Session<'a> {
    /// Waits for the writer and the engine.
    pub(crate) fn begin(core: &'a Core) -> Result<Self> {
        inside::refuse()?;
        core.is_open()?;
        let writer = core.writer.lock();
        let mut state = core.state.lock();
        state.is_open()?;
        let guests = state.store.guests()?;
        inside::enter();
        Ok(Self {
            core,
            state: Some(state),
            _writer: writer,
            guests: Some(guests),
            draft: Draft::default(),
        })
    }

    /// The door to the application's tables.
    pub(crate) fn guests(&self) -> Result<&Guests> {
        self.guests.as_ref().ok_or_else(|| Error::new(ErrorKind::Closed))
    }

    /// Adds a verb to the list. A refusal adds nothing.
    pub(crate) fn run<O: Op>(&mut self, op: &O) -> Result<O::Done> {
        let Some(state) = &mut self.state else { return Err(Error::new(ErrorKind::Closed)) };
        let now = state.now(&*self.core.settings.clock);
        if let Some(tube) = op.tube()
            && state.is_due(tube, now)?
        {
            loop {
                let (more, due) = state.decide_over(&WorkOff { tube }, now, &self.draft)?;
                let idle = due.is_empty();
                self.draft.merge(due);
                if idle || !more {
                    break;
                }
            }
        }
        state.draw(op.numbers(), &self.core.gate)?;
        let (done, later) = state.decide_over(op, now, &self.draft)?;
        self.draft.merge(later);
        Ok(done)
    }

    /// Overlay, list and guests become one commit.
    pub(crate) fn commit(mut self) -> Result<()> {
        let (Some(mut state), Some(guests)) = (self.state.take(), self.guests.take()) else {
            return Err(Error::new(ErrorKind::Closed));
        };
        let (writes, changes, wakes) = std::mem::take(&mut self.draft).into_parts();
        let learnt = state.learnt(&writes);
        let stamp = state.stamp_now();
        let committed = state.store.finish(guests, writes, stamp);
        if let Err(error) = &committed {
            if error.is_outcome_unknown() || error.kind() == ErrorKind::Broken {
                state.break_down(error);
            }
        } else {
            state.committed(learnt, &changes, wakes, Mark(0), &self.core.hub);
        }
        self.core.release(state);
        committed
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if let (Some(mut state), Some(guests)) = (self.state.take(), self.guests.take()) {
            if let Err(error) = state.store.abort(guests) {
                state.break_down(&error);
            }
            self.core.release(state);
        }
        inside::leave();
    }
}

impl Core {
    /// An op whose record does not fit the journal: its rows go to the base with a checkpoint.
    pub(crate) fn apply_by_checkpoint<O: Op>(&self, op: &O) -> Result<(O::Done, Mark)> {
        let mut session = Session::begin(self)?;
        let done = session.run(op)?;
        session.commit()?;
        Ok((done, Mark(0)))
    }

    /// Returns the tasks whose guards were dropped inside a transaction, now that it is over.
    pub(crate) fn return_dropped(&self) {
        let dropped = std::mem::take(&mut *self.dropped.lock());
        for (tube, ticket) in dropped {
            let _ = self.apply(&Lost { tube, ticket });
        }
    }
}
