//! Why an op was not done: what it needs before it is tried again, or a refusal. Nothing of it has
//! happened.

use crate::runtime::group_commit::Mark;
use crate::store::StoreFailure;
use crate::words::error::Error;

/// What an op needs before it is tried again.
pub(crate) enum Need {
    /// Its record is too large for the journal: it goes through a commit of the base.
    BaseCommit,
    /// The journal has no room: checkpoint.
    JournalSpace,
    /// The reserved numbers are used up: sync up to this mark.
    Numbers(Mark),
    /// It is the first op that uses a feature. This write of the journal's head names the feature:
    /// sync it.
    Feature(u64),
    /// A transaction has decided on a row that it writes: it joins the transaction.
    Transaction,
    /// A checkpoint met a full disk, and the base cannot be read before it is open again.
    Reopening,
    /// More is due in the tube than one turn works off, or a damaged row was repaired: others get
    /// the lock first.
    Yield,
}

/// Why an op was not done. It changed nothing that is visible.
pub(crate) enum Undone {
    TryAfter(Need),
    Refused(Error),
}

impl From<Error> for Undone {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<StoreFailure> for Undone {
    fn from(failure: StoreFailure) -> Self {
        match failure {
            StoreFailure::NoRoom => Self::TryAfter(Need::JournalSpace),
            StoreFailure::TooLarge => Self::TryAfter(Need::BaseCommit),
            StoreFailure::Refused(error) | StoreFailure::Broken(error) => Self::Refused(error),
        }
    }
}
