//! What the holder of a task reports of its work, and what the attempt before left.

use crate::api::lease::{Lease, Task};
use crate::api::ticket_handle::TicketHandle;
use crate::api::tube::Tube;
use crate::engine::report::ReportHeld;
use crate::engine::{history, reports, settle};
use crate::words::durability::Durability;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::history::{HistoryEntry, HistoryEvent};
use crate::words::report::WorkReport;
use crate::words::task::TaskId;

/// Reports of the work.
impl<T: ?Sized> Task<T> {
    /// Reports that the work has begun: the task is [`Started`](crate::Phase::Started) instead of
    /// [`Reserved`](crate::Phase::Reserved), until its lease ends. A
    /// lease that is [adopted](crate::Consumer::adopt) or resumed stays started. `meta` of at most
    /// 255 bytes says what does the work, for example a process id. A second call replaces it.
    ///
    /// It returns as a take does: before it is on the disk.
    ///
    /// ```
    /// use tubewell::{Phase, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// assert_eq!(tube.peek(id)?.phase, Some(Phase::Reserved));
    /// task.start("pid 4711")?;
    /// let Some(Phase::Started { meta, .. }) = tube.peek(id)?.phase.clone() else { panic!() };
    /// assert_eq!(meta, "pid 4711");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`progress`](Task::progress).
    pub fn start(&self, meta: &str) -> Result<()> {
        self.lease.start(meta)
    }

    /// Reports how far the work is: `percent` from 0 to 100, and a text of at most 1024 bytes. The
    /// last one is [`TaskSummary::progress`](crate::TaskSummary::progress), also after the attempt.
    ///
    /// It returns as a take does: before it is on the disk.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// task.progress(40, "the stamp is on")?;
    /// let seen = tube.peek(id)?.progress.clone().unwrap();
    /// assert_eq!((seen.percent, &seen.text[..]), (40, "the stamp is on"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if the lease has ended;
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`Invalid`](ErrorKind::Invalid) for more than 100 percent;
    /// [`TooLarge`](ErrorKind::TooLarge) for a text above its limit;
    /// [`DiskFull`](ErrorKind::DiskFull); [`Full`](ErrorKind::Full) if temporary tubes hold as many
    /// bytes as they may; [`Unsupported`](ErrorKind::Unsupported) if a later version has left no
    /// room in the task's row; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction). The task stays taken.
    pub fn progress(&self, percent: u8, text: &str) -> Result<()> {
        self.lease.progress(percent, text)
    }

    /// Stores a checkpoint of at most 16 KiB, from which the next attempt goes on if this one does
    /// not end the work: it survives the attempt and, in a durable tube, the process. It replaces
    /// the one before. The end of the work removes it, as does an [advance](Task::advance).
    ///
    /// It returns as a put does: in a durable tube once it is on the disk.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("files")?;
    /// tube.put(b"sum all lines")?;
    /// let task = tube.take()?;
    /// task.checkpoint(b"line 1000: 55")?;
    /// drop(task); // as if it had failed
    ///
    /// let task = tube.take()?;
    /// assert_eq!(task.last_checkpoint()?.as_deref(), Some(&b"line 1000: 55"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`progress`](Task::progress); [`TooLarge`](ErrorKind::TooLarge) above 16 KiB;
    /// [`Unknown`](ErrorKind::Unknown) if it may not be on the disk.
    pub fn checkpoint(&self, state: &[u8]) -> Result<()> {
        self.lease.checkpoint(state)
    }

    /// The last checkpoint, of this attempt or an earlier one; `None` if there is none.
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if the lease has ended;
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`Damaged`](ErrorKind::Damaged) if the checkpoint is damaged; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn last_checkpoint(&self) -> Result<Option<Vec<u8>>> {
        self.lease.last_checkpoint()
    }

    /// How the attempt before ended: who held the task, how long, and with what error. After an
    /// [adoption](crate::Consumer::adopt) it is the holder that left the task, and after an
    /// [advance](Task::advance) the step before. It is the last such entry of the task's
    /// [history](Tube::history): `None` if there is none, and of what happened while the disk was
    /// full nothing is known.
    ///
    /// ```
    /// use tubewell::{HistoryEvent, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let task = tube.by(&queue.consumer("ada")?).take()?;
    /// assert!(task.previous()?.is_none());
    /// task.retry_after("no answer", std::time::Duration::ZERO)?;
    ///
    /// let previous = tube.take()?.previous()?.unwrap();
    /// assert_eq!(previous.event, HistoryEvent::Retried);
    /// assert_eq!((previous.by.as_deref(), &previous.text[..]), (Some("ada"), "no answer"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`last_checkpoint`](Task::last_checkpoint).
    pub fn previous(&self) -> Result<Option<HistoryEntry>> {
        self.lease.previous()
    }
}

/// Reports of the work.
impl Lease {
    /// As [`Task::start`].
    ///
    /// # Errors
    /// As [`Task::progress`].
    pub fn start(&self, meta: &str) -> Result<()> {
        self.active().start(meta)
    }

    /// As [`Task::progress`].
    ///
    /// # Errors
    /// As [`Task::progress`].
    pub fn progress(&self, percent: u8, text: &str) -> Result<()> {
        self.active().progress(percent, text)
    }

    /// As [`Task::checkpoint`].
    ///
    /// # Errors
    /// As [`Task::progress`].
    pub fn checkpoint(&self, state: &[u8]) -> Result<()> {
        self.active().checkpoint(state)
    }

    /// As [`Task::last_checkpoint`].
    ///
    /// # Errors
    /// As [`Task::last_checkpoint`].
    pub fn last_checkpoint(&self) -> Result<Option<Vec<u8>>> {
        self.held.last_checkpoint()
    }

    /// As [`Task::previous`].
    ///
    /// # Errors
    /// As [`Task::last_checkpoint`].
    pub fn previous(&self) -> Result<Option<HistoryEntry>> {
        self.held.previous()
    }
}

/// Reports of the work.
impl TicketHandle {
    /// As [`Task::start`].
    ///
    /// # Errors
    /// As [`Task::progress`].
    pub fn start(&self, meta: &str) -> Result<()> {
        self.report(WorkReport::Start(meta), Durability::Relaxed, "start")
    }

    /// As [`Task::progress`].
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("files")?;
    /// let id = tube.put(b"sum all lines")?;
    /// let held = tube.ticket(tube.take()?.detach());
    /// held.progress(40, "line 1000")?;
    /// held.checkpoint(b"line 1000: 55")?;
    /// assert_eq!(tube.peek(id)?.progress.clone().unwrap().percent, 40);
    /// assert_eq!(held.last_checkpoint()?.as_deref(), Some(&b"line 1000: 55"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Task::progress`].
    pub fn progress(&self, percent: u8, text: &str) -> Result<()> {
        self.report(WorkReport::Progress(percent, text), Durability::Relaxed, "report the progress")
    }

    /// As [`Task::checkpoint`].
    ///
    /// # Errors
    /// As [`Task::progress`].
    pub fn checkpoint(&self, state: &[u8]) -> Result<()> {
        self.report(WorkReport::Checkpoint(state), self.durability, "store a checkpoint")
    }

    fn report(
        &self,
        report: WorkReport<'_>,
        durability: Durability,
        action: &'static str,
    ) -> Result<()> {
        let op = ReportHeld { tube: self.number, ticket: self.ticket, report };
        self.inner.core.run(&op, durability).map_err(|error| self.named(error, action))
    }

    /// As [`Task::last_checkpoint`].
    ///
    /// # Errors
    /// As [`Task::last_checkpoint`].
    pub fn last_checkpoint(&self) -> Result<Option<Vec<u8>>> {
        let read = self.inner.core.look_at(|state, now| {
            let tube = self.tube_in(state, now)?;
            settle::held(&state.store, &tube, self.ticket)?;
            reports::checkpoint(&state.store, &tube, self.ticket.id)
        });
        read.map_err(|error| self.named(error, "read the checkpoint"))
    }

    /// As [`Task::previous`].
    ///
    /// # Errors
    /// As [`Task::last_checkpoint`].
    pub fn previous(&self) -> Result<Option<HistoryEntry>> {
        let read = self.inner.core.look_at(|state, now| {
            let tube = self.tube_in(state, now)?;
            settle::held(&state.store, &tube, self.ticket)?;
            history::read(&state.store, &tube, self.ticket.id, now)
        });
        let history = read.map_err(|error| self.named(error, "read the history"))?;
        let is_end =
            |entry: &HistoryEntry| entry.attempt.is_some() && entry.event != HistoryEvent::Taken;
        Ok(history.entries.into_iter().rev().find(is_end))
    }
}

impl<T: ?Sized> Tube<T> {
    /// The last [checkpoint](Task::checkpoint) of a task, in any state; `None` if there is none.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("files")?;
    /// let id = tube.put(b"sum all lines")?;
    /// assert!(tube.last_checkpoint(id)?.is_none());
    /// let task = tube.take()?;
    /// task.checkpoint(b"line 1000: 55")?;
    /// task.bury("the file is gone")?;
    /// assert_eq!(tube.last_checkpoint(id)?.as_deref(), Some(&b"line 1000: 55"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`history`](Tube::history); [`Damaged`](ErrorKind::Damaged) if the checkpoint is damaged.
    pub fn last_checkpoint(&self, id: TaskId) -> Result<Option<Vec<u8>>> {
        let core = &self.inner.core;
        let read = core.catch_up(self.number).and_then(|()| {
            core.look_at(|state, _| {
                let tube = state.tube(self.number)?;
                reports::checkpoint(&state.store, &tube, id)
            })
        });
        self.name_task_errors("read the checkpoint", id, read)
    }
}
