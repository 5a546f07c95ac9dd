//! The verbs on a taken task: ack, release, retry, bury, touch, and the return of a task without
//! its holder. Each verb checks the token first; an old token changes nothing.

use crate::engine::context::{Op, OpContext};
use crate::engine::failures::{self, stored_group, stored_text};
use crate::engine::stored::{self, StoredTask, TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{
    finish, gates, held_in, history, lease_time, query, retention, retry, transition, trash,
};
use crate::format::key::{self, Order, Rank};
use crate::format::row::{BuriedRow, DelayedRow, TakenRow, TaskProgress};
use crate::format::{Tag, View};
use crate::words::clock::{NEVER, micros};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::failure::exhausted_in;
use crate::words::numbers::Numbers;
use crate::words::options::is_nothing;
use crate::words::task::{Cause, Reason, TaskId, Ticket};
use crate::words::verb::{Extend, Release as Terms, Verdict};
use std::slice;
use std::time::Duration;

/// One verdict on tasks of one tube. Returns those whose leases were lost; the others are settled.
pub(crate) struct Settle<'a> {
    pub(crate) tube: u32,
    pub(crate) tickets: &'a [Ticket],
    pub(crate) verdict: Verdict<'a>,
}

/// The task that a ticket holds.
///
/// # Errors
/// `LeaseLost` unless the ticket's token is that of the present lease and no call has voided it.
#[inline(always)]
pub(crate) fn held(
    view: &dyn View,
    tube: &TubeEntry,
    ticket: Ticket,
) -> Result<(StoredTask, TakenRow)> {
    let lost = || Error::new(ErrorKind::LeaseLost).on_task(ticket.id);
    let row = view.get(&key::taken(tube.run(), ticket.id))?.ok_or_else(lost)?;
    let (stored, taken) = stored::lease(view, tube, ticket.id, &row)?;
    if taken.token != ticket.token || is_voided(tube, &taken) {
        return Err(lost());
    }
    if taken.holder != 0 {
        let consumer = query::consumer(view, taken.holder)?.ok_or_else(lost)?;
        if taken.token <= consumer.void_to {
            return Err(lost());
        }
    }
    Ok((stored, taken))
}

/// Whether a `release_all` came after the take.
pub(crate) fn is_voided(tube: &TubeEntry, taken: &TakenRow) -> bool {
    taken.token <= tube.row.void_to
}

/// Returns a task to its rank. If the holder is lost or the ttr has passed, the attempt counts, and
/// a task without attempts left is buried. A lease that a `release_all` has voided is returned
/// uncharged, also before the sweep of that call reaches it.
pub(crate) fn return_task(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    taken: TakenRow,
    cause: Cause,
) -> Result<()> {
    let cause = match cause {
        Cause::Lost | Cause::Ttr if is_voided(task.tube, &taken) => Cause::Release,
        cause => cause,
    };
    if cause == Cause::Close && task.tube.row.options.gates.is_some() {
        gates::return_pace(ctx, task.tube.number, taken.since)?;
    }
    let mut progress = taken.progress.clone();
    let mut to = if matches!(cause, Cause::Lost | Cause::Ttr) {
        failed(ctx, task.tube, progress, Duration::ZERO)
    } else {
        progress.attempts = progress.attempts.saturating_sub(1);
        TaskState::Ready(progress)
    };
    let from = TaskState::Taken(taken);
    let noted = history::note(ctx, task, (&from, &mut to), cause)?;
    transition::move_task(ctx, task, &from, &to, cause)?;
    noted.write(ctx);
    Ok(())
}

/// Why a lease ends without its holder: its holder is lost, which is charged, or the queue closes.
pub(crate) fn cause_of_end(charged: bool) -> Cause {
    if charged { Cause::Lost } else { Cause::Close }
}

/// The state after a failed attempt: buried if that was the last one, otherwise ready after `wait`.
pub(crate) fn failed(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    progress: TaskProgress,
    wait: Duration,
) -> TaskState {
    if retry::is_exhausted(tube, &progress) {
        failures::needs(ctx, tube);
        let group = progress.failure().map(|failure| failure.group.to_owned());
        let group = group.filter(|group| !group.is_empty());
        let group = group.unwrap_or_else(|| exhausted_in(&tube.row.name));
        let reason = Reason::Exhausted { group, message: progress.last_error.clone() };
        return buried(ctx, tube, progress, &reason);
    }
    later(ctx, tube, progress, wait)
}

/// Buried now, or in the trash. The texts of the reason are cut to the stored length.
pub(crate) fn buried(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    mut progress: TaskProgress,
    reason: &Reason,
) -> TaskState {
    progress.buries = progress.buries.saturating_add(1);
    let is_trashed = matches!(reason, Reason::Trashed(_));
    let until = if is_trashed { NEVER } else { retention::until(ctx, tube, Tag::Buried) };
    progress.set_kept_until(until);
    let row = BuriedRow { progress, time: ctx.now.queue, reason: bounded(ctx, reason) };
    if is_trashed { TaskState::Trashed(row) } else { TaskState::Buried(row) }
}

/// Buried by a bury or a fail, of a task that this consumer held; a fail is its last failure.
pub(crate) fn buried_with_failure(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    mut progress: TaskProgress,
    holder: u32,
    reason: &Reason,
) -> Result<TaskState> {
    if let Reason::Failed { group, message } = reason {
        failures::note(ctx, tube, &mut progress, holder, (group, message))?;
    }
    Ok(buried(ctx, tube, progress, reason))
}

/// What a kick makes of a buried task: its attempts are 0 again. If `ttl_spares_buried` has kept it
/// after the end of its ttl, it gets a new ttl of the same length.
pub(crate) fn kicked(ctx: &OpContext<'_>, task: &TaskRef<'_>, row: &BuriedRow) -> TaskProgress {
    let (mut progress, now) = (row.progress.clone(), ctx.now.queue);
    progress.attempts = 0;
    progress.set_kept_until(NEVER);
    if task.tube.row.options.ttl_spares_buried && progress.expires <= now {
        let since = task.read.map_or(0, |(_, row)| row.lives_since());
        let life = progress.life(since);
        progress.begin_life_again(now, life);
    }
    progress
}

fn bounded(ctx: &OpContext<'_>, reason: &Reason) -> Reason {
    let kept = |text: &str| stored_text(ctx, text).to_owned();
    match reason {
        Reason::Buried(text) => Reason::Buried(kept(text)),
        Reason::Failed { group, message } => {
            Reason::Failed { group: stored_group(group).to_owned(), message: kept(message) }
        }
        Reason::Exhausted { group, message } => {
            Reason::Exhausted { group: stored_group(group).to_owned(), message: kept(message) }
        }
        Reason::Undecodable(text) => Reason::Undecodable(kept(text)),
        Reason::Trashed(text) => Reason::Trashed(kept(text)),
    }
}

/// Delayed by `delay`, or ready at once.
pub(crate) fn later(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    progress: TaskProgress,
    delay: Duration,
) -> TaskState {
    if delay.is_zero() {
        return TaskState::Ready(progress);
    }
    let due = ctx.now.queue.saturating_add(micros(delay));
    let holds_group = tube.row.options.hold_group_while_delayed;
    TaskState::delayed(DelayedRow { progress, due, wall: false, holds_group }, ctx.now)
}

impl Op for Settle<'_> {
    type Done = Vec<TaskId>;

    /// It changes taken tasks only. While many delays end at once, a taker would otherwise make
    /// tasks ready at both its calls, one or a few at a time, and never catch up.
    const SEES_DELAYS: bool = false;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        match &self.verdict {
            // A task that is released to the back gets a new rank.
            Verdict::Release(terms) if terms.to_back => Numbers::of_ids(self.tickets.len() as u64),
            _ => Numbers::default(),
        }
    }

    fn brings_back(&self) -> bool {
        match &self.verdict {
            Verdict::Retry { .. } | Verdict::Bury { .. } => true,
            Verdict::Release(terms) => *terms != Terms::new(),
            // If a heartbeat were refused, the task would be taken and done twice.
            Verdict::Ack | Verdict::Finish(_) | Verdict::Lost | Verdict::Touch(_) => false,
        }
    }

    fn in_doubt(&self, lost: &Self::Done) -> Vec<TaskId> {
        let ids = self.tickets.iter().map(|ticket| ticket.id);
        ids.filter(|id| !lost.contains(id)).collect()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        if ctx.known.has_merged() {
            return self.decide_on_each(ctx);
        }
        let tube = &*ctx.tube(self.tube)?;
        let mut lost = Vec::new();
        self.settle_in(ctx, tube, self.tickets, &mut lost)?;
        Ok(lost)
    }
}

impl Settle<'_> {
    /// The same where each task may be in another tube.
    #[cold]
    fn decide_on_each(&self, ctx: &mut OpContext<'_>) -> Result<Vec<TaskId>> {
        let (mut lost, mut gone) = (Vec::new(), None);
        for ticket in self.tickets {
            match held_in::tube(ctx, self.tube, *ticket) {
                Ok(tube) => self.settle_in(ctx, &tube, slice::from_ref(ticket), &mut lost)?,
                Err(error) if error.is_lease_lost() => lost.push(ticket.id),
                // The tube was dropped, and the task ended before or after it had left that.
                Err(error) if error.is_not_found() => {
                    lost.push(ticket.id);
                    gone = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match gone {
            Some(error) if lost.len() == self.tickets.len() => Err(error),
            _ => Ok(lost),
        }
    }

    /// Applies the verdict to tasks of one tube. Adds those whose leases were lost.
    #[inline(always)]
    fn settle_in(
        &self,
        ctx: &mut OpContext<'_>,
        tube: &TubeEntry,
        tickets: &[Ticket],
        lost: &mut Vec<TaskId>,
    ) -> Result<()> {
        // Most verdicts are acks, which every tube allows.
        if !matches!(self.verdict, Verdict::Ack) {
            check(tube, &self.verdict)?;
        }
        for ticket in tickets {
            match held(ctx, tube, *ticket) {
                Ok((stored, taken)) => match stored.task(tube) {
                    Ok(task) => settle(ctx, task, taken, &self.verdict)?,
                    Err(error) => self.pass_by(ctx, tube, (*ticket, error), lost)?,
                },
                Err(error) if error.is_lease_lost() => lost.push(ticket.id),
                Err(error) => self.pass_by(ctx, tube, (*ticket, error), lost)?,
            }
        }
        Ok(())
    }

    /// A lease that cannot be read. One that has no holder any more is repaired, and the others
    /// with it return.
    #[cold]
    fn pass_by(
        &self,
        ctx: &OpContext<'_>,
        tube: &TubeEntry,
        (ticket, error): (Ticket, Error),
        lost: &mut Vec<TaskId>,
    ) -> Result<()> {
        if !matches!(self.verdict, Verdict::Lost) {
            return Err(error);
        }
        ctx.pass_by(tube, || key::taken(tube.run(), ticket.id), error)?;
        lost.push(ticket.id);
        Ok(())
    }
}

/// A verdict with a result, which a full disk refuses as it refuses a payload.
pub(crate) struct Adding<'a>(pub(crate) &'a Settle<'a>);

impl Op for Adding<'_> {
    type Done = Vec<TaskId>;

    const SEES_DELAYS: bool = Settle::SEES_DELAYS;

    fn tube(&self) -> Option<u32> {
        self.0.tube()
    }

    fn adds(&self) -> bool {
        true
    }

    fn in_doubt(&self, lost: &Self::Done) -> Vec<TaskId> {
        self.0.in_doubt(lost)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        self.0.decide(ctx)
    }
}

/// Refuses what the tube's kind does not allow, and times below a microsecond, before any task is
/// read.
fn check(tube: &TubeEntry, verdict: &Verdict<'_>) -> Result<()> {
    let options = &tube.row.options;
    let switches = options.kind.switches();
    let waits = |delay: Option<Duration>| delay.is_some_and(|delay| !delay.is_zero());
    let off = match verdict {
        Verdict::Finish(result) => return finish::check(tube, result),
        Verdict::Release(terms) if !switches.timed && waits(terms.delay) => "delay",
        Verdict::Release(terms) if !switches.timed && terms.ttl.is_some() => "ttl",
        Verdict::Release(terms) if !switches.priority && terms.priority.is_some() => "priority",
        Verdict::Bury { priority: Some(_), .. } if !switches.priority => "priority",
        Verdict::Release(terms) if options.placement.is_some() && terms.to_back => "to_back",
        Verdict::Retry { after, .. } if !switches.timed && waits(*after) => "delay",
        Verdict::Touch(_) if !switches.timed => "touch",
        Verdict::Release(Terms { ttl: Some(ttl), .. }) if is_nothing(*ttl) => {
            return too_short("ttl");
        }
        Verdict::Touch(Extend::RenewFor(ttr)) if is_nothing(*ttr) => return too_short("ttr"),
        _ => return Ok(()),
    };
    let text = format!("{off} with kind {:?}", options.kind);
    Err(Error::new(ErrorKind::Unsupported).because(text))
}

/// The same for a verdict that brings a payload, which a task that is removed would not keep.
pub(crate) fn check_with_payload(tube: &TubeEntry, verdict: &Verdict<'_>) -> Result<()> {
    let options = &tube.row.options;
    let text = match verdict {
        Verdict::Ack if options.keep_finished.is_none() => {
            "a payload with an ack, which the tube does not keep; make it with keep_finished"
        }
        Verdict::Ack | Verdict::Finish(_) if options.drop_payloads => {
            "a payload with an ack, which the tube drops; ack without it, or unset drop_payloads"
        }
        _ => return check(tube, verdict),
    };
    Err(Error::new(ErrorKind::Unsupported).because(text))
}

/// Applies a verdict to a task whose payload was replaced. The row of its state says where the
/// payload is, so it is written in any case.
pub(crate) fn settle_replaced(
    ctx: &mut OpContext<'_>,
    task: TaskRef<'_>,
    taken: TakenRow,
    verdict: &Verdict<'_>,
) -> Result<()> {
    match verdict {
        Verdict::Touch(Extend::Add(by)) if by.is_zero() => {
            let taken = TaskState::Taken(taken);
            transition::move_task(ctx, &task, &taken, &taken, Cause::Touch)
        }
        verdict => keep(ctx, task, taken, verdict),
    }
}

fn too_short(time: &str) -> Result<()> {
    Err(Error::new(ErrorKind::Invalid).because(format!("{time} must be at least one microsecond")))
}

/// Applies a verdict to one task.
#[inline]
fn settle(
    ctx: &mut OpContext<'_>,
    task: TaskRef<'_>,
    taken: TakenRow,
    verdict: &Verdict<'_>,
) -> Result<()> {
    match verdict {
        Verdict::Ack if task.tube.row.options.keep_finished.is_none() => {
            transition::erase(ctx, &task, &TaskState::Taken(taken), Cause::Ack)
        }
        verdict => keep(ctx, task, taken, verdict),
    }
}

/// Applies a verdict after which the task may stay. Apart, so that it adds nothing to a plain ack.
#[inline(never)]
fn keep(
    ctx: &mut OpContext<'_>,
    task: TaskRef<'_>,
    taken: TakenRow,
    verdict: &Verdict<'_>,
) -> Result<()> {
    let (mut to, cause, place) = match verdict {
        Verdict::Ack => return finish::finish_taken(ctx, &task, taken, None),
        Verdict::Finish(result) => return finish::finish_taken(ctx, &task, taken, Some(result)),
        Verdict::Lost => return return_task(ctx, &task, taken, Cause::Lost),
        Verdict::Touch(Extend::Add(by)) if by.is_zero() => return Ok(()),
        Verdict::Touch(how) => {
            let mut to = taken.clone();
            lease_time::extend(ctx, task.tube, &mut to, *how);
            (TaskState::Taken(to), Cause::Touch, task.place)
        }
        // Not charged.
        Verdict::Release(terms) => {
            let place = rank_after(ctx, &task, terms);
            let mut progress = taken.progress.clone();
            progress.attempts = progress.attempts.saturating_sub(1);
            progress.releases = progress.releases.saturating_add(1);
            if let Some(ttl) = terms.ttl {
                progress.begin_life_again(ctx.now.queue, micros(ttl));
            }
            let to = later(ctx, task.tube, progress, terms.delay.unwrap_or_default());
            (to, Cause::Release, place)
        }
        // Charged. `after` replaces the tube's back-off.
        Verdict::Retry { error, group, after } => {
            let mut progress = taken.progress.clone();
            failures::note(ctx, task.tube, &mut progress, taken.holder, (group, error))?;
            let wait = retry::wait(task.tube, task.id, &progress);
            (failed(ctx, task.tube, progress, after.unwrap_or(wait)), Cause::Retry, task.place)
        }
        Verdict::Bury { reason, priority } => {
            let place = task.place_with(*priority);
            let to =
                buried_with_failure(ctx, task.tube, taken.progress.clone(), taken.holder, reason)?;
            let cause = trash::cause_of(&to);
            (to, cause, place)
        }
    };
    let from = TaskState::Taken(taken);
    let noted = history::note(ctx, &task, (&from, &mut to), cause)?;
    transition::move_to_rank(ctx, &task, (&from, &to), place, cause)?;
    noted.write(ctx);
    Ok(())
}

/// The rank of a task after its release.
fn rank_after(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, terms: &Terms) -> Rank {
    let order = if terms.to_back { Order::back(ctx.id()) } else { task.place.order };
    Rank { order, ..task.place_with(terms.priority) }
}
