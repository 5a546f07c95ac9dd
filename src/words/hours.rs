//! Hours of the week, by the wall clock of a place: which they are as a text, whether a time is
//! within them, and when they begin next. Plain values.

use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::OPENINGS_MAX;
use crate::words::name::label;
use crate::words::zone::Zone;
use std::fmt;
use std::str::FromStr;

/// The hours of the week in which tasks of a tube are taken, see
/// [`TubeOptions::hours`](crate::TubeOptions::hours).
///
/// They are made of a text: items with a comma between them, each with a day or a first and a last
/// day, if it is not of each day, and a first and a last time; behind them the offset of the place
/// from UTC, if it has one, or its time zone. A last time that is not after the first one is of the
/// next day.
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
/// They follow the wall clock, forward and back. An offset is fixed. A time zone, such as
/// `Europe/Berlin`, needs the feature `cron`; the hours are then those that the clocks there show,
/// also on a day on which these are set. An opening in an hour that the clocks skip is skipped, and
/// one in an hour that comes twice is open both times. A build that does not know the zone of a
/// stored tube takes none of its tasks, and [`explain`](crate::Queue::explain) says so. With the
/// feature `serde` they can be serialised, as such a text, which is read again by a build that
/// knows its zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hours {
    /// Minutes of the week, from Monday 00:00 on: each from the first up to the second one. In
    /// their order, and none touches the next one.
    pub(crate) openings: Vec<(u16, u16)>,
    pub(crate) local: LocalTime,
}

/// By the clocks of which place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LocalTime {
    /// They are so many minutes ahead of UTC.
    Offset(i16),
    Zone(Zone),
}

impl LocalTime {
    /// By how many seconds its clocks are ahead of UTC at a time, in microseconds. `None` if this
    /// build does not know.
    fn ahead(&self, time: u64) -> Option<i32> {
        match self {
            Self::Offset(minutes) => Some(i32::from(*minutes) * 60),
            Self::Zone(zone) => zone.ahead(time),
        }
    }

    /// When its clocks are set next after a time; [`NEVER`] if they are not.
    fn next_change(&self, time: u64) -> u64 {
        match self {
            Self::Offset(_) => NEVER,
            Self::Zone(zone) => zone.next_change(time),
        }
    }
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const DAY: u16 = 24 * 60;
const WEEK: u16 = 7 * DAY;
/// In microseconds.
const SECOND: i128 = 1_000_000;
const MINUTE: i128 = 60 * SECOND;
/// How many changes of the clocks of a place a look ahead passes. There are fewer in a week, and
/// hours that end begin again within one.
const CHANGES_MAX: usize = 4;
/// Minutes from Monday 00:00 to the epoch, which was a Thursday.
const EPOCH: i128 = 3 * DAY as i128;

impl Hours {
    /// The hours of these minutes of the week, in any order.
    fn of(mut openings: Vec<(u16, u16)>, local: LocalTime) -> Self {
        openings.sort_unstable();
        let mut merged: Vec<(u16, u16)> = Vec::new();
        for (from, to) in openings {
            match merged.last_mut() {
                Some((_, end)) if *end >= from => *end = to.max(*end),
                _ => merged.push((from, to)),
            }
        }
        Self { openings: merged, local }
    }

    /// Refuses what no text makes.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { openings, local } = self;
        let are_openings = openings.iter().all(|(from, to)| from < to && *to <= WEEK);
        let are_apart =
            openings.iter().zip(openings.iter().skip(1)).all(|((_, end), (next, _))| end < next);
        let is_local = match local {
            LocalTime::Offset(offset) => offset.unsigned_abs() < DAY,
            LocalTime::Zone(zone) => label("time zone", zone.name()).is_ok(),
        };
        if openings.is_empty() || !(are_openings && are_apart && is_local) {
            return Err(invalid("hours need at least one opening"));
        }
        if openings.len() > OPENINGS_MAX {
            let text = format!("{} openings a week; {OPENINGS_MAX} are possible", openings.len());
            return Err(invalid(&text));
        }
        Ok(())
    }

    /// The time zone that they are by, if this build does not know it.
    pub(crate) fn unknown_zone(&self) -> Option<&str> {
        match &self.local {
            LocalTime::Zone(zone) if !zone.is_known() => Some(zone.name()),
            _ => None,
        }
    }

    /// Whether a time of the wall clock is within them.
    pub(crate) fn contain(&self, wall: u64) -> bool {
        self.local.ahead(wall).is_some_and(|ahead| self.contain_by(wall, ahead))
    }

    /// When they begin next after a time of the wall clock; [`NEVER`] if they never end, or it is
    /// not known.
    pub(crate) fn next_opening(&self, wall: u64) -> u64 {
        let mut from = wall;
        for _ in 0..=CHANGES_MAX {
            let Some(ahead) = self.local.ahead(from) else { break };
            let (next, until) = (self.next_by(from, ahead), self.local.next_change(from));
            if next < until || until == NEVER {
                return next;
            }
            // The clocks are set before that, perhaps into an opening.
            if self.contain(until) && !self.contain_by(until.saturating_sub(1), ahead) {
                return until;
            }
            from = until;
        }
        NEVER
    }

    /// Whether a time is within them by clocks that are so many seconds ahead of UTC.
    fn contain_by(&self, wall: u64, ahead: i32) -> bool {
        let (minute, _) = in_week(wall, ahead);
        self.openings.iter().any(|(from, to)| (*from..*to).contains(&minute))
    }

    /// When they begin next by such clocks; [`NEVER`] if they never end.
    fn next_by(&self, wall: u64, ahead: i32) -> u64 {
        let (minute, began) = in_week(wall, ahead);
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

/// The minute of the week at a time, in microseconds, by clocks that are so many seconds ahead of
/// UTC, and the time at which that week began.
fn in_week(wall: u64, ahead: i32) -> (u16, i128) {
    let local = i128::from(wall) + i128::from(ahead) * SECOND + EPOCH * MINUTE;
    let within = local.rem_euclid(i128::from(WEEK) * MINUTE);
    ((within / MINUTE) as u16, i128::from(wall) - within)
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
    if text.eq_ignore_ascii_case("UTC") {
        return Some(0);
    }
    let (sign, rest) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(rest), _) => (1, rest),
        (None, rest) => (-1, rest?),
    };
    let minutes = time(rest).filter(|minutes| *minutes < DAY)?;
    Some(sign * minutes.cast_signed())
}

/// Whether this is the name of a time zone, perhaps of none that there is. Times have a colon.
fn is_zone(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_part)
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
    /// [`Invalid`](ErrorKind::Invalid) for a text of another form, with more than 168 openings a
    /// week, or with a time zone that there is not;
    /// [`Unsupported`](ErrorKind::Unsupported) for a time zone without the feature `cron`.
    fn from_str(text: &str) -> Result<Self> {
        let shown = crate::words::name::cut(text, 100);
        let wrong = || {
            let form = "as in \"Mon-Fri 09:00-17:30, Sat 10:00-14:00 +02:00\", or with a zone as \
                        Europe/Berlin in the place of the offset";
            invalid(&format!("{shown:?} are no hours: they are written {form}"))
        };
        let text = text.trim();
        let is_place = |last: &str| is_zone(last) || offset(last).is_some();
        let placed = text.rsplit_once(' ').filter(|(_, last)| is_place(last));
        let (items, place) = placed.unwrap_or((text, "UTC"));
        let mut openings = Vec::new();
        for text in items.split(',') {
            item(text.trim(), &mut openings).ok_or_else(wrong)?;
            if openings.len() > 14 * OPENINGS_MAX {
                openings = Self::of(openings, LocalTime::Offset(0)).openings;
                if openings.len() > OPENINGS_MAX {
                    break;
                }
            }
        }
        let local = match offset(place) {
            Some(minutes) => LocalTime::Offset(minutes),
            None => LocalTime::Zone(Zone::named(place)?),
        };
        let hours = Self::of(openings, local);
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
        let offset = match &self.local {
            LocalTime::Zone(zone) => return write!(f, " {}", zone.name()),
            LocalTime::Offset(minutes) => minutes,
        };
        let (sign, ahead) = (if *offset < 0 { '-' } else { '+' }, offset.unsigned_abs());
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
            ("00:00-24:00", "Mon-Sun 00:00-00:00 utc".to_owned()),
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
            "Mon Fri",
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

    #[cfg(not(feature = "cron"))]
    #[test]
    fn a_zone_without_the_feature() {
        let error = "09:00-17:00 Europe/Berlin".parse::<Hours>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let stored =
            Hours { local: LocalTime::Zone(Zone::stored("Europe/Berlin")), ..hours("09:00-17:00") };
        assert_eq!(stored.unknown_zone(), Some("Europe/Berlin"));
        assert!(!stored.contain(at(0, 12, 0)));
        assert_eq!(stored.next_opening(at(0, 12, 0)), NEVER);
        assert_eq!(stored.check().map_err(|error| error.kind()), Ok(()));
    }

    #[cfg(feature = "cron")]
    mod zones {
        use super::*;

        /// A moment, in microseconds.
        fn utc(text: &str) -> u64 {
            text.parse::<jiff::Timestamp>().unwrap().as_microsecond() as u64
        }

        /// The next openings after a moment, in UTC.
        fn openings(text: &str, from: &str, most: usize) -> Vec<String> {
            let (hours, mut time) = (hours(text), utc(from));
            let next = || {
                time = hours.next_opening(time);
                assert!(hours.contain(time) && !hours.contain(time - 1));
                jiff::Timestamp::from_microsecond(time as i64).unwrap().to_string()
            };
            std::iter::repeat_with(next).take(most).collect()
        }

        #[test]
        fn texts_with_a_zone() {
            let office = hours("Mon-Fri 09:00-17:00 Europe/Berlin");
            assert_eq!(office, hours("Mon-Fri 09:00-17:00 europe/berlin"));
            assert_ne!(office, hours("Mon-Fri 09:00-17:00 +01:00"));
            assert!(office.to_string().ends_with("Fri 09:00-17:00 Europe/Berlin"));
            assert_eq!(hours(&office.to_string()), office);
            assert_eq!(office.unknown_zone(), None);
            for text in [
                "09:00-17:00 Etc/Unknown",
                "09:00-17:00 Europe/Nowhere",
                "09:00-17:00 Fri",
                "Mon Europe/Berlin",
            ] {
                assert_eq!(text.parse::<Hours>().unwrap_err().kind(), ErrorKind::Invalid, "{text}");
            }
            let lost = Hours { local: LocalTime::Zone(Zone::stored("Mars/Olympus")), ..office };
            assert_eq!(lost.unknown_zone(), Some("Mars/Olympus"));
            assert!(!lost.contain(utc("2026-01-05T10:00:00Z")));
        }

        /// Summer time begins on 29 March 2026 and ends on 25 October, both at 01:00 UTC.
        #[test]
        fn office_hours_are_those_of_the_clocks_there() {
            let text = "Mon-Fri 09:00-17:00 Europe/Berlin";
            let found = openings(text, "2026-03-27T12:00:00Z", 2);
            assert_eq!(found, ["2026-03-30T07:00:00Z", "2026-03-31T07:00:00Z"]);
            let found = openings(text, "2026-10-22T12:00:00Z", 2);
            assert_eq!(found, ["2026-10-23T07:00:00Z", "2026-10-26T08:00:00Z"]);
            let office = hours(text);
            let within = |time| office.contain(utc(time));
            assert!(within("2026-07-01T14:59:59Z") && !within("2026-07-01T15:00:00Z"));
            assert!(within("2026-12-01T15:59:59Z") && !within("2026-12-01T16:00:00Z"));
        }

        #[test]
        fn an_opening_in_the_hour_that_is_left_out_or_comes_twice() {
            // 02:30 is left out: what has begun then begins with the change.
            let night = "02:30-04:00 Europe/Berlin";
            let found = openings(night, "2026-03-28T00:00:00Z", 3);
            let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
            assert_eq!(found, expected);
            // An opening that is left out as a whole is not there on that day.
            let found = openings("02:10-02:50 Europe/Berlin", "2026-03-28T00:00:00Z", 2);
            assert_eq!(found, ["2026-03-28T01:10:00Z", "2026-03-30T00:10:00Z"]);
            // The hour from 02:00 on comes twice, and so does what begins in it.
            let found = openings(night, "2026-10-24T12:00:00Z", 3);
            let expected = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"];
            assert_eq!(found, expected);
            let found = openings("02:00-02:10 Europe/Berlin", "2026-10-24T12:00:00Z", 2);
            assert_eq!(found, ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z"]);
            // A change from one opening into another is no beginning.
            let found =
                openings("01:00-02:00, 03:00-04:00 Europe/Berlin", "2026-03-28T22:00:00Z", 2);
            assert_eq!(found, ["2026-03-29T00:00:00Z", "2026-03-29T23:00:00Z"]);
        }

        #[test]
        fn hours_that_never_end_and_the_ends_of_the_clock() {
            let all = hours("00:00-24:00 Europe/Berlin");
            assert!(all.contain(utc("2026-03-29T01:00:00Z")));
            assert_eq!(all.next_opening(utc("2026-03-29T01:00:00Z")), NEVER);
            for zone in ["Europe/Berlin", "Pacific/Apia", "America/St_Johns", "Etc/GMT+12"] {
                let hours = hours(&format!("Mon 09:00-10:00 {zone}"));
                assert!(hours.next_opening(0) < 8 * 86_400_000_000, "{zone}");
                assert_eq!(hours.next_opening(u64::MAX - 1), NEVER);
                assert!(!hours.contain(u64::MAX));
            }
            // A whole day is left out: Friday, 30 December 2011.
            let found = openings("Fri 09:00-10:00 Pacific/Apia", "2011-12-24T00:00:00Z", 1);
            assert_eq!(found, ["2012-01-05T19:00:00Z"]);
        }
    }
}
