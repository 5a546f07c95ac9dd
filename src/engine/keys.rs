//! The caller's own keys: which task of a tube a key names. Writes no row: the row of a key goes
//! with its task's, in `transition`.

use crate::engine::context::damaged;
use crate::engine::tube_cache::TubeEntry;
use crate::format::View;
use crate::format::key;
use crate::words::error::Result;
use crate::words::task::TaskId;

/// The task that this key names: the newest one that has it. Another one stands beside it where a
/// debounced put has met a taken task.
pub(crate) fn named(view: &dyn View, tube: &TubeEntry, text: &str) -> Result<Option<TaskId>> {
    let all = key::key_of(tube.run(), text);
    let end = key::end_of(&all);
    let Some(mut newest) = first_from(view, &all, &end)? else { return Ok(None) };
    // The rows are in the order of the ids, and are mostly one. The last one is found by halves.
    let mut limit = u64::MAX;
    let mut next = newest.get().saturating_add(1);
    while next < limit {
        match first_from(view, &key::key(tube.run(), text, TaskId::new(next)), &end)? {
            Some(id) => newest = id,
            None => limit = next,
        }
        let above = newest.get().saturating_add(1);
        next = above.saturating_add(limit.saturating_sub(above) / 2);
    }
    Ok(Some(newest))
}

/// The task of the first row from this one on.
fn first_from(view: &dyn View, from: &[u8], end: &[u8]) -> Result<Option<TaskId>> {
    let Some((met, _)) = view.first(from, end)? else { return Ok(None) };
    key::id_of(&met).map(Some).ok_or_else(|| damaged("key"))
}
