//! The verbs of throttles: they are set, removed and listed, and the slots of tasks are released by
//! force. What a slot is stands in `slots`; none of this ends a lease.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::stored::TaskState;
use crate::engine::{lookup, query, slots, transition};
use crate::format::feature::THROTTLES;
use crate::format::key::{self, Key, Range, Run};
use crate::format::row::{Counters, Slots, TakenRow, ThrottleRow};
use crate::format::{Scan, Tag, View};
use crate::words::clock::{NEVER, Now, micros};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::gates::{ThrottleInfo, throttle_name};
use crate::words::limits::THROTTLES_MAX;
use crate::words::task::TaskId;
use std::time::Duration;

/// Sets the limit of a throttle, and makes one that is new. Returns whether that changed anything.
pub(crate) struct SetThrottle<'a> {
    pub(crate) name: &'a str,
    /// 0: no limit.
    pub(crate) limit: u64,
    /// How long, in queue time; `None`: until it is set again.
    pub(crate) ttl: Option<Duration>,
}

impl Op for SetThrottle<'_> {
    type Done = bool;

    fn grows(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let name = throttle_name(self.name)?;
        let ends = match self.ttl.map(micros) {
            None => NEVER,
            Some(0) => {
                let text = "the limit would end at once; give a length of a microsecond or more";
                return Err(Error::new(ErrorKind::Invalid).because(text));
            }
            Some(ttl) => ctx.now.queue.saturating_add(ttl),
        };
        let key = key::throttle(name);
        let row = match slots::read(ctx, name)? {
            Some(row) if (row.limit, row.ends) == (self.limit, ends) => return Ok(false),
            Some(row) => ThrottleRow { limit: self.limit, ends, ..row },
            None => make(ctx, &key, self.limit, ends)?,
        };
        ctx.needs(&THROTTLES);
        ctx.set(key, row.encode())?;
        Ok(true)
    }
}

fn make(ctx: &mut OpContext<'_>, key: &Key, limit: u64, ends: u64) -> Result<ThrottleRow> {
    let there_are = ctx.count(Range::of(Tag::Throttle));
    if ctx.row(key)?.is_none() && there_are >= THROTTLES_MAX {
        let text = format!("the queue has {there_are} throttles; remove one first");
        return Err(Error::new(ErrorKind::Full).because(text));
    }
    let mut counters = query::counters(ctx)?;
    let run = query::next_run(&mut counters, false)?;
    ctx.set(key::meta(Counters::WHAT), counters.encode())?;
    Ok(ThrottleRow { run, limit, ends, extension: Default::default() })
}

/// Removes a throttle: its tubes are as if they did not name it. Returns whether there was one, and
/// the run that it had, if its row could be read.
pub(crate) struct RemoveThrottle<'a> {
    pub(crate) name: &'a str,
}

impl Op for RemoveThrottle<'_> {
    type Done = (bool, Option<Run>);

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<(bool, Option<Run>)> {
        let name = throttle_name(self.name)?;
        let row = slots::read(ctx, name)?;
        let key = key::throttle(name);
        let is_there = ctx.row(&key)?.is_some();
        if is_there {
            ctx.remove(key);
        }
        // Those who hold a slot of it remove the row of that at the end of their leases.
        Ok((is_there, row.map(|row| row.run)))
    }
}

/// Takes the slots of a throttle away from tasks, which stay taken. Returns how many held one.
pub(crate) struct ReleaseSlots<'a> {
    pub(crate) throttle: &'a str,
    /// At most as many as one step may write.
    pub(crate) ids: &'a [TaskId],
}

impl Op for ReleaseSlots<'_> {
    type Done = usize;

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<usize> {
        let Some(row) = slots::read(ctx, throttle_name(self.throttle)?)? else { return Ok(0) };
        let mut released = 0;
        for id in self.ids {
            for run in slots::both(row.run) {
                let held = key::slots_of(run, *id);
                let Some((slot, _)) = ctx.first(&held, &key::end_of(&held))? else { continue };
                let Some((_, tube)) = key::of_slot(&slot) else { continue };
                released += 1;
                let is_stated = match sound(release(ctx, tube, *id, row.run)) {
                    Err(error) if error.is_not_found() => false,
                    is_stated => is_stated? == Some(true),
                };
                if !is_stated {
                    // The task is damaged, or its tube was truncated.
                    slots::remove(ctx, slot);
                }
            }
        }
        Ok(released)
    }
}

/// Writes that a task does not hold a slot, and removes that. Returns whether its row says that it
/// does.
fn release(ctx: &mut OpContext<'_>, number: u32, id: TaskId, throttle: Run) -> Result<bool> {
    let tube = &*ctx.tube(number)?;
    let (stored, from) = lookup::find(ctx, tube, id)?;
    let TaskState::Taken(taken) = &from else { return Ok(false) };
    let mut slots: Slots = taken.progress.slots();
    if !slots.contains(&throttle) {
        return Ok(false);
    }
    slots.retain(|held| *held != throttle);
    let mut progress = taken.progress.clone();
    let _shrinks = progress.set_slots(&slots);
    let to = TaskState::Taken(TakenRow { progress, ..taken.clone() });
    transition::restate(ctx, &stored.task(tube)?, &from, &to)?;
    Ok(true)
}

/// What is known of the throttle of this name.
pub(crate) fn info(view: &dyn View, name: &str, now: Now) -> Result<Option<ThrottleInfo>> {
    Ok(slots::read(view, name)?.map(|row| described(view, name, &row, now)))
}

fn described(view: &dyn View, name: &str, row: &ThrottleRow, now: Now) -> ThrottleInfo {
    let is_over = row.ends <= now.queue;
    let left = Duration::from_micros(row.ends.saturating_sub(now.queue));
    ThrottleInfo {
        name: name.to_owned(),
        limit: if is_over { 0 } else { row.limit },
        left: (!is_over && row.ends != NEVER).then_some(left),
        in_flight: slots::in_flight(view, row.run),
    }
}

/// All throttles, in the order of their names. Those whose rows are damaged are left out.
pub(crate) fn all(view: &dyn View, now: Now) -> Result<Vec<ThrottleInfo>> {
    let (mut rows, mut found) = (Scan::over(Range::of(Tag::Throttle)), Vec::new());
    while let Some((met, row)) = rows.next(view)? {
        let row = row.as_deref().and_then(ThrottleRow::decode);
        if let (Some(name), Some(row)) = (key::of_throttle(&met), row) {
            found.push(described(view, name, &row, now));
        }
    }
    Ok(found)
}

/// Some of the tasks that hold a slot of a throttle, in the order of their ids, those of temporary
/// tubes after the others; from this key on. Returns where the next ones begin.
pub(crate) fn holders(
    view: &dyn View,
    name: &str,
    from: Option<&Key>,
    most: usize,
) -> Result<(Vec<TaskId>, Option<Key>)> {
    let mut found = Vec::new();
    let Some(row) = slots::read(view, name)? else { return Ok((found, None)) };
    for run in slots::both(row.run) {
        let range = Range::in_run(Tag::Slot, run);
        let mut rows = Scan::over(range);
        if let Some(from) = from.filter(|from| **from > range.start()) {
            rows.skip_to(key::copy(from));
        }
        while let Some((met, _)) = rows.next(view)? {
            if found.len() == most {
                return Ok((found, Some(met)));
            }
            found.extend(key::of_slot(&met).map(|(id, _)| id));
        }
    }
    Ok((found, None))
}
