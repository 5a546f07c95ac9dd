//! Where a task was put and where it stands among the ready ones, by its id. Most stand where the
//! id says; a row of its own tells of the others.

use crate::bytes::key::{self, Order, Place};
use crate::bytes::row::PositionRow;
use crate::bytes::{Tag, Value, View};
use crate::engine::desk::damaged;
use crate::engine::known::Tube;
use crate::error::Result;
use crate::task::TaskId;

/// What holds for a task of this id if nobody said otherwise.
pub(crate) fn plain(tube: &Tube, id: TaskId) -> PositionRow<'static> {
    let place = Place { priority: tube.row.made_priority, order: Order::back(id.get()) };
    let group = tube.row.options.kind.groups_all().then_some("");
    PositionRow { home: place, place, group }
}

/// The row by which a task is found that does not stand where its id says.
pub(crate) fn row_of(tube: &Tube, id: TaskId, position: &PositionRow<'_>) -> Option<Value> {
    (*position != plain(tube, id)).then(|| position.encode())
}

/// The home, the place and the group of the task of this id, if there is one.
///
/// # Errors
/// `Damaged` if its row is.
pub(crate) fn of(
    view: &dyn View,
    tube: &Tube,
    id: TaskId,
) -> Result<(Place, Place, Option<String>)> {
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
