//! What the audit of a tube has seen so far, and how it reports what is wrong. It looks at no task.

use super::edged::{EdgedTasks, is_any};
use super::strays::has_id;
use super::{About, Finding, Findings, Fix, Remains};
use crate::engine::query;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Home, Key};
use crate::format::{Tag, Value, View, row};
use crate::words::error::Result;
use crate::words::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// An audit of one tube.
pub(super) struct Audit<'a> {
    pub(super) view: &'a dyn View,
    pub(super) tube: &'a TubeEntry,
    pub(super) report: Findings<'a>,
    /// The keys that the tasks require, by tag, with the value where other rows say it.
    pub(super) expected: BTreeMap<Tag, BTreeMap<Key, Option<Value>>>,
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) failures: BTreeMap<String, CountedGroup>,
    /// Bytes of the tasks that have ended, by the key of their stored sum.
    pub(super) kept: BTreeMap<Key, u64>,
    /// The rows that lead to tasks which came from other tubes, the entries of histories, what was
    /// reported of tasks, and the rows of tags.
    pub(super) led: BTreeSet<Key>,
    pub(super) ids: BTreeSet<TaskId>,
    /// Tasks that are reported as such.
    pub(super) damaged: BTreeSet<TaskId>,
    /// Rows of tasks that are not there.
    pub(super) strays: BTreeMap<TaskId, Vec<Key>>,
    /// Read once they are needed.
    pub(super) leads: Option<Leads>,
    /// The same.
    pub(super) homes: Option<Homes>,
    /// What tasks say of their edges.
    pub(super) edged: EdgedTasks,
    /// Whether the queue has edges.
    pub(super) has_edges: bool,
    /// An error that ends it.
    pub(super) failed: Result<()>,
}

/// The tags by which rows lead to tasks, each with its time.
pub(super) type Leads = BTreeMap<TaskId, Vec<(String, u64)>>;

/// Where the tasks of a tube have their own rows, as far as they can be read; `None` of one with
/// two.
pub(super) type Homes = BTreeMap<TaskId, Option<Home>>;

/// What the audit of a tube has seen that the audit of the queue needs.
pub(super) struct Seen {
    pub(super) led: BTreeSet<Key>,
    pub(super) remains: Vec<Remains>,
    pub(super) edged: EdgedTasks,
    pub(super) damaged: BTreeSet<TaskId>,
}

#[derive(Default)]
pub(super) struct CountedGroup {
    pub(super) tasks: u64,
    /// Whether one of them came to it by a version that counts.
    pub(super) is_counted: bool,
}

#[derive(Default)]
pub(super) struct Group {
    pub(super) in_flight: u64,
    pub(super) first: Option<Key>,
}

impl<'a> Audit<'a> {
    pub(super) fn of(view: &'a dyn View, tube: &'a TubeEntry, report: Findings<'a>) -> Self {
        let (expected, groups) = (BTreeMap::new(), BTreeMap::new());
        let (failures, kept) = (BTreeMap::new(), BTreeMap::new());
        let (led, ids) = (BTreeSet::new(), BTreeSet::new());
        let (damaged, strays) = (BTreeSet::new(), BTreeMap::new());
        let (leads, homes, failed) = (None, None, Ok(()));
        Self {
            view,
            tube,
            report,
            expected,
            groups,
            failures,
            kept,
            led,
            ids,
            damaged,
            strays,
            leads,
            homes,
            edged: EdgedTasks::default(),
            has_edges: is_any(view),
            failed,
        }
    }

    /// A task that came from another tube.
    pub(super) fn led(&mut self, id: TaskId) {
        let key = key::moved(self.tube.run(), id);
        let number = query::numbered(self.view.get(&key), "moved").ok().flatten();
        if number != Some(self.tube.number) {
            let value = row::number(u64::from(self.tube.number));
            self.say_of(id, "no row leads to it".to_owned(), Fix::Set(key::copy(&key), value));
        }
        self.led.insert(key);
    }

    pub(super) fn expect(&mut self, tag: Tag, key: Key, value: Option<Value>) {
        self.expected.entry(tag).or_default().insert(key, value);
    }

    /// Reports a row, which may be of one task.
    pub(super) fn say_row(&mut self, tag: Tag, line: String, fix: Fix) {
        let key = match &fix {
            Fix::Set(key, _) | Fix::Remove(key) | Fix::Task(_, key) => Some(key),
            _ => None,
        };
        match key.filter(|_| has_id(tag)).and_then(|key| key::id_of(key)) {
            Some(id) => self.say_about(id, line, fix),
            None => self.say(line, fix),
        }
    }

    pub(super) fn say(&mut self, line: String, fix: Fix) {
        let finding = Finding::new(self.line(line), fix);
        (self.report)(finding);
    }

    /// Reports what is wrong with a task.
    pub(super) fn say_of(&mut self, id: TaskId, what: String, fix: Fix) {
        self.say_about(id, format!("task {id}: {what}"), fix);
    }

    pub(super) fn say_about(&mut self, id: TaskId, line: String, fix: Fix) {
        let about = About::Task(self.tube.number, id);
        let finding = Finding::new(self.line(line), fix).about(about);
        (self.report)(finding);
    }

    pub(super) fn line(&self, line: String) -> String {
        format!("tube {:?}: {line}", self.tube.row.name)
    }

    /// Reports that the history, a report or the tags of a task are not as its progress says.
    pub(super) fn tell(&mut self, id: TaskId, what: String) {
        self.say_of(id, what, Fix::Reports(self.tube.number, id));
    }
}
