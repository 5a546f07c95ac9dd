//! Making and changing tubes. A verb that concerns all tasks of a tube changes the run or a field
//! in the tube's row; sweeps do the rest.

use crate::engine::context::{Op, OpContext};
use crate::engine::effects::{NextDue, TubeChange};
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{gates, merge, query, schedules, settings};
use crate::format::Deadline;
use crate::format::extension::Extension;
use crate::format::key::{self, Run, Work};
use crate::format::row::{Counters, PendingOptions, Shut, TubeRow, WorkRow};
use crate::format::{Tag, View, row};
use crate::words::clock::{NEVER, micros};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::name::label;
use crate::words::numbers::Numbers;
use crate::words::options::TubeOptions;
use crate::words::task::{Cause, TaskId};
use crate::words::verb::{PauseEnd, PauseTerms};
use std::time::UNIX_EPOCH;

/// Makes a tube, or finds it. Returns it.
pub(crate) struct Create<'a> {
    pub(crate) name: &'a str,
    pub(crate) options: &'a TubeOptions,
    /// What to do if the tube exists.
    pub(crate) exists: Exists,
}

/// What `Create` does with an existing tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exists {
    /// Refuses.
    Refuse,
    /// Uses it, if kind and options are the same.
    Same,
    /// Uses it as it is.
    Any,
}

/// Removes a tube and its tasks.
pub(crate) struct Drop {
    pub(crate) tube: u32,
    /// Whether takers wait for its tasks.
    pub(crate) awaited: bool,
    /// What to do while its tasks are used.
    pub(crate) used: Used,
}

/// When `Drop` refuses to remove a tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Used {
    /// Never.
    Drop,
    /// While takers wait or tasks are taken.
    Refuse,
    /// Also while any task is in it.
    RefuseTasks,
}

/// Removes a tube's tasks, in every state. Returns how many there were.
pub(crate) struct Truncate {
    pub(crate) tube: u32,
}

/// Pauses a tube on these terms, or resumes it.
pub(crate) struct Pause {
    pub(crate) tube: u32,
    pub(crate) terms: Option<PauseTerms>,
}

/// Returns every taken task of a tube.
pub(crate) struct ReleaseAll {
    pub(crate) tube: u32,
}

/// Starts the sweep that removes the rows of a run which no longer belongs to a tube.
fn clear(ctx: &mut OpContext<'_>, run: Run) -> Result<()> {
    ctx.set_work(key::work(Work::Clear, run, TaskId::new(0)), WorkRow::default().encode())
}

impl Op for Create<'_> {
    type Done = TubeEntry;

    fn grows(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<TubeEntry> {
        label("tube name", self.name)?;
        self.options.check()?;
        if let Some(number) = query::tube_named(ctx, self.name)? {
            if self.exists == Exists::Refuse {
                return Err(Error::new(ErrorKind::TubeExists));
            }
            let tube = ctx.tube(number)?;
            let row = tube.row.clone();
            if self.exists == Exists::Same {
                // As they are stored, with times in whole microseconds.
                let asked = TubeRow { options: self.options.clone(), ..row.clone() };
                let made = TubeRow { options: settings::made_with(ctx, &tube)?, ..row.clone() };
                if asked.encode() != made.encode() {
                    return Err(Error::new(ErrorKind::TubeMismatch));
                }
            }
            return Ok(TubeEntry { number, row, border: None, day: None });
        }
        let mut counters = query::counters(ctx)?;
        let number = query::next_number(&mut counters.tube, u32::MAX, "tube")?;
        let run = query::next_run(&mut counters, self.options.temporary)?;
        ctx.set(key::meta(Counters::WHAT), counters.encode())?;
        ctx.add(key::name(self.name), row::number(u64::from(number)));
        let row = TubeRow {
            name: self.name.to_owned(),
            run,
            shut: None,
            void_to: 0,
            made_priority: self.options.turned(self.options.priority),
            options: self.options.clone(),
            pace: 0,
            schedules: 0,
            pending: PendingOptions::default(),
            extension: Extension::default(),
        };
        settings::needs(ctx, &row.options);
        ctx.set_tube(number, row.clone(), Some(Cause::CreateTube))?;
        gates::await_opening(ctx, number, &row);
        Ok(TubeEntry { number, row, border: None, day: None })
    }
}

impl Op for Drop {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let tube = ctx.tube(self.tube)?;
        let (taken, tasks) = (ctx.count(tube.range(Tag::Taken)), query::tasks(ctx, &tube));
        let busy = match self.used {
            Used::Drop => None,
            _ if self.awaited => Some("takers wait".to_owned()),
            _ if taken > 0 => Some(format!("{taken} tasks are taken")),
            Used::RefuseTasks if tasks > 0 => Some(format!("it has {tasks} tasks")),
            Used::Refuse | Used::RefuseTasks => None,
        };
        if let Some(text) = busy {
            return Err(Error::new(ErrorKind::TubeBusy).because(text));
        }
        ctx.remove(key::name(&tube.row.name));
        ctx.remove(key::tube(self.tube));
        ctx.effects().tubes.push(TubeChange {
            number: self.tube,
            row: None,
            cause: Some(Cause::DropTube),
            setting: None,
            stalled: 0,
            is_adopted: false,
            schedule: None,
        });
        let fires = schedules::first_fires(ctx, self.tube)?;
        if fires != NextDue::NONE {
            // The timer finds that they have no tube any more.
            ctx.effects().deadline(self.tube, fires);
        }
        settings::forget(ctx, self.tube)?;
        merge::forget(ctx, &tube)?;
        clear(ctx, tube.run())?;
        ctx.effects().wake(self.tube, usize::MAX);
        Ok(())
    }
}

impl Op for Truncate {
    type Done = u64;

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<u64> {
        let tube = ctx.tube(self.tube)?;
        let tasks = query::tasks(ctx, &tube);
        let mut row = tube.row.clone();
        let mut counters = query::counters(ctx)?;
        let old = row.run;
        row.run = query::next_run(&mut counters, old.is_temporary())?;
        // No row of the new run has to follow a change of options.
        row.pending = PendingOptions::default();
        // It is empty.
        row.shut = Shut::of(row.pause(), None);
        merge::forget(ctx, &tube)?;
        ctx.change(key::meta(Counters::WHAT), counters.encode());
        // The deadlines of the old run are forgotten; these are not of its tasks.
        let fires = schedules::first_fires(ctx, self.tube)?;
        let next = gates::openings(ctx, &row, ctx.now).earlier(fires);
        ctx.effects().deadline(self.tube, next);
        ctx.set_tube(self.tube, row, Some(Cause::Truncate))?;
        // There is room now.
        ctx.effects().wake(self.tube, usize::MAX);
        clear(ctx, old)?;
        Ok(tasks)
    }
}

impl Op for Pause {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        let times_out = self.terms.is_some_and(|terms| terms.times_out);
        Numbers::of_tokens(u64::from(times_out))
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let tube = ctx.tube(self.tube)?;
        let Some(terms) = &self.terms else { return set_pause(ctx, &tube, None) };
        let until = Some(pause_end(ctx, terms.end)?);
        if !terms.times_out {
            return set_pause(ctx, &tube, until);
        }
        void_leases(ctx, self.tube)?;
        let tube = &query::tube(ctx, self.tube)?; // as it is after that
        set_pause(ctx, tube, until)
    }
}

/// # Errors
/// `Invalid` for an end that has passed.
fn pause_end(ctx: &OpContext<'_>, until: PauseEnd) -> Result<u64> {
    let (queue, wall) = (ctx.now.queue, ctx.now.wall);
    let length = match until {
        PauseEnd::Never => NEVER,
        PauseEnd::After(length) => micros(length),
        PauseEnd::At(time) => {
            time.duration_since(UNIX_EPOCH).map_or(0, micros).saturating_sub(wall)
        }
    };
    if length == 0 {
        let text = "the pause would end at once; give an end in the future";
        return Err(Error::new(ErrorKind::Invalid).because(text));
    }
    Ok(queue.saturating_add(length))
}

/// Pauses or resumes a tube.
pub(crate) fn set_pause(
    ctx: &mut OpContext<'_>,
    tube: &TubeEntry,
    pause: Option<u64>,
) -> Result<()> {
    if tube.row.pause() == pause {
        return Ok(());
    }
    let shut = Shut::of(pause, tube.row.merges_into());
    let row = TubeRow { shut, ..tube.row.clone() };
    let end = row.pause_end();
    let cause = if pause.is_some() { Cause::Pause } else { Cause::Resume };
    ctx.set_tube(tube.number, row, Some(cause))?;
    if pause.is_none() {
        ctx.effects().wake(tube.number, usize::MAX);
    } else if end != NEVER {
        ctx.effects().deadline(tube.number, NextDue::of(Deadline::Delay, end));
    }
    Ok(())
}

impl Op for ReleaseAll {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        Some(self.tube)
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_tokens(1)
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        void_leases(ctx, self.tube)
    }
}

/// Voids all leases of a tube, and starts the sweep that returns their tasks.
fn void_leases(ctx: &mut OpContext<'_>, number: u32) -> Result<()> {
    let tube = ctx.tube(number)?;
    if ctx.count(tube.range(Tag::Taken)) == 0 {
        return Ok(());
    }
    // Tokens only grow, so every earlier lease has a smaller token.
    let row = TubeRow { void_to: ctx.token(), ..tube.row.clone() };
    ctx.set_tube(number, row, None)?;
    // A running sweep begins again: leases that it has passed may be void now.
    let work = key::work(Work::Release, tube.run(), TaskId::new(0));
    let running = ctx.row(&work)?.and_then(|(_, row)| row);
    let running = running.as_deref().and_then(WorkRow::decode).unwrap_or_default();
    ctx.set_work(work, WorkRow { tube: number, from: 0, ..running }.encode())
}
