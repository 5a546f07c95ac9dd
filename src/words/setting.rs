//! Settings that are stored in the queue: their values, and what a caller reads of one. Plain
//! values; which settings there are is in `known_settings`, and the engine applies them.

use crate::words::backoff::Backoff;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::gates::Rate;
use crate::words::history::HistoryLimits;
use crate::words::hours::Hours;
use crate::words::lapse::Lapse;
use crate::words::limits::{DETAILS_BYTES_MAX, SETTING_BYTES_MAX};
use crate::words::name::label;
use crate::words::retention::Retention;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the names of an application's own settings begin with.
pub(crate) const OWN: &str = "app.";

/// The value of a setting, from [`Tube::settings`](crate::Tube::settings) and
/// [`Queue::settings`](crate::Queue::settings). A call that sets one takes whatever becomes a
/// value: numbers, texts, a [`Duration`], a [`Backoff`] and the like. `None` becomes
/// [`Nothing`](SettingValue::Nothing).
///
/// ```
/// use std::time::Duration;
/// use tubewell::SettingValue;
///
/// assert_eq!(SettingValue::from(7_u32), SettingValue::Integer(7));
/// assert_eq!(SettingValue::from("blue"), SettingValue::Text("blue".into()));
/// assert_eq!(SettingValue::from(None::<Duration>), SettingValue::Nothing);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingValue {
    /// Without one: no ttl, no limit, no book.
    Nothing,
    /// Yes or no.
    Flag(bool),
    /// A number: of tasks, bytes or attempts, or a priority.
    Integer(i128),
    /// A length of time, in whole microseconds.
    Duration(Duration),
    /// A text, at most 4 KiB.
    Text(String),
    /// How long a retried task waits.
    Backoff(Backoff),
    /// What becomes of a task whose ttr passes.
    Lapse(Lapse),
    /// How long tasks are kept that have ended.
    Retention(Retention),
    /// How much of a history is kept.
    History(HistoryLimits),
    /// Named texts, at most 4 KiB with three bytes for each.
    Details(BTreeMap<String, String>),
    /// When calls return.
    Durability(Durability),
    /// How often tasks are taken.
    Rate(Rate),
    /// The hours of the week in which tasks are taken.
    Hours(Hours),
    /// Names, each once, in their order; at most 4 KiB with a byte for each.
    Names(BTreeSet<String>),
}

/// Each type that becomes a value, and the variant.
macro_rules! becomes {
    ($($kind:ty => $variant:ident;)*) => {$(
        impl From<$kind> for SettingValue {
            fn from(value: $kind) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

becomes! {
    bool => Flag;
    i32 => Integer;
    i64 => Integer;
    i128 => Integer;
    u32 => Integer;
    u64 => Integer;
    Duration => Duration;
    &str => Text;
    String => Text;
    Backoff => Backoff;
    Lapse => Lapse;
    Retention => Retention;
    HistoryLimits => History;
    BTreeMap<String, String> => Details;
    Durability => Durability;
    Rate => Rate;
    Hours => Hours;
    BTreeSet<String> => Names;
}

impl<const COUNT: usize> From<[&str; COUNT]> for SettingValue {
    fn from(names: [&str; COUNT]) -> Self {
        Self::Names(names.into_iter().map(str::to_owned).collect())
    }
}

impl From<usize> for SettingValue {
    fn from(value: usize) -> Self {
        Self::Integer(value as i128)
    }
}

impl<T: Into<SettingValue>> From<Option<T>> for SettingValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

impl SettingValue {
    /// Refuses a value of an application's own that is too long.
    pub(crate) fn check(&self) -> Result<()> {
        let bytes = match self {
            Self::Text(text) => text.len(),
            Self::Details(texts) => {
                texts.keys().try_for_each(|name| label("name of a detail", name).map(drop))?;
                texts.iter().map(|(name, text)| name.len() + text.len() + 3).sum()
            }
            Self::Names(names) => {
                names.iter().try_for_each(|name| label("name", name).map(drop))?;
                names.iter().map(|name| name.len() + 1).sum()
            }
            _ => 0,
        };
        const { assert!(DETAILS_BYTES_MAX == SETTING_BYTES_MAX) };
        if bytes <= SETTING_BYTES_MAX {
            return Ok(());
        }
        let text = format!("the setting has {bytes} bytes, the limit is {SETTING_BYTES_MAX}");
        Err(Error::new(ErrorKind::TooLarge).because(text))
    }
}

/// A setting of a tube or of the queue, from [`Tube::settings`](crate::Tube::settings) and
/// [`Queue::settings`](crate::Queue::settings).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Its name: that of the setter of [`TubeOptions`](crate::TubeOptions) or
    /// [`Builder`](crate::Builder), or one of the application's own.
    pub name: String,
    /// The value in force.
    pub value: SettingValue,
    /// The value without any: of a tube the option that it was made with, and
    /// [`Nothing`](SettingValue::Nothing) of an application's own.
    pub default: SettingValue,
    /// The value that is stored in the queue, if one was set.
    pub stored: Option<SettingValue>,
    /// Where the value in force comes from.
    pub source: SettingSource,
}

/// Where the value of a [`Setting`] comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SettingSource {
    /// It is the default.
    Default,
    /// It was set, and is stored in the queue.
    Stored,
    /// The [`Builder`](crate::Builder) gave it at this opening, which goes before what is stored.
    Builder,
}
