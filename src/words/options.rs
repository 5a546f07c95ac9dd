//! How to open a queue, how to make a tube and how to be told of events, every default written out.
//! Plain values; what they mean is decided elsewhere.

use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits;
use crate::words::name;
use std::time::Duration;

/// When a call that changes something returns, and so what a power cut may take back. A killed
/// process takes back nothing that returned, at either level.
///
/// Set for the queue by [`Builder::durability`](crate::Builder::durability), for one handle by
/// [`Tube::durability`](crate::Tube::durability) and for one put by
/// [`NewTask::durability`](crate::NewTask::durability).
///
/// Take, touch, renew, release and the drop of a guard return when they are written, at either
/// level: a power cut may take them back, and then the task is where it was before, its attempt not
/// counted. A release that says more, as with a delay, is like any other call. A
/// [`transact`](crate::Queue::transact) is synced at either level. What a temporary tube does never
/// touches the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// When what it did, and all that it saw, is synced. The default.
    #[default]
    Durable,
    /// When it is written to the operating system. A power cut takes back at most the last
    /// `flush_interval` and one sync, as a suffix.
    Relaxed,
}

/// What a reader of events is told, and how much is kept for it while it does not keep up.
///
/// ```
/// use tubewell::EventOptions;
///
/// let plain = EventOptions::default(); // without payloads
/// let spelled_out = EventOptions::new().kept(4096).bytes_kept(64 << 20);
/// assert_eq!(plain, spelled_out);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct EventOptions {
    pub(crate) payloads: bool,
    pub(crate) kept: usize,
    pub(crate) bytes_kept: usize,
}

impl Default for EventOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl EventOptions {
    /// Without payloads, and with the bounds that are told at [`kept`](EventOptions::kept) and
    /// [`bytes_kept`](EventOptions::bytes_kept).
    pub const fn new() -> Self {
        let (kept, bytes_kept) = (limits::EVENTS_KEPT, limits::EVENT_BYTES_KEPT);
        Self { payloads: false, kept, bytes_kept }
    }

    /// Each event with a copy of the task's payload, see
    /// [`Event::payload`](crate::Event::payload). Every verb then makes that copy, and for payloads
    /// of more than 512 bytes it may have to read.
    pub const fn payloads(mut self) -> Self {
        self.payloads = true;
        self
    }

    /// The events that are kept, at least one. Default: 4096.
    pub const fn kept(mut self, events: usize) -> Self {
        self.kept = events;
        self
    }

    /// The payload bytes that are kept in events together, also of one commit; the newest event is
    /// kept, whatever its size. Default: 64 MiB.
    pub const fn bytes_kept(mut self, bytes: usize) -> Self {
        self.bytes_kept = bytes;
        self
    }
}

/// How long a task waits after `retry`, in [queue time](crate#time), by the number of attempts it
/// has used: `first`, then `factor` times as long each time, and never longer than `most`.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Backoff, Queue, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let backoff = Backoff::doubling(Duration::from_secs(5)).at_most(Duration::from_secs(60));
/// let seconds = [1, 2, 3, 4, 5, 6].map(|attempts| backoff.wait(attempts).as_secs());
/// assert_eq!(seconds, [5, 10, 20, 40, 60, 60]);
///
/// let queue = Queue::in_memory()?;
/// let tube = queue.create_tube("letters", TubeOptions::default().backoff(backoff))?;
/// assert_eq!(tube.info()?.options.get_backoff(), backoff);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pub(crate) first: Duration,
    pub(crate) factor: u32,
    pub(crate) most: Duration,
}

impl Backoff {
    /// No waiting: a retried task is ready at once.
    pub const NONE: Self = Self { first: Duration::ZERO, factor: 1, most: Duration::ZERO };

    /// `first`, then twice as long each time, at most an hour.
    pub const fn doubling(first: Duration) -> Self {
        Self { first, factor: 2, most: Duration::from_secs(3600) }
    }

    /// The same wait each time.
    pub const fn constant(wait: Duration) -> Self {
        Self { first: wait, factor: 1, most: wait }
    }

    /// Multiplies by `factor` each time instead, up to [`at_most`](Backoff::at_most).
    #[must_use]
    pub const fn factor(mut self, factor: u32) -> Self {
        self.factor = factor;
        self
    }

    /// Never waits longer than `most`.
    #[must_use]
    pub const fn at_most(mut self, most: Duration) -> Self {
        self.most = most;
        self
    }

    /// How long the first wait is.
    pub const fn get_first(&self) -> Duration {
        self.first
    }

    /// How many times as long each wait is as the one before.
    pub const fn get_factor(&self) -> u32 {
        self.factor
    }

    /// What no wait is longer than.
    pub const fn get_most(&self) -> Duration {
        self.most
    }

    /// How long a task waits that has used this many attempts, from 1.
    pub fn wait(&self, attempts: u32) -> Duration {
        let grown = self.factor.saturating_pow(attempts.saturating_sub(1));
        self.first.saturating_mul(grown).min(self.most)
    }
}

/// What a tube's tasks may use. An option whose switch is off is refused, never ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Switches {
    pub(crate) priority: bool,
    pub(crate) timed: bool,
    pub(crate) grouped: bool,
    pub(crate) capacity: bool,
}

/// The kinds of tube: the general one, and the five of the tarantool queue as presets of the four
/// switches priority, timed (ttl, ttr, delay, back-off), grouped and capacity. Keys and a limit of
/// attempts work in each, a placement in the general one only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TubeKind {
    /// Everything: priority, times, groups, capacity. Twenty attempts, doubling back-off. The
    /// default.
    #[default]
    General,
    /// Put order, and no switch.
    Fifo,
    /// Priority and times.
    FifoTtl,
    /// Priority, times and a capacity.
    LimFifoTtl,
    /// Groups with one task in flight each; tasks without a group share one.
    Utube,
    /// Groups, priority and times.
    UtubeTtl,
}

impl TubeKind {
    pub(crate) fn switches(self) -> Switches {
        let of =
            |priority, timed, grouped, capacity| Switches { priority, timed, grouped, capacity };
        match self {
            Self::General => of(true, true, true, true),
            Self::Fifo => of(false, false, false, false),
            Self::FifoTtl => of(true, true, false, false),
            Self::LimFifoTtl => of(true, true, false, true),
            Self::Utube => of(false, false, true, false),
            Self::UtubeTtl => of(true, true, true, false),
        }
    }

    /// Whether tasks without a group stand together in one, as in tarantool's utubes.
    pub(crate) fn groups_all(self) -> bool {
        matches!(self, Self::Utube | Self::UtubeTtl)
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::General => 0,
            Self::Fifo => 1,
            Self::FifoTtl => 2,
            Self::LimFifoTtl => 3,
            Self::Utube => 4,
            Self::UtubeTtl => 5,
        }
    }

    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::General,
            1 => Self::Fifo,
            2 => Self::FifoTtl,
            3 => Self::LimFifoTtl,
            4 => Self::Utube,
            5 => Self::UtubeTtl,
            _ => return None,
        })
    }
}

/// What a tube is made with. [`TubeOptions::default`] is the general kind.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Backoff, TubeKind, TubeOptions};
///
/// let plain = TubeOptions::default();
/// let spelled_out = TubeOptions::new(TubeKind::General)
///     .priority(0)
///     .max_attempts(20)
///     .backoff(Backoff::doubling(Duration::from_secs(1)))
///     .in_flight(1)
///     .hold_group_while_delayed(false)
///     .ttl_spares_buried(false)
///     .temporary(false);
/// assert_eq!(plain, spelled_out); // and no ttl, no ttr, no capacity, no placement
/// ```
///
/// What a tube was made with is in [`TubeInfo`](crate::TubeInfo), each option to be read by `get_`
/// and the name of what sets it.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TubeOptions {
    pub(crate) kind: TubeKind,
    pub(crate) temporary: bool,
    pub(crate) priority: i64,
    pub(crate) ttl: Option<Duration>,
    pub(crate) ttr: Option<Duration>,
    pub(crate) capacity: Option<u64>,
    pub(crate) max_attempts: Option<u32>,
    pub(crate) backoff: Backoff,
    pub(crate) in_flight: u32,
    pub(crate) hold_group_while_delayed: bool,
    pub(crate) ttl_spares_buried: bool,
    pub(crate) placement: Option<String>,
    /// Of the call, not of the tube: never stored.
    pub(crate) if_not_exists: bool,
}

impl Default for TubeOptions {
    fn default() -> Self {
        Self::new(TubeKind::General)
    }
}

impl TubeOptions {
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
            backoff: if general {
                Backoff::doubling(Duration::from_secs(1))
            } else {
                Backoff::NONE
            },
            in_flight: 1,
            hold_group_while_delayed: false,
            ttl_spares_buried: false,
            placement: None,
            if_not_exists: false,
        }
    }

    /// Keeps the tasks in memory only: they never touch the disk and are gone with the process.
    /// The tube itself stays. Default: off.
    #[must_use]
    pub fn temporary(mut self, yes: bool) -> Self {
        self.temporary = yes;
        self
    }

    /// The priority of tasks put without one. Smaller first. Default: 0.
    #[must_use]
    pub fn priority(mut self, priority: i64) -> Self {
        self.priority = priority;
        self
    }

    /// How long tasks live that are put without a ttl, in [queue time](crate#time). A microsecond
    /// or more. Default: for ever.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long takers may hold tasks that are put without a ttr, in [lease time](crate#time). A
    /// microsecond or more. Default: for ever.
    #[must_use]
    pub fn ttr(mut self, ttr: Duration) -> Self {
        self.ttr = Some(ttr);
        self
    }

    /// The most tasks that the tube holds, in every state. 0: unlimited, which is the default.
    #[must_use]
    pub fn capacity(mut self, tasks: u64) -> Self {
        self.capacity = (tasks > 0).then_some(tasks);
        self
    }

    /// Attempts before a task is buried as exhausted. 0: no limit. Default: 20 for the general
    /// kind, no limit for the others.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = (attempts > 0).then_some(attempts);
        self
    }

    /// How long a retried task waits. Default: one second, doubling, at most an hour, for the
    /// general kind; no wait for the others.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How many tasks of one group may be taken at the same time. Default 1: a task is handed out
    /// when the one before it is settled. One that waits for a retry lets the next one pass, unless
    /// the group [is held](TubeOptions::hold_group_while_delayed).
    #[must_use]
    pub fn in_flight(mut self, tasks: u32) -> Self {
        self.in_flight = tasks;
        self
    }

    /// Keeps a group locked while a task of it waits after a release or retry with a delay, so that
    /// nothing overtakes it. Default: off, as in tarantool's utubes.
    #[must_use]
    pub fn hold_group_while_delayed(mut self, yes: bool) -> Self {
        self.hold_group_while_delayed = yes;
        self
    }

    /// Keeps buried tasks beyond their ttl. A [kick](crate::Tube::kick) after that gives the task a
    /// new life, from the kick on, as long as its first was to be: its ttl with all that was added
    /// to it since the put. Default: off.
    #[must_use]
    pub fn ttl_spares_buried(mut self, yes: bool) -> Self {
        self.ttl_spares_buried = yes;
        self
    }

    /// Orders tasks by the [`Placement`](crate::Placement) that the
    /// [builder](crate::Builder::placement) was given under this name; for the general kind only.
    /// Default: none, priority and put order.
    #[must_use]
    pub fn placement(mut self, name: impl Into<String>) -> Self {
        self.placement = Some(name.into());
        self
    }

    /// Takes the tube of this name if there is one of the same kind and options, instead of
    /// refusing. Default: off.
    #[must_use]
    pub fn if_not_exists(mut self) -> Self {
        self.if_not_exists = true;
        self
    }

    /// The kind.
    pub fn get_kind(&self) -> TubeKind {
        self.kind
    }

    /// Whether the tasks are kept in memory only.
    pub fn get_temporary(&self) -> bool {
        self.temporary
    }

    /// The priority of tasks put without one. Smaller first.
    pub fn get_priority(&self) -> i64 {
        self.priority
    }

    /// How long tasks live that are put without a ttl. `None`: for ever.
    pub fn get_ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// How long takers may hold tasks that are put without a ttr. `None`: for ever.
    pub fn get_ttr(&self) -> Option<Duration> {
        self.ttr
    }

    /// The most tasks that the tube holds, in every state. `None`: unlimited.
    pub fn get_capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Attempts before a task is buried as exhausted. `None`: no limit.
    pub fn get_max_attempts(&self) -> Option<u32> {
        self.max_attempts
    }

    /// How long a retried task waits.
    pub fn get_backoff(&self) -> Backoff {
        self.backoff
    }

    /// How many tasks of one group may be taken at the same time.
    pub fn get_in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether a group stays locked while a task of it waits after a release or retry.
    pub fn get_hold_group_while_delayed(&self) -> bool {
        self.hold_group_while_delayed
    }

    /// Whether buried tasks stay beyond their ttl.
    pub fn get_ttl_spares_buried(&self) -> bool {
        self.ttl_spares_buried
    }

    /// The name of the placement that orders the tasks. `None`: priority and put order.
    pub fn get_placement(&self) -> Option<&str> {
        self.placement.as_deref()
    }

    /// Refuses what the kind's switches do not allow and what makes no sense.
    pub(crate) fn check(&self) -> Result<()> {
        let switches = self.kind.switches();
        let refused = [
            ("priority", !switches.priority && self.priority != 0),
            ("ttl", !switches.timed && self.ttl.is_some()),
            ("ttr", !switches.timed && self.ttr.is_some()),
            ("backoff", !switches.timed && self.backoff.most > Duration::ZERO),
            ("capacity", !switches.capacity && self.capacity.is_some()),
            ("in_flight", !switches.grouped && self.in_flight != 1),
            ("hold_group_while_delayed", !switches.grouped && self.hold_group_while_delayed),
            ("ttl_spares_buried", !switches.timed && self.ttl_spares_buried),
            ("placement", self.kind != TubeKind::General && self.placement.is_some()),
        ];
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
        if let Some(placement) = &self.placement {
            name::label("placement name", placement)?;
        }
        Ok(())
    }
}

/// Whether a length of time is less than the queue counts.
pub(crate) fn is_nothing(length: Duration) -> bool {
    length < Duration::from_micros(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_and_saturates() {
        let backoff = Backoff::doubling(Duration::from_secs(1));
        assert_eq!(backoff.wait(1), Duration::from_secs(1));
        assert_eq!(backoff.wait(4), Duration::from_secs(8));
        assert_eq!(backoff.wait(u32::MAX), Duration::from_secs(3600));
        assert_eq!(Backoff::NONE.wait(9), Duration::ZERO);
    }

    #[test]
    fn an_option_whose_switch_is_off_is_refused() {
        let refused = TubeOptions::new(TubeKind::Fifo).ttl(Duration::from_secs(1)).check();
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(TubeOptions::new(TubeKind::LimFifoTtl).capacity(3).check().is_ok());
        assert!(TubeOptions::new(TubeKind::FifoTtl).capacity(3).check().is_err());
        assert!(TubeOptions::default().in_flight(0).check().is_err());
    }
}
