//! The bounds of the library; each comment gives the unit. The compiler checks the relations
//! between them. Before a change of one, consider the folders that exist.

use std::time::Duration;

/// Bytes of the name of a tube, group, consumer or placement, and of a caller's own key.
pub(crate) const LABEL_BYTES_MAX: usize = 255;
/// Bytes of an order key made by a `Placement`.
pub(crate) const ORDER_BYTES_MAX: usize = 16;
/// Bytes kept of a reason or an error text; the rest is cut at a character boundary.
pub(crate) const REASON_BYTES_MAX: usize = 4096;
/// The same on a full disk, where what a task brings with its return must stay small.
pub(crate) const REASON_BYTES_FULL: usize = 64;
/// Bytes kept of a failure group: `failed-retries-` and the longest name of a tube.
pub(crate) const FAILURE_GROUP_BYTES_MAX: usize = 15 + LABEL_BYTES_MAX;
/// Bytes of what a consumer says of itself, beside its name, kind and host.
pub(crate) const META_BYTES_MAX: usize = 4096;
/// Bytes of the result that a step of a task passes on. It stands in the task's own row.
pub(crate) const RESULT_BYTES_MAX: usize = 16 << 10;
/// Days for which a tube keeps statistics.
pub(crate) const KEEP_DAYS_MAX: u32 = 3660;
/// Days whose statistics are collected in memory before their rows are written to the overlay. With
/// more tubes than that it happens oftener.
pub(crate) const DAYS_COLLECTED_MAX: usize = 64;
/// The same while an opening replays the journal.
pub(crate) const DAYS_REPLAYED_MAX: usize = 2048;
/// The same in bytes that their rows may take: the journal divided by this.
pub(crate) const DAYS_COLLECTED_PART: u64 = 32;
/// Bytes of the details of a task, and of those of a tube, with the lengths of their texts.
pub(crate) const DETAILS_BYTES_MAX: usize = 4096;
/// Tags of a task.
pub(crate) const TAGS_MAX: usize = 64;
/// Bytes of all tags of a task.
pub(crate) const TAGS_BYTES_MAX: usize = 4096;
/// Tags that one call gives, or takes away, those that are given twice among them.
pub(crate) const TAGS_GIVEN_MAX: usize = 1024;
/// Tasks that are tracked at a time, and ids of tasks that are gone. They are kept in memory.
pub(crate) const TRACKED_MAX: u64 = 10_000;
/// Rows of tags that one step of a listing reads under the engine's lock.
pub(crate) const TAGS_OF_STEP: usize = 32;
/// Bytes of the name of a schedule: the keys of its children are `<name>-<number>`.
pub(crate) const SCHEDULE_NAME_MAX: usize = LABEL_BYTES_MAX - 21;
/// Bytes of the payload of a schedule, which stands in its own row.
pub(crate) const SCHEDULE_PAYLOAD_MAX: usize = 16 << 10;
/// Missed fires that a schedule makes up for, unless it makes up for all.
pub(crate) const CATCH_UP_MAX: u32 = 1000;
/// Missed fires of a cron text that are counted at once.
pub(crate) const COUNTED_FIRES_MAX: u32 = 200;
/// A schedule whose next fire is farther ahead than this is looked at when a clock may be wrong.
pub(crate) const FIRE_AHEAD_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Keys that a fire by hand steps over if other puts have brought tasks with them.
pub(crate) const FIRE_KEYS_MAX: usize = 8;
/// How late the last fire of a schedule that skips missed ones may be.
pub(crate) const SKIP_LATE_MAX: Duration = Duration::from_secs(60);
/// Bytes of the payload of a child that count as one more deadline of a sweep.
pub(crate) const FIRE_BYTES: usize = 4 << 10;
/// Schedules of one page of a listing, and nominal times that it lists ahead at most.
pub(crate) const SCHEDULES_OF_STEP: usize = 32;
pub(crate) const NEXT_FIRES_MAX: usize = 1000;
/// Bytes of a cron text and of the name of its zone.
pub(crate) const CRON_BYTES_MAX: usize = 255;
/// Bytes of the value of a setting of the application's own.
pub(crate) const SETTING_BYTES_MAX: usize = 4096;
/// Conditions that one queue has, of the stored ones and of those for the run of the program.
pub(crate) const CONDITIONS_MAX: u64 = 1024;
/// Openings in a week of the hours of a tube: one in each hour.
pub(crate) const OPENINGS_MAX: usize = 168;
/// Conditions that one tube requires.
pub(crate) const REQUIRED_MAX: usize = 16;
/// Throttles that one queue has.
pub(crate) const THROTTLES_MAX: u64 = 1024;
/// Throttles that one tube has. A take writes a row for each.
pub(crate) const THROTTLES_OF_TUBE_MAX: usize = 8;
/// Settings of the application's own that a tube has, and that the queue has.
pub(crate) const OWN_SETTINGS_MAX: usize = 256;
/// Bytes of a checkpoint of a task. One that is longer than a twelfth of the journal goes directly
/// to the base.
pub(crate) const CHECKPOINT_BYTES_MAX: usize = 16 << 10;
/// Entries of a task's history, the put included.
pub(crate) const HISTORY_ENTRIES: u32 = 100;
/// Entries of a history that a tube cannot raise further: the end of a task removes all in a step.
pub(crate) const HISTORY_ENTRIES_MAX: u32 = 1000;
/// Bytes of the stored entries of a task's history.
pub(crate) const HISTORY_BYTES: u32 = 4096;
/// Bytes of a history that a tube cannot raise further.
pub(crate) const HISTORY_BYTES_MAX: u32 = 256 << 10;
/// Bytes of a log line, and of the text that is kept in another entry of a history.
pub(crate) const LOG_BYTES_MAX: usize = 1024;
/// Bytes of a payload, unless the builder sets another limit.
pub(crate) const PAYLOAD_BYTES: usize = 16 << 20;
/// Bytes of a payload that the builder cannot raise further.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// Ids and tokens reserved durably in advance. A number that a caller has seen is never given
/// again, even if a power cut undid its put.
pub(crate) const NUMBER_BLOCK: u64 = 65_536;
/// The block for a transaction that needs more; a second reservation may find no room.
pub(crate) const TRANSACTION_NUMBERS: u64 = 1 << 32;
/// Due tasks or left-over rows that one sweep handles, and leases that one step resumes, so that no
/// commit takes long. Each call in another tube waits for one sweep: at 2 000 cycles a second those
/// calls were late by 24 ms with 128 tasks, and by 112 ms with 256.
pub(crate) const SWEEP_TASKS: usize = 64;
/// The most sweeps of one turn of the engine's lock, by a call that had to wait between its turns
/// and then finds more due.
pub(crate) const SWEEPS_OF_TURN: usize = 16;
/// How many tubes with due work one turn of the lock looks at, to find those of a set.
pub(crate) const DUE_OF_TURN: usize = 4096;
/// Rows that a sweep writes before it takes up no further task.
pub(crate) const SWEEP_ROWS: usize = SWEEP_TASKS * 16;
/// The same tasks on a full disk, where each takes space until it is done.
pub(crate) const SWEEP_TASKS_FULL: usize = 8;
/// The most kept tasks that the end of one more removes: more than one, so that a tube comes back
/// under its limits after a task of many bytes.
pub(crate) const TRIMMED_MAX: usize = 4;
/// Edges that one op adds to a task; more are written in turns.
pub(crate) const EDGES_OF_OP: usize = 256;
/// Tasks that came after a buried one only since its bury, while the work on that is not done: it
/// says of each that it does not concern it. As many as a transaction puts again, each after one.
pub(crate) const SPARED_MAX: usize = 10_000;
/// Looks into a tube for a task, in a transaction: its lock is held meanwhile.
pub(crate) const LOOKS_IN_TRANSACTION: usize = 1 << 16;
/// Edges of one task to those that it comes after.
pub(crate) const EDGES_MAX: usize = 100_000;
/// Edges of the tasks of a batch together, and of a task that is put in a transaction.
pub(crate) const BATCH_EDGES_MAX: usize = 10_000;
/// Edges that one op looks at, to see whether a task would wait for itself.
pub(crate) const CYCLE_EDGES_MAX: usize = 1000;
/// Edges that one step of a cascade works off.
pub(crate) const EDGES_OF_STEP: usize = 32;
/// Steps in which a call works off the ends of the tasks that it ended: more than [`EDGES_MAX`]
/// edges. What is left then is work of the timer.
pub(crate) const FOLLOWED_STEPS_MAX: usize = 4096;
/// Edges that one op looks at, to see whether tasks may be removed.
pub(crate) const EDGES_LOOKED_MAX: usize = 4096;
/// Tasks of a tree that is removed as a whole.
pub(crate) const TREE_TASKS_MAX: usize = 65_536;
/// Tasks that are shown of those to which a task is tied.
pub(crate) const LINKS_SHOWN: usize = 100;
/// Tubes in which one step of the end of a session looks for leases.
pub(crate) const SWEEP_TUBES: usize = 512;
/// How often the pieces or edges of a put are written, if its key leads to another task each time.
pub(crate) const KEY_TRIES_MAX: u32 = 8;
/// How often a payload is read without the engine's lock, if it is replaced each time.
pub(crate) const READS_MAX: u32 = 3;
/// Pieces of a payload that one step writes: 512 KiB beside the payload that the caller holds.
pub(crate) const PIECES_OF_STEP: usize = 8;
/// Findings that one op of a repair mends, and counts that one commit corrects.
pub(crate) const FIXES_OF_OP: usize = 128;
/// Findings that are kept between the look at all rows and the ops that mend them. Those beyond
/// them are found again.
pub(crate) const FINDINGS_KEPT: usize = 65_536;
/// The most looks at all rows of one repair.
pub(crate) const REPAIR_ROUNDS: usize = 32;
/// Steps of a repair that are kept, and lines of what is left.
pub(crate) const REPAIR_STEPS: usize = 10_000;
/// Tasks of one `put_many`, `take_many` or `ack_many`.
pub(crate) const BATCH_TASKS_MAX: usize = 65_536;
/// Tasks of one page of a listing; rows that it copies under the engine's lock at a time.
pub(crate) const PAGE_TASKS: usize = 256;
/// Bytes of one page of a listing; the task with which it reaches them is its last.
pub(crate) const PAGE_BYTES: usize = 64 << 10;
/// Bytes of payloads that one sweep reads for the readers of events, or that one take reads under
/// the engine's lock; longer ones are read after it.
pub(crate) const SWEEP_BYTES: usize = 1 << 20;

/// Bytes of the journal's ring.
pub(crate) const JOURNAL_BYTES: u64 = 32 << 20;
/// A checkpoint starts when 1/CHECKPOINT_AT_DIVISOR of the ring is in use. Callers may write into a
/// third while it runs, so that a disk that stalls for a moment does not make them wait.
pub(crate) const CHECKPOINT_AT_DIVISOR: u64 = 8;
/// The same fraction for a quiet queue.
pub(crate) const QUIET_CHECKPOINT_DIVISOR: u64 = 16;
/// Least bytes of the journal's ring.
pub(crate) const JOURNAL_BYTES_MIN: u64 = 64 << 10;
/// Most bytes of the journal's ring.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 1 << 30;
/// Bytes of all temporary tubes together.
pub(crate) const TEMPORARY_BYTES: u64 = 256 << 20;
/// Bytes of the payloads of all durable tubes together. Default: no limit but the disk.
pub(crate) const DURABLE_BYTES: u64 = u64::MAX;
/// Rows that one page of a search looks at; then it says where to go on, also if it has found none.
pub(crate) const SEARCH_ROWS: usize = 4096;
/// Tubes that a search for a task looks into under the engine's lock at once; tasks that a put
/// looks for at once, each where it probably is.
pub(crate) const TUBES_OF_STEP: usize = 8;
/// Names of tubes, or consumers, that one step of a listing reads under the engine's lock.
pub(crate) const NAMES_OF_STEP: usize = 64;
/// Tubes of a list that a take chooses from.
pub(crate) const LIST_TUBES_MAX: usize = 10_000;
/// The weight of a tube in such a list.
pub(crate) const WEIGHT_MAX: u32 = 1000;
/// Tubes without a task to take that one take from several looks at under the engine's lock at
/// once.
pub(crate) const LOOKS_OF_STEP: usize = 128;
/// How many of them a head counts as that goes behind a closed gate: it writes three rows, among a
/// million tasks on pages that are seldom read. With 1, the puts of a neighbour waited for 0.6 ms
/// each, and more of them came than could go in between.
pub(crate) const LOOKS_OF_MOVE: usize = 4;
/// Steps in which a read brings turns to where takes would: 4096 of them, or 1024 that go behind
/// another gate.
pub(crate) const READ_STEPS_MAX: usize = 32;
/// Names of tubes that are shown of a call that waits on several.
pub(crate) const NAMES_SHOWN: usize = 100;
/// Failure groups that one step of a listing counts.
pub(crate) const GROUPS_OF_STEP: usize = 32;
/// Rows of the first slice of a checkpoint on a full disk.
pub(crate) const SLICE_ROWS: usize = 4096;
/// Bytes of redb's cache.
pub(crate) const CACHE_BYTES: usize = 32 << 20;
/// At most 1/READ_AHEAD_DIVISOR of the cache is read ahead, so that later pages do not evict
/// earlier ones.
pub(crate) const READ_AHEAD_DIVISOR: usize = 4;

/// How long a relaxed write may stay unsynced.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
/// How long the timer waits before it tries again after a failure, and ops before they try again to
/// return leases that a full disk has refused.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);
/// How long the timer sleeps at most while a queue-time or wall-time deadline is pending, so that
/// it notices a suspend or a set clock.
pub(crate) const TIMER_NAP_MAX: Duration = Duration::from_secs(30);
/// How late the timer may be while no call waits for a task or for room: the verbs do the due work
/// of their tubes, and a timer at each deadline would take their lock again and again.
pub(crate) const TIMER_LATE_MAX: Duration = Duration::from_millis(1);
/// How long a queue must be quiet before it checkpoints its journal.
pub(crate) const QUIET_BEFORE_CHECKPOINT: Duration = Duration::from_secs(60);
/// How much time at most counts as passed if only the wall clock shows it.
pub(crate) const CLOCK_GAP_MAX: Duration = Duration::from_secs(30 * 86_400);
/// Events kept for a slow subscriber.
pub(crate) const EVENTS_KEPT: usize = 4096;
/// Payload bytes kept in such events together.
pub(crate) const EVENT_BYTES_KEPT: usize = 64 << 20;
/// Attempts of a task in a tube of the general kind before it is buried as exhausted.
pub(crate) const ATTEMPTS_MAX: u32 = 20;

const _: () = assert!(JOURNAL_BYTES_MIN <= JOURNAL_BYTES && JOURNAL_BYTES <= JOURNAL_BYTES_MAX);
const _: () = assert!(PAYLOAD_BYTES <= PAYLOAD_BYTES_MAX);
const _: () = assert!(LABEL_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(BATCH_TASKS_MAX as u64 <= NUMBER_BLOCK);
const _: () = assert!(SWEEP_TASKS <= PAGE_TASKS);
