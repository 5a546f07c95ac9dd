//! The settings that the library knows: their names, the values that they take, and the field that
//! each stands for. Nothing is stored or changed here.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::name::label;
use crate::words::options::TubeOptions;
use crate::words::setting::{OWN, SettingValue};
use crate::words::sync::Arc;
use std::collections::BTreeSet;
use std::time::Duration;

/// An option of a tube that may be changed.
pub(crate) struct TubeSetting {
    pub(crate) name: &'static str,
    /// What it takes, for messages.
    takes: &'static str,
    pub(crate) get: fn(&TubeOptions) -> SettingValue,
    /// `None` for a value of another type.
    set: fn(&mut TubeOptions, &SettingValue) -> Option<()>,
}

/// The number, if the value is one of this type.
pub(crate) fn number<T: TryFrom<i128>>(value: &SettingValue) -> Option<T> {
    match value {
        SettingValue::Integer(number) => T::try_from(*number).ok(),
        _ => None,
    }
}

/// The value that these read, or that there is none.
fn or_nothing<T>(
    value: &SettingValue,
    read: impl FnOnce(&SettingValue) -> Option<T>,
) -> Option<Option<T>> {
    if *value == SettingValue::Nothing { Some(None) } else { read(value).map(Some) }
}

/// The number, or no limit, which 0 is too.
fn limit<T: TryFrom<i128>>(value: &SettingValue) -> Option<Option<T>> {
    if *value == SettingValue::Integer(0) { Some(None) } else { or_nothing(value, number) }
}

pub(crate) fn length(value: &SettingValue) -> Option<Duration> {
    match value {
        SettingValue::Duration(length) => Some(*length),
        _ => None,
    }
}

/// The length, unless it has no end.
fn ends(length: Option<Duration>) -> Option<Duration> {
    length.filter(|length| *length < Duration::MAX)
}

/// The content of a value of one variant.
macro_rules! content {
    ($value:expr, $variant:ident) => {
        match $value {
            SettingValue::$variant(content) => Some(content.clone()),
            _ => None,
        }
    };
}

const LIMIT: &str = "a whole number, 0 or Nothing for no limit";
const TIME: &str = "a length of time, or Nothing";

/// The options of a tube that may be changed, in the order of their names.
pub(crate) const OF_TUBES: &[TubeSetting] = &[
    TubeSetting {
        name: "backoff",
        takes: "a Backoff",
        get: |of| of.backoff.into(),
        set: |of, value| content!(value, Backoff).map(|it| of.backoff = it),
    },
    TubeSetting {
        name: "book",
        takes: "a text, or Nothing",
        get: |of| of.book.clone().into(),
        set: |of, value| or_nothing(value, |it| content!(it, Text)).map(|it| of.book = it),
    },
    TubeSetting {
        name: "capacity",
        takes: LIMIT,
        get: |of| of.capacity.into(),
        set: |of, value| limit(value).map(|it| of.capacity = it),
    },
    TubeSetting {
        name: "details",
        takes: "named texts",
        get: |of| (*of.details).clone().into(),
        set: |of, value| content!(value, Details).map(|it| of.details = Arc::new(it)),
    },
    TubeSetting {
        name: "drop_payloads",
        takes: "a flag",
        get: |of| of.drop_payloads.into(),
        set: |of, value| content!(value, Flag).map(|it| of.drop_payloads = it),
    },
    TubeSetting {
        name: "history",
        takes: "HistoryLimits",
        get: |of| of.history.into(),
        set: |of, value| content!(value, History).map(|it| of.history = it),
    },
    TubeSetting {
        name: "hours",
        takes: "Hours, or Nothing",
        get: |of| of.get_hours().cloned().into(),
        set: |of, value| {
            let hours = or_nothing(value, |it| content!(it, Hours))?;
            of.change_gates(|gates| gates.hours = hours);
            Some(())
        },
    },
    TubeSetting {
        name: "in_flight",
        takes: "a whole number from 1",
        get: |of| of.in_flight.into(),
        set: |of, value| number(value).map(|it| of.in_flight = it),
    },
    TubeSetting {
        name: "keep_buried",
        takes: "a Retention, or Nothing",
        get: |of| of.keep_buried.into(),
        set: |of, value| {
            or_nothing(value, |it| content!(it, Retention)).map(|it| of.keep_buried = it)
        },
    },
    TubeSetting {
        name: "keep_days",
        takes: "a whole number of days",
        get: |of| of.keep_days.into(),
        set: |of, value| number(value).map(|it| of.keep_days = it),
    },
    TubeSetting {
        name: "keep_finished",
        takes: "a Retention, or Nothing",
        get: |of| of.keep_finished.into(),
        set: |of, value| {
            or_nothing(value, |it| content!(it, Retention)).map(|it| of.keep_finished = it)
        },
    },
    TubeSetting {
        name: "lapse",
        takes: "a Lapse",
        get: |of| of.lapse.into(),
        set: |of, value| content!(value, Lapse).map(|it| of.lapse = it),
    },
    TubeSetting {
        name: "limit",
        takes: LIMIT,
        get: |of| of.get_limit().into(),
        set: |of, value| {
            limit(value).map(|it| of.change_gates(|gates| gates.limit = it.unwrap_or(0)))
        },
    },
    TubeSetting {
        name: "max_attempts",
        takes: LIMIT,
        get: |of| of.max_attempts.into(),
        set: |of, value| limit(value).map(|it| of.max_attempts = it),
    },
    TubeSetting {
        name: "priority",
        takes: "a whole number",
        get: |of| of.priority.into(),
        set: |of, value| number(value).map(|it| of.priority = it),
    },
    TubeSetting {
        name: "rate",
        takes: "a Rate, or Nothing",
        get: |of| of.get_rate().into(),
        set: |of, value| {
            let rate = or_nothing(value, |it| content!(it, Rate))?;
            of.change_gates(|gates| gates.rate = rate);
            Some(())
        },
    },
    TubeSetting {
        name: "require",
        takes: "names of conditions",
        get: |of| of.get_require().map(str::to_owned).collect::<BTreeSet<_>>().into(),
        set: |of, value| {
            let names = content!(value, Names)?;
            of.change_gates(|gates| gates.required = names);
            Some(())
        },
    },
    TubeSetting {
        name: "throttle",
        takes: "names of throttles",
        get: |of| of.get_throttles().map(str::to_owned).collect::<BTreeSet<_>>().into(),
        set: |of, value| {
            let names = content!(value, Names)?;
            of.change_gates(|gates| gates.throttles = names);
            Some(())
        },
    },
    TubeSetting {
        name: "ttl",
        takes: TIME,
        get: |of| of.ttl.into(),
        set: |of, value| or_nothing(value, length).map(|it| of.ttl = ends(it)),
    },
    TubeSetting {
        name: "ttr",
        takes: TIME,
        get: |of| of.ttr.into(),
        set: |of, value| or_nothing(value, length).map(|it| of.ttr = ends(it)),
    },
];

/// The options that a tube keeps as it was made.
const FIXED: [&str; 8] = [
    "kind",
    "temporary",
    "placement",
    "higher_first",
    "unique",
    "index_kinds",
    "ttl_spares_buried",
    "hold_group_while_delayed",
];

impl TubeSetting {
    /// Sets the option.
    ///
    /// # Errors
    /// `Invalid` for a value of another type.
    pub(crate) fn put_into(&self, options: &mut TubeOptions, value: &SettingValue) -> Result<()> {
        (self.set)(options, value).ok_or_else(|| wrong_type(self.name, self.takes, value))
    }
}

/// A setting of another type than its value.
pub(crate) fn wrong_type(name: &str, takes: &str, value: &SettingValue) -> Error {
    let text = format!("the setting {name} takes {takes}, and not {value:?}");
    Error::new(ErrorKind::Invalid).because(text)
}

/// Whether the name is one of the application's own.
///
/// # Errors
/// `Invalid` if it is too long, or nothing follows the prefix.
pub(crate) fn is_own(name: &str) -> Result<bool> {
    label("name of a setting", name)?;
    if name == OWN {
        let text = format!("a name of the application goes on behind {OWN:?}");
        return Err(Error::new(ErrorKind::Invalid).because(text));
    }
    Ok(name.starts_with(OWN))
}

/// The setting of a tube of this name.
///
/// # Errors
/// `Invalid` if there is none, or if the option is fixed.
pub(crate) fn of_tube(name: &str) -> Result<&'static TubeSetting> {
    find(OF_TUBES.iter().map(|it| (it.name, it)), name, |known| {
        let why = match FIXED.contains(&name) {
            true => format!("the option {name} stays as the tube was made"),
            false => format!("a tube has no setting {name:?}"),
        };
        format!("{why}; there are {known}, and own names that begin with {OWN:?}")
    })
}

/// The setting of this name, or an error with a text about all that there are.
pub(crate) fn find<T>(
    settings: impl Iterator<Item = (&'static str, T)> + Clone,
    name: &str,
    text: impl FnOnce(String) -> String,
) -> Result<T> {
    let found = settings.clone().find(|(known, _)| *known == name);
    found.map(|(_, setting)| setting).ok_or_else(|| {
        let known: Vec<_> = settings.map(|(known, _)| known).collect();
        Error::new(ErrorKind::Invalid).because(text(known.join(", ")))
    })
}
