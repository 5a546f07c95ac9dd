//! Transactions and reads of the base with the application's own tables; `store::app_commit` ends
//! the transactions.
//! Locks are taken in this order: redb's writer first, without the store's lock, then the store.

use super::checkpoint::abort;
use super::database::Opening;
use super::tables::OWN_NAMES;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use redb::{ReadTransaction, WriteTransaction};

/// Begins commits that include the application's tables. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AppWriter {
    pub(super) opening: Arc<Opening>,
}

impl AppWriter {
    /// Waits for redb's writer. Must not be called with the store's lock held: a checkpoint may
    /// hold the writer and wait for that lock.
    pub(crate) fn begin(&self) -> Result<AppTransaction> {
        let txn = self.opening.begin_write()?;
        Ok(AppTransaction { txn: Some(txn), opening: self.opening.clone() })
    }
}

/// Begins reads of the application's tables. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AppReader {
    pub(super) opening: Arc<Opening>,
}

impl AppReader {
    /// A snapshot of the base. Drop it soon: it keeps every page that is replaced in the meantime.
    /// Must not be called with the store's lock held: redb blocks it while the file grows, and with
    /// a small cache for a piece of a checkpoint.
    pub(crate) fn begin(&self) -> Result<ReadTransaction> {
        self.opening.begin_read()
    }
}

/// A write transaction of the base with the application's writes. Dropped without a commit, it is
/// aborted and changes nothing.
pub(crate) struct AppTransaction {
    pub(super) txn: Option<WriteTransaction>,
    pub(super) opening: Arc<Opening>,
}

impl AppTransaction {
    /// The transaction in which to open the application's tables.
    ///
    /// # Errors
    /// `Closed` after the commit.
    pub(crate) fn transaction(&self) -> Result<&WriteTransaction> {
        self.txn.as_ref().ok_or_else(|| Error::new(ErrorKind::Closed))
    }
}

impl Drop for AppTransaction {
    fn drop(&mut self) {
        if let Some(txn) = self.txn.take() {
            abort(txn, &self.opening);
        }
    }
}

/// Whether the application may use a table of this name.
pub(crate) fn is_app_table(name: &str) -> bool {
    !name.starts_with(OWN_NAMES)
}
