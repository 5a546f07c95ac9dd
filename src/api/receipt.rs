//! A put whose sync is waited for later.

use crate::api::queue_inner::QueueInner;
use crate::runtime::group_commit::Mark;
#[cfg(doc)]
use crate::words::error::ErrorKind;
use crate::words::error::Result;
use crate::words::macros::debug;
use crate::words::sync::Arc;
use crate::words::task::TaskId;
use crate::words::verb::{Put, PutOutcome};

/// A put that is written and can be taken, and whose sync has not been waited for. Dropping it
/// takes nothing back.
///
/// ```
/// use tubewell::{Queue, Receipt, Result};
///
/// # fn main() -> Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("work.queue");
/// let queue = Queue::open(&path)?;
/// let tube = queue.tube("letters")?;
/// let receipts: Result<Vec<Receipt>> = (0..100).map(|_| tube.put_receipt(b"hello")).collect();
/// let mut receipts = receipts?;
/// receipts.pop().unwrap().wait()?;
/// assert!(receipts.iter().all(Receipt::is_synced)); // one sync covers all that was put before
/// # Ok(())
/// # }
/// ```
#[must_use = "the put is not known to be synced before `wait`"]
pub struct Receipt {
    pub(crate) inner: Arc<QueueInner>,
    pub(crate) put: Put,
    pub(crate) mark: Mark,
}

impl Receipt {
    /// The task.
    pub fn id(&self) -> TaskId {
        self.put.id
    }

    /// What became of its key.
    pub fn outcome(&self) -> PutOutcome {
        self.put.outcome
    }

    /// Whether the put is synced, as far as is known by now.
    pub fn is_synced(&self) -> bool {
        self.inner.core.group_commit.is_synced(self.mark)
    }

    /// Waits until the put is synced.
    ///
    /// # Errors
    /// [`Unknown`](ErrorKind::Unknown), naming the task, if the sync failed.
    pub fn wait(self) -> Result<TaskId> {
        let id = self.put.id;
        let waited = self.inner.core.wait(self.mark);
        waited.map_err(|error| error.during("put").on_task(id).with_tasks(vec![id]))?;
        Ok(id)
    }
}

debug!([] Receipt, "Receipt", this, "put": &this.put);
