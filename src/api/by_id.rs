//! The verbs on tasks by their ids, and on the next buried tasks. None of them needs a lease.

use crate::api::steps::in_steps;
use crate::api::tube::Tube;
use crate::engine::by_id::{self, Tool, Verb};
use crate::engine::dependents::Together;
use crate::engine::update::{self, Changes};
use crate::words::backoff::Backoff;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::{debug, setters};
use crate::words::task::{Reason, State, TaskId};
use crate::words::verb::Kicked;
use std::fmt::Display;
use std::time::{Duration, SystemTime};

/// Verbs on a task by its id.
impl<T: ?Sized> Tube<T> {
    /// Makes up to `most` buried tasks ready again, smallest priority first, then put order, with
    /// their attempts set to zero. Works in steps of 64; other calls run between them. Returns how
    /// many, and names the tasks that it stepped over because another one counts for
    /// [their key](crate::Unique) by now: they stay buried.
    ///
    /// A ttl continues. If it passed while the task was buried, in a tube with
    /// [`ttl_spares_buried`](crate::TubeOptions::ttl_spares_buried), it starts again.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put_many([b"to ada".to_vec(), b"to bob".to_vec()])?;
    /// tube.take()?.bury("no stamp")?;
    /// tube.take()?.bury("no such street")?;
    ///
    /// assert_eq!(tube.kick(1)?.kicked, 1);
    /// let task = tube.take()?;
    /// assert_eq!((&task[..], task.attempt()), (&b"to ada"[..], 1));
    /// assert_eq!(tube.kick(10)?.kicked, 1); // the other one
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TubeNotFound`](crate::ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`Closed`](crate::ErrorKind::Closed);
    /// [`InTransaction`](crate::ErrorKind::InTransaction);
    /// [`Unknown`](crate::ErrorKind::Unknown) if the sync failed. After an error the steps before
    /// it stay done.
    pub fn kick(&self, most: u64) -> Result<Kicked> {
        self.kick_in("kick", None, most)
    }

    /// Makes buried tasks ready again, step by step: all, or those of a failure group.
    pub(crate) fn kick_in(
        &self,
        action: &'static str,
        group: Option<&str>,
        most: u64,
    ) -> Result<Kicked> {
        // What fails again meanwhile is left.
        let now = self.inner.core.look(|_, now| Ok(now.queue));
        let until = self.name_errors(action, now)?;
        let (failed, mut all) = (group.map(|group| (group, until)), Kicked::default());
        let mut from = None;
        loop {
            let op = by_id::Kick { tube: self.number, failed, most: most - all.kicked, from };
            let (done, next) = self.run(action, &op)?;
            done.add_to(&mut all);
            match next {
                Some(_) if all.kicked < most => from = next,
                _ => return Ok(all),
            }
        }
    }

    /// Makes one buried task ready again, as [`kick`](Tube::kick) does.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// tube.take()?.bury("no stamp")?;
    /// tube.kick_task(id)?;
    /// assert_eq!(tube.kick_task(id).unwrap_err().kind(), ErrorKind::WrongState); // it is ready
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](crate::ErrorKind::WrongState) if it is not buried;
    /// [`KeyExists`](crate::ErrorKind::KeyExists) if another task counts for its key by now, see
    /// [`Unique`](crate::Unique); as [`delete`](Tube::delete).
    pub fn kick_task(&self, id: TaskId) -> Result<()> {
        self.run_on("kick", id, Verb::Kick).map(drop)
    }

    /// Finishes a task by its id, also if another holds it: it is removed, or kept if its tube
    /// [keeps finished tasks](crate::TubeOptions::keep_finished), and a lease on it is lost. The
    /// task may be taken, ready or delayed, so a worker may also say so after its lease
    /// has lapsed.
    /// Returns whether this call has finished it: of all calls for one task, from any thread,
    /// exactly one gets `true`. `false`: the task is finished or gone, or the id was never given.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// assert!(tube.complete_by_id(id)?);
    /// assert!(!tube.complete_by_id(id)?);
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](crate::ErrorKind::WrongState) if it is buried: kick it first;
    /// [`WrongTube`](crate::ErrorKind::WrongTube) if it is in another tube; as
    /// [`kick`](Tube::kick).
    pub fn complete_by_id(&self, id: TaskId) -> Result<bool> {
        was_there(self.run_on("complete", id, Verb::Complete(None)))
    }

    /// As [`complete_by_id`](Tube::complete_by_id), with a result of at most 16 KiB that the tube
    /// keeps beside the task, see [`Task::ack_with`](crate::Task::ack_with).
    ///
    /// ```
    /// use tubewell::{Queue, Retention, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let options = TubeOptions::default().keep_finished(Retention::new().count(1000));
    /// let tube = queue.create_tube("sums", options)?;
    /// let id = tube.put(b"1 + 2")?;
    /// assert!(tube.complete_by_id_with(id, b"3")?);
    /// assert!(!tube.complete_by_id_with(id, b"4")?);
    /// assert_eq!(tube.peek(id)?.result.as_deref(), Some(&b"3"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`complete_by_id`](Tube::complete_by_id);
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the tube does not keep finished tasks;
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a result above 16 KiB;
    /// [`DiskFull`](crate::ErrorKind::DiskFull); [`Full`](crate::ErrorKind::Full) if temporary
    /// tubes hold as many bytes as they may.
    pub fn complete_by_id_with(&self, id: TaskId, result: &[u8]) -> Result<bool> {
        was_there(self.run_on("complete", id, Verb::Complete(Some(result))))
    }

    /// Fails a task by its id, also if another holds it: it is buried as by
    /// [`fail`](crate::Lease::fail), and a lease on it is lost. The task may be taken, ready or
    /// delayed. Returns `false` if it is gone, or if the id was never given.
    ///
    /// ```
    /// use tubewell::{Queue, Reason};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// assert!(tube.fail_by_id(id, "address", "no such street")?);
    /// let (group, message) = ("address".into(), "no such street".into());
    /// assert_eq!(tube.peek(id)?.reason, Some(Reason::Failed { group, message }));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](crate::ErrorKind::WrongState) also if it is finished;
    /// [`DiskFull`](crate::ErrorKind::DiskFull); as [`complete_by_id`](Tube::complete_by_id).
    pub fn fail_by_id(
        &self,
        id: TaskId,
        group: impl Into<String>,
        message: impl Display,
    ) -> Result<bool> {
        let reason = Reason::Failed { group: group.into(), message: message.to_string() };
        was_there(self.run_on("fail", id, Verb::Fail(reason)))
    }

    /// Removes a task, in any state. A lease on it is lost. One that others
    /// [wait for](crate::NewTask::after) is not removed: [`delete_many`](Tube::delete_many) removes
    /// it with them, [`cancel_tree`](crate::Queue::cancel_tree) with all that wait for those, and
    /// [`force_delete`](Tube::force_delete) alone.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// let task = tube.take()?;
    /// tube.delete(id)?;
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](crate::ErrorKind::TaskNotFound);
    /// [`WrongTube`](crate::ErrorKind::WrongTube) if it is in another tube, which the error names;
    /// [`HasDependents`](crate::ErrorKind::HasDependents) if other tasks wait for it, of which
    /// [`Error::tasks`](crate::Error::tasks) names one, also while a put in several steps makes it;
    /// [`TubeNotFound`](crate::ErrorKind::TubeNotFound) if the tube was dropped;
    /// [`Closed`](crate::ErrorKind::Closed);
    /// [`InTransaction`](crate::ErrorKind::InTransaction);
    /// [`Unknown`](crate::ErrorKind::Unknown) if the sync failed.
    pub fn delete(&self, id: TaskId) -> Result<()> {
        self.run_on("delete", id, Verb::Delete { only_if: None, by_force: false }).map(drop)
    }

    /// Removes a task, in any state, also if other tasks [wait for it](crate::NewTask::after):
    /// their [policy](crate::Orphaned) says what becomes of them.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Orphaned, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let draft = tube.put(b"draft")?;
    /// let letter = tube.task(b"letter").after([draft]).orphaned(Orphaned::Cancel).put()?;
    /// let refused = tube.delete(draft).unwrap_err();
    /// assert_eq!((refused.kind(), refused.tasks()), (ErrorKind::HasDependents, &[letter][..]));
    /// tube.force_delete(draft)?;
    /// assert!(tube.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`delete`](Tube::delete), without `HasDependents`.
    pub fn force_delete(&self, id: TaskId) -> Result<()> {
        self.run_on("delete", id, Verb::Delete { only_if: None, by_force: true }).map(drop)
    }

    /// Removes a task if it is in one of these states.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// let unfinished = [State::Ready, State::Delayed];
    /// let task = tube.take()?;
    /// let refused = tube.delete_only_if(id, &unfinished).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::WrongState); // it is taken
    /// task.release()?;
    /// tube.delete_only_if(id, &unfinished)?;
    /// assert!(tube.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](crate::ErrorKind::WrongState) if it is in another state; as
    /// [`delete`](Tube::delete).
    pub fn delete_only_if(&self, id: TaskId, states: &[State]) -> Result<()> {
        self.run_on("delete", id, Verb::Delete { only_if: Some(states), by_force: false }).map(drop)
    }

    /// Removes tasks, in any state, in one step; above 65 536 in several. Leases on them are lost.
    /// Ids that the tube does not have are stepped over, also those of tasks in other tubes. Tasks
    /// of the tube that [wait](crate::NewTask::after) for each other are removed together, in
    /// whatever order they are given; those of several tubes are removed tube by tube, those that
    /// wait first. Between two steps the [policy](crate::Orphaned) of a task counts that waits for
    /// one of an earlier step. Returns how many were removed.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let ids = tube.put_many([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()])?;
    /// tube.take()?.ack()?;
    /// assert_eq!(tube.delete_many(&ids)?, 2);
    /// assert!(tube.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`HasDependents`](crate::ErrorKind::HasDependents) if a task waits for one of them that is
    /// not among them, or is in another tube; [`Invalid`](crate::ErrorKind::Invalid) if more than
    /// 4096 wait for those of one step, also if they are among them; as [`kick`](Tube::kick).
    pub fn delete_many(&self, ids: &[TaskId]) -> Result<u64> {
        let (mut deleted, mut all) = (0, ids.to_vec());
        all.sort_unstable();
        let done = in_steps(ids.len(), |step| {
            let ids = ids.get(step).unwrap_or_default();
            let all = Together::in_its_tube(&all);
            let op = by_id::DeleteMany { tube: self.number, ids, all, is_check: false };
            deleted += self.inner.core.run(&op, self.durability)?;
            Ok(())
        });
        self.name_errors("delete", done).map(|()| deleted)
    }

    /// Buries a task, in any state but Done, with a reason cut to 4096 bytes. A lease on it is
    /// lost. A task that is buried already, or in the trash, stays so with its first reason.
    ///
    /// ```
    /// use tubewell::{Queue, Reason};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// tube.bury(id, "the sender has called it back")?;
    /// tube.bury(id, "too late")?;
    /// let reason = tube.peek(id)?.reason.clone();
    /// assert_eq!(reason, Some(Reason::Buried("the sender has called it back".into())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](crate::ErrorKind::WrongState) if it is finished;
    /// [`DiskFull`](crate::ErrorKind::DiskFull); as [`force_delete`](Tube::force_delete).
    pub fn bury(&self, id: TaskId, reason: impl Display) -> Result<()> {
        let reason = Reason::Buried(reason.to_string());
        self.run_on("bury", id, Verb::Bury(reason)).map(drop)
    }

    /// Starts a change of a task in any state but Done: its priority, its ttl and ttr, how it is
    /// retried, and when it becomes ready.
    ///
    /// ```
    /// use tubewell::{Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// tube.update(id).max_attempts(1).apply()?;
    /// tube.take()?.retry("no answer")?; // its last attempt
    /// assert_eq!(tube.peek(id)?.state, State::Buried);
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, id: TaskId) -> UpdateTask<'_, T> {
        UpdateTask { tube: self, id, changes: Changes::default(), durability: self.durability }
    }

    pub(crate) fn run_on(&self, action: &'static str, id: TaskId, verb: Verb<'_>) -> Result<bool> {
        let op = Tool { tube: self.number, id, verb };
        let done = self.inner.core.run(&op, self.durability);
        self.name_task_errors(action, id, done)
    }

    /// Adds the verb, the tube's name and the task to an error. If the tube does not have the task
    /// and another one does, the error names that.
    #[inline]
    pub(crate) fn name_task_errors<R>(
        &self,
        action: &'static str,
        id: TaskId,
        result: Result<R>,
    ) -> Result<R> {
        self.name_errors(action, result.map_err(|error| self.or_elsewhere(id, error).on_task(id)))
    }

    #[cold]
    fn or_elsewhere(&self, id: TaskId, error: Error) -> Error {
        if error.kind() != ErrorKind::TaskNotFound {
            return error;
        }
        match self.inner.core.name_of_tube_with(id) {
            Ok(Some(name)) if *name != *self.name => {
                Error::new(ErrorKind::WrongTube).because(format!("it is in tube {name:?}"))
            }
            // It has moved to and fro.
            Ok(Some(_)) => Error::new(ErrorKind::WrongTube).because("it has just come back"),
            Ok(None) => error,
            // Where the task is could not be found out.
            Err(failed) => failed,
        }
    }
}

/// Whether a verb found its task, and has ended it.
fn was_there(done: Result<bool>) -> Result<bool> {
    match done {
        Err(error) if error.kind() == ErrorKind::TaskNotFound => Ok(false),
        done => done,
    }
}

/// A change of one task, from [`Tube::update`]. Nothing happens before
/// [`apply`](UpdateTask::apply), which makes all changes in one step. What is not given stays as it
/// is. An option that the tube's kind does not allow is refused.
///
/// A taken task stays taken: its ttl and its ttr change at once, its priority counts when it
/// returns. A buried task stays buried.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Queue, State};
///
/// # fn main() -> tubewell::Result<()> {
/// let tube = Queue::in_memory()?.tube("letters")?;
/// tube.put(b"first")?;
/// let later = tube.task(b"later").delay(Duration::from_secs(3600)).put()?;
/// tube.update(later).priority(-1).delay(Duration::ZERO).apply()?; // now, and before the other
///
/// let task = tube.take()?;
/// assert_eq!((task.id(), task.priority()), (later, -1));
/// tube.update(later).ttr(Duration::from_secs(60)).apply()?; // of the task in hand
/// assert!(task.time_left()? <= Some(Duration::from_secs(60)));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is changed before `apply`"]
pub struct UpdateTask<'a, T: ?Sized = [u8]> {
    tube: &'a Tube<T>,
    id: TaskId,
    changes: Changes,
    durability: Durability,
}

setters! {
    ['a, T: ?Sized] UpdateTask<'a, T>;

    /// Another priority, at the same place in the order of puts. Smaller first.
    priority(priority: i64) => changes.priority = Some(priority);

    /// Not before this time has passed, from now on, in [queue time](crate#time); zero: at once. It
    /// replaces the delay of a delayed task, and delays a ready one. It does not shorten the ttl: a
    /// delay counts as in [`NewTask::delay`](crate::NewTask::delay).
    delay(delay: Duration) => changes.delay = Some(delay);

    /// Not before this time of day, in [wall time](crate#time), instead of a delay. In the past: at
    /// once.
    run_at(time: SystemTime) => changes.run_at = Some(time);

    /// A new ttl, from now on, in queue time; a delay is added. A microsecond or more.
    ttl(ttl: Duration) => changes.ttl = Some(ttl);

    /// A new ttr. If the task is taken, its lease ends this long from now, in
    /// [lease time](crate#time). A microsecond or more.
    ttr(ttr: Duration) => changes.ttr = Some(ttr);

    /// The most attempts of this task instead of its tube's; 0: no limit. It is compared with the
    /// attempts that it has used when the next one fails.
    max_attempts(attempts: u32) => changes.retry.max_attempts = Some(attempts);

    /// How long this task waits after a retry, instead of its tube's back-off.
    backoff(backoff: Backoff) => changes.retry.backoff = Some(backoff);

    /// With this durability instead of the handle's.
    durability(durability: Durability) => durability = durability;
}

impl<T: ?Sized> UpdateTask<'_, T> {
    /// Makes the changes.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.put(b"hello")?;
    /// let task = tube.take()?; // which has no delay
    /// let refused = tube.update(id).priority(-1).delay(Duration::from_secs(60)).apply();
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::WrongState);
    /// assert_eq!(tube.peek(id)?.priority, 0); // nothing is changed
    /// # task.ack()
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongState`](crate::ErrorKind::WrongState) for a finished task, and for a delay or a
    /// `run_at` of a taken or buried one; [`KeyExists`](crate::ErrorKind::KeyExists) if with its
    /// new delay it would count for a key beside another task, see [`Unique`](crate::Unique);
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for an option that the tube's kind does not
    /// allow; [`Invalid`](crate::ErrorKind::Invalid) for a ttl or ttr of less than a microsecond,
    /// and for a delay together with a `run_at`; [`DiskFull`](crate::ErrorKind::DiskFull); as
    /// [`Tube::force_delete`].
    pub fn apply(self) -> Result<()> {
        let Self { tube, id, changes, durability } = self;
        let op = update::Update { tube: tube.number, id, changes };
        let done = tube.inner.core.run(&op, durability);
        tube.name_task_errors("update", id, done)
    }
}

debug!([T: ?Sized] UpdateTask<'_, T>, "UpdateTask", this, "id": &this.id);
