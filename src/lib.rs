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
mod upkeep;
mod placement;
mod watch;
mod hold;
mod codec;
mod consumer;
mod lease;
mod tube;
mod put;
mod take;
#[cfg(feature = "bincode")]
mod typed;
mod inspect;
mod events;
mod transact;
mod queue;
mod builder;
#[doc(hidden)]
pub mod testing;

pub use builder::Builder;
pub use clock::{Clock, ManualClock, SystemClock};
pub use codec::{BoxError, Codec};
pub use consumer::Consumer;
pub use error::{Error, ErrorKind, Result};
pub use events::Events;
pub use inspect::{Calls, Space, TakenInfo, Tasks, TubeInfo, TubeStats, WaiterInfo};
pub use lease::{Held, Lease, Task};
pub use live::events::Event;
pub use options::{Backoff, Durability, TubeKind, TubeOptions};
pub use placement::{Place, Placement, PutView};
pub use put::{NewTask, Put, Receipt};
pub use queue::Queue;
pub use stop::Stop;
pub use store::{Progress, Stage};
pub use task::{Cause, Reason, State, TaskId, TaskInfo, Ticket};
pub use transact::{Reading, Transaction};
pub use tube::Tube;
#[cfg(feature = "bincode")]
pub use typed::Bincode;
pub use verb::{Conflict, PutOutcome, Release};
