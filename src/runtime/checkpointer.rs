//! When a checkpoint runs, which thread runs it, and what callers do for it: request one, wait for
//! space in the journal, pause if they write too fast. The engine's lock is not held while one is
//! written.

use crate::runtime::reentrancy;
use crate::runtime::shared::{PostCommit, Shared};
use crate::store::{IoPacer, Retired};
use crate::words::error::{ErrorKind, Result};
use crate::words::sync::plain::yield_now;
use crate::words::sync::{Arc, MutexGuard};
use std::time::Duration;

/// What a caller does for the journal after a successful op: it pauses if it writes too fast, and
/// requests a checkpoint if one is wanted.
pub(crate) fn run_post_commit(parts: &Shared, post: &PostCommit) {
    // With a manual clock a pause would not end.
    if post.pause > 0
        && let Some(nap) = parts.settings.clock.nap(Duration::from_micros(post.pause))
    {
        parts.pausing.rest(nap);
    }
    if !post.wants_checkpoint {
        return;
    }
    // Without threads the caller runs the checkpoint.
    if parts.settings.by_hand {
        checkpoint_if_free(parts);
    } else {
        parts.checkpointer.wake();
    }
}

/// Syncs what has been unsynced for too long, so that the limit does not depend on the flusher.
#[inline]
pub(crate) fn sync_overdue(parts: &Shared, post: &PostCommit) {
    if let Some(mark) = post.sync {
        // The failure is stored, and every later call returns it.
        let _ = parts.gate.wait(mark);
    }
}

/// Runs a checkpoint if one is wanted and none is running, then reads ahead what will be read until
/// the next one. Without threads the caller does the read-ahead.
pub(crate) fn checkpoint_if_free(parts: &Shared) {
    let Some(writer) = parts.try_writer() else { return };
    let is_wanted = || parts.state.lock().store.wants_checkpoint();
    // The wake-up may come after the checkpoint that it asked for.
    if !is_wanted() {
        return;
    }
    // The caller's op is done. If the checkpoint fails, the next op reports it.
    let Ok(Some(retired)) = checkpoint_with(parts, &writer, pacer(parts)) else { return };
    let may_go_on = || {
        let is_free = !parts.throttle.is_awaited() && !is_wanted();
        if is_free {
            yield_now();
        }
        is_free
    };
    let Err(error) = retired.read_ahead(&may_go_on) else { return };
    let mut state = parts.state.lock();
    if error.kind() == ErrorKind::Broken {
        state.health.break_down(error.to_string(), false);
    }
    state.reopen_after(&error);
}

/// Moves the rows in memory to the base and frees the journal.
pub(crate) fn checkpoint(parts: &Shared) -> Result<()> {
    reentrancy::ensure_outside()?;
    let writer = parts.writer();
    checkpoint_with(parts, &writer, None).map(drop)
}

/// Waits for the running checkpoint. Returns if a checkpoint has finished since the caller counted
/// `checkpoints`, because that freed space; otherwise runs one here.
pub(crate) fn relieve_journal(parts: &Shared, checkpoints: u64) -> Result<()> {
    let writer = parts.writer();
    if parts.state.lock().store.checkpoints() != checkpoints {
        return Ok(());
    }
    match checkpoint_with(parts, &writer, None) {
        // The journal may have space all the same; if not, the next try reports it.
        Err(error) if error.kind() == ErrorKind::DiskFull => Ok(()),
        done => done.map(drop),
    }
}

/// After a full disk, and before rows are written to the base at once: runs a checkpoint, which
/// finds out whether there is space again.
pub(crate) fn look_for_room(parts: &Shared, writer: &MutexGuard<'_, ()>) -> Result<()> {
    let looks = {
        let mut state = parts.state.lock();
        let now = state.now(&*parts.settings.clock);
        state.store.is_full() && state.tries_for_room(now)
    };
    match looks.then(|| checkpoint_with(parts, writer, None)) {
        Some(Err(error)) if error.kind() != ErrorKind::DiskFull => Err(error),
        _ => Ok(()),
    }
}

/// The pacer for a checkpoint in the background; none for one that a caller waits for.
fn pacer(parts: &Shared) -> Option<Arc<dyn IoPacer>> {
    let takes_time = !parts.settings.by_hand && parts.throttle.can_rest();
    takes_time.then(|| parts.throttle.clone() as Arc<dyn IoPacer>)
}

fn checkpoint_with(
    parts: &Shared,
    _writer: &MutexGuard<'_, ()>,
    pacer: Option<Arc<dyn IoPacer>>,
) -> Result<Option<Retired>> {
    let checkpoint = {
        let mut state = parts.running()?;
        match state.store.freeze()? {
            Some(checkpoint) => {
                state.backpressure.start(parts.lease_now());
                checkpoint
            }
            None => return Ok(None),
        }
    };
    let moved = checkpoint.run(pacer);
    let mut state = parts.state.lock();
    state.backpressure.finish(parts.lease_now());
    parts.pausing.over();
    match moved {
        Ok(renewed) => Ok(Some(state.store.renew(renewed))),
        Err(failure) => match state.store.checkpoint_failed(failure) {
            Ok(()) => Ok(None),
            Err(error) => {
                if error.kind() == ErrorKind::Broken || error.is_outcome_unknown() {
                    state.health.break_down(error.to_string(), false);
                }
                Err(error)
            }
        },
    }
}
