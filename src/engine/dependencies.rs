//! The tasks that a new task comes after, and one that is put again: which of them it waits for,
//! and the edges to them.

use crate::engine::context::{OpContext, sound};
use crate::engine::stored::{StoredTask, TaskState};
use crate::engine::tube_cache::{TubeEntry, TubeRef};
use crate::engine::{edges, lookup, query, transition};
use crate::format::feature::DEPENDENCIES;
use crate::format::key::{self, Direction};
use crate::format::row::{EdgeCounts, EdgeRow, TaskEnds};
use crate::format::{Scan, Tag, View};
use crate::words::dependency::{After, Missing, On, Orphaned};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::EDGES_OF_OP;
use crate::words::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// Where the tasks were found that others come after.
#[derive(Clone, Debug)]
pub(crate) struct FoundTasks {
    /// The first id that had not been given before the search.
    pub(crate) next: u64,
    /// The tube of each that was found.
    pub(crate) tubes: BTreeMap<TaskId, u32>,
    /// After how many one step puts a task. A transaction has one step, and holds the engine's lock
    /// in any case.
    pub(crate) most: usize,
}

impl FoundTasks {
    pub(crate) const NONE: &'static Self = &Self::before(0);

    /// None of those with smaller ids than this yet.
    pub(crate) const fn before(next: u64) -> Self {
        Self { next, tubes: BTreeMap::new(), most: EDGES_OF_OP }
    }
}

/// What an end of the earlier task does to an edge. The only place that decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The later task goes on waiting.
    Stays,
    /// It waits for the earlier one no more.
    Met,
    /// It is removed.
    Cancelled,
}

/// The fate of an edge by how its earlier task has ended. A task that has ended more than once was
/// buried first.
pub(crate) fn fate(edge: &EdgeRow, ended: TaskEnds) -> Fate {
    let by_policy = match edge.orphaned {
        Orphaned::Hold => Fate::Stays,
        Orphaned::Cancel => Fate::Cancelled,
        Orphaned::Ignore => Fate::Met,
    };
    match edge.on {
        On::AnyEnd => Fate::Met,
        On::Failure if ended.buried => Fate::Met,
        On::Failure => by_policy,
        On::Success if ended.buried && by_policy != Fate::Stays => by_policy,
        On::Success if ended.done => Fate::Met,
        On::Success => by_policy,
    }
}

/// A task to which an edge leads, as it was found.
pub(crate) type EdgeTask<'a> = (TubeRef<'a>, StoredTask, TaskState);

/// An edge that is to be written.
struct NewEdge<'a> {
    id: TaskId,
    row: EdgeRow,
    is_met: bool,
    /// The earlier task, if it is there.
    there: Option<EdgeTask<'a>>,
}

/// The edges of a new task, which are written with it.
pub(crate) struct NewEdges<'a> {
    edges: Vec<NewEdge<'a>>,
    /// Whether by one of them it is removed at once.
    pub(crate) is_cancelled: bool,
}

impl<'a> NewEdges<'a> {
    /// Looks at the tasks that a task of the tube comes after, as they are now.
    ///
    /// # Errors
    /// `TaskNotFound` for an id that was never given; `Cycle` for the task itself; `Unsupported`
    /// between a temporary and a durable tube; `Damaged`.
    pub(crate) fn of(
        ctx: &OpContext<'a>,
        (tube, id): (&TubeEntry, TaskId),
        after: &After,
        found: &FoundTasks,
    ) -> Result<Self> {
        let tasks: BTreeMap<TaskId, On> = after.tasks.iter().copied().collect();
        if tasks.len() > found.most {
            let text = format!("one step puts a task after at most {} others", found.most);
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        let mut new = Self { edges: Vec::with_capacity(tasks.len()), is_cancelled: false };
        for (earlier, on) in tasks {
            if earlier == id {
                return Err(Error::new(ErrorKind::Cycle).on_task(id));
            }
            if earlier.get() == 0 || earlier.get() >= found.next {
                match after.missing.unwrap_or_default() {
                    Missing::Ignore => continue,
                    Missing::Refuse => {
                        let text = format!("it is put after task {earlier}, an id never given");
                        let error = Error::new(ErrorKind::TaskNotFound);
                        return Err(error.because(text).on_task(earlier));
                    }
                }
            }
            let there = locate(ctx, earlier, found)?;
            let ended = match &there {
                Some((other, _, state)) => {
                    if other.run().is_temporary() != tube.run().is_temporary() {
                        let text = format!(
                            "after task {earlier}: one of both is in a temporary tube, and the \
                             other one is not"
                        );
                        return Err(Error::new(ErrorKind::Unsupported).because(text));
                    }
                    match state {
                        TaskState::Done(_) => TaskEnds { done: true, ..TaskEnds::default() },
                        TaskState::Buried(_) | TaskState::Trashed(_) => {
                            TaskEnds { buried: true, ..TaskEnds::default() }
                        }
                        _ => TaskEnds::default(),
                    }
                }
                // What is gone counts as done.
                None => TaskEnds { done: true, ..TaskEnds::default() },
            };
            let number = there.as_ref().map_or(0, |(tube, ..)| tube.number);
            let orphaned = after.orphaned.unwrap_or_default();
            let row = EdgeRow { on, orphaned, tube: number };
            let fate = match ended == TaskEnds::default() {
                true => Fate::Stays,
                false => fate(&row, ended),
            };
            let is_met = fate == Fate::Met;
            match fate {
                Fate::Cancelled => new.is_cancelled = true,
                Fate::Met if there.is_none() => {}
                Fate::Met | Fate::Stays => {
                    new.edges.push(NewEdge { id: earlier, row, is_met, there });
                }
            }
        }
        Ok(new)
    }

    /// The tasks to which they lead.
    pub(crate) fn earlier(&self) -> impl Iterator<Item = TaskId> {
        self.edges.iter().map(|edge| edge.id)
    }

    /// How many there are.
    pub(crate) fn counts(&self) -> EdgeCounts {
        let met = self.edges.iter().filter(|edge| edge.is_met).count() as u32;
        EdgeCounts { open: self.edges.len() as u32 - met, met }
    }

    /// Each earlier task, and whether the edge to it is met.
    pub(crate) fn keys(&self) -> BTreeSet<(TaskId, bool)> {
        self.edges.iter().map(|edge| (edge.id, edge.is_met)).collect()
    }

    /// Writes them, and that there are more edges to the earlier tasks. Nothing was written since
    /// these were found.
    pub(crate) fn write(&self, ctx: &mut OpContext<'_>, of: (&TubeEntry, TaskId)) -> Result<()> {
        for edge in &self.edges {
            edge.write(ctx, of)?;
            if let Some(there) = &edge.there {
                count_found(ctx, there, edge.one_more())?;
            }
        }
        Ok(())
    }

    /// The same, after other writes, if those are there already, perhaps with other terms.
    pub(crate) fn write_over(
        &self,
        ctx: &mut OpContext<'_>,
        of: (&TubeEntry, TaskId),
        before: &BTreeSet<(TaskId, bool)>,
    ) -> Result<()> {
        for edge in &self.edges {
            edge.write(ctx, of)?;
            if edge.there.is_some() && !before.contains(&(edge.id, edge.is_met)) {
                count(ctx, (edge.row.tube, edge.id), edge.one_more())?;
            }
        }
        Ok(())
    }
}

impl NewEdge<'_> {
    /// Writes both of its rows.
    fn write(&self, ctx: &mut OpContext<'_>, (tube, id): (&TubeEntry, TaskId)) -> Result<()> {
        ctx.needs(&DEPENDENCIES);
        let run = tube.run();
        if !self.is_met {
            edges::spare(ctx, run, (self.id, id))?;
        }
        let back = EdgeRow { tube: tube.number, ..self.row };
        let dependency = key::edge(Direction::Dependency, run, (id, self.id), self.is_met);
        let dependent = key::edge(Direction::Dependent, run, (self.id, id), self.is_met);
        ctx.set(dependency, self.row.encode())?;
        ctx.set(dependent, back.encode())
    }

    /// By how many open and met edges the earlier task has more with it.
    fn one_more(&self) -> (i64, i64) {
        if self.is_met { (0, 1) } else { (1, 0) }
    }
}

/// The first state of a task with so many edges.
#[cold]
pub(crate) fn block(
    ctx: &OpContext<'_>,
    state: TaskState,
    counts: EdgeCounts,
) -> Result<TaskState> {
    let mut state = match counts.open {
        0 => state,
        _ => state.blocked(ctx.now),
    };
    edges::say(state.progress_mut(), Direction::Dependency, counts)?;
    Ok(state)
}

/// The tube that has a task, and its state. One that was not found where it was is looked for by
/// the row that leads to it.
fn locate<'a>(ctx: &OpContext<'a>, id: TaskId, found: &FoundTasks) -> Result<Option<EdgeTask<'a>>> {
    let known = found.tubes.get(&id).copied();
    for number in [known, query::moved_to(ctx, id)?].into_iter().flatten() {
        let tube = match ctx.tube(number) {
            Err(error) if error.is_not_found() => continue,
            tube => tube?,
        };
        let read = lookup::find(ctx, &tube, id);
        match read {
            Err(error) if error.is_not_found() => {}
            read => {
                let (stored, state) = read?;
                return Ok(Some((tube, stored, state)));
            }
        }
    }
    Ok(None)
}

/// Says in the state of an earlier task that it has more edges to later ones, or fewer: open and
/// met ones. One that is gone or damaged says nothing.
pub(crate) fn count(
    ctx: &mut OpContext<'_>,
    (number, id): (u32, TaskId),
    more: (i64, i64),
) -> Result<()> {
    let tube = match ctx.tube(number) {
        Err(error) if error.is_not_found() => return Ok(()),
        tube => tube?,
    };
    match lookup::find(ctx, &tube, id) {
        Err(error) if error.is_not_found() => Ok(()),
        found => match sound(found)? {
            Some((stored, from)) => count_found(ctx, &(tube, stored, from), more),
            None => Ok(()),
        },
    }
}

/// The same of one that was found.
fn count_found(
    ctx: &mut OpContext<'_>,
    (tube, stored, from): &EdgeTask<'_>,
    (open, met): (i64, i64),
) -> Result<()> {
    let Some(task) = sound(stored.task(tube))? else { return Ok(()) };
    let mut to = match from.clone() {
        // It gets a row.
        TaskState::Fresh(progress) => TaskState::Ready(progress),
        state => state,
    };
    let before = to.progress().edges(Direction::Dependent);
    let changed =
        |count: u32, by: i64| u32::try_from((i64::from(count) + by).max(0)).unwrap_or(u32::MAX);
    let after = EdgeCounts { open: changed(before.open, open), met: changed(before.met, met) };
    edges::say(to.progress_mut(), Direction::Dependent, after)?;
    transition::restate(ctx, &task, from, &to)?;
    if from.is_held() && !to.is_held() {
        // Its tube keeps it by its own terms again.
        transition::trim(ctx, tube, Tag::Done, None)?;
    }
    Ok(())
}

/// The open edges of a task to those that it comes after, at most so many.
pub(crate) fn some_of(
    view: &dyn View,
    (tube, id): (&TubeEntry, TaskId),
    most: usize,
) -> Result<Vec<(TaskId, EdgeRow, bool)>> {
    let (run, mut found) = (tube.run(), Vec::new());
    let mut rows = Scan::prefixed(key::edges_of(Direction::Dependency, run, id));
    while found.len() < most
        && let Some((met, row)) = rows.next(view)?
    {
        let Some(((_, earlier), is_met)) = key::of_edge(&met) else { continue };
        let of = (Direction::Dependency, run);
        let edge = edges::read(view, of, (id, earlier), is_met, row.as_ref())?;
        found.extend(edge.map(|edge| (earlier, edge, is_met)));
    }
    Ok(found)
}
