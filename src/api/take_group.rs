//! Takes of the first task of a chosen group, with all kinds of wait.

use crate::api::lease::Task;
use crate::api::tube::Tube;
use crate::engine::take::TakeGroup;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::stop::Stop;
use crate::words::wait::Wait;
use std::time::Duration;

/// The first task of a chosen group.
impl<T: ?Sized> Tube<T> {
    /// Takes the first ready task of a group, also if tasks of others are ready before it. Waits
    /// for one without a time limit, while the group has none, while as many of its tasks are in
    /// flight [as may be](crate::TubeOptions::in_flight), while a gate of the tube or of the
    /// group's first task [its own](crate::NewTask::require) is closed, and while the tube is
    /// paused.
    ///
    /// Calls that wait for a tube are woken in the order in which they came. One that waits for a
    /// group and is woken for a task of another one passes that on to the next call: of many calls
    /// that wait for different groups, each may look once for a task.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let taker = std::thread::spawn({
    ///     let tube = tube.clone();
    ///     move || tube.take_group("bob")?.ack() // waits for the second put
    /// });
    /// let to_ada = tube.task(b"to ada").group("ada").put()?;
    /// tube.task(b"to bob").group("bob").put()?;
    /// taker.join().unwrap()?;
    /// assert_eq!(tube.take()?.id(), to_ada);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) if the tube's kind has no groups;
    /// [`Invalid`](ErrorKind::Invalid) for a group name as a put refuses it; as
    /// [`take`](Tube::take).
    pub fn take_group(&self, group: &str) -> Result<Task<T>> {
        let task = self.take_group_waiting(group, Wait::EVER)?;
        // A wait without a time limit ends with a task or an error.
        task.ok_or_else(|| Error::new(ErrorKind::Closed).during("take").in_tube(self.name()))
    }

    /// Takes the first ready task of a group, if there is one now that may be taken. As
    /// [`take_group`](Tube::take_group) otherwise.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.task(b"to ada").group("ada").put()?;
    /// tube.task(b"to bob").group("bob").put()?;
    /// let task = tube.try_take_group("bob")?.unwrap();
    /// assert_eq!(&task[..], b"to bob");
    /// assert!(tube.try_take_group("bob")?.is_none());
    /// # task.ack()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take_group`](Tube::take_group).
    pub fn try_take_group(&self, group: &str) -> Result<Option<Task<T>>> {
        self.take_group_waiting(group, Wait::NO)
    }

    /// As [`take_group`](Tube::take_group), at most this long, in [lease time](crate#time).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.task(b"to ada").group("ada").put()?;
    /// assert!(tube.take_group_timeout("bob", Duration::from_millis(1))?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take_group`](Tube::take_group).
    pub fn take_group_timeout(&self, group: &str, timeout: Duration) -> Result<Option<Task<T>>> {
        self.take_group_waiting(group, Wait::within(timeout))
    }

    /// As [`take_group`](Tube::take_group), until [`stop`](Stop::stop) is called. After that it
    /// takes nothing and returns `None`.
    ///
    /// ```
    /// use tubewell::{Queue, Stop};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.task(b"to bob").group("bob").put()?;
    /// let stop = Stop::new(); // a clone of it stops from any thread
    /// while let Some(task) = tube.take_group_until("bob", &stop)? {
    ///     task.ack()?;
    ///     stop.stop();
    /// }
    /// assert!(tube.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take_group`](Tube::take_group).
    pub fn take_group_until(&self, group: &str, stop: &Stop) -> Result<Option<Task<T>>> {
        self.take_group_waiting(group, Wait::until(stop))
    }

    fn take_group_waiting<'a>(&'a self, group: &str, wait: Wait<'a>) -> Result<Option<Task<T>>> {
        self.take_by(wait, |core, holder, wait| {
            core.take_group(TakeGroup { tube: self.number, group, holder }, wait)
        })
    }
}
