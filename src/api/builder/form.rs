//! The form of a builder's settings in a configuration file, with the feature `serde`: a field for
//! each setter, with the value that the setter takes. Reading calls the setters.

use crate::api::builder::Builder;
use crate::api::queue_inner::HandleSettings;
use crate::runtime::shared::CoreSettings;
use crate::store::{Access, Config};
use crate::words::limits;
use crate::words::options::Durability;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// No field is left out when it is written: a codec without names reads them by their order.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Builder", default, deny_unknown_fields)]
struct BuilderForm {
    durability: Durability,
    flush_interval: Duration,
    cache_bytes: usize,
    journal_bytes: u64,
    payload_bytes_max: usize,
    temporary_bytes_max: u64,
    /// `None`: no limit. Formats whose numbers have a sign, such as TOML, cannot write `u64::MAX`.
    durable_bytes_max: Option<u64>,
    session_grace: Duration,
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
        let Builder { handles, core, clock_gap_max, placements: _, config, progress: _, disk: _ } =
            builder;
        let HandleSettings { durability, payload_bytes_max, session_grace, placements: _ } =
            *handles;
        let CoreSettings { clock: _, flush_interval, by_hand, durable_bytes_max } = *core;
        let Config {
            journal_bytes,
            cache_bytes,
            temporary_bytes_max,
            accept_loss,
            access,
            known: _,
        } = *config;
        Self {
            durability,
            flush_interval,
            cache_bytes,
            journal_bytes,
            payload_bytes_max,
            temporary_bytes_max,
            durable_bytes_max: Some(durable_bytes_max).filter(|it| *it != limits::DURABLE_BYTES),
            session_grace,
            clock_gap_max: *clock_gap_max,
            accept_loss,
            read_only: access == Access::Read,
            by_hand,
        }
    }

    fn builder(self) -> Builder {
        Builder::default()
            .durability(self.durability)
            .flush_interval(self.flush_interval)
            .cache_bytes(self.cache_bytes)
            .journal_bytes(self.journal_bytes)
            .payload_bytes_max(self.payload_bytes_max)
            .temporary_bytes_max(self.temporary_bytes_max)
            .durable_bytes_max(self.durable_bytes_max.unwrap_or(limits::DURABLE_BYTES))
            .session_grace(self.session_grace)
            .clock_gap_max(self.clock_gap_max)
            .accept_loss(self.accept_loss)
            .read_only(self.read_only)
            .by_hand(self.by_hand)
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
        let Builder { handles, core, placements, config, progress, .. } = Builder::default();
        Builder {
            handles: HandleSettings {
                durability: Durability::Relaxed,
                payload_bytes_max: 1,
                session_grace: Duration::MAX,
                placements: handles.placements,
            },
            core: CoreSettings {
                clock: core.clock,
                flush_interval: Duration::from_millis(2),
                by_hand: true,
                durable_bytes_max: 3,
            },
            clock_gap_max: Duration::from_secs(4),
            placements,
            config: Config {
                journal_bytes: 5,
                cache_bytes: 6,
                temporary_bytes_max: u64::MAX,
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
        let Builder { handles, core, clock_gap_max, config, .. } = builder;
        (
            (handles.durability, handles.payload_bytes_max, handles.session_grace),
            (core.flush_interval, core.by_hand, core.durable_bytes_max, *clock_gap_max),
            (config.journal_bytes, config.cache_bytes, config.temporary_bytes_max),
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
        for builder in [unusual(), Builder::default()] {
            let read: Builder = from_value(to_value(&builder).unwrap()).unwrap();
            assert_eq!(settings(&read), settings(&builder));
        }
        let none: Builder = from_value(Value::Object(Default::default())).unwrap();
        assert_eq!(settings(&none), settings(&Builder::default()));
    }
}
