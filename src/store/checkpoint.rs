//! Moves the frozen layer into the base, in steps that the caller drives without the store's lock.
//! One commit contains the rows, the counts and the anchor, so that the base always holds the queue
//! as it was after one record.

use super::base::{Base, read_anchor};
use super::database::Opening;
use super::journal::Journal;
use super::merge::merge;
use super::paced_io::IoPacer;
use super::redb_errors::{Fault, fenced};
use super::tables::{ANCHOR, CheckpointPosition, ROWS, STATE, Tally, encode_tally, run_key, seal};
use crate::format::RowOp;
use crate::format::key::{Key, Run};
use crate::format::layer::Layer;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use redb::WriteTransaction;

/// Rows of a step, which takes some tenths of a millisecond.
const STEP: usize = 256;

/// Bytes that are taken at once where free pages are counted.
const RESERVE_CHUNK: usize = 60 << 10;
/// Their keys begin like this. No such key exists after a transaction.
const RESERVE: &[u8] = b"reserve";

/// A running checkpoint.
pub(crate) struct Checkpoint {
    pub(super) frozen: Arc<Layer>,
    pub(super) journal: Option<Arc<Journal>>,
    pub(super) opening: Arc<Opening>,
    pub(super) anchor: CheckpointPosition,
    pub(super) tallies: Vec<(Run, Tally)>,
    pub(super) txn: Option<WriteTransaction>,
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
        if let Some(journal) = &self.journal {
            sync_up_to(journal, self.anchor.span.link.number)?;
        }
        let txn = self.txn.insert(self.opening.begin_write()?);
        // Its rows are in the base already; written again, they would hide later ones.
        if serial(txn, &self.opening)? + 1 != self.anchor.serial {
            return Err(Error::new(ErrorKind::Closed)
                .because("a transaction was committed first; try again"));
        }
        Ok(())
    }

    /// Writes the next rows, in key order. Returns whether more are left.
    pub(crate) fn step(&mut self, rows: usize) -> Result<bool> {
        let Some(txn) = &self.txn else { return Err(Error::new(ErrorKind::Closed)) };
        let slice = self.frozen.after(self.last.as_ref()).take(rows);
        let last = write_rows(txn, &self.opening, slice)?;
        self.last = last.or(self.last.take());
        Ok(self.frozen.after(self.last.as_ref()).next().is_some())
    }

    /// Commits. On return everything up to the anchor is in the base, on the medium. Returns a
    /// snapshot that contains it.
    pub(crate) fn commit(&mut self) -> Result<Base> {
        let Some(txn) = &self.txn else { return Err(Error::new(ErrorKind::Closed)) };
        write_state(txn, &self.opening, &self.anchor, &self.tallies)?;
        keep_reserve(txn, &self.opening)?;
        let commit = || Ok(self.txn.take().map_or(Ok(()), WriteTransaction::commit)?);
        fenced(&self.opening.health, commit)?;
        Base::over(self.opening.clone())
    }

    /// Turns an error of a step into a failure for `Store::checkpoint_failed`.
    pub(crate) fn failed(mut self, error: Error) -> CheckpointFailure {
        if let Some(txn) = self.txn.take() {
            abort(txn, &self.opening);
        }
        CheckpointFailure { frozen: self.frozen, error, fault: self.opening.health.fault() }
    }

    /// Runs all steps, with the pauses that `pacer` asks for. Returns a snapshot that contains what
    /// was frozen.
    pub(crate) fn run(
        mut self,
        pacer: Option<Arc<dyn IoPacer>>,
    ) -> std::result::Result<Base, CheckpointFailure> {
        self.opening.writer.set_pacer(pacer.clone());
        let done = self.all_steps(pacer.as_deref());
        self.opening.writer.set_pacer(None);
        done.map_err(|error| self.failed(error))
    }

    fn all_steps(&mut self, pacer: Option<&dyn IoPacer>) -> Result<Base> {
        self.begin()?;
        while self.step(STEP)? {
            if let Some(pacer) = pacer {
                pacer.yield_cpu();
            }
        }
        self.commit()
    }
}

pub(super) fn sync_up_to(journal: &Journal, number: u64) -> Result<()> {
    if journal.has_failed() {
        return Err(Error::new(ErrorKind::Broken).because("the journal has failed"));
    }
    if journal.synced() < number {
        journal.sync()?;
    }
    Ok(())
}

/// The serial of the anchor in a write transaction.
pub(super) fn serial(txn: &WriteTransaction, opening: &Opening) -> Result<u64> {
    Ok(read_anchor(&opening.health, || Ok(txn.open_table(STATE)?))?.serial)
}

/// Writes entries; returns the last key written.
pub(super) fn write_rows<'a>(
    txn: &WriteTransaction,
    opening: &Opening,
    entries: impl Iterator<Item = (&'a Key, &'a RowOp)>,
) -> Result<Option<Key>> {
    fenced(&opening.health, || merge(&mut txn.open_table(ROWS)?, entries))
}

/// Writes the anchor and the counts that have changed.
pub(super) fn write_state(
    txn: &WriteTransaction,
    opening: &Opening,
    anchor: &CheckpointPosition,
    tallies: &[(Run, Tally)],
) -> Result<()> {
    fenced(&opening.health, || {
        let mut table = txn.open_table(STATE)?;
        let mut buffer = Vec::new();
        table.insert(ANCHOR, seal(ANCHOR, &anchor.encode(), &mut buffer))?;
        for (run, tally) in tallies {
            let key = run_key(*run);
            if *tally == Tally::default() {
                table.remove(key.as_slice())?;
            } else {
                table.insert(key.as_slice(), seal(&key, &encode_tally(tally), &mut buffer))?;
            }
        }
        Ok(())
    })
}

/// Makes sure that the base has its reserve after this transaction: after redb's part of the file,
/// or as free pages in it, which this allocates and frees.
pub(super) fn keep_reserve(txn: &WriteTransaction, opening: &Opening) -> Result<()> {
    let Some(file) = opening.file.as_ref().filter(|file| !file.has_reserve()) else {
        return Ok(());
    };
    fenced(&opening.health, || {
        let mut table = txn.open_table(STATE)?;
        let chunk = vec![0; RESERVE_CHUNK];
        let chunks = file.reserve_wanted() / RESERVE_CHUNK as u64 + 1;
        let key = |number: u64| [RESERVE, &number.to_be_bytes()].concat();
        for number in 0..chunks {
            table.insert(key(number).as_slice(), chunk.as_slice())?;
        }
        for number in 0..chunks {
            table.remove(key(number).as_slice())?;
        }
        Ok(())
    })
}

/// Drops a transaction; redb may read and write during the drop.
pub(super) fn abort(txn: WriteTransaction, opening: &Opening) {
    let _ = fenced(&opening.health, || Ok(txn.abort()?));
}
