//! The audit of tags: each task has exactly the rows that its tags call for, and of each tag as
//! many tasks are counted as have it.

use super::seen::{Audit, Leads};
use super::{Finding, Findings, Fix, Sum, walk};
use crate::engine::tag_counts::places;
use crate::engine::tags::leads_of;
use crate::format::key::{self, Key, Run};
use crate::format::row::{self, TagsRow, TaskProgress};
use crate::format::{Range, Scan, Tag, Value, View};
use crate::words::error::Result;
use crate::words::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

impl Audit<'_> {
    /// The tags of a task. An error ends the audit of its tube.
    pub(super) fn tags(&mut self, id: TaskId, progress: &TaskProgress) {
        if progress.is_tagged() && self.failed.is_ok() {
            self.failed = self.rows_of_tags(id);
        }
    }

    fn rows_of_tags(&mut self, id: TaskId) -> Result<()> {
        let (run, number) = (self.tube.run(), row::number(u64::from(self.tube.number)));
        let at = key::task_tags(run, id);
        let stored = self.view.row(&at)?;
        self.led.insert(at);
        let row = stored.as_ref().and_then(|(_, row)| row.as_deref());
        let Some(row) = row.and_then(TagsRow::decode) else {
            let is = if stored.is_some() { "damaged" } else { "missing" };
            return self.lost_tags(id, format!("the row of its tags is {is}"));
        };
        for (tag, time) in row.tags {
            let at = key::tagged_task(run, tag, time, id);
            if self.view.row(&at)?.and_then(|(_, row)| row).is_none_or(|row| row != number) {
                self.tell(id, format!("no row of its tag {tag:?} leads to it"));
            }
            self.led.insert(at);
        }
        Ok(())
    }

    /// Reports that the row of the tags of a task is lost, with the tags that lead to it.
    fn lost_tags(&mut self, id: TaskId, what: String) -> Result<()> {
        let run = self.tube.run();
        if self.leads.is_none() {
            let (mut rows, mut leads) = (Scan::over(Range::of(leads_of(run))), Leads::new());
            while let Some((met, _)) = rows.next(self.view)? {
                if let Some(((tag, time), id)) = key::tag_in(&met).zip(key::id_of(&met)) {
                    leads.entry(id).or_default().push((tag.to_owned(), time));
                }
            }
            self.leads = Some(leads);
        }
        let found = self.leads.as_ref().and_then(|leads| leads.get(&id));
        let found = found.cloned().unwrap_or_default();
        for (tag, time) in &found {
            self.led.insert(key::tagged_task(run, tag, *time, id));
        }
        self.say_of(id, what, Fix::Tags(self.tube.number, id, found));
        Ok(())
    }
}

/// Names the rows of the tags of a task that a sweep will remove.
pub(super) fn lead(
    view: &dyn View,
    (run, id): (Run, TaskId),
    led: &mut BTreeSet<Key>,
) -> Result<()> {
    let Some((at, row)) = view.row(&key::task_tags(run, id))? else { return Ok(()) };
    led.insert(at);
    let row = row.as_deref().and_then(TagsRow::decode);
    for (tag, time) in row.into_iter().flat_map(|row| row.tags) {
        let at = key::tagged_task(run, tag, time, id);
        // Without one that cannot be read the sweep goes on, too.
        if view.row(&at)?.is_some_and(|(_, row)| row.is_some()) {
            led.insert(at);
        }
    }
    Ok(())
}

/// Reports counts of tags that are wrong, and tags that stand at a wrong place among the top ones.
pub(super) fn audit(view: &dyn View, report: Findings<'_>) -> Result<()> {
    let mut counted: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (at, tag) in [Tag::Tagged, Tag::TaggedTemporary].into_iter().enumerate() {
        let mut rows = Scan::over(Range::of(tag));
        while let Some((met, _)) = rows.next(view)? {
            let Some((text, _)) = key::tag_in(&met) else { continue };
            if let Some(count) = counted.entry(text.to_owned()).or_default().get_mut(at) {
                *count += 1;
            }
        }
    }
    let runs = Run::BOTH.into_iter().enumerate();
    for (at, run) in runs.filter(|(_, run)| view.has_temporary() || !run.is_temporary()) {
        counts(view, (at, run), &counted, report)?;
        top(view, (at, run), &counted, report)?;
    }
    Ok(())
}

/// Reports the rows of tracked ids that cannot be read. Their tasks may be gone.
pub(super) fn tracked(view: &dyn View, report: Findings<'_>) -> Result<()> {
    walk(view, Range::of(Tag::Tracked), report, |(key, row), report| {
        let id = key::id_of(&key).filter(|id| key::tracked(*id) == key);
        if id.is_none() {
            let line = format!("Tracked: an invalid key: {key:02x?}");
            report(Finding::new(line, Fix::Remove(key)));
        } else if row.as_deref().and_then(row::read_number).is_none() {
            let line = format!("Tracked: it cannot be read: {key:02x?}");
            // Since when it is tracked is not known any more.
            report(Finding::new(line, Fix::Set(key, row::number(0))));
        }
    })
}

/// Of each tag, how many tasks have it, of durable and of temporary tubes.
type TagTallies = BTreeMap<String, [u64; 2]>;

fn counts(
    view: &dyn View,
    (at, run): (usize, Run),
    counted: &TagTallies,
    report: Findings<'_>,
) -> Result<()> {
    let of = |tasks: &[u64; 2]| tasks.get(at).copied().unwrap_or_default();
    let tag = if run.is_temporary() { Tag::TaggedCountTemporary } else { Tag::TaggedCount };
    let mut missing: BTreeSet<&str> =
        counted.iter().filter(|(_, tasks)| of(tasks) > 0).map(|(text, _)| text.as_str()).collect();
    walk(view, Range::of(tag), report, |(key, row), report| {
        let text = key::tag_counted(&key).unwrap_or_default();
        missing.remove(text);
        let is = counted.get(text).map_or(0, of);
        let stored = row.as_deref().and_then(row::read_number);
        if stored != Some(is) || is == 0 {
            let line = format!("tag {text:?}: {is} tasks have it, stored {stored:?}");
            report(Finding::new(line, Fix::Sum(Sum { key, is, stored })));
        }
    })?;
    for text in missing {
        let is = counted.get(text).map_or(0, of);
        let line = format!("tag {text:?}: {is} tasks have it, and no row counts them");
        let key = key::tag_count(run, text);
        report(Finding::new(line, Fix::Sum(Sum { key, is, stored: Some(0) })));
    }
    Ok(())
}

fn top(
    view: &dyn View,
    (at, run): (usize, Run),
    counted: &TagTallies,
    report: Findings<'_>,
) -> Result<()> {
    let of = |tasks: &[u64; 2]| places(tasks.map(Some)).get(at).copied().flatten();
    // Ops change it with the counts.
    let find = |line: String, fix: Fix, key: &Key| {
        let text = key::of_top_tag(key).map(|(_, text)| text).unwrap_or_default();
        let [durable, temporary] = Run::BOTH.map(|run| key::tag_count(run, text));
        Finding::new(line, fix).beside(durable).beside(temporary)
    };
    let tag = if run.is_temporary() { Tag::TopTaggedTemporary } else { Tag::TopTagged };
    let mut missing: BTreeSet<Key> = counted
        .iter()
        .filter_map(|(text, tasks)| Some(key::top_tag(run, of(tasks)?, text)))
        .collect();
    walk(view, Range::of(tag), report, |(key, row), report| {
        if !missing.remove(&key) {
            let line = format!("{tag:?}: a tag at a wrong place: {key:02x?}");
            report(find(line, Fix::Remove(key::copy(&key)), &key));
        } else if row.is_none_or(|row| !row.is_empty()) {
            let line = format!("{tag:?}: a wrong row: {key:02x?}");
            report(find(line, Fix::Set(key::copy(&key), Value::EMPTY), &key));
        }
    })?;
    for key in missing {
        let line = format!("{tag:?}: a row is missing: {key:02x?}");
        report(find(line, Fix::Set(key::copy(&key), Value::EMPTY), &key));
    }
    Ok(())
}
