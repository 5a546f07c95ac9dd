//! The rows of the edges between tasks, and of the work on them.

use crate::format::pack::{Packer, Unpacker, Value};
use crate::format::row::EdgeCounts;
use crate::words::dependency::{On, Orphaned};
use crate::words::limits::SPARED_MAX;
use crate::words::task::TaskId;

/// An edge from one task to another, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EdgeRow {
    /// Which end of the earlier task meets it.
    pub(crate) on: On,
    /// What becomes of the later task where no end meets it any more.
    pub(crate) orphaned: Orphaned,
    /// The tube of the other task when the edge was written, where no row leads to that task.
    pub(crate) tube: u32,
}

impl EdgeRow {
    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u8(self.on as u8).u8(self.orphaned as u8).u32(self.tube);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(row);
        let on = match rest.u8()? {
            1 => On::Success,
            2 => On::Failure,
            3 => On::AnyEnd,
            _ => return None,
        };
        let orphaned = match rest.u8()? {
            1 => Orphaned::Hold,
            2 => Orphaned::Cancel,
            3 => Orphaned::Ignore,
            _ => return None,
        };
        let tube = rest.u32()?;
        rest.end(Self { on, orphaned, tube })
    }
}

/// How a task has ended, while not all that come after it are told so. It may have ended more than
/// once: a buried one that was kicked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskEnds {
    pub(crate) done: bool,
    pub(crate) buried: bool,
    pub(crate) gone: bool,
}

/// The work of a cascade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CascadeRow {
    pub(crate) ended: TaskEnds,
    /// The tube of the task, where no row leads to it.
    pub(crate) tube: u32,
    /// The task to continue with.
    pub(crate) from: u64,
    /// The bury concerns the tasks with lower ids. A later one was put when it was kicked again.
    pub(crate) buried_to: u64,
    /// Those with lower ids that it does not concern, in order: they came after it only since then.
    pub(crate) spared: Vec<u64>,
}

impl CascadeRow {
    pub(crate) fn encode(&self) -> Value {
        let TaskEnds { done, buried, gone } = self.ended;
        let bits = u8::from(done) | u8::from(buried) << 1 | u8::from(gone) << 2;
        let mut row = Packer::new();
        row.u8(bits).u32(self.tube).u64(self.from).u64(self.buried_to);
        self.spared.iter().for_each(|id| _ = row.u64(*id));
        row.done()
    }

    /// The bury does not concern this task, which came after the other only since then. `None` if
    /// as many are spared already as the row may have.
    pub(crate) fn spare(mut self, later: TaskId) -> Option<Self> {
        if let Err(place) = self.spared.binary_search(&later.get())
            && self.ended_for(later).buried
        {
            if self.spared.len() >= SPARED_MAX {
                return None;
            }
            self.spared.insert(place, later.get());
        }
        Some(self)
    }

    /// How it has ended for this task.
    pub(crate) fn ended_for(&self, later: TaskId) -> TaskEnds {
        let later = later.get();
        let is_told = later < self.buried_to && self.spared.binary_search(&later).is_err();
        TaskEnds { buried: self.ended.buried && is_told, ..self.ended }
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(row);
        let bits = rest.u8().filter(|bits| (1..8).contains(bits))?;
        let bit = |at: u8| bits & 1 << at != 0;
        let ended = TaskEnds { done: bit(0), buried: bit(1), gone: bit(2) };
        let (tube, from, buried_to) = (rest.u32()?, rest.u64()?, rest.u64()?);
        let mut spared = Vec::new();
        while !rest.rest().is_empty() {
            spared.push(rest.u64()?);
        }
        let is_sound = spared.len() <= SPARED_MAX
            && spared.is_sorted_by(|a, b| a < b)
            && spared.last().is_none_or(|last| ended.buried && *last < buried_to);
        is_sound.then_some(Self { ended, tube, from, buried_to, spared })
    }
}

/// The work of a put that writes the edges of its task in turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkingRow {
    /// How many are written. Those that are met by now are counted so.
    pub(crate) counts: EdgeCounts,
    /// Whether by an edge that is not met any more the task is to be removed.
    pub(crate) is_cancelled: bool,
}

impl LinkingRow {
    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u32(self.counts.open).u32(self.counts.met).u8(u8::from(self.is_cancelled));
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut rest = Unpacker::new(row);
        let (open, met) = (rest.u32()?, rest.u32()?);
        let is_cancelled = rest.u8().filter(|bit| *bit <= 1)? == 1;
        rest.end(Self { counts: EdgeCounts { open, met }, is_cancelled })
    }
}

/// The task of the key of work on the edges of one.
pub(crate) fn task_of_work(work: &[u8]) -> Option<TaskId> {
    let id = work.get(6..).filter(|id| id.len() == 8)?;
    Some(TaskId::new(u64::from_be_bytes(id.try_into().ok()?)))
}
