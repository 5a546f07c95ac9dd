//! Threads and waiting. [`Shared`](shared::Shared) is what all handles share: it takes ops to the
//! engine and their writes to the store, and publishes what was committed.

pub(crate) mod group_commit;
pub(crate) mod wake;
pub(crate) mod events;
pub(crate) mod event_filter;
pub(crate) mod parker;
pub(crate) mod handoff_mutex;
pub(crate) mod deadlines;
pub(crate) mod live;
pub(crate) mod derived_state;
pub(crate) mod reentrancy;
pub(crate) mod commit;
pub(crate) mod checkpointer;
pub(crate) mod session_leases;
pub(crate) mod grace_timers;
pub(crate) mod activity;
pub(crate) mod shared;
pub(crate) mod transaction;
pub(crate) mod pipeline;
pub(crate) mod sessions;
pub(crate) mod timer;
pub(crate) mod sleepers;
pub(crate) mod calls;
pub(crate) mod reads;
pub(crate) mod listing;
pub(crate) mod failed;
pub(crate) mod names;
pub(crate) mod ended_walk;
pub(crate) mod tagged;
pub(crate) mod search;
pub(crate) mod ends;
pub(crate) mod tracking;
pub(crate) mod staged_put;
pub(crate) mod staged_payload;
pub(crate) mod mending;
