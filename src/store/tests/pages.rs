//! What a payload costs in the base: redb rounds pages up to powers of two and writes them whole.

use super::super::tables::ROWS;
use crate::api::queue::Queue;
use redb::{ReadableDatabase, ReadableTableMetadata};

/// Bytes of all pages of the rows, with payloads of so many bytes one after the other.
fn pages(payload: usize, tasks: usize) -> u64 {
    let queue = Queue::builder().by_hand(true).in_memory().unwrap();
    let tube = queue.tube("t").unwrap();
    for _ in 0..tasks {
        tube.put(&vec![7; payload]).unwrap();
        queue.checkpoint().unwrap();
    }
    let core = &tube.inner.core;
    let opening = core.state.lock().store.base().unwrap().opening().clone();
    let rows = opening.db().unwrap().begin_read().unwrap().open_table(ROWS).unwrap();
    let stats = rows.stats().unwrap();
    stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes()
}

/// A payload of 1 MiB took 2 MiB: it stood in one row, and the page is rounded up.
#[test]
fn a_payload_costs_little_more_than_its_bytes() {
    for (payload, most) in [
        (1 << 20, 1.02),
        (16 << 20, 1.01),
        ((1 << 20) + 100, 1.02),
        (1_000_000, 1.02),
        (100_000, 1.08),
        (65_536, 1.1),
        (20_000, 1.3),
    ] {
        let tasks = if payload > 2 << 20 { 1 } else { 8 };
        let paid = pages(payload, tasks) as f64 / (payload * tasks) as f64;
        println!("{payload} bytes, {tasks} times: {paid:.4}");
        assert!(paid <= most, "{payload} bytes cost {paid} times as much");
    }
}
