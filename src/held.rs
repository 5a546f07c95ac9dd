//! The right to settle a task, and the verdicts, without a guard. A guard adds its drop and nothing
//! else.

use crate::bytes::row::TakenRow;
use crate::clock::{NEVER, Now};
use crate::engine::settle::{self, Settle, Verdict};
use crate::engine::{Op, look};
use crate::error::{Error, ErrorKind, Result};
use crate::hold::Hold;
use crate::options::Durability;
use crate::sync::Arc;
use crate::task::{Reason, TaskId, Ticket};
use crate::verb::{Extend, Release};
use std::fmt;
use std::fmt::Display;
use std::time::Duration;

/// Which tube, for ops and messages.
#[derive(Debug)]
pub(crate) struct At {
    pub(crate) number: u32,
    pub(crate) name: Box<str>,
    pub(crate) placement: Option<Box<str>>,
}

/// The right to settle a task, without a guard: what [`Tube::ticket`](crate::Tube::ticket) makes
/// of a [`Ticket`]. Dropping it changes nothing. Its verdicts are those of a
/// [`Lease`](crate::Lease).
#[derive(Clone)]
pub struct Held {
    pub(crate) hold: Arc<Hold>,
    pub(crate) at: Arc<At>,
    pub(crate) ticket: Ticket,
    pub(crate) durability: Durability,
}

impl Held {
    pub(crate) fn run<O: Op>(
        &self,
        action: &'static str,
        op: &O,
        durability: Durability,
    ) -> Result<O::Done> {
        let done = self.hold.run(op, durability);
        done.map_err(|error| self.name(error, action))
    }

    fn name(&self, error: Error, action: &'static str) -> Error {
        error.during(action).on_task(self.ticket.id).in_tube(&self.at.name)
    }

    pub(crate) fn verdict<'a>(&self, verdict: Verdict<'a>) -> Settle<'a> {
        Settle { tube: self.at.number, ticket: self.ticket, verdict }
    }

    fn settle(
        &self,
        action: &'static str,
        verdict: Verdict<'_>,
        durability: Durability,
    ) -> Result<()> {
        self.run(action, &self.verdict(verdict), durability)
    }

    #[inline]
    pub(crate) fn do_ack(&self) -> Result<()> {
        let op = settle::Ack { tube: self.at.number, tickets: &[self.ticket] };
        let lost = self.run("ack", &op, self.durability)?;
        if lost.is_empty() {
            return Ok(());
        }
        Err(self.name(Error::new(ErrorKind::LeaseLost).with_tasks(lost), "ack"))
    }

    pub(crate) fn do_release(&self, terms: Release) -> Result<()> {
        // What a power cut could take back is the lease, and that is void after one anyway; unless
        // the release says more than "back to its place".
        let plain = terms == Release::new();
        let durability = if plain { Durability::Relaxed } else { self.durability };
        self.settle("release", Verdict::Release(terms), durability)
    }

    pub(crate) fn do_retry(&self, error: &dyn Display, after: Option<Duration>) -> Result<()> {
        let error = error.to_string();
        self.settle("retry", Verdict::Retry { error: &error, after }, self.durability)
    }

    pub(crate) fn do_bury(&self, action: &'static str, reason: Reason) -> Result<()> {
        self.settle(action, Verdict::Bury(reason), self.durability)
    }

    fn do_extend(&self, action: &'static str, how: Extend) -> Result<()> {
        self.settle(action, Verdict::Touch(how), Durability::Relaxed)
    }

    fn do_left(&self) -> Result<Option<Duration>> {
        let left = self.hold.core().look(|view, now| {
            let tube = look::tube(view, self.at.number)?;
            let (_, taken) = settle::held(view, &tube, self.ticket)?;
            time_left(&taken, now)
        });
        left.map_err(|error| self.name(error, "left"))
    }

    /// The task.
    pub fn id(&self) -> TaskId {
        self.ticket.id
    }

    /// The name of the task's tube.
    pub fn tube(&self) -> &str {
        &self.at.name
    }

    /// The ticket.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// As [`Lease::ack`](crate::Lease::ack).
    ///
    /// # Errors
    /// As [`Lease::ack`](crate::Lease::ack).
    pub fn ack(self) -> Result<()> {
        self.do_ack()
    }

    /// As [`Lease::release`](crate::Lease::release).
    ///
    /// # Errors
    /// As [`Lease::ack`](crate::Lease::ack).
    pub fn release(self) -> Result<()> {
        self.do_release(Release::new())
    }

    /// As [`Lease::release_with`](crate::Lease::release_with).
    ///
    /// # Errors
    /// As [`Lease::release_with`](crate::Lease::release_with).
    pub fn release_with(self, terms: Release) -> Result<()> {
        self.do_release(terms)
    }

    /// As [`Lease::retry`](crate::Lease::retry).
    ///
    /// # Errors
    /// As [`Lease::ack`](crate::Lease::ack).
    pub fn retry(self, error: impl Display) -> Result<()> {
        self.do_retry(&error, None)
    }

    /// As [`Lease::retry_after`](crate::Lease::retry_after).
    ///
    /// # Errors
    /// As [`Lease::retry_after`](crate::Lease::retry_after).
    pub fn retry_after(self, error: impl Display, wait: Duration) -> Result<()> {
        self.do_retry(&error, Some(wait))
    }

    /// As [`Lease::bury`](crate::Lease::bury).
    ///
    /// # Errors
    /// As [`Lease::ack`](crate::Lease::ack).
    pub fn bury(self, reason: impl Display) -> Result<()> {
        self.do_bury("bury", Reason::Buried(reason.to_string()))
    }

    /// As [`Lease::fail`](crate::Lease::fail).
    ///
    /// # Errors
    /// As [`Lease::ack`](crate::Lease::ack).
    pub fn fail(self, group: impl Into<String>, message: impl Display) -> Result<()> {
        self.do_bury("fail", failed(group, message))
    }

    /// As [`Lease::touch`](crate::Lease::touch).
    ///
    /// # Errors
    /// As [`Lease::touch`](crate::Lease::touch).
    pub fn touch(&self, by: Duration) -> Result<()> {
        self.do_extend("touch", Extend::Add(by))
    }

    /// As [`Lease::renew`](crate::Lease::renew).
    ///
    /// # Errors
    /// As [`Lease::touch`](crate::Lease::touch).
    pub fn renew(&self) -> Result<()> {
        self.do_extend("renew", Extend::Renew)
    }

    /// As [`Lease::renew_for`](crate::Lease::renew_for).
    ///
    /// # Errors
    /// As [`Lease::renew_for`](crate::Lease::renew_for).
    pub fn renew_for(&self, length: Duration) -> Result<()> {
        self.do_extend("renew", Extend::RenewFor(length))
    }

    /// As [`Lease::left`](crate::Lease::left).
    ///
    /// # Errors
    /// As [`Lease::left`](crate::Lease::left).
    pub fn left(&self) -> Result<Option<Duration>> {
        self.do_left()
    }
}

pub(crate) fn failed(group: impl Into<String>, message: impl Display) -> Reason {
    Reason::Failed { group: group.into(), message: message.to_string() }
}

/// A lease ends at the earlier of its deadline and the task's end of life. One that has ended is
/// lost, also if nobody has worked it off yet.
pub(crate) fn time_left(taken: &TakenRow, now: Now) -> Result<Option<Duration>> {
    let lease = taken.deadline.saturating_sub(now.lease);
    let life = taken.head.expires.saturating_sub(now.queue);
    if lease == 0 || life == 0 {
        return Err(Error::new(ErrorKind::LeaseLost));
    }
    let left = match (taken.deadline, taken.head.expires) {
        (NEVER, NEVER) => return Ok(None),
        (NEVER, _) => life,
        (_, NEVER) => lease,
        _ => lease.min(life),
    };
    Ok(Some(Duration::from_micros(left)))
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tube, ticket) = (&self.at.name, self.ticket);
        f.debug_struct("Held").field("tube", tube).field("ticket", &ticket).finish_non_exhaustive()
    }
}
