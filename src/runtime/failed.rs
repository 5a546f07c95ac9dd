//! Failure groups of a tube and of all tubes: their counts, and the verb that kicks the tasks of
//! one in all tubes. The engine's lock is held for one bounded step at a time.

use crate::engine::by_id::KickMany;
use crate::engine::context::sound;
use crate::engine::move_failed::MoveFailed;
use crate::engine::tube_cache::TubeEntry;
use crate::engine::{failures, query};
use crate::format::key::{self, Key, Run};
use crate::format::{Scan, Tag, View};
use crate::runtime::commit::EngineState;
use crate::runtime::shared::Shared;
use crate::words::clock::Now;
use crate::words::durability::Durability;
use crate::words::error::Result;
use crate::words::failure::FailureGroup;
use crate::words::limits::{GROUPS_OF_STEP, SWEEP_TASKS, TUBES_OF_STEP};
use crate::words::task::TaskId;
use crate::words::verb::{Kicked, Unfailed};
use std::collections::{BTreeMap, BTreeSet};

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
            if next.is_none() {
                // The rows are in the order of the lengths of their names.
                groups.sort_unstable_by(|one: &FailureGroup, next| one.group.cmp(&next.group));
                return Ok(groups);
            }
            from = next;
        }
    }

    /// Those of all tubes, each with the tasks of all tubes.
    pub(crate) fn all_failure_groups(&self) -> Result<Vec<FailureGroup>> {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        let numbers = self.of_tubes(|state, tube, _| {
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
    pub(crate) fn of_tubes<T>(
        &self,
        read: impl Fn(&EngineState, &TubeEntry, Now) -> Option<T>,
    ) -> Result<Vec<T>> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(first) = from {
            let (some, next) = self.look_at(|state, now| {
                let (numbers, next) = query::numbers_from(&state.store, first, TUBES_OF_STEP)?;
                let mut some = Vec::new();
                for number in numbers {
                    let tube = sound(state.tube(number))?;
                    some.extend(tube.and_then(|tube| read(state, &tube, now)));
                }
                Ok((some, next))
            })?;
            all.extend(some);
            from = next;
        }
        Ok(all)
    }

    pub(crate) fn tubes_by_run(&self) -> Result<TubesByRun> {
        Ok(self.of_tubes(|_, tube, _| Some((tube.run(), tube.number)))?.into_iter().collect())
    }

    /// The tubes that have tasks of this tag.
    pub(crate) fn tubes_with(&self, tag: Tag) -> Result<TubesByRun> {
        let with = self.of_tubes(|state, tube, _| {
            (state.store.count(tube.range(tag)) > 0).then(|| (tube.run(), tube.number))
        })?;
        Ok(with.into_iter().collect())
    }

    /// Kicks these tasks of a tube, perhaps of a failure group, in steps.
    pub(crate) fn kick_many(
        &self,
        (tube, group): (u32, Option<&str>),
        mut ids: &[TaskId],
        durability: Durability,
        all: &mut Kicked,
    ) -> Result<()> {
        while !ids.is_empty() {
            let done = self.run(&KickMany { tube, group, ids }, durability)?;
            ids = ids.get(done.looked..).unwrap_or_default();
            done.add_to(all);
        }
        Ok(())
    }

    /// Kicks tasks of a failure group in all tubes, those that were buried first, up to `most`.
    pub(crate) fn unfail(&self, group: &str, most: u64, durability: Durability) -> Result<Kicked> {
        let mut all = Kicked::default();
        self.of_group((None, group), most, |met| {
            let (mut tasks, before): (BTreeMap<u32, Vec<TaskId>>, _) =
                (BTreeMap::new(), all.kicked);
            for (tube, id) in met {
                tasks.entry(*tube).or_default().push(*id);
            }
            for (tube, ids) in tasks {
                match self.kick_many((tube, Some(group)), &ids, durability, &mut all) {
                    Err(error) if error.is_not_found() => {}
                    done => done?,
                }
            }
            Ok(Some(all.kicked - before))
        })?;
        self.after_reads(all.kicked, durability).map(|()| all)
    }

    /// Moves tasks of a failure group, of a tube or of all, to the back of a tube, those that were
    /// buried first, up to `most`.
    pub(crate) fn unfail_into(
        &self,
        (number, group): (Option<u32>, &str),
        most: u64,
        to: u32,
        durability: Durability,
    ) -> Result<Unfailed> {
        let mut all = Unfailed::default();
        // What falls due may come to the group. In all tubes that is left to the timer.
        number.map_or(Ok(()), |number| self.catch_up(number))?;
        self.catch_up_if_there(to)?;
        self.of_group((number, group), most, |met| {
            for number in met.iter().map(|(tube, _)| *tube).collect::<BTreeSet<_>>() {
                self.catch_up_if_there(number)?;
            }
            let (mut rest, before) = (met, all.moved);
            while !rest.is_empty() && !all.is_full {
                let others_wait = self.place_waits.has(to);
                let op = MoveFailed { to, group, tasks: rest, others_wait };
                let done = self.run(&op, durability)?;
                rest = rest.get(done.looked..).unwrap_or_default();
                all.moved += done.moved.len() as u64;
                all.clashes.extend(done.clashes);
                all.is_full = done.is_full;
            }
            Ok(Some(all.moved - before).filter(|_| !all.is_full))
        })?;
        self.after_reads(all.moved, durability).map(|()| all)
    }

    /// Does what is due in a tube, if it was not dropped.
    fn catch_up_if_there(&self, tube: u32) -> Result<()> {
        match self.catch_up(tube) {
            Err(error) if error.is_not_found() => Ok(()),
            done => done,
        }
    }

    /// A durable call that has changed nothing returns after what it has read is synced.
    fn after_reads(&self, changed: u64, durability: Durability) -> Result<()> {
        match durability {
            Durability::Durable if changed == 0 => self.wait(self.group_commit.last_written()),
            _ => Ok(()),
        }
    }

    /// Passes the tasks of a failure group, of a tube or of all, to `act`, some at a time, those
    /// that were buried first. It returns how many it has counted, or `None` at the end. Ends when
    /// `most` are counted, which it returns. Leaves what fails again meanwhile.
    fn of_group(
        &self,
        (number, group): (Option<u32>, &str),
        most: u64,
        mut act: impl FnMut(&[(u32, TaskId)]) -> Result<Option<u64>>,
    ) -> Result<u64> {
        let (runs, mut lanes) = match number {
            None => {
                (self.tubes_by_run()?, Run::BOTH.map(|run| key::failed_of(run, group)).to_vec())
            }
            Some(number) => {
                let run = self.look_at(|state, _| Ok(state.tube(number)?.run()))?;
                (TubesByRun::new(), vec![key::buried_group_of(run, group)])
            }
        };
        let now = self.look(|_, now| Ok(now.queue))?;
        let ends: Vec<Key> = lanes.iter().map(|lane| key::after_time(lane, now)).collect();
        let (prefix, mut counted) = (lanes.first().map_or(0, |lane| lane.len()), 0);
        while counted < most {
            let step = (most - counted).min(SWEEP_TASKS as u64) as usize;
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
            let mut tasks = Vec::new();
            for key in met {
                let by_run = || key::run_of_failed(&key).and_then(|run| runs.get(&run).copied());
                tasks.extend(number.or_else(by_run).zip(key::id_of(&key)));
                let lane = lanes.iter_mut().find(|lane| lane.first() == key.first());
                lane.into_iter().for_each(|lane| *lane = key::after(&key));
            }
            match act(&tasks)? {
                Some(more) => counted += more,
                None => break,
            }
        }
        Ok(counted)
    }
}

#[cfg(test)]
mod tests {
    use crate::{EventOptions, Queue};
    use std::collections::BTreeMap;

    /// Regression: a step of a kick was bounded by its tasks alone. With a reader of payloads it
    /// read up to 64 of them under the engine's lock.
    #[test]
    fn a_step_of_a_kick_reads_no_more_payload_than_any_other_sweep() {
        for verb in 0..4 {
            let queue = Queue::builder().by_hand(true).in_memory().unwrap();
            let tube = queue.tube("t").unwrap();
            for _ in 0..16 {
                tube.put(&vec![7; 1 << 20][..]).unwrap();
                tube.take().unwrap().fail("g", "no").unwrap();
            }
            let options = EventOptions::new().payloads().kept(64).bytes_kept(64 << 20);
            let events = queue.events_with(options);
            let kicked = match verb {
                0 => tube.kick(16),
                1 => tube.unfail("g", 16),
                2 => queue.unfail("g", 16),
                _ => tube.kick_where(16, |_| true),
            };
            assert_eq!(kicked.unwrap().kicked, 16);
            let mut commits = BTreeMap::<u64, usize>::new();
            std::iter::from_fn(|| events.try_recv())
                .for_each(|event| *commits.entry(event.mark).or_default() += 1);
            // A sweep ends after a mebibyte.
            assert!(commits.values().all(|tasks| *tasks <= 2), "verb {verb}: {commits:?}");
        }
    }
}
