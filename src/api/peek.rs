//! Reads of a tube's tasks, which change nothing: one, the next ones, and listings of a state.

use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::engine::description;
use crate::runtime::listing::Listing;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::{State, TaskId, TaskInfo, TaskSummary};

impl<T: ?Sized> Tube<T> {
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
    /// assert_eq!((task.state, &task.payload[..]), (State::Delayed, &b"hello"[..]));
    /// assert_eq!((task.group.as_deref(), task.attempts), (Some("ada"), 0));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound); [`WrongTube`](ErrorKind::WrongTube) if it is in
    /// another tube; as [`info`](Tube::info).
    pub fn peek(&self, id: TaskId) -> Result<TaskInfo> {
        let found = self
            .inner
            .core
            .peek(self.number, |view, tube, now| description::info(view, tube, id, now).map(Some));
        let missing = || Error::new(ErrorKind::TaskNotFound);
        let info = found.and_then(|info| info.ok_or_else(missing));
        self.name_task_errors("peek", id, info)
    }

    /// The next task of a state: of the ready tasks the one that `take` would return, of the
    /// delayed ones the one that waits for the shortest time from now on, of the buried ones the
    /// first to be kicked, of the taken ones the one whose lease ends first by its deadline.
    ///
    /// ```
    /// use tubewell::{Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// assert!(tube.peek_next(State::Ready)?.is_none());
    /// tube.put(b"later")?;
    /// tube.task(b"first").priority(-1).put()?;
    /// assert_eq!(tube.peek_next(State::Ready)?.unwrap().payload, b"first");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn peek_next(&self, state: State) -> Result<Option<TaskInfo>> {
        let info = self
            .inner
            .core
            .peek(self.number, |view, tube, now| description::next(view, tube, state, now));
        self.name_errors("peek", info)
    }

    /// The next ready tasks, up to `most` of them and at most 65 536, in the order in which takes
    /// would hand them out; also those of a paused tube. Changes nothing.
    ///
    /// A group is in the list with its first task only, and only if a task of it may be taken now:
    /// when the next one may be taken depends on how the first one is settled. Of tasks with the
    /// same [gates of their own](crate::NewTask::require) the first is in it, too. So the list is
    /// exact for tasks without a group and gates, and between two of them takes may hand out
    /// further ones, also at once where the tube allows [several in
    /// flight](crate::TubeOptions::in_flight).
    ///
    /// As a [listing](Tube::tasks) it is read page by page, and of each page no more than `most`
    /// tasks. A task that moves in the meantime may be missed, or be listed twice if it moved to a
    /// later place. Damaged tasks are left out.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"b")?;
    /// tube.put(b"c")?;
    /// tube.task(b"a").priority(-1).put()?;
    /// let next: Vec<_> = tube.peek_many(2)?.into_iter().map(|task| task.payload).collect();
    /// assert_eq!(next, [b"a", b"b"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`info`](Tube::info).
    pub fn peek_many(&self, most: usize) -> Result<Vec<TaskInfo>> {
        let most = most.min(BATCH_TASKS_MAX);
        let (mut listing, mut tasks) = (Listing::of_takeable(self.number, most), Vec::new());
        while tasks.len() < most {
            match self.name_errors("peek", listing.next_info(&self.inner.core))? {
                Some(task) => {
                    let is_stopped = self.inner.core.is_stopped(&task);
                    if !self.name_errors("peek", is_stopped)? {
                        tasks.push(task);
                    }
                }
                None => break,
            }
        }
        Ok(tasks)
    }

    /// The tasks of a state, read page by page: a task that moves in the meantime may be missed, or
    /// is listed as it was when its page was read, or twice if it moved to a later place. Damaged
    /// tasks are left out. No other call waits for more than the copy of 256 small rows; a page
    /// ends after 64 KiB.
    ///
    /// The order:
    /// - *ready*: those without a group as takes hand them out, smallest priority first, then put
    ///   order, or by the tube's placement; then group by group, those of a group in that order.
    ///   Shorter names of groups come first, those of one length by their bytes. Tasks without a
    ///   group and with the same gates [of their own](crate::NewTask::require) are listed as a
    ///   group whose name has all of their names.
    /// - *delayed*: by the time that is left. The two clocks of a `delay` and of a `run_at` are
    ///   compared as they stand when the first page is read, also for the later pages. Of those due
    ///   at one time those with a `delay` are first, then the lower id is; those whose delay has no
    ///   end are last, by id.
    /// - *taken*: by the deadline of the lease, or the end of the [grace](crate::Lapse::grace) of a
    ///   stalled task; of two with one time the lower id is first. Those without a deadline are
    ///   last, by id.
    /// - *buried*: as [`kick`](Tube::kick) makes them ready, smallest priority first, then put
    ///   order.
    /// - *blocked* and *done*: by id.
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
        Tasks(self.summaries(state))
    }

    /// As [`tasks`](Tube::tasks), in the same order, without the payloads: those of more than
    /// 3500 bytes are not read.
    ///
    /// ```
    /// use tubewell::{Queue, Result, State, TaskSummary};
    ///
    /// # fn main() -> Result<()> {
    /// let tube = Queue::in_memory()?.tube("films")?;
    /// tube.put(&vec![0; 16 << 20])?;
    /// tube.task(b"short").priority(1).put()?;
    /// let films: Vec<TaskSummary> = tube.summaries(State::Ready).collect::<Result<_>>()?;
    /// let sizes: Vec<u64> = films.iter().map(|film| film.payload_bytes).collect();
    /// assert_eq!(sizes, [16 << 20, 5]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn summaries(&self, state: State) -> Summaries {
        let (inner, name) = (self.inner.clone(), self.name.clone());
        Summaries { inner, name, listing: Listing::new(self.number, state) }
    }
}

/// The tasks of one state without their payloads, from [`Tube::summaries`].
pub struct Summaries {
    inner: Arc<QueueInner>,
    name: Arc<str>,
    listing: Listing,
}

/// The tasks of one state, from [`Tube::tasks`].
pub struct Tasks(Summaries);

impl Summaries {
    fn item<T>(&self, found: Result<Option<T>>) -> Option<Result<T>> {
        found.map_err(|error| error.during("list").in_tube(&self.name)).transpose()
    }
}

impl Iterator for Summaries {
    type Item = Result<TaskSummary>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.listing.next_summary(&self.inner.core);
        self.item(found)
    }
}

impl Iterator for Tasks {
    type Item = Result<TaskInfo>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.0.listing.next_info(&self.0.inner.core);
        self.0.item(found)
    }
}

debug!([] Summaries, "Summaries", this, "tube": &this.name);

debug!([] Tasks, "Tasks", this, "tube": &this.0.name);
