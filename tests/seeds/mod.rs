//! The seeds of a test. Every loop over seeds uses this, so that `TUBEWELL_SEED=n` replays any of
//! them. A failure names its seed.

use std::ops::Range;

fn asked() -> Option<u64> {
    let seed = std::env::var("TUBEWELL_SEED").ok()?;
    Some(seed.parse().expect("TUBEWELL_SEED is a number"))
}

/// This many seeds, or the one that the variable names.
pub(super) fn seeds(count: u64) -> Seeds {
    let left = asked().map_or(0..count, |seed| seed..seed + 1);
    Seeds { left, last: None }
}

/// Whether a test runs all of its seeds, so that it may judge their totals.
#[allow(dead_code, reason = "not everyone who shares this file has totals to judge")]
pub(super) fn are_all() -> bool {
    asked().is_none()
}

/// See [`seeds`].
pub(super) struct Seeds {
    left: Range<u64>,
    last: Option<u64>,
}

impl Iterator for Seeds {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.last = self.left.next();
        self.last
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        if let Some(seed) = self.last
            && std::thread::panicking()
        {
            eprintln!("TUBEWELL_SEED={seed}");
        }
    }
}
