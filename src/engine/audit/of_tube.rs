//! The audit of one tube: every task is in exactly one state, and has all rows that belong to it
//! and no others.

use super::seen::{Audit, CountedGroup, Seen};
use super::strays::has_id;
use super::{About, Finding, Fix, NO_TASK, Remains, Sum, is_there};
use crate::engine::stored::{self, TaskRef, TaskState};
use crate::engine::{follow, groups, keys, merge, position, retention, settle, state_rows};
use crate::format::key::{self, Key, Range, Work};
use crate::format::row::{TakenRow, TaskRow, WorkRow};
use crate::format::{Scan, Tag, Value, row};
use crate::words::clock::NEVER;
use crate::words::error::Result;
use crate::words::task::TaskId;
use crate::words::task_gates::is_line;

/// The tags of the rows that give a state. Of two states of a task the one that comes first here
/// stays: what has ended does not run again, and a lease keeps its holder.
const STATES: [Tag; 8] = [
    Tag::Done,
    Tag::Trashed,
    Tag::Buried,
    Tag::Taken,
    Tag::Blocked,
    Tag::Delayed,
    Tag::Line,
    Tag::Ready,
];

impl Audit<'_> {
    /// Returns the rows that must lead to tasks of the tube.
    pub(super) fn walk(mut self) -> Result<Seen> {
        for tag in STATES {
            let mut rows = Scan::over(self.tube.range(tag));
            while let Some((met, row)) = rows.next(self.view)? {
                self.row(tag, met, row);
            }
        }
        self.fresh()?;
        self.works();
        self.expect_groups();
        self.expect_failure_groups();
        self.expect_kept();
        for tag in Tag::in_runs().filter(|tag| *tag != Tag::Day) {
            self.compare(tag)?;
        }
        self.compare_days()?;
        self.failed?;
        let (number, damaged) = (self.tube.number, self.damaged);
        let lost = self.strays.into_iter().filter(|(id, _)| !damaged.contains(id));
        let edged = self.edged;
        let remains: Vec<_> = lost
            .map(|(id, keys)| {
                let name = self.tube.row.name.clone();
                Remains { number, name, id, keys }
            })
            .collect();
        Ok(Seen { led: self.led, remains, edged, damaged })
    }

    /// The task of a row that gives a state, or of a fresh task's row.
    fn row(&mut self, tag: Tag, met: Key, row: Option<Value>) {
        let Some(id) = key::id_of(&met) else { return };
        // The comparison of its range reports a damaged row.
        let Some(row) = row else {
            self.damaged.insert(id);
            self.expect(tag, met, None);
            return;
        };
        let seen = stored::open(self.view, self.tube, &met, &row).and_then(|(stored, it)| {
            let stored = stored.whole(self.view, self.tube)?;
            let is_lost = stored.task(self.tube).is_err();
            let stored = if is_lost { self.at_home(id, stored)? } else { stored };
            let task = stored.task(self.tube)?;
            self.task(tag, (&task, &it), &met);
            Ok(())
        });
        if let Err(error) = seen {
            self.damaged.insert(id);
            self.say_of(id, error.to_string(), Fix::Task(self.tube.number, met));
        }
    }

    /// The fresh tasks. No task after the first of them may have a row that gives its state.
    fn fresh(&mut self) -> Result<()> {
        let (mut rows, mut fresh) = (Scan::over(self.tube.range(Tag::Fresh)), Vec::new());
        while let Some((met, row)) = rows.next(self.view)? {
            let Some(id) = key::id_of(&met) else { continue };
            if !self.ids.contains(&id) {
                if row.as_deref().and_then(TaskRow::decode).is_some_and(|row| row.group.is_some()) {
                    let fix = Fix::Fresh(self.tube.number, key::copy(&met));
                    self.say_of(id, "it is fresh, and of a group".to_owned(), fix);
                }
                fresh.push(key::copy(&met));
                self.row(Tag::Fresh, met, row);
                continue;
            }
            for before in fresh.drain(..) {
                let first = key::id_of(&before).unwrap_or(id);
                let line = format!("task {id}: it stands after the fresh task {first}");
                self.say_about(first, line, Fix::Fresh(self.tube.number, before));
            }
        }
        Ok(())
    }

    /// A task, with the row that gives its state, or its own if it is fresh.
    fn task(&mut self, tag: Tag, (task, state): (&TaskRef<'_>, &TaskState), met: &Key) {
        let (run, id) = (self.tube.run(), task.id);
        if !self.ids.insert(id) {
            self.say_of(id, "it is in two states".to_owned(), Fix::Remove(key::copy(met)));
        }
        if let Some((key, value)) = state_rows::state_row(task, state) {
            self.expect(tag, key, Some(value));
        }
        let own = if task.home.is_fresh { Tag::Fresh } else { Tag::Task };
        self.expect(own, key::task(run, &task.home, id), None);
        if task.has_position() {
            self.expect(Tag::Position, key::position(run, id), Some(task.position_row()));
        }
        let deadlines = state.deadlines(self.tube).into_iter();
        for (what, when) in deadlines.filter(|(_, when)| *when != NEVER) {
            let row = state_rows::due_row(task, state, what);
            self.expect(Tag::Due, key::due(run, what, when, id), Some(row));
        }
        for key in state_rows::index_keys(task, state) {
            let range = Range::holding(&key);
            if let Some(Range { tag, .. }) = range.filter(|it| it.run == Some(run)) {
                self.expect(tag, key, Some(Value::EMPTY));
            } else if !is_there(self.view, &key).unwrap_or(true) {
                let is_slot = range.is_some_and(|range| range.tag == Tag::Slot);
                let what =
                    if is_slot { "a slot that it holds" } else { "the queue's row of its failure" };
                self.say_of(id, format!("{what} is missing"), Fix::Set(key, Value::EMPTY));
            }
        }
        self.own_row(task, state);
        self.fields((task, state), met);
        if let TaskState::Taken(taken) = state {
            self.lease(id, taken);
        }
        self.sums(task, state);
        self.history(id, state.progress());
        self.reports(id, state.progress());
        self.tags(id, state.progress());
        self.edges(task, state);
        for (key, value) in keys::rows(task, state) {
            match Range::holding(&key) {
                Some(Range { tag, run: Some(_) }) => self.expect(tag, key, Some(value)),
                _ if self.view.get(&key).ok().flatten().is_some_and(|kept| kept == value) => {}
                _ => {
                    let what = "no row of its key leads to it".to_owned();
                    self.say_of(id, what, Fix::Set(key, value));
                }
            }
        }
        self.in_group(task, state);
    }

    fn in_group(&mut self, task: &TaskRef<'_>, state: &TaskState) {
        let Some(name) = task.group else { return };
        let head = key::open_head(self.tube.run(), &task.place, task.id);
        let group = self.groups.entry(name.to_owned()).or_default();
        // Of tasks with gates of their own the slots are counted.
        if !is_line(name) {
            group.in_flight += state_rows::in_flight(Some(state)) as u64;
        }
        if matches!(state, TaskState::Ready(_))
            && group.first.as_ref().is_none_or(|first| head < *first)
        {
            group.first = Some(head);
        }
    }

    /// What a task adds to the counts of failure groups and to the sums of kept bytes.
    fn sums(&mut self, task: &TaskRef<'_>, state: &TaskState) {
        if let Some((tag, bytes)) = retention::counted(task, Some(state)) {
            let kept = self.kept.entry(key::kept(self.tube.run(), tag)).or_default();
            *kept = kept.saturating_add(bytes);
        }
        if let TaskState::Buried(buried) = state
            && let Some(group) = buried.failure_group()
        {
            let group = self.failures.entry(group.to_owned()).or_default();
            group.tasks += 1;
            group.is_counted |= buried.is_of_counted_group();
        }
    }

    fn lease(&mut self, id: TaskId, taken: &TakenRow) {
        let (run, tube) = (self.tube.run(), self.tube.number);
        let row_of = |key: &Key| self.view.get(key).ok().flatten();
        let (work, consumer) =
            (key::work(Work::Release, run, NO_TASK), key::consumer(taken.holder));
        let sweep = row_of(&work).map(|row| WorkRow::decode(&row).unwrap_or_default());
        let comes = sweep.as_ref().is_some_and(|sweep| sweep.from <= id.get());
        if settle::is_voided(self.tube, taken) && !comes {
            // It begins again.
            let row = WorkRow { tube, from: 0, ..sweep.unwrap_or_default() };
            let what = "its lease is void, and no sweep returns it".to_owned();
            self.say_of(id, what, Fix::Set(work, row.encode()));
        } else if taken.holder != 0 && row_of(&consumer).is_none() {
            let line = format!("task {id}: its consumer {} does not exist", taken.holder);
            let finding = Finding::new(self.line(line), Fix::Lease(tube, id)).beside(consumer);
            (self.report)(finding.about(About::Task(tube, id)));
        }
    }

    /// What the row of a tube says is left is done by some work: rows follow a change of options,
    /// how far each group does shows, and tasks are moved until the tube hands out some again.
    fn works(&mut self) {
        let (tube, row) = (self.tube, &self.tube.row);
        let left = [
            (
                row.pending.is_any(),
                follow::work_of(tube),
                "rows have to follow a change of its options, and no sweep lets them",
            ),
            (
                row.merges_into().is_some(),
                merge::work_of(tube),
                "it is merged into another one, and no work goes on",
            ),
        ];
        for (_, work, line) in left.into_iter().filter(|(is_left, ..)| *is_left) {
            if !is_there(self.view, &work).unwrap_or(true) {
                let fix = Fix::Set(work, WorkRow::of_tube(tube.number).encode());
                let finding = Finding::new(self.line(line.to_owned()), fix);
                (self.report)(finding.beside(key::tube(tube.number)));
            }
        }
    }

    fn expect_groups(&mut self) {
        for (name, group) in std::mem::take(&mut self.groups) {
            let key = key::group(self.tube.run(), &name);
            let kept = self.view.get(&key).ok().flatten();
            let kept = kept.map_or(Some(0), |kept| row::read_number(&kept));
            if kept != Some(group.in_flight) {
                let line =
                    format!("group {name:?}: {} in flight, stored {kept:?}", group.in_flight);
                self.say(line, Fix::Nothing);
            }
            if group.in_flight > 0 {
                self.expect(Tag::Group, key, Some(row::number(group.in_flight)));
            }
            if group.in_flight < self.tube.row.most_in_flight(&name)
                && let Some(head) = group.first
            {
                let place = position::in_key(&head, key::RUN_PREFIX).ok();
                let closed = place.and_then(|(place, id)| {
                    groups::closed_head(self.view, self.tube, &name, (&place, id)).ok().flatten()
                });
                let (tag, key) = match closed {
                    Some(closed) => (Tag::ClosedHead, closed),
                    None => (Tag::OpenHead, head),
                };
                self.expect(tag, key, Some(groups::group_value(&name)));
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
                let line = format!("failure group {group:?}: {tasks} tasks, stored {kept:?}");
                self.say(line, Fix::Nothing);
            }
            self.expect(Tag::FailureGroup, key, Some(row::number(tasks)));
        }
    }

    fn expect_kept(&mut self) {
        for (key, bytes) in std::mem::take(&mut self.kept) {
            let kept = self.view.get(&key).ok().flatten();
            let kept = kept.and_then(|kept| row::read_number(&kept)).unwrap_or(0);
            if kept != bytes {
                let line = format!("Kept: {bytes} bytes, but the stored sum is {kept}: {key:02x?}");
                self.say(line, Fix::Nothing);
            }
            if bytes > 0 {
                self.expect(Tag::Kept, key, Some(row::number(bytes)));
            }
        }
    }

    /// Compares a range with the rows that the tasks require, and with its stored count.
    fn compare(&mut self, tag: Tag) -> Result<()> {
        let mut expected = self.expected.remove(&tag).unwrap_or_default();
        let (mut rows, mut seen) = (Scan::over(self.tube.range(tag)), 0_u64);
        while let Some((met, row)) = rows.next(self.view)? {
            seen += 1;
            match (expected.remove(&met), row) {
                (Some(Some(value)), row) if row.as_ref() != Some(&value) => {
                    let is_sound = row.is_some();
                    let line = if is_sound { wrong(tag, &met) } else { damaged_row(tag, &met) };
                    self.say_row(tag, line, set(tag, met, value, row.as_ref()));
                }
                (Some(_), Some(_)) => {}
                (Some(_), None) => {
                    let line = damaged_row(tag, &met);
                    let fix = Fix::Task(self.tube.number, met);
                    self.say_row(tag, line, fix);
                }
                (None, row) => self.stray(tag, met, row),
            }
        }
        let stored = self.view.count(self.tube.range(tag));
        if stored != seen {
            let line = format!("{tag:?}: {seen} rows, but the stored count is {stored}");
            self.say(line, Fix::Nothing);
        }
        for (key, value) in expected {
            let line = format!("{tag:?}: a row is missing: {key:02x?}");
            let fix = value.map_or(Fix::Nothing, |value| set_missing(tag, key, value));
            self.say_row(tag, line, fix);
        }
        Ok(())
    }

    /// A row that no task requires.
    fn stray(&mut self, tag: Tag, met: Key, row: Option<Value>) {
        if row.is_none() {
            self.say(damaged_row(tag, &met), Fix::Nothing);
        }
        let line = format!("{tag:?}: a row without a task: {met:02x?}");
        let sum = row.as_deref().and_then(row::read_number);
        let id = key::id_of(&met).filter(|_| has_id(tag));
        let fix = match (sum, id) {
            (stored @ Some(_), None) => Fix::Sum(Sum { key: met, is: 0, stored }),
            (None, None) => Fix::Remove(met),
            (_, Some(id)) if self.ids.contains(&id) => Fix::Remove(met),
            (_, Some(id)) if tag.state().is_some() || Tag::TASKS.contains(&tag) => {
                self.damaged.insert(id);
                Fix::Task(self.tube.number, met)
            }
            (_, Some(id)) => {
                self.strays.entry(id).or_default().push(met);
                Fix::Nothing
            }
        };
        self.say_row(tag, line, fix);
    }
}

/// What mends a row that has another value. A count may change before it is mended.
fn set(tag: Tag, key: Key, value: Value, row: Option<&Value>) -> Fix {
    match row::read_number(&value).filter(|_| !has_id(tag)) {
        Some(is) => {
            let stored = row.and_then(|row| row::read_number(row));
            Fix::Sum(Sum { key, is, stored })
        }
        None => Fix::Set(key, value),
    }
}

/// The same of a row that is missing. Without its row a group of failures is counted when it is
/// needed, and any other sum is 0.
fn set_missing(tag: Tag, key: Key, value: Value) -> Fix {
    match row::read_number(&value).filter(|_| matches!(tag, Tag::Group | Tag::Kept)) {
        Some(is) => Fix::Sum(Sum { key, is, stored: Some(0) }),
        None => Fix::Set(key, value),
    }
}

fn damaged_row(tag: Tag, key: &[u8]) -> String {
    format!("{tag:?}: a damaged row: {key:02x?}")
}

/// A row that is not what the task's other rows say.
fn wrong(tag: Tag, key: &[u8]) -> String {
    let id = key::id_of(key).map_or(0, TaskId::get);
    if tag == Tag::Position {
        format!("task {id}: its position row is wrong")
    } else if tag.state().is_some() {
        format!("task {id}: its rows do not agree")
    } else {
        format!("{tag:?}: a wrong row: {key:02x?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_rows_of_every_state_are_walked() {
        assert_eq!(Tag::states().collect::<BTreeSet<_>>(), BTreeSet::from(STATES));
    }
}
