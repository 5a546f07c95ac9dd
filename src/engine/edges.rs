//! The edges between tasks, of which one comes after the other. Every way in which a task ends
//! comes through here: it writes work for those that come after it, and for its own edges. A task
//! without edges has no byte of it, and nothing is asked. What an end means to an edge is not
//! decided here.

use crate::engine::context::{OpContext, sound};
use crate::engine::query;
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::format::feature::DEPENDENCIES;
use crate::format::key::{self, Direction, Run, Work};
use crate::format::row::{CascadeRow, EdgeCounts, EdgeRow, TaskEnds, TaskProgress};
use crate::format::{Range, Scan, Tag, Value, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::explain::WhyNot;
use crate::words::limits::{LINKS_SHOWN, PAGE_TASKS};
use crate::words::task::{Cause, LinkedTasks, State, TaskId};

/// Under which run the edges of a task stand: those of durable and those of temporary tubes.
pub(crate) fn scope(run: Run) -> Run {
    let [durable, temporary] = Run::BOTH;
    if run.is_temporary() { temporary } else { durable }
}

/// Says in the state of a task how many edges it has.
///
/// # Errors
/// `Unsupported` if fields of later versions leave no room.
pub(crate) fn say(
    progress: &mut TaskProgress,
    direction: Direction,
    counts: EdgeCounts,
) -> Result<()> {
    if progress.set_edges(direction, counts) {
        return Ok(());
    }
    let text = "fields of a later version leave no room for dependencies";
    Err(Error::new(ErrorKind::Unsupported).because(text))
}

/// A task that was kept or set aside: those that come after it are told so.
#[cold]
pub(crate) fn end(ctx: &mut OpContext<'_>, task: &TaskRef<'_>, to: &TaskState) -> Result<()> {
    if to.progress().edges(Direction::Dependent).open == 0 {
        return Ok(());
    }
    let ended = match to {
        TaskState::Done(_) => TaskEnds { done: true, ..TaskEnds::default() },
        _ => TaskEnds { buried: true, ..TaskEnds::default() },
    };
    begin_cascade(ctx, (task.tube.run(), task.id), task.tube.number, ended)
}

/// The same of one that is removed, and its own edges go.
#[cold]
pub(crate) fn erase(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    from: &TaskState,
    cause: Cause,
) -> Result<()> {
    let run = task.tube.run();
    // Those that come after one that is done know of its success, or will by the work on it.
    let is_done = matches!(from, TaskState::Done(_));
    if !is_done && from.progress().edges(Direction::Dependent).open > 0 {
        let done = cause == Cause::Ack;
        let ended = TaskEnds { done, gone: !done, ..TaskEnds::default() };
        begin_cascade(ctx, (run, task.id), task.tube.number, ended)?;
    }
    if !from.progress().edges(Direction::Dependency).is_empty() {
        begin_unlink(ctx, (run, task.id))?;
    }
    Ok(())
}

/// The edges of a task to those that it came after go, because it is finished, and it says so.
pub(crate) fn leave(
    ctx: &mut OpContext<'_>,
    task: &TaskRef<'_>,
    progress: &mut TaskProgress,
) -> Result<()> {
    if progress.extension.is_empty() || progress.edges(Direction::Dependency).is_empty() {
        return Ok(());
    }
    say(progress, Direction::Dependency, EdgeCounts::default())?;
    begin_unlink(ctx, (task.tube.run(), task.id))
}

/// Begins the cascade of an end, or begins it again.
pub(crate) fn begin_cascade(
    ctx: &mut OpContext<'_>,
    (run, id): (Run, TaskId),
    tube: u32,
    ended: TaskEnds,
) -> Result<()> {
    let at = key::work(Work::Cascade, scope(run), id);
    let before = ctx.row(&at)?.and_then(|(_, row)| row);
    let before = before.as_deref().and_then(CascadeRow::decode).unwrap_or_default();
    // A new bury concerns all that come after it.
    let (buried_to, spared) = match ended.buried {
        true => (ctx.next_id(), Vec::new()),
        false => (before.buried_to, before.spared),
    };
    let before = before.ended;
    let ended = TaskEnds {
        done: ended.done || before.done,
        buried: ended.buried || before.buried,
        gone: ended.gone || before.gone,
    };
    let work = CascadeRow { ended, tube, from: 0, buried_to, spared };
    set_work(ctx, Work::Cascade, (at, work.encode()))
}

/// A task comes after another one by an open edge from now on: what is left to do about an earlier
/// bury of that does not concern it.
///
/// # Errors
/// `WrongState` if the work is about as many such tasks already as it can be.
pub(crate) fn spare(
    ctx: &mut OpContext<'_>,
    run: Run,
    (earlier, later): (TaskId, TaskId),
) -> Result<()> {
    if ctx.count(Range::of(Tag::Work)) == 0 {
        return Ok(());
    }
    let at = key::work(Work::Cascade, scope(run), earlier);
    let work = ctx.row(&at)?.and_then(|(_, row)| row);
    let Some(work) = work.as_deref().and_then(CascadeRow::decode) else { return Ok(()) };
    if !work.ended_for(later).buried {
        return Ok(());
    }
    let Some(work) = work.spare(later) else {
        let text = format!("what follows from the bury of task {earlier} is not done; try again");
        return Err(Error::new(ErrorKind::WrongState).because(text).on_task(later));
    };
    ctx.change(at, work.encode());
    Ok(())
}

/// Begins the removal of the edges of a task to those that it came after.
pub(crate) fn begin_unlink(ctx: &mut OpContext<'_>, (run, id): (Run, TaskId)) -> Result<()> {
    let at = key::work(Work::Unlink, scope(run), id);
    set_work(ctx, Work::Unlink, (at, Value::EMPTY))
}

fn set_work(ctx: &mut OpContext<'_>, kind: Work, (at, work): (key::Key, Value)) -> Result<()> {
    ctx.needs(&DEPENDENCIES);
    ctx.effects().begin_edge_work(kind, key::copy(&at));
    ctx.set(at, work)
}

/// The same for a task whose own row a sweep removes. Returns the number of rows, or more.
pub(crate) fn clear(ctx: &mut OpContext<'_>, run: Run, id: TaskId) -> Result<usize> {
    let mut rows = 0;
    for direction in Direction::BOTH {
        let prefix = key::edges_of(direction, run, id);
        if ctx.count(Range::of(direction.tag(run))) == 0
            || ctx.first(&prefix, &key::end_of(&prefix))?.is_none()
        {
            continue;
        }
        rows += 2;
        match direction {
            Direction::Dependent => {
                let at = key::work(Work::Cascade, scope(run), id);
                let work = ctx.row(&at)?.and_then(|(_, row)| row);
                let ended = work.as_deref().and_then(CascadeRow::decode).map(|work| work.ended);
                // Of one that was done, those that come after it know of its success.
                let was_done = match ended {
                    Some(ended) => ended.done,
                    None => is_done(ctx, run, id)?,
                };
                if !was_done {
                    let gone = TaskEnds { gone: true, ..TaskEnds::default() };
                    begin_cascade(ctx, (run, id), 0, gone)?;
                }
            }
            Direction::Dependency => begin_unlink(ctx, (run, id))?,
        }
    }
    Ok(rows)
}

/// Whether the row of a run that is cleared says that the task was done.
fn is_done(ctx: &OpContext<'_>, run: Run, id: TaskId) -> Result<bool> {
    Ok(ctx.count(Range::in_run(Tag::Done, run)) > 0 && ctx.row(&key::done(run, id))?.is_some())
}

/// An edge by one of its rows. What a damaged row says, its other row says too, except for the tube
/// of the task that it leads to.
pub(crate) fn read(
    view: &dyn View,
    (direction, run): (Direction, Run),
    (from, to): (TaskId, TaskId),
    is_met: bool,
    row: Option<&Value>,
) -> Result<Option<EdgeRow>> {
    if let Some(edge) = row.and_then(|row| EdgeRow::decode(row)) {
        return Ok(Some(edge));
    }
    let twin = key::edge(direction.other(), run, (to, from), is_met);
    let twin = sound(view.get(&twin))?.flatten();
    let edge = twin.and_then(|row| EdgeRow::decode(&row));
    Ok(edge.map(|edge| EdgeRow { tube: 0, ..edge }))
}

/// The number of the tube that has a task, by the row that leads to it or by an edge.
pub(crate) fn tube_of(view: &dyn View, edge: u32, id: TaskId) -> Result<u32> {
    Ok(query::moved_to(view, id)?.unwrap_or(edge))
}

/// The tasks to which open edges of a task lead: how many, and the first.
pub(crate) fn linked(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    (progress, direction): (&TaskProgress, Direction),
) -> Result<LinkedTasks> {
    if progress.extension.is_empty() {
        return Ok(LinkedTasks::default());
    }
    let open = progress.edges(direction).open;
    let mut linked = LinkedTasks { count: u64::from(open), first: Vec::new() };
    if open > 0 {
        let mut rows = Scan::prefixed(key::edges_in(direction, tube.run(), id, false));
        while linked.first.len() < LINKS_SHOWN
            && let Some((met, _)) = rows.next(view)?
        {
            linked.first.extend(key::id_of(&met));
        }
    }
    Ok(linked)
}

/// Why a blocked task waits.
pub(crate) fn waits_for(
    view: &dyn View,
    tube: &TubeEntry,
    id: TaskId,
    tasks: u64,
) -> Result<Option<WhyNot>> {
    let open = key::edges_in(Direction::Dependency, tube.run(), id, false);
    let Some((met, row)) = view.first(&open, &key::end_of(&open))? else { return Ok(None) };
    let Some(first) = key::id_of(&met) else { return Ok(None) };
    let work = key::work(Work::Cascade, scope(tube.run()), first);
    let is_ending = view.row(&work)?.is_some();
    let of = (Direction::Dependency, tube.run());
    let edge = read(view, of, (id, first), false, row.as_ref())?;
    let number = tube_of(view, edge.map_or(0, |edge| edge.tube), first)?;
    let state = match query::sound_tube(view, number) {
        Err(error) if error.is_not_found() => None,
        tube => match tube? {
            Some(tube) => query::state(view, &tube, first)?,
            None => None,
        },
    };
    // One that went with its tube is found by the sweep that removes its rows.
    let clears = key::work_of(Work::Clear);
    let is_ending =
        is_ending || state.is_none() && view.first(&clears, &key::end_of(&clears))?.is_some();
    let has_ended = state.is_none_or(State::is_end);
    Ok(Some(WhyNot::WaitsFor { tasks, first, has_ended, is_ending }))
}

/// Says in a state whose row was damaged how many edges the task has. Reads all of them. Those that
/// work removes are not its own any more.
pub(crate) fn recover(
    view: &dyn View,
    run: Run,
    id: TaskId,
    progress: &mut TaskProgress,
) -> Result<()> {
    for direction in Direction::BOTH {
        let unlinks = direction == Direction::Dependency
            && view.count(Range::of(Tag::Work)) > 0
            && view.row(&key::work(Work::Unlink, scope(run), id))?.is_some();
        let counts = match unlinks {
            true => EdgeCounts::default(),
            false => counted(view, (direction, run), id)?,
        };
        let _fits = progress.set_edges(direction, counts);
    }
    Ok(())
}

/// The same of a state that says of none, as one does that is not known. Whether a task that is
/// done is kept for others decides its index rows: what it was before its repair says it, too.
pub(crate) fn recover_unknown(
    view: &dyn View,
    run: Run,
    id: TaskId,
    progress: &mut TaskProgress,
) -> Result<()> {
    match Direction::BOTH.iter().all(|direction| progress.edges(*direction).is_empty()) {
        true => recover(view, run, id, progress),
        false => Ok(()),
    }
}

/// How many edges a task has, by their rows.
pub(crate) fn counted(
    view: &dyn View,
    (direction, run): (Direction, Run),
    id: TaskId,
) -> Result<EdgeCounts> {
    let mut counts = EdgeCounts::default();
    if view.count(Range::of(direction.tag(run))) == 0 {
        return Ok(counts);
    }
    let mut rows = Scan::prefixed(key::edges_of(direction, run, id));
    while let Some((met, _)) = rows.next(view)? {
        match key::of_edge(&met) {
            Some((_, true)) => counts.met = counts.met.saturating_add(1),
            Some((_, false)) => counts.open = counts.open.saturating_add(1),
            None => {}
        }
    }
    Ok(counts)
}

/// The tasks to which some of these edges lead, and the key to continue with.
pub(crate) fn page(
    view: &dyn View,
    (from, end): (&key::Key, &key::Key),
) -> Result<(Vec<TaskId>, Option<key::Key>)> {
    let (mut rows, mut found) = (Scan::between(key::copy(from), key::copy(end)), Vec::new());
    while let Some((met, _)) = rows.next(view)? {
        found.extend(key::id_of(&met));
        if found.len() >= PAGE_TASKS {
            return Ok((found, Some(key::after(&met))));
        }
    }
    Ok((found, None))
}
