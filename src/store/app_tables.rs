//! Transactions of the base with the application's own tables. At their end the layers, a set of
//! row writes and those tables become one commit of the base. It is a checkpoint too, so no record
//! is written for it.
//!
//! Locks are taken in this order: redb's writer first, without the store's lock, then the store.

use super::base::Base;
use super::base_transaction::BaseTransaction;
use super::checkpoint::sync_up_to;
use super::database::Opening;
use super::record::MetaDelta;
use super::tables::{CheckpointPosition, OWN_NAMES, Tally};
use super::{Store, StoreFailure, WrongCount};
use crate::format::key::{Run, is_temporary};
use crate::format::layer::Layer;
use crate::format::row::DayEntry;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;

/// Whether the application may use a table of this name.
pub(crate) fn is_app_table(name: &str) -> bool {
    !name.starts_with(OWN_NAMES)
}

impl Store {
    /// The opening of the base in use, for transactions without the store's lock. Reopens the base
    /// first if an earlier call to it has failed.
    pub(crate) fn opening(&mut self) -> Result<Arc<Opening>> {
        self.reopen_if_failed()?;
        Ok(self.base()?.opening().clone())
    }

    /// Commits the layers, the row writes and the application's tables together. The commit is on
    /// the medium when this returns. Returns the number of the last record.
    ///
    /// # Errors
    /// `Refused`: nothing has changed. `Broken`: the store has stopped; with the kind `Unknown` the
    /// next opening shows whether the commit took place.
    pub(crate) fn finish(
        &mut self,
        txn: BaseTransaction,
        (mut writes, days): (Layer, &[DayEntry]),
        advance: MetaDelta,
    ) -> Result<u64, StoreFailure> {
        self.ensure_running().map_err(StoreFailure::Broken)?;
        self.add_day_rows(&mut writes, days)?;
        let base = self.base().map_err(StoreFailure::Broken)?;
        if !Arc::ptr_eq(base.opening(), txn.opening()) {
            let error = Error::new(ErrorKind::Io);
            let why = "base.redb was opened again after an error; try again";
            return Err(StoreFailure::Refused(error.because(why)));
        }
        let meta = self.meta.advanced(advance);
        let anchor = self.next_anchor(&base.anchor, meta);
        if let Err(error) = sync_up_to(self.journal().as_deref(), anchor.span.link.number) {
            drop(txn);
            return Err(StoreFailure::Broken(self.stop(error)));
        }
        self.rows.counts.thaw();
        self.rows.count(&writes, true);
        let tallies = self.rows.counts.freeze();
        match self.commit_all(txn, &writes, anchor, &tallies) {
            Ok(base) => {
                // The base has the reservation, too.
                (self.meta, self.reserved_at) = (meta, 0);
                self.rows.active = Layer::default();
                writes.drain_into(|row| self.rows.absorb(row));
                drop(self.adopt(base));
                Ok(self.number)
            }
            Err(failure) => {
                // The runs stay marked as changed, so that the next checkpoint writes their counts,
                // also those of a running checkpoint.
                self.rows.counts.thaw();
                self.rows.count(&writes, false);
                Err(failure)
            }
        }
    }

    /// Corrects counts of rows, each by a difference, in one commit of the base with the layers.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub(crate) fn correct_counts(
        &mut self,
        txn: BaseTransaction,
        wrong: &[WrongCount],
        advance: MetaDelta,
    ) -> Result<u64, StoreFailure> {
        for count in wrong {
            self.rows.counts.step(count.range, count.difference());
        }
        let done = self.finish(txn, (Layer::default(), &[]), advance);
        if done.is_err() {
            for count in wrong {
                self.rows.counts.step(count.range, count.difference().wrapping_neg());
            }
        }
        done
    }

    fn commit_all(
        &mut self,
        txn: BaseTransaction,
        writes: &Layer,
        mut anchor: CheckpointPosition,
        tallies: &[(Run, Tally)],
    ) -> Result<Base, StoreFailure> {
        let opening = txn.opening().clone();
        let mut was_tried = false;
        let done = (|| {
            // Aborted here if a write fails.
            let txn = txn;
            // A checkpoint may have committed and not called `renew` yet.
            anchor.serial = txn.serial()? + 1;
            if let Some(frozen) = &self.rows.frozen {
                txn.write_rows(frozen.iter())?;
            }
            txn.write_rows(self.rows.active.iter())?;
            txn.write_rows(writes.iter().filter(|(key, _)| !is_temporary(key)))?;
            txn.write_state(&anchor, tallies)?;
            txn.keep_reserve()?;
            was_tried = true;
            txn.commit()?;
            Base::over(opening.clone())
        })();
        let error = match done {
            Ok(base) => return Ok(base),
            Err(error) => error,
        };
        let fault = opening.health.fault();
        let error = self.recoverable(error, fault).map_err(|stopped| {
            StoreFailure::Broken(Error::new(ErrorKind::Unknown).caused_by(stopped))
        })?;
        let reopened = match error.kind() {
            ErrorKind::DiskFull => self.reopen_larger().map(drop),
            _ => self.reopen(),
        };
        reopened.map_err(|stopped| {
            let unknown = |error| Error::new(ErrorKind::Unknown).caused_by(error);
            StoreFailure::Broken(if was_tried { unknown(stopped) } else { stopped })
        })?;
        // A commit that returned an error may have taken place; the serial shows it.
        let is_done = |base: &mut Base| was_tried && base.anchor.serial == anchor.serial;
        let done = self.base.take_if(is_done);
        done.ok_or_else(|| StoreFailure::Refused(self.with_folder(error)))
    }
}
