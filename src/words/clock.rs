//! Time as the queue measures it. Only this file and its folder read a clock of the machine.
//!
//! Three measures, see [`Now`]: *queue time* never goes back and follows the machine's boot clock,
//! *wall time* is the system's clock unchanged, *lease time* is the process's monotonic clock. The
//! unit is the microsecond; sums saturate at [`NEVER`].

mod machine;
mod manual;

pub use machine::SystemClock;
pub use manual::ManualClock;
pub(crate) use manual::Sleepers;

use crate::words::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A deadline that is never due.
pub(crate) const NEVER: u64 = u64::MAX;

/// A length of time in microseconds. A length that does not fit counts as [`NEVER`].
pub(crate) fn micros(length: Duration) -> u64 {
    // In 64 bits, because every verb calls this and a 128-bit division is a function call.
    let whole = length.as_secs().checked_mul(1_000_000);
    whole.and_then(|whole| whole.checked_add(u64::from(length.subsec_micros()))).unwrap_or(NEVER)
}

/// A stored time that is not [`NEVER`].
pub(crate) fn instant(micros: u64) -> SystemTime {
    // `SystemTime` on Windows ends at about the year 30 000.
    let longest = Duration::from_secs(1 << 39);
    UNIX_EPOCH + Duration::from_micros(micros).min(longest)
}

/// One reading of a [`Clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// See [`Clock::monotonic`].
    pub monotonic: Duration,
    /// See [`Clock::boot_time`].
    pub boot: Option<Duration>,
    /// See [`Clock::wall`].
    pub wall: SystemTime,
}

/// The clocks that the queue reads, for [`Builder::clock`](crate::Builder::clock). [`SystemClock`]
/// is the machine's; a test moves a [`ManualClock`] by hand.
pub trait Clock: Send + Sync + 'static {
    /// Time since an origin of the clock's own. Never goes back. Does not advance while the machine
    /// sleeps, where the system has such a clock.
    fn monotonic(&self) -> Duration;

    /// The time of day. It may jump forward or back.
    fn wall(&self) -> SystemTime;

    /// Time since the machine was started, or since another origin. Never goes back, and advances
    /// while the machine sleeps. `None` where the system has no such clock: steps of the wall clock
    /// forward then count as time, at most [`clock_gap_max`](crate::Builder::clock_gap_max) each.
    fn boot_time(&self) -> Option<Duration> {
        None
    }

    /// Which start of which machine [`boot_time`](Clock::boot_time) counts from; `None` if that is
    /// not known.
    fn boot_id(&self) -> Option<u128> {
        None
    }

    /// Reads the three clocks one after the other, the wall clock first.
    fn read(&self) -> ClockReading {
        let wall = self.wall();
        ClockReading { monotonic: self.monotonic(), boot: self.boot_time(), wall }
    }

    /// How long a thread that waits for `left` to pass on this clock may sleep. `None`: until the
    /// function given to [`watch`](Clock::watch) is called.
    fn nap(&self, left: Duration) -> Option<Duration> {
        Some(left)
    }

    /// Registers a function that the clock calls whenever it was moved by hand. A clock that moves
    /// by itself need not keep it.
    fn watch(&self, moved: Arc<dyn Fn() + Send + Sync>) {
        drop(moved);
    }

    /// The manual clock that this one is, to report to it who sleeps.
    #[doc(hidden)]
    fn manual(&self) -> Option<&ManualClock> {
        None
    }
}

/// The instant at which a bounded wait for another thread begins.
pub(crate) fn machine_now() -> Instant {
    Instant::now()
}

/// How much time a queue has counted for the time in which it was not open, where the wall clock
/// may be wrong; from [`Queue::clock_step`](crate::Queue::clock_step).
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

impl Now {
    /// Before any other time.
    pub(crate) const FIRST: Self = Self { queue: 0, wall: 0, lease: 0 };
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
    /// Of the last reading.
    pub(crate) marks: ClockMarks,
    lease: u64,
    /// Queue time and boot time when it was begun. Not their difference: a sum with that would not
    /// be known to be too large.
    begun: (u64, u64),
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
            begun: (queue, boot_time.unwrap_or_default()),
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
            Some(boot) => self.begun.0.saturating_add(micros(boot).saturating_sub(self.begun.1)),
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

    /// What the next opening needs to continue without the wall clock, if the machine is not
    /// restarted.
    pub(crate) fn boot(&self) -> Option<Boot> {
        let offset = self.begun.0.wrapping_sub(self.begun.1);
        self.boot_id.map(|id| Boot { id, offset })
    }
}

pub(crate) fn since_epoch(wall: SystemTime) -> u64 {
    wall.duration_since(UNIX_EPOCH).map_or(0, micros)
}

#[cfg(test)]
mod tests;
