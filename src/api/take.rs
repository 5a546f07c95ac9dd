//! Taking tasks, with all kinds of wait. A task whose payload cannot be decoded is buried, and the
//! next one is taken.

use crate::api::consumer::Consumer;
use crate::api::lease::{Lease, Task};
use crate::api::steps::{PARTS, in_steps};
use crate::api::ticket_handle::TicketHandle;
use crate::api::tube::Tube;
use crate::engine::payload::StoredPayload;
use crate::engine::settle::Settle;
use crate::engine::take::{Claim, Delivery, Take};
use crate::runtime::sessions;
use crate::runtime::shared::Shared;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::BATCH_TASKS_MAX;
use crate::words::stop::Stop;
use crate::words::sync::Arc;
use crate::words::task::{Reason, TaskId, Ticket};
use crate::words::verb::Verdict;
use crate::words::wait::Wait;
use std::time::Duration;

impl<T: ?Sized> Tube<T> {
    /// Takes the best ready task: smallest priority first, then put order, without locked groups.
    /// Waits for one without a time limit, also while the tube is paused; the longest waiting call
    /// is served first.
    ///
    /// A task whose payload cannot be decoded is buried as
    /// [`Reason::Undecodable`](crate::Reason::Undecodable), and the next one is taken.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let taker = std::thread::spawn({
    ///     let tube = tube.clone();
    ///     move || tube.take()?.ack() // waits for the put
    /// });
    /// tube.put(b"hello")?;
    /// taker.join().unwrap()?;
    /// assert!(tube.is_empty()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Closed`](ErrorKind::Closed) if the queue or the handle's consumer is closed, also during
    /// the wait; [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped, also during it;
    /// [`Invalid`](ErrorKind::Invalid) if the handle's consumer is of another queue;
    /// [`InTransaction`](ErrorKind::InTransaction); [`Broken`](ErrorKind::Broken).
    pub fn take(&self) -> Result<Task<T>> {
        let task = self.take_waiting(Wait::EVER)?;
        // A wait without a time limit ends with a task or an error.
        task.ok_or_else(|| Error::new(ErrorKind::Closed).during("take").in_tube(&self.name))
    }

    /// Takes the best ready task, if there is one now.
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// assert!(tube.try_take()?.is_none());
    /// tube.put(b"hello")?;
    /// assert!(tube.try_take()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn try_take(&self) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::NO)
    }

    /// Takes the best ready task; waits for one at most this long, in [lease time](crate#time).
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// assert!(tube.take_timeout(Duration::from_millis(1))?.is_none());
    /// tube.put(b"hello")?;
    /// assert!(tube.take_timeout(Duration::from_millis(1))?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn take_timeout(&self, timeout: Duration) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::within(timeout))
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
        self.take_waiting(Wait::until(stop))
    }

    /// Takes the best ready task; waits for one at most this long, in [lease time](crate#time), and
    /// no longer than until [`stop`](Stop::stop) is called. After that it takes nothing and returns
    /// `None`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Queue, Stop};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// let stop = Stop::new();
    /// let short = Duration::from_millis(1);
    /// assert!(tube.take_timeout_until(short, &stop)?.is_none()); // its time is over
    /// tube.put(b"hello")?;
    /// stop.stop();
    /// assert!(tube.take_timeout_until(Duration::MAX, &stop)?.is_none()); // stopped
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    pub fn take_timeout_until(&self, timeout: Duration, stop: &Stop) -> Result<Option<Task<T>>> {
        self.take_waiting(Wait::within(timeout).or_until(stop))
    }

    fn take_waiting<'a>(&'a self, wait: Wait<'a>) -> Result<Option<Task<T>>> {
        self.take_by(wait, |core, holder, wait| core.take(self.number, holder, wait))
    }

    /// Takes one task in this way; `None` after the wait.
    #[inline(always)]
    pub(super) fn take_by<'a>(
        &'a self,
        mut wait: Wait<'a>,
        take: impl Fn(&Shared, u32, Wait<'a>) -> Result<Option<Delivery>>,
    ) -> Result<Option<Task<T>>> {
        let taken = (|| {
            let core = &self.inner.core;
            wait = wait.begun(|| core.lease_now());
            if !wait.is_none() {
                wait.ended = self.consumer.as_ref().map(Consumer::closed);
            }
            loop {
                let holder = self.holder()?;
                let Some(handed) = take(core, holder, wait)? else {
                    // The wait may have ended with the session.
                    return self.holder().map(|_| None);
                };
                if let Ok(task) = self.open_task(self.guard(&handed), handed)? {
                    return Ok(Some(task));
                }
                // Undecodable tasks do not extend the wait.
                if wait.is_over(core.lease_now()) {
                    return Ok(None);
                }
            }
        })();
        self.name_errors("take", taken)
    }

    /// Takes up to `most` of the best ready tasks in one step, at most 65 536: those that are ready
    /// now, without waiting. On a full disk it may return fewer.
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
                let op = Take::new(self.number, left, self.holder()?);
                let handed = match self.inner.core.run(&op, Durability::Relaxed) {
                    // A full disk has room for some of them.
                    Err(_) if !tasks.is_empty() && at_once < most => break,
                    Err(error) if error.kind() == ErrorKind::DiskFull && at_once > 1 => {
                        at_once = left.div_ceil(PARTS);
                        continue;
                    }
                    handed => handed?,
                };
                let may_be_more = handed.len() == left || op.is_cut.get();
                tasks.reserve(handed.len());
                // If one of them cannot be opened, the guards of the others return their tasks.
                let guarded = handed.into_iter().map(|handed| (self.guard(&handed), handed));
                for (lease, handed) in guarded.collect::<Vec<_>>() {
                    if let Ok(mut task) = self.open_task(lease, handed)? {
                        // The caller sees it when the whole batch is decoded.
                        task.lease.seen = false;
                        tasks.push(task);
                    }
                }
                // The tasks that were buried are replaced by the next ones.
                if !may_be_more {
                    break;
                }
            }
            tasks.iter_mut().for_each(|task| task.lease.seen = true);
            Ok(tasks)
        })();
        self.name_errors("take", taken)
    }

    /// Takes this task: also if others are ready before it, before its delay has ended, while it is
    /// buried, and in a paused tube. A delay that has not ended is taken from its ttl again. The
    /// attempts of a buried task begin at 1, as after a [`kick`](Tube::kick).
    ///
    /// The [gates](crate::flows#gates) of the tube and of the task must be open, and its group must
    /// have less than its number of tasks [in flight](crate::TubeOptions::in_flight). A group with
    /// one task in flight is taken in order: nothing overtakes its first ready task.
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
    /// task.bury("no stamp")?;
    /// tube.claim(second)?.ack()?; // a buried one
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`TaskNotFound`](ErrorKind::TaskNotFound); [`WrongTube`](ErrorKind::WrongTube) if it is in
    /// another tube; [`WrongState`](ErrorKind::WrongState) if it is taken, blocked, finished or in
    /// the trash, or a gate of its tube, of its own or its group does not allow it, as the message
    /// says; [`KeyExists`](ErrorKind::KeyExists) if it
    /// is buried and another task counts for its key by now, see [`Unique`](crate::Unique);
    /// [`Codec`](ErrorKind::Codec) if its payload cannot be decoded, and then it is buried;
    /// [`LeaseLost`](ErrorKind::LeaseLost) if it was lost before its payload was read, because that
    /// is long and damaged and the task buried, or because its ttr was over; as
    /// [`take`](Tube::take).
    pub fn claim(&self, id: TaskId) -> Result<Task<T>> {
        let claimed = (|| {
            let op = Claim { tube: self.number, id, holder: self.holder()? };
            let handed = self.inner.core.run(&op, Durability::Relaxed)?;
            self.open_task(self.guard(&handed), handed)?
        })();
        self.name_task_errors("claim", id, claimed)
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
        let is_own = |held: &TicketHandle| {
            Arc::ptr_eq(&self.inner, &held.inner) && self.number == held.number
        };
        if let Some(other) = leases.iter().find(|lease| !is_own(&lease.held)) {
            let text = format!("task {} is of tube {:?}", other.id(), other.tube());
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        let mut lost = Vec::new();
        in_steps(leases.len(), |step| {
            let leases = leases.get_mut(step).unwrap_or_default();
            let mut tickets: Vec<Ticket> = leases.iter().map(Lease::ticket).collect();
            // Most of their rows are in the order of the ids.
            tickets.sort_unstable_by_key(|ticket| ticket.id);
            let op = Settle { tube: self.number, tickets: &tickets, verdict: Verdict::Ack };
            leases.iter_mut().for_each(Lease::hush);
            lost.extend(self.inner.core.run(&op, self.durability)?);
            leases.iter_mut().for_each(Lease::disarm);
            Ok(())
        })?;
        if lost.is_empty() {
            return Ok(());
        }
        let text = format!("{} of {}", lost.len(), leases.len());
        Err(Error::new(ErrorKind::LeaseLost).because(text).with_tasks(lost))
    }

    pub(crate) fn holder(&self) -> Result<u32> {
        match &self.consumer {
            None => Ok(0),
            Some(consumer) if Arc::ptr_eq(&consumer.identity().inner, &self.inner) => {
                consumer.number()
            }
            Some(_) => {
                Err(Error::new(ErrorKind::Invalid).because("the consumer is of another queue"))
            }
        }
    }

    /// Makes a guard before a codec decodes the payload: otherwise a codec that panics would leave
    /// the task taken without a guard.
    pub(crate) fn guard(&self, handed: &Delivery) -> Lease {
        Lease::new(self.ticket(handed.ticket()), self.consumer.clone())
    }

    /// Reads the payload, if the op did not, and decodes it. If that fails, the task is buried;
    /// returns why.
    pub(crate) fn open_task(&self, mut lease: Lease, handed: Delivery) -> Result<Result<Task<T>>> {
        if let Some(consumer) = &self.consumer {
            // The take may have waited long.
            consumer.note_active();
            if let Some(leases) = consumer.leases() {
                sessions::keep_nameless(&self.inner.core, leases, (self.number, lease.ticket()))?;
            }
        }
        let payload = match handed.payload {
            StoredPayload::Read(payload) => payload,
            apart => match self.inner.core.read_taken(self.number, lease.ticket(), apart) {
                Err(lost) if lost.is_lease_lost() => {
                    lease.disarm();
                    return Ok(Err(lost));
                }
                payload => payload?,
            },
        };
        // If the codec panics, the attempt counts.
        lease.seen = true;
        match (self.coding.decode)(handed.codec, handed.version, payload) {
            Ok(payload) => Ok(Ok(Task::new(payload, lease, handed.about))),
            Err(cause) => {
                let text = cause.to_string();
                let bury = Verdict::bury(Reason::Undecodable(text.clone()));
                match lease.held.settle(bury) {
                    // The lease was lost in the meantime: the next taker will find the same fault.
                    Err(error) if !error.is_lease_lost() => Err(error),
                    _ => {
                        lease.disarm();
                        Ok(Err(Error::new(ErrorKind::Codec).because(text)))
                    }
                }
            }
        }
    }
}
