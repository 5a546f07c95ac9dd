//! Plain values that every other room uses: bounds, names, tasks, options, errors, the clock, and
//! the only way to locks, channels and threads. No rule of the queue is here.

pub(crate) mod macros;
#[cfg(any(test, shuttle))]
pub(crate) mod planted;
pub(crate) mod sync;
pub(crate) mod limits;
pub(crate) mod numbers;
pub(crate) mod failure;
pub(crate) mod report;
pub(crate) mod task;
pub(crate) mod error;
pub(crate) mod dependency;
pub(crate) mod name;
pub(crate) mod urgency;
pub(crate) mod explain;
pub(crate) mod backoff;
pub(crate) mod lapse;
pub(crate) mod retention;
pub(crate) mod consumer;
pub(crate) mod details;
pub(crate) mod tags;
pub(crate) mod schedule;
pub(crate) mod history;
pub(crate) mod clock;
pub(crate) mod zone;
pub(crate) mod hours;
pub(crate) mod gates;
pub(crate) mod task_gates;
pub(crate) mod statistics;
pub(crate) mod latencies;
pub(crate) mod unique;
pub(crate) mod durability;
pub(crate) mod tube_kind;
pub(crate) mod event_options;
pub(crate) mod options;
pub(crate) mod setting;
pub(crate) mod known_settings;
pub(crate) mod queue_options;
pub(crate) mod payload;
pub(crate) mod verb;
pub(crate) mod stop;
pub(crate) mod cron;
pub(crate) mod wait;
pub(crate) mod filter;
pub(crate) mod repairs;
