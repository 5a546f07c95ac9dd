//! How soon things happen: a put wakes a waiting taker, a hundred thousand timers fall due within a
//! second; and that nothing happens while nothing is due.
//!
//!     cargo bench --bench wakeup                      half a minute
//!     cargo bench --bench wakeup -- --quick

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::{PAYLOAD, Ratio, Run, os, share, sorted, time};
use std::time::{Duration, Instant, SystemTime};
use tubewell::{Cause, Durability, EventOptions, Queue, TaskId, Tube};

fn main() {
    let run = Run::begin("wakeup");
    wakeup(&run);
    timers(&run);
    busy_timers(&run);
    idle(&run);
    run.end();
}

fn open(run: &Run) -> Queue {
    let path = run.folder.fresh("queue");
    Queue::builder().durability(Durability::Relaxed).open(path).unwrap()
}

/// From before the put, or the send, to after the take, or the receive, on another thread that had
/// gone to sleep. The two take turns, so that both find the processor as deep asleep.
fn wakeup(run: &Run) {
    if !run.wants("wake-up") {
        return;
    }
    let rounds = run.scale.pick(20, 10_000, 40_000);
    // Longer than either spins before it sleeps.
    let pause = Duration::from_micros(200);
    let queue = open(run);
    let tube = queue.tube("wakeup").unwrap();
    let (send, receive) = crossbeam_channel::unbounded::<()>();
    let (told, tell) = crossbeam_channel::unbounded::<Instant>();
    let mut takes = Vec::new();
    let mut receives = Vec::new();
    std::thread::scope(|scope| {
        let taker = scope.spawn({
            let (tube, told) = (tube.clone(), told.clone());
            move || {
                for _ in 0..rounds {
                    let task = tube.take().unwrap();
                    told.send(Instant::now()).unwrap();
                    task.ack().unwrap();
                }
            }
        });
        let receiver = scope.spawn(move || {
            for _ in 0..rounds {
                receive.recv().unwrap();
                told.send(Instant::now()).unwrap();
            }
        });
        for _ in 0..rounds {
            while queue.waiters().unwrap().is_empty() {
                std::thread::yield_now();
            }
            std::thread::sleep(pause);
            let began = Instant::now();
            tube.put(&[7; PAYLOAD]).unwrap();
            takes.push(tell.recv().unwrap().duration_since(began).as_secs_f64());
            std::thread::sleep(pause);
            let began = Instant::now();
            send.send(()).unwrap();
            receives.push(tell.recv().unwrap().duration_since(began).as_secs_f64());
        }
        taker.join().unwrap();
        receiver.join().unwrap();
    });
    let (takes, receives) = (sorted(takes), sorted(receives));
    for (name, part, reach) in [("p50", 0.5, "≤ 4.5"), ("p99", 0.99, "≤ 60 µs")] {
        let (ours, its) = (share(&takes, part), share(&receives, part));
        run.row(&format!("wake-up of a waiting taker, {name}"), Ratio::Cost, ours);
        run.line(
            format!("wake-up of a waiting taker, {name}"),
            time(ours),
            format!("crossbeam channel {}", time(its)),
            format!("{:.2}", ours / its),
            reach,
        );
    }
}

/// Tasks whose delays end all within one second, evenly. Lateness is measured where a program
/// notices: at the event, and at the take of one who waits. Beside it stands a thread that does
/// nothing but sleep until each of as many instants, once before and once behind: a machine that
/// is late for that one is late for all. Three such seconds, of which the one in the middle counts:
/// where a sync takes longer than the interval, a writer waits for it, and that is the disk.
fn timers(run: &Run) {
    let tasks: u64 = run.scale.pick(1_000, 100_000, 100_000);
    for taking in [false, true] {
        let what = if taking { "timers, until taken" } else { "timers, until promoted" };
        if !run.wants(what) {
            continue;
        }
        let mut bare = if run.alone() { Vec::new() } else { sleeper(tasks) };
        let seconds = if run.alone() { 1 } else { run.scale.pick(1, 3, 3) };
        let second = |_| sorted(lateness(run, tasks, taking));
        let mut ours: Vec<_> = (0..seconds).map(second).collect();
        if !run.alone() {
            bare.extend(sleeper(tasks));
        }
        let bare = share(&sorted(bare), 0.99);
        ours.sort_by(|one, other| share(one, 0.99).total_cmp(&share(other, 0.99)));
        let each = ours.iter().map(|second| time(share(second, 0.99))).collect::<Vec<_>>();
        let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|part| share(&ours[seconds / 2], part));
        run.row(&format!("{tasks} {what}: lateness p50"), Ratio::Cost, p50);
        run.row(&format!("{tasks} {what}: lateness p99"), Ratio::Cost, p99);
        run.line(
            format!("{tasks} {what}: lateness p99"),
            format!(
                "{} (p50 {}, worst {}; of {})",
                time(p99),
                time(p50),
                time(worst),
                each.join(", ")
            ),
            format!("a bare thread {}", time(bare)),
            format!("{:.2}", p99 / bare),
            if taking { "–" } else { "≤ 5 ms" },
        );
    }
}

fn sleeper(instants: u64) -> Vec<f64> {
    let first = Instant::now() + Duration::from_millis(100);
    let due = |number: u64| first + Duration::from_secs(1) * number as u32 / instants as u32;
    let late = |number: u64| {
        std::thread::sleep(due(number).saturating_duration_since(Instant::now()));
        due(number).elapsed().as_secs_f64()
    };
    (0..instants).map(late).collect()
}

fn lateness(run: &Run, tasks: u64, taking: bool) -> Vec<f64> {
    let queue = open(run);
    let tube = queue.tube("timers").unwrap();
    // All are put before the first is due, with room to spare on a slow machine.
    let first = Instant::now() + Duration::from_secs(run.scale.pick(1, 5, 5));
    let due = |number: u64| first + Duration::from_secs(1) * number as u32 / tasks as u32;
    let mut ids = Vec::with_capacity(tasks as usize);
    for number in 0..tasks {
        let delay = due(number).saturating_duration_since(Instant::now());
        ids.push(tube.task(&number.to_le_bytes()).delay(delay).put().unwrap());
    }
    // A put may wait for a checkpoint, and its delay begins behind that.
    let dues: Vec<_> = ids.iter().map(|id| tube.peek(*id).unwrap().due).collect();
    if Instant::now() > first {
        eprintln!("  the machine is too slow for this: some were due before all were put");
    }
    let late = |number: u64| {
        let due = dues[number as usize].expect("it was delayed");
        SystemTime::now().duration_since(due).unwrap_or_default().as_secs_f64()
    };
    if taking {
        let take = |tube: &Tube| {
            let task = tube.take().unwrap();
            let late = late(u64::from_le_bytes(task[..].try_into().unwrap()));
            task.detach();
            late
        };
        return (0..tasks).map(|_| take(&tube)).collect();
    }
    let events = queue.events_with(EventOptions::new().kept(tasks as usize));
    let mut lateness = Vec::with_capacity(ids.len());
    while lateness.len() < ids.len() {
        let event = events.recv().unwrap();
        if event.cause == Cause::Delay {
            // An event of the commit that benches/against compares with has no option here.
            #[allow(clippy::useless_conversion)]
            let Some(task) = Option::<TaskId>::from(event.task) else { continue };
            let number = ids.binary_search(&task).unwrap();
            lateness.push(late(number as u64));
        }
    }
    lateness
}

/// Timers put in no order, due evenly within one second; one thread takes and acks them. Of each
/// place in the order, how much later a task is acked than one was due. It is the rate that counts:
/// who cannot keep up with it is later with each timer.
fn busy_timers(run: &Run) {
    for share_of_most in [4, 2, 1] {
        let tasks = run.scale.pick(1_000, 100_000, 100_000) / share_of_most;
        let what = format!("{tasks} timers of {PAYLOAD} B in no order, until acked");
        if !run.wants(&what) {
            continue;
        }
        let turns = if run.alone() { 1 } else { run.scale.pick(1, 1, 3) };
        let mut ours: Vec<_> = (0..turns).map(|_| acks(run, tasks)).collect();
        ours.sort_by(|one, other| share(&one.0, 0.99).total_cmp(&share(&other.0, 0.99)));
        let each = ours.iter().map(|(late, _)| time(share(late, 0.99))).collect::<Vec<_>>();
        let (late, done) = &ours[turns / 2];
        let (p50, p99) = (share(late, 0.5), share(late, 0.99));
        run.row(&format!("{what}: lateness p99"), Ratio::Cost, p99);
        run.line(
            format!("{what}: lateness p99"),
            format!("{} (p50 {}; of {})", time(p99), time(p50), each.join(", ")),
            format!("all done after {}", time(*done)),
            format!("{done:.3}"),
            if share_of_most == 1 { "≤ 5 ms, 1.02" } else { "–" },
        );
    }
}

/// How late each of so many timers was acked, and how long after the first instant all were.
fn acks(run: &Run, tasks: u64) -> (Vec<f64>, f64) {
    let queue = open(run);
    let tube = queue.tube("timers").unwrap();
    let first = SystemTime::now() + Duration::from_secs(run.scale.pick(1, 4, 4));
    let due = |number: u64| first + Duration::from_secs(1) * number as u32 / tasks as u32;
    // Coprime to the number of tasks, which is a product of twos and fives: it visits each of them.
    let step = 61_803;
    let mut payload = [7; PAYLOAD];
    for number in 0..tasks {
        let number = number * step % tasks;
        payload[..8].copy_from_slice(&number.to_le_bytes());
        tube.task(&payload).run_at(due(number)).put().unwrap();
    }
    if SystemTime::now() > first {
        eprintln!("  the machine is too slow for this: some were due before all were put");
    }
    let late = |number: u64| {
        let task = loop {
            if let Some(task) = tube.take_timeout(Duration::from_secs(1)).unwrap() {
                break task;
            }
        };
        task.ack().unwrap();
        SystemTime::now().duration_since(due(number)).unwrap_or_default().as_secs_f64()
    };
    let lateness = (0..tasks).map(late).collect();
    (sorted(lateness), first.elapsed().unwrap_or_default().as_secs_f64())
}

/// An open queue with tasks, buried ones, a waiting taker, and nothing due.
fn idle(run: &Run) {
    if !run.wants("idle") {
        return;
    }
    let length = run.length(50, 3_000, 3_000);
    let queue = open(run);
    let tube = queue.tube("full").unwrap();
    for number in 0..1_000u64 {
        tube.put(&number.to_le_bytes()).unwrap();
    }
    tube.take().unwrap().bury("set aside").unwrap();
    let empty = queue.tube("empty").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(empty.take().unwrap()));
        // What was written is synced, and all threads have gone to sleep.
        queue.flush().unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let (before, written) = (os::activity(), os::written());
        std::thread::sleep(length);
        let (after, written_after) = (os::activity(), os::written());
        if let (Some(before), Some(after)) = (before, after) {
            let seconds = length.as_secs_f64();
            let processor = after.processor.saturating_sub(before.processor);
            // One of the sleeps is our own.
            let sleeps = after.sleeps.saturating_sub(before.sleeps + 1);
            run.row("idle: wake-ups", Ratio::Cost, sleeps as f64);
            run.row("idle: processor", Ratio::Cost, processor.as_secs_f64());
            run.line(
                "idle: wake-ups a second",
                format!("{:.1}", sleeps as f64 / seconds),
                format!("processor {} a second", time(processor.as_secs_f64() / seconds)),
                "–",
                "0",
            );
        }
        if let (Some(before), Some(after)) = (written, written_after) {
            let bytes = after - before;
            run.row("idle: bytes written", Ratio::Cost, bytes as f64);
            run.line("idle: bytes written", bytes, "–", "–", "0");
        }
        empty.put(b"done").unwrap();
        waiting.join().unwrap();
    });
}
