//! The tubes ordered by their first deadlines, for each kind of deadline. Every operation costs
//! the logarithm of the number of tubes with a deadline.

use crate::engine::effects::NextDue;
use crate::format::Deadline;
use crate::words::clock::{NEVER, Now};
use std::collections::BTreeSet;
use std::ops::Bound;

const KINDS: usize = Deadline::ALL.len();

/// Lower bounds of the first deadlines. Each set has a tube at most once.
#[derive(Default)]
pub(crate) struct Deadlines {
    by_kind: [BTreeSet<(u64, u32)>; KINDS],
}

/// The position of a walk over the due tubes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Walk {
    /// The index of the kind in [`Deadline::ALL`].
    kind: usize,
    /// The last entry that was returned from the set of this kind.
    last: Option<(u64, u32)>,
}

impl Deadlines {
    /// Moves a tube from its old bound to a new one.
    pub(crate) fn move_tube(&mut self, tube: u32, old: NextDue, new: NextDue) {
        for (set, what) in self.by_kind.iter_mut().zip(Deadline::ALL) {
            let (old, new) = (old.kind(what), new.kind(what));
            if old == new {
                continue;
            }
            if old != NEVER {
                set.remove(&(old, tube));
            }
            if new != NEVER {
                set.insert((new, tube));
            }
        }
    }

    /// The first deadline of each kind.
    pub(crate) fn first(&self) -> NextDue {
        let mut next = NextDue::NONE;
        for (set, what) in self.by_kind.iter().zip(Deadline::ALL) {
            *next.kind_mut(what) = set.first().map_or(NEVER, |(when, _)| *when);
        }
        next
    }

    /// The next tube whose bound has passed, in the order of the bounds of each kind. A tube whose
    /// bound moves in the meantime may be returned again or be left to the next walk.
    pub(crate) fn next_due(&self, now: Now, walk: &mut Walk) -> Option<u32> {
        loop {
            let (set, what) = self.by_kind.get(walk.kind).zip(Deadline::ALL.get(walk.kind))?;
            let now = what.time_of(now);
            let from = walk.last.map_or(Bound::Unbounded, Bound::Excluded);
            match set.range((from, Bound::Unbounded)).next().filter(|(when, _)| *when <= now) {
                Some(entry) => {
                    walk.last = Some(*entry);
                    return Some(entry.1);
                }
                None => (walk.kind, walk.last) = (walk.kind + 1, None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(when: u64) -> NextDue {
        NextDue::of(Deadline::Delay, when)
    }

    #[test]
    fn a_walk_returns_every_due_tube_once() {
        let mut deadlines = Deadlines::default();
        for tube in 0..100 {
            deadlines.move_tube(tube, NextDue::NONE, delay(u64::from(tube)));
        }
        deadlines.move_tube(7, delay(7), NextDue { ttr: 3, ..delay(70) });
        deadlines.move_tube(9, delay(9), NextDue::NONE);
        let now = Now { queue: 10, wall: 10, lease: 10 };
        let mut walk = Walk::default();
        let met: Vec<u32> = std::iter::from_fn(|| deadlines.next_due(now, &mut walk)).collect();
        assert_eq!(met, [0, 1, 2, 3, 4, 5, 6, 8, 10, 7]);
        assert_eq!(deadlines.first(), NextDue { ttr: 3, ..delay(0) });
    }
}
