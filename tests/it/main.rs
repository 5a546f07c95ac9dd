//! Everything that a user can see, one short module for each behaviour, in one binary. Time does
//! not move unless a test moves it, and every wait is for a signal: nothing here sleeps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

/// The verdicts on a taken task, and the reports on the work; a guard, a lease and a ticket have
/// the same ones. The tube is where an advance goes.
macro_rules! verdicts {
    ($held:ty) => {{
        #[allow(unused_mut, reason = "a ticket is only borrowed where a guard is changed")]
        let all: [fn($held, &tubewell::Tube) -> tubewell::Result<()>; crate::VERDICTS] = [
            |held, _| held.ack(),
            |held, _| held.ack_with(b"r"),
            |held, _| held.release(),
            |held, _| held.release_with(tubewell::Release::new().delay(crate::secs(1))),
            |held, _| held.snooze(crate::secs(1)),
            |held, _| held.retry("no"),
            |held, _| held.retry_after("no", crate::secs(1)),
            |held, _| held.retry_with(tubewell::Retry::new("no").group("g")),
            |held, _| held.bury("no"),
            |held, _| held.bury_with_priority("no", 1),
            |held, _| held.fail("g", "no"),
            |held, _| held.trash("no"),
            |mut held, tube| held.advance(tube),
            |mut held, tube| held.advance_with(tube, tubewell::Advance::new().result(b"r")),
            |held, _| held.touch(crate::secs(1)),
            |held, _| held.renew(),
            |held, _| held.renew_for(crate::secs(1)),
            |held, _| held.start("m"),
            |held, _| held.progress(1, "p"),
            |held, _| held.checkpoint(b"c"),
            |held, _| held.log("l"),
            |held, _| held.tag(["t"]).map(drop),
            |held, _| held.untag(["t"]).map(drop),
            |mut held, _| held.with_payload(b"n").renew(),
            |mut held, _| held.with_payload(b"n").release(),
            |mut held, tube| held.with_payload(b"n").advance(tube),
        ];
        all
    }};
}

/// Their number.
const VERDICTS: usize = 26;

/// What can be read of a taken task with a guard, a lease or a ticket.
macro_rules! readings {
    ($held:expr) => {{
        let held = $held;
        [
            held.passed().map(drop),
            held.kind().map(drop),
            held.book().map(drop),
            held.details().map(drop),
            held.tags().map(drop),
            held.last_checkpoint().map(drop),
            held.previous().map(drop),
            held.time_left().map(drop),
        ]
    }};
}

mod advance;
mod batch;
mod beanstalkd;
mod buried_parents;
mod by_id;
mod clocks;
mod close;
mod codec;
mod conditions;
#[cfg(feature = "serde")]
mod configuration;
mod consumer;
mod copies;
mod damage;
mod delay;
mod dependencies;
mod dependencies_changed;
mod details;
mod disk;
mod dropped;
mod durable;
mod events;
mod explain;
mod failures;
mod features;
mod format;
#[cfg(unix)]
mod full_disk;
mod gates;
mod golden;
mod group;
mod grouped_gates;
mod handles;
mod higher_first;
mod history;
mod hours;
mod idle;
mod input;
mod inspect;
mod journal_bytes;
mod keyed;
mod kick;
mod kind_index;
mod kinds;
mod lapse;
mod lease;
mod limit;
mod listing;
mod lost;
mod mending;
mod merge;
#[path = "../methods/mod.rs"]
mod methods;
mod moves;
mod notices;
mod numbers;
mod open;
mod order;
mod payloads;
mod peek_many;
mod pieces;
mod presets;
mod progress;
mod put;
mod put_again;
mod read_only;
mod readme;
mod receipt;
mod refused;
mod repair;
mod reports;
mod results;
mod retries;
mod rows;
mod scope;
mod search;
mod session;
mod settings;
mod settle;
mod several;
mod size;
mod slots;
mod statistics;
mod subscriptions;
mod tags;
mod take;
mod take_group;
mod task_gates;
mod temporary;
mod throttles;
mod tidy;
mod timeout;
mod timer;
mod tracked;
mod schedules;
mod schedules_changed;
mod transact;
mod trash;
mod tubes;
#[cfg(feature = "bincode")]
mod typed;
mod unfail_into;
mod unique;
mod update;
mod verbs;
mod wait;
mod workers;

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tubewell::{
    Builder, Consumer, ErrorKind, ManualClock, Queue, Reason, Result, State, Task, TaskId,
    TaskSummary, Tube, TubeOptions,
};

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A builder for a queue without threads and with a manual clock.
fn still() -> (Builder, ManualClock) {
    let clock = ManualClock::new();
    (Queue::builder().clock(clock.clone()).by_hand(true), clock)
}

/// A tube of the general kind, alone in a still queue in memory.
fn lone() -> (Tube, ManualClock) {
    lone_with(TubeOptions::default())
}

/// The same with these options.
fn lone_with(options: TubeOptions) -> (Tube, ManualClock) {
    let (builder, clock) = still();
    let queue = builder.in_memory().unwrap();
    (queue.create_tube("lone", options).unwrap(), clock)
}

/// Why the call failed.
fn kind<T: Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("it should have failed").kind()
}

/// What a consumer resumes, all of it.
fn resumed<T: ?Sized>(consumer: &Consumer, tube: &Tube<T>) -> Vec<Task<T>> {
    consumer.resume(tube).collect::<Result<_>>().unwrap()
}

/// The message of a task's last failure.
fn last_error(task: &TaskSummary) -> Option<&str> {
    task.last_failure.as_ref().map(|failure| &*failure.message)
}

/// Why a task of the tube "lone" is buried after its last retry.
fn exhausted(message: &str) -> Reason {
    Reason::Exhausted { group: "failed-retries-lone".into(), message: message.into() }
}

/// Success, for closures whose error has no other type.
fn ok<T>(value: T) -> Result<T> {
    Ok(value)
}

/// Takes and acks one task; its payload as text.
fn next(tube: &Tube) -> String {
    let task = tube.try_take().unwrap().expect("a task");
    let text = String::from_utf8(task.to_vec()).unwrap();
    task.ack().unwrap();
    text
}

/// Takes and acks all that can be taken; the payloads in order, with spaces between.
fn drain(tube: &Tube) -> String {
    let mut texts = Vec::new();
    while let Some(task) = tube.try_take().unwrap() {
        texts.push(String::from_utf8(task.to_vec()).unwrap());
        task.ack().unwrap();
    }
    texts.join(" ")
}

/// The payloads of the tasks in a state, in listing order, with spaces between.
fn listed(tube: &Tube, state: State) -> String {
    let text = |task: Result<tubewell::TaskInfo>| String::from_utf8(task.unwrap().payload).unwrap();
    tube.tasks(state).map(text).collect::<Vec<_>>().join(" ")
}

fn state(tube: &Tube, id: TaskId) -> State {
    tube.peek(id).unwrap().state
}

fn is_gone(tube: &Tube, id: TaskId) -> bool {
    tube.peek(id).is_err_and(|error| error.kind() == ErrorKind::TaskNotFound)
}

/// Ready, delayed, taken, buried.
fn counts(tube: &Tube) -> [u64; 4] {
    let stats = tube.stats().unwrap();
    [stats.ready, stats.delayed, stats.taken, stats.buried]
}

/// Lets other threads run until it holds.
fn until(mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < secs(60), "waited for a minute");
        std::thread::yield_now();
    }
}

/// Lets other threads run until so many calls wait for tasks of the tube.
fn until_waiting(tube: &Tube, calls: usize) {
    until(|| tube.info().unwrap().waiters == calls);
}

/// Starts a thread that waits in this call; returns when it waits.
fn waiting<R: Send + 'static>(
    tube: &Tube,
    wait: impl FnOnce(&Tube) -> R + Send + 'static,
) -> std::thread::JoinHandle<R> {
    let before = tube.info().unwrap().waiters;
    let own = tube.clone();
    let thread = std::thread::spawn(move || wait(&own));
    until_waiting(tube, before + 1);
    thread
}

/// A path for a queue's folder.
fn home() -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("q");
    (home, path)
}

/// The files that a kill at this moment would leave, as the operating system has them.
fn killed(path: &Path) -> (TempDir, PathBuf) {
    let (home, copy) = home();
    fs::create_dir(&copy).unwrap();
    for name in ["base.redb", "journal"] {
        fs::copy(path.join(name), copy.join(name)).unwrap();
    }
    (home, copy)
}

/// Opens it without threads and with a manual clock.
fn open(path: &Path) -> Queue {
    still().0.open(path).unwrap()
}

/// Closes it after its two files were compared row by row.
fn close_sound(queue: Queue) {
    assert_eq!(queue.check().unwrap(), Vec::<String>::new());
    queue.close().unwrap();
}

/// Sound except for redb's own checksums, which still include the flipped page.
fn is_mended(queue: &Queue) {
    let faults = queue.check().unwrap();
    assert!(faults.iter().all(|fault| fault.contains("redb's own check")), "{faults:?}");
}
