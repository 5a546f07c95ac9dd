//! The progress of a long call, for the caller, who may stop it.

use crate::words::error::{Error, ErrorKind, Result};
use std::ops::ControlFlow;

/// The stage of a long call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// A new queue's files are written.
    Create,
    /// The records after the last checkpoint are replayed.
    Replay,
    /// The rest of the journal is searched for records that prove that one is missing. Not after a
    /// clean close.
    Scan,
    /// The replayed records are made durable.
    Settle,
    /// Of [`compact_with`](crate::Queue::compact_with): a round has ended.
    Compact,
}

/// The progress of a long call: of an opening, for [`progress`](crate::Builder::progress), or of
/// [`compact_with`](crate::Queue::compact_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The present stage.
    pub stage: Stage,
    /// Bytes done in this stage; for [`Compact`](Stage::Compact), bytes returned so far. `Settle`
    /// is one step: 0 before it, 1 after it.
    pub done: u64,
    /// The maximum of `done`: bytes of the journal's ring; for `Compact`, bytes of the base's file
    /// at the start; for `Settle`, 1. A stage may end earlier.
    pub total: u64,
}

pub(super) type ProgressFn<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

/// Calls `progress`.
///
/// # Errors
/// `Cancelled` if it stops the call.
pub(super) fn report(progress: ProgressFn<'_>, stage: Stage, done: u64, total: u64) -> Result<()> {
    match progress(Progress { stage, done, total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::new(ErrorKind::Cancelled)),
    }
}
