//! That no caller notices a checkpoint: a steady load at half of the highest rate, so that
//! checkpoints run all the time, and how long the slowest calls take.
//!
//!     cargo bench --bench latency                      two minutes
//!     cargo bench --bench latency -- 'backlog 0'       forty seconds
//!     cargo bench --bench latency -- --quick
//!
//! A put is due at its own instant, whatever became of the call before: what waits behind a slow
//! call is late, and counts as late. A take is due once its put has returned.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::twins::Limit;
use common::{PAYLOAD, Ratio, Run, share, sorted, time};
use std::fs::File;
use std::io::{Seek, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tubewell::{Durability, Queue, Tube};

/// Bytes that the twin writes beside its journal, again and again, as a checkpoint does.
const BESIDE_BYTES: u64 = 20 << 20;

fn main() {
    let run = Run::begin("latency");
    for backlog in [0, 10_000, 1_000_000] {
        if run.wants(&format!("latency, backlog {backlog}")) {
            at_backlog(&run, backlog);
        }
    }
    if run.wants("latency, outrun") {
        outrun(&run);
    }
    run.end();
}

/// Puts one behind the other, and no takes: more comes than checkpoints can move, so the callers
/// are slowed. Evenly, or some would stand still.
fn outrun(run: &Run) {
    let length = run.length(20, 1_000, 10_000);
    let path = run.folder.fresh("queue");
    let queue = Queue::builder().durability(Durability::Relaxed).open(path).unwrap();
    let tube = queue.tube("latency").unwrap();
    let mut limit = Limit::new(&run.folder.fresh("limit"));
    let (puts, twin): (Vec<_>, Vec<_>) = rounds(length, |second| {
        let puts = unpaced(second, || _ = tube.put(&[7; PAYLOAD]).unwrap());
        let mut twin = || unpaced(second, || _ = limit.unsynced(1, &[PAYLOAD]));
        (puts, if run.alone() { Vec::new() } else { twin() })
    })
    .into_iter()
    .unzip();
    let rate = puts.iter().map(Vec::len).sum::<usize>() as f64 / length.as_secs_f64();
    run.row("relaxed put, as fast as it goes", Ratio::Rate, rate);
    run.row("relaxed put, as fast as it goes, p99.9", Ratio::Cost, usual(&puts));
    let what = format!("relaxed put, as fast as it goes, {rate:.0}/s, p99.9");
    let checkpoints = queue.space().unwrap().checkpoints;
    line(run, what, &puts, checkpoints, "a bare write", &twin, "–");
}

fn at_backlog(run: &Run, backlog: u64) {
    let tasks = run.scale.pick(backlog.min(1_000), backlog, backlog);
    let length = run.length(20, 2_000, 10_000);
    let path = run.folder.fresh("queue");
    let queue = Queue::builder().durability(Durability::Relaxed).open(path).unwrap();
    let tube = queue.tube("latency").unwrap();
    fill(&tube, tasks);

    let highest = highest(length / 4, || cycle(&tube));
    let before = queue.space().unwrap().checkpoints;
    let mut takes = Vec::new();
    let mut beside = Beside::new(run);
    let rounds = rounds(length, |second| {
        let mut taking = Vec::new();
        let puts = paced(second, highest / 2.0, || {
            tube.put(&[7; PAYLOAD]).unwrap();
            let put = Instant::now();
            let task = tube.try_take().unwrap().unwrap();
            taking.push(put.elapsed().as_secs_f64());
            task.ack().unwrap();
            put
        });
        takes.push(sorted(taking));
        let twin = beside.write(run, |limit| {
            paced(second, highest / 2.0, || {
                limit.unsynced(1, &[PAYLOAD, PAYLOAD, PAYLOAD]);
                Instant::now()
            })
        });
        (puts, twin)
    });
    let (puts, twin): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
    let checkpoints = queue.space().unwrap().checkpoints - before;
    let what = |verb| format!("{verb}, {tasks} deep, {:.0}/s, p99.9", highest / 2.0);
    let beside_it = "three bare writes beside 20 MB to a file";
    run.row(&format!("relaxed put, {backlog} deep, p99.9"), Ratio::Cost, usual(&puts));
    run.row(&format!("relaxed take, {backlog} deep, p99.9"), Ratio::Cost, usual(&takes));
    line(run, what("relaxed put"), &puts, checkpoints, beside_it, &twin, "≤ 1 ms");
    line(run, what("relaxed take"), &takes, checkpoints, beside_it, &twin, "≤ 1 ms");

    durable(run, &queue, &tube, backlog, length, highest);
}

/// Durable puts at half of their highest rate, while another thread cycles at a quarter of its own,
/// so that checkpoints run all the time.
fn durable(run: &Run, queue: &Queue, tube: &Tube, backlog: u64, length: Duration, relaxed: f64) {
    let safe = tube.durability(Durability::Durable);
    let highest = highest(length / 4, || _ = safe.put(&[7; PAYLOAD]).unwrap());
    let before = queue.space().unwrap().checkpoints;
    let mut beside = Beside::new(run);
    let rounds = rounds(length, |second| {
        let done = AtomicBool::new(false);
        let puts = std::thread::scope(|scope| {
            scope.spawn(|| {
                // In bursts with a rest between them: with two processors a third thread that waits
                // for its instant by looking at the clock would slow the others, and not the disk.
                let burst = (relaxed / 4.0 / 1000.0).max(1.0) as u64;
                while !done.load(Ordering::Relaxed) {
                    (0..burst).for_each(|_| cycle(tube));
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let puts = rested(second, highest / 2.0, || _ = safe.put(&[7; PAYLOAD]).unwrap());
            done.store(true, Ordering::Relaxed);
            puts
        });
        let synced = |limit: &mut Limit| _ = limit.synced(1, PAYLOAD);
        let twin = beside.write(run, |limit| rested(second, highest / 2.0, || synced(limit)));
        (puts, twin)
    });
    let (puts, twin): (Vec<_>, Vec<_>) = rounds.into_iter().unzip();
    let checkpoints = queue.space().unwrap().checkpoints - before;
    run.row(&format!("durable put, {backlog} deep, p99.9"), Ratio::Cost, usual(&puts));
    let what = format!("durable put, {backlog} deep, {:.0}/s, p99.9", highest / 2.0);
    let its = "a synced write beside 20 MB to a file";
    line(run, what, &puts, checkpoints, its, &twin, "≤ 8 ms");
}

/// Ours and the twin in turns, a second each.
fn rounds<T>(length: Duration, round: impl FnMut(Duration) -> T) -> Vec<T> {
    let second = length.min(Duration::from_secs(1));
    let count = length.as_secs_f64() / second.as_secs_f64();
    std::iter::repeat_n(second, count as usize).map(round).collect()
}

/// What counts is the median of the seconds, each with tens of checkpoints in it: a machine that
/// stands still for a moment, as virtual ones do, spoils one of them.
fn usual(seconds: &[Vec<f64>]) -> f64 {
    let seconds = seconds.iter().map(|second| share(second, 0.999)).collect();
    share(&sorted(seconds), 0.5)
}

/// What it was over all stands beside the median of the seconds.
fn line(
    run: &Run,
    what: String,
    ours: &[Vec<f64>],
    checkpoints: u64,
    its: &str,
    twin: &[Vec<f64>],
    reach: &'static str,
) {
    let all = sorted(ours.concat());
    let (p50, over_all, worst) = (share(&all, 0.5), share(&all, 0.999), share(&all, 1.0));
    let (over_all, worst) = (time(over_all), time(worst));
    let twin_over_all = time(share(&sorted(twin.concat()), 0.999));
    let (ours, twin) = (usual(ours), usual(twin));
    run.line(
        what,
        format!("{} (over all {over_all}, p50 {}, worst {worst})", time(ours), time(p50)),
        format!("{its} {} (over all {twin_over_all}); {checkpoints} checkpoints", time(twin)),
        format!("{:.2}", ours / twin),
        reach,
    );
}

fn fill(tube: &Tube, tasks: u64) {
    for from in (0..tasks).step_by(1000) {
        let batch = (from..tasks.min(from + 1000)).map(|_| vec![7; PAYLOAD]);
        tube.put_many(batch).unwrap();
    }
}

fn cycle(tube: &Tube) {
    tube.put(&[7; PAYLOAD]).unwrap();
    tube.try_take().unwrap().unwrap().ack().unwrap();
}

/// Calls a second, one behind the other.
fn highest(length: Duration, mut call: impl FnMut()) -> f64 {
    let began = Instant::now();
    let mut calls = 0;
    while began.elapsed() < length {
        call();
        calls += 1;
    }
    f64::from(calls) / began.elapsed().as_secs_f64()
}

/// Seconds from the instant at which each call was due to the one that it answers, sorted. Waits by
/// looking at the clock: a sleep comes back too late for thousands of calls a second.
fn paced(length: Duration, rate: f64, mut call: impl FnMut() -> Instant) -> Vec<f64> {
    let began = Instant::now();
    let mut late = Vec::new();
    for number in 0..(length.as_secs_f64() * rate) as u64 {
        let due = began + Duration::from_secs_f64(number as f64 / rate);
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        late.push(call().duration_since(due).as_secs_f64());
    }
    sorted(late)
}

/// Seconds that each call took, one behind the other, sorted.
fn unpaced(length: Duration, mut call: impl FnMut()) -> Vec<f64> {
    let began = Instant::now();
    let mut took = Vec::new();
    while began.elapsed() < length {
        let before = Instant::now();
        call();
        took.push(before.elapsed().as_secs_f64());
    }
    sorted(took)
}

/// As [`paced`], with sleeps between the calls. How much too late a sleep comes back is no call's;
/// after a call that took too long there is no sleep, and the next counts from when it was due.
fn rested(length: Duration, rate: f64, mut call: impl FnMut()) -> Vec<f64> {
    let began = Instant::now();
    let mut took = Vec::new();
    for number in 0..(length.as_secs_f64() * rate) as u64 {
        let due = began + Duration::from_secs_f64(number as f64 / rate);
        let early = due.saturating_duration_since(Instant::now());
        let began = if early.is_zero() {
            due
        } else {
            std::thread::sleep(early);
            Instant::now()
        };
        call();
        took.push(began.elapsed().as_secs_f64());
    }
    sorted(took)
}

/// Where a twin writes, and the file that another thread writes and syncs meanwhile.
struct Beside {
    limit: Limit,
    file: File,
}

impl Beside {
    fn new(run: &Run) -> Self {
        let file = File::create(run.folder.fresh("beside")).unwrap();
        Self { limit: Limit::new(&run.folder.fresh("limit")), file }
    }

    fn write(&mut self, run: &Run, twin: impl FnOnce(&mut Limit) -> Vec<f64>) -> Vec<f64> {
        if run.alone() {
            return Vec::new();
        }
        let Self { limit, file } = self;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let page = vec![7; 4096];
                while !done.load(Ordering::Relaxed) {
                    file.rewind().unwrap();
                    for _ in (0..BESIDE_BYTES).step_by(page.len()) {
                        file.write_all(&page).unwrap();
                    }
                    file.sync_data().unwrap();
                }
            });
            let times = twin(limit);
            done.store(true, Ordering::Relaxed);
            times
        })
    }
}
