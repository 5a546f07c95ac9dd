//! The lines of tasks that have gates of their own: those of a tube with the same gates stand in
//! one, and its first task has a turn, as that of a group. A take that meets a turn whose gates are
//! not all open puts it behind the first that is closed (`Tag::ClosedTurn`): one row, whatever
//! stands in the line, and the takes after it do not meet it. A take of the tube looks behind the
//! gates that may have opened since, and only as far as it needs tasks. Which gates these are is
//! kept in memory, see `runtime::closed_lines`; after an opening of the queue it is all of them.

use crate::engine::context::{OpContext, damaged, sound};
use crate::engine::effects::{LookedBehind, NextDue};
use crate::engine::groups::group_value;
use crate::engine::named_gate::{self, GateNow};
use crate::engine::tube_cache::{KnownTubes, TubeEntry};
use crate::engine::{position, slots};
use crate::format::feature::TASK_GATES;
use crate::format::key::{self, Key, Range, Run};
use crate::format::{Deadline, Met, Scan, Tag, View};
use crate::words::clock::{NEVER, Now};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::gates::NamedGate;
use crate::words::task::TaskId;
use crate::words::task_gates::{in_line, is_line, named};
use smallvec::SmallVec;

/// Notes that a task in this line needs what a version without gates of tasks does not know.
#[cold]
pub(crate) fn note(ctx: &mut OpContext<'_>, tube: &TubeEntry, line: Option<&str>) {
    // The rows of a temporary tube reach no disk.
    if line.is_some_and(is_line) && !tube.run().is_temporary() {
        ctx.needs(&TASK_GATES);
    }
}

/// The gates in the name of a line, apart from throttles without a limit.
pub(crate) fn gates_of(view: &dyn View, line: &str, now: Now) -> Result<SmallVec<[GateNow; 1]>> {
    let mut gates = SmallVec::new();
    for gate in in_line(line).filter(|_| is_line(line)) {
        gates.extend(named_gate::read(view, named(gate), now)?);
    }
    Ok(gates)
}

/// A gate that is closed for a line, as it stands in its name.
struct Closed<'a> {
    gate: &'a str,
    throttle: Option<Run>,
}

/// The first gate of a line that lets no task of this tube through.
fn closed_gate<'a>(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    line: &'a str,
) -> Result<Option<Closed<'a>>> {
    for gate in in_line(line) {
        if let Some(now) = named_gate::read(ctx, named(gate), ctx.now)?
            && now.free_for(ctx.known, tube.number) == 0
        {
            return Ok(Some(Closed { gate, throttle: now.throttle }));
        }
    }
    Ok(None)
}

/// Looks at the gates of the line whose turn a take has met. If one is closed the turn goes behind
/// it, and the task stays where it is. Returns whether it does.
#[cold]
#[inline(never)]
pub(crate) fn stops(ctx: &mut OpContext<'_>, tube: &TubeEntry, task: &Key) -> Result<bool> {
    let Some(line) = key::group_of(task).filter(|line| is_line(line)) else { return Ok(false) };
    let Some(closed) = closed_gate(ctx, tube, line)? else { return Ok(false) };
    let (place, id) = position::in_key(task, key::line_of(tube.run(), line).len())?;
    let turn = key::turn(tube.run(), &place, id);
    if ctx.row(&turn)?.is_some() {
        ctx.remove(turn);
    }
    put_behind(ctx, tube, (line, closed), |gate| key::closed_turn(tube.run(), gate, &place, id))?;
    Ok(true)
}

/// Puts what is left of the line of a task that was taken behind a gate that the take has closed,
/// so that no taker is woken for it.
#[cold]
#[inline(never)]
pub(crate) fn close_rest(ctx: &mut OpContext<'_>, tube: &TubeEntry, taken: &Key) -> Result<()> {
    let Some(line) = key::group_of(taken).filter(|line| is_line(line)) else { return Ok(()) };
    let all = key::line_of(tube.run(), line);
    if let Some((first, _)) = ctx.first(&all, &key::end_of(&all))?
        && stops(ctx, tube, &first)?
    {
        ctx.effects().wake_less(tube.number);
    }
    Ok(())
}

/// Writes the turn of a line behind a gate.
fn put_behind(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (line, closed): (&str, Closed<'_>),
    key: impl FnOnce(&str) -> Key,
) -> Result<()> {
    ctx.set(key(closed.gate), group_value(line))?;
    if let NamedGate::Throttle(name) = named(closed.gate) {
        let end = slots::end(ctx, name, ctx.now);
        ctx.effects().deadline(tube.number, NextDue::of(Deadline::Delay, end));
    }
    let gate = closed.gate.to_owned();
    ctx.effects().slot_steps().lines.closed.push((tube.number, gate, closed.throttle));
    Ok(())
}

/// Gives lines that stand behind gates which are open now their turns again: of each gate the
/// first ones, as many as a take wants tasks. Works on at most `left` turns. What it cannot read
/// a repair brings back.
#[cold]
#[inline(never)]
pub(crate) fn open_some(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (most, left): (usize, &mut usize),
) -> Result<()> {
    if ctx.count(tube.range(Tag::ClosedTurn)) == 0 {
        ctx.effects().slot_steps().lines.none.push(tube.number);
        return Ok(());
    }
    let known = ctx.known;
    for gate in known.opened(tube.number) {
        let (mut opened, mut rows) = (0, Scan::prefixed(key::closed_turns(tube.run(), &gate)));
        let looked = loop {
            // It stays one that may be open.
            if opened == most || *left == 0 {
                break None;
            }
            let Some(met) = rows.next(ctx)? else { break Some(LookedBehind::IsEmpty) };
            *left -= 1;
            match let_on(ctx, tube, &gate, met)? {
                Moved::Not => break Some(LookedBehind::IsClosed),
                Moved::Behind => {}
                Moved::Open => opened += 1,
            }
        };
        if let Some(looked) = looked {
            ctx.effects().slot_steps().lines.looked.push((tube.number, gate, looked));
        }
    }
    Ok(())
}

/// Brings the turns of a tube to where a take of it would, as far as the first that is not of a
/// line with gates.
pub(crate) fn look(ctx: &mut OpContext<'_>, tube: &TubeEntry, left: &mut usize) -> Result<()> {
    if has_closed(ctx.known, tube.number) {
        open_some(ctx, tube, (*left, left))?;
    }
    let mut turns = Scan::over(tube.range(Tag::Turn));
    while *left > 0
        && ctx.count(tube.range(Tag::Turn)) > 0
        && let Some((turn, row)) = turns.next(ctx)?
        && let Some(line) = row.as_deref().and_then(|line| str::from_utf8(line).ok())
        && is_line(line)
    {
        let Some((place, id)) = sound(position::in_key(&turn, key::RUN_PREFIX))? else { break };
        stops(ctx, tube, &key::line(tube.run(), line, &place, id))?;
        *left -= 1;
    }
    Ok(())
}

/// What became of a turn behind a gate.
enum Moved {
    /// The gate is closed.
    Not,
    /// Another one of its line is.
    Behind,
    Open,
}

/// Lets a turn on that stands behind this gate, if that is open now.
fn let_on(ctx: &mut OpContext<'_>, tube: &TubeEntry, gate: &str, (met, row): Met) -> Result<Moved> {
    let line = row.as_deref().and_then(|line| str::from_utf8(line).ok());
    let Some(line) = line.filter(|line| is_line(line)) else {
        ctx.pass_by(tube, || met, damaged("turn"))?;
        return Ok(Moved::Behind);
    };
    let closed = closed_gate(ctx, tube, line)?;
    if closed.as_ref().is_some_and(|closed| closed.gate == gate) {
        return Ok(Moved::Not);
    }
    let (place, id) = position::in_key(&met, key::closed_turns(tube.run(), gate).len())?;
    ctx.remove(met);
    match closed {
        Some(closed) => {
            let key = |gate: &str| key::closed_turn(tube.run(), gate, &place, id);
            put_behind(ctx, tube, (line, closed), key)?;
            Ok(Moved::Behind)
        }
        None => {
            ctx.set(key::turn(tube.run(), &place, id), group_value(line))?;
            Ok(Moved::Open)
        }
    }
}

/// Notes how many tasks a take of this tube got: slots that are kept for its takers and were not
/// used are free, and if it got none they wait for those behind which its lines stand.
#[cold]
#[inline(never)]
pub(crate) fn note_taken(ctx: &mut OpContext<'_>, tube: &TubeEntry, taken: usize) {
    let awaits_slots = ctx.known.awaits_slots();
    let steps = ctx.effects().slot_steps();
    if awaits_slots {
        steps.unused.push(tube.number);
    }
    if taken == 0 {
        steps.lines.waits.push(tube.number);
    }
}

/// Refuses a task whose own gates are not all open.
///
/// # Errors
/// `WrongState`, with the first gate that is closed.
pub(crate) fn enter(view: &dyn View, line: &str, id: TaskId, now: Now) -> Result<()> {
    match gates_of(view, line, now)?.into_iter().find(|gate| gate.free == 0) {
        None => Ok(()),
        Some(closed) => {
            let text = closed.why.to_string();
            Err(Error::new(ErrorKind::WrongState).because(text).on_task(id))
        }
    }
}

/// The gates behind which turns of a run stand.
pub(crate) fn closed_gates(view: &dyn View, run: Run) -> Result<Vec<String>> {
    let (mut rows, mut gates) = (Scan::over(Range::in_run(Tag::ClosedTurn, run)), Vec::new());
    if view.count(Range::in_run(Tag::ClosedTurn, run)) == 0 {
        return Ok(gates);
    }
    while let Some((met, _)) = rows.next(view)? {
        // A key that is damaged is no gate's.
        let Some(gate) = key::gate_of(&met) else { continue };
        rows.skip_to(key::end_of(&key::closed_turns(run, gate)));
        gates.push(gate.to_owned());
    }
    Ok(gates)
}

/// The same, each with its run if it is a throttle.
pub(crate) fn closed(view: &dyn View, run: Run) -> Result<Vec<(String, Option<Run>)>> {
    let mut closed = Vec::new();
    for gate in closed_gates(view, run)? {
        let run = match named(&gate) {
            NamedGate::Throttle(name) => slots::read(view, name)?.map(|row| row.run),
            NamedGate::Condition(_) => None,
        };
        closed.push((gate, run));
    }
    Ok(closed)
}

/// When the limit of a throttle ends next by itself behind which turns of a run stand.
pub(crate) fn end(view: &dyn View, run: Run, now: Now) -> Result<u64> {
    let mut first = NEVER;
    for gate in closed_gates(view, run)? {
        if let NamedGate::Throttle(name) = named(&gate) {
            first = first.min(slots::end(view, name, now));
        }
    }
    Ok(first)
}

/// Limits of throttles may have ended behind which turns of this tube stand. Returns when the next
/// one does.
#[cold]
pub(crate) fn look_at_ends(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<u64> {
    for gate in closed_gates(ctx, tube.run())? {
        if let NamedGate::Throttle(name) = named(&gate)
            && slots::limited(ctx, name, ctx.now)?.is_none()
        {
            ctx.effects().slot_steps().lines.opened.push((tube.number, gate));
            ctx.effects().wake(tube.number, 1);
        }
    }
    end(ctx, tube.run(), ctx.now)
}

/// Whether turns of a tube stand behind gates.
#[inline]
pub(crate) fn has_closed(known: &dyn KnownTubes, tube: u32) -> bool {
    known.has_closed_lines(tube)
}
