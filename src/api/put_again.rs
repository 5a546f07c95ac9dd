//! What a put says of the task that has its key already: that there must be one, and that the
//! caller holds it. What becomes of that task is the engine's.

use crate::api::lease::Lease;
use crate::api::put::NewTask;
use crate::words::verb::Conflict;

impl<T: ?Sized> NewTask<'_, T> {
    /// Puts the task of the [key](NewTask::key) again, as [`Conflict::Replace`] does, or nothing:
    /// it is refused without one.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let id = tube.task(b"to ada").key("a").priority(5).put()?;
    /// tube.take()?.fail("post", "no such street")?;
    ///
    /// assert_eq!(tube.task(b"to ada, in London").key("a").must_exist().put()?, id);
    /// let task = tube.take()?;
    /// assert_eq!((&task[..], task.attempt(), task.priority()), (&b"to ada, in London"[..], 1, 5));
    /// task.ack()?;
    /// let refused = tube.task(b"once more").key("a").must_exist().put();
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TaskNotFound);
    /// # Ok(())
    /// # }
    /// ```
    pub fn must_exist(mut self) -> Self {
        self.extras.get_or_insert_default().must_exist = true;
        self.on_conflict(Conflict::Replace)
    }

    /// The caller holds the task of the key, by this guard: if the put puts it again, the lease
    /// ends without a call of its [`on_lost`](Lease::on_lost).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::builder().by_hand(true).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.task(b"draft").key("ada").put()?;
    /// let (mut task, stop) = (tube.take()?, Arc::new(AtomicBool::new(false)));
    /// let flag = Arc::clone(&stop);
    /// task.on_lost(move |_| flag.store(true, Ordering::Relaxed))?;
    /// tube.task(b"final").key("ada").must_exist().holding(&task).put()?;
    /// queue.tick()?; // calls what is to be called
    /// assert!(task.is_lost()? && !stop.load(Ordering::Relaxed));
    /// # Ok(())
    /// # }
    /// ```
    pub fn holding(mut self, task: &impl AsRef<Lease>) -> Self {
        self.extras.get_or_insert_default().holding = Some(task.as_ref().ticket());
        self
    }
}
