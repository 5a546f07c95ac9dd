//! Finds by a task's id where it was put and its rank among the ready tasks. For most tasks both
//! follow from the id; the others have a position row. The group of a task is in its own row.

use crate::engine::context::damaged;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Order, Rank};
use crate::format::row::PositionRow;
use crate::format::{Tag, View};
use crate::words::error::Result;
use crate::words::task::TaskId;

/// The rank at which a task of this id was put and stands, if it has no position row.
pub(crate) fn plain(tube: &TubeEntry, id: TaskId) -> Rank {
    Rank { priority: tube.row.made_priority, order: Order::back(id.get()) }
}

/// The rank and the id at the end of a key, after `prefix` bytes.
#[inline]
pub(crate) fn in_key(key: &[u8], prefix: usize) -> Result<(Rank, TaskId)> {
    key::place_of(key, prefix).zip(key::id_of(key)).ok_or_else(|| damaged("index"))
}

/// Where the task of this id was put, and where it stands.
///
/// # Errors
/// `Damaged` if its row is damaged.
pub(crate) fn of(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<PositionRow> {
    let kept = match view.count(tube.range(Tag::Position)) {
        0 => None,
        _ => view.get(&key::position(tube.run(), id))?,
    };
    match &kept {
        Some(row) => PositionRow::decode(row).ok_or_else(|| damaged("position")),
        None => {
            let rank = plain(tube, id);
            Ok(PositionRow { home: rank, place: rank })
        }
    }
}
