//! An embedded, durable work queue: tubes of tasks in one folder, no server. Threads of one program
//! put work into tubes; others take it and finish it. No task is lost: not to a panic, not to `kill
//! -9`, not to a power cut.
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
//! tube.durability(Durability::Relaxed).put(b"to bob")?; // ... when the system has it
//!
//! let task = tube.take()?; // waits for one; put order, unless priorities say otherwise
//! assert_eq!((task.id(), &task[..]), (id, &b"to ada"[..]));
//! task.ack()?; // finished and removed
//!
//! drop(tube.take()?); // no verdict, or a panic: it returns, its attempt counted
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
//! [`claim`](Tube::claim) takes a chosen task from Delayed and Buried too, [`update`](Tube::update)
//! moves a task between Delayed and Ready, and [`bury`](Tube::bury) by id buries it from any state.
//! [`trash`](Tube::trash) takes it from the board, until [`restore`](Tube::restore) makes it ready
//! again. A task that [comes after others](NewTask::after) is Blocked until they have ended, and
//! then Ready or Delayed. [`jobs`] is a guide to all of this, with an example in each chapter;
//! [`flows`] is one to several tubes.
//!
//! [`Queue`] opens, [`Tube`] puts and takes, [`Task`] is a taken task and [`Lease`] the right to
//! settle it, [`Consumer`] a named session. [`Queue::transact`] commits an ack and the
//! application's own tables together. Crash guarantees: see [`Durability`]; failures:
//! [`ErrorKind`]; defaults: [`TubeOptions`] and [`Builder`]. The folder is of format 1, which every
//! later version opens.
//!
//! # Time
//!
//! *Queue time* (delay, ttl, back-off) advances while the machine sleeps or the queue is closed,
//! and never goes back. It follows the machine's boot clock; setting the wall clock does not change
//! it. After a restart of the machine, and where the system has no such clock, the wall clock gives
//! the time since the last write, up to [`clock_gap_max`](Builder::clock_gap_max);
//! [`Queue::clock_step`] returns how it had moved. *Wall time* (`run_at`) is the system's clock
//! unchanged. *Lease time* (ttr, waits, an open session's grace) does not advance while the machine
//! sleeps (on Windows it does), and setting the clock does not change it. `Duration::MAX` means
//! without end.
//!
//! A task's ttl ends at its put + its ttl + every requested delay (at the put, `run_at`, release,
//! back-off), also when a verb notices the end of a delay late. Of a delay that a claim or an
//! update ends early, only the part that has passed counts. A ttl that a release or an update sets
//! counts from then on, and a touch adds to it. A delayed task whose ttl has ended is removed at
//! the end of its delay.
//!
//! # Where things are
//!
//! A call goes one way: handle → op → `runtime` (one commit, one sync) → `engine` (decides) → row
//! writes → `store` (journal, layers, redb). Wake-ups, timers and events come after the commit. A
//! file imports only from files above it in the list of modules. A *room* is a folder of `src`.
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
//! | release, retry | return a task, the attempt not counted; return it after a failure |
//! | bury, kick | keep a task from takers, with a reason; make it ready again |
//! | trash, restore | take a task from the board, but keep it for review; make it ready again |
//! | touch, renew | extend a lease |
//! | lease | the right to settle a taken task, until its ttr is over |
//! | ticket | a lease as plain data: the task's id and a token |
//! | token | the number of one lease; an older token settles nothing |
//! | ttr, ttl | how long a taker may hold a task; how long a task lives |
//! | attempt, delivery | a take that counts against `max_attempts`; any take |
//! | group | tasks of a tube of which a bounded number is taken at a time, in order |
//! | rank | the position of a task among the ready ones: priority, then order, then id |
//! | run | one incarnation of a tube; truncate gives the tube a new one |
//! | consumer, session | an owner of leases, usually with a name; the time while it is open |
//! | grace | how long leases outlive their session; of a tube, how long they outlive their ttr |
//! | lapse, stalled | the ttr of a lease passes; taken, and in the grace after that |
//! | op | one call of a user, as a value |
//! | write set | the row writes that an op decided on |
//! | effects | what an op decided besides rows: changes, deadlines, wake-ups |
//! | record | the row writes of one commit as the journal stores them |
//! | journal, ring | the file of records; its part that is written in a circle |
//! | mark | the number of a record that must be synced before a call returns |
//! | group commit | one sync of the journal for all callers that wait |
//! | layer | rows written since a checkpoint, in memory: active, frozen, temporary |
//! | tombstone | an entry of a layer for a removed row |
//! | dead range | keys between which a scan finds only tombstones |
//! | base | the redb database that checkpoints write to |
//! | checkpoint | moving the frozen layer into the base, which frees the ring |
//! | snapshot | the base as of its last checkpoint |
//! | piece | a part of a large payload, a row that fills a page |
//! | gate | what lets the tasks of a tube be taken, or holds them back |
//! | condition | a gate with a name, which the application sets and clears |
//! | throttle, slot | a gate that several tubes share; what a taken task holds of it |
//! | schedule, fire, child | what puts tasks again and again; one such time; a task of it |
//! | dependency, dependent | a task that another one comes after; the other one |
//! | edge | from a task to one that comes after it: open, or met by an end of the first |
//! | cascade | telling the dependents of a task of its end, in bounded steps |
//! | sweep | removing in bounded steps what a truncate or a drop left |
//! | backpressure | callers pause when they write faster than a checkpoint frees the journal |

#![warn(missing_docs, unreachable_pub)]
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod words;
mod format;
mod store;
mod engine;
mod runtime;
mod api;

/// Coming from beanstalkd.
///
#[doc = include_str!("from_beanstalkd.md")]
pub mod from_beanstalkd {}

/// A guide to the life of a task.
///
#[doc = include_str!("jobs.md")]
pub mod jobs {}

/// A guide to what ties tasks and tubes together.
///
#[doc = include_str!("flows.md")]
pub mod flows {}

#[cfg(all(doctest, feature = "bincode"))]
#[doc = include_str!("../README.md")]
struct Readme;

pub use api::adopt::Adopted;
pub use api::advance::MoveTask;
pub use api::batch::TaskList;
pub use api::builder::Builder;
pub use api::by_id::UpdateTask;
pub use api::callback_list::Callback;
pub use api::codec::{BoxError, Codec};
pub use api::consumer::Consumer;
pub use api::consumers::TakenBy;
pub use api::events::Events;
pub use api::inspect::{Calls, TubeInfo, TubeStats, WaiterInfo, WaitsFor};
pub use api::lease::{Lease, Task};
pub use api::new_schedule::NewSchedule;
pub use api::newest_first::{EndedCursor, NewestFirst};
pub use api::peek::{Summaries, Tasks};
pub use api::placement::{Place, Placement, PutView};
pub use api::put::NewTask;
pub use api::queue::Queue;
pub use api::receipt::Receipt;
pub use api::results::Ended;
pub use api::resume::Resumed;
pub use api::schedule::Schedule;
pub use api::schedules::Schedules;
pub use api::scope::Scope;
pub use api::search::{SearchCursor, SearchPage};
pub use api::subscription::Subscription;
pub use api::tags::{TaggedTasks, TopTags};
#[doc(hidden)]
pub use api::testing;
pub use api::throttles::ThrottleHolders;
pub use api::ticket_handle::TicketHandle;
pub use api::track::{TrackedTask, TrackedTasks};
pub use api::transact::{Reading, Transaction};
pub use api::tube::Tube;
pub use api::tubes::Tubes;
pub use api::tubes_behind::TubesBehind;
#[cfg(feature = "bincode")]
pub use api::typed::Bincode;
pub use api::with_payload::{WithPayload, WithPayloadIn};
pub use runtime::event_filter::EventFilter;
pub use runtime::events::Event;
pub use store::{BaseSpace, Progress, Space, Stage};
pub use words::backoff::Backoff;
pub use words::clock::{Clock, ClockReading, ClockStep, ManualClock, SystemClock};
pub use words::consumer::{ConsumerInfo, ConsumerOptions};
pub use words::dependency::{After, Missing, Orphaned};
pub use words::durability::Durability;
pub use words::error::{Error, ErrorKind, Result};
pub use words::event_options::EventOptions;
pub use words::explain::{Explanation, WhyNot};
pub use words::failure::{Failure, FailureGroup, Retry};
pub use words::filter::Filter;
pub use words::gates::{Condition, Rate, ThrottleInfo};
pub use words::history::{History, HistoryEntry, HistoryEvent, HistoryLimits};
pub use words::hours::Hours;
pub use words::lapse::{Lapse, ReturnTo};
pub use words::latencies::{Latencies, Latency};
pub use words::options::TubeOptions;
pub use words::payload::{Encoded, NewPayload};
pub use words::repairs::Repairs;
pub use words::report::{Phase, WorkProgress};
pub use words::retention::Retention;
pub use words::schedule::{Missed, Overlap, ScheduleInfo};
pub use words::setting::{Setting, SettingSource, SettingValue};
pub use words::statistics::{DayStatistics, Distribution};
pub use words::stop::Stop;
pub use words::tags::TagCount;
pub use words::task::{
    Cause, LinkedTasks, Reason, State, TakenInfo, TaskId, TaskInfo, TaskSummary, Ticket,
};
pub use words::tube_kind::TubeKind;
pub use words::unique::Unique;
pub use words::urgency::Urgency;
pub use words::verb::{
    Advance, Conflict, Kicked, Merged, PauseTerms, Put, PutOutcome, Release, Unfailed,
};
