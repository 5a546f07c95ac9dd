//! The state machine, the only room that knows the rules. A plain function of rows, op and now: it
//! reads no clock, draws no random number, takes no lock, starts no thread, wakes no waiter, and
//! writes nothing. Its decision is a value, the [`Decision`](decision::Decision).
//!
//! ```text
//!            put                delay                          take, claim
//!  – ─────────────────▶ Ready ◀──────── Delayed        Ready ─────────────▶ Taken
//!  – ─── put, later ──▶ Delayed                        Taken ─ release, lost, ttr ─▶ Ready
//!                                                      Taken ─ release, retry ─────▶ Delayed
//!  – ─── put after others ─▶ Blocked ── their ends ──▶ Ready, Delayed, or gone
//!  any ── bury ───────▶ Buried ─ kick ─▶ Ready         Taken ─ bury, fail, retry ──▶ Buried
//!  any ── trash ──────▶ Trashed ─ restore ─▶ Ready
//!  any ── delete, ttl, truncate ──────▶ gone           Taken ─ ack ────────────────▶ gone, or
//!  Done, Buried ── retention ─────────▶ gone             Done, where the tube keeps it
//! ```

pub(crate) mod step_notes;
pub(crate) mod tube_set;
pub(crate) mod effects;
pub(crate) mod decision;
pub(crate) mod tube_cache;
pub(crate) mod context;
pub(crate) mod position;
pub(crate) mod retry;
pub(crate) mod task_gates;
pub(crate) mod groups;
pub(crate) mod pieces;
pub(crate) mod payload;
pub(crate) mod stored;
pub(crate) mod lookup;
pub(crate) mod fresh;
pub(crate) mod reports;
pub(crate) mod tag_counts;
pub(crate) mod tags;
pub(crate) mod last_change;
pub(crate) mod query;
pub(crate) mod conditions;
pub(crate) mod slots;
pub(crate) mod named_gate;
pub(crate) mod lines;
pub(crate) mod gates;
pub(crate) mod edges;
pub(crate) mod description;
pub(crate) mod retention;
pub(crate) mod keys;
pub(crate) mod kinds;
pub(crate) mod history;
pub(crate) mod failures;
pub(crate) mod trash;
pub(crate) mod state_rows;
pub(crate) mod statistics;
pub(crate) mod transition;
pub(crate) mod finish;
pub(crate) mod explain;
pub(crate) mod search;
pub(crate) mod replace;
pub(crate) mod lease_time;
pub(crate) mod held_in;
pub(crate) mod dependents;
pub(crate) mod settle;
pub(crate) mod lapse;
pub(crate) mod log;
pub(crate) mod tag_task;
pub(crate) mod track;
pub(crate) mod report;
pub(crate) mod take;
pub(crate) mod timeout;
pub(crate) mod throttles;
pub(crate) mod by_id;
pub(crate) mod update;
pub(crate) mod dependencies;
pub(crate) mod find_tasks;
pub(crate) mod edge_exchange;
pub(crate) mod depend;
pub(crate) mod linked;
pub(crate) mod new_row;
pub(crate) mod copy;
pub(crate) mod moves;
pub(crate) mod move_failed;
pub(crate) mod merge;
pub(crate) mod put;
pub(crate) mod timing;
pub(crate) mod schedules;
pub(crate) mod set_back;
pub(crate) mod fire;
pub(crate) mod schedule_verbs;
pub(crate) mod staging;
pub(crate) mod linking;
pub(crate) mod payload_verb;
pub(crate) mod restore;
pub(crate) mod follow;
pub(crate) mod sweep;
pub(crate) mod cascade;
pub(crate) mod settings;
pub(crate) mod tubes;
pub(crate) mod due;
pub(crate) mod consumers;
pub(crate) mod owner_leases;
pub(crate) mod recover;
pub(crate) mod repair;
pub(crate) mod audit;
pub(crate) mod mend;

pub(crate) use context::{EventSubscribers, Op, OpContext, WithoutPayloads};
pub(crate) use step_notes::StepWords;
