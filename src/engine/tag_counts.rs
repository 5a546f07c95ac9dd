//! How many tasks have each tag, and the tags by that number. Only here are these rows written. A
//! count that cannot be read stays as it is: no op counts the tasks, a repair does.

use crate::engine::context::{OpContext, decoded, sound};
use crate::format::key::{self, Key, Run};
use crate::format::{Range, Tag, Value, View, row};
use crate::words::error::{Error, ErrorKind, Result};

/// The least number of tasks of a tag that stands among the top ones.
pub(crate) const TOP_LEAST: u64 = 2;

/// The tag of the rows of counts, of durable or of temporary tubes.
fn counts_of(run: Run) -> Tag {
    if run.is_temporary() { Tag::TaggedCountTemporary } else { Tag::TaggedCount }
}

/// How many tasks have a tag, of durable or of temporary tubes. `None` if the count cannot be read.
fn tasks_of(view: &dyn View, run: Run, tag: &str) -> Result<Option<u64>> {
    if view.count(Range::of(counts_of(run))) == 0 {
        return Ok(Some(0));
    }
    let count = decoded(view.get(&key::tag_count(run, tag)), row::read_number, "count of a tag");
    Ok(sound(count)?.map(Option::unwrap_or_default))
}

/// The same of durable and of temporary tubes.
fn tasks_of_both(view: &dyn View, tag: &str) -> Result<[Option<u64>; 2]> {
    let [durable, temporary] = Run::BOTH;
    Ok([tasks_of(view, durable, tag)?, tasks_of(view, temporary, tag)?])
}

/// How many tasks of all tubes have a tag.
///
/// # Errors
/// `Damaged` if a count cannot be read.
pub(crate) fn tasks(view: &dyn View, tag: &str) -> Result<u64> {
    let [durable, temporary] = tasks_of_both(view, tag)?;
    let both = durable.zip(temporary);
    both.map(|(durable, temporary)| durable.saturating_add(temporary)).ok_or_else(|| {
        let text = format!("the count of the tag {tag:?} is damaged; call repair, it counts again");
        Error::new(ErrorKind::Damaged).because(text)
    })
}

/// The places of a tag among the top ones: of durable tubes, by their tasks; and, if a task of a
/// temporary tube has it, by those of all tubes. None where a count is not known.
pub(crate) fn places([durable, temporary]: [Option<u64>; 2]) -> [Option<u64>; 2] {
    let all = durable.zip(temporary.filter(|tasks| *tasks > 0));
    let all = all.map(|(durable, temporary)| durable.saturating_add(temporary));
    [durable, all].map(|tasks| tasks.filter(|tasks| *tasks >= TOP_LEAST))
}

/// Counts that a task of this run has a tag, or has it no more.
pub(crate) fn count(ctx: &mut OpContext<'_>, run: Run, tag: &str, by: i64) -> Result<()> {
    if let Some(changes) = &mut ctx.decision.tag_changes {
        let [durable, temporary] = Run::BOTH;
        let run = if run.is_temporary() { temporary } else { durable };
        *changes.entry((run, tag.into())).or_default() += by;
        return Ok(());
    }
    change(ctx, run, tag, by)
}

/// From here on the op writes each count once, in [`end_batch`].
#[cold]
pub(crate) fn begin_batch(ctx: &mut OpContext<'_>) {
    ctx.decision.tag_changes = Some(Box::default());
}

/// Writes the counts of a batch, unless it was refused.
#[cold]
pub(crate) fn end_batch<T>(ctx: &mut OpContext<'_>, done: Result<T>) -> Result<T> {
    let changes = ctx.decision.tag_changes.take();
    let done = done?;
    for ((run, tag), by) in changes.into_iter().flat_map(|changes| *changes) {
        if by != 0 {
            change(ctx, run, &tag, by)?;
        }
    }
    Ok(done)
}

fn change(ctx: &mut OpContext<'_>, run: Run, tag: &str, by: i64) -> Result<()> {
    match tasks_of(ctx, run, tag)? {
        Some(tasks) => set(ctx, run, tag, tasks.saturating_add_signed(by)),
        None => Ok(()),
    }
}

/// Writes the count of the row of this key, also over a damaged one, and where its tag stands.
/// Returns false if the row is no count of a tag.
pub(crate) fn correct(ctx: &mut OpContext<'_>, at: &Key, tasks: u64) -> Result<bool> {
    let tag = Range::holding(at).map(|range| range.tag);
    let Some(run) = Run::BOTH.into_iter().find(|run| Some(counts_of(*run)) == tag) else {
        return Ok(false);
    };
    let Some(text) = key::tag_counted(at) else { return Ok(false) };
    set(ctx, run, text, tasks).map(|()| true)
}

/// Writes how many tasks of this run have a tag.
fn set(ctx: &mut OpContext<'_>, run: Run, tag: &str, tasks: u64) -> Result<()> {
    let before = tasks_of_both(ctx, tag)?;
    let mut after = before;
    let [durable, temporary] = &mut after;
    *(if run.is_temporary() { temporary } else { durable }) = Some(tasks);
    let key = key::tag_count(run, tag);
    match tasks {
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

/// Rows of tags may be damaged, and are then not as their task says.
pub(crate) fn remove_if_there(ctx: &mut OpContext<'_>, key: Key) -> Result<()> {
    if ctx.row(&key)?.is_some() {
        ctx.remove(key);
    }
    Ok(())
}
