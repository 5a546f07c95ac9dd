//! A hash for small numbers that the crate assigns itself, such as those of tubes and runs. The
//! standard hasher costs more than the rest of a lookup.

use std::hash::{BuildHasherDefault, Hasher};

/// For maps whose keys are numbers that callers cannot choose.
pub(crate) type NumberHash = BuildHasherDefault<NumberHasher>;

/// Mixes the bytes of a number.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }
}
