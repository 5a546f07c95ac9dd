//! Rows under runs that belong to no tube, and the tubes that may have lost theirs.

use super::{AuditedTubes, Finding, Findings, Fix, NO_TASK, in_use, is_damaged, is_there, twin_of};
use crate::engine::context::sound;
use crate::engine::query;
use crate::format::key::{self, Range, Run, Work};
use crate::format::row::WorkRow;
use crate::format::{Scan, Tag, View};
use crate::words::error::Result;
use std::collections::BTreeMap;

/// Reports rows under a run that belongs to no tube, and that no sweep will remove. Those of tasks
/// get a tube again: the one without a row, if one run and one name have lost each other. A run
/// that may still be assigned is counted as one in use before.
pub(super) fn audit(view: &dyn View, tubes: &AuditedTubes, report: Findings<'_>) -> Result<()> {
    let mut runs: BTreeMap<Run, bool> = BTreeMap::new();
    for tag in Tag::in_runs() {
        let mut rows = Scan::over(Range::of(tag));
        while let Some((met, _)) = rows.next(view)? {
            let Some(Range { run: Some(run), .. }) = Range::holding(&met) else {
                let line = format!("{tag:?}: an invalid key: {met:02x?}");
                report(Finding::new(line, Fix::Remove(met)));
                continue;
            };
            rows.skip_to(Range::in_run(tag, run).end());
            if tubes.contains_key(&run) || is_there(view, &key::work(Work::Clear, run, NO_TASK))? {
                continue;
            }
            let line = format!("{tag:?}: rows under run {}, which belongs to no tube", run.0);
            report(Finding::left(line));
            let is_of_task = has_id(tag) && key::id_of(&met).is_some_and(|id| id > NO_TASK);
            *runs.entry(run).or_default() |= is_of_task && run != Run::QUEUE;
        }
    }
    let given = sound(query::counters(view))?.unwrap_or_default().run;
    if runs.keys().any(|run| run.number() > given) {
        let line = format!("rows are under a run after {given}, the last that was assigned");
        report(Finding::new(line, Fix::Counters(in_use(view)?)));
        runs.retain(|run, _| run.number() <= given);
    }
    let with_tasks = runs.values().filter(|has_tasks| **has_tasks).count();
    let heir = if with_tasks == 1 { lost_name(view, |_| true)? } else { None };
    for (run, has_tasks) in runs {
        let line = format!("run {}: it belongs to no tube", run.0);
        let work = key::work(Work::Clear, run, NO_TASK);
        let fix = match has_tasks {
            true => Fix::Run(run, heir.clone()),
            false => Fix::Set(key::copy(&work), WorkRow::default().encode()),
        };
        let mut finding = Finding::new(line, fix).beside(work);
        if let Some((number, name)) = heir.as_ref().filter(|_| has_tasks) {
            finding = finding.beside(key::tube(*number)).beside(key::name(name));
        }
        report(finding);
    }
    Ok(())
}

/// The number and name of the tube whose row is damaged, missing or that of another tube, of those
/// whose number fits; `None` if there is none or more than one. The number of a tube that is sound
/// is its own, also if another name leads to it.
pub(super) fn lost_name(
    view: &dyn View,
    fits: impl Fn(u32) -> bool,
) -> Result<Option<(u32, String)>> {
    let mut lost = Vec::new();
    for name in query::names(view)? {
        let number = sound(query::numbered(view.get(&key::name(&name)), "name"))?.flatten();
        let Some(number) = number.filter(|number| fits(*number)) else { continue };
        match query::tube(view, number) {
            Err(error) if error.is_not_found() => lost.push((number, name)),
            tube if is_damaged(&tube) => lost.push((number, name)),
            tube => {
                let tube = tube?;
                if tube.row.name != name && twin_of(view, number, &tube)?.is_some() {
                    lost.push((number, name));
                }
            }
        }
    }
    Ok(lost.pop().filter(|_| lost.is_empty()))
}

/// Whether the keys of a tag under a run end with the id of a task.
pub(super) fn has_id(tag: Tag) -> bool {
    !matches!(tag, Tag::Group | Tag::FailureGroup | Tag::Kept | Tag::Day)
}
