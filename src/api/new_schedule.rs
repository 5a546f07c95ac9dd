//! The description of a schedule, with which one is made or changed.

use crate::api::codec::not_encoded;
use crate::api::queue_inner::QueueInner;
use crate::api::tube::Tube;
use crate::engine::schedule_verbs::ScheduleTerms;
use crate::words::backoff::Backoff;
use crate::words::clock::micros;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::macros::{debug, setters};
use crate::words::name::label;
use crate::words::payload::fits;
use crate::words::schedule::{Missed, Overlap, check_name};
use crate::words::sync::{Arc, Ordering};
use crate::words::task_gates::TaskGates;
use std::time::Duration;

/// A schedule that is described, from [`Queue::schedule`](crate::Queue::schedule) and
/// [`Schedule::update`](crate::Schedule::update). Nothing happens
/// before [`make`](NewSchedule::make).
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Missed, Overlap, Queue};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let tube = queue.tube("reports")?;
/// let hour = Duration::from_secs(3600);
/// let report = queue
///     .schedule("report")
///     .every(hour)
///     .offset(hour) // the first one in an hour
///     .missed(Missed::CatchUp(3))
///     .overlap(Overlap::Skip)
///     .to(&tube)
///     .payload(b"sales")
///     .priority(-1)
///     .tag("sales")
///     .make()?;
/// let info = report.info()?;
/// assert_eq!((info.missed, info.overlap), (Missed::CatchUp(3), Overlap::Skip));
/// assert_eq!((info.children, info.tags), (0, vec!["sales".to_owned()]));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is made before `make`"]
pub struct NewSchedule<'a, T: ?Sized = [u8]> {
    pub(super) inner: Arc<QueueInner>,
    pub(super) name: &'a str,
    pub(super) terms: ScheduleTerms,
    pub(super) tube: Option<&'a Tube<T>>,
    pub(super) payload: Option<&'a T>,
    /// The names of conditions that its children require, and of their throttles.
    pub(super) gates: [Vec<String>; 2],
}

setters! {
    ['a, T: ?Sized] NewSchedule<'a, T>;

    /// Fires so often, in [queue time](crate#time): at the offset, then always so long after the
    /// nominal time of the fire before. A microsecond or more.
    every(interval: Duration) => terms.every = Some(micros(interval));

    /// Not before so long after it is made, or made again with another timing. Default: zero, the
    /// first fire of an interval comes at once.
    offset(offset: Duration) => terms.offset = Some(micros(offset));

    /// What becomes of fires that were missed. Default: [`Missed::Coalesce`].
    missed(missed: Missed) => terms.missed = Some(missed);

    /// What a fire does if the last child has not ended. Default: [`Overlap::Allow`].
    overlap(overlap: Overlap) => terms.overlap = Some(overlap);

    /// The payload of the children, at most 16 KiB encoded, and at most the queue's
    /// [`payload_bytes_max`](crate::Builder::payload_bytes_max); a lower limit later concerns only
    /// schedules that are made or updated then. Default: empty.
    payload(payload: &'a T) => payload = Some(payload);

    /// The priority of the children. Smaller first. Default: their tube's.
    priority(priority: i64) => terms.child.priority = Some(priority);

    /// How long the children are delayed after they were made.
    delay(delay: Duration) => terms.child.delay = Some(delay);

    /// The ttl of the children. Default: their tube's.
    ttl(ttl: Duration) => terms.child.ttl = Some(ttl);

    /// The ttr of the children. Default: their tube's.
    ttr(ttr: Duration) => terms.child.ttr = Some(ttr);

    /// The limit of attempts of each child, as [`NewTask::max_attempts`](crate::NewTask). Default:
    /// their tube's.
    max_attempts(attempts: u32) => terms.child.retry.max_attempts = Some(attempts);

    /// The back-off of the children. Default: their tube's.
    backoff(backoff: Backoff) => terms.child.retry.backoff = Some(backoff);
}

impl<'a> NewSchedule<'a> {
    /// That says nothing yet.
    pub(super) fn new(inner: Arc<QueueInner>, name: &'a str) -> Self {
        let (terms, gates) = (ScheduleTerms::default(), Default::default());
        NewSchedule { inner, name, terms, tube: None, payload: None, gates }
    }
}

impl<'a, T: ?Sized> NewSchedule<'a, T> {
    /// Fires when the wall clock of its [zone](NewSchedule::zone) fits this text of five fields:
    /// minute, hour, day of the month, month, day of the week. If both days are given and none
    /// begins with `*`, one of them is enough. `@hourly`, `@daily`, `@midnight`, `@weekly`,
    /// `@monthly`, `@yearly` and `@annually` are texts too; `L`, `W` and `#` are refused. It needs
    /// the feature `cron`. A local time that a change of the clocks leaves out fires at that
    /// change; one that comes twice fires the first time.
    ///
    /// ```
    /// # #[cfg(feature = "cron")]
    /// # fn main() -> tubewell::Result<()> {
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use tubewell::{ManualClock, Queue};
    ///
    /// let at = |hours: u64| UNIX_EPOCH + Duration::from_secs(hours * 3600);
    /// let queue = Queue::builder().by_hand(true).clock(ManualClock::at(at(12))).in_memory()?;
    /// let tube = queue.tube("chores")?; // it is noon of a Thursday
    /// let sweep = queue.schedule("sweep").cron("0 8 * * mon-fri").to(&tube).make()?;
    /// assert_eq!(sweep.next(2)?, [at(24 + 8), at(4 * 24 + 8)]); // a Friday and a Monday
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "cron"))]
    /// # fn main() {}
    /// ```
    pub fn cron(mut self, text: &str) -> Self {
        self.terms.cron = Some(text.to_owned());
        self
    }

    /// The time zone of the cron text, by its IANA name, such as `Europe/Berlin`. The rules of all
    /// zones are built in. Default: `UTC`.
    ///
    /// ```
    /// # #[cfg(feature = "cron")]
    /// # fn main() -> tubewell::Result<()> {
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use tubewell::{ManualClock, Queue};
    ///
    /// let at = |hours: u64| UNIX_EPOCH + Duration::from_secs(hours * 3600);
    /// let queue = Queue::builder().by_hand(true).clock(ManualClock::at(at(12))).in_memory()?;
    /// let tube = queue.tube("chores")?;
    /// let daily = |zone| queue.schedule(zone).cron("0 20 * * *").zone(zone).to(&tube).make();
    /// assert_eq!(daily("UTC")?.next(1)?, [at(20)]);
    /// assert_eq!(daily("America/New_York")?.next(1)?, [at(25)]); // five hours later
    /// # Ok(())
    /// # }
    /// # #[cfg(not(feature = "cron"))]
    /// # fn main() {}
    /// ```
    pub fn zone(mut self, name: &str) -> Self {
        self.terms.zone = Some(name.to_owned());
        self
    }

    /// The children go into this tube. Its type is that of the payload, which is to be given after
    /// it.
    pub fn to<U: ?Sized>(self, tube: &'a Tube<U>) -> NewSchedule<'a, U> {
        let Self { inner, name, terms, gates, .. } = self;
        NewSchedule { inner, name, terms, tube: Some(tube), payload: None, gates }
    }

    /// The group of the children.
    pub fn group(mut self, group: &str) -> Self {
        self.terms.child.group = Some(group.to_owned());
        self
    }

    /// Adds a condition that each child requires, as [`NewTask::require`](crate::NewTask::require).
    /// An update that gives gates replaces all of them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("mail")?;
    /// let minute = Duration::from_secs(60);
    /// queue.schedule("sync").every(minute).require("online").to(&tube).payload(b"all").make()?;
    /// assert_eq!(tube.len()?, 1); // the first child, which waits
    /// assert!(tube.try_take()?.is_none());
    /// queue.set_condition("online", true)?;
    /// assert_eq!(&tube.take()?[..], b"all");
    /// # Ok(())
    /// # }
    /// ```
    pub fn require(mut self, condition: &str) -> Self {
        self.gates[0].push(condition.to_owned());
        self
    }

    /// Adds a throttle of which each child needs a slot, as
    /// [`NewTask::throttle`](crate::NewTask::throttle). As [`require`](NewSchedule::require)
    /// otherwise.
    pub fn throttle(mut self, name: &str) -> Self {
        self.gates[1].push(name.to_owned());
        self
    }

    /// The kind of the children. Default: that of the handle of their tube.
    pub fn kind(mut self, kind: &str) -> Self {
        self.terms.child.kind = Some(kind.to_owned());
        self
    }

    /// The book of the children. Default: their tube's.
    pub fn book(mut self, name: &str) -> Self {
        self.terms.child.book = Some(name.to_owned());
        self
    }

    /// Adds a named text to the details of the children.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::Queue;
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let queue = Queue::in_memory()?;
    /// let tube = queue.tube("reports")?;
    /// let day = Duration::from_secs(86_400);
    /// queue.schedule("report").every(day).to(&tube).detail("office", "Oslo").tag("sales").make()?;
    /// let task = tube.take()?; // the first child
    /// assert_eq!(task.details()?["office"], "Oslo");
    /// assert_eq!(task.tags()?, ["sales"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn detail(mut self, name: &str, text: &str) -> Self {
        self.terms.child.details.insert(name.to_owned(), text.to_owned());
        self
    }

    /// Adds a tag to those of the children. An update that gives tags replaces all of them.
    pub fn tag(mut self, tag: &str) -> Self {
        self.terms.child.tags.push(tag.to_owned());
        self
    }

    /// What it says, with the payload encoded.
    pub(super) fn into_terms(self) -> Result<ScheduleTerms> {
        let Self { inner, name, mut terms, tube, payload, gates } = self;
        check_name(name)?;
        terms.child.group.as_deref().map_or(Ok(""), |group| label("group name", group))?;
        terms.child.gates = line_of(gates.each_ref().map(Vec::as_slice))?;
        if let Some(tube) = tube {
            tube.ensure_of(&inner)?;
            terms.tube = Some((tube.number, tube.name.to_string()));
            terms.child.kind = terms.child.kind.or_else(|| tube.kind.as_deref().map(str::to_owned));
        }
        let Some(payload) = payload else { return Ok(terms) };
        // Without a tube it is bytes, whose type has no other encoding.
        let coding = match tube {
            Some(tube) => tube.coding,
            None => {
                let text = "a payload without a tube; name the tube with `to` before it";
                return Err(Error::new(ErrorKind::Invalid).because(text));
            }
        };
        let mut buffer = Vec::new();
        let bytes = (coding.encode)(payload, &mut buffer).map_err(not_encoded)?;
        fits(bytes.len(), inner.core.live.payload_bytes_max.load(Ordering::Relaxed))?;
        terms.payload = Some((bytes.to_vec(), coding.codec, coding.version));
        Ok(terms)
    }
}

/// The gates of the children as the name of a line.
fn line_of([conditions, throttles]: [&[String]; 2]) -> Result<Option<String>> {
    let required = conditions.iter().map(String::as_str).collect();
    let throttles = throttles.iter().map(String::as_str).collect();
    let gates = TaskGates { required, throttles };
    gates.check()?;
    Ok((!gates.is_empty()).then(|| gates.line()))
}

debug!(['a, T: ?Sized] NewSchedule<'a, T>, "NewSchedule", this, "name": &this.name);
