//! What a manual clock knows of the queue: the calls and threads that sleep, and until when.

use crate::engine::effects::NextDue;
use crate::runtime::shared::Shared;
use crate::runtime::timer::{next_look, work_off_all};
use crate::runtime::wake::Wake;
use crate::words::clock::{NEVER, Sleepers};
use crate::words::sync::ThreadId;
use std::time::Duration;

impl Sleepers for Shared {
    fn asleep(&self) -> Vec<ThreadId> {
        let waits = self.waits();
        waits.into_iter().flat_map(|wait| wait.asleep()).collect()
    }

    fn left(&self) -> Option<Duration> {
        // Its threads end, and its calls return.
        if self.health.serves().is_err() {
            return Some(Duration::MAX);
        }
        let due = if self.settings.by_hand {
            // What cannot be done now is not waited for.
            next_look(self, work_off_all(self).unwrap_or(NextDue::NONE)).0
        } else {
            self.background.rests_until()?;
            self.timer.rests_until()?
        };
        let ends = self.waits().map(Wake::first_end);
        let first = ends.into_iter().try_fold(due, |first, end| Some(first.min(end?)))?;
        let left = Duration::from_micros(first.saturating_sub(self.lease_now()));
        Some(if first == NEVER { Duration::MAX } else { left })
    }
}
