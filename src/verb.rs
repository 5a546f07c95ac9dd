//! The small words that go with the verbs: what a put does about a key that is taken, how a task
//! is released, how a lease is extended, how long a take waits. Plain values; what they mean for a
//! task is the engine's.

use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Receiver, Sender, bounded};
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

/// What a put does when a task with its key lives in the tube, in whatever state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Conflict {
    /// Leaves the existing task as it is and answers its id. The default.
    #[default]
    Keep,
    /// Refuses the put with [`ErrorKind::KeyExists`](crate::ErrorKind::KeyExists).
    Reject,
    /// Deletes the existing task, whose lease is lost if it was taken, and puts the new one.
    Replace,
}

/// What a put with a key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PutOutcome {
    /// There was no task with this key, or the put had none.
    New,
    /// The existing task stays; nothing was put.
    Existing,
    /// The existing task is gone; the new one stands.
    Replaced,
}

/// How a taken task goes back: by default at once, at its place, with its priority and life as
/// they were.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Queue, Release};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let tube = queue.tube("letters")?;
/// let a = tube.put(b"a")?;
/// let b = tube.put(b"b")?;
///
/// tube.take()?.release_with(Release::new().to_back())?;
/// assert_eq!(tube.take()?.id(), b);
/// assert_eq!(tube.take()?.id(), a);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Release {
    pub(crate) delay: Option<Duration>,
    pub(crate) priority: Option<i64>,
    pub(crate) to_back: bool,
    pub(crate) ttl: Option<Duration>,
}

impl Release {
    /// At once, at its place.
    pub const fn new() -> Self {
        Self { delay: None, priority: None, to_back: false, ttl: None }
    }

    /// Not before this time has passed, in queue time. Its ttl stands still until then. Zero is no
    /// delay.
    pub const fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// With another priority. Smaller first.
    pub const fn priority(mut self, priority: i64) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Behind every task of its priority that was put so far.
    pub const fn to_back(mut self) -> Self {
        self.to_back = true;
        self
    }

    /// With a new life: its ttl starts again at this length.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

/// How a lease is made longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extend {
    /// Deadline, ttr and ttl grow by this much.
    Add(Duration),
    /// The deadline is now + ttr.
    Renew,
    /// The deadline is now + this much, also if there was none.
    RenewFor(Duration),
}

/// How long a call waits for what is not there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait<'a> {
    /// Not at all.
    No,
    /// At most this long, in lease time.
    For(Duration),
    /// Until it is there or the queue is closed.
    Ever,
    /// Until it is there, the queue is closed, or the caller's stop.
    Until(&'a Stop),
}

/// A switch that ends waiting calls, such as [`Tube::take_until`](crate::Tube::take_until). It is
/// turned once and stays; clones share it.
///
/// ```
/// use tubewell::{Queue, Stop};
///
/// # fn main() -> tubewell::Result<()> {
/// let queue = Queue::in_memory()?;
/// let tube = queue.tube("letters")?;
/// let stop = Stop::new();
/// std::thread::scope(|scope| {
///     let worker = scope.spawn(|| tube.take_until(&stop));
///     stop.stop();
///     assert!(matches!(worker.join().unwrap(), Ok(None)));
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stop(Arc<Switch>);

struct Switch {
    stopped: AtomicBool,
    // Dropped at the stop: the disconnected channel wakes everyone who waits on it, and leaves
    // nothing to unregister.
    line: Mutex<Option<Sender<Infallible>>>,
    signal: Receiver<Infallible>,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// A switch that has not been turned.
    pub fn new() -> Self {
        let (line, signal) = bounded(0);
        let stopped = AtomicBool::new(false);
        Self(Arc::new(Switch { stopped, line: Mutex::new(Some(line)), signal }))
    }

    /// Turns the switch: calls that wait on it return, and later ones do not wait.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        let line = self.0.line.lock().take();
        drop(line);
    }

    /// Whether it was turned.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// A channel that never carries anything and is disconnected once the switch is turned.
    pub(crate) fn signal(&self) -> &Receiver<Infallible> {
        &self.0.signal
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stop").field(&self.is_stopped()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::RecvTimeoutError;

    #[test]
    fn a_stop_reaches_every_clone_and_stays() {
        let stop = Stop::new();
        let clone = stop.clone();
        assert!(!clone.is_stopped());
        assert_eq!(clone.signal().recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        stop.stop();
        stop.stop();
        assert!(clone.is_stopped());
        let woken = clone.signal().recv_timeout(Duration::MAX);
        assert_eq!(woken, Err(RecvTimeoutError::Disconnected));
    }
}
