//! The head of the journal as bytes: the lead, a page that is never written again, the two slots of
//! the features in use, and a page that says where a carry begins. The ring begins after them.

use super::features::{SLOT_BYTES, Slot};
use crate::format::FORMAT;
use crate::format::pack::Unpacker;
use crate::words::limits::{JOURNAL_BYTES_MAX, JOURNAL_BYTES_MIN};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a page; the head and the ring consist of pages.
pub(crate) const PAGE: usize = 4096;
/// Bytes before the ring: the lead, two slots and the page of the carries.
pub(crate) const HEAD_BYTES: usize = PAGE + 2 * SLOT_BYTES + PAGE;

const MAGIC: [u8; 8] = *b"tubewell";
/// Magic and format with their own checksum. This layout is the same in every later format, so that
/// a newer file can be distinguished from a damaged one.
const LEAD_BYTES: usize = 12;
const LEAD_FIELDS: usize = 40;

/// The queue that a file belongs to.
pub(crate) type QueueId = [u8; 16];

/// The content of the lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournalHead {
    pub(crate) queue: QueueId,
    /// Bytes of the ring.
    pub(crate) ring: u64,
}

/// Why a head was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadFault {
    Foreign,
    Newer(u32),
    /// Made before format 1 was final.
    Unreleased,
    Damaged,
}

/// The checksum of magic and format: the upper half of their hash. Before the first release it was
/// the lower half.
fn lead_checksum(lead: &[u8]) -> u32 {
    (xxh3_64(lead) >> 32) as u32
}

impl JournalHead {
    /// The head of a new journal. Both slots are valid, so that losing one loses nothing.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&FORMAT.to_be_bytes());
        head.extend_from_slice(&lead_checksum(&head).to_be_bytes());
        head.extend_from_slice(&self.queue);
        head.extend_from_slice(&self.ring.to_be_bytes());
        head.extend_from_slice(&xxh3_64(&head).to_be_bytes());
        head.resize(PAGE, 0);
        for sequence in 0..2 {
            let slot = Slot { sequence, ..Slot::default() };
            head.extend_from_slice(&slot.encode(self.seed()));
        }
        head.resize(HEAD_BYTES, 0);
        head
    }

    /// The lead, and the valid slot.
    pub(crate) fn decode(head: &[u8]) -> Result<(Self, Slot), HeadFault> {
        let mut fields = Unpacker::new(head);
        if fields.bytes(MAGIC.len()) != Some(&MAGIC) {
            return Err(HeadFault::Foreign);
        }
        let lead = head.get(..LEAD_BYTES).ok_or(HeadFault::Damaged)?;
        let format = fields.u32().ok_or(HeadFault::Damaged)?;
        match fields.u32() {
            Some(checksum) if checksum == lead_checksum(lead) => {}
            Some(checksum) if checksum == xxh3_64(lead) as u32 => {
                return Err(HeadFault::Unreleased);
            }
            _ => return Err(HeadFault::Damaged),
        }
        if format > FORMAT {
            return Err(HeadFault::Newer(format));
        }
        let decoded = (|| {
            let queue = fields.bytes(16)?.try_into().ok()?;
            let (ring, checksum) = (fields.u64()?, fields.u64()?);
            let sizes = JOURNAL_BYTES_MIN..=JOURNAL_BYTES_MAX;
            let fits = sizes.contains(&ring) && ring.is_multiple_of(PAGE as u64);
            // Formats begin at 1.
            if format == 0 || !fits || xxh3_64(head.get(..LEAD_FIELDS)?) != checksum {
                return None;
            }
            let own = Self { queue, ring };
            Some((own, Slot::newest(head.get(PAGE..)?, own.seed())?))
        })();
        decoded.ok_or(HeadFault::Damaged)
    }

    /// Part of every checksum of this queue's records, so that records of another queue are not
    /// valid here.
    pub(crate) fn seed(&self) -> u64 {
        xxh3_64(&self.queue)
    }
}

/// Decodes the bytes as a head. For fuzzing.
pub(crate) fn probe(bytes: &[u8]) {
    let Ok((head, slot)) = JournalHead::decode(bytes) else { return };
    let fresh = head.encode();
    assert!(bytes.iter().zip(&fresh).take(LEAD_FIELDS).all(|(a, b)| a == b), "two leads");
    let page = slot.encode(head.seed());
    assert_eq!(Slot::decode(&page, head.seed()), Some(slot));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    const HEAD: JournalHead = JournalHead { queue: *b"0123456789abcdef", ring: 1 << 16 };

    #[test]
    fn golden_head() {
        let head = HEAD.encode();
        assert_eq!(head.len(), 16_384);
        assert!(head[12_288..].iter().all(|byte| *byte == 0));
        assert_eq!(
            hex(&head[..48]),
            concat!(
                "7475626577656c6c00000001",
                "0ba153f7",
                "30313233343536373839616263646566",
                "0000000000010000",
                "d6e7f9df1a405c8b"
            )
        );
        assert!(head[48..4096].iter().all(|byte| *byte == 0));
        for (page, sequence) in [(4096, "0000000000000000"), (8192, "0000000000000001")] {
            let checksum = xxh3_64(&head[page..page + 10]) ^ HEAD.seed();
            let slot = format!("{sequence}0000{checksum:016x}");
            assert_eq!(hex(&head[page..page + 18]), slot);
            assert!(head[page + 18..page + 4096].iter().all(|byte| *byte == 0));
        }
        assert_eq!(JournalHead::decode(&head), Ok((HEAD, Slot { sequence: 1, ..Slot::default() })));
    }

    /// Writes the checksum of magic and format, of this version or of the unreleased ones.
    fn seal_lead(head: &mut [u8], released: bool) {
        let hash = xxh3_64(&head[..12]);
        let checksum = if released { (hash >> 32) as u32 } else { hash as u32 };
        head[12..16].copy_from_slice(&checksum.to_be_bytes());
    }

    #[test]
    fn a_newer_head_differs_from_a_damaged_and_an_unreleased_one() {
        let mut head = HEAD.encode();
        for at in 0..48 {
            let mut flipped = head.clone();
            flipped[at] ^= 4;
            let fault = JournalHead::decode(&flipped).unwrap_err();
            assert!(matches!(fault, HeadFault::Foreign | HeadFault::Damaged), "{at}: {fault:?}");
        }
        let mut old = head.clone();
        seal_lead(&mut old, false);
        assert_eq!(JournalHead::decode(&old), Err(HeadFault::Unreleased));
        assert_eq!(JournalHead::decode(&old[..40]), Err(HeadFault::Unreleased));
        head[8..12].copy_from_slice(&7_u32.to_be_bytes());
        seal_lead(&mut head, true);
        head[16..].fill(0xaa);
        assert_eq!(JournalHead::decode(&head), Err(HeadFault::Newer(7)));
        assert_eq!(JournalHead::decode(&head[..13]), Err(HeadFault::Damaged));
        assert_eq!(JournalHead::decode(&[]), Err(HeadFault::Foreign));
        head[8..12].fill(0);
        seal_lead(&mut head, true);
        assert_eq!(JournalHead::decode(&head), Err(HeadFault::Damaged), "there was no format 0");
    }

    /// Regression: an impossible size near the largest number overflowed where the file's length
    /// was compared.
    #[test]
    fn a_head_with_an_impossible_ring_is_damaged() {
        for ring in [0, 4096, (64 << 10) + 1, (8 << 20) - 8, (1 << 30) + 4096, u64::MAX] {
            let head = JournalHead { ring, ..HEAD };
            assert_eq!(JournalHead::decode(&head.encode()), Err(HeadFault::Damaged), "{ring}");
        }
    }
}
