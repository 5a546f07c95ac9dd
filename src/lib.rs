//! Tubewell.
mod limits;
mod error;
mod task;
mod name;
mod options;
mod verb;
mod sync;
mod stop;
mod clock;
mod bytes;
mod store;
mod engine;
mod live;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use live::events::Event;
pub use options::{Backoff, Durability, TubeKind, TubeOptions};
pub use stop::Stop;
pub use task::{Cause, Reason, State, TaskId, TaskInfo, Ticket};
pub use verb::{Conflict, PutOutcome, Release};
