//! When a schedule fires, as pure functions of its timing and the time: the first fire, what a fire
//! that is due makes up for, and the one that follows. Reads no row and no clock.

use crate::words::clock::{NEVER, Now, micros};
use crate::words::cron;
use crate::words::error::Result;
use crate::words::limits::{CATCH_UP_MAX, SKIP_LATE_MAX};
use crate::words::schedule::{Missed, Timing};
use std::collections::VecDeque;

/// One step of a schedule that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FireStep {
    /// How many fires it passes over.
    pub(crate) missed: u64,
    /// The nominal time of the one that is made, if one is.
    pub(crate) fire: Option<u64>,
    /// The nominal time of the next one. It may be due as well.
    pub(crate) next: u64,
}

/// Now by the clock of a timing.
pub(crate) fn now_of(timing: &Timing, now: Now) -> u64 {
    if timing.is_wall() { now.wall } else { now.queue }
}

/// The first fire of a schedule that is made now; [`NEVER`] if there is none.
pub(crate) fn first(timing: &Timing, offset: u64, now: Now) -> Result<u64> {
    let from = now_of(timing, now).saturating_add(offset);
    match timing {
        Timing::Every(_) => Ok(from),
        Timing::Cron { text, zone } => match from.checked_sub(1) {
            Some(before) => cron::after(text, zone, before),
            None => cron::after(text, zone, 0),
        },
    }
}

/// The fire after the one of this nominal time.
pub(crate) fn following(timing: &Timing, nominal: u64) -> Result<u64> {
    match timing {
        Timing::Every(interval) => Ok(nominal.saturating_add(*interval)),
        Timing::Cron { text, zone } => cron::after(text, zone, nominal),
    }
}

/// Passes over all fires that are due. Returns how many of them are counted, and the next one.
pub(crate) fn pass(timing: &Timing, next: u64, now: u64) -> Result<(u64, u64)> {
    if next > now {
        return Ok((0, next));
    }
    let step = coalesced(timing, next, now)?;
    Ok((step.missed + 1, step.next))
}

/// The first step of a schedule whose next fire is due.
pub(crate) fn step(timing: &Timing, missed: Missed, next: u64, now: u64) -> Result<FireStep> {
    match missed {
        Missed::Coalesce => coalesced(timing, next, now),
        Missed::Skip => {
            let step = coalesced(timing, next, now)?;
            let late = step.fire.map_or(0, |nominal| now.saturating_sub(nominal));
            if late <= micros(SKIP_LATE_MAX) {
                return Ok(step);
            }
            Ok(FireStep { missed: step.missed + 1, fire: None, ..step })
        }
        Missed::CatchUp(u32::MAX) => {
            Ok(FireStep { missed: 0, fire: Some(next), next: following(timing, next)? })
        }
        Missed::CatchUp(most) => caught_up(timing, most, next, now),
    }
}

/// The last fire that is due.
fn coalesced(timing: &Timing, next: u64, now: u64) -> Result<FireStep> {
    let Timing::Cron { text, zone } = timing else { return caught_up(timing, 0, next, now) };
    let (mut missed, mut last) = (0, next);
    let mut following = cron::after(text, zone, last)?;
    while following <= now && missed < u64::from(CATCH_UP_MAX) {
        (missed, last) = (missed + 1, following);
        following = cron::after(text, zone, last)?;
    }
    if following <= now {
        // More than are counted.
        last = last_of(text, zone, (1, following), now)?.unwrap_or(last);
        following = cron::after(text, zone, last)?;
    }
    Ok(FireStep { missed, fire: Some(last), next: following })
}

/// The oldest of the last `most` fires before the last one that is due.
fn caught_up(timing: &Timing, most: u32, next: u64, now: u64) -> Result<FireStep> {
    match timing {
        Timing::Every(interval) => {
            let due = now.saturating_sub(next) / interval.max(&1);
            let missed = due.saturating_sub(u64::from(most));
            let nominal = next.saturating_add(missed.saturating_mul(*interval));
            let next = nominal.saturating_add(*interval);
            Ok(FireStep { missed, fire: Some(nominal), next })
        }
        Timing::Cron { text, zone } => {
            let kept = most as usize + 1;
            let nominal = last_of(text, zone, (kept, next), now)?.unwrap_or(next);
            let mut missed = u64::from(nominal > next);
            if missed > 0 {
                let mut passed = cron::after(text, zone, next)?;
                while passed < nominal && missed < u64::from(CATCH_UP_MAX) {
                    passed = cron::after(text, zone, passed)?;
                    missed += 1;
                }
            }
            let next = cron::after(text, zone, nominal)?;
            Ok(FireStep { missed, fire: Some(nominal), next })
        }
    }
}

/// The oldest of the last `kept` fires from this one on that are due. Looks at a few more than
/// these, however many there are before them.
fn last_of(text: &str, zone: &str, (kept, first): (usize, u64), now: u64) -> Result<Option<u64>> {
    let mut width = (kept as u64).saturating_mul(1_000_000);
    loop {
        let from = now.saturating_sub(width).max(first);
        let mut met = VecDeque::with_capacity(kept + 1);
        let mut fire = if from == first { first } else { cron::after(text, zone, from)? };
        while fire <= now {
            met.push_back(fire);
            if met.len() > kept {
                met.pop_front();
            }
            fire = cron::after(text, zone, fire)?;
        }
        if met.len() == kept || from == first {
            return Ok(met.front().copied());
        }
        width = width.saturating_mul(2);
    }
}

/// Up to `most` nominal times from this one on.
pub(crate) fn ahead(timing: &Timing, next: u64, most: usize) -> Result<Vec<u64>> {
    let (mut times, mut next) = (Vec::new(), next);
    while next != NEVER && times.len() < most {
        times.push(next);
        next = following(timing, next)?;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000;

    /// The nominal times that are made, how many are missed, and the next one.
    fn made(missed: Missed, next: u64, now: u64) -> (Vec<u64>, u64, u64) {
        let (mut next, mut fires, mut passed) = (next, Vec::new(), 0);
        while next <= now {
            let step = step(&Timing::Every(MINUTE), missed, next, now).unwrap();
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
        let hour = Timing::Every(60 * MINUTE);
        let late = |by: u64| step(&hour, Missed::Skip, 0, by).unwrap();
        let expected = FireStep { missed: 0, fire: Some(0), next: 60 * MINUTE };
        assert_eq!(late(MINUTE), expected);
        assert_eq!(late(MINUTE + 1), FireStep { missed: 1, fire: None, ..expected });
        assert_eq!(pass(&hour, 5, 4).unwrap(), (0, 5));
        assert_eq!(pass(&hour, 5, 120 * MINUTE).unwrap(), (2, 120 * MINUTE + 5));
    }

    #[test]
    fn the_ends_of_time_are_no_fires() {
        let long = Timing::Every(NEVER - 1);
        let step = step(&long, Missed::Coalesce, 5, 10).unwrap();
        assert_eq!(step, FireStep { missed: 0, fire: Some(5), next: NEVER });
        assert_eq!(ahead(&long, 5, 9).unwrap(), [5]);
        assert_eq!(ahead(&Timing::Every(2), 5, 3).unwrap(), [5, 7, 9]);
    }
}
