//! What a jump of the machine's clocks does to a running queue: a wave of due tasks is handled
//! completely and once, a jump is noticed within a bound (T3), and what follows lease time, such as
//! graces and the quiet time before a checkpoint, does not move. Every jump at every step of a task
//! is in `tests/sim`.

mod inside;

use crate::{close_sound, counts, home, open, secs, still, until};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tubewell::{Cause, Clock, ManualClock, Queue};

const TEN_YEARS: Duration = secs(10 * 365 * 86_400);

/// A clock that moves without a signal, as a machine's does. Reports how long the timer will sleep.
#[derive(Clone)]
struct Machine {
    hands: ManualClock,
    naps: Sender<Duration>,
    sleepers: Arc<Mutex<Vec<Sleeper>>>,
}

type Sleeper = Arc<dyn Fn() + Send + Sync>;

impl Machine {
    fn new() -> (Self, Receiver<Duration>) {
        let (naps, reported) = channel();
        (Self { hands: ManualClock::new(), naps, sleepers: Arc::default() }, reported)
    }

    /// Lets a nap end.
    fn sleep_over(&self, nap: Duration) {
        self.hands.freeze_wall(nap);
        self.sleepers.lock().unwrap().iter().for_each(|wake| wake());
    }
}

impl Clock for Machine {
    fn monotonic(&self) -> Duration {
        self.hands.monotonic()
    }

    fn wall(&self) -> SystemTime {
        self.hands.wall()
    }

    fn boot_time(&self) -> Option<Duration> {
        self.hands.boot_time()
    }

    fn nap(&self, left: Duration) -> Option<Duration> {
        // The test may have stopped reading.
        let _ = self.naps.send(left);
        None
    }

    fn watch(&self, moved: Arc<dyn Fn() + Send + Sync>) {
        self.sleepers.lock().unwrap().push(moved);
    }
}

#[test]
fn t3_a_jump_is_noticed_within_30_seconds() {
    for by_wall in [false, true] {
        let (clock, naps) = Machine::new();
        let queue = Queue::builder().clock(clock.clone()).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        let task = tube.task(b"a");
        let task = match by_wall {
            true => task.run_at(clock.wall() + secs(3600)),
            false => task.delay(secs(3600)),
        };
        task.put().unwrap();
        let events = queue.events();
        let mut next = || naps.recv_timeout(secs(60)).expect("the timer sleeps for longer");
        // What it meant to sleep before the put may come first.
        let nap = std::iter::repeat_with(&mut next).find(|nap| *nap <= secs(30)).unwrap();
        assert_eq!(nap, secs(30), "nothing is due for an hour");
        clock.hands.suspend(secs(3600));
        assert!(events.try_recv().is_none(), "no thread has looked yet");
        clock.sleep_over(nap);
        let woken = events.recv_timeout(secs(60)).map(|event| event.cause);
        assert_eq!(woken, Some(Cause::Delay));
        queue.close().unwrap();
    }
}

#[test]
fn t3_ten_years_at_once_move_every_task_once() {
    for tick in [false, true] {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        for number in 0..300 {
            let task = tube.task(b"x");
            let noon = clock.wall() + secs(60 + number);
            match number % 3 {
                0 => task.delay(secs(60 + number)).put(),
                1 => task.ttl(secs(60 + number)).put(),
                _ => task.run_at(noon).put(),
            }
            .unwrap();
        }
        let held = tube.task(b"held").priority(-1).ttr(secs(60)).put().unwrap();
        let task = tube.take().unwrap();
        let events = queue.events();
        clock.suspend(TEN_YEARS);
        if tick {
            queue.tick().unwrap();
        }
        assert_eq!(counts(&tube), [200, 0, 1, 0], "tick: {tick}");
        let mut causes = BTreeMap::new();
        std::iter::from_fn(|| events.try_recv())
            .for_each(|event| *causes.entry(event.cause).or_insert(0) += 1);
        assert_eq!(causes, BTreeMap::from([(Cause::Delay, 200), (Cause::Ttl, 100)]));
        clock.set_wall(clock.wall() - TEN_YEARS);
        queue.tick().unwrap();
        assert_eq!((events.try_recv(), task.id()), (None, held), "and back, nothing falls due");
        task.ack().unwrap();
    }
}

#[test]
fn a_grace_goes_by_lease_time_while_the_queue_is_open() {
    type Jump = fn(&ManualClock);
    let jumps: [Jump; 3] = [
        |clock| clock.set_wall(clock.wall() + TEN_YEARS),
        |clock| clock.set_wall(clock.wall() - TEN_YEARS),
        |clock| clock.suspend(secs(86_400)),
    ];
    for (no, jump) in jumps.into_iter().enumerate() {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        tube.put(b"a").unwrap();
        let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
        tube.by(&ada).take().unwrap().detach();
        drop(ada);
        jump(&clock);
        queue.tick().unwrap();
        clock.freeze_wall(secs(59));
        assert_eq!(counts(&tube), [0, 0, 1, 0], "jump {no}");
        clock.freeze_wall(secs(1));
        assert_eq!(counts(&tube), [1, 0, 0, 0], "jump {no}");
    }
}

/// Over a restart it follows queue time. If the machine was restarted, that follows the time of day
/// forward, up to a bound, and never back.
#[test]
fn a_grace_over_a_restart_goes_by_queue_time() {
    let year = 365 * 86_400;
    for (jump, found) in [(-10 * year, 1), (-30, 1), (59, 1), (60, 0), (10 * year, 0)] {
        let (_home, path) = home();
        let (builder, clock) = still();
        let queue = builder.open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        tube.put(b"a").unwrap();
        let ada = queue.consumer_with_grace("ada", secs(60)).unwrap();
        tube.by(&ada).take().unwrap().detach();
        drop(ada);
        close_sound(queue);
        drop(tube);

        let by = secs(i64::unsigned_abs(jump));
        let wall = if jump < 0 { clock.wall() - by } else { clock.wall() + by };
        let clock = ManualClock::at(wall);
        let queue = still().0.clock(clock.clone()).open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        assert_eq!(counts(&tube), [1 - found, 0, found, 0], "after {jump} s");
        clock.freeze_wall(secs(60));
        assert_eq!(counts(&tube), [1, 0, 0, 0], "after {jump} s, and a minute more");
        close_sound(queue);
    }
}

/// Regression: one reading far ahead stayed in effect, because the highest wall clock ever seen was
/// kept. A delay of 60 s was still Delayed a year later, and tasks with a ttl were removed at once.
#[test]
fn f17_a_clock_that_was_ten_years_ahead_holds_nothing_up_and_ends_nothing() {
    for reboots in [false, true] {
        let (_home, path) = home();
        let (builder, clock) = still();
        let queue = builder.open(&path).unwrap();
        let tube = queue.tube("t").unwrap();
        tube.task(b"mortal").ttl(secs(3600)).put().unwrap();
        clock.set_wall(clock.wall() + TEN_YEARS);
        tube.task(b"late").delay(secs(60)).put().unwrap();
        clock.set_wall(clock.wall() - TEN_YEARS);
        close_sound(queue);
        drop(tube);
        if reboots {
            clock.reboot(secs(0));
        }
        let queue = still().0.clock(clock.clone()).open(&path).unwrap();
        let step = queue.clock_step();
        assert_eq!(step, None, "closed by the right time");
        let tube = queue.tube("t").unwrap();
        clock.advance(secs(59));
        assert_eq!(counts(&tube), [1, 1, 0, 0], "reboots: {reboots}");
        clock.advance(secs(1));
        assert_eq!(counts(&tube), [2, 0, 0, 0], "reboots: {reboots}");
        close_sound(queue);
    }
}

/// The machine ends while its clock is wrong: that costs at most `clock_gap_max`, once.
#[test]
fn a_wrong_clock_at_a_reboot_costs_the_gap_and_is_reported() {
    let day = 86_400;
    for (gap, counted) in [(None, 30 * day), (Some(secs(50)), 50)] {
        let (_home, path) = home();
        let (builder, clock) = still();
        let queue = builder.open(&path).unwrap();
        queue.tube("t").unwrap().task(b"a").delay(secs(60 * day)).put().unwrap();
        close_sound(queue);
        clock.set_wall(clock.wall() + TEN_YEARS);
        clock.reboot(secs(0));
        let reopened = || {
            let builder = still().0.clock(clock.clone());
            gap.into_iter().fold(builder, |builder, gap| builder.clock_gap_max(gap)).open(&path)
        };
        let queue = reopened().unwrap();
        let step = queue.clock_step().unwrap();
        assert_eq!((step.by, step.back, step.counted), (TEN_YEARS, false, secs(counted)));
        let tube = queue.tube("t").unwrap();
        clock.set_wall(clock.wall() - TEN_YEARS);
        clock.advance(secs(60 * day - counted - 1));
        assert_eq!(counts(&tube), [0, 1, 0, 0]);
        clock.set_wall(clock.wall() - secs(10));
        close_sound(queue);
        drop(tube);
        clock.set_wall(clock.wall() - secs(7));
        clock.reboot(secs(0));
        let queue = reopened().unwrap();
        let step = queue.clock_step().unwrap();
        assert_eq!((step.by, step.back, step.counted), (secs(7), true, secs(0)));
        let tube = queue.tube("t").unwrap();
        clock.advance(secs(1));
        assert_eq!(counts(&tube), [1, 0, 0, 0], "all passed time counts");
        close_sound(queue);
    }
}

/// So much that a sixteenth of the journal is in use, and not an eighth.
fn sixteenth(queue: &Queue) {
    let tube = queue.tube("t").unwrap();
    let space = queue.space().unwrap();
    while queue.space().unwrap().journal_used < space.journal_bytes / 16 {
        tube.put(&[7; 1000]).unwrap();
    }
    assert_eq!(queue.space().unwrap().checkpoints, space.checkpoints);
}

#[test]
fn a_quiet_minute_checkpoints_a_journal_that_is_worth_it() {
    let (_home, path) = home();
    let (builder, clock) = still();
    let queue = builder.journal_bytes(64 << 10).open(&path).unwrap();
    let checkpoints = || {
        queue.tick().unwrap();
        queue.space().unwrap().checkpoints
    };
    let before = checkpoints();
    queue.tube("t").unwrap().put(b"a").unwrap();
    clock.advance(secs(60));
    assert_eq!(checkpoints(), before, "next to nothing is in it");

    sixteenth(&queue);
    clock.advance(secs(59));
    assert_eq!(checkpoints(), before);
    queue.tube("t").unwrap().put(b"a").unwrap();
    clock.advance(secs(59));
    assert_eq!(checkpoints(), before, "it was not quiet");
    clock.suspend(TEN_YEARS);
    assert_eq!(checkpoints(), before, "asleep is not quiet");
    clock.advance(secs(1));
    assert_eq!(checkpoints(), before + 1);
    assert!(queue.space().unwrap().journal_used < 8 << 10, "the next opening has little to do");
    clock.advance(secs(3600));
    assert_eq!(checkpoints(), before + 1, "once is enough");
    close_sound(queue);
    open(&path).close().unwrap();
}

#[test]
fn the_queues_own_thread_checkpoints_a_quiet_queue() {
    let (_home, path) = home();
    let clock = ManualClock::new();
    let queue = Queue::builder().clock(clock.clone()).journal_bytes(64 << 10).open(&path).unwrap();
    let before = queue.space().unwrap().checkpoints;
    sixteenth(&queue);
    clock.advance(secs(60));
    until(|| queue.space().unwrap().checkpoints > before);
    queue.close().unwrap();
}

/// The clocks jump while a transaction is open: each verb uses the time at its call. A lease that
/// ends in the meantime rejects the whole transaction, and no task is ready early.
#[test]
fn a_jump_inside_a_transaction_is_seen_by_its_next_verb() {
    for (jump, back) in [(4, false), (4, true), (6, false), (6, true), (86_400, false)] {
        let (builder, clock) = still();
        let queue = builder.in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        tube.task(b"held").ttr(secs(5)).put().unwrap();
        let task = tube.take().unwrap();
        let put_around = |acks: bool| {
            let begun = clock.wall();
            queue.transact(|tx| -> tubewell::Result<()> {
                tube.task(b"early").delay(secs(5)).put_in(tx)?;
                clock.freeze_wall(secs(jump));
                clock.set_wall(if back { begun - TEN_YEARS } else { begun + secs(jump) });
                tube.task(b"late").delay(secs(5)).put_in(tx)?;
                if acks { tx.ack(&task) } else { Ok(()) }
            })
        };
        let lapsed = jump > 5;
        let done = put_around(true);
        assert_eq!(done.is_err(), lapsed, "{jump}: {done:?}");
        if lapsed {
            queue.tick().unwrap();
            assert_eq!(counts(&tube), [1, 0, 0, 0], "as before, and the lease is over");
            assert_eq!(crate::next(&tube), "held");
            put_around(false).unwrap();
        }
        let early = tube.try_take().unwrap();
        assert_eq!(early.as_deref(), lapsed.then_some(&b"early"[..]), "{jump}, {back}");
        assert!(tube.try_take().unwrap().is_none(), "late is not due before its own five seconds");
        clock.advance(secs(5));
        assert!(tube.try_take().unwrap().is_some());
    }
}
