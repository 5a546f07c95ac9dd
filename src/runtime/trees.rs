//! Walks over the edges between tasks, page by page. Nothing is held between two pages, so that
//! what changes meanwhile may be missed.

use crate::engine::by_id::DeleteMany;
use crate::engine::dependents::Together;
use crate::engine::edges;
use crate::format::key::{self, Direction, Run};
use crate::runtime::shared::Shared;
use crate::words::durability::Durability;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{SWEEP_TASKS, TREE_TASKS_MAX};
use crate::words::task::TaskId;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

impl Shared {
    /// The tasks that a task comes after, as far as there are edges to them, in the order of their
    /// ids.
    pub(crate) fn dependencies(&self, id: TaskId) -> Result<Vec<TaskId>> {
        let edges = Run::BOTH.map(|run| key::edges_of(Direction::Dependency, run, id));
        let mut found = BTreeSet::new();
        for start in edges {
            self.led_to(start, &mut |id| _ = found.insert(id))?;
        }
        Ok(found.into_iter().collect())
    }

    /// Passes the tasks on to which the edges lead whose keys begin so.
    fn led_to(&self, start: key::Key, each: &mut dyn FnMut(TaskId)) -> Result<()> {
        let (end, mut from) = (key::end_of(&start), Some(start));
        while let Some(next) = from.take() {
            let (ids, next) = self.look(|view, _| edges::page(view, (&next, &end)))?;
            ids.into_iter().for_each(&mut *each);
            from = next;
        }
        Ok(())
    }

    /// A task, and all that wait for it, by themselves or by others: each after those that it waits
    /// for.
    fn tree(&self, root: TaskId) -> Result<Vec<TaskId>> {
        // By how many of them each waits for others of them.
        let (mut waits, mut left) = (BTreeMap::from([(root, 0_usize)]), vec![root]);
        while let Some(id) = left.pop() {
            self.waiting_for(id, &mut |later| {
                let count = waits.entry(later).or_insert_with(|| {
                    left.push(later);
                    0
                });
                *count += 1;
            })?;
            if waits.len() > TREE_TASKS_MAX {
                let text =
                    format!("it and those that wait for it are more than {TREE_TASKS_MAX} tasks");
                return Err(Error::new(ErrorKind::TooLarge).because(text).on_task(root));
            }
        }
        self.in_order(waits)
    }

    /// These tasks, each after those of them that it waits for. With each it is given for how many
    /// of them it waits.
    fn in_order(&self, mut waits: BTreeMap<TaskId, usize>) -> Result<Vec<TaskId>> {
        let waits_for_none = |(id, count): (&TaskId, &usize)| (*count == 0).then_some(*id);
        let mut order: Vec<_> = waits.iter().filter_map(waits_for_none).collect();
        order.iter().for_each(|id| _ = waits.remove(id));
        let mut at = 0;
        while let Some(id) = order.get(at).copied() {
            at += 1;
            self.waiting_for(id, &mut |later| {
                if let Some(count) = waits.get_mut(&later) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        waits.remove(&later);
                        order.push(later);
                    }
                }
            })?;
        }
        // Those whose edges have changed meanwhile.
        order.extend(waits.into_keys());
        Ok(order)
    }

    /// Passes the tasks on that wait for this one.
    fn waiting_for(&self, id: TaskId, each: &mut dyn FnMut(TaskId)) -> Result<()> {
        for run in Run::BOTH {
            self.led_to(key::edges_in(Direction::Dependent, run, id, false), each)?;
        }
        Ok(())
    }

    /// Removes a task and all that wait for it, those first that nothing waits for. Returns how
    /// many were removed.
    pub(crate) fn cancel_tree(&self, root: TaskId, durability: Durability) -> Result<u64> {
        let tree = self.tree(root)?;
        let mut all = tree.clone();
        all.sort_unstable();
        self.remove_all(tree.into_iter().rev(), &all, durability)
    }

    /// Removes these tasks, in whatever tubes they are, each after those of them that wait for it.
    /// Returns how many were removed.
    pub(crate) fn delete_all(&self, ids: &[TaskId], durability: Durability) -> Result<u64> {
        let mut waits: BTreeMap<TaskId, usize> = ids.iter().map(|id| (*id, 0)).collect();
        let (all, mut first) = (waits.keys().copied().collect::<Vec<_>>(), Vec::new());
        for id in &all {
            let mut waits_another = false;
            self.waiting_for(*id, &mut |later| match waits.get_mut(&later) {
                Some(count) => *count += 1,
                None => waits_another = true,
            })?;
            if waits_another {
                first.push(*id);
            }
        }
        // The call is refused before anything is removed.
        self.step_by_step(first.into_iter(), |tube, ids| {
            let op = DeleteMany { tube, ids, all: Together::in_all_tubes(&all), is_check: true };
            self.run(&op, durability)
        })?;
        let order = self.in_order(waits)?;
        self.remove_all(order.into_iter().rev(), &all, durability)
    }

    /// Removes tasks in this order, which are all of these. Returns how many were removed.
    fn remove_all(
        &self,
        order: impl Iterator<Item = TaskId>,
        all: &[TaskId],
        durability: Durability,
    ) -> Result<u64> {
        self.step_by_step(order, |tube, ids| {
            let op = DeleteMany { tube, ids, all: Together::in_all_tubes(all), is_check: false };
            self.run(&op, durability)
        })
    }

    /// Does steps of some tasks of one tube, in this order, without those that are gone. A step
    /// returns how many of its tasks it has found. Returns how many all have found.
    fn step_by_step(
        &self,
        order: impl Iterator<Item = TaskId>,
        mut step: impl FnMut(u32, &[TaskId]) -> Result<u64>,
    ) -> Result<u64> {
        // One that no tube has may be in a tube that cannot be read. The others go on.
        let damage = Cell::new(None);
        let place = |id: TaskId| match self.tube_with(id) {
            Err(error) if error.kind() == ErrorKind::Damaged => {
                damage.set(Some(error));
                Ok(None)
            }
            found => Ok(found?.map(|tube| (id, tube))),
        };
        let mut left = order.filter_map(|id| place(id).transpose()).peekable();
        let (mut all, mut again) = (0, Vec::new());
        while let Some(found) = again.pop().map(Ok).or_else(|| left.next()) {
            let (first, tube) = found?;
            let mut ids = vec![first];
            let is_here = |next: &Result<(TaskId, u32)>| matches!(next, Ok((_, of)) if *of == tube);
            while ids.len() < SWEEP_TASKS
                && let Some(Ok((next, _))) = left.next_if(is_here)
            {
                ids.push(next);
            }
            let found = match step(tube, &ids) {
                // It was dropped meanwhile.
                Err(error) if error.kind() == ErrorKind::TubeNotFound => 0,
                found => found?,
            };
            all += found;
            if found < ids.len() as u64 {
                // Before those that they wait for: they may be in another tube now.
                for id in ids.into_iter().rev() {
                    if self.has_moved(id)? {
                        again.extend(place(id)?);
                    }
                }
            }
        }
        drop(left);
        damage.into_inner().map_or(Ok(all), Err)
    }
}
