//! The tags of tasks, in rows that go with the task. A task without tags has no such row and no
//! byte of it. Every way in which a task ends or moves comes through here, and nothing else says
//! that a task has a tag or has it no more. How many tasks have it is counted elsewhere.

use crate::engine::context::{OpContext, sound};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tag_counts::{count, remove_if_there};
use crate::engine::tube_cache::TubeEntry;
use crate::format::extension::Extension;
use crate::format::feature::TAGS;
use crate::format::key::{self, Run};
use crate::format::row::{self, StoredTag, TagsRow, TaskProgress};
use crate::format::{Range, Scan, Tag, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{SEARCH_ROWS, TAGS_BYTES_MAX, TAGS_MAX};
use crate::words::task::TaskId;

/// Says in the state of a task whether it has tags.
///
/// # Errors
/// `Unsupported` if fields of later versions leave no room.
pub(crate) fn say(progress: &mut TaskProgress, is_tagged: bool) -> Result<()> {
    if progress.set_tagged(is_tagged) {
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

/// The same of a task that has tags: where that row cannot be read, what other rows say of them.
pub(crate) fn known_row(view: &dyn View, run: Run, id: TaskId) -> Result<Option<Value>> {
    match row_of(view, run, id)? {
        None => found_row(view, run, id),
        row => Ok(row),
    }
}

/// The tags of a task as a row, by the rows that lead to it: in the order of the times at which it
/// got them. `None` if none leads to it, or if so many lead to tasks that no op looks at all.
fn found_row(view: &dyn View, run: Run, id: TaskId) -> Result<Option<Value>> {
    let range = Range::of(leads_of(run));
    if view.count(range) > SEARCH_ROWS as u64 {
        return Ok(None);
    }
    let (mut rows, mut found) = (Scan::over(range), Vec::new());
    while let Some((met, _)) = rows.next(view)? {
        if key::id_of(&met) == Some(id)
            && let Some((tag, time)) = key::tag_in(&met)
        {
            found.push((tag.to_owned(), time));
        }
    }
    Ok(row_with(found))
}

/// A row with tags that rows were found for; none without any.
pub(crate) fn row_with(mut found: Vec<(String, u64)>) -> Option<Value> {
    found.sort_by(|(tag, time), (other, later)| (time, tag).cmp(&(later, other)));
    let (mut tags, mut bytes): (Vec<StoredTag<'_>>, _) = (Vec::new(), 0);
    for (tag, time) in &found {
        let is_new = !tag.is_empty() && !tags.iter().any(|(other, _)| other == tag);
        if is_new && tags.len() < TAGS_MAX && bytes + tag.len() <= TAGS_BYTES_MAX {
            bytes += tag.len();
            tags.push((tag, *time));
        }
    }
    (!tags.is_empty()).then(|| TagsRow { tags, extension: Extension::EMPTY }.encode())
}

/// The tag of the rows that lead to tasks, of durable or of temporary tubes.
pub(crate) fn leads_of(run: Run) -> Tag {
    if run.is_temporary() { Tag::TaggedTemporary } else { Tag::Tagged }
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
    progress: &TaskProgress,
) -> Result<Vec<String>> {
    if !progress.is_tagged() {
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
    let at = TagOwner { tube, id };
    exchange(ctx, (at, &[]), (at, &after))
}

/// Adds tags at the end. One that is there keeps its place and its time.
pub(crate) fn add<'t>(tags: &mut Vec<StoredTag<'t>>, more: &[&'t str], now: u64) {
    for tag in more {
        if !tags.iter().any(|(other, _)| other == tag) {
            tags.push((tag, now));
        }
    }
}

/// A task with tags, and its tube.
#[derive(Clone, Copy)]
pub(crate) struct TagOwner<'a> {
    pub(crate) tube: &'a TubeEntry,
    pub(crate) id: TaskId,
}

/// Writes the tags of a task, of which the rows say now that it has those before: perhaps in
/// another tube, or of a task in whose place it is put. What stays is not written again.
pub(crate) fn exchange(
    ctx: &mut OpContext<'_>,
    (old, before): (TagOwner<'_>, &[StoredTag<'_>]),
    (new, after): (TagOwner<'_>, &[StoredTag<'_>]),
) -> Result<()> {
    for tag in before {
        match after.contains(tag) {
            false => leave(ctx, old, *tag)?,
            true if old.id != new.id => hand_over(ctx, (old, new), *tag)?,
            true if old.tube.number != new.tube.number => enter(ctx, new, *tag)?,
            true => {}
        }
    }
    for tag in after.iter().filter(|tag| !before.contains(tag)) {
        enter(ctx, new, *tag)?;
    }
    let (from, to) =
        (key::task_tags(old.tube.run(), old.id), key::task_tags(new.tube.run(), new.id));
    let stored = row_of(ctx, old.tube.run(), old.id)?;
    let stored = stored.as_deref().and_then(TagsRow::decode);
    if from != to {
        remove_if_there(ctx, from)?;
    } else if stored.as_ref().is_some_and(|row| row.tags == after) {
        return Ok(());
    }
    if after.is_empty() {
        return remove_if_there(ctx, to);
    }
    if !new.tube.run().is_temporary() {
        ctx.needs(&TAGS);
    }
    // What a later version says of the tags stays.
    let extension = stored.map_or(Extension::EMPTY, |row| row.extension);
    ctx.set(to, TagsRow { tags: after.to_vec(), extension }.encode())
}

/// Writes the row that leads to a task by a tag. As many tasks are counted as have such a row, also
/// where some are missing.
fn enter(ctx: &mut OpContext<'_>, to: TagOwner<'_>, (tag, time): StoredTag<'_>) -> Result<()> {
    let at = key::tagged_task(to.tube.run(), tag, time, to.id);
    let number = row::number(u64::from(to.tube.number));
    match ctx.row(&at)? {
        Some(_) => ctx.change(at, number),
        None => {
            count(ctx, to.tube.run(), tag, 1)?;
            ctx.add(at, number);
        }
    }
    Ok(())
}

/// Removes it.
fn leave(ctx: &mut OpContext<'_>, from: TagOwner<'_>, tag: StoredTag<'_>) -> Result<()> {
    leave_run(ctx, from.tube.run(), tag, from.id)
}

fn leave_run(
    ctx: &mut OpContext<'_>,
    run: Run,
    (tag, time): StoredTag<'_>,
    id: TaskId,
) -> Result<()> {
    let at = key::tagged_task(run, tag, time, id);
    if ctx.row(&at)?.is_some() {
        count(ctx, run, tag, -1)?;
        ctx.remove(at);
    }
    Ok(())
}

/// Lets it lead to another task. As many have the tag as before.
fn hand_over(
    ctx: &mut OpContext<'_>,
    (from, to): (TagOwner<'_>, TagOwner<'_>),
    (tag, time): StoredTag<'_>,
) -> Result<()> {
    let at = key::tagged_task(from.tube.run(), tag, time, from.id);
    if ctx.row(&at)?.is_none() {
        return enter(ctx, to, (tag, time));
    }
    ctx.remove(at);
    let number = row::number(u64::from(to.tube.number));
    ctx.set(key::tagged_task(to.tube.run(), tag, time, to.id), number)
}

/// Removes the tags of a task that is removed.
#[cold]
pub(crate) fn erase(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    progress: &TaskProgress,
) -> Result<()> {
    if progress.is_tagged() {
        let row = known_row(ctx, task.tube.run(), task.id)?;
        clear_row(ctx, (task.tube.run(), task.id), row.as_ref())?;
    }
    Ok(())
}

/// Removes the tags of a task of this run, if it has any. Returns the number of rows, or more.
pub(crate) fn clear(ctx: &mut OpContext<'_>, run: Run, id: TaskId) -> Result<usize> {
    let at = key::task_tags(run, id);
    if Range::holding(&at).is_none_or(|range| ctx.count(range) == 0) || ctx.row(&at)?.is_none() {
        return Ok(0);
    }
    let row = known_row(ctx, run, id)?;
    clear_row(ctx, (run, id), row.as_ref())
}

fn clear_row(
    ctx: &mut OpContext<'_>,
    (run, id): (Run, TaskId),
    row: Option<&Value>,
) -> Result<usize> {
    let tags = tags_in(row);
    for tag in &tags {
        leave_run(ctx, run, *tag, id)?;
    }
    remove_if_there(ctx, key::task_tags(run, id))?;
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
        (old, state): (&TaskRef<'_>, &TaskState),
        next: &mut TaskState,
        given: Option<&[&str]>,
    ) -> Result<Option<Self>> {
        if given.is_none_or(<[_]>::is_empty) && !state.progress().is_tagged() {
            return Ok(None);
        }
        let row = match state.progress().is_tagged() {
            true => known_row(ctx, old.tube.run(), old.id)?,
            false => None,
        };
        say(next.progress_mut(), given.map_or(row.is_some(), |given| !given.is_empty()))?;
        let given = given.map(|given| given.iter().map(|tag| (*tag).to_owned()).collect());
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
        let (from, to) =
            (TagOwner { tube: old.tube, id: old.id }, TagOwner { tube: new.tube, id: new.id });
        exchange(ctx, (from, &before), (to, &after))
    }
}

/// Says in a state whose row was damaged whether the task has tags.
pub(crate) fn recover(
    view: &dyn View,
    run: Run,
    id: TaskId,
    progress: &mut TaskProgress,
) -> Result<()> {
    let is_any = view.count(Range::of(leads_of(run))) > 0;
    let _fits = progress.set_tagged(is_any && known_row(view, run, id)?.is_some());
    Ok(())
}

/// Writes the rows that lead to a task by its tags again, and the one with its tags if that is
/// lost. The counts are not changed: a repair counts the rows.
pub(crate) fn write_again(ctx: &mut OpContext<'_>, tube: &TubeEntry, id: TaskId) -> Result<()> {
    let run = tube.run();
    let at = key::task_tags(run, id);
    let Some(row) = known_row(ctx, run, id)? else { return remove_if_there(ctx, at) };
    if row_of(ctx, run, id)?.is_none() {
        ctx.set(at, row.clone())?;
    }
    for (tag, time) in tags_in(Some(&row)) {
        let (at, row) = (key::tagged_task(run, tag, time, id), row::number(u64::from(tube.number)));
        if ctx.row(&at)?.and_then(|(_, row)| row).as_ref() != Some(&row) {
            ctx.set(at, row)?;
        }
    }
    Ok(())
}
