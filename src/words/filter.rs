//! Which tasks a search is for, in plain values.

use crate::words::macros::setters;
use crate::words::task::{Reason, State, TaskSummary};
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime};

/// Which tasks a [search](crate::Tube::search) finds: those that meet every condition. Without one
/// it finds all but those in the trash, which it finds [if it is asked to](Filter::trashed).
///
/// With an owner, a failure group, a key, a key prefix, a tag, a kind in a tube that [has an index
/// of them](crate::TubeOptions::index_kinds), a time of the end or a state, in this order, the
/// first one that is given chooses the index that is read, and its order: by id, by the time of the
/// bury, by id, by the length of the key and the key, by the time at which they got the tag, by id,
/// the buried and then the finished ones by the time of their ends, or as the state's index has
/// them, the taken ones by the ends of their leases. The index of tags is of the whole queue, and
/// the tasks of other tubes with the tag are stepped over.
///
/// Without any of them those are read first that were put ready and without a group and have not
/// come back or been updated since, and then the others, both by the priority of the put, then in
/// the order of the puts. Of the ready ones the same are first, and then the others as takes reach
/// them.
/// Stalled tasks are looked for among the taken ones. Tasks in the trash are read by the time at
/// which they came there.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Filter, ManualClock, Queue, State};
///
/// # fn main() -> tubewell::Result<()> {
/// let clock = ManualClock::new();
/// let tube = Queue::builder().clock(clock.clone()).in_memory()?.tube("letters")?;
/// let ids = tube.put_many([b"a", b"b", b"c"].map(|text| text.to_vec()))?;
/// for id in &ids {
///     tube.bury(*id, "no stamp")?;
///     clock.advance(Duration::from_secs(60));
/// }
/// let second = tube.peek(ids[1])?.buried.unwrap();
/// let filter = Filter::new().state(State::Buried).ended_before(second);
/// assert_eq!(tube.search(&filter, None, 10)?.tasks[0].id, ids[0]);
/// let filter = Filter::new().ended_after(second);
/// assert_eq!(tube.search(&filter, None, 10)?.tasks.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Filter {
    pub(crate) state: Option<State>,
    pub(crate) owner: Option<String>,
    pub(crate) failure_group: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) key_prefix: Option<String>,
    pub(crate) tag: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) requires: Option<String>,
    pub(crate) throttle: Option<String>,
    pub(crate) older_than: Option<Duration>,
    pub(crate) younger_than: Option<Duration>,
    pub(crate) priorities: Option<RangeInclusive<i64>>,
    pub(crate) stalled: Option<bool>,
    pub(crate) ended_after: Option<SystemTime>,
    pub(crate) ended_before: Option<SystemTime>,
    pub(crate) trashed: bool,
}

setters! {
    [] Filter;

    /// In this state.
    state(state: State) => state = Some(state);

    /// Taken by the consumer of this name.
    owner(name: impl Into<String>) => owner = Some(name.into());

    /// Buried in this failure group.
    failure_group(group: impl Into<String>) => failure_group = Some(group.into());

    /// With this key, also in a state in which it [does not count](crate::Unique): as long as it
    /// does, one task.
    key(key: impl Into<String>) => key = Some(key.into());

    /// With a key that begins so, also in a state in which it [does not count](crate::Unique).
    key_prefix(prefix: impl Into<String>) => key_prefix = Some(prefix.into());

    /// With this [tag](crate::Tube::tag).
    tag(tag: impl Into<String>) => tag = Some(tag.into());

    /// Of this kind.
    kind(kind: impl Into<String>) => kind = Some(kind.into());

    /// In this group.
    group(group: impl Into<String>) => group = Some(group.into());

    /// That [requires](crate::NewTask::require) this condition itself.
    requires(condition: impl Into<String>) => requires = Some(condition.into());

    /// With this [throttle](crate::NewTask::throttle) of its own.
    throttle(name: impl Into<String>) => throttle = Some(name.into());

    /// Put longer ago than this, in [queue time](crate#time).
    older_than(age: Duration) => older_than = Some(age);

    /// Put no longer ago than this, in queue time.
    younger_than(age: Duration) => younger_than = Some(age);

    /// With one of these priorities.
    priorities(priorities: RangeInclusive<i64>) => priorities = Some(priorities);

    /// In its [grace](crate::Lapse::grace), or not.
    stalled(stalled: bool) => stalled = Some(stalled);

    /// Finished or buried at this time or later, in [queue time](crate#time).
    ended_after(time: SystemTime) => ended_after = Some(time);

    /// Finished or buried before this time, in queue time.
    ended_before(time: SystemTime) => ended_before = Some(time);

    /// In the [trash](crate::Tube::trash), or not, which is the default. The end of a task in it is
    /// when it came there; it is in the state Buried, and in no failure group. Its key is looked at
    /// although it does not count.
    trashed(trashed: bool) => trashed = trashed;
}

impl Filter {
    /// All tasks.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn meets(&self, task: &TaskSummary) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let failure_group = task.reason.as_ref().and_then(|reason| reason.failure_group());
        matches!(task.reason, Some(Reason::Trashed(_))) == self.trashed
            && self.state.is_none_or(|state| task.state == state)
            && is(&self.owner, task.holder.as_deref())
            && is(&self.failure_group, failure_group)
            && self.tag.as_ref().is_none_or(|tag| task.tags.contains(tag))
            && self.requires.as_ref().is_none_or(|name| task.requires.contains(name))
            && self.throttle.as_ref().is_none_or(|name| task.throttles.contains(name))
            && is(&self.kind, task.kind.as_deref())
            && is(&self.group, task.group.as_deref())
            && is(&self.key, task.key.as_deref())
            && self
                .key_prefix
                .as_deref()
                .is_none_or(|prefix| task.key.as_deref().is_some_and(|key| key.starts_with(prefix)))
            && self.older_than.is_none_or(|age| task.age > age)
            && self.younger_than.is_none_or(|age| task.age <= age)
            && self.stalled.is_none_or(|stalled| task.is_stalled() == stalled)
            && self.has_end(task.finished.or(task.buried))
            && self.priorities.as_ref().is_none_or(|wanted| wanted.contains(&task.priority))
    }

    /// Whether it is given when the tasks have ended.
    pub(crate) fn is_by_end(&self) -> bool {
        self.ended_after.is_some() || self.ended_before.is_some()
    }

    fn has_end(&self, end: Option<SystemTime>) -> bool {
        !self.is_by_end()
            || end.is_some_and(|end| {
                self.ended_after.is_none_or(|time| end >= time)
                    && self.ended_before.is_none_or(|time| end < time)
            })
    }
}
