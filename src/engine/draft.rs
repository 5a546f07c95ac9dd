//! What an op decides, as a value: row writes, changes and wake-ups; and how the rows look with
//! them carried out. It is dropped without a trace if the op is refused.

use crate::bytes::key::{self, Key, Range, Run, Tag};
use crate::bytes::layer::{Layer, WriteSet};
use crate::bytes::{Met, RowOp, Value, View};
use crate::error::Result;
use crate::sync::Arc;
use crate::task::{Cause, State, TaskId};

/// Changes whose memory is kept for the next op.
const KEPT: usize = 1024;

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
    rows: WriteSet,
    /// Whether a row goes to the disk.
    durable: bool,
    /// Whether a row stays in memory.
    temporary: bool,
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
        (self.durable, self.temporary, self.telling) = (false, false, false);
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

    /// Whether it writes rows of temporary tubes.
    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// The row writes, in key order, one a key. Whoever carries them out empties the layer.
    #[inline]
    pub(crate) fn writes(&mut self) -> &mut Layer {
        self.rows.layer()
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
        later.rows.layer().drain_into(|key, op| self.write(key, op));
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
        let temporary = key::is_temporary(&key);
        self.durable |= !temporary;
        self.temporary |= temporary;
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
        let rows = &self.draft.rows;
        if rows.is_empty() { self.view.get(key) } else { rows.get(self.view, key) }
    }

    #[inline]
    fn first(&self, from: &[u8], to: &[u8]) -> Result<Option<Met>> {
        let rows = &self.draft.rows;
        if rows.is_empty() { self.view.first(from, to) } else { rows.first(self.view, from, to) }
    }

    #[inline]
    fn count(&self, range: Range) -> u64 {
        self.view.count(range).saturating_add_signed(self.draft.rows.moved(range))
    }

    fn durable_bytes(&self) -> u64 {
        self.view.durable_bytes().saturating_add_signed(self.draft.durable_bytes)
    }
}
