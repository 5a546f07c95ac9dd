//! Whether one tube's heavy work is felt in another: one thread puts, takes and acks in a tube of
//! its own, while another thread lists, truncates, sweeps, expires, makes ready, releases or
//! resumes half a million tasks of a second tube, or a few of 16 MiB. Also the most memory that
//! such work takes.
//!
//!     cargo bench --bench neighbours                        all of them, ten minutes
//!     cargo bench --bench neighbours -- truncate            one kind of work
//!     cargo bench --bench neighbours -- small               only the many small tasks
//!     cargo bench --bench neighbours -- large --large=16    sixteen large ones
//!     cargo bench --bench neighbours -- small --tasks=50000
//!     cargo bench --bench neighbours -- --large-bytes=1048576
//!
//! A put is due at its own instant: what waits behind a slow call is late, and counts as late.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::twins::Limit;
use common::{PAYLOAD, Run, os, paced, share, sorted, time};
use std::fs::File;
use std::hint::black_box;
use std::io::{Seek, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tubewell::{Consumer, Durability, Queue, State, Tube};

/// Cycles a second of the neighbour: a third of what one thread can at most on a slow machine.
const RATE: f64 = 2000.0;
/// Between filling a tube and the work: what was written is synced and checkpointed.
const SETTLED: Duration = Duration::from_millis(300);
/// Bytes that the twin writes between two syncs, as many as a checkpoint has.
const BESIDE_BYTES: u64 = 20 << 20;
/// Bytes of the three records of a cycle.
const CYCLE: [usize; 3] = [480, 160, 160];
const HOUR: Duration = Duration::from_secs(3600);
/// Tasks of one `put_many` or `take_many`.
const BATCH: u64 = 1000;

/// What is done to the other tube.
type Work = fn(&Other);

/// What the other tube's tasks are.
#[derive(Clone, Copy)]
struct Size {
    name: &'static str,
    tasks: u64,
    bytes: usize,
}

fn main() {
    let run = Run::begin("neighbours");
    let bytes = run.count("large-bytes", 1 << 20, 16 << 20, 16 << 20) as usize;
    let sizes = [
        Size { name: "small", tasks: run.count("tasks", 1_000, 50_000, 500_000), bytes: PAYLOAD },
        Size { name: "large", tasks: run.count("large", 2, 16, 256), bytes },
    ];
    let kinds: [(&str, Work); 7] = [
        ("list", list),
        ("truncate", truncate),
        ("sweep", sweep),
        ("expire", expire),
        ("fall due", fall_due),
        ("release all", release_all),
        ("resume", resume),
    ];
    for size in sizes {
        for (name, work) in kinds {
            if run.wants(&format!("{name} {}", size.name)) {
                beside(&run, name, size, work);
            }
        }
    }
    run.end();
}

/// What a neighbour went through.
struct Felt {
    times: Vec<f64>,
    work: Duration,
}

/// Three rounds of one kind of work, each followed by the twin's.
fn beside(run: &Run, name: &str, size: Size, work: Work) {
    let rounds = run.count("rounds", 1, 3, 3);
    let (mut ours, mut theirs, mut longer, mut memory) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut longest, mut took) = (0.0f64, Vec::new());
    for _ in 0..rounds {
        let (felt, written, peak) = round(run, name, size, work);
        let twin = twin(run, written, felt.work);
        let (worst, twin_worst) = (share(&felt.times, 1.0), share(&twin, 1.0));
        ours.push(share(&felt.times, 0.999));
        theirs.push(share(&twin, 0.999));
        longer.push(worst - twin_worst);
        longest = longest.max(worst);
        memory.push(peak as f64 / f64::from(1 << 20));
        took.push(felt.work.as_secs_f64());
    }
    let middle = |values: Vec<f64>| share(&sorted(values), 0.5);
    let what = format!("{name} {} of {} bytes", size.tasks, size.bytes);
    let (ours, theirs, took) = (middle(ours), middle(theirs), middle(took));
    run.line(
        format!("{what}: a neighbour's calls, p99.9"),
        format!("{} (the work took {})", time(ours), time(took)),
        format!("bare writes beside as many bytes {}", time(theirs)),
        format!("{:.2}", ours / theirs),
        "≤ 20 ms",
    );
    run.line(
        format!("{what}: the longest above the twin's"),
        format!("{:.1} ms (the longest of all {})", middle(longer) * 1e3, time(longest)),
        "median of the rounds",
        "–",
        "≤ 100 ms",
    );
    run.line(
        format!("{what}: peak memory above rest"),
        format!("{:.0} MiB", middle(memory)),
        "–",
        "–",
        "≤ 64 MiB",
    );
}

/// One round: the times of the neighbour's calls, the bytes that the process wrote, and the most
/// memory above what it had before.
fn round(run: &Run, name: &str, size: Size, work: Work) -> (Felt, u64, u64) {
    let path = run.folder.fresh("queue");
    let bytes_max = size.bytes.max(16 << 20);
    let builder = Queue::builder().durability(Durability::Relaxed).payload_bytes_max(bytes_max);
    let queue = builder.open(&path).unwrap();
    let own = queue.tube("neighbour").unwrap();
    let other = Other::fill(&queue, name, size);
    queue.checkpoint().unwrap();
    std::thread::sleep(SETTLED);
    other.until_due(SETTLED);
    let written = os::written().unwrap_or_default();
    os::forget_peak();
    let rest = os::resident().unwrap_or_default();
    let felt = felt(
        least(run),
        || {
            other.until_due(Duration::ZERO);
            timed(|| work(&other))
        },
        |due, call| {
            own.put(&[7; PAYLOAD]).unwrap();
            call(due);
            let before = Instant::now();
            let task = own.try_take().unwrap().unwrap();
            call(before);
            let before = Instant::now();
            task.ack().unwrap();
            call(before);
        },
    );
    let peak = os::peak().unwrap_or_default().saturating_sub(rest);
    let written = os::written().unwrap_or_default() - written;
    drop((own, other));
    queue.close().unwrap();
    std::fs::remove_dir_all(path).unwrap();
    (felt, written, peak)
}

/// Bare writes of a cycle's sizes while another thread writes so many bytes to a file and syncs
/// them now and then, for as long as the work took.
fn twin(run: &Run, bytes: u64, length: Duration) -> Vec<f64> {
    let mut limit = Limit::new(&run.folder.fresh("limit"));
    let path = run.folder.fresh("beside");
    let mut file = File::create(&path).unwrap();
    let write = || {
        let began = Instant::now();
        let page = vec![7; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            file.rewind().unwrap();
            let part = left.min(BESIDE_BYTES);
            (0..part).step_by(page.len()).for_each(|_| file.write_all(&page).unwrap());
            file.sync_data().unwrap();
            left -= part;
        }
        std::thread::sleep(length.saturating_sub(began.elapsed()));
        began.elapsed()
    };
    let felt = felt(least(run), write, |due, call| {
        let mut began = due;
        for bytes in CYCLE {
            limit.write(bytes);
            call(began);
            began = Instant::now();
        }
    });
    std::fs::remove_file(path).unwrap();
    felt.times
}

/// The neighbour goes on for at least so long, also beside work that is done at once.
fn least(run: &Run) -> Duration {
    run.length(50, 1_000, 1_000)
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Runs the work in another thread, which answers how long it took, and cycles at a steady rate
/// until it is done. A cycle receives the time when it is due, and returns for each of its calls
/// the time from which it counts.
fn felt(
    least: Duration,
    work: impl FnOnce() -> Duration + Send,
    mut cycle: impl FnMut(Instant, &mut dyn FnMut(Instant)),
) -> Felt {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            let took = work();
            done.store(true, Ordering::Relaxed);
            took
        });
        let began = Instant::now();
        let mut times = Vec::with_capacity(1 << 20);
        for number in 0u64.. {
            if done.load(Ordering::Relaxed) && began.elapsed() > least {
                break;
            }
            cycle(paced(began, number, RATE), &mut |from| times.push(from.elapsed().as_secs_f64()));
        }
        Felt { times: sorted(times), work: working.join().unwrap() }
    })
}

/// The tube that is worked on.
struct Other {
    queue: Queue,
    tube: Tube,
    tasks: u64,
    /// When its tasks fall due or expire.
    due: Option<Instant>,
    /// Who holds leases that outlived a session.
    holder: Option<Consumer>,
}

impl Other {
    fn fill(queue: &Queue, kind: &str, size: Size) -> Self {
        let tube = queue.tube("other").unwrap();
        let (tasks, mut due) = (size.tasks, None);
        let mut other = Self { queue: queue.clone(), tube, tasks, due, holder: None };
        if matches!(kind, "expire" | "fall due") {
            // Time enough to put them all, by twice of what it takes.
            let mebibytes = (tasks * size.bytes as u64) >> 20;
            let each = Duration::from_micros(12) * tasks as u32;
            let more = Duration::from_millis(1_000 + 15 * mebibytes);
            due = Some(Instant::now() + each + more);
        }
        let at_once = (BATCH * PAYLOAD as u64 / size.bytes as u64).clamp(1, BATCH);
        let batch = vec![vec![7; size.bytes]; at_once as usize];
        let mut longest = Duration::ZERO;
        for from in (0..tasks).step_by(at_once as usize) {
            let part = &batch[..at_once.min(tasks - from) as usize];
            let put = other.tube.batch(part.iter().map(|task| &task[..]));
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            let put = match (kind, left) {
                ("expire", Some(left)) => put.ttl(left),
                ("fall due", Some(left)) => put.delay(left),
                _ => put,
            };
            let began = Instant::now();
            put.put().unwrap();
            longest = longest.max(began.elapsed());
        }
        // A ttl counts from the end of its put: 16 MiB take a while.
        other.due = due.map(|due| due + longest);
        other.hold(kind, at_once);
        other
    }

    /// Takes all, for the kinds of work that are about what is taken.
    fn hold(&mut self, kind: &str, at_once: u64) {
        let consumer = match kind {
            "resume" => Some(self.queue.consumer_with_grace("ada", HOUR).unwrap()),
            "release all" => None,
            _ => return,
        };
        let tube = consumer.as_ref().map_or_else(|| self.tube.clone(), |ada| self.tube.by(ada));
        loop {
            let taken = tube.take_many(at_once as usize).unwrap();
            if taken.is_empty() {
                break;
            }
            taken.into_iter().for_each(|task| _ = task.detach());
        }
        drop(tube);
        // The session ends, and its leases wait for the next one of that name.
        self.holder = consumer.map(|ada| {
            drop(ada);
            self.queue.consumer_with_grace("ada", HOUR).unwrap()
        });
    }

    /// Sleeps until so long before the tasks are due.
    fn until_due(&self, before: Duration) {
        let Some(due) = self.due else { return };
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() && !before.is_zero() {
            eprintln!("  the machine is too slow for this: they were due before it began");
        }
        std::thread::sleep(left.saturating_sub(before));
    }
}

fn list(other: &Other) {
    let mut listed = 0;
    for task in other.tube.tasks(State::Ready) {
        black_box(task.unwrap().payload);
        listed += 1;
    }
    assert_eq!(listed, other.tasks, "all are listed");
}

/// The call, and the sweep that the queue's own thread does after it.
fn truncate(other: &Other) {
    assert_eq!(other.tube.truncate().unwrap(), other.tasks);
    // The neighbour writes little in this time, a sweep much more.
    const STILL: u64 = 1 << 20;
    let written = || other.queue.space().unwrap().written_bytes;
    let mut before = written();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let now = written();
        if now - before < STILL {
            break;
        }
        before = now;
    }
}

/// A tube that is dropped, until nothing is left of it.
fn sweep(other: &Other) {
    other.queue.force_drop_tube("other").unwrap();
    other.queue.tick().unwrap();
}

/// The queue's thread and a call in the same tube work off what is due; either may be first.
fn expire(other: &Other) {
    assert_eq!(other.tube.len().unwrap(), 0, "they are gone");
    other.queue.tick().unwrap();
}

fn fall_due(other: &Other) {
    assert_eq!(other.tube.stats().unwrap().ready, other.tasks, "they are ready");
}

fn release_all(other: &Other) {
    other.tube.release_all().unwrap();
    other.queue.tick().unwrap();
}

fn resume(other: &Other) {
    let ada = other.holder.as_ref().unwrap();
    let resumed = ada.resume(&other.tube).map(|task| task.unwrap().detach());
    assert_eq!(resumed.count() as u64, other.tasks, "all are resumed");
}
