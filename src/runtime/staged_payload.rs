//! A verb on a task in hand that brings a payload. If that is too large for one record, some pieces
//! are written at a time before the verb, and those of a verb that is not done are removed.

use crate::engine::held_verb::{HeldVerb, StageReplacement, VerbWithPayload};
use crate::engine::pieces::StagedPayload;
use crate::engine::replace::Replacement;
use crate::engine::staging::GiveUp;
use crate::format::piece::{PIECE_BYTES_MAX, Pieces};
use crate::runtime::group_commit::Mark;
use crate::runtime::pipeline::submit;
use crate::runtime::shared::Shared;
use crate::runtime::staged_put::pieces_of_step;
use crate::words::error::Result;
use crate::words::options::Durability;

impl Shared {
    /// Carries out a verb with the payload that it brings.
    #[cold]
    pub(crate) fn run_with_payload<V: HeldVerb>(
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
    fn apply<V: HeldVerb>(&mut self, verb: &V, new: Replacement<'_>) -> Result<(V::Done, Mark)> {
        let (most, bytes) = (pieces_of_step(self.core), new.payload.bytes.len());
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
