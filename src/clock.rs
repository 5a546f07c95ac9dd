//! Time as the queue measures it. The only file that reads a clock of the machine.
//!
//! Three measures, see [`Now`]: *queue time* never goes back, *wall time* is the system's clock as
//! it is, *lease time* is the process's monotonic clock. All are microseconds; sums saturate at
//! [`NEVER`].

use crate::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An instant that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// A length of time in microseconds; what does not fit means for ever.
pub(crate) fn micros(length: Duration) -> u64 {
    // In 64 bits: every verb asks, and a division of 128 is a call.
    let whole = length.as_secs().checked_mul(1_000_000);
    whole.and_then(|whole| whole.checked_add(u64::from(length.subsec_micros()))).unwrap_or(NEVER)
}

/// The two clocks that the queue reads. [`SystemClock`] is the machine's; [`ManualClock`] is moved
/// by hand in tests.
pub trait Clock: Send + Sync + 'static {
    /// Time since an origin of the clock's own. Never goes back; stands still while the machine
    /// sleeps, where the system has such a clock.
    fn monotonic(&self) -> Duration;

    /// The time of day. May jump either way.
    fn wall(&self) -> SystemTime;

    /// How long a thread may sleep until `left` has passed on this clock; `None` means until the
    /// function given to [`watch`](Clock::watch) is called.
    fn nap(&self, left: Duration) -> Option<Duration> {
        Some(left)
    }

    /// Registers a function to be called whenever the clock was moved by hand. A clock that moves
    /// by itself need not keep it.
    fn watch(&self, moved: Arc<dyn Fn() + Send + Sync>) {
        drop(moved);
    }
}

/// The instant at which a bounded wait for another thread begins.
pub(crate) fn machine_now() -> Instant {
    Instant::now()
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// A clock that stands still until it is moved, for tests. Clones share their hands.
///
/// ```
/// use std::time::Duration;
/// use tubewell::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let before = clock.monotonic();
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(clock.monotonic() - before, Duration::from_secs(60));
/// ```
#[derive(Clone)]
pub struct ManualClock {
    hands: Arc<Mutex<Hands>>,
    watchers: Arc<Mutex<Vec<Watcher>>>,
}

type Watcher = Arc<dyn Fn() + Send + Sync>;

struct Hands {
    monotonic: Duration,
    wall: SystemTime,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// A clock at noon on 2026-01-01, UTC.
    pub fn new() -> Self {
        Self::at(UNIX_EPOCH + Duration::from_secs(1_767_268_800))
    }

    /// A clock at the given time of day.
    pub fn at(wall: SystemTime) -> Self {
        let hands = Hands { monotonic: Duration::ZERO, wall };
        Self { hands: Arc::new(Mutex::new(hands)), watchers: Arc::default() }
    }

    /// Lets time pass: both hands move on.
    pub fn advance(&self, by: Duration) {
        self.turn(|hands| {
            hands.monotonic = hands.monotonic.saturating_add(by);
            hands.wall = hands.wall.checked_add(by).unwrap_or(hands.wall);
        });
    }

    /// Suspends the machine: only the wall clock moves on.
    pub fn suspend(&self, by: Duration) {
        self.turn(|hands| hands.wall = hands.wall.checked_add(by).unwrap_or(hands.wall));
    }

    /// Freezes the wall clock while `by` passes.
    pub fn freeze_wall(&self, by: Duration) {
        self.turn(|hands| hands.monotonic = hands.monotonic.saturating_add(by));
    }

    /// Sets the wall clock, forward or back.
    pub fn set_wall(&self, wall: SystemTime) {
        self.turn(|hands| hands.wall = wall);
    }

    fn turn(&self, turn: impl FnOnce(&mut Hands)) {
        turn(&mut self.hands.lock());
        let watchers = self.watchers.lock().clone();
        for watcher in watchers {
            watcher();
        }
    }
}

impl std::fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManualClock").field("wall", &self.wall()).finish_non_exhaustive()
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        self.hands.lock().monotonic
    }

    fn wall(&self) -> SystemTime {
        self.hands.lock().wall
    }

    fn nap(&self, _left: Duration) -> Option<Duration> {
        None
    }

    fn watch(&self, moved: Arc<dyn Fn() + Send + Sync>) {
        self.watchers.lock().push(moved);
    }
}

/// One reading of the three measures, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Since the epoch, never going back, not even over a reopen: delay, ttl, back-off.
    pub(crate) queue: u64,
    /// Since the epoch, as the system says: run_at.
    pub(crate) wall: u64,
    /// Since the clock's origin: ttr, grace while open.
    pub(crate) lease: u64,
}

/// The two marks that each journal record carries, so that queue time goes on over a reopen. They
/// are *now*, never a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The queue's time.
    pub(crate) queue: u64,
    /// The highest wall clock ever seen, moved along with the monotonic one.
    pub(crate) wall_high: u64,
}

/// Turns readings of a [`Clock`] into [`Now`].
#[derive(Debug)]
pub(crate) struct Reckoning {
    marks: Marks,
    lease: u64,
}

impl Reckoning {
    /// Goes on from the marks of an earlier run. A queue that has none starts at the wall clock.
    pub(crate) fn resume(marks: Marks, clock: &dyn Clock) -> Self {
        Self { marks, lease: micros(clock.monotonic()) }
    }

    /// Reads the clock. Queue time advances by the monotonic time elapsed, and by what the wall
    /// clock is ahead of the highest ever seen, moved along with the monotonic one. Moved along:
    /// else each reading would keep the larger of two roundings, and a busy queue run fast.
    ///
    /// The wall clock is read first: what the thread is kept from going on between the two is then
    /// missing from the wall clock for one reading, and would else be a jump that stays for good.
    #[inline]
    pub(crate) fn read(&mut self, clock: &dyn Clock) -> Now {
        let wall = clock.wall().duration_since(UNIX_EPOCH).map_or(0, micros);
        let lease = micros(clock.monotonic()).max(self.lease);
        let elapsed = lease - self.lease;
        let expected = self.marks.wall_high.saturating_add(elapsed);
        let jumped = wall.saturating_sub(expected);
        // One below NEVER, so that a deadline "for ever" is never due.
        let queue = self.marks.queue.saturating_add(elapsed).saturating_add(jumped);
        self.marks = Marks { queue: queue.min(NEVER - 1), wall_high: expected.max(wall) };
        self.lease = lease;
        Now { queue: self.marks.queue, wall, lease }
    }

    pub(crate) fn marks(&self) -> Marks {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicBool, Ordering};

    #[test]
    fn queue_time_never_goes_back_and_follows_the_longer_hand() {
        let clock = ManualClock::new();
        let mut reckoning = Reckoning::resume(Marks::default(), &clock);
        let start = reckoning.read(&clock);
        assert_eq!(start.queue, start.wall, "a new queue starts at the wall clock");

        clock.set_wall(UNIX_EPOCH);
        clock.freeze_wall(Duration::from_secs(5));
        let back = reckoning.read(&clock);
        assert_eq!(back.queue, start.queue + 5_000_000);
        assert_eq!(back.wall, 0);

        clock.set_wall(UNIX_EPOCH + Duration::from_micros(start.wall) + Duration::from_secs(3600));
        let forward = reckoning.read(&clock);
        assert_eq!(forward.queue, start.queue + 3_600_000_000, "the five seconds count once");
        assert_eq!(forward.lease, back.lease, "a jump ends no lease");
    }

    /// The larger of a monotonic and a wall step was added at each reading: with one clock rounded
    /// down now and then, a busy queue ended a delay of 5 s after 4.8.
    #[test]
    fn jitter_between_the_clocks_does_not_add_up() {
        let clock = ManualClock::new();
        let mut reckoning = Reckoning::resume(Marks::default(), &clock);
        let start = reckoning.read(&clock);
        for _ in 0..1000 {
            clock.freeze_wall(Duration::from_micros(3));
            reckoning.read(&clock);
            clock.suspend(Duration::from_micros(3));
            reckoning.read(&clock);
        }
        assert_eq!(reckoning.read(&clock).queue, start.queue + 3_000);
    }

    /// A thread lost the processor for 5 ms between the two clocks, the wall clock seemed to have
    /// jumped by that, and every delay from then on ended as much too early.
    #[test]
    fn a_thread_that_stops_between_the_two_clocks_brings_nothing_forward() {
        struct Stops(ManualClock, AtomicBool);

        impl Stops {
            fn may_stop(&self) {
                if self.1.load(Ordering::SeqCst) {
                    self.0.advance(Duration::from_millis(5));
                }
            }
        }

        impl Clock for Stops {
            fn monotonic(&self) -> Duration {
                let read = self.0.monotonic();
                self.may_stop();
                read
            }

            fn wall(&self) -> SystemTime {
                let read = self.0.wall();
                self.may_stop();
                read
            }
        }

        let clock = Stops(ManualClock::new(), AtomicBool::new(false));
        let mut reckoning = Reckoning::resume(Marks::default(), &clock);
        let start = reckoning.read(&clock);
        clock.1.store(true, Ordering::SeqCst);
        let passed = |now: u64| micros(clock.0.monotonic()) - now;
        for _ in 0..10 {
            let queue = reckoning.read(&clock).queue;
            assert!(queue - start.queue <= passed(start.lease), "ahead of the machine");
        }
        clock.1.store(false, Ordering::SeqCst);
        let queue = reckoning.read(&clock).queue;
        assert_eq!(queue - start.queue, passed(start.lease), "and nothing is lost");
    }

    #[test]
    fn a_reopened_queue_counts_the_time_it_was_closed() {
        let clock = ManualClock::new();
        let mut before = Reckoning::resume(Marks::default(), &clock);
        let closed = before.read(&clock);
        clock.suspend(Duration::from_secs(60));
        let mut after = Reckoning::resume(before.marks(), &ManualClock::at(clock.wall()));
        assert_eq!(after.read(&clock).queue, closed.queue + 60_000_000);
    }
}
