//! The tags of tasks, in rows that go with the task, and how many tasks have each tag. A task
//! without tags has no such row and no byte of it. Every way in which a task ends or moves comes
//! through here, and only here are the counts changed.

use crate::engine::context::{OpContext, decoded, sound};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::format::extension::Extension;
use crate::format::feature::TAGS;
use crate::format::key::{self, Key, Run};
use crate::format::row::{self, StoredTag, TagsRow, TaskProgress};
use crate::format::{Range, Scan, Tag, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task::TaskId;

/// The least number of tasks of a tag that stands among the top ones.
pub(crate) const TOP_LEAST: u64 = 2;

/// Says in the state of a task whether it has tags.
///
/// # Errors
/// `Unsupported` if fields of later versions leave no room.
pub(crate) fn say(head: &mut TaskProgress, is_tagged: bool) -> Result<()> {
    if head.set_tagged(is_tagged) {
        return Ok(());
    }
    let text = "fields of a later version leave no room for tags";
    Err(Error::new(ErrorKind::Unsupported).because(text))
}

/// The row with the tags of a task. One that cannot be read has none.
pub(crate) fn row_of(view: &dyn View, run: Run, id: TaskId) -> Result<Option<Value>> {
    // Only by `get`: a listing reads the rows beside a task by their keys.
    let row = sound(view.get(&key::task_tags(run, id)))?.flatten();
    Ok(row.filter(|row| TagsRow::decode(row).is_some()))
}

/// The tags in a row of [`row_of`].
pub(crate) fn tags_in(row: Option<&Value>) -> Vec<StoredTag<'_>> {
    row.and_then(|row| TagsRow::decode(row)).map(|row| row.tags).unwrap_or_default()
}

/// The tags of a task in this state, in their order. Of a damaged row nothing is known.
pub(crate) fn read(
    view: &dyn View,
    run: Run,
    id: TaskId,
    head: &TaskProgress,
) -> Result<Vec<String>> {
    if !head.is_tagged() {
        return Ok(Vec::new());
    }
    let row = row_of(view, run, id)?;
    Ok(tags_in(row.as_ref()).into_iter().map(|(tag, _)| tag.to_owned()).collect())
}

/// Writes the tags of a new task.
#[cold]
pub(crate) fn put(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
    tags: &[&str],
) -> Result<()> {
    let mut after: Vec<StoredTag<'_>> = Vec::new();
    add(&mut after, tags, ctx.now.queue);
    write(ctx, (tube, id), &[], &after)
}

/// Adds tags at the end. One that is there keeps its place and its time.
pub(crate) fn add<'t>(tags: &mut Vec<StoredTag<'t>>, more: &[&'t str], now: u64) {
    for tag in more {
        if !tags.iter().any(|(other, _)| other == tag) {
            tags.push((tag, now));
        }
    }
}

/// Writes the tags of a task, of which the rows say now that it has those before, in this tube.
pub(crate) fn write(
    ctx: &mut OpContext<'_>,
    (tube, id): (&TubeEntry, TaskId),
    before: &[StoredTag<'_>],
    after: &[StoredTag<'_>],
) -> Result<()> {
    let run = tube.run();
    for (tag, time) in before.iter().filter(|tag| !after.contains(tag)) {
        leave(ctx, run, (tag, *time), id)?;
    }
    for (tag, time) in after.iter().filter(|tag| !before.contains(tag)) {
        let (at, number) = (key::tagged_task(run, tag, *time, id), u64::from(tube.number));
        if ctx.row(&at)?.is_none() {
            count(ctx, run, tag, 1)?;
        }
        ctx.set(at, row::number(number))?;
    }
    let at = key::task_tags(run, id);
    if after.is_empty() {
        return remove_if_there(ctx, at);
    }
    if !run.is_temporary() {
        ctx.needs(&TAGS);
    }
    // What a later version says of the tags stays.
    let old = row_of(ctx, run, id)?;
    let extension = old.as_deref().and_then(TagsRow::decode).map(|row| row.extension);
    let extension = extension.unwrap_or(Extension::EMPTY);
    ctx.set(at, TagsRow { tags: after.to_vec(), extension }.encode())
}

/// Removes the row that leads to a task by a tag. As many tasks are counted as have such a row,
/// also where some are missing.
fn leave(ctx: &mut OpContext<'_>, run: Run, (tag, time): StoredTag<'_>, id: TaskId) -> Result<()> {
    let at = key::tagged_task(run, tag, time, id);
    if ctx.row(&at)?.is_some() {
        count(ctx, run, tag, -1)?;
        ctx.remove(at);
    }
    Ok(())
}

/// Rows of tags may be damaged, and are then not as their task says.
fn remove_if_there(ctx: &mut OpContext<'_>, key: Key) -> Result<()> {
    if ctx.row(&key)?.is_some() {
        ctx.remove(key);
    }
    Ok(())
}

/// Removes the tags of a task that is removed.
#[cold]
pub(crate) fn erase(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    head: &TaskProgress,
) -> Result<()> {
    if head.is_tagged() {
        clear(ctx, task.tube.run(), task.id)?;
    }
    Ok(())
}

/// Removes the tags of a task of this run, if it has any. Returns the number of rows, or more.
pub(crate) fn clear(ctx: &mut OpContext<'_>, run: Run, id: TaskId) -> Result<usize> {
    let at = key::task_tags(run, id);
    if Range::holding(&at).is_none_or(|range| ctx.count(range) == 0) {
        return Ok(0);
    }
    let row = row_of(ctx, run, id)?;
    let tags = tags_in(row.as_ref());
    for tag in &tags {
        leave(ctx, run, *tag, id)?;
    }
    remove_if_there(ctx, at)?;
    Ok(1 + 4 * tags.len())
}

/// The tags of a task that moves, or is put again: before the step, and after it.
pub(crate) struct Moving {
    row: Option<Value>,
    /// Those that are given; none: it keeps its own.
    given: Option<Vec<String>>,
}

impl Moving {
    /// Says in the state after the step whether it has tags then.
    pub(crate) fn of(
        ctx: &OpContext<'_>,
        (old, standing): (&TaskRef<'_>, &TaskState),
        next: &mut TaskState,
        given: &[&str],
    ) -> Result<Option<Self>> {
        let is_given = !given.is_empty();
        if !is_given && !standing.head().is_tagged() {
            return Ok(None);
        }
        let row = match standing.head().is_tagged() {
            true => row_of(ctx, old.tube.run(), old.id)?,
            false => None,
        };
        say(next.head_mut(), is_given || row.is_some())?;
        let given = is_given.then(|| given.iter().map(|tag| (*tag).to_owned()).collect());
        Ok(Some(Self { row, given }))
    }

    /// Writes them after the step.
    pub(crate) fn write(
        &self,
        ctx: &mut OpContext<'_>,
        old: &TaskRef<'_>,
        new: &TaskRef<'_>,
    ) -> Result<()> {
        let before = tags_in(self.row.as_ref());
        let after = match &self.given {
            None => before.clone(),
            Some(given) => {
                let mut after: Vec<StoredTag<'_>> = Vec::new();
                for tag in given {
                    let kept = before.iter().find(|(other, _)| other == tag);
                    let time = kept.map_or(ctx.now.queue, |(_, time)| *time);
                    add(&mut after, &[tag.as_str()], time);
                }
                after
            }
        };
        if old.id == new.id && old.tube.number == new.tube.number {
            return write(ctx, (new.tube, new.id), &before, &after);
        }
        // The rows of both may have the same keys.
        write(ctx, (old.tube, old.id), &before, &[])?;
        write(ctx, (new.tube, new.id), &[], &after)
    }
}

/// Says in a state whose row was damaged whether the task has tags.
pub(crate) fn recover(
    view: &dyn View,
    run: Run,
    id: TaskId,
    head: &mut TaskProgress,
) -> Result<()> {
    let at = key::task_tags(run, id);
    let is_any = Range::holding(&at).is_some_and(|range| view.count(range) > 0);
    let _fits = head.set_tagged(is_any && row_of(view, run, id)?.is_some());
    Ok(())
}

/// Writes the rows that lead to a task by its tags again. One with the tags that cannot be read is
/// removed. The counts are not changed: a repair counts the rows.
pub(crate) fn write_again(ctx: &mut OpContext<'_>, tube: &TubeEntry, id: TaskId) -> Result<()> {
    let run = tube.run();
    let Some(row) = row_of(ctx, run, id)? else {
        return remove_if_there(ctx, key::task_tags(run, id));
    };
    for (tag, time) in tags_in(Some(&row)) {
        let (at, row) = (key::tagged_task(run, tag, time, id), row::number(u64::from(tube.number)));
        if ctx.row(&at)?.and_then(|(_, row)| row).as_ref() != Some(&row) {
            ctx.set(at, row)?;
        }
    }
    Ok(())
}

/// The tag of the rows of counts, of durable or of temporary tubes.
fn counts_of(run: Run) -> Tag {
    if run.is_temporary() { Tag::TagCountTemporary } else { Tag::TagCount }
}

/// How many tasks have a tag, of durable or of temporary tubes.
fn tasks_of(view: &dyn View, run: Run, tag: &str) -> Result<u64> {
    if view.count(Range::of(counts_of(run))) == 0 {
        return Ok(0);
    }
    let key = key::tag_count(run, tag);
    match sound(decoded(view.get(&key), row::read_number, "count of a tag"))? {
        Some(count) => Ok(count.unwrap_or_default()),
        // The tasks are counted once.
        None => {
            let (mut tasks, mut count) = (Scan::prefixed(key::tagged_of(run, tag)), 0);
            while tasks.next(view)?.is_some() {
                count += 1;
            }
            Ok(count)
        }
    }
}

/// How many tasks of all tubes have a tag.
pub(crate) fn tasks(view: &dyn View, tag: &str) -> Result<u64> {
    let [durable, temporary] = Run::BOTH;
    Ok(tasks_of(view, durable, tag)?.saturating_add(tasks_of(view, temporary, tag)?))
}

/// The places of a tag among the top ones: of durable tubes, by their tasks; and, if a task of a
/// temporary tube has it, by those of all tubes.
pub(crate) fn places([durable, temporary]: [u64; 2]) -> [Option<u64>; 2] {
    let all = if temporary > 0 { durable.saturating_add(temporary) } else { 0 };
    [durable, all].map(|tasks| Some(tasks).filter(|tasks| *tasks >= TOP_LEAST))
}

/// Counts that a task of this run has a tag, or has it no more.
fn count(ctx: &mut OpContext<'_>, run: Run, tag: &str, by: i64) -> Result<()> {
    let [durable, temporary] = Run::BOTH;
    let before = [tasks_of(ctx, durable, tag)?, tasks_of(ctx, temporary, tag)?];
    let mut after = before;
    let [of_durable, of_temporary] = &mut after;
    let changed = if run.is_temporary() { of_temporary } else { of_durable };
    *changed = changed.saturating_add_signed(by);
    let key = key::tag_count(run, tag);
    match *changed {
        0 => remove_if_there(ctx, key)?,
        tasks => ctx.set(key, row::number(tasks))?,
    }
    for ((of, before), after) in Run::BOTH.into_iter().zip(places(before)).zip(places(after)) {
        if before == after {
            continue;
        }
        if let Some(tasks) = before {
            remove_if_there(ctx, key::top_tag(of, tasks, tag))?;
        }
        if let Some(tasks) = after {
            ctx.set(key::top_tag(of, tasks, tag), Value::EMPTY)?;
        }
    }
    Ok(())
}
