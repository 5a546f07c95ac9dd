//! The workloads.

use crate::output::{Line, micros};
use crate::start::Fresh;
use crate::{Args, Folder, Queue, os};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Barrier;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

/// Tasks of one batch.
const BATCH: usize = 1000;
/// Ops before the clock runs: files are made, statements prepared, caches warm.
const WARM: u64 = 20;
/// Longer than any thread spins before it goes to sleep.
const PAUSE: Duration = Duration::from_micros(200);
/// After it every peer that syncs now and then has done so.
const SETTLED: Duration = Duration::from_millis(1500);
/// How many turns long nothing happens.
const IDLE: u32 = 3;
/// Timers fall due within this time, and are put in another one before it.
const DUE: Duration = Duration::from_secs(1);
const STEP: u64 = 61_803;
const PUTTING: Duration = Duration::from_micros(120);

/// Reads the command line and runs the one workload; `open` is told the peer's name and the folder.
pub fn main<Q: Queue>(args: &Args, open: impl Fn(&Args, &Folder) -> Q) -> ExitCode {
    let has = Q::HAS;
    let may = match args.workload.as_str() {
        "put" => true,
        "batch" => has.batches && (args.priorities == 1 || has.priorities),
        "cycle" => has.takes && (args.priorities == 1 || has.priorities),
        "batch-cycle" => has.takes && has.batches && (args.priorities == 1 || has.priorities),
        "wake" | "idle" => has.waiting,
        "groups" => has.groups,
        "timers" => has.delays,
        "open" | "open-killed" | "memory" | "keep" => has.opening,
        other => {
            eprintln!("there is no workload {other}");
            return ExitCode::FAILURE;
        }
    };
    if !may {
        eprintln!("{} does not have what {} needs", args.peer, args.workload);
        return ExitCode::FAILURE;
    }
    match (args.workload.as_str(), &args.folder) {
        ("open", _) => opening(args, open, false),
        ("open-killed", _) => opening(args, open, true),
        ("keep", Some(folder)) => keep(&open(args, folder), args),
        _ => {
            let folder = Fresh::new(&args.base);
            let queue = open(args, folder.path());
            match args.workload.as_str() {
                "memory" => memory(&queue, args),
                "wake" => wake(&queue, args),
                "idle" => idle(&queue, args, folder.path()),
                "groups" => groups(&queue, args),
                "timers" => timers(&queue, args),
                _ => timed(&queue, args, folder.path()),
            }
        }
    }
    ExitCode::SUCCESS
}

fn payload(args: &Args, number: u64) -> Vec<u8> {
    // Not one byte over and over: some peers compress.
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(args.payload + 8);
    while bytes.len() < args.payload {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(args.payload);
    bytes
}

/// Spread over the priorities, and not in their order.
fn priority(args: &Args, number: u64) -> u8 {
    ((number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % u64::from(args.priorities)) as u8
}

fn fill<Q: Queue>(queue: &Q, args: &Args, tasks: u64) {
    let mut from = 0;
    while from < tasks {
        let to = tasks.min(from + BATCH as u64);
        let batch: Vec<_> = (from..to).map(|n| (priority(args, n), payload(args, n))).collect();
        queue.fill(&batch);
        from = to;
    }
}

/// Ops in a loop on every thread, for as long as there is time.
fn timed<Q: Queue>(queue: &Q, args: &Args, folder: &Folder) {
    fill(queue, args, args.backlog);
    let tasks: Vec<Vec<u8>> = (0..16).map(|number| payload(args, number)).collect();
    let per_op = if args.workload.starts_with("batch") { BATCH } else { 1 };
    let batch = (0..per_op as u64).map(|number| (priority(args, number), payload(args, number)));
    let batch: Vec<(u8, Vec<u8>)> = batch.collect();
    let op = |number: u64| match args.workload.as_str() {
        "put" => queue.put(&tasks[number as usize % tasks.len()], 0),
        "batch" => queue.put_many(&batch),
        "batch-cycle" => {
            queue.put_many(&batch);
            let taken = queue.take_many(BATCH);
            assert_eq!(taken.len(), BATCH, "what was put is there");
            queue.ack_many(taken);
        }
        _ => {
            let task = &tasks[number as usize % tasks.len()];
            queue.put(task, priority(args, number));
            queue.ack(queue.take().expect("what was put is there"));
        }
    };
    (0..WARM).for_each(op);
    let per_thread = args.times.map(|times| times / args.threads as u64);
    let (charged, device) = (os::charged(queue.server()), os::to_device(folder));
    let barrier = Barrier::new(args.threads);
    let work = || {
        let mut times: Vec<u32> = Vec::with_capacity(1 << 20);
        barrier.wait();
        let began = Instant::now();
        let mut now = began;
        for number in 0.. {
            let over = match per_thread {
                Some(most) => number >= most,
                None => now.duration_since(began) >= args.time,
            };
            if over {
                break;
            }
            op(number);
            let end = Instant::now();
            times.push(end.duration_since(now).as_nanos().min(u32::MAX.into()) as u32);
            now = end;
        }
        (times, began, now)
    };
    let ends: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker ends")).collect()
    });
    let bytes = |before: Option<u64>, after: Option<u64>| Some((after? - before?) as f64);
    let charged = bytes(charged, os::charged(queue.server()));
    let device = bytes(device, os::to_device(folder));

    let began = ends.iter().map(|end| end.1).min();
    let ended = ends.iter().map(|end| end.2).max();
    let seconds = began.zip(ended).map(|(began, ended)| ended.duration_since(began).as_secs_f64());
    let times: Vec<u32> = ends.into_iter().flat_map(|end| end.0).collect();
    let mut line = Line::new(args);
    line.number("ops", Some((times.len() * per_op) as f64));
    line.number("seconds", seconds);
    line.shares(times, micros);
    line.number("rss_mib", os::memory(queue.server()).map(|memory| memory.0));
    line.number("bytes_written", charged);
    line.number("bytes_to_device", device);
    line.print();
}

/// From before the put to after the take, on another thread that has gone to sleep.
fn wake<Q: Queue>(queue: &Q, args: &Args) {
    let task = payload(args, 1);
    let (told, tell) = mpsc::channel::<Instant>();
    let (acked, ready) = mpsc::channel::<()>();
    let mut times = Vec::new();
    std::thread::scope(|scope| {
        let (go_on, last) = mpsc::channel::<bool>();
        scope.spawn(move || {
            while last.recv().expect("the putter lives") {
                let task = queue.wait();
                let _ = told.send(Instant::now());
                queue.ack(task);
                let _ = acked.send(());
            }
        });
        let began = Instant::now();
        let more = |done: usize| match args.times {
            Some(times) => (done as u64) < times + WARM,
            None => began.elapsed() < args.time,
        };
        while more(times.len()) {
            go_on.send(true).expect("the taker lives");
            std::thread::sleep(PAUSE);
            let before = Instant::now();
            queue.put(&task, 0);
            let after = tell.recv().expect("the taker took it");
            times.push(after.duration_since(before).as_nanos().min(u32::MAX.into()) as u32);
            ready.recv().expect("the taker acked it");
        }
        go_on.send(false).expect("the taker lives");
    });
    let ops = times.len();
    let mut line = Line::new(args);
    line.number("ops", Some(ops as f64));
    line.shares(times, micros);
    line.print();
}

/// Tasks of as many groups as there are threads: all are put, and then each thread takes and acks
/// until there is nothing for it.
fn groups<Q: Queue>(queue: &Q, args: &Args) {
    let tasks: Vec<Vec<u8>> = (0..16).map(|number| payload(args, number)).collect();
    let groups = 0..args.threads as u8;
    let (mut put, mut drained, mut ops) = (Duration::ZERO, Duration::ZERO, 0);
    // A few tasks take less time than a turn has: others follow them into the emptied queue.
    while ops == 0 || put + drained < args.time {
        let began = Instant::now();
        for number in 0..args.backlog {
            let task = &tasks[number as usize % tasks.len()];
            groups.clone().for_each(|group| queue.put_in(group, task));
        }
        put += began.elapsed();
        drained += drain(queue, args.threads);
        assert!(queue.take().is_none(), "every task was acked");
        ops += args.backlog * args.threads as u64;
    }
    let mut line = Line::new(args);
    line.number("ops", Some(ops as f64));
    line.number("seconds", Some((put + drained).as_secs_f64()));
    line.number("put_seconds", Some(put.as_secs_f64()));
    line.print();
}

fn drain<Q: Queue>(queue: &Q, threads: usize) -> Duration {
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait();
                while let Some(task) = queue.take() {
                    queue.ack(task);
                }
            });
        }
        barrier.wait();
        Instant::now()
    })
    .elapsed()
}

/// How late a taker has acked tasks that fall due evenly within a second and were put in no order:
/// the first, the second and so on, each against the instant of its place in the order.
fn timers<Q: Queue>(queue: &Q, args: &Args) {
    let tasks = args.backlog;
    // All are put before the first is due, with room to spare on a slow machine.
    let first = SystemTime::now() + DUE + PUTTING * tasks as u32;
    let due = |number: u64| first + DUE * number as u32 / tasks as u32;
    // A step that visits each of them: their number is a product of twos and fives.
    let timers = (0..tasks).map(|number| number * STEP % tasks).map(|number| (number, due(number)));
    timers.collect::<Vec<_>>().chunks(BATCH).for_each(|batch| queue.put_due(batch));
    assert!(SystemTime::now() < first, "the machine is too slow: some are due before all are put");
    let take = |number| {
        queue.wait_due();
        SystemTime::now().duration_since(due(number)).unwrap_or_default()
    };
    let lateness: Vec<Duration> = (0..tasks).map(take).collect();
    let mut line = Line::new(args);
    line.number("ops", Some(tasks as f64));
    line.number("seconds", first.elapsed().ok().map(|done| done.as_secs_f64()));
    line.shares(lateness, |late| late.as_secs_f64() * 1e6);
    line.print();
}

/// A queue that was at work, a waiting taker, and nothing to do. A server is looked at together
/// with its client.
fn idle<Q: Queue>(queue: &Q, args: &Args, folder: &Folder) {
    let task = payload(args, 1);
    for _ in 0..WARM {
        queue.put(&task, 0);
        queue.ack(queue.take().expect("what was put is there"));
    }
    let activity = || {
        let (own, server) = (os::activity(None)?, queue.server().map(Some));
        let server = server.map_or(Some(os::Activity::default()), os::activity)?;
        Some((own.processor + server.processor, own.sleeps + server.sleeps))
    };
    let written = || {
        let server = queue.server().map(Some).map_or(Some(0), os::charged)?;
        Some(os::charged(None)? + server)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| queue.ack(queue.wait()));
        std::thread::sleep(SETTLED);
        let (device, bytes, before) = (os::to_device(folder), written(), activity());
        let began = Instant::now();
        std::thread::sleep(args.time * IDLE);
        let seconds = began.elapsed().as_secs_f64();
        let (after, bytes_after, device_after) = (activity(), written(), os::to_device(folder));
        queue.put(&task, 0);
        let mut line = Line::new(args);
        line.number("seconds", Some(seconds));
        if let Some((before, after)) = before.zip(after) {
            line.number("sleeps", Some(after.1.saturating_sub(before.1) as f64));
            let processor = after.0.saturating_sub(before.0);
            line.number("processor_us", Some(processor.as_secs_f64() * 1e6));
        }
        let grown = |before: Option<u64>, after: Option<u64>| Some((after? - before?) as f64);
        line.number("bytes_written", grown(bytes, bytes_after));
        line.number("bytes_to_device", grown(device, device_after));
        line.print();
    });
}

/// The memory of a process that has just put so many tasks and then worked a little.
fn memory<Q: Queue>(queue: &Q, args: &Args) {
    fill(queue, args, args.backlog);
    let task = payload(args, 1);
    for _ in 0..WARM {
        queue.put(&task, 0);
        queue.ack(queue.take().expect("what was put is there"));
    }
    let memory = os::memory(queue.server());
    let mut line = Line::new(args);
    line.number("ops", Some(args.backlog as f64));
    line.number("rss_mib", memory.map(|memory| memory.0));
    line.number("anon_mib", memory.map(|memory| memory.1));
    line.print();
}

/// The other side of [`opening`]: fills the queue, says so, and ends, or is killed.
fn keep<Q: Queue>(queue: &Q, args: &Args) {
    fill(queue, args, args.backlog);
    // Some of them go, as in any queue that was at work.
    for _ in 0..1000.min(args.backlog / 2) {
        queue.ack(queue.take().expect("there are tasks"));
    }
    println!("filled");
    let _ = std::io::stdout().flush();
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// From before the opening to after the first take. The tasks were put by another process, which
/// then ended or was killed; the files are in the page cache, as for a program that restarts.
fn opening<Q: Queue>(args: &Args, open: impl Fn(&Args, &Folder) -> Q, kill: bool) {
    let folder = Fresh::new(&args.base);
    let binary = std::env::current_exe().expect("the binary has a path");
    let mut child = Command::new(binary)
        .args([&args.peer, "keep", "--backlog", &args.backlog.to_string()])
        .args(["--payload", &args.payload.to_string()])
        .arg("--folder")
        .arg(folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("another process");
    let mut said = String::new();
    let out = child.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut said).expect("it speaks");
    assert_eq!(said.trim(), "filled", "the other process filled the queue");
    if kill {
        child.kill().expect("it lives");
    }
    drop(child.stdin.take());
    let ended = child.wait().expect("it ends");
    assert!(kill || ended.success(), "who closes ends well");
    // A server ends a moment later.
    std::thread::sleep(Duration::from_millis(200));

    let before = os::memory(None);
    let began = Instant::now();
    let queue = open(args, folder.path());
    let task = queue.take().expect("the tasks are there");
    let seconds = began.elapsed().as_secs_f64();
    let memory = os::memory(queue.server());
    queue.ack(task);
    let mut line = Line::new(args);
    line.number("ops", Some(args.backlog as f64));
    line.number("seconds", Some(seconds));
    let grown = memory.zip(before).map(|(after, before)| match queue.server() {
        None => after.0 - before.0,
        Some(_) => after.0,
    });
    line.number("rss_mib", grown);
    line.print();
}
