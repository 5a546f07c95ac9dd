//! Which events a subscription receives, as plain values.

use crate::runtime::events::Event;
use crate::words::error::Result;
use crate::words::name::label;
use crate::words::task::{Cause, State, TaskId};
use std::collections::BTreeSet;

/// Which events [`Queue::on_event`](crate::Queue::on_event) calls for. It has criteria: the tube,
/// the task, its consumer, the cause, and the states before and after. An event passes if it meets
/// all of them. A criterion with several values, from several calls, is met by any of these; one
/// without values is met by every event. So the filter without criteria, which is the default,
/// passes every event, also those of tubes that are made or changed, and of settings.
///
/// ```
/// use std::sync::mpsc;
/// use tubewell::{Cause, EventFilter, Queue};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let (sender, received) = mpsc::channel();
/// // What ends in the tubes of a shop.
/// let filter = EventFilter::new().tubes_under("shop:").cause(Cause::Ack).cause(Cause::Delete);
/// let subscription = queue.on_event(filter, move |event| {
///     let _ = sender.send((event.tube.to_string(), event.cause));
/// })?;
/// for name in ["shop:letters", "other", "shop:orders"] {
///     let tube = queue.tube(name)?;
///     tube.put(b"hello")?;
///     tube.take()?.ack()?;
/// }
/// let ends: Vec<_> = received.iter().take(2).collect();
/// assert_eq!(ends, [("shop:letters".into(), Cause::Ack), ("shop:orders".into(), Cause::Ack)]);
/// # drop(subscription);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct EventFilter {
    /// Names of tubes. With the next it is one criterion.
    tubes: BTreeSet<Box<str>>,
    /// What names of tubes begin with.
    prefixes: BTreeSet<Box<str>>,
    tasks: BTreeSet<TaskId>,
    consumers: BTreeSet<Box<str>>,
    causes: BTreeSet<Cause>,
    from: BTreeSet<State>,
    to: BTreeSet<State>,
    tasks_only: bool,
    tracked: bool,
    payloads: bool,
    /// Only the lapse and the loss of the present lease on this task.
    lease: Option<TaskId>,
}

impl EventFilter {
    /// Passes every event, without payloads.
    pub const fn new() -> Self {
        Self {
            tubes: BTreeSet::new(),
            prefixes: BTreeSet::new(),
            tasks: BTreeSet::new(),
            consumers: BTreeSet::new(),
            causes: BTreeSet::new(),
            from: BTreeSet::new(),
            to: BTreeSet::new(),
            tasks_only: false,
            tracked: false,
            payloads: false,
            lease: None,
        }
    }

    /// Events of the tube of this name and of its tasks, also of a tube that is made later, and of
    /// each one of this name.
    pub fn tube(mut self, name: &str) -> Self {
        self.tubes.insert(name.into());
        self
    }

    /// Events of the tubes whose names begin with this prefix, as those of a
    /// [`scope`](crate::Queue::scope) do, and of their tasks. With [`tube`](EventFilter::tube) it
    /// is one criterion: a tube of one of the names or under one of the prefixes meets it.
    pub fn tubes_under(mut self, prefix: &str) -> Self {
        self.prefixes.insert(prefix.into());
        self
    }

    /// Events of this task. A tube has none of these.
    pub fn task(mut self, id: TaskId) -> Self {
        self.tasks.insert(id);
        self
    }

    /// Notices of the named consumer of this name: events of tasks that it holds after the step, or
    /// held before it, see [`Event::holder`](crate::Event::holder). A name that no consumer has is
    /// met by no event.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tubewell::{Cause, EventFilter, Queue, State};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// let (ada, bob) = (queue.consumer("ada")?, queue.consumer("bob")?);
    /// let (sender, received) = mpsc::channel();
    /// // What ada loses. Her own verdicts have other causes.
    /// let lost = [Cause::Ttr, Cause::Timeout, Cause::Put, Cause::Move, Cause::Delete];
    /// let filter = EventFilter::new().consumer("ada").from(State::Taken);
    /// let filter = lost.into_iter().fold(filter, EventFilter::cause);
    /// let subscription = queue.on_event(filter, move |event| {
    ///     let _ = sender.send((event.task, event.cause));
    /// })?;
    /// let ids = tube.put_many([*b"hello", *b"world", *b"again"])?;
    /// let (hers, _her_next) = (tube.by(&ada).take()?, tube.by(&ada).take()?);
    /// let his = tube.by(&bob).take()?;
    /// tube.delete(his.id())?;
    /// tube.delete(ids[1])?;
    /// tube.force_timeout(&[hers.id()])?;
    /// let notices: Vec<_> = received.iter().take(2).collect();
    /// assert_eq!(notices, [(Some(ids[1]), Cause::Delete), (Some(ids[0]), Cause::Timeout)]);
    /// # drop(subscription);
    /// # Ok(())
    /// # }
    /// ```
    pub fn consumer(mut self, name: &str) -> Self {
        self.consumers.insert(name.into());
        self
    }

    /// Events of this cause.
    pub fn cause(mut self, cause: Cause) -> Self {
        self.causes.insert(cause);
        self
    }

    /// Events of tasks that were in this state before. A new task and a tube were in none.
    pub fn from(mut self, state: State) -> Self {
        self.from.insert(state);
        self
    }

    /// Events of tasks that are in this state after it, also if they were before: a
    /// [`touch`](Cause::Touch) goes from Taken to Taken. A removed task and a tube are in none.
    pub fn to(mut self, state: State) -> Self {
        self.to.insert(state);
        self
    }

    /// No events of tubes and settings, only of tasks. Default: all.
    pub fn tasks_only(mut self) -> Self {
        self.tasks_only = true;
        self
    }

    /// Only events of tasks that are [tracked](crate::Queue::track) when they happen, also of those
    /// that are tracked later than this call. A task that is removed with its whole tube has none.
    pub fn tracked(mut self) -> Self {
        self.tracked = true;
        self
    }

    /// Each event of a task with a copy of its payload, see
    /// [`Event::payload`](crate::Event::payload). Every verb in the tubes that the filter passes
    /// then makes that copy, and for a payload of more than 3500 bytes it may have to read the
    /// disk, also where another criterion is not met. Default: off.
    pub fn payloads(mut self) -> Self {
        self.payloads = true;
        self
    }

    /// Events of the task by which a lease on it lapses or is lost, and those of the tube by which
    /// it loses all of its tasks.
    pub(crate) fn of_lease(mut self, id: TaskId) -> Self {
        self.lease = Some(id);
        self
    }

    /// Refuses names that no consumer can have.
    pub(crate) fn check(&self) -> Result<()> {
        self.consumers.iter().try_for_each(|name| label("consumer name", name).map(drop))
    }

    pub(crate) fn wants_payloads(&self) -> bool {
        self.payloads
    }

    /// The names of the only tubes whose events may pass; `None` if other tubes' events may, too.
    pub(crate) fn names(&self) -> Option<&BTreeSet<Box<str>>> {
        (self.prefixes.is_empty() && !self.tubes.is_empty()).then_some(&self.tubes)
    }

    /// Whether events of this tube, or of its tasks, may pass.
    pub(crate) fn passes_tube(&self, name: &str) -> bool {
        self.tubes.is_empty() && self.prefixes.is_empty()
            || self.tubes.contains(name)
            || self.prefixes.iter().any(|prefix| name.starts_with(&**prefix))
    }

    fn passes_holder(&self, name: Option<&str>) -> bool {
        self.consumers.is_empty() || name.is_some_and(|name| self.consumers.contains(name))
    }

    pub(crate) fn passes(&self, event: &Event) -> bool {
        let is_of_task = event.task.is_some() || !self.tasks_only;
        self.lease.is_none_or(|id| is_of_lease(event, id))
            && is_of_task
            && (!self.tracked || event.is_tracked())
            && has(&self.causes, Some(event.cause))
            && has(&self.tasks, event.task)
            && self.passes_holder(event.holder())
            && has(&self.from, event.from)
            && has(&self.to, event.to)
            && self.passes_tube(&event.tube)
    }
}

/// Whether a lease on this task lapses or ends.
fn is_of_lease(event: &Event, id: TaskId) -> bool {
    let Some(task) = event.task else {
        return matches!(event.cause, Cause::DropTube | Cause::Truncate);
    };
    let ends = event.to != Some(State::Taken) || event.cause == Cause::Stall;
    task == id && event.from == Some(State::Taken) && ends
}

/// Whether a criterion with these values is met.
fn has<T: Ord>(values: &BTreeSet<T>, value: Option<T>) -> bool {
    values.is_empty() || value.is_some_and(|value| values.contains(&value))
}
