//! A checkpoint with guests: the application's tables and the queue's verbs in one commit of the
//! base. It takes the writer, then the engine, and keeps both until the commit has returned.

use crate::engine::Op;
use crate::engine::draft::Draft;
use crate::engine::due::WorkOff;
use crate::error::{Error, ErrorKind, Result};
use crate::live::commit::State;
use crate::live::core::Core;
use crate::live::door::Entered;
use crate::live::gate::Mark;
use crate::live::inside::{self, Inside};
use crate::live::notes;
use crate::store::{Failure, Guests};
use crate::sync::MutexGuard;
use crate::task::TaskId;
use std::cell::RefCell;

/// An open transaction.
pub(crate) struct Session<'a> {
    core: &'a Core,
    guests: Option<Guests>,
    // Dropped in this order: the engine's lock, the writer's, and then what waits for both.
    list: RefCell<List<'a>>,
    _turn: MutexGuard<'a, ()>,
    _inside: Inside,
}

/// What the verbs have decided so far. In a cell, so that a table can stay open beside them.
struct List<'a> {
    state: Option<Entered<'a, State>>,
    draft: Draft,
    /// Whether a verb adds tasks to a temporary tube.
    adds_temporary: bool,
    /// The tasks of all verbs.
    tasks: Vec<TaskId>,
}

impl<'a> Session<'a> {
    /// Waits for the writer and the engine. The queue's own work goes this way while it closes.
    pub(crate) fn begin(core: &'a Core) -> Result<Self> {
        inside::refuse()?;
        let turn = core.writer();
        let writer = {
            let mut state = core.state.lock();
            state.is_open()?;
            state.store.writer()?
        };
        // Nobody else has redb's writer: our own lock stands before it.
        let guests = writer.begin()?;
        let state = core.state.lock();
        state.is_open()?;
        Ok(Self {
            core,
            guests: Some(guests),
            list: RefCell::new(List {
                state: Some(state),
                draft: Draft::default(),
                adds_temporary: false,
                tasks: Vec::new(),
            }),
            _turn: turn,
            _inside: Inside::enter(),
        })
    }

    /// What leads to the application's tables.
    pub(crate) fn guests(&self) -> Result<&Guests> {
        self.guests.as_ref().ok_or_else(|| Error::new(ErrorKind::Closed))
    }

    /// Adds a verb to the list. A refusal adds nothing.
    pub(crate) fn run<O: Op>(&self, op: &O) -> Result<O::Done> {
        let Ok(mut list) = self.list.try_borrow_mut() else {
            return Err(Error::new(ErrorKind::InTransaction));
        };
        let List { state: Some(state), draft, adds_temporary, tasks } = &mut *list else {
            return Err(Error::new(ErrorKind::Closed));
        };
        let now = state.now(&*self.core.settings.clock);
        let wants = self.core.hub.wants();
        if let Some(tube) = op.tube()
            && state.is_due(tube, now)?
        {
            let mut more = true;
            while more {
                let due;
                (more, due) = state.decide_over(&WorkOff { tube }, now, draft, wants)?;
                draft.merge(due);
            }
        }
        state.draw(op.numbers(), &self.core.gate)?;
        let (done, later) = state.decide_over(op, now, draft, wants)?;
        *adds_temporary |= op.adds() && later.is_temporary();
        draft.merge(later);
        tasks.extend(op.in_doubt(&done));
        Ok(done)
    }

    /// Overlay, list and guests become one commit.
    pub(crate) fn commit(mut self) -> Result<()> {
        let List { state, draft, adds_temporary, tasks } = self.list.get_mut();
        if let Some(state) = state.as_mut().filter(|_| *adds_temporary) {
            state.store.admit_temporary(draft.writes())?;
        }
        let (Some(mut state), Some(guests)) = (state.take(), self.guests.take()) else {
            return Err(Error::new(ErrorKind::Closed));
        };
        let advance = state.advance(draft.durable_bytes());
        let learnt = notes::learnt(draft);
        let writes = std::mem::take(draft.writes());
        let committed = match state.store.finish(guests, writes, advance) {
            Ok(_) => {
                state.notes.committed(learnt, draft, Mark(0), &self.core.hub);
                Ok(())
            }
            Err(Failure::Broken(error)) => {
                state.break_down(&error);
                let tasks = std::mem::take(tasks);
                Err(if error.is_outcome_unknown() { error.with_tasks(tasks) } else { error })
            }
            Err(Failure::Refused(error)) => Err(error),
            Err(Failure::NoRoom | Failure::TooLarge) => Err(Error::new(ErrorKind::Full)),
        };
        self.core.release(state);
        committed
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Aborts, if it was not committed.
        drop(self.guests.take());
        if let Some(mut state) = self.list.get_mut().state.take() {
            // The base may have failed beneath the closure; a failed sync is told from now on.
            if let Err(error) = state.store.heal() {
                state.break_down(&error);
            }
            self.core.release(state);
        }
    }
}

impl Core {
    /// An op whose record does not fit the journal: its rows go to the base with a checkpoint.
    pub(crate) fn apply_by_checkpoint<O: Op>(&self, op: &O) -> Result<(O::Done, Mark)> {
        let session = Session::begin(self)?;
        let done = session.run(op)?;
        session.commit()?;
        Ok((done, Mark(0)))
    }
}
