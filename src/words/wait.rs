//! How long a call waits: not at all, for a time, until a stop, or until the first of both.

use crate::words::clock::{NEVER, micros};
use crate::words::stop::Stop;
use crate::words::sync::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a call waits. Without a length it waits until the stop; without both, not at all.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wait<'a> {
    pub(crate) length: Option<WaitLength>,
    pub(crate) stop: Option<&'a Stop>,
    /// Ends it too once it is set, when the waiters are made to look again.
    pub(crate) ended: Option<&'a AtomicBool>,
}

/// In lease time.
#[derive(Clone, Copy)]
pub(crate) enum WaitLength {
    For(Duration),
    /// Until this time.
    By(u64),
}

impl<'a> Wait<'a> {
    /// Not at all.
    pub(crate) const NO: Self = Self { length: None, stop: None, ended: None };
    /// Without a limit.
    pub(crate) const EVER: Self =
        Self { length: Some(WaitLength::For(Duration::MAX)), stop: None, ended: None };

    pub(crate) fn within(length: Duration) -> Self {
        Self { length: Some(WaitLength::For(length)), ..Self::NO }
    }

    pub(crate) fn until(stop: &'a Stop) -> Self {
        Self { stop: Some(stop), ..Self::NO }
    }

    /// Ends at the stop too.
    pub(crate) fn or_until(self, stop: &'a Stop) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// Whether the call does not wait.
    pub(crate) fn is_none(&self) -> bool {
        self.length.is_none() && self.stop.is_none()
    }

    /// Whether the stop, or the end of the session, has ended it, perhaps before it began.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.is_some_and(Stop::is_stopped)
            || self.ended.is_some_and(|ended| ended.load(Ordering::Acquire))
    }

    /// The time at which it ends if it begins now; `None` if the call does not wait.
    pub(crate) fn end(&self, now: u64) -> Option<u64> {
        match (self.length, self.stop) {
            (None, None) => None,
            (None, Some(_)) => Some(NEVER),
            (Some(WaitLength::For(length)), _) => Some(now.saturating_add(micros(length))),
            (Some(WaitLength::By(end)), _) => Some(end),
        }
    }

    /// The wait as one that ends at a fixed time, for a call that waits more than once. One without
    /// a limit stays as it is, and reads no clock.
    #[inline]
    pub(crate) fn begun(self, now: impl FnOnce() -> u64) -> Self {
        match self.length {
            None | Some(WaitLength::For(Duration::MAX)) => self,
            Some(_) => Self { length: self.end(now()).map(WaitLength::By), ..self },
        }
    }

    /// Whether the time of a wait that was begun is over.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        matches!(self.length, Some(WaitLength::By(end)) if end <= now)
    }
}
