//! What ties a task to the tasks that it comes after. Plain values.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{BATCH_EDGES_MAX, EDGES_MAX};
use crate::words::task::TaskId;
use std::collections::{BTreeMap, BTreeSet};

/// Which end of a task meets the wait of another one for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum On {
    Success = 1,
    Failure = 2,
    AnyEnd = 3,
}

/// What becomes of a task once one that it comes after has ended so that its wait is not met, from
/// [`NewTask::orphaned`](crate::NewTask::orphaned). So does a task end that is buried, deleted with
/// force, removed by its ttl or with its tube, for one that waits for its success; and one that is
/// finished or removed, for one that waits for its failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Orphaned {
    /// It goes on waiting: a buried task may be kicked and succeed. If the other one is gone, it
    /// waits until it is deleted, or put again after other tasks.
    #[default]
    Hold = 1,
    /// It is removed, with [`Cause::Cancel`](crate::Cause::Cancel), and so is what waits for it, by
    /// the policy of each.
    Cancel = 2,
    /// It does not wait for that one any more.
    Ignore = 3,
}

/// What a put after a task does whose id was never given, from
/// [`NewTask::missing`](crate::NewTask::missing). A task that is finished or gone was given an id,
/// and is not missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Missing {
    /// It is refused, as [`TaskNotFound`](crate::ErrorKind::TaskNotFound).
    #[default]
    Refuse,
    /// It does not wait for that one.
    Ignore,
}

/// The tasks that a task comes after, and on what terms, for [`Tube::depend`](crate::Tube::depend)
/// and [`Advance::after`](crate::Advance::after). A put has the same words of its own, as
/// [`NewTask::after`](crate::NewTask::after). Ids alone are [tasks whose success](After::success)
/// it waits for.
///
/// ```
/// use tubewell::{After, Orphaned, Queue, State};
///
/// # fn main() -> tubewell::Result<()> {
/// let tube = Queue::in_memory()?.tube("letters")?;
/// let [draft, proof] = [tube.put(b"draft")?, tube.put(b"proof")?];
/// let letter = tube.task(b"letter").after([draft]).put()?;
/// tube.depend(letter, After::new().any_end([proof]))?;
///
/// tube.take()?.ack()?;
/// tube.take()?.fail("print", "no ink")?;
/// assert_eq!(tube.take()?.id(), letter);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct After {
    /// Whether they were given, perhaps none. Otherwise only the terms were.
    pub(crate) is_given: bool,
    /// In the order in which they were given.
    pub(crate) tasks: Vec<(TaskId, On)>,
    /// `None` is the default.
    pub(crate) missing: Option<Missing>,
    /// `None` is the default.
    pub(crate) orphaned: Option<Orphaned>,
}

impl After {
    pub(crate) const NONE: &'static Self = &Self::new();

    /// No tasks.
    pub const fn new() -> Self {
        Self { is_given: false, tasks: Vec::new(), missing: None, orphaned: None }
    }

    /// After the success of these tasks too.
    pub fn success(self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        self.with(tasks, On::Success)
    }

    /// After each of these tasks is buried, too.
    pub fn failure(self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        self.with(tasks, On::Failure)
    }

    /// After each of these tasks has ended in any way, too: finished, buried or removed.
    pub fn any_end(self, tasks: impl IntoIterator<Item = TaskId>) -> Self {
        self.with(tasks, On::AnyEnd)
    }

    /// What is done about an id that was never given. Default: [`Missing::Refuse`].
    pub const fn missing(mut self, missing: Missing) -> Self {
        self.missing = Some(missing);
        self
    }

    /// What becomes of the task once one of these has ended otherwise than it waits for. Default:
    /// [`Orphaned::Hold`]. It counts for all of these, before or after this call.
    pub const fn orphaned(mut self, orphaned: Orphaned) -> Self {
        self.orphaned = Some(orphaned);
        self
    }

    fn with(mut self, tasks: impl IntoIterator<Item = TaskId>, on: On) -> Self {
        self.add(tasks, on);
        self
    }

    /// Adds tasks. It keeps one more than a task may have, so that an endless iterator is refused.
    pub(crate) fn add(&mut self, tasks: impl IntoIterator<Item = TaskId>, on: On) {
        self.is_given = true;
        let room = (EDGES_MAX + 1).saturating_sub(self.tasks.len());
        self.tasks.extend(tasks.into_iter().take(room).map(|id| (id, on)));
    }

    /// Also those of all tasks of a batch, with their terms where this one has none.
    pub(crate) fn or(&self, common: &Self) -> Self {
        let own: BTreeSet<_> = self.tasks.iter().map(|(id, _)| id).collect();
        let more = common.tasks.iter().filter(|(id, _)| !own.contains(id));
        Self {
            is_given: self.is_given || common.is_given,
            tasks: self.tasks.iter().chain(more).copied().collect(),
            missing: self.missing.or(common.missing),
            orphaned: self.orphaned.or(common.orphaned),
        }
    }

    /// Each of the tasks once, in the order of their ids.
    pub(crate) fn each_once(&self) -> Vec<(TaskId, On)> {
        let mut tasks = self.tasks.clone();
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }

    /// Refuses so many edges of a batch.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn ensure_fit_batch(edges: usize) -> Result<()> {
        if edges > BATCH_EDGES_MAX {
            let text = format!("the tasks of a batch come after at most {BATCH_EDGES_MAX} others");
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        Ok(())
    }

    /// Refuses too many, and those that are given twice with other terms.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn check(&self) -> Result<()> {
        let invalid = |text: String| Err(Error::new(ErrorKind::Invalid).because(text));
        if self.tasks.len() > EDGES_MAX {
            return invalid(format!("a task comes after at most {EDGES_MAX} others"));
        }
        let mut terms = BTreeMap::new();
        for (id, on) in &self.tasks {
            if *terms.entry(id).or_insert(on) != on {
                return invalid(format!("it comes after task {id} by two different ends"));
            }
        }
        Ok(())
    }
}

impl From<Vec<TaskId>> for After {
    fn from(tasks: Vec<TaskId>) -> Self {
        Self::new().success(tasks)
    }
}

impl From<&[TaskId]> for After {
    fn from(tasks: &[TaskId]) -> Self {
        Self::new().success(tasks.iter().copied())
    }
}

impl<const N: usize> From<[TaskId; N]> for After {
    fn from(tasks: [TaskId; N]) -> Self {
        Self::new().success(tasks)
    }
}

impl<const N: usize> From<&[TaskId; N]> for After {
    fn from(tasks: &[TaskId; N]) -> Self {
        Self::new().success(*tasks)
    }
}

impl From<&Vec<TaskId>> for After {
    fn from(tasks: &Vec<TaskId>) -> Self {
        tasks[..].into()
    }
}
