//! The gates of single tasks: the conditions and throttles that a put names for its own.

use crate::api::put::NewTask;
#[cfg(doc)]
use crate::words::options::TubeOptions;

impl<'a, T: ?Sized, P> NewTask<'a, T, P> {
    /// Not before this [condition](crate::Queue::set_condition) is set: for what only some of a
    /// tube's tasks need. Those of [its tube](TubeOptions::require) it requires besides. A task may
    /// require up to 16, each call adds one; the names of its conditions and
    /// [throttles](NewTask::throttle) have at most 255 bytes together, with one for each. While one
    /// is not set the other tasks of the tube are taken; of those with the same gates the first
    /// stays the first. A take looks behind at most 64 gates that may have opened since others did:
    /// where more have, the takes after it find the tasks behind the rest.
    ///
    /// A task of a [group](NewTask::group) waits for its gates as the first of the group, and those
    /// after it wait for it: a group is taken in order. In a tube of kind
    /// [`Utube`](crate::TubeKind::Utube) all tasks are in groups, those without a name in one. The
    /// gates stay with the task until its end: it keeps them when it is moved, copied and put again
    /// without others.
    ///
    /// ```
    /// use tubewell::{Queue, WhyNot};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let sent = tube.task(b"send").priority(-1).require("online").put()?;
    /// let printed = tube.task(b"print").put()?;
    /// assert_eq!(tube.take()?.id(), printed);
    /// let closed = WhyNot::Requires { condition: "online".into(), is_declared: false };
    /// assert_eq!(queue.explain(sent)?.reasons, [closed]);
    /// queue.set_condition("online", true)?;
    /// assert_eq!(tube.take()?.id(), sent);
    /// # Ok(())
    /// # }
    /// ```
    pub fn require(mut self, condition: &'a str) -> Self {
        let extras = self.extras.get_or_insert_default();
        extras.gate(|gates| _ = gates.required.insert(condition));
        self
    }

    /// With a slot of this [throttle](crate::Queue::set_throttle) while it is taken, besides those
    /// of [its tube](TubeOptions::throttle): for what only some of a tube's tasks use. While no
    /// slot is free the other tasks of the tube are taken. A task may have up to 8, each call adds
    /// one; it gets a slot of all of them or is not taken. As [`require`](NewTask::require)
    /// otherwise.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_throttle("tenant 7", 1)?;
    /// let tube = queue.tube("renders")?;
    /// let ids = tube.batch([*b"a", *b"b"]).throttle("tenant 7").put()?;
    /// let other = tube.put(b"c")?;
    /// let (first, second) = (tube.take()?, tube.take()?);
    /// assert_eq!((first.id(), second.id()), (ids[0], other));
    /// assert!(tube.try_take()?.is_none());
    /// first.ack()?;
    /// assert_eq!(tube.take()?.id(), ids[1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn throttle(mut self, name: &'a str) -> Self {
        let extras = self.extras.get_or_insert_default();
        extras.gate(|gates| _ = gates.throttles.insert(name));
        self
    }
}
