//! The audit of schedules: each has a row that says how far it has come, and at its next fire a
//! copy of that. Their tube need not exist; if it does, it counts them.

use super::{AuditedTubes, Finding, Findings, Fix, walk};
use crate::engine::schedules::StoredSchedule;
use crate::engine::tube_cache::TubeEntry;
use crate::format::extension::Extension;
use crate::format::key::{self, Key};
use crate::format::row::{FiringRow, ScheduleRow};
use crate::format::{Range, Scan, Tag, Value, View};
use crate::words::clock::NEVER;
use crate::words::error::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The rows of fires, by the names of their schedules.
type Fires = BTreeMap<String, Vec<(Key, Option<Value>)>>;

/// Reports rows of schedules that are damaged or do not agree. Of a damaged schedule nothing is
/// left that could be made; one of which it is not known how far it has come is paused.
pub(super) fn audit(view: &dyn View, tubes: &AuditedTubes, report: Findings<'_>) -> Result<()> {
    let (mut fires, mut names) = (Fires::new(), BTreeSet::new());
    let mut counted: BTreeMap<u32, u32> = BTreeMap::new();
    walk(view, Range::of(Tag::Fire), report, |(met, row), report| match key::of_fire(&met) {
        Some((.., name)) => fires.entry(name.to_owned()).or_default().push((met, row)),
        None => {
            let line = format!("Fire: an invalid key: {met:02x?}");
            report(Finding::new(line, Fix::Remove(met)));
        }
    })?;
    walk(view, Range::of(Tag::Schedule), report, |(met, row), report| {
        let name = key::name_of_schedule(&met).map(str::to_owned);
        let row = row.as_deref().and_then(ScheduleRow::decode);
        let (Some(name), Some(row)) = (name, row) else {
            let line = format!("Schedule: it cannot be read and is lost: {met:02x?}");
            return report(Finding::new(line, Fix::Remove(met)));
        };
        *counted.entry(row.tube).or_default() += 1;
        if let Some(tube) = tubes.values().find(|tube| tube.number == row.tube)
            && tube.row.name != row.tube_name
        {
            let line = format!("schedule {name:?}: its tube is not {:?}", row.tube_name);
            let right = ScheduleRow { tube_name: tube.row.name.clone(), ..row.clone() };
            let finding = Finding::new(line, Fix::Set(key::copy(&met), right.encode()));
            report(finding.beside(key::tube(tube.number)));
        }
        let found = fires.remove(&name).unwrap_or_default();
        if let Err(error) = schedule(view, (&name, row), found, report) {
            report(Finding::left(format!("schedule {name:?}: {error}")));
        }
        names.insert(name);
    })?;
    walk(view, Range::of(Tag::Firing), report, |(met, _), report| {
        let name = key::name_of_schedule(&met);
        if !name.is_some_and(|name| names.contains(name)) {
            let line = format!("Firing: a row without a schedule: {met:02x?}");
            let own = name.map(key::schedule);
            let finding = Finding::new(line, Fix::Remove(met));
            report(own.into_iter().fold(finding, Finding::beside));
        }
    })?;
    for (name, fires) in fires {
        for (met, _) in fires {
            let line = format!("Fire: a row without a schedule: {met:02x?}");
            report(Finding::new(line, Fix::Remove(met)).beside(key::schedule(&name)));
        }
    }
    for TubeEntry { number, row, .. } in tubes.values() {
        let is = counted.get(number).copied().unwrap_or_default();
        if row.schedules != is {
            let line = format!("tube {:?}: it has {is} schedules, not {}", row.name, row.schedules);
            report(Finding::new(line, Fix::Stated(*number)));
        }
    }
    Ok(())
}

/// Reports what is wrong with the rows of one schedule, which has these fires.
fn schedule(
    view: &dyn View,
    (name, row): (&str, ScheduleRow),
    fires: Vec<(Key, Option<Value>)>,
    report: Findings<'_>,
) -> Result<()> {
    let (own, definition) = (key::firing(name), key::schedule(name));
    let met = view.row(&own)?.and_then(|(_, row)| row);
    let (firing, rests_on) = match met.as_deref().and_then(FiringRow::decode) {
        Some(firing) => (firing, vec![own, definition]),
        None => (lost(name, &fires, report), vec![definition]),
    };
    let beside = |finding| rests_on.iter().map(|at| key::copy(at)).fold(finding, Finding::beside);
    let copy = firing.encode();
    let expected = StoredSchedule { row, firing }.fire_key(name);
    for (met, row) in &fires {
        if *met != expected {
            let line = format!("Fire: {name:?} does not fire then: {met:02x?}");
            report(beside(Finding::new(line, Fix::Remove(key::copy(met)))));
        } else if row.as_ref() != Some(&copy) {
            let line = format!("Fire: a wrong copy of how far {name:?} has come: {met:02x?}");
            report(beside(Finding::new(line, Fix::Set(key::copy(met), copy.clone()))));
        }
    }
    if !fires.iter().any(|(met, _)| *met == expected) {
        let line = format!("schedule {name:?}: the row of its next fire is missing");
        report(beside(Finding::new(line, Fix::Set(expected, copy))));
    }
    Ok(())
}

/// Reports that the row is lost that says how far a schedule has come. Returns what is to be in its
/// place: the copy at one of these fires, or that it is paused.
fn lost(name: &str, fires: &[(Key, Option<Value>)], report: Findings<'_>) -> FiringRow {
    let copy = fires.iter().find_map(|(_, row)| FiringRow::decode(row.as_deref()?));
    let line = match copy {
        Some(_) => format!("schedule {name:?}: how far it has come is damaged, not its copy"),
        None => format!("schedule {name:?}: how far it has come is lost, and it is paused"),
    };
    let firing = copy.unwrap_or_else(|| {
        let (is_paused, extension) = (true, Extension::EMPTY);
        FiringRow { is_paused, extension, ..FiringRow::first(NEVER) }
    });
    let finding = Finding::new(line, Fix::Set(key::firing(name), firing.encode()));
    let all = fires.iter().map(|(met, _)| key::copy(met)).chain([key::schedule(name)]);
    report(all.fold(finding, Finding::beside));
    firing
}

/// The highest number of a tube that a schedule has.
pub(super) fn last_tube(view: &dyn View) -> Result<u32> {
    let (mut rows, mut last) = (Scan::over(Range::of(Tag::Schedule)), 0);
    while let Some((_, row)) = rows.next(view)? {
        let row = row.as_deref().and_then(ScheduleRow::decode);
        last = last.max(row.map_or(0, |row| row.tube));
    }
    Ok(last)
}
