//! A write transaction of the base: what checkpoints, commits with the application's tables and a
//! full disk write in it.

use super::base::read_anchor;
use super::database::Opening;
use super::merge::merge;
use super::redb_errors::fenced;
use super::tables::{
    ANCHOR, CheckpointPosition, NO_ROWS, ROWS, STATE, Tally, encode_tally, run_key, seal,
};
use crate::format::RowOp;
use crate::format::key::{Key, Run};
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use redb::WriteTransaction;

/// Bytes that are taken at once where free pages are counted.
const RESERVE_CHUNK: usize = 60 << 10;
/// Their keys begin like this. No such key exists after a transaction.
const RESERVE: &[u8] = b"reserve";

/// A write transaction of the base. Dropped without a commit, it is aborted and changes nothing.
pub(crate) struct BaseTransaction {
    txn: Option<WriteTransaction>,
    opening: Arc<Opening>,
}

impl BaseTransaction {
    /// Waits for redb's writer. Must not be called with the store's lock held: a checkpoint may
    /// hold the writer and wait for that lock.
    pub(crate) fn begin(opening: Arc<Opening>) -> Result<Self> {
        let txn = Some(opening.begin_write()?);
        Ok(Self { txn, opening })
    }

    /// The transaction in which to open the application's tables.
    ///
    /// # Errors
    /// `Closed` after the commit.
    pub(crate) fn transaction(&self) -> Result<&WriteTransaction> {
        self.txn.as_ref().ok_or_else(|| Error::new(ErrorKind::Closed))
    }

    pub(super) fn opening(&self) -> &Arc<Opening> {
        &self.opening
    }

    fn write<T>(
        &self,
        work: impl FnOnce(&WriteTransaction) -> std::result::Result<T, redb::Error>,
    ) -> Result<T> {
        let txn = self.transaction()?;
        fenced(&self.opening.health, || work(txn))
    }

    /// The serial of the anchor.
    pub(super) fn serial(&self) -> Result<u64> {
        let txn = self.transaction()?;
        Ok(read_anchor(&self.opening.health, || Ok(txn.open_table(STATE)?))?.serial)
    }

    /// Writes entries; returns the last key written.
    pub(super) fn write_rows<'a>(
        &self,
        entries: impl Iterator<Item = (&'a Key, &'a RowOp)>,
    ) -> Result<Option<Key>> {
        self.write(|txn| merge(&mut txn.open_table(ROWS)?, entries))
    }

    /// Writes the anchor and the counts that have changed.
    pub(super) fn write_state(
        &self,
        anchor: &CheckpointPosition,
        tallies: &[(Run, Tally)],
    ) -> Result<()> {
        self.write(|txn| {
            let mut table = txn.open_table(STATE)?;
            let mut buffer = Vec::new();
            table.insert(ANCHOR, seal(ANCHOR, &anchor.encode(), &mut buffer))?;
            for (run, tally) in tallies {
                let key = run_key(*run);
                if *tally == NO_ROWS {
                    table.remove(key.as_slice())?;
                } else {
                    table.insert(key.as_slice(), seal(&key, &encode_tally(tally), &mut buffer))?;
                }
            }
            Ok(())
        })
    }

    /// Makes sure that the base has its reserve after this transaction: after redb's part of the
    /// file, or as free pages in it, which this allocates and frees.
    pub(super) fn keep_reserve(&self) -> Result<()> {
        let wanted = self.opening.file.as_ref().and_then(|file| file.reserve_wanted());
        let Some(bytes) = wanted else { return Ok(()) };
        self.write(|txn| {
            let mut table = txn.open_table(STATE)?;
            let chunk = vec![0; RESERVE_CHUNK];
            let chunks = bytes / RESERVE_CHUNK as u64 + 1;
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

    /// Commits. On return everything written is on the medium.
    pub(super) fn commit(mut self) -> Result<()> {
        let commit = || Ok(self.txn.take().map_or(Ok(()), WriteTransaction::commit)?);
        fenced(&self.opening.health, commit)
    }
}

impl Drop for BaseTransaction {
    fn drop(&mut self) {
        // redb may read and write while it aborts.
        if let Some(txn) = self.txn.take() {
            let _ = fenced(&self.opening.health, || Ok(txn.abort()?));
        }
    }
}
