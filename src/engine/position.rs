//! Finds by a task's id where it was put and its rank among the ready tasks. For most tasks both
//! follow from the id; the others have a position row.

use crate::engine::context::damaged;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Order, Rank};
use crate::format::row::PositionRow;
use crate::format::{Tag, View};
use crate::words::error::Result;
use crate::words::task::TaskId;

/// The position of a task of this id that has no position row.
pub(crate) fn plain(tube: &TubeEntry, id: TaskId) -> PositionRow<'static> {
    let place = Rank { priority: tube.row.made_priority, order: Order::back(id.get()) };
    let group = tube.row.options.kind.groups_all().then_some("");
    PositionRow { home: place, place, group }
}

/// The rank and the id at the end of a key, after `prefix` bytes.
#[inline]
pub(crate) fn in_key(key: &[u8], prefix: usize) -> Result<(Rank, TaskId)> {
    key::place_of(key, prefix).zip(key::id_of(key)).ok_or_else(|| damaged("index"))
}

/// The home, the rank and the group of the task of this id, if there is a position row.
///
/// # Errors
/// `Damaged` if its row is damaged.
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
