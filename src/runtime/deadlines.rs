//! The tubes ordered by their first deadlines, for each of the three clocks. Every operation costs
//! the logarithm of the number of tubes with a deadline.

use crate::engine::effects::NextDue;
use crate::words::clock::{NEVER, Now};
use std::collections::BTreeSet;
use std::ops::Bound;

const CLOCKS: usize = 3;

/// Lower bounds of the first deadlines. Each set has a tube at most once.
#[derive(Default)]
pub(crate) struct Deadlines {
    by_clock: [BTreeSet<(u64, u32)>; CLOCKS],
}

/// The position of a walk over the due tubes.
#[derive(Default)]
pub(crate) struct Walk {
    clock: usize,
    /// The last entry that was returned from the set of this clock.
    last: Option<(u64, u32)>,
}

fn by_clock(next: NextDue) -> [u64; CLOCKS] {
    [next.queue, next.wall, next.lease]
}

impl Deadlines {
    /// Moves a tube from its old bound to a new one.
    pub(crate) fn move_tube(&mut self, tube: u32, old: NextDue, new: NextDue) {
        let moves = by_clock(old).into_iter().zip(by_clock(new));
        for (set, (old, new)) in self.by_clock.iter_mut().zip(moves) {
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

    /// The first deadline by each clock.
    pub(crate) fn first(&self) -> NextDue {
        let [queue, wall, lease] = &self.by_clock;
        let first = |set: &BTreeSet<(u64, u32)>| set.first().map_or(NEVER, |(when, _)| *when);
        NextDue { queue: first(queue), wall: first(wall), lease: first(lease) }
    }

    /// The next tube whose bound has passed, in the order of the bounds of each clock. A tube whose
    /// bound moves in the meantime may be returned again or be left to the next walk.
    pub(crate) fn next_due(&self, now: Now, walk: &mut Walk) -> Option<u32> {
        let nows = [now.queue, now.wall, now.lease];
        loop {
            let (set, now) = (self.by_clock.get(walk.clock)?, nows.get(walk.clock)?);
            let from = walk.last.map_or(Bound::Unbounded, Bound::Excluded);
            match set.range((from, Bound::Unbounded)).next().filter(|(when, _)| when <= now) {
                Some(entry) => {
                    walk.last = Some(*entry);
                    return Some(entry.1);
                }
                None => (walk.clock, walk.last) = (walk.clock + 1, None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(when: u64) -> NextDue {
        NextDue { queue: when, ..NextDue::NONE }
    }

    #[test]
    fn a_walk_returns_every_due_tube_once() {
        let mut deadlines = Deadlines::default();
        for tube in 0..100 {
            deadlines.move_tube(tube, NextDue::NONE, queue(u64::from(tube)));
        }
        deadlines.move_tube(7, queue(7), NextDue { lease: 3, ..queue(70) });
        deadlines.move_tube(9, queue(9), NextDue::NONE);
        let now = Now { queue: 10, wall: 10, lease: 10 };
        let mut walk = Walk::default();
        let met: Vec<u32> = std::iter::from_fn(|| deadlines.next_due(now, &mut walk)).collect();
        assert_eq!(met, [0, 1, 2, 3, 4, 5, 6, 8, 10, 7]);
        assert_eq!(deadlines.first(), NextDue { lease: 3, ..queue(0) });
    }
}
