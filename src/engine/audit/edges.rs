//! The audit of edges: each has its two rows, which say the same, between tasks that say how many
//! they have; a task is blocked as long as one of its edges is open; and an end that an edge has
//! not learnt has work.

use super::edged::{EdgedTask, EdgedTasks};
use super::seen::Audit;
use super::{About, AuditedTubes, Finding, Findings, Fix, cleared_runs, is_read, walk};
use crate::engine::dependencies::{Fate, fate};
use crate::engine::edges::scope;
use crate::engine::query;
use crate::engine::stored::{TaskRef, TaskState};
use crate::format::key::{self, Direction, Key, Run, Work};
use crate::format::row::{CascadeRow, EdgeCounts, EdgeRow, LinkingRow, TaskEnds, task_of_work};
use crate::format::{Range, Scan, Tag, Value, View};
use crate::words::dependency::{On, Orphaned};
use crate::words::error::Result;
use crate::words::task::{State, TaskId};
use std::collections::BTreeMap;

impl Audit<'_> {
    /// Notes what a task says of its edges.
    pub(super) fn edges(&mut self, task: &TaskRef<'_>, task_state: &TaskState) {
        let progress = task_state.progress();
        let is_blocked = matches!(task_state, TaskState::Blocked(_));
        if progress.extension.is_empty() && !is_blocked && !self.has_edges {
            return;
        }
        let counts = Direction::BOTH.map(|direction| (direction, progress.edges(direction)));
        let (number, run, state) = (self.tube.number, self.tube.run(), task_state.state());
        self.edged.add(task.id, EdgedTask { number, run, state, counts: counts.into() });
    }
}

/// An edge: the earlier and the later task, and whether it is met.
type Edge = ((TaskId, TaskId), bool);

/// Reports what is wrong with the edges.
pub(super) fn audit(
    view: &dyn View,
    tubes: &AuditedTubes,
    mut known: EdgedTasks,
    report: Findings<'_>,
) -> Result<()> {
    for run in cleared_runs(view)?.into_iter().filter(|run| !tubes.contains_key(run)) {
        for tag in Tag::TASKS {
            let mut rows = Scan::over(Range::in_run(tag, run));
            while let Some((met, _)) = rows.next(view)? {
                known.unknown.extend(key::id_of(&met));
            }
        }
    }
    for run in Run::BOTH.into_iter().filter(|run| is_read(view, *run)) {
        let mut counted: BTreeMap<(TaskId, Direction), EdgeCounts> = BTreeMap::new();
        for direction in Direction::BOTH {
            let mut all = Vec::new();
            walk(view, Range::of(direction.tag(run)), report, |(at, row), report| {
                let Some(((from, to), is_met)) = key::of_edge(&at) else {
                    let line = format!("{:?}: an invalid key: {at:02x?}", direction.tag(run));
                    report(Finding::new(line, Fix::Remove(at)));
                    return;
                };
                let counts = counted.entry((from, direction)).or_default();
                match is_met {
                    true => counts.met += 1,
                    false => counts.open += 1,
                }
                all.push(((from, to), is_met, row));
            })?;
            for ((from, to), is_met, row) in all {
                let edge = match direction {
                    Direction::Dependent => ((from, to), is_met),
                    Direction::Dependency => ((to, from), is_met),
                };
                pair(view, (direction, run), (edge, row), &known, report)?;
            }
        }
        counts(view, run, &mut counted, &known, report)?;
    }
    Ok(())
}

/// Compares both rows of an edge, and looks at its tasks.
fn pair(
    view: &dyn View,
    (direction, run): (Direction, Run),
    (edge, row): (Edge, Option<Value>),
    known: &EdgedTasks,
    report: Findings<'_>,
) -> Result<()> {
    let ((earlier, later), is_met) = edge;
    let at = |direction, is_met| keyed((direction, run), (earlier, later), is_met);
    let (own, twin_at) = (at(direction, is_met), at(direction.other(), is_met));
    let twin = view.row(&twin_at)?;
    let (from, to) = match direction {
        Direction::Dependent => (earlier, later),
        Direction::Dependency => (later, earlier),
    };
    let find = |line: String, fix: Fix| {
        let finding = Finding::new(line, fix).about(About::Id(later));
        finding.beside(key::copy(&twin_at)).beside(key::copy(&own))
    };
    let tag = direction.tag(run);
    let tube = |id: TaskId| known.tasks.get(&id).map_or(0, |task| task.number);
    let stated = row.as_deref().and_then(EdgeRow::decode);
    let said = twin.as_ref().and_then(|(_, row)| row.as_deref()).and_then(EdgeRow::decode);
    let (Some(row), Some((_, _))) = (stated.or(said), &twin) else {
        // Without the other one, or where both are damaged, it is not known what is right: the
        // later task waits, and by the policy of the default goes on waiting.
        let lost = EdgeRow { on: On::Success, orphaned: Orphaned::Hold, tube: 0 };
        let row = stated.unwrap_or(lost);
        if stated.is_none() {
            let line = format!("{tag:?}: a row that cannot be read: {own:02x?}");
            let value = EdgeRow { tube: tube(to), ..row }.encode();
            report(find(line, Fix::Set(key::copy(&own), value)));
        }
        if twin.is_none() {
            let line = format!("{tag:?}: a row without its other one: {own:02x?}");
            let other = at(direction, !is_met);
            let fix = match view.row(&other)?.is_some() {
                true => Fix::Remove(key::copy(&own)),
                false => {
                    let value = EdgeRow { tube: tube(from), ..row }.encode();
                    Fix::Set(key::copy(&twin_at), value)
                }
            };
            report(find(line, fix).beside(other));
        }
        return Ok(());
    };
    agreed(view, (direction, run), (edge, row, [stated, said]), known, report)
}

/// The same of an edge of which both rows are there, and one of them at least says what it is.
fn agreed(
    view: &dyn View,
    (direction, run): (Direction, Run),
    (edge, row, [stated, said]): (Edge, EdgeRow, [Option<EdgeRow>; 2]),
    known: &EdgedTasks,
    report: Findings<'_>,
) -> Result<()> {
    let ((earlier, later), is_met) = edge;
    let at = |direction, is_met| keyed((direction, run), (earlier, later), is_met);
    let (own, twin_at) = (at(direction, is_met), at(direction.other(), is_met));
    let find = |line: String, fix: Fix| {
        let finding = Finding::new(line, fix).about(About::Id(later));
        finding.beside(key::copy(&twin_at)).beside(key::copy(&own))
    };
    let (tag, to) = match direction {
        Direction::Dependent => (direction.tag(run), later),
        Direction::Dependency => (direction.tag(run), earlier),
    };
    let tube = |id: TaskId| known.tasks.get(&id).map_or(0, |task| task.number);
    let is_known =
        |id| known.tasks.contains_key(&id) && query::moved_to(view, id).ok() == Some(None);
    let number = match is_known(to) {
        true => tube(to),
        false => stated.map_or(0, |row| row.tube),
    };
    let right = EdgeRow { tube: number, ..row };
    if stated != Some(right) {
        let line = format!("{tag:?}: a wrong row: {own:02x?}");
        report(find(line, Fix::Set(key::copy(&own), right.encode())));
    } else if direction == Direction::Dependent && said.is_some_and(|said| !is_alike(row, said)) {
        let line = format!("{tag:?}: its other row says something else: {own:02x?}");
        let value = EdgeRow { tube: tube(earlier), ..row }.encode();
        report(find(line, Fix::Set(key::copy(&twin_at), value)));
    }
    if direction == Direction::Dependent {
        return Ok(());
    }
    if is_met && view.row(&at(direction, false))?.is_some() {
        let line = format!("{tag:?}: an edge that is both open and met: {own:02x?}");
        report(find(line, Fix::Remove(key::copy(&own))));
    }
    ends(view, run, (edge, &row), known, report)
}

/// The key of an edge, in this direction.
fn keyed(
    (direction, run): (Direction, Run),
    (earlier, later): (TaskId, TaskId),
    is_met: bool,
) -> Key {
    match direction {
        Direction::Dependent => key::edge(direction, run, (earlier, later), is_met),
        Direction::Dependency => key::edge(direction, run, (later, earlier), is_met),
    }
}

fn is_alike(row: EdgeRow, other: EdgeRow) -> bool {
    EdgeRow { tube: 0, ..row } == EdgeRow { tube: 0, ..other }
}

/// Reports an end that an edge has not learnt, and that no work lets it learn.
fn ends(
    view: &dyn View,
    run: Run,
    (((earlier, later), is_met), row): (Edge, &EdgeRow),
    known: &EdgedTasks,
    report: Findings<'_>,
) -> Result<()> {
    let work = |kind, id| key::work(kind, scope(run), id);
    let has = |kind, id| view.row(&work(kind, id)).map(|row| row.is_some());
    let rows = || {
        [
            key::edge(Direction::Dependent, run, (earlier, later), is_met),
            key::edge(Direction::Dependency, run, (later, earlier), is_met),
        ]
    };
    let is_unknown = |id| known.unknown.contains(&id) && !known.tasks.contains_key(&id);
    if !known.tasks.contains_key(&later)
        && !is_unknown(later)
        && !has(Work::Unlink, later)?
        && !has(Work::Linking, later)?
    {
        let line = format!("task {later}: it is gone, and no work removes its edges");
        let at = work(Work::Unlink, later);
        let finding = Finding::new(line, Fix::Set(key::copy(&at), Value::EMPTY)).beside(at);
        report(rows().into_iter().fold(finding.about(About::Id(later)), Finding::beside));
    }
    if is_met || is_unknown(earlier) {
        return Ok(());
    }
    let cascade = view.row(&work(Work::Cascade, earlier))?.map(|(_, row)| row);
    // A damaged row begins again.
    let from = |row: Option<Value>| row.as_deref().and_then(CascadeRow::decode).map(|it| it.from);
    if cascade.is_some_and(|row| from(row).unwrap_or_default() <= later.get()) {
        return Ok(());
    }
    let (ended, tube) = match known.tasks.get(&earlier) {
        None => (TaskEnds { gone: true, ..TaskEnds::default() }, 0),
        Some(task) => match task.state {
            State::Done => (TaskEnds { done: true, ..TaskEnds::default() }, task.number),
            State::Buried => (TaskEnds { buried: true, ..TaskEnds::default() }, task.number),
            _ => return Ok(()),
        },
    };
    // A put that goes on learns at its end that its task is cancelled.
    let linking = view.row(&work(Work::Linking, later))?.and_then(|(_, row)| row);
    let linking = linking.as_deref().and_then(LinkingRow::decode);
    let has_left = has(Work::Unlink, later)? || linking.is_some_and(|it| it.is_cancelled);
    if !has_left && fate(row, ended) != Fate::Stays {
        let line = format!("task {earlier}: it has ended, and no work lets task {later} learn it");
        let at = work(Work::Cascade, earlier);
        let work = CascadeRow { ended, tube, buried_to: u64::MAX, ..CascadeRow::default() };
        let value = work.encode();
        let finding = Finding::new(line, Fix::Set(key::copy(&at), value)).beside(at);
        report(rows().into_iter().fold(finding.about(About::Id(earlier)), Finding::beside));
    }
    Ok(())
}

/// Compares how many edges tasks say that they have with those that there are.
fn counts(
    view: &dyn View,
    run: Run,
    counted: &mut BTreeMap<(TaskId, Direction), EdgeCounts>,
    known: &EdgedTasks,
    report: Findings<'_>,
) -> Result<()> {
    let of_run = known.tasks.iter().filter(|(_, task)| scope(task.run) == scope(run));
    for (id, task) in of_run {
        let unlinks = view.row(&key::work(Work::Unlink, scope(run), *id))?.is_some();
        for direction in Direction::BOTH {
            let mut is = counted.remove(&(*id, direction)).unwrap_or_default();
            if direction == Direction::Dependency && unlinks {
                // They are not its own any more.
                is = EdgeCounts::default();
            }
            let stated = task.counts.get(&direction).copied().unwrap_or_default();
            let waits = task.state == State::Blocked;
            let may_wait = waits || task.state == State::Buried;
            let is_wrong = direction == Direction::Dependency
                && (waits && is.open == 0 || !may_wait && is.open > 0);
            if stated != is || is_wrong {
                let line = format!(
                    "task {id}: it is {:?} and states {stated:?}, but has {is:?} as {direction:?}",
                    task.state
                );
                let fix = Fix::Edges(task.number, *id);
                let finding = Finding::new(line, fix).about(About::Task(task.number, *id));
                report(finding.beside(key::work(Work::Unlink, scope(run), *id)));
            }
        }
    }
    linking(view, run, counted, report)
}

/// The same of the work of puts that write edges.
fn linking(
    view: &dyn View,
    run: Run,
    counted: &BTreeMap<(TaskId, Direction), EdgeCounts>,
    report: Findings<'_>,
) -> Result<()> {
    let mut rows = Scan::prefixed(key::work_of_run(Work::Linking, scope(run)));
    while let Some((at, row)) = rows.next(view)? {
        let Some(id) = task_of_work(&at) else { continue };
        let is = counted.get(&(id, Direction::Dependency)).copied().unwrap_or_default();
        let work = row.as_deref().and_then(LinkingRow::decode);
        if let Some(work) = work.filter(|work| work.counts != is) {
            let line = format!("task {id}: the work of its put counts other edges than {is:?}");
            let right = LinkingRow { counts: is, ..work };
            report(Finding::new(line, Fix::Set(at, right.encode())));
        }
    }
    Ok(())
}

/// What is wrong with a row of work on the edges of a task.
pub(super) fn work(
    view: &dyn View,
    (kind, at, row): (Work, Key, Option<Value>),
    known: &EdgedTasks,
) -> Option<Finding> {
    let (run, id) = (key::run_of_work(&at)?, task_of_work(&at)?);
    let task = known.tasks.get(&id).filter(|task| scope(task.run) == run);
    let has = |direction| {
        let counts = task.and_then(|task| task.counts.get(&direction));
        counts.is_some_and(|counts| !counts.is_empty())
    };
    let (what, fix) = match kind {
        Work::Cascade => match row.as_deref().and_then(CascadeRow::decode) {
            None => ("it cannot be read", Fix::Remove(key::copy(&at))),
            Some(row) => cascade(view, (&at, id), row, task)?,
        },
        Work::Unlink if row.as_deref().is_none_or(|row| !row.is_empty()) => {
            ("it cannot be read", Fix::Set(key::copy(&at), Value::EMPTY))
        }
        Work::Unlink if has(Direction::Dependency) => {
            ("the task has not ended", Fix::Remove(key::copy(&at)))
        }
        Work::Linking if row.as_deref().and_then(LinkingRow::decode).is_none() => {
            ("it cannot be read", Fix::Remove(key::copy(&at)))
        }
        Work::Linking if task.is_some() => ("the task is there", Fix::Remove(key::copy(&at))),
        _ => return None,
    };
    let line = format!("Work: on the edges of task {id}: {what}: {at:02x?}");
    Some(Finding::new(line, fix).about(About::Id(id)))
}

/// What is wrong with the work on the end of a task, and what mends it.
fn cascade(
    view: &dyn View,
    (at, id): (&Key, TaskId),
    row: CascadeRow,
    task: Option<&EdgedTask>,
) -> Option<(&'static str, Fix)> {
    let (task, ended) = (task?, row.ended);
    // A repair buries one that is done if its row is damaged.
    let is_done = match task.state {
        State::Done => true,
        State::Buried => ended.buried,
        _ => false,
    };
    if ended.gone || ended.done && !is_done {
        return Some(("the task has not ended so", Fix::Remove(key::copy(at))));
    }
    // The row of a task that came from another tube leads to it.
    if task.number == row.tube || query::moved_to(view, id).ok() != Some(None) {
        return None;
    }
    let right = CascadeRow { tube: task.number, ..row };
    Some(("the task is in another tube", Fix::Set(key::copy(at), right.encode())))
}
