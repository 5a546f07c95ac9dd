//! What a verb may answer, and the list of all of them.

use super::in_a_transaction::in_a_transaction;
use super::of_a_task::of_a_task;
use super::of_the_queue::of_the_queue;
use super::put_and_take::put_and_take;
use super::reads::reads;
use super::stage::{Done, Stage};

/// What a verb may answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Nothing but its work.
    Never,
    /// It writes more than it removes, so a full disk may refuse it.
    Disk,
    /// It adds a row of the queue, of no tube.
    Row,
    /// It adds bytes, but no task.
    Bytes,
    /// It brings a payload, but no task.
    Payload,
    /// It adds a task.
    Always,
}

pub type Verb = (&'static str, May, fn(&mut Stage) -> Done);

pub fn long() -> String {
    "r".repeat(4096)
}

pub fn verbs() -> Vec<Verb> {
    let parts = [put_and_take(), of_a_task(), in_a_transaction(), of_the_queue(), reads()];
    parts.into_iter().flatten().collect()
}
