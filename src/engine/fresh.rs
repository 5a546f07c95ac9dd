//! Fresh tasks: ready, in no group, and untouched since their put. Such a task has one row, under
//! `Tag::Fresh`; no other row says that it is ready. A take leaves the row where it is and adds the
//! row of the lease. So the rows of a tube under this tag are in two parts: before the *border*
//! every task has a row that gives its state, from the border on none has, and takes continue
//! there.
//!
//! The border is kept in memory. Only a take moves it on, from one row to the next. What else would
//! break the order of the two parts is not stored here: a task that is put before the border has a
//! row under `Tag::Ready` from the beginning, and one that leaves the second part in another way
//! than by a take goes to `Tag::Task`.

use crate::engine::context::OpContext;
use crate::engine::effects::Border;
use crate::engine::lookup;
use crate::engine::stored::TaskRef;
use crate::engine::tube_cache::TubeEntry;
use crate::format::key::{self, Home, Key, RUN_PREFIX, Rank};
use crate::format::{Met, Tag, View};
use crate::words::error::Result;
use crate::words::task::TaskId;

/// Makes the border known, see [`OpContext::border`].
#[inline]
pub(crate) fn learn(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<()> {
    if tube.border.is_some() || ctx.border(tube).is_some() {
        return Ok(());
    }
    let border = Border { at: search(ctx, tube)?, unsure_to: ctx.numbers.next.ids };
    ctx.effects().set_border(tube.number, border);
    Ok(())
}

/// The first fresh task at the border, which must be known, or after a task that was left there.
/// Not searched if another task, of which this is the key, comes before all of them.
#[inline(always)]
pub(crate) fn first(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    left: Option<&[u8]>,
    other: Option<&[u8]>,
) -> Result<Option<Met>> {
    let (range, Some(border)) = (tube.range(Tag::Fresh), ctx.border(tube)) else { return Ok(None) };
    if let Some(other) = other
        && (other.get(RUN_PREFIX..) < border.at.get(RUN_PREFIX..) || ctx.count(range) == 0)
    {
        return Ok(None);
    }
    match left {
        Some(left) => ctx.first(&key::after(left), &range.end()),
        None => ctx.first(&border.at, &range.end()),
    }
}

/// Whether a task after the border is not fresh, because rows were damaged when the border was
/// searched.
#[inline]
pub(crate) fn is_mistaken(ctx: &OpContext<'_>, tube: &TubeEntry, id: TaskId) -> Result<bool> {
    // As in `leave`.
    let is_known = tube.border.as_ref().is_some_and(|border| border.unsure_to <= id.get());
    let is_sure = is_known || ctx.border(tube).is_none_or(|border| border.unsure_to <= id.get());
    Ok(!is_sure && lookup::state_row(ctx, tube, id, None)?.is_some())
}

/// The border, outside of an op.
pub(crate) fn known(view: &dyn View, tube: &TubeEntry) -> Result<Key> {
    let known = tube.border.as_ref().map(|border| key::copy(&border.at));
    known.map_or_else(|| search(view, tube), Ok)
}

/// Searches the border, as after an opening, by halves: some hundred reads at most.
fn search(view: &dyn View, tube: &TubeEntry) -> Result<Key> {
    let range = tube.range(Tag::Fresh);
    let (mut low, mut high) = (range.start(), range.end());
    if has_only_fresh(view, tube) {
        return Ok(low);
    }
    // All before `low` have another row, and none from `high` on has.
    while let Some((first, _)) = view.first(&low, &high)? {
        if !is_left(view, tube, &first)? {
            break;
        }
        low = key::after(&first);
        let middle = key::middle(&low, &high);
        match view.first(&middle, &high)? {
            Some((met, _)) if is_left(view, tube, &met)? => low = key::after(&met),
            _ => high = middle,
        }
    }
    Ok(low)
}

/// Whether another row gives the state of the task of this key. A damaged row may be of another
/// task, and a search that takes it for this task's could miss all tasks before this one.
fn is_left(view: &dyn View, tube: &TubeEntry, fresh: &[u8]) -> Result<bool> {
    let Some(id) = key::id_of(fresh) else { return Ok(false) };
    Ok(lookup::state_row(view, tube, id, None)?.is_some_and(|(_, row)| row.is_some()))
}

/// Whether no task without a group has a row that gives its state.
fn has_only_fresh(view: &dyn View, tube: &TubeEntry) -> bool {
    let has_none = |tag| view.count(tube.range(tag)) == 0;
    has_none(Tag::Fresh) || Tag::states().all(|tag| tag == Tag::Line || has_none(tag))
}

/// Whether a task that is put with this rank can be stored as fresh.
#[inline]
pub(crate) fn admits(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (rank, id): (Rank, TaskId),
) -> Result<bool> {
    learn(ctx, tube)?;
    let key = key::task(tube.run(), &Home { rank, is_fresh: true }, id);
    Ok(ctx.border(tube).is_some_and(|border| border.at <= key) || moved_back(ctx, tube, key))
}

/// Whether the border is moved back to this key, because no task is before it any more. Not to the
/// start: the next take would walk over the tombstones of all tasks before this one.
#[cold]
fn moved_back(ctx: &mut OpContext<'_>, tube: &TubeEntry, at: Key) -> bool {
    let is_clear = has_only_fresh(ctx, tube);
    if is_clear {
        ctx.effects().set_border(tube.number, Border { at, unsure_to: 0 });
    }
    is_clear
}

/// A fresh task is about to leave the second part. If it is the next one, the border moves on;
/// otherwise the task's own row moves. Returns the task's home after that.
#[inline]
pub(crate) fn leave(ctx: &mut OpContext<'_>, task: &TaskRef<'_>) -> Home {
    let (tube, home) = (task.tube, task.home);
    let Some((raw, _)) = task.read.filter(|_| home.is_fresh) else { return home };
    if task.is_next {
        // One that has moved in this op is no less sure than it was.
        let border = tube.border.as_ref().or_else(|| ctx.border(tube));
        let unsure_to = border.map_or(u64::MAX, |border| border.unsure_to);
        let at = key::after(&key::task(tube.run(), &home, task.id));
        ctx.effects().set_border(tube.number, Border { at, unsure_to });
        return home;
    }
    ctx.remove(key::task(tube.run(), &home, task.id));
    let apart = Home { is_fresh: false, ..home };
    ctx.add(key::task(tube.run(), &apart, task.id), raw.clone());
    apart
}

#[cfg(test)]
mod tests;
