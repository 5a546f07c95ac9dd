//! RustQueue, embedded, on redb: one commit for each call, or calls of several threads gathered.

use rustqueue::{JobId, JobOptions, RustQueue};
use serde_json::Value;
use std::process::ExitCode;
use tokio::runtime::Runtime;
use versus_common::{Folder, Has, Queue};

const QUEUE: &str = "versus";

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "rustqueue" => versus_common::main(&args, |_, folder| Rust::open(folder, false)),
        "rustqueue-grouped" => versus_common::main(&args, |_, folder| Rust::open(folder, true)),
        _ => versus_common::unknown(&args),
    }
}

struct Rust {
    queue: RustQueue,
    runtime: Runtime,
}

impl Rust {
    fn open(folder: &Folder, grouped: bool) -> Self {
        let runtime = Runtime::new().unwrap();
        let entered = runtime.enter();
        let mut builder = RustQueue::redb(folder.join("rustqueue.redb")).unwrap();
        if grouped {
            // Its defaults: ten milliseconds, a hundred calls.
            builder = builder.with_write_coalescing(Default::default());
        }
        let queue = builder.build().unwrap();
        drop(entered);
        Self { queue, runtime }
    }
}

impl Queue for Rust {
    type Task = JobId;

    const HAS: Has = Has { batches: false, waiting: false, opening: false, ..Has::USUAL };

    fn put(&self, task: &[u8], priority: u8) {
        // It stores JSON: a text without escapes, of as many bytes as the task with its quotes.
        let text = task[2..].iter().map(|byte| char::from(b'@' + (byte & 0x1f)));
        let text = text.map(|letter| if letter == '\\' { '@' } else { letter }).collect();
        let options = JobOptions {
            // Higher first, with RustQueue.
            priority: Some(-i32::from(priority)),
            // As an ack does with the others; otherwise it would keep all that is done.
            remove_on_complete: Some(true),
            ..JobOptions::default()
        };
        let put = self.queue.push(QUEUE, "task", Value::String(text), Some(options));
        self.runtime.block_on(put).unwrap();
    }

    fn take(&self) -> Option<JobId> {
        let mut jobs = self.runtime.block_on(self.queue.pull(QUEUE, 1)).unwrap();
        let job = jobs.pop()?;
        std::hint::black_box(&job.data);
        Some(job.id)
    }

    fn ack(&self, task: JobId) {
        self.runtime.block_on(self.queue.ack(task, None)).unwrap();
    }
}
