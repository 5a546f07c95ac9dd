//! What all handles of one queue share, and the calls they make. Locks are taken in one order: the
//! writer's before the engine's; neither is held while user code runs, `transact` aside.

use crate::bytes::View;
use crate::bytes::key::Key;
use crate::clock::{Clock, ClockStep, NEVER, Now, micros};
use crate::engine::take::{Handed, Take};
use crate::engine::{Op, look};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::QUIET_BEFORE_CHECKPOINT;
use crate::live::alarm::Alarm;
use crate::live::commit::{Obstacle, Site, State, Status};
use crate::live::door::{Door, Entered};
use crate::live::events::Hub;
use crate::live::gate::{Gate, Mark};
use crate::live::graces::Graces;
use crate::live::inside;
use crate::live::leisure::Leisure;
use crate::live::notes::Outbox;
use crate::live::pace::{Pace, Rest};
use crate::live::wake::Wake;
use crate::options::Durability;
use crate::stop::Stop;
use crate::store::Opened;
use crate::sync::{Arc, AtomicBool, JoinHandle, Mutex, MutexGuard, Ordering, ThreadBuilder};
use crate::sync::{First, current, first_of, never};
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

/// The running queue.
pub(crate) struct Core {
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
    closing: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// How long a call waits for what it wants.
#[derive(Clone, Copy)]
pub(crate) enum Wait<'a> {
    No,
    For(Duration),
    Ever,
    Until(&'a Stop),
}

impl Wait<'_> {
    /// Whether it was ended before it began.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self, Wait::Until(stop) if stop.is_stopped())
    }
}

impl Core {
    /// Starts the queue over an opened store: voids leases, works out deadlines, starts threads.
    pub(crate) fn start(opened: Opened, settings: Settings) -> Result<Arc<Self>> {
        let gate = Gate::new(opened.store.journal());
        let leisure = Arc::new(Leisure::new(settings.clock.clone()));
        let pace = Pace::new(leisure.clone());
        let clock_step = opened.step;
        let state = State::new(opened, pace);
        let core = Arc::new(Self {
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
            closing: AtomicBool::new(false),
            threads: Mutex::default(),
        });
        let learnt = core.state.lock().learn(&*core.settings.clock);
        let begun = learnt.and_then(|()| core.void_leases(true));
        begun.map_err(|error| core.state.lock().store.blamed(error))?;
        let weak = Arc::downgrade(&core);
        core.settings.clock.watch(Arc::new(move || {
            if let Some(core) = weak.upgrade() {
                core.takers.nudge_all();
                core.room.nudge_all();
                core.onlookers.nudge_all();
                core.alarm.ring();
            }
        }));
        if !core.settings.by_hand {
            // Those that have started keep the folder until they are told to end.
            core.start_threads().inspect_err(|_| _ = core.close())?;
        }
        Ok(core)
    }

    fn start_threads(self: &Arc<Self>) -> Result<()> {
        self.spawn("tubewell-timer", Core::keep_time)?;
        self.spawn("tubewell-checkpoint", |core| {
            while core.checkpointer.sleep(None) {
                core.checkpoint_if_free();
            }
        })?;
        self.spawn("tubewell-flush", |core| {
            let written = || core.state.lock().written();
            let idle = || core.state.lock().idle();
            core.gate.flush_until_closed(core.settings.flush_interval, written, idle);
        })
    }

    /// Starts a thread that ends at close.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &str,
        run: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> Result<()> {
        let core = self.clone();
        let thread = ThreadBuilder::new().name(name.to_owned()).spawn(move || run(&core));
        self.threads.lock().push(thread.map_err(Error::io)?);
        Ok(())
    }

    /// Waits for the writer's lock.
    pub(crate) fn writer(&self) -> MutexGuard<'_, ()> {
        self.leisure.without(|| self.writer.lock())
    }

    /// The writer's lock, if nobody has it.
    pub(crate) fn try_writer(&self) -> Option<MutexGuard<'_, ()>> {
        self.writer.try_lock()
    }

    pub(crate) fn site(&self) -> Site<'_> {
        Site { clock: &*self.settings.clock, hub: &self.hub, gate: &self.gate }
    }

    /// Whether calls are served.
    pub(crate) fn is_open(&self) -> Result<()> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::new(ErrorKind::Closed));
        }
        if self.gate.has_failed() {
            return Err(Error::new(ErrorKind::Broken).because("a sync failed"));
        }
        Ok(())
    }

    /// Step one of a call: written, visible and published.
    #[inline]
    pub(crate) fn apply<O: Op>(&self, op: &O) -> Result<(O::Done, Mark)> {
        inside::refuse()?;
        self.is_open()?;
        self.end_graces()?;
        self.apply_inside(op)
    }

    /// The same for the queue's own work, which goes on while it closes.
    #[inline]
    pub(crate) fn apply_inside<O: Op>(&self, op: &O) -> Result<(O::Done, Mark)> {
        loop {
            let mut state = self.state.lock();
            let step = state.step(op, &self.site());
            if let Err(Obstacle::Refused(error)) = &step {
                state.heal_after(error);
            }
            let left = self.step_out(state);
            match step {
                Ok(done) => {
                    self.make_way(&left);
                    return Ok(done);
                }
                Err(Obstacle::NoRoom) => self.make_room(left.checkpoints)?,
                Err(Obstacle::NoNumbers(mark)) => self.gate.wait(mark)?,
                Err(Obstacle::TooLarge) => return self.apply_by_checkpoint(op),
                Err(Obstacle::Refused(error)) => return Err(error),
            }
        }
    }

    /// Holds the ops up, so that none is half-way; no lock if this thread is in a transaction.
    pub(crate) fn between_ops(&self) -> Option<Entered<'_, State>> {
        inside::refuse().is_ok().then(|| self.state.lock())
    }

    /// Releases the engine's lock and tells what was committed under it.
    pub(crate) fn release(&self, mut state: Entered<'_, State>) {
        let outbox = state.take_outbox();
        let written = state.written();
        drop(state);
        self.publish(outbox, written);
    }

    fn publish(&self, outbox: Outbox, written: Mark) {
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
        if let Some(lease) = outbox.wrote {
            self.alarm.wrote(lease);
            if self.gate.written(lease, micros(self.settings.flush_interval)) {
                // A failure is remembered, and every later call says so.
                let _ = self.gate.wait(written);
            }
        }
    }

    /// Step two: returns once what was seen is synced.
    pub(crate) fn wait(&self, mark: Mark) -> Result<()> {
        if self.gate.is_synced(mark) {
            return Ok(());
        }
        self.leisure.has_durable_callers();
        self.gate.wait(mark)
    }

    /// Both steps.
    #[inline]
    pub(crate) fn run<O: Op>(&self, op: &O, durability: Durability) -> Result<O::Done> {
        self.finish(op, self.apply(op), durability)
    }

    /// Step two of an op that may have been refused.
    pub(crate) fn finish<O: Op>(
        &self,
        op: &O,
        applied: Result<(O::Done, Mark)>,
        durability: Durability,
    ) -> Result<O::Done> {
        let (done, mark) = applied.or_else(|error| self.refused(error, durability))?;
        match durability {
            Durability::Relaxed => Ok(done),
            Durability::Durable => self.sync(op, done, mark),
        }
    }

    /// Step two of a refusal: it may tell of rows, and a durable one waits until they are synced.
    pub(crate) fn refused<D>(&self, error: Error, durability: Durability) -> Result<D> {
        if durability == Durability::Durable && tells_of_rows(error.kind()) {
            let seen = self.state.lock().written();
            self.wait(seen)?;
        }
        Err(error)
    }

    /// Step two of an op, which names its tasks if it cannot say what became of them.
    #[inline]
    pub(crate) fn sync<O: Op>(&self, op: &O, done: O::Done, mark: Mark) -> Result<O::Done> {
        match self.wait(mark) {
            Ok(()) => Ok(done),
            Err(error) => Err(error.with_tasks(op.in_doubt(&done))),
        }
    }

    /// Reads rows under the engine's lock. Changes nothing, works off nothing.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&dyn View, Now) -> Result<R>) -> Result<R> {
        self.look_at(|state, now| look(&state.store, now))
    }

    /// The same, also of what is kept beside the rows.
    pub(crate) fn look_at<R>(&self, look: impl FnOnce(&State, Now) -> Result<R>) -> Result<R> {
        inside::refuse()?;
        self.is_open()?;
        let mut state = self.state.lock();
        state.is_open()?;
        let now = state.now(&*self.settings.clock);
        look(&state, now).inspect_err(|error| state.heal_after(error))
    }

    /// Reads a tube behind whatever is due in it.
    pub(crate) fn look_in<R>(
        &self,
        tube: u32,
        look: impl FnOnce(&dyn View, Now) -> Result<R>,
    ) -> Result<R> {
        self.catch_up(tube)?;
        self.look(look)
    }

    /// Works off what is due in a tube.
    pub(crate) fn catch_up(&self, tube: u32) -> Result<()> {
        self.apply(&CatchUp { tube }).map(|_| ())
    }

    /// Takes one task, waiting for it.
    pub(crate) fn take(&self, tube: u32, holder: u32, wait: Wait<'_>) -> Result<Option<Handed>> {
        let op = Take { tube, most: 1, holder };
        let try_take = || Ok(self.apply(&op)?.0.pop());
        if wait.is_stopped() {
            return Ok(None);
        }
        if let Some(task) = try_take()? {
            return Ok(Some(task));
        }
        self.wait_for(&self.takers, tube, holder, wait, try_take)
    }

    /// Calls `look` whenever the tube's waiters are woken, until it finds something or the wait is
    /// over. A seat is taken before the first look, so nothing that comes after it is missed.
    pub(crate) fn wait_for<R>(
        &self,
        wake: &Wake,
        tube: u32,
        holder: u32,
        wait: Wait<'_>,
        mut look: impl FnMut() -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        let since = self.lease_now();
        let until = match &wait {
            Wait::No => return Ok(None),
            Wait::For(length) => since.saturating_add(micros(*length)),
            Wait::Ever | Wait::Until(_) => NEVER,
        };
        let stopped = match &wait {
            Wait::Until(stop) => stop.stopped().clone(),
            _ => never(),
        };
        let seat = wake.sit(tube, holder, since, Some(until));
        loop {
            seat.look();
            match look() {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) => {
                    // What this look was woken for is still there, for another.
                    drop(seat);
                    wake.wake(tube, 1);
                    return Err(error);
                }
            }
            let left = until.saturating_sub(self.lease_now());
            if left == 0 {
                return Ok(None);
            }
            let nap =
                (until != NEVER).then(|| self.settings.clock.nap(Duration::from_micros(left)));
            if first_of(seat.bell(), &stopped, nap.flatten()) == First::Right {
                return Ok(None);
            }
        }
    }

    /// Lease time, read without the engine's lock.
    pub(crate) fn lease_now(&self) -> u64 {
        micros(self.settings.clock.monotonic())
    }

    /// Everything written so far is synced.
    pub(crate) fn flush(&self) -> Result<()> {
        inside::refuse()?;
        if self.is_closing() {
            return Err(Error::new(ErrorKind::Closed));
        }
        self.leisure.has_durable_callers();
        self.gate.flush(|| self.state.lock().written())?;
        if self.settings.by_hand {
            self.state.lock().idle();
        }
        Ok(())
    }

    /// Ends the queue: calls inside finish, waiting ones return `Closed`, leases return uncharged,
    /// a last checkpoint, and the folder is free. Never waits for guards.
    pub(crate) fn close(&self) -> Result<()> {
        inside::refuse()?;
        if self.closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.takers.nudge_all();
        self.room.nudge_all();
        self.onlookers.nudge_all();
        self.alarm.close();
        self.checkpointer.close();
        self.gate.close();
        let broken = self.gate.has_failed() || self.state.lock().is_open().is_err();
        let mut ended = if broken { Ok(()) } else { self.void_leases(false) };
        if !broken && ended.is_ok() {
            self.state.lock().settle(&*self.settings.clock);
            ended = self.checkpoint();
        }
        let writer = self.writer();
        let mut state = self.state.lock();
        if state.status == Status::Open {
            state.status = Status::Closed;
        }
        // Whoever was inside has told of what it did; nobody does anything any more.
        self.hub.end();
        let released = state.store.close();
        drop(state);
        drop(writer);
        let myself = current().id();
        for thread in self.threads.lock().drain(..) {
            // The last handle may go in a callback, on one of these very threads.
            if thread.thread().id() != myself {
                let _ = thread.join();
            }
        }
        ended.and(released)
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// A page of a tube's tasks; see [`look::page`].
    pub(crate) fn page(
        &self,
        tube: u32,
        state: crate::task::State,
        from: Option<Key>,
    ) -> Result<(Vec<crate::task::TaskInfo>, Option<Key>)> {
        self.look_in(tube, |view, now| {
            let tube = look::tube(view, tube)?;
            look::page(view, &tube, state, from, now)
        })
    }

    /// How long a quiet queue waits before it checkpoints, in lease time.
    pub(crate) fn quiet(&self) -> u64 {
        micros(QUIET_BEFORE_CHECKPOINT)
    }
}

/// Whether a refusal depends on what the rows said, and so must not outlive them.
fn tells_of_rows(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Full
            | ErrorKind::KeyExists
            | ErrorKind::TaskNotFound
            | ErrorKind::WrongState
            | ErrorKind::LeaseLost
            | ErrorKind::TubeNotFound
            | ErrorKind::TubeExists
            | ErrorKind::TubeMismatch
            | ErrorKind::TubeBusy
    )
}

/// Does nothing itself; what is due in its tube is worked off before it.
struct CatchUp {
    tube: u32,
}

impl Op for CatchUp {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, _desk: &mut crate::engine::Desk<'_>) -> Result<()> {
        Ok(())
    }
}
