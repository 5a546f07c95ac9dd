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
    names: &'static [&'static str],
    /// Who the others are set against.
    pub twin: Option<&'static str>,
    pub figures: &'static [Figure],
}

/// What is read off a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Rate,
    P50,
    P99,
    Seconds,
    Memory,
    /// Of it what is not a mapped file, which the system can take back.
    Anonymous,
    /// To the device, by everybody: the least of all rounds is the peer's own.
    BytesPerOp,
    /// The time of one task.
    Cost,
    /// Of all threads, in a second.
    WakeUps,
    Processor,
    /// What a process is charged for, in a second: nothing is told well from something.
    Written,
}

/// Also for payloads.
const PUT: &[&str] = &[
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
/// Neither has beanstalkd batches, nor RustQueue where it is embedded; with Redis any number of
/// commands is one.
const BATCHED: &[&str] = &[
    "limit",
    "tubewell",
    "redb",
    "sqlite-full",
    "lmdb-sync",
    "fjall-sync",
    "effectum",
    "apalis",
    "redis-sync",
    "tarantool-sync",
];
const BATCHES_CYCLED: &[&str] = &[
    "limit",
    "tubewell",
    "redb",
    "sqlite-full",
    "lmdb-sync",
    "fjall-sync",
    "redis-sync",
    "tarantool-sync",
];
/// The workers of effectum and apalis take and ack by themselves.
const CYCLED: &[&str] = &[
    "limit",
    "tubewell",
    "redb",
    "sqlite-full",
    "lmdb-sync",
    "fjall-sync",
    "rustqueue",
    "beanstalkd-sync",
    "redis-sync",
    "tarantool-sync",
];
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
/// yaque and Redis's list have none.
const PRIORITIES: &[&str] = &[
    "writes",
    "tubewell-relaxed",
    "sqlite-normal",
    "lmdb-nosync",
    "lmdb-map",
    "fjall-buffered",
    "beanstalkd",
    "tarantool",
];
const WAKING: &[&str] = &[
    "crossbeam",
    "tubewell-relaxed",
    "sqlite-normal",
    "lmdb-map",
    "fjall-buffered",
    "yaque",
    "beanstalkd",
    "redis",
    "tarantool",
];
/// Nothing falls due in the stores and tarantool's queue, nor in Redis's list and yaque; effectum,
/// apalis and beanstalkd have whole seconds, and RustQueue looks once a second.
const DELAYING: &[&str] = &["crossbeam", "tubewell-relaxed"];
/// beanstalkd, Redis's list and yaque have none, nor have the others' workers.
const STRICT: &[&str] = &[
    "tubewell-relaxed",
    "sqlite-normal",
    "lmdb-nosync",
    "lmdb-map",
    "fjall-buffered",
    "tarantool",
];
/// The others need most of a minute, or longer, for a million and a half.
const STRICT_AND_QUICK: &[&str] = &["tubewell-relaxed", "lmdb-map", "fjall-buffered"];
const STORED: &[&str] = &[
    "tubewell-relaxed",
    "redb",
    "sqlite-normal",
    "lmdb-map",
    "fjall-buffered",
    "yaque",
    "beanstalkd",
    "redis",
    "tarantool",
];

pub const PUTS: &str = "Durable puts";
pub const CYCLES: &str = "Durable batches and cycles";
pub const SIZES: &str = "Durable puts by payload";
pub const DEPTHS: &str = "Relaxed cycles by backlog";
pub const GROUPS: &str = "Ten busy groups and ten consumers";
pub const WAKES: &str = "Wake-up of a waiting taker by a relaxed put";
pub const TIMERS: &str = "Timers that fall due within a second, until taken";
pub const IDLES: &str = "An open queue and a waiting taker, each second";
pub const OPENS: &str = "Opening, and memory";

impl Row {
    fn new(
        section: &'static str,
        column: impl Into<String>,
        workload: &'static str,
        names: &'static [&'static str],
    ) -> Self {
        let (column, figures) = (column.into(), &[Figure::Rate][..]);
        let twin = Some(names[0]);
        Self { section, column, workload, flags: Vec::new(), threads: 1, names, twin, figures }
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

    fn without_twin(mut self) -> Self {
        self.twin = None;
        self
    }

    /// What a filter is looked for in.
    pub fn name(&self) -> String {
        format!("{}, {}", self.section, self.column)
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
    let mut rows = Vec::new();
    for threads in [1, 4, 16, 64] {
        let column = if threads == 1 { "1 thread".into() } else { format!("{threads} threads") };
        rows.push(Row::new(PUTS, column, "put", PUT).threads(threads));
    }
    rows.push(Row::new(CYCLES, "puts in batches of 1000", "batch", BATCHED));
    let both = &[Rate, BytesPerOp];
    rows.push(Row::new(CYCLES, "cycles in batches of 1000", "batch-cycle", BATCHES_CYCLED));
    rows.push(Row::new(CYCLES, "cycles, 1 thread", "cycle", CYCLED).figures(both));
    rows.push(Row::new(CYCLES, "cycles, 16 threads", "cycle", CYCLED).threads(16).figures(both));
    for (bytes, column) in
        [(64, "64 B"), (256, "256 B"), (4 << 10, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")]
    {
        rows.push(Row::new(SIZES, column, "put", PUT).with("--payload", bytes));
    }
    rows.push(Row::new(DEPTHS, "one priority, 0", "cycle", RELAXED));
    let mut depths = vec![0, 10_000, million];
    if plan.deep {
        depths.push(10_000_000);
    }
    for depth in depths {
        let column = format!("16 priorities, {}", grouped(depth));
        let row = Row::new(DEPTHS, column, "cycle", PRIORITIES).with("--priorities", 16);
        rows.push(row.with("--backlog", depth));
    }
    let depths = if plan.quick { [1_000, 2_000, 5_000] } else { [1_000, 20_000, 150_000] };
    for depth in depths {
        let names = if depth < depths[2] || plan.deep { STRICT } else { STRICT_AND_QUICK };
        let row = Row::new(GROUPS, format!("10 × {}", grouped(depth)), "groups", names);
        rows.push(row.with("--backlog", depth).threads(10).figures(&[Cost]).without_twin());
    }
    rows.push(Row::new(WAKES, "latency", "wake", WAKING).figures(&[P50, P99]));
    let many = if plan.quick { 10_000 } else { 100_000 };
    let row = Row::new(TIMERS, format!("{} timers, late", grouped(many)), "timers", DELAYING);
    rows.push(row.with("--backlog", many).figures(&[P50, P99]));
    let row = Row::new(IDLES, "idle", "idle", WAKING).figures(&[WakeUps, Processor, Written]);
    rows.push(row.without_twin());
    for (workload, column, figures) in [
        ("open", "tasks opened after a close", &[Seconds, Memory][..]),
        ("open-killed", "tasks opened after a kill", &[Seconds, Memory]),
        ("memory", "tasks just put", &[Memory, Anonymous]),
    ] {
        let column = format!("{} {column}", grouped(million));
        let row = Row::new(OPENS, column, workload, STORED).with("--backlog", million);
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
