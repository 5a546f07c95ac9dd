//! The index of the kinds of a tube's tasks: one row for each task with a kind, in a tube that was
//! made with it. The row is there from the put of the task until it leaves the tube, whatever its
//! state. Which tasks a search finds is not decided here.

use crate::engine::context::OpContext;
use crate::engine::stored::TaskRef;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key};
use crate::format::{Scan, Tag, Value, View};
use crate::words::error::Result;
use crate::words::task::TaskId;

/// The key of the row of a task of this kind.
fn row(tube: &TubeEntry, id: TaskId, kind: Option<&str>) -> Option<Key> {
    let kind = kind.filter(|_| tube.row.options.index_kinds)?;
    Some(key::kind(tube.run(), kind, id))
}

/// The same of a task. The own row of a task with a kind was read.
#[cold]
pub(crate) fn row_of(task: &TaskRef<'_>) -> Option<Key> {
    row(task.tube, task.id, task.read.and_then(|(_, own)| own.kind()))
}

/// Writes the row of a task of this kind that comes to the tube.
#[cold]
pub(crate) fn add(ctx: &mut OpContext<'_>, tube: &TubeEntry, id: TaskId, kind: Option<&str>) {
    if let Some(key) = row(tube, id, kind) {
        ctx.add(key, Value::EMPTY);
    }
}

/// Removes the row of a task that leaves its tube.
#[cold]
pub(crate) fn remove(ctx: &mut OpContext<'_>, task: &TaskRef<'_>) {
    if let Some(key) = row_of(task) {
        ctx.remove(key);
    }
}

/// The kind of a task whose own row is damaged. Reads two rows of each kind of the tube.
#[cold]
pub(crate) fn recover(view: &dyn View, tube: &TubeEntry, id: TaskId) -> Result<Option<String>> {
    if !tube.row.options.index_kinds {
        return Ok(None);
    }
    let mut rows = Scan::over(tube.range(Tag::Kind));
    while let Some((met, _)) = rows.next(view)? {
        let Some(kind) = key::kind_in(&met) else { continue };
        if view.row(&key::kind(tube.run(), kind, id))?.is_some() {
            return Ok(Some(kind.to_owned()));
        }
        rows.skip_to(key::end_of(&key::kind_of(tube.run(), kind)));
    }
    Ok(None)
}
