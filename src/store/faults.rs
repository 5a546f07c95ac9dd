//! The parts of a store while they can be used, and what a fault of one means: it stops the store
//! for good, or the caller gets an error with the folder's path. It repairs nothing; see
//! `store::reopen`.

use super::base::Base;
use super::journal::Journal;
use super::redb_errors::is_corruption_panic;
use super::ring::WriteFault;
use super::{Store, StoreFailure};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;

impl Store {
    #[inline]
    pub(super) fn base(&self) -> Result<&Base> {
        let closed = || Error::new(ErrorKind::Broken).because("base.redb is closed");
        self.base.as_ref().ok_or_else(closed)
    }

    /// The journal, to sync it without the store's lock. `None` in memory.
    pub(crate) fn journal(&self) -> Option<Arc<Journal>> {
        self.ring.as_ref().map(|ring| ring.journal.clone())
    }

    /// # Errors
    /// `Broken` if an earlier failure has stopped the store; `Closed` after a close; `ReadOnly`.
    #[inline]
    pub(super) fn ensure_running(&self) -> Result<()> {
        if self.ring.as_ref().is_some_and(|ring| ring.journal.has_failed()) {
            return Err(self.stop(Error::new(ErrorKind::Io).because("the journal was not synced")));
        }
        self.health.runs().map_err(|error| self.with_folder(error))
    }

    /// As `ensure_running`, for what writes no row.
    ///
    /// # Errors
    /// `Broken` or `Closed`.
    pub(super) fn ensure_reading(&self) -> Result<()> {
        match self.health.is_read_only() {
            true => self.health.reads().map_err(|error| self.with_folder(error)),
            false => self.ensure_running(),
        }
    }

    /// Stops the queue for good. Returns the error as the caller gets it: as `Broken`, or as
    /// `Unknown` if the outcome of the call is unknown.
    #[cold]
    pub(super) fn stop(&self, error: Error) -> Error {
        self.health.break_down(error.to_string(), is_corruption_panic(&error));
        let kind = if error.is_outcome_unknown() { ErrorKind::Unknown } else { ErrorKind::Broken };
        self.with_folder(Error::new(kind).caused_by(error))
    }

    pub(super) fn with_folder(&self, error: Error) -> Error {
        match &self.disk {
            Some(disk) => error.at(disk.folder()),
            None => error,
        }
    }

    /// Passes the result of a read on. A panic of redb stops the store.
    #[inline]
    pub(super) fn read_result<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| match error.kind() {
            ErrorKind::Broken => self.stop(error),
            _ => self.with_folder(error),
        })
    }

    pub(super) fn write_failed(&self, fault: WriteFault) -> StoreFailure {
        match fault {
            // A checkpoint has already written all that fits, and no record was written since.
            WriteFault::NoRoom if self.full && self.number_when_full == self.number => {
                StoreFailure::Refused(self.with_folder(Error::new(ErrorKind::DiskFull)))
            }
            WriteFault::NoRoom => StoreFailure::NoRoom,
            WriteFault::TooLarge => StoreFailure::TooLarge,
            WriteFault::Undone(error) => StoreFailure::Refused(self.with_folder(Error::io(error))),
            WriteFault::Fatal(error) => StoreFailure::Broken(self.stop(
                Error::io(error).because("a write to the journal failed and was not undone"),
            )),
        }
    }
}
