//! Finished tasks that their tubes keep: their listing, and the wait for the end of a task.

use crate::api::newest_first::NewestFirst;
use crate::api::queue::Queue;
use crate::api::tube::Tube;
use crate::runtime::ended_walk::EndIndex;
use crate::runtime::ends::TaskEnd;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::stop::Stop;
use crate::words::task::{State, TaskId, TaskInfo};
use crate::words::wait::Wait;
use std::time::Duration;

/// How a task has ended, from [`Queue::wait_for`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// It is finished. Its tube keeps it, with its result if it has one.
    Done(Box<TaskInfo>),
    /// It is buried. A [kick](Tube::kick) makes it ready again.
    Buried(Box<TaskInfo>),
    /// It is gone: finished in a tube that keeps no finished tasks, deleted, replaced by a put of
    /// its key after its end, or removed by its ttl or, before the call, by the tube's
    /// [`Retention`](crate::Retention).
    Gone,
}

impl Queue {
    /// Waits until a task has ended: until it is finished, buried or gone. At once if it has,
    /// also in an earlier run of the process. `None` if it has not ended within `timeout`, which is
    /// [lease time](crate#time); [`Duration::MAX`] is without a limit. It follows a task to other
    /// tubes: an [advance](crate::Task::advance) is no end.
    ///
    /// A result is there as long as the tube keeps the task. If the tube's
    /// [`Retention`](crate::Retention) removes the task during this call, the call returns it as it
    /// was; later calls get [`Ended::Gone`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Ended, Queue, Retention, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let options = TubeOptions::default().keep_finished(Retention::new().count(1000));
    /// let tube = queue.create_tube("sums", options)?;
    /// let id = tube.put(b"1 + 2")?;
    /// assert!(queue.wait_for(id, Duration::ZERO)?.is_none());
    ///
    /// let worker = std::thread::spawn(move || tube.take()?.ack_with(b"3"));
    /// match queue.wait_for(id, Duration::MAX)? {
    ///     Some(Ended::Done(task)) => assert_eq!(task.result.as_deref(), Some(&b"3"[..])),
    ///     ended => panic!("{ended:?}"),
    /// }
    /// worker.join().unwrap()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound) if the queue never gave this id; those that a
    /// killed process may have given count as given;
    /// [`Damaged`](ErrorKind::Damaged) if one of the task's rows is damaged;
    /// [`ReadOnly`](ErrorKind::ReadOnly) if the queue is open read-only and the task has not ended;
    /// [`Closed`](ErrorKind::Closed), also during the wait;
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn wait_for(&self, id: TaskId, timeout: Duration) -> Result<Option<Ended>> {
        self.wait_for_end(id, Wait::within(timeout))
    }

    /// As [`wait_for`](Queue::wait_for), until [`stop`](Stop::stop) is called.
    ///
    /// ```
    /// use tubewell::{Ended, Queue, Stop};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let (id, stop) = (tube.put(b"hello")?, Stop::new());
    /// stop.stop();
    /// assert!(queue.wait_for_until(id, &stop)?.is_none()); // it has not ended
    /// tube.take()?.ack()?;
    /// assert!(matches!(queue.wait_for_until(id, &stop)?, Some(Ended::Gone)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`wait_for`](Queue::wait_for).
    pub fn wait_for_until(&self, id: TaskId, stop: &Stop) -> Result<Option<Ended>> {
        self.wait_for_end(id, Wait::until(stop))
    }

    /// The finished tasks of all tubes that [keep](crate::TubeOptions::keep_finished) them, the
    /// last one finished first, as [`Tube::finished`] lists those of one. Tubes in which none was
    /// finished when the listing began are left out. It reads the lists of the tubes side by side,
    /// so each task costs more with more such tubes.
    ///
    /// ```
    /// use tubewell::{Queue, Result, Retention, TubeOptions};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let options = TubeOptions::default().keep_finished(Retention::new().count(1000));
    /// let mut ids = Vec::new();
    /// for name in ["letters", "parcels", "letters"] {
    ///     let tube = queue.create_tube(name, options.clone().if_not_exists())?;
    ///     ids.push(tube.put(b"to ada")?);
    ///     tube.take()?.ack()?;
    /// }
    /// ids.reverse();
    /// let newest: Vec<_> = queue.finished().map(|task| Ok(task?.id)).collect::<Result<_>>()?;
    /// assert_eq!(newest, ids);
    /// # Ok(())
    /// # }
    /// ```
    pub fn finished(&self) -> NewestFirst {
        NewestFirst::of_queue(self, EndIndex::Finished)
    }

    fn wait_for_end(&self, id: TaskId, wait: Wait<'_>) -> Result<Option<Ended>> {
        let ended = self.call("wait", |core| core.wait_for_end(id, wait));
        let ended = ended.map_err(|error| error.on_task(id))?;
        Ok(ended.map(|end| match end {
            TaskEnd::Kept(task) if task.state == State::Done => Ended::Done(task),
            TaskEnd::Kept(task) => Ended::Buried(task),
            TaskEnd::Gone => Ended::Gone,
        }))
    }
}

/// Finished tasks that it [keeps](crate::TubeOptions::keep_finished).
impl<T: ?Sized> Tube<T> {
    /// Its finished tasks, the last one finished first, read page by page: a task that is removed
    /// in the meantime is left out, as are damaged ones. [`tasks`](Tube::tasks) of
    /// [`State::Done`](crate::State::Done) lists them by id, with their payloads.
    ///
    /// ```
    /// use tubewell::{Queue, Result, Retention, TubeOptions};
    ///
    /// # fn main() -> Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let options = TubeOptions::default().keep_finished(Retention::new().count(1000));
    /// let tube = queue.create_tube("letters", options)?;
    /// let ids = [tube.put(b"to ada")?, tube.put(b"to bob")?];
    /// tube.take()?.ack()?;
    /// tube.take()?.ack()?;
    /// let newest: Vec<_> = tube.finished().map(|task| Ok(task?.id)).collect::<Result<_>>()?;
    /// assert_eq!(newest, [ids[1], ids[0]]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn finished(&self) -> NewestFirst {
        NewestFirst::of_tube(self, EndIndex::Finished)
    }
}
