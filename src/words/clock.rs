//! Time as the queue measures it. The only file that reads a clock of the machine.
//!
//! Three measures, see [`Now`]: *queue time* never goes back and follows the machine's boot clock,
//! *wall time* is the system's clock unchanged, *lease time* is the process's monotonic clock. The
//! unit is the microsecond; sums saturate at [`NEVER`].

use crate::words::sync::plain::AtomicU64;
use crate::words::sync::{Arc, Mutex, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A deadline that is never due.
pub(crate) const NEVER: u64 = u64::MAX;

/// A length of time in microseconds. A length that does not fit counts as [`NEVER`].
pub(crate) fn micros(length: Duration) -> u64 {
    // In 64 bits, because every verb calls this and a 128-bit division is a function call.
    let whole = length.as_secs().checked_mul(1_000_000);
    whole.and_then(|whole| whole.checked_add(u64::from(length.subsec_micros()))).unwrap_or(NEVER)
}

/// One look at a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// See [`Clock::monotonic`].
    pub monotonic: Duration,
    /// See [`Clock::boot_time`].
    pub boot: Option<Duration>,
    /// See [`Clock::wall`].
    pub wall: SystemTime,
}

/// The clocks that the queue reads. [`SystemClock`] is the machine's; a test moves a
/// [`ManualClock`] by hand.
pub trait Clock: Send + Sync + 'static {
    /// Time since an origin of the clock's own. Never goes back. Does not advance while the machine
    /// sleeps, where the system has such a clock.
    fn monotonic(&self) -> Duration;

    /// The time of day. It may jump forward or back.
    fn wall(&self) -> SystemTime;

    /// Time since the machine was started, or since another origin. Never goes back, and goes on
    /// while the machine sleeps. `None` where the system has no such clock: steps of the wall clock
    /// forward then count as time, at most
    /// [`clock_gap_max`](crate::Builder::clock_gap_max) each.
    fn boot_time(&self) -> Option<Duration> {
        None
    }

    /// Which start of which machine [`boot_time`](Clock::boot_time) counts from; `None` if that is
    /// not known.
    fn boot_id(&self) -> Option<u128> {
        None
    }

    /// Reads the clocks at once, the wall clock first.
    fn read(&self) -> ClockReading {
        let wall = self.wall();
        ClockReading { monotonic: self.monotonic(), boot: self.boot_time(), wall }
    }

    /// How long a thread may sleep until `left` has passed on this clock. `None`: until the
    /// function given to [`watch`](Clock::watch) is called.
    fn nap(&self, left: Duration) -> Option<Duration> {
        Some(left)
    }

    /// Registers a function that the clock calls whenever it was moved by hand. A clock that moves
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
    boot_id: Option<u128>,
    asleep: Asleep,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: Instant::now(), boot_id: boot_id(), asleep: Asleep::default() }
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn boot_time(&self) -> Option<Duration> {
        self.read().boot
    }

    fn boot_id(&self) -> Option<u128> {
        self.boot_id
    }

    fn read(&self) -> ClockReading {
        let wall = SystemTime::now();
        let monotonic = self.origin.elapsed();
        let boot = self.asleep.boot_time(self.origin, monotonic, wall);
        ClockReading { monotonic, boot, wall }
    }
}

/// The random number that Linux generates at each start.
fn boot_id() -> Option<u128> {
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        return None;
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

/// How far the boot clock is ahead of the monotonic one, in nanoseconds. The difference changes
/// only while the machine sleeps, so the boot clock is read only when a second has passed since the
/// last reading, or when the wall clock and the monotonic one moved by different lengths.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug, Default)]
struct Asleep {
    ahead: AtomicU64,
    /// Monotonic time of the last reading of the boot clock.
    looked: AtomicU64,
    /// The wall clock minus the monotonic one, at that reading.
    wall_ahead: AtomicU64,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Asleep {
    const LOOK_AGAIN: u64 = 1_000_000_000;
    const JITTER: u64 = 1_000_000;

    #[inline]
    fn boot_time(
        &self,
        origin: Instant,
        monotonic: Duration,
        wall: SystemTime,
    ) -> Option<Duration> {
        let nanos = |length: Duration| length.as_nanos() as u64;
        let passed = nanos(monotonic);
        let wall_ahead = wall.duration_since(UNIX_EPOCH).map_or(0, nanos).wrapping_sub(passed);
        let moved = wall_ahead.abs_diff(self.wall_ahead.load(Ordering::Relaxed));
        let since = passed.saturating_sub(self.looked.load(Ordering::Relaxed));
        if since >= Self::LOOK_AGAIN || moved >= Self::JITTER {
            let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            let boot = Duration::try_from(boot).map_or(0, nanos);
            // Read after the boot clock: if the thread loses the processor between the two, that
            // time is missing until the next reading. In the other order queue time would gain time
            // that never passed.
            let ahead = boot.saturating_sub(nanos(origin.elapsed()));
            self.ahead.fetch_max(ahead, Ordering::Relaxed);
            self.looked.store(passed, Ordering::Relaxed);
            self.wall_ahead.store(wall_ahead, Ordering::Relaxed);
        }
        Some(monotonic + Duration::from_nanos(self.ahead.load(Ordering::Relaxed)))
    }
}

/// On Windows the monotonic clock counts sleep.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug, Default)]
struct Asleep;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Asleep {
    fn boot_time(&self, _: Instant, monotonic: Duration, _: SystemTime) -> Option<Duration> {
        cfg!(windows).then_some(monotonic)
    }
}

/// A clock that does not move until a test moves it. Clones share their readings. Every other new
/// clock belongs to another start of the machine.
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
}

type ClockWatcher = Arc<dyn Fn() + Send + Sync>;

struct Readings {
    monotonic: Duration,
    boot: Duration,
    boot_id: u128,
    wall: SystemTime,
}

impl Readings {
    /// Advances the clocks that run while the machine is awake, except the wall clock.
    fn pass(&mut self, by: Duration) {
        self.monotonic = self.monotonic.saturating_add(by);
        self.boot = self.boot.saturating_add(by);
    }

    fn pass_wall(&mut self, by: Duration) {
        self.wall = self.wall.checked_add(by).unwrap_or(self.wall);
    }
}

/// The starts of machines that were simulated so far.
static BOOTS: AtomicU64 = AtomicU64::new(0);

fn next_boot() -> u128 {
    // The time of day is part of it, so that the files of another process do not match this start.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    now << 64 | u128::from(BOOTS.fetch_add(1, Ordering::Relaxed))
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// A clock set to noon on 2026-01-01, UTC.
    pub fn new() -> Self {
        Self::at(UNIX_EPOCH + Duration::from_secs(1_767_268_800))
    }

    /// A clock set to the given time of day.
    pub fn at(wall: SystemTime) -> Self {
        let (monotonic, boot) = (Duration::ZERO, Duration::ZERO);
        let readings = Readings { monotonic, boot, boot_id: next_boot(), wall };
        Self { readings: Arc::new(Mutex::new(readings)), watchers: Arc::default() }
    }

    /// Lets time pass: all clocks advance.
    pub fn advance(&self, by: Duration) {
        self.turn(|readings| {
            readings.pass(by);
            readings.pass_wall(by);
        });
    }

    /// Suspends the machine: the wall clock and the boot clock advance, the monotonic one does not.
    pub fn suspend(&self, by: Duration) {
        self.turn(|readings| {
            readings.boot = readings.boot.saturating_add(by);
            readings.pass_wall(by);
        });
    }

    /// Restarts the machine: the boot clock begins at zero, and `after` has passed on the wall
    /// clock. The queue must be closed, or its process must have ended.
    pub fn reboot(&self, after: Duration) {
        self.turn(|readings| {
            (readings.boot, readings.boot_id) = (Duration::ZERO, next_boot());
            readings.pass_wall(after);
        });
    }

    /// Lets `by` pass while the wall clock does not move.
    pub fn freeze_wall(&self, by: Duration) {
        self.turn(|readings| readings.pass(by));
    }

    /// Sets the wall clock, forward or back.
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

impl std::fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManualClock").field("wall", &self.wall()).finish_non_exhaustive()
    }
}

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
}

/// How a queue counted the time for which it was not open, if the wall clock does not show that
/// time; see [`Queue::clock_step`](crate::Queue::clock_step).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockStep {
    /// How far the wall clock moved since the last write.
    pub by: Duration,
    /// Whether it moved back.
    pub back: bool,
    /// How much of that counts as passed time.
    pub counted: Duration,
}

/// One reading of the three measures, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Now {
    /// Since the epoch. Never goes back, also not over a reopen. For delay, ttl and back-off.
    pub(crate) queue: u64,
    /// Since the epoch, as the system reports it. For run_at.
    pub(crate) wall: u64,
    /// Since the clock's origin. For ttr, and for grace while open.
    pub(crate) lease: u64,
}

/// The two clock readings that each journal record carries, so that queue time continues over a
/// reopen. They are the time of the commit, never a deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockMarks {
    /// The queue's time.
    pub(crate) queue: u64,
    /// The wall clock at its last reading.
    pub(crate) wall: u64,
}

/// How queue time follows from the boot clock of one start of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    pub(crate) id: u128,
    /// Queue time minus boot time, in microseconds; may wrap.
    pub(crate) offset: u64,
}

/// Turns readings of a [`Clock`] into [`Now`].
#[derive(Debug)]
pub(crate) struct QueueClock {
    marks: ClockMarks,
    lease: u64,
    /// Queue time minus boot time.
    offset: u64,
    boot_id: Option<u128>,
    /// The highest wall clock seen, advanced with the monotonic one. Used without a boot clock.
    wall_high: u64,
    gap_max: u64,
}

impl QueueClock {
    /// Continues from what an earlier run has stored. A queue without marks starts at the wall
    /// clock. If the machine was not restarted since, its boot clock gives the time that has
    /// passed; otherwise the wall clock does, up to `gap_max` microseconds.
    pub(crate) fn resume(
        marks: ClockMarks,
        boot: Option<Boot>,
        clock: &dyn Clock,
        gap_max: u64,
    ) -> (Self, Option<ClockStep>) {
        let reading = clock.read();
        let (wall, boot_id) = (since_epoch(reading.wall), clock.boot_id());
        let boot_time = reading.boot.map(micros);
        let same_boot = boot.filter(|boot| boot_id == Some(boot.id)).zip(boot_time);
        let (queue, step) = match same_boot {
            _ if marks == ClockMarks::default() => (wall, None),
            Some((boot, now)) => (marks.queue.max(now.wrapping_add(boot.offset)), None),
            None => {
                let counted = wall.saturating_sub(marks.wall).min(gap_max);
                let (by, back) = (wall.abs_diff(marks.wall), wall < marks.wall);
                let length = Duration::from_micros;
                let step = ClockStep { by: length(by), back, counted: length(counted) };
                (marks.queue.saturating_add(counted), (by != counted).then_some(step))
            }
        };
        let queue = queue.min(NEVER - 1);
        let resumed = Self {
            marks: ClockMarks { queue, wall },
            lease: micros(reading.monotonic),
            offset: queue.wrapping_sub(boot_time.unwrap_or_default()),
            boot_id: boot_id.filter(|_| boot_time.is_some()),
            wall_high: wall,
            gap_max,
        };
        (resumed, step)
    }

    /// Reads the clock. Queue time follows the boot clock alone. Without one it advances by the
    /// monotonic time elapsed, plus what the wall clock is ahead of the highest one seen. That
    /// highest one advances with the monotonic clock: otherwise each reading would keep the larger
    /// of two roundings, and queue time would run fast in a busy queue.
    ///
    /// The wall clock is read first: if the thread loses the processor between the two, that time
    /// is missing from the wall clock for one reading. In the other order it would count as a jump
    /// forward and never be taken back.
    #[inline]
    pub(crate) fn read(&mut self, clock: &dyn Clock) -> Now {
        let reading = clock.read();
        let wall = since_epoch(reading.wall);
        let lease = micros(reading.monotonic).max(self.lease);
        let queue = match reading.boot {
            Some(boot) => micros(boot).wrapping_add(self.offset),
            None => {
                let elapsed = lease - self.lease;
                let expected = self.wall_high.saturating_add(elapsed);
                self.wall_high = expected.max(wall);
                let jumped = (self.wall_high - expected).min(self.gap_max);
                self.marks.queue.saturating_add(elapsed).saturating_add(jumped)
            }
        };
        // One below NEVER, so that a deadline of NEVER is never due.
        let queue = queue.max(self.marks.queue).min(NEVER - 1);
        self.marks = ClockMarks { queue, wall };
        self.lease = lease;
        Now { queue, wall, lease }
    }

    pub(crate) fn marks(&self) -> ClockMarks {
        self.marks
    }

    /// What the next opening needs to continue without the wall clock, if the machine is not
    /// restarted.
    pub(crate) fn boot(&self) -> Option<Boot> {
        self.boot_id.map(|id| Boot { id, offset: self.offset })
    }
}

fn since_epoch(wall: SystemTime) -> u64 {
    wall.duration_since(UNIX_EPOCH).map_or(0, micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::sync::{AtomicBool, Ordering};

    const DAY: Duration = Duration::from_secs(86_400);
    const MONTH: u64 = 30 * 86_400_000_000;

    fn fresh(clock: &dyn Clock) -> QueueClock {
        QueueClock::resume(ClockMarks::default(), None, clock, MONTH).0
    }

    /// A machine without a clock that counts sleep.
    struct Bare(ManualClock);

    impl Clock for Bare {
        fn monotonic(&self) -> Duration {
            self.0.monotonic()
        }

        fn wall(&self) -> SystemTime {
            self.0.wall()
        }
    }

    #[test]
    fn queue_time_follows_the_boot_clock_and_no_set_wall_clock() {
        let clock = ManualClock::new();
        let mut reckoning = fresh(&clock);
        let start = reckoning.read(&clock);
        assert_eq!(start.queue, start.wall, "a new queue starts at the wall clock");
        clock.set_wall(UNIX_EPOCH);
        clock.freeze_wall(Duration::from_secs(5));
        let back = reckoning.read(&clock);
        assert_eq!((back.queue, back.wall), (start.queue + 5_000_000, 0));
        clock.set_wall(UNIX_EPOCH + 40_000 * DAY);
        assert_eq!(reckoning.read(&clock).queue, back.queue);
        clock.suspend(Duration::from_secs(3600));
        let woken = reckoning.read(&clock);
        assert_eq!(woken.queue, back.queue + 3_600_000_000);
        assert_eq!(woken.lease, back.lease, "a suspend ends no lease");
    }

    #[test]
    fn without_a_boot_clock_steps_of_the_wall_clock_count_up_to_the_gap() {
        let clock = ManualClock::new();
        let bare = Bare(clock.clone());
        let mut reckoning = fresh(&bare);
        let start = reckoning.read(&bare);
        clock.set_wall(UNIX_EPOCH);
        clock.freeze_wall(Duration::from_secs(5));
        let back = reckoning.read(&bare);
        assert_eq!((back.queue, back.wall), (start.queue + 5_000_000, 0));
        clock.set_wall(UNIX_EPOCH + Duration::from_micros(start.wall) + Duration::from_secs(3600));
        let forward = reckoning.read(&bare);
        assert_eq!(forward.queue, start.queue + 3_600_000_000, "the five seconds count once");
        assert_eq!(forward.lease, back.lease, "a jump ends no lease");
        clock.set_wall(clock.wall() + 3650 * DAY);
        assert_eq!(reckoning.read(&bare).queue, forward.queue + MONTH);
    }

    /// Regression: one wall clock reading far ahead was kept as the highest ever seen, and queue
    /// time stopped until the wall clock came there again.
    #[test]
    fn a_reopening_counts_the_boot_clock_or_the_wall_clock_up_to_the_gap() {
        let clock = ManualClock::new();
        let mut before = fresh(&clock);
        clock.advance(DAY);
        let closed = before.read(&clock);
        let (marks, boot) = (before.marks(), before.boot());
        let reopened = |gap_max| {
            let (mut after, step) = QueueClock::resume(marks, boot, &clock, gap_max);
            (after.read(&clock).queue - closed.queue, step)
        };
        let day = micros(DAY);
        clock.set_wall(clock.wall() + 3650 * DAY);
        clock.freeze_wall(DAY);
        assert_eq!(reopened(0), (day, None), "the wall clock does not count");
        clock.reboot(Duration::ZERO);
        let step = |by, back, counted| Some(ClockStep { by, back, counted });
        assert_eq!(reopened(MONTH), (MONTH, step(3650 * DAY, false, 30 * DAY)));
        clock.set_wall(clock.wall() - 3651 * DAY);
        assert_eq!(reopened(MONTH), (0, step(DAY, true, Duration::ZERO)));
        clock.reboot(3 * DAY);
        assert_eq!(reopened(MONTH), (2 * day, None));
        assert_eq!(reopened(day), (day, step(2 * DAY, false, DAY)));
    }

    /// The system clock agrees with the three clocks that it is made of.
    #[test]
    fn the_machines_boot_clock_never_goes_back_and_keeps_up() {
        let clock = SystemClock::default();
        let Some(mut last) = clock.boot_time() else { return };
        for _ in 0..10_000 {
            let read = clock.read();
            let boot = read.boot.unwrap();
            assert!(boot >= last && boot >= read.monotonic);
            last = boot;
        }
        assert_eq!(clock.boot_id(), SystemClock::default().boot_id());
        let other = SystemClock::default().boot_time().unwrap();
        assert!(other.abs_diff(clock.boot_time().unwrap()) < Duration::from_secs(5));
    }

    /// Regression: each reading added the larger of a monotonic and a wall step. With one clock
    /// rounded down now and then, a busy queue ended a delay of 5 s after 4.8 s.
    #[test]
    fn jitter_between_the_clocks_does_not_add_up() {
        let clock = ManualClock::new();
        let bare = Bare(clock.clone());
        let mut reckoning = fresh(&bare);
        let start = reckoning.read(&bare);
        for _ in 0..1000 {
            clock.freeze_wall(Duration::from_micros(3));
            reckoning.read(&bare);
            clock.suspend(Duration::from_micros(3));
            reckoning.read(&bare);
        }
        assert_eq!(reckoning.read(&bare).queue, start.queue + 3_000);
    }

    /// Regression: a thread lost the processor for 5 ms between two clock readings, this counted as
    /// a jump of the wall clock, and every later delay ended 5 ms too early.
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
        let mut reckoning = fresh(&clock);
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
}
