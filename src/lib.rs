//! An embedded, durable work queue: tubes of tasks in one folder, no server. Threads of one program
//! put work into tubes; others take it, finish it, and never lose it: not to a panic, not to `kill
//! -9`, not to a pulled plug.
//!
//! ```
//! use tubewell::{Durability, Queue};
//!
//! # fn main() -> tubewell::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("work.queue");
//! let queue = Queue::open(&path)?; // makes the folder
//! let tube = queue.tube("letters")?; // makes the tube
//! let id = tube.put(b"to ada")?; // returns when it is on the disk
//! tube.durability(Durability::Relaxed).put(b"to bob")?; // ... in the system's hands
//!
//! let task = tube.take()?; // waits for one; put order, unless priorities say otherwise
//! assert_eq!((task.id(), &task[..]), (id, &b"to ada"[..]));
//! task.ack()?; // done, and gone
//!
//! drop(tube.take()?); // no verdict, or a panic: back to its place, its attempt counted
//! assert_eq!(tube.take()?.attempt(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! # The life of a task
//!
//! ```text
//!                    put
//!            later ╱     ╲ now
//!                 ▼       ▼         take, claim            ack
//!            Delayed ──▶ Ready ────────────────▶ Taken ──────────▶ gone
//!               ▲  due    ▲ ▲  release, drop,      │ │               ▲
//!               │         │ └──────────────────────┘ │               │ delete, truncate,
//!               │    kick │    ttr, crash            │ bury, fail,   │ from any state;
//!               │         └──────────── Buried ◀─────┤ attempts      │ ttl, from all but
//!               └────────────────────────────────────┘ used up       │ Delayed
//!                       retry, release with a delay            ──────┘
//! ```
//!
//! [`Queue`] opens, [`Tube`] puts and takes, [`Task`] is what was taken and [`Lease`] the hold on
//! it, [`Consumer`] a session with a name. [`Queue::transact`] commits an ack and the application's
//! own tables at once. What survives what is said at [`Durability`], failures at [`ErrorKind`],
//! defaults at [`TubeOptions`] and [`Builder`]. The folder is of format 1, which every later
//! version opens.
//!
//! # Time
//!
//! *Queue time* (delay, ttl, back-off) goes on while the machine sleeps or the queue is closed, and
//! never goes back. It follows the machine's boot clock, and no wall clock that is set. After a
//! start of the machine, and where the system has no such clock, the wall clock tells what has
//! passed since the last write, up to [`clock_gap_max`](Builder::clock_gap_max); what it did then
//! says [`Queue::clock_step`]. *Wall time* (`run_at`) is the system's clock as it is. *Lease time*
//! (ttr, waits, an open session's grace) stands still while the machine sleeps (on Windows it goes
//! on), and no change of the clock moves it. `Duration::MAX` is for ever.
//!
//! A task's life ends at its put + its ttl + every delay that was asked for (at the put, `run_at`,
//! release, back-off), however late a verb notices that a delay has ended. A delayed task whose
//! life has ended goes at the end of its delay.
//!
//! # Where things are
//!
//! A call goes one way: handle → op → `runtime` (one commit, one sync) → `engine` (decides) → row
//! writes → `store` (journal, layers, redb). Wake-ups, timers and events come after the commit. A
//! file imports only from files above it in the list of modules.
//!
//! | room | what it does | what it never does |
//! |---|---|---|
//! | `words` | plain values, the clock, the only way to locks and threads | decide anything |
//! | `format` | keys, rows and layers of rows | I/O |
//! | `store` | makes row writes durable and visible | know what a row means |
//! | `engine` | the state machine, a pure function | read a clock, take a lock, write |
//! | `runtime` | commits, waiting, time, checkpoints, events | hold a lock while a callback runs |
//! | `api` | what users hold | know a rule |
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | tube | a named collection of tasks, with options of its own |
//! | task | a payload with an id, a priority and a state |
//! | put, take, ack | add a task; lease the best ready one; finish it |
//! | release, retry | return a task uncharged; return it after a failure |
//! | bury, kick | keep a task aside with a reason; bring it back |
//! | touch, renew | extend a lease |
//! | lease | the right to settle a taken task, until its ttr is over |
//! | ticket | a lease as plain data: the task's id and a token |
//! | token | the number of one lease; an older token settles nothing |
//! | ttr, ttl | how long a taker may hold a task; how long a task lives |
//! | attempt, delivery | a start that counts against `max_attempts`; any hand-out |
//! | group | tasks of a tube of which a bounded number is taken at a time, in order |
//! | rank | where a task stands among the ready ones: priority, then order, then id |
//! | run | one incarnation of a tube; truncate gives the tube a new one |
//! | consumer, session | a named owner of leases; the time while it is open |
//! | grace | how long leases outlive their session |
//! | op | one call of a user, as a value |
//! | write set | the row writes that an op decided on |
//! | effects | what an op decided beside rows: changes, deadlines, wake-ups |
//! | record | the row writes of one commit as they stand in the journal |
//! | journal, ring | the file of records; its part that is written in a circle |
//! | mark | the number of a record that must be synced before a caller is answered |
//! | group commit | one sync of the journal for all callers that wait |
//! | layer | rows written since a checkpoint, in memory: active, frozen, temporary |
//! | tombstone | an entry of a layer that says that a row is gone |
//! | dead range | keys between which a scan finds only tombstones |
//! | base | the redb database that checkpoints write to |
//! | checkpoint | moving the frozen layer into the base, which frees the ring |
//! | snapshot | the base as of its last checkpoint |
//! | sweep | removing in bounded steps what a truncate or a drop left |
//! | backpressure | callers pause when they outrun a checkpoint |

#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod words;
mod format;
mod store;
mod engine;
mod runtime;
mod api;

#[cfg(all(doctest, feature = "bincode"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub use api::builder::Builder;
pub use api::codec::{BoxError, Codec};
pub use api::consumer::Consumer;
pub use api::events::Events;
pub use api::inspect::{
    BaseSpace, Calls, Space, Summaries, TakenInfo, Tasks, TubeInfo, TubeStats, WaiterInfo,
};
pub use api::lease::{Lease, Task};
pub use api::placement::{Place, Placement, PutView};
pub use api::put::{NewTask, Put, Receipt};
pub use api::queue::Queue;
pub use api::resume::Resumed;
#[doc(hidden)]
pub use api::testing;
pub use api::ticket_handle::TicketHandle;
pub use api::transact::{Reading, Transaction};
pub use api::tube::Tube;
#[cfg(feature = "bincode")]
pub use api::typed::Bincode;
pub use runtime::events::Event;
pub use store::{Progress, Stage};
pub use words::clock::{Clock, ClockReading, ClockStep, ManualClock, SystemClock};
pub use words::error::{Error, ErrorKind, Result};
pub use words::options::{Backoff, Durability, EventOptions, TubeKind, TubeOptions};
pub use words::stop::Stop;
pub use words::task::{Cause, Reason, State, TaskId, TaskInfo, TaskSummary, Ticket};
pub use words::verb::{Conflict, PutOutcome, Release};
