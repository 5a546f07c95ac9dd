//! Named conditions of the queue: what an application sets and clears, and tubes require. Each has
//! one row, stored or for the run of the program; one without a row was never declared and is not
//! set. A row that is damaged says nothing: its condition is not set until it is set again.

use crate::engine::context::{Op, OpContext, decoded, sound};
use crate::format::feature::CONDITIONS;
use crate::format::key::{self, Range};
use crate::format::row::ConditionRow;
use crate::format::{Scan, Tag, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::gates::{Condition, condition_name};
use crate::words::limits::CONDITIONS_MAX;

/// Sets a condition or clears it, which declares it. Returns whether that changed anything.
pub(crate) struct SetCondition<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_set: bool,
    /// Whether it is stored. Otherwise the end of the process forgets it.
    pub(crate) is_stored: bool,
}

impl Op for SetCondition<'_> {
    type Done = bool;

    /// On a full disk one may be cleared, so that no more tasks are taken.
    fn grows(&self) -> bool {
        self.is_set && self.is_stored
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let name = condition_name(self.name)?;
        let (own, other) =
            (key::condition(name, self.is_stored), key::condition(name, !self.is_stored));
        let present = read(ctx, name, self.is_stored)?;
        let (has_own, has_other) = (ctx.row(&own)?.is_some(), ctx.row(&other)?.is_some());
        if present == Some(self.is_set) && !has_other {
            return Ok(false);
        }
        if !has_own && !has_other {
            let tags = [Tag::Condition, Tag::RunCondition];
            let declared: u64 = tags.iter().map(|tag| ctx.count(Range::of(*tag))).sum();
            if declared >= CONDITIONS_MAX {
                let text = format!("the queue has {declared} conditions; remove one first");
                return Err(Error::new(ErrorKind::Full).because(text));
            }
        }
        if has_other {
            ctx.remove(other);
        }
        if self.is_stored {
            ctx.needs(&CONDITIONS);
        }
        ctx.set(own, ConditionRow::of(self.is_set).encode())?;
        Ok(true)
    }
}

/// Removes a condition: it is not set, and not declared. Returns whether it was declared.
pub(crate) struct RemoveCondition<'a> {
    pub(crate) name: &'a str,
}

impl Op for RemoveCondition<'_> {
    type Done = bool;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let mut is_any = false;
        for is_stored in [true, false] {
            let key = key::condition(condition_name(self.name)?, is_stored);
            if ctx.row(&key)?.is_some() {
                ctx.remove(key);
                is_any = true;
            }
        }
        Ok(is_any)
    }
}

/// Whether a condition is set; `None` if it was never declared.
pub(crate) fn is_set(view: &dyn View, name: &str) -> Result<Option<bool>> {
    match read(view, name, false)? {
        None => read(view, name, true),
        found => Ok(found),
    }
}

fn read(view: &dyn View, name: &str, is_stored: bool) -> Result<Option<bool>> {
    let row = view.get(&key::condition(name, is_stored));
    let row = sound(decoded(row, ConditionRow::decode, "condition"))?.flatten();
    Ok(row.map(|row| row.is_set))
}

/// All that are declared, in the order of their names. Those whose rows are damaged are left out.
pub(crate) fn all(view: &dyn View) -> Result<Vec<Condition>> {
    let mut found = Vec::new();
    for (tag, is_stored) in [(Tag::Condition, true), (Tag::RunCondition, false)] {
        let range = Range::of(tag);
        let mut rows = Scan::between(range.start(), range.end());
        while let Some((met, row)) = rows.next(view)? {
            let row = row.as_deref().and_then(ConditionRow::decode);
            if let (Some(name), Some(row)) = (key::of_condition(&met), row) {
                let (name, is_set) = (name.to_owned(), row.is_set);
                found.push(Condition { name, is_set, is_stored });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}
