//! Whether work on many tasks costs each of them the same: forty thousand that are due, in flight
//! in one group, or resumed, beside five thousand.
//!
//!     cargo bench --bench flat                                 half a minute
//!     cargo bench --bench flat -- 'in flight'                  one kind
//!     cargo bench --bench flat -- --few=500 --many=4000        other numbers
//!
//! The clock stands still and nothing runs beside the calls; the journal has room for all of it, so
//! that no checkpoint is in any time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::{Run, each, share, sorted};
use std::time::{Duration, Instant};
use tubewell::{Durability, ManualClock, Queue, Tube, TubeKind, TubeOptions};

/// Bytes of a payload: a record is the row's then, and not the payload's.
const SMALL: [u8; 16] = [7; 16];
/// Of a task in the journal, so that less than an eighth of it is in use at the end.
const JOURNAL: u64 = 4 << 10;
const HOUR: Duration = Duration::from_secs(3600);

/// Does so many tasks' work, and answers the time that counts.
type Work = fn(&Run, u64) -> Duration;

fn main() {
    let run = Run::begin("flat");
    let few = run.count("few", 50, 5_000, 5_000);
    let many = run.count("many", 400, 40_000, 40_000);
    let kinds: [(&str, Work); 4] = [
        ("due, worked off by one verb", due),
        ("due, worked off inside transact", due_in_transact),
        ("in flight of one group, by take_many", in_flight),
        ("leases resumed", resumed),
    ];
    for (name, work) in kinds {
        if run.wants(name) {
            flat(&run, name, work, few, many);
        }
    }
    run.end();
}

/// As many tasks on each side in all: the few in several turns, half of them before the many and
/// half behind, of which the one in the middle counts. So does the ratio in the middle of the
/// rounds.
fn flat(run: &Run, name: &str, work: Work, few: u64, many: u64) {
    let rounds = run.count("rounds", 1, 3, 5);
    let turns = (many / few).max(2);
    let mut all = Vec::new();
    for _ in 0..rounds {
        let each_of = |tasks: u64| work(run, tasks).as_secs_f64() / tasks as f64;
        let mut small: Vec<f64> = (0..turns / 2).map(|_| each_of(few)).collect();
        let large = each_of(many);
        small.extend((turns / 2..turns).map(|_| each_of(few)));
        let small = share(&sorted(small), 0.5);
        all.push((large / small, large, small));
    }
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ratios = sorted(all.iter().map(|round| round.0).collect());
    let (ratio, large, small) = all[all.len() / 2];
    run.line(
        format!("{many} {name}, each"),
        each(large),
        format!("of {few} {}", each(small)),
        format!("{ratio:.2} ({:.2} to {:.2})", share(&ratios, 0.0), share(&ratios, 1.0)),
        "≤ 1.2",
    );
}

fn open(run: &Run, tasks: u64) -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    let builder = Queue::builder().durability(Durability::Relaxed);
    let path = run.folder.fresh("queue");
    let builder = builder.journal_bytes((tasks * JOURNAL).max(1 << 20));
    (builder.clock(clock.clone()).by_hand(true).open(path).unwrap(), clock)
}

/// Tasks that are due all at once, and have not been looked at since.
fn overdue(run: &Run, tasks: u64) -> (Queue, Tube) {
    let (queue, clock) = open(run, tasks);
    let tube = queue.tube("flat").unwrap();
    for _ in 0..tasks {
        tube.task(&SMALL).delay(HOUR).put().unwrap();
    }
    clock.advance(HOUR);
    (queue, tube)
}

fn due(run: &Run, tasks: u64) -> Duration {
    let (_queue, tube) = overdue(run, tasks);
    let began = Instant::now();
    let ready = tube.stats().unwrap().ready;
    let took = began.elapsed();
    assert_eq!(ready, tasks, "all are ready");
    took
}

fn due_in_transact(run: &Run, tasks: u64) -> Duration {
    let (queue, tube) = overdue(run, tasks);
    let began = Instant::now();
    queue.transact(|tx| tube.put_in(tx, &SMALL)).unwrap();
    let ready = tube.stats().unwrap().ready;
    let took = began.elapsed();
    assert_eq!(ready, tasks + 1, "all are ready");
    took
}

fn in_flight(run: &Run, tasks: u64) -> Duration {
    let (queue, _clock) = open(run, tasks);
    let options = TubeOptions::new(TubeKind::Utube).in_flight(tasks as u32);
    let tube = queue.create_tube("flat", options).unwrap();
    for _ in 0..tasks {
        tube.task(&SMALL).group("one").put().unwrap();
    }
    let began = Instant::now();
    let taken = tube.take_many(tasks as usize).unwrap();
    let took = began.elapsed();
    assert_eq!(taken.len() as u64, tasks, "all are in flight");
    taken.into_iter().for_each(|task| _ = task.detach());
    took
}

fn resumed(run: &Run, tasks: u64) -> Duration {
    let (queue, _clock) = open(run, tasks);
    let tube = queue.tube("flat").unwrap();
    for _ in 0..tasks {
        tube.put(&SMALL).unwrap();
    }
    let ada = queue.consumer_with_grace("ada", HOUR).unwrap();
    let own = tube.by(&ada);
    own.take_many(tasks as usize).unwrap().into_iter().for_each(|task| _ = task.detach());
    drop((own, ada));
    let ada = queue.consumer_with_grace("ada", HOUR).unwrap();
    let began = Instant::now();
    // Not collected: the memory of a list would cost more each as the list grows.
    let mut resumed = 0;
    for task in ada.resume(&tube) {
        task.unwrap().detach();
        resumed += 1;
    }
    let took = began.elapsed();
    assert_eq!(resumed, tasks, "all are resumed");
    took
}
