//! The right to settle a task, without a guard. A guard adds only its drop.

use crate::api::queue_inner::QueueInner;
use crate::engine::context::damaged;
use crate::engine::settle::{self, Adding, Settle};
use crate::engine::tube_cache::{TubeEntry, TubeRef};
use crate::engine::{description, lease_time, tags};
use crate::format::row::{TakenRow, TaskRow};
use crate::runtime::commit::EngineState;
use crate::words::clock::{NEVER, Now};
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::{TaskId, Ticket};
use crate::words::verb::Verdict;
use std::collections::BTreeMap;
use std::time::Duration;

/// The right to settle a task, without a guard, from a [`Ticket`] with
/// [`Tube::ticket`](crate::Tube::ticket). Dropping it changes nothing. Its verdicts are those of a
/// [`Lease`](crate::Lease).
#[derive(Clone)]
pub struct TicketHandle {
    pub(crate) inner: Arc<QueueInner>,
    /// Of the tube.
    pub(crate) number: u32,
    pub(crate) name: Arc<str>,
    pub(crate) ticket: Ticket,
    pub(crate) durability: Durability,
}

impl TicketHandle {
    /// Applies a verdict.
    #[inline]
    pub(crate) fn settle(&self, verdict: Verdict<'_>) -> Result<()> {
        if let Verdict::Finish(_) = verdict {
            return self.settle_adding(verdict);
        }
        self.settle_by(verdict, |op, durability| self.inner.core.run(op, durability))
    }

    #[cold]
    fn settle_adding(&self, verdict: Verdict<'_>) -> Result<()> {
        self.settle_by(verdict, |op, durability| self.inner.core.run(&Adding(op), durability))
    }

    /// Applies a verdict through `run`, which passes the op to the queue or to a transaction.
    #[inline]
    pub(crate) fn settle_by(
        &self,
        verdict: Verdict<'_>,
        run: impl FnOnce(&Settle<'_>, Durability) -> Result<Vec<TaskId>>,
    ) -> Result<()> {
        let (action, durability) = (verdict.action(), verdict.durability(self.durability));
        let op = Settle { tube: self.number, tickets: &[self.ticket], verdict };
        let error = match run(&op, durability) {
            Ok(lost) if lost.is_empty() => return Ok(()),
            Ok(lost) => Error::new(ErrorKind::LeaseLost).with_tasks(lost),
            Err(error) => error,
        };
        Err(self.named(error, action))
    }

    pub(super) fn named(&self, error: Error, action: &'static str) -> Error {
        error.during(action).on_task(self.ticket.id).in_tube(&self.name)
    }

    /// The task's number.
    pub fn id(&self) -> TaskId {
        self.ticket.id
    }

    /// The name of the tube that the task was taken from.
    pub fn tube(&self) -> &str {
        &self.name
    }

    /// The ticket.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// As [`Lease::passed`](crate::Lease::passed).
    ///
    /// ```
    /// use tubewell::{Advance, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let (fetch, parse) = (queue.tube("fetch")?, queue.tube("parse")?);
    /// fetch.put(b"http://example.org")?;
    /// fetch.take()?.advance_with(&parse, Advance::new().result(b"<html>"))?;
    /// let held = parse.ticket(parse.take()?.detach());
    /// assert_eq!(held.passed()?.as_deref(), Some(&b"<html>"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Lease::passed`](crate::Lease::passed).
    pub fn passed(&self) -> Result<Option<Vec<u8>>> {
        let passed = self.read(|row| row.passed().map(<[u8]>::to_vec));
        passed.map_err(|error| self.named(error, "read the passed result"))
    }

    /// As [`Lease::kind`](crate::Lease::kind).
    ///
    /// # Errors
    /// As [`Lease::kind`](crate::Lease::kind).
    pub fn kind(&self) -> Result<Option<String>> {
        let kind = self.read(|row| row.kind().map(str::to_owned));
        kind.map_err(|error| self.named(error, "read the kind"))
    }

    /// As [`Lease::book`](crate::Lease::book).
    ///
    /// # Errors
    /// As [`Lease::book`](crate::Lease::book).
    pub fn book(&self) -> Result<Option<String>> {
        let book = self.read_with_tube(description::book);
        book.map_err(|error| self.named(error, "read the book"))
    }

    /// As [`Lease::details`](crate::Lease::details).
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let films = queue.create_tube("films", TubeOptions::default().detail("format", "mp4"))?;
    /// films.task(b"Alien").detail("cut", "1979").put()?;
    /// let details = films.ticket(films.take()?.detach()).details()?;
    /// assert_eq!((&details["format"][..], &details["cut"][..]), ("mp4", "1979"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Lease::details`](crate::Lease::details).
    pub fn details(&self) -> Result<BTreeMap<String, String>> {
        let details = self.read_with_tube(description::details);
        details.map_err(|error| self.named(error, "read the details"))
    }

    /// As [`Lease::tags`](crate::Lease::tags).
    ///
    /// # Errors
    /// As [`Lease::tags`](crate::Lease::tags).
    pub fn tags(&self) -> Result<Vec<String>> {
        let tags = self.inner.core.look_at(|state, now| {
            let (view, tube) = (&state.store, self.tube_in(state, now)?);
            let (_, taken) = settle::held(view, &tube, self.ticket)?;
            tags::read(view, tube.run(), self.ticket.id, &taken.progress)
        });
        tags.map_err(|error| self.named(error, "read the tags"))
    }

    /// The tube in which the task is.
    pub(crate) fn tube_in<'a>(&self, state: &'a EngineState, now: Now) -> Result<TubeRef<'a>> {
        state.tube_of(self.number, self.ticket, now)
    }

    /// What the task's own row says, while the task is held.
    fn read<R>(&self, of: impl Fn(&TaskRow<'_>) -> R) -> Result<R> {
        self.read_with_tube(|_, row| of(row))
    }

    fn read_with_tube<R>(&self, of: impl Fn(&TubeEntry, &TaskRow<'_>) -> R) -> Result<R> {
        self.inner.core.look_at(|state, now| {
            let (view, tube) = (&state.store, self.tube_in(state, now)?);
            let (stored, _) = settle::held(view, &tube, self.ticket)?;
            let stored = stored.whole(view, &tube)?;
            let (_, row) = stored.task(&tube)?.read.ok_or_else(|| damaged("task"))?;
            Ok(of(&tube, &row))
        })
    }

    /// As [`Lease::time_left`](crate::Lease::time_left).
    ///
    /// # Errors
    /// As [`Lease::time_left`](crate::Lease::time_left).
    pub fn time_left(&self) -> Result<Option<Duration>> {
        self.left().map_err(|error| self.named(error, "time left"))
    }

    /// As [`Lease::is_lost`](crate::Lease::is_lost).
    ///
    /// ```
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let tube = Queue::in_memory()?.tube("letters")?;
    /// tube.put(b"hello")?;
    /// let held = tube.ticket(tube.take()?.detach());
    /// assert!(!held.is_lost()?);
    /// tube.release_all()?;
    /// assert!(held.is_lost()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Lease::is_lost`](crate::Lease::is_lost).
    pub fn is_lost(&self) -> Result<bool> {
        match self.left() {
            Ok(_) => Ok(false),
            Err(error) => match error.kind() {
                ErrorKind::LeaseLost | ErrorKind::TubeNotFound | ErrorKind::Closed => Ok(true),
                _ => Err(self.named(error, "is_lost")),
            },
        }
    }

    pub(crate) fn left(&self) -> Result<Option<Duration>> {
        self.inner.core.look_at(|state, now| {
            let tube = self.tube_in(state, now)?;
            let (_, taken) = settle::held(&state.store, &tube, self.ticket)?;
            left_of(&tube, &taken, now)
        })
    }
}

/// A lease ends at the earlier of its deadline and the end of the task's ttl. A lease that has
/// ended, and its grace, is lost, also before the timer has handled it.
fn left_of(tube: &TubeEntry, taken: &TakenRow, now: Now) -> Result<Option<Duration>> {
    let left = |end: u64, now: u64| if end == NEVER { NEVER } else { end.saturating_sub(now) };
    let life = left(taken.progress.expires, now.queue);
    if life == 0 || left(lease_time::end_of(tube, taken), now.lease) == 0 {
        return Err(Error::new(ErrorKind::LeaseLost));
    }
    match left(lease_time::end_of_ttr(taken), now.lease).min(life) {
        NEVER => Ok(None),
        left => Ok(Some(Duration::from_micros(left))),
    }
}

debug!([] TicketHandle, "TicketHandle", this, "tube": &this.name, "ticket": &this.ticket);
