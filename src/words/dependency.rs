//! What ties a task to the tasks that it comes after. Plain values.

/// Which end of a task meets the wait of another one for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum On {
    Success = 1,
    Failure = 2,
    AnyEnd = 3,
}

/// What becomes of a task once one that it comes after has ended so that its wait is not met, from
/// [`NewTask::orphaned`](crate::NewTask::orphaned). So does a task end that is buried, deleted with
/// force, removed by its ttl or with its tube, for one that waits for its success; and one that is
/// finished or removed, for one that waits for its failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Orphaned {
    /// It goes on waiting: a buried task may be kicked and succeed. If the other one is gone, it
    /// waits until it is deleted, or put again after other tasks.
    #[default]
    Hold = 1,
    /// It is removed, with [`Cause::Cancel`](crate::Cause::Cancel), and so is what waits for it, by
    /// the policy of each.
    Cancel = 2,
    /// It does not wait for that one any more.
    Ignore = 3,
}

/// What a put after a task does whose id was never given, from
/// [`NewTask::missing`](crate::NewTask::missing). A task that is finished or gone was given an id,
/// and is not missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Missing {
    /// It is refused, as [`TaskNotFound`](crate::ErrorKind::TaskNotFound).
    #[default]
    Refuse,
    /// It does not wait for that one.
    Ignore,
}
