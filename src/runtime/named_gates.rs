//! Conditions that are set and throttles that change, and the tubes that they open: after the
//! commit their takers are woken, of some tubes at a time, so that no other call waits for all of
//! them.

use crate::engine::Op;
use crate::engine::gates::OpenTubes;
use crate::engine::throttles::{ReleaseSlots, RemoveThrottle};
use crate::runtime::shared::Shared;
use crate::words::durability::Durability;
use crate::words::error::Result;
use crate::words::gates::NamedGate;
use crate::words::limits::NAMES_OF_STEP;
use crate::words::task::TaskId;

impl Shared {
    /// Changes a gate, which opens it if that is given. Returns whether that changed anything.
    pub(crate) fn change_gate(
        &self,
        op: &impl Op<Done = bool>,
        opens: Option<NamedGate<'_>>,
        durability: Durability,
    ) -> Result<bool> {
        let applied = self.apply(op);
        if let (Ok((true, _)), Some(gate)) = (&applied, opens) {
            self.open_tubes(gate);
        }
        self.finish(op, applied, durability)
    }

    /// Removes a throttle. Returns whether there was one.
    pub(crate) fn remove_throttle(&self, name: &str, durability: Durability) -> Result<bool> {
        let op = RemoveThrottle { name };
        let applied = self.apply(&op);
        if let Ok(((true, run), _)) = applied {
            if let Some(run) = run {
                self.state.lock().derived.slot_lines.remove(run);
            }
            self.open_tubes(NamedGate::Throttle(name));
        }
        Ok(self.finish(&op, applied, durability)?.0)
    }

    fn open_tubes(&self, gate: NamedGate<'_>) {
        let mut from = Some(0);
        while let Some(first) = from {
            let opened = self.apply(&OpenTubes { gate, from: first });
            // After an error the queue is closed or broken, and takers learn of that.
            from = opened.ok().and_then(|(next, _)| next);
            self.state.pass_on();
        }
    }

    /// Takes the slots of a throttle away from tasks, of some at a time. Returns how many held one.
    pub(crate) fn release_slots(
        &self,
        throttle: &str,
        ids: &[TaskId],
        durability: Durability,
    ) -> Result<usize> {
        let mut released = 0;
        for ids in ids.chunks(NAMES_OF_STEP) {
            released += self.run(&ReleaseSlots { throttle, ids }, durability)?;
        }
        Ok(released)
    }
}
