//! The clean end: a close notes in the journal's head which record is the last one. An opening that
//! finds this record at the end of the chain need not search the ring for records after a gap. It
//! removes the note before its own record is synced, so a note never outlives the record that it
//! names. The note is a hint: without it the opening searches. No I/O.

use super::head::PAGE;
use super::record::Link;
use xxhash_rust::xxh3::xxh3_64;

/// Offset of the note in the journal, on the page of the carries.
pub(super) const AT: u64 = 3 * PAGE as u64 + 1024;
/// Bytes of the note: number and checksum of the last record, and the note's own checksum.
pub(super) const BYTES: usize = 24;

/// The note for a queue of this seed whose last record is `last`.
pub(super) fn encode(last: Link, seed: u64) -> [u8; BYTES] {
    let [number, checksum] = [last.number, last.checksum].map(u64::to_be_bytes);
    let own = xxh3_64([number, checksum].as_flattened()) ^ seed;
    let mut bytes = [0; BYTES];
    let fields = [number, checksum, own.to_be_bytes()];
    bytes.copy_from_slice(fields.as_flattened());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_note() {
        let last = Link { number: 7, checksum: 0x0102_0304_0506_0708 };
        let note = encode(last, 9);
        assert_eq!(note[..16], [0, 0, 0, 0, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(note[16..], (xxh3_64(&note[..16]) ^ 9).to_be_bytes());
        assert_ne!(note, encode(last, 8), "of another queue");
        assert_ne!(note, [0; BYTES], "a removed note names no record");
    }
}
