//! Opening a queue of a million tasks, after a clean close and after a kill, the memory it takes,
//! and the bytes that a durable cycle sends to the device.
//!
//!     cargo bench --bench reopen                      a minute
//!     cargo bench --bench reopen -- --quick
//!
//! Each opening is in a process of its own, so that the memory is the queue's alone. The files are
//! in the page cache, as they are for a program that was just restarted.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::twins::{BareRedb, Limit, together};
use common::{PAYLOAD, Ratio, Run, os, share, time};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use tubewell::{Durability, Queue, Tube};

/// The name of the variable that says what a child does with the folder.
const ROLE: &str = "TUBEWELL_BENCH_ROLE";
const MIB: f64 = (1 << 20) as f64;
/// The builder's default for redb's cache.
const CACHE: u64 = 32;

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        return child(&role);
    }
    let run = Run::begin("reopen");
    reopen(&run);
    bytes(&run);
    run.end();
}

fn builder() -> tubewell::Builder {
    Queue::builder().durability(Durability::Relaxed)
}

/// Opens the queue, does its part, prints one line and waits to be killed, or for the word to
/// close.
fn child(role: &str) {
    let (tasks, path) = role.split_once(' ').unwrap();
    let tasks: u64 = tasks.parse().unwrap();
    let before = os::resident().unwrap_or_default();
    let began = Instant::now();
    let queue = builder().open(path).unwrap();
    let opened = began.elapsed().as_secs_f64();
    let resident = os::resident().unwrap_or_default().saturating_sub(before);
    let tube = queue.tube("reopen").unwrap();
    fill(&tube, tasks);
    // Half a journal of work that is not in the base yet, which replay has to read.
    for _ in 0..tasks.min(8_000) {
        tube.put(&[7; PAYLOAD]).unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
    }
    let worked = os::resident().unwrap_or_default().saturating_sub(before);
    let space = queue.space().unwrap();
    println!("{opened} {resident} {worked} {space:?}");
    std::io::stdout().flush().unwrap();
    let mut word = String::new();
    std::io::stdin().read_line(&mut word).unwrap();
    drop(tube);
    queue.close().unwrap();
}

fn fill(tube: &Tube, tasks: u64) {
    let there = tube.len().unwrap();
    let batch = [[7; PAYLOAD]; 1000];
    for from in (there..tasks).step_by(batch.len()) {
        let most = batch.len().min((tasks - from) as usize);
        tube.put_many(batch[..most].iter().map(|task| &task[..])).unwrap();
    }
}

struct Opened {
    child: Child,
    seconds: f64,
    resident: f64,
    worked: f64,
    space: String,
}

impl Opened {
    fn start(path: &Path, tasks: u64) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(ROLE, format!("{tasks} {}", path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut fields = line.trim_end().splitn(4, ' ');
        let mut number = || fields.next().unwrap().parse::<f64>().unwrap();
        let (seconds, resident, worked) = (number(), number() / MIB, number() / MIB);
        let space = fields.next().unwrap_or_default().to_owned();
        Self { child, seconds, resident, worked, space }
    }

    fn end(mut self, kill: bool) {
        if kill {
            self.child.kill().unwrap();
        }
        // Dropping its input is the word to close.
        drop(self.child.stdin.take());
        let ended = self.child.wait().unwrap();
        assert!(kill || ended.success(), "a child that closes ends well");
    }
}

fn reopen(run: &Run) {
    if !run.wants("open with") {
        return;
    }
    let tasks = run.scale.pick(1_000, 1_000_000, 1_000_000);
    let rounds = if run.alone() { 3 } else { run.scale.pick(1, 5, 11) };
    let (redb_killed, redb_closed) =
        if run.alone() { (f64::NAN, f64::NAN) } else { redb_openings(run, tasks) };
    let path = run.folder.fresh("queue");
    let mut last = Opened::start(&path, tasks);
    memory(run, format!("memory, {tasks} tasks just put"), last.worked);
    eprintln!("  {}", last.space);
    for (kill, name, redb, reach) in [
        (true, "after a kill", redb_killed, "≤ 300 ms"),
        (false, "after a close", redb_closed, "≤ 50 ms"),
    ] {
        let mut seconds = Vec::new();
        for _ in 0..rounds {
            last.end(kill);
            last = Opened::start(&path, tasks);
            seconds.push(last.seconds);
        }
        seconds.sort_by(f64::total_cmp);
        let median = share(&seconds, 0.5);
        run.row(&format!("open with {tasks} tasks, {name}"), Ratio::Cost, median);
        run.line(
            format!("open with {tasks} tasks, {name}"),
            format!("{}, worst {}", time(median), time(share(&seconds, 1.0))),
            format!("bare redb {}", time(redb)),
            format!("{:.2}", median / redb),
            reach,
        );
        memory(run, format!("memory, {tasks} tasks, opened {name}"), last.resident);
        memory(run, format!("memory, {tasks} tasks, opened {name} and at work"), last.worked);
    }
    eprintln!("  {}", last.space);
    last.end(true);
}

fn memory(run: &Run, what: String, mib: f64) {
    let beside = format!("cache {CACHE} MiB");
    run.row(&what, Ratio::Cost, mib);
    run.line(what, format!("{mib:.0} MiB"), beside, "–", "≤ cache + overlay + 64 MiB");
}

/// Seconds in which redb opens as many tasks: from a copy made while it was open, which is what a
/// kill leaves, and after a close.
fn redb_openings(run: &Run, tasks: u64) -> (f64, f64) {
    let path = run.folder.fresh("redb");
    let killed = run.folder.fresh("redb");
    let mut redb = BareRedb::new(&path);
    (0..tasks.div_ceil(1000)).for_each(|_| redb.put_many(1000));
    std::fs::copy(&path, &killed).unwrap();
    drop(redb);
    let open = |path: &Path| {
        let began = Instant::now();
        let redb = BareRedb::open(path);
        let opened = began.elapsed().as_secs_f64();
        drop(redb);
        opened
    };
    let seconds = (open(&killed), open(&path));
    for path in [path, killed] {
        std::fs::remove_file(path).unwrap();
    }
    seconds
}

/// Bytes that a durable cycle writes to the device, checkpoints included, beside those of two
/// synced records and of redb. Others write to it too, so each takes several turns and its least
/// one counts.
fn bytes(run: &Run) {
    if !run.wants("bytes to the device") {
        return;
    }
    let cycles: u64 = run.scale.pick(50, 1_000, 4_000);
    let turns = if run.alone() { 2 } else { run.scale.pick(1, 5, 5) };
    let queue = Queue::open(run.folder.fresh("queue")).unwrap();
    let tube = queue.tube("bytes").unwrap();
    let mut limit = Limit::new(&run.folder.fresh("limit"));
    let mut redb = BareRedb::new(&run.folder.fresh("redb"));
    let mut works: [(u64, &mut dyn FnMut(u64)); 4] = [
        // A checkpoint comes with every 4 MiB of records, and has its share in each turn.
        (4, &mut |cycles| cycle(&tube, cycles)),
        (16, &mut |cycles| {
            together(16, |_| cycle(&tube, cycles / 16));
        }),
        (1, &mut |cycles| {
            limit.synced(2 * cycles, PAYLOAD);
        }),
        (1, &mut |cycles| {
            redb.cycles(cycles);
        }),
    ];
    let mut least = [f64::INFINITY; 4];
    for _ in 0..turns {
        let sides = if run.alone() { 2 } else { works.len() };
        for ((times, work), least) in works.iter_mut().zip(&mut least).take(sides) {
            let Some(before) = os::to_device(run.folder.path()) else { return };
            work(cycles * *times);
            let Some(after) = os::to_device(run.folder.path()) else { return };
            let kilobytes = (after - before) as f64 / (cycles * *times) as f64 / 1000.0;
            *least = least.min(kilobytes);
        }
    }
    let [alone, shared, limit, redb] = least;
    let checkpoints = queue.space().unwrap().checkpoints;
    for (what, ours, reach) in [("alone", alone, "≤ 9 kB"), ("16 threads", shared, "≤ 2 kB")] {
        let name = format!("bytes to the device per durable cycle, {what}");
        run.row(&name, Ratio::Cost, ours);
        run.line(
            name,
            format!("{ours:.1} kB"),
            format!(
                "two synced records {limit:.1} kB, redb {redb:.1} kB; {checkpoints} checkpoints"
            ),
            format!("{:.2}", ours / limit),
            reach,
        );
    }
}

fn cycle(tube: &Tube, times: u64) {
    for _ in 0..times {
        tube.put(&[7; PAYLOAD]).unwrap();
        tube.take().unwrap().ack().unwrap();
    }
}
