//! Mends what the audit has found, for [`Queue::repair`](crate::Queue::repair): a few findings in
//! each op. The audit has read a snapshot, so an op looks again at the rows that a finding rests
//! on, and leaves it if one is another now. It never removes a row of a task that can be read, and
//! one that cannot is buried under its id with what is known of it. Rows of a task that never was,
//! and pieces that are no whole payload, go with a line that says so.

mod plan;
mod tubes;
mod tasks;
mod payloads;
mod progress;
mod days;

use crate::engine::audit::{About, Fix, Sum};
use crate::engine::context::{Op, OpContext, Repaired};
use crate::engine::decision::{Decision, Over};
use crate::engine::effects::NextDue;
use crate::engine::query;
use crate::engine::repair::Repair;
use crate::engine::{failures, lines, tag_counts};
use crate::format::key::{self, Key, Work};
use crate::format::row::{self, Counters};
use crate::format::{Tag, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::FIXES_OF_OP;
pub(crate) use plan::{Planned, RepairPlan};

/// What was done about a finding; `None` if nothing was.
type Mended = Result<Option<String>>;

/// The most damaged rows that a rule meets on its way, and that are repaired for one finding.
const REPAIRS_OF_FIX: usize = 8;

/// Mends findings, at most [`FIXES_OF_OP`] of those that it is given.
pub(crate) struct Mend<'a> {
    pub(crate) findings: &'a [Planned],
}

impl Op for Mend<'_> {
    /// One line for each thing that was done.
    type Done = Vec<String>;

    fn grows(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Vec<String>> {
        let mut steps = Vec::new();
        for finding in self.findings.iter().take(FIXES_OF_OP) {
            if finding.stands(ctx)? {
                mend(ctx, finding, &mut steps)?;
            }
        }
        Ok(steps)
    }
}

/// Mends one finding, or nothing of it. A rule on the way may meet a row that is damaged: that row
/// is repaired as for any op, which is a step too.
fn mend(ctx: &mut OpContext<'_>, finding: &Planned, steps: &mut Vec<String>) -> Result<()> {
    let mut repaired = ctx.repaired.clone();
    for _ in 0..REPAIRS_OF_FIX {
        let met = match attempt(ctx, &repaired, |ctx| apply(ctx, finding)) {
            Ok(Some((done, decision))) => {
                ctx.decision.add_part(decision);
                steps.push(format!("{}: {done}", finding.line));
                return Ok(());
            }
            Ok(None) => return Ok(()),
            Err(error) => error,
        };
        let row = match met.row().filter(|row| !repaired.contains(row)) {
            Some(row) if met.kind() == ErrorKind::Damaged => row.clone(),
            // It stays as it is, and is found again.
            _ if met.kind() == ErrorKind::Damaged || met.is_not_found() => return Ok(()),
            _ => return Err(met),
        };
        let repair = Repair::Row(row.clone());
        let done = attempt(ctx, &repaired, |ctx| repair.decide(ctx).map(Some));
        if let Some(((), decision)) = unless_damaged(done)?.flatten() {
            ctx.decision.add_part(decision);
            let tag = row.key.first().copied().and_then(Tag::of);
            let tag = tag.map_or_else(String::new, |tag| format!("{tag:?}: "));
            steps.push(format!("{tag}a damaged row: {:02x?}: it was repaired", row.key));
        }
        repaired.push(row);
    }
    Ok(())
}

fn unless_damaged<T>(done: Result<T>) -> Result<Option<T>> {
    match done {
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(None),
        done => done.map(Some),
    }
}

/// Decides as a rule does, which trusts the rows that it has not read. Each write then becomes one
/// that the rows allow: what is missing is not removed. `None` if nothing was done or is left.
fn attempt<T>(
    ctx: &mut OpContext<'_>,
    repaired: &Repaired,
    decide: impl FnOnce(&mut OpContext<'_>) -> Result<Option<T>>,
) -> Result<Option<(T, Box<Decision>)>> {
    let mut decision = Decision::default();
    decision.effects.borders.clone_from(&ctx.decision.effects.borders);
    decision.effects.retires_none = true;
    let view = &Over { view: ctx.view, decision: ctx.decision };
    let (known, now, wants) = (ctx.known, ctx.now, ctx.wants);
    let numbers = &mut *ctx.numbers;
    let mut inner =
        OpContext { view, known, numbers, decision: &mut decision, wants, repaired, now };
    let Some(done) = decide(&mut inner)? else { return Ok(None) };
    let (mut writes, mut checked) = (Vec::new(), Box::<Decision>::default());
    decision.rows.layer.drain_into(|write| writes.push(write));
    std::mem::swap(&mut checked.effects, &mut decision.effects);
    std::mem::swap(&mut checked.rows.days, &mut decision.rows.days);
    checked.needs = decision.needs;
    let has_effects = checked.effects.durable_bytes != 0 || !checked.effects.tubes.is_empty();
    let numbers = &mut *ctx.numbers;
    let mut outer =
        OpContext { view, known, numbers, decision: &mut checked, wants, repaired, now };
    for (key, write) in writes {
        match write.into_value() {
            Some(value) => outer.set(key, value)?,
            None if outer.row(&key)?.is_some() => outer.remove(key),
            None => {}
        }
    }
    let is_any = has_effects || !checked.rows.is_empty();
    Ok(is_any.then_some((done, checked)))
}

/// Applies a fix. Returns what was done, if anything was.
fn apply(ctx: &mut OpContext<'_>, finding: &Planned) -> Mended {
    match &finding.fix {
        Fix::Nothing => Ok(None),
        Fix::Set(key, value) => set(ctx, finding, (key, value)),
        Fix::Remove(key) => {
            if ctx.row(key)?.is_none() {
                return Ok(None);
            }
            ctx.remove(key::copy(key));
            done("the row was removed")
        }
        Fix::Sum(sum) => correct(ctx, sum),
        Fix::Day(key) => days::begin_again(ctx, key),
        Fix::Task(number, key) => tasks::bury(ctx, *number, key),
        Fix::Double(keys) => tasks::remove_double(ctx, keys),
        Fix::Remains(number, id, keys) => tasks::bring_back(ctx, *number, *id, keys),
        Fix::Pieces(id, keys) => payloads::bring_back(ctx, (*id, finding.was_given), keys),
        Fix::RollBack(work) => payloads::roll_back(ctx, work),
        Fix::Unkept(number, id) => {
            tasks::bury_without_payload(ctx, (*number, *id), tasks::PAYLOAD_NOT_KEPT)
        }
        Fix::Fresh(number, key) => tasks::unfresh(ctx, *number, key),
        Fix::Reports(number, id) => progress::count(ctx, *number, *id),
        Fix::Edges(number, id) => progress::edges(ctx, *number, *id),
        Fix::Tags(number, id, found) => progress::tags(ctx, (*number, *id), found),
        Fix::Lease(number, id) => tasks::release(ctx, *number, *id),
        Fix::Payload(run, id, pieces, missing) => {
            let number = match finding.about {
                About::Task(number, _) => Some(number),
                _ => None,
            };
            payloads::lose(ctx, number, (*run, *id), (pieces, missing))
        }
        Fix::Tube(number, name) => tubes::make_again(ctx, *number, name.as_deref()),
        Fix::Twin(number) => tubes::forget(ctx, *number),
        Fix::Run(run, lost) => tubes::adopt(ctx, *run, lost.as_ref()),
        Fix::Counters(used) => tubes::count_on(ctx, used),
        Fix::Bytes(more) => {
            ctx.effects().durable_bytes += more;
            need_record(ctx)?;
            done("the count was corrected")
        }
        Fix::Stalled(number, more) => {
            ctx.effects().count_stalled(*number, *more);
            done("the count was corrected")
        }
        Fix::Stated(number) => tubes::restate(ctx, *number),
    }
}

/// What is stored with a record needs one, and a record has rows.
fn need_record(ctx: &mut OpContext<'_>) -> Result<()> {
    let counters = query::counters(ctx)?;
    ctx.set(key::meta(Counters::WHAT), counters.encode())
}

fn done(what: &str) -> Mended {
    Ok(Some(what.to_owned()))
}

fn set(ctx: &mut OpContext<'_>, finding: &Planned, (key, value): (&Key, &Value)) -> Mended {
    if ctx.row(key)?.and_then(|(_, row)| row).as_ref() == Some(value) {
        return Ok(None);
    }
    ctx.set(key::copy(key), value.clone())?;
    let tag = key.first().copied().and_then(Tag::of);
    if tag == Some(Tag::FailureGroup) {
        return count_failures(ctx, key);
    }
    if tag == Some(Tag::Work) {
        match Work::OF_EDGES.iter().find(|kind| key.starts_with(&key::work_of(**kind))) {
            Some(kind) => ctx.effects().begin_edge_work(*kind, key::copy(key)),
            None => ctx.effects().begin_timer_work(),
        }
    }
    if let Some((tube, clock, when, _)) = key::of_fire(key).filter(|_| tag == Some(Tag::Fire)) {
        ctx.effects().deadline(tube, NextDue::of(clock.deadline(), when));
    }
    if let About::Task(number, _) = finding.about {
        if tag == Some(Tag::Due) {
            // It may be the next deadline of its tube.
            ctx.effects().deadline(number, NextDue::UNKNOWN);
        } else if matches!(tag, Some(Tag::OpenHead | Tag::Ready)) {
            ctx.effects().wake(number, 1);
        } else if tag == Some(Tag::ClosedHead) {
            let run = ctx.tube(number)?.run();
            lines::learn(ctx, number, run)?;
            ctx.effects().wake(number, 1);
        }
    }
    done("the row was written")
}

/// Writes the count of a failure group without a row. The tasks are counted as they are now: until
/// there is a row, other ops count them too.
fn count_failures(ctx: &mut OpContext<'_>, key: &Key) -> Mended {
    match failures::tasks_at(ctx, key)? {
        0 => Ok(None),
        tasks => {
            ctx.set(key::copy(key), row::number(tasks))?;
            Ok(Some(format!("it is {tasks} now")))
        }
    }
}

/// Adds the difference that was found to a count as it is now: ops count on. One that is damaged no
/// op has changed since.
fn correct(ctx: &mut OpContext<'_>, sum: &Sum) -> Mended {
    let row = ctx.row(&sum.key)?;
    let stored = match &row {
        None => Some(0),
        Some((_, row)) => row.as_deref().and_then(row::read_number),
    };
    let is = match (sum.stored, stored) {
        (Some(before), Some(stored)) => {
            let is = i128::from(stored) + i128::from(sum.is) - i128::from(before);
            u64::try_from(is.max(0)).unwrap_or(u64::MAX)
        }
        (None, None) => sum.is,
        _ => return Ok(None),
    };
    match is {
        0 if row.is_none() => return Ok(None),
        // With the place of the tag among the top ones.
        is if tag_counts::correct(ctx, &sum.key, is)? => {}
        0 => ctx.remove(key::copy(&sum.key)),
        is => ctx.set(key::copy(&sum.key), row::number(is))?,
    }
    Ok(Some(format!("it is {is} now")))
}

/// What a rule found that is needed here; `None` if it is damaged or gone.
fn found<T>(read: Result<T>) -> Result<Option<T>> {
    let is_lost = |error: &Error| {
        error.is_not_found() || error.kind() == ErrorKind::Damaged && error.row().is_none()
    };
    match read {
        Err(error) if is_lost(&error) => Ok(None),
        read => read.map(Some),
    }
}
