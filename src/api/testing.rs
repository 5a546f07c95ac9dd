//! Doors for tests of the library itself: the disk a queue runs on, so that a double can lose,
//! tear and fail, and the decoders, for a fuzzer. Not covered by semantic versioning.

pub use crate::store::disk::{Disk, DiskFile, FileName, Found, Staging};

/// Gives bytes to every decoder of rows, keys and records. Panics if something that decodes is not
/// what it would be encoded as.
pub fn decode_any(bytes: &[u8]) {
    crate::format::row::probe(bytes);
    crate::format::key::probe(bytes);
    crate::format::extension::probe(bytes);
    crate::store::probe(bytes);
}
