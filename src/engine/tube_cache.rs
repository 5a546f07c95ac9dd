//! Decoded tubes. Every verb reads its tube first, so the runtime keeps all tubes decoded.

use crate::engine::effects::{Border, NextDue};
use crate::engine::tube_set::TubeSet;
use crate::format::key::{Range, Run, Tag};
use crate::format::row::TubeRow;
use crate::words::clock::NEVER;
use crate::words::gates::NamedGate;
use crate::words::task::TaskId;
use std::ops::Deref;

/// A tube as an op read it.
#[derive(Clone, Debug)]
pub(crate) struct TubeEntry {
    pub(crate) number: u32,
    pub(crate) row: TubeRow,
    /// The border of its fresh tasks, see `engine::fresh`; `None` if it is not known.
    pub(crate) border: Option<Border>,
    /// The last day of which its run has a row of statistics, if that is known.
    pub(crate) day: Option<u32>,
}

impl TubeEntry {
    pub(crate) fn run(&self) -> Run {
        self.row.run
    }

    pub(crate) fn range(&self, tag: Tag) -> Range {
        Range::in_run(tag, self.row.run)
    }

    /// The group of a task that was put without one.
    pub(crate) fn plain_group(&self) -> Option<&'static str> {
        self.row.options.kind.groups_all().then_some("")
    }
}

/// The tube of an op: a cached one, or one read from the rows, as for the verbs of a transaction.
pub(crate) enum TubeRef<'a> {
    Known(&'a TubeEntry),
    Read(Box<TubeEntry>),
}

impl Deref for TubeRef<'_> {
    type Target = TubeEntry;

    fn deref(&self) -> &TubeEntry {
        match self {
            Self::Known(tube) => tube,
            Self::Read(tube) => tube,
        }
    }
}

/// The cached tubes. They agree with the rows.
pub(crate) trait KnownTubes {
    /// The tube of this number, if it is cached.
    fn known(&self, number: u32) -> Option<&TubeEntry>;

    /// A lower bound of its deadlines, if it is cached.
    fn bound(&self, number: u32) -> Option<NextDue>;

    /// The set of this number; `None` if none of its tubes is left.
    fn tube_set(&self, _number: u32) -> Option<&TubeSet> {
        None
    }

    /// At most so many of the tubes that name this gate, or in which lines stand behind it, from
    /// this number on.
    fn naming(&self, _gate: NamedGate<'_>, _from: u32, _most: usize) -> Vec<u32> {
        Vec::new()
    }

    /// Whether lines of this tube stand behind closed gates of their tasks.
    fn has_closed_lines(&self, _tube: u32) -> bool {
        false
    }

    /// At most so many of these gates that may be open now.
    fn opened(&self, _tube: u32, _most: usize) -> Vec<String> {
        Vec::new()
    }

    /// Whether any gate behind which lines of this tube stand may be open now.
    fn may_open(&self, _tube: u32) -> bool {
        false
    }

    /// The throttles behind which lines of this tube stand. There may be any number of conditions
    /// beside them.
    fn closed_throttles(&self, _tube: u32) -> Vec<String> {
        Vec::new()
    }

    /// When the limit of a throttle ends behind which lines of this tube stand, or earlier.
    fn lines_end(&self, _tube: u32) -> u64 {
        NEVER
    }

    /// Whether slots of throttles are kept for takers of this tube.
    fn keeps_slots(&self, _tube: u32) -> bool {
        false
    }

    /// Whether one of both is so: what a take of this tube finds is of interest.
    fn is_told(&self, tube: u32) -> bool {
        self.has_closed_lines(tube) || self.keeps_slots(tube)
    }

    /// Whether takers of any tube wait for a slot of a throttle, or one is kept for them.
    fn awaits_slots(&self) -> bool {
        false
    }

    /// Whether that is so, or lines of any tube stand behind gates: slots that are left are of
    /// interest.
    fn follows_slots(&self) -> bool {
        self.awaits_slots()
    }

    /// How many free slots of a throttle are kept for takers of other tubes than this one.
    fn kept_for_others(&self, _throttle: Run, _tube: u32) -> u64 {
        0
    }

    /// Whether calls wait for the end of this task.
    fn is_awaited(&self, _task: TaskId) -> bool {
        false
    }

    /// Whether this process has merged a tube: a lease may be in another tube than its ticket says.
    fn has_merged(&self) -> bool {
        false
    }

    /// The limit of payload bytes of all durable tubes together.
    fn durable_bytes_max(&self) -> u64 {
        u64::MAX
    }
}
