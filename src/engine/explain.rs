//! Why a task is not running. Reads a bounded number of rows, whatever stands before the task, and
//! decides nothing.

use crate::engine::context::{damaged, decoded};
use crate::engine::named_gate::GateNow;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{description, edges, gates, lines, lookup, query, task_gates};
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
    let (stored, state) = lookup::find(view, tube, id)?;
    let name = stored.task(tube)?.group;
    let mut is_stopped = false;
    if let Some(own) = task_gates::of(name, state.progress()) {
        let own = lines::gates_of(view, own, now)?;
        for why in own.into_iter().filter(|gate| gate.free == 0).map(GateNow::why) {
            is_stopped = true;
            // The tube may have the same one.
            if !reasons.contains(&why) {
                reasons.push(why);
            }
        }
    }
    let before = match name {
        Some(line) if is_line(line) && !is_stopped => {
            before_in_line(view, tube, line, id)?.map(|next| WhyNot::Behind { next })
        }
        Some(group) if !is_line(group) => in_group(view, tube, group, id)?,
        _ => None,
    };
    // Which task is next now is no matter for one that is stopped.
    if before.is_some() || is_stopped {
        reasons.extend(before);
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
