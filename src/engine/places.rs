//! Where a task stands among the ready ones, by its id. Most stand where the id says; a row of its
//! own tells of the others.

use crate::bytes::key::{self, Order, Place};
use crate::bytes::row::{PlaceRow, TaskRow};
use crate::bytes::{Tag, Value, View};
use crate::engine::desk::damaged;
use crate::engine::known::Tube;
use crate::error::Result;
use crate::task::TaskId;

/// Where a task of this id stands if nobody said otherwise.
fn plain(tube: &Tube, id: TaskId) -> PlaceRow<'static> {
    let place = Place { priority: tube.row.made_priority, order: Order::back(id.get()) };
    PlaceRow { place, group: tube.row.options.kind.groups_all().then_some("") }
}

/// The row by which a task is found that does not stand where its id says.
pub(crate) fn row_of(tube: &Tube, id: TaskId, row: &TaskRow<'_>) -> Option<Value> {
    let place = PlaceRow { place: row.place, group: row.group };
    (place != plain(tube, id)).then(|| place.encode())
}

/// The place and the group of the task of this id, if there is one.
///
/// # Errors
/// `Damaged` if its row is.
pub(crate) fn of(view: &dyn View, tube: &Tube, id: TaskId) -> Result<(Place, Option<String>)> {
    let kept = match view.count(tube.range(Tag::Place)) {
        0 => None,
        _ => view.get(&key::place(tube.run(), id))?,
    };
    let PlaceRow { place, group } = match &kept {
        Some(row) => PlaceRow::decode(row).ok_or_else(|| damaged("place"))?,
        None => plain(tube, id),
    };
    Ok((place, group.map(str::to_owned)))
}
