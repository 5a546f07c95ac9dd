//! Begins a checkpoint of the store's rows, and continues with the base that it leaves. The steps
//! between are those of `checkpoint`, which knows no store.

use super::Store;
use super::base::Base;
use super::checkpoint::{Checkpoint, Retired};
use crate::words::error::{Error, Result};
use crate::words::limits::READ_AHEAD_DIVISOR;
use crate::words::sync::Arc;

impl Store {
    /// Begins a checkpoint: freezes the active layer. The caller runs the steps of the returned
    /// checkpoint without the store's lock. `None` while another one runs, or if there is nothing
    /// to write.
    pub(crate) fn freeze(&mut self) -> Result<Option<Checkpoint>> {
        self.reopen_if_failed()?;
        self.write_days()?;
        let base = self.base()?;
        let before = &base.anchor;
        let anchor = self.next_anchor(before, self.meta);
        if self.rows.frozen.is_some() {
            return Ok(None);
        }
        let is_same = anchor.span == before.span && anchor.meta == before.meta;
        // After a full disk also an empty checkpoint runs: it finds out whether the base has its
        // reserve again.
        if is_same && self.rows.active.is_empty() && !self.full {
            return Ok(None);
        }
        let opening = base.opening().clone();
        let frozen = Arc::new(std::mem::take(&mut self.rows.active));
        self.rows.frozen = Some(frozen.clone());
        let tallies = self.rows.counts.freeze();
        Ok(Some(Checkpoint {
            frozen,
            journal: self.journal(),
            opening,
            anchor,
            tallies,
            txn: None,
            last: None,
        }))
    }

    /// Ends a checkpoint that succeeded: reads use the new snapshot, and the journal up to its
    /// anchor is free.
    pub(crate) fn renew(&mut self, renewed: Base) -> Retired {
        let serial = renewed.anchor.serial;
        // A commit with the application's tables may have come between. Its base has all these rows
        // and more. After one that failed the base was opened again, and has what was frozen.
        let has_more = |base: &mut Base| base.anchor.serial >= serial;
        if let Some(base) = self.base.take_if(has_more) {
            if self.rows.frozen.is_some() {
                return Retired { base: Some(renewed), ..self.adopt(base) };
            }
            self.base = Some(base);
            return Retired { base: Some(renewed), frozen: None, read_ahead_bytes: 0 };
        }
        self.adopt(renewed)
    }

    /// Continues with a base that contains the frozen layer.
    pub(super) fn adopt(&mut self, base: Base) -> Retired {
        if let Some(ring) = &mut self.ring {
            ring.free_before(base.anchor.span);
        }
        self.checkpoints_done += 1;
        let before = self.base.replace(base);
        let frozen = self.rows.frozen.take();
        self.rows.counts.written();
        self.rows.settle_dead();
        self.full = false;
        self.restore_reserve();
        // In memory there is no disk to wait for.
        let most = (self.config.cache_bytes / READ_AHEAD_DIVISOR) as u64;
        let read_ahead_bytes = if self.disk.is_some() { most } else { 0 };
        Retired { base: before, frozen, read_ahead_bytes }
    }

    /// Runs a whole checkpoint. Returns why it failed, if the store can continue.
    pub(super) fn try_checkpoint(&mut self) -> Result<Option<Error>> {
        let Some(checkpoint) = self.freeze()? else { return Ok(None) };
        match checkpoint.run(None) {
            Ok(renewed) => {
                drop(self.renew(renewed));
                Ok(None)
            }
            Err(failure) => self.take_back(failure),
        }
    }
}
