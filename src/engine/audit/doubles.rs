//! Damaged tasks whose id another tube has too. An id is of one task: where that task is, it stays,
//! and what stands in another tube goes. A task that can be read comes before one that has only its
//! own row, and that before one of which nothing but the row of its state is there.

use super::{About, AuditedTubes, Finding, Findings, Fix};
use crate::engine::query;
use crate::format::key::{self, Home, Key, Range, Run};
use crate::format::row::{PositionRow, TaskRow};
use crate::format::{Scan, Tag, View};
use crate::words::error::Result;
use crate::words::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// Whether a finding may be of a task that is in another tube.
pub(super) fn is_doubtful(finding: &Finding) -> bool {
    id_of(finding).is_some()
}

/// The task of a finding that makes it whole.
fn id_of(finding: &Finding) -> Option<TaskId> {
    let (Fix::Task(_, key) | Fix::Set(key, _)) = &finding.fix else { return None };
    let is_of_task = matches!(finding.fix, Fix::Task(..)) || finding.fix.leads_to_task();
    key::id_of(key).filter(|_| is_of_task)
}

/// The tubes that have rows of a task, each with whether one of them is the task's own row.
type Owners = BTreeMap<Run, bool>;

/// Reports these findings, those of a task that another tube has with a fix that removes it here.
pub(super) fn audit(
    view: &dyn View,
    tubes: &AuditedTubes,
    doubtful: Vec<Finding>,
    report: Findings<'_>,
) -> Result<()> {
    let owners = owners(view, &doubtful.iter().filter_map(id_of).collect())?;
    let mut kept = BTreeMap::new();
    for finding in doubtful {
        let of_id = id_of(&finding).and_then(|id| owners.get(&id).map(|owners| (id, owners)));
        let Some((id, owners)) = of_id.filter(|(_, owners)| owners.len() > 1) else {
            report(finding);
            continue;
        };
        let keeper = match kept.get(&id) {
            Some(keeper) => *keeper,
            None => *kept.entry(id).or_insert(keeper(view, tubes, id, owners)?),
        };
        match keeper {
            Some((number, run)) => report(elsewhere(finding, (number, run), id)),
            None => report(finding),
        }
    }
    Ok(())
}

/// The tube in which a task stays.
fn keeper(
    view: &dyn View,
    tubes: &AuditedTubes,
    id: TaskId,
    owners: &Owners,
) -> Result<Option<(u32, Run)>> {
    let led = query::moved_to(view, id)?;
    let mut best: Option<((bool, bool, bool), u32, Run)> = None;
    for (run, has_own) in owners {
        // What a sweep removes is of no task.
        let Some(tube) = tubes.get(run) else { continue };
        let is_whole = query::has_whole(view, tube, id)?;
        let claim = (is_whole, *has_own, led == Some(tube.number));
        if best.is_none_or(|(other, ..)| claim > other) {
            best = Some((claim, tube.number, *run));
        }
    }
    Ok(best.map(|(_, number, run)| (number, run)))
}

/// The finding of a task that stays in this tube, or of one that goes because it does.
fn elsewhere(finding: Finding, (number, run): (u32, Run), id: TaskId) -> Finding {
    let Finding { line, fix, about, mut beside } = finding;
    let keys = match fix {
        Fix::Task(_, key) if !is_under(&key, run) => vec![key],
        // Its other rows are then of no task.
        Fix::Set(key, value) if !is_under(&key, run) => own_keys(&key, &value),
        fix => return Finding { line, fix, about, beside },
    };
    beside.extend(keys.iter().map(|key| key::copy(key)));
    if let About::Task(here, _) = about {
        beside.push(key::tube(here));
    }
    let line = format!("{line}; the task is in another tube");
    Finding { line, fix: Fix::Double(keys), about: About::Task(number, id), beside }
}

fn is_under(key: &[u8], run: Run) -> bool {
    Range::holding(key).and_then(|range| range.run) == Some(run)
}

/// The keys that the own row of the task has with this position row.
fn own_keys(key: &[u8], value: &[u8]) -> Vec<Key> {
    let of = Range::holding(key).and_then(|range| range.run).zip(key::id_of(key));
    let own = of.zip(PositionRow::decode(value)).map(|((run, id), PositionRow { home, .. })| {
        [true, false].map(|is_fresh| key::task(run, &Home { rank: home, is_fresh }, id))
    });
    own.into_iter().flatten().collect()
}

/// Where the rows of these tasks are.
fn owners(view: &dyn View, ids: &BTreeSet<TaskId>) -> Result<BTreeMap<TaskId, Owners>> {
    let mut owners: BTreeMap<TaskId, Owners> = BTreeMap::new();
    if ids.is_empty() {
        return Ok(owners);
    }
    for tag in Tag::TASKS.into_iter().chain(Tag::states()) {
        let mut rows = Scan::over(Range::of(tag));
        while let Some((met, row)) = rows.next(view)? {
            let Some(id) = key::id_of(&met).filter(|id| ids.contains(id)) else { continue };
            let Some(run) = Range::holding(&met).and_then(|range| range.run) else { continue };
            let is_own =
                Tag::TASKS.contains(&tag) && row.as_deref().and_then(TaskRow::decode).is_some();
            *owners.entry(id).or_default().entry(run).or_default() |= is_own;
        }
    }
    Ok(owners)
}
