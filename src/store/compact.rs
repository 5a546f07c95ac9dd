//! Gives unused space of the base back to the system.

use super::Store;
use super::base::{Base, Fault, fenced};
use crate::words::error::{ErrorKind, Result};
use crate::words::sync::Arc;

impl Store {
    /// Gives unused space of the base back to the system. Stops everything else meanwhile. Whether
    /// the file is smaller now; it stays as it is while a checkpoint, a reader or a writer is under
    /// way.
    ///
    /// # Errors
    /// `Io`, `DiskFull` or `Broken`; the store goes on after the first two.
    pub(crate) fn compact(&mut self) -> Result<bool> {
        self.checkpoint()?;
        let before = self.base()?.opening().bytes();
        let done = self.alone(|db| {
            while db.compact()? {}
            Ok(())
        });
        // Compaction leaves no record of what is free, and an unclean end would walk the file.
        let done = done.and_then(|done| done.map_or(Ok(()), |()| self.touch_base()));
        match done {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Broken => return Err(self.stop(error)),
            Err(error) => {
                self.heal()?;
                return Err(self.named(error));
            }
        }
        Ok(self.base()?.opening().bytes() < before)
    }

    fn touch_base(&self) -> Result<()> {
        let opening = self.base()?.opening();
        let txn = opening.begin_write()?;
        fenced(&opening.fate, || Ok(txn.commit()?))
    }

    /// Runs something that redb allows only without a snapshot. `None` if others have one.
    fn alone<T>(
        &mut self,
        work: impl FnOnce(&mut redb::Database) -> std::result::Result<T, redb::Error>,
    ) -> Result<Option<T>> {
        self.heal()?;
        if self.rows.frozen.is_some() {
            return Ok(None);
        }
        let Some(mut opening) = self.base.take().map(Base::into_opening) else { return Ok(None) };
        let done = match Arc::get_mut(&mut opening) {
            Some(own) => {
                let fate = own.fate.clone();
                match fenced(&fate, || Ok(work(own.db_mut()?))) {
                    Ok(Err(redb::Error::TransactionInProgress)) => Ok(None),
                    Ok(done) => fenced(&fate, || done).map(Some),
                    Err(error) => Err(error),
                }
            }
            None => Ok(None),
        };
        let fate = opening.fate.clone();
        match Base::over(opening) {
            Ok(base) => self.base = Some(base),
            Err(error) if fate.fault() == Some(Fault::Sync) => return Err(self.stop(error)),
            // Whatever the work has left behind, a new opening repairs.
            Err(_) => self.reopen()?,
        }
        done
    }
}
