//! A put whose payload is too large for one record: some pieces are written at a time, and after
//! the last of them the put makes the task. The pieces of a put that does not finish are removed.

use crate::engine::Op;
use crate::engine::new_row::NewRow;
use crate::engine::pieces::Staged;
use crate::engine::put::PutTasks;
use crate::engine::query;
use crate::engine::staging::{GiveUp, StagePieces};
use crate::format::piece::{PIECE_BYTES_MAX, Pieces};
use crate::runtime::group_commit::Mark;
use crate::runtime::linked_put::{self, LinkedPut};
use crate::runtime::pipeline::submit;
use crate::runtime::reentrancy::ensure_outside;
use crate::runtime::shared::Shared;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{BATCH_TASKS_MAX, KEY_TRIES_MAX, PIECES_OF_STEP};
use crate::words::sync::Ordering;
use crate::words::wait::Wait;

/// What each put of an op did.
pub(crate) type PutsDone = <PutTasks<'static> as Op>::Done;

/// The pieces that are written of a put that is not done yet. The drop removes them.
pub(crate) struct StagedPut<'a> {
    core: &'a Shared,
    staged: Vec<Staged>,
}

impl<'a> StagedPut<'a> {
    #[inline]
    pub(crate) fn new(core: &'a Shared) -> Self {
        Self { core, staged: Vec::new() }
    }

    /// Does the put. After a refusal it may be tried again; the written pieces stay until then,
    /// unless there are edges with them.
    #[inline]
    pub(crate) fn apply(&mut self, put: &PutTasks<'_>) -> Result<(PutsDone, Mark)> {
        if put.earlier.is_some() && linked_put::is_long(put) {
            return self.apply_linked(put);
        }
        let is_small = |task: &NewRow<'_>| task.payload.len() <= PIECE_BYTES_MAX;
        if put.tasks.iter().all(is_small) || put.tasks.len() > BATCH_TASKS_MAX {
            return self.core.apply(put);
        }
        self.apply_large(put)
    }

    /// Runs the put again whenever it is its turn and there may be room, until it succeeds or its
    /// wait ends with the last refusal.
    #[cold]
    pub(crate) fn wait_for_room(
        mut self,
        op: &PutTasks<'_>,
        room: Wait<'_>,
        mut full: Error,
    ) -> Result<(PutsDone, Mark)> {
        let core = self.core;
        let mut place = core.place_waits.begin(op.tube);
        let is_for_place =
            || core.look(|view, _| query::lacks_places(view, op.tube, op.tasks.len()));
        place.set(is_for_place()?);
        let attempt = || {
            // The limit may have been changed while it waited.
            let durable_bytes_max = core.live.durable_bytes_max.load(Ordering::Relaxed);
            match self.apply(&PutTasks { others_wait: false, durable_bytes_max, ..*op }) {
                Err(error) if error.kind() == ErrorKind::Full => {
                    full = error;
                    place.set(is_for_place()?);
                    Ok(None)
                }
                done => done.map(Some),
            }
        };
        core.wait_for(&core.room, op.tube, 0, room, attempt)?.ok_or(full)
    }

    #[cold]
    fn apply_large(&mut self, put: &PutTasks<'_>) -> Result<(PutsDone, Mark)> {
        // Each time another call has put or ended the task of the key in the meantime.
        let mut tries_left = KEY_TRIES_MAX;
        loop {
            tries_left -= 1;
            match self.try_large(put) {
                Err(error) if error.kind() == ErrorKind::WrongState && tries_left > 0 => {
                    self.give_up();
                }
                done => return done,
            }
        }
    }

    fn try_large(&mut self, put: &PutTasks<'_>) -> Result<(PutsDone, Mark)> {
        let most = pieces_of_step(self.core)?;
        for (at, task) in put.tasks.iter().enumerate() {
            let bytes = task.payload.len();
            let is_large = bytes > most as usize * PIECE_BYTES_MAX;
            if is_large && bytes <= put.payload_bytes_max {
                self.stage(put, at, Pieces::of(task.payload), most)?;
            }
        }
        let done = self.core.apply(&PutTasks { staged: &self.staged, ..*put })?;
        self.staged.clear();
        Ok(done)
    }

    /// Writes the pieces of one payload.
    fn stage(&mut self, put: &PutTasks<'_>, at: usize, pieces: Pieces, most: u32) -> Result<()> {
        loop {
            let before = self.staged.iter().find(|staged| staged.task == at).copied();
            if before.is_some_and(|staged| staged.payload.written == pieces.count()) {
                return Ok(());
            }
            let first = self.staged.first().map(|staged| staged.first);
            let first = first.or(put.linked_id());
            let stage = StagePieces { put, task: at, pieces, most, before, first };
            let applied = self.core.apply(&stage).map_err(|error| put.at(error, at));
            let Some(staged) = applied?.0 else { return Ok(()) };
            self.staged.retain(|staged| staged.task != at);
            self.staged.push(staged);
        }
    }

    #[cold]
    fn apply_linked(&mut self, put: &PutTasks<'_>) -> Result<(PutsDone, Mark)> {
        LinkedPut::new(self.core).apply(put, |put| {
            let done = self.apply_large(put);
            // The next try has other edges, of another id.
            if done.is_err() {
                self.give_up();
            }
            done
        })
    }

    #[cold]
    fn give_up(&mut self) {
        for staged in self.staged.drain(..) {
            // If this fails the work row stays, and the next opening removes the pieces.
            let _ = submit(self.core, &GiveUp(staged.payload));
        }
    }
}

/// The most pieces of one record. They are fewer if the journal is small.
///
/// # Errors
/// `InTransaction`: it takes the lock of the engine.
pub(super) fn pieces_of_step(core: &Shared) -> Result<u32> {
    ensure_outside()?;
    let (_, ring) = core.state.lock().store.ring();
    let fit = ring as usize / 8 / PIECE_BYTES_MAX;
    let most = if ring == 0 { PIECES_OF_STEP } else { fit.clamp(1, PIECES_OF_STEP) };
    Ok(most as u32)
}

impl Drop for StagedPut<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.staged.is_empty() {
            self.give_up();
        }
    }
}
