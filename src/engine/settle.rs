//! The holder's verbs: ack, release, retry, bury, touch, and what becomes of a task whose holder is
//! gone. Each checks the token first; a stale one changes nothing.

use crate::bytes::View;
use crate::bytes::key::{self, Order, Place};
use crate::bytes::row::{BuriedRow, ConsumerRow, DelayedRow, Head, TakenRow};
use crate::clock::{NEVER, micros};
use crate::engine::desk::{Desk, Op, damaged};
use crate::engine::index;
use crate::engine::known::Tube;
use crate::engine::stored::{self, Standing, Stored, Task};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::REASON_BYTES_MAX;
use crate::name::cut;
use crate::options::is_nothing;
use crate::task::{Cause, Reason, TaskId, Ticket};
use crate::verb::{Extend, Release as Terms};
use std::time::Duration;

/// Finishes tasks. Answers those whose leases were lost; the others are done.
pub(crate) struct Ack<'a> {
    pub(crate) tube: u32,
    pub(crate) tickets: &'a [Ticket],
}

/// What a holder says of a task.
pub(crate) struct Settle<'a> {
    pub(crate) tube: u32,
    pub(crate) ticket: Ticket,
    pub(crate) verdict: Verdict<'a>,
}

pub(crate) enum Verdict<'a> {
    /// Given back, uncharged.
    Release(Terms),
    /// Given back after a failure, charged; `after` instead of the tube's back-off.
    Retry { error: &'a str, after: Option<Duration> },
    /// Set aside.
    Bury(Reason),
    /// The holder went away: given back, charged.
    Lost,
    /// Kept for longer.
    Touch(Extend),
}

/// The task that a ticket holds.
///
/// # Errors
/// `LeaseLost` unless the ticket's token is that of the present hand-out and nothing has voided it.
pub(crate) fn held(view: &dyn View, tube: &Tube, ticket: Ticket) -> Result<(Stored, TakenRow)> {
    let lost = || Error::new(ErrorKind::LeaseLost).on_task(ticket.id);
    let row = view.get(&key::taken(tube.run(), ticket.id))?.ok_or_else(lost)?;
    let (stored, taken) = stored::lease(view, tube, ticket.id, &row)?;
    if taken.token != ticket.token || is_voided(tube, &taken) {
        return Err(lost());
    }
    if taken.holder != 0 {
        let consumer = view.get(&key::consumer(taken.holder))?.ok_or_else(lost)?;
        let consumer = ConsumerRow::decode(&consumer).ok_or_else(|| damaged("consumer"))?;
        if taken.token <= consumer.void_to {
            return Err(lost());
        }
    }
    Ok((stored, taken))
}

/// Whether a `release_all` came after the hand-out.
pub(crate) fn is_voided(tube: &Tube, taken: &TakenRow) -> bool {
    taken.token <= tube.row.void_to
}

/// Back to its place, or aside if its attempts are used up. What a `release_all` has voided and its
/// sweep has not come to yet is given back as that said, whoever comes first.
pub(crate) fn give_back(
    desk: &mut Desk<'_>,
    tube: &Tube,
    task: &Task<'_>,
    taken: TakenRow,
    cause: Cause,
) -> Result<()> {
    if is_voided(tube, &taken) {
        return give_back_uncharged(desk, tube, task, taken, Cause::Release);
    }
    let from = Standing::Taken(taken);
    let head = from.head().clone();
    let to =
        if exhausted(tube, &head) { bury(desk, head, exhaustion) } else { Standing::Ready(head) };
    index::shift(desk, tube, task, Some(&from), Some(&to), cause)
}

/// Back to its place as if it had not been taken.
pub(crate) fn give_back_uncharged(
    desk: &mut Desk<'_>,
    tube: &Tube,
    task: &Task<'_>,
    taken: TakenRow,
    cause: Cause,
) -> Result<()> {
    let from = Standing::Taken(taken);
    let mut head = from.head().clone();
    head.attempts = head.attempts.saturating_sub(1);
    index::shift(desk, tube, task, Some(&from), Some(&Standing::Ready(head)), cause)
}

fn exhausted(tube: &Tube, head: &Head) -> bool {
    tube.row.options.max_attempts.is_some_and(|most| head.attempts >= most)
}

fn exhaustion(head: &Head) -> Reason {
    Reason::Exhausted(head.last_error.clone())
}

pub(crate) fn bury(
    desk: &Desk<'_>,
    mut head: Head,
    reason: impl FnOnce(&Head) -> Reason,
) -> Standing {
    head.buries = head.buries.saturating_add(1);
    let reason = reason(&head);
    if let Reason::Failed { message, .. } = &reason {
        head.last_error.clone_from(message);
    }
    Standing::Buried(BuriedRow { head, time: desk.now.queue, reason })
}

/// Cuts the texts of a reason to what is kept.
pub(crate) fn bounded(reason: &Reason) -> Reason {
    let kept = |text: &str| cut(text, REASON_BYTES_MAX).to_owned();
    match reason {
        Reason::Buried(text) => Reason::Buried(kept(text)),
        Reason::Failed { group, message } => {
            Reason::Failed { group: kept(group), message: kept(message) }
        }
        Reason::Exhausted(text) => Reason::Exhausted(kept(text)),
        Reason::Undecodable(text) => Reason::Undecodable(kept(text)),
    }
}

/// Delayed by `delay`, or ready at once. A delay moves the end of the task's life along.
fn later(desk: &Desk<'_>, tube: &Tube, mut head: Head, delay: Duration) -> Standing {
    let now = desk.now.queue;
    if delay.is_zero() {
        return Standing::Ready(head);
    }
    if head.expires != NEVER {
        head.expires = head.expires.saturating_sub(now);
    }
    let due = now.saturating_add(micros(delay));
    let holds_group = tube.row.options.hold_group_while_delayed;
    Standing::Delayed(DelayedRow { head, due, wall: false, holds_group })
}

fn unsupported(tube: &Tube, option: &str) -> Error {
    let text = format!("{option} with kind {:?}", tube.row.options.kind);
    Error::new(ErrorKind::Unsupported).because(text)
}

impl Op for Ack<'_> {
    type Done = Vec<TaskId>;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn in_doubt(&self, lost: &Self::Done) -> Vec<TaskId> {
        let ids = self.tickets.iter().map(|ticket| ticket.id);
        ids.filter(|id| !lost.contains(id)).collect()
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<Self::Done> {
        let tube = desk.tube(self.tube)?;
        let mut lost = Vec::new();
        for ticket in self.tickets {
            match held(desk, &tube, *ticket) {
                Ok((stored, taken)) => {
                    let (task, from) = (stored.task()?, Standing::Taken(taken));
                    index::erase(desk, &tube, &task, &from, Cause::Ack)?;
                }
                Err(error) if error.is_lease_lost() => lost.push(ticket.id),
                Err(error) => return Err(error),
            }
        }
        Ok(lost)
    }
}

impl Op for Settle<'_> {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> u64 {
        // A task that goes to the back is given a new place.
        u64::from(matches!(self.verdict, Verdict::Release(_)))
    }

    fn grows(&self) -> bool {
        match &self.verdict {
            Verdict::Retry { .. } | Verdict::Bury(_) => true,
            Verdict::Release(terms) => *terms != Terms::new(),
            // A heartbeat that fails would have the task done twice.
            Verdict::Lost | Verdict::Touch(_) => false,
        }
    }

    fn in_doubt(&self, _done: &()) -> Vec<TaskId> {
        vec![self.ticket.id]
    }

    fn decide(&self, desk: &mut Desk<'_>) -> Result<()> {
        let (tube, ticket) = (&*desk.tube(self.tube)?, self.ticket);
        match &self.verdict {
            Verdict::Release(terms) => release(desk, tube, ticket, terms),
            Verdict::Retry { error, after } => retry(desk, tube, ticket, error, *after),
            Verdict::Bury(reason) => set_aside(desk, tube, ticket, reason),
            Verdict::Lost => lose(desk, tube, ticket),
            Verdict::Touch(how) => touch(desk, tube, ticket, *how),
        }
    }
}

/// Gives a task back, uncharged.
fn release(desk: &mut Desk<'_>, tube: &Tube, ticket: Ticket, terms: &Terms) -> Result<()> {
    let switches = tube.row.options.kind.switches();
    let off = [
        ("delay", !switches.timed && terms.delay.is_some_and(|delay| !delay.is_zero())),
        ("ttl", !switches.timed && terms.ttl.is_some()),
        ("priority", !switches.priority && terms.priority.is_some()),
        ("to_back", tube.row.options.placement.is_some() && terms.to_back),
    ];
    if let Some((option, _)) = off.iter().find(|(_, off)| *off) {
        return Err(unsupported(tube, option));
    }
    if terms.ttl.is_some_and(is_nothing) {
        return Err(Error::new(ErrorKind::Invalid).because("ttl takes a microsecond or more"));
    }
    let (stored, taken) = held(desk, tube, ticket)?;
    let mut task = stored.task()?;
    let from = Standing::Taken(taken);
    let mut head = from.head().clone();
    head.attempts = head.attempts.saturating_sub(1);
    head.releases = head.releases.saturating_add(1);
    if let Some(ttl) = terms.ttl {
        head.expires = desk.now.queue.saturating_add(micros(ttl));
    }
    if terms.priority.is_some() || terms.to_back {
        task.place = replaced(desk, tube, &task, terms);
    }
    let to = later(desk, tube, head, terms.delay.unwrap_or_default());
    index::shift(desk, tube, &task, Some(&from), Some(&to), Cause::Release)
}

/// Another place for a taken task. Its home stays.
fn replaced(desk: &mut Desk<'_>, tube: &Tube, task: &Task<'_>, terms: &Terms) -> Place {
    let before = task.position_row(tube);
    let order = if terms.to_back { Order::back(desk.number()) } else { task.place.order };
    let place = Place { priority: terms.priority.unwrap_or(task.place.priority), order };
    let key = key::position(tube.run(), task.id);
    match (before, Task { place, ..*task }.position_row(tube)) {
        (None, Some(position)) => desk.add(key, position),
        (Some(before), Some(position)) if before != position => desk.change(key, position),
        (Some(_), None) => desk.remove(key),
        _ => {}
    }
    place
}

/// Gives a task back after a failure, charged. `after` stands instead of the tube's back-off.
fn retry(
    desk: &mut Desk<'_>,
    tube: &Tube,
    ticket: Ticket,
    error: &str,
    after: Option<Duration>,
) -> Result<()> {
    let options = &tube.row.options;
    if !options.kind.switches().timed && after.is_some_and(|after| !after.is_zero()) {
        return Err(unsupported(tube, "delay"));
    }
    let (stored, taken) = held(desk, tube, ticket)?;
    let from = Standing::Taken(taken);
    let mut head = from.head().clone();
    head.last_error = cut(error, REASON_BYTES_MAX).to_owned();
    let to = if exhausted(tube, &head) {
        bury(desk, head, exhaustion)
    } else {
        let wait = after.unwrap_or_else(|| options.backoff.wait(head.attempts));
        later(desk, tube, head, wait)
    };
    index::shift(desk, tube, &stored.task()?, Some(&from), Some(&to), Cause::Retry)
}

/// Sets a held task aside.
fn set_aside(desk: &mut Desk<'_>, tube: &Tube, ticket: Ticket, reason: &Reason) -> Result<()> {
    let (stored, taken) = held(desk, tube, ticket)?;
    let from = Standing::Taken(taken);
    let to = bury(desk, from.head().clone(), |_| bounded(reason));
    index::shift(desk, tube, &stored.task()?, Some(&from), Some(&to), Cause::Bury)
}

/// Returns a task whose holder went away, charged.
fn lose(desk: &mut Desk<'_>, tube: &Tube, ticket: Ticket) -> Result<()> {
    let (stored, taken) = held(desk, tube, ticket)?;
    give_back(desk, tube, &stored.task()?, taken, Cause::Lost)
}

/// Extends a lease.
fn touch(desk: &mut Desk<'_>, tube: &Tube, ticket: Ticket, how: Extend) -> Result<()> {
    if !tube.row.options.kind.switches().timed {
        return Err(unsupported(tube, "touch"));
    }
    if matches!(how, Extend::RenewFor(length) if is_nothing(length)) {
        return Err(Error::new(ErrorKind::Invalid).because("ttr takes a microsecond or more"));
    }
    let (stored, taken) = held(desk, tube, ticket)?;
    let now = desk.now.lease;
    let mut to = taken.clone();
    match how {
        Extend::Add(by) if by.is_zero() => return Ok(()),
        Extend::Add(by) => {
            let by = micros(by);
            to.deadline = to.deadline.saturating_add(by);
            to.head.ttr = to.head.ttr.saturating_add(by);
            to.head.expires = to.head.expires.saturating_add(by);
        }
        Extend::Renew => to.deadline = now.saturating_add(to.head.ttr),
        Extend::RenewFor(length) => to.deadline = now.saturating_add(micros(length)),
    }
    let (from, to) = (Standing::Taken(taken), Standing::Taken(to));
    index::shift(desk, tube, &stored.task()?, Some(&from), Some(&to), Cause::Touch)
}
