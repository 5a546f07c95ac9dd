//! Where a task was put and where it stands among the ready ones, by its id. Most stand where the
//! id says; a row of its own tells of the others.

use crate::engine::context::damaged;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Order, Rank};
use crate::format::row::PositionRow;
use crate::format::{Tag, Value, View};
use crate::words::error::Result;
use crate::words::task::TaskId;

/// What holds for a task of this id if nobody said otherwise.
pub(crate) fn plain(tube: &TubeEntry, id: TaskId) -> PositionRow<'static> {
    let place = Rank { priority: tube.row.made_priority, order: Order::back(id.get()) };
    let group = tube.row.options.kind.groups_all().then_some("");
    PositionRow { home: place, place, group }
}

/// The row by which a task is found that does not stand where its id says.
pub(crate) fn row_of(tube: &TubeEntry, id: TaskId, position: &PositionRow<'_>) -> Option<Value> {
    (*position != plain(tube, id)).then(|| position.encode())
}

/// The home, the place and the group of the task of this id, if there is one.
///
/// # Errors
/// `Damaged` if its row is.
pub(crate) fn of(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
) -> Result<(Rank, Rank, Option<String>)> {
    let kept = match view.count(tube.range(Tag::Position)) {
        0 => None,
        _ => view.get(&key::position(tube.run(), id))?,
    };
    let PositionRow { home, place, group } = match &kept {
        Some(row) => PositionRow::decode(row).ok_or_else(|| damaged("position"))?,
        None => plain(tube, id),
    };
    Ok((home, place, group.map(str::to_owned)))
}
