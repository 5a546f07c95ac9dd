//! The fires of schedules that are due: each makes a child in its tube, or is missed. A child is
//! put by the one way of puts, in the same step that moves its schedule on, so that no fire is lost
//! or made twice.

use crate::engine::context::{OpContext, sound};
use crate::engine::effects::NextDue;
use crate::engine::new_row::{Extras, NewRow};
use crate::engine::put::PutTasks;
use crate::engine::schedules::{self, StoredSchedule};
use crate::engine::set_back::go_ahead;
use crate::engine::stored::TaskState;
use crate::engine::timing::{self, FireTimes};
use crate::engine::tube_cache::TubeRef;
use crate::engine::{Op, lookup, query, retention, transition};
use crate::format::key::{self, FireClock};
use crate::format::row::{FiringRow, ScheduleRow, Spawned};
use crate::format::{Scan, View};
use crate::words::clock::NEVER;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::FIRE_BYTES;
use crate::words::schedule::Overlap;
use crate::words::task::{Cause, TaskId};
use crate::words::verb::Conflict;
use std::slice;

/// Makes the fires that are due of the schedules of a tube, which may be gone, at most `left`.
/// Returns lower bounds of those that are left, and whether a child was made. On a full disk they
/// wait for room.
pub(crate) fn work_off(
    ctx: &mut OpContext<'_>,
    tube: u32,
    left: &mut usize,
) -> Result<(NextDue, bool)> {
    let (mut next, mut has_fired) = (NextDue::NONE, false);
    for clock in FireClock::ALL.into_iter().filter(|clock| schedules::is_read(*clock)) {
        let mut rows = Scan::prefixed(key::fires_by(tube, clock));
        *next.kind_mut(clock.deadline()) = loop {
            let Some((met, copy)) = rows.next(ctx)? else { break NEVER };
            let Some((_, _, when, name)) = key::of_fire(&met) else {
                schedules::remove_fire(ctx, tube, met)?;
                continue;
            };
            let is_over = *left == 0 || ctx.is_full() || ctx.is_sweep_long();
            if when > clock.time_of(ctx.now) || is_over {
                break when;
            }
            let schedule = match sound(schedules::find(ctx, name))? {
                Some(found) => found,
                None => schedules::of_copy(ctx, name, copy.as_ref())?,
            };
            match schedule {
                Some(schedule) if schedule.fire_key(name) == met => {
                    has_fired |= fall_due(ctx, name, schedule, left)?;
                }
                // It stands at another fire.
                Some(_) => {
                    *left -= 1;
                    ctx.remove(met);
                }
                // No schedule has it, or a damaged one.
                None => {
                    *left -= 1;
                    schedules::remove_fire(ctx, tube, met)?;
                }
            }
        };
    }
    Ok((next, has_fired))
}

/// Makes what is due of one schedule. Children with long payloads, and looks for the next fires,
/// count as several of those that are left. Returns whether a child was made.
fn fall_due(
    ctx: &mut OpContext<'_>,
    name: &str,
    before: StoredSchedule,
    left: &mut usize,
) -> Result<bool> {
    let mut after = before.clone();
    let row = &before.row;
    let now = timing::now_of(&row.timing, ctx.now);
    let times = match FireTimes::of(&row.timing) {
        Ok(times) => times,
        Err(error) => {
            // It stands still, until a build that can read it makes it again.
            after.firing.is_refused = true;
            *left = left.saturating_sub(1);
            schedules::publish(ctx, name, row, (Cause::MissedFire, &error.to_string()));
            schedules::write(ctx, name, Some(&before), &after)?;
            return Ok(false);
        }
    };
    *left = left.saturating_sub(usize::from(after.firing.ahead.is_some()));
    go_ahead(&mut after.firing, &times, now);
    while after.firing.next <= now && *left > 0 && !ctx.is_sweep_long() {
        let FiringRow { next, gap, .. } = after.firing;
        let step = timing::step(&times, row.missed, (next, gap), now);
        (after.firing.next, after.firing.gap) = (step.next, step.gap);
        after.firing.miss(step.missed);
        let bytes = step.fire.map_or(0, |_| row.payload.len());
        if let Some(nominal) = step.fire {
            fire(ctx, name, (&mut after, nominal), (&times, now))?;
        }
        let cost = times.looks().max(1) + bytes / FIRE_BYTES;
        *left = left.saturating_sub(cost);
    }
    schedules::write(ctx, name, Some(&before), &after)?;
    Ok(after.firing.last != before.firing.last)
}

/// Makes a child, or counts the fire as missed. If those after it would be so too, they are passed
/// over.
fn fire(
    ctx: &mut OpContext<'_>,
    name: &str,
    (after, nominal): (&mut StoredSchedule, u64),
    (times, now): (&FireTimes, u64),
) -> Result<()> {
    after.firing.is_fresh = false;
    let Err(error) = spawn(ctx, name, after, nominal)? else { return Ok(()) };
    after.firing.miss(1);
    // The next one has another key.
    if error.kind() != ErrorKind::KeyExists {
        let (passed, next, gap) = timing::pass(times, after.firing.next, now);
        after.firing.miss(passed);
        (after.firing.next, after.firing.gap) = (next, gap);
    }
    schedules::publish(ctx, name, &after.row, (Cause::MissedFire, &error.to_string()));
    Ok(())
}

/// Makes a child, by the rule of the schedule about the last one. The inner error says why there is
/// none.
fn spawn(
    ctx: &mut OpContext<'_>,
    name: &str,
    schedule: &mut StoredSchedule,
    nominal: u64,
) -> Result<Result<TaskId>> {
    let last = schedule.firing.last;
    if schedule.row.overlap == Overlap::Skip && is_alive(ctx, schedule)?.is_some() {
        let text = "its last child has not ended";
        return Ok(Err(Error::new(ErrorKind::WrongState).because(text).on_task(TaskId::new(last))));
    }
    make_child(ctx, name, schedule, nominal)
}

/// Makes a child. One that is to be replaced goes, if there is room for the new one then. The inner
/// error says why there is none.
pub(crate) fn make_child(
    ctx: &mut OpContext<'_>,
    name: &str,
    schedule: &mut StoredSchedule,
    nominal: u64,
) -> Result<Result<TaskId>> {
    let replaced = match schedule.row.overlap {
        Overlap::Replace => is_alive(ctx, schedule)?,
        Overlap::Allow | Overlap::Skip => None,
    };
    let StoredSchedule { row, firing } = schedule;
    let (number, key) = next_key(name, firing.children);
    let made = match replaced {
        None => put(ctx, row, (name, &key), nominal),
        Some(tube) => ctx.attempt(|ctx| {
            let (stored, state) = lookup::find(ctx, &tube, TaskId::new(firing.last))?;
            transition::erase(ctx, &stored.task(&tube)?, &state, Cause::Delete)?;
            put(ctx, row, (name, &key), nominal)
        }),
    };
    match made {
        Ok(id) => {
            (firing.children, firing.last, firing.last_nominal) = (number, id.get(), nominal);
            firing.last_tube = None;
            Ok(Ok(id))
        }
        Err(error) if is_refusal(error.kind()) => {
            if error.kind() == ErrorKind::KeyExists {
                // The next one has another key.
                firing.children = number;
            }
            Ok(Err(error.during("put").in_tube(&row.tube_name)))
        }
        Err(error) => Err(error),
    }
}

/// The number of the child after so many, and its key.
pub(crate) fn next_key(name: &str, children: u64) -> (u64, String) {
    let number = children.saturating_add(1);
    (number, format!("{name}-{number}"))
}

fn put(
    ctx: &mut OpContext<'_>,
    row: &ScheduleRow,
    (name, key): (&str, &str),
    nominal: u64,
) -> Result<TaskId> {
    with_child(row, Some(Spawned { by: name, nominal }), key, |task| {
        let durable_bytes_max = ctx.known.durable_bytes_max();
        let tasks = slice::from_ref(task);
        let done = of_schedule(row.tube, tasks, durable_bytes_max).decide(ctx)?;
        done.first().map(|put| put.id).ok_or_else(|| Error::new(ErrorKind::Broken))
    })
}

/// The put of a child.
pub(crate) fn of_schedule<'a>(
    tube: u32,
    tasks: &'a [NewRow<'a>],
    durable_bytes_max: u64,
) -> PutTasks<'a> {
    let (staged, payload_bytes_max, others_wait) = (&[][..], usize::MAX, false);
    PutTasks {
        earlier: None,
        tube,
        tasks,
        is_batch: false,
        staged,
        payload_bytes_max,
        durable_bytes_max,
        others_wait,
    }
}

/// Describes a child of a schedule to `then`.
pub(crate) fn with_child<R>(
    row: &ScheduleRow,
    spawned: Option<Spawned<'_>>,
    key: &str,
    then: impl FnOnce(&NewRow<'_>) -> R,
) -> R {
    let child = &row.child;
    let mut extras = Extras::default();
    extras.retry = child.retry;
    extras.tags = Some(child.tags.iter().map(String::as_str).collect());
    extras.gate_as(child.gates.as_deref());
    extras.label(|labels| {
        (labels.kind, labels.book) = (child.kind.as_deref(), child.book.as_deref());
        labels.details = child.details.iter().map(|(name, text)| (&**name, &**text)).collect();
        labels.spawned = spawned;
    });
    then(&NewRow {
        payload: &row.payload,
        codec: row.codec,
        version: row.version,
        priority: child.priority,
        group: child.group.as_deref(),
        key: Some(key),
        conflict: Conflict::Reject,
        delay: child.delay,
        ttl: child.ttl,
        ttr: child.ttr,
        extras: Some(&extras),
        ..NewRow::PLAIN
    })
}

/// Whether a put was refused for a reason that a fire cannot help. Nothing was written.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Full
            | ErrorKind::KeyExists
            | ErrorKind::TubeNotFound
            | ErrorKind::Unsupported
            | ErrorKind::DriverMissing
            | ErrorKind::Invalid
            | ErrorKind::TooLarge
    )
}

/// The tube of the last child if it has not ended, and its time is not over. One that is damaged
/// does not hold its schedule up.
fn is_alive<'a>(ctx: &OpContext<'a>, schedule: &StoredSchedule) -> Result<Option<TubeRef<'a>>> {
    let StoredSchedule { row, firing } = schedule;
    if firing.last == 0 {
        return Ok(None);
    }
    let id = TaskId::new(firing.last);
    let number = query::moved_to(ctx, id)?.or(firing.last_tube).unwrap_or(row.tube);
    let found = ctx.tube(number).and_then(|tube| {
        let (stored, state) = lookup::find(ctx, &tube, id)?;
        stored.whole(ctx, &tube)?.task(&tube)?;
        Ok((tube, state))
    });
    let found = match found {
        Err(error) if error.is_not_found() => None,
        found => sound(found)?,
    };
    let has_ended = |(tube, state): &(TubeRef<'_>, TaskState)| {
        matches!(state, TaskState::Buried(_) | TaskState::Trashed(_) | TaskState::Done(_))
            || retention::is_past_end(ctx, tube, state)
    };
    Ok(found.filter(|found| !has_ended(found)).map(|(tube, _)| tube))
}
