//! Tracking of a task in whatever tube it is: its tube is looked for, and looked for again if the
//! task has moved meanwhile.

use crate::engine::context::sound;
use crate::engine::track::{Track, Untrack};
use crate::runtime::shared::Shared;
use crate::words::durability::Durability;
use crate::words::error::Result;
use crate::words::task::TaskId;

impl Shared {
    /// Tracks a task. `None` if no tube has it.
    pub(crate) fn track(&self, id: TaskId, durability: Durability) -> Result<Option<bool>> {
        loop {
            let Some(tube) = self.tube_with(id)? else { return Ok(None) };
            match self.run(&Track { tube, id }, durability) {
                Err(error) if error.is_not_found() => {
                    if !self.has_moved(id)? {
                        return Ok(None);
                    }
                }
                tracked => return tracked.map(Some),
            }
        }
    }

    /// Tracks an id no more. Returns whether it was tracked.
    pub(crate) fn untrack(&self, id: TaskId, durability: Durability) -> Result<bool> {
        loop {
            // It may be in a tube that cannot be read.
            let tube = sound(self.tube_with(id))?.flatten();
            match self.run(&Untrack { tube, id }, durability) {
                Err(error) if error.is_not_found() && tube.is_some() => {
                    if !self.has_moved(id)? {
                        // It is gone by now.
                        return self.run(&Untrack { tube: None, id }, durability);
                    }
                }
                done => return done,
            }
        }
    }
}
