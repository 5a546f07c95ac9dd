//! Changes of a tube's options that rows of its tasks have to follow: how many tasks of a group may
//! be in flight, and whether the bytes of the tasks that have ended are limited. The op of the
//! change does the first step. If more rows are left, the tube's row says how far they follow, so
//! that every rule knows which option is in force for a task, and a sweep does the other steps. No
//! step reads more than a sweep.

use crate::engine::context::{OpContext, damaged, sound};
use crate::engine::effects::NextDue;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{groups, retention};
use crate::format::feature::PENDING_OPTIONS;
use crate::format::key::{self, Key, Work};
use crate::format::row::{self, PendingGroups, PendingOptions, TubeRow, WorkRow};
use crate::format::view::last_key;
use crate::format::{Deadline, Scan, Tag, View};
use crate::words::error::Result;
use crate::words::limits::SWEEP_TASKS;
use crate::words::options::TubeOptions;
use crate::words::task::{State, TaskId};

/// The tags of the tasks whose bytes are summed, and their states.
const SUMMED: [(Tag, State); 2] = [(Tag::Done, State::Done), (Tag::Buried, State::Buried)];

/// The key of the work on the rows of a tube.
pub(crate) fn work_of(tube: &TubeEntry) -> Key {
    key::work(Work::Follow, tube.run(), TaskId::new(0))
}

/// Whether rows still have to follow the option of this name.
pub(crate) fn is_left(pending: &PendingOptions, name: &str) -> bool {
    match name {
        "in_flight" => pending.groups.is_some(),
        "keep_finished" => pending.finished.is_some(),
        "keep_buried" => pending.buried.is_some(),
        _ => false,
    }
}

/// Whether the change to these options has to wait until all rows follow an earlier one.
pub(crate) fn has_to_wait(tube: &TubeEntry, options: &TubeOptions) -> bool {
    tube.row.pending.groups.is_some() && tube.row.options.in_flight != options.in_flight
}

/// Does the first step of the change to the options of this row, which replaces the tube's. If more
/// is left the row says so.
pub(crate) fn begin(ctx: &mut OpContext<'_>, tube: &TubeEntry, row: &mut TubeRow) -> Result<()> {
    let (before, after) = (tube.row.options.in_flight, row.options.in_flight);
    if before != after
        && let Some(last) = last_key(ctx, tube.range(Tag::Group))?
    {
        let until = key::group_of(&last).ok_or_else(|| damaged("group"))?.to_owned();
        row.pending.groups = regroup(ctx, tube, (before, after), (None, &until))?;
    }
    for (tag, state) in SUMMED {
        let is_limited = retention::limits_bytes(&row.options, tag);
        if is_limited == retention::limits_bytes(&tube.row.options, tag) {
            continue;
        }
        retention::forget_sum(ctx, tube, tag)?;
        let left = if is_limited { retention::begin_sum(ctx, tube, tag)? } else { None };
        row.pending.set_sum(state, left);
    }
    if row.pending.is_any() {
        ctx.needs(&PENDING_OPTIONS);
        ctx.set_work(work_of(tube), WorkRow::of_tube(tube.number).encode())?;
    } else if tube.row.pending.is_any() && ctx.row(&work_of(tube))?.is_some() {
        ctx.remove(work_of(tube));
    }
    Ok(())
}

/// Does one more step, and writes the tube's row. Returns whether more is left.
pub(crate) fn step(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<bool> {
    let mut row = tube.row.clone();
    let after = row.options.in_flight;
    let sum = SUMMED.into_iter().find_map(|of| Some((of, row.pending.sum(of.1)?)));
    if let Some(PendingGroups { before, to, until }) = row.pending.groups.take() {
        row.pending.groups = regroup(ctx, tube, (before, after), (Some(&to), &until))?;
    } else if let Some(((tag, state), sum)) = sum {
        let left = match retention::limits_bytes(&row.options, tag) {
            true => retention::sum_some(ctx, tube, tag, (Some(sum.to), sum.until))?,
            // An option that was lost with its row.
            false => None,
        };
        row.pending.set_sum(state, left);
        // There may be more bytes than are kept.
        ctx.effects().deadline(tube.number, NextDue::of(Deadline::Ttl, 0));
    }
    let is_left = row.pending.is_any();
    if row != tube.row {
        ctx.set_tube(tube.number, row, None)?;
    }
    Ok(is_left)
}

/// Lets groups follow a change of how many of their tasks may be in flight, from the first after
/// the one to the other. A group of which no task is in flight has a head in any case, and no row
/// here. Returns what is left.
fn regroup(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (before, after): (u32, u32),
    (from, until): (Option<&str>, &str),
) -> Result<Option<PendingGroups>> {
    let first = tube.range(Tag::Group).start();
    let mut rows = Scan::through(first, &key::group(tube.run(), until));
    if let Some(from) = from {
        rows.skip_to(key::after(&key::group(tube.run(), from)));
    }
    let (mut left, mut last) = (SWEEP_TASKS, None);
    while let Some((met, row)) = rows.next(ctx)? {
        // A group whose key is damaged has no line either.
        let Some(group) = key::group_of(&met) else { continue };
        if left == 0 {
            return Ok(last.map(|to| PendingGroups { before, to, until: until.to_owned() }));
        }
        left -= 1;
        last = Some(group.to_owned());
        let tasks = match row.as_deref().and_then(row::read_number) {
            Some(tasks) => Some(tasks),
            None => sound(groups::in_flight(ctx, tube, group))?,
        };
        let Some(tasks) = tasks else { continue };
        let is_open = tasks < u64::from(after);
        if is_open == (tasks < u64::from(before)) {
            continue;
        }
        let line = key::line_of(tube.run(), group);
        if let Some((first, _)) = ctx.first(&line, &key::end_of(&line))? {
            groups::set_head(ctx, tube, (group, is_open), &first)?;
        }
    }
    Ok(None)
}
