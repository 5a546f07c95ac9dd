//! Failure groups: the buried tasks that failed in the same way. Each has a row with its count,
//! which moves with the index rows of its tasks. A folder of a version without counts has only the
//! index rows: there the tasks of a group are counted once, when the group is next needed.

use crate::engine::context::{OpContext, decoded, sound};
use crate::engine::query;
use crate::engine::stored::TaskState;
use crate::engine::tube_cache::TubeEntry;
use crate::format::feature::FAILURES;
use crate::format::key::{self, Key, Range, Run};
use crate::format::row::{self, FailureRow, TaskProgress};
use crate::format::{Scan, Tag, View};
use crate::words::error::Result;
use crate::words::failure::FailureGroup;
use crate::words::limits::{FAILURE_GROUP_BYTES_MAX, REASON_BYTES_FULL, REASON_BYTES_MAX};
use crate::words::name::cut;
use smallvec::SmallVec;

/// The new counts of the groups that a step of a task changes.
pub(crate) type Counted = SmallVec<[(Key, u64); 2]>;

/// The text of a failure group as it is stored.
pub(crate) fn stored_group(group: &str) -> &str {
    cut(group, FAILURE_GROUP_BYTES_MAX)
}

/// The part of an error or a reason that is stored.
pub(crate) fn stored_text<'a>(ctx: &OpContext<'_>, text: &'a str) -> &'a str {
    cut(text, if ctx.is_full() { REASON_BYTES_FULL } else { REASON_BYTES_MAX })
}

/// Notes the failure of a task that this consumer held.
pub(crate) fn note(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    progress: &mut TaskProgress,
    holder: u32,
    (group, message): (&str, &str),
) -> Result<()> {
    needs(ctx, tube);
    let by = query::holder(ctx, holder)?.unwrap_or_default();
    let more = FailureRow { when: ctx.now.queue, by: &by, group: stored_group(group) };
    progress.fail(stored_text(ctx, message), &more);
    Ok(())
}

/// Enters the feature, unless the rows reach no disk.
pub(crate) fn needs(ctx: &mut OpContext<'_>, tube: &TubeEntry) {
    if !tube.run().is_temporary() {
        ctx.needs(&FAILURES);
    }
}

/// How many buried tasks of a tube stand in a failure group.
fn count(view: &dyn View, tube: &TubeEntry, group: &str) -> Result<u64> {
    let key = key::failure_group(tube.run(), group);
    if let Some(Some(count)) = sound(decoded(view.get(&key), row::read_number, "failure group"))? {
        return Ok(count);
    }
    tasks_of(view, tube.run(), group)
}

/// The same by the index rows of the tasks.
fn tasks_of(view: &dyn View, run: Run, group: &str) -> Result<u64> {
    let (mut tasks, mut count) = (Scan::prefixed(key::buried_group_of(run, group)), 0);
    while tasks.next(view)?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// The same of the group that has its count in a row of this key.
pub(crate) fn tasks_at(view: &dyn View, at: &Key) -> Result<u64> {
    let run = Range::holding(at).and_then(|range| range.run);
    match run.zip(key::failure_group_of(at)) {
        Some((run, group)) => tasks_of(view, run, group),
        None => Ok(0),
    }
}

/// Reads what a step of a task needs, before anything is written.
pub(crate) fn plan(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    from: Option<&TaskState>,
    to: Option<&TaskState>,
) -> Result<Counted> {
    let (from, to) = (group_of(from), group_of(to));
    let mut counted = Counted::new();
    if from != to {
        for (group, by) in [(from, -1), (to, 1)] {
            let Some(group) = group else { continue };
            let after = count(ctx, tube, group)?.saturating_add_signed(by);
            counted.push((key::failure_group(tube.run(), group), after));
        }
    }
    Ok(counted)
}

fn group_of(state: Option<&TaskState>) -> Option<&str> {
    match state {
        Some(TaskState::Buried(row)) => row.failure_group(),
        _ => None,
    }
}

/// Writes the new counts.
pub(crate) fn write(ctx: &mut OpContext<'_>, tube: &TubeEntry, counted: Counted) -> Result<()> {
    for (key, after) in counted {
        if after > 0 {
            needs(ctx, tube);
            ctx.set(key, row::number(after))?;
        } else if ctx.row(&key)?.is_some() {
            ctx.remove(key);
        }
    }
    Ok(())
}

/// The failure groups of a tube in the order of their names, at most `most` from a key on, and the
/// key at which the next ones begin.
pub(crate) fn groups_from(
    view: &dyn View,
    tube: &TubeEntry,
    from: Option<Key>,
    most: usize,
) -> Result<(Vec<FailureGroup>, Option<Key>)> {
    let range = tube.range(Tag::BuriedGroup);
    // A truncate since the last step has given the tube another range.
    let (mut groups, mut at) = (Vec::new(), range.start().max(from.unwrap_or_default()));
    while groups.len() < most {
        let met = if view.count(range) == 0 { None } else { view.first(&at, &range.end())? };
        let Some((met, _)) = met else { return Ok((groups, None)) };
        // A damaged key names no group.
        let group = key::failure_group_of(&met).map(str::to_owned);
        at = match &group {
            Some(group) => key::end_of(&key::buried_group_of(tube.run(), group)),
            None => key::after(&met),
        };
        if let Some(group) = group {
            let tasks = count(view, tube, &group)?;
            groups.push(FailureGroup { group, tasks });
        }
    }
    Ok((groups, Some(at)))
}

/// Removes the queue's row about a buried task when a sweep removes its row under the run.
pub(crate) fn forget_failed(ctx: &mut OpContext<'_>, buried_group: &[u8]) -> Result<()> {
    if let Some(key) = key::failed_beside(buried_group)
        && ctx.row(&key)?.is_some()
    {
        ctx.remove(key);
    }
    Ok(())
}
