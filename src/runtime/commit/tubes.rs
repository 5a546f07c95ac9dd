//! What the state knows of many tubes: what an opening learns, which of a set have due work, and
//! what a check compares. Writes nothing.

use crate::engine::context::{known_tube, sound};
use crate::engine::tube_cache::{KnownTubes, TubeRef};
use crate::engine::{due, held_in, lines, query, schedules, settings, sweep};
use crate::format::{Range, Tag, View};
use crate::runtime::commit::EngineState;
use crate::runtime::deadlines::Walk;
use crate::words::clock::Now;
use crate::words::error::Result;
use crate::words::limits::{DUE_OF_TURN, NAMES_OF_STEP, SWEEP_TASKS};
use crate::words::task::Ticket;

/// Why more tubes of a set may have due work than were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// They are all.
    None,
    /// As many as were wanted were found.
    Tubes,
    /// So many others are due that this turn of the lock looks at no more.
    Looks,
}

impl EngineState {
    /// The tube of this number.
    ///
    /// # Errors
    /// As [`known_tube`].
    pub(crate) fn tube(&self, number: u32) -> Result<TubeRef<'_>> {
        known_tube((&self.derived, &self.store), number)
    }

    /// The tube of a task in hand that was taken from the one of this number.
    ///
    /// # Errors
    /// As [`held_in::tube`].
    pub(crate) fn tube_of(&self, number: u32, ticket: Ticket, now: Now) -> Result<TubeRef<'_>> {
        let tube = self.tube(number);
        if !self.derived.has_merged() {
            return tube;
        }
        match held_in::merged_into(&self.store, tube.as_deref(), ticket, now)? {
            Some(other) => self.tube(other),
            None => tube,
        }
    }

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
            let closed = lines::closed(&self.store, tube.run())?;
            // No limit behind which lines stand ends before the first deadline.
            self.derived.load_lines(number, closed, next.delay);
            self.derived.load_tube(number, tube.row, None);
            self.derived.set_bound(number, next);
        }
        let orphans = schedules::orphans(&self.store)?.into_iter();
        orphans.for_each(|(number, fires)| _ = self.derived.set_orphan(number, fires));
        Ok(())
    }

    /// Tubes of a set in which work may be due: all of a small set, and of another one the first,
    /// at most so many, from a position on. Also why they may not be all.
    pub(crate) fn due_of_set(
        &self,
        set: u32,
        now: Now,
        most: usize,
        walk: &mut Walk,
    ) -> Result<(Vec<u32>, Cut)> {
        let Some(set) = self.derived.sets.as_ref().and_then(|sets| sets.get(set)) else {
            return Ok((Vec::new(), Cut::None));
        };
        if set.len() <= SWEEP_TASKS {
            // What is due in the tubes that are not in it is not looked at.
            return Ok((set.tubes_from(0).collect(), Cut::None));
        }
        let (mut due, mut looked) = (Vec::new(), 0);
        while due.len() < most
            && let Some(tube) = self.derived.next_due(now, walk)
        {
            due.extend(Some(tube).filter(|tube| set.has(*tube)));
            looked += 1;
            if looked == DUE_OF_TURN {
                return Ok((due, Cut::Looks));
            }
        }
        // A tube has a bound of each kind, and those of work that is gone stay until it is looked
        // at.
        let cut = if due.len() < most { Cut::None } else { Cut::Tubes };
        if due.len() < most {
            let releasing = sweep::releasing(&self.store)?.into_iter();
            due.extend(releasing.filter(|tube| set.has(*tube)).take(most - due.len()));
        }
        due.sort_unstable();
        due.dedup();
        Ok((due, cut))
    }

    /// How many rows of this tag a tube has.
    fn rows_of(&self, tube: u32, tag: Tag) -> u64 {
        let run = self.derived.run_and_bound(tube).map(|(run, _)| run);
        run.map_or(0, |run| self.store.count(Range::in_run(tag, run)))
    }

    /// The tubes of a set with leases of consumers, of some tubes from this one on. Answers where
    /// to continue.
    pub(crate) fn held_in_set(&self, set: u32, from: u32) -> (Vec<u32>, Option<u32>) {
        let Some(set) = self.derived.sets.as_ref().and_then(|sets| sets.get(set)) else {
            return (Vec::new(), None);
        };
        let some = || set.tubes_from(from).take(NAMES_OF_STEP);
        let has_held = |tube: &u32| self.rows_of(*tube, Tag::OwnerLease) > 0;
        (some().filter(has_held).collect(), some().last().and_then(|last| last.checked_add(1)))
    }
}
