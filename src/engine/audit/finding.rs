//! One disagreement of the rows, and what mends it. Says what is to be done as a value, and never
//! does it.

use crate::engine::pieces::Owner;
use crate::format::key::{Key, Run};
use crate::format::piece::Pieces;
use crate::format::row::Counters;
use crate::format::{Tag, Value};
use crate::words::task::TaskId;

/// Where findings go.
pub(crate) type Findings<'a> = &'a mut dyn FnMut(Finding);

/// One disagreement.
#[derive(Debug)]
pub(crate) struct Finding {
    /// It in words.
    pub(crate) line: String,
    pub(crate) fix: Fix,
    pub(crate) about: About,
    /// Keys of other rows that it rests on.
    pub(crate) beside: Vec<Key>,
}

/// The task that a finding is about: it rests on the rows of that task too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    NoTask,
    /// In the tube of this number.
    Task(u32, TaskId),
    /// In the tube of this run.
    Owner(Owner),
    /// In any tube.
    Id(TaskId),
}

/// What mends a disagreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fix {
    /// Nothing by itself: another finding of the same fault has its fix, or it stays.
    Nothing,
    /// The other rows call for this row.
    Set(Key, Value),
    /// No other row calls for this one, and it makes no task.
    Remove(Key),
    /// A count of tasks or bytes is wrong by a difference.
    Sum(Sum),
    /// The row of a day of statistics is damaged.
    Day(Key),
    /// The task of this row, of the tube of this number, is damaged, or has no state.
    Task(u32, Key),
    /// These rows are of a task that is in another tube: they go, and make no second one.
    Double(Vec<Key>),
    /// Of a task of the tube of this number only these rows are left.
    Remains(u32, TaskId, Vec<Key>),
    /// Of a task only these pieces of its payload are left, and no row says in which tube it was.
    Pieces(TaskId, Vec<Key>),
    /// This fresh task stands before tasks that are not fresh.
    Fresh(u32, Key),
    /// The history, the reports or the tags of the task are not as its progress says.
    Reports(u32, TaskId),
    /// The task has other edges than its progress says, or another state than they call for.
    Edges(u32, TaskId),
    /// The row of the tags of the task is lost, and rows lead to it by these, each since its time.
    Tags(u32, TaskId, Vec<(String, u64)>),
    /// The consumer that holds the task does not exist.
    Lease(u32, TaskId),
    /// The payload of the task was not kept, and it is not done.
    Unkept(u32, TaskId),
    /// The call that writes these pieces, by its row of work, ends without them.
    RollBack(Key),
    /// Some of these pieces of the payload are damaged, or those of these numbers missing.
    Payload(Run, TaskId, Pieces, Vec<u32>),
    /// The row of the tube of this number, with this name if any has it, is damaged.
    Tube(u32, Option<String>),
    /// Another tube has the tasks and the name of the tube of this number.
    Twin(u32),
    /// A run has rows of tasks and no tube. This number and name have lost their tube.
    Run(Run, Option<(u32, String)>),
    /// The numbers in use are up to these.
    Counters(Counters),
    /// So many payload bytes more.
    Bytes(i64),
    /// So many more tasks of the tube of this number are stalled.
    Stalled(u32, i64),
    /// The tube of this number states what other rows do not: how many schedules it has, or whether
    /// it is temporary.
    Stated(u32),
}

/// A stored count that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) key: Key,
    /// As counted.
    pub(crate) is: u64,
    /// As stored; `None` if that is damaged.
    pub(crate) stored: Option<u64>,
}

impl Fix {
    /// The order of fixes: what a later one reads is mended by an earlier one. Derived rows are
    /// among the last, because a damaged task is known by them. `None` if there is nothing to do.
    pub(crate) fn order(&self) -> Option<u8> {
        match self {
            Self::Nothing => None,
            Self::Counters(_) | Self::Twin(_) => Some(0),
            Self::Run(..) => Some(1),
            Self::Tube(..) => Some(Self::TUBES),
            Self::Task(..) | Self::Double(_) | Self::Remains(..) => Some(3),
            fix if fix.leads_to_task() => Some(3),
            Self::Fresh(..)
            | Self::Reports(..)
            | Self::Tags(..)
            | Self::Edges(..)
            | Self::Lease(..)
            | Self::Unkept(..)
            | Self::RollBack(_)
            | Self::Pieces(..)
            | Self::Payload(..) => Some(Self::LONG),
            Self::Set(..) | Self::Remove(_) | Self::Sum(_) => Some(Self::DERIVED),
            Self::Day(_) | Self::Bytes(_) | Self::Stalled(..) | Self::Stated(_) => Some(6),
        }
    }

    /// The last order of fixes that change tubes.
    pub(crate) const TUBES: u8 = 2;

    /// The order of fixes that may read a whole payload or history.
    pub(crate) const LONG: u8 = 4;

    /// The order of fixes of rows that follow from others.
    pub(crate) const DERIVED: u8 = 5;

    /// Whether it may read the rows of a whole tube or a whole payload, so that it has an op of its
    /// own.
    pub(crate) fn is_of_its_own(&self) -> bool {
        matches!(
            self,
            Self::Task(..)
                | Self::Remains(..)
                | Self::Pieces(..)
                | Self::Payload(..)
                | Self::RollBack(_)
                | Self::Stated(_)
        )
    }

    /// Whether it makes or changes a task as a whole: what else is found of that task is then no
    /// longer so.
    pub(crate) fn is_of_whole_task(&self) -> bool {
        let is_task =
            matches!(self, Self::Task(..) | Self::Double(_) | Self::Remains(..) | Self::Pieces(..));
        is_task || self.leads_to_task()
    }

    /// Whether it sets the row by which a task is found.
    pub(super) fn leads_to_task(&self) -> bool {
        matches!(self, Self::Set(key, _) if key.first() == Some(&(Tag::Position as u8)))
    }
}

impl Finding {
    pub(super) fn new(line: String, fix: Fix) -> Self {
        Self { line, fix, about: About::NoTask, beside: Vec::new() }
    }

    /// That nothing mends by itself.
    pub(super) fn left(line: String) -> Self {
        Self::new(line, Fix::Nothing)
    }

    pub(super) fn about(self, about: About) -> Self {
        Self { about, ..self }
    }

    pub(super) fn beside(mut self, key: Key) -> Self {
        self.beside.push(key);
        self
    }
}
