//! The file `journal`: lead, slots of features, and the ring of records.

use super::bytes::{Bytes, Field, Read, ensure};
use xxhash_rust::xxh3::xxh3_64;

const PAGE: usize = 4096;
const CARRY_AT: usize = 3 * PAGE;
pub(crate) const RING_AT: usize = 4 * PAGE;
/// Bytes of a record before its body.
const HEADER: usize = 40;

/// The entry of a feature.
#[derive(Debug, PartialEq)]
pub(crate) struct Feature {
    number: u16,
    unknown: u8,
    pub(crate) name: String,
}

pub(crate) struct Journal {
    pub(crate) id: [u8; 16],
    pub(crate) seed: u64,
    /// Which of the two slots are valid.
    pub(crate) slots: [bool; 2],
    pub(crate) features: Vec<Feature>,
    /// Of the valid ones that with the higher sequence.
    pub(crate) carry: Option<Carry>,
    /// The number and the checksum of the last record, from the last close.
    pub(crate) clean_end: Option<(u64, u64)>,
    ring: Vec<u8>,
}

/// Where reading begins after a full disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Carry {
    sequence: u64,
    pub(crate) serial: u64,
    pub(crate) number: u64,
    pub(crate) checksum: u64,
    pub(crate) at: u64,
    pub(crate) end: u64,
    /// The last carried record.
    pub(crate) upto: u64,
}

pub(crate) struct Write {
    pub(crate) kind: u8,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

pub(crate) struct Record {
    pub(crate) at: u64,
    pub(crate) end: u64,
    pub(crate) checksum: u64,
    pub(crate) number: u64,
    pub(crate) synced: u64,
    pub(crate) queue_time: u64,
    pub(crate) wall_clock: u64,
    pub(crate) payload_bytes: u64,
    /// Ids and tokens, if the reservation moved.
    pub(crate) reserved: Option<(u64, u64)>,
    opening: bool,
    pub(crate) carried: bool,
    pub(crate) writes: Vec<Write>,
}

fn be(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

/// As many entries as the number in front of them says.
pub(crate) fn features(bytes: &mut Bytes<'_>) -> Read<Vec<Feature>> {
    let mut features: Vec<Feature> = Vec::new();
    for _ in 0..bytes.u16()? {
        let (number, unknown, length) = (bytes.u16()?, bytes.u8()?, bytes.u8()?);
        let name = bytes.string(length.into())?;
        ensure((1..=3).contains(&unknown) && length <= 32, || format!("feature {number}"))?;
        let last = features.last().map(|last| last.number);
        ensure(last < Some(number), || format!("feature {number} after {last:?}"))?;
        features.push(Feature { number, unknown, name });
    }
    Ok(features)
}

/// The fields of a record or the anchor that format 1 knows.
pub(crate) fn extension(fields: &[Field]) -> Read<()> {
    for (number, content) in fields {
        let mut rest = Bytes(content);
        match number {
            1 => drop(rest.take(24)?),
            2 => drop(features(&mut rest)?),
            _ => continue,
        }
        rest.end()?;
    }
    Ok(())
}

/// Its sequence and its features.
fn slot(bytes: &[u8], parity: u64, seed: u64) -> Read<(u64, Vec<Feature>)> {
    let mut rest = Bytes(bytes);
    let sequence = rest.u64()?;
    let features = features(&mut rest)?;
    let length = bytes.len() - rest.0.len();
    let checksum = rest.u64()?;
    ensure(checksum == xxh3_64(&bytes[..length]) ^ seed, || "checksum of a slot".into())?;
    ensure(sequence % 2 == parity, || format!("sequence {sequence} in slot {parity}"))?;
    ensure(rest.0.iter().all(|byte| *byte == 0), || "a slot's zeros".into())?;
    Ok((sequence, features))
}

/// The carry in its slot, if that is valid.
fn carry(bytes: &[u8], parity: u64, seed: u64) -> Option<Carry> {
    let field = |at: usize| be(&bytes[8 * at..]);
    let is_valid = field(7) == seed && field(8) == xxh3_64(&bytes[..64]);
    (is_valid && field(0) % 2 == parity).then(|| Carry {
        sequence: field(0),
        serial: field(1),
        number: field(2),
        checksum: field(3),
        at: field(4),
        end: field(5),
        upto: field(6),
    })
}

impl Journal {
    pub(crate) fn read(file: &[u8]) -> Read<Self> {
        ensure(file.len() >= RING_AT, || "no lead".into())?;
        let (lead, slots) = (&file[..PAGE], &file[PAGE..CARRY_AT]);
        let mut rest = Bytes(lead);
        ensure(rest.take(8)? == b"tubewell", || "no journal".into())?;
        let format = rest.u32()?;
        ensure(u64::from(rest.u32()?) == xxh3_64(&lead[..12]) >> 32, || "lead: 12".into())?;
        ensure(format == 1, || format!("format {format}"))?;
        let (id, ring) = (rest.id()?, rest.u64()? as usize);
        ensure(rest.u64()? == xxh3_64(&lead[..40]), || "checksum of the lead".into())?;
        ensure(rest.0.iter().all(|byte| *byte == 0), || "zeros of the lead".into())?;
        let fits = (65_536..=1 << 30).contains(&ring) && ring.is_multiple_of(PAGE);
        ensure(fits, || format!("a ring of {ring} bytes"))?;
        ensure(file.len() == RING_AT + ring, || format!("{} bytes", file.len()))?;

        let seed = xxh3_64(&id);
        let slots = [slot(&slots[..PAGE], 0, seed), slot(&slots[PAGE..], 1, seed)];
        let valid = [slots[0].is_ok(), slots[1].is_ok()];
        let counts = slots.into_iter().filter_map(Read::ok).max_by_key(|slot| slot.0);
        let (_, features) = counts.ok_or("no slot is valid")?;
        let (even, odd) = file[CARRY_AT..RING_AT].split_at(PAGE / 2);
        let note = &even[1024..1048];
        let clean_end =
            (be(&note[16..]) == xxh3_64(&note[..16]) ^ seed).then(|| (be(note), be(&note[8..])));
        let is_removed = note.iter().all(|byte| *byte == 0);
        ensure(is_removed || clean_end.is_some(), || "the clean end".into())?;
        let rest = even[72..1024].iter().chain(&even[1048..]).chain(&odd[72..]);
        ensure(rest.copied().all(|byte| byte == 0), || "zeros of the carry".into())?;
        let carries = carry(even, 0, seed).into_iter().chain(carry(odd, 1, seed));
        let carry = carries.max_by_key(|carry| carry.sequence);
        let ring = file[RING_AT..].to_vec();
        Ok(Self { id, seed, slots: valid, features, carry, clean_end, ring })
    }

    /// The record at this place of the ring; `None` if its checksum is wrong.
    pub(crate) fn record(&self, at: u64) -> Read<Option<Record>> {
        let bytes = self.ring.get(at as usize..).unwrap_or_default();
        if !at.is_multiple_of(8) || bytes.len() < HEADER {
            return Ok(None);
        }
        let mut header = Bytes(bytes);
        let (checksum, _previous) = (header.u64()?, header.u64()?);
        let (number, synced) = (header.u64()?, header.u64()?);
        let (length, kind) = (header.u32()? as usize, header.u32()?);
        let end = HEADER + length;
        let fits = length >= 24 && end <= bytes.len().min(self.ring.len() / 5);
        if !fits || checksum != xxh3_64(&bytes[8..end]) ^ self.seed {
            return Ok(None);
        }
        let padded = end.next_multiple_of(8);
        ensure(padded <= bytes.len() && bytes[end..padded].iter().all(|byte| *byte == 0), || {
            format!("zeros after record {number}")
        })?;
        ensure(padded <= self.ring.len() / 5, || format!("record {number}: {padded} bytes"))?;
        ensure(synced < number, || format!("record {number} says that {synced} is synced"))?;
        let mut record = Record {
            at,
            end: at + padded as u64,
            checksum,
            number,
            synced,
            queue_time: 0,
            wall_clock: 0,
            payload_bytes: 0,
            reserved: None,
            opening: kind & 1 != 0,
            carried: kind & 8 != 0,
            writes: Vec::new(),
        };
        let body = record.body(kind, &bytes[HEADER..end]);
        body.map_err(|wrong| format!("record {number}: {wrong}"))?;
        Ok(Some(record))
    }

    /// The records after the one that ends here, with the carried ones up to a number.
    pub(crate) fn records(
        &self,
        (number, checksum, end): (u64, u64, u64),
        upto: u64,
    ) -> Read<Vec<Record>> {
        let mut records: Vec<Record> = Vec::new();
        let mut last = (number, checksum, end);
        while let Some(record) = self.following(last, upto)? {
            last = (record.number, record.checksum, record.end);
            records.push(record);
        }
        ensure(last.0 >= upto, || format!("{} is the last, and {upto} was carried", last.0))?;
        for at in (0..self.ring.len() as u64).step_by(8) {
            // A record of an earlier round may be overwritten in part; the rest is not a record.
            let Ok(Some(record)) = self.record(at) else { continue };
            ensure(record.synced <= last.0, || {
                format!("record {} was synced, and {} is the last", record.synced, last.0)
            })?;
        }
        Ok(records)
    }

    fn following(
        &self,
        (number, checksum, end): (u64, u64, u64),
        upto: u64,
    ) -> Read<Option<Record>> {
        for at in [end, end.next_multiple_of(PAGE as u64), 0] {
            // A fault in a record with a valid checksum matters only where a record is expected.
            let follows =
                |bytes: &[u8]| be(&bytes[8..]) == checksum && be(&bytes[16..]) == number + 1;
            let bytes = self.ring.get(at as usize..).filter(|bytes| bytes.len() >= HEADER);
            if bytes.is_some_and(follows)
                && let Some(record) = self.record(at)?
                && (!record.carried || record.number <= upto)
            {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
}

impl Record {
    fn body(&mut self, kind: u32, bytes: &[u8]) -> Read<()> {
        ensure(kind & !15 == 0, || format!("kind {kind:#x}"))?;
        ensure(bytes.len() >= 24, || "a body of less than 24 bytes".into())?;
        let mut rest = Bytes(bytes);
        self.queue_time = rest.u64()?;
        self.wall_clock = rest.u64()?;
        self.payload_bytes = rest.u64()?;
        self.reserved = rest.when(kind & 2 != 0, |rest| Ok((rest.u64()?, rest.u64()?)))?;
        if kind & 4 != 0 {
            let fields = rest.section()?;
            ensure(!fields.is_empty(), || "an extension without a field".into())?;
            extension(&fields)?;
        }
        if self.opening {
            rest.u64()?;
            return rest.end();
        }
        while !rest.0.is_empty() {
            let kind = rest.u8()?;
            let kinds: &[u8] = if self.carried { &[2, 3, 4] } else { &[1, 2, 3, 5] };
            ensure(kinds.contains(&kind), || format!("a row write of kind {kind}"))?;
            let length = rest.u16()?;
            let key = rest.take(length.into())?.to_vec();
            let value = rest.when(kind != 3, |rest| {
                let length = rest.u32()? as usize;
                Ok(rest.take(length)?.to_vec())
            })?;
            self.writes.push(Write { kind, key, value: value.unwrap_or_default() });
        }
        Ok(())
    }
}
