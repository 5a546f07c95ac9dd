//! The audit of consumers: each has a name row that leads to it, and each such row a consumer.

use super::{Finding, Findings, Fix};
use crate::engine::context::sound;
use crate::engine::query;
use crate::format::key::{self, Key, Range};
use crate::format::row::ConsumerRow;
use crate::format::{Scan, Tag, View, row};
use crate::words::error::Result;
use std::collections::BTreeMap;

/// Reports consumers that are damaged or without a name row, and names of no consumer. Of a damaged
/// one the grace is not known, so it goes. Of two with one name that one stays to which the name
/// leads.
pub(super) fn audit(view: &dyn View, report: Findings<'_>) -> Result<()> {
    let mut named: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    let mut rows = Scan::over(Range::of(Tag::Consumer));
    while let Some((met, row)) = rows.next(view)? {
        let row = row.as_deref().and_then(ConsumerRow::decode);
        let (Some(row), Some(number)) = (row, query::number_in(&met)) else {
            let line = format!("Consumer: a damaged row: {met:02x?}");
            report(Finding::new(line, Fix::Remove(met)));
            continue;
        };
        named.entry(key::consumer_name(&row.name)).or_default().push(number);
    }
    for (key, numbers) in &named {
        let leads = sound(query::numbered(view.get(key), "consumer"))?.flatten();
        for number in numbers.iter().filter(|number| leads != Some(**number)) {
            let name = String::from_utf8_lossy(key.get(1..).unwrap_or_default()).into_owned();
            let line = format!("consumer {name:?}: its name row does not refer to it");
            let (own, other) = (key::consumer(*number), leads.map(key::consumer));
            let finding = match other.filter(|_| leads.is_some_and(|it| numbers.contains(&it))) {
                Some(other) => {
                    let finding = Finding::new(line, Fix::Remove(own)).beside(key::copy(key));
                    finding.beside(other)
                }
                None => {
                    let value = row::number(u64::from(*number));
                    Finding::new(line, Fix::Set(key::copy(key), value)).beside(own)
                }
            };
            report(finding);
        }
    }
    let mut rows = Scan::over(Range::of(Tag::ConsumerName));
    while let Some((met, row)) = rows.next(view)? {
        if named.contains_key(&met) {
            continue;
        }
        let line = format!("ConsumerName: a name of a consumer that does not exist: {met:02x?}");
        let number = row.as_deref().and_then(row::read_number);
        let number = number.and_then(|number| u32::try_from(number).ok());
        let finding = Finding::new(line, Fix::Remove(met));
        report(match number {
            Some(number) => finding.beside(key::consumer(number)),
            None => finding,
        });
    }
    Ok(())
}
