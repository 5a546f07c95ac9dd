//! Builds the bytes of a record, and their checksum. The buffer is reused, so that a record
//! allocates no memory. It writes no file.

use super::record::{
    ADD, ALIGN, CHANGE, COUNTS, DAYS, HEADER_BYTES, Kind, Link, REMOVE, RecordMeta, checksum,
};
use crate::format::RowOp;
use crate::format::extension::Extension;
use crate::format::key::{self, Key, Run};
use crate::format::pack::Packer;
use crate::format::row::DayEntry;

/// The record that is being built.
#[derive(Debug, Default)]
pub(crate) struct RecordBuilder {
    bytes: Vec<u8>,
    pub(super) kind: Kind,
}

impl RecordBuilder {
    /// Begins a record. `reserves` if the reserved numbers have changed.
    pub(crate) fn begin(&mut self, meta: &RecordMeta, reserves: bool) {
        self.bytes.clear();
        self.bytes.resize(HEADER_BYTES, 0);
        self.kind = Kind(if reserves { Kind::RESERVES } else { 0 });
        let RecordMeta { marks, reserved, durable_bytes } = *meta;
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

    /// What the record adds to the statistics of days. Temporary tubes are not in it.
    #[cold]
    pub(crate) fn days(&mut self, entries: &[DayEntry]) {
        for of_day in entries.chunk_by(|a, b| a.run == b.run && a.day == b.day) {
            let Some(first) = of_day.first().filter(|it| !it.run.is_temporary()) else { continue };
            let before = self.bytes.len();
            self.entry(DAYS, &key::day(first.run, first.day), Some(&[]));
            let from = self.bytes.len();
            of_day.iter().for_each(|entry| entry.item.pack(&mut self.bytes));
            let length = self.bytes.len() - from;
            // The row itself says that its day has begun.
            if length == 0 {
                self.bytes.truncate(before);
            } else if let Some(place) = self.bytes.get_mut(from - 4..from) {
                place.copy_from_slice(&(length as u32).to_be_bytes());
            }
        }
    }

    /// The present value of a row; `None` if the row is removed.
    pub(crate) fn carried_row(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.entry(if value.is_some() { CHANGE } else { REMOVE }, key, value);
    }

    /// The present counts of a run.
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

    /// Bytes that the record takes in the ring.
    pub(crate) fn size(&self) -> u64 {
        self.bytes.len().next_multiple_of(ALIGN) as u64
    }

    /// Fills in the header. The checksum covers all bytes after itself and, through the seed, the
    /// queue's id.
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

    /// Adds zeros after the record, which are not part of it.
    pub(crate) fn pad(&mut self, bytes: u64) {
        self.bytes.resize(self.bytes.len() + bytes as usize, 0);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the buffer, and releases its memory beyond so many bytes. For a rare large record.
    pub(crate) fn shrink(&mut self, kept: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept);
    }
}
