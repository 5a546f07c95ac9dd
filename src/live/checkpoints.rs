//! When a checkpoint runs, who runs it, and what callers do for it: call for one, wait for room in
//! the journal, rest if they outrun it. Nobody holds the engine's lock while one is written.

use crate::error::{ErrorKind, Result};
use crate::live::commit::State;
use crate::live::core::Core;
use crate::live::door::Entered;
use crate::live::inside;
use crate::store::{Breath, Retired};
use crate::sync::{Arc, MutexGuard};
use std::time::Duration;

/// The journal as an op left it.
pub(crate) struct Left {
    wants_checkpoint: bool,
    /// How many there were.
    pub(crate) checkpoints: u64,
    /// Microseconds that the caller rests for having outrun the one under way.
    rest: u64,
}

impl Core {
    /// Releases the engine's lock behind an op, and says what the journal was like then.
    pub(crate) fn step_out(&self, mut state: Entered<'_, State>) -> Left {
        let left = Left {
            wants_checkpoint: state.store.wants_checkpoint(),
            checkpoints: state.store.checkpoints(),
            rest: state.rest(&*self.settings.clock),
        };
        self.release(state);
        left
    }

    /// What a caller does for the journal behind an op that was done.
    pub(crate) fn make_way(&self, left: &Left) {
        self.rest(left.rest);
        if left.wants_checkpoint {
            self.checkpoint_soon();
        }
    }

    /// Has the checkpointer's thread look; where there is none, checkpoints here.
    fn checkpoint_soon(&self) {
        if self.settings.by_hand {
            self.checkpoint_if_free();
        } else {
            self.checkpointer.ring();
        }
    }

    /// A checkpoint, if one is wanted and none is under way, and then what will be read until the
    /// next. By hand it is a caller who reads it, as whatever is read there.
    pub(crate) fn checkpoint_if_free(&self) {
        let Some(writer) = self.try_writer() else { return };
        let is_wanted = || self.state.lock().store.wants_checkpoint();
        // A call may come behind the checkpoint that answers it.
        if !is_wanted() {
            return;
        }
        // The op that came by is done; if this fails, the next one meets it.
        let Ok(Some(retired)) = self.checkpoint_with(&writer, self.breath()) else { return };
        let may_go_on = || {
            let is_free = !self.leisure.is_awaited() && !is_wanted();
            if is_free {
                self.leisure.give_way();
            }
            is_free
        };
        let Err(error) = retired.read_ahead(&may_go_on) else { return };
        let mut state = self.state.lock();
        if error.kind() == ErrorKind::Broken {
            state.break_down(&error);
        }
        state.heal_after(&error);
    }

    /// Moves what is in memory to the base and frees the journal.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        inside::refuse()?;
        let writer = self.writer();
        self.checkpoint_with(&writer, None).map(drop)
    }

    /// Pays for having outrun the checkpoint under way; on a clock that is moved by hand, nothing.
    fn rest(&self, owed: u64) {
        if owed == 0 {
            return;
        }
        if let Some(nap) = self.settings.clock.nap(Duration::from_micros(owed)) {
            self.resting.rest(nap);
        }
    }

    /// Waits for the checkpoint under way; one that came since `checkpoints` were done has made
    /// room, and with two threads at work the caller goes on beside the next. Else it does it here.
    pub(crate) fn make_room(&self, checkpoints: u64) -> Result<()> {
        let writer = self.writer();
        if self.state.lock().store.checkpoints() != checkpoints {
            return Ok(());
        }
        self.checkpoint_with(&writer, None).map(drop)
    }

    /// For a checkpoint that keeps nobody from its own call.
    fn breath(&self) -> Option<Arc<dyn Breath>> {
        let takes_time = !self.settings.by_hand && self.leisure.can_rest();
        takes_time.then(|| self.leisure.clone() as Arc<dyn Breath>)
    }

    fn checkpoint_with(
        &self,
        _writer: &MutexGuard<'_, ()>,
        breath: Option<Arc<dyn Breath>>,
    ) -> Result<Option<Retired>> {
        let checkpoint = {
            let mut state = self.state.lock();
            state.is_open()?;
            match state.store.freeze()? {
                Some(checkpoint) => {
                    state.pace.begins(self.lease_now());
                    checkpoint
                }
                None => return Ok(None),
            }
        };
        let moved = checkpoint.run_with(breath);
        let mut state = self.state.lock();
        state.pace.ends(self.lease_now());
        self.resting.over();
        match moved {
            Ok(renewed) => Ok(Some(state.store.renew(renewed))),
            Err(failure) => match state.store.mend(failure) {
                Ok(()) => Ok(None),
                Err(error) => {
                    if error.kind() == ErrorKind::Broken || error.is_outcome_unknown() {
                        state.break_down(&error);
                    }
                    Err(error)
                }
            },
        }
    }
}
