//! The timeout by force, for those who know that a holder will not come back.

use crate::api::tube::Tube;
use crate::engine::timeout::ForceTimeout;
use crate::words::error::Result;
use crate::words::task::TaskId;

/// Taken tasks whose holders are gone.
impl<T: ?Sized> Tube<T> {
    /// Takes tasks away from their holders, all of them or none: their leases are lost, their
    /// groups are unlocked, their attempts do not count, and they are ready *ahead of every
    /// priority*, in the order in which they are given. A task that is given twice counts once.
    ///
    /// Each keeps its priority. It stands ahead until it is taken, or until
    /// [`update`](Tube::update) gives it a priority or a delay, and then has its own place again.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let slow = tube.task(b"slow").priority(5).put()?;
    /// let task = tube.take()?;
    /// let next = tube.task(b"urgent").priority(-5).put()?;
    ///
    /// let refused = tube.force_timeout(&[slow, next]).unwrap_err();
    /// assert_eq!((refused.kind(), refused.task()), (ErrorKind::WrongState, Some(next)));
    ///
    /// tube.force_timeout(&[slow])?;
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// let again = tube.take()?;
    /// assert_eq!((again.id(), again.attempt(), again.priority()), (slow, 1, 5));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error names the first of the tasks that is refused, and nothing happened:
    /// [`WrongState`](crate::ErrorKind::WrongState) if it is not taken;
    /// [`TaskNotFound`](crate::ErrorKind::TaskNotFound) if there is no such task;
    /// [`WrongTube`](crate::ErrorKind::WrongTube) if it is in another tube.
    /// [`Invalid`](crate::ErrorKind::Invalid) for more than 65 536 tasks;
    /// [`DiskFull`](crate::ErrorKind::DiskFull); as [`kick`](Tube::kick).
    pub fn force_timeout(&self, ids: &[TaskId]) -> Result<()> {
        let done = self.inner.core.run(&ForceTimeout { tube: self.number, ids }, self.durability);
        let action = "force timeout";
        match done.as_ref().err().and_then(|error| error.task()) {
            Some(id) => self.name_task_errors(action, id, done),
            None => self.name_errors(action, done),
        }
    }
}
