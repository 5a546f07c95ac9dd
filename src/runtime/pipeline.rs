//! The steps of every op: admit, do due work, decide, append, publish. An attempt runs under the
//! engine's lock and waits for nothing. Either it is done, or nothing has happened and it returns
//! what it needs as a [`Need`]. This file has the blocking interface, one loop over the attempts.

use crate::engine::Op;
use crate::engine::cascade::FollowEnds;
use crate::engine::effects::EdgeWork;
use crate::format::key::Work;
use crate::runtime::checkpointer::{relieve_journal, run_post_commit};
use crate::runtime::commit::{Attempts, Need, Undone};
use crate::runtime::group_commit::Mark;
use crate::runtime::shared::Shared;
use crate::runtime::transaction::TransactionCommit;
use crate::words::error::Result;
use crate::words::limits::FOLLOWED_STEPS_MAX;

/// Carries an op out: tries until it is done or refused. It is synced once the mark is.
#[inline]
pub(crate) fn submit<O: Op>(parts: &Shared, op: &O) -> Result<(O::Done, Mark)> {
    let mut attempts = Attempts::default();
    loop {
        let mut state = parts.state.lock();
        let mut attempted = state.execute(op, &mut attempts, &parts.env());
        if let Err(Undone::Refused(error)) = &attempted {
            if state.store.refuses_reads(error) {
                attempted = Err(Undone::TryAfter(Need::Reopening));
            } else {
                state.reopen_after(error);
            }
        }
        // What a refused attempt has begun is work of the timer.
        let follows = O::FOLLOWS_ENDS && attempted.is_ok();
        let began = if follows { state.derived.edges.take() } else { None };
        let post = parts.release(state);
        match attempted {
            Ok(done) => {
                run_post_commit(parts, &post);
                if let Some(began) = began {
                    follow_ends(parts, *began);
                }
                return Ok(done);
            }
            Err(Undone::Refused(error)) => return Err(error),
            Err(Undone::TryAfter(Need::JournalSpace)) => relieve_journal(parts, post.checkpoints)?,
            Err(Undone::TryAfter(Need::Numbers(mark))) => parts.group_commit.wait(mark)?,
            Err(Undone::TryAfter(Need::Feature(write))) => parts.sync_head(write)?,
            Err(Undone::TryAfter(Need::Reopening)) => parts.await_reopening(),
            Err(Undone::TryAfter(Need::Yield | Need::Transaction)) => {
                run_post_commit(parts, &post);
                parts.state.pass_on();
            }
            Err(Undone::TryAfter(Need::BaseCommit)) => {
                let (done, began) = commit_to_base(parts, op)?;
                match began {
                    Some(began) if O::FOLLOWS_ENDS => follow_ends(parts, *began),
                    Some(_) => parts.timer.wake(),
                    None => {}
                }
                return Ok((done, Mark(0)));
            }
        }
    }
}

/// Works off the ends of tasks that others come after, as far as the call has begun that, one step
/// for each turn of the lock: a take that begins after the call finds them. What other calls have
/// begun is theirs. What it cannot do now, or not in so many steps, is work of the timer.
#[cold]
#[inline(never)]
pub(crate) fn follow_ends(parts: &Shared, began: EdgeWork) {
    let mut lists = [Work::Unlink, Work::Cascade].map(|kind| (kind, Vec::new(), 0));
    let (mut more, mut is_left) = (Some(began), false);
    for _ in 0..FOLLOWED_STEPS_MAX {
        for (of, at) in more.take().into_iter().flat_map(|more| more.rows) {
            let list = lists.iter_mut().find(|(kind, ..)| *kind == of);
            if let Some((_, rows, _)) = list {
                rows.push(at);
            }
        }
        let Some((kind, rows, from)) = lists.iter_mut().find(|(_, rows, from)| *from < rows.len())
        else {
            if is_left {
                break;
            }
            return;
        };
        let of = rows.get(*from..);
        match submit(parts, &FollowEnds { kind: *kind, of }) {
            Ok((step, _)) if step.is_any || step.passed > 0 => {
                *from += step.passed;
                more = step.began.map(|began| *began);
            }
            Ok(_) | Err(_) => (*from, is_left) = (rows.len(), true),
        }
        parts.state.pass_on();
    }
    parts.timer.wake();
}

/// Carries an op out whose rows do not fit a record. A function of its own, because a decision is
/// long: the frame of every op would have room for several.
#[cold]
#[inline(never)]
fn commit_to_base<O: Op>(parts: &Shared, op: &O) -> Result<(O::Done, Option<Box<EdgeWork>>)> {
    let transaction = TransactionCommit::begin(parts)?;
    let done = transaction.run(op)?;
    Ok((done, transaction.commit()?))
}

#[cfg(test)]
mod tests;
