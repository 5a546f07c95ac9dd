//! After a failure: what can be mended is mended under the living overlay, what cannot stops the
//! store. A failed sync is never mended and never tried again; a failed write and a full disk are:
//! the base is opened anew, since redb remembers every error for the life of its handle.

use super::app_tables::AppTransaction;
use super::base::{Base, Fault, Opening, fenced};
use super::checkpoint::{CheckpointFailure, abort, keep_reserve, serial, sync_up_to};
use super::checkpoint::{write_rows, write_state};
use super::open::open_base_again;
use super::record::MetaDelta;
use super::reserve::BaseFile;
use super::tables::{CheckpointPosition, Tally};
use super::{Failure, Store};
use crate::format::key::{Run, is_temporary};
use crate::format::layer::Layer;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use redb::WriteTransaction;

impl Store {
    /// Takes back a checkpoint that failed. On a full disk it does what can be done there, see
    /// `store::full`. `Ok` if the checkpoint is done after all.
    ///
    /// # Errors
    /// What the checkpoint failed with, if the store goes on without it; `Broken` if it does not.
    pub(crate) fn mend(&mut self, failure: CheckpointFailure) -> Result<()> {
        match self.take_back(failure)? {
            None => Ok(()),
            Some(error) if error.kind() == ErrorKind::DiskFull => self.make_do(error),
            Some(error) => {
                self.reopen()?;
                Err(self.named(error))
            }
        }
    }

    /// Makes the frozen rows active again. What the checkpoint failed with, unless a commit with
    /// guests has taken them along: then nothing is lost or left to do.
    pub(super) fn take_back(&mut self, failure: CheckpointFailure) -> Result<Option<Error>> {
        let CheckpointFailure { frozen, error, fault } = failure;
        if !self.rows.frozen.as_ref().is_some_and(|own| Arc::ptr_eq(own, &frozen)) {
            return Ok(None);
        }
        drop(frozen);
        self.thaw();
        self.recoverable(error, fault).map(Some)
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

    /// Whether an op or a read failed because the running checkpoint has met a full disk. redb then
    /// refuses reads as well, until [`Store::mend`] has opened the base again.
    pub(crate) fn refuses_reads(&self, error: &Error) -> bool {
        let fault = self.base.as_ref().and_then(|base| base.opening().fate.fault());
        error.kind() == ErrorKind::DiskFull
            && self.rows.frozen.is_some()
            && fault == Some(Fault::Retryable { full: true })
    }

    /// Makes the base's reserve stand again, if the disk has the room. Whether puts are welcome.
    pub(crate) fn refill(&mut self) -> bool {
        if let Some(file) = self.base.as_ref().and_then(|base| base.opening().file.as_ref())
            && file.restore().is_ok()
        {
            self.full = false;
        }
        !self.full
    }

    pub(super) fn thaw(&mut self) {
        self.rows.thaw();
        self.rows.counts.thaw(std::mem::take(&mut self.frozen_runs));
    }

    /// The error of a checkpoint, `DiskFull` if that was it, if the store can go on behind it.
    ///
    /// # Errors
    /// `Broken` if it cannot.
    pub(super) fn recoverable(&self, error: Error, fault: Option<Fault>) -> Result<Error> {
        let journal = self.ring.as_ref().is_some_and(|ring| ring.shared().has_failed());
        let hopeless = fault == Some(Fault::Sync)
            || journal
            || self.disk.is_none()
            || matches!(error.kind(), ErrorKind::Broken | ErrorKind::Damaged);
        if hopeless {
            let failed = Error::new(error.kind()).because("a checkpoint failed");
            return Err(self.stop(failed.caused_by(error)));
        }
        match fault {
            Some(Fault::Retryable { full: true }) if error.kind() != ErrorKind::DiskFull => {
                Ok(Error::new(ErrorKind::DiskFull).caused_by(error))
            }
            _ => Ok(error),
        }
    }

    /// Drops the base first: two openings of one file would not know of each other's pages.
    pub(super) fn reopen(&mut self) -> Result<()> {
        self.reopen_behind(|_| Ok(()))
    }

    /// The same, behind a change of the file while nobody has it open.
    pub(super) fn reopen_behind(
        &mut self,
        change: impl FnOnce(&BaseFile) -> Result<()>,
    ) -> Result<()> {
        if let Some(base) = self.base.take() {
            base.into_opening().fate.cut();
        }
        let Some(disk) = &self.disk else {
            return Err(self.stop(Error::new(ErrorKind::Io).because("the base in memory")));
        };
        let opened = open_base_again(&**disk, self.config.cache_bytes, change);
        let base = opened.map_err(|error| self.stop(error))?;
        if let Some(ring) = &mut self.ring {
            // The commit that failed may have taken place.
            ring.free_before(base.anchor().span);
        }
        self.base = Some(base);
        Ok(())
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
            write_state(&txn, opening, &anchor, tallies)?;
            keep_reserve(&txn, opening)
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
        let reopened = match error.kind() {
            ErrorKind::DiskFull => self.reopen_larger().map(drop),
            _ => self.reopen(),
        };
        reopened.map_err(Failure::Broken)?;
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
