//! The parts of a running queue, shared by its pipeline, checkpoints, sessions and timer. Locks are
//! taken in one order: the writer's before the engine's. Neither is held while user code runs,
//! except in `transact`.

use crate::runtime::activity::Activities;
use crate::runtime::checkpointer::{Checkpointer, PostCommit};
use crate::runtime::commit::{CommitEnv, EngineState};
use crate::runtime::derived_state::{Ends, TubeWakeups};
use crate::runtime::events::Hub;
use crate::runtime::grace_timers::GraceTimers;
use crate::runtime::group_commit::{GroupCommit, Mark};
use crate::runtime::handoff_mutex::HandoffGuard;
use crate::runtime::left_merges::LeftMerges;
use crate::runtime::live::LiveSettings;
use crate::runtime::parker::Parker;
use crate::runtime::place_waits::PlaceWaits;
use crate::runtime::reentrancy;
use crate::runtime::seats::Seats;
use crate::runtime::wake::Wake;
use crate::store::{Health, Opened, QueueId};
use crate::words::clock::{Clock, ClockStep};
use crate::words::error::Result;
use crate::words::queue_options::QueueOptions;
use crate::words::sync::{Arc, AtomicUsize, JoinHandle, Mutex, Ordering};
use crate::words::task::TaskId;
use std::ops::Deref;
use std::time::Duration;

/// How the queue was opened.
pub(crate) struct CoreSettings {
    pub(crate) clock: Arc<dyn Clock>,
    /// No threads: the caller ticks and flushes.
    pub(crate) by_hand: bool,
    /// Of the settings that may be stored those that the builder gave.
    pub(crate) given: QueueOptions,
}

/// What the handles and threads of one queue share. It derefs to what checkpoints and the engine's
/// lock are.
pub(crate) struct Shared {
    checkpointer: Checkpointer,
    pub(crate) settings: CoreSettings,
    /// Of the folder, or of the queue in memory.
    pub(crate) queue: QueueId,
    pub(crate) live: Arc<LiveSettings>,
    /// How the wall clock moved before the opening.
    pub(crate) clock_step: Option<ClockStep>,
    pub(crate) group_commit: GroupCommit,
    pub(crate) takers: Arc<Wake>,
    pub(crate) room: Wake,
    /// Which of them wait for a place in their tube.
    pub(crate) place_waits: PlaceWaits,
    pub(crate) ready_waiters: Arc<Wake>,
    /// The calls that wait for the ends of tasks, each under [`end_key`] of its task.
    pub(crate) ends: Wake,
    /// The tube in which a call about a task of any tube has found the last one; 0 before.
    pub(crate) last_found: AtomicUsize,
    pub(crate) hub: Hub,
    /// Wakes the timer.
    pub(crate) timer: Parker,
    pub(crate) grace_timers: GraceTimers,
    pub(crate) activities: Activities,
    pub(crate) health: Arc<Health>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Merges that no call goes on with.
    pub(crate) left_merges: LeftMerges,
    /// Held for a whole repair, before any other lock: two at a time would add one difference
    /// twice.
    pub(crate) repairing: Mutex<()>,
}

impl Deref for Shared {
    type Target = Checkpointer;

    fn deref(&self) -> &Checkpointer {
        &self.checkpointer
    }
}

impl Shared {
    /// Makes the parts over an opened store.
    pub(crate) fn new(opened: Opened, settings: CoreSettings) -> Self {
        let health = opened.store.health.clone();
        let group_commit = GroupCommit::new(opened.store.journal(), health.clone());
        let (clock_step, queue) = (opened.step, opened.store.queue);
        let mut state = EngineState::new(opened);
        let live = Arc::new(LiveSettings::new(settings.given));
        state.derived.live = live.clone();
        let seats = Arc::<Seats>::default();
        state.derived.seats = seats.clone();
        let takers = Arc::new(Wake::over(seats));
        state.derived.takers = takers.clone();
        let ready_waiters = Arc::<Wake>::default();
        state.derived.ready_waiters = ready_waiters.clone();
        Self {
            checkpointer: Checkpointer::new(state, settings.clock.clone(), settings.by_hand),
            settings,
            queue,
            live,
            clock_step,
            group_commit,
            takers,
            room: Wake::in_turn(),
            place_waits: PlaceWaits::default(),
            ready_waiters,
            ends: Wake::default(),
            last_found: AtomicUsize::default(),
            hub: Hub::default(),
            timer: Parker::default(),
            grace_timers: GraceTimers::default(),
            activities: Activities::default(),
            health,
            threads: Mutex::default(),
            left_merges: LeftMerges::default(),
            repairing: Mutex::default(),
        }
    }

    /// Lets a call in: not one from inside a transaction, and none once the queue closes.
    #[inline]
    pub(crate) fn enter(&self) -> Result<()> {
        reentrancy::ensure_outside()?;
        self.health.serves()
    }

    pub(crate) fn env(&self) -> CommitEnv<'_> {
        CommitEnv { clock: &*self.settings.clock, hub: &self.hub, group_commit: &self.group_commit }
    }

    /// Releases the engine's lock and publishes what was committed under it, also if the op of this
    /// thread was refused after that commit. Syncs what has been unsynced for too long, so that the
    /// limit does not depend on the flusher.
    pub(crate) fn release(&self, mut state: HandoffGuard<'_, EngineState>) -> PostCommit {
        if state.derived.edges.is_some() {
            state.derived.leave_edges();
        }
        let outbox = std::mem::take(&mut state.derived.outbox);
        let ends = state.derived.ends.take();
        let relief = state.store.has_relief();
        let written = Mark(state.store.written());
        let post = self.post_commit(&state);
        drop(state);
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
        if let Some(ends) = ends {
            self.wake_ends(&ends);
        }
        // The freed bytes may be room for any number of puts, in any tube.
        if relief || outbox.freed && self.live.durable_bytes_max.load(Ordering::Relaxed) < u64::MAX
        {
            self.room.wake_all_in_turn();
        }
        if outbox.sooner {
            self.timer.wake();
        }
        if let Some(lease) = outbox.wrote {
            self.timer.note_write(lease);
            if self.group_commit.note_write(lease, self.live.flush_interval.load(Ordering::Relaxed))
            {
                // The failure is stored, and every later call returns it.
                let _ = self.group_commit.wait(written);
            }
        }
        post
    }

    /// Lets a thread of the queue sleep that has nothing to do until this lease time. Returns false
    /// after the queue was closed.
    pub(crate) fn sleep(&self, thread: &Parker, until: u64, nap: Option<Duration>) -> bool {
        thread.rest(until);
        self.rested();
        thread.sleep(nap)
    }

    /// Reports to a manual clock that a thread has nothing to do, or that a wait has ended.
    pub(crate) fn rested(&self) {
        if let Some(clock) = self.settings.clock.manual() {
            clock.rested();
        }
    }

    /// Whether a call waits for a task or for room.
    pub(crate) fn does_a_call_wait(&self) -> bool {
        self.waits().into_iter().any(Wake::has_any)
    }

    /// Makes all waiters look again.
    pub(crate) fn recheck_all(&self) {
        self.waits().into_iter().for_each(Wake::recheck_all);
    }

    /// Syncs a write of the journal's head that was made under the engine's lock, without the lock.
    #[cold]
    pub(crate) fn sync_head(&self, write: u64) -> Result<()> {
        let synced = self.group_commit.sync_head();
        self.state.lock().store.head_synced(write, synced)
    }

    /// Wakes the calls that wait for these ends.
    #[cold]
    fn wake_ends(&self, ends: &Ends) {
        for task in &ends.tasks {
            self.ends.wake(end_key(*task), usize::MAX);
        }
        if ends.cleared {
            self.ends.recheck_all();
        }
        if ends.list {
            self.takers.recheck_all();
        }
    }

    /// All waiters.
    pub(crate) fn waits(&self) -> [&Wake; 4] {
        [&self.takers, &self.room, &self.ready_waiters, &self.ends]
    }
}

/// Under what those wait who wait for the end of a task. Tasks may share it: a waiter looks again.
pub(crate) fn end_key(task: TaskId) -> u32 {
    task.get() as u32
}
