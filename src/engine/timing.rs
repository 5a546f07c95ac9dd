//! When a schedule fires, as pure functions of its timing and the time: the first fire, what a fire
//! that is due makes up for, and the one that follows. Reads no row and no clock.

use crate::format::row::Gap;
use crate::words::clock::{NEVER, Now, micros};
use crate::words::cron::CronText;
use crate::words::error::Result;
use crate::words::limits::{COUNTED_FIRES_MAX, FIRE_AHEAD_MAX, SKIP_LATE_MAX};
use crate::words::schedule::{Missed, Timing};

/// Two fires of a cron text are not closer.
const MINUTE: u64 = 60_000_000;

/// What falls due for so long while other schedules have their turns is made up for later.
const MADE_UP_LATE: u64 = 60 * MINUTE;

/// A timing that fires are asked of. A cron text is read once for many of them.
pub(crate) enum FireTimes {
    Every(u64),
    Cron(Box<CronText>),
}

/// One step of a schedule that is due. It looks for few fires, however many are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FireStep {
    /// How many fires it passes over.
    pub(crate) missed: u64,
    /// The nominal time of the one that is made, if one is.
    pub(crate) fire: Option<u64>,
    /// The nominal time of the next one. It may be due as well.
    pub(crate) next: u64,
    /// How far the fires that are due were looked at.
    pub(crate) gap: Option<Gap>,
}

/// Now by the clock of a timing.
pub(crate) fn now_of(timing: &Timing, now: Now) -> u64 {
    if timing.is_wall() { now.wall } else { now.queue }
}

impl FireTimes {
    /// Reads a timing.
    ///
    /// # Errors
    /// `Invalid` for a cron text that this build cannot read; `Unsupported` for each without the
    /// feature.
    pub(crate) fn of(timing: &Timing) -> Result<Self> {
        Ok(match timing {
            Timing::Every(interval) => Self::Every(*interval),
            Timing::Cron { text, zone } => Self::Cron(Box::new(CronText::read(text, zone)?)),
        })
    }

    /// How often a library was asked since the last call of this.
    pub(crate) fn looks(&self) -> usize {
        match self {
            Self::Every(_) => 0,
            Self::Cron(text) => text.looks(),
        }
    }

    /// The first fire of a schedule that begins at this time; [`NEVER`] if there is none.
    pub(crate) fn first(&self, from: u64) -> u64 {
        match self {
            Self::Every(_) => from,
            Self::Cron(text) => text.after(from.saturating_sub(1)),
        }
    }

    /// The fire after the one of this nominal time.
    pub(crate) fn following(&self, nominal: u64) -> u64 {
        match self {
            Self::Every(interval) => nominal.saturating_add(*interval),
            Self::Cron(text) => text.after(nominal),
        }
    }

    /// The first fire after now of a schedule of which this one, or a later one, is the next.
    pub(crate) fn upcoming(&self, next: u64, now: u64) -> u64 {
        match self {
            _ if next > now => next,
            Self::Every(_) => last_due(self, 0, next, now).next,
            Self::Cron(text) => text.after(now),
        }
    }

    /// Whether what was due when these fires were looked at still is.
    fn is_sound(&self, gap: &Gap, now: u64) -> bool {
        match self {
            Self::Every(_) => false,
            Self::Cron(text) if gap.until == 0 => gap.to <= text.after(now),
            Self::Cron(_) => gap.until <= now,
        }
    }

    /// The first fire of a cron text after so long, if this one is much farther ahead: two fires,
    /// and then a day, lie before it.
    pub(crate) fn before(&self, next: u64, offset: u64, now: u64) -> Option<u64> {
        let Self::Cron(text) = self else { return None };
        let far = |from: u64| from.saturating_add(micros(FIRE_AHEAD_MAX)) < next && next != NEVER;
        if !far(now) {
            return None;
        }
        let first = text.after(now.saturating_add(offset));
        far(text.after(first)).then_some(first)
    }
}

/// Passes over all fires that are due, from this one on. Returns how many are counted already, the
/// next one, and how the rest is passed over if it is due as well.
pub(crate) fn pass(times: &FireTimes, next: u64, now: u64) -> (u64, u64, Option<Gap>) {
    match times {
        _ if next > now => (0, next, None),
        FireTimes::Every(_) => {
            let last = last_due(times, 0, next, now);
            (last.missed + 1, last.next, None)
        }
        FireTimes::Cron(text) => (0, next, Some(Gap::passed(text.after(now)))),
    }
}

/// The next step of a schedule whose next fire is due.
pub(crate) fn step(
    times: &FireTimes,
    missed: Missed,
    (next, gap): (u64, Option<Gap>),
    now: u64,
) -> FireStep {
    // The clock was wrong when the fires that are due were looked at.
    let gap = gap.filter(|gap| times.is_sound(gap, now));
    let step = match (times, missed, gap) {
        (_, Missed::CatchUp(u32::MAX), None) => {
            FireStep { missed: 0, fire: Some(next), next: times.following(next), gap: None }
        }
        (FireTimes::Every(_), Missed::CatchUp(most), _) => last_due(times, most, next, now),
        (FireTimes::Every(_), Missed::Skip | Missed::Coalesce, _) => last_due(times, 0, next, now),
        (FireTimes::Cron(text), missed, Some(gap)) => through(text, kept(missed), (next, gap), now),
        (FireTimes::Cron(text), _, None) => {
            let following = text.after(next);
            if following <= now {
                let until = last_before(text, following, now.saturating_add(1));
                FireStep { missed: 0, fire: None, next, gap: Some(Gap::before(until)) }
            } else {
                FireStep { missed: 0, fire: Some(next), next: following, gap: None }
            }
        }
    };
    match step.fire {
        Some(nominal)
            if missed == Missed::Skip && now.saturating_sub(nominal) > micros(SKIP_LATE_MAX) =>
        {
            FireStep { missed: step.missed + 1, fire: None, ..step }
        }
        _ => step,
    }
}

/// How many of the fires that are due are made.
fn kept(missed: Missed) -> u32 {
    match missed {
        Missed::Skip | Missed::Coalesce => 1,
        Missed::CatchUp(most) => most.saturating_add(1),
    }
}

/// The oldest of the last `most` fires of an interval before the last one that is due.
fn last_due(times: &FireTimes, most: u32, next: u64, now: u64) -> FireStep {
    let FireTimes::Every(interval) = times else {
        return FireStep { missed: 0, fire: None, next, gap: None };
    };
    let due = now.saturating_sub(next) / interval.max(&1);
    let missed = due.saturating_sub(u64::from(most));
    let nominal = next.saturating_add(missed.saturating_mul(*interval));
    let next = nominal.saturating_add(*interval);
    FireStep { missed, fire: Some(nominal), next, gap: None }
}

/// A step through the fires of a cron text that are due: it looks for the oldest one that is made,
/// from the last one back, then passes over those before it, then makes them.
fn through(text: &CronText, kept: u32, (next, gap): (u64, Gap), now: u64) -> FireStep {
    let step = FireStep { missed: 0, fire: None, next, gap: None };
    if gap.found < kept && gap.to > next {
        let to = last_before(text, next, gap.to);
        return FireStep { gap: Some(Gap { to, found: gap.found + 1, ..gap }), ..step };
    }
    if next < gap.to {
        let is_counted = gap.counted < COUNTED_FIRES_MAX;
        let following = if is_counted { text.after(next).min(gap.to) } else { gap.to };
        let goes_on = following < gap.to || gap.to <= gap.until;
        let counted = gap.counted.saturating_add(1);
        let gap = goes_on.then_some(Gap { counted, ..gap });
        return FireStep { missed: u64::from(is_counted), next: following, gap, ..step };
    }
    if next > gap.until {
        return step;
    }
    if next == gap.to && text.after(gap.until).saturating_add(MADE_UP_LATE) <= now {
        // Many more have fallen due since, as on a disk that was full: the last ones are others.
        let until = last_before(text, gap.until, now.saturating_add(1));
        return FireStep { gap: Some(Gap { counted: gap.counted, ..Gap::before(until) }), ..step };
    }
    let following = text.after(next);
    FireStep {
        fire: Some(next),
        next: following,
        gap: (following <= gap.until).then_some(gap),
        ..step
    }
}

/// The last fire before this time; one is at `floor`. It looks back from there farther and farther,
/// then closer and closer: some dozens of times, whatever there is.
fn last_before(text: &CronText, floor: u64, before: u64) -> u64 {
    let (mut low, mut high, mut width) = (floor, before.saturating_sub(1), MINUTE + 1);
    loop {
        let at = before.saturating_sub(width);
        if at <= floor {
            break;
        }
        let fire = text.after(at);
        if fire < before {
            low = fire;
            break;
        }
        (high, width) = (at, width.saturating_mul(2));
    }
    while high.saturating_sub(low) > MINUTE {
        let middle = low + (high - low) / 2;
        match text.after(middle) {
            fire if fire < before => low = fire,
            _ => high = middle,
        }
    }
    loop {
        match text.after(low) {
            fire if fire < before => low = fire,
            _ => return low,
        }
    }
}

/// Up to `most` nominal times from this one on.
pub(crate) fn ahead(timing: &Timing, next: u64, most: usize) -> Result<Vec<u64>> {
    let (mut found, mut next) = (Vec::new(), next);
    if next == NEVER {
        return Ok(found);
    }
    let times = FireTimes::of(timing)?;
    while next != NEVER && found.len() < most {
        found.push(next);
        next = times.following(next);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nominal times that are made, how many are missed, and the next one.
    fn made(missed: Missed, next: u64, now: u64) -> (Vec<u64>, u64, u64) {
        let (mut next, mut fires, mut passed) = (next, Vec::new(), 0);
        while next <= now {
            let step = step(&FireTimes::Every(MINUTE), missed, (next, None), now);
            fires.extend(step.fire.map(|nominal| nominal / MINUTE));
            (next, passed) = (step.next, passed + step.missed);
        }
        (fires, passed, next / MINUTE)
    }

    #[test]
    fn missed_fires_by_each_policy() {
        let at = |minutes: u64| minutes * MINUTE;
        for (missed, now, fires, passed) in [
            (Missed::CatchUp(u32::MAX), at(3), vec![0, 1, 2, 3], 0),
            (Missed::CatchUp(2), at(9), vec![7, 8, 9], 7),
            (Missed::CatchUp(0), at(9), vec![9], 9),
            (Missed::CatchUp(20), at(2), vec![0, 1, 2], 0),
            (Missed::Coalesce, at(9) + 59_999_999, vec![9], 9),
            (Missed::Coalesce, at(0), vec![0], 0),
            (Missed::Skip, at(9), vec![9], 9),
        ] {
            let made = made(missed, 0, now);
            assert_eq!(made, (fires, passed, now / MINUTE + 1), "{missed:?} at {now}");
        }
        let hour = FireTimes::Every(60 * MINUTE);
        let late = |by: u64| step(&hour, Missed::Skip, (0, None), by);
        let expected = FireStep { missed: 0, fire: Some(0), next: 60 * MINUTE, gap: None };
        assert_eq!(late(MINUTE), expected);
        assert_eq!(late(MINUTE + 1), FireStep { missed: 1, fire: None, ..expected });
        assert_eq!(pass(&hour, 5, 4), (0, 5, None));
        assert_eq!(pass(&hour, 5, 120 * MINUTE), (2, 120 * MINUTE + 5, None));
        assert_eq!(hour.upcoming(5, 120 * MINUTE), 120 * MINUTE + 5);
    }

    #[test]
    fn the_ends_of_time_are_no_fires() {
        let long = Timing::Every(NEVER - 1);
        let step = step(&FireTimes::Every(NEVER - 1), Missed::Coalesce, (5, None), 10);
        assert_eq!(step, FireStep { missed: 0, fire: Some(5), next: NEVER, gap: None });
        assert_eq!(ahead(&long, 5, 9).unwrap(), [5]);
        assert_eq!(ahead(&Timing::Every(2), 5, 3).unwrap(), [5, 7, 9]);
    }

    #[cfg(not(feature = "cron"))]
    #[test]
    fn a_cron_text_needs_the_feature() {
        let daily = Timing::Cron { text: "0 9 * * *".into(), zone: "UTC".into() };
        let error = FireTimes::of(&daily).map(drop).unwrap_err();
        assert_eq!(error.kind(), crate::words::error::ErrorKind::Unsupported);
        assert!(error.to_string().contains("feature `cron`"), "{error}");
    }

    /// What was looked at by a clock that was ahead is looked at again, and so is what fell due
    /// during a long stop.
    #[cfg(feature = "cron")]
    #[test]
    fn fires_that_were_looked_at_too_early_or_too_late() {
        let daily = Timing::Cron { text: "0 0 * * *".into(), zone: "UTC".into() };
        let (times, day) = (FireTimes::of(&daily).unwrap(), 24 * 60 * MINUTE);
        let begun = |days: u64| Some(Gap::before(days * day));
        for (missed, expected) in [(Missed::Coalesce, vec![9]), (Missed::CatchUp(1), vec![8, 9])] {
            for gap in [None, begun(5), begun(100), Some(Gap::passed(100 * day))] {
                let (mut at, mut fires) = ((day, gap), Vec::new());
                while at.0 <= 9 * day + MINUTE {
                    let step = step(&times, missed, at, 9 * day + 60 * MINUTE);
                    at = (step.next, step.gap);
                    fires.extend(step.fire.map(|nominal| nominal / day));
                }
                assert_eq!(fires, expected, "{missed:?} {gap:?}");
            }
        }
        let all = |gap: Gap| step(&times, Missed::CatchUp(u32::MAX), (day, Some(gap)), 9 * day);
        assert_eq!(all(Gap::passed(100 * day)).fire, Some(day));
    }

    /// However many are due, a step asks the library a few times.
    #[cfg(feature = "cron")]
    #[test]
    fn each_step_looks_for_few_fires() {
        let year = 365 * 24 * 60 * MINUTE;
        for (text, missed, now) in [
            ("* * * * *", Missed::Coalesce, 10 * year),
            ("* * * 1 *", Missed::Coalesce, year - 1),
            ("0 0 29 2 *", Missed::CatchUp(2), 30 * year),
            ("30 9 * * 1-5", Missed::CatchUp(300), 2 * year),
        ] {
            let read = |zone: &str| Timing::Cron { text: text.into(), zone: zone.into() };
            let times = FireTimes::of(&read("Europe/Berlin")).unwrap();
            let (mut at, mut fires, mut passed) = ((times.first(0), None), Vec::new(), 0);
            let mut steps = 0;
            while at.0 <= now {
                times.looks();
                let step = step(&times, missed, at, now);
                assert!(times.looks() < 100, "{text}");
                at = (step.next, step.gap);
                fires.extend(step.fire);
                (steps, passed) = (steps + 1, passed + step.missed);
            }
            assert_eq!((fires.len(), at.1), (kept(missed) as usize, None), "{text}");
            assert!(passed <= u64::from(COUNTED_FIRES_MAX) && steps < 2000, "{text}: {steps}");
            assert!(fires.windows(2).all(|two| times.following(two[0]) == two[1]), "{text}");
            assert_eq!(fires.last().map(|last| times.following(*last)), Some(at.0), "{text}");
        }
    }
}
