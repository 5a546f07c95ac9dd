//! How a ring is freed without the base. On a full disk the rows of the overlay are journaled once
//! more at the ring's head, and a slot in the journal's head says that an opening begins there.
//! This file computes how much of the ring must always stay free for that. No I/O.

use super::head::PAGE;
use super::record::{Link, NUMBERS_END, Span};
use crate::format::layer::Layer;
use crate::format::pack::Unpacker;
use xxhash_rust::xxh3::xxh3_64;

/// The largest row that is journaled is the ring divided by this. A larger one goes to the base at
/// once.
pub(super) const ROW_PART: u64 = 12;
/// The largest record is the ring divided by this. After a checkpoint the ring has space for the
/// last record, which is still protected then, the next one, the bytes lost where that wraps, its
/// rows carried, and the part that is kept free.
pub(super) const RECORD_PART: u64 = 5;
/// The ring divided by this stays free, for the records of openings and for the bytes that are lost
/// where a carried record does not fit before the ring's end. It is larger than the largest row.
pub(super) const KEPT_PART: u64 = 8;

/// The maximum that a carried overlay may take, in percent of the ring: after a record that adds
/// tasks, after one that brings them back, after one that moves them, and after one that removes
/// rows. So puts leave room for the errors of what is taken, and these for takes, without which
/// nothing would be acked.
const MOST: [u64; 4] = [33, 35, 38, 41];
/// The size of the ring divided by these is what a record leaves free for those of the next
/// burdens. Where the ring is full before the overlay is as large as it may be, an ack does not
/// wait behind puts.
const SPARE_PART: [u64; 4] = [32, 48, 64, u64::MAX];
const _: () = assert!(KEPT_PART < ROW_PART && 2 * MOST[3] + 100 / KEPT_PART < 100);

/// What a record does to the overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Burden {
    /// It adds something new, such as a task.
    Adds = 0,
    /// It brings tasks back or sets them aside, with an error or a reason.
    Returns = 1,
    /// It moves tasks.
    Moves = 2,
    /// It removes rows.
    Frees = 3,
}

impl Burden {
    /// The burden of writes that are not known to add anything.
    pub(super) fn of(writes: &Layer) -> Self {
        if writes.mostly_removes() { Self::Frees } else { Self::Moves }
    }
}

/// The size of the overlay in bytes of carried records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Before the record.
    pub(super) carried: u64,
    /// The maximum after it.
    pub(super) most: u64,
    /// Bytes of the ring that it leaves free.
    pub(super) spare: u64,
}

impl Load {
    pub(super) fn of(carried: u64, ring: u64, burden: Burden) -> Self {
        let percents = MOST.get(burden as usize).copied().unwrap_or(0);
        let part = SPARE_PART.get(burden as usize).copied().unwrap_or(1);
        Self { carried, most: ring / 100 * percents, spare: ring / part }
    }
}

/// Offset of the page with the two slots in the journal.
pub(super) const PAGE_AT: u64 = 3 * PAGE as u64;
/// Bytes from one slot to the next.
const SLOT_APART: u64 = PAGE as u64 / 2;
/// Bytes of a slot.
pub(super) const CARRY_BYTES: usize = 72;

/// A slot: the position of the last carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carry {
    /// Counts the carries. The two slots are written alternately.
    pub(super) sequence: u64,
    /// The serial of the base for which it was made. For another base it is not valid.
    pub(super) serial: u64,
    /// An opening begins after this record.
    pub(super) floor: Span,
    /// The last carried record.
    pub(super) upto: u64,
}

impl Carry {
    /// Its offset in the journal.
    pub(super) fn at(&self) -> u64 {
        PAGE_AT + self.sequence % 2 * SLOT_APART
    }

    pub(super) fn encode(&self, seed: u64) -> [u8; CARRY_BYTES] {
        let Span { link, start, end } = self.floor;
        let fields =
            [self.sequence, self.serial, link.number, link.checksum, start, end, self.upto, seed];
        let checksum = xxh3_64(fields.map(u64::to_be_bytes).as_flattened());
        let mut bytes = [0; CARRY_BYTES];
        for (to, from) in bytes.chunks_exact_mut(8).zip(fields.into_iter().chain([checksum])) {
            to.copy_from_slice(&from.to_be_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8], seed: u64) -> Option<Self> {
        let mut fields = Unpacker::new(bytes);
        let (sequence, serial) = (fields.u64()?, fields.u64()?);
        let link = Link { number: fields.u64()?, checksum: fields.u64()? };
        let floor = Span { link, start: fields.u64()?, end: fields.u64()? };
        let carry = Self { sequence, serial, floor, upto: fields.u64()? };
        let is_whole = bytes.get(..CARRY_BYTES)? == carry.encode(seed);
        let last = sequence.max(serial).max(floor.link.number).max(carry.upto);
        (is_whole && floor.is_in_a_ring() && last < NUMBERS_END).then_some(carry)
    }

    /// The later one of the two valid slots on their page.
    pub(super) fn of(page: &[u8], seed: u64) -> Option<Self> {
        let slot = |number: u64| {
            let at = (number * SLOT_APART) as usize;
            Self::decode(page.get(at..at + CARRY_BYTES)?, seed)
        };
        slot(0).into_iter().chain(slot(1)).max_by_key(|carry| carry.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_slot_counts_and_a_torn_one_does_not() {
        let link = Link { number: 7, checksum: 8 };
        let floor = Span { link, start: 64, end: 128 };
        let carry = |sequence| Carry { sequence, serial: 3, floor, upto: 9 };
        let mut page = vec![0; PAGE];
        assert_eq!(Carry::of(&page, 5), None);
        for sequence in 1..4 {
            let at = (carry(sequence).at() - PAGE_AT) as usize;
            page[at..at + CARRY_BYTES].copy_from_slice(&carry(sequence).encode(5));
            assert_eq!(Carry::of(&page, 5), Some(carry(sequence)));
            assert_eq!(Carry::of(&page, 6), None, "of another queue");
        }
        page[(carry(3).at() - PAGE_AT) as usize + 9] ^= 1;
        assert_eq!(Carry::of(&page, 5), Some(carry(2)));
    }
}
