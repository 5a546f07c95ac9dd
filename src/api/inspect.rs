//! Reads that change nothing: counts, tasks, waiters, space. Counts are stored, so reading them
//! costs the same at ten tasks and at ten million.

use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::engine::{query, tube_cache};
use crate::format::View;
use crate::format::key::{self, Key};
use crate::format::row::ConsumerRow;
use crate::runtime::commit::EngineState as Engine;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::options::TubeOptions;
use crate::words::sync::Arc;
use crate::words::task::{Cause, State, TaskId, TaskInfo};
use std::fmt;
use std::time::Duration;

/// How many tasks a tube has in each state, and how often each verb was called, as of one instant.
/// The cost does not depend on the number of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TubeStats {
    /// The tube's name.
    pub tube: String,
    /// Tasks in the state Ready, also those in locked groups or a paused tube.
    pub ready: u64,
    /// Tasks whose delay has not ended.
    pub delayed: u64,
    /// Tasks that a taker holds.
    pub taken: u64,
    /// Buried tasks.
    pub buried: u64,
    /// All of them.
    pub total: u64,
    /// Tasks that were acked or deleted since the queue was opened.
    pub done: u64,
    /// Calls since the queue was opened.
    pub calls: Calls,
}

/// How many tasks each verb, or the passing of time, has moved since the queue was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Calls {
    /// Tasks put.
    pub put: u64,
    /// Tasks taken.
    pub take: u64,
    /// Leases extended.
    pub touch: u64,
    /// Tasks acked.
    pub ack: u64,
    /// Tasks released.
    pub release: u64,
    /// Tasks returned after a failure.
    pub retry: u64,
    /// Tasks buried, by `bury` or `fail`.
    pub bury: u64,
    /// Tasks kicked.
    pub kick: u64,
    /// Tasks deleted.
    pub delete: u64,
    /// Delays that ended.
    pub delay: u64,
    /// Tasks whose ttl ended.
    pub ttl: u64,
    /// Leases whose ttr passed.
    pub ttr: u64,
    /// Tasks returned because their guard or session was dropped.
    pub lost: u64,
}

/// A tube and its present state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TubeInfo {
    /// Its name.
    pub name: String,
    /// Its options.
    pub options: TubeOptions,
    /// Whether it is paused: no task can be taken.
    pub paused: bool,
    /// Whether its tasks are in memory only.
    pub temporary: bool,
    /// How many calls wait for a task of it.
    pub waiters: usize,
    /// Its counts.
    pub stats: TubeStats,
}

/// A call that waits for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterInfo {
    /// The tube's name.
    pub tube: String,
    /// The named consumer that waits, if there is one.
    pub consumer: Option<String>,
    /// How long it has been waiting, in [lease time](crate#time).
    pub waiting_for: Duration,
    /// How long it will continue to wait, in lease time. None without a limit.
    pub left: Option<Duration>,
}

/// A taken task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenInfo {
    /// The tube's name.
    pub tube: String,
    /// The task.
    pub id: TaskId,
    /// The consumer that holds it, if it has a name.
    pub holder: Option<String>,
    /// How long it has been held, in [lease time](crate#time).
    pub held_for: Duration,
}

pub use crate::store::{BaseSpace, Space};

/// The counts of one tube, after all that is due in it was handled.
pub(crate) fn stats(hold: &QueueInner, number: u32) -> Result<TubeStats> {
    hold.core().catch_up(number)?;
    hold.core().look_at(|state, _| Ok(counted(state, query::tube(&state.store, number)?)))
}

/// The counts of all tubes as of one instant, after all that is due in each was handled.
pub(crate) fn all_stats(hold: &QueueInner) -> Result<Vec<TubeStats>> {
    for number in hold.core().look(|view, _| query::sound_numbers(view))? {
        hold.core().catch_up(number)?;
    }
    hold.core().look_at(|state, _| {
        let mut all = Vec::new();
        for number in query::numbers(&state.store)? {
            let tube = query::sound_tube(&state.store, number)?;
            all.extend(tube.map(|tube| counted(state, tube)));
        }
        Ok(all)
    })
}

fn counted(state: &Engine, tube: tube_cache::TubeEntry) -> TubeStats {
    let counts = query::counts(&state.store, &tube);
    let counted = state.derived.counted(tube.number);
    let of = |cause: Cause| counted.map_or(0, |counted| counted.of(cause));
    let calls = Calls {
        put: of(Cause::Put),
        take: of(Cause::Take),
        touch: of(Cause::Touch),
        ack: of(Cause::Ack),
        release: of(Cause::Release),
        retry: of(Cause::Retry),
        bury: of(Cause::Bury),
        kick: of(Cause::Kick),
        delete: of(Cause::Delete),
        delay: of(Cause::Delay),
        ttl: of(Cause::Ttl),
        ttr: of(Cause::Ttr),
        lost: of(Cause::Lost),
    };
    let query::StateCounts { ready, delayed, taken, buried } = counts;
    TubeStats {
        tube: tube.row.name,
        ready,
        delayed,
        taken,
        buried,
        total: ready + delayed + taken + buried,
        done: calls.ack + calls.delete,
        calls,
    }
}

/// The calls that wait for tasks, the longest wait first.
pub(crate) fn waiters(hold: &QueueInner) -> Result<Vec<WaiterInfo>> {
    let core = hold.core();
    let waiting = core.takers.list();
    core.look(|view, now| {
        let mut waiters = Vec::new();
        for seat in waiting {
            // A tube that was dropped while calls wait has no name.
            let Ok(tube) = query::tube(view, seat.tube) else { continue };
            let left = (seat.until != crate::words::clock::NEVER)
                .then(|| Duration::from_micros(seat.until.saturating_sub(now.lease)));
            waiters.push(WaiterInfo {
                tube: tube.row.name,
                consumer: name_of(view, seat.holder)?,
                waiting_for: Duration::from_micros(now.lease.saturating_sub(seat.since)),
                left,
            });
        }
        Ok(waiters)
    })
}

fn name_of(view: &dyn View, consumer: u32) -> Result<Option<String>> {
    let row = view.get(&key::consumer(consumer))?;
    Ok(row.and_then(|row| ConsumerRow::decode(&row)).map(|row| row.name))
}

/// The taken tasks of all tubes, in pages.
pub(crate) fn taken(hold: &QueueInner) -> Result<Vec<TakenInfo>> {
    let mut taken = Vec::new();
    for number in hold.core().look(|view, _| query::sound_numbers(view))? {
        let mut from = TaskId::new(0);
        loop {
            let page = hold.core().look_in(number, |view, now| {
                let tube = query::tube(view, number)?;
                let page = query::taken(view, &tube, from)?;
                Ok((tube.row.name, page, now.lease))
            });
            let (tube, page, now) = match page {
                Err(error) if error.kind() == ErrorKind::TubeNotFound => break,
                page => page?,
            };
            let Some((last, ..)) = page.last() else { break };
            from = TaskId::new(last.get() + 1);
            taken.extend(page.into_iter().map(|(id, holder, since)| TakenInfo {
                tube: tube.clone(),
                id,
                holder,
                held_for: Duration::from_micros(now.saturating_sub(since)),
            }));
        }
    }
    Ok(taken)
}

impl<T: ?Sized> Tube<T> {
    /// The tube's options, whether it is paused, its waiters and its counts.
    ///
    /// # Errors
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if it was dropped;
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn info(&self) -> Result<TubeInfo> {
        let (core, number) = (self.hold.core(), self.at.number);
        let look = |state: &Engine, _| {
            let tube = query::tube(&state.store, number)?;
            Ok((tube.row.clone(), counted(state, tube)))
        };
        let seen = core.catch_up(number).and_then(|()| core.look_at(look));
        let info = seen.map(|(row, stats)| TubeInfo {
            name: row.name,
            paused: row.paused,
            temporary: row.options.temporary,
            options: row.options,
            waiters: core.takers.count(number),
            stats,
        });
        self.name_errors("info", info)
    }

    /// Its counts, after all that is due was handled.
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn stats(&self) -> Result<TubeStats> {
        self.name_errors("stats", stats(&self.hold, self.at.number))
    }

    /// How many tasks it has, in every state.
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn len(&self) -> Result<u64> {
        self.name_errors("len", stats(&self.hold, self.at.number).map(|stats| stats.total))
    }

    /// Whether it has no task, in any state.
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// All that the queue knows of a task. Changes nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.task(b"hello").group("ada").delay(Duration::from_secs(60)).put()?;
    /// let task = tube.peek(id)?;
    /// assert_eq!((task.state, task.payload), (State::Delayed, b"hello".to_vec()));
    /// assert_eq!((task.group.as_deref(), task.attempts), (Some("ada"), 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound); as [`info`](Tube::info).
    pub fn peek(&self, id: TaskId) -> Result<TaskInfo> {
        let info = self.hold.core().look_in(self.at.number, |view, now| {
            let tube = query::tube(view, self.at.number)?;
            query::info(view, &tube, id, now)
        });
        self.name_errors("peek", info.map_err(|error| error.on_task(id)))
    }

    /// The next task of a state: of the ready tasks the one that `take` would return, of the
    /// delayed ones the first to become ready, of the buried ones the first to be kicked, of the
    /// taken ones the lowest id.
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn peek_next(&self, state: State) -> Result<Option<TaskInfo>> {
        let info = self.hold.core().look_in(self.at.number, |view, now| {
            let tube = query::tube(view, self.at.number)?;
            query::next(view, &tube, state, now)
        });
        self.name_errors("peek", info)
    }

    /// The tasks of a state, read in pages. A task that moves in the meantime may be missing, or
    /// appear in the state that it had when its page was read.
    ///
    /// ```
    /// use tubewell::{Queue, Result, State};
    ///
    /// # fn main() -> Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"a")?;
    /// tube.put(b"b")?;
    /// let payloads: Result<Vec<_>> =
    ///     tube.tasks(State::Ready).map(|task| Ok(task?.payload)).collect();
    /// assert_eq!(payloads?, [b"a", b"b"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn tasks(&self, state: State) -> Tasks {
        let (hold, number, name) = (self.hold.clone(), self.at.number, self.at.name.clone());
        Tasks { hold, number, name, state, page: Vec::new().into_iter(), next: Next::Start }
    }
}

/// The tasks of one state, from [`Tube::tasks`].
pub struct Tasks {
    hold: Arc<QueueInner>,
    number: u32,
    name: Box<str>,
    state: State,
    page: std::vec::IntoIter<TaskInfo>,
    next: Next,
}

enum Next {
    Start,
    From(Key),
    End,
}

impl Iterator for Tasks {
    type Item = Result<TaskInfo>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(task) = self.page.next() {
                return Some(Ok(task));
            }
            let from = match std::mem::replace(&mut self.next, Next::End) {
                Next::Start => None,
                Next::From(key) => Some(key),
                Next::End => return None,
            };
            match self.hold.core().page(self.number, self.state, from) {
                Ok((page, next)) => {
                    self.page = page.into_iter();
                    self.next = next.map_or(Next::End, Next::From);
                }
                Err(error) => {
                    let error: Error = error.during("list").in_tube(&self.name);
                    return Some(Err(error));
                }
            }
        }
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("tube", &self.name).finish_non_exhaustive()
    }
}
