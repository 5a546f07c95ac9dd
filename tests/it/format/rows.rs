//! The rows of a queue: their keys and their values, each to its last byte.

use super::base::Counts;
use super::bytes::{Bytes, Field, Read, ensure};
use std::collections::BTreeMap;

/// Values by their keys.
pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) priority: i64,
    pub(crate) order: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Meta,
    Name(String),
    Tube(u32),
    Work {
        kind: u8,
        run: u32,
        id: u64,
        /// Of the payload; 1 has none in the key.
        generation: u32,
    },
    Consumer(u32),
    ConsumerName(String),
    Position(u32, u64),
    Ready(u32, Place, u64),
    Line(u32, String, Place, u64),
    OpenHead(u32, Place, u64),
    /// Run and gate, place and id.
    ClosedHead(u32, String, Place, u64),
    Group(u32, String),
    Delayed(u32, u64),
    Taken(u32, u64),
    Buried(u32, Place, u64),
    Trashed(u32, Place, u64),
    TrashedTime(u32, u64, u64),
    Due {
        run: u32,
        what: u8,
        when: u64,
        id: u64,
    },
    /// Whether the task counts for the key.
    Keyed(u32, bool, String, u64),
    /// The same in the whole queue.
    OfQueue(String, bool, u64),
    OfKind(u32, String, u64),
    OwnerLease(u32, u32, u64),
    BuriedTime(u32, u64, u64),
    BuriedGroup(u32, String, u64, u64),
    FailureGroup(u32, String),
    Done(u32, u64),
    DoneTime(u32, u64, u64),
    /// The tag of the state whose bytes are kept there.
    Kept(u32, u8),
    /// The id of a task that came from another tube.
    Moved(u64),
    /// Id and number of an entry of a history.
    History(u64, u32),
    /// Id and part of what was reported of a task.
    Report(u64, u8),
    /// Number of the tube, or 0, and name of a setting.
    Setting(u32, String),
    /// Run and day of statistics.
    Day(u32, u32),
    Schedule(String),
    Firing(String),
    Fire {
        tube: u32,
        clock: u8,
        when: u64,
        name: String,
    },
    /// The id of a tracked task.
    Tracked(u64),
    Condition(String),
    Throttle(String),
    /// Run of the throttle, id and number of the tube.
    Slot(u32, u64, u64),
    /// The id of a task with tags.
    TaskTags(u64),
    /// Tag, time and id.
    Tagged(String, u64, u64),
    TaggedCount(String),
    /// How many tasks have the tag, less than the highest number, and the tag.
    TopTagged(u64, String),
    /// The row of a put; of a fresh task if that is true.
    Task(u32, bool, Place, u64),
    Failed(String, u64, u32, u64),
    Piece {
        id: u64,
        generation: u32,
        number: u32,
    },
    Blocked(u32, u64),
    HeldTime(u32, u64, u64),
    /// The earlier and the later task, whether it is met, and whether it is the earlier one's row.
    Edge {
        earlier: u64,
        later: u64,
        met: bool,
        of_earlier: bool,
    },
}

/// A place in a key that is followed by an id and the end.
fn place_and_id(bytes: &mut Bytes<'_>) -> Read<(Place, u64)> {
    let priority = (bytes.u64()? ^ 1 << 63) as i64;
    let long = bytes.0.len() == 24;
    let order = bytes.take(if long { 16 } else { 8 })?.to_vec();
    Ok((Place { priority, order }, bytes.u64()?))
}

/// A place in a value.
fn place(bytes: &mut Bytes<'_>, long: bool) -> Read<Place> {
    let priority = bytes.i64()?;
    Ok(Place { priority, order: bytes.take(if long { 16 } else { 8 })?.to_vec() })
}

impl Key {
    pub(crate) fn read(key: &[u8]) -> Read<Self> {
        let mut rest = Bytes(key);
        let read = Self::behind_tag(&mut rest).and_then(|key| rest.end().map(|()| key));
        read.map_err(|wrong| format!("key {key:02x?}: {wrong}"))
    }

    fn behind_tag(rest: &mut Bytes<'_>) -> Read<Self> {
        let name = |rest: &mut Bytes<'_>| rest.string(rest.0.len());
        Ok(match rest.u8()? {
            1 => {
                ensure(rest.u8()? == 1, || "no counters".into())?;
                Self::Meta
            }
            2 => Self::Name(name(rest)?),
            3 => Self::Tube(rest.u32()?),
            4 => {
                let (kind, run, id) = (rest.u8()?, rest.u32()?, rest.u64()?);
                let later = if rest.0.is_empty() { None } else { Some(rest.u32()?) };
                let is_right =
                    later.is_none_or(|generation| [3, 4].contains(&kind) && generation > 1);
                ensure(is_right, || format!("work of kind {kind} with {later:?}"))?;
                Self::Work { kind, run, id, generation: later.unwrap_or(1) }
            }
            5 => Self::Consumer(rest.u32()?),
            6 => Self::ConsumerName(name(rest)?),
            7 => Self::Tracked(rest.u64()?),
            8 => Self::Condition(name(rest)?),
            9 => Self::Throttle(name(rest)?),
            0x20 => Self::Failed(rest.text()?, rest.u64()?, rest.u32()?, rest.u64()?),
            0x22 => Self::Piece { id: rest.u64()?, generation: rest.u32()?, number: rest.u32()? },
            0x24 => Self::Moved(rest.u64()?),
            0x2b => Self::History(rest.u64()?, rest.u32()?),
            0x2d => Self::Report(rest.u64()?, rest.u8()?),
            0x30 => {
                let (key, uncounted) = (rest.short()?, rest.u8()?);
                ensure(uncounted < 2, || format!("a key that counts {uncounted}"))?;
                Self::OfQueue(key, uncounted == 0, rest.u64()?)
            }
            0x31 => Self::Setting(rest.u32()?, name(rest)?),
            0x33 => Self::TaskTags(rest.u64()?),
            0x35 => Self::Tagged(rest.short()?, rest.u64()?, rest.u64()?),
            0x37 => Self::TaggedCount(name(rest)?),
            0x39 => Self::TopTagged(rest.u64()?, name(rest)?),
            tag @ (0x3f | 0x41) => {
                let (from, met, to) = (rest.u64()?, rest.u8()?, rest.u64()?);
                ensure(met < 2, || format!("an edge that is met {met}"))?;
                let of_earlier = tag == 0x3f;
                let (earlier, later) = if of_earlier { (from, to) } else { (to, from) };
                Self::Edge { earlier, later, met: met == 1, of_earlier }
            }
            0x3b => Self::Schedule(name(rest)?),
            0x3c => Self::Firing(name(rest)?),
            0x3d => {
                let (tube, clock, when) = (rest.u32()?, rest.u8()?, rest.u64()?);
                Self::Fire { tube, clock, when, name: name(rest)? }
            }
            tag => Self::of_run(tag, rest.u32()?, rest)?,
        })
    }

    fn of_run(tag: u8, run: u32, rest: &mut Bytes<'_>) -> Read<Self> {
        ensure(run != 0 && run < 1 << 31, || format!("run {run:#x}"))?;
        Ok(match tag {
            0x10 => Self::Position(run, rest.u64()?),
            0x11 | 0x12 | 0x14 | 0x18 | 0x1e | 0x28 => {
                let (place, id) = place_and_id(rest)?;
                match tag {
                    0x12 => Self::Ready(run, place, id),
                    0x14 => Self::OpenHead(run, place, id),
                    0x18 => Self::Buried(run, place, id),
                    0x28 => Self::Trashed(run, place, id),
                    _ => Self::Task(run, tag == 0x11, place, id),
                }
            }
            0x13 => {
                let group = rest.short()?;
                let (place, id) = place_and_id(rest)?;
                Self::Line(run, group, place, id)
            }
            0x47 => {
                let gate = rest.short()?;
                let (place, id) = place_and_id(rest)?;
                Self::ClosedHead(run, gate, place, id)
            }
            0x15 => Self::Group(run, rest.short()?),
            0x16 => Self::Delayed(run, rest.u64()?),
            0x17 => Self::Taken(run, rest.u64()?),
            0x19 => {
                let what = rest.u8()?;
                ensure((1..=4).contains(&what), || format!("what is due is {what}"))?;
                Self::Due { run, what, when: rest.u64()?, id: rest.u64()? }
            }
            0x1a | 0x2f => Self::Keyed(run, tag == 0x1a, rest.short()?, rest.u64()?),
            0x1b => Self::OwnerLease(run, rest.u32()?, rest.u64()?),
            0x1c => Self::BuriedTime(run, rest.u64()?, rest.u64()?),
            0x1f => Self::FailureGroup(run, rest.text()?),
            0x29 => Self::TrashedTime(run, rest.u64()?, rest.u64()?),
            0x1d => Self::BuriedGroup(run, rest.text()?, rest.u64()?, rest.u64()?),
            0x26 => Self::Done(run, rest.u64()?),
            0x27 => Self::DoneTime(run, rest.u64()?, rest.u64()?),
            0x2a => Self::Kept(run, rest.u8()?),
            0x44 => Self::Day(run, rest.u32()?),
            0x46 => Self::Slot(run, rest.u64()?, rest.u64()?),
            0x32 => Self::OfKind(run, rest.short()?, rest.u64()?),
            0x3e => Self::Blocked(run, rest.u64()?),
            0x43 => Self::HeldTime(run, rest.u64()?, rest.u64()?),
            tag => return Err(format!("tag {tag:#x}")),
        })
    }
}

/// Whether the keys of this tag have a run.
pub(crate) fn is_of_run(tag: u8) -> bool {
    let others = [0x2f, 0x32, 0x3e, 0x43, 0x44, 0x46, 0x47];
    (0x10..0x20).contains(&tag) || (0x26..=0x2a).contains(&tag) || others.contains(&tag)
}

/// How many rows there are of each run and tag.
pub(crate) fn counts(rows: &Rows) -> Read<Counts> {
    let mut counts = Counts::new();
    for key in rows.keys() {
        let tag = key[0];
        let run = if is_of_run(tag) { Bytes(&key[1..]).u32()? } else { 0 };
        if tag >= 0x10 {
            *counts.entry((run, tag)).or_default() += 1;
        }
    }
    Ok(counts)
}

#[derive(Debug)]
pub(crate) struct TubeRow {
    pub(crate) name: String,
    pub(crate) run: u32,
    pub(crate) void_to: u64,
    pub(crate) flags: u8,
    pub(crate) pause_end: Option<u64>,
    pub(crate) kind: u8,
    pub(crate) made_with: i64,
    pub(crate) priority: i64,
    pub(crate) ttl: u64,
    pub(crate) ttr: u64,
    pub(crate) capacity: u64,
    pub(crate) max_attempts: u32,
    pub(crate) backoff: (u64, u32, u64),
    /// Of the back-off: its step, and its jitter in percent.
    pub(crate) grows: (u64, u8),
    /// What becomes of a lapsed lease.
    pub(crate) lapse: Option<Lapse>,
    pub(crate) in_flight: u32,
    pub(crate) placement: String,
    /// Of finished and of buried tasks.
    pub(crate) kept: [Option<Kept>; 2],
    /// Entries and bytes of histories.
    pub(crate) history: Option<(u32, u32)>,
    pub(crate) book: Option<String>,
    pub(crate) details: BTreeMap<String, String>,
    /// Whether its keys are unique in the queue, and the states that count.
    pub(crate) unique: (bool, u8),
    /// Whether it keeps finished tasks without their payloads.
    pub(crate) drops: bool,
    /// Whether it has an index of kinds.
    pub(crate) kinds: bool,
    /// For how many days it keeps statistics.
    pub(crate) days: u32,
    /// `in_flight` before a change; it is in force after the one group, up to the other.
    pub(crate) groups_before: Option<(u32, [String; 2])>,
    /// Of finished and of buried tasks: those after the one time and id, up to the other, are not
    /// in the sum.
    pub(crate) unsummed: [Option<[(u64, u64); 2]>; 2],
    /// How many of its tasks may be in flight; 0: any number.
    pub(crate) limit: u64,
    /// How often they may be taken: the interval, tasks in it, and the burst.
    pub(crate) rate: Option<(u64, u32, u32)>,
    /// When the next one is due by that, in nanoseconds.
    pub(crate) pace: Option<u64>,
    /// Its hours: the offset or the zone, as a text has it, and the openings.
    pub(crate) hours: Option<(String, Vec<(u16, u16)>)>,
    /// The conditions that it requires.
    pub(crate) required: Vec<String>,
    /// Its throttles.
    pub(crate) throttles: Vec<String>,
    pub(crate) merges_into: Option<u32>,
    pub(crate) schedules: u32,
}

impl TubeRow {
    /// Whether rows are to follow a change of its options.
    pub(crate) fn is_followed(&self) -> bool {
        self.groups_before.is_some() || self.unsummed.iter().any(Option::is_some)
    }
}

/// How long a tube keeps tasks: age, count and bytes, each without a limit if it is never.
pub(crate) type Kept = [u64; 3];
/// Grace, where a task returns to, whether it is charged, and the delay.
#[derive(Debug, PartialEq)]
pub(crate) struct Lapse {
    pub(crate) grace: u64,
    pub(crate) to: u8,
    pub(crate) free: bool,
    pub(crate) delay: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct ConsumerRow {
    pub(crate) name: String,
    pub(crate) grace: u64,
    pub(crate) until: u64,
}

#[derive(Debug)]
pub(crate) struct TaskRow {
    pub(crate) created: u64,
    pub(crate) expires: Option<u64>,
    pub(crate) ttr: Option<u64>,
    pub(crate) group: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) extension: bool,
    pub(crate) kind: Option<String>,
    pub(crate) book: Option<String>,
    pub(crate) details: BTreeMap<String, String>,
    /// The result of the step before.
    pub(crate) passed: Option<Vec<u8>>,
    /// Whether it came from another tube.
    pub(crate) moved: bool,
    /// Counts the replacements of the payload.
    pub(crate) replaced: u32,
    /// Whether the payload was not kept.
    pub(crate) dropped: bool,
    /// The nominal time and the schedule.
    pub(crate) spawned: Option<(u64, String)>,
    /// The payload, or what is said of it if it stands in pieces.
    pub(crate) payload: Result<Vec<u8>, Apart>,
}

/// A payload in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Apart {
    pub(crate) length: u64,
    pub(crate) generation: u32,
    pub(crate) hash: u64,
}

/// Pieces that work is about: their generation, and the numbers of the first and behind the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PieceWork {
    pub(crate) generation: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

pub(crate) struct PositionRow {
    pub(crate) home: Place,
    pub(crate) moved: Option<Place>,
}

impl PositionRow {
    /// The bytes of the row.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let long = self.home.order.len() == 16;
        let mut bytes = vec![u8::from(long) + 2 * u8::from(self.moved.is_some())];
        for place in [&self.home].into_iter().chain(&self.moved) {
            bytes.extend(place.priority.to_be_bytes());
            bytes.extend(&place.order);
        }
        bytes
    }
}

#[derive(Debug, PartialEq, Clone)]
pub(crate) enum Reason {
    Buried(String),
    Failed(String, String),
    Exhausted(String, String),
    Undecodable(String),
    Trashed(String),
}

impl Reason {
    /// The failure group that the task stands in.
    pub(crate) fn failure_group(&self) -> Option<&str> {
        match self {
            Self::Failed(group, _) => Some(group),
            Self::Exhausted(group, _) => Some(&**group).filter(|group| !group.is_empty()),
            Self::Buried(_) | Self::Undecodable(_) | Self::Trashed(_) => None,
        }
    }
}

/// Of the last failure, besides its message.
#[derive(Debug, PartialEq, Clone)]
pub(crate) struct Failure {
    pub(crate) when: u64,
    pub(crate) by: String,
    pub(crate) group: String,
}

#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) deliveries: u32,
    pub(crate) attempts: u32,
    pub(crate) releases: u32,
    pub(crate) buries: u32,
    pub(crate) expires: Option<u64>,
    pub(crate) ttr: Option<u64>,
    pub(crate) last_error: Option<String>,
    pub(crate) home: Option<Place>,
    pub(crate) failure: Option<Failure>,
    /// When the ttr of a stalled lease ended.
    pub(crate) lapsed: Option<u64>,
    /// Its own place, while it stands ahead of every priority.
    pub(crate) own: Option<Place>,
    /// The task's own limit of attempts; 0 is none.
    pub(crate) max_attempts: Option<u32>,
    /// Until when it is kept by its age after its end.
    pub(crate) kept_until: Option<u64>,
    /// The numbers of the first and behind the last entry of its history, and the bytes of all.
    pub(crate) history: Option<[u32; 3]>,
    /// Which parts of reports it has, a bit each.
    pub(crate) reports: u8,
    /// Whether it has tags.
    pub(crate) tagged: bool,
    /// How many open and met edges it has to later tasks, and to earlier ones.
    pub(crate) edges: [[u32; 2]; 2],
    /// Since when it is ready.
    pub(crate) ready_since: Option<u64>,
    /// The runs of the throttles of which it holds a slot.
    pub(crate) slots: Vec<u32>,
    /// The name of a line of gates.
    pub(crate) gates: Option<String>,
    /// Whether the row of the put is among the fresh ones.
    pub(crate) fresh: bool,
}

#[derive(Debug)]
pub(crate) struct Away {
    pub(crate) group: Option<String>,
    pub(crate) keyed: bool,
    pub(crate) apart: bool,
    pub(crate) extended: bool,
    pub(crate) place: Option<Place>,
}

const AWAY: u8 = 4 | 8 | 16 | 32 | 64 | 128;

#[derive(Debug)]
pub(crate) enum State {
    Ready,
    Delayed {
        by_wall: bool,
        holds: bool,
        due: u64,
        bytes: u32,
        away: Away,
    },
    Blocked {
        since: u64,
        /// And whether by the wall clock.
        due: Option<(bool, u64)>,
        bytes: u32,
        away: Away,
    },
    Taken {
        token: u64,
        since: u64,
        bytes: u32,
        holder: Option<u32>,
        deadline: Option<u64>,
        away: Away,
    },
    Buried {
        time: u64,
        reason: Reason,
    },
    Done {
        /// Whether rows lead from its key to it.
        keyed: bool,
        time: u64,
        bytes: u32,
        result: Option<Vec<u8>>,
        away: Away,
    },
}

impl State {
    pub(crate) fn is_trashed(&self) -> bool {
        matches!(self, Self::Buried { reason: Reason::Trashed(_), .. })
    }

    /// Its bit among the states that count for a key.
    pub(crate) fn bit(&self) -> u8 {
        match self {
            Self::Delayed { .. } | Self::Blocked { .. } => 1,
            Self::Ready => 2,
            Self::Taken { .. } => 4,
            Self::Buried { .. } => 8,
            Self::Done { .. } => 16,
        }
    }
}

impl Bytes<'_> {
    /// Up to the end: the bytes of the table, then perhaps an extension section.
    fn extended_end(&mut self) -> Read<()> {
        if !self.0.is_empty() {
            let fields = self.section()?;
            ensure(!fields.is_empty(), || "an empty extension".into())?;
        }
        self.end()
    }

    /// Last numbers given: of tubes, of runs, of consumers.
    pub(crate) fn counters(mut self) -> Read<[u32; 3]> {
        let counters = [self.u32()?, self.u32()?, self.u32()?];
        self.extended_end()?;
        Ok(counters)
    }

    pub(crate) fn tube(mut self) -> Read<TubeRow> {
        let mut row = TubeRow {
            name: self.short()?,
            run: self.u32()?,
            void_to: self.u64()?,
            flags: self.flags(63)?,
            kind: self.u8()?,
            made_with: self.i64()?,
            priority: self.i64()?,
            ttl: self.u64()?,
            ttr: self.u64()?,
            capacity: self.u64()?,
            max_attempts: self.u32()?,
            backoff: (self.u64()?, self.u32()?, self.u64()?),
            in_flight: self.u32()?,
            placement: self.short()?,
            pause_end: None,
            grows: (0, 0),
            kept: [None, None],
            history: None,
            book: None,
            details: BTreeMap::new(),
            unique: (false, 15),
            drops: false,
            kinds: false,
            days: 0,
            groups_before: None,
            unsummed: [None, None],
            limit: 0,
            rate: None,
            pace: None,
            hours: None,
            required: Vec::new(),
            throttles: Vec::new(),
            merges_into: None,
            schedules: 0,
            lapse: None,
        };
        ensure(row.flags & 17 != 16, || "the end of a pause that is none".into())?;
        row.pause_end = self.when(row.flags & 16 != 0, Self::u64)?;
        ensure(row.pause_end != Some(u64::MAX), || "a pause that ends never".into())?;
        if !self.0.is_empty() {
            let fields = self.section()?;
            ensure(!fields.is_empty(), || "an empty extension".into())?;
            for (number, bytes) in &fields {
                match number {
                    1 => {
                        row.grows = Bytes(bytes).growth()?;
                        ensure(row.grows != (0, 0), || "a growth of nothing".into())?;
                    }
                    2 => row.lapse = Some(Bytes(bytes).lapse()?),
                    5 => {
                        let mut rest = Bytes(bytes);
                        row.history = Some((rest.u32()?, rest.u32()?));
                        rest.end()?;
                    }
                    6 => row.book = Some(Bytes(bytes).book()?),
                    7 => row.details = Bytes(bytes).details()?,
                    8 => {
                        let mut rest = Bytes(bytes);
                        row.unique = (rest.flags(1)? == 1, rest.flags(31)?);
                        rest.end()?;
                        ensure(row.unique != (false, 15), || "keys as without the field".into())?;
                    }
                    9 => row.drops = Bytes(bytes).end().map(|()| true)?,
                    10 => row.kinds = Bytes(bytes).end().map(|()| true)?,
                    11 => row.groups_before = Some(Bytes(bytes).groups_before()?),
                    12 | 13 => {
                        let mut rest = Bytes(bytes);
                        let to = (rest.u64()?, rest.u64()?);
                        let until = (rest.u64()?, rest.u64()?);
                        row.unsummed[usize::from(number - 12)] = Some([to, until]);
                        rest.end()?;
                    }
                    14 => {
                        let mut rest = Bytes(bytes);
                        row.days = rest.u32()?;
                        rest.end()?;
                        ensure((1..=3660).contains(&row.days), || "days".into())?;
                    }
                    16 => {
                        let mut rest = Bytes(bytes);
                        row.limit = rest.u64()?;
                        rest.end()?;
                        ensure(row.limit > 0, || "a limit of nothing".into())?;
                    }
                    17 => {
                        let rate = Bytes(bytes).rate()?;
                        row.rate = Some(rate);
                    }
                    18 => {
                        let mut rest = Bytes(bytes);
                        let high = if bytes.len() == 16 { rest.u64()? } else { 0 };
                        ensure(bytes.len() == 8 || high > 0, || "a long pace".into())?;
                        row.pace = Some(rest.u64()?).filter(|_| high == 0);
                        rest.end()?;
                        ensure(row.pace != Some(0), || "a pace of nothing".into())?;
                    }
                    19 => {
                        row.required = Bytes(bytes).names()?;
                        ensure(!row.required.is_empty(), || "no condition".into())?;
                    }
                    20 => row.hours = Some(Bytes(bytes).hours()?),
                    21 => {
                        row.throttles = Bytes(bytes).names()?;
                        let count = row.throttles.len();
                        ensure((1..=8).contains(&count), || format!("{count} throttles"))?;
                    }
                    22 => {
                        let mut rest = Bytes(bytes);
                        row.merges_into = Some(rest.u32()?);
                        rest.end()?;
                    }
                    23 => {
                        let mut rest = Bytes(bytes);
                        row.schedules = rest.u32()?;
                        rest.end()?;
                        ensure(row.schedules > 0, || "a count of no schedules".into())?;
                    }
                    3 | 4 => row.kept[usize::from(number - 3)] = Some(Bytes(bytes).kept()?),
                    _ => return Err(format!("field {number} of a tube")),
                }
            }
        }
        self.end()?;
        Ok(row)
    }

    /// How often tasks may be taken, and nothing else.
    fn rate(mut self) -> Read<(u64, u32, u32)> {
        let rate @ (per, tasks, burst) = (self.u64()?, self.u32()?, self.u32()?);
        let is_one = per > 0 && per < u64::MAX && tasks > 0 && burst > 0;
        ensure(is_one, || format!("a rate of {rate:?}"))?;
        self.end()?;
        Ok(rate)
    }

    /// Names in their order, each once, and nothing else.
    fn names(mut self) -> Read<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        while !self.0.is_empty() {
            let length = usize::from(self.u8()?);
            let name = self.string(length)?;
            let is_next = names.last().is_none_or(|last| *last < name);
            ensure(is_next && length > 0, || format!("{name:?} is not the next name"))?;
            names.push(name);
        }
        Ok(names)
    }

    /// An offset or a zone, and openings in their order, and nothing else.
    fn hours(mut self) -> Read<(String, Vec<(u16, u16)>)> {
        let place = match self.u16()?.cast_signed() {
            i16::MIN => self.short()?,
            offset => {
                ensure(offset.abs() < 1440, || format!("an offset of {offset}"))?;
                let (sign, ahead) = (if offset < 0 { '-' } else { '+' }, offset.abs());
                format!("{sign}{:02}:{:02}", ahead / 60, ahead % 60)
            }
        };
        ensure(!place.is_empty(), || "no zone".into())?;
        let mut openings: Vec<(u16, u16)> = Vec::new();
        while !self.0.is_empty() {
            let (from, to) = (self.u16()?, self.u16()?);
            let is_next = openings.last().is_none_or(|(_, last)| *last < from);
            let is_one = is_next && from < to && to <= 7 * 1440;
            ensure(is_one, || format!("an opening from {from} to {to}"))?;
            openings.push((from, to));
        }
        ensure((1..=168).contains(&openings.len()), || "no opening, or too many".into())?;
        Ok((place, openings))
    }

    /// Run, limit and end of a throttle.
    pub(crate) fn throttle(mut self) -> Read<(u32, u64, u64)> {
        let row = (self.u32()?, self.u64()?, self.u64()?);
        ensure(row.0 != 0 && row.0 < 1 << 31, || format!("a throttle of run {}", row.0))?;
        self.extended_end()?;
        Ok(row)
    }

    /// Whether a condition is set.
    pub(crate) fn condition(mut self) -> Read<bool> {
        let is_set = self.flags(1)? == 1;
        self.extended_end()?;
        Ok(is_set)
    }

    /// A step and a jitter, and nothing else.
    fn growth(mut self) -> Read<(u64, u8)> {
        let (step, jitter) = (self.u64()?, self.u8()?);
        ensure(jitter <= 100, || format!("a jitter of {jitter} %"))?;
        self.end()?;
        Ok((step, jitter))
    }

    fn groups_before(mut self) -> Read<(u32, [String; 2])> {
        let before = self.u32()?;
        ensure(before > 0, || "no task was in flight before".into())?;
        let mut group = || self.u8().and_then(|length| self.string(usize::from(length)));
        let groups = [group()?, group()?];
        self.end()?;
        Ok((before, groups))
    }

    fn kept(mut self) -> Read<Kept> {
        let kept = [self.u64()?, self.u64()?, self.u64()?];
        self.end()?;
        Ok(kept)
    }

    /// The terms of a task's own. Returns the limit.
    fn terms(mut self) -> Read<Option<u32>> {
        let flags = self.flags(3)?;
        ensure(flags != 0, || "terms of nothing".into())?;
        let limit = self.when(flags & 1 != 0, Self::u32)?;
        if flags & 2 != 0 {
            self.backoff()?;
        }
        self.end()?;
        Ok(limit)
    }

    pub(super) fn backoff(&mut self) -> Read<()> {
        let (_first, _factor) = (self.u64()?, self.u32()?);
        let (_step, _most) = (self.u64()?, self.u64()?);
        let jitter = self.u8()?;
        ensure(jitter <= 100, || format!("a jitter of {jitter} %"))
    }

    /// The value of a setting: the number of its type, and its bytes.
    pub(crate) fn setting(mut self) -> Read<(u8, Vec<u8>)> {
        let (of, length) = (self.u8()?, usize::from(self.u16()?));
        let content = self.take(length)?;
        self.extended_end()?;
        let mut rest = Bytes(content);
        match of {
            0 => {}
            1 => _ = rest.flags(1)?,
            2 => _ = (rest.u64()?, rest.u64()?),
            3 => _ = rest.u64()?,
            4 => {
                ensure(length <= 4096, || "a long text".into())?;
                rest.string(length)?;
            }
            5 => rest.backoff()?,
            6 => {
                let (_grace, to, _free) = (rest.u64()?, rest.u8()?, rest.flags(1)?);
                ensure((1..=4).contains(&to), || format!("a return to {to}"))?;
                rest.when(to == 4, Self::u64)?;
            }
            7 => _ = rest.take(24)?,
            8 => _ = (rest.u32()?, rest.u32()?),
            9 if length == 0 => {}
            9 => {
                Bytes(content).details()?;
                rest.take(length)?;
            }
            10 => _ = rest.flags(1)?,
            11 => _ = Bytes(rest.take(16)?).rate()?,
            13 => _ = Bytes(rest.take(length)?).hours()?,
            12 => _ = Bytes(rest.take(length)?).names()?,
            of => return Err(format!("a setting of type {of}")),
        }
        rest.end()?;
        Ok((of, content.to_vec()))
    }

    fn lapse(mut self) -> Read<Lapse> {
        let (grace, to, free) = (self.u64()?, self.u8()?, self.flags(1)? == 1);
        ensure((1..=4).contains(&to), || format!("a return to {to}"))?;
        let lapse = Lapse { grace, to, free, delay: self.when(to == 4, Self::u64)? };
        let is_plain = (grace, to, free) == (0, 1, false);
        ensure(!is_plain, || "a lapse as without the field".into())?;
        self.end()?;
        Ok(lapse)
    }

    fn book(mut self) -> Read<String> {
        let length = self.0.len();
        ensure((1..256).contains(&length), || format!("a book of {length} bytes"))?;
        self.string(length)
    }

    pub(super) fn details(mut self) -> Read<BTreeMap<String, String>> {
        let mut details = BTreeMap::new();
        ensure((1..=4096).contains(&self.0.len()), || "details of no length".into())?;
        while !self.0.is_empty() {
            let (name, text) = (self.short()?, self.text()?);
            let is_last = details.last_key_value().is_none_or(|(before, _)| *before < name);
            ensure(is_last && !name.is_empty(), || format!("a detail {name:?}"))?;
            details.insert(name, text);
        }
        Ok(details)
    }

    /// One part of what was reported of a task.
    pub(crate) fn report(mut self, part: u8) -> Read<()> {
        if part == 2 {
            return ensure(self.0.len() <= 16_384, || "a long checkpoint".into());
        }
        ensure(part == 1, || format!("part {part} of a report"))?;
        let (_delivery, _started, _meta) = (self.u32()?, self.u64()?, self.short()?);
        let (progressed, percent, text) = (self.u64()?, self.u8()?, self.text()?);
        ensure(percent <= 100 && text.len() <= 1024, || "a progress".into())?;
        let is_none = percent == 0 && text.is_empty();
        ensure(progressed != u64::MAX || is_none, || "a progress of no time".into())?;
        self.extended_end()
    }

    /// The tags of a task, each with its time.
    pub(crate) fn tags(mut self) -> Read<Vec<(String, u64)>> {
        let mut tags: Vec<(String, u64)> = Vec::new();
        let (count, mut bytes) = (self.u8()?, 0);
        ensure((1..=64).contains(&count), || format!("{count} tags"))?;
        for _ in 0..count {
            let (time, tag) = (self.u64()?, self.short()?);
            let is_new = tags.iter().all(|(other, _)| *other != tag);
            ensure(is_new && !tag.is_empty(), || format!("a tag {tag:?}"))?;
            bytes += tag.len();
            tags.push((tag, time));
        }
        ensure(bytes <= 4096, || format!("{bytes} bytes of tags"))?;
        self.extended_end()?;
        Ok(tags)
    }

    /// An entry of a history.
    pub(crate) fn history(mut self) -> Read<()> {
        let event = self.u8()?;
        ensure((1..=17).contains(&event), || format!("event {event} of a history"))?;
        let (_when, attempt, held) = (self.u64()?, self.u32()?, self.u64()?);
        ensure(attempt != 0 || held == u64::MAX, || "held without an attempt".into())?;
        let (_by, _place, text) = (self.short()?, self.text()?, self.text()?);
        ensure(text.len() <= 1024, || "a long text in a history".into())?;
        self.extended_end()
    }

    /// Tube and id to go on from.
    pub(crate) fn work(mut self) -> Read<(u32, u64)> {
        let row = (self.u32()?, self.u64()?);
        self.extended_end()?;
        Ok(row)
    }

    pub(crate) fn piece_work(mut self) -> Read<PieceWork> {
        let row = PieceWork { generation: self.u32()?, from: self.u32()?, to: self.u32()? };
        self.extended_end()?;
        Ok(row)
    }

    pub(crate) fn consumer(mut self) -> Read<ConsumerRow> {
        let row = ConsumerRow { name: self.short()?, grace: self.u64()?, until: self.u64()? };
        let _void_to = self.u64()?;
        self.extended_end()?;
        Ok(row)
    }

    pub(crate) fn number(mut self) -> Read<u64> {
        let number = self.u64()?;
        self.end()?;
        Ok(number)
    }

    fn fields(&mut self, bit: bool) -> Read<Vec<Field>> {
        let fields = self.when(bit, Self::section)?;
        ensure(fields != Some(Vec::new()), || "an empty extension".into())?;
        Ok(fields.unwrap_or_default())
    }

    pub(crate) fn task(mut self) -> Read<TaskRow> {
        let flags = self.flags(31)?;
        let mut row = TaskRow {
            created: self.take(3).and_then(|_codec| self.u64())?,
            expires: self.when(flags & 16 != 0, Self::u64)?.filter(|time| *time != u64::MAX),
            ttr: self.when(flags & 16 != 0, Self::u64)?.filter(|time| *time != u64::MAX),
            group: self.when(flags & 1 != 0, Self::short)?,
            key: self.when(flags & 2 != 0, Self::short)?,
            extension: flags & 8 != 0,
            kind: None,
            book: None,
            details: BTreeMap::new(),
            passed: None,
            moved: false,
            replaced: 0,
            dropped: false,
            spawned: None,
            payload: Ok(Vec::new()),
        };
        let is_timed = row.expires.or(row.ttr).is_some();
        ensure(flags & 16 == 0 || is_timed, || "times that are never".into())?;
        for (number, bytes) in self.fields(row.extension)? {
            let wrong = || format!("field {number} of a task has {} bytes", bytes.len());
            match number {
                1 => {
                    ensure(bytes.len() < 256, wrong)?;
                    row.kind = Some(Bytes(&bytes).string(bytes.len())?);
                }
                2 => {
                    ensure(bytes.len() <= 16_384, wrong)?;
                    row.passed = Some(bytes);
                }
                3 => {
                    ensure(bytes.is_empty(), wrong)?;
                    row.moved = true;
                }
                4 => ensure(bytes.len() == 8, wrong)?,
                5 => {
                    row.replaced = Bytes(&bytes).u32()?;
                    ensure(bytes.len() == 4 && row.replaced > 0, wrong)?;
                }
                6 => row.book = Some(Bytes(&bytes).book()?),
                7 => row.details = Bytes(&bytes).details()?,
                8 => row.dropped = Bytes(&bytes).end().map(|()| true)?,
                9 => {
                    let mut rest = Bytes(&bytes);
                    row.spawned = Some((rest.u64()?, rest.string(bytes.len() - 8)?));
                    ensure((9..243).contains(&bytes.len()), wrong)?;
                }
                _ => return Err(wrong()),
            }
        }
        if flags & 4 == 0 {
            row.payload = Ok(self.0.to_vec());
        } else {
            let (length, generation, hash) = (self.u64()?, self.u32()?, self.u64()?);
            ensure(generation == row.replaced + 1, || format!("pieces of {generation}"))?;
            row.payload = Err(Apart { length, generation, hash });
            self.end()?;
        }
        Ok(row)
    }

    pub(crate) fn position(mut self) -> Read<PositionRow> {
        let flags = self.flags(3)?;
        let long = flags & 1 != 0;
        let row = PositionRow {
            home: place(&mut self, long)?,
            moved: self.when(flags & 2 != 0, |rest| place(rest, long))?,
        };
        self.end()?;
        Ok(row)
    }

    fn away(&mut self, flags: u8) -> Read<Away> {
        ensure(flags & 96 != 64, || "a length of the order without a place".into())?;
        Ok(Away {
            keyed: flags & 8 != 0,
            apart: flags & 16 != 0,
            extended: flags & 128 != 0,
            place: self.when(flags & 32 != 0, |rest| place(rest, flags & 64 != 0))?,
            group: self.when(flags & 4 != 0, Self::short)?,
        })
    }

    fn failure(mut self) -> Read<Failure> {
        let (when, by) = (self.u64()?, self.short()?);
        let group = self.string(self.0.len())?;
        Ok(Failure { when, by, group })
    }

    /// It ends the row.
    pub(crate) fn progress(mut self) -> Read<Progress> {
        let mut row = Progress::default();
        if self.0.is_empty() {
            return Ok(row);
        }
        let flags = self.flags(255)?;
        ensure(flags != 0, || "an empty progress".into())?;
        ensure(flags & 48 != 32, || "a length of the order without a home".into())?;
        if flags & 1 != 0 {
            row.deliveries = self.u32()?;
            row.attempts = self.u32()?;
            row.releases = self.u32()?;
            row.buries = self.u32()?;
        }
        row.expires = self.when(flags & 2 != 0, Self::u64)?;
        row.ttr = self.when(flags & 4 != 0, Self::u64)?;
        row.last_error = self.when(flags & 8 != 0, Self::text)?;
        row.home = self.when(flags & 16 != 0, |rest| place(rest, flags & 32 != 0))?;
        row.fresh = flags & 128 != 0;
        for (number, bytes) in self.fields(flags & 64 != 0)? {
            match number {
                1 => row.max_attempts = Bytes(&bytes).terms()?,
                2 => row.failure = Some(Bytes(&bytes).failure()?),
                3 => row.lapsed = Some(Bytes(&bytes).number()?),
                4 => {
                    let mut rest = Bytes(&bytes);
                    row.own = Some(place(&mut rest, bytes.len() == 24)?);
                    rest.end()?;
                }
                5 => {
                    let mut rest = Bytes(&bytes);
                    let history = [rest.u32()?, rest.u32()?, rest.u32()?];
                    ensure(history[0] < history[1], || "a history of nothing".into())?;
                    row.history = Some(history);
                    rest.end()?;
                }
                6 => {
                    let mut rest = Bytes(&bytes);
                    row.reports = rest.u8()?;
                    ensure((1..=3).contains(&row.reports), || "reports of nothing".into())?;
                    rest.end()?;
                }
                8 => row.kept_until = Some(Bytes(&bytes).number()?),
                9 => {
                    Bytes(&bytes).end()?;
                    row.tagged = true;
                }
                10 | 11 => {
                    let mut rest = Bytes(&bytes);
                    let edges = [rest.u32()?, rest.u32()?];
                    ensure(edges != [0; 2], || "no edges".into())?;
                    row.edges[usize::from(number - 10)] = edges;
                    rest.end()?;
                }
                12 => {
                    let time = Some(Bytes(&bytes).number()?);
                    ensure(time != Some(u64::MAX), || "a time that is never".into())?;
                    row.ready_since = time;
                }
                13 => {
                    let mut rest = Bytes(&bytes);
                    while !rest.0.is_empty() {
                        row.slots.push(rest.u32()?);
                    }
                    let is_sound = row.slots.is_sorted_by(|one, other| one < other);
                    ensure(is_sound && !row.slots.is_empty(), || format!("slots {:?}", row.slots))?;
                }
                14 => {
                    let mut rest = Bytes(&bytes);
                    let gates = rest.string(bytes.len())?;
                    ensure(gates.starts_with(['\u{1}', '\u{2}']), || format!("gates {gates:?}"))?;
                    row.gates = Some(gates);
                }
                15 => {
                    let mut rest = Bytes(&bytes);
                    ensure([1, 2].contains(&rest.u8()?), || "a kind of a ttl".into())?;
                    ensure(rest.u64()? != 0, || "a ttl without a length".into())?;
                    rest.end()?;
                }
                _ => return Err(format!("field {number} of a progress")),
            }
        }
        self.end()?;
        Ok(row)
    }

    pub(crate) fn delayed(mut self) -> Read<(State, Progress)> {
        let flags = self.flags(AWAY | 3)?;
        let state = State::Delayed {
            by_wall: flags & 1 != 0,
            holds: flags & 2 != 0,
            due: self.u64()?,
            bytes: self.u32()?,
            away: self.away(flags)?,
        };
        Ok((state, self.progress()?))
    }

    pub(crate) fn blocked(mut self) -> Read<(State, Progress)> {
        let flags = self.flags(AWAY | 3)?;
        ensure(flags & 3 != 1, || "a wall clock without a time".into())?;
        let (since, bytes) = (self.u64()?, self.u32()?);
        let due = self.when(flags & 2 != 0, Self::u64)?;
        ensure(due != Some(0), || "a due time of 0".into())?;
        let due = due.map(|due| (flags & 1 != 0, due));
        let state = State::Blocked { since, due, bytes, away: self.away(flags)? };
        Ok((state, self.progress()?))
    }

    pub(crate) fn taken(mut self) -> Read<(State, Progress)> {
        let flags = self.flags(AWAY | 3)?;
        let state = State::Taken {
            token: self.u64()?,
            since: self.u64()?,
            bytes: self.u32()?,
            holder: self.when(flags & 1 != 0, Self::u32)?,
            deadline: self.when(flags & 2 != 0, Self::u64)?,
            away: self.away(flags)?,
        };
        Ok((state, self.progress()?))
    }

    pub(crate) fn finished(mut self) -> Read<(State, Progress)> {
        let flags = self.flags(AWAY | 3)?;
        let (time, bytes) = (self.u64()?, self.u32()?);
        let result = self.when(flags & 1 != 0, |rest| {
            let length = rest.u16()?;
            Ok(rest.take(usize::from(length))?.to_vec())
        })?;
        let away = self.away(flags)?;
        let keyed = flags & 2 != 0;
        Ok((State::Done { time, bytes, result, keyed, away }, self.progress()?))
    }

    pub(crate) fn buried(mut self) -> Read<(State, Progress)> {
        let time = self.u64()?;
        let reason = match self.u8()? {
            1 => Reason::Buried(self.text()?),
            2 => Reason::Failed(self.text()?, self.text()?),
            3 => Reason::Exhausted(String::new(), self.text()?),
            4 => Reason::Undecodable(self.text()?),
            5 => Reason::Exhausted(self.text()?, self.text()?),
            6 => Reason::Trashed(self.text()?),
            kind => return Err(format!("a reason of kind {kind}")),
        };
        Ok((State::Buried { time, reason }, self.progress()?))
    }
}
