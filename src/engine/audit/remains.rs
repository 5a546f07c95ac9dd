//! Rows that are left of tasks which have no row of their own any more. A task that is in another
//! tube has no remains: what stands in this tube goes.

use super::{About, Finding, Findings, Fix};
use crate::format::key::{self, Key, Range};
use crate::format::{Scan, Tag, View};
use crate::words::error::Result;
use crate::words::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// The rows that are left of a task in a tube.
pub(super) struct Remains {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) id: TaskId,
    pub(super) keys: Vec<Key>,
}

/// Reports what is left of tasks, in their tubes and of payloads.
pub(super) fn audit(
    view: &dyn View,
    remains: Vec<Remains>,
    mut pieces: BTreeMap<TaskId, Vec<Key>>,
    report: Findings<'_>,
) -> Result<()> {
    let mut lost: BTreeSet<TaskId> = remains.iter().map(|left| left.id).collect();
    lost.extend(pieces.keys());
    let alive = alive(view, &lost)?;
    for Remains { number, name, id, keys } in remains {
        let tags: BTreeSet<_> = keys.iter().filter_map(|key| Range::holding(key)).collect();
        let tags: Vec<_> = tags.into_iter().map(|range| format!("{:?}", range.tag)).collect();
        let line =
            format!("tube {name:?}: task {id}: only these rows are left: {}", tags.join(", "));
        let about = About::Task(number, id);
        if alive.contains(&id) {
            for key in keys {
                let finding = Finding::new(line.clone(), Fix::Remove(key));
                report(finding.about(about));
            }
            continue;
        }
        pieces.remove(&id);
        report(Finding::new(line, Fix::Remains(number, id, keys)).about(about));
    }
    for (id, keys) in pieces {
        let line = format!("task {id}: only pieces of its payload are left");
        if alive.contains(&id) {
            for key in keys {
                report(Finding::new(line.clone(), Fix::Remove(key)).about(About::Id(id)));
            }
            continue;
        }
        report(Finding::new(line, Fix::Pieces(id, keys)).about(About::Id(id)));
    }
    Ok(())
}

/// Those of the tasks that any tube has, or that a sweep removes.
fn alive(view: &dyn View, ids: &BTreeSet<TaskId>) -> Result<BTreeSet<TaskId>> {
    let mut alive = BTreeSet::new();
    if ids.is_empty() {
        return Ok(alive);
    }
    for tag in Tag::TASKS.into_iter().chain(Tag::states()) {
        let mut rows = Scan::over(Range::of(tag));
        while let Some((met, _)) = rows.next(view)? {
            alive.extend(key::id_of(&met).filter(|id| ids.contains(id)));
        }
    }
    Ok(alive)
}
