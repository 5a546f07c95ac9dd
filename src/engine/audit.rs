//! Checks that all rows agree: every task is in exactly one state, all rows that belong to a state
//! exist and no others, and the stored counts are correct. Reads every row; for `check`, and for
//! tests after each of their steps.

use crate::engine::context::sound;
use crate::engine::query;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key, Range, Run, Work};
use crate::format::row::{Counters, TaskRow};
use crate::format::{Met, Scan, Tag, Value, View, row};
use crate::words::error::{ErrorKind, Result};
use crate::words::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

mod finding;
mod strays;
mod remains;
mod doubles;
mod edged;
mod seen;
mod fields;
mod consumers;
mod histories;
mod own_rows;
mod reports;
mod tags;
mod edges;
mod days;
mod of_tube;
mod payloads;
mod works;
mod settings;
mod conditions;
mod throttles;
mod schedules;

use edged::EdgedTasks;
pub(crate) use finding::{About, Finding, Findings, Fix, Sum};
use payloads::NamedPieces;
use remains::Remains;
pub(crate) use reports::is_sound as is_sound_report;

/// Reports each disagreement as one line.
pub(crate) fn lines(view: &dyn View, report: &mut dyn FnMut(String)) -> Result<()> {
    audit(view, &mut |finding| report(finding.line))
}

/// Reports each disagreement, with what mends it.
pub(crate) fn audit(view: &dyn View, report: Findings<'_>) -> Result<()> {
    let (mut tubes, mut led, mut remains) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let (mut doubtful, mut edged) = (Vec::new(), EdgedTasks::default());
    for number in query::numbers(view)? {
        let Some(tube) = query::sound_tube(view, number)? else {
            let line = format!("tube {number}: its row is damaged");
            let fix = Fix::Tube(
                number,
                strays::lost_name(view, |of| of == number)?.map(|(_, name)| name),
            );
            report(Finding::new(line, fix).beside(key::tube(number)));
            continue;
        };
        let name = key::name(&tube.row.name);
        let named = sound(query::tube_named(view, &tube.row.name))?.flatten();
        if let Some(other) = twin_of(view, number, &tube)? {
            let line = format!("tube {number}: its tasks are those of tube {other}");
            let finding = Finding::new(line, Fix::Twin(number)).beside(name);
            report(finding.beside(key::tube(number)).beside(key::tube(other)));
            continue;
        }
        if named != Some(number) {
            let line = format!("tube {:?}: its name row does not refer to it", tube.row.name);
            let fix = Fix::Set(name, row::number(u64::from(number)));
            report(Finding::new(line, fix).beside(key::tube(number)));
        }
        if tube.row.options.temporary != tube.run().is_temporary() {
            let line = format!("tube {:?}: its run is not of its kind", tube.row.name);
            report(Finding::new(line, Fix::Stated(number)));
        }
        if is_read(view, tube.run()) {
            let mut sort = |finding: Finding| match doubles::is_doubtful(&finding) {
                true => doubtful.push(finding),
                false => report(finding),
            };
            let mut seen = seen::Audit::of(view, &tube, &mut sort).walk()?;
            led.append(&mut seen.led);
            remains.append(&mut seen.remains);
            edged.append(seen.edged, seen.damaged);
        }
        tubes.insert(tube.run(), tube);
    }
    doubles::audit(view, &tubes, doubtful, report)?;
    names(view, report)?;
    numbers(view, &tubes, report)?;
    let mut named = NamedPieces::default();
    works::audit(view, &tubes, (&mut named, &edged), report)?;
    let pieces = payloads::audit(view, named, report)?;
    remains::audit(view, remains, pieces, report)?;
    failed(view, report)?;
    queue_keys(view, &tubes, report)?;
    settings::audit(view, report)?;
    conditions::audit(view, report)?;
    throttles::audit(view, &tubes, report)?;
    schedules::audit(view, &tubes, report)?;
    moved(view, &tubes, led, report)?;
    tags::audit(view, report)?;
    tags::tracked(view, report)?;
    edges::audit(view, &tubes, edged, report)?;
    strays::audit(view, &tubes, report)?;
    durable_bytes(view, report)
}

/// The tube to which the name of this one leads, if that has the same tasks.
fn twin_of(view: &dyn View, number: u32, tube: &TubeEntry) -> Result<Option<u32>> {
    let named = sound(query::tube_named(view, &tube.row.name))?.flatten();
    match named.filter(|named| *named != number) {
        Some(other) if is_of_run(view, other, tube.run())? => Ok(Some(other)),
        _ => Ok(None),
    }
}

/// Whether the tube of this number is sound and has this run.
fn is_of_run(view: &dyn View, number: u32, run: Run) -> Result<bool> {
    match query::sound_tube(view, number) {
        Err(error) if error.is_not_found() => Ok(false),
        tube => Ok(tube?.is_some_and(|tube| tube.run() == run)),
    }
}

/// Whether the view has the rows of this run.
fn is_read(view: &dyn View, run: Run) -> bool {
    view.has_temporary() || !run.is_temporary()
}

type AuditedTubes = BTreeMap<Run, TubeEntry>;

/// In the key of work that is not about one task.
const NO_TASK: TaskId = TaskId::new(0);

fn is_damaged<T>(read: &Result<T>) -> bool {
    read.as_ref().is_err_and(|error| error.kind() == ErrorKind::Damaged)
}

/// Reports names of tubes that do not exist, and consumers and their names that do not agree.
fn names(view: &dyn View, report: Findings<'_>) -> Result<()> {
    for name in query::names(view)? {
        let key = key::name(&name);
        let number = sound(query::tube_named(view, &name))?.flatten();
        let own = key::tube(number.unwrap_or_default());
        if is_damaged(&view.get(&key)) {
            let row = number.map(|number| row::number(u64::from(number)));
            let fix = row.map_or(Fix::Nothing, |row| Fix::Set(key::copy(&key), row));
            let finding = Finding::new(format!("name {name:?}: its row is damaged"), fix);
            report(finding.beside(key::copy(&own)));
        }
        let found = query::tube_named(view, &name)
            .and_then(|number| query::tube(view, number.unwrap_or_default()));
        let leads = match found {
            Err(error) if error.is_not_found() => false,
            found if is_damaged(&found) => true,
            tube => tube?.row.name == name,
        };
        if !leads {
            let line = format!("name {name:?}: there is no such tube");
            report(Finding::new(line, Fix::Remove(key)).beside(own));
        }
    }
    consumers::audit(view, report)
}

/// Reports numbers in use that the counters would assign again.
fn numbers(view: &dyn View, tubes: &AuditedTubes, report: Findings<'_>) -> Result<()> {
    let given = match query::counters(view) {
        given if is_damaged(&given) => {
            let fix = Fix::Counters(in_use(view)?);
            report(Finding::new("Meta: the counters are damaged".to_owned(), fix));
            return Ok(());
        }
        given => given?,
    };
    let tube = tubes.values().map(|tube| tube.number).max();
    let run = tubes.keys().map(|run| run.number()).max();
    let run = run.max(throttles::last_run(view)?);
    let consumer = last_consumer(view)?;
    let pairs = [(tube, given.tube), (run, given.run), (consumer, given.consumer)];
    for ((used, given), what) in pairs.into_iter().zip(["tube", "run", "consumer"]) {
        if let Some(used) = used.filter(|used| *used > given) {
            let line =
                format!("{what} {used} is in use, but {given} is the last that was assigned");
            report(Finding::new(line, Fix::Counters(in_use(view)?)));
        }
    }
    let mut rows = Scan::over(Range::of(Tag::Meta));
    while let Some((key, _)) = rows.next(view)? {
        if key != key::meta(Counters::WHAT) {
            report(Finding::new(format!("Meta: an unknown row: {key:02x?}"), Fix::Remove(key)));
        }
    }
    Ok(())
}

/// The highest number of a consumer.
fn last_consumer(view: &dyn View) -> Result<Option<u32>> {
    let (mut rows, mut last) = (Scan::over(Range::of(Tag::Consumer)), None);
    while let Some((met, _)) = rows.next(view)? {
        last = query::number_in(&met).or(last);
    }
    Ok(last)
}

/// The last numbers that any row has.
fn in_use(view: &dyn View) -> Result<Counters> {
    let mut used = sound(query::counters(view))?.unwrap_or_default();
    for number in query::numbers(view)? {
        used.tube = used.tube.max(number);
        let run = query::sound_tube(view, number)?.map_or(0, |tube| tube.run().number());
        used.run = used.run.max(run);
    }
    for name in query::names(view)? {
        let number = sound(query::numbered(view.get(&key::name(&name)), "name"))?.flatten();
        used.tube = used.tube.max(number.unwrap_or_default());
    }
    let mut works = Scan::over(Range::of(Tag::Work));
    while let Some((met, _)) = works.next(view)? {
        let run = key::run_of_work(&met).map_or(0, |run| run.number());
        used.run = used.run.max(run);
    }
    for tag in Tag::in_runs() {
        let mut rows = Scan::over(Range::of(tag));
        while let Some((met, _)) = rows.next(view)? {
            let Some(run) = Range::holding(&met).and_then(|range| range.run) else { continue };
            used.run = used.run.max(run.number());
            rows.skip_to(Range::in_run(tag, run).end());
        }
    }
    used.run = used.run.max(throttles::last_run(view)?.unwrap_or_default());
    used.consumer = used.consumer.max(last_consumer(view)?.unwrap_or_default());
    // A new tube with the number of one that was dropped would get its schedules.
    used.tube = used.tube.max(schedules::last_tube(view)?);
    Ok(used)
}

/// Reports the damaged rows of a range, and if the stored count is not their number. `check` gets
/// every row.
fn walk(
    view: &dyn View,
    range: Range,
    report: Findings<'_>,
    mut check: impl FnMut(Met, Findings<'_>),
) -> Result<()> {
    let (tag, mut rows, mut seen) = (range.tag, Scan::over(range), 0);
    while let Some((key, row)) = rows.next(view)? {
        seen += 1;
        if row.is_none() {
            report(Finding::left(format!("{tag:?}: a damaged row: {key:02x?}")));
        }
        check((key, row), report);
    }
    let stored = view.count(range);
    if stored != seen {
        report(Finding::left(format!("{tag:?}: {seen} rows, but the stored count is {stored}")));
    }
    Ok(())
}

/// Reports the queue's rows about buried tasks without the tube's row of that task.
fn failed(view: &dyn View, report: Findings<'_>) -> Result<()> {
    for tag in [Tag::Failed, Tag::FailedTemporary] {
        walk(view, Range::of(tag), report, |(key, row), report| {
            let beside = key::buried_group_beside(&key);
            if beside.as_ref().is_none_or(|beside| !is_there(view, beside).unwrap_or(true)) {
                let line = format!("{tag:?}: a row without a task: {key:02x?}");
                let finding = Finding::new(line, Fix::Remove(key));
                report(match beside {
                    Some(beside) => finding.beside(beside),
                    None => finding,
                });
            } else if row.is_none_or(|row| !row.is_empty()) {
                let line = format!("{tag:?}: a wrong row: {key:02x?}");
                report(Finding::new(line, Fix::Set(key, Value::EMPTY)));
            }
        })?;
    }
    Ok(())
}

/// Reports the queue's rows of keys without a row of the key in their tube. Those of a tube that is
/// gone, or of one that was truncated, a sweep removes with the rows under the old run.
fn queue_keys(view: &dyn View, tubes: &AuditedTubes, report: Findings<'_>) -> Result<()> {
    let cleared = cleared_runs(view)?;
    let unique = tubes.iter().filter(|(_, tube)| tube.row.options.unique.in_queue);
    let runs: BTreeMap<u64, Run> =
        unique.map(|(run, tube)| (u64::from(tube.number), *run)).collect();
    walk(view, Range::of(Tag::KeyOfQueue), report, |(key, number), report| {
        let number = number.as_deref().and_then(row::read_number);
        let own = number.and_then(|number| runs.get(&number));
        let mut runs = own.into_iter().chain(&cleared).copied();
        let has_row = |run| {
            let beside = key::key_beside(&key, run);
            beside.is_some_and(|beside| is_there(view, &beside).unwrap_or(true))
        };
        if !runs.any(has_row) {
            let line = format!("KeyOfQueue: a row without a task: {key:02x?}");
            let about = key::id_of(&key).map_or(About::NoTask, |id| match own {
                Some(run) => About::Owner((*run, id)),
                None => About::Id(id),
            });
            let in_tube = own.and_then(|run| key::key_beside(&key, *run));
            let finding = Finding::new(line, Fix::Remove(key)).about(about);
            report(in_tube.into_iter().fold(finding, Finding::beside));
        }
    })
}

/// The runs that a sweep still has to clear.
fn cleared_runs(view: &dyn View) -> Result<Vec<Run>> {
    let (mut rows, mut runs) = (Scan::prefixed(key::work_of(Work::Clear)), Vec::new());
    while let Some((work, _)) = rows.next(view)? {
        runs.extend(key::run_of_work(&work));
    }
    Ok(runs)
}

/// Reports the rows that lead to tasks which came from other tubes, the entries of histories, what
/// was reported of tasks, and the rows of tags, if there is no such task. `led` has those of the
/// tasks that tubes have.
fn moved(
    view: &dyn View,
    tubes: &AuditedTubes,
    mut led: BTreeSet<Key>,
    report: Findings<'_>,
) -> Result<()> {
    // A sweep removes the row with its task.
    let mut rows = Scan::prefixed(key::work_of(Work::Clear));
    while let Some((work, _)) = rows.next(view)? {
        let Some(run) = key::run_of_work(&work).filter(|run| !tubes.contains_key(run)) else {
            continue;
        };
        for tag in Tag::TASKS {
            let mut tasks = Scan::over(Range::in_run(tag, run));
            while let Some((task, _)) = tasks.next(view)? {
                let Some(id) = key::id_of(&task) else { continue };
                // The sweep removes them with the task.
                for rows in [key::history_of(run, id), key::reports_of(run, id)] {
                    let mut rows = Scan::prefixed(rows);
                    while let Some((met, _)) = rows.next(view)? {
                        led.insert(met);
                    }
                }
                tags::lead(view, (run, id), &mut led)?;
            }
        }
        let mut tasks = Scan::over(Range::in_run(Tag::Task, run));
        while let Some((task, row)) = tasks.next(view)? {
            let Some(at) = key::id_of(&task).map(|id| key::moved(run, id)) else { continue };
            // Of a damaged task it is not known.
            let is_moved = row.as_deref().and_then(TaskRow::decode).map(|row| row.is_moved());
            if is_moved == Some(true) && !is_there(view, &at)? {
                let line =
                    format!("a row is missing that leads to a task to be cleared: {at:02x?}");
                report(Finding::new(line, Fix::Set(key::copy(&at), row::number(0))));
            }
            if is_moved != Some(false) {
                led.insert(at);
            }
        }
    }
    let of_tags = [Tag::TaskTags, Tag::TaskTagsTemporary, Tag::Tagged, Tag::TaggedTemporary];
    let beside = [Tag::Moved, Tag::History, Tag::Report];
    let temporary = [Tag::MovedTemporary, Tag::HistoryTemporary, Tag::ReportTemporary];
    for tag in beside.into_iter().chain(temporary).chain(of_tags) {
        walk(view, Range::of(tag), report, |(key, _), report| {
            if !led.contains(&key) {
                let line = format!("{tag:?}: a row without a task: {key:02x?}");
                let is_index = matches!(tag, Tag::Tagged | Tag::TaggedTemporary);
                let id = if is_index { key::id_of(&key) } else { id_in(&key) };
                let about = id.map_or(About::NoTask, About::Id);
                let run = if key::is_temporary(&key) { Run(Run::TEMPORARY) } else { Run::QUEUE };
                let own = id.filter(|_| is_index).map(|id| key::task_tags(run, id));
                let finding = Finding::new(line, Fix::Remove(key)).about(about);
                report(own.into_iter().fold(finding, Finding::beside));
            }
        })?;
    }
    Ok(())
}

/// The id at the beginning of a key of the queue that is about one task.
fn id_in(key: &[u8]) -> Option<TaskId> {
    let (id, _) = key.get(1..)?.split_first_chunk()?;
    Some(TaskId::new(u64::from_be_bytes(*id)))
}

fn is_there(view: &dyn View, key: &[u8]) -> Result<bool> {
    Ok(view.row(key)?.is_some())
}

/// Compares the stored total with the tasks, including those that a sweep still has to remove. It
/// may be too high only because of a task that cannot be read, whose row is reported.
fn durable_bytes(view: &dyn View, report: Findings<'_>) -> Result<()> {
    let (mut bytes, mut unknown) = (0_u64, false);
    for tag in Tag::TASKS {
        let mut rows = Scan::over(Range::of(tag));
        while let Some(met) = rows.next(view)?.filter(|(key, _)| !key::is_temporary(key)) {
            match payloads::counted_bytes(view, met)? {
                Some(own) => bytes = bytes.saturating_add(own),
                None => unknown = true,
            }
        }
    }
    let kept = view.durable_bytes();
    if kept < bytes || kept > bytes && !unknown {
        let line =
            format!("durable tubes hold {bytes} payload bytes, but the stored count is {kept}");
        report(Finding::new(line, Fix::Bytes(bytes.wrapping_sub(kept) as i64)));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
