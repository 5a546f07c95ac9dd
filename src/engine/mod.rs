//! The state machine, the only room that knows the rules. A plain function of rows, op and now: it
//! reads no clock, draws no random number, takes no lock, starts no thread, wakes nobody, and
//! writes nothing. What it decides is a value, the [`Draft`](draft::Draft).
//!
//! ```text
//!            put                delay                          take, claim
//!  – ─────────────────▶ Ready ◀──────── Delayed        Ready ─────────────▶ Taken
//!  – ─── put, later ──▶ Delayed                        Taken ─ release, lost, ttr ─▶ Ready
//!                                                      Taken ─ release, retry ─────▶ Delayed
//!  any ── bury ───────▶ Buried ─ kick ─▶ Ready         Taken ─ bury, fail, retry ──▶ Buried
//!  any ── delete, ttl, truncate ──────▶ gone           Taken ─ ack ────────────────▶ gone
//! ```

pub(crate) mod effects;
pub(crate) mod draft;
pub(crate) mod known;
pub(crate) mod desk;
pub(crate) mod places;
pub(crate) mod groups;
pub(crate) mod payload;
pub(crate) mod stored;
pub(crate) mod index;
pub(crate) mod aside;
pub(crate) mod put;
pub(crate) mod take;
pub(crate) mod look;
pub(crate) mod settle;
pub(crate) mod tools;
pub(crate) mod sweep;
pub(crate) mod due;
pub(crate) mod tubes;
pub(crate) mod consumers;
pub(crate) mod recover;
pub(crate) mod audit;

pub(crate) use desk::{Desk, Op, Wants};
