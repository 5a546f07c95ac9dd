//! What gates, dependencies and schedules cost: takes with closed tubes and blocked tasks in the
//! way, a condition that opens, a throttle over ten tubes, ten thousand parents, dependents and
//! links of a chain, and a hundred thousand schedules.
//!
//!     cargo bench --bench flows                       five minutes
//!     cargo bench --bench flows -- throttle           one kind
//!     cargo bench --bench flows -- --tasks=100000     fewer tasks behind a condition
//!     cargo bench --bench flows -- --quick            all smaller

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::beside::{SPINNING, calls_beside, felt, idle, spin, work_beside};
use common::{PAYLOAD, Ratio, Run, figure, share, sorted, time};
use std::time::{Duration, Instant, SystemTime};
use tubewell::{Durability, ManualClock, Queue, Task, Tube, TubeOptions, Tubes};

/// The tubes of a throttle, its slots, and its takers.
const TEN: usize = 10;
const CONDITION: &str = "a condition";
const THROTTLE: &str = "a throttle";
const PAUSE: &str = "a pause";
const BLOCKED: &str = "another task";
/// Gates of the tasks themselves, in the tube of which others are taken.
const OWN: [&str; 3] = [
    "a condition of their own",
    "1000 conditions of their own",
    "a condition of their own in groups",
];
/// The reach of a neighbour's puts.
const NEIGHBOUR: &str = "≤ 2 ms";
const WEEK: Duration = Duration::from_secs(7 * 86_400);

fn main() {
    let run = Run::begin("flows");
    in_the_way(&run);
    opening(&run);
    opening_of_groups(&run);
    throttle(&run);
    dependencies(&run);
    chain_steps(&run);
    idle_schedules(&run);
    fires(&run);
    after_a_sleep(&run);
    run.end();
}

fn open(run: &Run) -> Queue {
    let path = run.folder.fresh("queue");
    Queue::builder().durability(Durability::Relaxed).open(path).unwrap()
}

fn fill(tube: &Tube, tasks: u64) {
    let payload = [7; PAYLOAD];
    for from in (0..tasks).step_by(1000) {
        let some = (tasks - from).min(1000) as usize;
        tube.put_many(vec![&payload[..]; some]).unwrap();
    }
}

/// Takes of tasks that stand behind what may not be taken, and of as many in a queue where nothing
/// stands in the way. Only the takes are timed.
fn in_the_way(run: &Run) {
    let many = run.count("in-the-way", 1_000, 100_000, 100_000);
    for why in [CONDITION, THROTTLE, PAUSE, BLOCKED].into_iter().chain(OWN) {
        let what = match why {
            BLOCKED => format!("take with {many} blocked in the way"),
            gate if OWN.contains(&gate) => format!("take with {many} behind {gate} in the way"),
            gate => format!("take from two tubes with {many} behind {gate} in the first"),
        };
        if run.wants(&what) {
            let [full, bare] = [many, 0].map(|tasks| Way::new(run, why, tasks));
            run.pair(
                &figure(&what, "without", Ratio::Cost, "≤ 1.2"),
                |times| full.takes(times),
                |times| bare.takes(times),
            );
        }
    }
}

/// A queue with tasks that may not be taken, and a tube in which others are put.
struct Way {
    _queue: Queue,
    tube: Tube,
    /// The tube and the closed one before it.
    both: Option<Tubes>,
}

impl Way {
    fn new(run: &Run, why: &str, tasks: u64) -> Self {
        let queue = open(run);
        let (tube, both) = if why == BLOCKED {
            let tube = queue.tube("tube").unwrap();
            let parent = tube.put(b"taken and not finished").unwrap();
            let _ = tube.take().unwrap().detach();
            for _ in 0..tasks {
                tube.task(&[7; PAYLOAD]).priority(-1).after([parent]).put().unwrap();
            }
            (tube, None)
        } else if let Some(kind) = OWN.iter().position(|own| *own == why) {
            let tube = queue.tube("tube").unwrap();
            let names: Vec<String> = (0..tasks.max(1000)).map(|name| name.to_string()).collect();
            let task = |name: &String| {
                let task = tube.task(&[7; PAYLOAD]).priority(-1);
                match kind {
                    0 => task.require("online").put(),
                    1 => task.require(&names[name.parse::<usize>().unwrap() % 1000]).put(),
                    _ => task.require("online").group(name).put(),
                }
            };
            names.iter().take(tasks as usize).for_each(|name| _ = task(name).unwrap());
            (tube, None)
        } else {
            fill(&closed(&queue, why), tasks);
            let both = queue.tubes_of(["closed", "open"]).unwrap().in_order();
            (queue.tube("open").unwrap(), Some(both))
        };
        queue.checkpoint().unwrap();
        Self { _queue: queue, tube, both }
    }

    fn takes(&self, times: u64) -> Duration {
        fill(&self.tube, times);
        let take = || match &self.both {
            Some(both) => both.try_take().unwrap().unwrap(),
            None => self.tube.try_take().unwrap().unwrap(),
        };
        let began = Instant::now();
        let tasks: Vec<Task> = (0..times).map(|_| take()).collect();
        let took = began.elapsed();
        self.tube.ack_many(tasks).unwrap();
        took
    }
}

/// A tube of which no task can be taken.
fn closed(queue: &Queue, gate: &str) -> Tube {
    queue.set_throttle("api", 1).unwrap();
    let options = match gate {
        CONDITION => TubeOptions::default().require("online"),
        THROTTLE => TubeOptions::default().throttle("api"),
        _ => TubeOptions::default(),
    };
    let tube = queue.create_tube("closed", options).unwrap();
    match gate {
        THROTTLE => {
            tube.put(b"holds the slot").unwrap();
            let _ = tube.take().unwrap().detach();
        }
        PAUSE => tube.pause().unwrap(),
        _ => {}
    }
    tube
}

/// A condition with a million tasks behind it: how long it takes to set it, how long until a
/// waiting taker has the first task, and what a neighbour feels where a second gate is closed.
fn opening(run: &Run) {
    let tasks = run.count("tasks", 1_000, 100_000, 1_000_000);
    let what = format!("a condition with {tasks} tasks behind it");
    if !run.wants(&what) {
        return;
    }
    let queue = open(run);
    let options = TubeOptions::default().require("online");
    let one = queue.create_tube("one gate", options.clone()).unwrap();
    let two = queue.create_tube("two gates", options.require("approved")).unwrap();
    fill(&one, tasks);
    fill(&two, tasks);
    queue.checkpoint().unwrap();
    let turns = run.scale.pick(2, 50, 200);
    let (mut sets, mut takes) = (Vec::new(), Vec::new());
    for _ in 0..turns {
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let task = one.take().unwrap();
                let taken = Instant::now();
                task.ack().unwrap();
                taken
            });
            while queue.waiters().unwrap().is_empty() {
                std::thread::yield_now();
            }
            let began = Instant::now();
            queue.set_condition("online", true).unwrap();
            sets.push(began.elapsed().as_secs_f64());
            takes.push(taker.join().unwrap().duration_since(began).as_secs_f64());
        });
        queue.set_condition("online", false).unwrap();
    }
    let (sets, takes) = (sorted(sets), sorted(takes));
    let [middle, late] = [0.5, 0.99].map(|part| share(&sets, part));
    run.line(
        format!("{what}: set, p99"),
        time(late),
        format!("p50 {}", time(middle)),
        "–",
        "≤ 1 ms",
    );
    let [first, latest] = [0.5, 0.99].map(|part| share(&takes, part));
    run.line(
        format!("{what}: until a waiting taker has the first, p99"),
        time(latest),
        format!("p50 {}", time(first)),
        "–",
        "at once",
    );
    let own = queue.tube("neighbour").unwrap();
    let length = run.length(100, 1_000, 5_000);
    let (_, puts) = calls_beside(&own, length, &|number| {
        queue.set_condition("online", number % 2 == 0).unwrap();
        assert!(two.try_take().unwrap().is_none());
    });
    let (_, alone) = calls_beside(&own, length, &|_| spin(middle));
    felt(
        run,
        &format!("{what}, and a second that is closed"),
        &puts,
        (SPINNING, &alone),
        NEIGHBOUR,
    );
}

/// The same with gates of the tasks themselves, a tenth as many groups as tasks: the first of each
/// group goes from one closed gate to the other.
fn opening_of_groups(run: &Run) {
    let tasks = run.count("grouped", 1_000, 100_000, 1_000_000);
    let what = format!("a condition of {tasks} tasks in groups, and a second that is closed");
    if !run.wants(&what) {
        return;
    }
    let queue = open(run);
    let [tube, own] = ["grouped", "neighbour"].map(|name| queue.tube(name).unwrap());
    let names: Vec<String> = (0..tasks / 10).map(|name| name.to_string()).collect();
    for _ in 0..10 {
        for some in names.chunks(1000) {
            let task = |name| tube.task(&[7; PAYLOAD]).group(name).require("online");
            let tasks = some.iter().map(|name| task(name).require("approved"));
            tube.batch_of(tasks).put().unwrap();
        }
    }
    queue.checkpoint().unwrap();
    let length = run.length(100, 1_000, 5_000);
    let (changes, puts) = calls_beside(&own, length, &|number| {
        // Of two conditions of which one is closed at any time, each task waits for that one.
        let opened = if number % 2 == 0 { "online" } else { "approved" };
        let closed = if number % 2 == 0 { "approved" } else { "online" };
        queue.set_condition(closed, false).unwrap();
        queue.set_condition(opened, true).unwrap();
        assert!(tube.try_take().unwrap().is_none());
    });
    let middle = share(&changes, 0.5);
    run.line(format!("{what}: a change and a take"), time(middle), "–", "–", "–");
    let (_, alone) = calls_beside(&own, length, &|_| spin(middle));
    felt(run, &what, &puts, (SPINNING, &alone), NEIGHBOUR);
}

/// Ten takers of ten tubes with one throttle of ten slots, and without it.
fn throttle(run: &Run) {
    let what = "a throttle of ten over ten tubes with ten takers";
    if !run.wants(what) {
        return;
    }
    let [with, without] = [true, false].map(|is_throttled| {
        let queue = open(run);
        queue.set_throttle("api", TEN as u64).unwrap();
        let options = TubeOptions::default();
        let options = if is_throttled { options.throttle("api") } else { options };
        let tube = |no| queue.create_tube(&format!("tube {no}"), options.clone()).unwrap();
        let tubes: Vec<Tube> = (0..TEN).map(tube).collect();
        (queue, tubes)
    });
    let drain = |(_, tubes): &(Queue, Vec<Tube>), times: u64| {
        let each = times.div_ceil(TEN as u64) * 10;
        tubes.iter().for_each(|tube| fill(tube, each));
        let began = Instant::now();
        std::thread::scope(|scope| {
            for tube in tubes {
                scope.spawn(move || (0..each).for_each(|_| tube.take().unwrap().ack().unwrap()));
            }
        });
        began.elapsed().div_f64((each * TEN as u64) as f64 / times as f64)
    };
    run.pair(
        &figure(what, "without it", Ratio::Rate, "≥ 0.7"),
        |times| drain(&with, times),
        |times| drain(&without, times),
    );
}

/// Puts tasks that come after others.
type Shape = fn(&Tube, u64);

/// Ten thousand parents of one task, ten thousand dependents of one, and a chain as long, each from
/// the first take to the last ack, and what a neighbour feels of it. In turns with them, as many
/// plain tasks.
fn dependencies(run: &Run) {
    let many = run.count("dependents", 100, 10_000, 10_000);
    let shapes: [(&str, Shape); 3] = [
        ("parents of one task", parents),
        ("dependents of one task", dependents),
        ("links", links),
    ];
    for (shape, put) in shapes {
        let what = format!("{many} {shape}");
        if !run.wants(&what) {
            continue;
        }
        let queue = open(run);
        let [tube, own] = ["flow", "neighbour"].map(|name| queue.tube(name).unwrap());
        let work = |put: Shape| {
            put(&tube, many);
            queue.checkpoint().unwrap();
            let worked = work_beside(&own, || {
                (0..=many).for_each(|_| tube.take().unwrap().ack().unwrap());
            });
            own.truncate().unwrap();
            worked
        };
        let (mut times, mut puts, mut beside_plain) = (Vec::new(), Vec::new(), Vec::new());
        // Each takes a tenth of a second: so many have enough puts beside them for a p99.9.
        while puts.len() < run.scale.pick(1, 500, 2_000) {
            let (seconds, beside) = work(put);
            times.push(seconds);
            puts.extend(beside);
            beside_plain.extend(work(plain).1);
        }
        let (middle, puts) = (share(&sorted(times), 0.5), sorted(puts));
        run.line(&what, time(middle), time(middle / many as f64), "–", "–");
        felt(run, &what, &puts, ("as many plain tasks", &sorted(beside_plain)), NEIGHBOUR);
    }
}

fn plain(tube: &Tube, many: u64) {
    tube.put_many(vec![[7; PAYLOAD]; many as usize + 1]).unwrap();
}

fn parents(tube: &Tube, many: u64) {
    let payload = [7; PAYLOAD];
    let parts = tube.put_many(vec![&payload[..]; many as usize]).unwrap();
    tube.task(b"whole").after(parts).put().unwrap();
}

fn dependents(tube: &Tube, many: u64) {
    let first = tube.put(b"first").unwrap();
    for _ in 0..many {
        tube.task(&[7; PAYLOAD]).after([first]).put().unwrap();
    }
}

fn links(tube: &Tube, many: u64) {
    let mut last = tube.put(b"first").unwrap();
    for _ in 0..many {
        last = tube.task(&[7; PAYLOAD]).after([last]).put().unwrap();
    }
}

/// Put, take and ack of a task that waits for the one before it, beside those of a plain task.
fn chain_steps(run: &Run) {
    let what = "a step of a chain: put, take, ack";
    if !run.wants(what) {
        return;
    }
    let [linked, plain] = [true, false].map(|is_linked| (open(run), is_linked));
    let cycles = |(queue, is_linked): &(Queue, bool), times: u64| {
        let tube = queue.tube("tube").unwrap();
        let mut last = tube.put(b"first").unwrap();
        let began = Instant::now();
        for _ in 0..times {
            if *is_linked {
                last = tube.task(&[7; PAYLOAD]).after([last]).put().unwrap();
            } else {
                tube.put(&[7; PAYLOAD]).unwrap();
            }
            tube.take().unwrap().ack().unwrap();
        }
        let took = began.elapsed();
        tube.take().unwrap().ack().unwrap();
        took
    };
    run.pair(
        &figure(what, "a plain task", Ratio::Cost, "≤ 2"),
        |times| cycles(&linked, times),
        |times| cycles(&plain, times),
    );
}

/// Schedules with an interval, each to fire at another time of it.
fn schedules(queue: &Queue, tube: &Tube, count: u64, interval: Duration) {
    for number in 0..count {
        let offset = interval * number as u32 / count as u32;
        let name = format!("schedule {number}");
        queue.schedule(&name).every(interval).offset(interval + offset).to(tube).make().unwrap();
    }
}

fn idle_schedules(run: &Run) {
    let count = run.count("schedules", 100, 10_000, 100_000);
    let what = format!("{count} schedules that fire next week");
    if run.wants(&what) {
        let queue = open(run);
        let tube = queue.tube("tube").unwrap();
        schedules(&queue, &tube, count, WEEK);
        idle(run, &queue, &what, "0");
    }
}

/// How late a task is taken after the nominal time of its fire.
fn fires(run: &Run) {
    let count = run.count("fires", 10, 1_000, 1_000);
    let what = format!("{count} fires a second");
    if !run.wants(&what) {
        return;
    }
    let queue = open(run);
    let tube = queue.tube("tube").unwrap();
    schedules(&queue, &tube, count, Duration::from_secs(1));
    let ends = Instant::now() + run.length(2_000, 4_000, 10_000);
    let mut late = Vec::new();
    while Instant::now() < ends {
        let Some(task) = tube.take_timeout(Duration::from_secs(2)).unwrap() else { break };
        let taken = SystemTime::now();
        let nominal = tube.peek(task.id()).unwrap().nominal.expect("a schedule made it");
        late.push(taken.duration_since(nominal).unwrap_or_default().as_secs_f64());
        task.ack().unwrap();
    }
    let late = sorted(late);
    let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|part| time(share(&late, part)));
    run.line(
        format!("{what}: taken after the nominal time, p99"),
        p99,
        format!("{} fires, p50 {p50}, worst {worst}", late.len()),
        "–",
        "≤ 5 ms",
    );
}

/// A week passes at once: each schedule fires once.
fn after_a_sleep(run: &Run) {
    let count = run.count("schedules", 100, 10_000, 100_000);
    let what = format!("{count} schedules after a week's sleep");
    if !run.wants(&what) {
        return;
    }
    let clock = ManualClock::new();
    let builder = Queue::builder().durability(Durability::Relaxed).clock(clock.clone());
    let queue = builder.open(run.folder.fresh("queue")).unwrap();
    let [tube, own] = ["tube", "neighbour"].map(|name| queue.tube(name).unwrap());
    schedules(&queue, &tube, count, Duration::from_secs(3600));
    queue.checkpoint().unwrap();
    let (seconds, puts) = work_beside(&own, || {
        clock.advance(WEEK);
        queue.tick().unwrap();
    });
    let made = tube.len().unwrap();
    let (_, alone) = calls_beside(&own, Duration::from_secs_f64(seconds), &|_| spin(1e-3));
    run.line(&what, time(seconds), format!("{made} tasks"), "–", "one each");
    felt(run, &what, &puts, (SPINNING, &alone), "–");
}
