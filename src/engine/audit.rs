//! Checks that all rows agree: every task is in exactly one state, all rows that belong to a state
//! exist and no others, and the stored counts are correct. Reads every row; for `check`, and for
//! tests after each of their steps.

use crate::engine::context::sound;
use crate::engine::pieces::owner_of;
use crate::engine::stored::{self, TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{consumers, keys, query, retention, settle, transition};
use crate::format::key::{self, Key, Range, Run, Work};
use crate::format::piece::PieceWork;
use crate::format::row::{Counters, TakenRow, TaskRow, WorkRow};
use crate::format::{Met, Scan, Tag, Value, View, row};
use crate::words::clock::NEVER;
use crate::words::error::{ErrorKind, Result};
use crate::words::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

mod histories;
mod own_rows;
mod reports;
mod payloads;
mod settings;

use payloads::NamedPieces;

/// Reports each disagreement as one line.
pub(crate) fn audit(view: &dyn View, report: &mut dyn FnMut(String)) -> Result<()> {
    let (mut tubes, mut led) = (BTreeMap::new(), BTreeSet::new());
    for number in query::numbers(view)? {
        let Some(tube) = query::sound_tube(view, number)? else {
            report(format!("tube {number}: its row is damaged"));
            continue;
        };
        if query::tube_named(view, &tube.row.name)? != Some(number) {
            report(format!("tube {:?}: its name row does not refer to it", tube.row.name));
        }
        led.append(&mut Audit::of(view, &tube, report).walk()?);
        tubes.insert(tube.run(), tube);
    }
    names(view, report)?;
    numbers(view, &tubes, report)?;
    let mut named = NamedPieces::default();
    work(view, &tubes, &mut named, report)?;
    payloads::audit(view, named, report)?;
    failed(view, report)?;
    queue_keys(view, &tubes, report)?;
    settings::audit(view, report)?;
    moved(view, &tubes, led, report)?;
    strays(view, &tubes, report)?;
    durable_bytes(view, report)
}

type Tubes = BTreeMap<Run, TubeEntry>;

/// In the key of work that is not about one task.
const NO_TASK: TaskId = TaskId::new(0);

fn is_damaged<T>(read: &Result<T>) -> bool {
    read.as_ref().is_err_and(|error| error.kind() == ErrorKind::Damaged)
}

/// Reports names of tubes that do not exist, and consumers without a name row.
fn names(view: &dyn View, report: &mut dyn FnMut(String)) -> Result<()> {
    for name in query::names(view, "")? {
        if is_damaged(&view.get(&key::name(&name))) {
            report(format!("name {name:?}: its row is damaged"));
        }
        let found = query::tube_named(view, &name)
            .and_then(|number| query::tube(view, number.unwrap_or_default()));
        let leads = match found {
            Err(error) if error.is_not_found() => false,
            found if is_damaged(&found) => true,
            tube => tube?.row.name == name,
        };
        if !leads {
            report(format!("name {name:?}: there is no such tube"));
        }
    }
    let mut expected = BTreeSet::new();
    for (number, row) in consumers::all(view)? {
        let key = key::consumer_name(&row.name);
        let named = sound(query::numbered(view.get(&key), "consumer"))?.flatten();
        if named != Some(number) {
            report(format!("consumer {:?}: its name row does not refer to it", row.name));
        }
        expected.insert(key);
    }
    let mut rows = Scan::over(Range::of(Tag::ConsumerName));
    while let Some((key, _)) = rows.next(view)? {
        if !expected.contains(&key) {
            report(format!("ConsumerName: a name of a consumer that does not exist: {key:02x?}"));
        }
    }
    Ok(())
}

/// Reports numbers in use that the counters would assign again.
fn numbers(view: &dyn View, tubes: &Tubes, report: &mut dyn FnMut(String)) -> Result<()> {
    let given = match query::counters(view) {
        given if is_damaged(&given) => {
            report("Meta: the counters are damaged".to_owned());
            return Ok(());
        }
        given => given?,
    };
    let tube = tubes.values().map(|tube| tube.number).max();
    let run = tubes.keys().map(|run| run.0 & !Run::TEMPORARY).max();
    let consumer = consumers::all(view)?.into_iter().map(|(number, _)| number).max();
    let pairs = [(tube, given.tube), (run, given.run), (consumer, given.consumer)];
    for ((used, given), what) in pairs.into_iter().zip(["tube", "run", "consumer"]) {
        if let Some(used) = used.filter(|used| *used > given) {
            report(format!("{what} {used} is in use, but {given} is the last that was assigned"));
        }
    }
    let mut rows = Scan::over(Range::of(Tag::Meta));
    while let Some((key, _)) = rows.next(view)? {
        if key != key::meta(Counters::WHAT) {
            report(format!("Meta: an unknown row: {key:02x?}"));
        }
    }
    Ok(())
}

/// Reports sweeps that would remove rows in use, or that cannot run. Names the pieces that work is
/// about.
fn work(
    view: &dyn View,
    tubes: &Tubes,
    named: &mut NamedPieces,
    report: &mut dyn FnMut(String),
) -> Result<()> {
    let mut rows = Scan::over(Range::of(Tag::Work));
    while let Some((key, row)) = rows.next(view)? {
        let kind = Work::ALL.into_iter().find(|kind| key.starts_with(&key::work_of(*kind)));
        let Some(kind) = kind else {
            report(format!("Work: an unknown kind of work: {key:02x?}"));
            continue;
        };
        let is_sweep_of_run = matches!(kind, Work::Clear | Work::Release);
        let ((run, id), generation) = owner_of(&key).unwrap_or(((Run::QUEUE, NO_TASK), 1));
        let expected = match is_sweep_of_run {
            true => key::work(kind, run, NO_TASK),
            false => key::piece_work(kind, run, id, generation),
        };
        if key != expected {
            report(format!("Work: an invalid key: {key:02x?}"));
            continue;
        }
        let tube = tubes.get(&run).map(|tube| tube.number);
        let (row, decoded) = (row.as_deref(), row.as_deref().and_then(WorkRow::decode));
        match (kind, decoded, row.and_then(PieceWork::decode)) {
            (Work::Clear, Some(_), _) if tube.is_some() => {
                report(format!("Work: a sweep would clear tube {tube:?}"));
            }
            // If the tube no longer exists, the sweep ends at once.
            (Work::Release, Some(work), _) if tube.is_some_and(|tube| tube != work.tube) => {
                let of = work.tube;
                report(format!("Work: a sweep of tube {of} under the run of {tube:?}"));
            }
            (Work::Clear | Work::Release, Some(_), _) => {}
            (Work::Staged | Work::Pieces, _, Some(work)) => {
                if work.to != PieceWork::UNKNOWN && work.generation != generation {
                    report(format!("Work: on the pieces of another payload: {key:02x?}"));
                }
                named.by_work(((run, id), generation), &work, report);
            }
            _ => report(format!("Work: a damaged row: {key:02x?}")),
        }
    }
    Ok(())
}

/// Reports the damaged rows of a range, and if the stored count is not their number. `check` gets
/// every row.
fn walk(
    view: &dyn View,
    range: Range,
    report: &mut dyn FnMut(String),
    mut check: impl FnMut(Met, &mut dyn FnMut(String)),
) -> Result<()> {
    let (tag, mut rows, mut seen) = (range.tag, Scan::over(range), 0);
    while let Some((key, row)) = rows.next(view)? {
        seen += 1;
        if row.is_none() {
            report(format!("{tag:?}: a damaged row: {key:02x?}"));
        }
        check((key, row), report);
    }
    let stored = view.count(range);
    if stored != seen {
        report(format!("{tag:?}: {seen} rows, but the stored count is {stored}"));
    }
    Ok(())
}

/// Reports the queue's rows about buried tasks without the tube's row of that task.
fn failed(view: &dyn View, report: &mut dyn FnMut(String)) -> Result<()> {
    for tag in [Tag::Failed, Tag::FailedTemporary] {
        walk(view, Range::of(tag), report, |(key, _), report| {
            let beside = key::buried_group_beside(&key);
            if beside.is_none_or(|beside| !is_there(view, &beside).unwrap_or(true)) {
                report(format!("{tag:?}: a row without a task: {key:02x?}"));
            }
        })?;
    }
    Ok(())
}

/// Reports the queue's rows of keys without a row of the key in their tube. Those of a tube that is
/// gone, or of one that was truncated, a sweep removes with the rows under the old run.
fn queue_keys(view: &dyn View, tubes: &Tubes, report: &mut dyn FnMut(String)) -> Result<()> {
    let cleared = cleared_runs(view)?;
    let runs: BTreeMap<u64, Run> =
        tubes.iter().map(|(run, tube)| (u64::from(tube.number), *run)).collect();
    walk(view, Range::of(Tag::KeyOfQueue), report, |(key, number), report| {
        let number = number.as_deref().and_then(row::read_number);
        let own = number.and_then(|number| runs.get(&number));
        let mut runs = own.into_iter().chain(&cleared).copied();
        let has_row = |run| {
            let beside = key::key_beside(&key, run);
            beside.is_some_and(|beside| is_there(view, &beside).unwrap_or(true))
        };
        if !runs.any(has_row) {
            report(format!("KeyOfQueue: a row without a task: {key:02x?}"));
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

/// Reports the rows that lead to tasks which came from other tubes, the entries of histories, and
/// what was reported of tasks, if there is no such task. `led` has those of the tasks that tubes
/// have.
fn moved(
    view: &dyn View,
    tubes: &Tubes,
    mut led: BTreeSet<Key>,
    report: &mut dyn FnMut(String),
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
            }
        }
        let mut tasks = Scan::over(Range::in_run(Tag::Task, run));
        while let Some((task, row)) = tasks.next(view)? {
            let Some(at) = key::id_of(&task).map(|id| key::moved(run, id)) else { continue };
            // Of a damaged task it is not known.
            let is_moved = row.as_deref().and_then(TaskRow::decode).map(|row| row.is_moved());
            if is_moved == Some(true) && !is_there(view, &at)? {
                report(format!("a row is missing that leads to a task to be cleared: {at:02x?}"));
            }
            if is_moved != Some(false) {
                led.insert(at);
            }
        }
    }
    let beside = [Tag::Moved, Tag::History, Tag::Report];
    let temporary = [Tag::MovedTemporary, Tag::HistoryTemporary, Tag::ReportTemporary];
    for tag in beside.into_iter().chain(temporary) {
        walk(view, Range::of(tag), report, |(key, _), report| {
            if !led.contains(&key) {
                report(format!("{tag:?}: a row without a task: {key:02x?}"));
            }
        })?;
    }
    Ok(())
}

fn is_there(view: &dyn View, key: &[u8]) -> Result<bool> {
    Ok(view.row(key)?.is_some())
}

/// Compares the stored total with the tasks, including those that a sweep still has to remove. It
/// may be too high only because of a task that cannot be read, whose row is reported.
fn durable_bytes(view: &dyn View, report: &mut dyn FnMut(String)) -> Result<()> {
    let (mut bytes, mut unknown) = (0_u64, false);
    for tag in Tag::TASKS {
        let mut rows = Scan::over(Range::of(tag));
        while let Some(met) = rows.next(view)?.filter(|(key, _)| !key::is_temporary(key)) {
            match transition::payload_bytes(view, met)? {
                Some(own) => bytes = bytes.saturating_add(own),
                None => unknown = true,
            }
        }
    }
    let kept = view.durable_bytes();
    if kept < bytes || kept > bytes && !unknown {
        report(format!("durable tubes hold {bytes} payload bytes, but the stored count is {kept}"));
    }
    Ok(())
}

/// Reports rows under a run that belongs to no tube, and that no sweep will remove.
fn strays(view: &dyn View, tubes: &Tubes, report: &mut dyn FnMut(String)) -> Result<()> {
    for tag in Tag::in_runs() {
        let mut rows = Scan::over(Range::of(tag));
        while let Some((met, _)) = rows.next(view)? {
            let Some(Range { run: Some(run), .. }) = Range::holding(&met) else {
                report(format!("{tag:?}: an invalid key: {met:02x?}"));
                continue;
            };
            rows.skip_to(Range::in_run(tag, run).end());
            if !tubes.contains_key(&run) && !is_there(view, &key::work(Work::Clear, run, NO_TASK))?
            {
                report(format!("{tag:?}: rows under run {}, which belongs to no tube", run.0));
            }
        }
    }
    Ok(())
}

struct Audit<'a> {
    view: &'a dyn View,
    tube: &'a TubeEntry,
    report: &'a mut dyn FnMut(String),
    /// The keys that the tasks require, by tag.
    expected: BTreeMap<Tag, BTreeSet<Key>>,
    groups: BTreeMap<String, Group>,
    failures: BTreeMap<String, CountedGroup>,
    /// Bytes of the tasks that have ended, by the key of their stored sum.
    kept: BTreeMap<Key, u64>,
    /// The rows that lead to tasks which came from other tubes, the entries of histories, and what
    /// was reported of tasks.
    led: BTreeSet<Key>,
    ids: BTreeSet<TaskId>,
}

#[derive(Default)]
struct CountedGroup {
    tasks: u64,
    /// Whether one of them came to it by a version that counts.
    is_counted: bool,
}

#[derive(Default)]
struct Group {
    in_flight: u64,
    first: Option<Key>,
}

impl<'a> Audit<'a> {
    fn of(view: &'a dyn View, tube: &'a TubeEntry, report: &'a mut dyn FnMut(String)) -> Self {
        let (expected, groups) = (BTreeMap::new(), BTreeMap::new());
        let (failures, kept) = (BTreeMap::new(), BTreeMap::new());
        let (led, ids) = (BTreeSet::new(), BTreeSet::new());
        Self { view, tube, report, expected, groups, failures, kept, led, ids }
    }

    /// Returns the rows that must lead to tasks of the tube.
    fn walk(mut self) -> Result<BTreeSet<Key>> {
        for tag in Tag::states() {
            let mut rows = Scan::over(self.tube.range(tag));
            while let Some((met, row)) = rows.next(self.view)? {
                self.row(tag, met, row);
            }
        }
        self.fresh()?;
        self.expect_groups();
        self.expect_failure_groups();
        self.expect_kept();
        for tag in Tag::in_runs() {
            self.compare(tag)?;
        }
        Ok(self.led)
    }

    /// The task of a row that gives a state, or of a fresh task's row.
    fn row(&mut self, tag: Tag, met: Key, row: Option<Value>) {
        let Some(id) = key::id_of(&met) else { return };
        // The comparison of its range reports a damaged row.
        let Some(row) = row else {
            self.expect(tag, met);
            return;
        };
        let seen = stored::open(self.view, self.tube, &met, &row).and_then(|(stored, it)| {
            let stored = stored.whole(self.view, self.tube)?;
            let task = stored.task(self.tube)?;
            if transition::state_row(&task, &it).is_some_and(|(_, value)| value != row) {
                self.say(format!("task {id}: its rows do not agree"));
            }
            self.task(tag, &task, &it);
            Ok(())
        });
        if let Err(error) = seen {
            self.say(format!("task {id}: {error}"));
        }
    }

    /// The fresh tasks. No task after the first of them may have a row that gives its state.
    fn fresh(&mut self) -> Result<()> {
        let (mut rows, mut first) = (Scan::over(self.tube.range(Tag::Fresh)), None);
        while let Some((met, row)) = rows.next(self.view)? {
            let Some(id) = key::id_of(&met) else { continue };
            match (self.ids.contains(&id), first) {
                (true, Some(fresh)) => {
                    self.say(format!("task {id}: it stands after the fresh task {fresh}"));
                }
                (true, None) => {}
                (false, _) => {
                    first = first.or(Some(id));
                    self.row(Tag::Fresh, met, row);
                }
            }
        }
        Ok(())
    }

    fn task(&mut self, tag: Tag, task: &TaskRef<'_>, standing: &TaskState) {
        let run = self.tube.run();
        if !self.ids.insert(task.id) {
            self.say(format!("task {}: it is in two states", task.id));
        }
        if let Some(key) = transition::state_key(task, standing) {
            self.expect(tag, key);
        }
        let own = if task.home.is_fresh { Tag::Fresh } else { Tag::Task };
        self.expect(own, key::task(run, &task.home, task.id));
        if task.has_position() {
            let key = key::position(run, task.id);
            let kept = self.view.get(&key).ok().flatten();
            if kept.is_some_and(|kept| kept != task.position_row()) {
                self.say(format!("task {}: its position row is wrong", task.id));
            }
            self.expect(Tag::Position, key);
        }
        let deadlines = standing.deadlines(self.tube).into_iter();
        for (what, when) in deadlines.filter(|(_, when)| *when != NEVER) {
            let key = key::due(run, what, when, task.id);
            let row = transition::due_row(task, standing, what);
            if self.view.get(&key).ok().flatten().is_some_and(|kept| kept != row) {
                self.say(format!("task {}: the row of its {what:?} is wrong", task.id));
            }
            self.expect(Tag::Due, key);
        }
        for key in transition::index_keys(task, standing) {
            match Range::holding(&key) {
                Some(Range { tag, run: Some(_) }) => self.expect(tag, key),
                _ if is_there(self.view, &key).unwrap_or(true) => {}
                _ => {
                    let id = task.id;
                    self.say(format!("task {id}: the queue's row of its failure is missing"));
                }
            }
        }
        self.own_row(task, standing);
        if let TaskState::Taken(taken) = standing {
            self.lease(task.id, taken);
        }
        self.sums(task, standing);
        self.history(task.id, standing.head());
        self.reports(task.id, standing.head());
        for (key, value) in keys::rows(task, standing) {
            match Range::holding(&key) {
                Some(Range { tag, run: Some(_) }) => self.expect(tag, key),
                _ if self.view.get(&key).ok().flatten().is_some_and(|kept| kept == value) => {}
                _ => self.say(format!("task {}: no row of its key leads to it", task.id)),
            }
        }
        if let Some(name) = task.group {
            let turn = key::turn(run, &task.place, task.id);
            let group = self.groups.entry(name.to_owned()).or_default();
            group.in_flight += transition::in_flight(Some(standing)) as u64;
            if matches!(standing, TaskState::Ready(_))
                && group.first.as_ref().is_none_or(|first| turn < *first)
            {
                group.first = Some(turn);
            }
        }
    }

    /// What a task adds to the counts of failure groups and to the sums of kept bytes.
    fn sums(&mut self, task: &TaskRef<'_>, standing: &TaskState) {
        if let Some((tag, bytes)) = retention::counted(task, Some(standing)) {
            *self.kept.entry(key::kept(self.tube.run(), tag)).or_default() += bytes;
        }
        if let TaskState::Buried(buried) = standing
            && let Some(group) = buried.failure_group()
        {
            let group = self.failures.entry(group.to_owned()).or_default();
            group.tasks += 1;
            group.is_counted |= buried.is_of_counted_group();
        }
    }

    /// A task that came from another tube.
    fn led(&mut self, id: TaskId) {
        let key = key::moved(self.tube.run(), id);
        let number = query::numbered(self.view.get(&key), "moved").ok().flatten();
        if number != Some(self.tube.number) {
            self.say(format!("task {id}: no row leads to it"));
        }
        self.led.insert(key);
    }

    fn lease(&mut self, id: TaskId, taken: &TakenRow) {
        let run = self.tube.run();
        let has = |key: Key| self.view.get(&key).ok().flatten().is_some();
        if settle::is_voided(self.tube, taken) && !has(key::work(Work::Release, run, NO_TASK)) {
            self.say(format!("task {id}: its lease is void, and no sweep returns it"));
        }
        if taken.holder != 0 && !has(key::consumer(taken.holder)) {
            self.say(format!("task {id}: its consumer {} does not exist", taken.holder));
        }
    }

    fn expect_groups(&mut self) {
        for (name, group) in std::mem::take(&mut self.groups) {
            let key = key::group(self.tube.run(), &name);
            let kept = self.view.get(&key).ok().flatten();
            let kept = kept.map_or(Some(0), |kept| row::read_number(&kept));
            if kept != Some(group.in_flight) {
                self.say(format!("group {name:?}: {} in flight, stored {kept:?}", group.in_flight));
            }
            if group.in_flight > 0 {
                self.expect(Tag::Group, key);
            }
            if group.in_flight < u64::from(self.tube.row.options.in_flight)
                && let Some(turn) = group.first
            {
                self.expect(Tag::Turn, turn);
            }
        }
    }

    /// The tasks of a group of a version without counts are counted when the group is next needed.
    fn expect_failure_groups(&mut self) {
        for (group, CountedGroup { tasks, is_counted }) in std::mem::take(&mut self.failures) {
            let key = key::failure_group(self.tube.run(), &group);
            let kept = self.view.get(&key).ok().flatten();
            if kept.is_none() && !is_counted {
                continue;
            }
            let kept = kept.and_then(|kept| row::read_number(&kept));
            if kept.is_some_and(|kept| kept != tasks) {
                self.say(format!("failure group {group:?}: {tasks} tasks, stored {kept:?}"));
            }
            self.expect(Tag::FailureGroup, key);
        }
    }

    fn expect_kept(&mut self) {
        for (key, bytes) in std::mem::take(&mut self.kept) {
            let kept = self.view.get(&key).ok().flatten();
            let kept = kept.and_then(|kept| row::read_number(&kept)).unwrap_or(0);
            if kept != bytes {
                self.say(format!("Kept: {bytes} bytes, but the stored sum is {kept}: {key:02x?}"));
            }
            if bytes > 0 {
                self.expect(Tag::Kept, key);
            }
        }
    }

    fn expect(&mut self, tag: Tag, key: Key) {
        self.expected.entry(tag).or_default().insert(key);
    }

    /// Compares a range with the keys that the tasks require, and with its stored count.
    fn compare(&mut self, tag: Tag) -> Result<()> {
        let mut expected = self.expected.remove(&tag).unwrap_or_default();
        let (view, range) = (self.view, self.tube.range(tag));
        walk(view, range, &mut |line| self.say(line), |(met, _), report| {
            if !expected.remove(&met) {
                report(format!("{tag:?}: a row without a task: {met:02x?}"));
            }
        })?;
        for missing in expected {
            self.say(format!("{tag:?}: a row is missing: {missing:02x?}"));
        }
        Ok(())
    }

    fn say(&mut self, line: String) {
        (self.report)(format!("tube {:?}: {line}", self.tube.row.name));
    }
}

#[cfg(test)]
mod tests;
