//! The verbs on schedules: made or made again, changed, paused, tagged, fired by hand, removed.

use crate::engine::context::{Op, OpContext, sound};
use crate::engine::fire;
use crate::engine::schedules::{self, StoredSchedule, publish, write};
use crate::engine::set_back::{go_ahead, set_back};
use crate::engine::timing::{self, FireTimes};
use crate::format::View;
use crate::format::feature::SCHEDULES;
use crate::format::key;
use crate::format::row::{ChildTerms, FiringRow, ScheduleRow};
use crate::words::clock::NEVER;
use crate::words::cron::CronText;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{CRON_BYTES_MAX, FIRE_KEYS_MAX};
use crate::words::numbers::Numbers;
use crate::words::schedule::{Missed, Overlap, Timing, check_missed, check_name, check_payload};
use crate::words::tags::{check as check_tags, check_given};
use crate::words::task::{Cause, TaskId};

/// What a call says of a schedule; what it does not say is the default, or stays as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScheduleTerms {
    /// The tube of its children, with its name.
    pub(crate) tube: Option<(u32, String)>,
    /// Microseconds.
    pub(crate) every: Option<u64>,
    pub(crate) cron: Option<String>,
    pub(crate) zone: Option<String>,
    /// Microseconds.
    pub(crate) offset: Option<u64>,
    pub(crate) missed: Option<Missed>,
    pub(crate) overlap: Option<Overlap>,
    pub(crate) child: ChildTerms,
    /// With codec and version.
    pub(crate) payload: Option<(Vec<u8>, u8, u16)>,
}

impl ScheduleTerms {
    /// When it fires, with this timing before.
    fn timing(&self, before: Option<&Timing>) -> Result<Timing> {
        let invalid = |text: &str| Err(Error::new(ErrorKind::Invalid).because(text));
        let Self { every, cron, zone, .. } = self;
        let (text, zone) = match (every, cron, zone, before) {
            (Some(_), Some(_), _, _) => return invalid("set either every or cron, not both"),
            (Some(_), None, Some(_), _) => return invalid("a zone without a cron text"),
            (Some(0), ..) => return invalid("an interval must be at least one microsecond"),
            (Some(NEVER), ..) => return invalid("an interval without end never fires again"),
            (Some(every), ..) => return Ok(Timing::Every(*every)),
            (None, Some(text), zone, before) => {
                let zone = zone.clone().unwrap_or_else(|| match before {
                    Some(Timing::Cron { zone, .. }) => zone.clone(),
                    _ => "UTC".to_owned(),
                });
                (text.clone(), zone)
            }
            (None, None, Some(zone), Some(Timing::Cron { text, .. })) => {
                (text.clone(), zone.clone())
            }
            (None, None, Some(_), _) => return invalid("a zone without a cron text"),
            (None, None, None, Some(timing)) => return Ok(timing.clone()),
            (None, None, None, None) => {
                return invalid("it never fires; say every how often, or give a cron text");
            }
        };
        if text.len() > CRON_BYTES_MAX || zone.len() > CRON_BYTES_MAX {
            return invalid("a cron text and a zone take at most 255 bytes");
        }
        CronText::read(&text, &zone)?;
        Ok(Timing::Cron { text, zone })
    }

    /// The row with these terms.
    fn over(&self, before: Option<&ScheduleRow>, now: u64) -> Result<ScheduleRow> {
        let missing = || {
            let text = "no tube for its children; name one with `to`";
            Error::new(ErrorKind::Invalid).because(text)
        };
        let old = |row: &ScheduleRow| (row.tube, row.tube_name.clone());
        let (tube, tube_name) =
            self.tube.clone().or_else(|| before.map(old)).ok_or_else(missing)?;
        let old = |row: &ScheduleRow| (row.payload.clone(), row.codec, row.version);
        let payload = self.payload.clone().or_else(|| before.map(old));
        let (payload, codec, version) = payload.unwrap_or_default();
        check_payload(payload.len())?;
        let missed = self.missed.or(before.map(|row| row.missed)).unwrap_or_default();
        check_missed(missed)?;
        let child = match before {
            Some(row) => with(&row.child, &self.child),
            None => self.child.clone(),
        };
        Ok(ScheduleRow {
            tube,
            tube_name,
            timing: self.timing(before.map(|row| &row.timing))?,
            offset: self.offset.or(before.map(|row| row.offset)).unwrap_or_default(),
            missed,
            overlap: self.overlap.or(before.map(|row| row.overlap)).unwrap_or_default(),
            created: before.map_or(now, |row| row.created),
            codec,
            version,
            child,
            payload,
        })
    }
}

/// What children are put with after a change.
fn with(before: &ChildTerms, given: &ChildTerms) -> ChildTerms {
    let text = |given: &Option<String>, before: &Option<String>| given.clone().or(before.clone());
    let mut details = before.details.clone();
    details.extend(given.details.clone());
    ChildTerms {
        priority: given.priority.or(before.priority),
        group: text(&given.group, &before.group),
        gates: text(&given.gates, &before.gates),
        ttl: given.ttl.or(before.ttl),
        ttr: given.ttr.or(before.ttr),
        delay: given.delay.or(before.delay),
        kind: text(&given.kind, &before.kind),
        book: text(&given.book, &before.book),
        details,
        retry: given.retry.or(before.retry),
        tags: if given.tags.is_empty() { before.tags.clone() } else { given.tags.clone() },
        later: before.later.clone(),
    }
}

/// Refuses children that their tube would refuse.
fn check(ctx: &OpContext<'_>, name: &str, row: &ScheduleRow) -> Result<()> {
    let tube = ctx.tube(row.tube)?;
    if tube.row.options.placement.is_some() {
        let text = "a schedule in a tube with a placement, which no fire could ask";
        return Err(Error::new(ErrorKind::Unsupported).because(text));
    }
    let (_, key) = fire::next_key(name, 0);
    fire::with_child(row, None, &key, |task| {
        fire::of_schedule(row.tube, &[], u64::MAX).check(&tube, task)
    })
}

/// Makes a schedule, or makes it again.
pub(crate) struct MakeSchedule<'a> {
    pub(crate) name: &'a str,
    pub(crate) terms: &'a ScheduleTerms,
}

impl Op for MakeSchedule<'_> {
    /// Whether it is new.
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        self.terms.tube.as_ref().map(|(tube, _)| *tube)
    }

    fn adds(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        check_name(self.name)?;
        let now = ctx.now.queue;
        // A damaged one is made as if it were new.
        let before = sound(schedules::find(ctx, self.name))?.flatten();
        let created = before.as_ref().map_or(now, |before| before.row.created);
        let row = self.terms.over(None, created)?;
        check(ctx, self.name, &row)?;
        let is_same = |old: &ScheduleRow| old.timing == row.timing;
        let firing = match &before {
            Some(before) if is_same(&before.row) && before.firing.next != NEVER => {
                let (mut firing, times) = (changed(before, &row), FireTimes::of(&row.timing)?);
                set_back(ctx, &row, (&times, &mut firing));
                firing
            }
            Some(before) => FiringRow {
                next: first(ctx, &row, row.offset)?,
                is_fresh: true,
                gap: None,
                ahead: None,
                ..changed(before, &row)
            },
            None => FiringRow::first(first(ctx, &row, row.offset)?),
        };
        let after = StoredSchedule { row, firing };
        if before.as_ref() == Some(&after) {
            return Ok(false);
        }
        ctx.needs(&SCHEDULES);
        if before.is_none() {
            schedules::forget_damaged(ctx, self.name)?;
        }
        write(ctx, self.name, before.as_ref(), &after)?;
        publish(ctx, self.name, &after.row, (Cause::SetSchedule, ""));
        Ok(before.is_none())
    }
}

/// The first fire from so long after now on.
///
/// # Errors
/// `Invalid` for a cron text that never fires.
fn first(ctx: &OpContext<'_>, row: &ScheduleRow, offset: u64) -> Result<u64> {
    let from = timing::now_of(&row.timing, ctx.now).saturating_add(offset);
    let next = FireTimes::of(&row.timing)?.first(from);
    if next == NEVER {
        let text = "it never fires; check the days of its cron text, and the offset";
        return Err(Error::new(ErrorKind::Invalid).because(text));
    }
    Ok(next)
}

/// How far a schedule has come that gets this row.
fn changed(before: &StoredSchedule, row: &ScheduleRow) -> FiringRow {
    let old = &before.row;
    let is_refused = before.firing.is_refused && FireTimes::of(&row.timing).is_err();
    let mut firing = FiringRow { is_refused, ..before.firing.clone() };
    if (&old.timing, old.missed) != (&row.timing, row.missed) {
        firing.gap = None;
    }
    if old.timing != row.timing {
        firing.ahead = None;
    }
    if old.tube != row.tube && firing.last > 0 {
        let last = firing.last_tube.unwrap_or(old.tube);
        firing.last_tube = Some(last).filter(|last| *last != row.tube);
    }
    firing
}

/// Changes a schedule.
pub(crate) struct UpdateSchedule<'a> {
    /// The tube that it has.
    pub(crate) tube: Option<u32>,
    pub(crate) name: &'a str,
    pub(crate) terms: &'a ScheduleTerms,
}

impl Op for UpdateSchedule<'_> {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        self.tube
    }

    fn adds(&self) -> bool {
        true
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        let before = schedules::named(ctx, self.name)?;
        let row = self.terms.over(Some(&before.row), before.row.created)?;
        check(ctx, self.name, &row)?;
        let firing = changed(&before, &row);
        let firing = match (&before.row.timing, &row.timing) {
            (old, new) if old == new && firing.next != NEVER => firing,
            (Timing::Every(old), Timing::Every(new)) if firing.next != NEVER => {
                // By the difference. The first fire is not before the offset.
                let next = firing.next.saturating_sub(*old).saturating_add(*new);
                let next = if firing.is_fresh { next.max(firing.next) } else { next };
                FiringRow { next, ..firing }
            }
            // One that never fires again stays so, unless its timing changes.
            (old, new) if old == new => firing,
            _ => FiringRow { next: first(ctx, &row, 0)?, is_fresh: true, ..firing },
        };
        let after = StoredSchedule { row, firing };
        if before == after {
            return Ok(());
        }
        write(ctx, self.name, Some(&before), &after)?;
        publish(ctx, self.name, &after.row, (Cause::SetSchedule, ""));
        Ok(())
    }
}

/// Pauses a schedule, or resumes it.
pub(crate) struct PauseSchedule<'a> {
    pub(crate) tube: Option<u32>,
    pub(crate) name: &'a str,
    pub(crate) is_paused: bool,
}

impl Op for PauseSchedule<'_> {
    /// Whether it was not so before.
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        self.tube
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let before = schedules::named(ctx, self.name)?;
        if before.firing.is_paused == self.is_paused {
            return Ok(false);
        }
        let mut after = before.clone();
        after.firing.is_paused = self.is_paused;
        if !self.is_paused {
            let now = timing::now_of(&after.row.timing, ctx.now);
            let (firing, times) = (&mut after.firing, FireTimes::of(&after.row.timing)?);
            (firing.is_refused, firing.gap) = (false, None);
            go_ahead(firing, &times, now);
            // Those of the pause are not missed: none was due.
            firing.next = match firing.next {
                NEVER => times.first(now),
                next => times.upcoming(next, now),
            };
            set_back(ctx, &after.row, (&times, firing));
        }
        write(ctx, self.name, Some(&before), &after)?;
        publish(ctx, self.name, &after.row, (Cause::SetSchedule, ""));
        Ok(true)
    }
}

/// Adds tags to those of its children, or removes them. Children that are there stay as they are.
pub(crate) struct TagSchedule<'a> {
    pub(crate) tube: Option<u32>,
    pub(crate) name: &'a str,
    pub(crate) tags: &'a [&'a str],
    pub(crate) is_added: bool,
}

impl Op for TagSchedule<'_> {
    type Done = ();

    fn tube(&self) -> Option<u32> {
        self.tube
    }

    fn adds(&self) -> bool {
        self.is_added
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<()> {
        match self.is_added {
            true => check_tags(self.tags)?,
            false => check_given(self.tags)?,
        }
        let before = schedules::named(ctx, self.name)?;
        let mut after = before.clone();
        let stored = &mut after.row.child.tags;
        match self.is_added {
            true => {
                for tag in self.tags {
                    if !stored.iter().any(|other| other == tag) {
                        stored.push((*tag).to_owned());
                    }
                }
                check_tags(&stored.iter().map(String::as_str).collect::<Vec<_>>())?;
            }
            false => stored.retain(|tag| !self.tags.contains(&tag.as_str())),
        }
        if before == after {
            return Ok(());
        }
        write(ctx, self.name, Some(&before), &after)?;
        publish(ctx, self.name, &after.row, (Cause::SetSchedule, ""));
        Ok(())
    }
}

/// Makes a child now, whatever the time of the next fire, which stands.
pub(crate) struct RunSchedule<'a> {
    pub(crate) tube: Option<u32>,
    pub(crate) name: &'a str,
}

impl Op for RunSchedule<'_> {
    type Done = TaskId;

    fn tube(&self) -> Option<u32> {
        self.tube
    }

    fn numbers(&self) -> Numbers {
        Numbers::of_ids(1)
    }

    fn adds(&self) -> bool {
        true
    }

    fn in_doubt(&self, done: &TaskId) -> Vec<TaskId> {
        vec![*done]
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<TaskId> {
        let before = schedules::named(ctx, self.name)?;
        let mut after = before.clone();
        let nominal = timing::now_of(&before.row.timing, ctx.now);
        let mut made = fire::make_child(ctx, self.name, &mut after, nominal)?;
        for _ in 1..FIRE_KEYS_MAX {
            if !made.as_ref().is_err_and(|error| error.kind() == ErrorKind::KeyExists) {
                break;
            }
            made = fire::make_child(ctx, self.name, &mut after, nominal)?;
        }
        let id = made?;
        write(ctx, self.name, Some(&before), &after)?;
        Ok(id)
    }
}

/// Removes a schedule. Its children stay. Returns whether there was one.
pub(crate) struct RemoveSchedule<'a> {
    pub(crate) tube: Option<u32>,
    pub(crate) name: &'a str,
}

impl Op for RemoveSchedule<'_> {
    type Done = bool;

    fn tube(&self) -> Option<u32> {
        self.tube
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<bool> {
        let stored = sound(schedules::find(ctx, self.name))?.flatten();
        if let Some(stored) = &stored {
            publish(ctx, self.name, &stored.row, (Cause::RemoveSchedule, ""));
            schedules::count(ctx, stored.row.tube, -1)?;
        } else {
            schedules::forget_damaged(ctx, self.name)?;
        }
        let mut is_there = false;
        // Of a damaged one, what is left.
        for key in [key::schedule(self.name), key::firing(self.name)] {
            if ctx.row(&key)?.is_some() {
                ctx.remove(key);
                is_there = true;
            }
        }
        if let Some(stored) = stored {
            ctx.remove(stored.fire_key(self.name));
        }
        Ok(is_there)
    }
}
