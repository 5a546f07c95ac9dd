//! When a checkpoint runs, who runs it, and what callers do for it: call for one, wait for room in
//! the journal, pause if they outrun it. Nobody holds the engine's lock while one is written.

use crate::error::{ErrorKind, Result};
use crate::live::inside;
use crate::live::parts::{Parts, PostCommit};
use crate::store::{Breath, Retired};
use crate::sync::{Arc, MutexGuard};
use std::time::Duration;

/// What a caller does for the journal after an op that was done.
pub(crate) fn run_post_commit(parts: &Parts, post: &PostCommit) {
    pause(parts, post.pause);
    if !post.wants_checkpoint {
        return;
    }
    // Without threads it is the caller who checkpoints.
    if parts.settings.by_hand {
        checkpoint_if_free(parts);
    } else {
        parts.checkpointer.ring();
    }
}

/// Syncs what has been unsynced for too long, so that the limit does not hang on the flusher.
pub(crate) fn sync_overdue(parts: &Parts, post: &PostCommit) {
    if let Some(mark) = post.sync {
        // A failure is remembered, and every later call says so.
        let _ = parts.gate.wait(mark);
    }
}

/// A checkpoint, if one is wanted and none is under way, and then what will be read until the next.
/// By hand it is a caller who reads it, as whatever is read there.
pub(crate) fn checkpoint_if_free(parts: &Parts) {
    let Some(writer) = parts.try_writer() else { return };
    let is_wanted = || parts.state.lock().store.wants_checkpoint();
    // A call may come after the checkpoint that answers it.
    if !is_wanted() {
        return;
    }
    // The op that came by is done; if this fails, the next one meets it.
    let Ok(Some(retired)) = checkpoint_with(parts, &writer, breath(parts)) else { return };
    let may_go_on = || {
        let is_free = !parts.leisure.is_awaited() && !is_wanted();
        if is_free {
            parts.leisure.give_way();
        }
        is_free
    };
    let Err(error) = retired.read_ahead(&may_go_on) else { return };
    let mut state = parts.state.lock();
    if error.kind() == ErrorKind::Broken {
        state.health.break_down(error.to_string(), false);
    }
    state.heal_after(&error);
}

/// Moves what is in memory to the base and frees the journal.
pub(crate) fn checkpoint(parts: &Parts) -> Result<()> {
    inside::refuse()?;
    let writer = parts.writer();
    checkpoint_with(parts, &writer, None).map(drop)
}

/// Pays for having outrun the checkpoint under way; on a clock that is moved by hand, nothing.
fn pause(parts: &Parts, owed: u64) {
    if owed == 0 {
        return;
    }
    if let Some(nap) = parts.settings.clock.nap(Duration::from_micros(owed)) {
        parts.resting.rest(nap);
    }
}

/// Waits for the checkpoint under way; one that came since `checkpoints` were done has made room,
/// and with two threads at work the caller goes on beside the next. Else it does it here.
pub(crate) fn relieve_journal(parts: &Parts, checkpoints: u64) -> Result<()> {
    let writer = parts.writer();
    if parts.state.lock().store.checkpoints() != checkpoints {
        return Ok(());
    }
    checkpoint_with(parts, &writer, None).map(drop)
}

/// For a checkpoint that keeps nobody from its own call.
fn breath(parts: &Parts) -> Option<Arc<dyn Breath>> {
    let takes_time = !parts.settings.by_hand && parts.leisure.can_rest();
    takes_time.then(|| parts.leisure.clone() as Arc<dyn Breath>)
}

fn checkpoint_with(
    parts: &Parts,
    _writer: &MutexGuard<'_, ()>,
    breath: Option<Arc<dyn Breath>>,
) -> Result<Option<Retired>> {
    let checkpoint = {
        let mut state = parts.state.lock();
        state.health.runs()?;
        match state.store.freeze()? {
            Some(checkpoint) => {
                state.pace.begins(parts.lease_now());
                checkpoint
            }
            None => return Ok(None),
        }
    };
    let moved = checkpoint.run_with(breath);
    let mut state = parts.state.lock();
    state.pace.ends(parts.lease_now());
    parts.resting.over();
    match moved {
        Ok(renewed) => Ok(Some(state.store.renew(renewed))),
        Err(failure) => match state.store.mend(failure) {
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
