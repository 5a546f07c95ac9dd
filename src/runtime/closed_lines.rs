//! Behind which gates of their tasks the lines of each tube stand, and which of these gates may be
//! open now: what a take of the tube has to look at. Derived from the rows: an opening reads which
//! gates there are, and takes each for one that may be open. A gate is named as in the name of a
//! line, see `words::task_gates`.
//!
//! A throttle that is known to be closed for a tube has the tube in its slot line, so that the tube
//! is told when a slot of it is free: see `runtime::slot_lines`.

use crate::engine::effects::{LineSteps, LookedBehind};
use crate::format::key::Run;
use crate::words::clock::NEVER;
use crate::words::gates::NamedGate;
use crate::words::task_gates;
use std::collections::{BTreeMap, BTreeSet};

/// The gates and the tubes. Usually none.
#[derive(Debug, Default)]
pub(crate) struct ClosedLines {
    /// By tube.
    of_tubes: BTreeMap<u32, OfTube>,
    /// The tubes behind a gate.
    tubes: BTreeMap<String, Behind>,
    /// The names of throttles, by their runs.
    throttles: BTreeMap<Run, String>,
}

/// The tubes behind one gate.
#[derive(Debug, Default)]
struct Behind {
    all: BTreeSet<u32>,
    /// Those for which it is known to be closed. Each came here by a look of a take, so that the
    /// walk over them at the next slot that is left costs no more than those looks.
    closed: BTreeSet<u32>,
    /// The runs that the throttle has had, if it is one.
    runs: BTreeSet<Run>,
}

/// What is known of the lines of one tube.
#[derive(Debug)]
struct OfTube {
    gates: BTreeSet<String>,
    /// Those of them that may be open.
    may_open: BTreeSet<String>,
    /// When the limit of a throttle among them ends, in queue time, or earlier.
    end: u64,
}

impl Default for OfTube {
    fn default() -> Self {
        Self { gates: BTreeSet::new(), may_open: BTreeSet::new(), end: NEVER }
    }
}

impl ClosedLines {
    pub(crate) fn is_empty(&self) -> bool {
        self.of_tubes.is_empty()
    }

    /// Whether lines of the tube stand behind any gate.
    pub(crate) fn has(&self, tube: u32) -> bool {
        self.of_tubes.contains_key(&tube)
    }

    /// The gates of a tube that may be open.
    pub(crate) fn opened(&self, tube: u32) -> impl Iterator<Item = &String> {
        self.of_tubes.get(&tube).into_iter().flat_map(|it| &it.may_open)
    }

    /// The throttles behind which lines of the tube stand, by their gates.
    pub(crate) fn throttles_of(&self, tube: u32) -> Vec<String> {
        let Some(of_tube) = self.of_tubes.get(&tube) else { return Vec::new() };
        // They come after all conditions.
        let first = task_gates::text(NamedGate::Throttle(""));
        of_tube.gates.range(first..).cloned().collect()
    }

    /// When the limit of a throttle ends behind which lines of the tube stand, or earlier.
    pub(crate) fn end(&self, tube: u32) -> u64 {
        self.of_tubes.get(&tube).map_or(NEVER, |it| it.end)
    }

    /// The tubes behind a gate, from this number on.
    pub(crate) fn behind(&self, gate: NamedGate<'_>, from: u32) -> impl Iterator<Item = u32> {
        let tubes = self.tubes.get(&task_gates::text(gate));
        tubes.into_iter().flat_map(move |tubes| tubes.all.range(from..).copied())
    }

    /// The name of the throttle of this run, if lines of the tube stand behind it.
    pub(crate) fn throttle(&self, tube: u32, throttle: Run) -> Option<&str> {
        let name = self.throttles.get(&throttle)?;
        let gate = task_gates::text(NamedGate::Throttle(name));
        self.of_tubes.get(&tube)?.gates.contains(&gate).then_some(name)
    }

    /// A line of the tube stands behind this gate. It is the throttle of this run, if it is one.
    pub(crate) fn enter(&mut self, tube: u32, gate: &str, run: Option<Run>) {
        let of_tube = self.of_tubes.entry(tube).or_default();
        of_tube.gates.insert(gate.to_owned());
        let behind = self.tubes.entry(gate.to_owned()).or_default();
        behind.all.insert(tube);
        if let (Some(run), NamedGate::Throttle(name)) = (run, task_gates::named(gate)) {
            behind.runs.insert(run);
            self.throttles.insert(run, name.to_owned());
        }
        if !of_tube.may_open.contains(gate) {
            behind.closed.insert(tube);
        }
    }

    /// Follows what a step says, in which slots of these throttles were left. What may be open is
    /// noted last; what a look has found is noted before what is put behind a gate after it.
    pub(crate) fn follow(&mut self, steps: &LineSteps, left: &[Run]) {
        steps.none.iter().for_each(|tube| self.forget(*tube));
        for (tube, gate, looked) in &steps.looked {
            match looked {
                // If a step after it has put another one there, that is noted now.
                LookedBehind::IsEmpty => self.leave(*tube, gate),
                LookedBehind::IsClosed(run) => self.close(*tube, gate, *run),
            }
        }
        for (tube, gate, run) in &steps.closed {
            self.close(*tube, gate, *run);
        }
        for (tube, end) in &steps.next_end {
            self.set_end(*tube, |_| *end);
        }
        for (tube, end) in &steps.ends {
            self.set_end(*tube, |known| known.min(*end));
        }
        for (tube, gate) in &steps.opened {
            self.open(*tube, gate);
        }
        for throttle in left {
            self.leave_slot(*throttle);
        }
    }

    fn set_end(&mut self, tube: u32, end: impl FnOnce(u64) -> u64) {
        if let Some(of_tube) = self.of_tubes.get_mut(&tube) {
            of_tube.end = end(of_tube.end);
        }
    }

    fn close(&mut self, tube: u32, gate: &str, run: Option<Run>) {
        self.enter(tube, gate, run);
        if let Some(of_tube) = self.of_tubes.get_mut(&tube)
            && of_tube.may_open.remove(gate)
            && let Some(behind) = self.tubes.get_mut(gate)
        {
            behind.closed.insert(tube);
        }
    }

    fn open(&mut self, tube: u32, gate: &str) {
        let of_tube = self.of_tubes.get_mut(&tube).filter(|it| it.gates.contains(gate));
        if let Some(of_tube) = of_tube
            && let Some(behind) = self.tubes.get_mut(gate)
            && behind.closed.remove(&tube)
        {
            of_tube.may_open.insert(gate.to_owned());
        }
    }

    /// Rows were mended: any gate of the tube may be open, and any limit may have ended.
    pub(crate) fn doubt(&mut self, tube: u32) {
        let Some(of_tube) = self.of_tubes.get_mut(&tube) else { return };
        (of_tube.may_open, of_tube.end) = (of_tube.gates.clone(), 0);
        for gate in &of_tube.gates {
            if let Some(behind) = self.tubes.get_mut(gate) {
                behind.closed.remove(&tube);
            }
        }
    }

    /// This throttle may be open for a tube.
    pub(crate) fn open_throttle(&mut self, tube: u32, throttle: Run) {
        if let Some(name) = self.throttles.get(&throttle) {
            let gate = task_gates::text(NamedGate::Throttle(name));
            self.open(tube, &gate);
        }
    }

    /// A slot of a throttle was left: it may be open for every tube behind it.
    fn leave_slot(&mut self, throttle: Run) {
        let Some(name) = self.throttles.get(&throttle) else { return };
        let gate = task_gates::text(NamedGate::Throttle(name));
        let closed = self.tubes.get_mut(&gate).map(|behind| std::mem::take(&mut behind.closed));
        for tube in closed.into_iter().flatten() {
            if let Some(of_tube) = self.of_tubes.get_mut(&tube) {
                of_tube.may_open.insert(gate.clone());
            }
        }
    }

    fn leave(&mut self, tube: u32, gate: &str) {
        if let Some(tubes) = self.tubes.get_mut(gate) {
            tubes.all.remove(&tube);
            tubes.closed.remove(&tube);
            if tubes.all.is_empty() {
                // Not by the name: a look at all throttles for each gate would go with the square.
                tubes.runs.iter().for_each(|run| _ = self.throttles.remove(run));
                self.tubes.remove(gate);
            }
        }
        if let Some(of_tube) = self.of_tubes.get_mut(&tube) {
            of_tube.gates.remove(gate);
            of_tube.may_open.remove(gate);
            if of_tube.gates.is_empty() {
                self.of_tubes.remove(&tube);
            }
        }
    }

    /// No line of the tube stands behind a gate, or it was dropped, or its rows are another run's.
    pub(crate) fn forget(&mut self, tube: u32) {
        let of_tube = self.of_tubes.remove(&tube);
        for gate in of_tube.into_iter().flat_map(|it| it.gates) {
            self.leave(tube, &gate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(lines: &ClosedLines, tube: u32) -> Vec<String> {
        lines.opened(tube).cloned().collect()
    }

    #[test]
    fn a_gate_is_looked_at_again_after_it_may_have_opened() {
        let (mut lines, throttle) = (ClosedLines::default(), Run(7));
        let gpu = task_gates::text(NamedGate::Throttle("gpu"));
        let closed = |tube| (tube, gpu.clone(), Some(throttle));
        let steps = LineSteps { closed: vec![closed(1), closed(2)], ..LineSteps::default() };
        lines.follow(&steps, &[]);
        assert!(lines.has(1) && opened(&lines, 1).is_empty() && !lines.has(3));
        assert_eq!(lines.behind(NamedGate::Throttle("gpu"), 2).collect::<Vec<_>>(), [2]);
        assert_eq!(lines.throttle(1, throttle), Some("gpu"));
        lines.follow(&LineSteps::default(), &[throttle, Run(8)]);
        assert_eq!([opened(&lines, 1), opened(&lines, 2)], [[gpu.clone()], [gpu.clone()]]);
        // The throttle was made again, and has another run.
        let looked = vec![
            (1, gpu.clone(), LookedBehind::IsClosed(Some(Run(9)))),
            (2, gpu.clone(), LookedBehind::IsEmpty),
        ];
        lines.follow(&LineSteps { looked, ..LineSteps::default() }, &[]);
        assert!(opened(&lines, 1).is_empty() && !lines.has(2));
        lines.follow(&LineSteps::default(), &[Run(9)]);
        assert_eq!(opened(&lines, 1), [gpu]);
        lines.forget(1);
        assert!(lines.is_empty() && lines.tubes.is_empty() && lines.throttles.is_empty());
    }

    /// What a take has put behind a gate after it has found nothing there is behind it.
    #[test]
    fn a_step_that_empties_a_gate_and_fills_it_again() {
        let mut lines = ClosedLines::default();
        let gate = || task_gates::text(NamedGate::Condition("online"));
        lines.enter(1, &gate(), None);
        let (looked, closed) = (vec![(1, gate(), LookedBehind::IsEmpty)], vec![(1, gate(), None)]);
        lines.follow(&LineSteps { looked, closed, ..LineSteps::default() }, &[]);
        assert!(lines.has(1) && opened(&lines, 1).is_empty());
        let ends = LineSteps { ends: vec![(1, 5), (1, 9)], ..LineSteps::default() };
        lines.follow(&ends, &[]);
        assert_eq!(lines.end(1), 5);
        let next = LineSteps { next_end: vec![(1, NEVER)], ..LineSteps::default() };
        lines.follow(&next, &[]);
        assert_eq!((lines.end(1), lines.end(2)), (NEVER, NEVER));
    }

    /// Regression: each slot that was left walked over all tubes behind the throttle.
    #[test]
    fn a_slot_that_is_left_again_finds_only_what_was_closed_since() {
        let (mut lines, throttle) = (ClosedLines::default(), Run(7));
        let gpu = task_gates::text(NamedGate::Throttle("gpu"));
        let closed = (1..=3).map(|tube| (tube, gpu.clone(), Some(throttle))).collect();
        lines.follow(&LineSteps { closed, ..LineSteps::default() }, &[]);
        let known_closed = |lines: &ClosedLines| lines.tubes[&gpu].closed.len();
        assert_eq!(known_closed(&lines), 3);
        lines.follow(&LineSteps::default(), &[throttle, throttle]);
        assert_eq!(known_closed(&lines), 0);
        let looked = vec![(2, gpu.clone(), LookedBehind::IsClosed(Some(throttle)))];
        lines.follow(&LineSteps { looked, ..LineSteps::default() }, &[]);
        assert_eq!((known_closed(&lines), opened(&lines, 2).len()), (1, 0));
        lines.doubt(2);
        assert_eq!((known_closed(&lines), opened(&lines, 2).len()), (0, 1));
        lines.forget(2);
        lines.leave_slot(throttle);
        assert_eq!(opened(&lines, 1), [gpu]);
        assert!(opened(&lines, 2).is_empty());
    }
}
