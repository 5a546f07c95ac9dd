//! The values of rows: one struct for each tag, and its bytes. The engine decides what a row means;
//! this file has only the layout. Decoding returns `None` for anything but a whole row.

use crate::format::extension::Extension;
use crate::format::key::{Deadline, Order, Rank, Run};
use crate::format::pack::{Packer, Unpacker};
use crate::format::value::Value;
use crate::words::clock::NEVER;
use crate::words::options::{Backoff, TubeKind, TubeOptions};
use crate::words::task::Reason;
use std::time::Duration;

/// Writes the fields of later versions at the end of a row, if there are any.
fn pack_extension(row: &mut Packer, extension: &Extension) {
    if !extension.is_empty() {
        extension.encode(row);
    }
}

/// Reads the rest of a row as fields of later versions. Usually nothing is left.
fn unpack_extension(row: &mut Unpacker<'_>) -> Option<Extension> {
    if row.rest().is_empty() {
        return Some(Extension::default());
    }
    Extension::decode(row).filter(|extension| !extension.is_empty())
}

/// Counters of the whole queue: the next numbers to assign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) tube: u32,
    pub(crate) run: u32,
    pub(crate) consumer: u32,
    pub(crate) extension: Extension,
}

impl Counters {
    /// The row's `what` under `Tag::Meta`.
    pub(crate) const WHAT: u8 = 1;

    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u32(self.tube).u32(self.run).u32(self.consumer);
        pack_extension(&mut row, &self.extension);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let (tube, run, consumer) = (row.u32()?, row.u32()?, row.u32()?);
        let extension = unpack_extension(&mut row)?;
        row.end(Self { tube, run, consumer, extension })
    }
}

/// A tube: its options, and what holds for all of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TubeRow {
    pub(crate) name: String,
    pub(crate) run: Run,
    pub(crate) paused: bool,
    /// Leases with a token up to this one are void. This makes `release_all` one small commit.
    pub(crate) void_to: u64,
    /// The default priority that the tube was made with. It never changes: together with the id it
    /// gives the rank of every task without a stored position.
    pub(crate) made_priority: i64,
    pub(crate) options: TubeOptions,
    pub(crate) extension: Extension,
}

impl TubeRow {
    pub(crate) fn encode(&self) -> Value {
        let options = &self.options;
        let flags = u8::from(self.paused)
            | u8::from(options.temporary) << 1
            | u8::from(options.hold_group_while_delayed) << 2
            | u8::from(options.ttl_spares_buried) << 3;
        let mut row = Packer::new();
        row.short(&self.name).u32(self.run.0).u64(self.void_to).u8(flags).u8(options.kind.code());
        row.u64(self.made_priority as u64).u64(options.priority as u64);
        row.u64(length(options.ttl)).u64(length(options.ttr));
        row.u64(options.capacity.unwrap_or(0)).u32(options.max_attempts.unwrap_or(0));
        row.u64(length(Some(options.backoff.first))).u32(options.backoff.factor);
        row.u64(length(Some(options.backoff.most))).u32(options.in_flight);
        row.short(options.placement.as_deref().unwrap_or(""));
        pack_extension(&mut row, &self.extension);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let name = row.short()?.to_owned();
        let run = Run(row.u32()?);
        let void_to = row.u64()?;
        let flags = row.u8().filter(|flags| *flags < 16)?;
        let kind = TubeKind::of_code(row.u8()?)?;
        let mut options = TubeOptions::new(kind);
        options.temporary = flags & 2 != 0;
        options.hold_group_while_delayed = flags & 4 != 0;
        options.ttl_spares_buried = flags & 8 != 0;
        let made_priority = row.u64()? as i64;
        options.priority = row.u64()? as i64;
        options.ttl = duration(row.u64()?);
        options.ttr = duration(row.u64()?);
        options.capacity = Some(row.u64()?).filter(|tasks| *tasks > 0);
        options.max_attempts = Some(row.u32()?).filter(|attempts| *attempts > 0);
        options.backoff = Backoff {
            first: duration(row.u64()?).unwrap_or(Duration::MAX),
            factor: row.u32()?,
            most: duration(row.u64()?).unwrap_or(Duration::MAX),
        };
        options.in_flight = row.u32()?;
        options.placement = Some(row.short()?).filter(|text| !text.is_empty()).map(str::to_owned);
        let (paused, extension) = (flags & 1 != 0, unpack_extension(&mut row)?);
        row.end(Self { name, run, paused, void_to, made_priority, options, extension })
    }
}

fn length(length: Option<Duration>) -> u64 {
    length.map_or(NEVER, crate::words::clock::micros)
}

fn duration(micros: u64) -> Option<Duration> {
    (micros != NEVER).then(|| Duration::from_micros(micros))
}

/// The work that is left for a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkRow {
    /// The tube that the work belongs to, or 0.
    pub(crate) tube: u32,
    /// The task to continue with.
    pub(crate) from: u64,
    pub(crate) extension: Extension,
}

impl WorkRow {
    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.u32(self.tube).u64(self.from);
        pack_extension(&mut row, &self.extension);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let (tube, from) = (row.u32()?, row.u64()?);
        let extension = unpack_extension(&mut row)?;
        row.end(Self { tube, from, extension })
    }
}

/// A named consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerRow {
    pub(crate) name: String,
    /// For how many microseconds its leases outlive the session.
    pub(crate) grace: u64,
    /// Queue time at which its grace ends, after its session has ended; [`NEVER`] while it is open.
    pub(crate) until: u64,
    /// Its leases with a token up to this one have no session: they wait for `resume` or the end of
    /// the grace.
    pub(crate) void_to: u64,
    pub(crate) extension: Extension,
}

impl ConsumerRow {
    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.short(&self.name).u64(self.grace).u64(self.until).u64(self.void_to);
        pack_extension(&mut row, &self.extension);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let name = row.short()?.to_owned();
        let (grace, until, void_to) = (row.u64()?, row.u64()?, row.u64()?);
        let extension = unpack_extension(&mut row)?;
        row.end(Self { name, grace, until, void_to, extension })
    }
}

/// What the caller gave with a put. It is written once, under the task's first rank, its *home*,
/// and never changes. When the task changes its state, only the small state row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskRow<'a> {
    /// Queue time of the put.
    pub(crate) created: u64,
    pub(crate) codec: u8,
    pub(crate) version: u16,
    pub(crate) group: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    /// Fields of later versions, as they are in the row, which is never rewritten.
    pub(crate) extension: &'a [u8],
    pub(crate) payload: PayloadPlace<'a>,
}

/// Where a task's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadPlace<'a> {
    /// At the end of the task's row.
    Inline(&'a [u8]),
    /// In a row of its own, `Tag::Body`, with this many bytes. The length is here so that a removal
    /// need not read that row.
    Separate(u64),
}

impl PayloadPlace<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Inline(payload) => payload.len() as u64,
            Self::Separate(bytes) => *bytes,
        }
    }

    pub(crate) fn is_separate(&self) -> bool {
        matches!(self, Self::Separate(_))
    }
}

impl<'a> TaskRow<'a> {
    pub(crate) fn encode(&self) -> Value {
        let flags = u8::from(self.group.is_some())
            | u8::from(self.key.is_some()) << 1
            | u8::from(self.payload.is_separate()) << 2
            | u8::from(!self.extension.is_empty()) << 3;
        let mut fixed = [0; 12];
        (fixed[0], fixed[1]) = (flags, self.codec);
        fixed[2..4].copy_from_slice(&self.version.to_be_bytes());
        fixed[4..].copy_from_slice(&self.created.to_be_bytes());
        let mut row = Packer::new();
        row.bytes(&fixed);
        self.group.map(|group| row.short(group));
        self.key.map(|key| row.short(key));
        row.bytes(self.extension);
        match self.payload {
            PayloadPlace::Inline(payload) => row.bytes(payload),
            PayloadPlace::Separate(bytes) => row.u64(bytes),
        };
        row.done()
    }

    pub(crate) fn decode(row: &'a [u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let mut fixed = row.part::<12>()?;
        let flags = fixed.u8().filter(|flags| *flags < 16)?;
        let (codec, version, created) = (fixed.u8()?, fixed.u16()?, fixed.u64()?);
        let group = if flags & 1 != 0 { Some(row.short()?) } else { None };
        let key = if flags & 2 != 0 { Some(row.short()?) } else { None };
        let extension = if flags & 8 != 0 { section(&mut row)? } else { &[] };
        let is_separate = flags & 4 != 0;
        let payload = if is_separate {
            PayloadPlace::Separate(row.u64()?)
        } else {
            PayloadPlace::Inline(row.take_rest())
        };
        row.end(Self { created, codec, version, group, key, extension, payload })
    }
}

/// The bytes of an extension section that a flag announces.
fn section<'a>(row: &mut Unpacker<'a>) -> Option<&'a [u8]> {
    let before = row.rest();
    Extension::decode(row).filter(|extension| !extension.is_empty())?;
    before.get(..before.len() - row.rest().len())
}

fn pack_place(row: &mut Packer, place: &Rank) {
    row.u64(place.priority as u64).bytes(place.order.as_bytes());
}

fn unpack_place(row: &mut Unpacker<'_>, is_placed: bool) -> Option<Rank> {
    let priority = row.u64()? as i64;
    let order = Order::of_bytes(row.bytes(if is_placed { 16 } else { 8 })?)?;
    Some(Rank { priority, order })
}

/// Where a task was put and its present rank, for a task whose rank does not follow from its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionRow<'a> {
    /// The rank under which its `TaskRow` is stored.
    pub(crate) home: Rank,
    /// Its rank among the ready tasks, now or when it becomes ready again.
    pub(crate) place: Rank,
    pub(crate) group: Option<&'a str>,
}

impl<'a> PositionRow<'a> {
    pub(crate) fn encode(&self) -> Value {
        let has_moved = self.home != self.place;
        let mut row = Packer::new();
        row.u8(u8::from(self.group.is_some())
            | u8::from(self.home.order.is_placed()) << 1
            | u8::from(has_moved) << 2);
        pack_place(&mut row, &self.home);
        if has_moved {
            pack_place(&mut row, &self.place);
        }
        self.group.map(|group| row.short(group));
        row.done()
    }

    pub(crate) fn decode(row: &'a [u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let flags = row.u8().filter(|flags| *flags < 8)?;
        let home = unpack_place(&mut row, flags & 2 != 0)?;
        let has_moved = flags & 4 != 0;
        let place = if has_moved { unpack_place(&mut row, flags & 2 != 0)? } else { home };
        let group = if flags & 1 != 0 { Some(row.short()?) } else { None };
        row.end(Self { home, place, group }).filter(|_| has_moved == (home != place))
    }
}

/// The part of the state rows without a rank in their key that describes the task. With it a plain
/// task leaves its state without a read of its own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    /// The rank that the task returns to; `None`: the one that follows from its id.
    pub(crate) place: Option<Rank>,
    /// Whether its own row names another group than its tube's kind implies.
    pub(crate) grouped: bool,
    pub(crate) keyed: bool,
    /// Whether its own row has fields of later versions.
    pub(crate) extended: bool,
    /// Whether its payload is in a row of its own.
    pub(crate) apart: bool,
    /// Bytes of the payload.
    pub(crate) bytes: u32,
}

impl Away {
    /// The flag bits above the two that the state itself uses.
    fn flags(&self) -> u8 {
        u8::from(self.grouped) << 2
            | u8::from(self.keyed) << 3
            | u8::from(self.apart) << 4
            | u8::from(self.place.is_some()) << 5
            | u8::from(self.place.is_some_and(|place| place.order.is_placed())) << 6
            | u8::from(self.extended) << 7
    }

    fn pack(&self, row: &mut Packer) {
        if let Some(place) = &self.place {
            pack_place(row, place);
        }
    }

    fn unpack(flags: u8, bytes: u32, row: &mut Unpacker<'_>) -> Option<Self> {
        let is = |bit: u8| flags & 1 << bit != 0;
        let place = if is(5) { Some(unpack_place(row, is(6))?) } else { None };
        let (grouped, keyed, apart, extended) = (is(2), is(3), is(4), is(7));
        let away = Self { place, grouped, keyed, extended, apart, bytes };
        (away.flags() == flags & !3).then_some(away)
    }
}

/// What happened to a task since its put, at the end of its state row. A task that was only put
/// takes no byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskProgress {
    pub(crate) deliveries: u32,
    pub(crate) attempts: u32,
    pub(crate) releases: u32,
    pub(crate) buries: u32,
    /// Queue time at which its ttl ends: put + ttl + every delay that was asked for.
    pub(crate) expires: u64,
    /// How many microseconds a taker may hold it.
    pub(crate) ttr: u64,
    pub(crate) last_error: String,
    pub(crate) extension: Extension,
}

/// A state, and the task's home if that differs from the rank that it has or returns to.
pub(crate) type Homed<T> = (T, Option<Rank>);

impl TaskProgress {
    /// The progress of a task that has only been put.
    pub(crate) fn fresh(expires: u64, ttr: u64) -> Self {
        let (last_error, extension) = (String::new(), Extension::default());
        let (deliveries, attempts, releases, buries) = (0, 0, 0, 0);
        Self { deliveries, attempts, releases, buries, expires, ttr, last_error, extension }
    }

    /// The row of a ready task.
    pub(crate) fn encode(&self, home: Option<&Rank>) -> Value {
        if self.flags(home) == 0 {
            return Value::from([]);
        }
        let mut row = Packer::new();
        self.pack(&mut row, home);
        row.done()
    }

    #[inline]
    pub(crate) fn decode(row: &[u8]) -> Option<Homed<Self>> {
        Self::unpack(Unpacker::new(row))
    }

    fn pack(&self, row: &mut Packer, home: Option<&Rank>) {
        let flags = self.flags(home);
        if flags == 0 {
            return;
        }
        row.u8(flags);
        if flags & 1 != 0 {
            row.u32s(self.counts());
        }
        for time in [self.expires, self.ttr] {
            if time != NEVER {
                row.u64(time);
            }
        }
        if !self.last_error.is_empty() {
            row.text(&self.last_error);
        }
        if let Some(home) = home {
            pack_place(row, home);
        }
        pack_extension(row, &self.extension);
    }

    /// Reads the rest of a row.
    #[inline]
    fn unpack(row: Unpacker<'_>) -> Option<Homed<Self>> {
        if row.rest().is_empty() {
            return Some((Self::fresh(NEVER, NEVER), None));
        }
        Self::unpack_fields(row)
    }

    fn unpack_fields(mut row: Unpacker<'_>) -> Option<Homed<Self>> {
        let mut head = Self::fresh(NEVER, NEVER);
        let flags = row.u8().filter(|flags| (1..128).contains(flags))?;
        if flags & 1 != 0 {
            let mut counts = row.part::<16>()?;
            (head.deliveries, head.attempts) = (counts.u32()?, counts.u32()?);
            (head.releases, head.buries) = (counts.u32()?, counts.u32()?);
        }
        if flags & 2 != 0 {
            head.expires = row.u64()?;
        }
        if flags & 4 != 0 {
            head.ttr = row.u64()?;
        }
        if flags & 8 != 0 {
            head.last_error = row.text()?.to_owned();
        }
        let home =
            if flags & 16 != 0 { Some(unpack_place(&mut row, flags & 32 != 0)?) } else { None };
        if flags & 64 != 0 {
            head.extension = unpack_extension(&mut row)?;
        }
        let is_canonical = head.flags(home.as_ref()) == flags;
        row.end((head, home)).filter(|_| is_canonical)
    }

    fn counts(&self) -> [u32; 4] {
        [self.deliveries, self.attempts, self.releases, self.buries]
    }

    /// Which fields are written. A field with the usual value is left out.
    fn flags(&self, home: Option<&Rank>) -> u8 {
        u8::from(self.counts() != [0; 4])
            | u8::from(self.expires != NEVER) << 1
            | u8::from(self.ttr != NEVER) << 2
            | u8::from(!self.last_error.is_empty()) << 3
            | u8::from(home.is_some()) << 4
            | u8::from(home.is_some_and(|home| home.order.is_placed())) << 5
            | u8::from(!self.extension.is_empty()) << 6
    }
}

/// A taken task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakenRow {
    pub(crate) head: TaskProgress,
    pub(crate) token: u64,
    /// The named consumer, or 0.
    pub(crate) holder: u32,
    /// Lease time at the take. Invalid after a reopening.
    pub(crate) since: u64,
    /// Lease time at which the lease ends. Invalid after a reopening.
    pub(crate) deadline: u64,
}

impl TakenRow {
    pub(crate) fn encode(&self, away: &Away, home: Option<&Rank>) -> Value {
        let mut row = Packer::new();
        let mut fixed = [0; 21];
        fixed[0] =
            u8::from(self.holder != 0) | u8::from(self.deadline != NEVER) << 1 | away.flags();
        fixed[1..9].copy_from_slice(&self.token.to_be_bytes());
        fixed[9..17].copy_from_slice(&self.since.to_be_bytes());
        fixed[17..].copy_from_slice(&away.bytes.to_be_bytes());
        row.bytes(&fixed);
        if self.holder != 0 {
            row.u32(self.holder);
        }
        if self.deadline != NEVER {
            row.u64(self.deadline);
        }
        away.pack(&mut row);
        self.head.pack(&mut row, home);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<(Away, Homed<Self>)> {
        let mut rest = Unpacker::new(row);
        let mut fixed = rest.part::<21>()?;
        let flags = fixed.u8()?;
        let (token, since, bytes) = (fixed.u64()?, fixed.u64()?, fixed.u32()?);
        let holder = if flags & 1 != 0 { rest.u32().filter(|holder| *holder != 0)? } else { 0 };
        let deadline = if flags & 2 != 0 { rest.u64().filter(|it| *it != NEVER)? } else { NEVER };
        let away = Away::unpack(flags, bytes, &mut rest)?;
        let (head, home) = TaskProgress::unpack(rest)?;
        Some((away, (Self { head, token, holder, since, deadline }, home)))
    }
}

/// A delayed task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DelayedRow {
    pub(crate) head: TaskProgress,
    /// Queue or wall time at which it becomes ready.
    pub(crate) due: u64,
    pub(crate) wall: bool,
    /// Its group stays locked until then.
    pub(crate) holds_group: bool,
}

impl DelayedRow {
    pub(crate) fn deadline(&self) -> Deadline {
        if self.wall { Deadline::RunAt } else { Deadline::Delay }
    }

    pub(crate) fn encode(&self, away: &Away, home: Option<&Rank>) -> Value {
        let mut row = Packer::new();
        row.u8(u8::from(self.wall) | u8::from(self.holds_group) << 1 | away.flags());
        row.u64(self.due).u32(away.bytes);
        away.pack(&mut row);
        self.head.pack(&mut row, home);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<(Away, Homed<Self>)> {
        let mut rest = Unpacker::new(row);
        let (flags, due, bytes) = (rest.u8()?, rest.u64()?, rest.u32()?);
        let away = Away::unpack(flags, bytes, &mut rest)?;
        let (head, home) = TaskProgress::unpack(rest)?;
        let (wall, holds_group) = (flags & 1 != 0, flags & 2 != 0);
        Some((away, (Self { head, due, wall, holds_group }, home)))
    }
}

/// A buried task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuriedRow {
    pub(crate) head: TaskProgress,
    /// Queue time of the bury.
    pub(crate) time: u64,
    pub(crate) reason: Reason,
}

impl BuriedRow {
    /// The failure group, if the task was buried by `fail`.
    pub(crate) fn failure_group(&self) -> Option<&str> {
        match &self.reason {
            Reason::Failed { group, .. } => Some(group),
            Reason::Buried(_) | Reason::Exhausted(_) | Reason::Undecodable(_) => None,
        }
    }

    pub(crate) fn encode(&self, home: Option<&Rank>) -> Value {
        let mut row = Packer::new();
        row.u64(self.time);
        match &self.reason {
            Reason::Buried(text) => row.u8(1).text(text),
            Reason::Failed { group, message } => row.u8(2).text(group).text(message),
            Reason::Exhausted(text) => row.u8(3).text(text),
            Reason::Undecodable(text) => row.u8(4).text(text),
        };
        self.head.pack(&mut row, home);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Homed<Self>> {
        let mut rest = Unpacker::new(row);
        let (time, kind) = (rest.u64()?, rest.u8()?);
        let text = rest.text()?.to_owned();
        let reason = match kind {
            1 => Reason::Buried(text),
            2 => Reason::Failed { group: text, message: rest.text()?.to_owned() },
            3 => Reason::Exhausted(text),
            4 => Reason::Undecodable(text),
            _ => return None,
        };
        let (head, home) = TaskProgress::unpack(rest)?;
        Some((Self { head, time, reason }, home))
    }
}

/// A number as a row: an id, a count, a tube or consumer number.
pub(crate) fn number(number: u64) -> Value {
    Value::from(number.to_be_bytes())
}

pub(crate) fn read_number(row: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(row.try_into().ok()?))
}

/// Decodes the bytes as every kind of row, and asserts that encoding the result gives the same
/// bytes. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    let same = |encoded: Option<Value>| {
        assert!(encoded.is_none_or(|encoded| *encoded == *bytes), "a row has two encodings");
    };
    same(Counters::decode(bytes).map(|row| row.encode()));
    same(TubeRow::decode(bytes).map(|row| row.encode()));
    same(WorkRow::decode(bytes).map(|row| row.encode()));
    same(ConsumerRow::decode(bytes).map(|row| row.encode()));
    same(TaskRow::decode(bytes).map(|row| row.encode()));
    same(PositionRow::decode(bytes).map(|row| row.encode()));
    same(TaskProgress::decode(bytes).map(|(row, home)| row.encode(home.as_ref())));
    same(BuriedRow::decode(bytes).map(|(row, home)| row.encode(home.as_ref())));
    let taken = TakenRow::decode(bytes);
    same(taken.map(|(away, (row, home))| row.encode(&away, home.as_ref())));
    let delayed = DelayedRow::decode(bytes);
    same(delayed.map(|(away, (row, home))| row.encode(&away, home.as_ref())));
}

#[cfg(test)]
mod tests;
