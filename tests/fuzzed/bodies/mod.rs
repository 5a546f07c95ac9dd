//! What the fuzz targets do with their bytes, as plain functions: `fuzz/` calls them with random
//! bytes, the tests beside them replay the kept findings. Each panics on a finding and returns
//! otherwise.

// Each target uses one of them.
#![allow(dead_code, unused_imports)]

mod flow;
mod image;
mod life;
mod script;

pub use flow::flow;
pub use image::{flips, open, unharmed};
pub use life::life;
pub use script::script;
use tubewell::{ErrorKind, Result};

/// Every key, row and record decoder is tried; what decodes must encode to the same bytes.
pub fn decode(bytes: &[u8]) {
    tubewell::testing::decode_any(bytes);
}

/// A refusal is as good as an answer, but nothing in memory may fail.
pub(crate) fn fine<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(error) => {
            let kind = error.kind();
            let failed = [
                ErrorKind::Broken,
                ErrorKind::Damaged,
                ErrorKind::Io,
                ErrorKind::Unknown,
                ErrorKind::DiskFull,
                ErrorKind::Closed,
            ];
            assert!(!failed.contains(&kind), "{error}");
            None
        }
    }
}

/// Does at most so many steps, as many as there are bytes for, and looks at everything after each
/// so many and at the end.
pub(crate) fn play<W>(
    world: &mut W,
    bytes: &mut Bytes<'_>,
    (steps_max, look_every): (usize, usize),
    do_step: impl Fn(&mut W, &mut Bytes<'_>),
    look: impl Fn(&mut W),
) {
    for step in 1..=steps_max {
        if bytes.is_empty() {
            break;
        }
        do_step(world, bytes);
        if step % look_every == 0 {
            look(world);
        }
    }
    look(world);
}

/// The lowest byte that stands for what was added to a choice.
const MORE: u8 = 240;

/// Reads a script off the bytes; at their end everything is zero.
pub(crate) struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl<'a> Bytes<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes.iter())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or_default()
    }

    /// Which of so many choices; at the end of these stands one more, which the highest sixteen
    /// bytes mean. It came after the first inputs were kept, and in them none of these bytes stands
    /// for a choice.
    pub(crate) fn choice(&mut self, count: u8) -> u8 {
        match self.byte() {
            MORE.. => count,
            byte => byte % count,
        }
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    /// A number of three bytes.
    pub(crate) fn long(&mut self) -> u64 {
        (0..3).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }
}
