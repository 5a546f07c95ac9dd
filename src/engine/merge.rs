//! A merge moves all tasks of a tube to another one, as they stand: with their states, leases,
//! attempts and ranks. It goes in bounded steps under a work row, and an opening goes on with it.
//! Until it has ended the tube hands out nothing, so no task of it overtakes one that has moved. A
//! task that may not come, because another one has its key, is named and stays.

use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::effects::NextDue;
use crate::engine::moves;
use crate::engine::stored::{self, StoredTask, TaskRef, TaskState};
use crate::engine::tags::Moving;
use crate::engine::tube_cache::{TubeEntry, TubeRef};
use crate::engine::{
    fresh, history, keys, query, retention, settle, statistics, task_gates, transition,
};
use crate::format::feature::{MERGES, MOVES};
use crate::format::key::{self, Home, Key, RUN_PREFIX, Work};
use crate::format::row::{self, Shut, TakenRow, TaskRow, TubeRow, WorkRow, moved_section};
use crate::format::{Deadline, Met, Scan, Tag, View};
use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{SWEEP_BYTES, SWEEP_TASKS};
use crate::words::numbers::Numbers;
use crate::words::task::{Cause, TaskId};
use crate::words::task_gates::group_in;

/// Begins to merge a tube into another one. One that has begun goes on.
pub(crate) struct BeginMerge {
    pub(crate) from: u32,
    pub(crate) into: u32,
}

/// Moves some tasks of a tube that is merged into another one.
pub(crate) struct MergeSome {
    pub(crate) from: u32,
    pub(crate) into: u32,
    pub(crate) place: MergePlace,
    /// Puts wait for room in the other tube, and what there is belongs to them.
    pub(crate) others_wait: bool,
}

/// Ends a merge where it is. A full disk allows it: takes must go on there.
pub(crate) struct EndMerge {
    pub(crate) from: u32,
}

/// What a step of a merge has done.
#[derive(Debug, Default)]
pub(crate) struct MergedSome {
    /// It was the first of a walk.
    pub(crate) begins_walk: bool,
    pub(crate) moved: u64,
    /// Those that stay, because another task has their keys.
    pub(crate) clashes: Vec<TaskId>,
    /// For this one the other tube has no room: the merge has ended there.
    pub(crate) stopped_at: Option<TaskId>,
    /// The merge had ended before.
    pub(crate) is_over: bool,
    /// Where to go on; `None` if the merge has ended.
    pub(crate) next: Option<MergePlace>,
}

/// Where a merge is in a walk over the tasks of its tube.
#[derive(Clone, Debug, Default)]
pub(crate) struct MergePlace {
    /// The number of the merge, from its first step on. Another merge of the tube, which may have
    /// another run then, has no such place.
    merge: Option<u64>,
    /// Of [`LINES`].
    line: usize,
    /// It continues after these rows of the line's tags.
    after: [Option<Key>; 2],
    /// Whether the walk has moved a task. Then another one follows, for what came meanwhile.
    has_moved: bool,
}

/// The rows of tasks in the order in which they are moved. Leases come first, and delayed tasks
/// that hold their group, so that what they hold is held before others may be taken. The tags of
/// one line have one order of ranks.
const LINES: [&[Tag]; 9] = [
    &[Tag::Taken],
    &[Tag::Delayed],
    &[Tag::Fresh, Tag::Ready],
    &[Tag::Line],
    &[Tag::Delayed],
    &[Tag::Blocked],
    &[Tag::Buried],
    &[Tag::Trashed],
    &[Tag::Done],
];

/// The line of the delayed tasks that hold their group. The others stay there for a later line.
const HOLDING: usize = 1;

impl Op for BeginMerge {
    type Done = ();

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn grows(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let (from, to) = (&*ctx.tube(self.from)?, &*ctx.tube(self.into)?);
        if from.row.merges_into() == Some(self.into) && number(ctx, from)?.is_some() {
            return Ok(());
        }
        admit(from, to)?;
        let mut works = Scan::prefixed(key::work_of(Work::Merge));
        while let Some((_, row)) = works.next(ctx)? {
            let number = row.as_deref().and_then(WorkRow::decode).map_or(0, |work| work.tube);
            let into = ctx.tube(number).map_or(0, |tube| tube.row.merges_into().unwrap_or(0));
            let busy = [number, into].into_iter().find(|busy| *busy == self.from);
            if let Some(busy) = busy.or((number == self.into).then_some(number)) {
                let name = if busy == self.from { &from.row.name } else { &to.row.name };
                let text = format!("tube {name:?} is in another merge; wait for its end");
                return Err(Error::new(ErrorKind::TubeBusy).because(text));
            }
        }
        ctx.needs(&MERGES);
        let shut = Shut::of(from.row.pause(), Some(self.into));
        let row = TubeRow { shut, ..from.row.clone() };
        ctx.set_tube(self.from, row, None)?;
        let merge = ctx.token();
        ctx.set_work(work_of(from), WorkRow { from: merge, ..WorkRow::of_tube(self.from) }.encode())
    }
}

/// Whether the tasks of one tube may be as they are in the other one.
fn admit(from: &TubeEntry, to: &TubeEntry) -> Result<()> {
    let text = if from.number == to.number {
        return Err(Error::new(ErrorKind::Invalid).because("a merge of a tube into itself"));
    } else if from.run().is_temporary() != to.run().is_temporary() {
        "a merge of a temporary and a durable tube".to_owned()
    } else if from.row.options.placement.is_some() || to.row.options.placement.is_some() {
        "a merge of a tube with a placement".to_owned()
    } else if from.row.options.kind.switches() != to.row.options.kind.switches() {
        let (one, other) = (from.row.options.kind, to.row.options.kind);
        format!("a merge of a tube of kind {one:?} into one of kind {other:?}")
    } else if from.row.options.higher_first != to.row.options.higher_first {
        "a merge of two tubes of which only one has higher_first".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Unsupported).because(text))
}

/// The key of the work row of a merge.
pub(crate) fn work_of(from: &TubeEntry) -> Key {
    key::work(Work::Merge, from.run(), TaskId::new(0))
}

/// The number of the merge of this tube; `None` if there is none, or if its row is damaged.
fn number(view: &dyn View, from: &TubeEntry) -> Result<Option<u64>> {
    let row = view.row(&work_of(from))?.and_then(|(_, row)| row);
    Ok(row.as_deref().and_then(WorkRow::decode).map(|work| work.from))
}

/// Ends a merge of this tube, if there is one. Its takers look again.
pub(crate) fn end(ctx: &mut OpContext<'_>, from: &TubeEntry) -> Result<()> {
    if from.row.merges_into().is_some() {
        let shut = Shut::of(from.row.pause(), None);
        ctx.set_tube(from.number, TubeRow { shut, ..from.row.clone() }, None)?;
        ctx.effects().wake(from.number, usize::MAX);
    }
    forget(ctx, from)
}

/// Removes the work row of a merge of this tube, if there is one.
pub(crate) fn forget(ctx: &mut OpContext<'_>, from: &TubeEntry) -> Result<()> {
    let work = work_of(from);
    if ctx.row(&work)?.is_some() {
        ctx.remove(work);
    }
    Ok(())
}

impl Op for EndMerge {
    type Done = ();

    const FOLLOWS_ENDS: bool = false;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let from = ctx.tube(self.from)?;
        end(ctx, &from)
    }
}

impl Op for MergeSome {
    type Done = MergedSome;

    const FOLLOWS_ENDS: bool = false;

    /// Leases that were voided there return first.
    fn tube(&self) -> Option<u32> {
        Some(self.into)
    }

    fn grows(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<MergedSome> {
        let (mut done, mut place) = (MergedSome::default(), self.place.clone());
        done.begins_walk = place.is_first();
        let over = MergedSome { is_over: true, ..MergedSome::default() };
        let from = match ctx.tube(self.from) {
            Ok(from) if from.row.merges_into() == Some(self.into) => from,
            Err(error) if !error.is_not_found() => return Err(error),
            // The tube was dropped or truncated, or another call has come to the end.
            _ => return Ok(over),
        };
        let merge = number(ctx, &from)?.unwrap_or(0);
        if place.merge.is_some_and(|begun| begun != merge) {
            return Ok(over);
        }
        place.merge = Some(merge);
        let Some(to) = there(ctx.tube(self.into))? else {
            end(ctx, &from)?;
            return Ok(over);
        };
        if place.line == 0 && ctx.count(from.range(Tag::Taken)) > 0 && unvoid(ctx, &to)? {
            done.next = Some(place);
            return Ok(done);
        }
        fresh::learn(ctx, &from)?;
        let mut bytes = 0;
        for _ in 0..SWEEP_TASKS {
            if bytes >= SWEEP_BYTES || ctx.is_sweep_long() {
                break;
            }
            let Some((tag, met)) = place.next(ctx, &from)? else {
                if !place.has_moved {
                    end(ctx, &from)?;
                    return Ok(done);
                }
                place = MergePlace { merge: place.merge, ..MergePlace::default() };
                (done.begins_walk, done.clashes) = (true, Vec::new());
                continue;
            };
            let Some((stored, state)) = open(ctx, &from, tag, &met)? else { continue };
            bytes += stored.own().map_or(0, |row| row.payload.bytes() as usize);
            if place.line == HOLDING && !holds_group(&state) {
                continue;
            }
            let id = stored.task(&from)?.id;
            let passed = ctx.attempt(|ctx| self.pass(ctx, (&from, &to), stored, state));
            match sound(passed) {
                Ok(Some(true)) => (done.moved, place.has_moved) = (done.moved + 1, true),
                // Its lease was void, and it is among the ready ones now; or its rows are damaged.
                Ok(Some(false) | None) => {}
                Err(error) => match error.kind() {
                    ErrorKind::KeyExists => done.clashes.push(id),
                    // Its rows have no room for what a move says: it stays.
                    ErrorKind::TooLarge | ErrorKind::Unsupported => {}
                    ErrorKind::Full => {
                        done.stopped_at = Some(id);
                        end(ctx, &from)?;
                        return Ok(done);
                    }
                    _ => return Err(error),
                },
            }
        }
        done.next = Some(place);
        Ok(done)
    }
}

fn holds_group(state: &TaskState) -> bool {
    matches!(state, TaskState::Delayed(row) if row.holds_group)
}

/// The tube that others are merged into, if it can be: it may be gone, or damaged.
fn there(into: Result<TubeRef<'_>>) -> Result<Option<TubeRef<'_>>> {
    match into {
        Err(error) if error.is_not_found() || error.kind() == ErrorKind::Damaged => Ok(None),
        into => into.map(Some),
    }
}

/// Makes sure that no lease counts as void where it goes: the tube may have voided its own leases
/// since that one began. Returns whether that is still to be done.
fn unvoid(ctx: &mut OpContext<'_>, to: &TubeEntry) -> Result<bool> {
    if to.row.void_to == 0 {
        return Ok(false);
    }
    // While there is such work leases are void there. It is due work of the tube.
    if ctx.row(&key::work(Work::Release, to.run(), TaskId::new(0)))?.is_none() {
        ctx.set_tube(to.number, TubeRow { void_to: 0, ..to.row.clone() }, None)?;
    }
    Ok(true)
}

/// The task of a row; `None` if it is damaged and its repair did not help. It stays.
fn open(
    ctx: &OpContext<'_>,
    from: &TubeEntry,
    tag: Tag,
    (key, row): &Met,
) -> Result<Option<(StoredTask, TaskState)>> {
    // A key that names no task is damaged itself.
    let Some(id) = key::id_of(key) else { return Ok(None) };
    if tag == Tag::Fresh && fresh::is_mistaken(ctx, from, id)? {
        return Ok(None);
    }
    let opened = row.as_ref().ok_or_else(|| damaged("state")).and_then(|row| {
        let (stored, state) = stored::open(ctx, from, key, row)?;
        let stored = stored.whole(ctx, from)?;
        stored.task(from)?;
        Ok((stored, state))
    });
    ctx.or_repair(from, || key::copy(key), opened)
}

impl MergePlace {
    fn is_first(&self) -> bool {
        self.line == 0 && self.after.iter().all(Option::is_none)
    }

    /// The next row of a task, with its tag.
    fn next(&mut self, ctx: &OpContext<'_>, from: &TubeEntry) -> Result<Option<(Tag, Met)>> {
        while let Some(tags) = LINES.get(self.line) {
            if self.line == HOLDING && ctx.count(from.range(Tag::Group)) == 0 {
                (self.line, self.after) = (self.line + 1, Default::default());
                continue;
            }
            let mut first: Option<(usize, Tag, Met)> = None;
            for (lane, (tag, after)) in tags.iter().zip(&self.after).enumerate() {
                let Some(met) = row_after(ctx, from, *tag, after.as_ref())? else { continue };
                let is_first = |(_, _, other): &(_, _, Met)| rank_of(&met) < rank_of(other);
                if first.as_ref().is_none_or(is_first) {
                    first = Some((lane, *tag, met));
                }
            }
            let Some((lane, tag, met)) = first else {
                (self.line, self.after) = (self.line + 1, Default::default());
                continue;
            };
            if let Some(after) = self.after.get_mut(lane) {
                *after = Some(key::copy(&met.0));
            }
            return Ok(Some((tag, met)));
        }
        Ok(None)
    }
}

fn rank_of((key, _): &Met) -> Option<&[u8]> {
    key.get(RUN_PREFIX..)
}

fn row_after(
    ctx: &OpContext<'_>,
    from: &TubeEntry,
    tag: Tag,
    after: Option<&Key>,
) -> Result<Option<Met>> {
    let range = from.range(tag);
    if ctx.count(range) == 0 {
        return Ok(None);
    }
    match (tag, after) {
        (Tag::Fresh, after) => fresh::first(ctx, from, after.map(|after| &**after), None),
        (_, Some(after)) => ctx.first(&key::after(after), &range.end()),
        (_, None) => ctx.first(&range.start(), &range.end()),
    }
}

impl MergeSome {
    /// Moves one task, or returns its lease if that is void. Returns whether it has moved.
    ///
    /// # Errors
    /// `KeyExists`, `Full`, `TooLarge` or `Unsupported` if it may not come.
    fn pass(
        &self,
        ctx: &mut OpContext<'_>,
        (from, to): (&TubeEntry, &TubeEntry),
        stored: StoredTask,
        state: TaskState,
    ) -> Result<bool> {
        let task = stored.task(from)?;
        if let TaskState::Taken(taken) = &state
            && let Some(cause) = void_by(ctx, from, taken)?
        {
            return settle::return_task(ctx, &task, taken.clone(), cause).map(|()| false);
        }
        let mut next = match &state {
            TaskState::Fresh(progress) => TaskState::Ready(progress.clone()),
            state => state.clone(),
        };
        if keys::counts(to, &next) && !keys::rows(&task, &next).is_empty() {
            keys::is_free(ctx, to, (task.key(), task.id))?;
        }
        if !matches!(next, TaskState::Done(_) | TaskState::Trashed(_)) {
            moves::room(ctx, to, self.others_wait)?;
        }
        let (_, row) = task.read.ok_or_else(|| damaged("task"))?;
        let since = Some(row.lives_since()).filter(|_| next.progress().expires != NEVER);
        let section = moved_section(row.extension, row.passed(), true, since)
            .ok_or_else(|| Error::new(ErrorKind::TooLarge))?;
        let gates = task_gates::of(row.group, state.progress());
        let (group, gates) = task_gates::stand(to, group_in(row.group), gates);
        task_gates::set(next.progress_mut(), gates)?;
        let moved = TaskRow { times: None, group, extension: &section, ..row };
        let (raw, home) = (moved.encode(), Home { rank: task.place, is_fresh: false });
        let new = TaskRef::new(to, task.id, (home, task.place), &raw, moved);
        if !to.run().is_temporary() {
            ctx.needs(&MOVES);
        }
        carry_out(ctx, (&task, &state), (&new, &mut next)).map(|()| true)
    }
}

fn carry_out(
    ctx: &mut OpContext<'_>,
    (old, state): (&TaskRef<'_>, &TaskState),
    (new, next): (&TaskRef<'_>, &mut TaskState),
) -> Result<()> {
    statistics::carry(ctx, (old, state), new.tube, next)?;
    let tags = Moving::of(ctx, (old, state), next, None)?;
    let noted = history::note_move(ctx, old, (state, next), Cause::Merge, Some(old.tube))?;
    transition::pass(ctx, (old, state), (new, next), Cause::Merge)?;
    noted.write(ctx);
    if let Some(tags) = tags {
        tags.write(ctx, old, new)?;
    }
    if retention::tag_of(next).is_some() {
        // The other tube may not keep it.
        ctx.effects().deadline(new.tube.number, NextDue::of(Deadline::Ttl, 0));
    }
    let number = row::number(u64::from(new.tube.number));
    ctx.set(key::moved(new.tube.run(), new.id), number)
}

/// Why a lease ends instead of going on in the other tube: a `release_all` has voided it, or its
/// session has ended, and no grace is left.
fn void_by(ctx: &OpContext<'_>, from: &TubeEntry, taken: &TakenRow) -> Result<Option<Cause>> {
    if settle::is_voided(from, taken) {
        return Ok(Some(Cause::Release));
    }
    if taken.holder == 0 {
        return Ok(None);
    }
    let is_over = match query::consumer(ctx, taken.holder)? {
        None => true,
        // A grace goes by lease time, and the step that ends it finds what was moved.
        Some(consumer) => {
            let has_ended = taken.token <= consumer.void_to && consumer.until != NEVER;
            has_ended && consumer.grace == 0
        }
    };
    Ok(is_over.then_some(Cause::Lost))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_state_of_a_task_is_moved_once() {
        let others = LINES.iter().enumerate().filter(|(line, _)| *line != HOLDING);
        let lines: Vec<Tag> = others.flat_map(|(_, tags)| tags.iter().copied()).collect();
        assert_eq!(LINES[HOLDING], [Tag::Delayed]);
        let tags: BTreeSet<Tag> = Tag::states().chain([Tag::Fresh]).collect();
        assert_eq!(lines.iter().copied().collect::<BTreeSet<_>>(), tags);
        assert_eq!(lines.len(), tags.len());
    }
}
