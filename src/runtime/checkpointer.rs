//! When a checkpoint runs, who runs it, and what callers do for it: call for one, wait for room in
//! the journal, pause if they outrun it. Nobody holds the engine's lock while one is written.

use crate::runtime::reentrancy;
use crate::runtime::shared::{PostCommit, Shared};
use crate::store::{IoPacer, Retired};
use crate::words::error::{ErrorKind, Result};
use crate::words::sync::{Arc, MutexGuard};
use std::time::Duration;

/// What a caller does for the journal after an op that was done.
pub(crate) fn run_post_commit(parts: &Shared, post: &PostCommit) {
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
pub(crate) fn sync_overdue(parts: &Shared, post: &PostCommit) {
    if let Some(mark) = post.sync {
        // A failure is remembered, and every later call says so.
        let _ = parts.gate.wait(mark);
    }
}

/// A checkpoint, if one is wanted and none is under way, and then what will be read until the next.
/// By hand it is a caller who reads it, as whatever is read there.
pub(crate) fn checkpoint_if_free(parts: &Shared) {
    let Some(writer) = parts.try_writer() else { return };
    let is_wanted = || parts.state.lock().store.wants_checkpoint();
    // A call may come after the checkpoint that answers it.
    if !is_wanted() {
        return;
    }
    // The op that came by is done; if this fails, the next one meets it.
    let Ok(Some(retired)) = checkpoint_with(parts, &writer, pacer(parts)) else { return };
    let may_go_on = || {
        let is_free = !parts.throttle.is_awaited() && !is_wanted();
        if is_free {
            parts.throttle.yield_cpu();
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
pub(crate) fn checkpoint(parts: &Shared) -> Result<()> {
    reentrancy::ensure_outside()?;
    let writer = parts.writer();
    checkpoint_with(parts, &writer, None).map(drop)
}

/// Pays for having outrun the checkpoint under way; on a clock that is moved by hand, nothing.
fn pause(parts: &Shared, owed: u64) {
    if owed == 0 {
        return;
    }
    if let Some(nap) = parts.settings.clock.nap(Duration::from_micros(owed)) {
        parts.pausing.rest(nap);
    }
}

/// Waits for the checkpoint under way; one that came since `checkpoints` were done has made room,
/// and with two threads at work the caller goes on beside the next. Else it does it here.
pub(crate) fn relieve_journal(parts: &Shared, checkpoints: u64) -> Result<()> {
    let writer = parts.writer();
    if parts.state.lock().store.checkpoints() != checkpoints {
        return Ok(());
    }
    match checkpoint_with(parts, &writer, None) {
        // The journal has room all the same, or the next try says that it has none.
        Err(error) if error.kind() == ErrorKind::DiskFull => Ok(()),
        done => done.map(drop),
    }
}

/// Behind a full disk, and before what goes to the base at once: a checkpoint finds out whether
/// there is room again.
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

/// For a checkpoint that keeps nobody from its own call.
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
        let mut state = parts.state.lock();
        state.health.runs()?;
        match state.store.freeze()? {
            Some(checkpoint) => {
                state.backpressure.start(parts.lease_now());
                checkpoint
            }
            None => return Ok(None),
        }
    };
    let moved = checkpoint.run_with(pacer);
    let mut state = parts.state.lock();
    state.backpressure.finish(parts.lease_now());
    parts.pausing.over();
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
