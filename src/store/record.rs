//! The journal's records as bytes: their layout, and how they are read. Plain functions over
//! slices: they read and write no file, and no byte string makes them panic.
//! `store::record_builder` writes.
//!
//! A record is `checksum, prev, number, synced: u64 · len, kind: u32`, then `len` bytes of body,
//! then zeros up to a multiple of eight. `prev` is the checksum of the record before it. The body
//! is the fixed part (`queue time, last wall clock, durable_bytes: u64`), then the parts that
//! `kind` announces (reserved numbers, an extension section, a nonce), then the row writes (`op: u8
//! · key length: u16 · key · value length: u32 · value`, a removal without the last two). What it
//! adds to the statistics of a day stands among them, as the write of a value that is not the
//! row's. A carried record has no row writes but the rows and the counts as they are after it. All
//! numbers are big-endian.

use crate::format::extension::Extension;
use crate::format::pack::Unpacker;
use crate::words::clock::{Boot, ClockMarks};
use crate::words::limits::JOURNAL_BYTES_MAX;
use crate::words::numbers::Numbers;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a record before its body.
pub(crate) const HEADER_BYTES: usize = 40;
/// Bytes of the fixed part of a body.
pub(crate) const META_BYTES: usize = 24;
/// Records begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

/// The data of a record other than its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordMeta {
    pub(crate) marks: ClockMarks,
    /// Numbers below these may have been given out. A record has them only if they have changed.
    pub(crate) reserved: Numbers,
    /// Bytes of the payloads of all durable tubes, after this record's rows. It is the total and
    /// not the difference, so that neither a replay nor an opening has to count.
    pub(crate) durable_bytes: u64,
}

impl Default for RecordMeta {
    /// The metadata of a queue without records.
    fn default() -> Self {
        Self { marks: ClockMarks::default(), reserved: Numbers::FIRST, durable_bytes: 0 }
    }
}

/// How a record changes the metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetaDelta {
    pub(crate) marks: ClockMarks,
    pub(crate) reserved: Numbers,
    /// Payload bytes that its rows add, minus those that they remove.
    pub(crate) durable_bytes: i64,
}

impl RecordMeta {
    /// The metadata of the next record. Queue time and numbers never go back; the bytes can.
    #[inline]
    pub(crate) fn advanced(self, by: MetaDelta) -> Self {
        Self {
            marks: ClockMarks { queue: self.marks.queue.max(by.marks.queue), wall: by.marks.wall },
            reserved: self.reserved.max(by.reserved),
            durable_bytes: self.durable_bytes.saturating_add_signed(by.durable_bytes),
        }
    }
}

/// The part of a body before its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preamble {
    marks: ClockMarks,
    durable_bytes: u64,
    reserved: Option<Numbers>,
    pub(crate) extension: Extension,
}

impl Preamble {
    /// `None` for a body that this version cannot read.
    pub(crate) fn read(kind: Kind, fields: &mut Unpacker<'_>) -> Option<Self> {
        if kind.0 & !Kind::KNOWN != 0 {
            return None;
        }
        let marks = ClockMarks { queue: fields.u64()?, wall: fields.u64()? };
        let durable_bytes = fields.u64()?;
        let reserved = match kind.has(Kind::RESERVES) {
            true => Some(read_numbers(fields)?),
            false => None,
        };
        let extension = match kind.has(Kind::EXTENDS) {
            // An empty section is not written.
            true => Extension::decode(fields).filter(|extension| !extension.is_empty())?,
            false => Extension::default(),
        };
        Some(Self { marks, durable_bytes, reserved, extension })
    }

    /// The metadata after the record, from the metadata before it.
    pub(crate) fn meta_after(&self, before: RecordMeta) -> RecordMeta {
        let Self { marks, durable_bytes, .. } = *self;
        RecordMeta { marks, reserved: self.reserved.unwrap_or(before.reserved), durable_bytes }
    }
}

/// No queue counts up to this number. It is damage, so that one more than a valid number never
/// overflows.
pub(crate) const NUMBERS_END: u64 = 1 << 62;

/// Reads two numbers of eight bytes. Those that no queue reaches are damage: with none left an
/// opening would reserve more of them without end.
pub(crate) fn read_numbers(fields: &mut Unpacker<'_>) -> Option<Numbers> {
    let numbers = Numbers { ids: fields.u64()?, tokens: fields.u64()? };
    Some(numbers).filter(|it| it.ids.max(it.tokens) < NUMBERS_END)
}

/// Number of the extension field with the start of the machine, in a record or the anchor.
const BOOT: u16 = 1;

/// Adds the start of the machine, if the system has a boot clock.
pub(crate) fn set_boot(to: &mut Extension, boot: Option<Boot>) {
    let Some(boot) = boot else { return };
    let field = [boot.id.to_be_bytes().as_slice(), &boot.offset.to_be_bytes()].concat();
    // It always fits: 24 bytes of 64 KiB.
    let _ = to.set(BOOT, &field);
}

/// The start of the machine, if the extension has it.
pub(crate) fn boot_of(extension: &Extension) -> Option<Boot> {
    let (id, offset) = extension.get(BOOT)?.split_first_chunk()?;
    let offset = u64::from_be_bytes(offset.try_into().ok()?);
    Some(Boot { id: u128::from_be_bytes(*id), offset })
}

/// Bits for what a record is and which parts its body has. An unknown bit is damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind(pub(super) u32);

impl Kind {
    /// The first record of an opening. It has a nonce instead of rows. A power cut may leave
    /// records after the tail; because of the nonce, none of them follows a record that is written
    /// later.
    pub(super) const OPENING: u32 = 1;
    pub(super) const RESERVES: u32 = 2;
    pub(super) const EXTENDS: u32 = 4;
    /// Rows and counts as they are after this record. They replace an earlier part of the ring.
    pub(super) const CARRIED: u32 = 8;
    const KNOWN: u32 = 15;

    fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }

    pub(crate) fn has_rows(self) -> bool {
        !self.has(Self::OPENING)
    }

    pub(crate) fn is_carried(self) -> bool {
        self.has(Self::CARRIED)
    }
}

/// The number and the checksum of a record, which the next record refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) number: u64,
    pub(crate) checksum: u64,
}

/// The position of a record in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) link: Link,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Span {
    /// Whether a ring may be so long, its head included.
    pub(crate) fn is_in_a_ring(&self) -> bool {
        self.start.max(self.end) <= 2 * JOURNAL_BYTES_MAX
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) checksum: u64,
    pub(crate) prev: u64,
    pub(crate) number: u64,
    /// The highest number known to be synced when this was written.
    pub(crate) synced: u64,
    pub(crate) len: usize,
    pub(crate) kind: Kind,
}

impl Header {
    /// `None` for bytes that cannot be a header, whatever follows them.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Unpacker::new(bytes);
        let [checksum, prev, number, synced] =
            [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let len = fields.u32()? as usize;
        let kind = Kind(fields.u32()?);
        let header = Self { checksum, prev, number, synced, len, kind };
        (number > synced && number < NUMBERS_END && len >= META_BYTES).then_some(header)
    }

    /// Bytes from this record to the next.
    pub(crate) fn size(&self) -> u64 {
        ((HEADER_BYTES + self.len).next_multiple_of(ALIGN)) as u64
    }

    pub(crate) fn link(&self) -> Link {
        Link { number: self.number, checksum: self.checksum }
    }
}

/// The checksum of a record, over the bytes after it. The queue's seed is applied to the result: a
/// seeded hash costs twice as much.
pub(super) fn checksum(rest: &[u8], seed: u64) -> u64 {
    xxh3_64(rest) ^ seed
}

/// Whether the record's bytes are those that were written. `record` begins at the header.
pub(crate) fn is_whole(record: &[u8], header: &Header, seed: u64) -> bool {
    let end = HEADER_BYTES + header.len;
    record.get(8..end).is_some_and(|rest| checksum(rest, seed) == header.checksum)
}

pub(super) const ADD: u8 = 1;
pub(super) const CHANGE: u8 = 2;
pub(super) const REMOVE: u8 = 3;
pub(super) const COUNTS: u8 = 4;
pub(super) const DAYS: u8 = 5;

/// A row write that was read from a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordRow<'a> {
    pub(crate) key: &'a [u8],
    /// `None` for a removal.
    pub(crate) value: Option<&'a [u8]>,
    /// Whether it added a row.
    pub(crate) adds: bool,
    /// Whether it is not a row but counts: the key is a run, the value its counts.
    pub(crate) is_counts: bool,
    /// Whether it is not a row but what the record adds to a day's: the key is the row's.
    pub(crate) adds_to_day: bool,
}

/// The next row of a body after its preamble. `None` for bytes that are not a row.
pub(crate) fn next_row<'a>(fields: &mut Unpacker<'a>) -> Option<RecordRow<'a>> {
    let (code, len) = (fields.u8()?, usize::from(fields.u16()?));
    let key = fields.bytes(len)?;
    let value = match code {
        ADD | CHANGE | COUNTS | DAYS => {
            let len = fields.u32()? as usize;
            Some(fields.bytes(len)?)
        }
        REMOVE => None,
        _ => return None,
    };
    let (adds, is_counts, adds_to_day) = (code == ADD, code == COUNTS, code == DAYS);
    Some(RecordRow { key, value, adds, is_counts, adds_to_day })
}

/// Reads the bytes as a record. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    if let Some(header) = Header::read(bytes) {
        let _ = is_whole(bytes, &header, 0);
    }
    for kind in 0..=Kind::KNOWN {
        let _ = Preamble::read(Kind(kind), &mut Unpacker::new(bytes));
    }
    let mut fields = Unpacker::new(bytes);
    while next_row(&mut fields).is_some() {}
}

#[cfg(test)]
mod tests;
