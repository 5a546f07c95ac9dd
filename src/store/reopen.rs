//! What the store does after a failure of the base: it continues with all its rows, or stops. A
//! failed sync is never tried again and stops the store. After a failed write or on a full disk the
//! base is opened again, because redb refuses all calls of an opening after its first error.

use super::Store;
use super::checkpoint::CheckpointFailure;
use super::open_base::reopen_base;
use super::redb_errors::Fault;
use super::reserve::BaseFile;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;

impl Store {
    /// Makes the frozen rows of a failed checkpoint active again. Returns why the checkpoint
    /// failed. `None` if a commit with the application's tables has written the frozen rows since:
    /// then nothing is lost, and nothing is left to do.
    ///
    /// # Errors
    /// `Broken` if the store cannot continue.
    pub(super) fn take_back(&mut self, failure: CheckpointFailure) -> Result<Option<Error>> {
        let CheckpointFailure { frozen, error, fault } = failure;
        if !self.rows.frozen.as_ref().is_some_and(|own| Arc::ptr_eq(own, &frozen)) {
            return Ok(None);
        }
        drop(frozen);
        self.rows.thaw();
        self.recoverable(error, fault).map(Some)
    }

    /// Opens the base again if an earlier call to it has failed and no checkpoint is writing to it.
    ///
    /// # Errors
    /// `Broken` if that is not possible.
    pub(crate) fn reopen_if_failed(&mut self) -> Result<()> {
        self.ensure_reading()?;
        match self.base()?.opening().health.fault() {
            Some(Fault::Sync) => {
                Err(self.stop(Error::new(ErrorKind::Io).because("base.redb was not synced")))
            }
            Some(Fault::Retryable { .. }) if self.rows.frozen.is_none() => self.reopen(),
            _ => Ok(()),
        }
    }

    /// Whether an op or a read failed because the running checkpoint has met a full disk. redb then
    /// refuses reads as well, until [`Store::checkpoint_failed`] has opened the base again.
    pub(crate) fn refuses_reads(&self, error: &Error) -> bool {
        let fault = self.base.as_ref().and_then(|base| base.opening().health.fault());
        error.kind() == ErrorKind::DiskFull
            && self.rows.frozen.is_some()
            && fault == Some(Fault::Retryable { full: true })
    }

    /// Allocates the base's reserve again, if the disk has space for it. Returns whether puts are
    /// accepted.
    pub(crate) fn restore_reserve(&mut self) -> bool {
        if let Some(file) = self.base.as_ref().and_then(|base| base.opening().file.as_ref())
            && file.restore().is_ok()
        {
            self.full = false;
        }
        !self.full
    }

    /// Returns why a checkpoint failed, if the store can continue: `DiskFull` if the disk was full.
    ///
    /// # Errors
    /// `Broken` if it cannot continue.
    pub(super) fn recoverable(&self, error: Error, fault: Option<Fault>) -> Result<Error> {
        let is_fatal = fault == Some(Fault::Sync)
            || self.ring.as_ref().is_some_and(|ring| ring.journal.has_failed())
            || self.disk.is_none()
            || matches!(error.kind(), ErrorKind::Broken | ErrorKind::Damaged);
        if is_fatal {
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

    /// Opens the base again.
    ///
    /// # Errors
    /// `Broken`: the store has stopped.
    pub(super) fn reopen(&mut self) -> Result<()> {
        self.reopen_after(|_| Ok(()))
    }

    /// Opens the base again after a change of its file. The old opening ends before: two openings
    /// of one file would not know of each other's pages.
    ///
    /// # Errors
    /// `Broken`: the store has stopped.
    pub(super) fn reopen_after(
        &mut self,
        change: impl FnOnce(&BaseFile) -> Result<()>,
    ) -> Result<()> {
        if let Some(base) = self.base.take() {
            base.into_opening().health.detach();
        }
        let Some(file) = self.base_file.clone() else {
            let error = Error::new(ErrorKind::Io);
            return Err(self.stop(error.because("a base in memory cannot be opened again")));
        };
        let opened = reopen_base(file, &self.config, change);
        let base = opened.map_err(|error| self.stop(error))?;
        if let Some(ring) = &mut self.ring {
            // The commit that failed may have taken place.
            ring.free_before(base.anchor.span);
        }
        self.base = Some(base);
        Ok(())
    }
}
