//! The verdicts of a transaction on a task in hand. A refused transaction leaves the lease.

use super::stage::{Done, Stage, WAVE_AT, gone, nothing};
use super::verbs::{May, Verb, long};
use tubewell::{Advance, Release, Result, Retry, Task, Transaction};

/// A verdict on the task in hand.
fn inside(s: &mut Stage, work: impl FnOnce(&Transaction<'_>, &Task) -> Result<()>) -> Done {
    s.inside(|s| &mut s.held, work).map(nothing)
}

pub fn in_a_transaction() -> Vec<Verb> {
    vec![
        ("tx.ack", May::Disk, |s| {
            let id = s.held.as_ref().unwrap().id();
            inside(s, |tx, task| tx.ack(task)).map(|_| gone(id))
        }),
        ("tx.ack_with", May::Bytes, |s| {
            s.inside(|s| &mut s.sum, |tx, task| tx.ack_with(task, &[5; 16 << 10])).map(nothing)
        }),
        ("tx.release", May::Disk, |s| inside(s, |tx, task| tx.release(task))),
        ("tx.release_with", May::Disk, |s| {
            inside(s, |tx, task| tx.release_with(task, Release::new().delay(WAVE_AT)))
        }),
        ("tx.snooze", May::Disk, |s| inside(s, |tx, task| tx.snooze(task, WAVE_AT))),
        ("tx.retry", May::Disk, |s| inside(s, |tx, task| tx.retry(task, long()))),
        ("tx.retry_after", May::Disk, |s| {
            inside(s, |tx, task| tx.retry_after(task, long(), WAVE_AT))
        }),
        ("tx.retry_with", May::Disk, |s| {
            inside(s, |tx, task| tx.retry_with(task, Retry::new(long()).group("g")))
        }),
        ("tx.bury", May::Disk, |s| inside(s, |tx, task| tx.bury(task, long()))),
        ("tx.bury_with_priority", May::Disk, |s| {
            inside(s, |tx, task| tx.bury_with_priority(task, long(), 3))
        }),
        ("tx.fail", May::Disk, |s| inside(s, |tx, task| tx.fail(task, "g", long()))),
        ("tx.trash", May::Disk, |s| inside(s, |tx, task| tx.trash(task, long()))),
        ("tx.advance", May::Disk, |s| {
            let tube = s.tube.clone();
            inside(s, |tx, task| tx.advance(task, &tube))
        }),
        ("tx.advance_with", May::Always, |s| {
            let (tube, result) = (s.tube.clone(), [3; 8 << 10]);
            inside(s, |tx, task| tx.advance_with(task, &tube, Advance::new().result(&result)))
        }),
        ("tx.with_payload", May::Payload, |s| {
            inside(s, |tx, task| tx.with_payload(task, &[5; 16 << 10]).release())
        }),
    ]
}
