//! The journal's bytes: the head block and the records. Plain functions over slices; it reads and
//! writes no file, and no byte string makes it panic.
//!
//! A record is `checksum, prev, number, synced: u64 · len, kind: u32`, then `len` bytes of body,
//! then zeros up to a multiple of eight. The body is the stamp (`queue, wall_high, reserved,
//! durable_bytes: u64`) and the row writes (`op: u8 · key length: u16 · key · value length: u32 ·
//! value`, a removal without the last two). All numbers are big-endian.

use crate::bytes::key::Key;
use crate::bytes::pack::Unpacker;
use crate::bytes::{FORMAT, RowOp};
use crate::clock::Marks;
use crate::limits::{JOURNAL_BYTES_MAX, JOURNAL_BYTES_MIN};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of the head block; the ring begins behind it.
pub(crate) const HEAD_BYTES: usize = 4096;
/// Bytes of a record before its body.
pub(crate) const HEADER_BYTES: usize = 40;
/// Records begin at multiples of this.
pub(crate) const ALIGN: usize = 8;

const MAGIC: [u8; 8] = *b"tubewell";
/// Magic and format, with a checksum of their own, stand like this in every format to come: a
/// newer file must be told from a damaged one.
const LEAD_BYTES: usize = 12;
const HEAD_FIELDS: usize = 40;

/// Which queue a file belongs to.
pub(crate) type QueueId = [u8; 16];

/// What stands in the head block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) queue: QueueId,
    /// Bytes of the ring.
    pub(crate) ring: u64,
}

/// Why a head block was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    Foreign,
    Newer(u32),
    Damaged,
}

impl Head {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(HEAD_BYTES);
        block.extend_from_slice(&MAGIC);
        block.extend_from_slice(&FORMAT.to_be_bytes());
        block.extend_from_slice(&(xxh3_64(&block) as u32).to_be_bytes());
        block.extend_from_slice(&self.queue);
        block.extend_from_slice(&self.ring.to_be_bytes());
        block.extend_from_slice(&xxh3_64(&block).to_be_bytes());
        block.resize(HEAD_BYTES, 0);
        block
    }

    pub(crate) fn decode(block: &[u8]) -> Result<Self, HeadFault> {
        let mut fields = Unpacker::new(block);
        if fields.bytes(MAGIC.len()) != Some(&MAGIC) {
            return Err(HeadFault::Foreign);
        }
        let lead = block.get(..LEAD_BYTES).ok_or(HeadFault::Damaged)?;
        let format = fields.u32().ok_or(HeadFault::Damaged)?;
        if fields.u32() != Some(xxh3_64(lead) as u32) {
            return Err(HeadFault::Damaged);
        }
        if format > FORMAT {
            return Err(HeadFault::Newer(format));
        }
        // There was none before the first.
        if format == 0 {
            return Err(HeadFault::Damaged);
        }
        let queue = fields.bytes(16).and_then(|queue| queue.try_into().ok());
        let (Some(queue), Some(ring), Some(checksum)) = (queue, fields.u64(), fields.u64()) else {
            return Err(HeadFault::Damaged);
        };
        let sizes = JOURNAL_BYTES_MIN..=JOURNAL_BYTES_MAX;
        let fits = sizes.contains(&ring) && ring.is_multiple_of(HEAD_BYTES as u64);
        if !fits || block.get(..HEAD_FIELDS).map(xxh3_64) != Some(checksum) {
            return Err(HeadFault::Damaged);
        }
        Ok(Self { queue, ring })
    }

    /// What goes into every checksum of this queue's records, so that another queue's are no
    /// records here.
    pub(crate) fn seed(&self) -> u64 {
        xxh3_64(&self.queue)
    }
}

/// What travels with every record beside the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) marks: Marks,
    /// Numbers below this may have been given out.
    pub(crate) reserved: u64,
    /// Bytes of the payloads of all durable tubes, behind this record's rows. The total and not
    /// what the record adds, so that neither a replay nor an opening counts.
    pub(crate) durable_bytes: u64,
}

/// How a record moves the stamp on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Advance {
    pub(crate) marks: Marks,
    pub(crate) reserved: u64,
    /// Payload bytes that its rows bring in, less those that they take out.
    pub(crate) durable_bytes: i64,
}

pub(crate) const STAMP_BYTES: usize = 32;

impl Stamp {
    pub(crate) fn read(fields: &mut Unpacker<'_>) -> Option<Self> {
        let marks = Marks { queue: fields.u64()?, wall_high: fields.u64()? };
        Some(Self { marks, reserved: fields.u64()?, durable_bytes: fields.u64()? })
    }

    pub(crate) fn bytes(&self) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        let Marks { queue, wall_high } = self.marks;
        let fields = [queue, wall_high, self.reserved, self.durable_bytes];
        for (to, from) in bytes.chunks_exact_mut(8).zip(fields) {
            to.copy_from_slice(&from.to_be_bytes());
        }
        bytes
    }

    /// The stamp of the next record.
    #[inline]
    pub(crate) fn moved(self, by: Advance) -> Self {
        let durable_bytes = self.durable_bytes.saturating_add_signed(by.durable_bytes);
        let next = Self { marks: by.marks, reserved: by.reserved, durable_bytes };
        self.then(next)
    }

    /// The stamp behind a later record. Marks and numbers never go back; the bytes do.
    #[inline]
    pub(crate) fn then(self, later: Self) -> Self {
        Self {
            marks: Marks {
                queue: self.marks.queue.max(later.marks.queue),
                wall_high: self.marks.wall_high.max(later.marks.wall_high),
            },
            reserved: self.reserved.max(later.reserved),
            durable_bytes: later.durable_bytes,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Row writes.
    Rows = 0,
    /// The first record of an opening: a nonce instead of rows, so that records that a power cut
    /// has left behind the tail hang on nothing that is written later.
    Opening = 1,
}

/// What the next record hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) number: u64,
    pub(crate) checksum: u64,
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
        let kind = match fields.u32()? {
            0 => Kind::Rows,
            1 => Kind::Opening,
            _ => return None,
        };
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
pub(crate) struct Draft(Vec<u8>);

impl Draft {
    pub(crate) fn begin(&mut self, stamp: &Stamp) {
        self.0.clear();
        self.0.resize(HEADER_BYTES, 0);
        self.0.extend_from_slice(&stamp.bytes());
    }

    pub(crate) fn nonce(&mut self, nonce: u64) {
        self.0.extend_from_slice(&nonce.to_be_bytes());
    }

    pub(crate) fn row(&mut self, key: &Key, op: &RowOp) {
        let code = match op {
            RowOp::Add(_) => ADD,
            RowOp::Change(_) => CHANGE,
            RowOp::Remove => REMOVE,
        };
        debug_assert!(u16::try_from(key.len()).is_ok());
        let [high, low] = (key.len() as u16).to_be_bytes();
        self.0.extend_from_slice(&[code, high, low]);
        self.0.extend_from_slice(key);
        if let Some(value) = op.value() {
            debug_assert!(u32::try_from(value.len()).is_ok());
            self.0.extend_from_slice(&(value.len() as u32).to_be_bytes());
            self.0.extend_from_slice(value);
        }
    }

    /// Bytes that the record will take.
    pub(crate) fn size(&self) -> u64 {
        self.0.len().next_multiple_of(ALIGN) as u64
    }

    /// Fills in the header. The checksum covers everything behind itself and, through the seed,
    /// the queue's id.
    pub(crate) fn seal(&mut self, kind: Kind, last: Link, synced: u64, seed: u64) -> Link {
        let number = last.number + 1;
        let len = (self.0.len() - HEADER_BYTES) as u32;
        let tail = (u64::from(len) << 32) | kind as u64;
        let mut fields = [0; HEADER_BYTES - 8];
        for (to, field) in fields.chunks_exact_mut(8).zip([last.checksum, number, synced, tail]) {
            to.copy_from_slice(&field.to_be_bytes());
        }
        if let Some(place) = self.0.get_mut(8..HEADER_BYTES) {
            place.copy_from_slice(&fields);
        }
        let checksum = checksum(self.0.get(8..).unwrap_or_default(), seed);
        if let Some(place) = self.0.get_mut(..8) {
            place.copy_from_slice(&checksum.to_be_bytes());
        }
        self.0.resize(self.0.len().next_multiple_of(ALIGN), 0);
        Link { number, checksum }
    }

    /// Zeros behind the record, no part of it.
    pub(crate) fn fill(&mut self, bytes: u64) {
        self.0.resize(self.0.len() + bytes as usize, 0);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Gives back the memory of a rare large record.
    pub(crate) fn shrink(&mut self, kept: usize) {
        self.0.clear();
        self.0.shrink_to(kept);
    }
}

const ADD: u8 = 1;
const CHANGE: u8 = 2;
const REMOVE: u8 = 3;

/// A row write as it stands in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSeen<'a> {
    pub(crate) key: &'a [u8],
    /// `None` for a removal.
    pub(crate) value: Option<&'a [u8]>,
    /// Whether the count of rows went up by this.
    pub(crate) adds: bool,
}

/// The next row of a body behind its stamp. `Err` for bytes that are none.
pub(crate) fn next_row<'a>(fields: &mut Unpacker<'a>) -> Option<Result<RowSeen<'a>, ()>> {
    let code = fields.u8()?;
    let row = (|| {
        let len = usize::from(fields.u16()?);
        let key = fields.bytes(len)?;
        let value = match code {
            ADD | CHANGE => {
                let len = fields.u32()? as usize;
                Some(fields.bytes(len)?)
            }
            REMOVE => None,
            _ => return None,
        };
        Some(RowSeen { key, value, adds: code == ADD })
    })();
    Some(row.ok_or(()))
}

/// Reads the bytes as a head and as a record. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    if let Ok(head) = Head::decode(bytes) {
        let block = head.encode();
        assert!(bytes.iter().zip(&block).take(HEAD_FIELDS).all(|(a, b)| a == b), "two heads");
    }
    if let Some(header) = Header::read(bytes) {
        let _ = is_whole(bytes, &header, 0);
    }
    let mut fields = Unpacker::new(bytes);
    let _ = Stamp::read(&mut fields);
    while let Some(Ok(_)) = next_row(&mut fields) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::key::Key;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    const HEAD: Head = Head { queue: *b"0123456789abcdef", ring: 1 << 16 };

    #[test]
    fn golden_head() {
        let block = HEAD.encode();
        assert_eq!(block.len(), HEAD_BYTES);
        assert_eq!(
            hex(&block[..48]),
            concat!(
                "7475626577656c6c00000001",
                "9f7a97c3",
                "30313233343536373839616263646566",
                "0000000000010000",
                "c12fd9c8238c7ce9"
            )
        );
        assert!(block[48..].iter().all(|byte| *byte == 0));
        assert_eq!(Head::decode(&block), Ok(HEAD));
    }

    #[test]
    fn a_newer_head_is_told_from_a_damaged_one() {
        let mut block = HEAD.encode();
        for at in 0..48 {
            let mut flipped = block.clone();
            flipped[at] ^= 4;
            let fault = Head::decode(&flipped).unwrap_err();
            assert!(matches!(fault, HeadFault::Foreign | HeadFault::Damaged), "{at}: {fault:?}");
        }
        block[8..12].copy_from_slice(&7_u32.to_be_bytes());
        let lead = xxh3_64(&block[..12]) as u32;
        block[12..16].copy_from_slice(&lead.to_be_bytes());
        block[16..].fill(0xaa);
        assert_eq!(Head::decode(&block), Err(HeadFault::Newer(7)));
        assert_eq!(Head::decode(&block[..13]), Err(HeadFault::Damaged));
        assert_eq!(Head::decode(&[]), Err(HeadFault::Foreign));
        block[8..12].fill(0);
        let lead = xxh3_64(&block[..12]) as u32;
        block[12..16].copy_from_slice(&lead.to_be_bytes());
        assert_eq!(Head::decode(&block), Err(HeadFault::Damaged), "there was no format 0");
    }

    /// One that could not have been made: a size near the end of all numbers overflowed where the
    /// file's length was compared.
    #[test]
    fn a_head_with_a_ring_that_nobody_makes_is_damaged() {
        for ring in [0, 4096, (64 << 10) + 1, (8 << 20) - 8, (1 << 30) + 4096, u64::MAX] {
            let head = Head { ring, ..HEAD };
            assert_eq!(Head::decode(&head.encode()), Err(HeadFault::Damaged), "{ring}");
        }
    }

    fn sample() -> (Draft, Link) {
        let marks = Marks { queue: 5, wall_high: 6 };
        let stamp = Stamp { marks, reserved: 7, durable_bytes: 8 };
        let mut draft = Draft::default();
        draft.begin(&stamp);
        let key = Key::from_slice(&[0x10, 0, 0, 0, 1, 9]);
        draft.row(&key, &RowOp::Add([1, 2, 3].as_slice().into()));
        draft.row(&key, &RowOp::Remove);
        let link = draft.seal(Kind::Rows, Link { number: 8, checksum: 0xfeed }, 4, HEAD.seed());
        (draft, link)
    }

    #[test]
    fn golden_record() {
        let (draft, link) = sample();
        assert_eq!(
            hex(draft.bytes()),
            concat!(
                "b8b29e44f0066ffc",
                "000000000000feed",
                "0000000000000009",
                "0000000000000004",
                "00000039",
                "00000000",
                "0000000000000005000000000000000600000000000000070000000000000008",
                "01000610000000010900000003010203",
                "030006100000000109",
                "00000000000000"
            )
        );
        assert_eq!(draft.size(), draft.bytes().len() as u64);
        let header = Header::read(draft.bytes()).unwrap();
        assert_eq!(header.link(), link);
        assert_eq!(header.size(), draft.size());
        assert!(is_whole(draft.bytes(), &header, HEAD.seed()));
        assert!(!is_whole(draft.bytes(), &header, HEAD.seed() + 1), "another queue's");
    }

    #[test]
    fn golden_opening_and_change() {
        let last = Link { number: 0, checksum: HEAD.seed() };
        let mut draft = Draft::default();
        draft.begin(&Stamp { reserved: 1, ..Stamp::default() });
        draft.nonce(0xabcd);
        let link = draft.seal(Kind::Opening, last, 0, HEAD.seed());
        let opening = concat!(
            "888dec0b99f138f2",
            "64439946d8fa212d",
            "0000000000000001",
            "0000000000000000",
            "00000028",
            "00000001",
            "0000000000000000000000000000000000000000000000010000000000000000",
            "000000000000abcd"
        );
        assert_eq!(hex(draft.bytes()), opening);
        draft.begin(&Stamp::default());
        let op = RowOp::Change([7].as_slice().into());
        draft.row(&Key::from_slice(b"k"), &op);
        draft.seal(Kind::Rows, link, 1, HEAD.seed());
        assert_eq!(
            hex(&draft.bytes()[HEADER_BYTES + STAMP_BYTES..]),
            "0200016b000000010700000000000000"
        );
    }

    #[test]
    fn marks_and_numbers_only_grow_and_bytes_go_both_ways() {
        let marks = |queue, wall_high| Marks { queue, wall_high };
        let first = Stamp { marks: marks(5, 6), reserved: 7, durable_bytes: 8 };
        let fewer = first.moved(Advance { marks: marks(4, 9), reserved: 0, durable_bytes: -3 });
        assert_eq!(fewer, Stamp { marks: marks(5, 9), reserved: 7, durable_bytes: 5 });
        assert_eq!(first.then(fewer), fewer, "a replay does the same");
        let moved = |durable_bytes| first.moved(Advance { durable_bytes, ..Advance::default() });
        assert_eq!(moved(i64::MIN).durable_bytes, 0);
        assert_eq!(moved(i64::MAX).moved(Advance::default()).durable_bytes, (1 << 63) + 7);
    }

    #[test]
    fn rows_come_back_and_no_flip_goes_unseen() {
        let (draft, _) = sample();
        let header = Header::read(draft.bytes()).unwrap();
        let body = &draft.bytes()[HEADER_BYTES..HEADER_BYTES + header.len];
        let mut fields = Unpacker::new(body);
        assert_eq!(Stamp::read(&mut fields).unwrap().reserved, 7);
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
            let seen = Header::read(&flipped)
                .is_some_and(|header| is_whole(&flipped, &header, HEAD.seed()));
            assert!(!seen, "flip at {at}");
        }
    }
}
