//! Ordering of your own: the job with the earliest deadline first.
//!
//! ```text
//! cargo run --example placement
//! ```

use serde::{Deserialize, Serialize};
use tubewell::{Place, Placement, PutView, Queue, TubeOptions};

#[derive(Serialize, Deserialize)]
struct Job {
    /// Minutes from midnight; first in the struct, so that the placement finds it.
    deadline: u16,
    what: String,
}

struct EarliestDeadline;

impl Placement for EarliestDeadline {
    fn place(&self, put: &PutView<'_>) -> Place {
        let decoded =
            bincode::serde::decode_from_slice::<u16, _>(put.payload, bincode::config::standard());
        // A payload of another kind comes after all others.
        let deadline = decoded.map_or(u16::MAX, |(deadline, _)| deadline);
        Place::new(&deadline.to_be_bytes())
    }
}

fn main() -> tubewell::Result<()> {
    let queue = Queue::builder().placement("earliest deadline", EarliestDeadline).in_memory()?;
    let options = TubeOptions::default().placement("earliest deadline");
    let jobs = queue.create_tube("jobs", options)?.typed::<Job>();

    for (deadline, what) in [(17 * 60, "dinner"), (8 * 60, "breakfast"), (13 * 60, "lunch")] {
        jobs.put(&Job { deadline, what: what.to_owned() })?;
    }
    let mut order = Vec::new();
    while let Some(job) = jobs.try_take()? {
        println!("by {:02}:{:02}: {}", job.deadline / 60, job.deadline % 60, job.what);
        order.push(job.what.clone());
        job.ack()?;
    }
    assert_eq!(order, ["breakfast", "lunch", "dinner"]);
    Ok(())
}
