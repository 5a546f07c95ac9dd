//! Time as the queue measures it. Only this file and its folder read a clock of the machine.
//!
//! Three measures, see [`Now`]: *queue time* never goes back and follows the machine's boot clock,
//! *wall time* is the system's clock as it is, *lease time* is the process's monotonic clock. All
//! are microseconds; sums saturate at [`NEVER`].

mod machine;
mod manual;

pub use machine::SystemClock;
pub use manual::ManualClock;

use crate::words::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// An instant that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// A length of time in microseconds; what does not fit means for ever.
pub(crate) fn micros(length: Duration) -> u64 {
    // In 64 bits: every verb asks, and a division of 128 is a call.
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

/// The clocks that the queue reads. [`SystemClock`] is the machine's; [`ManualClock`] is moved by
/// hand in tests.
pub trait Clock: Send + Sync + 'static {
    /// Time since an origin of the clock's own. Never goes back; stands still while the machine
    /// sleeps, where the system has such a clock.
    fn monotonic(&self) -> Duration;

    /// The time of day. May jump either way.
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

/// What a queue made of the time for which it was not open, if the wall clock does not tell the
/// truth about it; see [`Queue::clock_step`](crate::Queue::clock_step).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockStep {
    /// How far the wall clock had moved since the last write.
    pub by: Duration,
    /// Whether it had moved back.
    pub back: bool,
    /// How much of that counts as time that has passed.
    pub counted: Duration,
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
pub(crate) struct ClockMarks {
    /// The queue's time.
    pub(crate) queue: u64,
    /// The wall clock as it was read last.
    pub(crate) wall: u64,
}

/// How queue time hangs on the boot clock of one start of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    pub(crate) id: u128,
    /// Queue time less boot time, in microseconds; may wrap.
    pub(crate) offset: u64,
}

/// Turns readings of a [`Clock`] into [`Now`].
#[derive(Debug)]
pub(crate) struct QueueClock {
    marks: ClockMarks,
    lease: u64,
    /// Queue time less boot time.
    offset: u64,
    boot_id: Option<u128>,
    /// The highest wall clock seen, moved along with the monotonic one: without a boot clock.
    wall_high: u64,
    gap_max: u64,
}

impl QueueClock {
    /// Goes on from what an earlier run has stored. A queue that has no marks starts at the wall
    /// clock. Where the machine was not started since, its boot clock tells how much time has
    /// passed; else the wall clock does, and `gap_max` microseconds at most.
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

    /// Reads the clock. Queue time follows the boot clock alone. Where there is none it advances by
    /// the monotonic time elapsed, and by what the wall clock is ahead of the highest ever seen,
    /// moved along with the monotonic one. Moved along: else each reading would keep the larger of
    /// two roundings, and a busy queue run fast.
    ///
    /// The wall clock is read first: what the thread is kept from going on between the two is then
    /// missing from the wall clock for one reading, and would else be a jump that stays for good.
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
        // One below NEVER, so that a deadline "for ever" is never due.
        let queue = queue.max(self.marks.queue).min(NEVER - 1);
        self.marks = ClockMarks { queue, wall };
        self.lease = lease;
        Now { queue, wall, lease }
    }

    pub(crate) fn marks(&self) -> ClockMarks {
        self.marks
    }

    /// What lets the next opening under the same start of the machine go on without the wall clock.
    pub(crate) fn boot(&self) -> Option<Boot> {
        self.boot_id.map(|id| Boot { id, offset: self.offset })
    }
}

fn since_epoch(wall: SystemTime) -> u64 {
    wall.duration_since(UNIX_EPOCH).map_or(0, micros)
}

#[cfg(test)]
mod tests;
