//! The workloads, and who takes part in each. Durable peers stand only beside durable ones.

use crate::Plan;
use crate::peers::{self, Peer};

pub struct Row {
    /// The table that it is a column of.
    pub section: &'static str,
    pub column: String,
    pub workload: &'static str,
    pub flags: Vec<String>,
    pub threads: usize,
    names: Vec<&'static str>,
    /// Those of them that take part in the first round only.
    pub once: &'static [&'static str],
    /// Who the others are set against.
    pub twin: Option<&'static str>,
    pub figures: &'static [Figure],
}

/// What is read off a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    Rate,
    P50,
    P99,
    Seconds,
    Memory,
    /// Of it what is not a mapped file, which the system can take back.
    Anonymous,
    /// Written to the device by all processes: the least of all rounds is the peer's own.
    BytesPerOp,
    /// The time of one task.
    Cost,
    /// Of all threads, in a second.
    WakeUps,
    Processor,
    /// What a process is charged for, in a second: nothing is told well from something.
    Written,
}

/// They answer once it is synced.
const DURABLE: &[&str] = &[
    "limit",
    "tubewell",
    "redb",
    "sqlite-full",
    "lmdb-sync",
    "fjall-sync",
    "effectum",
    "apalis",
    "rustqueue",
    "beanstalkd-sync",
    "redis-sync",
    "tarantool-sync",
];
/// They answer before.
const RELAXED: &[&str] = &[
    "writes",
    "tubewell-relaxed",
    "sqlite-normal",
    "lmdb-nosync",
    "lmdb-map",
    "fjall-buffered",
    "yaque",
    "beanstalkd",
    "redis",
    "tarantool",
];
/// The workers of effectum and apalis take and ack by themselves.
const WORKERS: &[&str] = &["effectum", "apalis"];
/// Neither has beanstalkd batches, nor RustQueue where it is embedded; with Redis any number of
/// commands is one.
const SINGLE: &[&str] = &["rustqueue", "beanstalkd-sync"];
/// Nothing falls due in Redis's list and yaque; effectum, apalis and beanstalkd have whole seconds,
/// and RustQueue looks once a second. redb is there because what is counted, moving and taking, is
/// not synced by any of them.
const DELAYING: &[&str] = &[
    "crossbeam",
    "tubewell-relaxed",
    "redb",
    "sqlite-normal",
    "lmdb-nosync",
    "lmdb-map",
    "fjall-buffered",
    "tarantool",
];
/// Without priorities.
const UNORDERED: &[&str] = &["yaque", "redis"];
/// Without groups, as are the others' workers.
const UNGROUPED: &[&str] = &["writes", "yaque", "beanstalkd", "redis"];
/// Their groups need a minute or more for a million and a half.
const SLOWLY_GROUPED: &[&str] = &["sqlite-normal", "lmdb-nosync", "tarantool"];
/// A hundred thousand timers take them from a quarter of a minute to more than one.
const SLOWLY_TIMED: &[&str] = &["redb", "tarantool"];

fn without(names: &[&'static str], left_out: &[&[&str]]) -> Vec<&'static str> {
    let stays = |name: &&&str| !left_out.iter().any(|list| list.contains(name));
    names.iter().filter(stays).copied().collect()
}

pub const PUTS: &str = "Durable puts";
pub const CYCLES: &str = "Durable batches and cycles";
pub const SIZES: &str = "Durable puts by payload";
pub const DEPTHS: &str = "Relaxed cycles by backlog";
pub const GROUPS: &str = "Ten busy groups and ten consumers";
pub const WAKES: &str = "Wake-up of a waiting taker by a relaxed put";
pub const TIMERS: &str = "Timers of 256 B that fall due within a second, until acked";
pub const IDLES: &str = "An open queue and a waiting taker, each second";
pub const OPENS: &str = "Opening, and memory";

impl Row {
    fn new(
        section: &'static str,
        column: impl Into<String>,
        workload: &'static str,
        names: Vec<&'static str>,
    ) -> Self {
        let (column, figures) = (column.into(), &[Figure::Rate][..]);
        let twin = Some(names[0]);
        Self {
            section,
            column,
            workload,
            flags: Vec::new(),
            threads: 1,
            names,
            once: &[],
            twin,
            figures,
        }
    }

    fn with(mut self, flag: &str, value: impl ToString) -> Self {
        self.flags.extend([flag.to_owned(), value.to_string()]);
        self
    }

    fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    fn figures(mut self, figures: &'static [Figure]) -> Self {
        self.figures = figures;
        self
    }

    fn once(mut self, names: &'static [&'static str]) -> Self {
        self.once = names;
        self
    }

    fn without_twin(mut self) -> Self {
        self.twin = None;
        self
    }

    /// What a filter is looked for in.
    pub fn name(&self) -> String {
        format!("{}, {}", self.section, self.column)
    }

    /// How the peer of this label does the row: its name, the words for its binary, the figures.
    pub fn of(&self, label: &str) -> String {
        let peers = self.peers();
        let peer = peers.iter().find(|peer| peer.label == label);
        let variant = peer.map_or("", |peer| peer.variant(self.threads));
        let flags = [&self.flags[..], &["--threads".to_owned(), self.threads.to_string()]].concat();
        let figures: Vec<_> = self.figures.iter().map(|figure| format!("{figure:?}")).collect();
        let (name, flags, figures) = (self.name(), flags.join(" "), figures.join(","));
        format!("{name}\t{variant}\t{}\t{flags}\t{figures}", self.workload)
    }

    pub fn peers(&self) -> Vec<&'static Peer> {
        self.names.iter().map(|name| peers::peer(name)).collect()
    }
}

pub fn rows(plan: &Plan) -> Vec<Row> {
    use Figure::{
        Anonymous, BytesPerOp, Cost, Memory, P50, P99, Processor, Rate, Seconds, WakeUps, Written,
    };
    let million = if plan.quick { 50_000 } else { 1_000_000 };
    let durable = || DURABLE.to_vec();
    let cycled = || without(DURABLE, &[WORKERS]);
    let ordered = || without(RELAXED, &[UNORDERED]);
    // The wake-up is no question of the store's safety: of the two LMDBs the quicker one.
    let waking = || [&["crossbeam"], &without(RELAXED, &[&["writes", "lmdb-nosync"]])[..]].concat();
    let stored = || {
        let peers = without(RELAXED, &[&["writes", "tubewell-relaxed", "lmdb-nosync"]]);
        [&["tubewell-relaxed", "redb"], &peers[..]].concat()
    };
    let mut rows = Vec::new();
    for threads in [1, 4, 16, 64] {
        let column = if threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        rows.push(Row::new(PUTS, column, "put", durable()).threads(threads));
    }
    rows.push(Row::new(CYCLES, "puts in batches of 1000", "batch", without(DURABLE, &[SINGLE])));
    let by_priority = || without(DURABLE, &[SINGLE, UNORDERED, &["redis-sync"]]);
    let row = Row::new(CYCLES, "puts in batches of 1000 of 16 priorities", "batch", by_priority());
    rows.push(row.with("--priorities", 16));
    let both = &[Rate, BytesPerOp];
    let batched = || without(DURABLE, &[WORKERS, SINGLE]);
    rows.push(Row::new(CYCLES, "cycles in batches of 1000", "batch-cycle", batched()));
    let row = Row::new(
        CYCLES,
        "cycles in batches of 1000 of 16 priorities",
        "batch-cycle",
        without(&by_priority(), &[WORKERS]),
    );
    rows.push(row.with("--priorities", 16));
    rows.push(Row::new(CYCLES, "cycles, 1 thread", "cycle", cycled()).figures(both));
    rows.push(Row::new(CYCLES, "cycles, 16 threads", "cycle", cycled()).threads(16).figures(both));
    for (bytes, column) in
        [(64, "64 B"), (256, "256 B"), (4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")]
    {
        rows.push(Row::new(SIZES, column, "put", durable()).with("--payload", bytes));
    }
    rows.push(Row::new(DEPTHS, "one priority, 0", "cycle", RELAXED.to_vec()));
    let mut depths = vec![0, 10_000, million];
    if plan.deep {
        depths.push(10_000_000);
    }
    for depth in depths {
        let column = format!("16 priorities, {}", grouped(depth));
        let row = Row::new(DEPTHS, column, "cycle", ordered()).with("--priorities", 16);
        rows.push(row.with("--backlog", depth));
    }
    let depths = if plan.quick { [1_000, 2_000, 5_000] } else { [1_000, 20_000, 150_000] };
    for depth in depths {
        let slow = if depth < depths[2] { &[][..] } else { SLOWLY_GROUPED };
        let names = without(RELAXED, &[UNGROUPED]);
        let row = Row::new(GROUPS, format!("10 × {}", grouped(depth)), "groups", names);
        let row = row.with("--backlog", depth).threads(10).once(slow);
        rows.push(row.figures(&[Cost]).without_twin());
    }
    rows.push(Row::new(WAKES, "latency", "wake", waking()).figures(&[P50, P99]));
    let many = if plan.quick { 10_000 } else { 100_000 };
    let row =
        Row::new(TIMERS, format!("{} timers, late", grouped(many)), "timers", DELAYING.to_vec());
    let row = row.with("--backlog", many).once(SLOWLY_TIMED);
    rows.push(row.figures(&[P50, P99, Seconds]));
    let row = Row::new(IDLES, "idle", "idle", waking()).figures(&[WakeUps, Processor, Written]);
    rows.push(row.without_twin());
    for (workload, column, figures) in [
        ("open", "tasks opened after a close", &[Seconds, Memory][..]),
        ("open-killed", "tasks opened after a kill", &[Seconds, Memory]),
        ("memory", "tasks just put", &[Memory, Anonymous]),
    ] {
        let column = format!("{} {column}", grouped(million));
        let row = Row::new(OPENS, column, workload, stored()).with("--backlog", million);
        rows.push(row.figures(figures).without_twin());
    }
    rows
}

/// 1 000 000.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}
