//! The history of a task: its reading, and the lines that anyone writes into it.

use crate::api::lease::{Lease, Task};
use crate::api::queue::{Queue, in_any_tube};
use crate::api::ticket_handle::TicketHandle;
use crate::api::tube::Tube;
use crate::engine::history;
use crate::engine::log::{Log, Logged};
use crate::words::durability::Durability;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::history::History;
use crate::words::task::TaskId;

/// The history of a task.
impl<T: ?Sized> Tube<T> {
    /// What became of a task since its put: each attempt that has come back with its outcome, its
    /// error, who held it and how long; each move, bury and kick; and the lines that were
    /// [logged](Tube::log). A task keeps it when it is moved to another tube, and as long as its
    /// tube [keeps](crate::TubeOptions::keep_finished) the finished task.
    ///
    /// A put, a take and an ack store nothing for it. How much is stored says
    /// [`TubeOptions::history`](crate::TubeOptions::history): by default the newest entries, up to
    /// 100 with the put, and up to 4 KiB. While the disk is full nothing is added.
    ///
    /// ```
    /// use tubewell::{HistoryEvent, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// tube.take()?.retry_after("no answer", std::time::Duration::ZERO)?;
    /// tube.log(id, "asked ada for the number")?;
    /// let _task = tube.take()?;
    ///
    /// let history = tube.history(id)?;
    /// let events: Vec<_> = history.entries.iter().map(|entry| entry.event).collect();
    /// use HistoryEvent::{Logged, Put, Retried, Taken};
    /// assert_eq!(events, [Put, Retried, Logged, Taken]);
    /// let retried = &history.entries[1];
    /// assert_eq!((retried.attempt, &retried.text[..]), (Some(1), "no answer"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound); [`WrongTube`](ErrorKind::WrongTube) if it is in
    /// another tube; [`Damaged`](ErrorKind::Damaged) if the task's row is damaged; as
    /// [`info`](Tube::info).
    pub fn history(&self, id: TaskId) -> Result<History> {
        let core = &self.inner.core;
        let read = core.catch_up(self.number).and_then(|()| {
            core.look_at(|state, now| {
                let tube = state.tube(self.number)?;
                history::read(&state.store, &tube, id, now)
            })
        });
        self.name_task_errors("read the history", id, read)
    }

    /// Adds a line of 1 to 1024 bytes to the history of a task, in any state. It returns as a take
    /// does: before it is on the disk.
    ///
    /// ```
    /// use tubewell::{HistoryEvent, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// tube.take()?.bury("no stamp")?;
    /// tube.log(id, "asked ada for a stamp")?;
    /// let last = tube.history(id)?.entries.pop().unwrap();
    /// assert_eq!((last.event, &last.text[..]), (HistoryEvent::Logged, "asked ada for a stamp"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for an empty line; [`TooLarge`](ErrorKind::TooLarge) for one
    /// above 1024 bytes; [`Unsupported`](ErrorKind::Unsupported) if the tube stores no history;
    /// [`DiskFull`](ErrorKind::DiskFull); [`Full`](ErrorKind::Full) if temporary tubes hold as many
    /// bytes as they may; as [`history`](Tube::history).
    pub fn log(&self, id: TaskId, text: &str) -> Result<()> {
        let op = Log { tube: self.number, which: Logged::ById(id), text };
        let logged = self.inner.core.run(&op, Durability::Relaxed);
        self.name_task_errors("log", id, logged)
    }
}

impl Queue {
    /// As [`Tube::history`], in whatever tube the task is.
    ///
    /// ```
    /// use tubewell::{HistoryEvent, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (fetch, parse) = (queue.tube("fetch")?, queue.tube("parse")?);
    /// let id = fetch.put(b"http://example.org")?;
    /// fetch.take()?.advance(&parse)?;
    /// let last = queue.history(id)?.entries.pop().unwrap();
    /// assert_eq!((last.event, last.tube.as_deref()), (HistoryEvent::Advanced, Some("fetch")));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`find`](Queue::find).
    pub fn history(&self, id: TaskId) -> Result<History> {
        self.call("read the history", |core| in_any_tube(id, core.history(id)))
    }
}

impl TicketHandle {
    /// As [`Lease::log`](crate::Lease::log).
    ///
    /// # Errors
    /// As [`Lease::log`](crate::Lease::log).
    pub fn log(&self, text: &str) -> Result<()> {
        let op = Log { tube: self.number, which: Logged::Held(self.ticket), text };
        let logged = self.inner.core.run(&op, Durability::Relaxed);
        logged.map_err(|error| self.named(error, "log"))
    }
}

impl Lease {
    /// Adds a line to the history of the task, as [`Tube::log`] does, with the name of the consumer
    /// that holds it.
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if the lease has ended; as [`Tube::log`].
    pub fn log(&self, text: &str) -> Result<()> {
        self.active().log(text)
    }
}

impl<T: ?Sized> Task<T> {
    /// As [`Lease::log`].
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// task.log("the stamp is on")?;
    /// assert_eq!(tube.history(id)?.entries[1].text, "the stamp is on");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Lease::log`].
    pub fn log(&self, text: &str) -> Result<()> {
        self.lease.log(text)
    }
}
