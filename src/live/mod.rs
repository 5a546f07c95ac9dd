//! Threads and waiting. [`Core`](core::Core) is what all handles share: it takes ops to the engine
//! and their writes to the store, and publishes what was committed.

pub(crate) mod gate;
pub(crate) mod wake;
pub(crate) mod events;
pub(crate) mod alarm;
pub(crate) mod door;
pub(crate) mod leisure;
pub(crate) mod pace;
pub(crate) mod deadlines;
pub(crate) mod derived_state;
pub(crate) mod inside;
pub(crate) mod commit;
pub(crate) mod graces;
pub(crate) mod parts;
pub(crate) mod checkpoints;
pub(crate) mod transaction;
pub(crate) mod pipeline;
pub(crate) mod sessions;
pub(crate) mod timer;
pub(crate) mod core;
