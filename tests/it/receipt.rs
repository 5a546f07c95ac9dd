//! A put whose sync is waited for later.

use crate::{home, next, open, still};
use tubewell::{Durability, PutOutcome};

#[test]
fn a_put_can_be_taken_before_it_is_synced() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let receipt = tube.put_receipt(b"a").unwrap();
    assert!(!receipt.is_synced());
    assert_eq!(next(&tube), "a");
    let id = receipt.id();
    assert_eq!(receipt.wait().unwrap(), id);
}

#[test]
fn one_wait_covers_what_was_put_before() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap();
    let early = tube.put_receipt(b"a").unwrap();
    let late = tube.put_receipt(b"b").unwrap();
    late.wait().unwrap();
    assert!(early.is_synced());
    early.wait().unwrap();
}

#[test]
fn a_flush_syncs_all_receipts() {
    let (_home, path) = home();
    let queue = open(&path);
    let tube = queue.tube("t").unwrap().durability(Durability::Relaxed);
    let receipt = tube.put_receipt(b"a").unwrap();
    queue.flush().unwrap();
    assert!(receipt.is_synced());
}

#[test]
fn a_dropped_receipt_takes_nothing_back() {
    let (_home, path) = home();
    let queue = open(&path);
    drop(queue.tube("t").unwrap().put_receipt(b"a").unwrap());
    let (_copy, copy) = crate::killed(&path);
    assert_eq!(next(&open(&copy).tube("t").unwrap()), "a");
}

#[test]
fn a_receipt_has_the_outcome_for_its_key() {
    let queue = still().0.in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    let first = tube.task(b"a").key("k").put_receipt().unwrap();
    let second = tube.task(b"b").key("k").put_receipt().unwrap();
    assert_eq!((first.outcome(), second.outcome()), (PutOutcome::New, PutOutcome::Existing));
    assert_eq!(first.id(), second.id());
    assert_eq!(second.wait().unwrap(), first.id());
}

#[test]
fn in_memory_there_is_nothing_to_wait_for() {
    let queue = still().0.in_memory().unwrap();
    let receipt = queue.tube("t").unwrap().put_receipt(b"a").unwrap();
    assert!(receipt.is_synced());
    receipt.wait().unwrap();
}
