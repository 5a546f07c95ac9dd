//! The journal's records as bytes. Plain functions over slices; it reads and writes no file, and
//! no byte string makes it panic.
//!
//! A record is `checksum, prev, number, synced: u64 · len, kind: u32`, then `len` bytes of body,
//! then zeros up to a multiple of eight. The body is the fixed part (`queue time, last wall clock,
//! durable_bytes: u64`), what `kind` announces beside it (numbers reserved, an extension section, a
//! nonce) and the row writes (`op: u8 · key length: u16 · key · value length: u32 · value`, a
//! removal without the last two). A carried record has in place of row writes what rows and counts
//! are behind it. All numbers are big-endian.

use crate::format::RowOp;
use crate::format::extension::Extension;
use crate::format::key::{Key, Run};
use crate::format::pack::{Packer, Unpacker};
use crate::words::clock::{Boot, ClockMarks};
use crate::words::numbers::Numbers;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a record before its body.
pub(crate) const HEADER_BYTES: usize = 40;
/// Bytes of the fixed part of a body.
pub(crate) const STAMP_BYTES: usize = 24;
/// Records begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

/// What travels with every record beside the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordMeta {
    pub(crate) marks: ClockMarks,
    /// Numbers below these may have been given out. In a record only where they have moved.
    pub(crate) reserved: Numbers,
    /// Bytes of the payloads of all durable tubes, behind this record's rows. The total and not
    /// what the record adds, so that neither a replay nor an opening counts.
    pub(crate) durable_bytes: u64,
}

impl Default for RecordMeta {
    /// Of a queue without records.
    fn default() -> Self {
        Self { marks: ClockMarks::default(), reserved: Numbers::FIRST, durable_bytes: 0 }
    }
}

/// How a record moves the stamp on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MetaDelta {
    pub(crate) marks: ClockMarks,
    pub(crate) reserved: Numbers,
    /// Payload bytes that its rows bring in, less those that they take out.
    pub(crate) durable_bytes: i64,
}

impl RecordMeta {
    /// The stamp of the next record. Queue time and numbers never go back; the bytes do.
    #[inline]
    pub(crate) fn moved(self, by: MetaDelta) -> Self {
        Self {
            marks: ClockMarks { queue: self.marks.queue.max(by.marks.queue), wall: by.marks.wall },
            reserved: self.reserved.max(by.reserved),
            durable_bytes: self.durable_bytes.saturating_add_signed(by.durable_bytes),
        }
    }
}

/// What a body has before its rows.
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
            // What is empty is left out.
            true => Extension::decode(fields).filter(|extension| !extension.is_empty())?,
            false => Extension::default(),
        };
        Some(Self { marks, durable_bytes, reserved, extension })
    }

    /// The stamp behind the record, from the one before it.
    pub(crate) fn behind(&self, before: RecordMeta) -> RecordMeta {
        let Self { marks, durable_bytes, .. } = *self;
        RecordMeta { marks, reserved: self.reserved.unwrap_or(before.reserved), durable_bytes }
    }
}

/// Two numbers of eight bytes.
pub(crate) fn read_numbers(fields: &mut Unpacker<'_>) -> Option<Numbers> {
    Some(Numbers { ids: fields.u64()?, tokens: fields.u64()? })
}

/// Number of the extension field of a record or the anchor with the start of the machine.
const BOOT: u16 = 1;

/// Adds the start of the machine.
pub(crate) fn set_boot(to: &mut Extension, boot: Boot) {
    let field = [boot.id.to_be_bytes().as_slice(), &boot.offset.to_be_bytes()].concat();
    // A few dozen bytes of 64 KiB.
    let _ = to.set(BOOT, &field);
}

/// The start of the machine, if it is told.
pub(crate) fn boot_of(extension: &Extension) -> Option<Boot> {
    let (id, offset) = extension.get(BOOT)?.split_first_chunk()?;
    let offset = u64::from_be_bytes(offset.try_into().ok()?);
    Some(Boot { id: u128::from_be_bytes(*id), offset })
}

/// What a record is and what its body has beside the fixed part, in bits. One that is not known is
/// damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kind(u32);

impl Kind {
    /// The first record of an opening: a nonce instead of rows, so that records that a power cut
    /// has left behind the tail hang on nothing that is written later.
    const OPENING: u32 = 1;
    const RESERVES: u32 = 2;
    const EXTENDS: u32 = 4;
    /// Rows as they are behind this record, and counts: what an earlier part of the ring said.
    const CARRIED: u32 = 8;
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

/// What the next record hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) number: u64,
    pub(crate) checksum: u64,
}

/// Where a record stands in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) link: Link,
    pub(crate) start: u64,
    pub(crate) end: u64,
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
    /// `None` for what cannot be a header, whatever follows it.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Unpacker::new(bytes);
        let [checksum, prev, number, synced] =
            [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        let len = fields.u32()? as usize;
        let kind = Kind(fields.u32()?);
        (number > synced && len >= STAMP_BYTES).then_some(Self {
            checksum,
            prev,
            number,
            synced,
            len,
            kind,
        })
    }

    /// Bytes from this record to the next.
    pub(crate) fn size(&self) -> u64 {
        ((HEADER_BYTES + self.len).next_multiple_of(ALIGN)) as u64
    }

    pub(crate) fn link(&self) -> Link {
        Link { number: self.number, checksum: self.checksum }
    }
}

/// The queue's seed comes last: to seed the hash itself costs as much again as hashing a record.
fn checksum(rest: &[u8], seed: u64) -> u64 {
    xxh3_64(rest) ^ seed
}

/// Whether the record's bytes are those that were written. `record` begins at the header.
pub(crate) fn is_whole(record: &[u8], header: &Header, seed: u64) -> bool {
    let end = HEADER_BYTES + header.len;
    record.get(8..end).is_some_and(|rest| checksum(rest, seed) == header.checksum)
}

/// Where a record is put together; kept, so that writing one allocates nothing.
#[derive(Debug, Default)]
pub(crate) struct RecordBuilder {
    bytes: Vec<u8>,
    kind: Kind,
}

impl RecordBuilder {
    /// Begins a record; `reserves` if the reserved numbers have moved.
    pub(crate) fn begin(&mut self, stamp: &RecordMeta, reserves: bool) {
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
        self.kind = Kind(if reserves { Kind::RESERVES } else { 0 });
        let RecordMeta { marks, reserved, durable_bytes } = *stamp;
        let fixed = [marks.queue, marks.wall, durable_bytes].map(u64::to_be_bytes);
        self.bytes.extend_from_slice(fixed.as_flattened());
        if reserves {
            let numbers = [reserved.ids, reserved.tokens].map(u64::to_be_bytes);
            self.bytes.extend_from_slice(numbers.as_flattened());
        }
    }

    /// Makes it the first record of an opening.
    pub(crate) fn opening(&mut self, extension: &Extension, nonce: u64) {
        self.kind.0 |= Kind::OPENING;
        self.extend(extension);
        self.bytes.extend_from_slice(&nonce.to_be_bytes());
    }

    /// Makes it a record of carried rows.
    pub(crate) fn carried(&mut self, extension: &Extension) {
        self.kind.0 |= Kind::CARRIED;
        self.extend(extension);
    }

    fn extend(&mut self, extension: &Extension) {
        if !extension.is_empty() {
            self.kind.0 |= Kind::EXTENDS;
            let mut section = Packer::new();
            extension.encode(&mut section);
            self.bytes.extend_from_slice(&section.done());
        }
    }

    pub(crate) fn row(&mut self, key: &Key, op: &RowOp) {
        let code = match op {
            RowOp::Add(_) => ADD,
            RowOp::Change(_) => CHANGE,
            RowOp::Remove => REMOVE,
        };
        self.entry(code, key, op.value().map(|value| &**value));
    }

    /// A row as it is, gone perhaps.
    pub(crate) fn carried_row(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.entry(if value.is_some() { CHANGE } else { REMOVE }, key, value);
    }

    /// The counts of a run as they are.
    pub(crate) fn counts(&mut self, run: Run, tally: &[u8]) {
        self.entry(COUNTS, &run.0.to_be_bytes(), Some(tally));
    }

    #[inline]
    fn entry(&mut self, code: u8, key: &[u8], value: Option<&[u8]>) {
        debug_assert!(u16::try_from(key.len()).is_ok());
        let [high, low] = (key.len() as u16).to_be_bytes();
        self.bytes.extend_from_slice(&[code, high, low]);
        self.bytes.extend_from_slice(key);
        if let Some(value) = value {
            debug_assert!(u32::try_from(value.len()).is_ok());
            self.bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
            self.bytes.extend_from_slice(value);
        }
    }

    /// Bytes that the record will take.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.len().next_multiple_of(ALIGN) as u64
    }

    /// Fills in the header. The checksum covers everything behind itself and, through the seed,
    /// the queue's id.
    pub(crate) fn seal(&mut self, last: Link, synced: u64, seed: u64) -> Link {
        let number = last.number + 1;
        let len = (self.bytes.len() - HEADER_BYTES) as u32;
        let tail = (u64::from(len) << 32) | u64::from(self.kind.0);
        let mut fields = [0; HEADER_BYTES - 8];
        for (to, field) in fields.chunks_exact_mut(8).zip([last.checksum, number, synced, tail]) {
            to.copy_from_slice(&field.to_be_bytes());
        }
        if let Some(place) = self.bytes.get_mut(8..HEADER_BYTES) {
            place.copy_from_slice(&fields);
        }
        let checksum = checksum(self.bytes.get(8..).unwrap_or_default(), seed);
        if let Some(place) = self.bytes.get_mut(..8) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGN), 0);
        Link { number, checksum }
    }

    /// Zeros behind the record, no part of it.
    pub(crate) fn fill(&mut self, bytes: u64) {
        self.bytes.resize(self.bytes.len() + bytes as usize, 0);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Gives back the memory of a rare large record.
    pub(crate) fn shrink(&mut self, kept: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept);
    }
}

const ADD: u8 = 1;
const CHANGE: u8 = 2;
const REMOVE: u8 = 3;
const COUNTS: u8 = 4;

/// A row write as it stands in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSeen<'a> {
    pub(crate) key: &'a [u8],
    /// `None` for a removal.
    pub(crate) value: Option<&'a [u8]>,
    /// Whether the count of rows went up by this.
    pub(crate) adds: bool,
    /// Not a row: the key is a run, the value its counts.
    pub(crate) is_counts: bool,
}

/// The next row of a body behind its stamp. `Err` for bytes that are none.
pub(crate) fn next_row<'a>(fields: &mut Unpacker<'a>) -> Option<Result<RowSeen<'a>, ()>> {
    let code = fields.u8()?;
    let row = (|| {
        let len = usize::from(fields.u16()?);
        let key = fields.bytes(len)?;
        let value = match code {
            ADD | CHANGE | COUNTS => {
                let len = fields.u32()? as usize;
                Some(fields.bytes(len)?)
            }
            REMOVE => None,
            _ => return None,
        };
        Some(RowSeen { key, value, adds: code == ADD, is_counts: code == COUNTS })
    })();
    Some(row.ok_or(()))
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
    while let Some(Ok(_)) = next_row(&mut fields) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    const SEED: u64 = 0x6443_9946_d8fa_212d;

    fn sample() -> (RecordBuilder, Link) {
        let marks = ClockMarks { queue: 5, wall: 6 };
        let stamp = RecordMeta { marks, durable_bytes: 8, ..RecordMeta::default() };
        let mut draft = RecordBuilder::default();
        draft.begin(&stamp, false);
        let key = Key::from_slice(&[0x10, 0, 0, 0, 1, 9]);
        draft.row(&key, &RowOp::Add([1, 2, 3].as_slice().into()));
        draft.row(&key, &RowOp::Remove);
        let link = draft.seal(Link { number: 8, checksum: 0xfeed }, 4, SEED);
        (draft, link)
    }

    #[test]
    fn golden_record() {
        let (draft, link) = sample();
        assert_eq!(
            hex(draft.bytes()),
            concat!(
                "39dae567e690513d",
                "000000000000feed",
                "0000000000000009",
                "0000000000000004",
                "00000031",
                "00000000",
                "000000000000000500000000000000060000000000000008",
                "01000610000000010900000003010203",
                "030006100000000109",
                "00000000000000"
            )
        );
        assert_eq!(draft.size(), draft.bytes().len() as u64);
        let header = Header::read(draft.bytes()).unwrap();
        assert_eq!(header.link(), link);
        assert_eq!(header.size(), draft.size());
        assert!(is_whole(draft.bytes(), &header, SEED));
        assert!(!is_whole(draft.bytes(), &header, SEED + 1), "another queue's");
    }

    #[test]
    fn golden_opening_note_and_change() {
        let last = Link { number: 0, checksum: SEED };
        let mut draft = RecordBuilder::default();
        let reserved = Numbers { ids: 0x10001, tokens: 0x20001 };
        let stamp = RecordMeta { reserved, ..RecordMeta::default() };
        draft.begin(&stamp, true);
        let mut extension = Extension::default();
        set_boot(&mut extension, Boot { id: 0xb007, offset: 9 });
        draft.opening(&extension, 0xabcd);
        let link = draft.seal(last, 0, SEED);
        let opening = concat!(
            "20c157363b65f4a8",
            "64439946d8fa212d",
            "0000000000000001",
            "0000000000000000",
            "0000004e",
            "00000007",
            "000000000000000000000000000000000000000000000000",
            "00000000000100010000000000020001",
            "001c00010018",
            "0000000000000000000000000000b0070000000000000009",
            "000000000000abcd",
            "0000"
        );
        assert_eq!(hex(draft.bytes()), opening);
        draft.begin(&stamp, true);
        draft.seal(link, 1, SEED);
        assert_eq!(draft.size(), 80);
        assert_eq!(hex(&draft.bytes()[32..40]), "0000002800000002");
        draft.begin(&RecordMeta::default(), false);
        let op = RowOp::Change([7].as_slice().into());
        draft.row(&Key::from_slice(b"k"), &op);
        draft.seal(link, 1, SEED);
        assert_eq!(
            hex(&draft.bytes()[HEADER_BYTES + STAMP_BYTES..]),
            "0200016b000000010700000000000000"
        );
    }

    /// What the body of a sealed record has before its rows, and what is left of it.
    fn preamble(draft: &RecordBuilder) -> Option<(Preamble, usize)> {
        let header = Header::read(draft.bytes()).unwrap();
        let mut fields = Unpacker::new(&draft.bytes()[HEADER_BYTES..HEADER_BYTES + header.len]);
        let read = Preamble::read(header.kind, &mut fields);
        read.map(|preamble| (preamble, fields.rest().len()))
    }

    #[test]
    fn what_a_kind_announces_comes_back_and_an_unknown_bit_is_damage() {
        let stamp = RecordMeta {
            marks: ClockMarks { queue: 1, wall: 2 },
            reserved: Numbers { ids: 70, tokens: 80 },
            durable_bytes: 3,
        };
        let link = Link { number: 1, checksum: 2 };
        let boot = Boot { id: 5, offset: 6 };
        for bits in 0..8 {
            let mut draft = RecordBuilder::default();
            draft.begin(&stamp, bits & 1 != 0);
            let mut extension = Extension::default();
            if bits & 2 != 0 {
                set_boot(&mut extension, boot);
                assert!(extension.set(900, b"of a later version"));
            }
            if bits & 6 != 0 {
                draft.opening(&extension, 7);
            }
            draft.seal(link, 0, SEED);
            let (read, left) = preamble(&draft).unwrap();
            assert_eq!(read.extension, extension);
            assert_eq!(boot_of(&read.extension), (bits & 2 != 0).then_some(boot));
            let reserved = if bits & 1 != 0 { stamp.reserved } else { Numbers::FIRST };
            assert_eq!(read.behind(RecordMeta::default()), RecordMeta { reserved, ..stamp });
            assert_eq!(left, if bits & 6 != 0 { 8 } else { 0 });
            for unknown in 4..32 {
                draft.kind.0 |= 1 << unknown;
                draft.seal(link, 0, SEED);
                let header = Header::read(draft.bytes()).unwrap();
                assert!(is_whole(draft.bytes(), &header, SEED), "it is a record");
                assert_eq!(preamble(&draft), None, "bit {unknown}");
                draft.kind.0 &= 7;
            }
        }
        let kind = Kind(Kind::EXTENDS);
        let empty = [0; STAMP_BYTES + 2];
        assert_eq!(Preamble::read(kind, &mut Unpacker::new(&empty)), None, "an empty section");
    }

    #[test]
    fn queue_time_and_numbers_only_grow_and_bytes_go_both_ways() {
        let marks = |queue, wall| ClockMarks { queue, wall };
        let reserved = Numbers { ids: 7, tokens: 9 };
        let first = RecordMeta { marks: marks(5, 6), reserved, durable_bytes: 8 };
        let fewer = first.moved(MetaDelta {
            marks: marks(4, 3),
            reserved: Numbers { ids: 0, tokens: 10 },
            durable_bytes: -3,
        });
        let moved = Numbers { ids: 7, tokens: 10 };
        assert_eq!(fewer, RecordMeta { marks: marks(5, 3), reserved: moved, durable_bytes: 5 });
        let moved =
            |durable_bytes| first.moved(MetaDelta { durable_bytes, ..MetaDelta::default() });
        assert_eq!(moved(i64::MIN).durable_bytes, 0);
        assert_eq!(moved(i64::MAX).moved(MetaDelta::default()).durable_bytes, (1 << 63) + 7);
    }

    #[test]
    fn rows_come_back_and_no_flip_goes_unseen() {
        let (draft, _) = sample();
        let header = Header::read(draft.bytes()).unwrap();
        let body = &draft.bytes()[HEADER_BYTES..HEADER_BYTES + header.len];
        let mut fields = Unpacker::new(body);
        let (read, _) = preamble(&draft).unwrap();
        assert_eq!((read.behind(RecordMeta::default()).durable_bytes, read.reserved), (8, None));
        fields.bytes(STAMP_BYTES);
        let first = next_row(&mut fields).unwrap().unwrap();
        assert_eq!((first.value, first.adds), (Some([1, 2, 3].as_slice()), true));
        let second = next_row(&mut fields).unwrap().unwrap();
        assert_eq!((second.key, second.value), (first.key, None));
        assert_eq!(next_row(&mut fields), None);
        for cut in STAMP_BYTES + 1..body.len() {
            let mut fields = Unpacker::new(&body[STAMP_BYTES..cut]);
            while let Some(Ok(_)) = next_row(&mut fields) {}
        }
        for at in 0..HEADER_BYTES + header.len {
            let mut flipped = draft.bytes().to_vec();
            flipped[at] ^= 1;
            let seen =
                Header::read(&flipped).is_some_and(|header| is_whole(&flipped, &header, SEED));
            assert!(!seen, "flip at {at}");
        }
    }
}
