//! The application's tables and the queue's verbs in one commit of the base. It takes the writer's
//! lock, then the engine's, and holds both until the commit has returned.

use crate::engine::Op;
use crate::engine::decision::Decision;
use crate::engine::due::WorkOff;
use crate::engine::effects::EdgeWork;
use crate::runtime::checkpointer::look_for_room;
use crate::runtime::commit::{Attempt, Attempts, Cut, EngineState, Need, Undone};
use crate::runtime::deadlines::Walk;
use crate::runtime::group_commit::Mark;
use crate::runtime::handoff_mutex::HandoffGuard;
use crate::runtime::reentrancy::{self, TransactionScope};
use crate::runtime::shared::Shared;
use crate::store::{BaseTransaction, StoreFailure};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::SWEEP_TASKS;
use crate::words::sync::MutexGuard;
use crate::words::task::TaskId;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// An open transaction.
pub(crate) struct TransactionCommit<'a> {
    parts: &'a Shared,
    app: Option<BaseTransaction>,
    // Dropped in this order: the engine's lock, the writer's lock, then the scope, which does the
    // deferred work.
    decided: RefCell<Decided<'a>>,
    _turn: MutexGuard<'a, ()>,
    _inside: TransactionScope,
}

/// What the verbs have decided so far. In a cell, so that a table can be open at the same time.
struct Decided<'a> {
    state: Option<HandoffGuard<'a, EngineState>>,
    decision: Decision,
    /// The tubes of the verbs so far.
    tubes: BTreeSet<u32>,
    /// The tasks of all verbs.
    tasks: Vec<TaskId>,
}

impl<'a> TransactionCommit<'a> {
    /// Waits for the writer and the engine. The queue's own work also uses it while the queue
    /// closes.
    pub(crate) fn begin(parts: &'a Shared) -> Result<Self> {
        reentrancy::ensure_outside()?;
        let turn = parts.writer();
        look_for_room(parts, &turn)?;
        let opening = parts.running()?.store.opening()?;
        // No other thread has the writer of redb: our own lock comes before it.
        let app = BaseTransaction::begin(opening)?;
        let state = parts.running()?;
        Ok(Self {
            parts,
            app: Some(app),
            decided: RefCell::new(Decided {
                state: Some(state),
                decision: Decision::default(),
                tubes: BTreeSet::new(),
                tasks: Vec::new(),
            }),
            _turn: turn,
            _inside: TransactionScope::enter(),
        })
    }

    /// The application's tables.
    pub(crate) fn app(&self) -> Result<&BaseTransaction> {
        self.app.as_ref().ok_or_else(|| Error::new(ErrorKind::Closed))
    }

    /// Adds a verb, after the work that is due in its tube. A refusal adds nothing.
    pub(crate) fn run<O: Op>(&self, op: &O) -> Result<O::Done> {
        let Ok(mut decided) = self.decided.try_borrow_mut() else {
            return Err(Error::new(ErrorKind::InTransaction));
        };
        let Decided { state: Some(state), decision, tubes, tasks } = &mut *decided else {
            return Err(Error::new(ErrorKind::Closed));
        };
        let (now, env) = (state.now(&*self.parts.settings.clock), self.parts.env());
        let mut attempt = Attempt { now, call: &mut Attempts::default(), env, beside: None };
        if let Some(tube) = op.tube() {
            run_due_work(state, decision, tube, tubes.insert(tube), &mut attempt)?;
        }
        if O::OVER_SET
            && let Some(set) = op.tube_set()
        {
            let (mut walk, mut cut) = (Walk::default(), Cut::Looks);
            while cut == Cut::Looks {
                let due;
                (due, cut) = state.due_of_set(set, now, usize::MAX, &mut walk)?;
                for tube in due {
                    run_due_work(state, decision, tube, tubes.insert(tube), &mut attempt)?;
                }
            }
        }
        let done = state.execute_over(op, decision, &mut attempt)?;
        tasks.extend(op.in_doubt(&done));
        Ok(done)
    }

    /// Commits the active layer, the verbs' writes and the application's tables together. Returns
    /// the work on the ends of tasks that it has begun.
    pub(crate) fn commit(mut self) -> Result<Option<Box<EdgeWork>>> {
        let Decided { state, decision, tasks, .. } = self.decided.get_mut();
        if let Some(state) = state.as_mut().filter(|_| decision.adds_temporary) {
            let most = state.derived.live.temporary_bytes_max();
            state.store.admit_temporary(&decision.rows.layer, most)?;
        }
        let (Some(mut state), Some(app)) = (state.take(), self.app.take()) else {
            return Err(Error::new(ErrorKind::Closed));
        };
        let now = state.now(&*self.parts.settings.clock);
        let advance = state.advance(decision.effects.durable_bytes);
        let writes = (std::mem::take(&mut decision.rows.layer), &*decision.rows.days);
        let committed = match state.store.finish(app, writes, advance) {
            Ok(_) => {
                let EngineState { store, derived, .. } = &mut *state;
                if !derived.gated.tubes.is_empty() || decision.effects.slots.is_some() {
                    derived.bound_wakes(store, &mut decision.effects, now);
                }
                derived.committed(decision, Mark(0), &self.parts.hub);
                Ok(())
            }
            Err(StoreFailure::Broken(error)) => {
                let tasks = std::mem::take(tasks);
                Err(if error.is_outcome_unknown() { error.with_tasks(tasks) } else { error })
            }
            Err(StoreFailure::Refused(error)) => Err(error),
            Err(StoreFailure::NoRoom | StoreFailure::TooLarge) => Err(Error::new(ErrorKind::Full)),
        };
        // After a refusal, what its due work has begun is work of the timer.
        let began = if committed.is_ok() { state.derived.edges.take() } else { None };
        drop(self.parts.release(state));
        committed.map(|()| began)
    }
}

/// Does the work that is due in the tube of the next verb. Before the first verb in a tube it goes
/// in commits of its own, one sweep each: so the decision of the transaction does not grow with
/// what is due. It joins the decision before later verbs, when little is due, and if the journal
/// has no space. It also joins if the decision has rows of the tube, or would write a row that the
/// work writes: a commit of its own would not see the decision, which would then overwrite it.
fn run_due_work(
    state: &mut EngineState,
    decision: &mut Decision,
    tube: u32,
    is_first: bool,
    attempt: &mut Attempt<'_>,
) -> Result<()> {
    // On a full disk the due work waits for a verb that is not in a transaction.
    if state.store.is_full() {
        return Ok(());
    }
    // All of it, also for a verb that sees no delays: only before the first verb in a tube does it
    // stay out of the decision.
    let due = WorkOff::of((&state.derived, &state.store), (tube, SWEEP_TASKS), true);
    let due = WorkOff { in_transaction: true, ..due };
    let mut more = state.is_due(tube, true, attempt.now)?;
    let run = state.derived.run_and_bound(tube).map(|(run, _)| run);
    let mut by_itself = more && is_first && !run.is_some_and(|run| decision.has_rows_of(run));
    while more {
        if by_itself {
            let Attempt { now, env, .. } = *attempt;
            let beside = Some(&*decision);
            let alone = &mut Attempt { now, call: &mut *attempt.call, env, beside };
            match state.commit(&due, alone) {
                Ok((left, _)) => more = left,
                Err(Undone::Refused(error)) => return Err(error),
                // A damaged row was repaired.
                Err(Undone::TryAfter(Need::Yield)) => {}
                Err(Undone::TryAfter(_)) => by_itself = false,
            }
            // Without it a verb would pass by the rows that this commit has added.
            decision.rows.view_has_changed();
        } else {
            more = state.execute_over(&due, decision, attempt)?;
        }
    }
    Ok(())
}

impl Drop for TransactionCommit<'_> {
    fn drop(&mut self) {
        // Aborts, if it was not committed.
        drop(self.app.take());
        if let Some(mut state) = self.decided.get_mut().state.take() {
            // The base may have failed during the closure; from now on a failed sync is reported.
            let _ = state.store.transaction_ended();
            drop(self.parts.release(state));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::words::limits::SWEEP_TASKS;
    use crate::{ManualClock, Queue};
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// Regression: all due work joined the transaction's write set, which every later read scanned:
    /// one put with 20 000 due tasks took 24.5 s.
    #[test]
    fn what_is_due_before_a_transaction_goes_in_commits_of_its_own() {
        for rejected in [false, true] {
            let clock = ManualClock::new();
            let queue = Queue::builder().clock(clock.clone()).by_hand(true).in_memory().unwrap();
            let tube = queue.tube("t").unwrap();
            let due = 100 * SWEEP_TASKS;
            for _ in 0..due {
                tube.task(b"x").delay(Duration::from_secs(1)).put().unwrap();
            }
            let events = queue.events_with(crate::EventOptions::new().kept(2 * due));
            clock.advance(Duration::from_secs(1));
            let done = queue.transact(|tx| match (tube.put_in(tx, b"y"), rejected) {
                (Ok(_), true) => Err("no".into()),
                (put, _) => put.map(drop).map_err(Box::<dyn std::error::Error + Send + Sync>::from),
            });
            assert_eq!(done.is_err(), rejected);
            let mut commits = BTreeMap::new();
            std::iter::from_fn(|| events.try_recv())
                .for_each(|event| *commits.entry(event.mark).or_insert(0) += 1);
            assert_eq!(commits.remove(&0), (!rejected).then_some(1), "the transaction's own");
            assert_eq!(commits.values().sum::<usize>(), due);
            assert!(commits.values().all(|tasks| *tasks <= SWEEP_TASKS), "{commits:?}");
            assert_eq!(tube.stats().unwrap().ready as usize, due + usize::from(!rejected));
        }
    }
}
