//! A verb on a task that brings a payload. If that is too large for one record, some pieces
//! are written at a time before the verb, and those of a verb that is not done are removed.

use crate::engine::payload_verb::{PayloadVerb, StageReplacement, VerbWithPayload};
use crate::engine::pieces::StagedPayload;
use crate::engine::replace::Replacement;
use crate::engine::staging::GiveUp;
use crate::format::piece::{PIECE_BYTES_MAX, Pieces};
use crate::runtime::group_commit::Mark;
use crate::runtime::pipeline::submit;
use crate::runtime::shared::Shared;
use crate::runtime::staged_put::pieces_of_step;
use crate::words::durability::Durability;
use crate::words::error::Result;
use crate::words::payload::NewPayload;
use crate::words::sync::Ordering;

impl Shared {
    /// A new payload of a task, with the limits of the queue.
    pub(crate) fn replacement<'a>(&self, payload: NewPayload<'a>) -> Replacement<'a> {
        Replacement {
            payload,
            payload_bytes_max: self.live.payload_bytes_max.load(Ordering::Relaxed),
            durable_bytes_max: self.live.durable_bytes_max.load(Ordering::Relaxed),
            staged: None,
        }
    }

    /// Carries out a verb with the payload that it brings.
    #[cold]
    pub(crate) fn run_with_payload<V: PayloadVerb>(
        &self,
        verb: &V,
        new: Replacement<'_>,
        durability: Durability,
    ) -> Result<V::Done> {
        let mut written = StagedReplacement { core: self, staged: None };
        let applied = written.apply(verb, new);
        // A refused one needs no room while it waits for the sync.
        drop(written);
        self.finish(&VerbWithPayload { verb, new }, applied, durability)
    }
}

/// The pieces that are written for a verb that is not done yet. The drop removes them.
struct StagedReplacement<'a> {
    core: &'a Shared,
    staged: Option<StagedPayload>,
}

impl StagedReplacement<'_> {
    fn apply<V: PayloadVerb>(&mut self, verb: &V, new: Replacement<'_>) -> Result<(V::Done, Mark)> {
        let (most, bytes) = (pieces_of_step(self.core)?, new.payload.bytes.len());
        let is_large = bytes > most as usize * PIECE_BYTES_MAX;
        if is_large && bytes <= new.payload_bytes_max {
            let pieces = Pieces::of(new.payload.bytes);
            while self.staged.is_none_or(|staged| staged.written < pieces.count()) {
                let before = self.staged;
                let stage = StageReplacement { verb, new: &new, pieces, most, before };
                self.staged = self.core.apply(&stage)?.0;
                if self.staged.is_none() {
                    break;
                }
            }
        }
        let new = Replacement { staged: self.staged, ..new };
        let done = self.core.apply(&VerbWithPayload { verb, new })?;
        // The task has them.
        self.staged = None;
        Ok(done)
    }
}

impl Drop for StagedReplacement<'_> {
    fn drop(&mut self) {
        if let Some(staged) = self.staged.take() {
            // If this fails the work row stays, and the next opening removes the pieces.
            let _ = submit(self.core, &GiveUp(staged));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::settle::Settle;
    use crate::words::error::ErrorKind;
    use crate::words::task::Ticket;
    use crate::words::verb::{Extend, Verdict};
    use crate::{ManualClock, Queue, Tube};

    fn queue() -> (Queue, Tube) {
        let queue = Queue::builder().by_hand(true).clock(ManualClock::new()).in_memory().unwrap();
        let tube = queue.tube("t").unwrap();
        (queue, tube)
    }

    fn replacement(bytes: &[u8]) -> Replacement<'_> {
        let (payload_bytes_max, durable_bytes_max) = (usize::MAX, u64::MAX);
        Replacement { payload: bytes.into(), payload_bytes_max, durable_bytes_max, staged: None }
    }

    /// Another holder of the ticket replaces the payload while the pieces of this one are written:
    /// the later switch is refused, and no piece stays.
    #[test]
    fn of_two_calls_at_once_the_later_switch_is_refused() {
        for other in [&b"small"[..], &[7; 5000], &[7; 100_000]] {
            let (queue, tube) = queue();
            let id = tube.put(b"first").unwrap();
            let ticket: Ticket = tube.take().unwrap().detach();
            let large = vec![1; 1 << 20];
            let (new, core) = (replacement(&large), &tube.inner.core);
            let tickets = &[ticket];
            let verb =
                Settle { tube: tube.number, tickets, verdict: Verdict::Touch(Extend::Renew) };
            let pieces = Pieces::of(&large);
            let mut written = StagedReplacement { core, staged: None };
            for _ in 0..2 {
                let before = written.staged;
                let stage = StageReplacement { verb: &verb, new: &new, pieces, most: 4, before };
                written.staged = core.apply(&stage).unwrap().0;
            }
            assert_eq!(written.staged.unwrap().written, 8);
            tube.ticket(ticket).with_payload(other).renew().unwrap();
            assert_eq!(queue.check().unwrap(), Vec::<String>::new());
            let refused = written.apply(&verb, new).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::WrongState);
            drop(written);
            assert_eq!(queue.check().unwrap(), Vec::<String>::new());
            let found = tube.peek(id).unwrap();
            assert_eq!((&found.payload[..], found.payload_generation), (other, 2));
            tube.ticket(ticket).with_payload(&large).renew().unwrap();
            assert!(tube.peek(id).unwrap().payload == large);
            assert_eq!(queue.check().unwrap(), Vec::<String>::new());
        }
    }
}
