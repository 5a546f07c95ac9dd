//! Why a task is not running. Reads a bounded number of rows, whatever stands before the task, and
//! decides nothing.

use crate::engine::context::{damaged, decoded};
use crate::engine::named_gate::GateNow;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{description, edges, gates, lines, lookup, query};
use crate::format::{View, key, row};
use crate::words::clock::{NEVER, Now};
use crate::words::error::Result;
use crate::words::explain::{Explanation, WhyNot};
use crate::words::task::{State, TaskId};
use crate::words::task_gates::is_line;
use std::time::Duration;

/// The explanation of the task of this id.
///
/// # Errors
/// `TaskNotFound`, or `Damaged` if one of its rows is damaged.
pub(crate) fn explain(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    now: Now,
) -> Result<Explanation> {
    let summary = description::info(view, tube, id, now)?.summary;
    let reasons = match summary.state {
        State::Ready => ready(view, tube, id, now)?,
        State::Taken => {
            let (holder, lease_left) = (summary.holder, summary.lease_left);
            let grace_left = |left| (left != Duration::MAX).then_some(left);
            let stalled = |left| WhyNot::Stalled { grace_left: grace_left(left) };
            let running = WhyNot::Running { holder, lease_left };
            [running].into_iter().chain(summary.grace_left.map(stalled)).collect()
        }
        State::Delayed => vec![WhyNot::Delayed { left: summary.delay_left }],
        State::Blocked => {
            edges::waits_for(view, tube, id, summary.dependencies.count)?.into_iter().collect()
        }
        State::Buried => {
            vec![WhyNot::Buried { reason: summary.reason.ok_or_else(|| damaged("buried"))? }]
        }
        State::Done => vec![WhyNot::Finished],
    };
    Ok(Explanation { task: id, tube: summary.tube, state: summary.state, reasons })
}

/// Everything that keeps a ready task from being taken next. In its group it is behind its first
/// task, which stands for the tasks of the tube that are before that.
fn ready(view: &dyn View, tube: &TubeEntry, id: TaskId, now: Now) -> Result<Vec<WhyNot>> {
    let mut reasons = Vec::new();
    if tube.row.pause().is_some() {
        let end = tube.row.pause_end();
        let left = || Duration::from_micros(end.saturating_sub(now.queue));
        reasons.push(WhyNot::TubePaused { left: (end != NEVER).then(left) });
    }
    if let Some(into) = tube.row.merges_into() {
        let into = match query::tube(view, into) {
            Err(error) if error.is_not_found() => String::new(),
            into => into?.row.name,
        };
        reasons.push(WhyNot::Merging { into });
    }
    let closed = gates::at(view, tube, now)?.into_iter().filter(|gate| gate.free == 0);
    reasons.extend(closed.map(GateNow::why));
    let (stored, _) = lookup::find(view, tube, id)?;
    let group = stored.task(tube)?.group;
    if let Some(line) = group.filter(|line| is_line(line)) {
        let own = lines::gates_of(view, line, now)?.into_iter().filter(|gate| gate.free == 0);
        let mut own = own.map(GateNow::why).peekable();
        if own.peek().is_some() {
            // The tube may have the same one. Which task is next now is no matter.
            own.for_each(|why| {
                if !reasons.contains(&why) {
                    reasons.push(why)
                }
            });
            return Ok(reasons);
        }
    }
    if let Some(line) = group.filter(|line| is_line(line))
        && let Some(next) = before_in_line(view, tube, line, id)?
    {
        reasons.push(WhyNot::Behind { next });
        return Ok(reasons);
    }
    let group = group.filter(|group| !is_line(group));
    if let Some(reason) = group.map(|group| in_group(view, tube, group, id)).transpose()?.flatten()
    {
        reasons.push(reason);
        return Ok(reasons);
    }
    match query::first_ready(view, tube)? {
        Some(next) if next != id => reasons.push(WhyNot::Behind { next }),
        _ if reasons.is_empty() => reasons.push(WhyNot::IsNext),
        _ => {}
    }
    Ok(reasons)
}

/// What in its group keeps a task from being taken.
fn in_group(view: &dyn View, tube: &TubeEntry, group: &str, id: TaskId) -> Result<Option<WhyNot>> {
    let counted = decoded(view.get(&key::group(tube.run(), group)), row::read_number, "group");
    let in_flight = counted?.unwrap_or_default();
    let group = group.to_owned();
    if in_flight >= tube.row.most_in_flight(&group) {
        return Ok(Some(WhyNot::GroupBusy { group, in_flight }));
    }
    let first = before_in_line(view, tube, &group, id)?;
    Ok(first.map(|first| WhyNot::BehindInGroup { group, first }))
}

/// The first task of a line, unless it is this one.
fn before_in_line(
    view: &dyn View,
    tube: &TubeEntry,
    line: &str,
    id: TaskId,
) -> Result<Option<TaskId>> {
    let line = key::line_of(tube.run(), line);
    let first = view.first(&line, &key::end_of(&line))?.and_then(|(met, _)| key::id_of(&met));
    Ok(first.filter(|first| *first != id))
}
