//! The content of the base: one table of rows, and one small one with the anchor and the counts.
//! Encodings only. Every value has a checksum, because redb verifies its pages on repair but not on
//! a read.

use super::features::Features;
use super::head::QueueId;
use super::record::{Link, NUMBERS_END, RecordMeta, Span, boot_of, read_numbers, set_boot};
use crate::format::Value;
use crate::format::extension::Extension;
use crate::format::key::{Run, Tag};
use crate::format::pack::{Packer, Unpacker};
use crate::words::clock::{Boot, ClockMarks};
use crate::words::error::{Error, ErrorKind, Result};
use redb::TableDefinition;
use xxhash_rust::xxh3::xxh3_64;

/// The queue's own tables have names that begin with this; the application's must not.
pub(crate) const OWN_NAMES: &str = "tubewell";

pub(crate) type Bytes = &'static [u8];

/// Key → sealed value.
pub(crate) const ROWS: TableDefinition<'static, Bytes, Bytes> =
    TableDefinition::new("tubewell rows");
/// `anchor` → [`CheckpointPosition`]; `run`, number → [`Tally`].
pub(crate) const STATE: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("tubewell");

pub(crate) const ANCHOR: &[u8] = b"anchor";
const RUN: &[u8] = b"run";

/// Bytes of the checksum.
const SEAL: usize = 4;

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    // The hash is not seeded with the key, because seeding costs as much as hashing a row.
    (xxh3_64(value) ^ xxh3_64(key).rotate_left(32)) as u32
}

/// The value with its checksum, in a reused buffer.
pub(crate) fn seal<'a>(key: &[u8], value: &[u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    buffer.clear();
    buffer.extend_from_slice(value);
    buffer.extend_from_slice(&checksum(key, value).to_be_bytes());
    buffer
}

/// The value without its checksum; `None` if a byte has changed.
pub(crate) fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (value, seal) = sealed.split_at_checked(sealed.len().checked_sub(SEAL)?)?;
    (seal == checksum(key, value).to_be_bytes()).then_some(value)
}

/// The last record in the base, and its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointPosition {
    pub(crate) queue: QueueId,
    /// Counts the commits that moved the anchor. After a commit with an unknown outcome it shows
    /// whether the commit took place.
    pub(crate) serial: u64,
    /// The last record that the base holds; number 0 before the first.
    pub(crate) span: Span,
    pub(crate) meta: RecordMeta,
    /// The start of the machine, the features in use, and fields of later versions.
    extension: Extension,
}

/// Number of the extension field with the features in use. The start of the machine has the same
/// number as in a record.
const FEATURES: u16 = 2;

impl CheckpointPosition {
    /// The anchor of a queue without records. The first record is chained to the seed.
    pub(crate) fn genesis(queue: QueueId, seed: u64) -> Self {
        let span = Span { link: Link { number: 0, checksum: seed }, start: 0, end: 0 };
        let (meta, extension) = (RecordMeta::default(), Extension::default());
        Self { queue, serial: 0, span, meta, extension }
    }

    pub(crate) fn boot(&self) -> Option<Boot> {
        boot_of(&self.extension)
    }

    /// The copy of the features in use.
    ///
    /// # Errors
    /// `Damaged` if it cannot be read.
    pub(crate) fn features(&self) -> Result<Features> {
        let Some(field) = self.extension.get(FEATURES) else { return Ok(Features::default()) };
        let mut fields = Unpacker::new(field);
        let features = Features::decode(&mut fields).and_then(|features| fields.end(features));
        let what = "the features in the anchor of base.redb";
        features.ok_or_else(|| Error::new(ErrorKind::Damaged).because(what))
    }

    /// The next anchor, at this record.
    pub(crate) fn at(
        &self,
        span: Span,
        meta: RecordMeta,
        boot: Option<Boot>,
        features: &Features,
    ) -> Self {
        let mut extension = self.extension.clone();
        set_boot(&mut extension, boot);
        if *features != Features::default() {
            // They fit into a slot of the head; a section holds sixteen times as much.
            let _ = extension.set(FEATURES, &features.encode());
        }
        Self { queue: self.queue, serial: self.serial + 1, span, meta, extension }
    }

    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.bytes(&self.queue).u64(self.serial);
        row.u64(self.span.link.number).u64(self.span.link.checksum);
        row.u64(self.span.start).u64(self.span.end);
        let RecordMeta { marks, reserved, durable_bytes } = self.meta;
        row.u64(marks.queue).u64(marks.wall).u64(durable_bytes);
        row.u64(reserved.ids).u64(reserved.tokens);
        self.extension.encode(&mut row);
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut fields = Unpacker::new(row);
        let queue = fields.bytes(16)?.try_into().ok()?;
        let serial = fields.u64()?;
        let link = Link { number: fields.u64()?, checksum: fields.u64()? };
        let span = Span { link, start: fields.u64()?, end: fields.u64()? };
        let marks = ClockMarks { queue: fields.u64()?, wall: fields.u64()? };
        let durable_bytes = fields.u64()?;
        let meta = RecordMeta { marks, reserved: read_numbers(&mut fields)?, durable_bytes };
        let extension = Extension::decode(&mut fields)?;
        fields
            .end(Self { queue, serial, span, meta, extension })
            .filter(|it| it.span.is_in_a_ring())
            .filter(|it| it.serial.max(it.span.link.number) < NUMBERS_END)
    }
}

/// How many rows of each tag a run has, by the tag's index among the counted ones. It grows by a
/// word with each tag, also of those that only the queue has: one array for all is counted without
/// a branch on the plain path, and the disk has only the numbers that are not 0.
pub(crate) type Tally = [u64; Tag::TALLIED];

/// Of a run without rows.
pub(crate) const NO_ROWS: Tally = [0; Tag::TALLIED];

pub(crate) fn run_key(run: Run) -> Vec<u8> {
    [RUN, &run.0.to_be_bytes()].concat()
}

pub(crate) fn run_of(key: &[u8]) -> Option<Run> {
    let number = key.strip_prefix(RUN)?.try_into().ok()?;
    Some(Run(u32::from_be_bytes(number)))
}

/// The counts that are not zero, each after its tag, in the order of the tags.
pub(crate) fn encode_tally(tally: &Tally) -> Value {
    let mut row = Packer::new();
    for tag in Tag::ALL {
        match tag.tallied().and_then(|place| tally.get(place)) {
            Some(0) | None => {}
            Some(count) => drop(row.u8(tag as u8).u64(*count)),
        }
    }
    row.done()
}

/// Refuses a tag that this version does not know: the next write would lose its count.
pub(crate) fn decode_tally(row: &[u8]) -> Option<Tally> {
    let mut tally = NO_ROWS;
    let mut fields = Unpacker::new(row);
    let mut last = 0;
    while let Some(byte) = fields.u8() {
        let count = fields.u64().filter(|count| *count != 0 && byte > last)?;
        *tally.get_mut(Tag::of(byte)?.tallied()?)? = count;
        last = byte;
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::feature::{Feature, Unknown};
    use crate::words::numbers::Numbers;
    use redb::TableHandle;

    #[test]
    fn golden_rows_of_the_base() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let first = CheckpointPosition::genesis(*b"0123456789abcdef", 0xfeed);
        let zero = "0".repeat(16);
        let one = "0000000000000001";
        assert_eq!(
            hex(&first.encode()[16..]),
            format!("{zero}{zero}000000000000feed{}{one}{one}0000", zero.repeat(5))
        );
        let span = Span { link: Link { number: 2, checksum: 3 }, start: 4, end: 5 };
        let marks = ClockMarks { queue: 6, wall: 7 };
        let reserved = Numbers { ids: 9, tokens: 10 };
        let meta = RecordMeta { marks, reserved, durable_bytes: 8 };
        let boot = Boot { id: 11, offset: 12 };
        let used = Feature { number: 3, unknown: Unknown::Refuse, name: "nap".into() };
        let features = Features::default().with(&used).unwrap();
        let anchor = first.at(span, meta, Some(boot), &features);
        let fields: String = (1..11).map(|field| format!("{field:016x}")).collect();
        assert_eq!(
            hex(&anchor.encode()),
            format!(
                "30313233343536373839616263646566{fields}0029{}{}",
                "000100180000000000000000000000000000000b000000000000000c",
                "000200090001000301036e6170"
            )
        );
        assert_eq!(CheckpointPosition::decode(&anchor.encode()).as_ref(), Some(&anchor));
        assert_eq!((anchor.boot(), anchor.features().unwrap()), (Some(boot), features));
        assert_eq!((first.boot(), first.features().unwrap()), (None, Features::default()));
        let names = [ROWS.name(), STATE.name()];
        assert_eq!((names, ANCHOR), (["tubewell rows", "tubewell"], b"anchor".as_slice()));
        assert_eq!(hex(&run_key(Run(5))), "72756e00000005");
        assert_eq!(run_of(&run_key(Run(5))), Some(Run(5)));
        let mut tally = NO_ROWS;
        tally[Tag::Ready.tallied().unwrap()] = 9;
        tally[Tag::Failed.tallied().unwrap()] = 7;
        assert_eq!(hex(&encode_tally(&tally)), "120000000000000009200000000000000007");
        assert_eq!(decode_tally(&encode_tally(&tally)), Some(tally));
        let one = |tag: u8, count: u8| [tag, 0, 0, 0, 0, 0, 0, 0, count];
        assert_eq!(decode_tally(&one(0x99, 1)), None, "an unknown tag");
        assert_eq!(decode_tally(&one(Tag::Tube as u8, 1)), None, "a tag that is counted in memory");
        assert_eq!(decode_tally(&one(0x12, 0)), None, "a zero count is not written");
        assert_eq!(decode_tally(&[one(0x12, 1), one(0x12, 1)].concat()), None, "once");
        assert_eq!(decode_tally(&[one(0x13, 1), one(0x12, 1)].concat()), None, "in order");
        assert_eq!(hex(seal(b"k", b"v", &mut Vec::new())), "769699e464");
    }

    /// Fields of a later version in the anchor are written back.
    #[test]
    fn unknown_fields_of_the_anchor_are_kept() {
        let mut anchor = CheckpointPosition::genesis(QueueId::default(), 1);
        assert!(anchor.extension.set(77, b"later"));
        let read = CheckpointPosition::decode(&anchor.encode()).unwrap();
        let next = read.at(read.span, read.meta, None, &Features::default());
        assert_eq!(
            CheckpointPosition::decode(&next.encode()).unwrap().extension.get(77),
            Some(&b"later"[..])
        );
    }

    #[test]
    fn a_changed_bit_in_key_or_value_is_found() {
        let mut buffer = Vec::new();
        let sealed = seal(b"key", b"value", &mut buffer).to_vec();
        assert_eq!(unseal(b"key", &sealed), Some(b"value".as_slice()));
        assert_eq!(unseal(b"kez", &sealed), None);
        for at in 0..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            assert_eq!(unseal(b"key", &flipped), None);
        }
        assert_eq!(unseal(b"key", b"abc"), None);
    }

    /// Regression: an opening with numbers that are used up reserved more of them without end, and
    /// with a position near the last one that there is it panicked in a debug build.
    #[test]
    fn numbers_and_places_that_no_queue_reaches_are_damage() {
        let mut anchor = CheckpointPosition::genesis(QueueId::default(), 7);
        assert!(CheckpointPosition::decode(&anchor.encode()).is_some());
        for (ids, tokens) in [(u64::MAX, 1), (1, u64::MAX), (1, 1 << 62)] {
            let mut anchor = anchor.clone();
            anchor.meta.reserved = Numbers { ids, tokens };
            assert_eq!(CheckpointPosition::decode(&anchor.encode()), None);
        }
        for end in [u64::MAX, NUMBERS_END] {
            let (mut serial, mut number) = (anchor.clone(), anchor.clone());
            (serial.serial, number.span.link.number) = (end, end);
            assert_eq!(CheckpointPosition::decode(&serial.encode()), None);
            assert_eq!(CheckpointPosition::decode(&number.encode()), None);
        }
        (anchor.span.start, anchor.span.end) = (u64::MAX - 8, u64::MAX);
        assert_eq!(CheckpointPosition::decode(&anchor.encode()), None);
    }
}
