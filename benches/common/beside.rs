//! What others feel of a load: the puts of a neighbour at a steady rate, and what a queue without
//! calls uses.

use super::{PAYLOAD, Run, os, paced, share, sorted, time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tubewell::{Queue, Tube};

/// Puts of the neighbour, each second.
const RATE: f64 = 2000.0;
/// After the last write: what is synced by an interval is synced by then, and every thread sleeps.
const SETTLED: Duration = Duration::from_secs(1);

/// Uses a processor for so long.
pub(crate) fn spin(seconds: f64) {
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < seconds {
        std::hint::spin_loop();
    }
}

/// The times of calls that are made again and again, and of a neighbour's puts beside them, for so
/// long, both sorted. A put is due at its own instant: what waits behind a slow call is late, and
/// counts as late.
pub(crate) fn calls_beside(
    own: &Tube,
    length: Duration,
    call: &(dyn Fn(u64) + Sync),
) -> (Vec<f64>, Vec<f64>) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            let mut times = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let began = Instant::now();
                call(times.len() as u64);
                times.push(began.elapsed().as_secs_f64());
            }
            times
        });
        let puts = puts(own, |number| number as f64 / RATE > length.as_secs_f64());
        done.store(true, Ordering::Relaxed);
        (sorted(calling.join().unwrap()), puts)
    })
}

/// Says that a thread has ended, also by a panic.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The seconds that a piece of work takes, and the times of a neighbour's puts beside it, sorted.
pub(crate) fn work_beside(own: &Tube, work: impl FnOnce() + Send) -> (f64, Vec<f64>) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            let _done = Done(&done);
            let began = Instant::now();
            work();
            began.elapsed().as_secs_f64()
        });
        let puts = puts(own, |_| done.load(Ordering::Relaxed));
        (working.join().unwrap(), puts)
    })
}

fn puts(own: &Tube, is_over: impl Fn(u64) -> bool) -> Vec<f64> {
    let began = Instant::now();
    let mut times = Vec::new();
    for number in (0..).take_while(|number| !is_over(*number)) {
        let from = paced(began, number, RATE);
        own.put(&[7; PAYLOAD]).unwrap();
        times.push(from.elapsed().as_secs_f64());
    }
    sorted(times)
}

/// The twin of a neighbour's puts: what they wait for beside a thread that only spins.
pub(crate) const SPINNING: &str = "a thread that only spins";

/// A line for what a neighbour's puts waited for, and what those beside the twin waited for.
pub(crate) fn felt(
    run: &Run,
    what: &str,
    puts: &[f64],
    (twin, beside_twin): (&str, &[f64]),
    reach: &'static str,
) {
    let (felt, of_twin) = (share(puts, 0.999), share(beside_twin, 0.999));
    let part = if puts.len() < 1000 { "the longest" } else { "p99.9" };
    run.line(
        format!("{what}: a neighbour's {} puts, {part}", puts.len()),
        time(felt),
        format!("beside {twin} {}", time(of_twin)),
        format!("{:.2}", felt / of_twin),
        reach,
    );
}

/// What the process uses and writes in some seconds without calls.
pub(crate) fn idle(run: &Run, queue: &Queue, what: &str, reach: &'static str) {
    let length = run.length(50, 3_000, 5_000);
    queue.flush().unwrap();
    std::thread::sleep(run.scale.pick(SETTLED / 10, SETTLED, SETTLED));
    let space = queue.space().unwrap();
    let (before, written) = (os::activity_of_others(), os::written());
    std::thread::sleep(length);
    let (after, written_after) = (os::activity_of_others(), os::written());
    let own = queue.space().unwrap().written_bytes - space.written_bytes;
    if let (Some(before), Some(after)) = (before, after) {
        let seconds = length.as_secs_f64();
        let processor = after.processor.saturating_sub(before.processor).as_secs_f64();
        let sleeps = after.sleeps.saturating_sub(before.sleeps);
        run.line(
            format!("idle, {what}: processor a second"),
            time(processor / seconds),
            format!("{:.1} wake-ups a second", sleeps as f64 / seconds),
            "–",
            reach,
        );
    }
    let all = written.zip(written_after).map_or(own, |(before, after)| after - before);
    run.line(
        format!("idle, {what}: bytes written"),
        all,
        format!("the queue's own {own}"),
        "–",
        reach,
    );
}
