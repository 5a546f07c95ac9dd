//! The lines of tasks that have gates of their own: those of a tube with the same gates stand in
//! one, and its first task is its head, as in a group. A take that meets a head whose gates are
//! not all open puts it behind the first that is closed (`Tag::ClosedHead`): one row, whatever
//! stands in the line, and the takes after it do not meet it. A task of a group waits in the group
//! for its gates, and those after it wait for it. A take of the tube looks behind the
//! gates that may have opened since, and only as far as it needs tasks. Which gates these are is
//! kept in memory, see `runtime::closed_lines`; after an opening of the queue it is all of them.

use crate::engine::context::{OpContext, damaged, sound};
use crate::engine::effects::{LookedBehind, NextDue};
use crate::engine::groups::{self, closed_gates, group_value};
use crate::engine::named_gate::{self, GateNow};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{position, slots, task_gates};
use crate::format::key::{self, Key, Rank, Run};
use crate::format::{Deadline, Met, Scan, Tag, Value, View};
use crate::words::clock::{NEVER, Now};
use crate::words::error::Result;
use crate::words::gates::NamedGate;
use crate::words::limits::{BATCH_TASKS_MAX, LOOKS_OF_MOVE, LOOKS_OF_STEP};
use crate::words::task::TaskId;
use crate::words::task_gates::{in_line, is_line, named};
use smallvec::SmallVec;

/// These gates, apart from throttles without a limit.
pub(crate) fn gates_of<'a>(
    view: &dyn View,
    names: &'a str,
    now: Now,
) -> Result<SmallVec<[GateNow<'a>; 1]>> {
    let mut gates = SmallVec::new();
    for gate in in_line(names) {
        gates.extend(named_gate::read(view, named(gate), now)?);
    }
    Ok(gates)
}

/// A gate that is closed for a line, as it stands in its name.
struct Closed<'a> {
    gate: &'a str,
    throttle: Option<Run>,
}

/// The first of these gates that lets no task of this tube through.
fn closed_gate<'a>(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    gates: &'a str,
) -> Result<Option<Closed<'a>>> {
    for gate in in_line(gates) {
        if let Some(now) = named_gate::read(ctx, named(gate), ctx.now)?
            && now.free_for(ctx.known, tube.number) == 0
        {
            return Ok(Some(Closed { gate, throttle: now.throttle }));
        }
    }
    Ok(None)
}

/// A task in a line that has a gate of its own which is closed.
struct Stopped<'a> {
    line: &'a str,
    place: Rank,
    id: TaskId,
    /// The first such gate.
    closed: Closed<'a>,
}

/// A ready task, with this row, if a gate of its own is closed.
fn stopped<'a>(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    (task, row): (&'a Key, Option<&'a Value>),
) -> Result<Option<Stopped<'a>>> {
    let Some(line) = key::group_of(task) else { return Ok(None) };
    let gates = task_gates::in_row(task, row.map(|row| &**row));
    let closed = gates.map(|gates| closed_gate(ctx, tube, gates)).transpose()?.flatten();
    let Some(closed) = closed else { return Ok(None) };
    let (place, id) = position::in_key(task, key::line_of(tube.run(), line).len())?;
    Ok(Some(Stopped { line, place, id, closed }))
}

/// Looks at the gates of the task whose head a take has met. If one is closed the head goes behind
/// it, and the task stays where it is. Returns whether it does.
#[cold]
#[inline(never)]
pub(crate) fn stops(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    task: (&Key, Option<&Value>),
) -> Result<bool> {
    let Some(Stopped { line, place, id, closed }) = stopped(ctx, tube, task)? else {
        return Ok(false);
    };
    let head = key::open_head(tube.run(), &place, id);
    if ctx.row(&head)?.is_some() {
        ctx.remove(head);
    }
    put_behind(ctx, tube, (line, closed), |gate| key::closed_head(tube.run(), gate, &place, id))?;
    Ok(true)
}

/// The same for the first task of a group, which a take of that group alone has met: its head may
/// be behind a gate already.
#[cold]
#[inline(never)]
pub(crate) fn stops_group(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    task: (&Key, Option<&Value>),
) -> Result<bool> {
    let Some(Stopped { line, place, id, closed }) = stopped(ctx, tube, task)? else {
        return Ok(false);
    };
    match groups::closed_head(ctx, tube, line, (&place, id))? {
        Some(head) if key::gate_of(&head) == Some(closed.gate) => {
            if let NamedGate::Throttle(name) = named(closed.gate) {
                let end = slots::end(ctx, name, ctx.now);
                await_end(ctx, tube, end);
            }
            let looked = LookedBehind::IsClosed(closed.throttle);
            let steps = &mut ctx.effects().slot_steps().lines;
            steps.looked.push((tube.number, closed.gate.to_owned(), looked));
            Ok(true)
        }
        // Another gate is closed by now.
        head => {
            head.into_iter().for_each(|head| ctx.remove(head));
            stops(ctx, tube, task)
        }
    }
}

/// Puts what is left of the line of a task that was taken behind a gate that the take has closed,
/// so that no taker is woken for it.
#[cold]
#[inline(never)]
pub(crate) fn close_rest(ctx: &mut OpContext<'_>, tube: &TubeEntry, taken: &Key) -> Result<()> {
    let Some(line) = key::group_of(taken).filter(|line| is_line(line)) else { return Ok(()) };
    let all = key::line_of(tube.run(), line);
    if let Some((first, row)) = ctx.first(&all, &key::end_of(&all))?
        && stops(ctx, tube, (&first, row.as_ref()))?
    {
        ctx.effects().wake_less(tube.number);
    }
    Ok(())
}

/// Writes the head of a line behind a gate.
fn put_behind(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (line, closed): (&str, Closed<'_>),
    key: impl FnOnce(&str) -> Key,
) -> Result<()> {
    ctx.set(key(closed.gate), group_value(line))?;
    if let NamedGate::Throttle(name) = named(closed.gate) {
        let end = slots::end(ctx, name, ctx.now);
        await_end(ctx, tube, end);
    }
    let gate = closed.gate.to_owned();
    ctx.effects().slot_steps().lines.closed.push((tube.number, gate, closed.throttle));
    Ok(())
}

/// The limit of a throttle behind which lines of this tube stand ends at this time.
fn await_end(ctx: &mut OpContext<'_>, tube: &TubeEntry, end: u64) {
    if end != NEVER {
        ctx.effects().slot_steps().lines.ends.push((tube.number, end));
        ctx.effects().deadline(tube.number, NextDue::of(Deadline::Delay, end));
    }
}

/// A gate may be open now, or have another end, behind which lines of this tube may stand.
pub(crate) fn open(ctx: &mut OpContext<'_>, tube: &TubeEntry, gate: &str) {
    if !ctx.known.has_closed_lines(tube.number) {
        return;
    }
    if let NamedGate::Throttle(name) = named(gate) {
        let end = slots::end(ctx, name, ctx.now);
        await_end(ctx, tube, end);
    }
    ctx.effects().slot_steps().lines.opened.push((tube.number, gate.to_owned()));
}

/// The lines of a tube are known that stand behind gates, as an opening learns them.
#[cold]
pub(crate) fn learn(ctx: &mut OpContext<'_>, number: u32, run: Run) -> Result<()> {
    for (gate, throttle) in closed(ctx, run)? {
        let steps = &mut ctx.effects().slot_steps().lines;
        steps.opened.push((number, gate.clone()));
        steps.closed.push((number, gate, throttle));
    }
    let end = end(ctx, run, ctx.now)?;
    ctx.effects().slot_steps().lines.ends.push((number, end));
    ctx.effects().deadline(number, NextDue::of(Deadline::Delay, end));
    Ok(())
}

/// Opens the heads that stand behind gates which are open now: of each gate the first ones, as many
/// as a take wants tasks and the gate lets through. Works on at most `left` heads. Returns whether
/// there may be more behind a gate that is open. What it cannot read a repair brings back.
#[cold]
#[inline(never)]
pub(crate) fn open_some(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (most, left): (usize, &mut usize),
) -> Result<bool> {
    if ctx.count(tube.range(Tag::ClosedHead)) == 0 {
        ctx.effects().slot_steps().lines.none.push(tube.number);
        return Ok(false);
    }
    let opened = ctx.known.opened(tube.number, *left);
    let mut is_cut = opened.len() == *left;
    for gate in opened {
        // A look at a gate counts as a head.
        if *left == 0 {
            return Ok(true);
        }
        *left -= 1;
        match open_behind(ctx, tube, &gate, (most, left))? {
            None => is_cut = true,
            Some(looked) => {
                ctx.effects().slot_steps().lines.looked.push((tube.number, gate, looked));
            }
        }
    }
    Ok(is_cut)
}

/// The same for one gate. Returns what it has found behind the gate; `None` if there may be more.
fn open_behind(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    gate: &str,
    (most, left): (usize, &mut usize),
) -> Result<Option<LookedBehind>> {
    let now = named_gate::read(ctx, named(gate), ctx.now)?;
    let throttle = now.as_ref().and_then(|now| now.throttle);
    let free = now.map_or(u64::MAX, |now| now.free_for(ctx.known, tube.number));
    if free == 0 {
        return Ok(Some(LookedBehind::IsClosed(throttle)));
    }
    let most = most.min(usize::try_from(free).unwrap_or(usize::MAX));
    let (mut opened, mut rows) = (0, Scan::prefixed(key::closed_heads(tube.run(), gate)));
    while opened < most && *left > 0 {
        let Some(met) = rows.next(ctx)? else { return Ok(Some(LookedBehind::IsEmpty)) };
        let is_open = let_on(ctx, tube, gate, met)?;
        opened += usize::from(is_open);
        *left = left.saturating_sub(if is_open { 1 } else { LOOKS_OF_MOVE });
    }
    Ok(None)
}

/// Lets on a head that stands behind this gate, which is open now. Returns whether it is a head
/// again; otherwise it is behind another gate of its line.
fn let_on(ctx: &mut OpContext<'_>, tube: &TubeEntry, gate: &str, (met, row): Met) -> Result<bool> {
    let (place, id) = position::in_key(&met, key::closed_heads(tube.run(), gate).len())?;
    let line = row.as_deref().and_then(|line| str::from_utf8(line).ok());
    let first = line.map(|line| key::line(tube.run(), line, &place, id));
    let gates = match &first {
        Some(first) => sound(task_gates::at(ctx, first))?.flatten(),
        None => None,
    };
    let (Some(line), Some(gates)) = (line, gates) else {
        ctx.pass_by(tube, || met, damaged("head"))?;
        return Ok(false);
    };
    let closed = closed_gate(ctx, tube, &gates)?;
    ctx.remove(met);
    match closed {
        Some(closed) => {
            let key = |gate: &str| key::closed_head(tube.run(), gate, &place, id);
            put_behind(ctx, tube, (line, closed), key)?;
            Ok(false)
        }
        None => {
            ctx.set(key::open_head(tube.run(), &place, id), group_value(line))?;
            Ok(true)
        }
    }
}

/// Brings some heads of a tube to where a take of it would, as far as the first whose task has no
/// gates of its own. Returns whether another look may bring more: one after this that has moved
/// none would look at the same.
pub(crate) fn look(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<bool> {
    let (mut left, mut is_any) = (LOOKS_OF_STEP, false);
    if ctx.known.has_closed_lines(tube.number) {
        let is_cut = open_some(ctx, tube, (left, &mut left))?;
        is_any = is_cut || left < LOOKS_OF_STEP;
    }
    let mut heads = Scan::over(tube.range(Tag::OpenHead));
    while left > 0
        && ctx.count(tube.range(Tag::OpenHead)) > 0
        && let Some((head, row)) = heads.next(ctx)?
        && let Some((task, row)) = sound(groups::at_head(ctx, tube, &head, row))?.flatten()
        && task_gates::in_row(&task, row.as_deref()).is_some()
    {
        let has_stopped = stops(ctx, tube, (&task, row.as_ref()))?;
        is_any |= has_stopped;
        left = left.saturating_sub(if has_stopped { LOOKS_OF_MOVE } else { 1 });
    }
    Ok(left == 0 && is_any)
}

/// Refuses a task whose own gates are not all open.
///
/// # Errors
/// `WrongState`, with the first gate that is closed.
pub(crate) fn enter(view: &dyn View, gates: &str, id: TaskId, now: Now) -> Result<()> {
    named_gate::enter(gates_of(view, gates, now)?, id)
}

/// The gates behind which heads of a run stand, each with its run if it is a throttle.
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

/// When the limit of a throttle behind which heads of a run stand ends next by itself.
pub(crate) fn end(view: &dyn View, run: Run, now: Now) -> Result<u64> {
    let mut first = NEVER;
    for gate in closed_gates(view, run)? {
        if let NamedGate::Throttle(name) = named(&gate) {
            first = first.min(slots::end(view, name, now));
        }
    }
    Ok(first)
}

/// Opens the gates whose limits have ended behind which lines of this tube stand. Returns when the
/// next one does.
pub(crate) fn end_limits(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<u64> {
    let known_end = ctx.known.lines_end(tube.number);
    if known_end > ctx.now.queue {
        return Ok(known_end);
    }
    let mut next = NEVER;
    for gate in ctx.known.closed_throttles(tube.number) {
        let NamedGate::Throttle(name) = named(&gate) else { continue };
        next = next.min(slots::end(ctx, name, ctx.now));
        if slots::limited(ctx, name, ctx.now)?.is_none() {
            ctx.effects().slot_steps().lines.opened.push((tube.number, gate));
            // As many look as there are tasks for.
            ctx.effects().wake(tube.number, BATCH_TASKS_MAX);
        }
    }
    ctx.effects().slot_steps().lines.next_end.push((tube.number, next));
    Ok(next)
}
