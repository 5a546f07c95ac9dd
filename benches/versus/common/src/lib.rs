//! What every peer's binary shares: its command line, the workloads, the clock and the one line of
//! JSON that it prints. A peer only says what put, take and ack are to it.

mod args;
mod delays;
mod engine;
mod load;
mod os;
mod output;
mod start;

pub use args::Args;
pub use delays::{Delayed, Delays, Promoted, Timed};
pub use engine::{Alone, Done, Engine, Grouped, Op, Strict, stored};
pub use load::main;

use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

/// Reads the command line, or says what is wrong with it and ends.
pub fn args() -> Args {
    Args::read().unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2)
    })
}

/// What a binary answers to a peer that it does not have.
pub fn unknown(args: &Args) -> ExitCode {
    eprintln!("there is no peer {}", args.peer);
    ExitCode::FAILURE
}

/// A queue as the workloads use it. Calls come from as many threads as the workload has.
pub trait Queue: Sync + Sized {
    /// What a taker holds until it acks.
    type Task;

    /// Whether the queue knows these things. A workload that needs one of them is refused.
    const HAS: Has = Has::USUAL;

    /// Returns when the task is as safe as the peer is set to make it.
    fn put(&self, task: &[u8], priority: u8);

    /// All of them in one commit, each at its priority.
    fn put_many(&self, tasks: &[(u8, Vec<u8>)]) {
        let _ = tasks;
        unreachable!("the peer has no batches");
    }

    /// Fills the queue before the clock runs, by whatever way is quickest.
    fn fill(&self, tasks: &[(u8, Vec<u8>)]) {
        if Self::HAS.batches {
            self.put_many(tasks);
        } else {
            tasks.iter().for_each(|(priority, task)| self.put(task, *priority));
        }
    }

    /// The next task, if there is one. Its payload has been read when this returns.
    fn take(&self) -> Option<Self::Task>;

    /// Waits for a task.
    fn wait(&self) -> Self::Task {
        unreachable!("the peer has no waiting takers");
    }

    fn ack(&self, task: Self::Task);

    /// As many in one step, or as many as there are.
    fn take_many(&self, most: usize) -> Vec<Self::Task> {
        let _ = most;
        unreachable!("the peer has no batches");
    }

    /// All of them in one commit.
    fn ack_many(&self, tasks: Vec<Self::Task>) {
        let _ = tasks;
        unreachable!("the peer has no batches");
    }

    /// Puts a task of a group. While one of a group is taken, `take` passes the others over.
    fn put_in(&self, group: u8, task: &[u8]) {
        let _ = (group, task);
        unreachable!("the peer has no groups");
    }

    /// Puts tasks that are to fall due, each the [`timer`] of its number.
    fn put_due(&self, timers: &[(u64, SystemTime)]) {
        let _ = timers;
        unreachable!("the peer has no delays");
    }

    /// Waits for a task that was put so, takes and acks it.
    fn wait_due(&self) {
        unreachable!("the peer has no delays");
    }

    /// Another process that does the work, when it is not this one.
    fn server(&self) -> Option<u32> {
        None
    }
}

/// The payload of a timer.
pub fn timer(number: u64) -> [u8; 256] {
    let mut payload = [7; 256];
    payload[..8].copy_from_slice(&number.to_le_bytes());
    payload
}

/// What a queue can do.
#[derive(Clone, Copy)]
pub struct Has {
    pub batches: bool,
    pub priorities: bool,
    pub takes: bool,
    pub waiting: bool,
    pub opening: bool,
    pub groups: bool,
    pub delays: bool,
}

impl Has {
    pub const USUAL: Self = Self {
        batches: true,
        priorities: true,
        takes: true,
        waiting: true,
        opening: true,
        groups: false,
        delays: false,
    };
}

/// Where a peer keeps what it stores: an empty folder on a real disk, or that of an earlier
/// process when it is opened again.
pub type Folder = Path;
