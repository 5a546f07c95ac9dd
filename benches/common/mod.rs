//! What the benches share: how long they may take, a folder on a real disk, the twins that
//! stand beside every figure, and the table of ratios at the end.
//!
//! A figure is never compared with one from another run or another machine: ours and its twin take
//! turns within each sample. Nothing here is ever asserted, a slow machine is not a bug.

// Each bench uses a part of it.
#![allow(dead_code)]

pub(crate) mod beside;
pub(crate) mod os;
pub(crate) mod twins;

use criterion::{Criterion, SamplingMode};
use std::cell::RefCell;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of every payload.
pub(crate) const PAYLOAD: usize = 256;

/// How much time there is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Everything once and small, as under `cargo test --benches`.
    Test,
    /// `--quick`: at most two minutes.
    Quick,
    /// `cargo bench`.
    Full,
}

impl Scale {
    pub(crate) fn pick<T>(self, test: T, quick: T, full: T) -> T {
        match self {
            Self::Test => test,
            Self::Quick => quick,
            Self::Full => full,
        }
    }

    /// How many turns of a pair are measured.
    fn turns(self) -> usize {
        self.pick(10, 10, 20)
    }
}

/// Set by `benches/against`, which sets two builds against each other: `list` prints what the
/// command line can ask for, `full` and `quick` measure one part without its twins and print a line
/// for each row, tab separated: the name, `more` or `less` for what is better, and the value.
const ROWS: &str = "TUBEWELL_BENCH_ROWS";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    List,
    Quick,
    Full,
}

impl Rows {
    fn asked() -> Option<Self> {
        match std::env::var(ROWS).ok()?.as_str() {
            "list" => Some(Self::List),
            "quick" => Some(Self::Quick),
            _ => Some(Self::Full),
        }
    }
}

/// A run of one bench: criterion, and the table that grows beside it.
pub(crate) struct Run {
    pub(crate) scale: Scale,
    pub(crate) folder: Folder,
    rows: Option<Rows>,
    filters: Vec<String>,
    criterion: RefCell<Criterion>,
    lines: RefCell<Vec<Line>>,
}

struct Line {
    what: String,
    ours: String,
    beside: String,
    ratio: String,
    reach: &'static str,
}

impl Run {
    /// Reads the command line: `--quick`, and words that choose figures by a part of their name.
    pub(crate) fn begin(bench: &str) -> Self {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let rows = Rows::asked();
        let scale = match (rows, has("--bench") && !has("--test"), has("--quick")) {
            (Some(Rows::Full), _, _) => Scale::Quick,
            (Some(_), _, _) | (_, false, _) => Scale::Test,
            (_, true, true) => Scale::Quick,
            (_, true, false) => Scale::Full,
        };
        let filters = args.into_iter().filter(|arg| !arg.starts_with('-')).collect();
        // Criterion's own --quick stops at the first two samples that agree; a checkpoint in one of
        // them would then be the whole figure. So it is not told.
        let criterion = Criterion::default()
            .without_plots()
            .sample_size(scale.turns())
            .warm_up_time(Duration::from_millis(scale.pick(1, 300, 1000)))
            .measurement_time(Duration::from_millis(scale.pick(1, 1000, 4000)));
        // What the bench before has written would be on its way to the disk beside this one.
        let _ = std::process::Command::new("sync").status();
        let folder = Folder::new(bench);
        let (criterion, lines) = (RefCell::new(criterion), RefCell::default());
        Self { scale, folder, rows, filters, criterion, lines }
    }

    /// Whether the command line asks for a part.
    pub(crate) fn wants(&self, part: &str) -> bool {
        match self.rows {
            Some(Rows::List) => {
                println!("{part}");
                false
            }
            Some(_) => self.filters.iter().any(|filter| part == filter),
            None => {
                let chosen = |filter: &String| part.contains(filter.as_str());
                self.filters.is_empty() || self.filters.iter().any(chosen)
            }
        }
    }

    /// A number that the command line may set: `--name=N`.
    pub(crate) fn count(&self, name: &str, test: u64, quick: u64, full: u64) -> u64 {
        let flag = format!("--{name}=");
        let given = std::env::args().find_map(|arg| arg.strip_prefix(&flag)?.parse().ok());
        given.unwrap_or_else(|| self.scale.pick(test, quick, full))
    }

    /// Whether another build is what stands beside this one, so that twins are left out.
    pub(crate) fn alone(&self) -> bool {
        self.rows.is_some()
    }

    /// How long a part is measured that has no pairs.
    pub(crate) fn length(&self, test: u64, quick: u64, full: u64) -> Duration {
        Duration::from_millis(match self.rows {
            Some(Rows::Quick) => 300.min(quick),
            _ => self.scale.pick(test, quick, full),
        })
    }

    /// One row of `benches/against`.
    pub(crate) fn row(&self, what: &str, ratio: Ratio, value: f64) {
        let better = match ratio {
            Ratio::Rate => "more",
            Ratio::Cost => "less",
        };
        if self.alone() {
            println!("{what}\t{better}\t{value}");
        }
    }

    /// Measures one iteration of ours beside one of its twin. Both are given a number of iterations
    /// and answer the time that counts.
    pub(crate) fn pair(
        &self,
        figure: &Figure<'_>,
        mut ours: impl FnMut(u64) -> Duration,
        mut twin: impl FnMut(u64) -> Duration,
    ) {
        if self.alone() {
            return self.row(figure.what, Ratio::Rate, figure.of * self.rate(&mut ours));
        }
        let mut samples: Vec<(u64, Duration, Duration)> = Vec::new();
        let mut measure = |iterations: u64| {
            // The second finds the caches and the disk as the first left them.
            let (mine, its) = if samples.len().is_multiple_of(2) {
                let its = twin(iterations);
                (ours(iterations), its)
            } else {
                let mine = ours(iterations);
                (mine, twin(iterations))
            };
            samples.push((iterations, mine, its));
            mine
        };
        if self.scale == Scale::Test {
            measure(1);
        } else {
            let mut criterion = self.criterion.borrow_mut();
            let mut group = criterion.benchmark_group("tubewell");
            group.sampling_mode(SamplingMode::Flat);
            group.bench_function(figure.what, |bencher| bencher.iter_custom(&mut measure));
            group.finish();
        }
        // Before them stands the warm-up, whose turns grow longer and longer.
        samples.drain(..samples.len().saturating_sub(self.scale.turns()));
        // The turn in the middle counts: a second in which the machine stands still falls on one of
        // the two alone. What the mean of all turns says stands beside it.
        let mine = Turns::new(samples.iter().map(|(count, mine, _)| (*count, *mine)), figure.of);
        let its = Turns::new(samples.iter().map(|(count, _, its)| (*count, *its)), figure.twin_of);
        let ratio = |mine: f64, its: f64| match figure.ratio {
            Ratio::Rate => its / mine,
            Ratio::Cost => mine / its,
        };
        let (middle, mean) = (ratio(mine.middle, its.middle), ratio(mine.mean, its.mean));
        self.line(
            figure.what,
            each(mine.middle),
            format!("{} {}", figure.twin, each(its.middle)),
            format!("{middle:.2} (mean {mean:.2})"),
            figure.reach,
        );
    }

    /// Iterations a second, those of the warm-up left out.
    fn rate(&self, mut ours: impl FnMut(u64) -> Duration) -> f64 {
        let length = self.length(1, 1000, 1000);
        let turn = |length: Duration, ours: &mut dyn FnMut(u64) -> Duration| {
            let (mut count, mut block, mut spent) = (0, 1, Duration::ZERO);
            while spent < length {
                let took = ours(block);
                (count, spent) = (count + block, spent + took);
                // Blocks of a twentieth: what goes on between them is not timed, and takes time.
                if took < length / 20 {
                    block *= 2;
                }
            }
            count as f64 / spent.as_secs_f64()
        };
        turn(length / 5, &mut ours);
        turn(length, &mut ours)
    }

    /// Adds a line to the table.
    pub(crate) fn line(
        &self,
        what: impl Display,
        ours: impl Display,
        beside: impl Display,
        ratio: impl Display,
        reach: &'static str,
    ) {
        let line = Line {
            what: what.to_string(),
            ours: ours.to_string(),
            beside: beside.to_string(),
            ratio: ratio.to_string(),
            reach,
        };
        if self.alone() {
            return;
        }
        eprintln!("  {}: {}; {}; {} ({reach})", line.what, line.ours, line.beside, line.ratio);
        self.lines.borrow_mut().push(line);
    }

    /// Prints the table, in a form that the README can take over.
    pub(crate) fn end(self) {
        if self.alone() {
            return;
        }
        println!("\n{}\n", os::machine(self.folder.path()));
        println!("| what | tubewell | beside it | ratio | reach |");
        println!("|---|---|---|---|---|");
        for Line { what, ours, beside, ratio, reach } in self.lines.borrow().iter() {
            println!("| {what} | {ours} | {beside} | {ratio} | {reach} |");
        }
    }
}

/// Seconds of one task, over the turns of one side.
struct Turns {
    middle: f64,
    mean: f64,
}

impl Turns {
    /// From iterations and their time; each iteration is of so many tasks.
    fn new(turns: impl Iterator<Item = (u64, Duration)> + Clone, of: f64) -> Self {
        let each = |(count, time): (u64, Duration)| time.as_secs_f64() / (count as f64 * of);
        let sum =
            turns.clone().fold((0, Duration::ZERO), |sum, turn| (sum.0 + turn.0, sum.1 + turn.1));
        let mut turns: Vec<f64> = turns.map(each).collect();
        turns.sort_unstable_by(f64::total_cmp);
        Self { middle: share(&turns, 0.5), mean: each(sum) }
    }
}

/// What one pair is called and how its two numbers become one.
pub(crate) struct Figure<'a> {
    pub(crate) what: &'a str,
    pub(crate) twin: &'a str,
    /// Tasks of one iteration, ours and the twin's.
    pub(crate) of: f64,
    pub(crate) twin_of: f64,
    pub(crate) ratio: Ratio,
    pub(crate) reach: &'static str,
}

/// Which way the ratio is read.
#[derive(Clone, Copy)]
pub(crate) enum Ratio {
    /// Our rate over the twin's: more is better.
    Rate,
    /// Our time over the twin's: less is better.
    Cost,
}

/// A figure of one task an iteration.
pub(crate) fn figure<'a>(
    what: &'a str,
    twin: &'a str,
    ratio: Ratio,
    reach: &'static str,
) -> Figure<'a> {
    Figure { what, twin, of: 1.0, twin_of: 1.0, ratio, reach }
}

/// A time, and the rate that it is.
pub(crate) fn each(seconds: f64) -> String {
    format!("{} ({:.0}/s)", time(seconds), 1.0 / seconds)
}

pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 10e-6 => format!("{:.2} µs", s * 1e6),
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Sleeps until the call of this number is due, of so many a second, and returns from when it
/// counts: from its due time if it is late already. How much too late a sleep comes back is no
/// call's.
pub(crate) fn paced(began: Instant, number: u64, rate: f64) -> Instant {
    let due = began + Duration::from_secs_f64(number as f64 / rate);
    let early = due.saturating_duration_since(Instant::now());
    if early.is_zero() {
        return due;
    }
    std::thread::sleep(early);
    Instant::now()
}

pub(crate) fn sorted(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times
}

/// The value below which this share of a sorted list lies.
pub(crate) fn share(sorted: &[f64], share: f64) -> f64 {
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// A folder of the build's own target folder, which lies on a real disk where a system's temporary
/// folder may lie in memory. Removed with everything in it.
pub(crate) struct Folder {
    path: PathBuf,
    next: AtomicU64,
}

impl Folder {
    fn new(bench: &str) -> Self {
        let name = format!("bench-{bench}-{}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self { path, next: AtomicU64::new(0) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it where nothing stands yet.
    pub(crate) fn fresh(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}-{}", self.next.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
