//! Hooks for tests of the library itself: the disk that a queue runs on, so that a test can
//! simulate lost, torn and failing writes, and the decoders for a fuzzer. Not covered by semantic
//! versioning.

pub use crate::store::disk::{Access, Disk, DiskFile, FileName, Found, Staging};

/// Gives the bytes to every decoder of rows, keys and records. Panics if a decoded value encodes to
/// other bytes.
pub fn decode_any(bytes: &[u8]) {
    crate::format::row::probe(bytes);
    crate::format::key::probe(bytes);
    crate::format::extension::probe(bytes);
    crate::store::probe(bytes);
}
