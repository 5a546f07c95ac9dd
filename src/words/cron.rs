//! Cron texts in a time zone, over a library of each. Without the feature `cron` every call says
//! that it is lacking. Reads no clock and no file: the rules of the time zones are built in, and
//! the library is given no zone to look for.
//!
//! The library finds the local times that fit a text as if they were UTC. Which moment a local time
//! is, is decided here, so that the rule for the change to summer time and back is one.

#[cfg(feature = "cron")]
use self::with_feature as library;
#[cfg(not(feature = "cron"))]
use self::without_feature as library;
use crate::words::error::{Error, ErrorKind, Result};
use std::cell::Cell;

/// Whether this build has the feature.
pub(crate) const IS_AVAILABLE: bool = cfg!(feature = "cron");

/// A cron text that was read, with its zone.
pub(crate) struct CronText {
    text: library::Parts,
    /// How often the library was asked for a local time.
    looks: Cell<usize>,
}

impl CronText {
    /// Reads a text.
    ///
    /// # Errors
    /// `Invalid` if it is none, or there is no such zone. `Unsupported` without the feature.
    pub(crate) fn read(text: &str, zone: &str) -> Result<Self> {
        Ok(Self { text: library::read(text, zone)?, looks: Cell::new(0) })
    }

    /// The first fire after this time of day; [`NEVER`](crate::words::clock::NEVER) if there is
    /// none.
    pub(crate) fn after(&self, time: u64) -> u64 {
        library::after(&self.text, time, &self.looks)
    }

    /// How often the library was asked for a local time since the last call of this, which is what
    /// takes time.
    pub(crate) fn looks(&self) -> usize {
        self.looks.take()
    }
}

#[cfg(not(feature = "cron"))]
mod without_feature {
    use super::{Cell, Error, ErrorKind, Result};

    /// There is no text.
    pub(super) type Parts = std::convert::Infallible;

    /// Refuses every text.
    pub(super) fn read(_text: &str, _zone: &str) -> Result<Parts> {
        let text =
            "a cron text needs the feature `cron` of tubewell; build with it, or use an interval";
        Err(Error::new(ErrorKind::Unsupported).because(text))
    }

    pub(super) fn after(parts: &Parts, _time: u64, _looks: &Cell<usize>) -> u64 {
        match *parts {}
    }
}

#[cfg(feature = "cron")]
mod with_feature {
    use super::{Cell, Error, ErrorKind, Result};
    use crate::words::clock::NEVER;
    use crate::words::zone::rules_of;
    use cronexpr::{Crontab, FallbackTimezoneOption, MakeTimestamp, ParseOptions};
    use jiff::civil::DateTime;
    use jiff::tz::{AmbiguousOffset, TimeZone};
    use jiff::{Span, Timestamp};

    /// The local times, and the zone.
    pub(super) type Parts = (Crontab, TimeZone);

    /// Microseconds after which nothing fires: in the year 9892. The library ends with 9999.
    const END: u64 = 250_000_000_000_000_000;

    /// How often the library is asked for a local time, which looks four years ahead: the 29th of
    /// February is on one day of the week each 28 years, and each 40 over a century without a leap
    /// day.
    const LOOKS: usize = 11;

    /// Texts that have a name.
    const NAMED: [(&str, &str); 7] = [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ];

    /// Reads a text and finds its zone.
    pub(super) fn read(text: &str, zone: &str) -> Result<Parts> {
        Ok((parsed(text)?, rules_of(zone)?))
    }

    /// The first fire after this time of day; [`NEVER`] if there is none.
    pub(super) fn after((crontab, zone): &Parts, time: u64, looks: &Cell<usize>) -> u64 {
        let Some(start) = at(time) else { return NEVER };
        let Some(mut local) = as_utc(zone.to_datetime(start)) else { return NEVER };
        loop {
            let Some(next) = following(crontab, local, looks) else { return NEVER };
            let fire = moment(zone, TimeZone::UTC.to_datetime(next));
            // One that comes twice was there before.
            match fire.and_then(|fire| u64::try_from(fire.as_microsecond()).ok()) {
                Some(fire) if fire > time => return if fire < END { fire } else { NEVER },
                Some(_) => local = next,
                None => return NEVER,
            }
        }
    }

    fn parsed(text: &str) -> Result<Crontab> {
        let invalid = |fault: &str| {
            let text = format!("the cron text {text:?}: {fault}");
            Error::new(ErrorKind::Invalid).because(text)
        };
        let known = NAMED.iter().find(|(name, _)| *name == text.trim());
        let fields: Vec<&str> = known.map_or(text, |(_, text)| text).split_whitespace().collect();
        let &[_, _, day, _, weekday] = fields.as_slice() else {
            return Err(invalid(
                "it takes five fields: minute, hour, day of the month, month, day of the week; or \
                 one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually",
            ));
        };
        // The library does not find the last days of December.
        if day.contains(['L', 'W']) || weekday.contains(['L', '#']) {
            return Err(invalid("`L`, `W` and `#` are not supported; name the days by numbers"));
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let read = cronexpr::parse_crontab_with(&fields.join(" "), options);
        read.map_err(|error| invalid(&error.to_string()))
    }

    fn at(time: u64) -> Option<Timestamp> {
        if time >= END {
            return None;
        }
        Timestamp::from_microsecond(i64::try_from(time).ok()?).ok()
    }

    fn as_utc(local: DateTime) -> Option<Timestamp> {
        TimeZone::UTC.to_timestamp(local).ok()
    }

    /// The next local time that fits, as if it were UTC.
    fn following(crontab: &Crontab, local: Timestamp, looks: &Cell<usize>) -> Option<Timestamp> {
        let mut from = local;
        for _ in 0..LOOKS {
            looks.set(looks.get() + 1);
            if from.as_microsecond() >= END as i64 {
                break;
            }
            if let Ok(found) = crontab.find_next(MakeTimestamp(from)) {
                return Some(found.timestamp());
            }
            from = from.checked_add(Span::new().hours(4 * 365 * 24)).ok()?;
        }
        None
    }

    /// The moment of a local time: the first of two, and of none the moment at which the clocks are
    /// set past it.
    fn moment(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
        match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
            AmbiguousOffset::Gap { before, after } => {
                let early = after.to_timestamp(local).ok()?;
                let change = zone.following(early).next().map(|change| change.timestamp());
                change.or_else(|| before.to_timestamp(local).ok())
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::words::cron::CronText;

        fn check(text: &str, zone: &str) -> Result<()> {
            CronText::read(text, zone).map(drop)
        }

        fn after(text: &str, zone: &str, time: u64) -> u64 {
            CronText::read(text, zone).unwrap().after(time)
        }

        fn micros(text: &str) -> u64 {
            text.parse::<Timestamp>().unwrap().as_microsecond() as u64
        }

        /// The fires after a moment, in UTC.
        fn fires(text: &str, zone: &str, from: &str, most: usize) -> Vec<String> {
            let mut time = micros(from);
            let next = || {
                time = after(text, zone, time);
                let shown = Timestamp::from_microsecond(time as i64).unwrap();
                shown.to_string()
            };
            std::iter::repeat_with(next).take(most).collect()
        }

        #[test]
        fn a_plain_day_has_its_local_times() {
            let found = fires("0 9 * * 1-5", "Europe/Berlin", "2026-01-02T07:00:00Z", 3);
            let expected = ["2026-01-02T08:00:00Z", "2026-01-05T08:00:00Z", "2026-01-06T08:00:00Z"];
            assert_eq!(found, expected);
            let found = fires("*/20 * * * *", "UTC", "2026-01-02T07:00:00Z", 2);
            assert_eq!(found, ["2026-01-02T07:20:00Z", "2026-01-02T07:40:00Z"]);
            let found = fires("0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", 1);
            assert_eq!(found, ["2104-02-29T00:00:00Z"]);
            // A day in February and one of the week, both of which have to fit.
            let found = fires("0 0 29 2 */4", "UTC", "2032-03-01T00:00:00Z", 3);
            assert_eq!(
                found,
                ["2052-02-29T00:00:00Z", "2060-02-29T00:00:00Z", "2080-02-29T00:00:00Z"]
            );
        }

        #[test]
        fn a_text_that_has_a_name() {
            for (name, expected) in [
                ("@hourly", "2026-01-02T08:00:00Z"),
                (" @daily", "2026-01-03T00:00:00Z"),
                ("@midnight", "2026-01-03T00:00:00Z"),
                ("@weekly", "2026-01-04T00:00:00Z"),
                ("@monthly", "2026-02-01T00:00:00Z"),
                ("@yearly", "2027-01-01T00:00:00Z"),
                ("@annually", "2027-01-01T00:00:00Z"),
            ] {
                assert_eq!(fires(name, "UTC", "2026-01-02T07:30:00Z", 1), [expected], "{name}");
            }
        }

        /// 02:00 to 03:00 does not exist on 29 March 2026 in Berlin: at 01:00 UTC it is 03:00.
        #[test]
        fn a_local_time_that_is_left_out_fires_at_the_change() {
            let found = fires("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3);
            let expected = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
            assert_eq!(found, expected);
            // All of them together fire once, also with one that exists.
            let found = fires("*/15 2-3 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 2);
            assert_eq!(found, ["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z"]);
            // Half an hour on Lord Howe, and a whole day on Samoa.
            let found = fires("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 2);
            assert_eq!(found, ["2026-10-03T15:30:00Z", "2026-10-04T15:15:00Z"]);
            let found = fires("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3);
            let expected = ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"];
            assert_eq!(found, expected);
        }

        /// 02:00 to 03:00 comes twice on 25 October 2026 in Berlin, from 00:00 and from 01:00 UTC.
        #[test]
        fn a_local_time_that_comes_twice_fires_the_first_time() {
            let found = fires("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2);
            assert_eq!(found, ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]);
            let found = fires("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", 1);
            assert_eq!(found, ["2026-10-26T01:30:00Z"]);
            let found = fires("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", 3);
            let expected = ["2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z", "2026-10-25T02:30:00Z"];
            assert_eq!(found, expected);
        }

        #[test]
        fn nothing_fires_where_there_is_no_such_day_or_time_ends() {
            assert_eq!(after("0 0 30 2 *", "UTC", micros("2026-01-01T00:00:00Z")), NEVER);
            for time in [END - 1, END, NEVER] {
                assert_eq!(after("* * * * *", "Europe/Berlin", time), NEVER);
            }
            assert_eq!(after("* * * * *", "UTC", 0), 60_000_000);
        }

        #[test]
        fn what_is_no_cron_text_or_no_zone_is_refused() {
            let texts =
                ["", "* * * *", "* * * * * *", "60 * * * *", "x * * * *", "* * * * Europe/Berlin"];
            for text in texts {
                assert_eq!(check(text, "UTC").unwrap_err().kind(), ErrorKind::Invalid, "{text:?}");
            }
            for text in ["0 0 L * *", "0 0 1,L * *", "0 0 15W * *", "0 0 * * 5L", "0 0 * * MON#2"] {
                let error = check(text, "UTC").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid, "{text:?}");
                assert!(error.to_string().contains("not supported"), "{error}");
            }
            for text in ["@reboot", "@daily 0", "daily"] {
                assert!(check(text, "UTC").unwrap_err().to_string().contains("five fields"));
            }
            check(" 0  0 1 JUL\tWED ", "UTC").unwrap();
            let error = check("0 9 * * *", "Europe/Nowhere").unwrap_err();
            assert!(error.to_string().contains("Europe/Nowhere"));
            check("0 9 * * *", "Europe/Berlin").unwrap();
        }
    }
}
