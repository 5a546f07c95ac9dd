//! What the state knows of many tubes: what an opening learns, which of a set have due work, and
//! what a check compares. Writes nothing.

use crate::engine::context::sound;
use crate::engine::{due, query, schedules, settings, sweep};
use crate::runtime::commit::EngineState;
use crate::runtime::deadlines::Walk;
use crate::words::clock::Now;
use crate::words::error::Result;

impl EngineState {
    /// A line about each tube of which more or fewer tasks are stalled than are counted. Reads the
    /// leases of all tubes.
    pub(crate) fn check_counted(&self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        // Read-only the leases are those of an earlier process, and void.
        let numbers = match self.health.is_read_only() {
            true => Vec::new(),
            false => query::sound_numbers(&self.store)?,
        };
        for number in numbers {
            let (tube, counted) = (self.tube(number)?, self.derived.stalled(number));
            // What is damaged the audit reports.
            let stalled = sound(query::stalled(&self.store, &tube))?;
            if let Some(stalled) = stalled.filter(|stalled| *stalled != counted) {
                let name = &tube.row.name;
                lines.push(format!("tube {name:?}: {stalled} stalled tasks, counted {counted}"));
            }
        }
        Ok(lines)
    }

    /// Loads the settings, and the tubes and their deadlines, at open.
    pub(crate) fn learn(&mut self) -> Result<()> {
        self.derived.live.load(settings::of_opening(&self.store)?);
        for number in query::numbers(&self.store)? {
            let Some(tube) = query::sound_tube(&self.store, number)? else { continue };
            let next = due::first_deadlines(&self.store, &tube)?;
            self.derived.load_tube(number, tube.row, None);
            self.derived.set_bound(number, next);
        }
        let orphans = schedules::orphans(&self.store)?.into_iter();
        orphans.for_each(|(number, fires)| _ = self.derived.set_orphan(number, fires));
        Ok(())
    }

    /// The tubes of a set in which work may be due. Reads what is due in all tubes, and none of the
    /// others.
    pub(crate) fn due_of_set(&self, set: u32, now: Now) -> Result<Vec<u32>> {
        let Some(set) = self.derived.sets.as_ref().and_then(|sets| sets.get(set)) else {
            return Ok(Vec::new());
        };
        let mut walk = Walk::default();
        let due = std::iter::from_fn(|| self.derived.next_due(now, &mut walk));
        let mut tubes: Vec<u32> = due.chain(sweep::releasing(&self.store)?).collect();
        tubes.retain(|tube| set.has(*tube));
        tubes.sort_unstable();
        tubes.dedup();
        Ok(tubes)
    }
}
