//! The tubes as the verbs met them last, decoded: every verb begins by asking for its tube, and
//! none changes it. It must never lag behind the rows: whoever commits a tube's row says so here.

use crate::bytes::key::{Range, Run, Tag};
use crate::bytes::row::TubeRow;
use std::collections::BTreeMap;
use std::ops::Deref;

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

/// A tube in the hands of an op: one that is known, or one that only the rows tell of, as it is for
/// the verbs of a transaction.
pub(crate) enum InHand<'a> {
    Known(&'a Tube),
    Read(Box<Tube>),
}

impl Deref for InHand<'_> {
    type Target = Tube;

    fn deref(&self) -> &Tube {
        match self {
            Self::Known(tube) => tube,
            Self::Read(tube) => tube,
        }
    }
}

/// By number.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeMap<u32, Tube>);

impl Known {
    pub(crate) fn get(&self, number: u32) -> Option<&Tube> {
        self.0.get(&number)
    }

    /// The tube's row is this from now on.
    pub(crate) fn learn(&mut self, number: u32, row: TubeRow) {
        self.0.insert(number, Tube { number, row });
    }

    /// The tube was dropped.
    pub(crate) fn forget(&mut self, number: u32) {
        self.0.remove(&number);
    }
}
