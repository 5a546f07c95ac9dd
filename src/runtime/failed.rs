//! Failure groups of a tube and of all tubes: their counts, and the verb that kicks the tasks of
//! one in all tubes. The engine's lock is held for one bounded step at a time.

use crate::engine::by_id::KickMany;
use crate::engine::context::sound;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{failures, query};
use crate::format::key::{self, Run};
use crate::format::{Scan, Tag, View};
use crate::runtime::commit::EngineState;
use crate::runtime::shared::Shared;
use crate::words::error::Result;
use crate::words::failure::FailureGroup;
use crate::words::limits::{GROUPS_OF_STEP, SWEEP_TASKS, TUBES_OF_STEP};
use crate::words::options::Durability;
use crate::words::task::TaskId;
use std::collections::BTreeMap;

/// The tube of each run.
pub(crate) type TubesByRun = BTreeMap<Run, u32>;

impl Shared {
    /// The failure groups of a tube, by name.
    pub(crate) fn failure_groups(&self, number: u32) -> Result<Vec<FailureGroup>> {
        self.catch_up(number)?;
        let (mut groups, mut from) = (Vec::new(), None);
        loop {
            let (more, next) = self.look_at(|state, _| {
                let tube = state.tube(number)?;
                failures::groups_from(&state.store, &tube, from.clone(), GROUPS_OF_STEP)
            })?;
            groups.extend(more);
            match next {
                None => return Ok(groups),
                next => from = next,
            }
        }
    }

    /// Those of all tubes, each with the tasks of all tubes.
    pub(crate) fn all_failure_groups(&self) -> Result<Vec<FailureGroup>> {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        let numbers = self.of_tubes(|state, tube| {
            (state.store.count(tube.range(Tag::BuriedGroup)) > 0).then_some(tube.number)
        })?;
        for number in numbers {
            match self.failure_groups(number) {
                Err(error) if error.is_not_found() => {}
                groups => {
                    for FailureGroup { group, tasks } in groups? {
                        *all.entry(group).or_default() += tasks;
                    }
                }
            }
        }
        Ok(all.into_iter().map(|(group, tasks)| FailureGroup { group, tasks }).collect())
    }

    /// What is read of each tube that is not damaged, a few tubes at a time.
    fn of_tubes<T>(&self, read: impl Fn(&EngineState, &TubeEntry) -> Option<T>) -> Result<Vec<T>> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(first) = from {
            let (some, next) = self.look_at(|state, _| {
                let (numbers, next) = query::numbers_from(&state.store, first, TUBES_OF_STEP)?;
                let mut some = Vec::new();
                for number in numbers {
                    some.extend(sound(state.tube(number))?.and_then(|tube| read(state, &tube)));
                }
                Ok((some, next))
            })?;
            all.extend(some);
            from = next;
        }
        Ok(all)
    }

    pub(crate) fn tubes_by_run(&self) -> Result<TubesByRun> {
        Ok(self.of_tubes(|_, tube| Some((tube.run(), tube.number)))?.into_iter().collect())
    }

    /// Kicks tasks of a failure group in all tubes, those that were buried first, up to `most`.
    /// Returns how many.
    pub(crate) fn unfail(&self, group: &str, most: u64, durability: Durability) -> Result<u64> {
        let runs = self.tubes_by_run()?;
        let mut lanes = Run::BOTH.map(|run| key::failed_of(run, group));
        let now = self.look(|_, now| Ok(now.queue))?;
        let ends = lanes.each_ref().map(|lane| key::after_time(lane, now));
        let (prefix, mut kicked) = (key::failed_of(Run::QUEUE, group).len(), 0);
        while kicked < most {
            let step = (most - kicked).min(SWEEP_TASKS as u64) as usize;
            let mut met = self.look_at(|state, _| {
                let mut met = Vec::new();
                for (from, end) in lanes.iter().zip(&ends) {
                    let mut rows = Scan::between(key::copy(from), key::copy(end));
                    for _ in 0..step {
                        let Some((key, _)) = rows.next(&state.store)? else { break };
                        met.push(key);
                    }
                }
                Ok(met)
            })?;
            if met.is_empty() {
                break;
            }
            met.sort_by(|one, other| one.get(prefix..).cmp(&other.get(prefix..)));
            met.truncate(step);
            let mut tasks: BTreeMap<u32, Vec<TaskId>> = BTreeMap::new();
            for key in met {
                let number = key::run_of_failed(&key).and_then(|run| runs.get(&run));
                if let (Some(number), Some(id)) = (number, key::id_of(&key)) {
                    tasks.entry(*number).or_default().push(id);
                }
                let lane = lanes.iter_mut().find(|lane| lane.first() == key.first());
                lane.into_iter().for_each(|lane| *lane = key::after(&key));
            }
            for (tube, ids) in tasks {
                match self.run(&KickMany { tube, group: Some(group), ids: &ids }, durability) {
                    Err(error) if error.is_not_found() => {}
                    done => kicked += done?,
                }
            }
        }
        Ok(kicked)
    }
}
