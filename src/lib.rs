//! Tubewell.
mod limits;
mod error;
mod task;
mod name;
mod options;
mod sync;
mod clock;
mod verb;
mod bytes;
mod engine;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use options::{Backoff, Durability, TubeKind, TubeOptions};
pub use task::{Cause, Reason, State, TaskId, TaskInfo, Ticket};
pub use verb::{Conflict, PutOutcome, Release, Stop};
