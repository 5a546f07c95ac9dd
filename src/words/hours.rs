//! Hours of the week, by the wall clock of a place: which they are as a text, whether a time is
//! within them, and when they begin next. Plain values.

use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::OPENINGS_MAX;
use std::fmt;
use std::str::FromStr;

/// The hours of the week in which tasks of a tube are taken, see
/// [`TubeOptions::hours`](crate::TubeOptions::hours).
///
/// They are made of a text: items with a comma between them, each with a day or a first and a last
/// day, if it is not of each day, and a first and a last time; behind them the offset of the place
/// from UTC, if it has one. A last time that is not after the first one is of the next day.
///
/// ```
/// use tubewell::Hours;
///
/// # fn main() -> tubewell::Result<()> {
/// let office: Hours = "Mon-Fri 09:00-17:30, Sat 10:00-14:00 +02:00".parse()?;
/// let nights: Hours = "22:00-06:00".parse()?;
/// assert_eq!(office.to_string().parse::<Hours>()?, office);
/// assert!("Mon 09:00".parse::<Hours>().is_err());
/// # assert_ne!(office, nights);
/// # Ok(())
/// # }
/// ```
///
/// It follows the wall clock, forward and back. Days of summer time have no rule here: the offset
/// is fixed. With the feature `serde` it can be serialised, as such a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hours {
    /// Minutes of the week, from Monday 00:00 on: each from the first up to the second one. In
    /// their order, and none touches the next one.
    pub(crate) openings: Vec<(u16, u16)>,
    /// How much the clocks of the place are ahead of UTC, in minutes.
    pub(crate) offset: i16,
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const DAY: u16 = 24 * 60;
const WEEK: u16 = 7 * DAY;
/// In microseconds.
const MINUTE: i128 = 60_000_000;
/// Minutes from Monday 00:00 to the epoch, which was a Thursday.
const EPOCH: i128 = 3 * DAY as i128;

impl Hours {
    /// The hours of these minutes of the week, in any order.
    fn of(mut openings: Vec<(u16, u16)>, offset: i16) -> Self {
        openings.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::new();
        for (from, to) in openings {
            match merged.last_mut() {
                Some((_, end)) if *end >= from => *end = to.max(*end),
                _ => merged.push((from, to)),
            }
        }
        Self { openings: merged, offset }
    }

    /// Refuses what no text makes.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { openings, offset } = self;
        let are_openings = openings.iter().all(|(from, to)| from < to && *to <= WEEK);
        let are_apart =
            openings.iter().zip(openings.iter().skip(1)).all(|((_, end), (next, _))| end < next);
        let is_offset = offset.unsigned_abs() < DAY;
        if openings.is_empty() || !(are_openings && are_apart && is_offset) {
            return Err(invalid("hours need at least one opening"));
        }
        if openings.len() > OPENINGS_MAX {
            let text = format!("{} openings a week; {OPENINGS_MAX} are possible", openings.len());
            return Err(invalid(&text));
        }
        Ok(())
    }

    /// The minute of the week at a time of the wall clock, in microseconds, and the time at which
    /// that week began.
    fn in_week(&self, wall: u64) -> (u16, i128) {
        let local = i128::from(wall) + i128::from(self.offset) * MINUTE + EPOCH * MINUTE;
        let week = i128::from(WEEK) * MINUTE;
        let within = local.rem_euclid(week);
        ((within / MINUTE) as u16, i128::from(wall) - within)
    }

    /// Whether a time of the wall clock is within them.
    pub(crate) fn contain(&self, wall: u64) -> bool {
        let (minute, _) = self.in_week(wall);
        self.openings.iter().any(|(from, to)| (*from..*to).contains(&minute))
    }

    /// When they begin next after a time of the wall clock; [`NEVER`] if they never end.
    pub(crate) fn next_opening(&self, wall: u64) -> u64 {
        let (minute, began) = self.in_week(wall);
        let ends_with_the_week = self.openings.last().is_some_and(|(_, to)| *to == WEEK);
        // What goes on over the end of the week does not begin with the next one.
        let mut begins = self
            .openings
            .iter()
            .map(|(from, _)| *from)
            .filter(|from| *from > 0 || !ends_with_the_week);
        let first = begins.clone().next();
        let next = begins.find(|from| *from > minute);
        let minutes = match (next, first) {
            (Some(next), _) => i128::from(next),
            (None, Some(first)) => i128::from(first) + i128::from(WEEK),
            (None, None) => return NEVER,
        };
        u64::try_from(began + minutes * MINUTE).unwrap_or(NEVER)
    }
}

fn invalid(text: &str) -> Error {
    Error::new(ErrorKind::Invalid).because(text)
}

/// A time of the day, or its end, as minutes.
fn time(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let two = |text: &str| {
        let is_two = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_digit());
        is_two.then(|| text.parse::<u16>().ok()).flatten()
    };
    let (hour, minute) = (two(hour)?, two(minute).filter(|minute| *minute < 60)?);
    Some(hour * 60 + minute).filter(|time| *time <= DAY)
}

/// Whether the offset begins here, and how much it is.
fn offset(text: &str) -> Option<i16> {
    if text == "UTC" {
        return Some(0);
    }
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (None, rest) => (-1, rest?),
    };
    let minutes = time(rest).filter(|minutes| *minutes < DAY)?;
    Some(sign * minutes.cast_signed())
}

fn day(text: &str) -> Option<u16> {
    let found = DAYS.iter().position(|day| day.eq_ignore_ascii_case(text))?;
    u16::try_from(found).ok()
}

/// Adds the openings of one item.
fn item(text: &str, openings: &mut Vec<(u16, u16)>) -> Option<()> {
    let (days, times) = match text.split_once(' ') {
        Some((days, times)) => (Some(days), times.trim_start()),
        None => (None, text),
    };
    let (first, last) = match days.map(|days| days.split_once('-').unwrap_or((days, days))) {
        Some((first, last)) => (day(first)?, day(last)?),
        None => (0, 6),
    };
    let (from, to) = times.split_once('-')?;
    let (from, to) = (time(from).filter(|from| *from < DAY)?, time(to)?);
    let length = if to > from { to - from } else { to + DAY - from };
    // From the first day to the last one, over the end of the week if need be.
    for day in (0..=(last + 7 - first) % 7).map(|day| (first + day) % 7) {
        let from = day * DAY + from;
        let to = from + length;
        openings.push((from, to.min(WEEK)));
        if to > WEEK {
            openings.push((0, to - WEEK));
        }
    }
    Some(())
}

impl FromStr for Hours {
    type Err = Error;

    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a text of another form, or with more than 168 openings a
    /// week.
    fn from_str(text: &str) -> Result<Self> {
        let shown = crate::words::name::cut(text, 100);
        let wrong = || {
            let form = "as in \"Mon-Fri 09:00-17:30, Sat 10:00-14:00 +02:00\"";
            invalid(&format!("{shown:?} are no hours: they are written {form}"))
        };
        let text = text.trim();
        let placed = text.rsplit_once(' ').and_then(|(items, last)| Some((items, offset(last)?)));
        let (items, offset) = placed.unwrap_or((text, 0));
        let mut openings = Vec::new();
        for text in items.split(',') {
            item(text.trim(), &mut openings).ok_or_else(wrong)?;
            if openings.len() > 14 * OPENINGS_MAX {
                openings = Self::of(openings, offset).openings;
                if openings.len() > OPENINGS_MAX {
                    break;
                }
            }
        }
        let hours = Self::of(openings, offset);
        hours.check()?;
        Ok(hours)
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (mut from, to) in self.openings.iter().copied() {
            while from < to {
                let (day, begin) = (from / DAY, from % DAY);
                // One that is longer than a day is shown day by day.
                let end = if to - from < DAY { to } else { (day + 1) * DAY };
                let name = DAYS.get(usize::from(day)).copied().unwrap_or_default();
                let last = match end % DAY {
                    0 => DAY,
                    last => last,
                };
                let [(h, m), (to_h, to_m)] = [begin, last].map(|time| (time / 60, time % 60));
                write!(f, "{separator}{name} {h:02}:{m:02}-{to_h:02}:{to_m:02}")?;
                (from, separator) = (end, ", ");
            }
        }
        let (sign, ahead) = (if self.offset < 0 { '-' } else { '+' }, self.offset.unsigned_abs());
        write!(f, " {sign}{:02}:{:02}", ahead / 60, ahead % 60)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Hours {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Hours {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        let text = <String as serde::Deserialize>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn hours(text: &str) -> Hours {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// 2024-01-01 was a Monday.
    fn at(day: u64, hour: u64, minute: u64) -> u64 {
        Duration::from_secs(1_704_067_200 + (day * 24 + hour) * 3600 + minute * 60).as_micros()
            as u64
    }

    #[test]
    fn texts_are_read_and_written_alike() {
        let same = [
            ("09:00-17:00", "Mon-Sun 9:00-17:00".replace(" 9", " 09")),
            ("Mon 09:00-17:00, Mon 12:00-18:00", "mon 09:00-18:00 UTC".to_owned()),
            (
                "Sat-Mon 22:00-06:00",
                "Sat 22:00-06:00, Sun 22:00-06:00, Mon 22:00-06:00 +00:00".into(),
            ),
            ("00:00-24:00", "Mon-Sun 00:00-00:00".to_owned()),
            ("Fri 08:00-08:00", "Fri 08:00-24:00, Sat 00:00-08:00".to_owned()),
        ];
        for (one, other) in same {
            assert_eq!(hours(one), hours(&other), "{one}");
            assert_eq!(hours(&hours(one).to_string()), hours(one), "{one}");
        }
        let shown = hours("Sun 23:30-01:00, Tue 10:00-11:00 -05:30").to_string();
        assert_eq!(shown, "Mon 00:00-01:00, Tue 10:00-11:00, Sun 23:30-24:00 -05:30");
        let half_hours: Vec<_> = (0..24).map(|hour| format!("{hour:02}:00-{hour:02}:30")).collect();
        let most = hours(&half_hours.join(","));
        assert_eq!((most.openings.len(), hours(&most.to_string())), (168, most.clone()));
        let one_more = format!("{}, Mon 00:40-00:50", half_hours.join(","));
        assert_eq!(hours(&vec!["00:00-01:00"; 9999].join(",")), hours("00:00-01:00"));
        let wrong = [
            "",
            "Mon",
            "09:00",
            "24:00-25:00",
            "9:00-10:00",
            "Mon-Fry 09:00-10:00",
            "09:00-10:60",
            "Mon 09:00-10:00 +24:00",
            "Mon 09:00-10:00, ",
            "+9:-1-10:00",
            &one_more,
        ];
        for text in wrong {
            let error = text.parse::<Hours>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text:?}");
            assert!(error.to_string().len() < 400);
        }
    }

    #[test]
    fn a_week_by_the_clock_of_a_place() {
        let office = hours("Mon-Fri 09:00-17:00 +02:00");
        assert!(!office.contain(at(0, 6, 59)) && office.contain(at(0, 7, 0)));
        assert!(office.contain(at(0, 14, 59)) && !office.contain(at(0, 15, 0)));
        assert_eq!(office.next_opening(at(0, 6, 59)), at(0, 7, 0));
        assert_eq!(office.next_opening(at(0, 7, 0)), at(1, 7, 0));
        assert_eq!(office.next_opening(at(4, 8, 0)), at(7, 7, 0));
        assert_eq!(office.next_opening(at(0, 6, 59) + 59_999_999), at(0, 7, 0));
        let behind = hours("Mon 00:00-01:00 -11:00");
        assert!(behind.contain(at(0, 11, 30)) && !behind.contain(at(0, 0, 30)));
        assert_eq!(behind.next_opening(at(0, 11, 30)), at(7, 11, 0));
        // Over the end of the week it begins once.
        let nights = hours("Sun 22:00-02:00, Wed 10:00-11:00");
        assert!(nights.contain(at(6, 23, 59)) && nights.contain(at(7, 0, 0)));
        assert!(!nights.contain(at(7, 2, 0)));
        assert_eq!(nights.next_opening(at(6, 22, 0)), at(9, 10, 0));
        assert_eq!(nights.next_opening(at(9, 10, 0)), at(13, 22, 0));
        assert_eq!(hours("00:00-24:00").next_opening(at(3, 3, 3)), NEVER);
        // At the ends of the clock.
        for text in ["Mon 09:00-10:00 +23:59", "Mon 09:00-10:00 -23:59"] {
            assert!(hours(text).next_opening(0) < at(0, 0, 0));
            assert_eq!(hours(text).next_opening(u64::MAX - 1), NEVER);
        }
    }
}
