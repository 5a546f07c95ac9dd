//! Groups: strict order, a bounded number in flight. The ready tasks of a group are in its line
//! (`Tag::Line`). For each group that may be taken from, the first task of the line also has a row
//! among the heads (`Tag::OpenHead`), or behind a gate of its own that was met closed
//! (`Tag::ClosedHead`). So a take never scans over a locked group. Tasks of no group that
//! have gates of their own stand in lines too, one for each set of gates, see `engine::lines`.

use crate::engine::context::{OpContext, damaged, decoded, sound};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{position, task_gates};
use crate::format::key::{self, Key, Range, Rank, Run};
use crate::format::{Met, Scan, Tag, Value, View, row};
use crate::words::error::Result;
use crate::words::task::TaskId;
use crate::words::task_gates::{in_line, is_line};

/// The step of a task of a group.
pub(crate) struct Step<'a> {
    pub(crate) group: &'a str,
    /// The state row that is removed.
    pub(crate) leaves: Option<Key>,
    /// The state row that is added, with its value.
    pub(crate) enters: Option<(Key, Value)>,
    /// The change of the number in flight.
    pub(crate) in_flight: i64,
    /// The task, if a take found it by the group's head: the line need not be searched for it.
    pub(crate) head: Option<(Rank, TaskId)>,
}

/// A step, and all that was read of the group for it.
pub(crate) struct Plan<'a> {
    step: Step<'a>,
    before: Option<u64>,
    after: u64,
    /// The head of the group, before and after the step.
    had: Option<(Rank, TaskId)>,
    has: Option<(Rank, TaskId)>,
    /// Where the head that goes stands, if it is behind a closed gate.
    closed: Option<Key>,
}

/// How many tasks of the group are in flight.
pub(crate) fn in_flight(ctx: &OpContext<'_>, tube: &TubeEntry, group: &str) -> Result<u64> {
    count(ctx, tube, group).map(Option::unwrap_or_default)
}

/// The same; `None` without a row, which means that no task is in flight.
fn count(ctx: &OpContext<'_>, tube: &TubeEntry, group: &str) -> Result<Option<u64>> {
    let key = key::group(tube.run(), group);
    let kept = decoded(ctx.get(&key), row::read_number, "group");
    ctx.or_repair(tube, || key, kept)?.ok_or_else(|| damaged("group"))
}

/// Where the head of a group or a line stands while its first task is behind a closed gate; `None`
/// if it is not.
pub(crate) fn closed_head(
    view: &dyn View,
    tube: &TubeEntry,
    line: &str,
    (place, id): (&Rank, TaskId),
) -> Result<Option<Key>> {
    if view.count(tube.range(Tag::ClosedHead)) == 0 {
        return Ok(None);
    }
    let task = key::line(tube.run(), line, place, id);
    let behind = |gate: &str| -> Result<Option<Key>> {
        let key = key::closed_head(tube.run(), gate, place, id);
        // A damaged one is there.
        Ok((sound(view.get(&key))? != Some(None)).then_some(key))
    };
    match sound(task_gates::at(view, &task))? {
        Some(None) => Ok(None),
        Some(Some(gates)) => in_line(&gates).find_map(|gate| behind(gate).transpose()).transpose(),
        // It may stand behind any.
        None => {
            let gates = closed_gates(view, tube.run())?;
            gates.iter().find_map(|gate| behind(gate).transpose()).transpose()
        }
    }
}

/// The gates behind which heads of a run stand.
pub(crate) fn closed_gates(view: &dyn View, run: Run) -> Result<Vec<String>> {
    let (mut rows, mut gates) = (Scan::over(Range::in_run(Tag::ClosedHead, run)), Vec::new());
    if view.count(Range::in_run(Tag::ClosedHead, run)) == 0 {
        return Ok(gates);
    }
    while let Some((met, _)) = rows.next(view)? {
        // A key that is damaged is no gate's.
        let Some(gate) = key::gate_of(&met) else { continue };
        rows.skip_to(key::end_of(&key::closed_heads(run, gate)));
        gates.push(gate.to_owned());
    }
    Ok(gates)
}

/// Whether a head behind a gate is that of the first task in the line that it names.
pub(crate) fn is_closed_head(
    view: &dyn View,
    tube: &TubeEntry,
    head: &Key,
    line: Option<&Value>,
) -> Result<bool> {
    let line = line.and_then(|line| str::from_utf8(line).ok());
    let (Some(line), Some(gate)) = (line, key::gate_of(head)) else { return Ok(false) };
    let at = position::in_key(head, key::closed_heads(tube.run(), gate).len());
    let Some((place, id)) = sound(at)? else { return Ok(false) };
    let all = key::line_of(tube.run(), line);
    let first = view.first(&all, &key::end_of(&all))?.map(|(met, _)| met);
    let task = key::line(tube.run(), line, &place, id);
    if first.as_ref() != Some(&task) {
        return Ok(false);
    }
    let gates = sound(task_gates::at(view, &task))?.flatten();
    Ok(gates.is_some_and(|gates| in_line(&gates).any(|own| own == gate)))
}

/// Reads all that a step needs, before anything is written. So a task whose group cannot be read
/// stays in its state.
pub(crate) fn plan<'a>(ctx: &OpContext<'_>, tube: &TubeEntry, step: Step<'a>) -> Result<Plan<'a>> {
    let most = tube.row.most_in_flight(step.group);
    let is_gated = is_line(step.group);
    // Of tasks with gates the slots are counted.
    let before = if is_gated { None } else { count(ctx, tube, step.group)? };
    let tasks = before.unwrap_or_default();
    let after = if is_gated { tasks } else { tasks.saturating_add_signed(step.in_flight) };
    let (was_open, is_open) = (tasks < most, after < most);

    let (mut had, mut has) = (None, None);
    let line = key::line_of(tube.run(), step.group);
    let task_of = |key: &Key| position::in_key(key, line.len());
    if was_open && !is_open && step.head.is_some() {
        return Ok(Plan { had: step.head, step, before, after, has, closed: None });
    }
    if was_open || is_open {
        let mut rows = Scan::prefixed(key::copy(&line));
        let mut first = rows.next(ctx)?.map(|(met, _)| met);
        if was_open {
            had = first.as_ref().map(task_of).transpose()?;
        }
        if is_open {
            if first.is_some() && first == step.leaves {
                first = rows.next(ctx)?.map(|(met, _)| met);
            }
            let enters = step.enters.as_ref().map(|(key, _)| key);
            let enters = enters.filter(|key| key.starts_with(&line));
            has = first.iter().chain(enters).min().map(task_of).transpose()?;
        }
    }
    let mut closed = None;
    if had != has
        && let Some((place, id)) = &had
    {
        let head = key::open_head(tube.run(), place, *id);
        closed = closed_head(ctx, tube, step.group, (place, *id))?;
        // If the key of the head's row is damaged, there is no row to remove.
        if closed.is_none()
            && sound(ctx.get(&head))? == Some(None)
            && ctx.or_repair(tube, || head, Err::<(), _>(damaged("head")))?.is_none()
        {
            had = None;
        }
    }
    Ok(Plan { step, before, after, had, has, closed })
}

/// Makes the first task of a group's line, whose key this is, the group's head, or removes the
/// head. One that is behind a closed gate stays there while the group is open.
pub(crate) fn set_head(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (group, is_open): (&str, bool),
    first: &Key,
) -> Result<()> {
    let line = key::line_of(tube.run(), group);
    let Some((place, id)) = sound(position::in_key(first, line.len()))? else { return Ok(()) };
    let head = key::open_head(tube.run(), &place, id);
    let is_there = ctx.row(&head)?.is_some();
    let closed = closed_head(ctx, tube, group, (&place, id))?;
    if is_there && (!is_open || closed.is_some()) {
        ctx.remove(head);
    } else if is_open && !is_there && closed.is_none() {
        ctx.add(head, group_value(group));
        ctx.effects().wake(tube.number, 1);
    }
    if let Some(closed) = closed.filter(|_| !is_open) {
        ctx.remove(closed);
    }
    Ok(())
}

/// The row of a group's line that belongs to a head; `None` if it leads to no task in a line.
///
/// # Errors
/// `Damaged` if the head's key is.
pub(crate) fn at_head(
    view: &(impl View + ?Sized),
    tube: &TubeEntry,
    head: &[u8],
    group: Option<Value>,
) -> Result<Option<Met>> {
    let (place, id) = position::in_key(head, key::RUN_PREFIX)?;
    let group = group.as_deref().and_then(|group| std::str::from_utf8(group).ok());
    let Some(group) = group else { return Ok(None) };
    let line = key::line(tube.run(), group, &place, id);
    match sound(view.get(&line))? {
        Some(None) => Ok(None),
        row => Ok(Some((line, row.flatten()))),
    }
}

impl Plan<'_> {
    /// Applies the step and updates the group's head.
    pub(crate) fn carry_out(self, ctx: &mut OpContext<'_>, tube: &TubeEntry) {
        let Self { step, before, after, had, has, closed } = self;
        let run = tube.run();
        if let Some(key) = step.leaves {
            ctx.remove(key);
        }
        if let Some((key, value)) = step.enters {
            ctx.add(key, value);
        }
        if before.unwrap_or_default() != after {
            let key = key::group(run, step.group);
            match (before, after) {
                (None, after) => ctx.add(key, row::number(after)),
                (_, 0) => ctx.remove(key),
                (_, after) => ctx.change(key, row::number(after)),
            }
        }
        if had == has {
            return;
        }
        // The next task of a group has other gates, or none.
        let stays = closed.as_deref().filter(|_| is_line(step.group));
        let gate = stays.and_then(key::gate_of).map(str::to_owned);
        if let Some((place, id)) = had {
            ctx.remove(closed.unwrap_or_else(|| key::open_head(run, &place, id)));
        }
        let Some((place, id)) = has else { return };
        // A line behind a gate stays there, with another first task.
        match gate {
            Some(gate) => {
                ctx.add(key::closed_head(run, &gate, &place, id), group_value(step.group));
            }
            None => {
                ctx.add(key::open_head(run, &place, id), group_value(step.group));
                ctx.effects().wake(tube.number, 1);
            }
        }
    }
}

/// The value of a head's row.
pub(crate) fn group_value(group: &str) -> Value {
    Value::from(group.as_bytes())
}
