//! Taking from several tubes, with all kinds of wait. A task is opened by the handle of its tube.

use crate::api::consumer::Consumer;
use crate::api::lease::Task;
use crate::api::steps::PARTS;
use crate::api::tube::Tube;
use crate::api::tubes::Tubes;
use crate::engine::take::FromTube;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use crate::words::stop::Stop;
use crate::words::wait::Wait;
use std::time::Duration;

impl<T: ?Sized> Tubes<T> {
    /// Takes a task, as [`Tube::take`]. Waits for one without a time limit.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["letters", "parcels"])?;
    /// let taker = std::thread::spawn(move || tubes.take()?.ack()); // waits at both
    /// let parcels = queue.tube("parcels")?;
    /// parcels.put(b"cake")?;
    /// taker.join().unwrap()?;
    /// assert!(parcels.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](ErrorKind::TubeNotFound) if all tubes of a list were dropped, also during
    /// the wait; as [`Tube::take`].
    pub fn take(&self) -> Result<Task<T>> {
        let task = self.take_waiting(Wait::EVER)?;
        // A wait without a time limit ends with a task or an error.
        task.ok_or_else(|| Error::new(ErrorKind::Closed).during("take"))
    }

    /// Takes a task, if there is one now, as [`Tube::try_take`].
    ///
    /// # Errors
    /// As [`take`](Tubes::take).
    pub fn try_take(&self) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::NO)
    }

    /// Takes a task; waits for one at most this long, as [`Tube::take_timeout`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["a", "b"])?;
    /// assert!(tubes.take_timeout(Duration::from_millis(1))?.is_none());
    /// queue.tube("b")?.put(b"hello")?;
    /// assert!(tubes.take_timeout(Duration::from_millis(1))?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tubes::take).
    pub fn take_timeout(&self, timeout: Duration) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::within(timeout))
    }

    /// Takes a task; waits for one until [`stop`](Stop::stop) is called, as [`Tube::take_until`].
    ///
    /// ```
    /// use tubewell::{Queue, Stop};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (tubes, stop) = (queue.tubes_of(["a", "b"])?, Stop::new());
    /// queue.tube("b")?.put_many([*b"a", *b"b"])?;
    /// assert!(tubes.take_until(&stop)?.is_some());
    /// stop.stop();
    /// assert!(tubes.take_until(&stop)?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tubes::take).
    pub fn take_until(&self, stop: &Stop) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::until(stop))
    }

    /// Takes a task; waits for one at most this long, and no longer than until
    /// [`stop`](Stop::stop) is called, as [`Tube::take_timeout_until`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, Stop};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (tubes, stop) = (queue.tubes_of(["a", "b"])?, Stop::new());
    /// let short = Duration::from_millis(1);
    /// assert!(tubes.take_timeout_until(short, &stop)?.is_none()); // its time is over
    /// queue.tube("b")?.put(b"hello")?;
    /// stop.stop();
    /// assert!(tubes.take_timeout_until(Duration::MAX, &stop)?.is_none()); // stopped
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tubes::take).
    pub fn take_timeout_until(&self, timeout: Duration, stop: &Stop) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::within(timeout).or_until(stop))
    }

    fn take_waiting<'a>(&'a self, mut wait: Wait<'a>) -> Result<Option<Task<T>>> {
        let taken = (|| {
            let core = &self.list.inner.core;
            wait = wait.begun(|| core.lease_now());
            if !wait.is_none() {
                wait.ended = self.each.consumer.as_ref().map(Consumer::closed);
            }
            let set = self.list.set()?;
            loop {
                let holder = self.each.holder()?;
                let Some(taken) = core.take_from((set, holder), wait)? else {
                    // The wait may have ended with the session.
                    return self.each.holder().map(|_| None);
                };
                if let Some(task) = self.open(taken)? {
                    return Ok(Some(task));
                }
                // Undecodable tasks do not extend the wait.
                if wait.is_over(core.lease_now()) {
                    return Ok(None);
                }
            }
        })();
        taken.map_err(|error: Error| error.during("take"))
    }

    /// The task; `None` if it could not be decoded, and is buried.
    fn open(&self, FromTube { tube, name, task }: FromTube) -> Result<Option<Task<T>>> {
        let tube = Tube { number: tube, name, ..self.each.clone() };
        Ok(tube.open_task(tube.guard(&task), task)?.ok())
    }

    /// Takes up to `most` tasks, at most 65 536, in the order in which single takes would: those
    /// that are ready now, without waiting. On a full disk it may return fewer.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tubes = queue.tubes_of(["a", "b"])?.round_robin();
    /// queue.tube("a")?.put_many([*b"x", *b"x"])?;
    /// queue.tube("b")?.put_many([*b"x", *b"x"])?;
    /// let tasks = tubes.take_many(3)?;
    /// assert_eq!(tasks.iter().map(|task| task.tube()).collect::<String>(), "aba");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tubes::take).
    pub fn take_many(&self, most: usize) -> Result<Vec<Task<T>>> {
        let taken = (|| {
            let (set, most) = (self.list.set()?, most.min(BATCH_TASKS_MAX));
            let (mut tasks, mut at_once) = (Vec::new(), most);
            while tasks.len() < most {
                let (core, from) = (&self.list.inner.core, (set, self.each.holder()?));
                let left = (most - tasks.len()).min(at_once);
                let taken = match core.take_many_from(from, left) {
                    // A full disk has room for some of them.
                    Err(_) if !tasks.is_empty() && at_once < most => break,
                    Err(error) if error.kind() == ErrorKind::DiskFull && at_once > 1 => {
                        at_once = left.div_ceil(PARTS);
                        continue;
                    }
                    taken => taken?,
                };
                if taken.is_empty() {
                    break;
                }
                self.open_all(taken, &mut tasks)?;
            }
            tasks.iter_mut().for_each(|task: &mut Task<T>| task.lease.seen = true);
            Ok(tasks)
        })();
        taken.map_err(|error: Error| error.during("take"))
    }

    /// Adds the tasks. If one of them cannot be opened, the guards of the others return theirs.
    fn open_all(&self, taken: Vec<FromTube>, tasks: &mut Vec<Task<T>>) -> Result<()> {
        let guarded = taken.into_iter().map(|FromTube { tube, name, task }| {
            let tube = Tube { number: tube, name, ..self.each.clone() };
            (tube.guard(&task), tube, task)
        });
        for (lease, tube, task) in guarded.collect::<Vec<_>>() {
            if let Ok(mut task) = tube.open_task(lease, task)? {
                // The caller sees it when the whole batch is decoded.
                task.lease.seen = false;
                tasks.push(task);
            }
        }
        Ok(())
    }
}
