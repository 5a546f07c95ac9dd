//! Whether tasks may be removed while others wait for them. Changes nothing.

use crate::engine::context::{OpContext, sound};
use crate::engine::stored::{TaskRef, TaskState};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{edges, query};
use crate::format::key::{self, Direction, Run, Work};
use crate::format::{Range, Scan, Tag, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::EDGES_LOOKED_MAX;
use crate::words::task::{State, TaskId};

/// Tasks that are removed together.
#[derive(Clone, Copy)]
pub(crate) struct Together<'a> {
    /// In their order.
    ids: &'a [TaskId],
    in_all_tubes: bool,
}

impl<'a> Together<'a> {
    /// Those of these, in the order of their ids, that are in the tube of the op.
    pub(crate) fn in_its_tube(ids: &'a [TaskId]) -> Self {
        Self { ids, in_all_tubes: false }
    }

    /// The same; other ops remove those in other tubes.
    pub(crate) fn in_all_tubes(ids: &'a [TaskId]) -> Self {
        Self { ids, in_all_tubes: true }
    }
}

/// Refuses to remove a task that others wait for.
///
/// # Errors
/// `HasDependents`.
pub(crate) fn ensure_none(ctx: &OpContext<'_>, task: &TaskRef<'_>, from: &TaskState) -> Result<()> {
    ensure_among(ctx, (task, from), Together::in_its_tube(&[]), &mut { EDGES_LOOKED_MAX })
}

/// The same, if not all that wait for it are removed with it. Looks at so many edges at most.
///
/// # Errors
/// `HasDependents`; `Invalid` if there are more edges.
pub(crate) fn ensure_among(
    ctx: &OpContext<'_>,
    (task, from): (&TaskRef<'_>, &TaskState),
    removed: Together<'_>,
    left: &mut usize,
) -> Result<()> {
    let progress = from.progress();
    // Those that come after one that is done wait for it no more.
    if progress.extension.is_empty() || matches!(from, TaskState::Done(_)) {
        return Ok(());
    }
    if progress.edges(Direction::Dependent).open == 0 {
        return Ok(());
    }
    look(ctx, (task.tube, task.id), removed, left)
}

#[cold]
fn look(
    ctx: &OpContext<'_>,
    (tube, id): (&TubeEntry, TaskId),
    removed: Together<'_>,
    left: &mut usize,
) -> Result<()> {
    let run = tube.run();
    let mut rows = Scan::prefixed(key::edges_in(Direction::Dependent, run, id, false));
    while let Some((met, row)) = rows.next(ctx)? {
        let Some(dependent) = key::id_of(&met) else { continue };
        let of = (Direction::Dependent, run);
        let edge = edges::read(ctx, of, (id, dependent), false, row.as_ref())?;
        let number = edges::tube_of(ctx, edge.map_or(0, |edge| edge.tube), dependent)?;
        let is_put = !is_being_put(ctx, run, dependent)?;
        let is_in = removed.in_all_tubes || number == tube.number;
        let goes_too = || is_in && removed.ids.binary_search(&dependent).is_ok();
        if !is_put || !goes_too() && exists(ctx, number, dependent)? {
            let text = match is_put {
                true => format!("task {dependent} waits for it"),
                false => format!("a put of task {dependent} after it is running"),
            };
            let error = Error::new(ErrorKind::HasDependents).because(text);
            return Err(error.on_task(id).with_tasks(vec![dependent]));
        }
        let Some(fewer) = left.checked_sub(1) else {
            let text =
                format!("more than {EDGES_LOOKED_MAX} tasks wait for those that go together");
            return Err(Error::new(ErrorKind::Invalid).because(text).on_task(id));
        };
        *left = fewer;
    }
    Ok(())
}

/// Whether a put is writing the edges of a task, which is not there yet.
fn is_being_put(ctx: &OpContext<'_>, run: Run, id: TaskId) -> Result<bool> {
    let linking = key::work(Work::Linking, edges::scope(run), id);
    Ok(ctx.count(Range::of(Tag::Work)) > 0 && ctx.row(&linking)?.is_some())
}

/// Whether the later task of an edge exists in this tube, or may exist if its tube is not known.
/// One that has ended may have edges until a sweep removes them.
fn exists(ctx: &OpContext<'_>, number: u32, dependent: TaskId) -> Result<bool> {
    // No tube has this number: its row is damaged.
    if number == 0 {
        return Ok(true);
    }
    let tube = match ctx.tube(number) {
        Err(error) if error.is_not_found() => return Ok(false),
        tube => tube?,
    };
    // A damaged one is there.
    Ok(sound(query::state(ctx, &tube, dependent))?
        .is_none_or(|state| state.is_some_and(|state| !state.is_end() || state == State::Buried)))
}
