//! The row of a tube: its options, and what holds for all of its tasks.

use super::{PendingGroups, PendingOptions, PendingSum, details, gates};
use crate::format::extension::Extension;
use crate::format::key::Run;
use crate::format::pack::{Packer, Unpacker, Value, bits, flags};
use crate::words::backoff::Backoff;
use crate::words::clock::{NEVER, micros};
use crate::words::history::HistoryLimits;
use crate::words::lapse::{Lapse, ReturnTo};
use crate::words::limits::KEEP_DAYS_MAX;
use crate::words::options::TubeOptions;
use crate::words::retention::Retention;
use crate::words::sync::Arc;
use crate::words::task_gates;
use crate::words::tube_kind::TubeKind;
use crate::words::unique::Unique;
use std::borrow::Cow;
use std::time::Duration;

/// A tube: its options, and what holds for all of its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TubeRow {
    pub(crate) name: String,
    pub(crate) run: Run,
    /// While it hands out nothing: why. In one field, because every take asks.
    pub(crate) shut: Option<Box<Shut>>,
    /// Leases with a token up to this one are void. This makes `release_all` one small commit.
    pub(crate) void_to: u64,
    /// The default priority that the tube was made with, as the number that orders tasks. It never
    /// changes: together with the id it gives the rank of every task without a stored position.
    pub(crate) made_priority: i64,
    pub(crate) options: TubeOptions,
    /// When its next task is due by its rate, in nanoseconds of the queue time; 0 before the first.
    pub(crate) pace: u128,
    /// How many schedules have it as the tube of their children.
    pub(crate) schedules: u32,
    pub(crate) pending: PendingOptions,
    pub(crate) extension: Extension,
}

/// Why a tube hands out nothing, apart from its gates: at least one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shut {
    /// It is paused: queue time at which that ends by itself, [`NEVER`] without end.
    pub(crate) pause: Option<u64>,
    /// The tube that its tasks are moved to.
    pub(crate) merges_into: Option<u32>,
}

impl Shut {
    pub(crate) fn of(pause: Option<u64>, merges_into: Option<u32>) -> Option<Box<Self>> {
        let is_any = pause.is_some() || merges_into.is_some();
        is_any.then(|| Box::new(Self { pause, merges_into }))
    }
}

/// Number of the extension field of a tube's row with what a back-off has besides its first wait,
/// factor and longest wait. Absent if it has neither.
const BACKOFF_FIELD: u16 = 1;

/// The content of that field: `step: u64 · jitter: u8`.
fn backoff_field(backoff: &Backoff) -> Option<[u8; 9]> {
    let mut field = [0; 9];
    field[..8].copy_from_slice(&micros(backoff.step).to_be_bytes());
    field[8] = backoff.jitter;
    (field != [0; 9]).then_some(field)
}

/// Number of the extension field of a tube's row with what becomes of its tasks at a lapse. Absent
/// for the default.
const LAPSE_FIELD: u16 = 2;

/// The content of that field: `grace: u64 · to: u8 · free: u8`, and after 4 the delay: `u64`.
pub(super) fn lapse_field(lapse: &Lapse) -> Value {
    let mut field = Packer::new();
    field.u64(micros(lapse.grace));
    let (to, after) = match lapse.to {
        ReturnTo::Place => (1, None),
        ReturnTo::Front => (2, None),
        ReturnTo::Back => (3, None),
        ReturnTo::After(delay) => (4, Some(micros(delay))),
    };
    field.u8(to).u8(u8::from(!lapse.charged));
    after.map(|delay| field.u64(delay));
    field.done()
}

/// Of a field: a default one was not written by this code.
fn read_lapse_field(field: &[u8]) -> Option<Lapse> {
    read_lapse(field).filter(|lapse| *lapse != Lapse::new())
}

pub(super) fn read_lapse(field: &[u8]) -> Option<Lapse> {
    let mut rest = Unpacker::new(field);
    let (grace, to, free) = (rest.u64()?, rest.u8()?, rest.u8().filter(|free| *free < 2)?);
    let to = match to {
        1 => ReturnTo::Place,
        2 => ReturnTo::Front,
        3 => ReturnTo::Back,
        4 => ReturnTo::After(endless(rest.u64()?)),
        _ => return None,
    };
    let lapse = Lapse { grace: endless(grace), to, charged: free == 0 };
    rest.end(lapse)
}

/// Numbers of the extension fields of a tube's row with how long it keeps finished and buried
/// tasks. Absent if it does not keep finished ones, and if it does not remove buried ones.
const FINISHED_FIELD: u16 = 3;
const BURIED_FIELD: u16 = 4;

/// The content of such a field: `age: u64 · count: u64 · bytes: u64`, each [`NEVER`] without a
/// limit.
pub(super) fn retention_field(kept: &Retention) -> [u8; 24] {
    let mut field = [0; 24];
    let limits = [length(kept.age), kept.count.unwrap_or(NEVER), kept.bytes.unwrap_or(NEVER)];
    for (to, limit) in field.chunks_exact_mut(8).zip(limits) {
        to.copy_from_slice(&limit.to_be_bytes());
    }
    field
}

pub(super) fn read_retention(field: &[u8]) -> Option<Retention> {
    let mut rest = Unpacker::new(field);
    let age = duration(rest.u64()?);
    let mut limit = || Some(Some(rest.u64()?).filter(|limit| *limit != NEVER));
    let (count, bytes) = (limit()?, limit()?);
    rest.end(Retention { age, count, bytes })
}

/// Number of the extension field of a tube's row with how much of its tasks' histories it keeps:
/// `entries: u32 · bytes: u32`. Absent for the default.
const HISTORY_FIELD: u16 = 5;

fn read_history_limits(field: &[u8]) -> Option<HistoryLimits> {
    let mut rest = Unpacker::new(field);
    let limits = HistoryLimits { entries: rest.u32()?, bytes: rest.u32()? };
    // A default one was not written by this code.
    rest.end(limits).filter(|limits| *limits != HistoryLimits::new() && limits.check().is_ok())
}

/// Numbers of the extension fields of a tube's row with the book and the details of its tasks.
/// Absent if it has none.
const BOOK_FIELD: u16 = 6;
const DETAILS_FIELD: u16 = 7;

/// Number of the extension field of a tube's row with where its keys are unique, and in which
/// states a task counts: `scope: u8 · states: u8`. Absent for the default.
const UNIQUE_FIELD: u16 = 8;

fn unique_field(unique: &Unique) -> [u8; 2] {
    let Unique { in_queue, delayed, ready, taken, buried, done } = *unique;
    [u8::from(in_queue), flags([delayed, ready, taken, buried, done])]
}

fn read_unique_field(field: &[u8]) -> Option<Unique> {
    let mut rest = Unpacker::new(field);
    let in_queue = rest.u8().filter(|scope| *scope < 2)? == 1;
    let [delayed, ready, taken, buried, done, ..] = bits(rest.u8().filter(|states| *states < 32)?);
    let unique = Unique { in_queue, delayed, ready, taken, buried, done };
    // A default one was not written by this code.
    rest.end(unique).filter(|unique| *unique != Unique::new() && unique.check().is_ok())
}

/// Number of the extension field, without content, of a tube that keeps finished tasks without
/// their payloads.
const DROPS_FIELD: u16 = 9;

/// Number of the extension field, without content, of a tube with an index of kinds.
const KINDS_FIELD: u16 = 10;

/// Number of the extension field of a tube's row with a change of how many tasks of a group may be
/// in flight, that not all groups follow yet: `before: u32 · to · until`, each with its length.
const GROUPS_FIELD: u16 = 11;

/// Numbers of the extension fields of a tube's row with a sum of the bytes of finished and of
/// buried tasks that does not contain all yet: twice `time: u64 · id: u64`.
const FINISHED_SUM_FIELD: u16 = 12;
const BURIED_SUM_FIELD: u16 = 13;

/// Number of the extension field of a tube's row with for how many days it keeps statistics:
/// `u32`. Absent if it keeps none.
const KEEP_DAYS_FIELD: u16 = 14;

fn read_keep_days(field: &[u8]) -> Option<u32> {
    let days = u32::from_be_bytes(field.try_into().ok()?);
    (1..=KEEP_DAYS_MAX).contains(&days).then_some(days)
}

/// Number of the extension field of a tube's row with the number of the tube that it is merged
/// into: `u32`. Absent if it is not.
const MERGES_FIELD: u16 = 22;

/// Number of the extension field of a tube's row with how many schedules have it: `u32`. Absent if
/// none has.
const SCHEDULES_FIELD: u16 = 23;

impl TubeRow {
    /// The fields of its options, and those that this version does not know.
    fn section(&self) -> Cow<'_, Extension> {
        let mut section = Cow::Borrowed(&self.extension);
        let mut add = |number, field: &[u8]| {
            // Not if fields of later versions left no room; then it is as by default.
            let _is_added = section.to_mut().set(number, field);
        };
        if let Some(field) = backoff_field(&self.options.backoff) {
            add(BACKOFF_FIELD, &field);
        }
        if self.options.lapse != Lapse::new() {
            add(LAPSE_FIELD, &lapse_field(&self.options.lapse));
        }
        if let Some(kept) = &self.options.keep_finished {
            add(FINISHED_FIELD, &retention_field(kept));
        }
        if let Some(kept) = &self.options.keep_buried {
            add(BURIED_FIELD, &retention_field(kept));
        }
        let HistoryLimits { entries, bytes } = self.options.history;
        if self.options.history != HistoryLimits::new() {
            let mut field = Packer::new();
            field.u32(entries).u32(bytes);
            add(HISTORY_FIELD, &field.done());
        }
        if let Some(book) = &self.options.book {
            add(BOOK_FIELD, book.as_bytes());
        }
        if !self.options.details.is_empty() {
            let details = self.options.details.iter().map(|(name, text)| (&**name, &**text));
            add(DETAILS_FIELD, &details::encode(details));
        }
        if self.options.unique != Unique::new() {
            add(UNIQUE_FIELD, &unique_field(&self.options.unique));
        }
        if self.options.drop_payloads {
            add(DROPS_FIELD, &[]);
        }
        if self.options.index_kinds {
            add(KINDS_FIELD, &[]);
        }
        if self.options.keep_days > 0 {
            add(KEEP_DAYS_FIELD, &self.options.keep_days.to_be_bytes());
        }
        if let Some(gates) = &self.options.gates {
            gates::write(gates, &mut add);
        }
        gates::write_pace(self.pace, &mut add);
        if let Some(groups) = &self.pending.groups {
            add(GROUPS_FIELD, &groups.field());
        }
        if let Some(into) = self.merges_into() {
            add(MERGES_FIELD, &into.to_be_bytes());
        }
        if self.schedules > 0 {
            add(SCHEDULES_FIELD, &self.schedules.to_be_bytes());
        }
        let PendingOptions { finished, buried, .. } = self.pending;
        for (number, sum) in [(FINISHED_SUM_FIELD, finished), (BURIED_SUM_FIELD, buried)] {
            if let Some(sum) = sum {
                add(number, &sum.field());
            }
        }
        section
    }

    /// The most tasks of this group that may be in flight.
    #[inline]
    pub(crate) fn most_in_flight(&self, group: &str) -> u64 {
        // Tasks with gates of their own are in no group.
        if task_gates::is_line(group) {
            return u64::MAX;
        }
        let before = self.pending.groups.as_ref().and_then(|it| it.before_in(group));
        u64::from(before.unwrap_or(self.options.in_flight))
    }

    /// Whether a take has to ask if it may take a task now.
    #[inline(always)]
    pub(crate) fn may_be_closed(&self) -> bool {
        self.shut.is_some() || self.options.gates.is_some()
    }

    /// While it is paused: when that ends by itself, [`NEVER`] without end.
    pub(crate) fn pause(&self) -> Option<u64> {
        self.shut.as_ref()?.pause
    }

    /// The tube that its tasks are moved to, while they are.
    pub(crate) fn merges_into(&self) -> Option<u32> {
        self.shut.as_ref()?.merges_into
    }

    /// When a pause ends by itself, in queue time; [`NEVER`] is not.
    pub(crate) fn pause_end(&self) -> u64 {
        self.pause().unwrap_or(NEVER)
    }

    pub(crate) fn encode(&self) -> Value {
        let options = &self.options;
        let (holds, spares) = (options.hold_group_while_delayed, options.ttl_spares_buried);
        let ends = self.pause_end() != NEVER;
        let paused = self.pause().is_some();
        let flags = flags([paused, options.temporary, holds, spares, ends, options.higher_first]);
        let mut row = Packer::new();
        row.short(&self.name).u32(self.run.0).u64(self.void_to).u8(flags).u8(options.kind.code());
        row.u64(self.made_priority as u64).u64(options.priority as u64);
        row.u64(length(options.ttl)).u64(length(options.ttr));
        row.u64(options.capacity.unwrap_or(0)).u32(options.max_attempts.unwrap_or(0));
        row.u64(micros(options.backoff.first)).u32(options.backoff.factor);
        row.u64(micros(options.backoff.most)).u32(options.in_flight);
        row.short(options.placement.as_deref().unwrap_or(""));
        if ends {
            row.u64(self.pause_end());
        }
        self.section().end_row(row)
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let name = row.short()?.to_owned();
        let run = Run(row.u32()?);
        let void_to = row.u64()?;
        let [paused, temporary, holds, spares, ends, higher_first, ..] =
            bits(row.u8().filter(|flags| *flags < 64)?);
        let mut options = TubeOptions::new(TubeKind::of_code(row.u8()?)?);
        options.temporary = temporary;
        options.hold_group_while_delayed = holds;
        options.ttl_spares_buried = spares;
        options.higher_first = higher_first;
        let made_priority = row.u64()? as i64;
        options.priority = row.u64()? as i64;
        options.ttl = duration(row.u64()?);
        options.ttr = duration(row.u64()?);
        options.capacity = Some(row.u64()?).filter(|tasks| *tasks > 0);
        options.max_attempts = Some(row.u32()?).filter(|attempts| *attempts > 0);
        options.backoff = Backoff {
            first: endless(row.u64()?),
            factor: row.u32()?,
            step: Duration::ZERO,
            jitter: 0,
            most: endless(row.u64()?),
        };
        options.in_flight = row.u32()?;
        options.placement = Some(row.short()?).filter(|text| !text.is_empty()).map(str::to_owned);
        let pause = match (paused, ends) {
            (false, false) => None,
            (true, false) => Some(NEVER),
            (true, true) => Some(row.u64().filter(|end| *end != NEVER)?),
            (false, true) => return None,
        };
        let mut extension = Extension::of_rest(row)?;
        read_section(&mut extension, &mut options)?;
        let pace = gates::take_pace(&mut extension)?;
        let pending = read_pending(&mut extension)?;
        let mut number = |field| match extension.take(field) {
            Some(field) => Some(Some(u32::from_be_bytes(field.as_slice().try_into().ok()?))),
            None => Some(None),
        };
        let (merges_into, schedules) = (number(MERGES_FIELD)?, number(SCHEDULES_FIELD)?);
        if schedules == Some(0) {
            return None;
        }
        Some(Self {
            name,
            run,
            shut: Shut::of(pause, merges_into),
            void_to,
            made_priority,
            options,
            pace,
            schedules: schedules.unwrap_or_default(),
            pending,
            extension,
        })
    }
}

/// Takes the fields of options out of the section of a tube's row.
fn read_section(extension: &mut Extension, options: &mut TubeOptions) -> Option<()> {
    if let Some(field) = extension.take(BACKOFF_FIELD) {
        let mut rest = Unpacker::new(&field);
        options.backoff.step = endless(rest.u64()?);
        options.backoff.jitter = rest.u8().filter(|percent| *percent <= 100)?;
        rest.end(())?;
        // An empty one was not written by this code.
        backoff_field(&options.backoff)?;
    }
    if let Some(field) = extension.take(LAPSE_FIELD) {
        options.lapse = read_lapse_field(&field)?;
    }
    for (number, option) in
        [(FINISHED_FIELD, &mut options.keep_finished), (BURIED_FIELD, &mut options.keep_buried)]
    {
        if let Some(field) = extension.take(number) {
            *option = Some(read_retention(&field)?);
        }
    }
    if let Some(field) = extension.take(HISTORY_FIELD) {
        options.history = read_history_limits(&field)?;
    }
    if let Some(field) = extension.take(BOOK_FIELD) {
        options.book = Some(details::read_book(&field)?.to_owned());
    }
    if let Some(field) = extension.take(DETAILS_FIELD) {
        let details = details::decode(&field)?.into_iter();
        let details = details.map(|(name, text)| (name.to_owned(), text.to_owned()));
        options.details = Arc::new(details.collect());
    }
    if let Some(field) = extension.take(UNIQUE_FIELD) {
        options.unique = read_unique_field(&field)?;
    }
    if let Some(field) = extension.take(KEEP_DAYS_FIELD) {
        options.keep_days = read_keep_days(&field)?;
    }
    for (number, option) in
        [(DROPS_FIELD, &mut options.drop_payloads), (KINDS_FIELD, &mut options.index_kinds)]
    {
        if let Some(field) = extension.take(number) {
            *option = field.is_empty().then_some(true)?;
        }
    }
    options.gates = gates::read(extension)?;
    Some(())
}

/// Takes what is left of changes of options out of the section of a tube's row.
fn read_pending(extension: &mut Extension) -> Option<PendingOptions> {
    let mut pending = PendingOptions::default();
    if let Some(field) = extension.take(GROUPS_FIELD) {
        pending.groups = Some(PendingGroups::read(&field)?);
    }
    let sums =
        [(FINISHED_SUM_FIELD, &mut pending.finished), (BURIED_SUM_FIELD, &mut pending.buried)];
    for (number, sum) in sums {
        if let Some(field) = extension.take(number) {
            *sum = Some(PendingSum::read(&field)?);
        }
    }
    Some(pending)
}

fn length(length: Option<Duration>) -> u64 {
    length.map_or(NEVER, micros)
}

fn duration(length: u64) -> Option<Duration> {
    (length != NEVER).then(|| Duration::from_micros(length))
}

pub(super) fn endless(length: u64) -> Duration {
    duration(length).unwrap_or(Duration::MAX)
}
