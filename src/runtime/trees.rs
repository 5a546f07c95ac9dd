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
                let text = format!("more than {TREE_TASKS_MAX} tasks wait for it");
                return Err(Error::new(ErrorKind::TooLarge).because(text).on_task(root));
            }
        }
        let (mut tree, mut at) = (vec![root], 0);
        waits.remove(&root);
        while let Some(id) = tree.get(at).copied() {
            at += 1;
            self.waiting_for(id, &mut |later| {
                if let Some(count) = waits.get_mut(&later) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        waits.remove(&later);
                        tree.push(later);
                    }
                }
            })?;
        }
        // Those whose edges have changed meanwhile.
        tree.extend(waits.into_keys());
        Ok(tree)
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
        let (mut all, mut removed) = (tree.clone(), 0);
        all.sort_unstable();
        let mut left = tree.into_iter().rev().peekable();
        while let Some(first) = left.next() {
            let Some(tube) = self.tube_with(first)? else { continue };
            let mut ids = vec![first];
            while ids.len() < SWEEP_TASKS
                && let Some(next) = left.peek().copied()
                && self.tube_with(next)? == Some(tube)
            {
                ids.push(next);
                left.next();
            }
            let op = DeleteMany { tube, ids: &ids, all: Together::in_all_tubes(&all) };
            match self.run(&op, durability) {
                // It was dropped meanwhile.
                Err(error) if error.kind() == ErrorKind::TubeNotFound => {}
                done => removed += done?,
            }
        }
        Ok(removed)
    }
}
