//! What the holder of a task reports of its work, in plain values: that it has begun, and how far
//! it is.

use std::time::SystemTime;

/// How far the present attempt of a taken task is, in a [`TaskSummary`](crate::TaskSummary).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// It is taken, and its holder has not reported that the work has begun.
    Reserved,
    /// The work has begun, by [`Task::start`](crate::Task::start).
    Started {
        /// When, in [queue time](crate#time).
        at: SystemTime,
        /// What the holder said of it: a process id, a host, a thread.
        meta: String,
    },
}

/// How far the work on a task was when its holder reported it last, by
/// [`Task::progress`](crate::Task::progress).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkProgress {
    /// 0 to 100.
    pub percent: u8,
    /// What the holder said of it. May be empty.
    pub text: String,
    /// When it was reported, in [queue time](crate#time).
    pub at: SystemTime,
}

/// One report.
#[derive(Clone, Copy)]
pub(crate) enum WorkReport<'a> {
    Start(&'a str),
    Progress(u8, &'a str),
    Checkpoint(&'a [u8]),
}
