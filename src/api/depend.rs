//! What a task waits for, while it waits.

use crate::api::queue::Queue;
use crate::api::tube::Tube;
use crate::engine::depend::{Depend, Undepend};
use crate::words::dependency::After;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{EDGES_MAX, EDGES_OF_OP};
use crate::words::task::TaskId;

/// What a blocked task waits for.
impl<T: ?Sized> Tube<T> {
    /// Lets a task that [waits for others](crate::NewTask::after) wait for these too: for their
    /// success, held if they end otherwise, or on [other terms](After). What it comes after already
    /// stays as it is. More than 256 are added in several steps, each of which holds by itself. If
    /// everything that it waits for so far ends between two steps, the task goes on, and the next
    /// step is refused.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let [first, second] = [tube.put(b"draft")?, tube.put(b"stamp")?];
    /// let letter = tube.task(b"letter").after([first]).put()?;
    /// tube.depend(letter, [second])?;
    /// assert_eq!(tube.peek(letter)?.dependencies.count, 2);
    /// tube.undepend(letter, [first, second])?;
    /// assert_eq!(tube.peek(letter)?.state, State::Ready);
    /// let late = tube.depend(letter, [second]).unwrap_err();
    /// assert_eq!(late.kind(), ErrorKind::WrongState);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](ErrorKind::WrongState) if it does not wait for others, or if one of these was
    /// buried and has come back, and more than 10 000 tasks came after it since then while what
    /// follows from the bury is not worked off; [`TaskNotFound`](ErrorKind::TaskNotFound) for the
    /// id of one of these that was never given,
    /// unless [that is ignored](After::missing); [`Cycle`](ErrorKind::Cycle) if one of these is the
    /// task or waits for it; [`TooDeep`](ErrorKind::TooDeep) if more than 1000 edges are before
    /// them; [`Unsupported`](ErrorKind::Unsupported) between a temporary and a durable tube;
    /// [`Invalid`](ErrorKind::Invalid) if it would come after more than 100 000 tasks, or after one
    /// by two different ends; [`DiskFull`](ErrorKind::DiskFull); as [`delete`](Tube::delete). After
    /// an error the steps before it stay done.
    pub fn depend(&self, id: TaskId, on: impl Into<After>) -> Result<()> {
        let on = on.into();
        self.name_task_errors("depend", id, on.check())?;
        let tasks = on.each_once();
        let ids: Vec<_> = tasks.iter().map(|(earlier, _)| *earlier).collect();
        let core = &self.inner.core;
        let found = self.name_task_errors("depend", id, core.find_all(&ids))?;
        let mut steps = tasks.chunks(EDGES_OF_OP);
        let mut step = Some(steps.next().unwrap_or_default());
        let After { is_given, missing, orphaned, .. } = on;
        while let Some(some) = step {
            let after = After { is_given, tasks: some.to_vec(), missing, orphaned };
            let op = Depend { tube: self.number, id, after: &after, found: &found };
            let done = core.run(&op, self.durability);
            // The task that is not there may be one of the others.
            let is_other = |error: &Error| error.task().is_some_and(|task| task != id);
            match done {
                Err(error) if is_other(&error) => self.name_errors("depend", Err(error))?,
                done => {
                    if !self.name_task_errors("depend", id, done)? {
                        break;
                    }
                }
            }
            step = steps.next();
        }
        Ok(())
    }

    /// Lets a task that waits for others wait for these no more, whatever end of them it waits for.
    /// If it then waits for none it is ready, or delayed if it was put with a delay of which time
    /// is left. More than 256 are removed in several steps.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let draft = tube.put(b"draft")?;
    /// let letter = tube.task(b"letter").after([draft]).delay(Duration::from_secs(60)).put()?;
    /// assert_eq!(tube.peek(letter)?.state, State::Blocked);
    /// tube.undepend(letter, [draft])?;
    /// assert_eq!(tube.peek(letter)?.state, State::Delayed); // time of its delay is left
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](ErrorKind::WrongState) if it does not wait for others;
    /// [`Invalid`](ErrorKind::Invalid) for more than 100 000 of these;
    /// [`DiskFull`](ErrorKind::DiskFull); as [`delete`](Tube::delete). After an error the steps
    /// before it stay done.
    pub fn undepend(&self, id: TaskId, from: impl IntoIterator<Item = TaskId>) -> Result<()> {
        let mut tasks: Vec<_> = from.into_iter().take(EDGES_MAX + 1).collect();
        if tasks.len() > EDGES_MAX {
            return self.name_task_errors("undepend", id, Err(too_many()));
        }
        tasks.sort_unstable();
        tasks.dedup();
        let mut steps = tasks.chunks(EDGES_OF_OP);
        let first = Some(steps.next().unwrap_or_default());
        self.undepend_steps(id, first.into_iter().chain(steps).map(Some))
    }

    /// Goes on until the task waits for none, which another call may bring about between two steps.
    fn undepend_steps<'a>(
        &self,
        id: TaskId,
        steps: impl Iterator<Item = Option<&'a [TaskId]>>,
    ) -> Result<()> {
        for (at, tasks) in steps.enumerate() {
            let op = Undepend { tube: self.number, id, tasks };
            match self.inner.core.run(&op, self.durability) {
                Err(error) if at > 0 && error.kind() == ErrorKind::WrongState => break,
                waits => {
                    if !self.name_task_errors("undepend", id, waits)? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Lets a task that waits for others wait for none of them any more, as
    /// [`undepend`](Tube::undepend) does.
    ///
    /// ```
    /// use tubewell::{Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let [draft, stamp] = [tube.put(b"draft")?, tube.put(b"stamp")?];
    /// let letter = tube.task(b"letter").after([draft]).after_any_end([stamp]).put()?;
    /// tube.undepend_all(letter)?;
    /// assert_eq!(tube.peek(letter)?.state, State::Ready);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`undepend`](Tube::undepend).
    pub fn undepend_all(&self, id: TaskId) -> Result<()> {
        self.undepend_steps(id, std::iter::repeat(None))
    }
}

fn too_many() -> Error {
    let text = format!("a task comes after at most {EDGES_MAX} others");
    Error::new(ErrorKind::Invalid).because(text)
}

/// What a task came after.
impl Queue {
    /// The tasks that a task [comes after](crate::NewTask::after), in the order of their ids:
    /// those that it waits for, and those that have ended as it wanted and were still there then,
    /// finished with their results or buried. Retentions keep the finished ones as long as it is
    /// there; one that was removed since stands here too. A task in hand reads the results of the
    /// tasks before it so. Empty once it is finished or gone.
    ///
    /// ```
    /// use tubewell::{Queue, Retention, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let kept = TubeOptions::default().keep_finished(Retention::new().count(1));
    /// let (sums, totals) = (queue.create_tube("sums", kept)?, queue.tube("totals")?);
    /// let parts = sums.put_many([b"1 + 2".to_vec(), b"3 + 4".to_vec()])?;
    /// totals.task(b"add up").after(parts).put()?;
    /// sums.take()?.ack_with(b"3")?;
    /// sums.take()?.ack_with(b"7")?;
    ///
    /// let total = totals.take()?;
    /// let mut sum = 0;
    /// for earlier in queue.dependencies(total.id())? {
    ///     let result = queue.find(earlier)?.result.unwrap_or_default();
    ///     sum += String::from_utf8_lossy(&result).parse::<i32>().unwrap();
    /// }
    /// assert_eq!(sum, 10);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Io`](ErrorKind::Io).
    pub fn dependencies(&self, id: TaskId) -> Result<Vec<TaskId>> {
        self.call("dependencies", |core| core.dependencies(id))
    }

    /// Removes a task and all tasks that [wait for it](crate::NewTask::after), by themselves or by
    /// others, in any tubes and any states, whatever their policies say. Returns how many were
    /// removed. Those that come after it and wait no more stay. It works in steps, from the last
    /// ones on; other calls run between them.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (drafts, letters) = (queue.tube("drafts")?, queue.tube("letters")?);
    /// let draft = drafts.put(b"draft")?;
    /// let letter = letters.task(b"letter").after([draft]).put()?;
    /// letters.task(b"answer").after([letter]).put()?;
    /// assert_eq!(queue.cancel_tree(draft)?, 3);
    /// assert!(drafts.is_empty()? && letters.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound) if there is no such task;
    /// [`TooLarge`](ErrorKind::TooLarge) if 65 536 or more wait for it;
    /// [`HasDependents`](ErrorKind::HasDependents) if meanwhile a task was put after one of them;
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Unknown`](ErrorKind::Unknown) if the sync failed. After an error the steps before it stay
    /// done.
    pub fn cancel_tree(&self, id: TaskId) -> Result<u64> {
        self.call("cancel", |core| match core.tube_with(id)? {
            Some(_) => core.cancel_tree(id, self.inner.durability()),
            None => Err(Error::new(ErrorKind::TaskNotFound).on_task(id)),
        })
    }

    /// Removes tasks in whatever tubes they are, and in any state. Leases on them are lost. Ids of
    /// tasks that are gone are stepped over. Those of them that [wait](crate::NewTask::after) for
    /// others of them are removed before these. It works in steps of 64 tasks of one tube; other
    /// calls run between them. Returns how many were removed. Where all of them are in one tube,
    /// [`Tube::delete_many`] removes them in one step.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (drafts, letters) = (queue.tube("drafts")?, queue.tube("letters")?);
    /// let draft = drafts.put(b"draft")?;
    /// let letter = letters.task(b"letter").after([draft]).put()?;
    /// let refused = queue.delete_many(&[draft]).unwrap_err();
    /// assert_eq!((refused.kind(), refused.tasks()), (ErrorKind::HasDependents, &[letter][..]));
    /// assert_eq!(queue.delete_many(&[draft, letter])?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`HasDependents`](ErrorKind::HasDependents) if a task waits for one of them that is not
    /// among them: nothing is removed then, unless that one was put meanwhile;
    /// [`Invalid`](ErrorKind::Invalid) if more than 4096 wait for those of one step, also if they
    /// are among them; [`Closed`](ErrorKind::Closed);
    /// [`InTransaction`](ErrorKind::InTransaction); [`Unknown`](ErrorKind::Unknown) if the sync
    /// failed. After an error the steps before it stay done.
    pub fn delete_many(&self, ids: &[TaskId]) -> Result<u64> {
        self.call("delete", |core| core.delete_all(ids, self.inner.durability()))
    }
}
