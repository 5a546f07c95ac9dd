//! What a put says of the tasks that its task comes after. Where they are is looked for before the
//! op; what becomes of the task is the engine's.

use crate::api::put::NewTask;
use crate::words::dependency::After;
use crate::words::dependency::{Missing, On, Orphaned};
use crate::words::task::TaskId;

impl<'a, T: ?Sized, P> NewTask<'a, T, P> {
    /// Waits for these tasks, in any tubes: it is [Blocked](crate::State::Blocked) until each of
    /// them has succeeded, that is, until it is acked or completed. With a
    /// [`delay`](NewTask::delay) it is delayed after that if time is left. Its ttl does not run
    /// while it is blocked.
    ///
    /// A task that is finished has succeeded, also if it is gone by now; an id that was never given
    /// [is refused](NewTask::missing). If one is buried, deleted by force, or removed with its tube
    /// or by its ttl, [`orphaned`](NewTask::orphaned) says what becomes of this one. Several calls
    /// add up, to at most 100 000 tasks; one that is put among others comes after at most 256, and
    /// one in a transaction after at most 10 000. Those of a batch come after at most 10 000
    /// together, and each of them after all that the batch names too, with its own
    /// [policy](NewTask::orphaned) if it has one. More than 256 are looked at in several steps, and
    /// no other call sees the task before the last one; until then none of them can be
    /// [deleted](crate::Tube::delete) without force, and they count it among their
    /// [dependents](crate::TaskInfo). An id that is gone is looked for in every tube
    /// that has tasks, a few at a time.
    ///
    /// A put that meets the task of its [key](NewTask::key) and puts it again replaces what that
    /// one waits for, also by nothing: with `.after([])` it waits for none. It replaces at most 256
    /// by at most 256, and in a transaction 10 000 by 10 000. Without a call of
    /// `after` it goes on waiting for what it has waited for. A put in the place of a finished task
    /// removes that one with its result, also if others come after it.
    ///
    /// ```
    /// use tubewell::{Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (build, ship) = (queue.tube("build")?, queue.tube("ship")?);
    /// let parts = [build.put(b"left half")?, build.put(b"right half")?];
    /// let whole = ship.task(b"both halves").after(parts).put()?;
    /// assert_eq!(ship.peek(whole)?.state, State::Blocked);
    ///
    /// build.take()?.ack()?;
    /// assert_eq!(ship.peek(whole)?.dependencies.first, [parts[1]]);
    /// build.take()?.ack()?;
    /// assert_eq!(ship.take()?.id(), whole);
    /// # Ok(())
    /// # }
    /// ```
    pub fn after(self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        self.after_end(tasks, On::Success)
    }

    /// Waits until each of these tasks is buried, for whatever reason. If one succeeds or is
    /// removed, [`orphaned`](NewTask::orphaned) says what becomes of this one.
    ///
    /// ```
    /// use tubewell::{Orphaned, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let [good, bad] = [tube.put(b"to ada")?, tube.put(b"to no one")?];
    /// let on_failure = |id| tube.task(b"tell me").after_failure([id]).orphaned(Orphaned::Cancel);
    /// let (first, second) = (on_failure(good).put()?, on_failure(bad).put()?);
    /// tube.take()?.ack()?;
    /// tube.take()?.fail("address", "no such person")?;
    /// assert_eq!(tube.take()?.id(), second);
    /// assert!(tube.peek(first).unwrap_err().is_not_found());
    /// # Ok(())
    /// # }
    /// ```
    pub fn after_failure(self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        self.after_end(tasks, On::Failure)
    }

    /// Waits until each of these tasks has ended in any way: finished, buried or removed.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let steps = tube.put_many([b"print".to_vec(), b"fold".to_vec()])?;
    /// let last = tube.task(b"clean up").after_any_end(steps).put()?;
    /// tube.take()?.ack()?;
    /// tube.take()?.fail("paper", "it is torn")?;
    /// assert_eq!(tube.take()?.id(), last);
    /// # Ok(())
    /// # }
    /// ```
    pub fn after_any_end(self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        self.after_end(tasks, On::AnyEnd)
    }

    /// What a put after a task does whose id was never given. Default: [`Missing::Refuse`].
    ///
    /// ```
    /// use tubewell::{ErrorKind, Missing, Queue, State, TaskId};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let unknown = [TaskId::new(7)]; // never given
    /// let refused = tube.task(b"letter").after(unknown).put().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::TaskNotFound);
    /// let letter = tube.task(b"letter").after(unknown).missing(Missing::Ignore).put()?;
    /// assert_eq!(tube.peek(letter)?.state, State::Ready);
    /// # Ok(())
    /// # }
    /// ```
    pub fn missing(mut self, missing: Missing) -> Self {
        self.after_mut().missing = Some(missing);
        self
    }

    /// What becomes of it once one of the tasks that it comes after has ended otherwise than it
    /// waits for. Default: [`Orphaned::Hold`]. It counts for all that this put comes after, before
    /// or after this call; that of a batch counts for its tasks that say nothing else.
    ///
    /// ```
    /// use tubewell::{Orphaned, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let draft = tube.put(b"draft")?;
    /// let put = |policy| tube.task(b"letter").after([draft]).orphaned(policy).put();
    /// let (held, removed) = (put(Orphaned::Hold)?, put(Orphaned::Cancel)?);
    /// let freed = put(Orphaned::Ignore)?;
    /// tube.take()?.bury("no ink")?;
    /// assert_eq!(tube.peek(held)?.state, State::Blocked);
    /// assert!(tube.peek(removed).unwrap_err().is_not_found());
    /// assert_eq!(tube.peek(freed)?.state, State::Ready);
    /// # Ok(())
    /// # }
    /// ```
    pub fn orphaned(mut self, orphaned: Orphaned) -> Self {
        self.after_mut().orphaned = Some(orphaned);
        self
    }

    fn after_end(mut self, tasks: impl IntoIterator<Item = TaskId>, on: On) -> Self {
        self.after_mut().add(tasks, on);
        self
    }

    fn after_mut(&mut self) -> &mut After {
        self.extras.get_or_insert_default().after.get_or_insert_default()
    }
}
