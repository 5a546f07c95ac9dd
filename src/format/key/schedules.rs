//! The keys of the rows of schedules: what one is, how far it has come, and when it fires next.
//! They stand under no run: a tube that is truncated keeps its schedules.

use super::{Key, Tag, tagged, with_number};
use crate::format::Deadline;
use crate::words::clock::Now;

/// The clock by which schedules fire, each in a range of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FireClock {
    /// Intervals, in queue time.
    Queue = 1,
    /// Cron texts, by the wall clock.
    Wall = 2,
}

impl FireClock {
    pub(crate) const ALL: [Self; 2] = [Self::Queue, Self::Wall];

    /// The deadline of tasks by the same clock. A tube has one bound for both.
    pub(crate) fn deadline(self) -> Deadline {
        match self {
            Self::Queue => Deadline::Delay,
            Self::Wall => Deadline::RunAt,
        }
    }

    /// Now by this clock.
    pub(crate) fn time_of(self, now: Now) -> u64 {
        self.deadline().time_of(now)
    }

    pub(crate) fn of(is_wall: bool) -> Self {
        if is_wall { Self::Wall } else { Self::Queue }
    }
}

/// The key of a schedule.
pub(crate) fn schedule(name: &str) -> Key {
    tagged(Tag::Schedule, name.as_bytes())
}

/// The key of how far a schedule has come.
pub(crate) fn firing(name: &str) -> Key {
    tagged(Tag::Firing, name.as_bytes())
}

/// The name in a key of [`schedule`] or [`firing`].
pub(crate) fn name_of_schedule(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(1..)?).ok()
}

/// The beginning of the keys of the next fires of all schedules of a tube.
pub(crate) fn fires_of(tube: u32) -> Key {
    tagged(Tag::Fire, &tube.to_be_bytes())
}

/// The beginning of those by one clock.
pub(crate) fn fires_by(tube: u32, clock: FireClock) -> Key {
    let mut key = fires_of(tube);
    key.push(clock as u8);
    key
}

/// The key of the next fire of a schedule.
pub(crate) fn fire(tube: u32, clock: FireClock, when: u64, name: &str) -> Key {
    let mut key = with_number(fires_by(tube, clock), when);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The tube, the clock, the time and the name in a key of [`fire`].
pub(crate) fn of_fire(key: &[u8]) -> Option<(u32, FireClock, u64, &str)> {
    let (tube, rest) = key.get(1..)?.split_first_chunk()?;
    let (clock, rest) = rest.split_first()?;
    let clock = FireClock::ALL.into_iter().find(|known| *known as u8 == *clock)?;
    let (when, name) = rest.split_first_chunk()?;
    let name = std::str::from_utf8(name).ok()?;
    Some((u32::from_be_bytes(*tube), clock, u64::from_be_bytes(*when), name))
}
