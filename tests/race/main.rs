//! Schedule exploration: scenarios of a few threads each, run under an explorer that decides which
//! thread continues at every lock, channel and atomic. Half of the schedules are drawn at random,
//! half with three changes of priority at random places. A thread that would sleep without end is a
//! finding, as is every panic; the explorer prints the schedule, and `TUBEWELL_SCHEDULE=… cargo
//! test … name` replays it.
//!
//! Built with `--cfg shuttle` only, see .ci/run. `TUBEWELL_SCHEDULES=n` sets how many schedules a
//! scenario gets, `TUBEWELL_SEED=n` draws others than the usual ones. The explorer does not model
//! weak memory: every atomic is sequentially consistent. It does not know redb's locks either: no
//! thread may wait inside redb.
#![cfg(shuttle)]
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used)]
#![allow(missing_docs, unreachable_pub)]

mod checkpoints;
mod disk;
mod flows;
mod gates;
mod handles;
mod jobs;
mod quiet;
mod schedules;
mod several;
mod sync;
mod throttles;
mod turns;
mod waits;
mod writes;

use shuttle::rand::{RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler};
use shuttle::{Config, Runner};
use std::str::FromStr;
use std::time::Duration;
use tubewell::{Builder, Durability, ErrorKind, ManualClock, Queue, Result, Tube};

/// Schedules of one scenario.
const SCHEDULES: usize = 3_000;
/// The same schedules each time, so that a failure is caused by the change under test.
const SEED: u64 = 0x7ebe11;
/// Preemptions of the schedules that are not random.
const DEPTH: usize = 3;
/// redb's trees are deep.
const STACK_BYTES: usize = 512 << 10;

/// Runs a scenario under many schedules, or under the one that is asked for.
fn explore(scenario: fn()) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.silence_warnings = true;
    disk::create_queue(&config);
    if let Ok(schedule) = std::env::var("TUBEWELL_SCHEDULE") {
        Runner::new(ReplayScheduler::new_from_encoded(&schedule), config).run(scenario);
        return;
    }
    let (half, seed) =
        (asked("TUBEWELL_SCHEDULES", SCHEDULES).div_ceil(2), asked("TUBEWELL_SEED", SEED));
    Runner::new(RandomScheduler::new_from_seed(seed, half), config.clone()).run(scenario);
    Runner::new(PctScheduler::new_from_seed(seed, DEPTH, half), config).run(scenario);
}

/// The number that a variable asks for.
fn asked<N: FromStr>(variable: &str, otherwise: N) -> N {
    let Ok(text) = std::env::var(variable) else { return otherwise };
    text.parse().unwrap_or_else(|_| panic!("{variable} is a number"))
}

/// A number below this one, chosen by the explorer.
fn below(limit: u32) -> u32 {
    thread_rng().next_u32() % limit
}

/// A builder with a manual clock.
fn still() -> (Builder, ManualClock) {
    let clock = ManualClock::new();
    (Queue::builder().clock(clock.clone()), clock)
}

/// A tube of a queue in memory, and its clock.
fn lone() -> (Queue, Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    (queue, tube, clock)
}

/// A queue in memory that syncs nothing, and its clock.
fn relaxed() -> (Queue, ManualClock) {
    let (builder, clock) = still();
    (builder.durability(Durability::Relaxed).in_memory().unwrap(), clock)
}

/// All rows of the queue agree.
fn sound(queue: &Queue) {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
}

fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The result of a call that may come after a close.
fn unless_closed<R>(done: Result<R>) -> Option<R> {
    match done {
        Ok(done) => Some(done),
        Err(error) if error.kind() == ErrorKind::Closed => None,
        Err(error) => panic!("{error}"),
    }
}

/// Whether an ack succeeded; a close may have come before it, or in between and returned the task.
fn acked(done: Result<()>) -> bool {
    match done {
        Err(error) if error.is_lease_lost() => false,
        done => unless_closed(done).is_some(),
    }
}
