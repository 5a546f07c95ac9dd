//! What users hold: the queue, its tubes, taken tasks, consumers, events. A handle turns a call
//! into an op and waits for the result; the rules are in the engine.

pub(crate) mod placement;
pub(crate) mod callback_list;
pub(crate) mod callbacks;
pub(crate) mod queue_inner;
pub(crate) mod codec;
pub(crate) mod consumer;
pub(crate) mod ticket_handle;
pub(crate) mod lost;
pub(crate) mod lease;
pub(crate) mod tube;
pub(crate) mod steps;
pub(crate) mod by_id;
pub(crate) mod timeout;
pub(crate) mod advance;
pub(crate) mod receipt;
pub(crate) mod put;
pub(crate) mod take;
pub(crate) mod resume;
#[cfg(feature = "bincode")]
pub(crate) mod typed;
pub(crate) mod queue;
pub(crate) mod scope;
pub(crate) mod upkeep;
pub(crate) mod inspect;
pub(crate) mod peek;
pub(crate) mod newest_first;
pub(crate) mod failures;
pub(crate) mod results;
pub(crate) mod trash;
pub(crate) mod events;
pub(crate) mod subscription;
pub(crate) mod transact;
pub(crate) mod verdicts;
pub(crate) mod builder;
pub mod testing;
