//! The parts of a running queue, which its pipeline, checkpoints, sessions and timer share. Locks
//! are taken in one order: the writer's before the engine's; neither is held while user code runs,
//! `transact` aside.

use crate::clock::{Clock, ClockStep, micros};
use crate::live::alarm::Alarm;
use crate::live::commit::{CommitEnv, State};
use crate::live::derived_state::Outbox;
use crate::live::door::{Door, Entered};
use crate::live::events::Hub;
use crate::live::gate::{Gate, Mark};
use crate::live::graces::Graces;
use crate::live::leisure::Leisure;
use crate::live::pace::{Pace, Rest};
use crate::live::wake::Wake;
use crate::store::{Health, Opened};
use crate::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How the queue was opened.
pub(crate) struct Settings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) flush_interval: Duration,
    /// No threads: the caller ticks and flushes.
    pub(crate) by_hand: bool,
    /// Payload bytes of all durable tubes together, at most.
    pub(crate) durable_bytes_max: u64,
}

/// What the threads of one queue share.
pub(crate) struct Parts {
    pub(crate) settings: Settings,
    /// What the wall clock did before the opening.
    pub(crate) clock_step: Option<ClockStep>,
    /// Held by the one that checkpoints or transacts. Taken before `state`, never after.
    writer: Mutex<()>,
    /// Of the checkpoint under way.
    pub(crate) leisure: Arc<Leisure>,
    pub(crate) state: Door<State>,
    pub(crate) gate: Gate,
    pub(crate) takers: Wake,
    pub(crate) room: Wake,
    pub(crate) onlookers: Wake,
    pub(crate) hub: Hub,
    pub(crate) alarm: Alarm,
    /// Calls the thread that checkpoints beside the callers.
    pub(crate) checkpointer: Alarm,
    pub(crate) resting: Rest,
    pub(crate) graces: Graces,
    pub(crate) health: Arc<Health>,
}

/// What the holder of the engine's lock leaves for after its release. The blocking callers do it at
/// once, see `checkpoints`.
#[must_use = "the caller does it without the engine's lock"]
pub(crate) struct PostCommit {
    /// The oldest record that is not synced has reached the limit: sync up to here.
    pub(crate) sync: Option<Mark>,
    pub(crate) wants_checkpoint: bool,
    /// How many checkpoints there were.
    pub(crate) checkpoints: u64,
    /// Microseconds of pause for having outrun the checkpoint under way.
    pub(crate) pause: u64,
}

impl Parts {
    /// Over an opened store.
    pub(crate) fn new(opened: Opened, settings: Settings) -> Self {
        let health = opened.store.health.clone();
        let gate = Gate::new(opened.store.journal(), health.clone());
        let leisure = Arc::new(Leisure::new(settings.clock.clone()));
        let pace = Pace::new(leisure.clone());
        let clock_step = opened.step;
        let state = State::new(opened, pace);
        Self {
            settings,
            clock_step,
            writer: Mutex::new(()),
            leisure,
            state: Door::new(state),
            gate,
            takers: Wake::default(),
            room: Wake::default(),
            onlookers: Wake::default(),
            hub: Hub::default(),
            alarm: Alarm::default(),
            checkpointer: Alarm::default(),
            resting: Rest::default(),
            graces: Graces::default(),
            health,
        }
    }

    /// Waits for the writer's lock.
    pub(crate) fn writer(&self) -> MutexGuard<'_, ()> {
        self.leisure.without(|| self.writer.lock())
    }

    /// The writer's lock, if nobody has it.
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

    /// Releases the engine's lock and publishes what was committed under it. Waits for nothing.
    pub(crate) fn release(&self, mut state: Entered<'_, State>) -> PostCommit {
        let outbox = state.take_outbox();
        let written = state.written();
        let mut post = PostCommit {
            sync: None,
            wants_checkpoint: state.store.wants_checkpoint(),
            checkpoints: state.store.checkpoints(),
            pause: state.pause(&*self.settings.clock),
        };
        drop(state);
        post.sync = self.publish(outbox).then_some(written);
        post
    }

    /// Whether the oldest record that is not synced has reached the limit.
    fn publish(&self, outbox: Outbox) -> bool {
        for told in outbox.tubes {
            if told.ready > 0 {
                self.takers.wake(told.tube, told.ready);
                self.onlookers.wake(told.tube, usize::MAX);
            }
            // Waking everybody includes those who wait for room.
            let room = if told.ready == usize::MAX { usize::MAX } else { told.gone };
            if room > 0 {
                self.room.wake(told.tube, room);
            }
        }
        // Room for the bytes of one put in any tube may be room for two others, or for none.
        let freed = outbox.freed && self.settings.durable_bytes_max < u64::MAX;
        if freed || outbox.relief {
            self.room.nudge_all();
        }
        if outbox.sooner {
            self.alarm.ring();
        }
        let Some(lease) = outbox.wrote else { return false };
        self.alarm.wrote(lease);
        self.gate.written(lease, micros(self.settings.flush_interval))
    }

    /// Everybody who waits looks again.
    pub(crate) fn nudge_all(&self) {
        self.takers.nudge_all();
        self.room.nudge_all();
        self.onlookers.nudge_all();
    }
}
