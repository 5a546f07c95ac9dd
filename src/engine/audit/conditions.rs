//! Checks the named conditions: each row has the name of one, and can be read.

use super::{Finding, Findings, Fix, walk};
use crate::format::row::ConditionRow;
use crate::format::{Range, Tag, View, key};
use crate::words::error::Result;
use crate::words::gates::condition_name;

/// Reports the rows of conditions that no call has written. Without its row a condition is not set.
pub(super) fn audit(view: &dyn View, report: Findings<'_>) -> Result<()> {
    for tag in [Tag::Condition, Tag::RunCondition] {
        walk(view, Range::of(tag), report, |(met, row), report| {
            let name = key::of_condition(&met).filter(|name| condition_name(name).is_ok());
            let fault = if name.is_none() {
                "an invalid key"
            } else if row.as_deref().and_then(ConditionRow::decode).is_none() {
                "it cannot be read"
            } else {
                return;
            };
            let line = format!("Condition: {fault}: {met:02x?}");
            report(Finding::new(line, Fix::Remove(met)));
        })?;
    }
    Ok(())
}
