//! How unused space of the base is returned to the file system. No other call runs meanwhile.

use super::Store;
use super::base::Base;
use super::base_transaction::BaseTransaction;
use super::redb_errors::{Fault, fenced};
use crate::words::error::{ErrorKind, Result};
use crate::words::sync::Arc;
use redb::CompactionError;

impl Store {
    /// Returns unused space of the base to the file system. Blocks everything else in the meantime.
    /// Returns whether the file is smaller now. While a checkpoint, a reader or a writer is active,
    /// the file is left as it is.
    ///
    /// # Errors
    /// `Io`, `DiskFull` or `Broken`; the store continues after the first two.
    pub(crate) fn compact(&mut self) -> Result<bool> {
        self.checkpoint()?;
        let before = self.base()?.opening().bytes();
        match self.compact_base() {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Broken => return Err(self.stop(error)),
            Err(error) => {
                self.reopen_if_failed()?;
                return Err(self.with_folder(error));
            }
        }
        Ok(self.base()?.opening().bytes() < before)
    }

    /// Compacts the base, if no other thread has a snapshot of it.
    fn compact_base(&mut self) -> Result<()> {
        self.reopen_if_failed()?;
        if self.rows.frozen.is_some() {
            return Ok(());
        }
        let Some(mut opening) = self.base.take().map(Base::into_opening) else { return Ok(()) };
        let health = opening.health.clone();
        let compacted = Arc::get_mut(&mut opening).map_or(Ok(false), |own| {
            fenced(&health, || {
                let db = own.db_mut()?;
                loop {
                    match db.compact() {
                        Ok(true) => {}
                        Ok(false) => return Ok(true),
                        Err(CompactionError::TransactionInProgress) => return Ok(false),
                        Err(error) => return Err(error.into()),
                    }
                }
            })
        });
        match Base::over(opening) {
            Ok(base) => self.base = Some(base),
            Err(error) if health.fault() == Some(Fault::Sync) => return Err(self.stop(error)),
            // A new opening repairs what the compaction has left.
            Err(_) => self.reopen()?,
        }
        if !compacted? {
            return Ok(());
        }
        // Compaction writes no list of free pages; after an unclean end redb would scan the whole
        // file.
        BaseTransaction::begin(self.base()?.opening().clone())?.commit()
    }
}
