//! Taking tasks, with all kinds of wait. A task whose payload cannot be decoded is buried, and the
//! next one is taken.

use crate::api::lease::{Lease, Task};
use crate::api::ticket_handle::TicketHandle;
use crate::api::tube::Tube;
use crate::engine::settle::Settle;
use crate::engine::take::{Claim, Delivery, Take};
use crate::runtime::core::Wait;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use crate::words::options::Durability;
use crate::words::stop::Stop;
use crate::words::sync::Arc;
use crate::words::task::{Reason, State, TaskId, Ticket};
use crate::words::verb::Verdict;
use std::time::Duration;

/// A batch that is too large for a full disk is divided into so many parts.
const PARTS: usize = 8;

impl<T: ?Sized> Tube<T> {
    /// Takes the best ready task: smallest priority first, then put order, without locked groups.
    /// Waits for one without a time limit, also while the tube is paused; the longest waiting call
    /// is served first.
    ///
    /// A task whose payload cannot be decoded is buried as
    /// [`Reason::Undecodable`](crate::Reason::Undecodable), and the next one is taken.
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) when the queue or the handle's consumer is closed, also during
    /// the wait; [`TubeNotFound`](ErrorKind::TubeNotFound) when the tube is dropped;
    /// [`Invalid`](ErrorKind::Invalid) if the handle's consumer is of another queue;
    /// [`InTransaction`](ErrorKind::InTransaction); [`Broken`](ErrorKind::Broken).
    pub fn take(&self) -> Result<Task<T>> {
        let task = self.take_waiting(Wait::Ever)?;
        // A wait without a time limit ends with a task or an error.
        task.ok_or_else(|| Error::new(ErrorKind::Closed).during("take").in_tube(&self.at.name))
    }

    /// Takes the best ready task, if there is one now.
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn try_take(&self) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::No)
    }

    /// Takes the best ready task; waits for one at most this long, in [lease time](crate#time).
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn take_timeout(&self, timeout: Duration) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::For(timeout))
    }

    /// Takes the best ready task; waits for one until [`stop`](Stop::stop) is called. After that it
    /// takes nothing and returns `None`.
    ///
    /// ```
    /// use tubewell::{Queue, Stop};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put_many([b"a".to_vec(), b"the last".to_vec(), b"left".to_vec()])?;
    /// let stop = Stop::new(); // a clone of it stops from any thread
    /// while let Some(task) = tube.take_until(&stop)? {
    ///     if &task[..] == b"the last" {
    ///         stop.stop();
    ///     }
    ///     task.ack()?;
    /// }
    /// assert_eq!(tube.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn take_until(&self, stop: &Stop) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::Until(stop))
    }

    fn take_waiting(&self, wait: Wait<'_>) -> Result<Option<Task<T>>> {
        let taken = (|| {
            let core = self.hold.core();
            let wait = core.begin_wait(wait);
            loop {
                let holder = self.holder()?;
                let Some(handed) = core.take(self.at.number, holder, wait)? else {
                    return Ok(None);
                };
                if let Ok(task) = self.open_task(self.guard(handed))? {
                    return Ok(Some(task));
                }
                // Undecodable tasks do not extend the wait.
                if core.is_over(wait) {
                    return Ok(None);
                }
            }
        })();
        self.name_errors("take", taken)
    }

    /// Takes up to `most` of the best ready tasks in one step, at most 65 536: those that are ready
    /// now, without waiting.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put_many([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()])?;
    /// let tasks = tube.take_many(2)?;
    /// assert_eq!(tasks.len(), 2);
    /// tube.ack_many(tasks)?;
    /// assert_eq!(tube.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn take_many(&self, most: usize) -> Result<Vec<Task<T>>> {
        let taken = (|| {
            let most = most.min(BATCH_TASKS_MAX);
            let (mut tasks, mut at_once) = (Vec::new(), most);
            while tasks.len() < most {
                let left = (most - tasks.len()).min(at_once);
                let op = Take { tube: self.at.number, most: left, holder: self.holder()? };
                let handed = match self.hold.core().run(&op, Durability::Relaxed) {
                    // A full disk has room for some of them.
                    Err(_) if !tasks.is_empty() && at_once < most => break,
                    Err(error) if error.kind() == ErrorKind::DiskFull && at_once > 1 => {
                        at_once = left.div_ceil(PARTS);
                        continue;
                    }
                    handed => handed?,
                };
                let all = handed.len() == left;
                let before = tasks.len();
                self.open_tasks(handed, &mut tasks)?;
                // Takes more in place of the tasks that were buried, if there are more.
                if !all || tasks.len() == before {
                    break;
                }
            }
            Ok(tasks)
        })();
        self.name_errors("take", taken)
    }

    /// Takes this task, also if others are ready before it.
    ///
    /// ```
    /// use tubewell::{ErrorKind, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"first")?;
    /// let second = tube.put(b"second")?;
    /// let task = tube.claim(second)?;
    /// assert_eq!(&task[..], b"second");
    /// assert_eq!(tube.claim(second).unwrap_err().kind(), ErrorKind::WrongState); // it is taken
    /// task.ack()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound); [`WrongState`](ErrorKind::WrongState) if it is
    /// payload cannot be decoded, and then it is buried; as [`take`](Tube::take).
    pub fn claim(&self, id: TaskId) -> Result<Task<T>> {
        let claimed = (|| {
            let op = Claim { tube: self.at.number, id, holder: self.holder()? };
            let handed = self.hold.core().run(&op, Durability::Relaxed)?;
            let undecodable = |text: String| Error::new(ErrorKind::Codec).because(text);
            self.open_task(self.guard(handed))?.map_err(undecodable)
        })();
        self.name_errors("claim", claimed.map_err(|error| error.on_task(id)))
    }

    /// Waits until there is a ready task, at most this long, in [lease time](crate#time). Returns
    /// whether there is one. It takes nothing, and does not use up a wake-up of a waiting taker.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// assert!(!tube.wait_ready(Duration::ZERO)?);
    /// tube.put(b"hello")?;
    /// assert!(tube.wait_ready(Duration::MAX)?);
    /// assert_eq!(tube.stats()?.ready, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn wait_ready(&self, timeout: Duration) -> Result<bool> {
        self.look_waiting(Wait::For(timeout))
    }

    /// Waits until there is a ready task, as [`wait_ready`](Tube::wait_ready), or until
    /// [`stop`](Stop::stop) is called. After that it returns `false` without a look at the tube.
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn wait_ready_until(&self, stop: &Stop) -> Result<bool> {
        self.look_waiting(Wait::Until(stop))
    }

    fn look_waiting(&self, wait: Wait<'_>) -> Result<bool> {
        if wait.is_stopped() {
            return Ok(false);
        }
        let core = self.hold.core();
        let look = || {
            core.look_in(self.at.number, |view, now| {
                let tube = crate::engine::query::tube(view, self.at.number)?;
                let next = match tube.row.paused {
                    true => None,
                    false => crate::engine::query::next(view, &tube, State::Ready, now)?,
                };
                Ok(next.map(|_| ()))
            })
        };
        let ready = match look() {
            Ok(None) => core.wait_for(&core.ready_waiters, self.at.number, 0, wait, look),
            ready => ready,
        };
        self.name_errors("wait", ready.map(|ready| ready.is_some()))
    }

    /// Acks those of the tasks that are still held, in one step; above 65 536 in several.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let ids = tube.put_many([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()])?;
    /// let tasks = tube.take_many(3)?;
    /// tube.delete(ids[1])?;
    /// let lost = tube.ack_many(tasks).unwrap_err();
    /// assert!(lost.is_lease_lost());
    /// assert_eq!(lost.tasks(), [ids[1]]);
    /// assert!(tube.is_empty()?); // the others are done
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`LeaseLost`](ErrorKind::LeaseLost) if some were lost; [`Error::tasks`] lists them, and the
    /// others are done. [`Invalid`](ErrorKind::Invalid) if one is of another tube, and then none is
    /// acked. As [`Lease::ack`].
    pub fn ack_many(&self, leases: impl IntoIterator<Item = impl Into<Lease>>) -> Result<()> {
        let mut leases: Vec<Lease> = leases.into_iter().map(Into::into).collect();
        let acked = self.do_ack_many(&mut leases);
        self.name_errors("ack", acked)
    }

    fn do_ack_many(&self, leases: &mut [Lease]) -> Result<()> {
        if let Some(other) = leases.iter().find(|lease| !self.is_of(lease.held())) {
            let text = format!("task {} is of tube {:?}", other.id(), other.held().at.name);
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        let mut lost = Vec::new();
        let mut rest = &mut *leases;
        let mut at_once = BATCH_TASKS_MAX;
        // At least once: a call without tasks also waits for the sync of the writes that it has
        // read.
        loop {
            let (batch, _) = rest.split_at_mut(rest.len().min(at_once));
            let tickets: Vec<Ticket> = batch.iter().map(Lease::ticket).collect();
            let verdict = Verdict::Ack;
            let op = Settle { tube: self.at.number, tickets: &tickets, verdict };
            match self.hold.core().run(&op, self.durability) {
                Err(error) if error.kind() == ErrorKind::DiskFull && batch.len() > 1 => {
                    at_once = batch.len().div_ceil(PARTS);
                    continue;
                }
                acked => lost.extend(acked?),
            }
            batch.iter_mut().for_each(Lease::disarm);
            let done = batch.len();
            rest = std::mem::take(&mut rest).split_at_mut(done).1;
            if rest.is_empty() {
                break;
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let text = format!("{} of {}", lost.len(), leases.len());
        Err(Error::new(ErrorKind::LeaseLost).because(text).with_tasks(lost))
    }

    /// Whether a task is in this tube of this queue.
    pub(crate) fn is_of(&self, held: &TicketHandle) -> bool {
        Arc::ptr_eq(&self.hold, &held.hold) && self.at.number == held.at.number
    }

    pub(crate) fn holder(&self) -> Result<u32> {
        match &self.consumer {
            None => Ok(0),
            Some(consumer) if Arc::ptr_eq(consumer.hold(), &self.hold) => consumer.number(),
            Some(_) => {
                Err(Error::new(ErrorKind::Invalid).because("the consumer is of another queue"))
            }
        }
    }

    /// Guards what was handed out, before a codec decodes it: a codec that panics would leave the
    /// task taken without a holder.
    pub(crate) fn guard(&self, handed: Delivery) -> (Lease, Delivery) {
        (Lease::new(self.ticket(handed.ticket()), self.consumer.clone()), handed)
    }

    /// Makes a task of what was handed out; or sets it aside and answers why.
    pub(crate) fn open_task(
        &self,
        (mut lease, handed): (Lease, Delivery),
    ) -> Result<Result<Task<T>, String>> {
        match (self.coding.decode)(handed.codec, handed.version, &handed.payload) {
            Ok(payload) => Ok(Ok(Task::new(payload, lease, handed.attempts, handed.deliveries))),
            Err(cause) => {
                let text = cause.to_string();
                let bury = Verdict::Bury(Reason::Undecodable(text.clone()));
                match lease.held().settle(bury) {
                    // The lease was lost in the meantime: the next taker will find the same fault.
                    Err(error) if !error.is_lease_lost() => Err(error),
                    _ => {
                        lease.disarm();
                        Ok(Err(text))
                    }
                }
            }
        }
    }

    fn open_tasks(
        &self,
        handed: impl IntoIterator<Item = Delivery>,
        tasks: &mut Vec<Task<T>>,
    ) -> Result<()> {
        let guarded: Vec<_> = handed.into_iter().map(|handed| self.guard(handed)).collect();
        for guarded in guarded {
            if let Ok(task) = self.open_task(guarded)? {
                tasks.push(task);
            }
        }
        Ok(())
    }
}
