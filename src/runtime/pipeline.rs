//! The steps of every op: admit, do due work, decide, append, publish. An attempt runs under the
//! engine's lock and waits for nothing. Either it is done, or nothing has happened and it returns
//! what it needs as a [`After`]. This file has the blocking interface, one loop over the attempts.

use crate::engine::Op;
use crate::runtime::checkpointer::{relieve_journal, run_post_commit};
use crate::runtime::commit::{After, Attempts, Undone};
use crate::runtime::group_commit::Mark;
use crate::runtime::shared::Shared;
use crate::runtime::transaction::TransactionCommit;
use crate::words::error::Result;

/// Carries an op out: tries until it is done or refused. It is synced once the mark is.
#[inline]
pub(crate) fn submit<O: Op>(parts: &Shared, op: &O) -> Result<(O::Done, Mark)> {
    let mut attempts = Attempts::default();
    loop {
        let mut state = parts.state.lock();
        let mut attempted = state.execute(op, &mut attempts, &parts.env());
        if let Err(Undone::Refused(error)) = &attempted {
            if state.store.refuses_reads(error) {
                attempted = Err(Undone::TryAfter(After::Reopening));
            } else {
                state.reopen_after(error);
            }
        }
        let post = parts.release(state);
        match attempted {
            Ok(done) => {
                run_post_commit(parts, &post);
                return Ok(done);
            }
            Err(Undone::Refused(error)) => return Err(error),
            Err(Undone::TryAfter(After::JournalSpace)) => relieve_journal(parts, post.checkpoints)?,
            Err(Undone::TryAfter(After::Numbers(mark))) => parts.gate.wait(mark)?,
            Err(Undone::TryAfter(After::Reopening)) => parts.await_reopening(),
            Err(Undone::TryAfter(After::Yield)) => {
                run_post_commit(parts, &post);
                parts.state.pass_on();
            }
            Err(Undone::TryAfter(After::BaseCommit)) => {
                return Ok((commit_to_base(parts, op)?, Mark(0)));
            }
        }
    }
}

/// Carries an op out whose rows do not fit a record. A function of its own, because a decision is
/// long: the frame of every op would have room for several.
#[cold]
#[inline(never)]
fn commit_to_base<O: Op>(parts: &Shared, op: &O) -> Result<O::Done> {
    let transaction = TransactionCommit::begin(parts)?;
    let done = transaction.run(op)?;
    transaction.commit()?;
    Ok(done)
}
