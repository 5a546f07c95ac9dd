//! Tubewell.
mod bytes;
mod clock;
mod error;
mod limits;
mod name;
mod options;
mod sync;
mod task;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use options::{Backoff, Durability, TubeKind, TubeOptions};
pub use task::{Cause, Reason, State, TaskId, TaskInfo, Ticket};
