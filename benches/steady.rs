//! What a queue that is at work costs: durable and relaxed, alone and with sixteen threads, empty
//! and a million tasks deep, with tasks in the way that may not be taken, and in busy groups.
//!
//!     cargo bench --bench steady                      five minutes
//!     cargo bench --bench steady -- --quick           two
//!     cargo bench --bench steady -- 'durable put'     only these

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::twins::{BareRedb, GroupLimit, Limit, together};
use common::{Figure, PAYLOAD, Ratio, Run, each, figure, os, time};
use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tubewell::{Durability, Queue, Task, Tube, TubeKind, TubeOptions};

const THREADS: u64 = 16;
/// One batch of `put_many`.
const BATCH: u64 = 1000;
/// Tasks after which batches go on into an empty queue.
const MANY: u64 = 500_000;
/// Tasks in the way of a take.
const IN_THE_WAY: u64 = 100_000;

fn main() {
    let run = Run::begin("steady");
    durable(&run);
    durable_threads(&run);
    durable_batches(&run);
    relaxed(&run);
    in_the_way(&run);
    busy_groups(&run);
    run.end();
}

fn open(run: &Run, durability: Durability) -> Queue {
    let path = run.folder.fresh("queue");
    Queue::builder().durability(durability).open(path).unwrap()
}

fn payload(number: u64) -> [u8; PAYLOAD] {
    let mut payload = [7; PAYLOAD];
    payload[..8].copy_from_slice(&number.to_le_bytes());
    payload
}

fn puts(tube: &Tube, times: u64) -> Duration {
    let began = Instant::now();
    for number in 0..times {
        black_box(tube.put(&payload(number)).unwrap());
    }
    began.elapsed()
}

fn cycles(tube: &Tube, times: u64) -> Duration {
    let began = Instant::now();
    for number in 0..times {
        tube.put(&payload(number)).unwrap();
        let task = tube.try_take().unwrap().unwrap();
        black_box(&task[..]);
        task.ack().unwrap();
    }
    began.elapsed()
}

/// Keeps a tube that is only put to from growing over the whole run; not part of any time.
fn empty(tube: &Tube) {
    if tube.len().unwrap() > 50_000 {
        tube.truncate().unwrap();
    }
}

/// Durable, one thread, against the limit; and bare redb against it, on the same scale.
fn durable(run: &Run) {
    if run.wants("durable put, one thread") {
        let mut limit = Limit::new(&run.folder.fresh("limit"));
        let queue = open(run, Durability::Durable);
        let tube = queue.tube("steady").unwrap();
        run.pair(
            &figure("durable put, one thread", "limit", Ratio::Rate, "≥ 0.95"),
            |times| {
                empty(&tube);
                puts(&tube, times)
            },
            |times| limit.synced(times, PAYLOAD),
        );
        let what = figure("durable put, one thread, bare redb", "limit", Ratio::Rate, "–");
        bare_redb(run, &what, BareRedb::puts, |times| limit.synced(times, PAYLOAD));
    }
    if run.wants("durable cycle, one thread") {
        let mut limit = Limit::new(&run.folder.fresh("limit"));
        let queue = open(run, Durability::Durable);
        let tube = queue.tube("steady").unwrap();
        // Put and ack are synced, the take between them need not be.
        run.pair(
            &figure("durable cycle, one thread", "limit/2", Ratio::Rate, "≥ 0.95"),
            |times| cycles(&tube, times),
            |times| limit.synced(2 * times, PAYLOAD),
        );
        let what = figure("durable cycle, one thread, bare redb", "limit/2", Ratio::Rate, "–");
        bare_redb(run, &what, BareRedb::cycles, |times| limit.synced(2 * times, PAYLOAD));
    }
}

fn bare_redb(
    run: &Run,
    figure: &Figure<'_>,
    work: fn(&mut BareRedb, u64) -> Duration,
    twin: impl FnMut(u64) -> Duration,
) {
    if !run.alone() {
        let mut redb = BareRedb::new(&run.folder.fresh("redb"));
        run.pair(figure, |times| work(&mut redb, times), twin);
    }
}

/// Sixteen threads share their syncs. An iteration is a block of puts by each of them, so that
/// starting the threads does not count for much.
fn durable_threads(run: &Run) {
    if !run.wants("durable put, 16 threads") {
        return;
    }
    let block = run.scale.pick(2, 16, 32);
    let queue = open(run, Durability::Durable);
    let tube = queue.tube("steady").unwrap();
    let ours = |times: u64| {
        empty(&tube);
        together(THREADS, |_| {
            puts(&tube, times * block);
        })
    };
    let of = (THREADS * block) as f64;
    let against =
        |what, twin, twin_of, reach| Figure { what, twin, of, twin_of, ratio: Ratio::Rate, reach };
    let alone = against("durable put, 16 threads", "one thread", block as f64, "≥ 4.5");
    run.pair(&alone, ours, |times| puts(&tube, times * block));
    if run.alone() {
        return;
    }
    let group = GroupLimit::new(&run.folder.fresh("limit"));
    let led = against("durable put, 16 threads, to the group limit", "group limit", of, "≥ 0.8");
    run.pair(&led, ours, |times| group.puts(THREADS, times * block));
    let mut limit = Limit::new(&run.folder.fresh("limit"));
    let what = "durable put, 16 threads, to one write of 16 records";
    let bare = against(what, "limit", of, "–");
    run.pair(&bare, ours, |times| limit.synced(times * block, THREADS as usize * PAYLOAD));
}

fn durable_batches(run: &Run) {
    if !run.wants("durable put_many of 1000") {
        return;
    }
    let fresh = || {
        let queue = open(run, Durability::Durable);
        let tube = queue.tube("steady").unwrap();
        (queue, tube)
    };
    let batch: Vec<[u8; PAYLOAD]> = (0..BATCH).map(payload).collect();
    let mut queue = fresh();
    let mut ours = |times: u64| {
        // A truncated tube is swept beside the puts that are timed, so it is another queue.
        if queue.1.len().unwrap() > MANY {
            queue = fresh();
        }
        let began = Instant::now();
        for _ in 0..times {
            queue.1.put_many(batch.iter().map(|task| &task[..])).unwrap();
        }
        began.elapsed()
    };
    let mut redb = BareRedb::new(&run.folder.fresh("redb"));
    let mut redb_held = 0;
    let per_task = |what, twin, reach| Figure {
        what,
        twin,
        of: BATCH as f64,
        twin_of: BATCH as f64,
        ratio: Ratio::Rate,
        reach,
    };
    let figure = per_task("durable put_many of 1000", "bare redb", "≥ 600 000/s");
    run.pair(&figure, &mut ours, |times| {
        if redb_held > MANY {
            (redb, redb_held) = (BareRedb::new(&run.folder.fresh("redb")), 0);
        }
        redb_held += times * BATCH;
        let began = Instant::now();
        (0..times).for_each(|_| redb.put_many(BATCH));
        began.elapsed()
    });
    if run.alone() {
        return;
    }
    let mut limit = Limit::new(&run.folder.fresh("limit"));
    let figure = per_task("durable put_many of 1000, to the limit", "limit", "–");
    run.pair(&figure, ours, |times| limit.synced(times, BATCH as usize * PAYLOAD));
}

/// A tube that holds so many tasks.
struct Backlog {
    _queue: Queue,
    tube: Tube,
    priorities: i64,
    next: u64,
}

impl Backlog {
    fn new(run: &Run, tasks: u64, priorities: i64) -> Self {
        let queue = open(run, Durability::Relaxed);
        let tube = queue.tube("steady").unwrap();
        let mut backlog = Self { _queue: queue, tube, priorities, next: 0 };
        if priorities == 1 {
            let batches = (0..tasks).step_by(BATCH as usize);
            for from in batches {
                let batch: Vec<_> = (from..tasks.min(from + BATCH)).map(payload).collect();
                backlog.tube.put_many(batch.iter().map(|task| &task[..])).unwrap();
            }
        } else {
            (0..tasks).for_each(|_| backlog.put());
        }
        backlog
    }

    fn put(&mut self) {
        self.next += 1;
        let task = payload(self.next);
        if self.priorities == 1 {
            self.tube.put(&task).unwrap();
        } else {
            // Spread over the priorities, and not in their order.
            let priority = (self.next.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as i64;
            self.tube.task(&task).priority(priority % self.priorities).put().unwrap();
        }
    }

    fn cycles(&mut self, times: u64) -> Duration {
        let began = Instant::now();
        for _ in 0..times {
            self.put();
            let task = self.tube.try_take().unwrap().unwrap();
            black_box(&task[..]);
            task.ack().unwrap();
        }
        began.elapsed()
    }

    /// Bytes of the records of a put, a take and an ack: what most of them give to `write()`. One
    /// that comes to a new page gives it the rest of that page too.
    fn sizes(&mut self) -> [usize; 3] {
        const TIMES: usize = 101;
        let written = || os::written().unwrap_or_default() as usize;
        let mut sizes = [const { Vec::new() }; 3];
        for _ in 0..TIMES {
            let start = written();
            self.put();
            let put = written();
            let task = self.tube.try_take().unwrap().unwrap();
            let taken = written();
            task.ack().unwrap();
            let ends = [put, taken, written()];
            for (size, (from, to)) in sizes.iter_mut().zip([start, put, taken].iter().zip(ends)) {
                size.push(to - from);
            }
        }
        // Where nothing counts: records as they are without group, key and times.
        let sizes = sizes.map(|mut size| {
            size.sort_unstable();
            size[TIMES / 2]
        });
        if sizes.contains(&0) { [480, 160, 160] } else { sizes }
    }
}

/// A relaxed cycle, one by one, against its own three writes, empty and deep, and deep against
/// empty. Checkpoints run in it and are part of the time.
fn relaxed(run: &Run) {
    let part = "relaxed cycle";
    let deep = run.scale.pick(2_000, 1_000_000, 1_000_000);
    let shallow = run.scale.pick(100, 10_000, 10_000);
    let depths = [
        (0, 1, "backlog 0", "≤ 2"),
        (shallow, 1, "backlog 10 000", "–"),
        (deep, 1, "backlog 1 000 000", "–"),
        (shallow, 16, "backlog 10 000, 16 priorities", "–"),
        (deep, 16, "backlog 1 000 000, 16 priorities", "–"),
    ];
    if run.alone() {
        for (tasks, priorities, name, reach) in depths {
            let what = &format!("{part}, {name}");
            if run.wants(what) {
                let (mut backlog, no) = (Backlog::new(run, tasks, priorities), |_| Duration::ZERO);
                run.pair(&figure(what, "–", Ratio::Cost, reach), |times| backlog.cycles(times), no);
            }
        }
        return;
    }
    if !run.wants(part) {
        return;
    }
    let mut limit = Limit::new(&run.folder.fresh("limit"));
    let none = RefCell::new(Backlog::new(run, 0, 1));
    let sizes = none.borrow_mut().sizes();
    eprintln!("  a put writes {} bytes, a take {}, an ack {}", sizes[0], sizes[1], sizes[2]);
    run.line(
        "bytes of a relaxed cycle's three writes",
        sizes.iter().sum::<usize>(),
        format!("payload {PAYLOAD}"),
        format!("{:.2}", sizes.iter().sum::<usize>() as f64 / PAYLOAD as f64),
        "–",
    );

    let mut backlogs = Vec::new();
    for (tasks, priorities, name, reach) in depths {
        let made = match tasks {
            0 => None,
            _ => Some(RefCell::new(Backlog::new(run, tasks, priorities))),
        };
        let backlog = made.as_ref().unwrap_or(&none);
        run.pair(
            &figure(&format!("{part}, {name}"), "three writes", Ratio::Cost, reach),
            |times| backlog.borrow_mut().cycles(times),
            |times| limit.unsynced(times, &sizes),
        );
        backlogs.extend(made.map(|made| (tasks, priorities, made)));
    }
    let find = |tasks, priorities| {
        let found = backlogs.iter().find(|made| (made.0, made.1) == (tasks, priorities));
        &found.unwrap().2
    };
    for (what, deep, flat, twin, reach) in [
        ("relaxed cycle, 1 000 000 to 0", find(deep, 1), &none, "backlog 0", "≥ 0.35"),
        (
            "relaxed cycle, 1 000 000 to 10 000, 16 priorities",
            find(deep, 16),
            find(shallow, 16),
            "backlog 10 000",
            "≥ 0.7",
        ),
    ] {
        run.pair(
            &figure(what, twin, Ratio::Rate, reach),
            |times| deep.borrow_mut().cycles(times),
            |times| flat.borrow_mut().cycles(times),
        );
    }
}

/// Tasks that are taken and given back at once, in rounds; only the takes are timed.
fn takes(tube: &Tube, times: u64) -> Duration {
    let mut spent = Duration::ZERO;
    let mut left = times;
    while left > 0 {
        let round = left.min(FREE / 2);
        let mut tasks: Vec<Task> = Vec::with_capacity(round as usize);
        let began = Instant::now();
        for _ in 0..round {
            tasks.push(tube.try_take().unwrap().unwrap());
        }
        spent += began.elapsed();
        tasks.into_iter().for_each(|task| task.release().unwrap());
        left -= round;
    }
    spent
}

/// Tasks that may be taken.
const FREE: u64 = 128;

/// A take with many tasks before it that may not be taken, against one without them.
fn in_the_way(run: &Run) {
    let many = run.scale.pick(1_000, IN_THE_WAY, IN_THE_WAY);
    for (what, place) in [
        ("take with 100 000 locked in the way", lock as fn(&Tube, u64)),
        ("take with 100 000 delayed in the way", delay),
        ("take with 100 000 buried in the way", bury),
        ("take with 100 000 taken in the way", hold),
    ] {
        if !run.wants(what) {
            continue;
        }
        let queues = [open(run, Durability::Relaxed), open(run, Durability::Relaxed)];
        let tubes = queues.each_ref().map(|queue| queue.tube("steady").unwrap());
        place(&tubes[0], many);
        for tube in &tubes {
            puts(tube, FREE);
        }
        for queue in &queues {
            queue.checkpoint().unwrap();
        }
        run.pair(
            &figure(what, "without", Ratio::Cost, "≤ 1.2"),
            |times| takes(&tubes[0], times),
            |times| takes(&tubes[1], times),
        );
    }
}

/// A thousand groups, each with one task taken and the others behind it.
fn lock(tube: &Tube, many: u64) {
    let groups: Vec<String> = (0..1_000.min(many / 10)).map(|group| group.to_string()).collect();
    for number in 0..many {
        let group = &groups[number as usize % groups.len()];
        tube.task(&payload(number)).priority(-1).group(group).put().unwrap();
    }
    for _ in &groups {
        tube.try_take().unwrap().unwrap().detach();
    }
}

fn delay(tube: &Tube, many: u64) {
    for number in 0..many {
        let wait = Duration::from_secs(3600 + number % 60);
        tube.task(&payload(number)).priority(-1).delay(wait).put().unwrap();
    }
}

fn bury(tube: &Tube, many: u64) {
    for number in 0..many {
        let id = tube.task(&payload(number)).priority(-1).put().unwrap();
        tube.bury(id, "in the way").unwrap();
    }
}

fn hold(tube: &Tube, many: u64) {
    for number in 0..many {
        tube.task(&payload(number)).priority(-1).put().unwrap();
        tube.try_take().unwrap().unwrap().detach();
    }
}

/// Ten groups and ten consumers, as in tarantool's busy utubes: each task is put, taken and acked.
fn busy_groups(run: &Run) {
    if !run.wants("busy groups") {
        return;
    }
    let small = 1_000;
    let large = run.scale.pick(100, 15_000, 150_000);
    let rounds = run.scale.pick(2, 15, 50);
    let (mut few, mut many) = (Busy::default(), Busy::default());
    // Half of them on each side: the machine may change its pace meanwhile.
    (0..rounds / 2).for_each(|_| few.run(run, small));
    many.run(run, large);
    (rounds / 2..rounds).for_each(|_| few.run(run, small));
    for (what, many, few) in [
        ("busy groups, put to ack", many.all(), few.all()),
        ("busy groups, take and ack", many.drained, few.drained),
    ] {
        let per = |time: Duration, tasks: u64| time.as_secs_f64() / tasks as f64;
        let (many, few) = (per(many, large * GROUPS), per(few, rounds * small * GROUPS));
        run.row(&format!("{what}, 10 × {small}"), Ratio::Cost, few);
        run.row(&format!("{what}, 10 × {large}"), Ratio::Cost, many);
        run.line(
            format!("{what}, 10 × {large}"),
            each(many),
            format!("10 × {small} {}", each(few)),
            format!("{:.2}", many / few),
            "≤ 1.3",
        );
    }
    eprintln!("  of which the puts {} and {}", time(many.put.as_secs_f64()), {
        time(few.put.as_secs_f64())
    });
}

const GROUPS: u64 = 10;

#[derive(Default)]
struct Busy {
    put: Duration,
    drained: Duration,
}

impl Busy {
    fn all(&self) -> Duration {
        self.put + self.drained
    }

    fn run(&mut self, run: &Run, depth: u64) {
        let queue = open(run, Durability::Relaxed);
        let tube = queue.create_tube("busy", TubeOptions::new(TubeKind::Utube)).unwrap();
        let groups: Vec<String> = (0..GROUPS).map(|group| group.to_string()).collect();
        let began = Instant::now();
        for number in 0..depth {
            for group in &groups {
                tube.task(&payload(number)).group(group).put().unwrap();
            }
        }
        self.put += began.elapsed();
        self.drained += together(GROUPS, |_| {
            // Ten groups and ten consumers: there is a task for each until the groups run out.
            while let Some(task) = tube.try_take().unwrap() {
                task.ack().unwrap();
            }
        });
        // A consumer that lost the race for the last free group leaves early; the others go on.
        assert_eq!(tube.len().unwrap(), 0, "every task was acked");
    }
}
