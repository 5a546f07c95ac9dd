//! Due work and an op in one record: a timer is promoted and taken at once.

use crate::engine::due::WorkOff;
use crate::engine::{Op, OpContext};
use crate::words::error::Result;
use crate::words::numbers::Numbers;

/// A sweep of due work, and the op after it if the sweep has done all. Both are one decision.
pub(super) struct AfterWork<'a, O> {
    pub(super) work: WorkOff,
    pub(super) op: &'a O,
}

impl<O: Op> Op for AfterWork<'_, O> {
    /// `None` if it was not reached.
    type Done = Option<O::Done>;

    fn numbers(&self) -> Numbers {
        self.work.numbers().plus(self.op.numbers())
    }

    fn adds(&self) -> bool {
        self.op.adds()
    }

    fn grows(&self) -> bool {
        self.op.grows() || self.work.grows()
    }

    fn brings_back(&self) -> bool {
        self.op.brings_back()
    }

    fn decide(&self, ctx: &mut OpContext<'_>) -> Result<Self::Done> {
        let more = self.work.decide(ctx)?;
        // An op sees the row of its tube as it was before the decision, and which gates of tasks
        // may be open.
        let has_changed = ctx.effects().changes_tubes() || ctx.effects().slots.is_some();
        if more || has_changed { Ok(None) } else { self.op.decide(ctx).map(Some) }
    }
}
