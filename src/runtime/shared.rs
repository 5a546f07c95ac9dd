//! The parts of a running queue, shared by its pipeline, checkpoints, sessions and timer. Locks are
//! taken in one order: the writer's before the engine's. Neither is held while user code runs,
//! except in `transact`.

use crate::runtime::backpressure::{Backpressure, PausedCallers};
use crate::runtime::commit::{CommitEnv, EngineState};
use crate::runtime::derived_state::{Notices, TubeWakeups};
use crate::runtime::events::Hub;
use crate::runtime::grace_timers::GraceTimers;
use crate::runtime::group_commit::{GroupCommit, Mark};
use crate::runtime::handoff_mutex::{HandoffGuard, HandoffMutex};
use crate::runtime::parker::Parker;
use crate::runtime::reentrancy;
use crate::runtime::throttle::Throttle;
use crate::runtime::wake::Wake;
use crate::store::{Health, Opened};
use crate::words::clock::{Clock, ClockStep, micros};
use crate::words::error::Result;
use crate::words::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How the queue was opened.
pub(crate) struct CoreSettings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) flush_interval: Duration,
    /// No threads: the caller ticks and flushes.
    pub(crate) by_hand: bool,
    /// Payload bytes of all durable tubes together, at most.
    pub(crate) durable_bytes_max: u64,
}

/// What the threads of one queue share.
pub(crate) struct Shared {
    pub(crate) settings: CoreSettings,
    /// How the wall clock moved before the opening.
    pub(crate) clock_step: Option<ClockStep>,
    /// Held by the one that checkpoints or transacts. Taken before `state`, never after.
    writer: Mutex<()>,
    /// The throttle of the running checkpoint.
    pub(crate) throttle: Arc<Throttle>,
    pub(crate) state: HandoffMutex<EngineState>,
    pub(crate) gate: GroupCommit,
    pub(crate) takers: Wake,
    pub(crate) room: Wake,
    pub(crate) ready_waiters: Wake,
    pub(crate) hub: Hub,
    /// Wakes the timer.
    pub(crate) timer: Parker,
    /// Wakes the thread that runs checkpoints in the background.
    pub(crate) checkpointer: Parker,
    pub(crate) pausing: PausedCallers,
    pub(crate) grace_timers: GraceTimers,
    pub(crate) health: Arc<Health>,
}

/// What a caller does after it has released the engine's lock; see `sync_overdue` and
/// `run_post_commit`.
#[must_use = "the caller does it without the engine's lock"]
pub(crate) struct PostCommit {
    /// The oldest unsynced record has reached the limit: sync up to this mark.
    pub(crate) sync: Option<Mark>,
    pub(crate) wants_checkpoint: bool,
    /// The number of checkpoints so far.
    pub(crate) checkpoints: u64,
    /// Microseconds of pause for writing faster than the running checkpoint frees space.
    pub(crate) pause: u64,
}

impl Shared {
    /// Makes the parts over an opened store.
    pub(crate) fn new(opened: Opened, settings: CoreSettings) -> Self {
        let health = opened.store.health.clone();
        let gate = GroupCommit::new(opened.store.journal(), health.clone());
        let throttle = Arc::new(Throttle::new(settings.clock.clone()));
        let backpressure = Backpressure::new(throttle.clone());
        let clock_step = opened.step;
        let state = EngineState::new(opened, backpressure);
        Self {
            settings,
            clock_step,
            writer: Mutex::new(()),
            throttle,
            state: HandoffMutex::new(state),
            gate,
            takers: Wake::default(),
            room: Wake::default(),
            ready_waiters: Wake::default(),
            hub: Hub::default(),
            timer: Parker::default(),
            checkpointer: Parker::default(),
            pausing: PausedCallers::default(),
            grace_timers: GraceTimers::default(),
            health,
        }
    }

    /// Lets a call in: not one from inside a transaction, and none once the queue closes.
    #[inline]
    pub(crate) fn enter(&self) -> Result<()> {
        reentrancy::ensure_outside()?;
        self.health.serves()
    }

    /// The engine's lock, unless the queue has stopped.
    pub(crate) fn running(&self) -> Result<HandoffGuard<'_, EngineState>> {
        let state = self.state.lock();
        state.health.runs()?;
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

    /// The writer's lock, if it is free.
    pub(crate) fn try_writer(&self) -> Option<MutexGuard<'_, ()>> {
        self.writer.try_lock()
    }

    pub(crate) fn env(&self) -> CommitEnv<'_> {
        CommitEnv { clock: &*self.settings.clock, hub: &self.hub, gate: &self.gate }
    }

    /// Lease time, read without the engine's lock.
    pub(crate) fn lease_now(&self) -> u64 {
        micros(self.settings.clock.monotonic())
    }

    /// Releases the engine's lock and publishes what was committed under it. Does not wait.
    pub(crate) fn release(&self, mut state: HandoffGuard<'_, EngineState>) -> PostCommit {
        let outbox = state.take_outbox();
        let written = state.written();
        let wants_checkpoint = state.store.wants_checkpoint();
        let checkpoints = state.store.checkpoints();
        let pause = state.pause(&*self.settings.clock);
        drop(state);
        let sync = self.publish(outbox).then_some(written);
        PostCommit { sync, wants_checkpoint, checkpoints, pause }
    }

    /// Publishes. Returns whether the oldest unsynced record has reached the limit.
    fn publish(&self, outbox: Notices) -> bool {
        for TubeWakeups { tube, ready, gone } in outbox.tubes {
            if ready > 0 {
                self.takers.wake(tube, ready);
                self.ready_waiters.wake(tube, usize::MAX);
            }
            // `usize::MAX` wakes all takers, and then also all that wait for room.
            let room = if ready == usize::MAX { usize::MAX } else { gone };
            if room > 0 {
                self.room.wake(tube, room);
            }
        }
        // The freed bytes may be room for any number of puts, in any tube.
        let freed = outbox.freed && self.settings.durable_bytes_max < u64::MAX;
        if freed || outbox.relief {
            self.room.recheck_all();
        }
        if outbox.sooner {
            self.timer.wake();
        }
        let Some(lease) = outbox.wrote else { return false };
        self.timer.note_write(lease);
        self.gate.note_write(lease, micros(self.settings.flush_interval))
    }

    /// Makes all waiters look again.
    pub(crate) fn recheck_all(&self) {
        self.takers.recheck_all();
        self.room.recheck_all();
        self.ready_waiters.recheck_all();
    }
}
