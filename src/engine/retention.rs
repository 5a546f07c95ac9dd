//! How long a tube keeps tasks that have ended: what its options and the stored sums say. Each
//! finished and each buried task has an index row by the time of its end. The oldest are removed as
//! a newer one ends, and as due work: when they are too old, or after a change of the options, see
//! `transition`. Nothing is removed here.

use crate::engine::context::{OpContext, damaged, decoded, sound};
use crate::engine::lookup;
use crate::engine::stored::{self, TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Key};
use crate::format::row::{EndedAt, PendingSum};
use crate::format::view::last_key;
use crate::format::{Deadline, Scan, Tag, View, row};
use crate::words::clock::{NEVER, micros};
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::SWEEP_TASKS;
use crate::words::options::TubeOptions;
use crate::words::retention::Retention;
use crate::words::task::State;
use smallvec::{SmallVec, smallvec};

/// The bytes of the tasks that a tube keeps, after a step.
pub(crate) type KeptBytes = SmallVec<[(Key, u64); 2]>;

/// The tag of the row of a state in which a tube keeps tasks.
pub(crate) fn tag_of(state: &TaskState) -> Option<Tag> {
    match state {
        TaskState::Buried(_) => Some(Tag::Buried),
        TaskState::Done(_) => Some(Tag::Done),
        TaskState::Fresh(_)
        | TaskState::Ready(_)
        | TaskState::Delayed(_)
        | TaskState::Blocked(_)
        | TaskState::Taken(_)
        | TaskState::Trashed(_) => None,
    }
}

fn of_tag(tube: &TubeEntry, tag: Tag) -> Option<&Retention> {
    in_options(&tube.row.options, tag)
}

fn in_options(options: &TubeOptions, tag: Tag) -> Option<&Retention> {
    match tag.state()? {
        State::Buried => options.keep_buried.as_ref(),
        State::Done => options.keep_finished.as_ref(),
        State::Blocked | State::Ready | State::Delayed | State::Taken => None,
    }
}

/// Queue time from which a tube does not keep a task that ended at this time. Without an option it
/// keeps all buried ones, and of the finished ones none that it has kept by an option before.
pub(crate) fn end_of(tube: &TubeEntry, tag: Tag, ended: u64) -> u64 {
    match of_tag(tube, tag) {
        Some(kept) => kept.age.map_or(NEVER, |age| ended.saturating_add(micros(age))),
        None if tag == Tag::Done => ended,
        None => NEVER,
    }
}

/// A task whose age is over by the options that its tube had at its end, as it stands if the tube
/// keeps it longer now; `None` if it does not.
#[cold]
pub(crate) fn kept_longer(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    state: &TaskState,
) -> Option<TaskState> {
    let until = end_of(tube, tag_of(state)?, time_of(state)?);
    let mut longer = state.clone();
    longer.progress_mut().set_kept_until(until);
    // Its ttl may end now, too.
    let [(_, end), _] = longer.deadlines(tube);
    (end > ctx.now.queue).then_some(longer)
}

/// Whether the time of a task is over: the next due work of its tube removes it. An op looks at a
/// task of a tube that is not its own before that tube's due work is done.
pub(crate) fn is_past_end(ctx: &OpContext<'_>, tube: &TubeEntry, state: &TaskState) -> bool {
    let now = ctx.now.queue;
    if let TaskState::Delayed(row) = state {
        return stored::wait_left(row, ctx.now) == 0 && row.progress.expires <= now;
    }
    let [(what, when), _] = state.deadlines(tube);
    let is_kept =
        || state.progress().kept_until() == when && kept_longer(ctx, tube, state).is_some();
    what == Deadline::Ttl && when <= now && !is_kept()
}

/// Whether the tube has tasks in the state of this tag that go by themselves.
pub(crate) fn may_end(view: &dyn View, tube: &TubeEntry, tag: Tag) -> bool {
    (tag == Tag::Done || of_tag(tube, tag).is_some()) && view.count(tube.range(by_time(tag))) > 0
}

/// When the first of the tasks that a tube keeps are to go: at once if there are more than it
/// keeps.
pub(crate) fn first_end(view: &dyn View, tube: &TubeEntry) -> Result<u64> {
    let mut first = NEVER;
    for tag in [Tag::Done, Tag::Buried] {
        if !may_end(view, tube, tag) {
            continue;
        }
        let by_time = tube.range(by_time(tag));
        let sum = || {
            let sum = decoded(view.get(&key::kept(tube.run(), tag)), row::read_number, "kept");
            Ok(sound(sum)?.flatten().unwrap_or(0))
        };
        if exceeds(of_tag(tube, tag), count(view, tube, tag), sum)? {
            return Ok(0);
        }
        let oldest = Scan::over(by_time).next(view)?.and_then(|(met, _)| key::time_of(&met));
        first = first.min(oldest.map_or(NEVER, |ended| end_of(tube, tag, ended)));
    }
    Ok(first)
}

/// Queue time until which a tube keeps a task that ends now in the state of this tag.
pub(crate) fn until(ctx: &OpContext<'_>, tube: &TubeEntry, tag: Tag) -> u64 {
    end_of(tube, tag, ctx.now.queue)
}

/// The bytes that a task counts in the state of this tag, if its tube limits them and the sum
/// contains it.
pub(crate) fn counted(task: &TaskRef<'_>, state: Option<&TaskState>) -> Option<(Tag, u64)> {
    let state = state?;
    let tag = tag_of(state)?;
    of_tag(task.tube, tag)?.bytes?;
    if state.is_held() {
        return None;
    }
    if let Some(sum) = task.tube.row.pending.sum(tag.state()?)
        && !sum.contains((time_of(state)?, task.id))
    {
        return None;
    }
    Some((tag, bytes_of(task, state)))
}

/// When the task has ended.
fn time_of(state: &TaskState) -> Option<u64> {
    match state {
        TaskState::Buried(row) => Some(row.time),
        TaskState::Done(row) => Some(row.time),
        _ => None,
    }
}

fn bytes_of(task: &TaskRef<'_>, state: &TaskState) -> u64 {
    let result = match state {
        TaskState::Done(row) => row.result_bytes(),
        _ => 0,
    };
    task.bytes.saturating_add(result)
}

/// Whether these options limit the bytes of the tasks that a tube keeps in the state of this tag.
pub(crate) fn limits_bytes(options: &TubeOptions, tag: Tag) -> bool {
    in_options(options, tag).is_some_and(|kept| kept.bytes.is_some())
}

/// Begins a sum of the bytes of all tasks that have ended so far, for the state of this tag.
/// Returns what is left.
pub(crate) fn begin_sum(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    tag: Tag,
) -> Result<Option<PendingSum>> {
    let Some(last) = last_key(ctx, tube.range(by_time(tag)))? else { return Ok(None) };
    let until = place_in(&last).ok_or_else(|| damaged("index"))?;
    sum_some(ctx, tube, tag, (None, until))
}

/// Adds the bytes of tasks to the sum, from the first after the one to the other, at most a sweep.
/// Returns what is left.
pub(crate) fn sum_some(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    tag: Tag,
    (from, until): (Option<EndedAt>, EndedAt),
) -> Result<Option<PendingSum>> {
    let in_key = |(time, id)| match tag.state() {
        Some(State::Buried) => key::buried_time(tube.run(), time, id),
        _ => key::done_time(tube.run(), time, id),
    };
    let mut rows = Scan::through(tube.range(by_time(tag)).start(), &in_key(until));
    if let Some(from) = from {
        rows.skip_to(key::after(&in_key(from)));
    }
    let (mut left, mut last) = (SWEEP_TASKS, None);
    let (mut bytes, mut rest) = (0_u64, None);
    while let Some((met, _)) = rows.next(ctx)? {
        let Some(at) = place_in(&met) else { continue };
        if left == 0 {
            rest = last.map(|to| PendingSum { to, until });
            break;
        }
        left -= 1;
        last = Some(at);
        let found = match lookup::find(ctx, tube, at.1) {
            // A dead index row, or a task that is damaged: it stays for its repair.
            Err(error) if error.is_not_found() || error.kind() == ErrorKind::Damaged => continue,
            found => found?,
        };
        let is_of_it = tag_of(&found.1) == Some(tag) && time_of(&found.1) == Some(at.0);
        if let (Ok(task), true) = (found.0.task(tube), is_of_it) {
            bytes = bytes.saturating_add(bytes_of(&task, &found.1));
        }
    }
    let key = key::kept(tube.run(), tag);
    let sum = kept_bytes(ctx, tube, &key)?.saturating_add(bytes);
    write(ctx, smallvec![(key, sum)])?;
    Ok(rest)
}

/// The place in a key of the index of tasks that have ended.
fn place_in(key: &[u8]) -> Option<EndedAt> {
    key::time_of(key).zip(key::id_of(key))
}

/// Removes the sum for the state of this tag.
pub(crate) fn forget_sum(ctx: &mut OpContext<'_>, tube: &TubeEntry, tag: Tag) -> Result<()> {
    write(ctx, smallvec![(key::kept(tube.run(), tag), 0)])
}

/// Reads what a step of a task needs, before anything is written.
pub(crate) fn plan(
    ctx: &OpContext<'_>,
    task: &TaskRef<'_>,
    from: Option<&TaskState>,
    to: Option<&TaskState>,
) -> Result<KeptBytes> {
    let (from, to) = (counted(task, from), counted(task, to));
    let mut kept = KeptBytes::new();
    if from == to {
        return Ok(kept);
    }
    for (counted, is_added) in [(from, false), (to, true)] {
        let Some((tag, bytes)) = counted else { continue };
        let key = key::kept(task.tube.run(), tag);
        let before = kept.iter().find(|(known, _)| *known == key).map(|(_, bytes)| *bytes);
        let before = match before {
            Some(bytes) => bytes,
            None => kept_bytes(ctx, task.tube, &key)?,
        };
        let after =
            if is_added { before.saturating_add(bytes) } else { before.saturating_sub(bytes) };
        kept.retain(|(known, _)| *known != key);
        kept.push((key, after));
    }
    Ok(kept)
}

/// Writes the new sums.
pub(crate) fn write(ctx: &mut OpContext<'_>, kept: KeptBytes) -> Result<()> {
    for (key, bytes) in kept {
        if bytes > 0 {
            ctx.set(key, row::number(bytes))?;
        } else if ctx.row(&key)?.is_some() {
            ctx.remove(key);
        }
    }
    Ok(())
}

/// The stored sum. If it is damaged, it is counted again.
fn kept_bytes(ctx: &OpContext<'_>, tube: &TubeEntry, key: &Key) -> Result<u64> {
    let sum = decoded(ctx.get(key), row::read_number, "kept");
    Ok(ctx.or_repair(tube, || key::copy(key), sum)?.flatten().unwrap_or(0))
}

/// Whether there are more tasks in the state of this tag than the tube keeps, apart from so many
/// that are damaged.
pub(crate) fn is_over(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    tag: Tag,
    damaged: u64,
) -> Result<bool> {
    let tasks = count(ctx, tube, tag).saturating_sub(damaged);
    exceeds(of_tag(tube, tag), tasks, || kept_bytes(ctx, tube, &key::kept(tube.run(), tag)))
}

/// Whether so many tasks, and the sum of their bytes, are more than is kept. The last one is kept,
/// whatever its size.
fn exceeds(
    kept: Option<&Retention>,
    tasks: u64,
    bytes: impl FnOnce() -> Result<u64>,
) -> Result<bool> {
    let Some(kept) = kept else { return Ok(false) };
    match kept.bytes {
        _ if kept.count.is_some_and(|most| tasks > most) => Ok(true),
        Some(most) if tasks > 1 => Ok(bytes()? > most),
        _ => Ok(false),
    }
}

/// How many tasks a tube keeps in the state of this tag, without those that it keeps for their
/// dependents.
fn count(view: &dyn View, tube: &TubeEntry, tag: Tag) -> u64 {
    let held = if tag == Tag::Done { view.count(tube.range(Tag::HeldTime)) } else { 0 };
    view.count(tube.range(tag)).saturating_sub(held)
}

/// The tag of the index by the time of the end, of the tasks in the state of this tag.
pub(crate) fn by_time(tag: Tag) -> Tag {
    if tag == Tag::Buried { Tag::BuriedTime } else { Tag::DoneTime }
}
