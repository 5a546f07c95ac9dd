//! A condition that is set, and the tubes that it opens: after its commit their takers are woken,
//! of some tubes at a time, so that no other call waits for all of them.

use crate::engine::conditions::{OpenTubes, SetCondition};
use crate::runtime::shared::Shared;
use crate::words::durability::Durability;
use crate::words::error::Result;

impl Shared {
    /// Sets a condition or clears it. Returns whether that changed anything.
    pub(crate) fn set_condition(
        &self,
        op: &SetCondition<'_>,
        durability: Durability,
    ) -> Result<bool> {
        let applied = self.apply(op);
        let mut from = (op.is_set && matches!(applied, Ok((true, _)))).then_some(0);
        while let Some(first) = from {
            let opened = self.apply(&OpenTubes { condition: op.name, from: first });
            // After an error the queue is closed or broken, and takers learn of that.
            from = opened.ok().and_then(|(next, _)| next);
            self.state.pass_on();
        }
        self.finish(op, applied, durability)
    }
}
