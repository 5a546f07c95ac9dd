//! Slows callers that write faster than a checkpoint frees the journal. While a checkpoint runs and
//! the last part of the journal fills, each caller pauses for the bytes that it added, so that no
//! caller finds the journal full and waits for the rest of the checkpoint. No lock is held during a
//! pause.

use super::throttle::Throttle;
use super::{LAST_PART_DIVISOR, PAUSE_MICROS_MIN};
use crate::words::sync::Arc;

/// What callers owe.
pub(crate) struct Backpressure {
    /// How long the last checkpoint took.
    last_micros: u64,
    /// Lease time at which the running one started.
    started_at: u64,
    /// Bytes of the ring that were in use after the last write.
    used: u64,
    /// Microseconds, multiplied by the bytes of the last part.
    debt_micros: u64,
    throttle: Arc<Throttle>,
}

impl Backpressure {
    pub(crate) fn new(throttle: Arc<Throttle>) -> Self {
        Self { last_micros: 0, started_at: 0, used: 0, debt_micros: 0, throttle }
    }

    /// A checkpoint starts, with so many bytes of the ring in use. Callers owe nothing yet.
    pub(crate) fn start(&mut self, now: u64, used: u64) {
        (self.started_at, self.used, self.debt_micros) = (now, used, 0);
        self.throttle.start();
    }

    /// The checkpoint has ended.
    pub(crate) fn finish(&mut self, now: u64) {
        self.last_micros = self.elapsed(now);
        self.throttle.finish();
    }

    /// How long the running one has been at work, without the time that it left to others.
    fn elapsed(&self, now: u64) -> u64 {
        now.saturating_sub(self.started_at).saturating_sub(self.throttle.yielded_micros())
    }

    /// How long a caller rests that has just written while a checkpoint is running, with so many
    /// bytes of the ring in use. A caller that fills the whole last part rests as long as the last
    /// checkpoint took, or as this one has taken so far, if the disk is slower now.
    pub(crate) fn rest(&mut self, used: u64, size: u64, now: impl Fn() -> u64) -> u64 {
        let added = used.saturating_sub(self.used);
        self.used = used;
        let last = size / LAST_PART_DIVISOR;
        self.throttle.used(used, size);
        if used < size - last {
            self.debt_micros = 0;
            return 0;
        }
        let takes = self.last_micros.max(self.elapsed(now()));
        self.debt_micros = self.debt_micros.saturating_add(takes.saturating_mul(added));
        let rest = self.debt_micros.checked_div(last).unwrap_or(0);
        if rest < PAUSE_MICROS_MIN {
            return 0;
        }
        self.debt_micros = 0;
        rest.min(takes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::IoPacer;
    use crate::words::clock::ManualClock;
    use std::time::Duration;

    const SIZE: u64 = 8 << 20;

    /// After a checkpoint that took so long.
    fn last_micros(last_micros: u64) -> Backpressure {
        let throttle = Throttle::new(Arc::new(ManualClock::new()));
        Backpressure { last_micros, ..Backpressure::new(Arc::new(throttle)) }
    }

    /// Fills the ring in steps. Returns the pauses, with the bytes in use at each.
    fn rests(pace: &mut Backpressure, step: u64) -> Vec<(u64, u64)> {
        let used = (0..SIZE).step_by(step as usize).map(|used| used + step);
        used.map(|used| (used, pace.rest(used, SIZE, || 0))).filter(|(_, rest)| *rest > 0).collect()
    }

    #[test]
    fn filling_the_last_part_costs_a_pause_as_long_as_a_checkpoint() {
        for step in [64, 400, 10_000, 100_000] {
            let mut pace = last_micros(20_000);
            let rests = rests(&mut pace, step);
            assert!(
                rests.iter().all(|(used, _)| *used >= SIZE - SIZE / LAST_PART_DIVISOR),
                "step {step}: {rests:?}"
            );
            let all: u64 = rests.iter().map(|(_, rest)| rest).sum();
            assert!((16_000..=24_000).contains(&all), "step {step}: {all}");
            let longest = rests.iter().map(|(_, rest)| *rest).max();
            let share = 20_000 * step / (SIZE / LAST_PART_DIVISOR);
            assert!(
                longest <= Some(share + PAUSE_MICROS_MIN + 1),
                "step {step}: evenly, {longest:?}"
            );
            assert!(
                rests.iter().all(|(_, rest)| *rest >= PAUSE_MICROS_MIN),
                "step {step}: {rests:?}"
            );
        }
    }

    #[test]
    fn no_pause_before_the_first_checkpoint() {
        assert_eq!(rests(&mut last_micros(0), 400), []);
    }

    #[test]
    fn the_debt_is_cleared_when_the_checkpoint_ends() {
        let mut pace = last_micros(20_000);
        pace.start(0, SIZE - SIZE / LAST_PART_DIVISOR);
        assert_eq!(pace.rest(SIZE - SIZE / LAST_PART_DIVISOR + 4_000, SIZE, || 0), 0, "added up");
        pace.finish(20_000);
        pace.start(0, SIZE - SIZE / LAST_PART_DIVISOR);
        assert_eq!(pace.rest(SIZE - SIZE / LAST_PART_DIVISOR + 2_000, SIZE, || 0), 0);
    }

    #[test]
    fn time_yielded_by_a_checkpoint_is_not_owed() {
        let clock = ManualClock::new();
        let throttle = Arc::new(Throttle::new(Arc::new(clock.clone())));
        let mut pace = Backpressure::new(throttle.clone());
        pace.start(1_000_000, 0);
        let mut sync = || {
            clock.advance(Duration::from_millis(5));
            Ok(())
        };
        throttle.sync_and_pause(&mut sync).unwrap();
        pace.finish(1_020_000);
        assert_eq!(pace.last_micros, 15_000);
        pace.start(2_000_000, 0);
        pace.finish(2_020_000);
        assert_eq!(pace.last_micros, 20_000);
    }

    #[test]
    fn a_checkpoint_hurries_once_the_callers_have_filled_half() {
        let throttle = Arc::new(Throttle::new(Arc::new(ManualClock::new())));
        let mut pace = Backpressure::new(throttle.clone());
        throttle.note_durable_caller();
        pace.start(0, SIZE / 2);
        pace.rest(SIZE / 2 - 1, SIZE, || 0);
        assert!(throttle.sync_due(u64::MAX));
        pace.rest(SIZE / 2, SIZE, || 0);
        assert!(!throttle.sync_due(u64::MAX));
        pace.start(0, 0);
        assert!(throttle.sync_due(u64::MAX), "the next one may pause");
        pace.finish(0);
        assert!(!throttle.sync_due(u64::MAX), "no caller has synced since");
    }

    #[test]
    fn a_checkpoint_longer_than_the_last_is_owed_as_it_goes() {
        let all = |now: u64| -> u64 {
            let mut pace = last_micros(2_000);
            pace.start(1_000_000, SIZE - SIZE / LAST_PART_DIVISOR);
            let used = (SIZE - SIZE / LAST_PART_DIVISOR..SIZE).step_by(400);
            used.map(|used| pace.rest(used, SIZE, || now)).sum()
        };
        assert!((1_600..=2_400).contains(&all(1_000_500)), "as long as the last one");
        assert!((64_000..=96_000).contains(&all(1_080_000)), "as long as this one so far");
    }
}
