//! The rows of a task that do not depend on its state: what the caller said of it, and where it was
//! put and stands.

use crate::format::extension::{self, Extension};
use crate::format::key::{Order, Rank};
use crate::format::pack::{Packer, Unpacker, Value, bits, flags};
use crate::format::piece::Pieces;
use crate::format::row::details;
use crate::words::clock::NEVER;
use crate::words::limits::{DETAILS_BYTES_MAX, LABEL_BYTES_MAX, SCHEDULE_NAME_MAX};
use std::collections::BTreeMap;

/// What the caller said of a task. It is written once, under the task's first place in its tube,
/// its *home*, and changes there only when the payload is replaced; the small row of the task's
/// state goes from place to place beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskRow<'a> {
    /// Queue time of the put.
    pub(crate) created: u64,
    pub(crate) codec: u8,
    pub(crate) version: u16,
    /// Only of a task that was put as a fresh one: of another task the row of its state has them.
    pub(crate) times: Option<Times>,
    pub(crate) group: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    /// Fields of later versions, as they stand in the row.
    pub(crate) extension: &'a [u8],
    pub(crate) payload: PayloadPlace<'a>,
}

/// The times of a task, as the put gave them. At least one is not [`NEVER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Queue time at which its life ends.
    pub(crate) expires: u64,
    /// Microseconds that a taker may hold it.
    pub(crate) ttr: u64,
}

impl Times {
    pub(crate) const NONE: Self = Self { expires: NEVER, ttr: NEVER };

    fn unpack(row: &mut Unpacker<'_>) -> Option<Self> {
        let times = Self { expires: row.u64()?, ttr: row.u64()? };
        (times != Self::NONE).then_some(times)
    }
}

/// Where a task's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadPlace<'a> {
    /// At the end of the task's row.
    Inline(&'a [u8]),
    /// In rows of their own, `Tag::Piece`.
    Separate(Pieces),
}

impl PayloadPlace<'_> {
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Inline(payload) => payload.len() as u64,
            Self::Separate(pieces) => u64::from(pieces.bytes),
        }
    }

    pub(crate) fn pieces(&self) -> Option<Pieces> {
        match self {
            Self::Inline(_) => None,
            Self::Separate(pieces) => Some(*pieces),
        }
    }
}

/// Number of the extension field of a task's row with its kind, a text of 1 to 255 bytes. A version
/// that does not know it keeps it.
const KIND_FIELD: u16 = 1;

/// Number of the field with the result of the step before.
const PASSED_FIELD: u16 = 2;

/// Number of the field, without content, of a task that came from another tube.
const MOVED_FIELD: u16 = 3;

/// Number of the field with the queue time from which the ttl counts, if that is not the put.
const SINCE_FIELD: u16 = 4;

/// Number of the field with the generation of the payload, if the put's was replaced.
const PAYLOAD_FIELD: u16 = 5;

/// The extension section of a task whose payload is of this generation now; 0 is that of the put.
/// `None` if there is no room for it.
pub(crate) fn replaced_section(section: &[u8], generation: u32) -> Option<Value> {
    let mut fields = match section {
        [] => Extension::default(),
        section => Extension::decode(&mut Unpacker::new(section))?,
    };
    fields.remove(DROPPED_FIELD);
    match generation {
        0 => fields.remove(PAYLOAD_FIELD),
        generation if !fields.set(PAYLOAD_FIELD, &generation.to_be_bytes()) => return None,
        _ => {}
    }
    Some(packed(&fields))
}

/// Number of the field, without content, of a finished task that was kept without its payload.
const DROPPED_FIELD: u16 = 8;

/// The extension section of a task whose payload is dropped. `None` if there is no room for it.
pub(crate) fn dropped_section(section: &[u8]) -> Option<Value> {
    let mut fields = match section {
        [] => Extension::default(),
        section => Extension::decode(&mut Unpacker::new(section))?,
    };
    fields.set(DROPPED_FIELD, &[]).then(|| packed(&fields))
}

/// The bytes of a section; none of an empty one.
fn packed(fields: &Extension) -> Value {
    if fields.is_empty() {
        return Value::EMPTY;
    }
    let mut section = Packer::new();
    fields.encode(&mut section);
    section.done()
}

/// The extension section of a task after a move: with the fields of this one, this result of the
/// step before, and the queue time from which its ttl counts, if it has one. `None` if there is no
/// room for it.
pub(crate) fn moved_section(
    section: &[u8],
    passed: Option<&[u8]>,
    is_moved: bool,
    since: Option<u64>,
) -> Option<Value> {
    let mut fields = match section {
        [] => Extension::default(),
        section => Extension::decode(&mut Unpacker::new(section))?,
    };
    match passed {
        Some(passed) if !fields.set(PASSED_FIELD, passed) => return None,
        Some(_) => {}
        None => fields.remove(PASSED_FIELD),
    }
    match since {
        Some(since) if !fields.set(SINCE_FIELD, &since.to_be_bytes()) => return None,
        Some(_) => {}
        None => fields.remove(SINCE_FIELD),
    }
    match is_moved {
        true if !fields.set(MOVED_FIELD, &[]) => return None,
        true => {}
        false => fields.remove(MOVED_FIELD),
    }
    Some(packed(&fields))
}

/// Numbers of the fields with the book of a task, a text of 1 to 255 bytes, and with its details.
const BOOK_FIELD: u16 = 6;
const DETAILS_FIELD: u16 = 7;

/// Number of the field with the schedule that has made the task: the nominal time, then the
/// schedule's name, a text of 1 to 234 bytes.
const SPAWNED_FIELD: u16 = 9;

/// The schedule that has made a task, and when it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spawned<'a> {
    pub(crate) by: &'a str,
    /// By the clock of the schedule.
    pub(crate) nominal: u64,
}

impl<'a> Spawned<'a> {
    fn encode(self) -> Value {
        let mut field = Packer::new();
        field.u64(self.nominal).bytes(self.by.as_bytes());
        field.done()
    }

    fn decode(field: &'a [u8]) -> Option<Self> {
        let (nominal, by) = field.split_first_chunk()?;
        let by = str::from_utf8(by).ok()?;
        let is_name = (1..=SCHEDULE_NAME_MAX).contains(&by.len());
        is_name.then_some(Self { by, nominal: u64::from_be_bytes(*nominal) })
    }
}

/// What a caller says of a task in the fields of its row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels<'a> {
    pub(crate) kind: Option<&'a str>,
    pub(crate) book: Option<&'a str>,
    pub(crate) details: BTreeMap<&'a str, &'a str>,
    /// Of a task that no caller has put.
    pub(crate) spawned: Option<Spawned<'a>>,
}

impl Labels<'_> {
    fn is_empty(&self) -> bool {
        let is_named = self.kind.is_some() || self.book.is_some();
        !is_named && self.details.is_empty() && self.spawned.is_none()
    }
}

/// The extension section of a task with these labels; empty without any.
pub(crate) fn label_section(labels: &Labels<'_>) -> Value {
    if labels.is_empty() {
        return Value::EMPTY;
    }
    // All of it is far shorter than a section.
    labelled_section(&[], labels).unwrap_or(Value::EMPTY)
}

/// The extension section of a task with these labels instead of its own; those that are not given
/// stay. `None` if there is no room for it.
pub(crate) fn labelled_section(section: &[u8], labels: &Labels<'_>) -> Option<Value> {
    let mut fields = match section {
        [] => Extension::default(),
        section => Extension::decode(&mut Unpacker::new(section))?,
    };
    for (number, label) in [(KIND_FIELD, labels.kind), (BOOK_FIELD, labels.book)] {
        if let Some(label) = label
            && !fields.set(number, label.as_bytes())
        {
            return None;
        }
    }
    if let Some(spawned) = labels.spawned
        && !fields.set(SPAWNED_FIELD, &spawned.encode())
    {
        return None;
    }
    if !labels.details.is_empty() {
        let own = if section.is_empty() { None } else { extension::find(section, DETAILS_FIELD) };
        let mut details: BTreeMap<&str, &str> =
            own.and_then(details::decode).unwrap_or_default().into_iter().collect();
        details.extend(&labels.details);
        let details = details::encode(details.into_iter());
        if details.len() > DETAILS_BYTES_MAX || !fields.set(DETAILS_FIELD, &details) {
            return None;
        }
    }
    Some(packed(&fields))
}

impl<'a> TaskRow<'a> {
    /// The kind that the caller has given it.
    #[inline]
    pub(crate) fn kind(&self) -> Option<&'a str> {
        if self.extension.is_empty() {
            return None;
        }
        extension::find(self.extension, KIND_FIELD).and_then(|kind| str::from_utf8(kind).ok())
    }

    /// The book that the caller has given it.
    pub(crate) fn book(&self) -> Option<&'a str> {
        match self.extension {
            [] => None,
            section => extension::find(section, BOOK_FIELD).and_then(details::read_book),
        }
    }

    /// Its own details, by name.
    pub(crate) fn details(&self) -> Vec<(&'a str, &'a str)> {
        let field = match self.extension {
            [] => None,
            section => extension::find(section, DETAILS_FIELD).and_then(details::decode),
        };
        field.unwrap_or_default()
    }

    /// The schedule that has made it.
    pub(crate) fn spawned(&self) -> Option<Spawned<'a>> {
        match self.extension {
            [] => None,
            section => extension::find(section, SPAWNED_FIELD).and_then(Spawned::decode),
        }
    }

    /// The result of the step before.
    pub(crate) fn passed(&self) -> Option<&'a [u8]> {
        match self.extension {
            [] => None,
            section => extension::find(section, PASSED_FIELD),
        }
    }

    /// The queue time from which its ttl counts.
    pub(crate) fn lives_since(&self) -> u64 {
        let since = match self.extension {
            [] => None,
            section => extension::find(section, SINCE_FIELD).and_then(|it| it.try_into().ok()),
        };
        since.map_or(self.created, u64::from_be_bytes)
    }

    /// Counts the replacements of its payload; 0 is the payload of the put. Pieces are of the
    /// generation after it.
    pub(crate) fn payload_generation(&self) -> u32 {
        let generation = match self.extension {
            [] => None,
            section => extension::find(section, PAYLOAD_FIELD).and_then(|it| it.try_into().ok()),
        };
        generation.map_or(0, u32::from_be_bytes)
    }

    /// Whether its payload was not kept with it when it was finished. Then it has no bytes.
    pub(crate) fn is_payload_dropped(&self) -> bool {
        !self.extension.is_empty() && extension::find(self.extension, DROPPED_FIELD).is_some()
    }

    /// Whether it came from another tube: then a row of the queue leads to it.
    pub(crate) fn is_moved(&self) -> bool {
        !self.extension.is_empty() && extension::find(self.extension, MOVED_FIELD).is_some()
    }

    pub(crate) fn encode(&self) -> Value {
        let (is_apart, is_extended) = (self.payload.pieces().is_some(), !self.extension.is_empty());
        let (grouped, keyed) = (self.group.is_some(), self.key.is_some());
        let mut fixed = [0; 12];
        fixed[0] = flags([grouped, keyed, is_apart, is_extended, self.times.is_some()]);
        fixed[1] = self.codec;
        fixed[2..4].copy_from_slice(&self.version.to_be_bytes());
        fixed[4..].copy_from_slice(&self.created.to_be_bytes());
        let mut row = Packer::new();
        row.bytes(&fixed);
        if let Some(times) = self.times {
            row.u64(times.expires).u64(times.ttr);
        }
        self.group.map(|group| row.short(group));
        self.key.map(|key| row.short(key));
        if is_extended {
            row.bytes(self.extension);
        }
        match self.payload {
            PayloadPlace::Inline(payload) => drop(row.bytes(payload)),
            PayloadPlace::Separate(pieces) => pieces.pack(&mut row),
        }
        row.done()
    }

    pub(crate) fn decode(row: &'a [u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let mut fixed = row.part(12)?;
        let flags = fixed.u8().filter(|flags| *flags < 32)?;
        let [grouped, keyed, is_apart, is_extended, is_timed, ..] = bits(flags);
        let (codec, version, created) = (fixed.u8()?, fixed.u16()?, fixed.u64()?);
        let times = if is_timed { Some(Times::unpack(&mut row)?) } else { None };
        let group = if grouped { Some(row.short()?) } else { None };
        let key = if keyed { Some(row.short()?) } else { None };
        let extension = if is_extended { section(&mut row)? } else { &[] };
        let payload = match is_apart {
            true => PayloadPlace::Separate(Pieces::unpack(&mut row)?),
            false => PayloadPlace::Inline(row.take_rest()),
        };
        row.end(Self { created, codec, version, times, group, key, extension, payload })
    }

    /// The times in the row of a fresh task. Reads nothing else of it.
    #[inline]
    pub(crate) fn times(row: &[u8]) -> Option<Times> {
        let (fixed, rest) = row.split_first_chunk::<12>()?;
        let [.., is_timed, _, _, _] = bits(fixed[0]);
        if is_timed { Times::unpack(&mut Unpacker::new(rest)) } else { Some(Times::NONE) }
    }
}

/// The bytes of an extension section that a flag has announced.
fn section<'a>(row: &mut Unpacker<'a>) -> Option<&'a [u8]> {
    let before = row.rest();
    Extension::decode(row).filter(|extension| !extension.is_empty())?;
    let section = before.get(..before.len() - row.rest().len())?;
    let kind = extension::find(section, KIND_FIELD);
    let is_kind = |kind: &[u8]| (1..=LABEL_BYTES_MAX).contains(&kind.len());
    let is_sound = kind.is_none_or(|kind| is_kind(kind) && str::from_utf8(kind).is_ok())
        && extension::find(section, BOOK_FIELD).is_none_or(|it| details::read_book(it).is_some())
        && extension::find(section, DETAILS_FIELD).is_none_or(|it| details::decode(it).is_some())
        && extension::find(section, DROPPED_FIELD).is_none_or(<[u8]>::is_empty)
        && extension::find(section, SPAWNED_FIELD).is_none_or(|it| Spawned::decode(it).is_some());
    is_sound.then_some(section)
}

pub(crate) fn pack_place(row: &mut Packer, place: &Rank) {
    row.u64(place.priority as u64).bytes(place.order.as_bytes());
}

pub(crate) fn unpack_place(row: &mut Unpacker<'_>, is_placed: bool) -> Option<Rank> {
    let priority = row.u64()? as i64;
    let order = Order::of_bytes(row.bytes(if is_placed { 16 } else { 8 })?)?;
    Some(Rank { priority, order })
}

/// Where a task was put and where it stands, for one of which its id does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PositionRow {
    /// Where its `TaskRow` is.
    pub(crate) home: Rank,
    /// Where it stands among the ready ones, now or when it is back.
    pub(crate) place: Rank,
}

impl PositionRow {
    pub(crate) fn encode(&self) -> Value {
        let has_moved = self.home != self.place;
        let mut row = Packer::new();
        row.u8(flags([self.home.order.is_placed(), has_moved]));
        pack_place(&mut row, &self.home);
        if has_moved {
            pack_place(&mut row, &self.place);
        }
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut row = Unpacker::new(row);
        let [is_placed, has_moved, ..] = bits(row.u8().filter(|flags| *flags < 4)?);
        let home = unpack_place(&mut row, is_placed)?;
        let place = if has_moved { unpack_place(&mut row, is_placed)? } else { home };
        row.end(Self { home, place }).filter(|_| has_moved == (home != place))
    }
}
