//! The verdicts on a taken task and what can be read of it, each written once: for a task, its
//! lease, a ticket and a transaction, and for each with a new payload.

use crate::api::lease::{Lease, Task};
use crate::api::ticket_handle::TicketHandle;
use crate::api::transact::Transaction;
use crate::api::verdict_methods::{as_of, verdicts};
use crate::api::with_payload::{WithPayload, WithPayloadIn};
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::failure::Retry;
use crate::words::task::{Reason, TaskId, Ticket};
use crate::words::verb::{Extend, Release, Verdict};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

verdicts! {
    settles {
        /// Finishes the task. It is removed, unless its tube
        /// [keeps finished tasks](crate::TubeOptions::keep_finished).
        ///
        /// ```
        /// use tubewell::Queue;
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let tube = Queue::in_memory()?.tube("letters")?;
        /// tube.put(b"hello")?;
        /// tube.take()?.ack()?;
        /// assert!(tube.is_empty()?);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// [`LeaseLost`](ErrorKind::LeaseLost) if the lease has ended: the task was settled,
        /// buried, deleted or taken again, its ttr or ttl passed, or its session ended;
        /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped;
        /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction);
        /// [`Unknown`](ErrorKind::Unknown) if the sync failed.
        ack() => Verdict::Ack;

        /// Finishes the task with a result of at most 16 KiB, for a tube that
        /// [keeps finished tasks](crate::TubeOptions::keep_finished): the result stands beside the
        /// task, as long as that is kept. [`Queue::wait_for`](crate::Queue::wait_for) waits for it.
        /// On a full disk it is refused as a put is, and the drop of the guard returns the task.
        ///
        /// ```
        /// use tubewell::{Queue, Retention, State, TubeOptions};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let queue = Queue::in_memory()?;
        /// let options = TubeOptions::default().keep_finished(Retention::new().count(1000));
        /// let tube = queue.create_tube("sums", options)?;
        /// let id = tube.put(b"1 + 2")?;
        /// tube.take()?.ack_with(b"3")?;
        /// let done = tube.peek(id)?;
        /// assert_eq!((done.state, done.result.as_deref()), (State::Done, Some(&b"3"[..])));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`ack`](Self::ack); [`Unsupported`](ErrorKind::Unsupported) if the tube does not keep
        /// finished tasks; [`TooLarge`](ErrorKind::TooLarge) for a result above 16 KiB;
        /// [`DiskFull`](ErrorKind::DiskFull); [`Full`](ErrorKind::Full) if temporary tubes hold as
        /// many bytes as they may.
        ack_with(result: &[u8]) => Verdict::Finish(result);

        /// Returns the task: ready at once at its place. The attempt does not count.
        ///
        /// ```
        /// use tubewell::Queue;
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let tube = Queue::in_memory()?.tube("letters")?;
        /// tube.put(b"a")?;
        /// tube.put(b"b")?;
        /// tube.take()?.release()?;
        /// let task = tube.take()?;
        /// assert_eq!((&task[..], task.attempt()), (&b"a"[..], 1));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`ack`](Self::ack).
        release() => Verdict::Release(Release::new());

        /// Returns the task on these terms; [`Release`] has an example. The attempt does not count.
        ///
        /// # Errors
        /// As [`ack`](Self::ack); [`Unsupported`](ErrorKind::Unsupported) if the tube's kind does
        /// not allow a term, and for `to_back` in a tube with a placement;
        /// [`Invalid`](ErrorKind::Invalid) for a ttl of less than a microsecond.
        release_with(terms: Release) => Verdict::Release(terms);

        /// Returns the task for later, for example because what it needs is not there yet: it is
        /// ready after `wait`, in [queue time](crate#time), at its place. The attempt does not
        /// count. As [`release_with`](Self::release_with) a delay.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tubewell::{Queue, State};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let tube = Queue::in_memory()?.tube("letters")?;
        /// tube.put(b"hello")?;
        /// tube.take()?.snooze(Duration::from_secs(60))?;
        /// let delayed = tube.peek_next(State::Delayed)?.unwrap();
        /// assert_eq!((delayed.attempts, &delayed.last_failure), (0, &None));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`release_with`](Self::release_with).
        snooze(wait: Duration) => Verdict::Release(Release::new().delay(wait));

        /// Returns the task after a failure; the attempt counts. It is ready after the tube's
        /// back-off; after its last attempt it is buried as exhausted with this error, cut to 4096
        /// bytes, in the failure group `failed-retries-` and the tube's name.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tubewell::{Backoff, ManualClock, Queue, Reason, State, TubeOptions};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let clock = ManualClock::new();
        /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
        /// let backoff = Backoff::constant(Duration::from_secs(10));
        /// let options = TubeOptions::default().max_attempts(2).backoff(backoff);
        /// let tube = queue.create_tube("letters", options)?;
        /// tube.put(b"hello")?;
        ///
        /// tube.take()?.retry("no answer")?;
        /// assert!(tube.try_take()?.is_none());
        /// clock.advance(Duration::from_secs(10));
        /// tube.take()?.retry("still no answer")?;
        /// let buried = tube.peek_next(State::Buried)?.unwrap();
        /// let (group, message) = ("failed-retries-letters".into(), "still no answer".into());
        /// assert_eq!(buried.reason, Some(Reason::Exhausted { group, message }));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`ack`](Self::ack).
        retry(error: impl Display) => Verdict::Retry {
            error: &error.to_string(),
            group: "",
            after: None,
        };

        /// As [`retry`](Self::retry), with this wait instead of the tube's back-off.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tubewell::{Queue, State};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let tube = Queue::in_memory()?.tube("letters")?;
        /// tube.put(b"hello")?;
        ///
        /// tube.take()?.retry_after("the server is busy", Duration::from_secs(60))?;
        /// let delayed = tube.peek_next(State::Delayed)?.unwrap();
        /// assert_eq!(delayed.last_failure.as_ref().unwrap().message, "the server is busy");
        /// assert_eq!(delayed.attempts, 1);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`ack`](Self::ack); [`Unsupported`](ErrorKind::Unsupported) if the tube's kind has no
        /// times and `wait` is not zero.
        retry_after(error: impl Display, wait: Duration) => Verdict::Retry {
            error: &error.to_string(),
            group: "",
            after: Some(wait),
        };

        /// As [`retry`](Self::retry), on these terms; [`Retry`] has an example.
        ///
        /// # Errors
        /// As [`retry_after`](Self::retry_after).
        retry_with(terms: Retry) => Verdict::Retry {
            error: &terms.message,
            group: terms.group.as_deref().unwrap_or_default(),
            after: terms.after,
        };

        /// Buries the task with a reason cut to 4096 bytes: no take returns it until it is
        /// [kicked](crate::Tube::kick).
        ///
        /// ```
        /// use tubewell::{Queue, Reason, State};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let tube = Queue::in_memory()?.tube("letters")?;
        /// tube.put(b"hello")?;
        ///
        /// tube.take()?.bury("no such address")?;
        /// assert!(tube.try_take()?.is_none());
        /// let buried = tube.peek_next(State::Buried)?.unwrap();
        /// assert_eq!(buried.reason, Some(Reason::Buried("no such address".into())));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`ack`](Self::ack).
        bury(reason: impl Display) => Verdict::bury(Reason::Buried(reason.to_string()));

        /// Buries the task as [`bury`](Self::bury) does, with another priority: buried tasks are
        /// kicked in the order of their priorities, and a kicked task keeps it.
        ///
        /// ```
        /// use tubewell::Queue;
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let tube = Queue::in_memory()?.tube("letters")?;
        /// tube.put(b"to ada")?;
        /// tube.put(b"to bob")?;
        /// tube.take()?.bury("no stamp")?;
        /// tube.take()?.bury_with_priority("no stamp", -1)?; // smaller first
        /// tube.kick(1)?;
        /// assert_eq!(&tube.take()?[..], b"to bob");
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`ack`](Self::ack); [`Unsupported`](ErrorKind::Unsupported) if the tube's kind has no
        /// priorities.
        bury_with_priority(reason: impl Display, priority: i64) => Verdict::Bury {
            reason: Reason::Buried(reason.to_string()),
            priority: Some(priority),
        };

        /// Buries the task as [`bury`](Self::bury) does, under a failure group; see
        /// [`Reason::Failed`]. The group is cut to 270 bytes, the message to 4096.
        ///
        /// ```
        /// use tubewell::{Queue, Reason, State};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let tube = Queue::in_memory()?.tube("letters")?;
        /// tube.put(b"hello")?;
        ///
        /// tube.take()?.fail("address", "no such street")?;
        /// let buried = tube.peek_next(State::Buried)?.unwrap();
        /// let (group, message) = ("address".into(), "no such street".into());
        /// assert_eq!(buried.reason, Some(Reason::Failed { group, message }));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`ack`](Self::ack).
        fail(group: impl Into<String>, message: impl Display) => Verdict::bury(Reason::Failed {
            group: group.into(),
            message: message.to_string(),
        });

        /// Puts the task into the trash of its tube, with a reason cut to 4096 bytes: it leaves the
        /// board, and is kept for review until it is [restored](crate::Tube::restore) or the trash
        /// is [emptied](crate::Tube::empty_trash). See [`Tube::trash`](crate::Tube::trash).
        ///
        /// ```
        /// use tubewell::{Queue, Reason};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let tube = Queue::in_memory()?.tube("letters")?;
        /// let id = tube.put(b"hello")?;
        /// tube.take()?.trash("no letter")?;
        /// assert!(tube.is_empty()?);
        /// assert_eq!(tube.stats()?.trashed, 1);
        /// assert_eq!(tube.peek(id)?.reason, Some(Reason::Trashed("no letter".into())));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`ack`](Self::ack).
        trash(reason: impl Display) => Verdict::bury(Reason::Trashed(reason.to_string()));
    }
    keeps {
        /// Adds this much to the lease's deadline, to the task's ttr and to its ttl. Zero changes
        /// nothing; [`Duration::MAX`] removes their end. May be called from another thread.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tubewell::{ManualClock, Queue};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let clock = ManualClock::new();
        /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
        /// let tube = queue.tube("letters")?;
        /// tube.task(b"hello").ttr(Duration::from_secs(60)).put()?;
        /// let task = tube.take()?;
        /// clock.advance(Duration::from_secs(50));
        /// task.touch(Duration::from_secs(30))?;
        /// assert_eq!(task.time_left()?, Some(Duration::from_secs(40)));
        /// task.renew()?; // a full ttr, which is longer now
        /// assert_eq!(task.time_left()?, Some(Duration::from_secs(90)));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// [`LeaseLost`](ErrorKind::LeaseLost) if the task is no longer held;
        /// [`Unsupported`](ErrorKind::Unsupported) if the tube's kind has no times;
        /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped;
        /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
        touch(by: Duration) => Verdict::Touch(Extend::Add(by));

        /// Sets the lease's deadline to now + ttr: a heartbeat. A task without a ttr is again held
        /// without a deadline. It ends a [stall](crate::Lapse).
        ///
        /// ```
        /// use std::time::Duration;
        /// use tubewell::{ManualClock, Queue};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let clock = ManualClock::new();
        /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
        /// let tube = queue.tube("letters")?;
        /// tube.task(b"hello").ttr(Duration::from_secs(60)).put()?;
        /// let task = tube.take()?;
        /// for _ in 0..3 {
        ///     clock.advance(Duration::from_secs(40));
        ///     task.renew()?;
        /// }
        /// assert_eq!(task.time_left()?, Some(Duration::from_secs(60)));
        /// clock.advance(Duration::from_secs(60));
        /// assert!(task.renew().unwrap_err().is_lease_lost());
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`touch`](Self::touch).
        renew() => Verdict::Touch(Extend::Renew);

        /// Sets the lease's deadline to now + `length`, also if it had none. Its ttr does not
        /// change.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tubewell::{ManualClock, Queue};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let clock = ManualClock::new(); // moved by hand
        /// let tube = Queue::builder().clock(clock).in_memory()?.tube("letters")?;
        /// tube.put(b"hello")?;
        /// let task = tube.take()?;
        /// assert_eq!(task.time_left()?, None); // no deadline
        /// task.renew_for(Duration::from_secs(60))?;
        /// assert_eq!(task.time_left()?, Some(Duration::from_secs(60)));
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// As [`touch`](Self::touch); [`Invalid`](ErrorKind::Invalid) for a length of less than a
        /// microsecond, and the lease stays as it was.
        renew_for(length: Duration) => Verdict::Touch(Extend::RenewFor(length));
    }
    reads {
        /// The result that the step before has [passed on](crate::Advance::result), if it has
        /// passed one. Reads it from the queue.
        ///
        /// # Errors
        /// [`LeaseLost`](ErrorKind::LeaseLost) if the task is no longer held;
        /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped;
        /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
        passed() -> Result<Option<Vec<u8>>>;

        /// The [kind](crate::NewTask::kind) that the put gave the task, for the choice of its
        /// handler. Reads it from the queue.
        ///
        /// # Errors
        /// As [`passed`](Self::passed).
        kind() -> Result<Option<String>>;

        /// The [book](crate::NewTask::book) of the task, or else [of its
        /// tube](crate::TubeOptions::book). Reads it from the queue.
        ///
        /// # Errors
        /// As [`passed`](Self::passed).
        book() -> Result<Option<String>>;

        /// The [details](crate::NewTask::detail) of the task and [of its
        /// tube](crate::TubeOptions::detail), by name; of a name that both have, the task's. Reads
        /// them from the queue.
        ///
        /// # Errors
        /// As [`passed`](Self::passed).
        details() -> Result<BTreeMap<String, String>>;

        /// The [tags](crate::Tube::tag) of the task, in their order. Reads them from the queue.
        ///
        /// # Errors
        /// As [`passed`](Self::passed).
        tags() -> Result<Vec<String>>;

        /// Whether the lease is lost: a verdict would be refused, because the task was settled,
        /// buried, deleted or taken away, the lease's ttr passed, and its grace if the tube has
        /// one, or the tube or the session is gone. Also before a timer has handled that; true
        /// after [`Queue::close`](crate::Queue::close). Reads the queue.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tubewell::{ManualClock, Queue};
        ///
        /// # fn main() -> tubewell::Result<()> {
        /// let clock = ManualClock::new();
        /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
        /// let tube = queue.tube("letters")?;
        /// tube.task(b"hello").ttr(Duration::from_secs(60)).put()?;
        /// let task = tube.take()?;
        /// assert!(!task.is_lost()?);
        /// clock.advance(Duration::from_secs(60));
        /// assert!(task.is_lost()?);
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        /// [`InTransaction`](ErrorKind::InTransaction); [`Io`](ErrorKind::Io) or
        /// [`Damaged`](ErrorKind::Damaged) if it cannot be read.
        is_lost() -> Result<bool>;

        /// The task's number.
        id() -> TaskId;

        /// The name of the tube that the task was taken from, for a loop that works on tasks of
        /// several tubes.
        tube() -> &str;

        /// The right to settle the task, as plain data. The guard stays valid; the first of the two
        /// to settle wins.
        ticket() -> Ticket;

        /// How long the task may still be held: until its deadline or the end of its ttl, the
        /// earlier of the two. Zero while it is [stalled](crate::Lapse). `None`: without a limit.
        ///
        /// # Errors
        /// [`LeaseLost`](ErrorKind::LeaseLost) if the task is no longer held;
        /// [`TubeNotFound`](ErrorKind::TubeNotFound) if the tube was dropped;
        /// [`Closed`](ErrorKind::Closed); [`InTransaction`](ErrorKind::InTransaction).
        time_left() -> Result<Option<Duration>>;
    }
}
