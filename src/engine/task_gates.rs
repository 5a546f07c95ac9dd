//! Where the gates of a single task stand: in the name of its line, or of a task of a group in the
//! row of its state. Decides nothing.

use crate::engine::context::{OpContext, decoded};
use crate::engine::tube_cache::TubeEntry;
use crate::format::View;
use crate::format::feature::{GROUP_GATES, TASK_GATES};
use crate::format::key;
use crate::format::row::TaskProgress;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::task_gates::{is_line, place};
use std::borrow::Cow;

/// The gates of a task with this group or line, as the name of a line.
#[inline(always)]
pub(crate) fn of<'a>(name: Option<&'a str>, progress: &'a TaskProgress) -> Option<&'a str> {
    match name {
        Some(line) if is_line(line) => Some(line),
        // Most tasks have no section.
        Some(_) if !progress.extension.is_empty() => progress.gates(),
        _ => None,
    }
}

/// The same of a ready task, by the key of its row and the row. Of a damaged row of a task of a
/// group there are none.
pub(crate) fn in_row<'a>(task: &'a [u8], row: Option<&'a [u8]>) -> Option<&'a str> {
    match key::group_of(task)? {
        line if is_line(line) => Some(line),
        _ => row.and_then(TaskProgress::gates_in),
    }
}

/// The same by the key alone.
///
/// # Errors
/// `Damaged` if the row of a task of a group is.
pub(crate) fn at<'a>(view: &(impl View + ?Sized), task: &'a [u8]) -> Result<Option<Cow<'a, str>>> {
    match key::group_of(task) {
        Some(line) if is_line(line) => Ok(Some(Cow::Borrowed(line))),
        _ => {
            let row = decoded(view.get(task), TaskProgress::decode, "line")?;
            let gates = row.and_then(|(progress, _)| progress.gates().map(str::to_owned));
            Ok(gates.map(Cow::Owned))
        }
    }
}

/// In which group or line of a tube a task stands that is of this group, or of none, and has these
/// gates; and which of them that does not say.
pub(crate) fn stand<'a>(
    tube: &'a TubeEntry,
    group: Option<&'a str>,
    gates: Option<&'a str>,
) -> (Option<&'a str>, Option<&'a str>) {
    // A task of a tube whose tasks are all in groups may be in the one without a name.
    place(group.filter(|group| !group.is_empty()).or(tube.plain_group()), gates)
}

/// Writes the gates of a task of a group into what is known of it.
///
/// # Errors
/// `TooLarge` if fields of later versions leave no room.
pub(crate) fn set(progress: &mut TaskProgress, gates: Option<&str>) -> Result<()> {
    if progress.set_gates(gates) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::TooLarge).because("its row has no room for its gates"))
}

/// Notes what a task of a tube with these gates needs, and with those of them that its line does
/// not say.
#[cold]
pub(crate) fn note(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    (gates, in_group): (Option<&str>, Option<&str>),
) {
    // The rows of a temporary tube reach no disk.
    if !tube.run().is_temporary() {
        need(ctx, gates.is_some(), in_group.is_some());
    }
}

/// Notes the features that a row needs with gates of tasks, and with those of a task of a group.
pub(crate) fn need(ctx: &mut OpContext<'_>, has_gates: bool, are_in_group: bool) {
    if has_gates {
        ctx.needs(&TASK_GATES);
    }
    if has_gates && are_in_group {
        ctx.needs(&GROUP_GATES);
    }
}
