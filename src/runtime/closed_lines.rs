//! Behind which gates of their tasks the lines of each tube stand, and which of these gates may be
//! open now: what a take of the tube has to look at. Derived from the rows: an opening reads which
//! gates there are, and takes each for one that may be open. A gate is named as in the name of a
//! line, see `words::task_gates`.

use crate::engine::effects::{LineSteps, LookedBehind};
use crate::format::key::Run;
use crate::words::gates::NamedGate;
use crate::words::task_gates;
use std::collections::{BTreeMap, BTreeSet};

/// The gates and the tubes. Usually none.
#[derive(Debug, Default)]
pub(crate) struct ClosedLines {
    /// The tubes behind a gate.
    tubes: BTreeMap<String, BTreeSet<u32>>,
    /// The gates of a tube.
    pub(crate) gates: BTreeMap<u32, BTreeMap<String, Behind>>,
    /// The names of throttles, by their runs.
    throttles: BTreeMap<Run, String>,
}

/// What is known of a gate behind which lines of a tube stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Behind {
    may_be_open: bool,
    /// Of a throttle.
    run: Option<Run>,
}

impl ClosedLines {
    pub(crate) fn is_empty(&self) -> bool {
        self.gates.is_empty()
    }

    /// Whether lines of the tube stand behind any gate.
    pub(crate) fn has(&self, tube: u32) -> bool {
        self.gates.contains_key(&tube)
    }

    /// The gates of a tube that may be open.
    pub(crate) fn opened(&self, tube: u32) -> Vec<String> {
        let gates = self.gates.get(&tube).into_iter().flatten();
        gates.filter(|(_, behind)| behind.may_be_open).map(|(gate, _)| gate.clone()).collect()
    }

    /// The tubes behind a gate, from this number on.
    pub(crate) fn behind(&self, gate: NamedGate<'_>, from: u32) -> impl Iterator<Item = u32> {
        let tubes = self.tubes.get(&task_gates::text(gate));
        tubes.into_iter().flat_map(move |tubes| tubes.range(from..).copied())
    }

    /// The name of the throttle of this run, if lines of the tube stand behind it.
    pub(crate) fn throttle(&self, tube: u32, throttle: Run) -> Option<&str> {
        let name = self.throttles.get(&throttle)?;
        let gate = task_gates::text(NamedGate::Throttle(name));
        self.gates.get(&tube)?.contains_key(&gate).then_some(name)
    }

    /// The throttles behind which lines of a tube stand.
    pub(crate) fn throttles_of(&self, tube: u32) -> impl Iterator<Item = Run> {
        let gates = self.gates.get(&tube).into_iter().flatten();
        gates.filter_map(|(_, behind)| behind.run)
    }

    /// A line of the tube stands behind this gate, which may be open or is known to be closed.
    pub(crate) fn enter(
        &mut self,
        tube: u32,
        gate: String,
        (run, may_be_open): (Option<Run>, bool),
    ) {
        if let (Some(run), NamedGate::Throttle(name)) = (run, task_gates::named(&gate)) {
            self.throttles.insert(run, name.to_owned());
        }
        self.tubes.entry(gate.clone()).or_default().insert(tube);
        self.gates.entry(tube).or_default().insert(gate, Behind { may_be_open, run });
    }

    /// Follows what a step says.
    pub(crate) fn follow(&mut self, steps: &LineSteps, left: &[Run]) {
        for tube in &steps.none {
            self.forget(*tube);
        }
        for (tube, gate, looked) in &steps.looked {
            match looked {
                LookedBehind::IsEmpty => self.leave(*tube, gate),
                LookedBehind::IsClosed => self.mark(*tube, gate, false),
            }
        }
        // After the looks, because a take looks before it meets a gate that is closed. A gate
        // behind which no line stands any more is found empty by the next look.
        for (tube, gate, run) in &steps.closed {
            self.enter(*tube, gate.clone(), (*run, false));
        }
        for (tube, gate) in &steps.opened {
            self.mark(*tube, gate, true);
        }
        for throttle in left {
            self.left(*throttle);
        }
    }

    fn mark(&mut self, tube: u32, gate: &str, may_be_open: bool) {
        let gates = self.gates.get_mut(&tube);
        if let Some(behind) = gates.and_then(|gates| gates.get_mut(gate)) {
            behind.may_be_open = may_be_open;
        }
    }

    /// This throttle may be open for a tube.
    pub(crate) fn open(&mut self, tube: u32, throttle: Run) {
        if let Some(name) = self.throttles.get(&throttle) {
            let gate = task_gates::text(NamedGate::Throttle(name));
            self.mark(tube, &gate, true);
        }
    }

    /// A slot of a throttle was left: it may be open for every tube behind it.
    fn left(&mut self, throttle: Run) {
        let Some(name) = self.throttles.get(&throttle) else { return };
        let gate = task_gates::text(NamedGate::Throttle(name));
        let tubes: Vec<u32> = self.tubes.get(&gate).into_iter().flatten().copied().collect();
        for tube in tubes {
            self.mark(tube, &gate, true);
        }
    }

    fn leave(&mut self, tube: u32, gate: &str) {
        if let Some(tubes) = self.tubes.get_mut(gate) {
            tubes.remove(&tube);
            if tubes.is_empty() {
                self.tubes.remove(gate);
                self.throttles
                    .retain(|_, name| task_gates::named(gate) != NamedGate::Throttle(name));
            }
        }
        if let Some(gates) = self.gates.get_mut(&tube) {
            gates.remove(gate);
            if gates.is_empty() {
                self.gates.remove(&tube);
            }
        }
    }

    /// The tube was dropped, or its rows are another run's.
    pub(crate) fn forget(&mut self, tube: u32) {
        let gates: Vec<String> =
            self.gates.get(&tube).into_iter().flatten().map(|(gate, _)| gate.clone()).collect();
        for gate in gates {
            self.leave(tube, &gate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_looked_at_again_after_it_may_have_opened() {
        let (mut lines, throttle) = (ClosedLines::default(), Run(7));
        let gate = |name: &str| task_gates::text(NamedGate::Throttle(name));
        let closed = |tube| (tube, gate("gpu"), Some(throttle));
        let steps = LineSteps { closed: vec![closed(1), closed(2)], ..LineSteps::default() };
        lines.follow(&steps, &[]);
        assert!(lines.has(1) && lines.opened(1).is_empty() && !lines.has(3));
        assert_eq!(lines.behind(NamedGate::Throttle("gpu"), 2).collect::<Vec<_>>(), [2]);
        assert_eq!(lines.throttle(1, throttle), Some("gpu"));
        assert_eq!(lines.throttles_of(2).collect::<Vec<_>>(), [throttle]);
        lines.follow(&LineSteps::default(), &[throttle, Run(8)]);
        assert_eq!((lines.opened(1), lines.opened(2)), (vec![gate("gpu")], vec![gate("gpu")]));
        let looked =
            vec![(1, gate("gpu"), LookedBehind::IsClosed), (2, gate("gpu"), LookedBehind::IsEmpty)];
        lines.follow(&LineSteps { looked, ..LineSteps::default() }, &[]);
        assert!(lines.opened(1).is_empty() && !lines.has(2));
        lines.forget(1);
        assert!(lines.is_empty() && lines.tubes.is_empty() && lines.throttles.is_empty());
    }
}
