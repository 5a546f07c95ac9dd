//! Checks the throttles, and their slots: each is held by a taken task whose row says so. That a
//! taken task has the slots of its row is checked with its tube.

use super::{AuditedTubes, Finding, Findings, Fix, cleared_runs, is_damaged, walk};
use crate::format::key::{self, Range, Run};
use crate::format::row::{TakenRow, ThrottleRow};
use crate::format::{Scan, Tag, Value, View};
use crate::words::error::Result;
use crate::words::gates::throttle_name;
use crate::words::task::TaskId;
use std::collections::BTreeMap;

pub(super) fn audit(view: &dyn View, tubes: &AuditedTubes, report: Findings<'_>) -> Result<()> {
    let mut named: BTreeMap<Run, key::Key> = BTreeMap::new();
    walk(view, Range::of(Tag::Throttle), report, |(met, row), report| {
        let name = key::of_throttle(&met).filter(|name| throttle_name(name).is_ok());
        let row = row.as_deref().and_then(ThrottleRow::decode);
        // Durable and temporary tubes share the numbers.
        let of_tube = |row: &ThrottleRow| {
            let runs = [row.run, Run(row.run.0 | Run::TEMPORARY)];
            runs.iter().find_map(|run| tubes.get(run)).map(|tube| key::tube(tube.number))
        };
        let tube = row.as_ref().and_then(of_tube);
        let (fault, other) = match (name, row) {
            (None, _) => ("an invalid key", None),
            (_, None) => ("it cannot be read", None),
            _ if tube.is_some() => ("a tube has its run", tube),
            (_, Some(row)) => match named.insert(row.run, key::copy(&met)) {
                None => return,
                other => ("another one has its slots", other),
            },
        };
        let line = format!("Throttle: {fault}: {met:02x?}");
        let finding = Finding::new(line, Fix::Remove(met));
        report(other.into_iter().fold(finding, Finding::beside));
    })?;
    slots(view, tubes, report)
}

/// Reports slots that no taken task holds. Those of a truncated tube a sweep removes with the rows
/// under the old run.
fn slots(view: &dyn View, tubes: &AuditedTubes, report: Findings<'_>) -> Result<()> {
    let cleared = cleared_runs(view)?;
    let runs: BTreeMap<u32, Run> = tubes.iter().map(|(run, tube)| (tube.number, *run)).collect();
    let (mut counts, mut failed) = (BTreeMap::<Range, u64>::new(), Ok(()));
    walk(view, Range::of(Tag::Slot), report, |(met, row), report| {
        let held = Range::holding(&met).and_then(|range| range.run).zip(key::of_slot(&met));
        let Some((run, (id, tube))) = held else {
            report(Finding::new(format!("Slot: an invalid key: {met:02x?}"), Fix::Remove(met)));
            return;
        };
        *counts.entry(Range::in_run(Tag::Slot, run)).or_default() += 1;
        let throttle = Run(run.number());
        let own = runs.get(&tube).into_iter().chain(&cleared);
        let of_kind = own.filter(|of| of.is_temporary() == run.is_temporary());
        let is_held: Result<bool> = of_kind
            .copied()
            .try_fold(false, |is_held, of| Ok(is_held || holds(view, (of, id), throttle)?));
        match is_held {
            Err(error) => failed = Err(error),
            Ok(false) => {
                let line = format!("Slot: no task holds it: {met:02x?}");
                let lease = runs.get(&tube).map(|run| key::taken(*run, id));
                let finding = Finding::new(line, Fix::Remove(met));
                report(lease.into_iter().fold(finding, Finding::beside));
            }
            Ok(true) if row.is_none_or(|row| !row.is_empty()) => {
                let line = format!("Slot: a wrong row: {met:02x?}");
                report(Finding::new(line, Fix::Set(met, Value::EMPTY)));
            }
            Ok(true) => {}
        }
    })?;
    failed?;
    for (range, seen) in counts {
        let stored = view.count(range);
        if stored != seen {
            let run = range.run.map_or(0, |run| run.0);
            let line =
                format!("Slot: {seen} rows under run {run}, but the stored count is {stored}");
            report(Finding::left(line));
        }
    }
    Ok(())
}

/// Whether the row of a taken task says that it holds a slot of the throttle. A damaged one may.
fn holds(view: &dyn View, (run, id): (Run, TaskId), throttle: Run) -> Result<bool> {
    let row = view.get(&key::taken(run, id));
    if is_damaged(&row) {
        return Ok(true);
    }
    let Some(row) = row? else { return Ok(false) };
    let decoded = TakenRow::decode(&row);
    Ok(decoded.is_none_or(|(_, (taken, _))| taken.progress.slots().contains(&throttle)))
}

/// The highest run of a throttle, and of a slot that is still held of one that was removed.
pub(super) fn last_run(view: &dyn View) -> Result<Option<u32>> {
    let (mut rows, mut last) = (Scan::over(Range::of(Tag::Throttle)), None);
    while let Some((_, row)) = rows.next(view)? {
        last = last.max(row.as_deref().and_then(ThrottleRow::decode).map(|row| row.run.0));
    }
    let mut slots = Scan::over(Range::of(Tag::Slot));
    while let Some((met, _)) = slots.next(view)? {
        let Some(run) = Range::holding(&met).and_then(|range| range.run) else { continue };
        last = last.max(Some(run.number()));
        slots.skip_to(Range::in_run(Tag::Slot, run).end());
    }
    Ok(last)
}
