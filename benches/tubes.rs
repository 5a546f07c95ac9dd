//! What a hundred thousand tubes cost: making them, a put to one of them, timers in many of them at
//! once, and what the queue does while nothing is due.
//!
//!     cargo bench --bench tubes                          a minute
//!     cargo bench --bench tubes -- --tubes=3000          fewer
//!     cargo bench --bench tubes -- --timers=1000         timers in so many of them
//!     cargo bench --bench tubes -- --quick               ten thousand, and a thousand timers

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::beside::idle;
use common::{PAYLOAD, Run, os, share, sorted, time};
use std::time::{Duration, Instant, SystemTime};
use tubewell::{Cause, Durability, EventOptions, Queue, Tube};

/// Puts of one turn, to the one tube and to the many.
const BLOCK: u64 = 500;

fn main() {
    let run = Run::begin("tubes");
    let count = run.count("tubes", 100, 10_000, 100_000);
    let timers = run.count("timers", 10, 1_000, 10_000).min(count);
    let queue = open(&run);
    let tubes = make(&run, &queue, count);
    puts(&run, &tubes);
    found(&run, &queue, &tubes);
    for seconds in [10, 1] {
        lateness(&run, &queue, &tubes, timers, run.scale.pick(1, seconds, seconds));
    }
    idle(&run, &queue, "no deadline pending", "0");
    let day = Duration::from_secs(86_400);
    far(&tubes, timers).for_each(|tube| _ = tube.task(&[7; PAYLOAD]).delay(day).put().unwrap());
    idle(&run, &queue, &format!("{timers} deadlines a day away"), "–");
    run.end();
}

fn open(run: &Run) -> Queue {
    let path = run.folder.fresh("queue");
    Queue::builder().durability(Durability::Relaxed).open(path).unwrap()
}

/// So many of the tubes, evenly spread over all.
fn far(tubes: &[Tube], count: u64) -> impl Iterator<Item = &Tube> {
    tubes.iter().step_by((tubes.len() / count as usize).max(1)).take(count as usize)
}

/// How long it takes and how much memory, relaxed.
fn make(run: &Run, queue: &Queue, count: u64) -> Vec<Tube> {
    let names: Vec<String> = (0..count).map(|number| format!("tube-{number}")).collect();
    let before = os::resident().unwrap_or_default();
    let began = Instant::now();
    let tubes: Vec<Tube> = names.iter().map(|name| queue.tube(name).unwrap()).collect();
    let made = began.elapsed().as_secs_f64();
    let memory = os::resident().unwrap_or_default().saturating_sub(before);
    run.line(
        format!("{count} tubes made, relaxed"),
        time(made),
        format!("{} each, {} MiB", time(made / count as f64), memory >> 20),
        "–",
        "≤ 3 s",
    );
    tubes
}

/// Puts to the many tubes, each to another one in no order, and to the one tube of another queue,
/// in turns.
fn puts(run: &Run, tubes: &[Tube]) {
    let queue = open(run);
    let alone = queue.tube("alone").unwrap();
    let turns = run.scale.pick(2, 40, 100);
    let mut next = 0u64;
    let mut other = || {
        next += 1;
        let place = next.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &tubes[place as usize % tubes.len()]
    };
    let (mut many, mut one) = (Vec::new(), Vec::new());
    let put = |tube: &Tube| {
        let began = Instant::now();
        tube.put(&[7; PAYLOAD]).unwrap();
        began.elapsed().as_secs_f64()
    };
    for _ in 0..turns {
        (0..BLOCK).for_each(|_| many.push(put(other())));
        (0..BLOCK).for_each(|_| one.push(put(&alone)));
    }
    let (many, one) = (sorted(many), sorted(one));
    for (name, part, reach) in [("p50", 0.5, "≤ 2"), ("p99", 0.99, "–")] {
        let (many, one) = (share(&many, part), share(&one, part));
        run.line(
            format!("relaxed put to one of {} tubes, {name}", tubes.len()),
            time(many),
            format!("of one tube {}", time(one)),
            format!("{:.2}", many / one),
            reach,
        );
    }
}

/// A task in the last of all tubes, found by its id alone: first where nothing is known of it, and
/// then again.
fn found(run: &Run, queue: &Queue, tubes: &[Tube]) {
    let last = tubes.iter().max_by_key(|tube| tube.name()).unwrap();
    let id = last.put(&[7; PAYLOAD]).unwrap();
    let find = || {
        let began = Instant::now();
        assert_eq!(queue.find(id).unwrap().tube, last.name());
        began.elapsed().as_secs_f64()
    };
    let (first, again) = (find(), find());
    run.line(
        format!("find of a task in {} tubes", tubes.len()),
        time(first),
        format!("again {}", time(again)),
        "–",
        "≤ 0.5 s",
    );
}

/// One task in each of so many tubes, which fall due evenly within so many seconds; how late each
/// is when the event says so.
fn lateness(run: &Run, queue: &Queue, tubes: &[Tube], timers: u64, seconds: u64) {
    let within = Duration::from_secs(seconds);
    // All are put before the first is due, with room to spare on a slow machine.
    let first = Instant::now() + Duration::from_secs(run.scale.pick(1, 3, 3));
    let events = queue.events_with(EventOptions::new().kept(4 * timers as usize));
    let mut dues = std::collections::HashMap::new();
    for (number, tube) in far(tubes, timers).enumerate() {
        let due = first + within * number as u32 / timers as u32;
        let delay = due.saturating_duration_since(Instant::now());
        let id = tube.task(&[7; PAYLOAD]).delay(delay).put().unwrap();
        // A put may wait for a checkpoint, and its delay begins behind that.
        dues.insert(id, tube.peek(id).unwrap().due.expect("it is delayed"));
    }
    if Instant::now() > first {
        eprintln!("  the machine is too slow for this: some were due before all were put");
    }
    let before = os::activity();
    let mut late = Vec::with_capacity(dues.len());
    while late.len() < dues.len() {
        let event = events.recv().unwrap();
        if event.cause == Cause::Delay {
            let Some(task) = event.task else { continue };
            let late_by = SystemTime::now().duration_since(dues[&task]).unwrap_or_default();
            late.push(late_by.as_secs_f64());
        }
    }
    let spent =
        before.zip(os::activity()).map(|(before, after)| after.processor - before.processor);
    let late = sorted(late);
    let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|part| time(share(&late, part)));
    run.line(
        format!("timers of {timers} tubes of {} within {seconds} s: lateness p99", tubes.len()),
        format!("{p99} (p50 {p50}, worst {worst})"),
        format!("processor {}", time(spent.unwrap_or_default().as_secs_f64())),
        "–",
        if seconds == 10 { "≤ 5 ms" } else { "–" },
    );
}
