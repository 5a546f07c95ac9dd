//! A tube as the verbs see it: every verb begins with a look at its tube, so whoever runs the verbs
//! keeps the tubes decoded.

use crate::bytes::key::{Range, Run, Tag};
use crate::bytes::row::TubeRow;
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

/// The tubes that are kept decoded. They agree with the rows.
pub(crate) trait KnownTubes {
    /// The tube of this number, if it is known.
    fn known(&self, number: u32) -> Option<&Tube>;
}
