//! The calls that the handles of a queue make: its start and its close, ops, reads and waits.

use crate::engine::Op;
use crate::engine::consumers::{Join, Leaving};
use crate::engine::context::sound;
use crate::engine::due::{CatchUp, WorkOff};
use crate::engine::settings::{ChangeSetting, Changed, QUEUE};
use crate::engine::slots::OfferSlots;
use crate::engine::sweep::FollowOptions;
use crate::format::View;
use crate::runtime::activity::Activity;
use crate::runtime::checkpointer::{checkpoint, checkpoint_if_free, unless_full};
use crate::runtime::commit::EngineState;
use crate::runtime::group_commit::Mark;
use crate::runtime::handoff_mutex::HandoffGuard;
use crate::runtime::pipeline::submit;
use crate::runtime::reentrancy;
use crate::runtime::sessions::{self, end_graces, leave_again, return_before_op};
use crate::runtime::sessions::{roll_back_puts, void_leases};
use crate::runtime::shared::{CoreSettings, Shared};
use crate::runtime::timer;
use crate::runtime::wake::{Unused, WaitPlace, Waiting, Wake};
use crate::store::Opened;
use crate::words::clock::{NEVER, Now};
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::READ_STEPS_MAX;
use crate::words::sync::{Arc, Ordering, ThreadBuilder};
use crate::words::sync::{current, has_ended, never, wait_or_stop};
use crate::words::wait::Wait;
use std::time::Duration;

impl Shared {
    /// Starts the queue over an opened store: voids leases, loads deadlines, starts threads. One
    /// that is open read-only does no work by itself, so its leases stay and nothing becomes due.
    pub(crate) fn start(opened: Opened, settings: CoreSettings) -> Result<Arc<Self>> {
        let core = Arc::new(Self::new(opened, settings));
        let learnt = core.state.lock().learn();
        let begun = learnt.and_then(|()| match core.health.is_read_only() {
            true => Ok(()),
            false => void_leases(&core, true)
                .and_then(|()| roll_back_puts(&core))
                .and_then(|()| timer::set_schedules_back(&core)),
        });
        begun.map_err(|error| core.state.lock().store.opening_failed(error))?;
        if !core.health.is_read_only() {
            core.find_merges();
        }
        let weak = Arc::downgrade(&core);
        if let Some(clock) = core.settings.clock.manual() {
            clock.add_sleepers(weak.clone());
        }
        core.settings.clock.watch(Arc::new(move || {
            if let Some(core) = weak.upgrade() {
                core.recheck_all();
                core.timer.wake();
            }
        }));
        if !core.settings.by_hand && !core.health.is_read_only() {
            // Threads that have started keep the folder open until a close ends them.
            core.start_threads().inspect_err(|_| _ = core.close())?;
        }
        Ok(core)
    }

    fn start_threads(self: &Arc<Self>) -> Result<()> {
        self.spawn("tubewell-timer", |core| timer::keep_time(core))?;
        self.spawn("tubewell-checkpoint", |core| {
            while core.sleep(&core.background, NEVER, None) {
                checkpoint_if_free(core);
            }
        })?;
        self.spawn("tubewell-flush", |core| {
            let idle = || core.state.lock().idle();
            let interval =
                || Duration::from_micros(core.live.flush_interval.load(Ordering::Relaxed));
            core.group_commit.flush_until_closed(interval, idle);
        })
    }

    /// Starts a thread that ends at close.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &str,
        run: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> Result<()> {
        let core = self.clone();
        let thread = ThreadBuilder::new().name(name.to_owned()).spawn(move || {
            run(&core);
            core.rested();
        });
        let thread = thread.map_err(Error::io)?;
        let mut threads = self.threads.lock();
        // A thread's memory is freed with its handle.
        threads.retain(|thread| !has_ended(thread));
        threads.push(thread);
        Ok(())
    }

    /// Step one of a call: writes the op, makes it visible and publishes it.
    #[inline]
    pub(crate) fn apply<O: Op>(&self, op: &O) -> Result<(O::Done, Mark)> {
        self.enter()?;
        if self.grace_timers.next() != NEVER && op.tube().is_some() {
            return_before_op(self, || end_graces(self, op.tube()))?;
        }
        submit(self, op)
    }

    /// Waits until no op is half-way and keeps others out; `None` if this thread is in a
    /// transaction.
    pub(crate) fn quiesce(&self) -> Option<HandoffGuard<'_, EngineState>> {
        reentrancy::ensure_outside().is_ok().then(|| self.state.lock())
    }

    /// Step two: returns after all that the call has read is synced.
    pub(crate) fn wait(&self, mark: Mark) -> Result<()> {
        if self.group_commit.is_synced(mark) {
            return Ok(());
        }
        self.throttle.note_durable_caller();
        self.group_commit.wait(mark)
    }

    /// Both steps of a change of a setting, after which there may be room for any put. It returns
    /// after all rows of tasks follow it that have to. A change of the same option that rows still
    /// follow is finished before.
    pub(crate) fn change_setting(
        &self,
        op: &ChangeSetting<'_>,
        durability: Durability,
    ) -> Result<bool> {
        let applied = loop {
            match self.apply(op) {
                Ok((Changed::NotYet, _)) => _ = self.follow(op.owner)?,
                applied => break applied,
            }
        };
        self.room.wake_all_in_turn();
        if op.owner == QUEUE {
            self.group_commit.change_interval();
        }
        let applied = applied.map(|(changed, mark)| match changed {
            // The change is made. What an error leaves is due work.
            Changed::Done { is_left: true, .. } => (changed, self.follow(op.owner).unwrap_or(mark)),
            _ => (changed, mark),
        });
        let changed = self.finish(op, applied, durability)?;
        Ok(matches!(changed, Changed::Done { is_any: true, .. }))
    }

    /// Lets all rows of a tube follow the changes of its options, with the lock passed on between
    /// two steps. Returns the mark of the last step.
    fn follow(&self, tube: u32) -> Result<Mark> {
        let op = FollowOptions { tube: Some(tube) };
        loop {
            match self.apply(&op)? {
                (true, _) => self.state.pass_on(),
                (false, mark) => return Ok(mark),
            }
        }
    }

    /// Both steps.
    #[inline]
    pub(crate) fn run<O: Op>(&self, op: &O, durability: Durability) -> Result<O::Done> {
        self.finish(op, self.apply(op), durability)
    }

    /// Step two of an op that may have been refused. If the sync fails, the error lists the op's
    /// tasks.
    pub(crate) fn finish<O: Op>(
        &self,
        op: &O,
        applied: Result<(O::Done, Mark)>,
        durability: Durability,
    ) -> Result<O::Done> {
        let (done, mark) = applied.or_else(|error| self.refused(error, durability))?;
        if matches!(durability, Durability::Durable)
            && let Err(error) = self.wait(mark)
        {
            return Err(error.with_tasks(op.in_doubt(&done)));
        }
        Ok(done)
    }

    /// Step two of a refusal: if it depends on rows and the call is durable, waits until these are
    /// synced.
    pub(crate) fn refused<D>(&self, error: Error, durability: Durability) -> Result<D> {
        if matches!(durability, Durability::Durable) && depends_on_rows(error.kind()) {
            self.wait(self.group_commit.last_written())?;
        }
        Err(error)
    }

    /// Reads rows under the engine's lock. Changes nothing and does no due work.
    pub(crate) fn look<R>(&self, look: impl Fn(&dyn View, Now) -> Result<R>) -> Result<R> {
        self.look_at(|state, now| look(&state.store, now))
    }

    /// The same, with access to the state beside the rows.
    pub(crate) fn look_at<R>(&self, look: impl Fn(&EngineState, Now) -> Result<R>) -> Result<R> {
        self.enter()?;
        loop {
            self.state.give_way();
            let mut state = self.reading()?;
            let mut now = state.now(&*self.settings.clock);
            if self.health.is_read_only() {
                // Lease time begins with each process, and every lease is one of an earlier.
                now.lease = NEVER;
            }
            match look(&state, now) {
                Err(error) if state.store.refuses_reads(&error) => {
                    drop(state);
                    self.await_reopening();
                }
                looked => return looked.inspect_err(|error| state.reopen_after(error)),
            }
        }
    }

    /// Does the work that is due in a tube, before a read of it. Read-only the tube is read as it
    /// is.
    pub(crate) fn catch_up(&self, tube: u32) -> Result<()> {
        if self.health.is_read_only() {
            return Ok(());
        }
        for _ in 0..READ_STEPS_MAX {
            if !self.apply(&CatchUp { tube })?.0 {
                break;
            }
            self.state.pass_on();
        }
        Ok(())
    }

    /// The same for what schedules have due in a tube that was dropped.
    pub(crate) fn catch_up_dropped(&self, tube: u32) -> Result<()> {
        if self.health.is_read_only() {
            return Ok(());
        }
        while self.apply(&WorkOff::of_dropped(tube))?.0 {
            self.state.pass_on();
        }
        Ok(())
    }

    /// Calls `look` whenever the waiter is woken, until it finds something or the wait is over. It
    /// is registered before the first look, so nothing that comes after that is missed.
    pub(crate) fn wait_for<R>(
        &self,
        wake: &Wake,
        tube: u32,
        holder: u32,
        wait: Wait<'_>,
        mut look: impl FnMut() -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        let look = || Ok(look()?.map(|found| (found, None)));
        self.wait_at(wake, (tube.into(), holder, false), wait, look)
    }

    /// The same at any place; a choosy call takes only some of what it may find. The look says in
    /// which tube it has found something, if it looked in several.
    pub(crate) fn wait_at<R>(
        &self,
        wake: &Wake,
        (at, holder, is_choosy): (WaitPlace, u32, bool),
        wait: Wait<'_>,
        look: impl FnMut() -> Result<Option<(R, Option<u32>)>>,
    ) -> Result<Option<R>> {
        let since = self.lease_now();
        let Some(until) = wait.end(since) else { return Ok(None) };
        let waiting = Waiting { at, holder, since, until, is_choosy };
        let (ended, unused) = self.wait_as(wake, waiting, wait, look);
        if std::ptr::eq(wake, &*self.takers) {
            unused.into_iter().flatten().for_each(|tube| self.give_up_slots(tube));
        }
        self.rested();
        ended
    }

    /// A taker that was woken for this tube did not take, so a slot that is kept for it is free.
    #[cold]
    fn give_up_slots(&self, tube: u32) {
        if !self.state.lock().derived.slot_lines.is_empty() {
            // After an error no taker waits for them any more.
            let _offered = self.apply(&OfferSlots { kept_for: Some(tube) });
        }
    }

    fn wait_as<R>(
        &self,
        wake: &Wake,
        waiting: Waiting,
        wait: Wait<'_>,
        mut look: impl FnMut() -> Result<Option<(R, Option<u32>)>>,
    ) -> (Result<Option<R>>, Unused) {
        let until = waiting.until;
        let stopped = wait.stop.map_or_else(never, |stop| stop.stopped().clone());
        let entry = wake.register(waiting);
        loop {
            if let Some(wakeups) = entry.begin_look() {
                match look() {
                    Ok(Some((found, found_in))) => {
                        return (Ok(Some(found)), entry.leave_served(wakeups, found_in));
                    }
                    Ok(None) if !wait.is_stopped() => {
                        if waiting.is_choosy && wakeups > 0 {
                            entry
                                .pass_on(wakeups)
                                .into_iter()
                                .for_each(|tube| self.give_up_slots(tube));
                        }
                    }
                    ended => {
                        return (ended.map(|_| None), entry.leave_unserved(wakeups));
                    }
                }
            }
            let left = until.saturating_sub(self.lease_now());
            if left == 0 {
                return (Ok(None), entry.leave());
            }
            entry.fall_asleep();
            self.timer.be_on_time();
            self.rested();
            let nap =
                (until != NEVER).then(|| self.settings.clock.nap(Duration::from_micros(left)));
            if wait_or_stop(&entry.signal, &stopped, nap.flatten()) {
                return (Ok(None), entry.leave());
            }
        }
    }

    /// Returns after everything written so far is synced.
    pub(crate) fn flush(&self) -> Result<()> {
        reentrancy::ensure_outside()?;
        if self.health.is_closing() {
            return Err(Error::new(ErrorKind::Closed));
        }
        self.throttle.note_durable_caller();
        self.group_commit.flush()?;
        if self.settings.by_hand {
            self.state.lock().idle();
        }
        Ok(())
    }

    /// Ends the queue: running calls finish, waiting ones return `Closed`, leases return uncharged,
    /// a last checkpoint runs, and the folder is released. Never waits for guards.
    pub(crate) fn close(&self) -> Result<()> {
        reentrancy::ensure_outside()?;
        if !self.health.begin_close() {
            return Ok(());
        }
        self.recheck_all();
        self.timer.close();
        self.background.close();
        self.group_commit.close();
        let is_writer = !self.health.is_read_only();
        let (ended, writer, mut state) = loop {
            let tokens = self.state.lock().next_token();
            // A failure in a checkpoint that no call waited for is reported here at the latest.
            let ended = self.health.reads();
            let ended = ended.and_then(|()| if is_writer { self.end_writing() } else { Ok(()) });
            let (writer, state) = (self.writer(), self.state.lock());
            // The end of the sessions draws one. A call that was let in before the close may have
            // taken a task since: that lease returns too. There are only so many such calls.
            let is_left = is_writer && ended.is_ok() && state.next_token() > tokens + 1;
            if !is_left {
                break (ended, writer, state);
            }
        };
        // All running calls have published their changes; no call changes anything from here on.
        self.hub.end();
        let released = state.store.close();
        drop(state);
        drop(writer);
        self.join_threads();
        ended.and(released)
    }

    /// The last writes before the close.
    fn end_writing(&self) -> Result<()> {
        // A consumer that was closed or deregistered gets no grace at the next opening.
        let left = sound(leave_again(self));
        void_leases(self, false)?;
        self.state.lock().settle(&*self.settings.clock);
        // The journal is synced and keeps what the base has no space for.
        unless_full(checkpoint(self))?;
        left.map(drop)
    }

    /// Opens a consumer or joins it.
    pub(crate) fn join(&self, op: &Join<'_>, durability: Durability) -> Result<(u32, Activity)> {
        self.enter()?;
        // If its grace is over it gets none of its leases back. The end of another one's session
        // waits for its repair.
        sound(leave_again(self))?;
        end_graces(self, None)?;
        let consumer = self.run(op, durability)?;
        self.grace_timers.forget(consumer);
        // An adopter is not the consumer whose session it opens.
        let activity = match op.is_known {
            true => Activity::default(),
            false => self.activities.begin(consumer, self.lease_now()),
        };
        Ok((consumer, activity))
    }

    /// Ends the session of a consumer whose end was refused before, and those of others. What is
    /// refused to the others is none of this call's.
    pub(crate) fn leave_again(&self, consumer: u32) -> Result<()> {
        self.enter()?;
        let left = leave_again(self);
        let returned = end_graces(self, None);
        match self.grace_timers.has_ended(consumer, self.lease_now()) {
            true => Ok(()),
            false => left.and(returned),
        }
    }

    /// Ends a consumer's session: its leases wait for its grace, or return now.
    pub(crate) fn leave(
        &self,
        (consumer, how): (u32, Leaving),
        durability: Durability,
    ) -> Result<()> {
        self.enter()?;
        let mark = sessions::leave(self, consumer, how)?;
        if matches!(durability, Durability::Durable) { self.wait(mark) } else { Ok(()) }
    }

    /// Waits for the threads, without the lock of their list: a callback on one of them may start
    /// another.
    fn join_threads(&self) {
        let myself = current().id();
        loop {
            let threads = std::mem::take(&mut *self.threads.lock());
            if threads.is_empty() {
                return;
            }
            // The last handle may be dropped in a callback, on one of these threads.
            for thread in threads.into_iter().filter(|thread| thread.thread().id() != myself) {
                let _ = thread.join();
            }
        }
    }
}

/// Whether a refusal depends on rows, and so must not be returned before they are synced.
fn depends_on_rows(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Full
            | ErrorKind::KeyExists
            | ErrorKind::TaskNotFound
            | ErrorKind::WrongTube
            | ErrorKind::WrongState
            | ErrorKind::LeaseLost
            | ErrorKind::TubeNotFound
            | ErrorKind::ScheduleNotFound
            | ErrorKind::TubeExists
            | ErrorKind::TubeMismatch
            | ErrorKind::TubeBusy
            | ErrorKind::HasDependents
            | ErrorKind::Cycle
            | ErrorKind::TooDeep
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::take::Take;
    use crate::format::{Range, Tag};
    use crate::store::disk::{Disk, DiskFile, Found, Staging};
    use crate::store::{Access, Folder};
    use crate::words::limits::SWEEP_TASKS;
    use crate::words::sync::{AtomicBool, Mutex};
    use crate::{Queue, Tube, TubeOptions};
    use std::path::Path;
    use std::{fmt, io};

    /// Regression: the handle of every thread that had ended was kept until the close, and with it
    /// the thread's stack: one for each time that a first callback was set.
    #[test]
    fn an_ended_thread_leaves_no_handle() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let core = &tube.inner.core;
        for _ in 0..10 {
            core.spawn("t", |_| ()).unwrap();
            while !core.threads.lock().iter().all(has_ended) {
                crate::words::sync::yield_now();
            }
        }
        assert_eq!(core.threads.lock().len(), 1);
    }

    /// Regression: each read of a tube with 128 or more open lines looked 32 times at the same
    /// heads, none of which moved.
    #[test]
    fn a_read_does_not_look_again_at_heads_that_are_open() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        for user in 0..200 {
            // A name without a throttle lets all tasks through: each line is open.
            tube.task(b"x").throttle(&format!("user {user}")).put().unwrap();
        }
        let is_more = || tube.inner.core.apply(&CatchUp { tube: tube.number }).unwrap().0;
        assert!(!is_more());
        // Those that are closed by now move, in several steps.
        for user in 0..200 {
            queue.set_throttle(&format!("user {user}"), 1).unwrap();
        }
        let tasks: Vec<_> = (0..200).map(|_| tube.take().unwrap()).collect();
        for user in 0..200 {
            tube.task(b"x").throttle(&format!("user {user}")).put().unwrap();
        }
        assert!(is_more());
        while is_more() {}
        drop(tasks);
    }

    type Hook = Box<dyn FnOnce() + Send>;

    /// A folder, or its base, that calls something at the next sync of the base.
    struct Hooked<F>(F, Arc<Mutex<Option<Hook>>>);

    impl<F> fmt::Debug for Hooked<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("hooked")
        }
    }

    impl Disk for Hooked<Folder> {
        fn folder(&self) -> &Path {
            self.0.folder()
        }

        fn found(&self) -> io::Result<Found> {
            self.0.found()
        }

        fn stage(&self) -> io::Result<Box<dyn Staging>> {
            self.0.stage()
        }

        fn open_journal(&self, access: Access) -> io::Result<Option<Arc<dyn DiskFile>>> {
            self.0.open_journal(access)
        }

        fn open_base(&self, access: Access) -> io::Result<Arc<dyn DiskFile>> {
            let base = self.0.open_base(access)?;
            Ok(Arc::new(Hooked(base, self.1.clone())))
        }
    }

    impl DiskFile for Hooked<Arc<dyn DiskFile>> {
        fn len(&self) -> io::Result<u64> {
            self.0.len()
        }

        fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.0.read_at(offset, out)
        }

        fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.write_at(offset, data)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.set_len(len)
        }

        fn sync(&self) -> io::Result<()> {
            let hook = self.1.lock().take();
            hook.into_iter().for_each(|hook| hook());
            self.0.sync()
        }
    }

    /// Regression: a take that was let in before a close, and got the engine's lock after the close
    /// had returned the leases, left one behind. The next opening charged it, and buried the task
    /// after its last attempt.
    #[test]
    fn a_close_returns_the_lease_of_a_take_that_it_came_into() {
        let home = tempfile::tempdir().unwrap();
        let (path, hook) = (home.path().join("q"), Arc::<Mutex<Option<Hook>>>::default());
        let disk = Arc::new(Hooked(Folder::at(&path), hook.clone()));
        let queue = Queue::builder().by_hand(true).disk(disk).open_disk().unwrap();
        let tube = queue.create_tube("t", TubeOptions::default().max_attempts(1)).unwrap();
        tube.put(b"x").unwrap();
        // The close syncs the base after it has returned the leases, without the lock.
        let (core, number) = (Arc::downgrade(&queue.inner), tube.number);
        let took = Arc::new(AtomicBool::new(false));
        let has_taken = took.clone();
        *hook.lock() = Some(Box::new(move || {
            let inner = core.upgrade().unwrap();
            let (taken, _) = submit(&inner.core, &Take::new(number, 1, 0)).unwrap();
            has_taken.store(taken.len() == 1, Ordering::Release);
        }));
        queue.close().unwrap();
        assert!(took.load(Ordering::Acquire));
        drop((queue, tube));
        let queue = Queue::open(&path).unwrap();
        assert_eq!(queue.tube("t").unwrap().try_take().unwrap().unwrap().attempt(), 1);
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }

    fn count(core: &Shared, tag: Tag) -> u64 {
        core.state.lock().store.count(Range::of(tag))
    }

    const GROUPS: usize = 3 * SWEEP_TASKS;
    const BEGUN: Changed = Changed::Done { is_any: true, is_left: true };

    /// Groups of which one task is in flight and two are ready. The leases last over an opening.
    fn grouped(queue: &Queue) -> Tube {
        let tube = queue.tube("t").unwrap().durability(Durability::Relaxed);
        for task in 0..3 * GROUPS {
            tube.task(b"x").group(&(task % GROUPS).to_string()).put().unwrap();
        }
        let bob = queue.consumer_with_grace("bob", Duration::from_secs(3600)).unwrap();
        let taken = tube.by(&bob).take_many(3 * GROUPS).unwrap();
        assert_eq!(taken.len(), GROUPS);
        taken.into_iter().for_each(|task| _ = task.detach());
        tube
    }

    fn change(tube: &Tube, in_flight: i64) -> Changed {
        let (name, value) = ("in_flight", Some(&in_flight.into()));
        tube.inner.core.apply(&ChangeSetting { owner: tube.number, name, value }).unwrap().0
    }

    /// Each step is a commit of its own, and between two of them others get the lock. A call that
    /// comes meanwhile does not wait for the steps.
    #[test]
    fn a_change_of_in_flight_goes_in_steps_and_others_go_between() {
        let queue = Queue::builder().by_hand(true).in_memory().unwrap();
        let (tube, other) = (grouped(&queue), queue.tube("other").unwrap());
        let core = &tube.inner.core;
        assert_eq!(change(&tube, 2), BEGUN);
        for step in 1..=3 {
            let heads = count(core, Tag::OpenHead);
            assert_eq!(heads, (step * SWEEP_TASKS) as u64, "a sweep in each step");
            other.put(b"x").unwrap();
            assert!(other.take().unwrap().ack().is_ok());
            assert_eq!(count(core, Tag::Work), u64::from(step < 3));
            assert_eq!(queue.check().unwrap(), [""; 0]);
            assert_eq!(core.apply(&FollowOptions { tube: Some(tube.number) }).unwrap().0, step < 3);
        }
        // A call does all of it.
        tube.set("in_flight", 1).unwrap();
        assert_eq!((count(core, Tag::OpenHead), count(core, Tag::Work)), (0, 0));
        // Also what an earlier one has left.
        assert_eq!(change(&tube, 3), BEGUN);
        tube.set("in_flight", 2).unwrap();
        assert_eq!((count(core, Tag::OpenHead), count(core, Tag::Work)), (GROUPS as u64, 0));
        assert_eq!(tube.take_many(2 * GROUPS).unwrap().len(), GROUPS);
        // And a tick does what a call has left.
        assert_eq!(change(&tube, 1), BEGUN);
        queue.tick().unwrap();
        assert_eq!((count(core, Tag::OpenHead), count(core, Tag::Work)), (0, 0));
        assert_eq!(queue.check().unwrap(), [""; 0]);
    }

    /// A kill between two steps: each group has the one number or the other, and after the opening
    /// all follow.
    #[test]
    fn a_kill_between_the_steps_of_a_change_loses_none() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("queue");
        let open = |path: &std::path::Path| Queue::builder().by_hand(true).open(path).unwrap();
        let queue = open(&path);
        let tube = grouped(&queue);
        let core = &tube.inner.core;
        assert_eq!(change(&tube, 2), BEGUN);
        for steps in 1..=2 {
            queue.flush().unwrap();
            let copy = home.path().join(steps.to_string());
            std::fs::create_dir(&copy).unwrap();
            for name in ["base.redb", "journal"] {
                std::fs::copy(path.join(name), copy.join(name)).unwrap();
            }
            let opened = open(&copy);
            assert_eq!(opened.check().unwrap(), [""; 0], "{steps} steps");
            let again = opened.tube("t").unwrap();
            assert_eq!(again.setting("in_flight").unwrap().value, 2.into());
            assert_eq!(count(&again.inner.core, Tag::Work), 1);
            let last = (GROUPS - 1).to_string();
            assert!(again.try_take_group("0").unwrap().is_some(), "the first follows");
            assert!(again.try_take_group(&last).unwrap().is_none(), "the last does not yet");
            assert_eq!(again.take_many(GROUPS).unwrap().len(), steps * SWEEP_TASKS);
            opened.tick().unwrap();
            assert_eq!(count(&again.inner.core, Tag::Work), 0);
            assert_eq!(again.take_many(3 * GROUPS).unwrap().len(), GROUPS);
            assert_eq!(opened.check().unwrap(), [""; 0]);
            opened.close().unwrap();
            assert!(core.apply(&FollowOptions { tube: Some(tube.number) }).unwrap().0);
        }
        queue.close().unwrap();
    }
}
