//! The work on the edges of tasks that have ended, in bounded steps, also after a crash: those that
//! come after one are told of its end, and its edges to those that it came after are removed.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::dependencies::{EdgeTask, Fate, count, fate};
use crate::engine::effects::EdgeWork;
use crate::engine::stored::TaskState;
use crate::engine::{edges, lookup, transition};
use crate::format::key::{self, Direction, Key, Run, Work};
use crate::format::row::{CascadeRow, EdgeRow, LinkingRow, TaskEnds, task_of_work};
use crate::format::{Scan, Tag, Value, View};
use crate::words::error::{ErrorKind, Result};
use crate::words::limits::EDGES_OF_STEP;
use crate::words::task::{Cause, State, TaskId};

/// One step of the work of one kind: it goes from row to row until it has worked off as many edges
/// as one step may. A row that cannot be worked off stays, and the others go on.
pub(crate) struct FollowEnds<'a> {
    /// [`Work::Cascade`], which waits for room on a full disk, or [`Work::Unlink`], which only
    /// removes.
    pub(crate) kind: Work,
    /// The keys of the work of this kind that a call has begun. `None` is all such work.
    pub(crate) of: Option<&'a [Key]>,
}

/// What a step has done.
#[derive(Default)]
pub(crate) struct Followed {
    /// How many of the given rows need no further step of the call.
    pub(crate) passed: usize,
    /// Whether anything was done, so that there may be more.
    pub(crate) is_any: bool,
    /// The work that this step has begun.
    pub(crate) began: Option<Box<EdgeWork>>,
}

impl Op for FollowEnds<'_> {
    type Done = Followed;

    const FOLLOWS_ENDS: bool = false;

    fn grows(&self) -> bool {
        self.kind == Work::Cascade
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Followed> {
        let mut step = Followed::default();
        if ctx.is_full() && self.grows() {
            return Ok(step);
        }
        let (mut rows, mut left) = (Scan::prefixed(key::work_of(self.kind)), EDGES_OF_STEP);
        for turn in 0..EDGES_OF_STEP {
            if left == 0 || turn > 0 && ctx.is_sweep_long() {
                break;
            }
            let met = match self.of.map(|of| of.get(turn)) {
                None => rows.next(ctx)?,
                Some(Some(at)) => match ctx.row(at)? {
                    // Other calls have worked it off.
                    None => {
                        step.passed += 1;
                        continue;
                    }
                    met => met,
                },
                Some(None) => None,
            };
            let Some((at, row)) = met else { break };
            step.is_any = true;
            let is_done = match (key::run_of_work(&at), task_of_work(&at)) {
                (Some(run), Some(id)) if self.kind == Work::Cascade => {
                    cascade(ctx, at, (run, id), row, &mut left)?
                }
                (Some(run), Some(id)) => unlink(ctx, at, (run, id), &mut left)?,
                _ => {
                    ctx.remove(at);
                    true
                }
            };
            if !is_done {
                break;
            }
            step.passed += 1;
        }
        step.began = ctx.effects().edges.take();
        Ok(step)
    }
}

/// Works off in the step itself what it has begun for the ends of tasks, as far as one step may:
/// most tasks have few after them. What is left is its caller's. Returns whether the rows may have
/// more bytes for that.
///
/// # Errors
/// What [`FollowEnds`] ends with. Then a part of it may be decided.
pub(crate) fn follow_at_once(ctx: &mut OpContext<'_>) -> Result<bool> {
    let Some(begun) = ctx.effects().edges.take() else { return Ok(false) };
    let (mut left, mut grows) = (EdgeWork::default(), false);
    for kind in [Work::Unlink, Work::Cascade] {
        let of_kind = begun.rows.iter().filter(|(of, _)| *of == kind);
        let rows: Vec<Key> = of_kind.map(|(_, at)| key::copy(at)).collect();
        let of = FollowEnds { kind, of: Some(&rows) };
        let step = of.decide(ctx)?;
        grows |= of.grows() && step.is_any;
        left.rows.extend(rows.into_iter().skip(step.passed).map(|at| (kind, at)));
        left.rows.extend(step.began.into_iter().flat_map(|began| began.rows));
    }
    ctx.effects().edges = (!left.rows.is_empty()).then(|| Box::new(left));
    Ok(grows)
}

/// Decides the part of a step that concerns one edge; `None` if rows of a task are damaged, and
/// their repair did not help. Then nothing of the part is written, and the step goes on without it.
fn part<T>(
    ctx: &mut OpContext<'_>,
    decide: impl FnOnce(&mut OpContext<'_>) -> Result<T>,
) -> Result<Option<T>> {
    match ctx.attempt(decide) {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) if error.kind() == ErrorKind::Damaged => {
            let is_left = error.row().is_none_or(|row| ctx.repaired.contains(row));
            if is_left { Ok(None) } else { Err(error) }
        }
        done => done.map(Some),
    }
}

/// The task of this id in this tube. One that may wait for others is looked for among those that do
/// first. A damaged one is repaired first; `Err(())` if that did
/// not help.
fn find<'a>(
    ctx: &OpContext<'a>,
    (number, id): (u32, TaskId),
    waits: bool,
) -> Result<Option<Result<EdgeTask<'a>, ()>>> {
    let tube = match ctx.tube(number) {
        Err(error) if error.is_not_found() => return Ok(None),
        tube => match sound(tube)? {
            Some(tube) => tube,
            None => return Ok(Some(Err(()))),
        },
    };
    let blocked = if waits { lookup::find_blocked(ctx, &tube, id) } else { Ok(None) };
    let found = blocked.transpose().unwrap_or_else(|| lookup::find(ctx, &tube, id));
    let found = match found {
        Err(error) if error.is_not_found() => return Ok(None),
        found => found.and_then(|(stored, state)| {
            stored.task(&tube)?;
            Ok((stored, state))
        }),
    };
    let at = || key::blocked(tube.run(), id);
    let found = ctx.or_repair(&tube, at, found)?;
    Ok(Some(found.map(|(stored, state)| (tube, stored, state)).ok_or(())))
}

/// Whether this tube keeps a task which is done. One that is done is in no other state again: a put
/// again makes a new one.
fn keeps_done(ctx: &OpContext<'_>, (number, id): (u32, TaskId)) -> Result<bool> {
    let tube = match ctx.tube(number) {
        // It was dropped.
        Err(error) if error.is_not_found() => None,
        tube => sound(tube)?,
    };
    let Some(tube) = tube else { return Ok(false) };
    Ok(ctx.count(tube.range(Tag::Done)) > 0 && ctx.row(&key::done(tube.run(), id))?.is_some())
}

/// The tube that keeps a task which has ended, and its state.
fn kept(
    ctx: &OpContext<'_>,
    work: Option<&CascadeRow>,
    id: TaskId,
) -> Result<Option<(u32, State)>> {
    let number = edges::tube_of(ctx, work.map_or(0, |work| work.tube), id)?;
    Ok(match work {
        Some(work) if work.ended == TaskEnds { done: true, ..TaskEnds::default() } => {
            keeps_done(ctx, (number, id))?.then_some((number, State::Done))
        }
        _ => match find(ctx, (number, id), false)? {
            Some(Ok((tube, _, state))) => Some((tube.number, state.state())),
            Some(Err(())) | None => None,
        },
    })
}

/// Reports to tasks the end of one that they come after. Returns whether to all.
fn cascade(
    ctx: &mut OpContext<'_>,
    at: Key,
    (run, id): (Run, TaskId),
    row: Option<Value>,
    left: &mut usize,
) -> Result<bool> {
    let work = row.as_deref().and_then(CascadeRow::decode);
    let there = kept(ctx, work.as_ref(), id)?;
    // What a damaged row does not say, the task does.
    let lost = TaskEnds {
        done: there.is_some_and(|(_, state)| state == State::Done),
        buried: there.is_some_and(|(_, state)| state == State::Buried),
        gone: there.is_none(),
    };
    let is_guess = work.is_none();
    let lost = CascadeRow { ended: lost, buried_to: u64::MAX, ..CascadeRow::default() };
    let work = work.unwrap_or(lost);
    let mut rows = Scan::prefixed(key::edges_in(Direction::Dependent, run, id, false));
    rows.skip_to(key::edge(Direction::Dependent, run, (id, TaskId::new(work.from)), false));
    let (mut looked, mut met, mut gone) = (0, 0, 0);
    let next = loop {
        let Some((edge_at, row)) = rows.next(ctx)? else { break None };
        let Some(later) = key::id_of(&edge_at) else { continue };
        if *left == 0 || looked > 0 && ctx.is_sweep_long() {
            break Some(later);
        }
        (*left, looked) = (*left - 1, looked + 1);
        let of = (Direction::Dependent, run);
        // Of one that cannot be read nothing is known: it stays for its repair.
        let Some(edge) = edges::read(ctx, of, (id, later), false, row.as_ref())? else { continue };
        let edge = EdgeRow { tube: edges::tube_of(ctx, edge.tube, later)?, ..edge };
        if edge.tube == 0 {
            continue;
        }
        let ended = work.ended_for(later);
        if ended == TaskEnds::default() {
            continue;
        }
        let outcome = part(ctx, |ctx| match fate(&edge, ended) {
            Fate::Stays => Ok(EdgeOutcome::Later),
            // Whether it has succeeded is not known: no task is removed for that.
            Fate::Cancelled if is_guess => Ok(EdgeOutcome::Later),
            Fate::Met => meet(ctx, (run, id), (later, &edge), there.is_some()),
            Fate::Cancelled => cancel(ctx, (run, id), (later, &edge)),
        });
        match outcome? {
            Some(EdgeOutcome::Met) => met += 1,
            Some(EdgeOutcome::Gone) => gone += 1,
            // Of one that cannot be read: it stays for its repair.
            Some(EdgeOutcome::Later) | None => {}
        }
    };
    if let Some((number, _)) = there
        && (met > 0 || gone > 0)
    {
        part(ctx, |ctx| count(ctx, (number, id), (-met - gone, met)))?;
    }
    match next {
        Some(later) => ctx.change(at, CascadeRow { from: later.get(), ..work }.encode()),
        None => ctx.remove(at),
    }
    Ok(next.is_none())
}

/// What became of an open edge.
enum EdgeOutcome {
    /// It is met, and stays for the later task.
    Met,
    /// It is removed.
    Gone,
    /// It is open, and other work removes it.
    Later,
}

/// Lets the later task wait for the earlier one no more. `is_kept` says whether the earlier one is
/// there.
fn meet(
    ctx: &mut OpContext<'_>,
    (run, id): (Run, TaskId),
    (later, edge): (TaskId, &EdgeRow),
    is_kept: bool,
) -> Result<EdgeOutcome> {
    let found = match find(ctx, (edge.tube, later), true)? {
        // It cannot be read: the edge stays for its repair.
        Some(Err(())) => return Ok(EdgeOutcome::Later),
        Some(Ok(found)) => Some(found),
        None => None,
    };
    let (tube, stored, from) = match found {
        Some(found) => found,
        None => return meet_linking(ctx, (run, id), (later, edge), is_kept),
    };
    let mut to = from.clone();
    let progress = to.progress_mut();
    let mut counts = progress.edges(Direction::Dependency);
    // It is done, and other work removes its edges.
    if counts.open == 0 {
        return Ok(EdgeOutcome::Later);
    }
    counts.open -= 1;
    counts.met += u32::from(is_kept);
    edges::say(progress, Direction::Dependency, counts)?;
    let task = stored.task(&tube)?;
    match &to {
        TaskState::Blocked(row) if counts.open == 0 => {
            let to = TaskState::released(row, ctx.now);
            transition::move_task(ctx, &task, &from, &to, Cause::Unblock)?;
        }
        to => transition::restate(ctx, &task, &from, to)?,
    }
    move_edge(ctx, (run, id), (later, edge, tube.number), is_kept)
}

/// The same of a task whose put is writing its edges.
fn meet_linking(
    ctx: &mut OpContext<'_>,
    (run, id): (Run, TaskId),
    (later, edge): (TaskId, &EdgeRow),
    is_kept: bool,
) -> Result<EdgeOutcome> {
    let at = key::work(Work::Linking, edges::scope(run), later);
    let work = ctx.row(&at)?.and_then(|(_, row)| row);
    let Some(mut work) = work.as_deref().and_then(LinkingRow::decode) else {
        // It is gone, and other work may have more to remove.
        return remove_edge(ctx, (run, id), later);
    };
    work.counts.open = work.counts.open.saturating_sub(1);
    work.counts.met += u32::from(is_kept);
    ctx.change(at, work.encode());
    move_edge(ctx, (run, id), (later, edge, edge.tube), is_kept)
}

/// An edge that was open is met: it stays if the earlier task is there.
fn move_edge(
    ctx: &mut OpContext<'_>,
    (run, id): (Run, TaskId),
    (later, edge, number): (TaskId, &EdgeRow, u32),
    is_kept: bool,
) -> Result<EdgeOutcome> {
    if !is_kept {
        return remove_edge(ctx, (run, id), later);
    }
    let back = key::edge(Direction::Dependency, run, (later, id), false);
    let back = ctx.row(&back)?.and_then(|(_, row)| row);
    let tube = back.as_deref().and_then(EdgeRow::decode).map_or(0, |back| back.tube);
    remove_edge(ctx, (run, id), later)?;
    let row = EdgeRow { tube: number, ..*edge };
    ctx.set(key::edge(Direction::Dependent, run, (id, later), true), row.encode())?;
    let row = EdgeRow { tube, ..*edge };
    ctx.set(key::edge(Direction::Dependency, run, (later, id), true), row.encode())?;
    Ok(EdgeOutcome::Met)
}

/// Removes both rows of an open edge.
fn remove_edge(
    ctx: &mut OpContext<'_>,
    (run, id): (Run, TaskId),
    later: TaskId,
) -> Result<EdgeOutcome> {
    for at in [
        key::edge(Direction::Dependent, run, (id, later), false),
        key::edge(Direction::Dependency, run, (later, id), false),
    ] {
        if ctx.row(&at)?.is_some() {
            ctx.remove(at);
        }
    }
    Ok(EdgeOutcome::Gone)
}

/// Removes the later task. Work on its own edges removes the edge.
fn cancel(
    ctx: &mut OpContext<'_>,
    (run, id): (Run, TaskId),
    (later, edge): (TaskId, &EdgeRow),
) -> Result<EdgeOutcome> {
    match find(ctx, (edge.tube, later), true)? {
        Some(Err(())) => return Ok(EdgeOutcome::Later),
        Some(Ok((tube, stored, from))) => {
            // One that is done has gone on without it.
            if from.state() != State::Done {
                let whole = stored.whole(ctx, &tube).and_then(|stored| {
                    stored.task(&tube)?;
                    Ok(stored)
                });
                let at = || key::blocked(tube.run(), later);
                let Some(stored) = ctx.or_repair(&tube, at, whole)? else {
                    return Ok(EdgeOutcome::Later);
                };
                transition::erase(ctx, &stored.task(&tube)?, &from, Cause::Cancel)?;
            }
        }
        None => {
            let at = key::work(Work::Linking, edges::scope(run), later);
            let work = ctx.row(&at)?.and_then(|(_, row)| row);
            let Some(work) = work.as_deref().and_then(LinkingRow::decode) else {
                return remove_edge(ctx, (run, id), later);
            };
            ctx.change(at, LinkingRow { is_cancelled: true, ..work }.encode());
        }
    }
    Ok(EdgeOutcome::Later)
}

/// Removes edges of a task to those that it came after. Returns whether all.
fn unlink(
    ctx: &mut OpContext<'_>,
    at: Key,
    (run, id): (Run, TaskId),
    left: &mut usize,
) -> Result<bool> {
    let (mut rows, mut looked) = (Scan::prefixed(key::edges_of(Direction::Dependency, run, id)), 0);
    while let Some((met_at, row)) = rows.next(ctx)? {
        if *left == 0 || looked > 0 && ctx.is_sweep_long() {
            return Ok(false);
        }
        (*left, looked) = (*left - 1, looked + 1);
        let Some(((_, earlier), is_met)) = key::of_edge(&met_at) else {
            ctx.remove(met_at);
            continue;
        };
        let of = (Direction::Dependency, run);
        let edge = edges::read(ctx, of, (id, earlier), is_met, row.as_ref())?;
        let number = edges::tube_of(ctx, edge.map_or(0, |edge| edge.tube), earlier)?;
        ctx.remove(met_at);
        let back = key::edge(Direction::Dependent, run, (earlier, id), is_met);
        if ctx.row(&back)?.is_some() {
            ctx.remove(back);
            let fewer = if is_met { (0, -1) } else { (-1, 0) };
            // One that cannot be read is counted again by its repair.
            part(ctx, |ctx| count(ctx, (number, earlier), fewer))?;
        }
    }
    // A row without an edge is a part of the step, too.
    *left = left.saturating_sub(usize::from(looked == 0));
    ctx.remove(at);
    Ok(true)
}
