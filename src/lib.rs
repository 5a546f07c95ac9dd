//! Tubewell.
mod bytes;
mod clock;
mod engine;
mod error;
mod limits;
mod name;
mod options;
mod sync;
mod task;
mod verb;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use options::{Backoff, Durability, TubeKind, TubeOptions};
pub use task::{Cause, Reason, State, TaskId, TaskInfo, Ticket};
pub use verb::{Conflict, PutOutcome, Release};
