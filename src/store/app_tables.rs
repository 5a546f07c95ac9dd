//! A commit with guests: the application's own tables, a list of row writes and the whole overlay
//! become one commit of the base. Taken in the order of the locks: the writer first, without the
//! store's lock, then the store.

use super::base::Opening;
use super::checkpoint::abort;
use super::tables::OWN_NAMES;
use crate::words::error::{Error, ErrorKind, Result};
use crate::words::sync::Arc;
use redb::{ReadTransaction, WriteTransaction};

/// Where a commit with guests begins. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AppWriter {
    pub(super) opening: Arc<Opening>,
}

impl AppWriter {
    /// Waits for redb's writer. Not to be called with the store's lock held: a checkpoint may have
    /// the writer and want the lock.
    pub(crate) fn begin(&self) -> Result<AppTransaction> {
        let txn = self.opening.begin_write()?;
        Ok(AppTransaction { txn: Some(txn), opening: self.opening.clone() })
    }
}

/// Where a look at the application's tables begins. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct AppReader {
    pub(super) opening: Arc<Opening>,
}

impl AppReader {
    /// A snapshot of the base. To be dropped soon: it holds on to every page that is written anew.
    /// Not to be called with the store's lock held: redb keeps it waiting while the file grows, and
    /// where its cache is small, for a piece of a checkpoint.
    pub(crate) fn begin(&self) -> Result<ReadTransaction> {
        self.opening.begin_read()
    }
}

/// A write transaction of the base with the application's writes in it. Dropped, it is aborted,
/// and everything is as it was.
pub(crate) struct AppTransaction {
    pub(super) txn: Option<WriteTransaction>,
    pub(super) opening: Arc<Opening>,
}

impl AppTransaction {
    /// The transaction, to open the application's tables in.
    ///
    /// # Errors
    /// `Closed` once it has been committed.
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

/// Whether the application may have a table of this name.
pub(crate) fn is_app_table(name: &str) -> bool {
    !name.starts_with(OWN_NAMES)
}
