//! Doors for tests of the library itself: the disk a queue runs on, so that a double can lose,
//! tear and fail, and the decoders, for a fuzzer. Not covered by semantic versioning.

pub use crate::store::disk::{Disk, DiskFile, FileName, Found, Nursery};

/// Gives bytes to every decoder of rows, keys and records. Panics if something that decodes is not
/// what it would be encoded as.
pub fn decode_any(bytes: &[u8]) {
    crate::bytes::row::probe(bytes);
    crate::bytes::key::probe(bytes);
    crate::bytes::extension::probe(bytes);
    crate::store::probe(bytes);
}
