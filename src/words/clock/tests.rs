//! Queue time goes on and never back, whatever the clocks of the machine do.

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
    let mut queue_clock = fresh(&clock);
    let start = queue_clock.read(&clock);
    assert_eq!(start.queue, start.wall, "a new queue starts at the wall clock");
    clock.set_wall(UNIX_EPOCH);
    clock.freeze_wall(Duration::from_secs(5));
    let back = queue_clock.read(&clock);
    assert_eq!((back.queue, back.wall), (start.queue + 5_000_000, 0));
    clock.set_wall(UNIX_EPOCH + 40_000 * DAY);
    assert_eq!(queue_clock.read(&clock).queue, back.queue);
    clock.suspend(Duration::from_secs(3600));
    let woken = queue_clock.read(&clock);
    assert_eq!(woken.queue, back.queue + 3_600_000_000);
    assert_eq!(woken.lease, back.lease, "a suspend ends no lease");
}

#[test]
fn without_a_boot_clock_steps_of_the_wall_clock_count_up_to_the_gap() {
    let clock = ManualClock::new();
    let bare = Bare(clock.clone());
    let mut queue_clock = fresh(&bare);
    let start = queue_clock.read(&bare);
    clock.set_wall(UNIX_EPOCH);
    clock.freeze_wall(Duration::from_secs(5));
    let back = queue_clock.read(&bare);
    assert_eq!((back.queue, back.wall), (start.queue + 5_000_000, 0));
    clock.set_wall(UNIX_EPOCH + Duration::from_micros(start.wall) + Duration::from_secs(3600));
    let forward = queue_clock.read(&bare);
    assert_eq!(forward.queue, start.queue + 3_600_000_000, "the five seconds count once");
    assert_eq!(forward.lease, back.lease, "a jump ends no lease");
    clock.set_wall(clock.wall() + 3650 * DAY);
    assert_eq!(queue_clock.read(&bare).queue, forward.queue + MONTH);
}

/// One reading far ahead stayed without end: the highest wall clock ever seen was kept, and queue
/// time stood still until the wall clock came there again.
#[test]
fn over_a_reopening_the_boot_clock_counts_and_else_the_wall_clock_up_to_the_gap() {
    let clock = ManualClock::new();
    let mut before = fresh(&clock);
    clock.advance(DAY);
    let closed = before.read(&clock);
    let (marks, boot) = (before.marks, before.boot());
    let reopened = |gap_max| {
        let (mut after, step) = QueueClock::resume(marks, boot, &clock, gap_max);
        (after.read(&clock).queue - closed.queue, step)
    };
    let day = micros(DAY);
    clock.set_wall(clock.wall() + 3650 * DAY);
    clock.freeze_wall(DAY);
    assert_eq!(reopened(0), (day, None), "the wall clock is not asked");
    clock.reboot(Duration::ZERO);
    let step = |by, back, counted| Some(ClockStep { by, back, counted });
    assert_eq!(reopened(MONTH), (MONTH, step(3650 * DAY, false, 30 * DAY)));
    clock.set_wall(clock.wall() - 3651 * DAY);
    assert_eq!(reopened(MONTH), (0, step(DAY, true, Duration::ZERO)));
    clock.reboot(3 * DAY);
    assert_eq!(reopened(MONTH), (2 * day, None));
    assert_eq!(reopened(day), (day, step(2 * DAY, false, DAY)));
}

/// The clock of the machine says the same as the three that it is made of.
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

/// The larger of a monotonic and a wall step was added at each reading: with one clock rounded
/// down now and then, a busy queue ended a delay of 5 s after 4.8.
#[test]
fn jitter_between_the_clocks_does_not_add_up() {
    let clock = ManualClock::new();
    let bare = Bare(clock.clone());
    let mut queue_clock = fresh(&bare);
    let start = queue_clock.read(&bare);
    for _ in 0..1000 {
        clock.freeze_wall(Duration::from_micros(3));
        queue_clock.read(&bare);
        clock.suspend(Duration::from_micros(3));
        queue_clock.read(&bare);
    }
    assert_eq!(queue_clock.read(&bare).queue, start.queue + 3_000);
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
    let mut queue_clock = fresh(&clock);
    let start = queue_clock.read(&clock);
    clock.1.store(true, Ordering::SeqCst);
    let passed = |now: u64| micros(clock.0.monotonic()) - now;
    for _ in 0..10 {
        let queue = queue_clock.read(&clock).queue;
        assert!(queue - start.queue <= passed(start.lease), "ahead of the machine");
    }
    clock.1.store(false, Ordering::SeqCst);
    let queue = queue_clock.read(&clock).queue;
    assert_eq!(queue - start.queue, passed(start.lease), "and nothing is lost");
}

/// However far a clock goes, queue time stands at its end. It began again at zero and so stood
/// where it was: what was delayed was never due.
#[test]
fn queue_time_ends_where_the_clocks_do() {
    let clock = ManualClock::new();
    let mut queue_clock = fresh(&clock);
    let start = queue_clock.read(&clock);
    clock.advance(Duration::MAX);
    let end = queue_clock.read(&clock);
    assert_eq!((end.queue, end.lease), (NEVER - 1, NEVER));
    assert!(start.queue < end.queue);
}
