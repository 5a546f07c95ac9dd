//! The rows of schedules: read, written together, and described. A schedule stands under its name;
//! its next fire stands under its tube's number, so that the tube's due work finds it. When it
//! fires is not decided here.

use crate::engine::context::{OpContext, decoded, sound};
use crate::engine::effects::{NextDue, ScheduleChange, TubeChange};
use crate::engine::{query, task_gates, timing};
use crate::format::key::{self, FireClock, Key};
use crate::format::row::{ChildTerms, FiringRow, ScheduleRow, TubeRow};
use crate::format::{Range, Scan, Tag, Value, View};
use crate::words::clock::{NEVER, Now, instant};
use crate::words::cron;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::schedule::{ScheduleInfo, Timing};
use crate::words::task::{Cause, TaskId};
use crate::words::task_gates::names;
use std::time::{Duration, SystemTime};

/// A schedule as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredSchedule {
    pub(crate) row: ScheduleRow,
    pub(crate) firing: FiringRow,
}

impl StoredSchedule {
    pub(crate) fn clock(&self) -> FireClock {
        FireClock::of(self.row.timing.is_wall())
    }

    /// The key of its row among the fires. Without a next fire it stands after all that have one.
    pub(crate) fn fire_key(&self, name: &str) -> Key {
        key::fire(self.row.tube, self.clock(), self.firing.due(), name)
    }
}

/// The schedule of this name.
///
/// # Errors
/// `Damaged` if one of its rows is damaged, or one is missing.
pub(crate) fn find(view: &dyn View, name: &str) -> Result<Option<StoredSchedule>> {
    if view.count(Range::of(Tag::Schedule)) == 0 {
        return Ok(None);
    }
    let row = view.get(&key::schedule(name));
    let Some(row) = decoded(row, ScheduleRow::decode, "schedule")? else { return Ok(None) };
    let firing = decoded(view.get(&key::firing(name)), FiringRow::decode, "firing")?;
    let firing = firing.ok_or_else(|| {
        Error::new(ErrorKind::Damaged).because("a row of the schedule is missing; repair the queue")
    })?;
    Ok(Some(StoredSchedule { row, firing }))
}

/// The schedule of this name of which it is damaged how far it has come, with the copy that stands
/// at its next fire.
pub(crate) fn of_copy(
    view: &dyn View,
    name: &str,
    copy: Option<&Value>,
) -> Result<Option<StoredSchedule>> {
    let Some(firing) = copy.and_then(|copy| FiringRow::decode(copy)) else { return Ok(None) };
    let row = decoded(view.get(&key::schedule(name)), ScheduleRow::decode, "schedule");
    Ok(sound(row)?.flatten().map(|row| StoredSchedule { row, firing }))
}

/// The same, of one that there must be.
pub(crate) fn named(view: &dyn View, name: &str) -> Result<StoredSchedule> {
    let missing = || {
        Error::new(ErrorKind::ScheduleNotFound).because(format!("no schedule is named {name:?}"))
    };
    find(view, name)?.ok_or_else(missing)
}

/// The tube of a schedule, whose due work a verb on it does first, and whether it was dropped.
pub(crate) fn tube_of(view: &dyn View, name: &str) -> Result<Option<(u32, bool)>> {
    let Some(schedule) = sound(find(view, name))?.flatten() else { return Ok(None) };
    let tube = schedule.row.tube;
    Ok(Some((tube, view.row(&key::tube(tube))?.is_none())))
}

/// Writes a schedule in the place of what stands there, and says when it fires.
pub(crate) fn write(
    ctx: &mut OpContext<'_>,
    name: &str,
    before: Option<&StoredSchedule>,
    after: &StoredSchedule,
) -> Result<()> {
    if before.is_none_or(|before| before.row != after.row) {
        let ChildTerms { group, gates, .. } = &after.row.child;
        task_gates::need(ctx, gates.is_some(), group.is_some());
        ctx.set(key::schedule(name), after.row.encode())?;
    }
    let (old_tube, new_tube) = (before.map(|before| before.row.tube), after.row.tube);
    if old_tube != Some(new_tube) {
        old_tube.map_or(Ok(()), |old| count(ctx, old, -1))?;
        count(ctx, new_tube, 1)?;
    }
    let firing = after.firing.encode();
    ctx.set(key::firing(name), firing.clone())?;
    let (old, new) = (before.map(|before| before.fire_key(name)), after.fire_key(name));
    if let Some(old) = old.filter(|old| *old != new) {
        ctx.remove(old);
    }
    ctx.set(new, firing)?;
    let clock = after.clock();
    if is_read(clock) {
        let next = NextDue::of(clock.deadline(), after.firing.due());
        ctx.effects().deadline(new_tube, next);
    }
    Ok(())
}

/// Removes the row at a fire of a schedule of which a row is damaged or missing. If any row of
/// it is left, reads the fires of all schedules.
pub(crate) fn forget_damaged(ctx: &mut OpContext<'_>, name: &str) -> Result<()> {
    let parts = [key::schedule(name), key::firing(name)];
    if ctx.row(&parts[0])?.or(ctx.row(&parts[1])?).is_none() {
        return Ok(());
    }
    let mut rows = Scan::over(Range::of(Tag::Fire));
    while let Some((met, _)) = rows.next(ctx)? {
        if let Some((tube, _, _, of)) = key::of_fire(&met)
            && of == name
        {
            return remove_fire(ctx, tube, met);
        }
    }
    // Without a row at a fire, its definition says which tube has counted it.
    let row = decoded(ctx.get(&parts[0]), ScheduleRow::decode, "schedule");
    sound(row)?.flatten().map_or(Ok(()), |row| count(ctx, row.tube, -1))
}

/// Removes a row at a fire, and counts one schedule less for its tube.
pub(crate) fn remove_fire(ctx: &mut OpContext<'_>, tube: u32, at: Key) -> Result<()> {
    ctx.remove(at);
    count(ctx, tube, -1)
}

/// Counts so many schedules more for a tube. One that was dropped has no count.
pub(crate) fn count(ctx: &mut OpContext<'_>, number: u32, by: i32) -> Result<()> {
    let tube = match query::tube(ctx, number) {
        Err(error) if error.is_not_found() => return Ok(()),
        // The next op that writes it writes what is known of it.
        tube => sound(tube)?.or_else(|| ctx.known.known(number).cloned()),
    };
    if let Some(tube) = tube {
        let schedules = tube.row.schedules.saturating_add_signed(by);
        ctx.set_tube(number, TubeRow { schedules, ..tube.row }, None)?;
    }
    Ok(())
}

/// How many schedules have a tube, by their next fires. Reads all of them.
pub(crate) fn counted(view: &dyn View, tube: u32) -> Result<u32> {
    let (mut rows, mut counted) = (Scan::prefixed(key::fires_of(tube)), 0);
    while rows.next(view)?.is_some() {
        counted += 1;
    }
    Ok(counted)
}

/// Whether fires by this clock are made in this build.
pub(crate) fn is_read(clock: FireClock) -> bool {
    clock == FireClock::Queue || cron::IS_AVAILABLE
}

/// Publishes a change of a schedule, or a fire that was missed.
pub(crate) fn publish(
    ctx: &mut OpContext<'_>,
    name: &str,
    row: &ScheduleRow,
    (cause, message): (Cause, &str),
) {
    let schedule = ScheduleChange {
        name: name.into(),
        tube: row.tube_name.as_str().into(),
        message: message.into(),
    };
    let (setting, stalled, is_adopted) = (None, 0, false);
    ctx.effects().tubes.push(TubeChange {
        number: row.tube,
        row: None,
        cause: Some(cause),
        setting,
        stalled,
        is_adopted,
        schedule: Some(Box::new(schedule)),
    });
}

/// Lower bounds of the first fires of a tube.
pub(crate) fn first_fires(view: &dyn View, tube: u32) -> Result<NextDue> {
    let mut next = NextDue::NONE;
    if view.count(Range::of(Tag::Fire)) == 0 {
        return Ok(next);
    }
    for clock in FireClock::ALL.into_iter().filter(|clock| is_read(*clock)) {
        let first = Scan::prefixed(key::fires_by(tube, clock)).next(view)?;
        let when = first.and_then(|(met, _)| key::of_fire(&met).map(|(_, _, when, _)| when));
        *next.kind_mut(clock.deadline()) = when.unwrap_or(NEVER);
    }
    Ok(next)
}

/// The tubes that do not exist and have fires, with lower bounds of the first ones. A tube whose
/// row is damaged is not among them: it is repaired first.
pub(crate) fn orphans(view: &dyn View) -> Result<Vec<(u32, NextDue)>> {
    let mut orphans = Vec::new();
    if view.count(Range::of(Tag::Fire)) == 0 {
        return Ok(orphans);
    }
    let mut rows = Scan::over(Range::of(Tag::Fire));
    while let Some((met, _)) = rows.next(view)? {
        let Some((tube, ..)) = key::of_fire(&met) else { continue };
        if view.row(&key::tube(tube))?.is_none() {
            orphans.push((tube, first_fires(view, tube)?));
        }
        rows.skip_to(key::end_of(&key::fires_of(tube)));
    }
    Ok(orphans)
}

/// What is known of a schedule.
pub(crate) fn info(view: &dyn View, name: &str, now: Now) -> Result<ScheduleInfo> {
    let StoredSchedule { row, firing } = named(view, name)?;
    let tube = view.get(&key::tube(row.tube));
    let has_tube = sound(tube)?.is_none_or(|tube| tube.is_some());
    let (every, cron, zone) = match &row.timing {
        Timing::Every(interval) => (Some(Duration::from_micros(*interval)), None, None),
        Timing::Cron { text, zone } => (None, Some(text.clone()), Some(zone.clone())),
    };
    let child = row.child;
    let [requires, throttles] = names(child.gates.as_deref());
    let lacks_feature = row.timing.is_wall() && !cron::IS_AVAILABLE;
    let due = if lacks_feature { NEVER } else { firing.due() };
    let clock = if row.timing.is_wall() { now.wall } else { now.queue };
    let left = (due != NEVER).then(|| Duration::from_micros(due.saturating_sub(clock)));
    Ok(ScheduleInfo {
        name: name.to_owned(),
        tube: row.tube_name,
        has_tube,
        every,
        cron,
        zone,
        offset: Duration::from_micros(row.offset),
        missed: row.missed,
        overlap: row.overlap,
        next: (due != NEVER).then(|| instant(due)),
        left,
        is_paused: firing.is_paused,
        lacks_feature,
        is_refused: firing.is_refused,
        children: firing.children,
        missed_fires: firing.missed,
        last: (firing.last > 0).then(|| TaskId::new(firing.last)),
        last_nominal: (firing.last > 0).then(|| instant(firing.last_nominal)),
        created: instant(row.created),
        payload: row.payload,
        priority: child.priority,
        group: child.group,
        requires,
        throttles,
        delay: child.delay,
        ttl: child.ttl,
        ttr: child.ttr,
        kind: child.kind,
        tags: child.tags,
        max_attempts: child.retry.max_attempts,
    })
}

/// The timing of a schedule, and when it fires next; [`NEVER`] while it is paused.
pub(crate) fn next(view: &dyn View, name: &str) -> Result<(Timing, u64)> {
    let schedule = named(view, name)?;
    Ok((schedule.row.timing, schedule.firing.due()))
}

/// The nominal times of these fires, at most so many. It reads no row: a cron text takes time.
pub(crate) fn ahead((timing, next): &(Timing, u64), most: usize) -> Result<Vec<SystemTime>> {
    Ok(timing::ahead(timing, *next, most)?.into_iter().map(instant).collect())
}

/// Where a listing of the schedules of a tube goes on: after this fire of the schedule of this
/// name.
pub(crate) type AfterFire = (u64, String);

/// A page of the schedules of a tube, by their next fires, and where the next one begins. Damaged
/// ones are left out.
pub(crate) fn page_of_tube(
    view: &dyn View,
    tube: u32,
    from: Option<&AfterFire>,
    most: usize,
    now: Now,
) -> Result<(Vec<ScheduleInfo>, Option<AfterFire>)> {
    let (mut met, mut is_more) = (Vec::new(), false);
    for clock in FireClock::ALL {
        let mut rows = Scan::prefixed(key::fires_by(tube, clock));
        if let Some((when, name)) = from {
            rows.skip_to(key::after(&key::fire(tube, clock, *when, name)));
        }
        for read in 0.. {
            let Some((fire, _)) = rows.next(view)? else { break };
            if read == most {
                is_more = true;
                break;
            }
            let (when, name) = match key::of_fire(&fire) {
                Some((.., when, name)) => (when, name.to_owned()),
                None => continue,
            };
            met.push(((when, name), fire));
        }
    }
    met.sort_unstable();
    is_more |= met.len() > most;
    met.truncate(most);
    let mut found = Vec::new();
    for ((_, name), fire) in &met {
        // It may be what is left of a damaged one.
        let is_own = |schedule: &StoredSchedule| schedule.fire_key(name) == *fire;
        if sound(self::find(view, name))?.flatten().is_some_and(|schedule| is_own(&schedule)) {
            found.extend(sound(info(view, name, now))?);
        }
    }
    Ok((found, met.pop().map(|(place, _)| place).filter(|_| is_more)))
}

/// A page of schedules, by their names, and the key where the next one begins. Damaged ones are
/// left out.
pub(crate) fn page(
    view: &dyn View,
    from: &Key,
    most: usize,
    now: Now,
) -> Result<(Vec<ScheduleInfo>, Option<Key>)> {
    let range = Range::of(Tag::Schedule);
    let (mut rows, mut found) = (Scan::over(range), Vec::new());
    rows.skip_to(key::copy(from));
    for _ in 0..most {
        let Some((met, _)) = rows.next(view)? else { return Ok((found, None)) };
        let name = key::name_of_schedule(&met);
        let described = name.map(|name| info(view, name, now)).transpose();
        found.extend(sound(described)?.flatten());
        if found.len() == most {
            return Ok((found, Some(key::after(&met))));
        }
    }
    let next = rows.next(view)?;
    Ok((found, next.map(|(met, _)| met)))
}
