//! Schedules in plain values: when they fire, what becomes of fires that were missed, and what is
//! known of one. No rule is here.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{CATCH_UP_MAX, SCHEDULE_NAME_MAX, SCHEDULE_PAYLOAD_MAX};
use crate::words::name::label;
use crate::words::task::TaskId;
use std::time::{Duration, SystemTime};

/// What becomes of fires of a schedule that were missed: those that were due while the queue was
/// closed, the machine slept or the disk was full, and that others follow which are due as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Missed {
    /// They are not made up for. The last fire that is due is made if it is late by at most a
    /// minute.
    Skip,
    /// The last fire that is due is made, however late, and stands for all. The default.
    #[default]
    Coalesce,
    /// The last fire that is due is made, and so many of the missed ones before it, at most 1000;
    /// `u32::MAX` is all of them. Each is a child of its own with its own nominal time, the oldest
    /// first.
    CatchUp(u32),
}

/// What a fire does if the last child of its schedule has not ended: it is not done, not buried
/// and not gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It makes another one beside it. The default.
    #[default]
    Allow,
    /// It makes none, and counts as missed.
    Skip,
    /// It deletes that one, also if it is taken or others wait for it, as
    /// [`force_delete`](crate::Tube::force_delete) does, and makes another one. If the other one is
    /// refused all the same, nothing is deleted.
    Replace,
}

/// When a schedule fires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Timing {
    /// So many microseconds of queue time after the last fire.
    Every(u64),
    /// When the wall clock of a zone fits this text.
    Cron { text: String, zone: String },
}

impl Timing {
    /// Whether it fires by the wall clock.
    pub(crate) fn is_wall(&self) -> bool {
        matches!(self, Self::Cron { .. })
    }
}

/// What is known of a schedule; from [`Schedule::info`](crate::Schedule::info),
/// [`Queue::schedules`](crate::Queue::schedules) and [`Tube::schedules`](crate::Tube::schedules).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleInfo {
    /// Its name.
    pub name: String,
    /// The name of the tube that its children are put into, which may have been dropped.
    pub tube: String,
    /// Whether that tube exists. While it does not, each fire is missed.
    pub has_tube: bool,
    /// The time between two fires; none if it fires by a cron text.
    pub every: Option<Duration>,
    /// The cron text, if it has one.
    pub cron: Option<String>,
    /// The time zone of the cron text.
    pub zone: Option<String>,
    /// How long after it was made, or its timing was replaced, it fires at the earliest.
    pub offset: Duration,
    /// What becomes of missed fires.
    pub missed: Missed,
    /// What a fire does beside a child that has not ended.
    pub overlap: Overlap,
    /// The nominal time of the next fire, by [the queue's clock](crate#time) of an interval and by
    /// the wall clock of a cron text. None while it is paused or stands still, and if it never
    /// fires again.
    pub next: Option<SystemTime>,
    /// What is left until then, by that clock; zero if it is due. None if there is no next fire.
    pub left: Option<Duration>,
    /// Whether it is paused.
    pub is_paused: bool,
    /// Whether it stands still because it has a cron text and this build lacks the feature `cron`.
    pub lacks_feature: bool,
    /// Whether it stands still because the queue was used by a build that could not read its cron
    /// text. It goes on where it was once it is [made again](crate::NewSchedule::make) or
    /// [changed](crate::Schedule::update) by one that can.
    pub is_refused: bool,
    /// How many children it has made, with those of [`run_now`](crate::Schedule::run_now), and how
    /// many keys it has found taken instead. The next child has the key `<name>-<children + 1>`.
    pub children: u64,
    /// How many fires have made no child. Of a cron text, of those that are missed at once at most
    /// 200 are counted.
    pub missed_fires: u64,
    /// The last child, also after it has ended.
    pub last: Option<TaskId>,
    /// The nominal time of the last child.
    pub last_nominal: Option<SystemTime>,
    /// When it was made, in [queue time](crate#time).
    pub created: SystemTime,
    /// The payload of its children.
    pub payload: Vec<u8>,
    /// Their priority, if it does not follow the tube. Smaller first.
    pub priority: Option<i64>,
    /// Their group.
    pub group: Option<String>,
    /// The conditions that they [require](crate::NewSchedule::require) themselves.
    pub requires: Vec<String>,
    /// The [throttles](crate::NewSchedule::throttle) of their own.
    pub throttles: Vec<String>,
    /// Their delay.
    pub delay: Option<Duration>,
    /// Their ttl, if it does not follow the tube.
    pub ttl: Option<Duration>,
    /// Their ttr, if it does not follow the tube.
    pub ttr: Option<Duration>,
    /// Their kind.
    pub kind: Option<String>,
    /// Their tags.
    pub tags: Vec<String>,
    /// Their limit of attempts, if it does not follow the tube.
    pub max_attempts: Option<u32>,
}

/// Refuses a name that is none, or too long for the keys of children.
pub(crate) fn check_name(name: &str) -> Result<()> {
    label("schedule name", name)?;
    if name.len() <= SCHEDULE_NAME_MAX {
        return Ok(());
    }
    let text = format!(
        "schedule name has {} bytes; it takes at most {SCHEDULE_NAME_MAX}, because its children \
         have it in their keys",
        name.len()
    );
    Err(Error::new(ErrorKind::Invalid).because(text))
}

/// Refuses a catch-up of more fires than one step looks at.
pub(crate) fn check_missed(missed: Missed) -> Result<()> {
    match missed {
        Missed::CatchUp(most) if most > CATCH_UP_MAX && most < u32::MAX => {
            let text = format!(
                "CatchUp({most}); it takes at most {CATCH_UP_MAX}, or u32::MAX for all of them"
            );
            Err(Error::new(ErrorKind::Invalid).because(text))
        }
        _ => Ok(()),
    }
}

/// Refuses a payload that is too long for the row of a schedule.
pub(crate) fn check_payload(bytes: usize) -> Result<()> {
    if bytes <= SCHEDULE_PAYLOAD_MAX {
        return Ok(());
    }
    let text = format!("{bytes} bytes, the limit of a schedule is {SCHEDULE_PAYLOAD_MAX}");
    Err(Error::new(ErrorKind::TooLarge).because(text))
}
