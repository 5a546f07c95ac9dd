//! The way of every op: admit, work off what is due, decide, append, publish. An attempt is made
//! under the engine's lock and waits for nothing: it is done, or nothing has happened and what it
//! needs is a [`Retry`]. Here is the blocking face, one loop over the attempts.

use crate::engine::Op;
use crate::runtime::checkpointer::{relieve_journal, run_post_commit, sync_overdue};
use crate::runtime::commit::{CommitEnv, EngineState, Retry, Undone};
use crate::runtime::group_commit::Mark;
use crate::runtime::shared::Shared;
use crate::runtime::transaction::TransactionCommit;
use crate::words::clock::Now;
use crate::words::error::{ErrorKind, Result};

/// Carries an op out. It is synced once the mark is.
#[inline]
pub(crate) fn submit_internal<O: Op>(parts: &Shared, op: &O) -> Result<(O::Done, Mark)> {
    let mut came = None;
    match attempt(parts, |state, env| state.execute(op, &mut came, env))? {
        Some(done) => Ok(done),
        None => {
            // Its rows go to the base with a checkpoint.
            let transaction = TransactionCommit::begin(parts)?;
            let done = transaction.run(op)?;
            transaction.commit()?;
            Ok((done, Mark(0)))
        }
    }
}

/// Works off what is due in a tube.
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

/// Tries until it is done or refused. `None` if its record is too large for the journal.
#[inline]
fn attempt<R>(
    parts: &Shared,
    mut attempt: impl FnMut(&mut EngineState, &CommitEnv<'_>) -> Result<R, Undone>,
) -> Result<Option<R>> {
    loop {
        let mut state = parts.state.lock();
        let mut attempted = attempt(&mut state, &parts.env());
        if let Err(Undone::Refused(error)) = &attempted {
            if error.kind() == ErrorKind::DiskFull && state.store.awaits_mending() {
                attempted = Err(Undone::Retry(Retry::Mending));
            } else {
                state.heal_after(error);
            }
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
                // Who writes the checkpoint opens the base again before it lets go of the writer.
                Retry::Mending => drop(parts.writer()),
                Retry::Yield => {
                    run_post_commit(parts, &post);
                    parts.state.pass_on();
                }
            },
        }
    }
}
