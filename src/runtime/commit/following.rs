//! What a decision has begun for the ends of tasks, as a part of it. It writes nothing by itself.

use super::{Attempt, EngineState, Need, Undone};
use crate::engine::cascade::follow_at_once;
use crate::engine::context::OpContext;

impl EngineState {
    /// Works off what the decision has begun for the ends of tasks, as a part of it. On a full disk
    /// it does not: an end must not need more room there. Returns whether the rows may have more
    /// bytes for that. If it fails, a part of it may be decided: the op is tried again without it.
    #[cold]
    pub(super) fn follow_at_once(&mut self, attempt: &mut Attempt<'_>) -> Result<bool, Undone> {
        let is_left = attempt.call.leaves_ends || self.store.is_full();
        if is_left || self.decision.effects.edges.is_none() {
            return Ok(false);
        }
        let (view, known) = (&self.store, &self.derived);
        let (numbers, decision) = (&mut self.numbers, &mut self.decision);
        let (wants, now) = (attempt.env.hub.wants(), attempt.now);
        let repaired = &attempt.call.repaired;
        let mut ctx = OpContext { view, known, numbers, decision, wants, repaired, now };
        if let Ok(grows) = follow_at_once(&mut ctx) {
            return Ok(grows);
        }
        attempt.call.leaves_ends = true;
        Err(Undone::TryAfter(Need::Yield))
    }
}
