//! What the options of a tube are, for those who read them.

use super::TubeOptions;
use crate::words::backoff::Backoff;
use crate::words::history::HistoryLimits;
use crate::words::lapse::Lapse;
use crate::words::macros::getters;
use crate::words::retention::Retention;
use crate::words::tube_kind::TubeKind;
use crate::words::unique::Unique;
use std::time::Duration;

getters! {
    TubeOptions;

    /// The kind.
    get_kind() -> TubeKind => kind;

    /// Whether the tasks are kept in memory only.
    get_temporary() -> bool => temporary;

    /// The priority of tasks put without one. Smaller first.
    get_priority() -> i64 => priority;

    /// How long tasks live that are put without a ttl. `None`: without end.
    get_ttl() -> Option<Duration> => ttl;

    /// How long takers may hold tasks that are put without a ttr. `None`: without end.
    get_ttr() -> Option<Duration> => ttr;

    /// The most tasks that the tube holds, in every state. `None`: unlimited.
    get_capacity() -> Option<u64> => capacity;

    /// Attempts before a task is buried as exhausted. `None`: no limit.
    get_max_attempts() -> Option<u32> => max_attempts;

    /// How long a retried task waits.
    get_backoff() -> Backoff => backoff;

    /// What becomes of a task whose ttr passes.
    get_lapse() -> Lapse => lapse;

    /// How many tasks of one group may be taken at the same time.
    get_in_flight() -> u32 => in_flight;

    /// Whether a group stays locked while a task of it waits after a release or retry.
    get_hold_group_while_delayed() -> bool => hold_group_while_delayed;

    /// Whether buried tasks stay beyond their ttl.
    get_ttl_spares_buried() -> bool => ttl_spares_buried;

    /// Whether higher priorities are first.
    get_higher_first() -> bool => higher_first;

    /// Where the keys of its tasks are unique.
    get_unique() -> Unique => unique;

    /// Whether it keeps an index of the kinds of its tasks.
    get_index_kinds() -> bool => index_kinds;

    /// How long finished tasks are kept. `None`: an ack removes them.
    get_keep_finished() -> Option<Retention> => keep_finished;

    /// Whether finished tasks are kept without their payloads.
    get_drop_payloads() -> bool => drop_payloads;

    /// How long buried tasks are kept. `None`: until the end of their ttl.
    get_keep_buried() -> Option<Retention> => keep_buried;

    /// How much of each task's history is kept.
    get_history() -> HistoryLimits => history;

    /// For how many days statistics are kept. 0: there are none.
    get_keep_days() -> u32 => keep_days;
}
