//! The tubes whose takers wait for slots of throttles, each throttle's in a line, and the slots
//! that are kept for them. A slot that is left goes to the first tube of the line that can use it,
//! which then goes to the end: busy takers of one tube do not take all slots before those of
//! another wake. A tube enters a line when one of its takers finds no free slot, or would be woken
//! and none is free; one that has no use for a slot leaves it. All of it is lost with the process,
//! as the takers are.

use crate::engine::effects::SlotSteps;
use crate::format::key::Run;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The lines by the runs of the throttles. Usually none.
#[derive(Debug, Default)]
pub(crate) struct SlotLines {
    lines: BTreeMap<Run, SlotLine>,
    /// The tubes with the throttles of which slots are kept for them: a take asks for those of its
    /// tube, and there may be a thousand throttles.
    keeping: BTreeSet<(u32, Run)>,
    /// The throttles whose free slots are still to be offered.
    pub(crate) unsettled: BTreeSet<Run>,
}

/// The line of one throttle.
#[derive(Debug, Default)]
struct SlotLine {
    tubes: VecDeque<u32>,
    /// The same, to find them.
    waiting: BTreeSet<u32>,
    /// The slots that are kept, by tube; each for a taker that was woken.
    kept: BTreeMap<u32, u64>,
    all_kept: u64,
}

impl SlotLines {
    /// Whether any tube waits, or has a slot that is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A tube enters a line at its end, unless it stands there.
    pub(crate) fn enter(&mut self, throttle: Run, tube: u32) {
        let line = self.lines.entry(throttle).or_default();
        if line.waiting.insert(tube) {
            line.tubes.push_back(tube);
        }
    }

    /// Takes the first tube out of a line.
    pub(crate) fn next(&mut self, throttle: Run) -> Option<u32> {
        let line = self.lines.get_mut(&throttle)?;
        let tube = line.tubes.pop_front()?;
        line.waiting.remove(&tube);
        self.drop_if_empty(throttle);
        Some(tube)
    }

    /// Puts a tube back to where it was taken out.
    pub(crate) fn put_back(&mut self, throttle: Run, tube: u32) {
        let line = self.lines.entry(throttle).or_default();
        if line.waiting.insert(tube) {
            line.tubes.push_front(tube);
        }
    }

    /// Follows what a step says.
    pub(crate) fn follow(&mut self, steps: &SlotSteps) {
        for (throttle, tube, tasks) in &steps.taken {
            self.taken(*throttle, *tube, *tasks);
        }
        for (tube, tasks) in &steps.served {
            self.serve(*tube, *tasks, &steps.taken);
        }
        for tube in &steps.unused {
            self.give_up(*tube);
        }
        for (throttle, tube) in &steps.closed {
            self.enter(*throttle, *tube);
        }
        let left = steps.left.iter().filter(|throttle| self.lines.contains_key(throttle));
        self.unsettled.extend(left);
    }

    /// Keeps a slot for a tube.
    pub(crate) fn keep(&mut self, throttle: Run, tube: u32) {
        let line = self.lines.entry(throttle).or_default();
        *line.kept.entry(tube).or_default() += 1;
        line.all_kept += 1;
        self.keeping.insert((tube, throttle));
    }

    /// Keeps up to so many slots less for a tube. Returns whether it had one.
    fn keep_less(&mut self, throttle: Run, tube: u32, slots: u64) -> bool {
        let Some(line) = self.lines.get_mut(&throttle) else { return false };
        let Some(kept) = line.kept.get_mut(&tube) else { return false };
        let given_up = slots.min(*kept);
        *kept -= given_up;
        line.all_kept -= given_up;
        if *kept == 0 {
            line.kept.remove(&tube);
            self.keeping.remove(&(tube, throttle));
            self.drop_if_empty(throttle);
        }
        true
    }

    /// The throttles of which slots are kept for a tube.
    fn kept_for(&self, tube: u32) -> impl Iterator<Item = Run> {
        let from = self.keeping.range((tube, Run(0))..);
        from.take_while(move |(of, _)| *of == tube).map(|(_, throttle)| *throttle)
    }

    /// How many slots are kept for a tube.
    pub(crate) fn kept(&self, throttle: Run, tube: u32) -> u64 {
        let line = self.lines.get(&throttle);
        line.and_then(|line| line.kept.get(&tube)).copied().unwrap_or(0)
    }

    /// How many slots are kept for the other tubes.
    pub(crate) fn kept_for_others(&self, throttle: Run, tube: u32) -> u64 {
        let all = self.lines.get(&throttle).map_or(0, |line| line.all_kept);
        all - self.kept(throttle, tube)
    }

    /// The tube has taken so many tasks.
    pub(crate) fn taken(&mut self, throttle: Run, tube: u32, tasks: usize) {
        self.keep_less(throttle, tube, u64::try_from(tasks).unwrap_or(u64::MAX));
    }

    /// Rows were mended: slots of any throttle may be free.
    pub(crate) fn doubt(&mut self) {
        self.unsettled.extend(self.lines.keys());
    }

    /// Whether any slot is kept for a tube.
    pub(crate) fn keeps(&self, tube: u32) -> bool {
        self.kept_for(tube).next().is_some()
    }

    /// So many takers of the tube have taken tasks: the slots that were kept for them and that
    /// none of these tasks needs are to be offered.
    fn serve(&mut self, tube: u32, tasks: usize, taken: &[(Run, u32, usize)]) {
        let tasks = u64::try_from(tasks).unwrap_or(u64::MAX);
        for throttle in self.kept_for(tube).collect::<Vec<_>>() {
            let is_used = taken.iter().any(|(used, of, _)| (*used, *of) == (throttle, tube));
            if !is_used && self.keep_less(throttle, tube, tasks) {
                self.unsettled.insert(throttle);
            }
        }
    }

    /// The slots that are kept for a tube are free again, and are to be offered.
    pub(crate) fn give_up(&mut self, tube: u32) {
        for throttle in self.kept_for(tube).collect::<Vec<_>>() {
            if self.keep_less(throttle, tube, u64::MAX) {
                self.unsettled.insert(throttle);
            }
        }
    }

    /// The throttle was removed.
    pub(crate) fn remove(&mut self, throttle: Run) {
        for tube in self.lines.remove(&throttle).into_iter().flat_map(|line| line.kept.into_keys())
        {
            self.keeping.remove(&(tube, throttle));
        }
        self.unsettled.remove(&throttle);
    }

    fn drop_if_empty(&mut self, throttle: Run) {
        let line = self.lines.get(&throttle);
        if line.is_some_and(|line| line.tubes.is_empty() && line.kept.is_empty()) {
            self.lines.remove(&throttle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tubes_stand_once_and_in_their_order() {
        let (mut lines, throttle) = (SlotLines::default(), Run(7));
        [1, 2, 1, 3].into_iter().for_each(|tube| lines.enter(throttle, tube));
        assert_eq!(lines.next(throttle), Some(1));
        lines.enter(throttle, 1);
        let rest: Vec<_> = std::iter::from_fn(|| lines.next(throttle)).collect();
        assert_eq!(rest, [2, 3, 1]);
        assert!(lines.is_empty() && lines.next(Run(8)).is_none());
    }

    #[test]
    fn kept_slots_are_used_or_given_up() {
        let (mut lines, throttle, other) = (SlotLines::default(), Run(7), Run(8));
        for (run, tube) in [(throttle, 1), (throttle, 1), (throttle, 2), (other, 1)] {
            lines.keep(run, tube);
        }
        let others = |lines: &SlotLines, tube| lines.kept_for_others(throttle, tube);
        assert_eq!((others(&lines, 1), others(&lines, 2), others(&lines, 3)), (1, 2, 3));
        lines.taken(throttle, 1, 1);
        lines.taken(throttle, 3, 1);
        assert_eq!((others(&lines, 1), others(&lines, 2)), (1, 1));
        lines.give_up(1);
        assert_eq!(lines.unsettled, [throttle, other].into());
        assert_eq!(lines.kept_for_others(throttle, 3), 1);
        assert!(lines.keeps(2) && !lines.keeps(1));
        lines.taken(throttle, 2, 5);
        assert!(lines.is_empty());
        lines.keep(throttle, 1);
        lines.remove(throttle);
        assert!(lines.is_empty() && lines.unsettled == [other].into());
        assert!(lines.keeping.is_empty());
    }
}
