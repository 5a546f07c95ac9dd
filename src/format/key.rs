//! Keys. One flat, ordered space for every row: a tag, then for the rows of a tube the tube's
//! *run*, then the fields that order the rows of that tag. A run is one incarnation of a tube:
//! truncate gives the tube a new one, and a sweep removes the rows of the old one.

use crate::words::limits::ORDER_BYTES_MAX;
use crate::words::task::{State, TaskId};
use smallvec::SmallVec;

/// A key. The keys of a plain put, take and ack need no allocation.
pub(crate) type Key = SmallVec<[u8; KEY_BYTES]>;

const KEY_BYTES: usize = 40;

/// The kind of row that a key names. The numbers are stored on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Tag {
    /// what → counters of the whole queue
    Meta = 0x01,
    /// tube name → tube number
    Name = 0x02,
    /// tube number → `TubeRow`
    Tube = 0x03,
    /// kind, run, id → `WorkRow`, the work that is left for a sweep
    Work = 0x04,
    /// consumer number → `ConsumerRow`
    Consumer = 0x05,
    /// consumer name → consumer number
    ConsumerName = 0x06,
    /// run, id → `PositionRow`, for a task whose position does not follow from its id
    Position = 0x10,
    /// run, id → a payload too large for the `TaskRow`
    Body = 0x11,
    /// run, priority, order, id → `TaskProgress`: ready, and in no group
    Ready = 0x12,
    /// run, group, priority, order, id → `TaskProgress`: ready, in a group
    Line = 0x13,
    /// run, priority, order, id → group: the first ready task of a group that may be taken from
    Turn = 0x14,
    /// run, group → how many of the group are in flight
    Group = 0x15,
    /// run, id → `DelayedRow`
    Delayed = 0x16,
    /// run, id → `TakenRow`
    Taken = 0x17,
    /// run, priority, order, id → `BuriedRow`
    Buried = 0x18,
    /// run, deadline, when, id → nothing
    Due = 0x19,
    /// scope, key text, id → nothing
    Key = 0x1a,
    /// run, consumer, id → nothing: a lease of a named consumer
    TicketHandle = 0x1b,
    /// run, time, id → nothing: a buried task by the time of its bury
    BuriedTime = 0x1c,
    /// run, failure group, time, id → nothing: a buried task that failed
    BuriedGroup = 0x1d,
    /// run, priority, order, id → `TaskRow`: what was put, under the task's first rank
    Task = 0x1e,
    /// failure group, time, run, id → nothing: a buried task of any durable tube
    Failed = 0x20,
    /// The same for temporary tubes.
    FailedTemporary = 0x21,
}

/// What the rows of a tag belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The queue. These rows are few and often read, so all of them are kept in memory.
    Mirrored,
    /// The queue. There are as many of these rows as tasks.
    Queue,
    /// The queue, for temporary tubes: these rows are never written to the disk.
    Temporary,
    /// A tube, under its run.
    Run,
}

impl Tag {
    /// In the order of their numbers.
    pub(crate) const ALL: [Self; 23] = [
        Self::Meta,
        Self::Name,
        Self::Tube,
        Self::Work,
        Self::Consumer,
        Self::ConsumerName,
        Self::Position,
        Self::Body,
        Self::Ready,
        Self::Line,
        Self::Turn,
        Self::Group,
        Self::Delayed,
        Self::Taken,
        Self::Buried,
        Self::Due,
        Self::Key,
        Self::TicketHandle,
        Self::BuriedTime,
        Self::BuriedGroup,
        Self::Task,
        Self::Failed,
        Self::FailedTemporary,
    ];

    /// Every tag is smaller. Tables indexed by tag have this length.
    #[expect(clippy::indexing_slicing, reason = "done by the compiler")]
    pub(crate) const SPACE: usize = Self::ALL[Self::ALL.len() - 1] as usize + 1;

    /// How many tags are counted by run.
    #[expect(clippy::indexing_slicing, reason = "done by the compiler")]
    pub(crate) const TALLIED: usize = {
        let (mut tags, mut at) = (0, 0);
        while at < Self::ALL.len() {
            tags += Self::ALL[at].is_tallied() as usize;
            at += 1;
        }
        tags
    };

    #[inline]
    pub(crate) const fn scope(self) -> Scope {
        match self {
            Self::Meta
            | Self::Name
            | Self::Tube
            | Self::Work
            | Self::Consumer
            | Self::ConsumerName => Scope::Mirrored,
            Self::Failed => Scope::Queue,
            Self::FailedTemporary => Scope::Temporary,
            Self::Position
            | Self::Body
            | Self::Ready
            | Self::Line
            | Self::Turn
            | Self::Group
            | Self::Delayed
            | Self::Taken
            | Self::Buried
            | Self::Due
            | Self::Key
            | Self::TicketHandle
            | Self::BuriedTime
            | Self::BuriedGroup
            | Self::Task => Scope::Run,
        }
    }

    /// The state that a row of this tag stands for. Every task has exactly one row of such a tag,
    /// and a listing of the state scans these rows.
    #[inline]
    pub(crate) const fn state(self) -> Option<State> {
        match self {
            Self::Ready | Self::Line => Some(State::Ready),
            Self::Delayed => Some(State::Delayed),
            Self::Taken => Some(State::Taken),
            Self::Buried => Some(State::Buried),
            Self::Meta
            | Self::Name
            | Self::Tube
            | Self::Work
            | Self::Consumer
            | Self::ConsumerName
            | Self::Failed
            | Self::FailedTemporary
            | Self::Position
            | Self::Body
            | Self::Turn
            | Self::Group
            | Self::Due
            | Self::Key
            | Self::TicketHandle
            | Self::BuriedTime
            | Self::BuriedGroup
            | Self::Task => None,
        }
    }

    /// Whether each of its rows counts against its tube's capacity.
    pub(crate) const fn takes_capacity(self) -> bool {
        match self.state() {
            Some(State::Ready | State::Delayed | State::Taken | State::Buried) => true,
            None => false,
        }
    }

    /// The tags that stand for a state.
    pub(crate) fn states() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|tag| tag.state().is_some())
    }

    /// The tags whose rows are stored under a tube's run.
    pub(crate) fn in_runs() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|tag| tag.scope() == Scope::Run)
    }

    /// Whether its rows are counted by run and the counts stored on the disk. Rows of the whole
    /// queue are counted under [`Run::QUEUE`].
    const fn is_tallied(self) -> bool {
        matches!(self.scope(), Scope::Queue | Scope::Run)
    }

    /// The index of this tag among the counts of a run, if it is counted.
    #[inline]
    pub(crate) fn tallied(self) -> Option<usize> {
        #[expect(clippy::indexing_slicing, reason = "done by the compiler")]
        const PLACES: [Option<usize>; Tag::SPACE] = {
            let mut places = [None; Tag::SPACE];
            let (mut at, mut next) = (0, 0);
            while at < Tag::ALL.len() {
                if Tag::ALL[at].is_tallied() {
                    places[Tag::ALL[at] as usize] = Some(next);
                    next += 1;
                }
                at += 1;
            }
            places
        };
        PLACES.get(self as usize).copied().flatten()
    }

    #[inline]
    pub(crate) fn of(byte: u8) -> Option<Self> {
        // A table, because every row write looks it up.
        #[expect(clippy::indexing_slicing, reason = "done by the compiler")]
        const BY_BYTE: [Option<Tag>; Tag::SPACE] = {
            let mut table = [None; Tag::SPACE];
            let mut at = 0;
            while at < Tag::ALL.len() {
                table[Tag::ALL[at] as usize] = Some(Tag::ALL[at]);
                at += 1;
            }
            table
        };
        BY_BYTE.get(usize::from(byte)).copied().flatten()
    }

    /// The scope of a key's rows; `None` for bytes that are not a key.
    #[inline]
    pub(crate) fn scope_of(key: &[u8]) -> Option<Scope> {
        Some(Self::of(*key.first()?)?.scope())
    }
}

/// One value for each tag, indexed by its number.
#[derive(Clone, Debug)]
pub(crate) struct ByTag<T>(pub(crate) [T; Tag::SPACE]);

impl<T: Default> Default for ByTag<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

#[expect(clippy::indexing_slicing, reason = "done by the compiler")]
const _: () = {
    let mut at = 1;
    while at < Tag::ALL.len() {
        assert!((Tag::ALL[at - 1] as u8) < Tag::ALL[at] as u8);
        at += 1;
    }
    assert!(Tag::SPACE < u8::MAX as usize, "the key after a range needs a tag");
};

/// One incarnation of a tube. Runs with the highest bit belong to temporary tubes, whose rows are
/// never written to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Run(pub(crate) u32);

impl Run {
    pub(crate) const TEMPORARY: u32 = 1 << 31;
    /// No tube: the rows of the whole queue are counted under it.
    pub(crate) const QUEUE: Self = Self(0);

    pub(crate) fn is_temporary(self) -> bool {
        self.0 & Self::TEMPORARY != 0
    }
}

/// All rows of one tag, or of one tag and run. Counts are kept for each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Range {
    pub(crate) tag: Tag,
    pub(crate) run: Option<Run>,
}

impl Range {
    pub(crate) fn of(tag: Tag) -> Self {
        Self { tag, run: None }
    }

    pub(crate) fn in_run(tag: Tag, run: Run) -> Self {
        Self { tag, run: Some(run) }
    }

    /// The range that a key is counted in. `None` for bytes that are not a key.
    pub(crate) fn holding(key: &[u8]) -> Option<Self> {
        let tag = Tag::of(*key.first()?)?;
        if tag.scope() != Scope::Run {
            return Some(Self::of(tag));
        }
        let run = u32::from_be_bytes(key.get(1..5)?.try_into().ok()?);
        Some(Self::in_run(tag, Run(run)))
    }

    /// The first key of the range.
    pub(crate) fn start(self) -> Key {
        match self.run {
            Some(run) => in_run(self.tag, run),
            None => tagged(self.tag),
        }
    }

    /// The first key after the range.
    pub(crate) fn end(self) -> Key {
        match self.run.and_then(|run| run.0.checked_add(1)) {
            Some(next) => in_run(self.tag, Run(next)),
            None => Key::from_slice(&[self.tag as u8 + 1]),
        }
    }
}

/// Whether the row of this key is never written to the disk.
#[inline]
pub(crate) fn is_temporary(key: &[u8]) -> bool {
    match Tag::scope_of(key) {
        Some(Scope::Run) => key.get(1).is_some_and(|run| run & 0x80 != 0),
        Some(Scope::Temporary) => true,
        Some(Scope::Mirrored | Scope::Queue) | None => false,
    }
}

/// The first key that does not begin with `prefix`.
pub(crate) fn end_of(prefix: &[u8]) -> Key {
    let mut end = Key::from_slice(prefix);
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // No tag is 0xff, so this is not reached; the result is correct for every key.
    Key::from_slice(&[u8::MAX; 8])
}

/// A copy of the key. `SmallVec::clone` copies byte by byte.
#[inline]
pub(crate) fn copy(key: &[u8]) -> Key {
    Key::from_slice(key)
}

/// The first key after `key`.
pub(crate) fn after(key: &[u8]) -> Key {
    let mut next = Key::from_slice(key);
    next.push(0);
    next
}

/// The order of a task among those of equal priority. All orders of one tube have the same length,
/// so that they compare as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Its put number, big-endian.
    Number([u8; 8]),
    /// Made by a `Placement`.
    Placed([u8; ORDER_BYTES_MAX]),
}

impl Order {
    /// In the middle of all numbers, so that a put at the front finds room before it.
    const MIDDLE: u64 = 1 << 63;

    /// At the end: after everything that was put before `number` was assigned.
    pub(crate) fn back(number: u64) -> Self {
        Self::number(Self::MIDDLE | number)
    }

    /// At the front: before everything that was put before `number` was assigned.
    pub(crate) fn front(number: u64) -> Self {
        Self::number(Self::MIDDLE - 1 - (number & (Self::MIDDLE - 1)))
    }

    fn number(number: u64) -> Self {
        Self::Number(number.to_be_bytes())
    }

    /// By a `Placement`.
    pub(crate) fn placed(order: &[u8]) -> Option<Self> {
        let mut bytes = [0; ORDER_BYTES_MAX];
        bytes.get_mut(..order.len())?.copy_from_slice(order);
        Some(Self::Placed(bytes))
    }

    pub(crate) fn is_placed(&self) -> bool {
        matches!(self, Self::Placed(_))
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Number(number) => number,
            Self::Placed(order) => order,
        }
    }

    /// Decodes an order from its 8 or 16 bytes.
    #[inline]
    pub(crate) fn of_bytes(order: &[u8]) -> Option<Self> {
        match order.try_into() {
            Ok(number) => Some(Self::Number(number)),
            Err(_) => Some(Self::Placed(order.try_into().ok()?)),
        }
    }
}

/// The position of a task among the ready ones: by priority, smaller first, then order, then id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) priority: i64,
    pub(crate) order: Order,
}

/// The kinds of deadline. Each has a range of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Deadline {
    /// A delay ends, in queue time.
    Delay = 1,
    /// A delay ends, by the wall clock.
    RunAt = 2,
    /// A lease ends, in lease time.
    Ttr = 3,
    /// A ttl ends, in queue time.
    Ttl = 4,
}

impl Deadline {
    /// The order in which due deadlines are handled. A delay may end in a task whose ttl is over,
    /// and a task whose ttl is over is removed before its lease could return it.
    pub(crate) const ALL: [Self; 4] = [Self::Delay, Self::RunAt, Self::Ttl, Self::Ttr];
}

/// The kinds of work for a sweep. Each has a range of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Work {
    /// The run no longer belongs to a tube: its rows are removed.
    Clear = 1,
    /// Leases that a tube has voided: their tasks become ready.
    Release = 2,
}

impl Work {
    pub(crate) const ALL: [Self; 2] = [Self::Clear, Self::Release];
}

fn tagged(tag: Tag) -> Key {
    let mut key = Key::new();
    key.push(tag as u8);
    key
}

/// A key of a tag, a run and numbers. Every verb makes about twelve, so each is built in one step.
#[inline]
fn numbers<const COUNT: usize>(tag: Tag, run: Run, numbers: [u64; COUNT]) -> Key {
    const { assert!(RUN_PREFIX + 8 * COUNT <= KEY_BYTES) };
    let mut key = [0; KEY_BYTES];
    key[0] = tag as u8;
    key[1..RUN_PREFIX].copy_from_slice(&run.0.to_be_bytes());
    for (to, number) in key[RUN_PREFIX..].chunks_exact_mut(8).zip(numbers) {
        to.copy_from_slice(&number.to_be_bytes());
    }
    Key::from_buf_and_len(key, RUN_PREFIX + 8 * COUNT)
}

#[inline]
fn in_run(tag: Tag, run: Run) -> Key {
    numbers(tag, run, [])
}

fn with_id(mut key: Key, id: TaskId) -> Key {
    key.extend_from_slice(&id.get().to_be_bytes());
    key
}

/// With the sign bit flipped, two's complement numbers sort as bytes.
fn sorted(priority: i64) -> u64 {
    (priority as u64) ^ (1 << 63)
}

fn with_place(mut key: Key, place: &Rank, id: TaskId) -> Key {
    key.extend_from_slice(&sorted(place.priority).to_be_bytes());
    key.extend_from_slice(place.order.as_bytes());
    with_id(key, id)
}

fn placed(tag: Tag, run: Run, place: &Rank, id: TaskId) -> Key {
    match place.order {
        Order::Number(order) => {
            numbers(tag, run, [sorted(place.priority), u64::from_be_bytes(order), id.get()])
        }
        Order::Placed(_) => with_place(in_run(tag, run), place, id),
    }
}

fn with_label(mut key: Key, label: &str) -> Key {
    // The length comes first, so that no label's keys begin with another label's keys.
    key.push(label.len() as u8);
    key.extend_from_slice(label.as_bytes());
    key
}

pub(crate) fn meta(what: u8) -> Key {
    let mut key = tagged(Tag::Meta);
    key.push(what);
    key
}

pub(crate) fn name(name: &str) -> Key {
    let mut key = tagged(Tag::Name);
    key.extend_from_slice(name.as_bytes());
    key
}

fn numbered(tag: Tag, number: u32) -> Key {
    let mut key = tagged(tag);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn tube(number: u32) -> Key {
    numbered(Tag::Tube, number)
}

/// The beginning of the keys of all work of one kind.
pub(crate) fn work_of(kind: Work) -> Key {
    let mut key = tagged(Tag::Work);
    key.push(kind as u8);
    key
}

/// The key of work under a run, with the id of the task that it belongs to, or 0.
pub(crate) fn work(kind: Work, run: Run, id: TaskId) -> Key {
    let mut key = work_of(kind);
    key.extend_from_slice(&run.0.to_be_bytes());
    with_id(key, id)
}

/// The run in a key of [`Tag::Work`].
pub(crate) fn run_of_work(work: &[u8]) -> Option<Run> {
    Some(Run(u32::from_be_bytes(work.get(2..6)?.try_into().ok()?)))
}

pub(crate) fn consumer(number: u32) -> Key {
    numbered(Tag::Consumer, number)
}

pub(crate) fn consumer_name(name: &str) -> Key {
    let mut key = tagged(Tag::ConsumerName);
    key.extend_from_slice(name.as_bytes());
    key
}

pub(crate) fn position(run: Run, id: TaskId) -> Key {
    numbers(Tag::Position, run, [id.get()])
}

/// `home` is the rank at which the task was put.
pub(crate) fn task(run: Run, home: &Rank, id: TaskId) -> Key {
    placed(Tag::Task, run, home, id)
}

pub(crate) fn body(run: Run, id: TaskId) -> Key {
    numbers(Tag::Body, run, [id.get()])
}

pub(crate) fn ready(run: Run, place: &Rank, id: TaskId) -> Key {
    placed(Tag::Ready, run, place, id)
}

/// The beginning of all keys of a group's line.
pub(crate) fn line_of(run: Run, group: &str) -> Key {
    with_label(in_run(Tag::Line, run), group)
}

pub(crate) fn line(run: Run, group: &str, place: &Rank, id: TaskId) -> Key {
    with_place(line_of(run, group), place, id)
}

pub(crate) fn turn(run: Run, place: &Rank, id: TaskId) -> Key {
    placed(Tag::Turn, run, place, id)
}

pub(crate) fn group(run: Run, group: &str) -> Key {
    with_label(in_run(Tag::Group, run), group)
}

pub(crate) fn delayed(run: Run, id: TaskId) -> Key {
    numbers(Tag::Delayed, run, [id.get()])
}

pub(crate) fn taken(run: Run, id: TaskId) -> Key {
    numbers(Tag::Taken, run, [id.get()])
}

pub(crate) fn buried(run: Run, place: &Rank, id: TaskId) -> Key {
    placed(Tag::Buried, run, place, id)
}

/// The beginning of all deadlines of one kind.
pub(crate) fn due_of(run: Run, what: Deadline) -> Key {
    let mut key = in_run(Tag::Due, run);
    key.push(what as u8);
    key
}

pub(crate) fn due(run: Run, what: Deadline, when: u64, id: TaskId) -> Key {
    let mut key = due_of(run, what);
    key.extend_from_slice(&when.to_be_bytes());
    with_id(key, id)
}

/// The beginning of the rows of one caller's key. The scope is the run of its tube; [`Run::QUEUE`]
/// would be the scope of a queue-wide key.
pub(crate) fn key_of(scope: Run, text: &str) -> Key {
    with_label(in_run(Tag::Key, scope), text)
}

pub(crate) fn key(scope: Run, text: &str, id: TaskId) -> Key {
    with_id(key_of(scope, text), id)
}

fn with_time(mut key: Key, time: u64) -> Key {
    key.extend_from_slice(&time.to_be_bytes());
    key
}

fn with_text(mut key: Key, text: &str) -> Key {
    key.extend_from_slice(&(text.len() as u16).to_be_bytes());
    key.extend_from_slice(text.as_bytes());
    key
}

pub(crate) fn buried_time(run: Run, time: u64, id: TaskId) -> Key {
    with_id(with_time(in_run(Tag::BuriedTime, run), time), id)
}

pub(crate) fn buried_group(run: Run, group: &str, time: u64, id: TaskId) -> Key {
    with_id(with_time(with_text(in_run(Tag::BuriedGroup, run), group), time), id)
}

/// The tag of the queue's rows about buried tasks of this run.
fn failed_tag(run: Run) -> Tag {
    if run.is_temporary() { Tag::FailedTemporary } else { Tag::Failed }
}

pub(crate) fn failed(run: Run, group: &str, time: u64, id: TaskId) -> Key {
    let mut key = with_time(with_text(tagged(failed_tag(run)), group), time);
    key.extend_from_slice(&run.0.to_be_bytes());
    with_id(key, id)
}

/// The key of [`failed`] that belongs to a key of [`buried_group`].
pub(crate) fn failed_beside(buried_group: &[u8]) -> Option<Key> {
    let run = Range::holding(buried_group)?.run?;
    let end = buried_group.len().checked_sub(8)?;
    let mut key = tagged(failed_tag(run));
    key.extend_from_slice(buried_group.get(RUN_PREFIX..end)?);
    key.extend_from_slice(&run.0.to_be_bytes());
    Some(with_id(key, id_of(buried_group)?))
}

/// The key of [`buried_group`] that belongs to a key of [`failed`].
pub(crate) fn buried_group_beside(failed: &[u8]) -> Option<Key> {
    let (before, run_and_id) = failed.split_at_checked(failed.len().checked_sub(12)?)?;
    let run = Run(u32::from_be_bytes(run_and_id.get(..4)?.try_into().ok()?));
    let mut key = in_run(Tag::BuriedGroup, run);
    key.extend_from_slice(before.get(1..)?);
    Some(with_id(key, id_of(failed)?))
}

/// The beginning of all leases of one consumer in one tube.
pub(crate) fn held_by(run: Run, consumer: u32) -> Key {
    let mut key = in_run(Tag::TicketHandle, run);
    key.extend_from_slice(&consumer.to_be_bytes());
    key
}

pub(crate) fn held(run: Run, consumer: u32, id: TaskId) -> Key {
    with_id(held_by(run, consumer), id)
}

/// The id at the end of every key that ends with one.
pub(crate) fn id_of(key: &[u8]) -> Option<TaskId> {
    let bytes = key.get(key.len().checked_sub(8)?..)?;
    Some(TaskId::new(u64::from_be_bytes(bytes.try_into().ok()?)))
}

/// The rank in a key that ends with priority, order and id, after `prefix` bytes.
pub(crate) fn place_of(key: &[u8], prefix: usize) -> Option<Rank> {
    let placed = key.get(prefix..key.len().checked_sub(8)?)?;
    let priority = u64::from_be_bytes(placed.get(..8)?.try_into().ok()?) ^ (1 << 63);
    Some(Rank { priority: priority as i64, order: Order::of_bytes(placed.get(8..)?)? })
}

/// The rank of the task whose state row has this key, for tags whose keys contain it.
pub(crate) fn standing_place(tag: Tag, key: &[u8]) -> Option<Rank> {
    let prefix = match tag {
        Tag::Line => RUN_PREFIX + 1 + usize::from(*key.get(RUN_PREFIX)?),
        _ => RUN_PREFIX,
    };
    place_of(key, prefix)
}

/// The group in a key of [`Tag::Line`].
pub(crate) fn group_of(line: &[u8]) -> Option<&str> {
    let (len, rest) = line.get(RUN_PREFIX..)?.split_first()?;
    std::str::from_utf8(rest.get(..usize::from(*len))?).ok()
}

/// The deadline in a key of [`Tag::Due`].
pub(crate) fn when_of(due: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(due.get(6..14)?.try_into().ok()?))
}

/// The bytes before the rank in the keys of [`Tag::Ready`], [`Tag::Turn`], [`Tag::Buried`] and
/// [`Tag::Task`].
pub(crate) const RUN_PREFIX: usize = 5;

/// Decodes the bytes as a key in every way. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    let _ = (id_of(bytes), when_of(bytes), group_of(bytes), place_of(bytes, RUN_PREFIX));
    let _ = (run_of_work(bytes), buried_group_beside(bytes), failed_beside(bytes));
    if let Some(range) = Range::holding(bytes) {
        assert!(*range.start() <= *bytes && *bytes < *range.end(), "a key outside its range");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run(0x0102_0304);

    fn hex(key: &[u8]) -> String {
        key.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn place(priority: i64, number: u64) -> Rank {
        Rank { priority, order: Order::back(number) }
    }

    #[test]
    fn temporary_keys_are_told_by_their_run() {
        assert!(is_temporary(&[0x10, 0x80, 0, 0, 1]));
        assert!(!is_temporary(&[0x10, 0x7f, 0, 0, 1]));
        assert!(!is_temporary(&[0x04, 0x80, 0, 0, 1]), "the work on a temporary run is durable");
        assert!(!is_temporary(&[0x10]));
        assert!(!is_temporary(&[]));
        let failed = |run| super::failed(Run(run), "\u{ff}", u64::MAX, TaskId::new(u64::MAX));
        assert!(is_temporary(&failed(Run::TEMPORARY | 1)));
        assert!(!is_temporary(&failed(1)), "for every group and time");
    }

    #[test]
    fn golden_keys() {
        let id = TaskId::new(0x0a0b);
        let at = place(-1, 0x0a0b);
        let golden = [
            (meta(1), "0101"),
            (name("mail"), "026d61696c"),
            (tube(7), "0300000007"),
            (work(Work::Clear, RUN, TaskId::new(0)), "0401010203040000000000000000"),
            (work(Work::Release, RUN, id), "0402010203040000000000000a0b"),
            (failed(RUN, "g", 5, id), "200001670000000000000005010203040000000000000a0b"),
            (
                failed(Run(Run::TEMPORARY), "g", 5, id),
                "210001670000000000000005800000000000000000000a0b",
            ),
            (consumer(7), "0500000007"),
            (consumer_name("me"), "066d65"),
            (position(RUN, id), "10010203040000000000000a0b"),
            (body(RUN, id), "11010203040000000000000a0b"),
            (ready(RUN, &at, id), "12010203047fffffffffffffff8000000000000a0b0000000000000a0b"),
            (
                line(RUN, "g", &at, id),
                "130102030401677fffffffffffffff8000000000000a0b0000000000000a0b",
            ),
            (turn(RUN, &at, id), "14010203047fffffffffffffff8000000000000a0b0000000000000a0b"),
            (group(RUN, "g"), "15010203040167"),
            (delayed(RUN, id), "16010203040000000000000a0b"),
            (taken(RUN, id), "17010203040000000000000a0b"),
            (buried(RUN, &at, id), "18010203047fffffffffffffff8000000000000a0b0000000000000a0b"),
            (due(RUN, Deadline::Delay, 5, id), "19010203040100000000000000050000000000000a0b"),
            (due(RUN, Deadline::RunAt, 5, id), "19010203040200000000000000050000000000000a0b"),
            (due(RUN, Deadline::Ttr, 5, id), "19010203040300000000000000050000000000000a0b"),
            (due(RUN, Deadline::Ttl, 5, id), "19010203040400000000000000050000000000000a0b"),
            (key(RUN, "k", id), "1a01020304016b0000000000000a0b"),
            (task(RUN, &at, id), "1e010203047fffffffffffffff8000000000000a0b0000000000000a0b"),
            (held(RUN, 9, id), "1b01020304000000090000000000000a0b"),
            (buried_time(RUN, 5, id), "1c0102030400000000000000050000000000000a0b"),
            (buried_group(RUN, "g", 5, id), { "1d0102030400016700000000000000050000000000000a0b" }),
        ];
        for (key, bytes) in golden {
            assert_eq!(hex(&key), bytes);
        }
    }

    #[test]
    fn golden_orders() {
        let id = TaskId::new(0x0a0b);
        let of = |order| Rank { priority: i64::MAX, order };
        let placed = of(Order::placed(b"ab").unwrap());
        let golden = [
            (
                ready(RUN, &of(Order::front(0x0a0b)), id),
                "1201020304ffffffffffffffff7ffffffffffff5f40000000000000a0b",
            ),
            (
                buried(RUN, &placed, id),
                "1801020304ffffffffffffffff61620000000000000000000000000000\
                 0000000000000a0b",
            ),
            (
                line(RUN, "", &placed, id),
                "130102030400ffffffffffffffff61620000000000000000000000000000\
                 0000000000000a0b",
            ),
            (ready(Run(Run::TEMPORARY), &place(i64::MIN, 1), id), {
                "1280000000000000000000000080000000000000010000000000000a0b"
            }),
        ];
        for (key, bytes) in golden {
            assert_eq!(hex(&key), bytes);
        }
    }

    #[test]
    fn places_sort_by_priority_then_order() {
        let sorted = [
            ready(RUN, &place(i64::MIN, 9), TaskId::new(9)),
            ready(RUN, &place(-1, 8), TaskId::new(8)),
            ready(RUN, &Rank { priority: 0, order: Order::front(7) }, TaskId::new(7)),
            ready(RUN, &Rank { priority: 0, order: Order::front(2) }, TaskId::new(2)),
            ready(RUN, &place(0, 1), TaskId::new(1)),
            ready(RUN, &place(0, 3), TaskId::new(3)),
            ready(RUN, &place(i64::MAX, 1), TaskId::new(1)),
        ];
        assert!(sorted.is_sorted());
        for key in &sorted {
            let found = place_of(key, RUN_PREFIX).unwrap();
            assert_eq!(&ready(RUN, &found, id_of(key).unwrap()), key);
        }
    }

    #[test]
    fn no_group_is_the_beginning_of_another() {
        let end = end_of(&line_of(RUN, "a"));
        assert!(line(RUN, "ab", &place(0, 1), TaskId::new(1)) >= end);
    }

    #[test]
    fn a_range_holds_its_keys_and_ends_before_the_next() {
        let range = Range::in_run(Tag::Ready, Run(u32::MAX));
        let key = ready(Run(u32::MAX), &place(0, 1), TaskId::new(1));
        assert_eq!(Range::holding(&key), Some(range));
        assert!(range.start() <= key && key < range.end());
        assert_eq!(range.end(), Key::from_slice(&[Tag::Line as u8]));
        assert_eq!(Range::holding(&[0x12, 0]), None);
        assert_eq!(Range::holding(&[]), None);
        assert_eq!(Range::holding(&[0xee, 1, 2, 3, 4]), None);
    }
}
