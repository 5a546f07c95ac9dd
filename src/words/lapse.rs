//! What becomes of a taken task whose ttr passes before its holder has settled it. Plain values.

use std::time::Duration;

/// What a tube does about a *lapse*: a lease's ttr passes, and nothing has settled the task. By
/// default the task returns at once to its place, and the attempt counts.
///
/// With a *grace* the task is first *stalled*: it stays taken, it keeps its group locked, and its
/// holder may still settle it. A renew, or a touch to a time in the future, ends the stall. At the
/// end of the grace the task returns as [`to`](Lapse::to) says.
///
/// Only the end of a ttr is a lapse. After the drop of a guard, the end of a session or a crash a
/// task returns to its place, and the attempt counts. At the end of its ttl a stalled task is
/// removed, and an opening of the queue ends a grace as it ends the lease.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Lapse, ManualClock, Queue, ReturnTo, TubeOptions};
///
/// # fn main() -> tubewell::Result<()> {
/// let clock = ManualClock::new();
/// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
/// let lapse = Lapse::new().grace(Duration::from_secs(10)).to(ReturnTo::Back).charged(false);
/// let options = TubeOptions::default().ttr(Duration::from_secs(60)).lapse(lapse);
/// let tube = queue.create_tube("letters", options)?;
/// tube.put_many([b"a".to_vec(), b"b".to_vec()])?;
///
/// let task = tube.take()?;
/// clock.advance(Duration::from_secs(60));
/// queue.tick()?;
/// assert!(tube.peek(task.id())?.is_stalled());
/// assert_eq!(tube.stats()?.stalled, 1);
/// task.renew()?; // in time
/// assert!(!tube.peek(task.id())?.is_stalled());
///
/// clock.advance(Duration::from_secs(70));
/// assert!(task.renew().unwrap_err().is_lease_lost());
/// let (first, again) = (tube.take()?, tube.take()?);
/// assert_eq!((&*first, &*again, again.attempt()), (&b"b"[..], &b"a"[..], 1));
/// # Ok(())
/// # }
/// ```
///
/// With the feature `serde` it can be serialised, with the fields `grace`, `to` and `charged`. A
/// field that is absent has its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
#[must_use]
pub struct Lapse {
    pub(crate) grace: Duration,
    pub(crate) to: ReturnTo,
    pub(crate) charged: bool,
}

/// Where a task stands after a [`Lapse`]. With the feature `serde` it can be serialised: as
/// `place`, `front` or `back`, or as `after` with a length of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum ReturnTo {
    /// Ready at its place. The default.
    #[default]
    Place,
    /// Ready before every task of its priority. A tube with a
    /// [placement](crate::TubeOptions::placement) refuses it.
    Front,
    /// Ready after every task of its priority that was put so far. A tube with a placement refuses
    /// it.
    Back,
    /// Delayed by this long, in [queue time](crate#time), and then ready at its place. The delay is
    /// added to the ttl.
    After(Duration),
}

impl Default for Lapse {
    fn default() -> Self {
        Self::new()
    }
}

impl Lapse {
    /// No grace, to its place, charged.
    pub const fn new() -> Self {
        Self { grace: Duration::ZERO, to: ReturnTo::Place, charged: true }
    }

    /// How long the task is stalled before it returns, in [lease time](crate#time), from the end
    /// of the ttr on. Default: zero, it returns at once.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Where the task stands after it. Default: [`ReturnTo::Place`].
    pub const fn to(mut self, to: ReturnTo) -> Self {
        self.to = to;
        self
    }

    /// Whether the attempt counts. If it does, a task without attempts left is buried as
    /// exhausted, wherever it would stand. Default: yes.
    pub const fn charged(mut self, yes: bool) -> Self {
        self.charged = yes;
        self
    }

    /// How long the task is stalled before it returns.
    pub const fn get_grace(&self) -> Duration {
        self.grace
    }

    /// Where the task stands after it.
    pub const fn get_to(&self) -> ReturnTo {
        self.to
    }

    /// Whether the attempt counts.
    pub const fn get_charged(&self) -> bool {
        self.charged
    }

    /// Whether the task may get another rank, for which a number is drawn.
    pub(crate) const fn is_ranked(&self) -> bool {
        matches!(self.to, ReturnTo::Front | ReturnTo::Back)
    }
}
