//! Tasks that their holder sends on to another tube inside a transaction.

use crate::api::lease::Lease;
use crate::api::transact::Transaction;
use crate::api::tube::Tube;
use crate::engine::due::CatchUp;
use crate::engine::moves::Move;
use crate::words::error::Result;
use crate::words::task::TaskId;
use crate::words::verb::Advance;

impl Transaction<'_> {
    /// As [`Task::advance`](crate::Task::advance), with the rest of the transaction or not at all:
    /// what a step has found is in the application's tables when the next step begins, once.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (fetch, parse) = (queue.tube("fetch")?, queue.tube("parse")?);
    /// let id = fetch.put(b"a.html")?;
    ///
    /// let task = fetch.take()?;
    /// queue.transact(|tx| {
    ///     tx.advance(&task, &parse)?;
    ///     fetch.put_in(tx, b"b.html") // which the page links to
    /// })?;
    ///
    /// assert_eq!(parse.take()?.id(), id);
    /// assert_eq!(&fetch.take()?[..], b"b.html");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Task::advance`](crate::Task::advance).
    pub fn advance<U: ?Sized>(&self, task: &impl AsRef<Lease>, next: &Tube<U>) -> Result<()> {
        self.advance_with(task, next, Advance::new())
    }

    /// As [`Task::advance_with`](crate::Task::advance_with), with the rest of the transaction or
    /// not at all. It may also come after tasks that the transaction puts.
    ///
    /// # Errors
    /// As [`Task::advance_with`](crate::Task::advance_with);
    /// [`TooLarge`](crate::ErrorKind::TooLarge) if the tasks that it comes after are looked for in
    /// too many tubes, as for [`NewTask::put_in`](crate::NewTask::put_in).
    pub fn advance_with<U: ?Sized>(
        &self,
        task: &impl AsRef<Lease>,
        next: &Tube<U>,
        terms: Advance<'_>,
    ) -> Result<()> {
        self.advance_by(task.as_ref(), next, terms, |op| self.run(op))
    }

    /// The same through `run`.
    pub(super) fn advance_by<U: ?Sized>(
        &self,
        lease: &Lease,
        next: &Tube<U>,
        terms: Advance<'_>,
        run: impl FnOnce(&Move<'_>) -> Result<()>,
    ) -> Result<()> {
        let held = lease.active();
        self.same_queue(&held.inner).map_err(|error| held.named(error, "advance"))?;
        let looks = (
            |tube| self.run(&CatchUp { tube }).map(drop),
            |ids: &[TaskId]| self.find(ids, next.number),
        );
        held.advance_over(next, terms, looks, |op, _| run(op))
    }
}
