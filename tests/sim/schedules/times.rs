//! When schedules fire, by plain arithmetic: so long after the fire before, or at the minutes of a
//! local time. What fits a cron text and when the clocks change is written here once more, so that
//! neither the library nor the rules that it has built in are asked.

use super::secs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tubewell::NewSchedule;

/// When a schedule fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Every so many seconds.
    Every(u64),
    /// By this one of [`CRONS`].
    Cron(usize),
}

/// A cron text, its zone, and what fits it: the day of the week, the hour and the minute.
pub struct Cron {
    pub text: &'static str,
    pub zone: &'static Zone,
    fits: fn(u64, u64, u64) -> bool,
}

/// The minutes by which local time is ahead, each from that minute since the epoch on.
pub struct Zone {
    pub name: &'static str,
    offsets: &'static [(u64, u64)],
}

/// 2026-03-29 01:00 UTC: 02:00 to 03:00 does not exist.
const BERLIN_SUMMER: u64 = 29_579_100;
/// 2026-10-25 01:00 UTC: 02:00 to 03:00 comes twice.
const BERLIN_WINTER: u64 = 29_881_500;
/// 2026-04-04 15:00 UTC: 01:30 to 02:00 comes twice.
const HOWE_WINTER: u64 = 29_588_580;
/// 2026-10-03 15:30 UTC: 02:00 to 02:30 does not exist.
const HOWE_SUMMER: u64 = 29_850_690;
/// The minutes at which the clocks of a zone change.
pub const CHANGES: [u64; 4] = [BERLIN_SUMMER, BERLIN_WINTER, HOWE_WINTER, HOWE_SUMMER];

const UTC: Zone = Zone { name: "UTC", offsets: &[(0, 0)] };
const BERLIN: Zone =
    Zone { name: "Europe/Berlin", offsets: &[(0, 60), (BERLIN_SUMMER, 120), (BERLIN_WINTER, 60)] };
/// With half an hour.
const HOWE: Zone = Zone {
    name: "Australia/Lord_Howe",
    offsets: &[(0, 660), (HOWE_WINTER, 630), (HOWE_SUMMER, 660)],
};

pub const CRONS: [Cron; 7] = [
    Cron { text: "*/2 * * * *", zone: &UTC, fits: |_, _, minute| minute % 2 == 0 },
    Cron { text: "*/3 * * * *", zone: &BERLIN, fits: |_, _, minute| minute % 3 == 0 },
    Cron { text: "30 2 * * *", zone: &BERLIN, fits: |_, hour, minute| (hour, minute) == (2, 30) },
    Cron {
        text: "*/7 1-3 * * 0",
        zone: &BERLIN,
        fits: |day, hour, minute| day == 0 && (1..=3).contains(&hour) && minute % 7 == 0,
    },
    Cron {
        text: "5-50/15 * * * SUN,MON",
        zone: &HOWE,
        fits: |day, _, minute| day < 2 && matches!(minute, 5 | 20 | 35 | 50),
    },
    Cron {
        text: "10,45 1,2 * * *",
        zone: &HOWE,
        fits: |_, hour, minute| matches!(hour, 1 | 2) && matches!(minute, 10 | 45),
    },
    Cron { text: "@hourly", zone: &UTC, fits: |_, _, minute| minute == 0 },
];

impl Cron {
    fn fits(&self, local: u64) -> bool {
        // The epoch began on a Thursday.
        (self.fits)((local / 1440 + 4) % 7, local / 60 % 24, local % 60)
    }

    /// Whether it fires at this minute: at a local time that did not come before, or at a change
    /// that leaves out one that fits.
    fn fires(&self, minute: u64) -> bool {
        let offsets = self.zone.offsets;
        let offset = offsets.iter().rfind(|(from, _)| *from <= minute).unwrap().1;
        let local = minute + offset;
        let changes = || offsets.windows(2).map(|pair| (pair[1].0, pair[0].1, pair[1].1));
        let came = |(from, before, _)| from <= minute && local < from + before;
        let skips = |(from, before, after)| {
            from == minute && (from + before..from + after).any(|local| self.fits(local))
        };
        self.fits(local) && !changes().any(came) || changes().any(skips)
    }
}

impl Timing {
    /// The first fire of a schedule that begins then.
    pub fn first(self, from: SystemTime) -> SystemTime {
        match self {
            Self::Every(_) => from,
            Self::Cron(_) => self.following(from - Duration::from_nanos(1)),
        }
    }

    /// The fire after this time, or after the fire of this time.
    pub fn following(self, after: SystemTime) -> SystemTime {
        match self {
            Self::Every(every) => after + secs(every),
            Self::Cron(no) => {
                let first = after.duration_since(UNIX_EPOCH).unwrap().as_secs() / 60 + 1;
                let found = (first..).find(|minute| CRONS[no].fires(*minute)).unwrap();
                UNIX_EPOCH + secs(60 * found)
            }
        }
    }

    /// Gives it to a schedule.
    pub fn give<T: ?Sized>(self, to: NewSchedule<'_, T>) -> NewSchedule<'_, T> {
        match self {
            Self::Every(every) => to.every(secs(every)),
            Self::Cron(no) => to.cron(CRONS[no].text).zone(CRONS[no].zone.name),
        }
    }
}

/// The times of the documents.
#[test]
fn each_local_time_fires_once() {
    let minutes = |no: usize, from: u64, most: usize| {
        let fires = (from..).filter(|minute| CRONS[no].fires(*minute));
        fires.take(most).map(|minute| minute - from).collect::<Vec<_>>()
    };
    assert_eq!(minutes(2, BERLIN_SUMMER - 60, 2), [60, 60 + 23 * 60 + 30]);
    assert_eq!(minutes(2, BERLIN_WINTER - 60, 2), [30, 30 + 25 * 60]);
    assert_eq!(minutes(1, BERLIN_WINTER - 3, 2), [0, 63]);
    assert_eq!(minutes(5, HOWE_SUMMER - 15, 3), [0, 15, 30]);
    assert_eq!(minutes(5, HOWE_WINTER - 15, 3), [0, 55, 90]);
    let berlin_sunday = minutes(3, BERLIN_SUMMER - 10, 3);
    assert_eq!(berlin_sunday, [6, 10, 17]);
}
