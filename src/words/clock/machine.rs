//! The clocks of the machine.

use crate::words::clock::{Clock, ClockReading};
#[cfg(any(target_os = "linux", target_os = "android"))]
use crate::words::sync::{Ordering, plain::AtomicU64};
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::time::UNIX_EPOCH;
use std::time::{Duration, Instant, SystemTime};

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

/// The random number that Linux draws when it starts.
fn boot_id() -> Option<u128> {
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        return None;
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
}

/// How far the boot clock is ahead of the monotonic one, in nanoseconds. That changes only while
/// the machine sleeps, so most verbs need not read the boot clock: it is read when a second has
/// passed since the last reading, or when the wall clock and the monotonic clock have not advanced
/// by the same length.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug, Default)]
struct Asleep {
    ahead: AtomicU64,
    /// Monotonic time of the last reading.
    looked: AtomicU64,
    /// The wall clock minus the monotonic one, at the last reading.
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
            // Read after the boot clock: if the thread is paused between the two, that time is
            // missing until the next reading. In the other order it would be added and never
            // removed.
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
