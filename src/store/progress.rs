//! How far a long call has come, for the caller who may end it.

use crate::words::error::{Error, ErrorKind, Result};
use std::ops::ControlFlow;

/// What a long call is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// A new queue's files are written.
    Create,
    /// The records behind the last checkpoint are carried out again.
    Replay,
    /// The rest of the journal is looked through for records that say that one is missing.
    Scan,
    /// What was replayed is made durable.
    Settle,
    /// Of [`compact_with`](crate::Queue::compact_with): a round is over.
    Compact,
}

/// How far a long call has come: an opening, for [`progress`](crate::Builder::progress), or
/// [`compact_with`](crate::Queue::compact_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What it is at.
    pub stage: Stage,
    /// Bytes done of this stage; of [`Compact`](Stage::Compact), bytes given back so far. `Settle`
    /// is one step: 0 before it, 1 behind it.
    pub done: u64,
    /// What `done` may come to: bytes of the journal's ring; of `Compact`, bytes of the base's file
    /// as it began; of `Settle`, 1. A stage may be over before.
    pub total: u64,
}

pub(super) type ProgressFn<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

pub(super) fn tell(told: ProgressFn<'_>, stage: Stage, done: u64, total: u64) -> Result<()> {
    match told(Progress { stage, done, total }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::new(ErrorKind::Cancelled)),
    }
}
