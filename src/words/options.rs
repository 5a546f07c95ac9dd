//! Options for making a tube. Plain values, with the defaults; other rooms apply them.

#[cfg(feature = "serde")]
mod form;
mod gates;
mod getters;

use crate::words::backoff::Backoff;
use crate::words::details::{self, Details};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::gates::Gates;
use crate::words::history::HistoryLimits;
use crate::words::lapse::Lapse;
use crate::words::limits;
use crate::words::macros::setters;
use crate::words::name;
use crate::words::retention::Retention;
use crate::words::sync::Arc;
use crate::words::tube_kind::TubeKind;
use crate::words::unique::Unique;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a tube is made with. [`TubeOptions::default`] is the general kind.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Backoff, Lapse, TubeKind, TubeOptions};
///
/// let plain = TubeOptions::default();
/// let spelled_out = TubeOptions::new(TubeKind::General)
///     .priority(0)
///     .max_attempts(20)
///     .backoff(Backoff::doubling(Duration::from_secs(1)))
///     .lapse(Lapse::new())
///     .in_flight(1)
///     .limit(0)
///     .hold_group_while_delayed(false)
///     .ttl_spares_buried(false)
///     .higher_first(false)
///     .drop_payloads(false)
///     .index_kinds(false)
///     .keep_days(0)
///     .temporary(false);
/// assert_eq!(plain, spelled_out); // and no ttl, no ttr, no capacity, no placement
/// ```
///
/// [`TubeInfo`](crate::TubeInfo) has the options of a tube. Each is read by `get_` and the name of
/// its setter.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Queue, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let options = TubeOptions::default().ttr(Duration::from_secs(60)).capacity(1000);
/// let tube = queue.create_tube("letters", options)?;
///
/// let options = tube.info()?.options;
/// assert_eq!(options.get_ttr(), Some(Duration::from_secs(60)));
/// assert_eq!((options.get_capacity(), options.get_max_attempts()), (Some(1000), Some(20)));
/// assert_eq!((options.get_ttl(), options.get_placement()), (None, None));
/// # Ok(())
/// # }
/// ```
///
/// # In a configuration file
///
/// With the feature `serde` they can be serialised and deserialised. The form has a field for each
/// setter, with its name and the value that it takes, and `kind`; only the details are one field,
/// `details`, with a text for each name. Without a ttl, a ttr, a book or a placement that field is
/// null or absent. Any other field that is absent is the default of the
/// kind, and an unknown one is refused. What a tube may not have is refused when it is made, as
/// without a file. Lengths of time have the form that serde gives a [`Duration`]: whole seconds and
/// nanoseconds, so that nothing is rounded and no unit has to be guessed.
///
/// ```
/// # #[cfg(feature = "serde")]
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tubewell::{TubeKind, TubeOptions};
///
/// let file = r#"{
///     "kind": "fifo_ttl",
///     "ttr": { "secs": 60, "nanos": 0 },
///     "max_attempts": 5,
///     "backoff": { "first": { "secs": 2, "nanos": 0 }, "jitter": 20 }
/// }"#;
/// let options: TubeOptions = serde_json::from_str(file)?;
/// assert_eq!((options.get_kind(), options.get_max_attempts()), (TubeKind::FifoTtl, Some(5)));
/// assert_eq!((options.get_ttr(), options.get_ttl()), (Some(Duration::from_secs(60)), None));
/// assert_eq!(options.get_backoff().wait(2), Duration::from_secs(4));
///
/// let written = serde_json::to_string(&options)?;
/// assert_eq!(serde_json::from_str::<TubeOptions>(&written)?, options);
/// assert!(serde_json::from_str::<TubeOptions>(r#"{ "tll": null }"#).is_err()); // no such option
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "serde"))]
/// # fn main() {}
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct TubeOptions {
    pub(crate) kind: TubeKind,
    pub(crate) temporary: bool,
    pub(crate) priority: i64,
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) capacity: Option<u64>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) backoff: Backoff,
    pub(crate) lapse: Lapse,
    pub(crate) in_flight: u32,
    /// `None` without a gate: one look says so. Shared, as the details are.
    pub(crate) gates: Option<Arc<Gates>>,
    pub(crate) hold_group_while_delayed: bool,
    pub(crate) ttl_spares_buried: bool,
    pub(crate) higher_first: bool,
    pub(crate) unique: Unique,
    pub(crate) index_kinds: bool,
    pub(crate) keep_finished: Option<Retention>,
    pub(crate) drop_payloads: bool,
    pub(crate) keep_buried: Option<Retention>,
    pub(crate) history: HistoryLimits,
    pub(crate) keep_days: u32,
    pub(crate) book: Option<String>,
    /// Shared: the options are cloned with their tube at each read of it.
    pub(crate) details: Arc<Details>,
    pub(crate) placement: Option<String>,
    /// An option of the call, not of the tube: never stored.
    pub(crate) if_not_exists: bool,
}

impl Default for TubeOptions {
    fn default() -> Self {
        Self::new(TubeKind::General)
    }
}

impl TubeOptions {
    /// Adds a detail that each of the tube's tasks has, unless the task has [one of its
    /// own](crate::NewTask::detail) of this name. A name has 1 to 255 bytes without control
    /// characters; all details of a tube have at most 4 KiB, with three bytes for each.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let options = TubeOptions::default().book("post office").detail("country", "no");
    /// let tube = queue.create_tube("letters", options.detail("stamp", "blue"))?;
    /// tube.task(b"hello").detail("stamp", "red").put()?;
    /// let task = tube.take()?;
    /// assert_eq!(task.book()?.as_deref(), Some("post office"));
    /// let details = task.details()?;
    /// assert_eq!((&details["country"][..], &details["stamp"][..]), ("no", "red"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn detail(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.details).insert(name.into(), text.into());
        self
    }

    /// The book of tasks that are put without one.
    pub fn get_book(&self) -> Option<&str> {
        self.book.as_deref()
    }

    /// The details of its tasks, by name.
    pub fn get_details(&self) -> &BTreeMap<String, String> {
        &self.details
    }

    /// The defaults of a kind. Only the general one limits attempts and backs off.
    pub fn new(kind: TubeKind) -> Self {
        let general = kind == TubeKind::General;
        Self {
            kind,
            temporary: false,
            priority: 0,
            ttl: None,
            ttr: None,
            capacity: None,
            max_attempts: general.then_some(limits::ATTEMPTS_MAX),
            backoff: if general { Backoff::general() } else { Backoff::NONE },
            lapse: Lapse::new(),
            in_flight: 1,
            gates: None,
            hold_group_while_delayed: false,
            ttl_spares_buried: false,
            higher_first: false,
            unique: Unique::new(),
            index_kinds: false,
            keep_finished: None,
            drop_payloads: false,
            keep_buried: None,
            history: HistoryLimits::new(),
            keep_days: 0,
            book: None,
            details: Arc::default(),
            placement: None,
            if_not_exists: false,
        }
    }

    /// The name of the placement that orders the tasks. `None`: priority and put order.
    pub fn get_placement(&self) -> Option<&str> {
        self.placement.as_deref()
    }

    /// The number that orders a task of this priority, smaller first; and the priority of such a
    /// number. Everything but what a caller gives and gets has the number.
    #[inline]
    pub(crate) fn turned(&self, priority: i64) -> i64 {
        if self.higher_first { !priority } else { priority }
    }

    /// Refuses options that the kind does not allow, and values that make no sense.
    pub(crate) fn check(&self) -> Result<()> {
        let switches = self.kind.switches();
        let refused = [
            ("priority", !switches.priority && self.priority != 0),
            ("ttl", !switches.timed && self.ttl.is_some()),
            ("ttr", !switches.timed && self.ttr.is_some()),
            ("backoff", !switches.timed && self.backoff.most > Duration::ZERO),
            ("lapse", !switches.timed && self.lapse != Lapse::new()),
            ("capacity", !switches.capacity && self.capacity.is_some()),
            ("in_flight", !switches.grouped && self.in_flight != 1),
            ("hold_group_while_delayed", !switches.grouped && self.hold_group_while_delayed),
            ("ttl_spares_buried", !switches.timed && self.ttl_spares_buried),
            ("higher_first", !switches.priority && self.higher_first),
            ("placement", self.kind != TubeKind::General && self.placement.is_some()),
        ];
        if self.placement.is_some() && self.lapse.is_ranked() {
            let text = "a return to the front or back with a placement";
            return Err(Error::new(ErrorKind::Unsupported).because(text));
        }
        if let Some((option, _)) = refused.iter().find(|(_, wrong)| *wrong) {
            let text = format!("option {option} with kind {:?}", self.kind);
            return Err(Error::new(ErrorKind::Unsupported).because(text));
        }
        if self.in_flight == 0 {
            return Err(Error::new(ErrorKind::Invalid).because("in_flight takes 1 or more"));
        }
        if self.ttl.is_some_and(is_nothing) || self.ttr.is_some_and(is_nothing) {
            let text = "a tube's ttl and ttr take a microsecond or more";
            return Err(Error::new(ErrorKind::Invalid).because(text));
        }
        self.keep_finished.map_or(Ok(()), |kept| kept.check("keep_finished"))?;
        self.keep_buried.map_or(Ok(()), |kept| kept.check("keep_buried"))?;
        self.history.check()?;
        self.gates.as_ref().map_or(Ok(()), |gates| gates.check())?;
        if self.keep_days > limits::KEEP_DAYS_MAX {
            return Err(Error::new(ErrorKind::Invalid).because("keep_days takes at most 3660"));
        }
        self.unique.check()?;
        if self.unique.in_queue && self.temporary {
            let text = "keys of a temporary tube that are unique in the queue";
            return Err(Error::new(ErrorKind::Unsupported).because(text));
        }
        let texts = self.details.iter().map(|(name, text)| (&**name, &**text));
        details::check(self.book.as_deref(), texts)?;
        if let Some(placement) = &self.placement {
            name::label("placement name", placement)?;
        }
        Ok(())
    }
}

setters! {
    [] TubeOptions;

    /// Keeps the tasks in memory only: they never touch the disk and are gone with the process.
    /// The tube itself stays. Default: off.
    temporary(yes: bool) => temporary = yes;

    /// The priority of tasks put without one. Smaller first. Default: 0.
    priority(priority: i64) => priority = priority;

    /// How long tasks live that are put without a ttl, in [queue time](crate#time). A microsecond
    /// or more. Default: without end.
    ttl(ttl: Duration) => ttl = Some(ttl);

    /// How long takers may hold tasks that are put without a ttr, in [lease time](crate#time). A
    /// microsecond or more. Default: without end.
    ttr(ttr: Duration) => ttr = Some(ttr);

    /// The most tasks that the tube holds, in every state but Done. 0: unlimited, which is the
    /// default.
    capacity(tasks: u64) => capacity = (tasks > 0).then_some(tasks);

    /// Attempts before a task is buried as exhausted. 0: no limit. Default: 20 for the general
    /// kind, no limit for the others.
    max_attempts(attempts: u32) => max_attempts = (attempts > 0).then_some(attempts);

    /// How often a task is tried again after its first attempt: as
    /// [`max_attempts`](TubeOptions::max_attempts) of one more.
    retries(retries: u32) => max_attempts = Some(retries.saturating_add(1));

    /// How long a retried task waits. Default: one second, doubling, at most an hour, for the
    /// general kind; no wait for the others.
    backoff(backoff: Backoff) => backoff = backoff;

    /// What becomes of a task whose ttr passes before its holder has settled it. Default: it
    /// returns at once to its place, and the attempt counts.
    lapse(lapse: Lapse) => lapse = lapse;

    /// How many tasks of one group may be taken at the same time, 1 or more. Default 1: a task is
    /// handed out when the one before it is settled. While a task waits for a retry, the next one
    /// is handed out, unless the group [is held](TubeOptions::hold_group_while_delayed).
    in_flight(tasks: u32) => in_flight = tasks;

    /// Keeps a group locked while a task of it waits after a release or retry with a delay, so that
    /// nothing overtakes it. Default: off, as in tarantool's utubes.
    hold_group_while_delayed(yes: bool) => hold_group_while_delayed = yes;

    /// Keeps buried tasks beyond their ttl. A [kick](crate::Tube::kick) or a
    /// [claim](crate::Tube::claim) after that gives the task a new life from then on. It is as long
    /// as the time from the put to the end of the old ttl, with every delay, and with what a touch,
    /// a release or an update changed. Default: off.
    ttl_spares_buried(yes: bool) => ttl_spares_buried = yes;

    /// Takes higher priorities first, where the docs say smaller ones. It concerns every priority
    /// of the tube, and cannot be changed. Default: off.
    ///
    /// ```
    /// use tubewell::{Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("letters", TubeOptions::default().higher_first(true))?;
    /// tube.task(b"low").priority(-10).put()?;
    /// tube.put(b"plain")?;
    /// tube.task(b"high").priority(10).put()?;
    /// let task = tube.take()?;
    /// assert_eq!((&task[..], task.priority()), (&b"high"[..], 10));
    /// # Ok(())
    /// # }
    /// ```
    higher_first(yes: bool) => higher_first = yes;

    /// Where the keys of its tasks are unique, and in which states a task counts. It cannot be
    /// changed. Default: in the tube, and in every state but Done. [`Unique`] has an example.
    unique(unique: Unique) => unique = unique;

    /// Keeps an index of the kinds of its tasks: a [search](crate::Tube::search) by a
    /// [kind](crate::Filter::kind) then reads only tasks of that kind. Each task with a kind has a
    /// row more, which its put writes. It cannot be changed. Default: off, and such a search looks
    /// at tasks of every kind.
    ///
    /// ```
    /// use tubewell::{Filter, Queue, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.create_tube("post", TubeOptions::default().index_kinds(true))?;
    /// tube.put_many((0..10_000).map(|_| b"letter".to_vec()))?;
    /// let film = tube.task(b"film").kind("parcel").put()?;
    /// let found = tube.search(&Filter::new().kind("parcel"), None, 100)?;
    /// assert_eq!((found.tasks[0].id, found.tasks.len()), (film, 1));
    /// assert!(found.next.is_none()); // all that there are
    /// # Ok(())
    /// # }
    /// ```
    index_kinds(yes: bool) => index_kinds = yes;

    /// Keeps each finished task, with its payload, unless the tube [drops
    /// it](TubeOptions::drop_payloads), and its [result](crate::Task::ack_with), as
    /// [`State::Done`](crate::State::Done), and removes it by this [`Retention`], which has an
    /// example. The key of a kept task is free unless [`unique`](TubeOptions::unique) says
    /// otherwise, and the tube's capacity does not count the task. Default: an ack removes the
    /// task; in a tube that kept some before, they go too.
    keep_finished(kept: Retention) => keep_finished = Some(kept);

    /// Keeps finished tasks without their payloads, which go with the ack, pieces too. Of such a
    /// task [`payload_dropped`](crate::TaskSummary::payload_dropped) is true and its payload is
    /// empty; all else of it is kept. Only a put of its key brings it back, which gives a payload.
    /// It concerns the tasks that finish from now on, and nothing without
    /// [`keep_finished`](TubeOptions::keep_finished). Default: off.
    ///
    /// ```
    /// use tubewell::{Conflict, Queue, Retention, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let options = TubeOptions::default().keep_finished(Retention::new()).drop_payloads(true);
    /// let tube = queue.create_tube("films", options)?;
    /// let id = tube.task(&vec![7; 1 << 20]).key("film").put()?;
    /// tube.take()?.ack_with(b"cut")?;
    /// let done = tube.peek(id)?;
    /// assert_eq!((done.payload_dropped, done.payload.len(), done.payload_bytes), (true, 0, 0));
    /// assert_eq!(done.result.as_deref(), Some(&b"cut"[..]));
    /// tube.task(b"another film").key("film").on_conflict(Conflict::Replace).put()?;
    /// assert_eq!(&tube.take()?[..], b"another film");
    /// # Ok(())
    /// # }
    /// ```
    drop_payloads(yes: bool) => drop_payloads = yes;

    /// Removes buried tasks by this [`Retention`], in whatever failure group they stand. Default:
    /// they are kept until the end of their ttl.
    ///
    /// ```
    /// use tubewell::{Queue, Retention, State, TubeOptions};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let options = TubeOptions::default().keep_buried(Retention::new().count(1));
    /// let tube = queue.create_tube("letters", options)?;
    /// tube.put_many([b"a".to_vec(), b"b".to_vec()])?;
    /// tube.take()?.bury("no stamp")?;
    /// tube.take()?.bury("no street")?;
    /// let kept = tube.peek_next(State::Buried)?.unwrap();
    /// assert_eq!((&kept.payload[..], tube.len()?), (&b"b"[..], 1));
    /// # Ok(())
    /// # }
    /// ```
    keep_buried(kept: Retention) => keep_buried = Some(kept);

    /// How much of each task's [history](crate::Tube::history) is kept; [`HistoryLimits`] has an
    /// example. Default: 100 entries and 4 KiB.
    history(limits: HistoryLimits) => history = limits;

    /// Keeps [statistics](crate::Tube::statistics) of each day for so many days, the present one
    /// among them; at most 3660. With 0 there are none, and what was kept is removed. Default: 0.
    keep_days(days: u32) => keep_days = days;

    /// The name of the book that tasks belong to which are put without one: where the application
    /// keeps what they work on. 1 to 255 bytes without control characters. Default: none.
    book(name: impl Into<String>) => book = Some(name.into());

    /// Orders tasks by the [`Placement`](crate::Placement) that the
    /// [builder](crate::Builder::placement) was given under this name; for the general kind only.
    /// Default: none, priority and put order.
    placement(name: impl Into<String>) => placement = Some(name.into());

    /// Takes the tube of this name if there is one of the same kind and options, instead of
    /// refusing. Default: off.
    if_not_exists() => if_not_exists = true;
}

/// Whether a length of time is less than the queue counts.
pub(crate) fn is_nothing(length: Duration) -> bool {
    length < Duration::from_micros(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_whose_switch_is_off_is_refused() {
        let refused = TubeOptions::new(TubeKind::Fifo).ttl(Duration::from_secs(1)).check();
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(TubeOptions::new(TubeKind::LimFifoTtl).capacity(3).check().is_ok());
        assert!(TubeOptions::new(TubeKind::FifoTtl).capacity(3).check().is_err());
        assert!(TubeOptions::default().in_flight(0).check().is_err());
    }
}
