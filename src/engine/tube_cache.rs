//! A tube as the verbs see it: every verb begins with a look at its tube, so whoever runs the verbs
//! keeps the tubes decoded.

use crate::format::key::{Range, Run, Tag};
use crate::format::row::TubeRow;
use std::ops::Deref;

/// A tube as an op met it.
#[derive(Clone, Debug)]
pub(crate) struct TubeEntry {
    pub(crate) number: u32,
    pub(crate) row: TubeRow,
}

impl TubeEntry {
    pub(crate) fn run(&self) -> Run {
        self.row.run
    }

    pub(crate) fn range(&self, tag: Tag) -> Range {
        Range::in_run(tag, self.row.run)
    }
}

/// A tube in the hands of an op: one that is known, or one that only the rows tell of, as it is for
/// the verbs of a transaction.
pub(crate) enum TubeRef<'a> {
    TubeCache(&'a TubeEntry),
    Read(Box<TubeEntry>),
}

impl Deref for TubeRef<'_> {
    type Target = TubeEntry;

    fn deref(&self) -> &TubeEntry {
        match self {
            Self::TubeCache(tube) => tube,
            Self::Read(tube) => tube,
        }
    }
}

/// The tubes that are kept decoded. They agree with the rows.
pub(crate) trait KnownTubes {
    /// The tube of this number, if it is known.
    fn known(&self, number: u32) -> Option<&TubeEntry>;
}
