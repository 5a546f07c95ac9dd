//! The steps of every op: admit, do due work, decide, append, publish. An attempt runs under the
//! engine's lock and waits for nothing. Either it is done, or nothing has happened and it returns
//! what it needs as a [`Retry`]. This file has the blocking interface, one loop over the attempts.

use crate::engine::Op;
use crate::runtime::checkpointer::{relieve_journal, run_post_commit, sync_overdue};
use crate::runtime::commit::{CommitEnv, EngineState, Retry, Undone};
use crate::runtime::group_commit::Mark;
use crate::runtime::shared::Shared;
use crate::runtime::transaction::TransactionCommit;
use crate::words::clock::Now;
use crate::words::error::Result;

/// Runs an op. It is synced when the mark is.
#[inline]
pub(crate) fn submit_internal<O: Op>(parts: &Shared, op: &O) -> Result<(O::Done, Mark)> {
    let mut came = None;
    match attempt(parts, |state, env| state.execute(op, &mut came, env))? {
        Some(done) => Ok(done),
        None => {
            // Its rows are written to the base in one commit.
            let transaction = TransactionCommit::begin(parts)?;
            let done = transaction.run(op)?;
            transaction.commit()?;
            Ok((done, Mark(0)))
        }
    }
}

/// Does the work that is due in a tube.
pub(crate) fn run_due_work(parts: &Shared, tube: u32) -> Result<()> {
    let mut came: Option<Now> = None;
    match attempt(parts, |state, env| state.run_due_work(tube, &mut came, env))? {
        Some(_) => Ok(()),
        None => {
            let transaction = TransactionCommit::begin(parts)?;
            transaction.run_due_work(tube)?;
            transaction.commit()
        }
    }
}

/// Tries until the op is done or refused. `None` if its record is too large for the journal.
#[inline]
fn attempt<R>(
    parts: &Shared,
    mut attempt: impl FnMut(&mut EngineState, &CommitEnv<'_>) -> Result<R, Undone>,
) -> Result<Option<R>> {
    loop {
        let mut state = parts.state.lock();
        let attempted = attempt(&mut state, &parts.env());
        if let Err(Undone::Refused(error)) = &attempted {
            state.heal_after(error);
        }
        let post = parts.release(state);
        sync_overdue(parts, &post);
        match attempted {
            Ok(done) => {
                run_post_commit(parts, &post);
                return Ok(Some(done));
            }
            Err(Undone::Refused(error)) => return Err(error),
            Err(Undone::TooLarge) => return Ok(None),
            Err(Undone::Retry(retry)) => match retry {
                Retry::JournalSpace => relieve_journal(parts, post.checkpoints)?,
                Retry::Numbers(mark) => parts.gate.wait(mark)?,
                Retry::Yield => {
                    run_post_commit(parts, &post);
                    parts.state.pass_on();
                }
            },
        }
    }
}
