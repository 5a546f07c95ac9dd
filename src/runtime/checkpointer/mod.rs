//! Checkpoints, and the one policy for them. This file has the policy's limits, and says when a
//! checkpoint runs and which thread runs it: the one in the background after a commit that fills
//! the journal, the timer's in a quiet queue, or the caller's if it needs the space or asks for it.
//! How fast one runs is in `throttle`, how callers pause for it in `backpressure`. The engine's
//! lock is not held while one is written.

mod throttle;
mod backpressure;

use crate::runtime::commit::EngineState;
use crate::runtime::handoff_mutex::{HandoffGuard, HandoffMutex};
use crate::runtime::parker::Parker;
use crate::runtime::reentrancy;
use crate::store::{EndedCheckpoints, IoPacer, Retired};
use crate::words::clock::{Clock, micros};
use crate::words::error::{ErrorKind, Result};
use crate::words::sync::plain::yield_now;
use crate::words::sync::{Arc, Condvar, Mutex, MutexGuard};
use backpressure::Backpressure;
use std::time::Duration;
use throttle::Throttle;

/// In the background a checkpoint syncs after so many bytes, and pauses so long after it, if
/// callers sync. On the disk of BENCHMARKS.md a caller that syncs 4 000 times a second beside
/// checkpoints of 6 MB waits, at the 99.9th percentile, 11 ms where they are written at once, 15 in
/// pieces without pauses, 1.3 in these.
const SYNC_BYTES: u64 = 128 << 10;
const SYNC_PAUSE: Duration = Duration::from_millis(1);
/// Most time that one checkpoint spends on that: on a card a single sync can take 50 ms.
const YIELD_MAX: Duration = Duration::from_millis(250);
/// A checkpoint hurries once the callers have filled 1/HURRY_AT_DIVISOR of the ring.
const HURRY_AT_DIVISOR: u64 = 2;
/// Callers pause once they fill the last part, 1/LAST_PART_DIVISOR of the ring. With a larger part
/// the ring would be less full at the end of a checkpoint, and the next one would have fewer rows
/// for its syncs.
const LAST_PART_DIVISOR: u64 = 8;
/// Shorter pauses are added up: putting a thread to sleep costs about half as much.
const PAUSE_MICROS_MIN: u64 = 100;

/// The engine's state, and the checkpoints that move its rows to the base.
pub(crate) struct Checkpointer {
    /// Held by the one that checkpoints or transacts. Taken before `state`, never after.
    writer: Mutex<()>,
    pub(crate) state: HandoffMutex<EngineState>,
    pub(crate) throttle: Arc<Throttle>,
    /// Taken after `state`.
    backpressure: Mutex<Backpressure>,
    /// The running checkpoint has ended: all callers that pause continue.
    ended: Condvar,
    /// Wakes the thread that runs checkpoints in the background.
    pub(crate) background: Parker,
    clock: Arc<dyn Clock>,
    by_hand: bool,
}

/// What a caller does for the journal after its op, without the engine's lock.
#[must_use = "the caller does it without the engine's lock"]
pub(crate) struct PostCommit {
    wants_checkpoint: bool,
    /// The checkpoints so far.
    pub(crate) checkpoints: EndedCheckpoints,
    /// Microseconds of pause for writing faster than the running checkpoint frees space.
    pause: u64,
}

impl Checkpointer {
    pub(crate) fn new(state: EngineState, clock: Arc<dyn Clock>, by_hand: bool) -> Self {
        let throttle = Arc::new(Throttle::new(clock.clone()));
        Self {
            writer: Mutex::new(()),
            state: HandoffMutex::new(state),
            backpressure: Mutex::new(Backpressure::new(throttle.clone())),
            throttle,
            ended: Condvar::new(),
            background: Parker::default(),
            clock,
            by_hand,
        }
    }

    /// The engine's lock, unless the queue has stopped or is open read-only.
    pub(crate) fn running(&self) -> Result<HandoffGuard<'_, EngineState>> {
        let state = self.state.lock();
        state.health.runs()?;
        Ok(state)
    }

    /// The engine's lock, to read only, unless the queue has stopped.
    pub(crate) fn reading(&self) -> Result<HandoffGuard<'_, EngineState>> {
        let state = self.state.lock();
        state.health.reads()?;
        Ok(state)
    }

    /// Waits for the writer's lock.
    pub(crate) fn writer(&self) -> MutexGuard<'_, ()> {
        self.throttle.while_awaited(|| self.writer.lock())
    }

    /// Waits until the base is open again after a checkpoint that met a full disk.
    pub(crate) fn await_reopening(&self) {
        // The checkpoint opens the base again before it releases the writer.
        drop(self.writer());
    }

    /// Lease time, read without the engine's lock.
    pub(crate) fn lease_now(&self) -> u64 {
        micros(self.clock.monotonic())
    }

    /// What the holder of the engine's lock does for the journal after it has released the lock.
    #[inline]
    pub(crate) fn post_commit(&self, state: &EngineState) -> PostCommit {
        let pause = if state.store.is_checkpointing() {
            let (used, size) = state.store.ring();
            self.backpressure.lock().rest(used, size, || self.lease_now())
        } else {
            0
        };
        PostCommit {
            wants_checkpoint: state.store.wants_checkpoint(),
            checkpoints: state.store.checkpoints(),
            pause,
        }
    }
}

/// What a caller does for the journal after a successful op: it pauses if it writes too fast, and
/// requests a checkpoint if one is wanted.
pub(crate) fn run_post_commit(of: &Checkpointer, post: &PostCommit) {
    // With a manual clock a pause would not end.
    if post.pause > 0
        && let Some(nap) = of.clock.nap(Duration::from_micros(post.pause))
    {
        // An end just before this wait is missed; that costs one pause.
        of.ended.wait_for(&mut of.backpressure.lock(), nap);
    }
    if !post.wants_checkpoint {
        return;
    }
    // Without threads the caller runs the checkpoint.
    if of.by_hand {
        checkpoint_if_free(of);
    } else {
        of.background.wake();
    }
}

/// Runs a checkpoint if one is wanted and none is running, then reads ahead what will be read until
/// the next one. Without threads the caller does the read-ahead.
pub(crate) fn checkpoint_if_free(of: &Checkpointer) {
    let Some(writer) = of.writer.try_lock() else { return };
    let is_wanted = || of.state.lock().store.wants_checkpoint();
    // The wake-up may come after the checkpoint that it asked for.
    if !is_wanted() {
        return;
    }
    let takes_time = !of.by_hand && of.throttle.can_rest();
    let pacer = takes_time.then(|| of.throttle.clone() as Arc<dyn IoPacer>);
    // The caller's op is done. If the checkpoint fails, the next op reports it.
    let Ok(Some(retired)) = checkpoint_with(of, &writer, pacer) else { return };
    let may_go_on = || {
        let is_free = !of.throttle.is_awaited() && !is_wanted();
        if is_free {
            yield_now();
        }
        is_free
    };
    let Err(error) = retired.read_ahead(&may_go_on) else { return };
    let mut state = of.state.lock();
    if error.kind() == ErrorKind::Broken {
        state.health.break_down(error.to_string(), false);
    }
    state.reopen_after(&error);
}

/// Moves the rows in memory to the base and frees the journal.
pub(crate) fn checkpoint(of: &Checkpointer) -> Result<()> {
    reentrancy::ensure_outside()?;
    checkpoint_with(of, &of.writer(), None).map(drop)
}

/// Waits for the running checkpoint. Returns if one has ended since the caller counted
/// `checkpoints`, for all who wait; otherwise runs one here.
pub(crate) fn relieve_journal(of: &Checkpointer, checkpoints: EndedCheckpoints) -> Result<()> {
    let writer = of.writer();
    if of.state.lock().store.checkpoints().are_more_than(checkpoints) {
        return Ok(());
    }
    // The journal may have space all the same; if not, the next try reports it.
    unless_full(checkpoint_with(of, &writer, None))
}

/// After a full disk, and before rows are written to the base at once: runs a checkpoint, which
/// finds out whether there is space again.
pub(crate) fn look_for_room(of: &Checkpointer, writer: &MutexGuard<'_, ()>) -> Result<()> {
    let looks = {
        let mut state = of.state.lock();
        let now = state.now(&*of.clock);
        state.store.is_full() && state.tries_for_room(now)
    };
    if looks { unless_full(checkpoint_with(of, writer, None)) } else { Ok(()) }
}

/// The same, unless a checkpoint is running.
pub(crate) fn look_for_room_if_free(of: &Checkpointer) -> Result<()> {
    of.writer.try_lock().map_or(Ok(()), |writer| look_for_room(of, &writer))
}

/// A failed checkpoint, unless what it lacked is space on the disk.
pub(crate) fn unless_full<T>(done: Result<T>) -> Result<()> {
    match done {
        Err(error) if error.kind() != ErrorKind::DiskFull => Err(error),
        _ => Ok(()),
    }
}

/// Runs a checkpoint with the pacer of one in the background; without a pacer if a caller waits.
fn checkpoint_with(
    of: &Checkpointer,
    _writer: &MutexGuard<'_, ()>,
    pacer: Option<Arc<dyn IoPacer>>,
) -> Result<Option<Retired>> {
    let checkpoint = {
        let mut state = of.running()?;
        let Some(checkpoint) = state.store.freeze()? else { return Ok(None) };
        let (used, _) = state.store.ring();
        of.backpressure.lock().start(of.lease_now(), used);
        checkpoint
    };
    let moved = checkpoint.run(pacer);
    let mut state = of.state.lock();
    of.backpressure.lock().finish(of.lease_now());
    of.ended.notify_all();
    let failure = match moved {
        Ok(renewed) => return Ok(Some(state.store.renew(renewed))),
        Err(failure) => failure,
    };
    state.store.checkpoint_failed(failure).map(|()| None).inspect_err(|error| {
        if error.kind() == ErrorKind::Broken || error.is_outcome_unknown() {
            state.health.break_down(error.to_string(), false);
        }
    })
}
