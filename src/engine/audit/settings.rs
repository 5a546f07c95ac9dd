//! Checks the settings: each is of the queue or of a tube that exists, there is one of its name,
//! and it takes its value.

use super::{Finding, Findings, Fix, walk};
use crate::engine::query;
use crate::format::row::SettingRow;
use crate::format::{Range, Tag, View, key};
use crate::words::error::Result;
use crate::words::known_settings::{self, is_own};
use crate::words::options::TubeOptions;
use crate::words::queue_options::{self, QueueOptions};
use crate::words::setting::SettingValue;

/// Reports the rows of settings that no call has written.
pub(super) fn audit(view: &dyn View, report: Findings<'_>) -> Result<()> {
    let tubes = query::numbers(view)?;
    walk(view, Range::of(Tag::Setting), report, |(met, row), report| {
        let Some((owner, name)) = key::of_setting(&met) else {
            let line = format!("Setting: an invalid key: {met:02x?}");
            return report(Finding::new(line, Fix::Remove(met)));
        };
        let mut found = |line| {
            let finding = Finding::new(line, Fix::Remove(key::copy(&met)));
            report(finding.beside(key::tube(owner)));
        };
        if owner != 0 && !tubes.contains(&owner) {
            found(format!("Setting: {name:?} of tube {owner}, which does not exist"));
        }
        let Some(row) = row else {
            return found(format!("Setting: {name:?} of tube {owner}: it cannot be read"));
        };
        let fits = match SettingRow::decode(&row) {
            Some(row) => takes(owner, name, &row.value),
            None => return found(format!("Setting: a damaged row: {met:02x?}")),
        };
        if let Err(error) = fits {
            found(format!("Setting: {name:?}: {error}"));
        }
    })
}

/// Whether there is a setting of this name that takes this value.
fn takes(owner: u32, name: &str, value: &SettingValue) -> Result<()> {
    if is_own(name)? {
        return value.check();
    }
    if owner == 0 {
        return queue_options::of_queue(name)?.put_into(&mut QueueOptions::default(), value);
    }
    known_settings::of_tube(name)?.put_into(&mut TubeOptions::default(), value)
}
