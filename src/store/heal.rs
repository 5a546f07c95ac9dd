//! After a failure: what can be mended is mended under the living overlay, what cannot stops the
//! store. A failed sync is never mended and never tried again; a failed write and a full disk are:
//! the base is opened anew, since redb remembers every error for the life of its handle.

use super::app_tables::AppTransaction;
use super::base::{Base, Fault, Opening, fenced};
use super::checkpoint::{CheckpointFailure, abort, serial, sync_up_to, write_rows, write_state};
use super::journal::Ring;
use super::open::settle_header;
use super::record::MetaDelta;
use super::tables::{CheckpointPosition, Tally};
use super::{Failure, Store};
use crate::format::key::{Key, Run, is_temporary};
use crate::format::layer::Layer;
use crate::format::{RowOp, View};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::limits::{FULL_BYTES, SLICE_ROWS};
use crate::words::sync::Arc;
use redb::WriteTransaction;

impl Store {
    /// Takes back a checkpoint that failed. On a full disk it frees the ballast and brings the
    /// checkpoint to its end in slices. `Ok` if the checkpoint is done after all.
    ///
    /// # Errors
    /// What the checkpoint failed with, if the store goes on without it; `Broken` if it does not.
    pub(crate) fn mend(&mut self, failure: CheckpointFailure) -> Result<()> {
        let CheckpointFailure { frozen, error, fault } = failure;
        // A commit with guests has taken the frozen rows along; nothing is lost or left to do.
        if !self.rows.frozen.as_ref().is_some_and(|own| Arc::ptr_eq(own, &frozen)) {
            return Ok(());
        }
        drop(frozen);
        self.thaw();
        let error = self.recoverable(error, fault)?;
        let full = error.kind() == ErrorKind::DiskFull
            || matches!(fault, Some(Fault::Retryable { full: true }));
        if full {
            self.free_ballast()?;
        }
        self.reopen()?;
        if full { self.checkpoint_in_slices() } else { Err(self.named(error)) }
    }

    /// Opens the base anew if an earlier call on it has failed and nobody is writing to it.
    ///
    /// # Errors
    /// `Broken` if that is not possible.
    pub(crate) fn heal(&mut self) -> Result<()> {
        self.stopped()?;
        match self.base()?.opening().fate.fault() {
            Some(Fault::Sync) => {
                Err(self.stop(Error::new(ErrorKind::Io).because("base.redb was not synced")))
            }
            Some(Fault::Retryable { .. }) if self.rows.frozen.is_none() => self.reopen(),
            _ => Ok(()),
        }
    }

    /// Makes the ballast stand again, if it can. Whether puts are welcome.
    pub(crate) fn refill(&mut self) -> bool {
        if let Some(ring) = &self.ring
            && ring.restore_ballast().is_ok()
        {
            self.full = false;
        }
        !self.full
    }

    /// On a full disk: whether there is still room for what these rows add, which is counted then.
    pub(crate) fn fits_reserve(&mut self, writes: &Layer) -> Result<bool> {
        let (mut comes, mut goes) = (0, 0);
        for (key, op) in writes.iter().filter(|(key, _)| !is_temporary(key)) {
            comes += op.value().map_or(0, |value| key.len() + value.len());
            if !matches!(op, RowOp::Add(_)) {
                goes += self.get(key)?.map_or(0, |value| key.len() + value.len());
            }
        }
        let left = self.spare.checked_sub(comes.saturating_sub(goes) as u64);
        self.spare = left.unwrap_or(self.spare);
        Ok(left.is_some())
    }

    pub(super) fn thaw(&mut self) {
        self.rows.thaw();
        self.rows.counts.thaw(std::mem::take(&mut self.frozen_runs));
    }

    /// The error of a checkpoint, if the store can go on behind it.
    ///
    /// # Errors
    /// `Broken` if it cannot.
    fn recoverable(&self, error: Error, fault: Option<Fault>) -> Result<Error> {
        let journal = self.ring.as_ref().is_some_and(|ring| ring.shared().has_failed());
        let hopeless = fault == Some(Fault::Sync)
            || journal
            || self.disk.is_none()
            || matches!(error.kind(), ErrorKind::Broken | ErrorKind::Damaged);
        if hopeless {
            let failed = Error::new(error.kind()).because("a checkpoint failed");
            return Err(self.stop(failed.caused_by(error)));
        }
        Ok(error)
    }

    fn free_ballast(&mut self) -> Result<()> {
        if !self.full {
            (self.full, self.spare) = (true, FULL_BYTES);
        }
        match self.ring.as_ref().map(Ring::free_ballast) {
            Some(Err(error)) => Err(self.stop(Error::io(error))),
            _ => Ok(()),
        }
    }

    /// Drops the base first: two openings of one file would not know of each other's pages.
    pub(super) fn reopen(&mut self) -> Result<()> {
        if let Some(base) = self.base.take() {
            base.into_opening().fate.cut();
        }
        let Some(disk) = &self.disk else {
            return Err(self.stop(Error::new(ErrorKind::Io).because("the base in memory")));
        };
        let opened = (|| {
            let file = disk.open_base().map_err(Error::io)?;
            settle_header(&*file)?;
            Base::open(file, self.config.cache_bytes)
        })();
        let base = opened.map_err(|error| self.stop(error))?;
        if let Some(ring) = &mut self.ring {
            // The commit that failed may have taken place.
            ring.free_before(base.anchor().span);
        }
        self.base = Some(base);
        Ok(())
    }

    /// A checkpoint of many small commits, so that the pages that one frees serve the next. The
    /// anchor moves with the last: until then the journal still holds all of it, and a replay
    /// writes every row of the slices anew. Comes after a thaw, so that the layer believes nothing
    /// of what lies beneath.
    fn checkpoint_in_slices(&mut self) -> Result<()> {
        let anchor = self.next_anchor(self.base()?.anchor(), self.stamp);
        if let Some(journal) = self.journal()
            && let Err(error) = sync_up_to(&journal, anchor.span.link.number)
        {
            return Err(self.stop(error));
        }
        let Some(opening) = self.base.take().map(Base::into_opening) else { return Ok(()) };
        let tallies = self.rows.counts.freeze();
        let done = in_slices(&opening, &self.rows.active, &anchor, &tallies)
            .and_then(|()| Base::over(opening.clone()));
        match done {
            Ok(base) => {
                self.rows.active = Layer::default();
                drop(self.adopt(base));
                Ok(())
            }
            Err(error) => {
                let fault = opening.fate.fault();
                opening.fate.cut();
                drop(opening);
                self.rows.counts.thaw(tallies.into_iter().map(|(run, _)| run).collect());
                let error = self.recoverable(error, fault)?;
                self.reopen()?;
                Err(self.named(error))
            }
        }
    }

    /// Ends a commit with guests: the overlay, the list and the guests' tables become one commit,
    /// which is on the medium when this returns. The number of the last record.
    ///
    /// # Errors
    /// `Refused`: nothing happened. `Broken`: the store has stopped; with the kind `Unknown` the
    /// next opening decides.
    pub(crate) fn finish(
        &mut self,
        mut guests: AppTransaction,
        mut writes: Layer,
        advance: MetaDelta,
    ) -> Result<u64, Failure> {
        self.stopped().map_err(Failure::Broken)?;
        let base = self.base().map_err(Failure::Broken)?;
        if !Arc::ptr_eq(base.opening(), &guests.opening) {
            let error = Error::new(ErrorKind::Io).because("the base was opened anew; try again");
            return Err(Failure::Refused(error));
        }
        let stamp = self.stamp.moved(advance);
        let anchor = self.next_anchor(base.anchor(), stamp);
        let Some(txn) = guests.txn.take() else {
            return Err(Failure::Refused(Error::new(ErrorKind::Closed)));
        };
        if let Some(journal) = self.journal()
            && let Err(error) = sync_up_to(&journal, anchor.span.link.number)
        {
            abort(txn, &guests.opening);
            return Err(Failure::Broken(self.stop(error)));
        }
        self.rows.counts.thaw(std::mem::take(&mut self.frozen_runs));
        self.rows.count(&writes, true);
        let tallies = self.rows.counts.freeze();
        self.frozen_runs = tallies.iter().map(|(run, _)| *run).collect();
        let opening = guests.opening.clone();
        match self.commit_with_guests(txn, &opening, &writes, anchor, &tallies) {
            Ok(base) => {
                self.stamp = stamp;
                self.rows.active = Layer::default();
                writes.drain_into(|key, op| self.rows.absorb(key, op));
                drop(self.adopt(base));
                Ok(self.number)
            }
            Err(failure) => {
                // The runs stay marked as moved, whoever writes them next.
                self.rows.counts.thaw(std::mem::take(&mut self.frozen_runs));
                self.rows.count(&writes, false);
                Err(failure)
            }
        }
    }

    fn commit_with_guests(
        &mut self,
        txn: WriteTransaction,
        opening: &Arc<Opening>,
        writes: &Layer,
        mut anchor: CheckpointPosition,
        tallies: &[(Run, Tally)],
    ) -> Result<Base, Failure> {
        let written = (|| {
            // Perhaps a checkpoint has committed that nobody has told us of yet.
            anchor.serial = serial(&txn, opening)? + 1;
            if let Some(frozen) = &self.rows.frozen {
                write_rows(&txn, opening, frozen.iter())?;
            }
            write_rows(&txn, opening, self.rows.active.iter())?;
            write_rows(&txn, opening, writes.iter().filter(|(key, _)| !is_temporary(key)))?;
            write_state(&txn, opening, &anchor, tallies)
        })();
        let was_tried = written.is_ok();
        let done = match written {
            Ok(()) => fenced(&opening.fate, || Ok(txn.commit()?)),
            Err(error) => {
                abort(txn, opening);
                Err(error)
            }
        };
        let error = match done.and_then(|()| Base::over(opening.clone())) {
            Ok(base) => return Ok(base),
            Err(error) => error,
        };
        let fault = opening.fate.fault();
        let error = self.recoverable(error, fault).map_err(|stopped| {
            Failure::Broken(Error::new(ErrorKind::Unknown).caused_by(stopped))
        })?;
        self.reopen().map_err(Failure::Broken)?;
        // The commit whose answer was an error may have taken place all the same.
        match self.base.take() {
            Some(base) if was_tried && base.anchor().serial == anchor.serial => Ok(base),
            base => {
                self.base = base;
                Err(Failure::Refused(self.named(error)))
            }
        }
    }
}

/// Writes a layer in small commits: removals first, since they make room.
fn in_slices(
    opening: &Opening,
    layer: &Layer,
    anchor: &CheckpointPosition,
    tallies: &[(Run, Tally)],
) -> Result<()> {
    for dead in [true, false] {
        let mut last: Option<Key> = None;
        loop {
            let rest = layer.after(last.as_ref()).filter(|(_, op)| op.is_remove() == dead);
            let txn = opening.begin_write()?;
            match write_rows(&txn, opening, rest.take(SLICE_ROWS)) {
                Ok(Some(written)) => last = Some(written),
                Ok(None) => {
                    abort(txn, opening);
                    break;
                }
                Err(error) => {
                    abort(txn, opening);
                    return Err(error);
                }
            }
            fenced(&opening.fate, || Ok(txn.commit()?))?;
        }
    }
    let txn = opening.begin_write()?;
    if let Err(error) = write_state(&txn, opening, anchor, tallies) {
        abort(txn, opening);
        return Err(error);
    }
    fenced(&opening.fate, || Ok(txn.commit()?))
}
