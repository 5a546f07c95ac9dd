//! Returns unused space of the base to the file system.

use super::Store;
use super::base::Base;
use super::redb_errors::{Fault, fenced};
use crate::words::error::{ErrorKind, Result};
use crate::words::sync::Arc;

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
        let done = self.alone(|db| {
            while db.compact()? {}
            Ok(())
        });
        // Compaction writes no list of free pages; after an unclean end redb would scan the whole
        // file.
        let done = done.and_then(|done| done.map_or(Ok(()), |()| self.touch_base()));
        match done {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Broken => return Err(self.stop(error)),
            Err(error) => {
                self.reopen_if_failed()?;
                return Err(self.with_folder(error));
            }
        }
        Ok(self.base()?.opening().bytes() < before)
    }

    fn touch_base(&self) -> Result<()> {
        let opening = self.base()?.opening();
        let txn = opening.begin_write()?;
        fenced(&opening.health, || Ok(txn.commit()?))
    }

    /// Runs `work`, which redb allows only without a snapshot. `None` if another thread has one.
    fn alone<T>(
        &mut self,
        work: impl FnOnce(&mut redb::Database) -> std::result::Result<T, redb::Error>,
    ) -> Result<Option<T>> {
        self.reopen_if_failed()?;
        if self.rows.frozen.is_some() {
            return Ok(None);
        }
        let Some(mut opening) = self.base.take().map(Base::into_opening) else { return Ok(None) };
        let done = match Arc::get_mut(&mut opening) {
            Some(own) => {
                let health = own.health.clone();
                match fenced(&health, || Ok(work(own.db_mut()?))) {
                    Ok(Err(redb::Error::TransactionInProgress)) => Ok(None),
                    Ok(done) => fenced(&health, || done).map(Some),
                    Err(error) => Err(error),
                }
            }
            None => Ok(None),
        };
        let health = opening.health.clone();
        match Base::over(opening) {
            Ok(base) => self.base = Some(base),
            Err(error) if health.fault() == Some(Fault::Sync) => return Err(self.stop(error)),
            // A new opening repairs what the work has left.
            Err(_) => self.reopen()?,
        }
        done
    }
}
