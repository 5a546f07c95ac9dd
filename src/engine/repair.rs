//! The one op that repairs damage. A rule that meets a damaged row ends with an error that names
//! the row. The commit then runs this op for the row and tries the rule again. The op buries a
//! damaged task under its id, with what other rows still say of it, and writes index rows again. A
//! row that no other row explains stays as it is. No rule calls this file.

use crate::engine::consumers;
use crate::engine::context::{Op, OpContext, damaged, sound};
use crate::engine::groups::{at_head, in_flight, is_closed_head, set_head};
use crate::engine::pieces::{self, PiecesFound};
use crate::engine::settle::buried;
use crate::engine::stored::{self, StoredTask, TaskRef, TaskState};
use crate::engine::transition;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{
    edges, history, kinds, lookup, position, query, reports, retention, slots, state_rows, tags,
};
use crate::format::key::{self, Home, Key, Rank};
use crate::format::row::{
    self, BlockedRow, ConsumerRow, DelayedRow, DoneRow, Labels, PayloadPlace, TakenRow,
    TaskProgress, TaskRow, label_section, moved_section, replaced_section,
};
use crate::format::{Range, Scan, Tag, Value, View};
use crate::words::clock::NEVER;
use crate::words::error::{DamagedRow, Error, ErrorKind, Result};
use crate::words::task::{Cause, Reason, State, TaskId};
use std::collections::BTreeMap;

/// Repairs as far as that is possible.
pub(crate) enum Repair {
    /// The row that a rule met.
    Row(DamagedRow),
    /// All rows of consumers and of their names.
    Consumers,
}

impl Op for Repair {
    type Done = ();

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let Self::Row(DamagedRow { tube, key }) = self else { return repair_consumers(ctx) };
        let (tube, key) = (&*ctx.tube(*tube)?, Key::from_slice(key));
        let Some(range) = Range::holding(&key) else { return Ok(()) };
        if matches!(range.tag, Tag::OpenHead | Tag::ClosedHead) {
            return repair_heads(ctx, tube);
        }
        if range.tag == Tag::Group {
            let group = key::group_of(&key);
            return group.map_or(Ok(()), |group| repair_group(ctx, tube, group, &key));
        }
        if range.tag == Tag::Kept {
            return repair_kept(ctx, tube, &key);
        }
        bury(ctx, tube, (range.tag, key))
    }
}

/// What is known of a damaged task.
struct Known {
    id: TaskId,
    home: Home,
    place: Rank,
    group: Option<String>,
    state: TaskState,
}

/// Buries the task of the state's row of this key, if that row, the task's own or its payload is
/// damaged.
fn bury(ctx: &mut OpContext<'_>, tube: &TubeEntry, (tag, at): (Tag, Key)) -> Result<()> {
    let state = if tag == Tag::Fresh { Some(State::Ready) } else { tag.state() };
    let (Some(state), Some(id)) = (state, key::id_of(&at)) else { return Ok(()) };
    let Some((_, raw)) = ctx.row(&at)? else { return Ok(()) };
    let in_key = key::rank_in_state(tag, &at);
    let opened = raw.ok_or_else(|| damaged("state"));
    let opened = opened.and_then(|raw| stored::open(ctx, tube, &at, &raw));
    let (known, fault) = match opened {
        Ok((stored, state)) => {
            let content = stored.task(tube).and_then(|task| task.content(ctx));
            match content.and_then(|content| content.payload.read(ctx)) {
                Ok(_) => return Ok(()),
                Err(fault) => (Some((stored, state)), fault),
            }
        }
        Err(fault) if tag == Tag::Delayed => (lookup::copied(ctx, tube, &at)?, fault),
        Err(fault) => (None, fault),
    };
    if fault.kind() != ErrorKind::Damaged {
        return Err(fault);
    }
    if let Some((stored, state)) = &known
        && is_rehomed(ctx, tube, (&at, id), (stored, state))?
    {
        return Ok(());
    }
    let (home, place) = match &known {
        Some((stored, _)) => (Some(stored.home), Some(stored.place)),
        None => {
            let position = sound(position::of(ctx, tube, id))?;
            let (home, place) = position.map(|row| (row.home, row.place)).unzip();
            let home = match home.or(in_key) {
                Some(rank) => Some(home_at(ctx, tube, (rank, id))?),
                None => None,
            };
            (home, in_key.or(place))
        }
    };
    let Some((home, place)) = home.zip(place) else { return Ok(()) };
    let group = group(ctx, tube, (tag, id), &at, known.as_ref().map(|(stored, _)| stored))?;
    let state = match (known, state) {
        (Some((_, state)), _) => state,
        (None, State::Ready) if tag == Tag::Fresh => TaskState::Fresh(unknown()),
        (None, State::Ready) if in_key.is_some() => TaskState::Ready(unknown()),
        (None, State::Delayed) => delayed(ctx, tube, group.as_deref())?,
        (None, State::Taken) => {
            let (mut progress, holder) = (unknown(), holder(ctx, tube, id)?);
            let _fits = progress.set_slots(&slots::found(ctx, tube.run(), id)?);
            TaskState::Taken(TakenRow { progress, token: 0, holder, since: NEVER, deadline: NEVER })
        }
        (None, State::Blocked) => {
            let (progress, since) = (unknown(), ctx.now.queue);
            TaskState::Blocked(BlockedRow { progress, since, due: 0, wall: false })
        }
        (None, State::Done) => {
            let Some(time) = ended(ctx, tube, id)? else { return Ok(()) };
            let has_key_rows = has_key_rows(ctx, tube, (&home, id))?;
            TaskState::Done(DoneRow { progress: unknown(), time, result: None, has_key_rows })
        }
        // It is buried already, or the key does not say where a ready task is.
        (None, State::Ready | State::Buried) => return Ok(()),
    };
    let known = Known { id, home, place, group, state };
    bury_task(ctx, tube, known, &fault)
}

/// Writes the row of a state again that is sound but for where it says that the task was put, if
/// the row of its position leads to an own row that is sound: such a task has lost nothing.
fn is_rehomed(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (at, id): (&Key, TaskId),
    (stored, state): (&StoredTask, &TaskState),
) -> Result<bool> {
    let Some(position) = sound(position::of(ctx, tube, id))? else { return Ok(false) };
    let home = home_at(ctx, tube, (position.home, id))?;
    if home == stored.home || position.place != stored.place {
        return Ok(false);
    }
    let own = ctx.row(&key::task(tube.run(), &home, id))?.and_then(|(_, raw)| raw);
    let own = own.as_ref().and_then(|raw| Some((raw, TaskRow::decode(raw)?)));
    let Some((raw, row)) = own else { return Ok(false) };
    let task = TaskRef::new(tube, id, (home, position.place), raw, row);
    match state_rows::state_row(&task, state).filter(|(key, _)| key == at) {
        Some((key, value)) => ctx.set(key, value).map(|()| true),
        None => Ok(false),
    }
}

/// The home of a task that was put at this rank.
fn home_at(ctx: &OpContext<'_>, tube: &TubeEntry, (rank, id): (Rank, TaskId)) -> Result<Home> {
    let home = Home { rank, is_fresh: true };
    let is_fresh = ctx.row(&key::task(tube.run(), &home, id))?.is_some();
    Ok(Home { is_fresh, ..home })
}

/// The group of a task with this row of its state.
fn group(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    (tag, id): (Tag, TaskId),
    at: &Key,
    stored: Option<&StoredTask>,
) -> Result<Option<String>> {
    match (tag, stored.and_then(StoredTask::stated_group)) {
        (Tag::Line, _) => Ok(key::group_of(at).map(str::to_owned)),
        (Tag::Fresh | Tag::Ready, _) => Ok(None),
        (_, Some(group)) => Ok(group.map(str::to_owned)),
        (_, None) => match known_group(ctx, tube, id)? {
            Some(group) => Ok(group),
            None => lost_group(ctx, tube),
        },
    }
}

/// The group in a task's own row; `None` if that row, or where it is, is damaged.
fn known_group(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    id: TaskId,
) -> Result<Option<Option<String>>> {
    let Some(position) = sound(position::of(ctx, tube, id))? else { return Ok(None) };
    sound(lookup::own_group(ctx, tube, id, position.home)).map(Option::flatten)
}

/// A group with more tasks in flight than can be counted: those that cannot are damaged.
fn lost_group(ctx: &OpContext<'_>, tube: &TubeEntry) -> Result<Option<String>> {
    if ctx.count(tube.range(Tag::Group)) == 0 {
        return Ok(None);
    }
    let mut rows = Scan::over(tube.range(Tag::Group));
    let counted = recount(ctx, tube)?;
    while let Some((met, _)) = rows.next(ctx)? {
        let Some(group) = key::group_of(&met) else { continue };
        if in_flight(ctx, tube, group)? > counted.get(group).copied().unwrap_or_default() {
            return Ok(Some(group.to_owned()));
        }
    }
    Ok(None)
}

/// Whether another tube has a task of this id that can be read. Asks each tube, of which there may
/// be many: only for a task that has no row of its own where it was met.
fn is_elsewhere(ctx: &OpContext<'_>, tube: &TubeEntry, id: TaskId) -> Result<bool> {
    for number in query::numbers(ctx)?.into_iter().filter(|number| *number != tube.number) {
        let Some(other) = query::sound_tube(ctx, number)? else { continue };
        if query::has_whole(ctx, &other, id)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Buries a task. If its own row is damaged, a new one replaces it, with the payload if that is in
/// pieces. If another row gives a state of the task, a fresh task was put at another rank, or the
/// task is in another tube, the damage is in the key of the row, which is of another task that is
/// not known: it stays as it is.
fn bury_task(ctx: &mut OpContext<'_>, tube: &TubeEntry, known: Known, fault: &Error) -> Result<()> {
    let Known { id, home, place, group, mut state } = known;
    let group = group.as_deref();
    edges::recover_unknown(ctx, tube.run(), id, state.progress_mut())?;
    let key = key::task(tube.run(), &home, id);
    let own = ctx.row(&key)?;
    let (raw, found) = match own.as_ref().and_then(|(_, raw)| raw.clone()) {
        Some(raw) if TaskRow::decode(&raw).is_some() => (raw, None),
        _ => {
            let found = pieces::find(ctx, (tube.run(), id))?;
            let is_moved = ctx.row(&key::moved(tube.run(), id))?.is_some();
            let kind = kinds::recover(ctx, tube, id)?;
            let raw = unknown_task(ctx, &found, (group, kind.as_deref()), is_moved);
            (raw, Some(found))
        }
    };
    let row = TaskRow::decode(&raw).ok_or_else(|| damaged("task"))?;
    // Its own row leaves the fresh ones, because the task may stand between tasks that are fresh.
    let apart = Home { is_fresh: false, ..home };
    let task = TaskRef { group, ..TaskRef::new(tube, id, (apart, place), &raw, row) };
    let own_state = state_rows::state_key(&task, &state);
    let is_misplaced = matches!(state, TaskState::Fresh(_)) && place != home.rank;
    if is_misplaced
        || lookup::state_row(ctx, tube, id, own_state.as_ref())?.is_some()
        || own.is_none() && is_elsewhere(ctx, tube, id)?
    {
        return Ok(());
    }
    let mut progress = state.progress().clone();
    if progress.history().is_none() {
        history::recover(ctx, tube.run(), id, &mut progress)?;
    }
    if progress.reports().is_empty() {
        reports::recover(ctx, tube.run(), id, &mut progress)?;
    }
    if !progress.is_tagged() {
        tags::recover(ctx, tube.run(), id, &mut progress)?;
    }
    let mut to = match &state {
        // What is in the trash stays there.
        TaskState::Trashed(_) => state.clone(),
        // Nothing brings it back without a payload. It is kept as if it had ended now.
        TaskState::Done(done) if row.is_payload_dropped() => {
            progress.set_kept_until(retention::until(ctx, tube, Tag::Done));
            TaskState::Done(DoneRow { progress, ..done.clone() })
        }
        _ => buried(ctx, tube, progress, &Reason::Undecodable(fault.to_string())),
    };
    let noted = match to {
        TaskState::Buried(_) => history::note(ctx, &task, (&state, &mut to), Cause::Bury)?,
        _ => history::Noted::default(),
    };
    match to {
        // It ends no second time.
        TaskState::Done(_) => transition::restate(ctx, &task, &state, &to)?,
        _ => transition::move_task(ctx, &task, &state, &to, Cause::Bury)?,
    }
    noted.write(ctx);
    if home.is_fresh || found.is_some() {
        ctx.set(key::task(tube.run(), &apart, id), raw.clone())?;
    }
    if home.is_fresh && own.is_some() {
        ctx.remove(key);
    }
    match found {
        Some(found) => found.discard_others(ctx, (tube.run(), id)),
        None => Ok(()),
    }
}

/// The row of a task of which only the payload, the group and perhaps the kind are known, and
/// whether it came from another tube.
pub(crate) fn unknown_task(
    ctx: &OpContext<'_>,
    found: &PiecesFound,
    (group, kind): (Option<&str>, Option<&str>),
    is_moved: bool,
) -> Value {
    let payload = found.whole.map_or(PayloadPlace::Inline(&[]), PayloadPlace::Separate);
    let created = ctx.now.queue;
    let section = label_section(&Labels { kind, ..Labels::default() });
    let section = moved_section(&section, None, is_moved, None).unwrap_or(section);
    let section = replaced_section(&section, found.payload_generation()).unwrap_or(section);
    let (codec, version, times, key, extension) = (0, 0, None, None, &*section);
    TaskRow { created, codec, version, times, group, key, extension, payload }.encode()
}

/// What is known of a task whose state's row is damaged.
fn unknown() -> TaskProgress {
    TaskProgress::fresh(NEVER, NEVER)
}

/// The state of a delayed task whose row is damaged, and the copy too. Its deadline stays: the rule
/// that meets it again finds no delayed task and removes it.
fn delayed(ctx: &OpContext<'_>, tube: &TubeEntry, group: Option<&str>) -> Result<TaskState> {
    let holds_group = match group {
        // If the stored count is higher than the tasks that can be counted, damaged delayed tasks
        // hold the group. Which ones of several is not known.
        Some(group) => {
            let counted = recount(ctx, tube)?.get(group).copied().unwrap_or_default();
            in_flight(ctx, tube, group)? > counted
        }
        None => false,
    };
    Ok(TaskState::Delayed(DelayedRow { progress: unknown(), due: NEVER, wall: false, holds_group }))
}

/// The named consumer that holds a task, or 0, by the index rows of the consumers' leases.
fn holder(ctx: &OpContext<'_>, tube: &TubeEntry, id: TaskId) -> Result<u32> {
    let mut rows = Scan::over(tube.range(Tag::OwnerLease));
    while let Some((met, _)) = rows.next(ctx)? {
        if key::id_of(&met) == Some(id) {
            let holder = met.get(key::RUN_PREFIX..).and_then(|rest| rest.first_chunk());
            return Ok(holder.map_or(0, |holder| u32::from_be_bytes(*holder)));
        }
    }
    Ok(0)
}

/// When a finished task ended, by its index row. Reads those of all finished tasks of the tube.
pub(crate) fn ended(ctx: &OpContext<'_>, tube: &TubeEntry, id: TaskId) -> Result<Option<u64>> {
    for tag in [Tag::DoneTime, Tag::HeldTime] {
        let mut rows = Scan::over(tube.range(tag));
        while let Some((met, _)) = rows.next(ctx)? {
            if key::id_of(&met) == Some(id) {
                return Ok(key::time_of(&met));
            }
        }
    }
    Ok(None)
}

/// Whether rows lead from the key of a finished task to it.
fn has_key_rows(
    ctx: &OpContext<'_>,
    tube: &TubeEntry,
    (home, id): (&Home, TaskId),
) -> Result<bool> {
    let own = ctx.row(&key::task(tube.run(), home, id))?.and_then(|(_, row)| row);
    let Some(text) = own.as_deref().and_then(TaskRow::decode).and_then(|row| row.key) else {
        return Ok(false);
    };
    let counts = tube.row.options.unique.done;
    Ok(ctx.row(&key::key(tube.run(), text, counts, id))?.is_some())
}

/// Counts the tasks of each group that are in flight. Reads every taken task of the tube.
fn recount(ctx: &OpContext<'_>, tube: &TubeEntry) -> Result<BTreeMap<String, u64>> {
    let delayed = tube.row.options.hold_group_while_delayed.then_some(Tag::Delayed);
    let mut groups = BTreeMap::new();
    for tag in [Tag::Taken].into_iter().chain(delayed) {
        let mut rows = Scan::over(tube.range(tag));
        while let Some((met, row)) = rows.next(ctx)? {
            let row = row.as_deref();
            let away = if tag == Tag::Taken {
                row.and_then(TakenRow::decode).map(|(away, _)| away)
            } else {
                // Whether a damaged delay holds the group is not known.
                let holding =
                    row.and_then(DelayedRow::decode).filter(|(_, (it, _))| it.holds_group);
                let Some((away, _)) = holding else { continue };
                Some(away)
            };
            let group = match (away, key::id_of(&met)) {
                (Some(away), _) => away.group.or(tube.plain_group()).map(str::to_owned),
                // A damaged lease counts too.
                (None, Some(id)) => known_group(ctx, tube, id)?.flatten(),
                (None, None) => None,
            };
            if let Some(group) = group {
                *groups.entry(group).or_default() += 1;
            }
        }
    }
    Ok(groups)
}

/// Counts again the bytes of the tasks that the tube keeps in a state.
fn repair_kept(ctx: &mut OpContext<'_>, tube: &TubeEntry, key: &Key) -> Result<()> {
    let state = key.last().and_then(|tag| Tag::of(*tag));
    let (Some(state), Some((_, row))) = (state, ctx.row(key)?) else { return Ok(()) };
    if row.as_deref().and_then(row::read_number).is_some() {
        return Ok(());
    }
    let (mut rows, mut bytes) = (Scan::over(tube.range(state)), 0_u64);
    while let Some((met, row)) = rows.next(ctx)? {
        let opened = row.map(|row| stored::open(ctx, tube, &met, &row));
        let Some(Ok((stored, task_state))) = opened else { continue };
        let Ok(task) = stored.task(tube) else { continue };
        let counted = retention::counted(&task, Some(&task_state));
        bytes = bytes.saturating_add(counted.map_or(0, |(_, bytes)| bytes));
    }
    ctx.change(key.clone(), row::number(bytes));
    Ok(())
}

/// Counts again how many tasks of a group are in flight, and repairs the group's head, which the
/// count decides.
fn repair_group(ctx: &mut OpContext<'_>, tube: &TubeEntry, group: &str, key: &Key) -> Result<()> {
    match ctx.row(key)? {
        Some((_, row)) if row.as_deref().and_then(row::read_number).is_none() => {}
        _ => return Ok(()),
    }
    let tasks = recount(ctx, tube)?.get(group).copied().unwrap_or_default();
    match tasks {
        0 => ctx.remove(key.clone()),
        tasks => ctx.change(key.clone(), row::number(tasks)),
    }
    let line = key::line_of(tube.run(), group);
    match ctx.first(&line, &key::end_of(&line))? {
        Some((first, _)) => {
            let is_open = tasks < tube.row.most_in_flight(group);
            set_head(ctx, tube, (group, is_open), &first)
        }
        None => Ok(()),
    }
}

/// Removes the heads that lead to no task, and gives a head to each group that should have one:
/// which group a damaged head belonged to is not known. Reads one row of each group of the tube.
fn repair_heads(ctx: &mut OpContext<'_>, tube: &TubeEntry) -> Result<()> {
    let mut rows = Scan::over(tube.range(Tag::OpenHead));
    while let Some((met, group)) = rows.next(ctx)? {
        if sound(at_head(ctx, tube, &met, group))?.flatten().is_none() {
            ctx.remove(met);
        }
    }
    let mut rows = Scan::over(tube.range(Tag::ClosedHead));
    while let Some((met, line)) = rows.next(ctx)? {
        // What a take meets closed goes there again.
        if !is_closed_head(ctx, tube, &met, line.as_ref())? {
            ctx.remove(met);
        }
    }
    let mut rows = Scan::over(tube.range(Tag::Line));
    while let Some((met, _)) = rows.next(ctx)? {
        let Some(group) = key::group_of(&met) else { continue };
        rows.skip_to(key::end_of(&key::line_of(tube.run(), group)));
        let is_open = in_flight(ctx, tube, group)? < tube.row.most_in_flight(group);
        set_head(ctx, tube, (group, is_open), &met)?;
    }
    Ok(())
}

/// Removes consumers whose rows are damaged, since their grace is not known. Then makes each name
/// lead to its consumer again.
fn repair_consumers(ctx: &mut OpContext<'_>) -> Result<()> {
    let mut rows = Scan::over(Range::of(Tag::Consumer));
    while let Some((met, row)) = rows.next(ctx)? {
        if row.as_deref().and_then(ConsumerRow::decode).is_none() {
            ctx.remove(met);
        }
    }
    let consumers = consumers::all(ctx)?.into_iter();
    let mut names: BTreeMap<Key, u32> =
        consumers.map(|(number, row)| (key::consumer_name(&row.name), number)).collect();
    let mut rows = Scan::over(Range::of(Tag::ConsumerName));
    while let Some((met, row)) = rows.next(ctx)? {
        let stored = row.as_deref().and_then(row::read_number);
        match names.remove(&met).map(u64::from) {
            Some(number) if stored == Some(number) => {}
            Some(number) => ctx.change(met, row::number(number)),
            None => ctx.remove(met),
        }
    }
    for (name, number) in names {
        ctx.add(name, row::number(u64::from(number)));
    }
    Ok(())
}
