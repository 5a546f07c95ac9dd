//! Where one op works: it reads rows, the time and fresh numbers here, and what it decides gathers
//! here as values. It writes nothing; an op that is refused leaves no trace but burnt numbers.

use crate::bytes::key::{self, Key, Range, Run, Tag};
use crate::bytes::row::TubeRow;
use crate::bytes::{Met, RowOp, RowWrite, Value, View};
use crate::clock::Now;
use crate::error::{Error, ErrorKind, Result};
use crate::task::{Cause, State, TaskId};
use std::collections::BTreeMap;

/// One call of a user, as a value.
pub(crate) trait Op {
    /// The answer.
    type Done;

    /// The tube whose due tasks are worked off first, so that expired work is never seen.
    fn tube(&self) -> Option<u32>;

    /// The most numbers that the op draws.
    fn numbers(&self) -> u64 {
        0
    }

    /// Whether it brings in new tasks, which a full disk refuses.
    fn adds(&self) -> bool {
        false
    }

    /// The tasks in doubt if what was done is not known to be synced.
    fn in_doubt(&self, done: &Self::Done) -> Vec<TaskId> {
        let _ = done;
        Vec::new()
    }

    /// Decides. An error means that nothing happens.
    fn decide(&self, desk: &mut Desk<'_>) -> Result<Self::Done>;
}

/// A task's step from one state to another, published once it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) tube: u32,
    pub(crate) task: TaskId,
    pub(crate) from: Option<State>,
    pub(crate) to: Option<State>,
    pub(crate) cause: Cause,
}

/// What an op decided.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    rows: BTreeMap<Key, RowOp>,
    counts: Vec<(Range, i64)>,
    changes: Vec<Change>,
    /// Tubes in which tasks became takeable, and how many.
    wakes: Vec<(u32, usize)>,
    /// Payload bytes that come into durable tubes, less those that go.
    durable_bytes: i64,
}

impl Draft {
    /// The row writes, in key order, one a key; the changes; and whom to wake.
    pub(crate) fn into_parts(self) -> (Vec<RowWrite>, Vec<Change>, Vec<(u32, usize)>) {
        let writes = self.rows.into_iter().map(|(key, op)| RowWrite { key, op }).collect();
        (writes, self.changes, self.wakes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Payload bytes that come into durable tubes, less those that go.
    pub(crate) fn durable_bytes(&self) -> i64 {
        self.durable_bytes
    }

    /// Adds a later draft, made over this one.
    pub(crate) fn merge(&mut self, later: Self) {
        for (key, op) in later.rows {
            self.write(key, op);
        }
        self.durable_bytes = self.durable_bytes.saturating_add(later.durable_bytes);
        self.changes.extend(later.changes);
        for (tube, tasks) in later.wakes {
            self.wake(tube, tasks);
        }
    }

    fn write(&mut self, key: Key, op: RowOp) {
        let moved = match &op {
            RowOp::Add(_) => 1,
            RowOp::Change(_) => 0,
            RowOp::Remove => -1,
        };
        if moved != 0
            && let Some(range) = Range::holding(&key)
        {
            match self.counts.iter_mut().find(|(counted, _)| *counted == range) {
                Some((_, count)) => *count += moved,
                None => self.counts.push((range, moved)),
            }
        }
        use std::collections::btree_map::Entry;
        match self.rows.entry(key) {
            Entry::Vacant(free) => {
                free.insert(op);
            }
            Entry::Occupied(mut taken) => match (taken.get(), op) {
                (RowOp::Add(_), RowOp::Remove) => {
                    taken.remove();
                }
                (RowOp::Add(_), RowOp::Change(value)) => {
                    taken.insert(RowOp::Add(value));
                }
                (RowOp::Remove, RowOp::Add(value)) => {
                    taken.insert(RowOp::Change(value));
                }
                (earlier, later) => {
                    debug_assert!(
                        matches!(
                            (earlier, &later),
                            (RowOp::Change(_), RowOp::Change(_) | RowOp::Remove)
                        ),
                        "a row was written without having been read"
                    );
                    taken.insert(later);
                }
            },
        }
    }

    fn wake(&mut self, tube: u32, tasks: usize) {
        match self.wakes.iter_mut().find(|(woken, _)| *woken == tube) {
            Some((_, count)) => *count = count.saturating_add(tasks),
            None => self.wakes.push((tube, tasks)),
        }
    }
}

/// A view with a draft on top, as the next op of the same transaction sees it.
pub(crate) struct Over<'a> {
    pub(crate) view: &'a dyn View,
    pub(crate) draft: &'a Draft,
}

impl View for Over<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.draft.rows.get(key) {
            Some(RowOp::Add(value) | RowOp::Change(value)) => Ok(Some(value.clone())),
            Some(RowOp::Remove) => Ok(None),
            None => self.view.get(key),
        }
    }

    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        if self.draft.rows.is_empty() {
            return self.view.first(from, to);
        }
        let mut from = Key::from_slice(from);
        loop {
            let beneath = self.view.first(&from, to)?;
            let bounds = (std::ops::Bound::Included(&from[..]), std::ops::Bound::Excluded(to));
            let own = self
                .draft
                .rows
                .range::<[u8], _>(bounds)
                .find(|(_, op)| !matches!(op, RowOp::Remove));
            let own = own.map(|(key, op)| match op {
                RowOp::Add(value) | RowOp::Change(value) => (key.clone(), Some(value.clone())),
                RowOp::Remove => (key.clone(), None),
            });
            let (beneath, own) = match (beneath, own) {
                (Some(beneath), own) => (beneath, own),
                (None, own) => return Ok(own),
            };
            if own.as_ref().is_some_and(|own| own.0 <= beneath.0) {
                return Ok(own);
            }
            if self.draft.rows.contains_key(&beneath.0) {
                // Removed by this draft: a change would have been its own row just above.
                from = key::after(&beneath.0);
                continue;
            }
            return Ok(Some(beneath));
        }
    }

    fn count(&self, range: Range) -> u64 {
        let moved = self.draft.counts.iter().find(|(counted, _)| *counted == range);
        self.view.count(range).saturating_add_signed(moved.map_or(0, |(_, moved)| *moved))
    }

    fn durable_bytes(&self) -> u64 {
        self.view.durable_bytes().saturating_add_signed(self.draft.durable_bytes)
    }
}

/// Numbers reserved for this process: ids of tasks, orders and lease tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) next: u64,
    pub(crate) end: u64,
}

impl Numbers {
    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }
}

/// A tube as an op met it.
#[derive(Clone, Debug)]
pub(crate) struct Tube {
    pub(crate) number: u32,
    pub(crate) row: TubeRow,
}

impl Tube {
    pub(crate) fn run(&self) -> Run {
        self.row.run
    }

    pub(crate) fn range(&self, tag: Tag) -> Range {
        Range::in_run(tag, self.row.run)
    }
}

/// The place of one op.
pub(crate) struct Desk<'a> {
    view: &'a dyn View,
    numbers: &'a mut Numbers,
    draft: Draft,
    pub(crate) now: Now,
}

impl<'a> Desk<'a> {
    pub(crate) fn new(view: &'a dyn View, numbers: &'a mut Numbers, now: Now) -> Self {
        Self { view, numbers, draft: Draft::default(), now }
    }

    pub(crate) fn done(self) -> Draft {
        self.draft
    }

    fn over(&self) -> Over<'_> {
        Over { view: self.view, draft: &self.draft }
    }

    /// A number that was never given before and never will be. Commit has made sure that the op
    /// has as many as it said it needs.
    pub(crate) fn number(&mut self) -> u64 {
        debug_assert!(self.numbers.left() > 0, "an op drew more numbers than it announced");
        let number = self.numbers.next;
        self.numbers.next += 1;
        number
    }

    pub(crate) fn add(&mut self, key: Key, value: Value) {
        self.draft.write(key, RowOp::Add(value));
    }

    pub(crate) fn change(&mut self, key: Key, value: Value) {
        self.draft.write(key, RowOp::Change(value));
    }

    pub(crate) fn remove(&mut self, key: Key) {
        self.draft.write(key, RowOp::Remove);
    }

    /// Adds the row or replaces it.
    pub(crate) fn set(&mut self, key: Key, value: Value) -> Result<()> {
        match self.get(&key)? {
            Some(_) => self.change(key, value),
            None => self.add(key, value),
        }
        Ok(())
    }

    /// Counts the payload of a task that comes. Temporary tubes have a limit of their own.
    pub(crate) fn bytes_in(&mut self, run: Run, bytes: u64) {
        if !run.is_temporary() {
            let moved = &mut self.draft.durable_bytes;
            *moved = moved.saturating_add_unsigned(bytes);
        }
    }

    /// No longer counts the payload of a task that goes.
    pub(crate) fn bytes_out(&mut self, run: Run, bytes: u64) {
        if !run.is_temporary() {
            let moved = &mut self.draft.durable_bytes;
            *moved = moved.saturating_sub_unsigned(bytes);
        }
    }

    /// Tells of a task's step.
    pub(crate) fn tell(&mut self, change: Change) {
        self.draft.changes.push(change);
    }

    /// Tells that a task of the tube became takeable.
    pub(crate) fn wake(&mut self, tube: u32) {
        self.draft.wake(tube, 1);
    }

    /// Tells that every waiting taker of the tube should look again.
    pub(crate) fn wake_all(&mut self, tube: u32) {
        self.draft.wake(tube, usize::MAX);
    }

    /// The tube of this number.
    ///
    /// # Errors
    /// `TubeNotFound` if it was dropped.
    pub(crate) fn tube(&self, number: u32) -> Result<Tube> {
        let row = self.get(&key::tube(number))?;
        let row =
            row.ok_or_else(|| Error::new(ErrorKind::TubeNotFound).because("it was dropped"))?;
        let row = TubeRow::decode(&row).ok_or_else(|| damaged("tube"))?;
        Ok(Tube { number, row })
    }
}

impl View for Desk<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.over().get(key)
    }

    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        self.over().first(from, to)
    }

    fn count(&self, range: Range) -> u64 {
        self.over().count(range)
    }

    fn durable_bytes(&self) -> u64 {
        self.over().durable_bytes()
    }
}

/// A row whose checksum held but that is not one of ours.
pub(crate) fn damaged(row: &str) -> Error {
    Error::new(ErrorKind::Damaged).because(format!("a {row} row does not decode"))
}
