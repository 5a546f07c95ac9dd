//! Keys. One flat, ordered space for every row: a tag, then for the rows of a tube the tube's
//! *run*, then the fields that order the rows of that tag. A run is one incarnation of a tube:
//! truncate gives the tube a new one, and a sweep removes the rows of the old one.

mod rank;
mod tag;
mod apart;
mod edges;
mod index;
mod tags;
mod schedules;
mod settings;
mod days;
mod throttles;
mod work;

pub(crate) use apart::{
    ReportPart, history, history_number, history_of, moved, of_piece, piece, pieces_of,
    pieces_of_payload, report, reports_of,
};
pub(crate) use days::{day, of_day};
pub(crate) use edges::{Direction, direction_of, edge, edges_in, edges_of, of_edge};
pub(crate) use index::{
    after_time, buried_group, buried_group_beside, buried_group_of, buried_time, done_time, failed,
    failed_beside, failed_of, failure_group, failure_group_of, held_time, key, key_beside, key_of,
    kind, kind_in, kind_of, queue_key, queue_key_beside, queue_key_of, run_of_failed, time_of,
    trashed_time,
};
pub(crate) use rank::{Home, Order, Rank};
pub(crate) use schedules::{
    FireClock, fire, fires_by, fires_of, firing, name_of_schedule, of_fire, schedule,
};
pub(crate) use settings::{of_setting, setting, settings_of};
pub(crate) use tag::{ByTag, Tag, TagScope};
pub(crate) use tags::{
    of_top_tag, tag_count, tag_counted, tag_in, tagged_of, tagged_task, task_tags, top_tag, tracked,
};
pub(crate) use throttles::{of_slot, of_throttle, slot, slots_of, throttle};
pub(crate) use work::{Work, of_piece_work, piece_work, run_of_work, work, work_of, work_of_run};

use crate::format::pack::Unpacker;
use crate::words::clock::Now;
use crate::words::task::{State, TaskId};
use smallvec::SmallVec;

/// A key. The keys of a plain put, take and ack need no allocation.
pub(crate) type Key = SmallVec<[u8; KEY_BYTES]>;

const KEY_BYTES: usize = 40;

/// One incarnation of a tube. Those with the highest bit belong to temporary tubes, whose rows
/// never reach the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Run(pub(crate) u32);

impl Run {
    pub(crate) const TEMPORARY: u32 = 1 << 31;
    /// No tube: the rows of the whole queue are counted under it.
    pub(crate) const QUEUE: Self = Self(0);
    /// For the keys of the whole queue's tags: those about durable tubes, and about temporary ones.
    pub(crate) const BOTH: [Self; 2] = [Self::QUEUE, Self(Self::TEMPORARY)];

    pub(crate) fn is_temporary(self) -> bool {
        self.0 & Self::TEMPORARY != 0
    }

    /// Its number, which no other tube and no throttle has, of whichever kind.
    pub(crate) fn number(self) -> u32 {
        self.0 & !Self::TEMPORARY
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
    // Called for every row of a step.
    #[inline(always)]
    pub(crate) fn holding(key: &[u8]) -> Option<Self> {
        let tag = Tag::of(*key.first()?)?;
        let has_run = tag.scope().has_run();
        let run = if has_run {
            Some(Run(u32::from_be_bytes(*key.get(1..)?.first_chunk()?)))
        } else {
            None
        };
        Some(Self { tag, run })
    }

    /// Whether its rows are never written to the disk. No range has rows of both kinds.
    #[inline(always)]
    pub(crate) fn is_temporary(self) -> bool {
        self.run.map_or(self.tag.scope() == TagScope::Temporary, Run::is_temporary)
    }

    /// The first key of the range.
    pub(crate) fn start(self) -> Key {
        match self.run {
            Some(run) => in_run(self.tag, run),
            None => tagged(self.tag, &[]),
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
// Called for every row of a step.
#[inline(always)]
pub(crate) fn is_temporary(key: &[u8]) -> bool {
    match key.first().and_then(|tag| Tag::of(*tag)).map(Tag::scope) {
        Some(scope) if scope.has_run() => key.get(1).is_some_and(|run| run & 0x80 != 0),
        scope => scope == Some(TagScope::Temporary),
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

/// A key in the middle between two keys, by their bytes as fractions.
pub(crate) fn middle(low: &[u8], high: &[u8]) -> Key {
    let byte = |key: &[u8], at: usize| key.get(at).copied().map_or(0, u16::from);
    let (mut sum, mut carry) = ([0; KEY_BYTES], 0);
    for (at, to) in sum.iter_mut().enumerate().rev() {
        let added = byte(low, at) + byte(high, at) + carry;
        (*to, carry) = (added & 0xff, added >> 8);
    }
    let half = |added: u16| {
        let bits = carry << 8 | added;
        carry = bits & 1;
        (bits >> 1) as u8
    };
    Key::from_buf(sum.map(half))
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

/// What falls due, each in a range of its own.
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

    /// Those that make a delayed task ready.
    pub(crate) const OF_DELAYED: [Self; 2] = [Self::Delay, Self::RunAt];

    /// Those by which the tasks of a state are listed.
    pub(crate) const fn of_state(state: State) -> &'static [Self] {
        match state {
            State::Delayed => &Self::OF_DELAYED,
            State::Taken => &[Self::Ttr],
            State::Blocked | State::Ready | State::Buried | State::Done => &[],
        }
    }

    /// Now by the clock of this deadline.
    pub(crate) fn time_of(self, now: Now) -> u64 {
        match self {
            Self::Delay | Self::Ttl => now.queue,
            Self::RunAt => now.wall,
            Self::Ttr => now.lease,
        }
    }
}

fn tagged(tag: Tag, rest: &[u8]) -> Key {
    let mut key = Key::new();
    key.push(tag as u8);
    key.extend_from_slice(rest);
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

fn with_number(mut key: Key, number: u64) -> Key {
    key.extend_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn with_id(key: Key, id: TaskId) -> Key {
    with_number(key, id.get())
}

/// With the sign bit flipped, two's complement numbers sort as bytes.
fn sorted(priority: i64) -> u64 {
    (priority as u64) ^ (1 << 63)
}

fn with_place(key: Key, place: &Rank, id: TaskId) -> Key {
    let mut key = with_number(key, sorted(place.priority));
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
    tagged(Tag::Meta, &[what])
}

pub(crate) fn name(name: &str) -> Key {
    tagged(Tag::Name, name.as_bytes())
}

pub(crate) fn tube(number: u32) -> Key {
    tagged(Tag::Tube, &number.to_be_bytes())
}

/// The key of a condition that is stored, or that the end of the process forgets.
pub(crate) fn condition(name: &str, is_stored: bool) -> Key {
    let tag = if is_stored { Tag::Condition } else { Tag::RunCondition };
    tagged(tag, name.as_bytes())
}

/// The name in a key of [`condition`].
pub(crate) fn of_condition(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(1..)?).ok()
}

pub(crate) fn consumer(number: u32) -> Key {
    tagged(Tag::Consumer, &number.to_be_bytes())
}

pub(crate) fn consumer_name(name: &str) -> Key {
    tagged(Tag::ConsumerName, name.as_bytes())
}

pub(crate) fn position(run: Run, id: TaskId) -> Key {
    numbers(Tag::Position, run, [id.get()])
}

/// The key of a task's own row.
pub(crate) fn task(run: Run, home: &Home, id: TaskId) -> Key {
    placed(if home.is_fresh { Tag::Fresh } else { Tag::Task }, run, &home.rank, id)
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

pub(crate) fn open_head(run: Run, place: &Rank, id: TaskId) -> Key {
    placed(Tag::OpenHead, run, place, id)
}

/// The beginning of the keys of all heads behind a gate, as it stands in the names of their lines.
pub(crate) fn closed_heads(run: Run, gate: &str) -> Key {
    with_label(in_run(Tag::ClosedHead, run), gate)
}

pub(crate) fn closed_head(run: Run, gate: &str, place: &Rank, id: TaskId) -> Key {
    with_place(closed_heads(run, gate), place, id)
}

/// The gate in a key of [`Tag::ClosedHead`].
pub(crate) fn gate_of(closed_head: &[u8]) -> Option<&str> {
    label_in(closed_head)
}

pub(crate) fn group(run: Run, group: &str) -> Key {
    with_label(in_run(Tag::Group, run), group)
}

pub(crate) fn blocked(run: Run, id: TaskId) -> Key {
    numbers(Tag::Blocked, run, [id.get()])
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

pub(crate) fn trashed(run: Run, place: &Rank, id: TaskId) -> Key {
    placed(Tag::Trashed, run, place, id)
}

/// The beginning of all deadlines of one kind.
pub(crate) fn due_of(run: Run, what: Deadline) -> Key {
    let mut key = in_run(Tag::Due, run);
    key.push(what as u8);
    key
}

pub(crate) fn due(run: Run, what: Deadline, when: u64, id: TaskId) -> Key {
    with_id(with_number(due_of(run, what), when), id)
}

/// Whether a deadline's row is of the end of a lease.
pub(crate) fn is_lease_end(due: &[u8]) -> bool {
    due.get(RUN_PREFIX) == Some(&(Deadline::Ttr as u8))
}

pub(crate) fn done(run: Run, id: TaskId) -> Key {
    numbers(Tag::Done, run, [id.get()])
}

/// The key of the bytes of the tasks that a run keeps in the state of this tag.
pub(crate) fn kept(run: Run, state: Tag) -> Key {
    let mut key = in_run(Tag::Kept, run);
    key.push(state as u8);
    key
}

/// The beginning of all leases of one consumer in one tube.
pub(crate) fn leases_of(run: Run, consumer: u32) -> Key {
    let mut key = in_run(Tag::OwnerLease, run);
    key.extend_from_slice(&consumer.to_be_bytes());
    key
}

pub(crate) fn owner_lease(run: Run, consumer: u32, id: TaskId) -> Key {
    with_id(leases_of(run, consumer), id)
}

/// The consumer and the task in the key of a lease.
pub(crate) fn of_owner_lease(key: &[u8]) -> Option<(u32, TaskId)> {
    let mut key = Unpacker::new(key.get(5..)?);
    let (consumer, id) = (key.u32()?, TaskId::new(key.u64()?));
    key.end((consumer, id))
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
pub(crate) fn rank_in_state(tag: Tag, key: &[u8]) -> Option<Rank> {
    let label = if tag == Tag::Line { 1 + usize::from(*key.get(RUN_PREFIX)?) } else { 0 };
    let prefix = RUN_PREFIX + label;
    place_of(key, prefix)
}

/// The group in a key of [`Tag::Line`].
pub(crate) fn group_of(line: &[u8]) -> Option<&str> {
    label_in(line)
}

/// The label after the run.
fn label_in(key: &[u8]) -> Option<&str> {
    let (len, rest) = key.get(RUN_PREFIX..)?.split_first()?;
    std::str::from_utf8(rest.get(..usize::from(*len))?).ok()
}

/// The deadline in a key of [`Tag::Due`].
pub(crate) fn when_of(due: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(due.get(6..14)?.try_into().ok()?))
}

/// The bytes before the rank in the keys of [`Tag::Ready`], [`Tag::OpenHead`], [`Tag::Buried`],
/// [`Tag::Trashed`], [`Tag::Fresh`] and [`Tag::Task`].
pub(crate) const RUN_PREFIX: usize = 5;

/// Decodes the bytes as a key in every way. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    let _ = (id_of(bytes), when_of(bytes), group_of(bytes), place_of(bytes, RUN_PREFIX));
    let _ = (run_of_work(bytes), buried_group_beside(bytes), failed_beside(bytes));
    let _ = (queue_key_beside(bytes), key_beside(bytes, Run::QUEUE));
    let _ = (failure_group_of(bytes), run_of_failed(bytes));
    let _ = (of_piece(bytes), history_number(bytes), of_piece_work(bytes));
    let _ = (tag_in(bytes), tag_counted(bytes), of_top_tag(bytes));
    let _ = (name_of_schedule(bytes), of_fire(bytes));
    let _ = (of_edge(bytes), direction_of(bytes), of_condition(bytes), gate_of(bytes));
    if let Some(range) = Range::holding(bytes) {
        assert!(*range.start() <= *bytes && *bytes < *range.end(), "a key outside its range");
    }
}

#[cfg(test)]
mod tests;
