//! The settings of a queue that may be stored in it: each as the builder gave it or not. Plain
//! values; the runtime keeps those in force.

use crate::words::durability::Durability;
use crate::words::error::Result;
use crate::words::known_settings::{find, length, number, wrong_type};
use crate::words::limits;
use crate::words::setting::{OWN, SettingValue};
use std::time::Duration;

/// What was given of the settings; `None` is not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueOptions {
    pub(crate) durability: Option<Durability>,
    pub(crate) flush_interval: Option<Duration>,
    pub(crate) payload_bytes_max: Option<usize>,
    pub(crate) temporary_bytes_max: Option<u64>,
    pub(crate) durable_bytes_max: Option<u64>,
    pub(crate) session_grace: Option<Duration>,
    pub(crate) consumer_keep: Option<Duration>,
}

/// A setting of the queue that may be changed.
pub(crate) struct QueueSetting {
    pub(crate) name: &'static str,
    /// What it takes, for messages.
    takes: &'static str,
    pub(crate) get: fn(&QueueOptions) -> Option<SettingValue>,
    /// `None` for a value of another type, or outside its limits.
    set: fn(&mut QueueOptions, &SettingValue) -> Option<()>,
}

/// A limit of bytes, which `u64::MAX` is none of.
fn bytes(limit: u64) -> SettingValue {
    Some(limit).filter(|bytes| *bytes < u64::MAX).into()
}

const BYTES: &str = "a number of bytes, or Nothing for no limit";

/// The settings of a queue that may be changed, in the order of their names.
pub(crate) const OF_QUEUES: &[QueueSetting] = &[
    QueueSetting {
        name: "consumer_keep",
        takes: "a length of time",
        get: |of| of.consumer_keep.map(SettingValue::from),
        set: |of, value| length(value).map(|it| of.consumer_keep = Some(it)),
    },
    QueueSetting {
        name: "durability",
        takes: "a Durability",
        get: |of| of.durability.map(SettingValue::from),
        set: |of, value| match value {
            SettingValue::Durability(durability) => {
                of.durability = Some(*durability);
                Some(())
            }
            _ => None,
        },
    },
    QueueSetting {
        name: "durable_bytes_max",
        takes: BYTES,
        get: |of| of.durable_bytes_max.map(bytes),
        set: |of, value| bytes_of(value).map(|it| of.durable_bytes_max = Some(it)),
    },
    QueueSetting {
        name: "flush_interval",
        takes: "a length of time",
        get: |of| of.flush_interval.map(SettingValue::from),
        set: |of, value| length(value).map(|it| of.flush_interval = Some(it)),
    },
    QueueSetting {
        name: "payload_bytes_max",
        takes: "a number of bytes, at most 1 GiB",
        get: |of| of.payload_bytes_max.map(SettingValue::from),
        set: |of, value| {
            let bytes = number(value).filter(|bytes| *bytes <= limits::PAYLOAD_BYTES_MAX)?;
            of.payload_bytes_max = Some(bytes);
            Some(())
        },
    },
    QueueSetting {
        name: "session_grace",
        takes: "a length of time",
        get: |of| of.session_grace.map(SettingValue::from),
        set: |of, value| length(value).map(|it| of.session_grace = Some(it)),
    },
    QueueSetting {
        name: "temporary_bytes_max",
        takes: BYTES,
        get: |of| of.temporary_bytes_max.map(bytes),
        set: |of, value| bytes_of(value).map(|it| of.temporary_bytes_max = Some(it)),
    },
];

/// A limit of bytes: 0 is one, too.
fn bytes_of(value: &SettingValue) -> Option<u64> {
    match value {
        SettingValue::Nothing => Some(u64::MAX),
        value => number(value),
    }
}

/// What the builder alone gives, at each opening.
const OF_BUILDER: [&str; 9] = [
    "accept_loss",
    "by_hand",
    "cache_bytes",
    "clock",
    "clock_gap_max",
    "journal_bytes",
    "placement",
    "progress",
    "read_only",
];

impl QueueOptions {
    /// Those that are in force without any other.
    pub(crate) const DEFAULTS: Self = Self {
        durability: Some(Durability::Durable),
        flush_interval: Some(limits::FLUSH_INTERVAL),
        payload_bytes_max: Some(limits::PAYLOAD_BYTES),
        temporary_bytes_max: Some(limits::TEMPORARY_BYTES),
        durable_bytes_max: Some(limits::DURABLE_BYTES),
        session_grace: Some(Duration::ZERO),
        consumer_keep: Some(Duration::ZERO),
    };

    /// These, and the others where these do not give one.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            durability: self.durability.or(others.durability),
            flush_interval: self.flush_interval.or(others.flush_interval),
            payload_bytes_max: self.payload_bytes_max.or(others.payload_bytes_max),
            temporary_bytes_max: self.temporary_bytes_max.or(others.temporary_bytes_max),
            durable_bytes_max: self.durable_bytes_max.or(others.durable_bytes_max),
            session_grace: self.session_grace.or(others.session_grace),
            consumer_keep: self.consumer_keep.or(others.consumer_keep),
        }
    }
}

impl QueueSetting {
    /// Gives the setting.
    ///
    /// # Errors
    /// `Invalid` for a value of another type, or outside its limits.
    pub(crate) fn put_into(&self, options: &mut QueueOptions, value: &SettingValue) -> Result<()> {
        (self.set)(options, value).ok_or_else(|| wrong_type(self.name, self.takes, value))
    }

    /// The default.
    pub(crate) fn default(&self) -> SettingValue {
        (self.get)(&QueueOptions::DEFAULTS).unwrap_or(SettingValue::Nothing)
    }
}

/// The setting of a queue of this name.
///
/// # Errors
/// `Invalid` if there is none, or if only the builder gives it.
pub(crate) fn of_queue(name: &str) -> Result<&'static QueueSetting> {
    find(OF_QUEUES.iter().map(|it| (it.name, it)), name, |known| {
        let why = match OF_BUILDER.contains(&name) {
            true => format!("{name} is not stored, the builder gives it at each opening"),
            false => format!("a queue has no setting {name:?}"),
        };
        format!("{why}; there are {known}, and own names that begin with {OWN:?}")
    })
}
