//! The seeds of a test. Every loop over seeds uses this, so that `TUBEWELL_SEED=n` replays any of
//! them, and `TUBEWELL_TIMES=n` runs n times as many. A failure names its seed.

use std::ops::Range;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn asked() -> Option<u64> {
    number("TUBEWELL_SEED")
}

/// This many seeds, or the one that the variable names.
pub(super) fn seeds(count: u64) -> Seeds {
    let all = count.saturating_mul(number("TUBEWELL_TIMES").unwrap_or(1));
    let left = asked().map_or(0..all, |seed| seed..seed + 1);
    Seeds { left, last: None }
}

/// Whether a longer run is asked for than all tests have time for.
#[allow(dead_code, reason = "not everyone who shares this file leaves something out")]
pub(super) fn wants_more() -> bool {
    number("TUBEWELL_TIMES").is_some_and(|times| times > 1)
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
