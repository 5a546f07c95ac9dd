//! Groups: strict order, a bounded number in flight. The ready tasks of a group are in its line
//! (`Tag::Line`). For each group that may be taken from, the first task of the line also has a row
//! among the turns (`Tag::Turn`). So a take never scans over a locked group.

use crate::engine::context::{OpContext, damaged};
use crate::engine::position;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key, Rank};
use crate::format::row::{self, DelayedRow};
use crate::format::{Tag, Value, View};
use crate::words::error::{ErrorKind, Result};
use crate::words::task::TaskId;

/// The first task of a group's line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LineHead {
    place: Rank,
    id: TaskId,
}

/// The step of a task of a group.
pub(crate) struct Step<'a> {
    pub(crate) group: &'a str,
    /// The state row that is removed.
    pub(crate) leaves: Option<Key>,
    /// The state row that is added, with its value.
    pub(crate) enters: Option<(Key, Value)>,
    /// By how much the number in flight changes.
    pub(crate) in_flight: i64,
}

/// A step, and all that was read of the group for it.
pub(crate) struct Plan<'a> {
    step: Step<'a>,
    before: Count,
    after: u64,
    /// The task with the group's turn, before and after.
    had: Option<LineHead>,
    has: Option<LineHead>,
}

/// How many tasks of a group are in flight.
struct Count {
    tasks: u64,
    row: CountRow,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CountRow {
    /// There is no row while no task is in flight.
    Absent,
    Sound,
    Damaged,
}

/// How many tasks of the group are in flight.
pub(crate) fn in_flight(ctx: &OpContext<'_>, tube: &TubeEntry, group: &str) -> Result<u64> {
    Ok(count(ctx, tube, group)?.tasks)
}

fn count(ctx: &OpContext<'_>, tube: &TubeEntry, group: &str) -> Result<Count> {
    let kept = match ctx.get(&key::group(tube.run(), group)) {
        Ok(None) => return Ok(Count { tasks: 0, row: CountRow::Absent }),
        Ok(Some(kept)) => row::read_number(&kept),
        Err(error) if error.kind() == ErrorKind::Damaged => None,
        Err(error) => return Err(error),
    };
    match kept {
        Some(tasks) => Ok(Count { tasks, row: CountRow::Sound }),
        None => Ok(Count { tasks: recount(ctx, tube, group)?, row: CountRow::Damaged }),
    }
}

/// Counts the tasks in flight of a group whose row is damaged. Its cost is the number of taken
/// tasks; the step that asked writes the row again.
fn recount(ctx: &OpContext<'_>, tube: &TubeEntry, group: &str) -> Result<u64> {
    let delayed = tube.row.options.hold_group_while_delayed.then_some(Tag::Delayed);
    let mut tasks = 0;
    for tag in [Tag::Taken].into_iter().chain(delayed) {
        let range = tube.range(tag);
        let mut from = range.start();
        while let Some((met, row)) = ctx.first(&from, &range.end())? {
            from = key::after(&met);
            // A damaged lease counts as taken. A damaged delay does not state its group.
            let is_in_flight = tag == Tag::Taken
                || row
                    .as_deref()
                    .and_then(DelayedRow::decode)
                    .is_some_and(|(_, (it, _))| it.holds_group);
            let Some(id) = key::id_of(&met).filter(|_| is_in_flight) else { continue };
            let own = position::of(ctx, tube, id);
            tasks += u64::from(own.is_ok_and(|(_, _, own)| own.as_deref() == Some(group)));
        }
    }
    Ok(tasks)
}

/// Whether the stored count of a group exceeds the tasks found in flight. The others are delayed
/// tasks that hold the group and whose rows are damaged; which tasks these are is unknown.
pub(crate) fn is_held_by_the_unknown(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    group: &str,
) -> Result<bool> {
    Ok(count(ctx, tube, group)?.tasks > recount(ctx, tube, group)?)
}

/// Reads all that a step needs. Nothing is written yet, so a task whose group cannot be read stays
/// where it is.
pub(crate) fn plan<'a>(ctx: &OpContext<'_>, tube: &TubeEntry, step: Step<'a>) -> Result<Plan<'a>> {
    let most = u64::from(tube.row.options.in_flight);
    let before = count(ctx, tube, step.group)?;
    let after = before.tasks.saturating_add_signed(step.in_flight);
    let (was_open, is_open) = (before.tasks < most, after < most);

    let (mut had, mut has) = (None, None);
    if was_open || is_open {
        let line = key::line_of(tube.run(), step.group);
        let end = key::end_of(&line);
        let first = ctx.first(&line, &end)?.map(|(met, _)| met);
        if was_open {
            had = first.as_ref().map(|met| first_of(met, line.len())).transpose()?;
        }
        if is_open {
            let stays = match first {
                Some(first) if step.leaves.as_ref() == Some(&first) => {
                    ctx.first(&key::after(&first), &end)?.map(|(met, _)| met)
                }
                first => first,
            };
            let comes = step.enters.as_ref().map(|(key, _)| key);
            let comes = comes.filter(|key| key.starts_with(&line));
            let next = stays.iter().chain(comes).min();
            has = next.map(|key| first_of(key, line.len())).transpose()?;
        }
    }
    // If the turn's own key is damaged, there is no row to remove. After a recount the turn may
    // also have been decided by another count.
    if (had != has || before.row == CountRow::Damaged)
        && let Some(LineHead { place, id }) = &had
        && !is_there(ctx, &key::turn(tube.run(), place, *id))?
    {
        had = None;
    }
    Ok(Plan { step, before, after, had, has })
}

/// Whether there is a row with this key, damaged or not.
fn is_there(ctx: &OpContext<'_>, key: &Key) -> Result<bool> {
    match ctx.get(key) {
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(true),
        row => Ok(row?.is_some()),
    }
}

/// The group of a turn, and the row of its task in the line, `None` if that is damaged. Returns
/// `None` if there is no task for the turn.
pub(crate) fn whose_turn(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    (place, id): (&Rank, TaskId),
    group: Option<Value>,
) -> Result<Option<(String, Option<Value>)>> {
    let group = group.and_then(|group| String::from_utf8(group.to_vec()).ok());
    let Some(group) = group else { return Ok(None) };
    match ctx.get(&key::line(tube.run(), &group, place, id)) {
        Ok(None) => Ok(None),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(Some((group, None))),
        row => Ok(Some((group, row?))),
    }
}

/// Removes turns without a task, and adds a turn for each group that should have one: the task of a
/// damaged turn is unknown. Its cost is the number of groups, but only once for a damage, because
/// no such turn is left.
pub(crate) fn mend_turns(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<()> {
    let range = tube.range(Tag::Turn);
    let mut from = range.start();
    while let Some((met, group)) = ctx.first(&from, &range.end())? {
        from = key::after(&met);
        let place = key::place_of(&met, key::RUN_PREFIX).zip(key::id_of(&met));
        let whose = match place {
            Some((place, id)) => whose_turn(ctx, tube, (&place, id), group)?,
            None => None,
        };
        if whose.is_none() {
            ctx.remove(met);
        }
    }

    let range = tube.range(Tag::Line);
    let mut from = range.start();
    while let Some((met, _)) = ctx.first(&from, &range.end())? {
        from = key::after(&met);
        let Some(group) = key::group_of(&met) else { continue };
        let line = key::line_of(tube.run(), group);
        from = key::end_of(&line);
        let Ok(LineHead { place, id }) = first_of(&met, line.len()) else { continue };
        let turn = key::turn(tube.run(), &place, id);
        let is_open = in_flight(ctx, tube, group)? < u64::from(tube.row.options.in_flight);
        if is_open && !is_there(ctx, &turn)? {
            ctx.add(turn, group_value(group));
        }
    }
    Ok(())
}

fn first_of(key: &[u8], line: usize) -> Result<LineHead> {
    let place = key::place_of(key, line).ok_or_else(|| damaged("line"))?;
    let id = key::id_of(key).ok_or_else(|| damaged("line"))?;
    Ok(LineHead { place, id })
}

impl Plan<'_> {
    /// Applies the step and updates the group's turn.
    pub(crate) fn carry_out(self, ctx: &mut OpContext<'_>, tube: &TubeEntry) {
        let Self { step, before, after, had, has } = self;
        let run = tube.run();
        if let Some(key) = step.leaves {
            ctx.remove(key);
        }
        if let Some((key, value)) = step.enters {
            ctx.add(key, value);
        }
        if before.tasks != after || before.row == CountRow::Damaged {
            let key = key::group(run, step.group);
            match (before.row, after) {
                (CountRow::Absent, after) => ctx.add(key, row::number(after)),
                (_, 0) => ctx.remove(key),
                (_, after) => ctx.change(key, row::number(after)),
            }
        }
        if had == has {
            return;
        }
        if let Some(LineHead { place, id }) = had {
            ctx.remove(key::turn(run, &place, id));
        }
        if let Some(LineHead { place, id }) = has {
            ctx.add(key::turn(run, &place, id), group_value(step.group));
            ctx.wake(tube.number);
        }
    }
}

fn group_value(group: &str) -> Value {
    Value::from(group.as_bytes())
}
