//! Why a task is not running, as a value and in words.

use crate::words::task::{Reason, State, TaskId};
use std::fmt;
use std::time::Duration;

/// Why a task is not running now, from [`Queue::explain`](crate::Queue::explain). Displayed, it is
/// a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The task.
    pub task: TaskId,
    /// The name of its tube.
    pub tube: String,
    /// Its state.
    pub state: State,
    /// Everything that keeps it from being taken next; at least one.
    pub reasons: Vec<WhyNot>,
}

/// One reason why a task is not running.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNot {
    /// It is: a taker holds it.
    Running {
        /// The named consumer that holds it, if it is one.
        holder: Option<String>,
        /// What is left of the lease, if that has a deadline.
        lease_left: Option<Duration>,
    },
    /// The ttr of its lease is over, and its [grace](crate::Lapse::grace) is not: its holder may
    /// still settle it.
    Stalled {
        /// What is left of the grace; None without an end.
        grace_left: Option<Duration>,
    },
    /// Its delay has not ended.
    Delayed {
        /// How long it still waits; None without an end.
        left: Option<Duration>,
    },
    /// It waits for tasks that it [comes after](crate::NewTask::after).
    WaitsFor {
        /// For how many.
        tasks: u64,
        /// The one of them with the lowest id.
        first: TaskId,
        /// Whether that one has ended. If its end is being worked off, this task learns it soon;
        /// otherwise its end is not what this one waits for, and by its
        /// [policy](crate::Orphaned::Hold) it goes on waiting.
        has_ended: bool,
        /// Whether that end is still being worked off.
        is_ending: bool,
    },
    /// It is buried, and waits for a [kick](crate::Tube::kick), or from the trash for a
    /// [restore](crate::Tube::restore).
    Buried {
        /// Why.
        reason: Reason,
    },
    /// It is finished, and kept by its tube.
    Finished,
    /// Its tube is paused.
    TubePaused {
        /// How long that still lasts; None without an end.
        left: Option<Duration>,
    },
    /// The tasks of its tube are being [moved](crate::Queue::merge) to another one.
    Merging {
        /// The name of that; empty if it was dropped.
        into: String,
    },
    /// Its tube [requires](crate::TubeOptions::require) a condition that is not set, or it does
    /// [itself](crate::NewTask::require).
    Requires {
        /// The name of the condition.
        condition: String,
        /// Whether it was declared: an application has [set](crate::Queue::set_condition) it, to
        /// true or false.
        is_declared: bool,
    },
    /// It is not within the [hours](crate::TubeOptions::hours) of its tube.
    OutOfHours {
        /// How long until they begin next, by the wall clock.
        left: Duration,
    },
    /// The [hours](crate::TubeOptions::hours) of its tube are by the clocks of a time zone that
    /// this build does not know: it is built without the feature `cron`, or with older rules.
    UnknownZone {
        /// The name of the time zone.
        zone: String,
    },
    /// As many tasks of its tube are in flight as its [limit](crate::TubeOptions::limit) lets
    /// through.
    TubeLimit {
        /// How many are taken; more than the limit after that was lowered.
        in_flight: u64,
        /// The limit.
        limit: u64,
    },
    /// As many tasks are in flight as a [throttle](crate::TubeOptions::throttle) of its tube lets
    /// through, or one of [its own](crate::NewTask::throttle).
    Throttled {
        /// The name of the throttle.
        throttle: String,
        /// How many tasks of all tubes hold a slot of it; more than the limit after that was
        /// lowered.
        in_flight: u64,
        /// Its limit.
        limit: u64,
    },
    /// As many tasks of its tube were taken as its [rate](crate::TubeOptions::rate) lets through.
    TubeRate {
        /// How long until the next one may be taken, in [queue time](crate#time).
        left: Duration,
    },
    /// As many tasks of its group are in flight as may be.
    GroupBusy {
        /// The group; empty in a tube whose tasks without a group form one.
        group: String,
        /// How many are taken, or hold the group while they are delayed.
        in_flight: u64,
    },
    /// Another task of its group is to be taken before it.
    BehindInGroup {
        /// The group; empty in a tube whose tasks without a group form one.
        group: String,
        /// The first of the group.
        first: TaskId,
    },
    /// Other tasks of the tube are to be taken before it.
    Behind {
        /// The one that is taken next.
        next: TaskId,
    },
    /// Nothing: the next take of its tube gets it.
    IsNext,
}

impl WhyNot {
    /// A closed gate of the tube, in words.
    fn gate(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requires { condition, is_declared } => {
                let why = if *is_declared { "is not set" } else { "was never declared; set it" };
                write!(f, "it requires the condition {condition:?}, which {why}")
            }
            Self::OutOfHours { left } => {
                write!(f, "the hours of its tube begin in {left:?}")
            }
            Self::UnknownZone { zone } => {
                let lacks =
                    if cfg!(feature = "cron") { "newer rules" } else { "the feature `cron`" };
                write!(f, "this build does not know {zone:?}, the zone of its tube's hours; ")?;
                write!(f, "build with {lacks}, or set other hours")
            }
            Self::TubeLimit { in_flight, limit } => {
                write!(f, "of its tube {in_flight} are in flight, and its limit is {limit}")
            }
            Self::Throttled { throttle, in_flight, limit } => {
                write!(
                    f,
                    "{in_flight} tasks hold the throttle {throttle:?}, and its limit is {limit}"
                )
            }
            Self::Merging { into } => write!(f, "the tasks of its tube move to tube {into:?}"),
            Self::TubeRate { left } => {
                write!(f, "the rate of its tube lets the next task through in {left:?}")
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = |f: &mut fmt::Formatter<'_>, left: &Option<Duration>| match left {
            Some(left) => write!(f, ", for {left:?} more"),
            None => f.write_str(", without an end"),
        };
        match self {
            Self::Running { holder, lease_left } => {
                match holder {
                    Some(holder) => write!(f, "consumer {holder:?} holds it")?,
                    None => f.write_str("a taker holds it")?,
                }
                left(f, lease_left)
            }
            Self::Stalled { grace_left } => {
                f.write_str("its ttr is over, it is in its grace")?;
                left(f, grace_left)
            }
            Self::Delayed { left: time } => {
                f.write_str("its delay has not ended")?;
                left(f, time)
            }
            Self::WaitsFor { tasks, first, has_ended, is_ending } => {
                write!(f, "it waits for {tasks} tasks, the first is task {first}")?;
                match (is_ending, has_ended) {
                    (true, _) => f.write_str(", whose end is being worked off"),
                    (false, true) => f.write_str(", which has ended otherwise than it waits for"),
                    (false, false) => Ok(()),
                }
            }
            Self::Buried { reason: Reason::Trashed(text) } => {
                write!(f, "it is in the trash ({text}); restore it")
            }
            Self::Buried { reason } => write!(f, "it was buried ({reason}); kick it"),
            Self::Finished => f.write_str("it is finished"),
            Self::TubePaused { left: time } => {
                f.write_str("its tube is paused")?;
                left(f, time)
            }
            Self::Merging { .. }
            | Self::Requires { .. }
            | Self::OutOfHours { .. }
            | Self::UnknownZone { .. }
            | Self::TubeLimit { .. }
            | Self::Throttled { .. }
            | Self::TubeRate { .. } => self.gate(f),
            Self::GroupBusy { group, in_flight } => {
                write!(
                    f,
                    "of its group {group:?} {in_flight} are in flight, as many as may be or more"
                )
            }
            Self::BehindInGroup { group, first } => {
                write!(f, "task {first} of its group {group:?} comes first")
            }
            Self::Behind { next } => write!(f, "others come before it, the next is task {next}"),
            Self::IsNext => f.write_str("it is the next that is taken"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {} in tube {:?} is {:?}", self.task, self.tube, self.state)?;
        for (at, reason) in self.reasons.iter().enumerate() {
            write!(f, "{}{reason}", if at == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}
