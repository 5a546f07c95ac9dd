//! What an op decides, as a value: row writes, changes and wake-ups; and how the rows look with
//! them carried out. It is dropped without a trace if the op is refused.

use crate::bytes::key::{self, Key, Range, Run, Tag};
use crate::bytes::{Met, RowOp, RowWrite, Value, View};
use crate::engine::list::{KEPT, List};
use crate::error::Result;
use crate::sync::Arc;
use crate::task::{Cause, State, TaskId};

/// A task's step from one state to another, published once it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) tube: u32,
    pub(crate) task: TaskId,
    pub(crate) from: Option<State>,
    pub(crate) to: Option<State>,
    pub(crate) cause: Cause,
}

/// Whether a row is kept in memory beside the rows, or worked off by a thread.
fn is_telling(key: &[u8]) -> bool {
    let tag = key.first().copied().unwrap_or_default();
    tag == Tag::Tube as u8 || tag == Tag::Work as u8 || tag == Tag::Due as u8
}

/// What an op decided.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    rows: List,
    /// Whether a row goes to the disk.
    durable: bool,
    /// Whether a row is among them that tells the threads something.
    telling: bool,
    changes: Vec<Change>,
    /// By the place of a change the payload of its task, where that is wanted.
    payloads: Vec<(usize, Arc<[u8]>)>,
    wakes: Vec<(u32, usize)>,
    /// Payload bytes that come into durable tubes, less those that go.
    durable_bytes: i64,
}

impl Draft {
    /// Nothing is decided any more. The memory is kept for what will be, unless it is much.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        (self.durable, self.telling) = (false, false);
        self.changes.clear();
        self.changes.shrink_to(KEPT);
        self.let_go();
        self.wakes.clear();
        self.durable_bytes = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a power cut could take it back. What a temporary tube did never touches the disk, so
    /// nothing is waited for; an op that wrote nothing has at least seen what others wrote.
    pub(crate) fn is_durable(&self) -> bool {
        self.durable || self.rows.is_empty()
    }

    /// Whether its rows tell the threads something.
    pub(crate) fn is_telling(&self) -> bool {
        self.telling
    }

    /// The row writes, in key order, one a key. Whoever carries them out empties the list.
    #[inline]
    pub(crate) fn writes(&mut self) -> &mut Vec<RowWrite> {
        self.rows.writes()
    }

    /// The steps, in order.
    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The payload of the task of the step in this place, if it is wanted and could be read.
    pub(crate) fn payload(&self, step: usize) -> Option<Arc<[u8]>> {
        let at = self.payloads.binary_search_by_key(&step, |(step, _)| *step).ok()?;
        self.payloads.get(at).map(|(_, payload)| payload.clone())
    }

    /// Lets the payloads go, once the steps are told.
    #[inline]
    pub(crate) fn let_go(&mut self) {
        if !self.payloads.is_empty() {
            self.payloads = Vec::new();
        }
    }

    /// Tubes in which tasks became takeable, and how many.
    pub(crate) fn wakes(&self) -> &[(u32, usize)] {
        &self.wakes
    }

    /// Payload bytes that come into durable tubes, less those that go.
    pub(crate) fn durable_bytes(&self) -> i64 {
        self.durable_bytes
    }

    /// Counts the payload of a task that comes. Temporary tubes have a limit of their own.
    pub(crate) fn bytes_in(&mut self, run: Run, bytes: u64) {
        if !run.is_temporary() {
            self.durable_bytes = self.durable_bytes.saturating_add_unsigned(bytes);
        }
    }

    /// No longer counts the payload of a task that goes.
    pub(crate) fn bytes_out(&mut self, run: Run, bytes: u64) {
        if !run.is_temporary() {
            self.durable_bytes = self.durable_bytes.saturating_sub_unsigned(bytes);
        }
    }

    /// Adds a later draft, made over this one.
    pub(crate) fn merge(&mut self, mut later: Self) {
        for RowWrite { key, op } in later.rows.writes().drain(..) {
            self.write(key, op);
        }
        self.durable_bytes = self.durable_bytes.saturating_add(later.durable_bytes);
        let before = self.changes.len();
        let payloads = later.payloads.into_iter();
        self.payloads.extend(payloads.map(|(step, payload)| (before + step, payload)));
        self.changes.extend(later.changes);
        for (tube, tasks) in later.wakes {
            self.wake(tube, tasks);
        }
    }

    #[inline]
    pub(crate) fn write(&mut self, key: Key, op: RowOp) {
        self.durable |= !key::is_temporary(&key);
        self.telling |= is_telling(&key);
        self.rows.write(key, op);
    }

    pub(crate) fn tell(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Adds the payload of the task whose step was told last.
    pub(crate) fn tell_payload(&mut self, payload: Arc<[u8]>) {
        if let Some(last) = self.changes.len().checked_sub(1) {
            self.payloads.push((last, payload));
        }
    }

    #[inline]
    pub(crate) fn wake(&mut self, tube: u32, tasks: usize) {
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

/// Most reads come before the first write.
impl View for Over<'_> {
    #[inline]
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        if self.draft.rows.is_empty() { self.view.get(key) } else { self.get_merged(key) }
    }

    #[inline]
    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        if self.draft.rows.is_empty() {
            self.view.first(from, to)
        } else {
            self.first_merged(from, to)
        }
    }

    #[inline]
    fn count(&self, range: Range) -> u64 {
        let count = self.view.count(range);
        if self.draft.rows.is_empty() {
            return count;
        }
        count.saturating_add_signed(self.draft.rows.moved(range))
    }

    fn durable_bytes(&self) -> u64 {
        self.view.durable_bytes().saturating_add_signed(self.draft.durable_bytes)
    }
}

impl Over<'_> {
    fn get_merged(&self, key: &[u8]) -> Result<Option<Value>> {
        match self.draft.rows.get(key) {
            Some(RowOp::Add(value) | RowOp::Change(value)) => Ok(Some(value.clone())),
            Some(RowOp::Remove) => Ok(None),
            None => self.view.get(key),
        }
    }

    fn first_merged(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let mut from = Key::from_slice(from);
        loop {
            let beneath = self.view.first(&from, to)?;
            let own = self.draft.rows.first(&from, to).map(|(key, op)| match op {
                RowOp::Add(value) | RowOp::Change(value) => (key::copy(key), Some(value.clone())),
                RowOp::Remove => (key::copy(key), None),
            });
            let (beneath, own) = match (beneath, own) {
                (Some(beneath), own) => (beneath, own),
                (None, own) => return Ok(own),
            };
            if own.as_ref().is_some_and(|own| own.0 <= beneath.0) {
                return Ok(own);
            }
            if self.draft.rows.get(&beneath.0).is_some() {
                // Removed by this draft: a change would have been its own row just above.
                from = key::after(&beneath.0);
                continue;
            }
            return Ok(Some(beneath));
        }
    }
}
