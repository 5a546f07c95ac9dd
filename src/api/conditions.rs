//! Named conditions of the queue: set and cleared by the application, required by tubes.

use crate::api::queue::Queue;
use crate::api::tubes_behind::TubesBehind;
use crate::engine::conditions::{self, RemoveCondition, SetCondition};
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::gates::{Condition, NamedGate, condition_name};

/// Conditions.
impl Queue {
    /// Sets the condition of this name, or clears it, and stores that in the queue. A tube that
    /// [requires](crate::TubeOptions::require) it hands out tasks only while it is set: clearing it
    /// holds all tasks of these tubes back at once, however many there are, and ends no lease; once
    /// it is set, their takers go on. The first call declares it. Returns whether the call changed
    /// anything.
    ///
    /// A queue has at most 1024 conditions, those [for the run](Queue::set_condition_for_run) among
    /// them. The change is one small step, as durable as the queue, and no event; then the takers
    /// of the tubes are woken, of 64 tubes at a time.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions, WhyNot};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let uploads = queue.create_tube("uploads", TubeOptions::default().require("approved"))?;
    /// let id = uploads.put(b"photo")?;
    /// let closed = |is_declared| WhyNot::Requires { condition: "approved".into(), is_declared };
    /// assert!(queue.explain(id)?.reasons.contains(&closed(false)));
    /// queue.set_condition("approved", false)?;
    /// assert!(queue.explain(id)?.reasons.contains(&closed(true)));
    /// assert!(uploads.try_take()?.is_none());
    /// assert!(queue.set_condition("approved", true)?);
    /// assert_eq!(uploads.take()?.id(), id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that is empty, longer than 255 bytes, or has
    /// control characters; [`Full`](ErrorKind::Full) for one more than 1024;
    /// [`DiskFull`](ErrorKind::DiskFull), but not to clear one; [`Closed`](ErrorKind::Closed);
    /// [`ReadOnly`](ErrorKind::ReadOnly); [`InTransaction`](ErrorKind::InTransaction);
    /// [`Unknown`](ErrorKind::Unknown) if the sync failed.
    pub fn set_condition(&self, name: &str, is_set: bool) -> Result<bool> {
        self.change_condition(&SetCondition { name, is_set, is_stored: true })
    }

    /// As [`set_condition`](Queue::set_condition), until the queue is closed or its process ends:
    /// nothing is stored, and every opening begins without it, so that it is not set. For what is
    /// true only of a running program, such as that it is online. A condition is either stored or
    /// for the run, as the last call says.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let queue = Queue::open(&path)?;
    /// queue.set_condition("approved", true)?;
    /// queue.set_condition_for_run("online", true)?;
    /// assert!(queue.condition("online")?);
    /// queue.close()?;
    ///
    /// let queue = Queue::open(&path)?;
    /// assert!(queue.condition("approved")? && !queue.condition("online")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`set_condition`](Queue::set_condition), but not `DiskFull`.
    pub fn set_condition_for_run(&self, name: &str, is_set: bool) -> Result<bool> {
        self.change_condition(&SetCondition { name, is_set, is_stored: false })
    }

    fn change_condition(&self, op: &SetCondition<'_>) -> Result<bool> {
        let opens = op.is_set.then_some(NamedGate::Condition(op.name));
        self.call("set a condition", |core| core.change_gate(op, opens, self.inner.durability()))
    }

    /// Removes a condition: it is as one that was never declared, and so not set. Returns whether
    /// there was one.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_condition("approved", true)?;
    /// assert!(queue.remove_condition("approved")?);
    /// assert!(!queue.condition("approved")?);
    /// assert!(queue.conditions()?.is_empty());
    /// assert!(!queue.remove_condition("approved")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`set_condition`](Queue::set_condition), but neither `Full` nor `DiskFull`.
    pub fn remove_condition(&self, name: &str) -> Result<bool> {
        let op = RemoveCondition { name };
        self.call("remove a condition", |core| core.run(&op, self.inner.durability()))
    }

    /// All conditions that are declared, in the order of their names. A damaged one is left out;
    /// [`check`](Queue::check) names it.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// queue.set_condition("approved", false)?;
    /// queue.set_condition_for_run("online", true)?;
    /// let conditions = queue.conditions()?;
    /// assert_eq!((&conditions[0].name[..], conditions[0].is_set), ("approved", false));
    /// assert_eq!((&conditions[1].name[..], conditions[1].is_stored), ("online", false));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
    pub fn conditions(&self) -> Result<Vec<Condition>> {
        self.call("list conditions", |core| core.look(|view, _| conditions::all(view)))
    }

    /// Whether the condition of this name is set. One that was never declared is not.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// assert!(!queue.condition("approved")?); // never declared
    /// queue.set_condition("approved", true)?;
    /// assert!(queue.condition("approved")?);
    /// queue.set_condition("approved", false)?;
    /// assert!(!queue.condition("approved")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a name that no condition has; as
    /// [`conditions`](Queue::conditions).
    pub fn condition(&self, name: &str) -> Result<bool> {
        self.call("read a condition", |core| {
            let name = condition_name(name)?;
            core.look(|view, _| Ok(conditions::is_set(view, name)? == Some(true)))
        })
    }

    /// The tubes that require a condition, in the order in which they were made, each with the
    /// number of its ready tasks: what stands in front of the condition while that is not set. It
    /// need not be declared. They are read page by page; a tube that is dropped in the meantime is
    /// left out. A tube in which a take has found it closed before tasks that require it
    /// [themselves](crate::NewTask::require) is among them; which ones these are a search
    /// [finds](crate::Filter::requires).
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let uploads = queue.create_tube("uploads", TubeOptions::default().require("online"))?;
    /// uploads.put_many([*b"a", *b"b"])?;
    /// let waiting = queue.requiring("online").collect::<tubewell::Result<Vec<_>>>()?;
    /// assert_eq!(waiting, [("uploads".to_owned(), 2)]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn requiring(&self, condition: &str) -> TubesBehind {
        TubesBehind::new(self, NamedGate::Condition(condition))
    }
}
