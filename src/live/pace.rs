//! Callers that outrun the checkpoints are slowed evenly: while one is under way and the last part
//! of the journal fills, each pays for the bytes that it brought, so that nobody finds the journal
//! full and stands still for the rest of the checkpoint. Nobody holds a lock while it rests.

use crate::live::leisure::Leisure;
use crate::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Shorter rests are saved up: a thread that is put to sleep loses about half as much.
const REST_MIN: u64 = 100;
/// The last part is one in so many of the ring. A larger one is left less full at the end of a
/// checkpoint, and the next has fewer rows to share its syncs.
const LAST: u64 = 8;

/// What callers owe, in microseconds. Stands under the engine's lock.
pub(crate) struct Pace {
    /// How long the last checkpoint took.
    took: u64,
    /// Lease time at which the one under way began.
    began: u64,
    /// Bytes of the ring in use at the last look.
    used: u64,
    /// Microseconds, times the bytes of the last part.
    owed: u64,
    leisure: Arc<Leisure>,
}

impl Pace {
    pub(crate) fn new(leisure: Arc<Leisure>) -> Self {
        Self { took: 0, began: 0, used: 0, owed: 0, leisure }
    }

    /// A checkpoint begins.
    pub(crate) fn begins(&mut self, now: u64) {
        self.began = now;
        self.leisure.begins();
    }

    /// It is over.
    pub(crate) fn ends(&mut self, now: u64) {
        self.took = self.so_far(now);
        self.leisure.ends();
    }

    /// How long the one under way has been at work, but for the time that it took for others.
    fn so_far(&self, now: u64) -> u64 {
        now.saturating_sub(self.began).saturating_sub(self.leisure.taken())
    }

    /// How long a caller rests that has just written, with so many bytes of the ring in use; `busy`
    /// while a checkpoint is under way. Who fills the whole last part rests as long as the last
    /// checkpoint took, or as this one has taken so far, if the disk is slower now.
    pub(crate) fn rest(&mut self, used: u64, size: u64, busy: bool, now: impl Fn() -> u64) -> u64 {
        let brought = used.saturating_sub(self.used);
        self.used = used;
        let last = size / LAST;
        if busy {
            self.leisure.used(used, size);
        }
        if !busy || used < size - last {
            self.owed = 0;
            return 0;
        }
        let takes = self.took.max(self.so_far(now()));
        self.owed = self.owed.saturating_add(takes.saturating_mul(brought));
        let rest = self.owed.checked_div(last).unwrap_or(0);
        if rest < REST_MIN {
            return 0;
        }
        self.owed = 0;
        rest.min(takes)
    }
}

/// Where callers rest until the checkpoint is over.
#[derive(Default)]
pub(crate) struct Rest {
    over: Mutex<()>,
    called: Condvar,
}

impl Rest {
    /// At most this long.
    pub(crate) fn rest(&self, length: Duration) {
        let mut over = self.over.lock();
        // A call that came just before is missed, and costs one rest.
        self.called.wait_for(&mut over, length);
    }

    /// The checkpoint is over: everyone goes on.
    pub(crate) fn over(&self) {
        self.called.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::store::Breath;

    const SIZE: u64 = 8 << 20;

    /// Behind a checkpoint that took so long.
    fn took(took: u64) -> Pace {
        let leisure = Leisure::new(Arc::new(ManualClock::new()));
        Pace { took, ..Pace::new(Arc::new(leisure)) }
    }

    /// Fills the ring in steps; the rests, with the bytes in use at each.
    fn rests(pace: &mut Pace, step: u64, busy: bool) -> Vec<(u64, u64)> {
        let used = (0..SIZE).step_by(step as usize).map(|used| used + step);
        used.map(|used| (used, pace.rest(used, SIZE, busy, || 0)))
            .filter(|(_, rest)| *rest > 0)
            .collect()
    }

    #[test]
    fn who_fills_the_last_part_rests_as_long_as_a_checkpoint_takes() {
        for step in [64, 400, 10_000, 100_000] {
            let mut pace = took(20_000);
            let rests = rests(&mut pace, step, true);
            assert!(
                rests.iter().all(|(used, _)| *used >= SIZE - SIZE / LAST),
                "step {step}: {rests:?}"
            );
            let all: u64 = rests.iter().map(|(_, rest)| rest).sum();
            assert!((16_000..=24_000).contains(&all), "step {step}: {all}");
            let longest = rests.iter().map(|(_, rest)| *rest).max();
            let share = 20_000 * step / (SIZE / LAST);
            assert!(longest <= Some(share + REST_MIN + 1), "step {step}: evenly, {longest:?}");
            assert!(rests.iter().all(|(_, rest)| *rest >= REST_MIN), "step {step}: {rests:?}");
        }
    }

    #[test]
    fn nobody_rests_while_no_checkpoint_is_under_way_or_none_was_seen() {
        let mut pace = took(20_000);
        assert_eq!(rests(&mut pace, 400, false), []);
        assert_eq!(rests(&mut took(0), 400, true), []);
    }

    #[test]
    fn what_is_owed_is_forgotten_once_the_checkpoint_is_over() {
        let mut pace = took(20_000);
        pace.rest(SIZE - SIZE / LAST, SIZE, false, || 0);
        assert_eq!(pace.rest(SIZE - SIZE / LAST + 4_000, SIZE, true, || 0), 0, "saved up");
        pace.rest(1000, SIZE, false, || 0);
        pace.rest(SIZE - SIZE / LAST, SIZE, false, || 0);
        assert_eq!(pace.rest(SIZE - SIZE / LAST + 2_000, SIZE, true, || 0), 0);
    }

    #[test]
    fn the_time_that_a_checkpoint_took_for_others_is_not_paid_for() {
        let clock = ManualClock::new();
        let leisure = Arc::new(Leisure::new(Arc::new(clock.clone())));
        let mut pace = Pace::new(leisure.clone());
        pace.begins(1_000_000);
        let mut sync = || {
            clock.advance(Duration::from_millis(5));
            Ok(())
        };
        leisure.take(&mut sync).unwrap();
        pace.ends(1_020_000);
        assert_eq!(pace.took, 15_000);
        pace.begins(2_000_000);
        pace.ends(2_020_000);
        assert_eq!(pace.took, 20_000);
    }

    #[test]
    fn a_checkpoint_hurries_once_the_callers_have_filled_half() {
        let leisure = Arc::new(Leisure::new(Arc::new(ManualClock::new())));
        let mut pace = Pace::new(leisure.clone());
        leisure.has_durable_callers();
        pace.rest(SIZE / 2, SIZE, false, || 0);
        pace.rest(SIZE / 2 - 1, SIZE, true, || 0);
        assert!(leisure.is_due(u64::MAX));
        pace.rest(SIZE / 2, SIZE, true, || 0);
        assert!(!leisure.is_due(u64::MAX));
        pace.begins(0);
        assert!(leisure.is_due(u64::MAX), "the next one");
        pace.ends(0);
        assert!(!leisure.is_due(u64::MAX), "nobody has synced since");
    }

    #[test]
    fn a_checkpoint_that_takes_longer_than_the_last_is_paid_for_as_it_goes() {
        let all = |now: u64| -> u64 {
            let mut pace = took(2_000);
            pace.begins(1_000_000);
            pace.rest(SIZE - SIZE / LAST, SIZE, false, || now);
            let used = (SIZE - SIZE / LAST..SIZE).step_by(400);
            used.map(|used| pace.rest(used, SIZE, true, || now)).sum()
        };
        assert!((1_600..=2_400).contains(&all(1_000_500)), "as the last one");
        assert!((64_000..=96_000).contains(&all(1_080_000)), "as this one so far");
    }
}
