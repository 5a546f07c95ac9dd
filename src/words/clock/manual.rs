//! A clock that tests move by hand.

mod advance;

pub(crate) use advance::Sleepers;

use crate::words::clock::Clock;
use crate::words::macros::debug;
use crate::words::sync::plain::AtomicU64;
use crate::words::sync::{Arc, Mutex, Ordering, ThreadId, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A clock that does not advance until it is moved, for tests. Clones share their readings; any
/// other clock belongs to another start of the machine. [`advance`](ManualClock::advance) moves it
/// by hand, [`advance_until`](ManualClock::advance_until) for a call that waits.
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
    readings: Arc<Mutex<Readings>>,
    watchers: Arc<Mutex<Vec<ClockWatcher>>>,
    /// The queues that wait on it.
    queues: Arc<Mutex<Vec<Weak<dyn Sleepers>>>>,
    /// The threads of the calls that it advances for.
    calls: Arc<Mutex<Vec<ThreadId>>>,
}

type ClockWatcher = Arc<dyn Fn() + Send + Sync>;

struct Readings {
    monotonic: Duration,
    boot: Duration,
    boot_id: u128,
    wall: SystemTime,
}

impl Readings {
    /// Advances the clocks that go while the machine is awake, except the wall clock.
    fn pass(&mut self, by: Duration) {
        self.monotonic = self.monotonic.saturating_add(by);
        self.boot = self.boot.saturating_add(by);
    }

    fn pass_wall(&mut self, by: Duration) {
        self.wall = self.wall.checked_add(by).unwrap_or(self.wall);
    }
}

/// How many starts were simulated so far.
static BOOTS: AtomicU64 = AtomicU64::new(0);

fn next_boot() -> u128 {
    // With the time of day: otherwise files that another process made could seem to be of the same
    // start.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    now << 64 | u128::from(BOOTS.fetch_add(1, Ordering::Relaxed))
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
        let (monotonic, boot) = (Duration::ZERO, Duration::ZERO);
        let readings = Readings { monotonic, boot, boot_id: next_boot(), wall };
        let readings = Arc::new(Mutex::new(readings));
        let (watchers, queues, calls) = Default::default();
        Self { readings, watchers, queues, calls }
    }

    /// Lets time pass: all readings advance.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.task(b"hello").ttr(minute).put()?;
    /// let task = tube.take()?;
    /// clock.advance(minute);
    /// assert!(task.ack().unwrap_err().is_lease_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn advance(&self, by: Duration) {
        self.turn(|readings| {
            readings.pass(by);
            readings.pass_wall(by);
        });
    }

    /// Suspends the machine: only the wall clock and the boot clock advance.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock};
    ///
    /// let (clock, hour) = (ManualClock::new(), Duration::from_secs(3600));
    /// let before = clock.read();
    /// clock.suspend(hour);
    /// assert_eq!(clock.monotonic(), before.monotonic);
    /// assert_eq!(clock.boot_time(), before.boot.map(|boot| boot + hour));
    /// assert_eq!(clock.wall(), before.wall + hour);
    /// ```
    pub fn suspend(&self, by: Duration) {
        self.turn(|readings| {
            readings.boot = readings.boot.saturating_add(by);
            readings.pass_wall(by);
        });
    }

    /// Starts the machine again: the boot clock begins at zero, and `after` has passed on the wall
    /// clock. For a queue that is closed, or whose process has ended.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock};
    ///
    /// let (clock, hour) = (ManualClock::new(), Duration::from_secs(3600));
    /// clock.advance(hour);
    /// let (wall, start) = (clock.wall(), clock.boot_id());
    /// clock.reboot(hour);
    /// assert_eq!((clock.wall(), clock.boot_time()), (wall + hour, Some(Duration::ZERO)));
    /// assert_ne!(clock.boot_id(), start);
    /// ```
    pub fn reboot(&self, after: Duration) {
        self.turn(|readings| {
            (readings.boot, readings.boot_id) = (Duration::ZERO, next_boot());
            readings.pass_wall(after);
        });
    }

    /// Freezes the wall clock while `by` passes.
    pub fn freeze_wall(&self, by: Duration) {
        self.turn(|readings| readings.pass(by));
    }

    /// Sets the wall clock, forward or back.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Clock, ManualClock, Queue};
    ///
    /// # fn main() -> tubewell::Result<()> {
    /// let (clock, minute) = (ManualClock::new(), Duration::from_secs(60));
    /// let queue = Queue::builder().by_hand(true).clock(clock.clone()).in_memory()?;
    /// let tube = queue.tube("letters")?;
    /// tube.task(b"hello").delay(minute).put()?;
    /// clock.set_wall(clock.wall() + minute);
    /// assert!(tube.try_take()?.is_none()); // a delay is queue time
    /// clock.advance(minute);
    /// assert!(tube.try_take()?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_wall(&self, wall: SystemTime) {
        self.turn(|readings| readings.wall = wall);
    }

    fn turn(&self, turn: impl FnOnce(&mut Readings)) {
        turn(&mut self.readings.lock());
        let watchers = self.watchers.lock().clone();
        for watcher in watchers {
            watcher();
        }
    }
}

debug!([] ManualClock, "ManualClock", this, "wall": &this.wall());

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        self.readings.lock().monotonic
    }

    fn wall(&self) -> SystemTime {
        self.readings.lock().wall
    }

    fn boot_time(&self) -> Option<Duration> {
        Some(self.readings.lock().boot)
    }

    fn boot_id(&self) -> Option<u128> {
        Some(self.readings.lock().boot_id)
    }

    fn nap(&self, _left: Duration) -> Option<Duration> {
        None
    }

    fn watch(&self, moved: Arc<dyn Fn() + Send + Sync>) {
        self.watchers.lock().push(moved);
    }

    fn manual(&self) -> Option<&ManualClock> {
        Some(self)
    }
}
