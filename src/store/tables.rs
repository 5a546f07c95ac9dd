//! What stands in the base: one table of rows, and one small one with the anchor and the counts.
//! Encodings only. Every value carries a checksum, because redb verifies its pages on repair and
//! never on a read.

use super::journal::Span;
use super::record::{Link, QueueId, Stamp};
use crate::bytes::Value;
use crate::bytes::key::{Run, Tag};
use crate::bytes::pack::{Packer, Unpacker};
use redb::TableDefinition;
use xxhash_rust::xxh3::xxh3_64;

/// Our tables' names begin with this; a guest's may not.
pub(crate) const OWN_NAMES: &str = "tubewell";

pub(crate) type Bytes = &'static [u8];

/// Key → sealed value.
pub(crate) const ROWS: TableDefinition<'static, Bytes, Bytes> =
    TableDefinition::new("tubewell rows");
/// `anchor` → [`Anchor`]; `run`, number → [`Tally`].
pub(crate) const STATE: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("tubewell");

pub(crate) const ANCHOR: &[u8] = b"anchor";
const RUN: &[u8] = b"run";

/// Bytes that sealing adds.
const SEAL: usize = 4;

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    // Not seeded with the key: to seed costs as much again as to hash a row.
    (xxh3_64(value) ^ xxh3_64(key).rotate_left(32)) as u32
}

/// The value with its checksum, in a buffer that is used again.
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

/// Which record the base holds up to, and what travelled with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub(crate) queue: QueueId,
    /// Counts the commits that moved the anchor, so that after one with an unknown outcome it is
    /// seen whether it took place.
    pub(crate) serial: u64,
    /// The last record that the base holds; number 0 before the first.
    pub(crate) span: Span,
    pub(crate) stamp: Stamp,
}

impl Anchor {
    /// Of a queue without records. The first hangs on the seed.
    pub(crate) fn genesis(queue: QueueId, seed: u64) -> Self {
        let span = Span { link: Link { number: 0, checksum: seed }, start: 0, end: 0 };
        // Ids begin at 1.
        Self { queue, serial: 0, span, stamp: Stamp { reserved: 1, ..Stamp::default() } }
    }

    pub(crate) fn encode(&self) -> Value {
        let mut row = Packer::new();
        row.bytes(&self.queue).u64(self.serial);
        row.u64(self.span.link.number).u64(self.span.link.checksum);
        row.u64(self.span.start).u64(self.span.end).bytes(&self.stamp.bytes());
        row.done()
    }

    pub(crate) fn decode(row: &[u8]) -> Option<Self> {
        let mut fields = Unpacker::new(row);
        let queue = fields.bytes(16)?.try_into().ok()?;
        let serial = fields.u64()?;
        let link = Link { number: fields.u64()?, checksum: fields.u64()? };
        let span = Span { link, start: fields.u64()?, end: fields.u64()? };
        let stamp = Stamp::read(&mut fields)?;
        fields.end(Self { queue, serial, span, stamp })
    }
}

/// How many rows of each tag a run has, by the tag's place among those that are counted so.
pub(crate) type Tally = [u64; Tag::TALLIED];

pub(crate) fn run_key(run: Run) -> Vec<u8> {
    [RUN, &run.0.to_be_bytes()].concat()
}

pub(crate) fn run_of(key: &[u8]) -> Option<Run> {
    let number = key.strip_prefix(RUN)?.try_into().ok()?;
    Some(Run(u32::from_be_bytes(number)))
}

/// The counts that are not zero, each behind its tag, in the order of the tags.
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

/// A count of a tag that this version does not know would be lost with the next write.
pub(crate) fn decode_tally(row: &[u8]) -> Option<Tally> {
    let mut tally = Tally::default();
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
    use crate::clock::Marks;
    use redb::TableHandle;

    #[test]
    fn golden_rows_of_the_base() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let span = Span { link: Link { number: 2, checksum: 3 }, start: 4, end: 5 };
        let marks = Marks { queue: 6, wall_high: 7 };
        let stamp = Stamp { marks, reserved: 8, durable_bytes: 9 };
        let anchor = Anchor { queue: *b"0123456789abcdef", serial: 1, span, stamp };
        let fields: String = (1..10).map(|field| format!("{field:016x}")).collect();
        assert_eq!(hex(&anchor.encode()), format!("30313233343536373839616263646566{fields}"));
        assert_eq!(Anchor::decode(&anchor.encode()), Some(anchor));
        let first = Anchor::genesis(anchor.queue, 0xfeed).encode();
        let zero = "0".repeat(16);
        assert_eq!(
            hex(&first[16..]),
            format!("{zero}{zero}000000000000feed{zero}{zero}{zero}{zero}0000000000000001{zero}")
        );
        let names = [ROWS.name(), STATE.name()];
        assert_eq!((names, ANCHOR), (["tubewell rows", "tubewell"], b"anchor".as_slice()));
        assert_eq!(hex(&run_key(Run(5))), "72756e00000005");
        assert_eq!(run_of(&run_key(Run(5))), Some(Run(5)));
        let mut tally = Tally::default();
        tally[Tag::Ready.tallied().unwrap()] = 9;
        tally[Tag::Failed.tallied().unwrap()] = 7;
        assert_eq!(hex(&encode_tally(&tally)), "120000000000000009200000000000000007");
        assert_eq!(decode_tally(&encode_tally(&tally)), Some(tally));
        let one = |tag: u8, count: u8| [tag, 0, 0, 0, 0, 0, 0, 0, count];
        assert_eq!(decode_tally(&one(0x99, 1)), None, "a tag that nobody knows");
        assert_eq!(decode_tally(&one(Tag::Tube as u8, 1)), None, "counted by what is in memory");
        assert_eq!(decode_tally(&one(0x12, 0)), None, "what is zero is left out");
        assert_eq!(decode_tally(&[one(0x12, 1), one(0x12, 1)].concat()), None, "once");
        assert_eq!(decode_tally(&[one(0x13, 1), one(0x12, 1)].concat()), None, "in order");
        assert_eq!(hex(seal(b"k", b"v", &mut Vec::new())), "769699e464");
    }

    #[test]
    fn a_flip_in_key_or_value_is_seen() {
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
}
