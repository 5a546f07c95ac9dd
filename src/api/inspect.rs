//! Reads that change nothing: counts, waiters, taken tasks. Counts are stored, so reading them
//! costs the same at ten tasks and at ten million.

use crate::api::queue::Queue;
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::engine::{gates, query, tube_cache};
use crate::runtime::commit::EngineState as Engine;
use crate::runtime::listing::Listing;
use crate::runtime::shared::Shared;
use crate::runtime::wake::{WaitPlace, Wake};
use crate::words::clock::{NEVER, Now};
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::NAMES_SHOWN;
use crate::words::options::TubeOptions;
use crate::words::task::{Cause, State, TakenInfo};
use std::time::Duration;

/// How many tasks a tube has in each state, and how many each verb has moved, as of one instant.
/// From [`Tube::stats`] and [`Queue::stats`](crate::Queue::stats); the cost does not depend on the
/// number of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TubeStats {
    /// The tube's name.
    pub tube: String,
    /// Tasks in the state Ready, also those in locked groups or a paused tube.
    pub ready: u64,
    /// Those of them that stand behind a closed gate of their tube, such as its
    /// [limit](crate::TubeOptions::limit). A pause and a locked group are no such gates.
    pub limited: u64,
    /// Tasks whose delay has not ended.
    pub delayed: u64,
    /// Tasks that wait for [others](crate::NewTask::after).
    pub blocked: u64,
    /// Tasks that a taker holds, or that wait for a consumer's grace to end.
    pub taken: u64,
    /// Those of them that are [stalled](crate::Lapse): their ttr is over, and their grace is not.
    pub stalled: u64,
    /// Buried tasks, without those in the trash.
    pub buried: u64,
    /// Tasks in the trash, which count in no state and not against the capacity.
    pub trashed: u64,
    /// The tasks in these five states together, without those in the trash.
    pub total: u64,
    /// Finished tasks that the tube [keeps](crate::TubeOptions::keep_finished).
    pub finished: u64,
    /// [Schedules](crate::Queue::schedule) whose children are put into the tube, also those that
    /// are paused.
    pub schedules: u64,
    /// Tasks that were acked or deleted since the queue was opened.
    pub done: u64,
    /// Tasks that each verb has moved since the queue was opened.
    pub calls: Calls,
}

/// How many tasks each verb, or the passing of time, has moved since the queue was opened. Each
/// field counts the steps of one [`Cause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Calls {
    /// Tasks put.
    pub put: u64,
    /// Tasks taken or claimed.
    pub take: u64,
    /// Leases extended, or taken over by `resume`.
    pub touch: u64,
    /// Tasks acked.
    pub ack: u64,
    /// Tasks released, also by `release_all`.
    pub release: u64,
    /// Tasks given to `retry`, also those that it buried after their last attempt.
    pub retry: u64,
    /// Tasks buried by `bury` or `fail`, or because they could not be decoded.
    pub bury: u64,
    /// Tasks kicked.
    pub kick: u64,
    /// Tasks put into the trash.
    pub trash: u64,
    /// Tasks restored from it.
    pub restore: u64,
    /// Tasks deleted, and finished ones in whose place a keyed put has put a new one.
    pub delete: u64,
    /// Tasks changed by `update`.
    pub update: u64,
    /// Tasks whose step was done and that [went on](crate::Task::advance).
    pub advance: u64,
    /// Tasks that came from another tube, or went there by [`move_to`](Tube::move_to).
    pub moved: u64,
    /// Tasks that came from another tube, or went there, with a [merge](Queue::merge).
    pub merged: u64,
    /// Tasks that waited for others and wait for none any more.
    pub unblock: u64,
    /// Tasks that were removed because one that they came after ended otherwise than they waited
    /// for.
    pub cancel: u64,
    /// Delays that ended.
    pub delay: u64,
    /// Tasks whose ttl ended.
    pub ttl: u64,
    /// Leases whose ttr passed, and their grace if the tube has one.
    pub ttr: u64,
    /// Leases whose grace began.
    pub stall: u64,
    /// Tasks taken away from their holders by [`force_timeout`](Tube::force_timeout).
    pub timeout: u64,
    /// Tasks returned because their guard or session was dropped.
    pub lost: u64,
    /// Tasks that had ended, and that the tube's [`Retention`](crate::Retention) removed.
    pub retention: u64,
}

/// A tube and its present state, from [`Tube::info`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TubeInfo {
    /// Its name.
    pub name: String,
    /// Its options.
    pub options: TubeOptions,
    /// Whether it is paused: takes wait, and only [`claim`](Tube::claim) takes a task.
    pub paused: bool,
    /// How long the pause still lasts, in [queue time](crate#time). None without an end, and while
    /// the tube is not paused.
    pub pause_left: Option<Duration>,
    /// The name of the tube that its tasks are being [moved to](Queue::merge): until that has
    /// ended takes wait. Empty if that tube was dropped.
    pub merges_into: Option<String>,
    /// Whether its tasks are in memory only.
    pub temporary: bool,
    /// How many takes wait for a task of it.
    pub waiters: usize,
    /// Its counts.
    pub stats: TubeStats,
}

/// A call that waits, from [`Queue::waiters`](crate::Queue::waiters).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterInfo {
    /// The tube's name. Of a take from [several](crate::Tubes) the first one's, in their order;
    /// empty while no tube has their prefix.
    pub tube: String,
    /// The names of all tubes that it waits on, in their order. Of more than 100 the first 100.
    pub tubes: Vec<String>,
    /// How many they are.
    pub tube_count: usize,
    /// What for.
    pub waits_for: WaitsFor,
    /// The named consumer that waits, if there is one.
    pub consumer: Option<String>,
    /// How long it has been waiting, in [lease time](crate#time).
    pub waiting_for: Duration,
    /// How long it will continue to wait, in lease time. None without a limit.
    pub left: Option<Duration>,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitsFor {
    /// A take, for a task.
    Task,
    /// A [`wait_ready`](crate::Tube::wait_ready), for a ready task that it does not take.
    Ready,
    /// A put, for room, see [`wait_for_room`](crate::NewTask::wait_for_room).
    Room,
}

/// The counts of one tube, after all that is due in it was handled.
pub(crate) fn stats(inner: &QueueInner, number: u32) -> Result<TubeStats> {
    inner.core.catch_up(number)?;
    inner.core.look_at(|state, now| {
        let tube = query::tube(&state.store, number)?;
        Ok(counted(state, &tube, now))
    })
}

fn counted(state: &Engine, tube: &tube_cache::TubeEntry, now: Now) -> TubeStats {
    let in_state = |of| query::count(&state.store, tube, of);
    let counted = state.derived.counted(tube.number);
    let of = |cause: Cause| counted.get(cause as usize).copied().unwrap_or(0);
    let calls = Calls {
        put: of(Cause::Put),
        take: of(Cause::Take),
        touch: of(Cause::Touch),
        ack: of(Cause::Ack),
        release: of(Cause::Release),
        retry: of(Cause::Retry),
        bury: of(Cause::Bury),
        kick: of(Cause::Kick),
        trash: of(Cause::Trash),
        restore: of(Cause::Restore),
        delete: of(Cause::Delete),
        update: of(Cause::Update),
        advance: of(Cause::Advance),
        moved: of(Cause::Move),
        merged: of(Cause::Merge),
        unblock: of(Cause::Unblock),
        cancel: of(Cause::Cancel),
        delay: of(Cause::Delay),
        ttl: of(Cause::Ttl),
        ttr: of(Cause::Ttr),
        stall: of(Cause::Stall),
        timeout: of(Cause::Timeout),
        lost: of(Cause::Lost),
        retention: of(Cause::Retention),
    };
    let [ready, delayed, blocked] = [State::Ready, State::Delayed, State::Blocked].map(in_state);
    let [taken, buried, finished] = [State::Taken, State::Buried, State::Done].map(in_state);
    TubeStats {
        trashed: query::trashed(&state.store, tube),
        limited: gates::limited(&state.store, tube, now).unwrap_or(0),
        stalled: state.derived.stalled(tube.number),
        schedules: tube.row.schedules.into(),
        tube: tube.row.name.clone(),
        ready,
        delayed,
        blocked,
        taken,
        buried,
        total: ready + delayed + blocked + taken + buried,
        finished,
        done: calls.ack + calls.delete,
        calls,
    }
}

/// A tube as `info` returns it.
fn shown(core: &Shared, state: &Engine, tube: &tube_cache::TubeEntry, now: Now) -> TubeInfo {
    let row = tube.row.clone();
    let left = || Duration::from_micros(row.pause_end().saturating_sub(now.queue));
    let name_of = |tube: u32| state.tube(tube).map(|tube| tube.row.name.clone());
    TubeInfo {
        merges_into: row.merges_into().map(|into| name_of(into).unwrap_or_default()),
        paused: row.pause().is_some(),
        pause_left: (row.pause_end() != NEVER).then(left),
        name: row.name,
        temporary: row.options.temporary,
        options: row.options,
        waiters: core.takers.count(tube.number),
        stats: counted(state, tube, now),
    }
}

/// The first names of the tubes that a call waits on, and how many they are.
fn waits_on(state: &Engine, at: WaitPlace) -> Option<(Vec<String>, usize)> {
    match at {
        WaitPlace::Tube(tube) => {
            let tube = query::tube(&state.store, tube).ok()?;
            Some((vec![tube.row.name], 1))
        }
        WaitPlace::Set(set) => {
            let set = state.derived.sets.as_ref()?.get(set)?;
            Some((set.names(NAMES_SHOWN), set.len()))
        }
    }
}

/// Reads of all tubes.
impl Queue {
    /// Every tube with its options, its counts, whether it is paused and how many takes wait for
    /// its tasks, also where that is none; in the order in which the tubes were made. Each tube is
    /// shown as of one instant. Other calls run between the tubes, which are read a few at a time.
    /// A damaged tube is left out; [`check`](Queue::check) reports it.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// queue.tube("mail")?.pause()?;
    /// let tubes = queue.overview()?;
    /// let line = |at: usize| (&tubes[at].name[..], tubes[at].stats.ready, tubes[at].paused);
    /// assert_eq!((line(0), line(1)), (("letters", 1, false), ("mail", 0, true)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`stats`](Queue::stats).
    pub fn overview(&self) -> Result<Vec<TubeInfo>> {
        self.all_tubes("overview", shown)
    }

    /// The counts of every tube, in the order in which the tubes were made. Those of each tube are
    /// as of one instant. Other calls run between the tubes, which are read a few at a time. A
    /// damaged tube is left out; [`check`](Queue::check) reports it.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// queue.tube("mail")?;
    /// let stats = queue.stats()?;
    /// assert_eq!((stats[0].tube.as_str(), stats[0].ready), ("letters", 1));
    /// assert_eq!((stats[1].tube.as_str(), stats[1].ready), ("mail", 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn stats(&self) -> Result<Vec<TubeStats>> {
        self.all_tubes("stats", |_, state, tube, now| counted(state, tube, now))
    }

    /// What is shown of every tube, after all that is due in it was handled.
    fn all_tubes<R>(
        &self,
        action: &'static str,
        show: impl Fn(&Shared, &Engine, &tube_cache::TubeEntry, Now) -> R,
    ) -> Result<Vec<R>> {
        self.call(action, |core| {
            for number in core.of_tubes(|_, tube, _| Some(tube.number))? {
                core.catch_up(number)?;
            }
            core.of_tubes(|state, tube, now| Some(show(core, state, tube, now)))
        })
    }

    /// The calls that wait, in the order in which they began to wait: takes, puts that wait for
    /// room, and calls of [`wait_ready`](crate::Tube::wait_ready).
    ///
    /// ```
    /// use tubewell::{Queue, Stop, TubeOptions, WaitsFor};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().capacity(1))?;
    /// tube.put(b"a")?;
    /// let stop = Stop::new();
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| tube.task(b"b").wait_for_room_until(&stop).put());
    ///     while queue.waiters()?.is_empty() {
    ///         std::thread::yield_now();
    ///     }
    ///     let waiter = queue.waiters()?.remove(0);
    ///     stop.stop();
    ///     assert_eq!((&waiter.tube[..], waiter.waits_for), ("letters", WaitsFor::Room));
    ///     Ok(())
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`stats`](Queue::stats).
    pub fn waiters(&self) -> Result<Vec<WaiterInfo>> {
        let core = &self.inner.core;
        let kinds = [
            (&*core.takers, WaitsFor::Task),
            (&core.ready_waiters, WaitsFor::Ready),
            (&core.room, WaitsFor::Room),
        ];
        let listed = |(wake, waits_for): (&Wake, _)| {
            wake.list().into_iter().map(move |waiting| (waiting, waits_for))
        };
        let mut waiting: Vec<_> = kinds.into_iter().flat_map(listed).collect();
        waiting.sort_by_key(|(waiting, _)| waiting.since);
        let look = |state: &Engine, now: Now| {
            let (view, mut waiters) = (&state.store, Vec::new());
            for (seat, waits_for) in &waiting {
                // A tube that was dropped while calls wait has no name.
                let Some((tubes, tube_count)) = waits_on(state, seat.at) else { continue };
                let left = (seat.until != NEVER)
                    .then(|| Duration::from_micros(seat.until.saturating_sub(now.lease)));
                waiters.push(WaiterInfo {
                    tube: tubes.first().cloned().unwrap_or_default(),
                    tubes,
                    tube_count,
                    waits_for: *waits_for,
                    consumer: query::holder(view, seat.holder)?,
                    waiting_for: Duration::from_micros(now.lease.saturating_sub(seat.since)),
                    left,
                });
            }
            Ok(waiters)
        };
        self.call("list waiters", |core| core.look_at(look))
    }

    /// The taken tasks of all tubes, without those of damaged tubes: tube by tube in the order in
    /// which the tubes were made, those of a tube by id.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// let taken = queue.taken()?;
    /// assert_eq!((taken[0].id, taken[0].tube.as_str()), (task.id(), "letters"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`stats`](Queue::stats).
    pub fn taken(&self) -> Result<Vec<TakenInfo>> {
        self.call("list taken tasks", |core| {
            let mut taken = Vec::new();
            for number in core.of_tubes(|_, tube, _| Some(tube.number))? {
                let mut listing = Listing::of_taken(number);
                loop {
                    match listing.next_taken(core) {
                        Ok(Some(info)) => taken.push(info),
                        Ok(None) => break,
                        Err(error) if error.kind() == ErrorKind::TubeNotFound => break,
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(taken)
        })
    }
}

impl<T: ?Sized> Tube<T> {
    /// The tube's options, whether it is paused, its waiters and its counts.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    /// tube.pause()?;
    /// let info = tube.info()?;
    /// assert_eq!((info.name.as_str(), info.paused, info.stats.ready), ("letters", true, 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if it was dropped;
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn info(&self) -> Result<TubeInfo> {
        let (core, number) = (&self.inner.core, self.number);
        let look = |state: &Engine, now: Now| {
            let tube = query::tube(&state.store, number)?;
            Ok(shown(core, state, &tube, now))
        };
        let info = core.catch_up(number).and_then(|()| core.look_at(look));
        self.name_errors("info", info)
    }

    /// Its counts, after all that is due was handled.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"a")?;
    /// tube.put(b"b")?;
    /// tube.take()?.ack()?;
    /// let stats = tube.stats()?;
    /// assert_eq!((stats.ready, stats.done, stats.calls.put), (1, 1, 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn stats(&self) -> Result<TubeStats> {
        self.name_errors("stats", stats(&self.inner, self.number))
    }

    /// How many tasks it has, in every state but Done, without those in the [trash](Tube::trash).
    ///
    /// ```
    /// let tube = tubewell::Queue::in_memory()?.tube("letters")?;
    /// tube.put_many([*b"a", *b"b"])?;
    /// let task = tube.take()?;
    /// assert_eq!(tube.len()?, 2); // the taken one, too
    /// task.ack()?;
    /// assert_eq!(tube.len()?, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn len(&self) -> Result<u64> {
        self.name_errors("len", stats(&self.inner, self.number).map(|stats| stats.total))
    }

    /// Whether it has no task, in any state but Done, but perhaps some in the [trash](Tube::trash).
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}
