//! The form of a builder's settings in a configuration file, with the feature `serde`: a field for
//! each setter, with the value that the setter takes. Reading calls the setters.

use crate::api::builder::Builder;
use crate::runtime::shared::CoreSettings;
use crate::store::{Access, Config};
use crate::words::durability::Durability;
use crate::words::queue_options::QueueOptions;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// The form of an explicit `u64::MAX`. No disk has so many bytes.
const NO_LIMIT: u64 = i64::MAX as u64;

/// No field is left out when it is written: a codec without names reads them by their order.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Builder", default, deny_unknown_fields)]
struct BuilderForm {
    /// `None`: not given, here and below.
    durability: Option<Durability>,
    flush_interval: Option<Duration>,
    cache_bytes: usize,
    journal_bytes: u64,
    payload_bytes_max: Option<usize>,
    temporary_bytes_max: Option<u64>,
    /// Formats whose numbers have a sign, such as TOML, cannot write `u64::MAX`: no limit is
    /// [`NO_LIMIT`].
    durable_bytes_max: Option<u64>,
    session_grace: Option<Duration>,
    consumer_keep: Option<Duration>,
    clock_gap_max: Duration,
    accept_loss: bool,
    read_only: bool,
    by_hand: bool,
}

impl Default for BuilderForm {
    fn default() -> Self {
        Self::of(&Builder::default())
    }
}

impl BuilderForm {
    /// What has code, such as the clock, is not in it.
    fn of(builder: &Builder) -> Self {
        let Builder { core, clock_gap_max, placements: _, config, progress: _, disk: _ } = builder;
        let CoreSettings { clock: _, by_hand, given } = *core;
        let QueueOptions {
            durability,
            flush_interval,
            payload_bytes_max,
            temporary_bytes_max,
            durable_bytes_max,
            session_grace,
            consumer_keep,
        } = given;
        let Config { journal_bytes, cache_bytes, accept_loss, access, known: _ } = *config;
        Self {
            durability,
            flush_interval,
            cache_bytes,
            journal_bytes,
            payload_bytes_max,
            temporary_bytes_max,
            durable_bytes_max: durable_bytes_max.map(|bytes| bytes.min(NO_LIMIT)),
            session_grace,
            consumer_keep,
            clock_gap_max: *clock_gap_max,
            accept_loss,
            read_only: access == Access::Read,
            by_hand,
        }
    }

    fn builder(self) -> Builder {
        let mut builder = Builder::default()
            .cache_bytes(self.cache_bytes)
            .journal_bytes(self.journal_bytes)
            .clock_gap_max(self.clock_gap_max)
            .accept_loss(self.accept_loss)
            .read_only(self.read_only)
            .by_hand(self.by_hand);
        let unlimited = |bytes: u64| if bytes < NO_LIMIT { bytes } else { u64::MAX };
        builder.core.given = QueueOptions {
            durability: self.durability,
            flush_interval: self.flush_interval,
            payload_bytes_max: self.payload_bytes_max,
            temporary_bytes_max: self.temporary_bytes_max,
            durable_bytes_max: self.durable_bytes_max.map(unlimited),
            session_grace: self.session_grace,
            consumer_keep: self.consumer_keep,
        };
        builder
    }
}

impl Serialize for Builder {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        BuilderForm::of(self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Builder {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        BuilderForm::deserialize(from).map(BuilderForm::builder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, to_value};

    /// Each setting with a value that is not its default. The compiler asks for a new one here.
    fn unusual() -> Builder {
        let Builder { core, placements, config, progress, .. } = Builder::default();
        Builder {
            core: CoreSettings {
                clock: core.clock,
                by_hand: true,
                given: QueueOptions {
                    durability: Some(Durability::Durable),
                    flush_interval: Some(Duration::from_millis(2)),
                    payload_bytes_max: Some(1),
                    temporary_bytes_max: Some(u64::MAX),
                    durable_bytes_max: Some(3),
                    session_grace: Some(Duration::MAX),
                    consumer_keep: Some(Duration::from_secs(4)),
                },
            },
            clock_gap_max: Duration::from_secs(4),
            placements,
            config: Config {
                journal_bytes: 5,
                cache_bytes: 6,
                accept_loss: true,
                access: Access::Read,
                known: config.known,
            },
            progress,
            disk: None,
        }
    }

    /// Everything of a builder that is data.
    fn settings(builder: &Builder) -> impl PartialEq + std::fmt::Debug + use<> {
        let Builder { core, clock_gap_max, config, .. } = builder;
        (
            (core.given, core.by_hand, *clock_gap_max),
            (config.journal_bytes, config.cache_bytes),
            (config.accept_loss, config.access),
        )
    }

    fn fields(builder: &Builder) -> Vec<(String, Value)> {
        let Ok(Value::Object(fields)) = to_value(builder) else { panic!("no fields") };
        fields.into_iter().collect()
    }

    #[test]
    fn each_setting_is_read_as_it_was_written() {
        for field in fields(&unusual()).iter().zip(&fields(&Builder::default())) {
            assert!(field.0.0 == field.1.0 && field.0.1 != field.1.1, "{field:?}");
        }
        let unlimited = Builder::default().durable_bytes_max(u64::MAX);
        for builder in [unusual(), unlimited, Builder::default()] {
            let read: Builder = from_value(to_value(&builder).unwrap()).unwrap();
            assert_eq!(settings(&read), settings(&builder));
        }
        let none: Builder = from_value(Value::Object(Default::default())).unwrap();
        assert_eq!(settings(&none), settings(&Builder::default()));
    }
}
