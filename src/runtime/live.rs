//! The settings of the queue that are in force: the builder's explicit value, else the stored one,
//! else the default. Changed with the commit that stores a setting, and read without a lock.

use crate::words::clock::{NEVER, micros};
use crate::words::durability::Durability;
use crate::words::queue_options::{OF_QUEUES, QueueOptions};
use crate::words::setting::SettingValue;
use crate::words::sync::Ordering;
use crate::words::sync::plain::{AtomicBool, AtomicU64, AtomicUsize, Mutex};
use std::time::Duration;

/// The settings in force. A call that runs beside a change sees the one or the other.
pub(crate) struct LiveSettings {
    /// By the builder.
    pub(crate) given: QueueOptions,
    stored: Mutex<QueueOptions>,
    is_relaxed: AtomicBool,
    /// In microseconds.
    pub(crate) flush_interval: AtomicU64,
    pub(crate) payload_bytes_max: AtomicUsize,
    temporary_bytes_max: AtomicU64,
    pub(crate) durable_bytes_max: AtomicU64,
    /// In microseconds.
    session_grace: AtomicU64,
    /// In microseconds.
    consumer_keep: AtomicU64,
}

impl Default for LiveSettings {
    fn default() -> Self {
        Self::new(QueueOptions::default())
    }
}

impl LiveSettings {
    pub(crate) fn new(given: QueueOptions) -> Self {
        let this = Self {
            given,
            stored: Mutex::default(),
            is_relaxed: AtomicBool::default(),
            flush_interval: AtomicU64::default(),
            payload_bytes_max: AtomicUsize::default(),
            temporary_bytes_max: AtomicU64::default(),
            durable_bytes_max: AtomicU64::default(),
            session_grace: AtomicU64::default(),
            consumer_keep: AtomicU64::default(),
        };
        this.load(QueueOptions::default());
        this
    }

    /// Puts the stored settings in force where the builder gave none.
    pub(crate) fn load(&self, stored: QueueOptions) {
        *self.stored.lock() = stored;
        let QueueOptions {
            durability,
            flush_interval,
            payload_bytes_max,
            temporary_bytes_max,
            durable_bytes_max,
            session_grace,
            consumer_keep,
        } = self.given.or(stored).or(QueueOptions::DEFAULTS);
        self.is_relaxed.store(durability == Some(Durability::Relaxed), Ordering::Relaxed);
        let set = |to: &AtomicU64, value: Option<u64>| {
            to.store(value.unwrap_or_default(), Ordering::Relaxed);
        };
        set(&self.flush_interval, flush_interval.map(micros));
        self.payload_bytes_max.store(payload_bytes_max.unwrap_or_default(), Ordering::Relaxed);
        set(&self.temporary_bytes_max, temporary_bytes_max);
        set(&self.durable_bytes_max, durable_bytes_max);
        set(&self.session_grace, session_grace.map(micros));
        set(&self.consumer_keep, consumer_keep.map(micros));
    }

    /// Follows a setting that was set or unset. One of the application's own changes nothing here.
    #[cold]
    pub(crate) fn change(&self, name: &str, value: Option<&SettingValue>) {
        let (before, mut stored) = (*self.stored.lock(), QueueOptions::default());
        for setting in OF_QUEUES {
            let kept = (setting.get)(&before);
            let kept = if setting.name == name { value.cloned() } else { kept };
            if let Some(value) = kept {
                // It was checked before it was stored.
                let _ = setting.put_into(&mut stored, &value);
            }
        }
        self.load(stored);
    }

    pub(crate) fn durability(&self) -> Durability {
        match self.is_relaxed.load(Ordering::Relaxed) {
            true => Durability::Relaxed,
            false => Durability::Durable,
        }
    }

    pub(crate) fn temporary_bytes_max(&self) -> u64 {
        self.temporary_bytes_max.load(Ordering::Relaxed)
    }

    pub(crate) fn session_grace(&self) -> Duration {
        match self.session_grace.load(Ordering::Relaxed) {
            NEVER => Duration::MAX,
            length => Duration::from_micros(length),
        }
    }

    /// Microseconds for which a consumer is remembered that has not said for how long.
    pub(crate) fn consumer_keep(&self) -> u64 {
        self.consumer_keep.load(Ordering::Relaxed)
    }
}
