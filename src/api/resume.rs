//! Takes over the leases of a consumer's earlier session, page by page. Holds at most one page.

use crate::api::consumer::Consumer;
use crate::api::lease::{Lease, Task};
use crate::api::tube::Tube;
use crate::engine::consumers::Resume;
use crate::engine::take::Delivery;
use crate::words::clock::machine_now;
use crate::words::durability::Durability;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::macros::debug;
use crate::words::sync::plain::park_timeout;
use crate::words::task::TaskId;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long the engine's lock is left to others at most: a page that waited for a checkpoint took
/// much longer than its work.
const LEFT_MAX: Duration = Duration::from_millis(10);

impl Consumer {
    /// Takes over the leases in `tube` that this consumer's earlier session left, by id, one after
    /// the other as the iterator continues: with new tickets, the same number of attempts, and
    /// their full ttr from then on. At most 64 tasks, or 1 MiB of payloads but at least one task,
    /// are taken over in advance. When the iterator is dropped, those that the caller has not seen
    /// are released. A task whose payload cannot be decoded is buried, as by [`take`](Tube::take).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("work.queue");
    /// let grace = Duration::from_secs(60);
    /// let queue = Queue::open(&path)?;
    /// let tube = queue.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let ada = queue.consumer_with_grace("ada", grace)?;
    /// let before = tube.by(&ada).take()?.detach();
    /// queue.close()?; // or a kill
    ///
    /// let queue = Queue::open(&path)?;
    /// let tube = queue.tube("letters")?;
    /// assert!(tube.try_take()?.is_none()); // kept for ada
    /// let ada = queue.consumer_with_grace("ada", grace)?;
    /// for task in ada.resume(&tube) {
    ///     let task = task?;
    ///     assert_eq!((task.id(), task.attempt()), (before.id(), 1));
    ///     task.ack()?;
    /// }
    /// assert!(tube.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of an item: [`Invalid`](ErrorKind::Invalid) if the tube is of another queue;
    /// [`Closed`](ErrorKind::Closed); [`TubeNotFound`](ErrorKind::TubeNotFound);
    /// [`InTransaction`](ErrorKind::InTransaction).
    pub fn resume<T: ?Sized>(&self, tube: &Tube<T>) -> Resumed<T> {
        // A session without a name leaves nothing.
        Resumed::new(tube.by(self), self.name().map(|_| self.clone()))
    }
}

/// The leases of an earlier session, from [`Consumer::resume`].
#[must_use = "nothing is taken over before `next`"]
pub struct Resumed<T: ?Sized = [u8]> {
    tube: Tube<T>,
    /// Whose leases they are; it keeps that session open.
    from: Option<Consumer>,
    /// Taken over, and not seen by the caller yet.
    ahead: VecDeque<(Lease, Delivery)>,
    /// Where the next page begins; `None` after the last.
    next: Option<TaskId>,
    /// Until then the threads that waited for the last page have the engine's lock.
    left_until: Option<Instant>,
}

impl<T: ?Sized> Resumed<T> {
    /// Over the leases of a consumer in a tube that is bound to the one who takes them over.
    pub(crate) fn new(tube: Tube<T>, from: Option<Consumer>) -> Self {
        let next = from.as_ref().map(|_| TaskId::new(0));
        Self { tube, from, ahead: VecDeque::new(), next, left_until: None }
    }

    fn take_over(&mut self, from: TaskId) -> Result<()> {
        let holder = self.tube.holder()?;
        let consumer = self.from.as_ref().map_or(Ok(holder), Consumer::number)?;
        let op = Resume { tube: self.tube.number, consumer, holder, from };
        let core = &self.tube.inner.core;
        // The next page follows at once. Threads that waited meanwhile have the lock before, for as
        // long as the last page took: a neighbour that got the lock once a page was late by 11 ms
        // (p99.9 beside 500 000 tasks), with this by 2.
        if let Some(until) = self.left_until.take() {
            park_timeout(until.saturating_duration_since(machine_now()));
        }
        core.state.pass_on();
        let began = machine_now();
        let (handed, next) = core.run(&op, Durability::Relaxed)?;
        self.left_until = core.state.is_awaited().then(|| {
            let now = machine_now();
            now + (now - began).min(LEFT_MAX)
        });
        self.ahead.extend(handed.into_iter().map(|handed| (self.tube.guard(&handed), handed)));
        self.next = next;
        Ok(())
    }
}

impl<T: ?Sized> Iterator for Resumed<T> {
    type Item = Result<Task<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let opened = match self.ahead.pop_front() {
                Some((lease, handed)) => self.tube.open_task(lease, handed),
                None => {
                    let from = self.next.take()?;
                    match self.take_over(from) {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    }
                }
            };
            match self.tube.name_errors("resume", opened) {
                Ok(Ok(task)) => return Some(Ok(task)),
                // It is buried.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

debug!([T: ?Sized] Resumed<T>, "Resumed", this, "tube": &this.tube.name);
