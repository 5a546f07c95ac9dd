//! Every bound of the library, units last. Relations between them are checked by the compiler.
//! Nothing here may be changed without asking what is already on a disk.

use std::time::Duration;

/// Bytes of a tube's name.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Bytes of a group's name and of a caller's own key.
pub(crate) const LABEL_BYTES_MAX: usize = 255;
/// Bytes of an order made by a `Placement`.
pub(crate) const ORDER_BYTES_MAX: usize = 16;
/// Bytes kept of a reason or an error text; the rest is cut at a character's edge.
pub(crate) const REASON_BYTES_MAX: usize = 4096;
/// Bytes of a payload, unless the builder says otherwise.
pub(crate) const PAYLOAD_BYTES: usize = 16 << 20;
/// Bytes of a payload that no builder may exceed.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1 << 30;

/// Ids and tokens reserved durably ahead. A number that anyone has seen is never given twice, even
/// if its put was taken back by a power cut.
pub(crate) const NUMBER_BLOCK: u64 = 65_536;
/// The same inside a transaction that needs more, where a reservation may not find room twice.
pub(crate) const TRANSACTION_NUMBERS: u64 = 1 << 32;
/// Due tasks or left-over rows that one sweep works off, so that no commit is long.
pub(crate) const SWEEP_TASKS: usize = 128;
/// The same on a full disk, where each takes room until it is done.
pub(crate) const SWEEP_TASKS_FULL: usize = 8;
/// Tasks of one `put_many`, `take_many` or `ack_many`.
pub(crate) const BATCH_TASKS_MAX: usize = 65_536;
/// Tasks of one page of a listing.
pub(crate) const PAGE_TASKS: usize = 256;

/// Bytes of the journal's ring.
pub(crate) const JOURNAL_BYTES: u64 = 32 << 20;
/// One part in so many of the ring, and a checkpoint begins when that much is in use. A third is
/// for callers while it runs: a disk that stands still for a moment must not make them wait.
pub(crate) const CHECKPOINT_AT_DIVISOR: u64 = 8;
/// The same for a queue that has been quiet.
pub(crate) const QUIET_CHECKPOINT_DIVISOR: u64 = 16;
/// Least bytes of the journal's ring.
pub(crate) const JOURNAL_BYTES_MIN: u64 = 64 << 10;
/// Most bytes of the journal's ring.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 1 << 30;
/// Bytes of all temporary tubes together.
pub(crate) const TEMPORARY_BYTES: u64 = 256 << 20;
/// Bytes of the payloads of all durable tubes together: as many as the disk takes.
pub(crate) const DURABLE_BYTES: u64 = u64::MAX;
/// Rows of the first slice of a checkpoint on a full disk.
pub(crate) const SLICE_ROWS: usize = 4096;
/// Bytes of redb's cache.
pub(crate) const CACHE_BYTES: usize = 32 << 20;
/// One part in so many of it, and that much is read ahead at most: what is fetched last must not
/// push out what was fetched first.
pub(crate) const READ_AHEAD_DIVISOR: usize = 4;

/// How long a relaxed write may stay unsynced.
pub(crate) const FLUSH_INTERVAL: Duration = Duration::from_millis(50);
/// How long the timer sleeps at most while a queue-time or wall deadline is pending, so that a
/// suspend or a set clock is noticed.
pub(crate) const TIMER_NAP_MAX: Duration = Duration::from_secs(30);
/// How long a quiet queue waits before it checkpoints what is in its journal.
pub(crate) const QUIET_BEFORE_CHECKPOINT: Duration = Duration::from_secs(60);
/// How much time at most counts as passed if only the wall clock tells of it.
pub(crate) const CLOCK_GAP_MAX: Duration = Duration::from_secs(30 * 86_400);
/// Events kept for a subscriber that does not keep up.
pub(crate) const EVENTS_KEPT: usize = 4096;
/// Payload bytes kept in such events together.
pub(crate) const EVENT_BYTES_KEPT: usize = 64 << 20;
/// Attempts of a task in a tube of the general kind before it is buried as exhausted.
pub(crate) const ATTEMPTS_MAX: u32 = 20;

const _: () = assert!(JOURNAL_BYTES_MIN <= JOURNAL_BYTES && JOURNAL_BYTES <= JOURNAL_BYTES_MAX);
const _: () = assert!(PAYLOAD_BYTES <= PAYLOAD_BYTES_MAX);
const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize && LABEL_BYTES_MAX <= u8::MAX as usize);
const _: () = assert!(BATCH_TASKS_MAX as u64 <= NUMBER_BLOCK);
const _: () = assert!(SWEEP_TASKS <= PAGE_TASKS);
