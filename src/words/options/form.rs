//! The form of tube options in a configuration file, with the feature `serde`: a field for each
//! setter, with the value that the setter takes. Reading calls the setters.

use crate::words::backoff::Backoff;
use crate::words::gates::Rate;
use crate::words::history::HistoryLimits;
use crate::words::hours::Hours;
use crate::words::lapse::Lapse;
use crate::words::options::TubeOptions;
use crate::words::retention::Retention;
use crate::words::sync::Arc;
use crate::words::tube_kind::TubeKind;
use crate::words::unique::Unique;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// No field is left out when it is written: a codec without names reads them by their order.
#[derive(Serialize, Deserialize)]
#[serde(rename = "TubeOptions", default, deny_unknown_fields)]
struct TubeForm {
    kind: TubeKind,
    temporary: bool,
    priority: i64,
    ttl: Option<Duration>,
    ttr: Option<Duration>,
    /// 0: unlimited.
    capacity: u64,
    /// 0: no limit. `None`: as the kind has it.
    max_attempts: Option<u32>,
    /// `None`: as the kind has it.
    backoff: Option<Backoff>,
    lapse: Lapse,
    in_flight: u32,
    /// 0: no limit.
    limit: u64,
    rate: Option<Rate>,
    require: BTreeSet<String>,
    hours: Option<Hours>,
    throttle: BTreeSet<String>,
    hold_group_while_delayed: bool,
    ttl_spares_buried: bool,
    higher_first: bool,
    unique: Unique,
    index_kinds: bool,
    keep_finished: Option<Retention>,
    drop_payloads: bool,
    keep_buried: Option<Retention>,
    history: HistoryLimits,
    keep_days: u32,
    book: Option<String>,
    details: BTreeMap<String, String>,
    placement: Option<String>,
    if_not_exists: bool,
}

impl Default for TubeForm {
    fn default() -> Self {
        let mut form = Self::of(TubeOptions::default());
        // The kind is not known yet, so what depends on it stays open.
        (form.max_attempts, form.backoff) = (None, None);
        form
    }
}

impl TubeForm {
    fn of(options: TubeOptions) -> Self {
        let gates = options.gates.clone().map(Arc::unwrap_or_clone).unwrap_or_default();
        let TubeOptions {
            kind,
            temporary,
            priority,
            ttl,
            ttr,
            capacity,
            max_attempts,
            backoff,
            lapse,
            in_flight,
            gates: _,
            hold_group_while_delayed,
            ttl_spares_buried,
            higher_first,
            unique,
            index_kinds,
            keep_finished,
            drop_payloads,
            keep_buried,
            history,
            keep_days,
            book,
            details,
            placement,
            if_not_exists,
        } = options;
        Self {
            kind,
            temporary,
            priority,
            ttl,
            ttr,
            capacity: capacity.unwrap_or(0),
            max_attempts: Some(max_attempts.unwrap_or(0)),
            backoff: Some(backoff),
            lapse,
            in_flight,
            limit: gates.limit,
            rate: gates.rate,
            require: gates.required,
            hours: gates.hours,
            throttle: gates.throttles,
            hold_group_while_delayed,
            ttl_spares_buried,
            higher_first,
            unique,
            index_kinds,
            keep_finished,
            drop_payloads,
            keep_buried,
            history,
            keep_days,
            book,
            details: Arc::unwrap_or_clone(details),
            placement,
            if_not_exists,
        }
    }

    fn options(self) -> TubeOptions {
        let mut options = TubeOptions::new(self.kind)
            .temporary(self.temporary)
            .priority(self.priority)
            .capacity(self.capacity)
            .lapse(self.lapse)
            .in_flight(self.in_flight)
            .limit(self.limit)
            .hold_group_while_delayed(self.hold_group_while_delayed)
            .ttl_spares_buried(self.ttl_spares_buried)
            .higher_first(self.higher_first)
            .unique(self.unique)
            .index_kinds(self.index_kinds)
            .drop_payloads(self.drop_payloads)
            .history(self.history)
            .keep_days(self.keep_days);
        if let Some(ttl) = self.ttl {
            options = options.ttl(ttl);
        }
        if let Some(rate) = self.rate {
            options = options.rate(rate);
        }
        options.change_gates(|gates| {
            (gates.required, gates.hours) = (self.require, self.hours);
            gates.throttles = self.throttle;
        });
        if let Some(ttr) = self.ttr {
            options = options.ttr(ttr);
        }
        if let Some(attempts) = self.max_attempts {
            options = options.max_attempts(attempts);
        }
        if let Some(backoff) = self.backoff {
            options = options.backoff(backoff);
        }
        if let Some(kept) = self.keep_finished {
            options = options.keep_finished(kept);
        }
        if let Some(kept) = self.keep_buried {
            options = options.keep_buried(kept);
        }
        if let Some(book) = self.book {
            options = options.book(book);
        }
        options.details = Arc::new(self.details);
        if let Some(placement) = self.placement {
            options = options.placement(placement);
        }
        if self.if_not_exists { options.if_not_exists() } else { options }
    }
}

impl Serialize for TubeOptions {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        TubeForm::of(self.clone()).serialize(to)
    }
}

impl<'de> Deserialize<'de> for TubeOptions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        TubeForm::deserialize(from).map(TubeForm::options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::gates::Gates;
    use crate::words::lapse::ReturnTo;
    use serde_json::{Value, from_value, to_value};

    /// Each field with a value that is not its default. The compiler asks for a new field here.
    fn unusual() -> TubeOptions {
        TubeOptions {
            kind: TubeKind::UtubeTtl,
            temporary: true,
            priority: -3,
            ttl: Some(Duration::from_millis(1500)),
            ttr: Some(Duration::MAX),
            capacity: Some(u64::MAX),
            max_attempts: Some(7),
            backoff: Backoff::linear(Duration::from_micros(3)).factor(3).jitter(20),
            lapse: Lapse::new().to(ReturnTo::After(Duration::from_secs(1))).charged(false),
            in_flight: 2,
            gates: Some(Arc::new(Gates {
                limit: 3,
                rate: Some(Rate::new(4).burst(2)),
                required: ["online".to_owned()].into(),
                hours: Some("Mon 09:00-17:00 +02:00".parse().unwrap()),
                throttles: ["api".to_owned()].into(),
            })),
            hold_group_while_delayed: true,
            ttl_spares_buried: true,
            higher_first: true,
            unique: Unique::new().in_queue(true).buried(false),
            index_kinds: true,
            keep_finished: Some(Retention::new().age(Duration::from_secs(9))),
            drop_payloads: true,
            keep_buried: Some(Retention::new().count(1).bytes(2)),
            history: HistoryLimits::new().entries(5).bytes(6),
            keep_days: 7,
            book: Some("post office".into()),
            details: Arc::new([("stamp".into(), "blue".into())].into()),
            placement: Some("by age".into()),
            if_not_exists: true,
        }
    }

    fn fields(options: &TubeOptions) -> Vec<(String, Value)> {
        let Ok(Value::Object(fields)) = to_value(options) else { panic!("no fields") };
        fields.into_iter().collect()
    }

    #[test]
    fn each_option_is_read_as_it_was_written() {
        for field in fields(&unusual()).iter().zip(&fields(&TubeOptions::default())) {
            assert!(field.0.0 == field.1.0 && field.0.1 != field.1.1, "{field:?}");
        }
        let kinds = TubeKind::ALL.map(TubeOptions::new);
        let bounded = TubeOptions::new(TubeKind::Fifo).max_attempts(20).capacity(1);
        let endless = TubeOptions::default().max_attempts(0).backoff(Backoff::NONE);
        for options in kinds.into_iter().chain([unusual(), bounded, endless]) {
            let read: TubeOptions = from_value(to_value(&options).unwrap()).unwrap();
            assert_eq!(read, options);
        }
    }
}
