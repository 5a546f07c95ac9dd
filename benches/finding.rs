//! What it costs to look for tasks in a deep queue: `find`, `explain`, and pages of a hundred by an
//! indexed filter, among a million tasks in a hundred tubes; and whether the puts of another thread
//! wait for it.
//!
//!     cargo bench --bench finding                       two minutes
//!     cargo bench --bench finding -- explain            one kind
//!     cargo bench --bench finding -- --tasks=100000     fewer tasks
//!
//! A put is due at its own instant: what waits behind a slow call is late, and counts as late.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod common;

use common::beside::{SPINNING, calls_beside, felt, spin};
use common::{PAYLOAD, Run, share, time};
use std::hint::black_box;
use std::time::SystemTime;
use tubewell::{Consumer, Durability, Filter, Queue, TaskId, Tube, TubeOptions};

const TUBES: usize = 100;
/// Tasks of a page.
const PAGE: usize = 100;
/// Of each tube, one in so many is taken and one in so many has failed.
const ONE_IN: usize = 20;

/// Looks once; the number chooses what is looked for.
type Look = fn(&Deep, u64);

/// The queue that is searched.
struct Deep {
    queue: Queue,
    tubes: Vec<Tube>,
    ids: Vec<TaskId>,
    /// When the middle one of the failed tasks of each tube has failed.
    middles: Vec<SystemTime>,
    /// Who holds the taken tasks.
    _ada: Consumer,
}

fn main() {
    let run = Run::begin("finding");
    let tasks = run.count("tasks", 20_000, 200_000, 1_000_000) as usize;
    let kinds: [(&str, Look); 8] = [
        ("find", find),
        ("explain", explain),
        ("a page by key prefix", by_key),
        ("a page by failure group", by_failure_group),
        ("a page by owner", by_owner),
        ("a page by kind", by_kind),
        ("a page by the time of the end", by_end),
        ("a page by tag", by_tag),
    ];
    let wanted: Vec<_> = kinds.into_iter().filter(|(name, _)| run.wants(name)).collect();
    if !wanted.is_empty() {
        let deep = Deep::fill(&run, tasks);
        for (name, look) in wanted {
            measure(&run, &deep, name, look);
        }
    }
    run.end();
}

impl Deep {
    fn fill(run: &Run, tasks: usize) -> Self {
        let builder = Queue::builder().durability(Durability::Relaxed);
        let queue = builder.open(run.folder.fresh("queue")).unwrap();
        let ada = queue.consumer("ada").unwrap();
        let options = TubeOptions::default().index_kinds(true);
        let tube = |number| queue.create_tube(&format!("tube {number}"), options.clone()).unwrap();
        let tubes: Vec<Tube> = (0..TUBES).map(tube).collect();
        let mut ids = Vec::with_capacity(tasks);
        for number in 0..tasks {
            let tube = &tubes[number % TUBES];
            let key = format!("{:03}-{number}", number / TUBES / PAGE);
            let kind = kind_of(number / TUBES);
            let task = tube.task(&[7; PAYLOAD]).key(&key).kind(&kind);
            // One in ten, so that all tubes have some of each.
            let tag = tag_of(number / TUBES);
            let task = if (number / TUBES).is_multiple_of(10) { task.tag(&tag) } else { task };
            ids.push(task.put().unwrap());
        }
        let mut middles = Vec::new();
        for tube in &tubes {
            let some = tasks / TUBES / ONE_IN;
            let failing = tube.take_many(some).unwrap();
            let middle = failing[some / 2].id();
            for task in failing {
                task.fail("timeout", "no answer").unwrap();
            }
            middles.push(tube.peek(middle).unwrap().buried.unwrap());
            tube.by(&ada).take_many(some).unwrap().into_iter().for_each(|task| _ = task.detach());
        }
        queue.checkpoint().unwrap();
        Self { queue, tubes, ids, middles, _ada: ada }
    }

    fn id(&self, number: u64) -> TaskId {
        // A step that is coprime to the number of tasks: far from the one before.
        self.ids[(number as usize).wrapping_mul(7_919_191) % self.ids.len()]
    }

    fn page(&self, number: u64, filter: &Filter) {
        let page = self.tubes[tube_of(number)].search(filter, None, PAGE).unwrap();
        assert!(!page.tasks.is_empty(), "there are such tasks");
        black_box(page.tasks);
    }
}

/// The tube in which is looked.
fn tube_of(number: u64) -> usize {
    number as usize * 37 % TUBES
}

/// The kind of the tasks with these numbers, one of ten.
fn kind_of(number: usize) -> String {
    format!("kind {}", number % 10)
}

/// One of ten tags of the tasks with these numbers that have one.
fn tag_of(number: usize) -> String {
    format!("tag {}", number / 10 % 10)
}

fn find(deep: &Deep, number: u64) {
    black_box(deep.queue.find(deep.id(number)).unwrap());
}

fn explain(deep: &Deep, number: u64) {
    black_box(deep.queue.explain(deep.id(number)).unwrap());
}

fn by_key(deep: &Deep, number: u64) {
    let prefixes = (deep.ids.len() / TUBES / PAGE) as u64;
    deep.page(number, &Filter::new().key_prefix(format!("{:03}-", number * 7 % prefixes)));
}

fn by_failure_group(deep: &Deep, number: u64) {
    deep.page(number, &Filter::new().failure_group("timeout"));
}

fn by_owner(deep: &Deep, number: u64) {
    deep.page(number, &Filter::new().owner("ada"));
}

fn by_kind(deep: &Deep, number: u64) {
    deep.page(number, &Filter::new().kind(kind_of(number as usize)));
}

/// Of all tubes.
fn by_tag(deep: &Deep, number: u64) {
    let tasks = deep.queue.tagged(&tag_of(number as usize * 10)).take(PAGE);
    let page: Vec<_> = tasks.map(|task| task.unwrap()).collect();
    assert!(!page.is_empty(), "there are such tasks");
    black_box(page);
}

fn by_end(deep: &Deep, number: u64) {
    deep.page(number, &Filter::new().ended_after(deep.middles[tube_of(number)]));
}

/// Looks again and again beside a neighbour, who also puts for as long beside a thread that uses as
/// much of the processor and takes no lock: of two processors the checkpointer needs one now and
/// then.
fn measure(run: &Run, deep: &Deep, name: &str, look: Look) {
    let length = run.length(100, 1_000, 5_000);
    let own = deep.queue.tube("neighbour").unwrap();
    let (looks, puts) = calls_beside(&own, length, &|number| look(deep, number));
    let (middle, late) = (share(&looks, 0.5), share(&looks, 0.99));
    let (_, alone) = calls_beside(&own, length, &|_| spin(middle));
    own.truncate().unwrap();
    let what = format!("{name}, {} tasks in {TUBES} tubes", deep.ids.len());
    run.row(&what, common::Ratio::Cost, middle);
    run.line(
        &what,
        format!("p50 {}, p99 {}", time(middle), time(late)),
        format!("{} looks", looks.len()),
        "–",
        "≤ 1 ms",
    );
    felt(run, name, &puts, (SPINNING, &alone), "≤ 2 ms");
}
