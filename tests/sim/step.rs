//! The language of the simulation: the calls of a queue and their results. Both the library and the
//! model use it, so the generator and the judge are independent of them. Times are microseconds;
//! [`EVER`] means without end.

pub use crate::told::Told;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tubewell::{
    Backoff, ErrorKind, HistoryLimits, Lapse, Reason, Retention, ReturnTo, SettingValue, State,
    TubeKind, TubeOptions, Unique,
};

pub const EVER: u64 = u64::MAX;

/// A length of time for the library.
pub fn length(micros: u64) -> Duration {
    if micros == EVER { Duration::MAX } else { Duration::from_micros(micros) }
}

/// How long a task waits after a retry: first wait, factor, step, longest wait.
pub type Waits = (u64, u32, u64, u64);

pub fn backoff((first, factor, step, most): Waits) -> Backoff {
    let grown =
        if step > 0 { Backoff::linear(length(step)) } else { Backoff::constant(length(first)) };
    grown.factor(factor).at_most(length(most))
}

pub fn history((entries, bytes): (u32, u32)) -> HistoryLimits {
    HistoryLimits::new().entries(entries).bytes(bytes)
}

/// How many conditions there are.
pub const CONDITIONS: u8 = 2;
/// Which of the conditions a tube requires.
pub type Required = [bool; CONDITIONS as usize];

/// Their names.
pub fn required(which: Required) -> impl Iterator<Item = String> {
    (0..).zip(which).filter(|(_, is_required)| *is_required).map(|(no, _)| condition_name(no))
}

/// The names of the conditions and of the throttles of a task.
pub fn gate_names((required_by, has_throttle): (Required, bool)) -> (Vec<String>, Vec<String>) {
    let throttles = has_throttle.then(|| THROTTLE.to_owned());
    (required(required_by).collect(), throttles.into_iter().collect())
}

/// The name of the throttle.
pub const THROTTLE: &str = "api";

pub fn condition_name(condition: u8) -> String {
    format!("condition {condition}")
}

/// The options of a tube.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opts {
    pub kind: TubeKind,
    pub temporary: bool,
    pub priority: i64,
    pub ttl: Option<u64>,
    pub ttr: Option<u64>,
    pub capacity: Option<u64>,
    /// 0: no limit.
    pub max_attempts: u32,
    pub backoff: Waits,
    pub in_flight: u32,
    /// Of all tasks of the tube; 0: any number.
    pub limit: u64,
    /// Which conditions must be set.
    pub required: Required,
    /// Whether its tasks hold slots of the throttle.
    pub throttled: bool,
    pub hold: bool,
    pub spares: bool,
    /// Higher priorities are first.
    pub higher: bool,
    /// Where keys are unique, and tasks of which states count.
    pub unique: Keys,
    /// Whether there is an index of kinds.
    pub kinds: bool,
    /// How long finished tasks are kept; None: they are removed.
    pub finished: Option<Kept>,
    /// Whether they are kept without their payloads.
    pub drops: bool,
    /// How long buried tasks are kept; None: they are not removed.
    pub buried: Option<Kept>,
    /// After the ttr of a lease.
    pub grace: u64,
    pub to: To,
    pub free: bool,
    /// Entries and bytes of each history.
    pub history: (u32, u32),
    /// What its tasks have that are given none.
    pub book: Option<u8>,
    pub detail: Option<(u8, u8)>,
}

/// Where keys are unique, and tasks of which states count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    pub in_queue: bool,
    pub delayed: bool,
    pub ready: bool,
    pub taken: bool,
    pub buried: bool,
    pub done: bool,
}

impl Keys {
    pub const PLAIN: Self = Self {
        in_queue: false,
        delayed: true,
        ready: true,
        taken: true,
        buried: true,
        done: false,
    };

    fn build(self) -> Unique {
        let unique = Unique::new().in_queue(self.in_queue).delayed(self.delayed).ready(self.ready);
        unique.taken(self.taken).buried(self.buried).done(self.done)
    }

    pub fn counts(self, state: State) -> bool {
        match state {
            State::Taken => self.taken,
            State::Buried => self.buried,
            State::Done => self.done,
            State::Ready => self.ready,
            _ => self.delayed,
        }
    }
}

/// How long tasks are kept that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub age: Option<u64>,
    pub count: Option<u64>,
    pub bytes: Option<u64>,
}

impl Kept {
    fn build(self) -> Retention {
        let mut kept = Retention::new();
        if let Some(age) = self.age {
            kept = kept.age(length(age));
        }
        if let Some(count) = self.count {
            kept = kept.count(count);
        }
        self.bytes.map_or(kept, |bytes| kept.bytes(bytes))
    }
}

/// Where a lapsed task returns to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Place,
    Front,
    Back,
    After(u64),
}

impl Opts {
    pub fn plain(kind: TubeKind) -> Self {
        let general = kind == TubeKind::General;
        Self {
            kind,
            temporary: false,
            priority: 0,
            ttl: None,
            ttr: None,
            capacity: None,
            max_attempts: if general { 20 } else { 0 },
            backoff: if general { (1_000_000, 2, 0, 3_600_000_000) } else { (0, 1, 0, 0) },
            in_flight: 1,
            limit: 0,
            required: [false; 2],
            throttled: false,
            hold: false,
            spares: false,
            higher: false,
            unique: Keys::PLAIN,
            kinds: false,
            finished: None,
            drops: false,
            buried: None,
            grace: 0,
            to: To::Place,
            free: false,
            history: (100, 4096),
            book: None,
            detail: None,
        }
    }

    pub fn build(&self) -> TubeOptions {
        let mut options = TubeOptions::new(self.kind)
            .temporary(self.temporary)
            .priority(self.priority)
            .capacity(self.capacity.unwrap_or(0))
            .max_attempts(self.max_attempts)
            .backoff(backoff(self.backoff))
            .in_flight(self.in_flight)
            .limit(self.limit)
            .hold_group_while_delayed(self.hold)
            .ttl_spares_buried(self.spares)
            .higher_first(self.higher)
            .unique(self.unique.build())
            .drop_payloads(self.drops)
            .index_kinds(self.kinds)
            .history(history(self.history))
            .lapse(lapse(self.grace, self.to, self.free));
        for name in required(self.required) {
            options = options.require(&name);
        }
        if self.throttled {
            options = options.throttle(THROTTLE);
        }
        if let Some(ttl) = self.ttl {
            options = options.ttl(length(ttl));
        }
        if let Some(ttr) = self.ttr {
            options = options.ttr(length(ttr));
        }
        if let Some(kept) = self.finished {
            options = options.keep_finished(kept.build());
        }
        if let Some(kept) = self.buried {
            options = options.keep_buried(kept.build());
        }
        if let Some(book) = self.book {
            options = options.book(book_name(book));
        }
        if let Some((name, text)) = self.detail.map(detail) {
            options = options.detail(&name, &text);
        }
        options
    }
}

fn lapse(grace: u64, to: To, free: bool) -> Lapse {
    let to = match to {
        To::Place => ReturnTo::Place,
        To::Front => ReturnTo::Front,
        To::Back => ReturnTo::Back,
        To::After(delay) => ReturnTo::After(length(delay)),
    };
    Lapse::new().grace(length(grace)).to(to).charged(!free)
}

/// A setting of a tube.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tune {
    Priority(i64),
    Ttl(Option<u64>),
    Ttr(Option<u64>),
    Capacity(Option<u64>),
    /// 0: no limit.
    Attempts(u32),
    Backoff(Waits),
    History((u32, u32)),
    Finished(Option<Kept>),
    Buried(Option<Kept>),
    InFlight(u32),
    /// 0: no limit.
    Limit(u64),
    Require(Required),
    /// Whether it has the throttle.
    Throttle(bool),
    /// The grace, where it returns to, whether it is free.
    Lapse(u64, To, bool),
    Drops(bool),
    Book(Option<u8>),
    Detail(Option<(u8, u8)>),
}

impl Tune {
    /// Its name and its value for the library.
    pub fn setting(self) -> (&'static str, SettingValue) {
        match self {
            Self::Priority(priority) => ("priority", priority.into()),
            Self::Ttl(ttl) => ("ttl", ttl.map(length).into()),
            Self::Ttr(ttr) => ("ttr", ttr.map(length).into()),
            Self::Capacity(capacity) => ("capacity", capacity.into()),
            Self::Attempts(attempts) => ("max_attempts", attempts.into()),
            Self::Backoff(waits) => ("backoff", backoff(waits).into()),
            Self::History(limits) => ("history", history(limits).into()),
            Self::Finished(kept) => ("keep_finished", kept.map(Kept::build).into()),
            Self::Buried(kept) => ("keep_buried", kept.map(Kept::build).into()),
            Self::InFlight(tasks) => ("in_flight", tasks.into()),
            Self::Limit(tasks) => ("limit", tasks.into()),
            Self::Require(names) => ("require", required(names).collect::<BTreeSet<_>>().into()),
            Self::Throttle(is_throttled) => {
                let names = is_throttled.then(|| THROTTLE.to_owned());
                ("throttle", names.into_iter().collect::<BTreeSet<_>>().into())
            }
            Self::Lapse(grace, to, free) => ("lapse", lapse(grace, to, free).into()),
            Self::Drops(drops) => ("drop_payloads", drops.into()),
            Self::Book(book) => ("book", book.map(book_name).into()),
            Self::Detail(given) => {
                ("details", given.map(detail).into_iter().collect::<BTreeMap<_, _>>().into())
            }
        }
    }

    /// The setting with the value of these options.
    pub fn as_in(self, opts: &Opts) -> Self {
        match self {
            Self::Priority(_) => Self::Priority(opts.priority),
            Self::Ttl(_) => Self::Ttl(opts.ttl),
            Self::Ttr(_) => Self::Ttr(opts.ttr),
            Self::Capacity(_) => Self::Capacity(opts.capacity),
            Self::Attempts(_) => Self::Attempts(opts.max_attempts),
            Self::Backoff(_) => Self::Backoff(opts.backoff),
            Self::History(_) => Self::History(opts.history),
            Self::Finished(_) => Self::Finished(opts.finished),
            Self::Buried(_) => Self::Buried(opts.buried),
            Self::InFlight(_) => Self::InFlight(opts.in_flight),
            Self::Limit(_) => Self::Limit(opts.limit),
            Self::Require(_) => Self::Require(opts.required),
            Self::Throttle(_) => Self::Throttle(opts.throttled),
            Self::Lapse(..) => Self::Lapse(opts.grace, opts.to, opts.free),
            Self::Drops(_) => Self::Drops(opts.drops),
            Self::Book(_) => Self::Book(opts.book),
            Self::Detail(_) => Self::Detail(opts.detail),
        }
    }

    pub fn apply(self, opts: &mut Opts) {
        match self {
            Self::Priority(priority) => opts.priority = priority,
            Self::Ttl(ttl) => opts.ttl = ttl,
            Self::Ttr(ttr) => opts.ttr = ttr,
            Self::Capacity(capacity) => opts.capacity = capacity,
            Self::Attempts(attempts) => opts.max_attempts = attempts,
            Self::Backoff(waits) => opts.backoff = waits,
            Self::History(limits) => opts.history = limits,
            Self::Finished(kept) => opts.finished = kept,
            Self::Buried(kept) => opts.buried = kept,
            Self::InFlight(tasks) => opts.in_flight = tasks,
            Self::Limit(tasks) => opts.limit = tasks,
            Self::Require(names) => opts.required = names,
            Self::Throttle(is_throttled) => opts.throttled = is_throttled,
            Self::Lapse(grace, to, free) => {
                (opts.grace, opts.to, opts.free) = (grace, to, free);
            }
            Self::Drops(drops) => opts.drops = drops,
            Self::Book(book) => opts.book = book,
            Self::Detail(detail) => opts.detail = detail,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    #[default]
    Keep,
    Reject,
    Replace,
    Debounce,
}

/// The options of one put.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct New {
    pub priority: Option<i64>,
    pub delay: Option<u64>,
    /// From the present wall clock.
    pub run_in: Option<i64>,
    pub ttl: Option<u64>,
    pub ttr: Option<u64>,
    pub group: Option<u8>,
    /// The conditions that it requires itself, and whether it has the throttle.
    pub gates: Option<(Required, bool)>,
    pub key: Option<u8>,
    pub kind: Option<u8>,
    pub book: Option<u8>,
    /// The name of a detail, and its text.
    pub detail: Option<(u8, u8)>,
    pub tags: Vec<u8>,
    pub conflict: OnConflict,
    pub must_exist: bool,
    pub front: bool,
    /// Terms of its own; 0 attempts: no limit.
    pub max_attempts: Option<u32>,
    pub backoff: Option<Waits>,
    pub relaxed: bool,
}

/// The options of one update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub priority: Option<i64>,
    pub delay: Option<u64>,
    /// From the present wall clock.
    pub run_in: Option<i64>,
    pub ttl: Option<u64>,
    pub ttr: Option<u64>,
    pub max_attempts: Option<u32>,
    pub backoff: Option<Waits>,
}

impl Change {
    pub fn moves(&self) -> bool {
        self.delay.is_some() || self.run_in.is_some()
    }
}

/// The options of one release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Back {
    pub delay: Option<u64>,
    pub priority: Option<i64>,
    pub ttl: Option<u64>,
    pub to_back: bool,
}

impl Back {
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    Advance(u64),
    /// The wall clock and the boot clock advance.
    Suspend(u64),
    /// All but the wall clock advance.
    FreezeWall(u64),
    /// The wall clock is set by this much, forward or back.
    SetWall(i64),
    /// The machine starts again while the queue is closed, and so much passes on the wall clock.
    Reboot(u64),
}

/// How a queue ends before it is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Close,
    /// The process ends, the machine goes on.
    Kill,
    /// The machine loses power.
    Cut,
}

/// How the closure of a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Commit,
    /// It returns an error.
    Error,
    Panic,
}

/// The number of a put, which is in the payload; the number of a take. Assigned by the runner of
/// the steps, never twice.
pub type Serial = u64;
pub type LeaseNo = u64;

/// Added to a pick: not only existing ones.
pub const ANY: u32 = 1 << 16;

/// A call of the disk at which a thread is blocked; 1 is the next. Calls that make a file grow do
/// not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Sync(u8),
    /// A write or a sync.
    Call(u8),
    /// The sync that makes a file's growth durable. redb blocks a new reader in the meantime.
    Growth,
}

/// One step. `task` and `lease` are picks among those known so far, the latest first, so that a
/// step is valid at every place of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Put {
        tube: u8,
        new: New,
    },
    PutMany {
        tube: u8,
        count: u8,
    },
    /// Tasks with options of their own, all or none.
    Batch {
        tube: u8,
        tasks: Vec<New>,
    },
    /// The tasks of an iterator.
    PutAll {
        tube: u8,
        count: u8,
    },
    Take {
        tube: u8,
    },
    TakeMany {
        tube: u8,
        count: u8,
    },
    /// Takes from all tubes, through a handle that stays: the best priority of all, or in the order
    /// of their names.
    TakeFrom {
        best: bool,
        count: u8,
    },
    /// Sets a condition or clears it; None: it is removed.
    Condition {
        condition: u8,
        to: Option<bool>,
        is_stored: bool,
    },
    /// Sets the limit of the throttle; None: it is removed. It lets all tasks of a script through:
    /// when a sweep leaves the slots of a truncated tube is not foreseen.
    Throttle {
        limit: Option<u64>,
    },
    /// Takes the slots of the throttle away from all tasks that hold one.
    ReleaseSlots,
    /// Takes the first task of a group.
    TakeGroup {
        tube: u8,
        group: u8,
    },
    Claim {
        tube: u8,
        task: u32,
    },
    Ack {
        lease: u32,
    },
    /// With a result.
    AckWith {
        lease: u32,
    },
    AckMany {
        leases: Vec<u32>,
    },
    Release {
        lease: u32,
        back: Back,
    },
    Retry {
        lease: u32,
        after: Option<u64>,
        /// In a failure group.
        grouped: bool,
    },
    Bury {
        lease: u32,
        priority: Option<i64>,
    },
    Fail {
        lease: u32,
    },
    Trash {
        lease: u32,
    },
    /// The task in hand goes on to a tube, perhaps with a result.
    Advance {
        lease: u32,
        to: u8,
        delay: Option<u64>,
        with_result: bool,
    },
    Touch {
        lease: u32,
        by: u64,
    },
    Renew {
        lease: u32,
    },
    RenewFor {
        lease: u32,
        by: u64,
    },
    /// One of the steps above on a task in hand, which brings a new payload.
    Bring {
        step: Box<Step>,
    },
    /// The guard is dropped without a verdict.
    DropGuard {
        lease: u32,
    },
    /// The guard is detached, the lease stays.
    Detach {
        lease: u32,
    },
    Kick {
        tube: u8,
        count: u64,
    },
    /// A task in any state goes to another tube, with this priority, key, group, kind, book and
    /// detail, and these tags and gates, and perhaps with a new payload.
    Move {
        tube: u8,
        task: u32,
        to: u8,
        given: Box<New>,
        brings: bool,
    },
    /// All tasks of a failure group are kicked.
    Unfail {
        tube: u8,
        group: u8,
    },
    /// All tasks of a failure group go to another tube.
    UnfailInto {
        tube: u8,
        group: u8,
        to: u8,
    },
    KickOne {
        tube: u8,
        task: u32,
    },
    /// A line in the history of the task in hand, or of any.
    Log {
        lease: u32,
    },
    LogAny {
        tube: u8,
        task: u32,
    },
    /// Adds tags to a task, or removes them.
    Tag {
        tube: u8,
        task: u32,
        tags: Vec<u8>,
        is_added: bool,
    },
    /// Tracks a task of the tube, or does so no more.
    Track {
        tube: u8,
        task: u32,
        is_on: bool,
    },
    /// The holder reports of the task in hand.
    Report {
        lease: u32,
        what: Reported,
    },
    BuryAny {
        tube: u8,
        task: u32,
    },
    TrashAny {
        tube: u8,
        task: u32,
    },
    Restore {
        tube: u8,
        task: u32,
    },
    EmptyTrash {
        tube: u8,
    },
    Delete {
        tube: u8,
        task: u32,
        /// Only in this state.
        only: Option<State>,
    },
    /// Three picks, of which some may be gone or in another tube.
    DeleteMany {
        tube: u8,
        tasks: [u32; 3],
    },
    /// Taken away from their holders, all or none.
    Timeout {
        tube: u8,
        tasks: Vec<u32>,
    },
    /// Completed or failed, without a lease.
    Finish {
        tube: u8,
        task: u32,
        how: Finish,
    },
    Update {
        tube: u8,
        task: u32,
        change: Change,
    },
    Peek {
        tube: u8,
        task: u32,
    },
    ReleaseAll {
        tube: u8,
    },
    Truncate {
        tube: u8,
    },
    Pause {
        tube: u8,
        /// None resumes it, [`EVER`] is without end.
        length: Option<u64>,
    },
    /// Pauses it, and ends all leases on its tasks in the same call.
    PauseOut {
        tube: u8,
        length: u64,
    },
    /// Sets an option of a tube, or unsets it.
    Tune {
        tube: u8,
        to: Tune,
        is_set: bool,
    },
    PeekNext {
        tube: u8,
        state: State,
    },
    /// Opens a consumer, or joins its session.
    Join {
        who: u8,
        grace: u64,
    },
    /// Takes as a consumer. The guard is detached at once, because it would keep the session open.
    TakeBy {
        who: u8,
        tube: u8,
    },
    /// The last handle is dropped.
    Leave {
        who: u8,
    },
    CloseConsumer {
        who: u8,
    },
    Resume {
        who: u8,
        tube: u8,
    },
    /// A consumer adopts the session that another one has left. [`Step::Leave`] of that one ends
    /// the adoption.
    Adopt {
        who: u8,
        of: u8,
    },
    /// The adopter takes over the leases in a tube. The guards are detached at once.
    TakeOver {
        tube: u8,
    },
    /// Ends a session, open or not, as a close does.
    Deregister {
        who: u8,
    },
    /// Kicks the tasks that were buried by a bury.
    KickWhere {
        tube: u8,
    },
    /// Writes a row of the application's own, puts, and acks what is picked.
    Transact {
        tube: u8,
        leases: Vec<u32>,
        ending: Ending,
    },
    Create {
        tube: u8,
        opts: Opts,
        if_not_exists: bool,
    },
    /// A call that waits for a task or for room, in a thread of its own.
    Wait(Wait),
    /// Sets the callback of a tube, or removes it.
    Callback {
        tube: u8,
        is_set: bool,
    },
    DropTube {
        tube: u8,
        force: bool,
    },
    /// Drops a tube without tasks.
    DropEmpty {
        tube: u8,
    },
    Clock(Turn),
    Tick,
    Flush,
    Checkpoint,
    /// A checkpoint in its own thread, which is blocked at this call until it may continue. The
    /// steps until then run during it.
    BeginCheckpoint {
        at: At,
    },
    EndCheckpoint,
    Compact,
    /// Everything visible is compared.
    Look,
    Reopen(End),
}

impl Step {
    /// The step without the payload that it brings.
    pub fn plain(&self) -> &Self {
        if let Self::Bring { step } = self { step } else { self }
    }

    /// Whether the delays of its tubes that have ended end before it. A step of leases alone sees
    /// taken tasks only; a line is written as one about any task is.
    pub fn sees_delays(&self) -> bool {
        self.tube().is_some()
            || matches!(
                self.plain(),
                Self::Tick
                    | Self::Look
                    | Self::TakeFrom { .. }
                    | Self::Advance { .. }
                    | Self::Log { .. }
            )
    }

    /// The tube that a step names.
    pub fn tube(&self) -> Option<u8> {
        match self {
            Self::Put { tube, .. }
            | Self::PutMany { tube, .. }
            | Self::Batch { tube, .. }
            | Self::PutAll { tube, .. }
            | Self::Take { tube }
            | Self::TakeMany { tube, .. }
            | Self::TakeGroup { tube, .. }
            | Self::Claim { tube, .. }
            | Self::Kick { tube, .. }
            | Self::Unfail { tube, .. }
            | Self::UnfailInto { tube, .. }
            | Self::Move { tube, .. }
            | Self::KickOne { tube, .. }
            | Self::BuryAny { tube, .. }
            | Self::LogAny { tube, .. }
            | Self::Tag { tube, .. }
            | Self::Track { tube, .. }
            | Self::TrashAny { tube, .. }
            | Self::Restore { tube, .. }
            | Self::EmptyTrash { tube }
            | Self::Delete { tube, .. }
            | Self::DeleteMany { tube, .. }
            | Self::Timeout { tube, .. }
            | Self::Finish { tube, .. }
            | Self::Update { tube, .. }
            | Self::Peek { tube, .. }
            | Self::PeekNext { tube, .. }
            | Self::TakeBy { tube, .. }
            | Self::Resume { tube, .. }
            | Self::TakeOver { tube }
            | Self::KickWhere { tube }
            | Self::Transact { tube, .. }
            | Self::ReleaseAll { tube }
            | Self::Truncate { tube }
            | Self::Pause { tube, .. }
            | Self::PauseOut { tube, .. }
            | Self::Tune { tube, .. }
            | Self::DropTube { tube, .. }
            | Self::Wait(Wait { tube, .. })
            | Self::DropEmpty { tube } => Some(*tube),
            _ => None,
        }
    }
}

/// A step with its picks resolved.
#[derive(Clone, Debug, Default)]
pub struct Picked {
    pub task: Option<Serial>,
    /// Of a step over several tasks.
    pub tasks: Vec<Serial>,
    pub leases: Vec<LeaseNo>,
    /// The numbers that this step may assign, from here on.
    pub serial: Serial,
    pub lease: LeaseNo,
    /// What ends a wait, so that its runner waits for that.
    pub over: Option<Over>,
}

/// A call that waits for a time, and no longer than until a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub tube: u8,
    pub what: Awaited,
    pub length: u64,
    /// The stop was called before.
    pub is_stopped: bool,
    /// What happens once it waits. If it waits on after that, it is stopped.
    pub then: Then,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A task that it takes.
    Task,
    /// Room for this task.
    Room(New),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    Nothing,
    /// The clocks advance, and what is due is done.
    Pass(u64),
    /// A plain put into its tube.
    Put,
    /// A task of its tube is deleted.
    Delete(u32),
    /// A task of its tube goes to the trash, which takes no room.
    Trash(u32),
    /// The capacity of its tube is set.
    Capacity(Option<u64>),
}

/// What has ended a call that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Over {
    /// It did not wait.
    AtOnce,
    /// What happened once it waited.
    Then,
    /// The stop after that.
    Stop,
}

/// The result of a call that may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// How long it was going to wait, as the list of those who wait has it.
    pub left: Option<u64>,
    /// The result of what happened once it waited.
    pub meanwhile: Option<Answer>,
    pub over: Over,
    pub got: Answer,
}

/// The result of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    New,
    Existing,
    Replaced,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    pub serial: Serial,
    pub edition: Serial,
    pub attempts: u32,
    pub deliveries: u32,
    pub priority: i64,
    pub ttr: Option<u64>,
    /// Since its put.
    pub age: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Put(Serial, Found),
    PutMany(Vec<Serial>),
    Batch(Vec<(Serial, Found)>),
    Took(Vec<Hand>),
    Count(u64),
    /// How many were kicked, and which clash with a key.
    Kicked(u64, Vec<Serial>),
    /// The tasks of an `ack_many` that were no longer held.
    NotHeld(Vec<Serial>),
    /// How many were moved, which clash with a key, and whether the tube is full.
    Unfailed(u64, Vec<Serial>, bool),
    Task(Box<Seen>),
    Waited(Box<Waited>),
    /// The callback that was replaced.
    Callback(Option<Serial>),
    Nothing,
    Refused(ErrorKind),
}

/// The result that the documents state. A refusal may have several valid reasons at once, and each
/// of them is accepted.
pub type Expected = Result<Answer, Vec<ErrorKind>>;

pub fn agrees(expected: &Expected, answer: &Answer) -> bool {
    match (expected, answer) {
        (Err(kinds), Answer::Refused(kind)) => kinds.contains(kind),
        (Ok(expected), answer) => expected == answer,
        _ => false,
    }
}

/// One task, as it is visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub serial: Serial,
    /// The number of the step that brought its payload, or 0.
    pub edition: Serial,
    /// Whether its payload was not kept.
    pub stripped: bool,
    pub state: State,
    pub priority: i64,
    pub group: Option<String>,
    pub requires: Vec<String>,
    pub throttles: Vec<String>,
    pub key: Option<String>,
    pub kind: Option<String>,
    pub book: Option<String>,
    pub details: BTreeMap<String, String>,
    pub tags: Vec<String>,
    pub tracked: bool,
    pub created: u64,
    pub due: Option<u64>,
    /// None without an end, and none while it does not advance.
    pub ttl_left: Option<u64>,
    pub ttr: Option<u64>,
    pub lease_left: Option<u64>,
    pub grace_left: Option<u64>,
    pub deliveries: u32,
    pub attempts: u32,
    pub max_attempts: Option<u32>,
    pub releases: u32,
    pub buries: u32,
    pub reason: Option<Reason>,
    pub failure: Option<SeenFailure>,
    /// Whether the step before has passed a result on.
    pub passed: bool,
    /// When it was finished, in queue time.
    pub finished: Option<u64>,
    /// Whether it was finished with a result.
    pub result: bool,
    /// Its history, and how many entries of it were removed.
    pub history: Vec<Told>,
    pub dropped: u64,
    /// What was reported of it: that it is started, the last progress, the last checkpoint.
    pub started: bool,
    pub progress: Option<u8>,
    pub checkpoint: Option<u8>,
}

/// How a task is finished by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Completes,
    WithResult,
    Fails,
}

/// A report of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    Start,
    Progress(u8),
    /// So many bytes.
    Checkpoint(u8),
}

/// The last failure of a task: message, failure group, queue time, consumer.
pub type SeenFailure = (String, Option<String>, u64, Option<String>);

/// The verbs that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Put,
    Take,
    Touch,
    Ack,
    Release,
    Retry,
    Bury,
    Kick,
    Delete,
    Update,
    Delay,
    Ttl,
    Ttr,
    Stall,
    Timeout,
    Lost,
    Advance,
    Moved,
    Retention,
    Trash,
    Restore,
}

pub const CALLS: usize = 21;

/// One tube, as it is visible: its tasks in the order of takes within each state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenTube {
    pub tube: u8,
    pub options: TubeOptions,
    /// How long a pause still lasts; [`EVER`] without end.
    pub pause: Option<u64>,
    pub tasks: Vec<Seen>,
    /// The consumers that hold tasks, or whose sessions held them.
    pub holders: BTreeMap<Serial, String>,
    /// None where the documents leave it open.
    pub calls: [Option<u64>; CALLS],
    pub done: Option<u64>,
}

/// Everything that is visible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    pub tubes: Vec<SeenTube>,
    /// The rows of the application's own table.
    pub own: BTreeSet<Serial>,
    /// Bytes of the payloads of all durable tubes, as the queue counts them.
    pub durable_bytes: u64,
    /// The tasks of each tag that a task has, by time then id.
    pub tagged: BTreeMap<String, Vec<Serial>>,
    /// The tags of two tasks or more, with their number, in their order.
    pub top_tags: Vec<(String, u64)>,
    /// The tracked tasks in the order of their ids, each with whether it is there.
    pub tracked: Vec<(Serial, bool)>,
    /// The conditions that are declared: whether each is set, and whether it is stored.
    pub conditions: BTreeMap<String, (bool, bool)>,
    /// The limit of the throttle, if there is one.
    pub throttle: Option<u64>,
    /// The callbacks that were not dropped, each with its tube.
    pub callbacks: BTreeSet<(u8, Serial)>,
}

/// The consumer whose session has no name, and so no rows and no grace.
pub const NAMELESS: u8 = 2;

pub fn consumer_name(who: u8) -> String {
    format!("c{who}")
}

/// What the names of all tubes begin with.
pub const TUBES: &str = "t";

/// Whether the tube of this number is made with a callback.
pub fn has_callback(tube: u8) -> bool {
    !tube.is_multiple_of(2)
}

pub fn tube_name(tube: u8) -> String {
    format!("t{tube}")
}

pub fn group_name(group: u8) -> String {
    format!("g{group}")
}

/// The failure groups that steps use in a tube.
pub fn failure_group(tube: u8, group: u8) -> String {
    match group {
        0 => "f".into(),
        1 => "r".into(),
        _ => format!("failed-retries-{}", tube_name(tube)),
    }
}

pub fn kind_name(kind: u8) -> String {
    format!("kind {kind}")
}

pub fn book_name(book: u8) -> String {
    format!("book {book}")
}

pub fn detail((name, text): (u8, u8)) -> (String, String) {
    (format!("detail {name}"), format!("text {text}"))
}

/// The tasks of each tag that a task has, and the tags of two tasks or more.
pub type Tagged<T> = (BTreeMap<String, Vec<T>>, Vec<(String, u64)>);

/// How many tags there are.
pub const TAGS: u8 = 4;

pub fn tag_name(tag: u8) -> String {
    format!("tag {tag}")
}

pub fn key_name(key: u8) -> String {
    format!("k{key}")
}

/// The payload of a put: its number, and a filler that depends on it alone.
pub fn payload(serial: Serial) -> Vec<u8> {
    payload_of(serial, 0)
}

/// The payload that the step of a number has brought to a task, or with 0 that of its put.
pub fn payload_of(serial: Serial, edition: Serial) -> Vec<u8> {
    let number = if edition == 0 { serial } else { edition };
    let mut rng = crate::script::Rng::new(number ^ 0x5eed);
    let len = match rng.below(64) {
        0..=3 => 0,
        4..=7 => 900,
        8..=11 => 5000,
        // In turns: three pieces, of which one fills the largest page.
        12 => 70_000,
        _ => rng.below(60) as usize,
    };
    let mut bytes = (edition << 32 | serial).to_be_bytes().to_vec();
    bytes.extend((0..len).map(|at| (number as u8).wrapping_add(at as u8)));
    bytes
}

/// What a step of the task's work passes on.
pub fn result_of(serial: Serial) -> Vec<u8> {
    payload(serial ^ 0xa).into_iter().take(2000).collect()
}

/// The numbers in a payload, if every byte is as it was put.
pub fn numbers_of(bytes: &[u8]) -> Option<(Serial, Serial)> {
    let head: [u8; 8] = bytes.get(..8)?.try_into().ok()?;
    let head = u64::from_be_bytes(head);
    let (serial, edition) = (head & u64::from(u32::MAX), head >> 32);
    (payload_of(serial, edition) == bytes).then_some((serial, edition))
}
