//! Tracked tasks: a few tasks that someone watches, by their ids.

use crate::api::queue::{Queue, in_any_tube};
use crate::api::queue_inner::QueueInner;
use crate::engine::description;
use crate::engine::track::tracked_from;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::limits::TAGS_OF_STEP;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::{TaskId, TaskSummary};
use std::collections::VecDeque;
use std::time::SystemTime;

/// A tracked task, from [`Queue::tracked`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TrackedTask {
    /// Its number.
    pub id: TaskId,
    /// Since when it is tracked, in [queue time](crate#time).
    pub since: SystemTime,
    /// The task; none if it is gone.
    pub task: Option<TaskSummary>,
}

/// Tracked tasks.
impl Queue {
    /// Tracks a task, whatever its tube: [`tracked`](Queue::tracked) lists it until it is
    /// [untracked](Queue::untrack), also after it is gone, and its events are
    /// [marked](crate::Event::is_tracked), so that [`EventFilter::tracked`] passes them alone. The
    /// id is stored in the queue. Returns whether it was not tracked before.
    ///
    /// A queue tracks at most 10 000 ids, those of tasks that are gone among them: nothing but
    /// `untrack` ends the tracking of an id, also not the end or the delete of its task. They are
    /// kept in memory. Where many are tracked, untrack each once its end was seen, or those that
    /// [`tracked`](Queue::tracked) lists without a task.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use tubewell::{Cause, EventFilter, Queue, Result};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let ids = tube.put_many([*b"to ada", *b"to bob"])?;
    /// let (sender, received) = mpsc::channel();
    /// let subscription = queue.on_event(EventFilter::new().tracked(), move |event| {
    ///     let _ = sender.send((event.task, event.cause));
    /// })?;
    /// assert!(queue.track(ids[1])?);
    /// tube.take()?.ack()?; // of the other one
    /// tube.take()?.ack()?;
    /// let events: Vec<_> = received.iter().take(3).collect();
    /// let of = |cause| (Some(ids[1]), cause);
    /// assert_eq!(events, [of(Cause::Track), of(Cause::Take), of(Cause::Ack)]);
    ///
    /// let tracked = queue.tracked().collect::<Result<Vec<_>>>()?;
    /// assert!(tracked[0].id == ids[1] && tracked[0].task.is_none()); // it is gone
    /// assert!(queue.untrack(ids[1])?);
    /// # drop(subscription);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound) if no tube has it; [`Full`](ErrorKind::Full) if
    /// 10 000 ids are tracked; [`DiskFull`](ErrorKind::DiskFull); [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction); [`Unknown`](ErrorKind::Unknown) if the sync
    /// failed.
    ///
    /// [`EventFilter::tracked`]: crate::EventFilter::tracked
    pub fn track(&self, id: TaskId) -> Result<bool> {
        self.call("track", |core| in_any_tube(id, core.track(id, self.inner.durability())))
    }

    /// Tracks an id no more, of a task, also of a damaged one, or of one that is gone. Returns
    /// whether it was tracked. It is not refused on a full disk.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// queue.track(id)?;
    /// tube.take()?.ack()?; // it is gone, and still tracked
    /// assert!(queue.untrack(id)?);
    /// assert!(!queue.untrack(id)?);
    /// assert_eq!(queue.tracked().count(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`track`](Queue::track), but an id that is not tracked is none.
    pub fn untrack(&self, id: TaskId) -> Result<bool> {
        self.call("untrack", |core| {
            core.untrack(id, self.inner.durability()).map_err(|error| error.on_task(id))
        })
    }

    /// The tracked tasks, in the order of their ids, each as it is when the iterator comes to it,
    /// and those that are gone. A damaged task is an error. Where a task is gone, all tubes that
    /// have tasks are looked into for it.
    ///
    /// ```
    /// use tubewell::{Queue, Result, State};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let ids = tube.put_many([*b"to ada", *b"to bob"])?;
    /// ids.iter().try_for_each(|id| queue.track(*id).map(drop))?;
    /// tube.take()?.ack()?;
    /// let tracked = queue.tracked().collect::<Result<Vec<_>>>()?;
    /// let state = |at: usize| tracked[at].task.as_ref().map(|task| task.state);
    /// assert_eq!((tracked[0].id, state(0)), (ids[0], None)); // it is gone
    /// assert_eq!((tracked[1].id, state(1)), (ids[1], Some(State::Ready)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn tracked(&self) -> TrackedTasks {
        let (page, next) = (VecDeque::new(), Some(TaskId::new(0)));
        TrackedTasks { inner: self.inner.clone(), page, next }
    }
}

/// The tracked tasks, from [`Queue::tracked`].
pub struct TrackedTasks {
    inner: Arc<QueueInner>,
    page: VecDeque<(TaskId, SystemTime)>,
    /// Where the next page begins; none after the last one.
    next: Option<TaskId>,
}

impl TrackedTasks {
    fn read(&mut self) -> Result<Option<TrackedTask>> {
        let core = &self.inner.core;
        while self.page.is_empty() {
            // After an error the listing is over.
            let Some(first) = self.next.take() else { return Ok(None) };
            let page = core.look(|view, _| tracked_from(view, first, TAGS_OF_STEP))?;
            let last = page.last().filter(|_| page.len() == TAGS_OF_STEP);
            self.next = last.and_then(|(id, _)| id.get().checked_add(1)).map(TaskId::new);
            self.page.extend(page);
        }
        let Some((id, since)) = self.page.pop_front() else { return Ok(None) };
        let task = core.in_its_tube(id, |state, tube, now| {
            Ok(description::info(&state.store, tube, id, now)?.summary)
        });
        let task = task.map_err(|error| error.on_task(id))?;
        Ok(Some(TrackedTask { id, since, task }))
    }
}

impl Iterator for TrackedTasks {
    type Item = Result<TrackedTask>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().map_err(|error| error.during("list")).transpose()
    }
}

debug!([] TrackedTasks, "TrackedTasks", _this);
