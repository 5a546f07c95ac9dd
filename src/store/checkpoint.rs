//! Moves the frozen layer into the base, in steps that the caller drives without the store's lock.
//! One commit contains the rows, the counts and the anchor, so that the base always holds the queue
//! as it was after one record.

use super::base::Base;
use super::base_transaction::BaseTransaction;
use super::database::Opening;
use super::journal::Journal;
use super::paced_io::IoPacer;
use super::redb_errors::Fault;
use super::tables::{CheckpointPosition, Tally};
use crate::format::key::{Key, Run};
use crate::format::layer::Layer;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;

/// Rows of a step, which takes some tenths of a millisecond.
const STEP: usize = 256;

/// A running checkpoint.
pub(crate) struct Checkpoint {
    pub(super) frozen: Arc<Layer>,
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) opening: Arc<Opening>,
    pub(super) anchor: CheckpointPosition,
    pub(super) tallies: Vec<(Run, Tally)>,
    pub(super) txn: Option<BaseTransaction>,
    pub(super) last: Option<Key>,
}

/// A checkpoint that failed. The store can continue after `Store::checkpoint_failed` was called
/// with it.
#[derive(Debug)]
pub(crate) struct CheckpointFailure {
    pub(super) frozen: Arc<Layer>,
    pub(super) error: Error,
    pub(super) fault: Option<Fault>,
}

impl Checkpoint {
    /// Waits for redb's writer and begins. Syncs the journal first: the record in the base's anchor
    /// must be on the medium before the base is.
    pub(crate) fn begin(&mut self) -> Result<()> {
        sync_up_to(self.journal.as_deref(), self.anchor.span.link.number)?;
        let txn = self.txn.insert(BaseTransaction::begin(self.opening.clone())?);
        // Its rows are in the base already; written again, they would hide later ones.
        if txn.serial()? + 1 != self.anchor.serial {
            return Err(Error::new(ErrorKind::Closed)
                .because("a transaction was committed first; try again"));
        }
        Ok(())
    }

    /// Writes the next rows, in key order. Returns whether more are left.
    pub(crate) fn step(&mut self, rows: usize) -> Result<bool> {
        let Some(txn) = &self.txn else { return Err(Error::new(ErrorKind::Closed)) };
        let slice = self.frozen.after(self.last.as_ref()).take(rows);
        let last = txn.write_rows(slice)?;
        self.last = last.or(self.last.take());
        Ok(self.frozen.after(self.last.as_ref()).next().is_some())
    }

    /// Commits. On return everything up to the anchor is in the base, on the medium. Returns a
    /// snapshot that contains it.
    pub(crate) fn commit(&mut self) -> Result<Base> {
        let Some(txn) = self.txn.take() else { return Err(Error::new(ErrorKind::Closed)) };
        txn.write_state(&self.anchor, &self.tallies)?;
        txn.keep_reserve()?;
        txn.commit()?;
        Base::over(self.opening.clone())
    }

    /// Turns an error of a step into a failure for `Store::checkpoint_failed`.
    pub(crate) fn failed(mut self, error: Error) -> CheckpointFailure {
        drop(self.txn.take());
        CheckpointFailure { frozen: self.frozen, error, fault: self.opening.health.fault() }
    }

    /// Runs all steps, with the pauses that `pacer` asks for. Returns a snapshot that contains what
    /// was frozen.
    pub(crate) fn run(
        mut self,
        pacer: Option<Arc<dyn IoPacer>>,
    ) -> std::result::Result<Base, CheckpointFailure> {
        self.opening.writer.set_pacer(pacer.clone());
        let done = (|| {
            self.begin()?;
            while self.step(STEP)? {
                if let Some(pacer) = &pacer {
                    pacer.yield_cpu();
                }
            }
            self.commit()
        })();
        self.opening.writer.set_pacer(None);
        done.map_err(|error| self.failed(error))
    }
}

/// What a checkpoint has replaced. To drop a layer of many rows takes as long as thousands of
/// verbs, so the caller drops it without the store's lock.
#[must_use = "to be dropped without the store's lock"]
pub(crate) struct Retired {
    pub(super) base: Option<Base>,
    pub(super) frozen: Option<Arc<Layer>>,
    /// Bytes that are read ahead at most.
    pub(super) read_ahead_bytes: u64,
}

impl Retired {
    /// Drops it, and first reads the rows that sequential scans will reach before the next
    /// checkpoint, while `may_go_on`, so that they need not wait for the disk. The old snapshot
    /// knows how far the scans are, and nearly all its pages are also those of the new one.
    ///
    /// # Errors
    /// As for any read. After an error the caller calls `Store::reopen_if_failed`.
    pub(crate) fn read_ahead(self, may_go_on: &dyn Fn() -> bool) -> Result<()> {
        drop(self.frozen);
        self.base.map_or(Ok(()), |base| base.read_ahead(self.read_ahead_bytes, may_go_on))
    }
}

/// Syncs the journal up to this record. In memory there is none.
pub(super) fn sync_up_to(journal: Option<&Journal>, number: u64) -> Result<()> {
    let Some(journal) = journal else { return Ok(()) };
    if journal.has_failed() {
        return Err(Error::new(ErrorKind::Broken).because("the journal has failed"));
    }
    if journal.synced() < number {
        journal.sync()?;
    }
    Ok(())
}
