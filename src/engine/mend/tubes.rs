//! Tubes that have lost their rows. Their options are lost with them, which each step says.

use super::{Mended, done};
use crate::engine::context::{OpContext, sound};
use crate::engine::effects::{NextDue, TubeChange};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{lines, query, schedules};
use crate::format::extension::Extension;
use crate::format::feature::RETENTION;
use crate::format::key::{self, Order, Range, Run, Work};
use crate::format::row::{self, Counters, PendingOptions, TubeRow, WorkRow};
use crate::format::{Scan, Tag, View};
use crate::words::error::Result;
use crate::words::options::TubeOptions;
use crate::words::retention::Retention;
use crate::words::task::TaskId;

/// The most tasks under each tag among which a plain one is looked for.
const PLAIN_TASK_READS: usize = 1024;

/// A run that has tasks and no tube gets one: that of the number and name that have lost theirs, if
/// that is known. Which leases an opening or a call has voided is lost with the row, so that all of
/// them are void, and a sweep returns their tasks.
pub(super) fn adopt(ctx: &mut OpContext<'_>, run: Run, lost: Option<&(u32, String)>) -> Mended {
    let Some(mut counters) = sound(query::counters(ctx))? else { return Ok(None) };
    let (number, name) = match lost {
        Some(lost) => lost.clone(),
        None => {
            // No row of a name says that it has one by now.
            for number in query::numbers(ctx)? {
                if query::sound_tube(ctx, number)?.is_some_and(|tube| tube.run() == run) {
                    return Ok(None);
                }
            }
            let number = query::next_number(&mut counters.tube, u32::MAX, "tube")?;
            (number, free_name(ctx, run.0)?)
        }
    };
    let text = format!(
        "the tube {name:?} was made for the tasks in it, with default options: those that it had \
         are lost"
    );
    let taken = Range::in_run(Tag::Taken, run);
    let void_to = match ctx.first(&taken.start(), &taken.end())? {
        Some(_) => {
            let work = key::work(Work::Release, run, TaskId::new(0));
            ctx.set(work, WorkRow::of_tube(number).encode())?;
            ctx.effects().begin_timer_work();
            ctx.numbers.next.tokens.saturating_sub(1)
        }
        None => 0,
    };
    write(ctx, (number, name), (run, void_to), counters)?;
    lines::learn(ctx, number, run)?;
    if let Some(change) = ctx.effects().tubes.last_mut() {
        change.is_adopted = true;
    }
    Ok(Some(text))
}

/// A tube whose row is damaged. Its tasks, if it has any, are under a run without a tube.
pub(super) fn make_again(ctx: &mut OpContext<'_>, number: u32, name: Option<&str>) -> Mended {
    let Some(mut counters) = sound(query::counters(ctx))? else { return Ok(None) };
    let run = query::next_number(&mut counters.run, Run::TEMPORARY - 1, "run")?;
    let name = match name {
        Some(name) => name.to_owned(),
        None => free_name(ctx, run)?,
    };
    let text = format!(
        "the tube {name:?} was made again, empty and with default options: those that it had are \
         lost"
    );
    write(ctx, (number, name), (Run(run), 0), counters)?;
    Ok(Some(text))
}

/// A tube of which another one has the name and the tasks.
pub(super) fn forget(ctx: &mut OpContext<'_>, number: u32) -> Mended {
    ctx.remove(key::tube(number));
    let (row, cause, setting, stalled) = (None, None, None, 0);
    let (is_adopted, schedule) = (false, None);
    let change = TubeChange { number, row, cause, setting, stalled, is_adopted, schedule };
    ctx.effects().tubes.push(change);
    done("its row was removed, and every task stays in the other one")
}

/// A tube counts the schedules that it has, and is temporary if its run is.
pub(super) fn restate(ctx: &mut OpContext<'_>, number: u32) -> Mended {
    let Some(tube) = query::sound_tube(ctx, number)? else { return Ok(None) };
    let schedules = schedules::counted(ctx, number)?;
    let temporary = tube.run().is_temporary();
    if (tube.row.schedules, tube.row.options.temporary) == (schedules, temporary) {
        return Ok(None);
    }
    let options = TubeOptions { temporary, ..tube.row.options.clone() };
    ctx.set_tube(number, TubeRow { schedules, options, ..tube.row }, None)?;
    done("its row was corrected")
}

/// Numbers that are in use are not given again.
pub(super) fn count_on(ctx: &mut OpContext<'_>, used: &Counters) -> Mended {
    let given = sound(query::counters(ctx))?;
    let mut counters = given.clone().unwrap_or_default();
    counters.tube = counters.tube.max(used.tube);
    counters.run = counters.run.max(used.run);
    counters.consumer = counters.consumer.max(used.consumer);
    if given.as_ref() == Some(&counters) {
        return Ok(None);
    }
    ctx.set(key::meta(Counters::WHAT), counters.encode())?;
    done("the counters were set after the numbers in use")
}

/// The durable tube with this name, which is made if it does not exist.
pub(super) enum NamedTube {
    There(Box<TubeEntry>),
    /// The tasks come with a later op: an op sees the tubes as they were before it.
    Made,
    /// Its rows are damaged, or it is a temporary one.
    Unfit,
}

pub(super) fn named(ctx: &mut OpContext<'_>, name: &str) -> Result<NamedTube> {
    let Some(found) = sound(query::tube_named(ctx, name))? else { return Ok(NamedTube::Unfit) };
    if let Some(number) = found {
        let tube = query::sound_tube(ctx, number)?.filter(|tube| !tube.run().is_temporary());
        return Ok(tube.map_or(NamedTube::Unfit, |tube| NamedTube::There(Box::new(tube))));
    }
    let Some(mut counters) = sound(query::counters(ctx))? else { return Ok(NamedTube::Unfit) };
    let number = query::next_number(&mut counters.tube, u32::MAX, "tube")?;
    let run = query::next_number(&mut counters.run, Run::TEMPORARY - 1, "run")?;
    write(ctx, (number, name.to_owned()), (Run(run), 0), counters)?;
    Ok(NamedTube::Made)
}

/// A name that no tube has.
fn free_name(ctx: &OpContext<'_>, run: u32) -> Result<String> {
    let mut name = format!("recovered-{run}");
    while sound(query::tube_named(ctx, &name))?.is_none_or(|found| found.is_some()) {
        name.push('x');
    }
    Ok(name)
}

fn write(
    ctx: &mut OpContext<'_>,
    (number, name): (u32, String),
    (run, void_to): (Run, u64),
    mut counters: Counters,
) -> Result<()> {
    counters.tube = counters.tube.max(number);
    ctx.set(key::meta(Counters::WHAT), counters.encode())?;
    let mut options = TubeOptions::default().temporary(run.is_temporary());
    // How long it kept them is not known, and none may go without a line.
    if ctx.count(Range::in_run(Tag::Done, run)) > 0 {
        options = options.keep_finished(Retention::new());
        ctx.needs(&RETENTION);
    }
    ctx.set(key::name(&name), row::number(u64::from(number)))?;
    let (shut, pending, extension) = (None, PendingOptions::default(), Extension::default());
    let (plain, schedules) = (plain_priority(ctx, run)?, schedules::counted(ctx, number)?);
    let made_priority = plain.unwrap_or_else(|| options.turned(options.priority));
    let row = TubeRow {
        name,
        run,
        shut,
        void_to,
        made_priority,
        options,
        pace: 0,
        schedules,
        pending,
        extension,
    };
    ctx.set_tube(number, row, None)?;
    ctx.effects().deadline(number, NextDue::UNKNOWN);
    Ok(())
}

/// The priority at which the plain tasks of a run stand: those that were put without one have no
/// position row, which only the row of their tube explains. `None` if there seems to be none.
fn plain_priority(ctx: &OpContext<'_>, run: Run) -> Result<Option<i64>> {
    for tag in Tag::TASKS {
        let (mut rows, mut left) = (Scan::over(Range::in_run(tag, run)), PLAIN_TASK_READS);
        while let Some((met, _)) = rows.next(ctx)? {
            let place = key::place_of(&met, key::RUN_PREFIX).zip(key::id_of(&met));
            if let Some((rank, id)) = place
                && rank.order == Order::back(id.get())
                && ctx.row(&key::position(run, id))?.is_none()
            {
                return Ok(Some(rank.priority));
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    Ok(None)
}
