//! A time zone by its name, with the rules of a library. A build without the feature `cron` knows
//! no zone: the name that a folder has is kept, and what the clocks there show is not known. Reads
//! no clock and no file: the rules are built in.

use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use std::fmt;

#[cfg(feature = "cron")]
use self::with_feature as library;
#[cfg(not(feature = "cron"))]
use self::without_feature as library;
pub(crate) use library::{Rules, rules_of};

/// A time zone.
#[derive(Clone)]
pub(crate) struct Zone {
    name: String,
    /// `None` if this build does not know them.
    rules: Option<Rules>,
}

impl Zone {
    /// The zone of this name.
    ///
    /// # Errors
    /// `Invalid` if there is none. `Unsupported` without the feature.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let rules = rules_of(name)?;
        let name = library::name_of(&rules).unwrap_or_else(|| name.to_owned());
        Ok(Self { name, rules: Some(rules) })
    }

    /// The same of a name that is stored, also if this build does not know the zone.
    pub(crate) fn stored(name: &str) -> Self {
        Self { name: name.to_owned(), rules: rules_of(name).ok() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_known(&self) -> bool {
        self.rules.is_some()
    }

    /// By how many seconds its clocks are ahead of UTC at a time, in microseconds. `None` if this
    /// build does not know.
    pub(crate) fn ahead(&self, time: u64) -> Option<i32> {
        library::ahead(self.rules.as_ref()?, time)
    }

    /// When its clocks are set next after a time; [`NEVER`](crate::words::clock::NEVER) if that is
    /// not known.
    pub(crate) fn next_change(&self, time: u64) -> u64 {
        self.rules.as_ref().map_or(NEVER, |rules| library::next_change(rules, time))
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Zone {}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(not(feature = "cron"))]
mod without_feature {
    use super::{Error, ErrorKind, Result};

    /// There are none.
    pub(crate) type Rules = std::convert::Infallible;

    /// Refuses every name.
    pub(crate) fn rules_of(_name: &str) -> Result<Rules> {
        let text = "a time zone needs the feature `cron` of tubewell; build with it, or give how \
                    much the clocks are ahead of UTC, such as +02:00";
        Err(Error::new(ErrorKind::Unsupported).because(text))
    }

    pub(super) fn name_of(rules: &Rules) -> Option<String> {
        match *rules {}
    }

    pub(super) fn ahead(rules: &Rules, _time: u64) -> Option<i32> {
        match *rules {}
    }

    pub(super) fn next_change(rules: &Rules, _time: u64) -> u64 {
        match *rules {}
    }
}

#[cfg(feature = "cron")]
mod with_feature {
    use super::{Error, ErrorKind, NEVER, Result};
    use jiff::Timestamp;
    use jiff::tz::{TimeZone, TimeZoneDatabase};

    pub(crate) type Rules = TimeZone;

    pub(crate) fn rules_of(name: &str) -> Result<Rules> {
        let found = TimeZoneDatabase::bundled().get(name).ok();
        // The library also has a placeholder for an unknown zone, which acts as UTC.
        found.filter(|rules| rules.iana_name().is_some()).ok_or_else(|| {
            let text = format!("no time zone is named {name:?}; name one like Europe/Berlin");
            Error::new(ErrorKind::Invalid).because(text)
        })
    }

    /// The name as the library writes it: names are found whatever their case.
    pub(super) fn name_of(rules: &Rules) -> Option<String> {
        rules.iana_name().map(str::to_owned)
    }

    pub(super) fn ahead(rules: &Rules, time: u64) -> Option<i32> {
        Some(rules.to_offset(at(time)?).seconds())
    }

    pub(super) fn next_change(rules: &Rules, time: u64) -> u64 {
        let change = at(time).and_then(|time| rules.following(time).next());
        let change = change.and_then(|it| u64::try_from(it.timestamp().as_microsecond()).ok());
        change.unwrap_or(NEVER)
    }

    fn at(time: u64) -> Option<Timestamp> {
        Timestamp::from_microsecond(i64::try_from(time).ok()?).ok()
    }
}
