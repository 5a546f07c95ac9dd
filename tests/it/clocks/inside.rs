//! A clock that jumps during a call, between two of its readings or after the last one: the call
//! does what it would have done before the jump or after it, nothing between.

use crate::{counts, secs};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tubewell::{Clock, ErrorKind, ManualClock, Queue, Release, Result, Task, TaskId, Tube};

type Jump = fn(&ManualClock);

const DAY: Duration = secs(86_400);
const YEAR: Duration = secs(365 * 86_400);

/// From where on, and how.
const JUMPS: [(&str, bool, Jump); 8] = [
    ("stands still for 4 s", false, |clock| clock.advance(secs(4))),
    ("forward", false, |clock| clock.set_wall(clock.wall() + YEAR)),
    ("forward by less than a delay", false, |clock| clock.set_wall(clock.wall() + secs(4))),
    ("back", false, |clock| clock.set_wall(clock.wall() - YEAR)),
    ("suspended", false, |clock| clock.suspend(DAY)),
    ("frozen", false, |clock| clock.freeze_wall(secs(4))),
    ("to before the epoch", false, |clock| clock.set_wall(UNIX_EPOCH - DAY)),
    ("from before the epoch", true, |clock| clock.set_wall(UNIX_EPOCH + 50 * YEAR)),
];

/// A clock that jumps after so many readings.
#[derive(Clone)]
struct Jumpy {
    hands: ManualClock,
    next: Arc<Mutex<Option<(usize, Jump)>>>,
}

impl Jumpy {
    fn was_read(&self) {
        let mut next = self.next.lock().unwrap();
        if let Some((left, jump)) = next.take() {
            match left {
                1 => jump(&self.hands),
                _ => *next = Some((left - 1, jump)),
            }
        }
    }
}

impl Clock for Jumpy {
    fn monotonic(&self) -> Duration {
        let read = self.hands.monotonic();
        self.was_read();
        read
    }

    fn wall(&self) -> SystemTime {
        let read = self.hands.wall();
        self.was_read();
        read
    }

    fn boot_time(&self) -> Option<Duration> {
        let read = self.hands.boot_time();
        self.was_read();
        read
    }
}

/// A task with what the test knows of it.
struct Life {
    clock: ManualClock,
    noon: SystemTime,
    queue: Queue,
    tube: Tube,
    id: Option<TaskId>,
    task: Option<Task>,
    reported: Vec<String>,
}

impl Life {
    fn tell<T>(&mut self, done: Result<T>) {
        self.reported.push(format!("{:?}", done.map(drop).map_err(|error| error.kind())));
    }

    fn look(&mut self) {
        let task = self.id.map(|id| self.tube.peek(id).map_err(|error| error.kind()));
        self.reported.push(format!("{:?} {task:?}", counts(&self.tube)));
    }
}

type Call = fn(&mut Life);

fn take(life: &mut Life) {
    life.task = life.tube.try_take().unwrap();
}

fn pass(life: &mut Life) {
    life.clock.advance(secs(5));
}

fn tick(life: &mut Life) {
    life.queue.tick().unwrap();
}

fn with_task(life: &mut Life, verdict: fn(Task) -> Result<()>) {
    let done = life.task.take().map_or(Ok(()), verdict);
    life.tell(done);
}

fn ack(life: &mut Life) {
    with_task(life, |task| task.ack());
}

/// Calls that depend on queue time, on the time of day, and on lease time.
const LIVES: [(&str, &[Call]); 4] = [
    (
        "delay",
        &[
            |life| life.id = Some(life.tube.task(b"x").delay(secs(5)).put().unwrap()),
            take,
            pass,
            take,
            |life| with_task(life, |task| task.release_with(Release::new().delay(secs(5)))),
            pass,
            tick,
            take,
            ack,
        ],
    ),
    (
        "ttl",
        &[
            |life| life.id = Some(life.tube.task(b"x").ttl(secs(6)).put().unwrap()),
            take,
            |life| with_task(life, |task| task.release()),
            pass,
            take,
            |life| with_task(life, |task| task.retry_after("no", secs(1))),
        ],
    ),
    (
        "run at",
        &[
            |life| life.id = Some(life.tube.task(b"x").run_at(life.noon + secs(5)).put().unwrap()),
            take,
            pass,
            tick,
            take,
            ack,
        ],
    ),
    (
        "ttr",
        &[
            |life| life.id = Some(life.tube.task(b"x").ttr(secs(5)).put().unwrap()),
            take,
            |life| {
                let done = life.task.as_ref().map_or(Ok(()), |task| task.touch(secs(2)));
                life.tell(done);
            },
            pass,
            |life| {
                let done = life.task.as_ref().map_or(Ok(()), |task| task.renew());
                life.tell(done);
            },
            tick,
            take,
            ack,
        ],
    ),
];

/// When in a call the jump comes.
#[derive(Clone, Copy)]
enum When {
    Before,
    Behind(usize),
    After,
}

/// All that is visible of a task whose call `at` has the jump, and for ten seconds after it. `None`
/// if the call does not read its clock so often.
fn play(calls: &[Call], at: usize, when: When, (early, jump): (bool, Jump)) -> Option<Vec<String>> {
    let clock = if early { ManualClock::at(UNIX_EPOCH - DAY) } else { ManualClock::new() };
    let jumpy = Jumpy { hands: clock.clone(), next: Arc::default() };
    let queue = Queue::builder().clock(jumpy.clone()).by_hand(true).in_memory().unwrap();
    let (tube, noon) = (queue.tube("t").unwrap(), clock.wall());
    let (id, task, reported) = (None, None, Vec::new());
    let mut life = Life { clock, noon, queue, tube, id, task, reported };
    for (no, call) in calls.iter().enumerate() {
        let is_hit = no == at;
        match when {
            When::Before if is_hit => jump(&life.clock),
            When::Behind(readings) if is_hit => {
                *jumpy.next.lock().unwrap() = Some((readings, jump));
            }
            _ => {}
        }
        call(&mut life);
        if jumpy.next.lock().unwrap().take().is_some() {
            return None;
        }
        if matches!(when, When::After) && is_hit {
            jump(&life.clock);
        }
        life.look();
    }
    for _ in 0..10 {
        life.clock.advance(secs(1));
        life.queue.tick().unwrap();
        life.look();
    }
    Some(life.reported)
}

/// Regression: the clocks were read one after the other, the monotonic one first. If the process
/// stopped between the two, the passed time was counted by one, and at the next reading again by
/// the other: a delay of five seconds ended after one.
#[test]
fn a_jump_inside_a_call_is_one_before_it_or_after_it() {
    let (mut inside, mut differ) = (0, 0);
    for (jump_name, early, jump) in JUMPS {
        for (life, calls) in LIVES {
            for at in 0..calls.len() {
                let reported = |when| play(calls, at, when, (early, jump));
                let (before, after) =
                    (reported(When::Before).unwrap(), reported(When::After).unwrap());
                differ += usize::from(before != after);
                for readings in 1.. {
                    let Some(reported) = reported(When::Behind(readings)) else { break };
                    inside += 1;
                    assert!(
                        reported == before || reported == after,
                        "{jump_name}, {life}, call {at}, after reading {readings}:\n{}",
                        [reported, before, after].map(|reported| reported.join("\n")).join("\n\n"),
                    );
                }
            }
        }
    }
    assert!(inside > 400 && differ > 25, "{inside} inside, {differ} differ");
}

/// Whichever of the two decides whether the lease has ended when it is settled.
#[test]
fn a_lease_that_lapses_inside_its_ack_is_settled_or_lost_and_never_both() {
    for readings in 1..=2 {
        let hands = ManualClock::new();
        let jumpy = Jumpy { hands: hands.clone(), next: Arc::default() };
        let queue = Queue::builder().clock(jumpy.clone()).by_hand(true).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        tube.task(b"x").ttr(secs(5)).put().unwrap();
        let task = tube.take().unwrap();
        *jumpy.next.lock().unwrap() = Some((readings, |clock| clock.advance(secs(6))));
        let done = task.ack();
        let left = match &done {
            Ok(()) => 0,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::LeaseLost);
                1
            }
        };
        assert_eq!(tube.len().unwrap(), left, "{done:?}");
        queue.tick().unwrap();
        assert_eq!(counts(&tube), [left, 0, 0, 0]);
    }
}
