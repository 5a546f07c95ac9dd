//! Calls that concern the running queue and its files, not a task.

use crate::api::queue::Queue;
use crate::engine::audit;
use crate::runtime::checkpointer::checkpoint;
use crate::runtime::mending::repair;
use crate::runtime::timer::work_off_all;
use crate::store::{BaseSpace, Progress, Space, Stage};
use crate::words::clock::ClockStep;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::repairs::Repairs;
use std::ops::ControlFlow;

/// Upkeep.
impl Queue {
    /// Reads both files and every row, and returns one line for each disagreement; for a sound
    /// queue none. It changes and repairs nothing. Other calls wait in the meantime, and it needs
    /// as much memory again as [`cache_bytes`](crate::Builder::cache_bytes).
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// assert!(queue.check()?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Io`](ErrorKind::Io).
    pub fn check(&self) -> Result<Vec<String>> {
        self.call("check", |core| {
            core.enter()?;
            let _writer = core.writer();
            let mut lines = Vec::new();
            let mut state = core.reading()?;
            state.store.check(&mut |line| lines.push(line), audit::lines)?;
            lines.extend(state.check_counted()?);
            Ok(lines)
        })
    }

    /// Mends what [`check`](Queue::check) finds in the rows, as far as that is possible, and says
    /// what it did and what is left. The queue is served meanwhile: all rows are read as of one
    /// instant while other calls go on, and then mended in short steps. Each step is safe from a
    /// crash, and leaves a finding whose rows have changed since: that one is looked for again.
    /// Before each look there is a [`checkpoint`](Queue::checkpoint). Of a sound queue it changes
    /// nothing.
    ///
    /// No task is dropped without a line that says so. One that cannot be read is buried under its
    /// id, with what other rows still say of it, as
    /// [`Reason::Undecodable`](crate::Reason::Undecodable); also one of which only other rows are
    /// left. What its damaged row alone has said is lost: its ttl, its attempts, and the gates of a
    /// task of a group. If no row says in which tube it was, it is in the tube `recovered`. A
    /// payload that is damaged is lost: its task is buried, unless it is done or taken, and stays
    /// in [`left`](Repairs::left) until it is deleted or its payload replaced. A finished task
    /// keeps its result. Rows that follow from a task are written again, and those that follow from
    /// none are removed. A tube whose row is lost is made again with default options, and its
    /// leases are void. No retention removes a task because a repair has buried another one.
    ///
    /// What redb says of its own pages, and of the files, and what is in temporary tubes, only
    /// `check` reports. If redb cannot read a page, nothing is mended, and the queue goes on:
    /// restore the folder from a copy.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// let repairs = queue.repair()?;
    /// assert!(repairs.steps.is_empty() && repairs.left.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`ReadOnly`](ErrorKind::ReadOnly); [`DiskFull`](ErrorKind::DiskFull); [`Io`](ErrorKind::Io);
    /// [`Damaged`](ErrorKind::Damaged); [`Invalid`](ErrorKind::Invalid) if all numbers of tubes are
    /// used up; [`Broken`](ErrorKind::Broken); [`Unknown`](ErrorKind::Unknown) if a sync failed.
    /// After a step an error is in [`stopped_by`](Repairs::stopped_by).
    pub fn repair(&self) -> Result<Repairs> {
        self.call("repair", repair)
    }

    /// The bytes that the queue uses, on the disk and in memory, and how much it has written since
    /// it was opened. Reads only counters.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// let space = queue.space()?;
    /// assert_eq!((space.durable_bytes, space.tasks_put), (5, 1));
    /// assert!(space.syncs > 0 && space.written_per_task() > Some(5));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn space(&self) -> Result<Space> {
        self.call("space", |core| {
            core.enter()?;
            let state = core.reading()?;
            Ok(Space { tasks_put: state.derived.tasks_put, ..state.store.space() })
        })
    }

    /// Moves the writes since the last checkpoint from memory to the folder's base now. The queue
    /// does so by itself when an eighth of the journal is in use, or half of that after a minute
    /// without writes, and at its close.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// assert!(queue.space()?.overlay_rows > 0);
    /// queue.checkpoint()?;
    /// assert_eq!(queue.space()?.overlay_rows, 0);
    /// assert!(queue.base_space()?.rows > 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`DiskFull`](ErrorKind::DiskFull) if there is space for only a part, and then the journal
    /// keeps the rest; [`Io`](ErrorKind::Io), and then nothing has changed.
    pub fn checkpoint(&self) -> Result<()> {
        self.call("checkpoint", |core| checkpoint(core))
    }

    /// What the base's file consists of, the application's own tables included. Reads every page
    /// that leads to a row, which takes about a second for some hundred megabytes. Other calls do
    /// not wait. Writes since the last checkpoint do not count.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// queue.tube("films")?.put(&vec![0; 4 << 20])?;
    /// queue.checkpoint()?;
    /// let base = queue.base_space()?;
    /// assert!(base.live_bytes > 4 << 20);
    /// assert_eq!(base.bytes, base.live_bytes + base.dead_bytes);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Io`](ErrorKind::Io).
    pub fn base_space(&self) -> Result<BaseSpace> {
        self.call("base space", |core| {
            core.enter()?;
            // Other calls do not wait for the measuring.
            let opening = core.reading()?.store.opening()?;
            BaseSpace::measure(&opening)
        })
    }

    /// Returns unused space to the file system. Other calls wait in the meantime, long if there is
    /// much of it. While a thread reads or writes the application's tables, the file is left as it
    /// is.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// let tube = queue.tube("films")?;
    /// tube.put(&vec![0; 4 << 20])?;
    /// queue.checkpoint()?;
    /// tube.take()?.ack()?;
    /// let before = queue.space()?.base_bytes;
    /// queue.compact()?;
    /// assert!(queue.space()?.base_bytes < before - (4 << 20));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`checkpoint`](Queue::checkpoint).
    pub fn compact(&self) -> Result<()> {
        self.compact_with(|_| ControlFlow::Continue(()))
    }

    /// As [`compact`](Queue::compact), and calls `progress` after each round with the bytes
    /// returned so far. `Break` ends it after that round.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use tubewell::{Queue, Stage};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// let tube = queue.tube("films")?;
    /// tube.put(&vec![0; 4 << 20])?;
    /// queue.checkpoint()?;
    /// tube.take()?.ack()?;
    ///
    /// let mut given_back = 0;
    /// queue.compact_with(|progress| {
    ///     assert_eq!(progress.stage, Stage::Compact);
    ///     given_back = progress.done;
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(given_back > 4 << 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`checkpoint`](Queue::checkpoint); [`Cancelled`](ErrorKind::Cancelled) by `progress`; the
    /// rounds before it are kept.
    pub fn compact_with(
        &self,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<()> {
        self.call("compact", |core| {
            checkpoint(core)?;
            let total = core.state.lock().store.space().base_bytes;
            // Each round frees space into which the next one can move pages.
            loop {
                let writer = core.writer();
                let mut state = core.running()?;
                if !state.store.compact()? {
                    return Ok(());
                }
                let done = total.saturating_sub(state.store.space().base_bytes);
                drop((state, writer));
                if progress(Progress { stage: Stage::Compact, done, total }).is_break() {
                    return Err(Error::new(ErrorKind::Cancelled));
                }
            }
        })
    }

    /// How far the wall clock moved between the last write and this opening, if queue time did not
    /// follow it entirely: it moved back, or by more than
    /// [`clock_gap_max`](crate::Builder::clock_gap_max). `None` also if the machine was not
    /// restarted in the meantime and its boot clock shows how much time has passed.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let (clock, day) = (ManualClock::new(), Duration::from_secs(86_400));
    /// Queue::builder().clock(clock.clone()).open(&path)?.close()?;
    /// clock.reboot(40 * day);
    /// let queue = Queue::builder().clock(clock).open(&path)?;
    /// let step = queue.clock_step().unwrap();
    /// assert_eq!((step.by, step.counted), (40 * day, 30 * day));
    /// # Ok(())
    /// # }
    /// ```
    pub fn clock_step(&self) -> Option<ClockStep> {
        self.inner.core.clock_step
    }

    /// Returns after everything written so far is synced.
    ///
    /// ```
    /// use tubewell::{Durability, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::builder().durability(Durability::Relaxed).open(&path)?;
    /// let receipt = queue.tube("letters")?.put_receipt(b"hello")?;
    /// queue.flush()?;
    /// assert!(receipt.is_synced());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Unknown`](ErrorKind::Unknown) if the sync failed; [`Closed`](ErrorKind::Closed), because
    /// the close has synced everything; [`InTransaction`](ErrorKind::InTransaction).
    pub fn flush(&self) -> Result<()> {
        self.call("flush", |core| core.flush())
    }

    /// Handles all that is due now, the removals that are left, and the callbacks: all of them
    /// unless another call of `tick`, in whose callback this one may be, calls them already. That
    /// one then calls those of these events too. The queue's
    /// threads do this by themselves, unless it was opened [`by_hand`](crate::Builder::by_hand),
    /// which has an example.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use tubewell::{Cause, EventFilter, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::builder().by_hand(true).in_memory()?;
    /// let (sender, received) = mpsc::channel();
    /// let subscription = queue.on_event(EventFilter::new(), move |event| {
    ///     let _ = sender.send(event.cause);
    /// })?;
    /// queue.tube("letters")?.put(b"hello")?;
    /// assert!(received.try_recv().is_err());
    /// queue.tick()?; // calls the callbacks
    /// assert!(received.try_iter().eq([Cause::CreateTube, Cause::Put]));
    /// # drop(subscription);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Broken`](ErrorKind::Broken).
    pub fn tick(&self) -> Result<()> {
        let ticked = self.call("tick", |core| {
            core.enter()?;
            work_off_all(core)?;
            // After a failure the work may be incomplete.
            core.health.serves()?;
            core.health.runs()
        });
        // Inside a transaction a callback would run with its locks held.
        let is_refused = ticked.as_ref().is_err_and(|it| it.kind() == ErrorKind::InTransaction);
        if self.inner.core.settings.by_hand && !is_refused {
            self.inner.callbacks.call_all(&self.inner.core);
        }
        ticked
    }
}
