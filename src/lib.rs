//! Tubewell.
mod bytes;
mod clock;
mod error;
mod limits;
mod name;
mod options;
mod store;
mod sync;
mod task;

/// A disk of your own beneath the store, for tests that lose power.
#[doc(hidden)]
pub mod testing {
    pub use crate::store::disk::{Disk, DiskFile, FileName, Found, Nursery};
}

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use options::{Backoff, Durability, TubeKind, TubeOptions};
pub use store::{Progress, Stage};
pub use task::{Cause, Reason, State, TaskId, TaskInfo, Ticket};
