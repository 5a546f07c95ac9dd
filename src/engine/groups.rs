//! Groups: strict order, a bounded number in flight. The ready tasks of a group stand in its line;
//! of each group that may be taken from, the first of the line also stands among the turns. So a
//! take never walks past a locked group, at any depth.

use crate::bytes::key::{self, Key, Place};
use crate::bytes::{View, row};
use crate::engine::desk::{Desk, damaged};
use crate::engine::known::Tube;
use crate::error::Result;
use crate::task::TaskId;

/// The first task of a group's line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct First {
    place: Place,
    id: TaskId,
}

/// What one step changes in a group.
pub(crate) struct Step<'a> {
    pub(crate) group: &'a str,
    /// The line's row that goes.
    pub(crate) leaves: Option<Key>,
    /// The line's row that comes, with its value.
    pub(crate) enters: Option<(Key, crate::bytes::Value)>,
    /// How many more are in flight.
    pub(crate) in_flight: i64,
}

/// How many tasks of the group are in flight.
pub(crate) fn in_flight(desk: &Desk<'_>, tube: &Tube, group: &str) -> Result<u64> {
    match desk.get(&key::group(tube.run(), group))? {
        Some(count) => row::read_number(&count).ok_or_else(|| damaged("group")),
        None => Ok(0),
    }
}

/// Carries out a step and keeps the group's turn right.
pub(crate) fn step(desk: &mut Desk<'_>, tube: &Tube, step: Step<'_>) -> Result<()> {
    let run = tube.run();
    let before = in_flight(desk, tube, step.group)?;
    let had = turn(desk, tube, step.group, before)?;

    if let Some(key) = step.leaves {
        desk.remove(key);
    }
    if let Some((key, value)) = step.enters {
        desk.add(key, value);
    }
    let after = before.saturating_add_signed(step.in_flight);
    let key = key::group(run, step.group);
    match (before, after) {
        (before, after) if before == after => {}
        (0, after) => desk.add(key, row::number(after)),
        (_, 0) => desk.remove(key),
        (_, after) => desk.change(key, row::number(after)),
    }

    let has = turn(desk, tube, step.group, after)?;
    if had == has {
        return Ok(());
    }
    if let Some(First { place, id }) = had {
        desk.remove(key::turn(run, &place, id));
    }
    if let Some(First { place, id }) = has {
        desk.add(key::turn(run, &place, id), group_value(step.group));
        desk.wake(tube.number);
    }
    Ok(())
}

fn turn(desk: &Desk<'_>, tube: &Tube, group: &str, in_flight: u64) -> Result<Option<First>> {
    if in_flight >= u64::from(tube.row.options.in_flight) {
        return Ok(None);
    }
    let line = key::line_of(tube.run(), group);
    let Some((met, _)) = desk.first(&line, &key::end_of(&line))? else { return Ok(None) };
    let place = key::place_of(&met, line.len()).ok_or_else(|| damaged("line"))?;
    let id = key::id_of(&met).ok_or_else(|| damaged("line"))?;
    Ok(Some(First { place, id }))
}

fn group_value(group: &str) -> crate::bytes::Value {
    crate::bytes::Value::from(group.as_bytes())
}
