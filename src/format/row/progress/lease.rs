//! The fields of a taken task's progress that end with its lease: since when it is stalled, and the
//! slots of throttles that it holds.

use super::{TaskProgress, read_time};
use crate::format::key::Run;
use crate::words::clock::NEVER;
use smallvec::SmallVec;

/// Number of the extension field of a stalled task with the lease time at which its ttr has ended.
/// Absent if it is not stalled.
const LAPSED_FIELD: u16 = 3;

/// Number of the extension field of a taken task with the runs of the throttles of which it holds a
/// slot, in their order. Absent if it holds none, and in every other state.
const SLOTS_FIELD: u16 = 13;

/// The runs of throttles of which a task holds a slot.
pub(crate) type Slots = SmallVec<[Run; 2]>;

fn read_slots(field: &[u8]) -> Option<Slots> {
    let (runs, rest) = field.as_chunks();
    let runs: Slots = runs.iter().map(|run| Run(u32::from_be_bytes(*run))).collect();
    let is_sound = |run: &Run| *run != Run::QUEUE && !run.is_temporary();
    let is_one = !runs.is_empty() && rest.is_empty() && runs.is_sorted_by(|a, b| a < b);
    (is_one && runs.iter().all(is_sound)).then_some(runs)
}

impl TaskProgress {
    /// Whether these fields can be decoded.
    pub(super) fn has_sound_lease(&self) -> bool {
        let field = |number| self.extension.get(number);
        field(LAPSED_FIELD).is_none_or(|field| read_time(field).is_some())
            && field(SLOTS_FIELD).is_none_or(|field| read_slots(field).is_some())
    }

    /// Of a stalled task: lease time at which its ttr has ended; otherwise [`NEVER`].
    #[inline]
    pub(crate) fn lapsed(&self) -> u64 {
        if self.extension.is_empty() { NEVER } else { self.stored_lapse() }
    }

    #[cold]
    fn stored_lapse(&self) -> u64 {
        self.extension.get(LAPSED_FIELD).and_then(read_time).unwrap_or(NEVER)
    }

    /// Says that it is stalled since this lease time. Returns `false` and changes nothing if fields
    /// of later versions leave no room.
    #[must_use]
    pub(crate) fn stall(&mut self, lapsed: u64) -> bool {
        self.extension.set(LAPSED_FIELD, &lapsed.to_be_bytes())
    }

    /// It is not stalled any more.
    pub(crate) fn end_stall(&mut self) {
        self.extension.take(LAPSED_FIELD);
    }

    /// The runs of the throttles of which it holds a slot, in their order.
    #[inline]
    pub(crate) fn slots(&self) -> Slots {
        if self.extension.is_empty() { Slots::new() } else { self.stored_slots() }
    }

    /// Whether it holds one.
    #[inline]
    pub(crate) fn has_slots(&self) -> bool {
        !self.extension.is_empty() && !self.stored_slots().is_empty()
    }

    #[cold]
    fn stored_slots(&self) -> Slots {
        self.extension.get(SLOTS_FIELD).and_then(read_slots).unwrap_or_default()
    }

    /// Returns `false` and changes nothing if fields of later versions leave no room.
    #[must_use]
    pub(crate) fn set_slots(&mut self, runs: &[Run]) -> bool {
        if runs.is_empty() {
            self.extension.take(SLOTS_FIELD);
            return true;
        }
        let field: SmallVec<[u8; 16]> = runs.iter().flat_map(|run| run.0.to_be_bytes()).collect();
        self.extension.set(SLOTS_FIELD, &field)
    }

    /// Whether it says something of a lease.
    #[inline]
    pub(crate) fn has_lease_fields(&self) -> bool {
        !self.extension.is_empty() && self.stores_lease()
    }

    #[cold]
    fn stores_lease(&self) -> bool {
        [LAPSED_FIELD, SLOTS_FIELD].iter().any(|field| self.extension.get(*field).is_some())
    }

    /// It is not taken any more: it is not stalled, and holds no slot.
    pub(crate) fn end_lease(&mut self) {
        self.end_stall();
        self.extension.take(SLOTS_FIELD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_slots() {
        let mut progress = TaskProgress::fresh(NEVER, NEVER);
        assert!(!progress.has_lease_fields() && progress.set_slots(&[Run(5), Run(258)]));
        let field = progress.extension.get(SLOTS_FIELD).unwrap().to_vec();
        assert_eq!(field, [0, 0, 0, 5, 0, 0, 1, 2]);
        assert!(progress.has_lease_fields() && progress.has_sound_lease());
        assert_eq!(progress.slots()[..], [Run(5), Run(258)]);
        // None, in another order, twice, of no tube, of a temporary one, and cut.
        let wrong: [&[u8]; 6] = [
            &[],
            &[0, 0, 1, 2, 0, 0, 0, 5],
            &[0, 0, 0, 5, 0, 0, 0, 5],
            &[0, 0, 0, 0],
            &[128, 0, 0, 5],
            &field[..7],
        ];
        for field in wrong {
            assert_eq!(read_slots(field), None, "{field:?}");
        }
        progress.end_lease();
        assert!(!progress.has_lease_fields() && progress.slots().is_empty());
    }
}
