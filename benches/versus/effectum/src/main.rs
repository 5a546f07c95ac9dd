//! effectum: jobs in SQLite, run by workers of its own on tokio. Its take and ack are inside these
//! workers, so only its puts can be set beside the others'.

use effectum::{Job, Queue as Jobs};
use std::process::ExitCode;
use tokio::runtime::Runtime;
use versus_common::{Folder, Has, Queue};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "effectum" => versus_common::main(&args, |_, folder| Effectum::open(folder)),
        _ => versus_common::unknown(&args),
    }
}

struct Effectum {
    /// Open until the process ends: its threads do not like to see it closed.
    jobs: &'static Jobs,
    runtime: Runtime,
}

impl Effectum {
    fn open(folder: &Folder) -> Self {
        let runtime = Runtime::new().unwrap();
        let jobs = runtime.block_on(Jobs::new(&folder.join("effectum.sqlite"))).unwrap();
        Self { jobs: Box::leak(Box::new(jobs)), runtime }
    }
}

fn job(task: &[u8], priority: u8) -> Job {
    // Higher first, with effectum.
    Job::builder("versus").priority(-i32::from(priority)).payload(task.to_vec()).build()
}

impl Queue for Effectum {
    type Task = ();

    const HAS: Has = Has { takes: false, waiting: false, opening: false, ..Has::USUAL };

    fn put(&self, task: &[u8], priority: u8) {
        self.runtime.block_on(self.jobs.add_job(job(task, priority))).unwrap();
    }

    fn put_many(&self, tasks: &[(u8, Vec<u8>)]) {
        let jobs = tasks.iter().map(|(priority, task)| job(task, *priority)).collect();
        self.runtime.block_on(self.jobs.add_jobs(jobs)).unwrap();
    }

    fn take(&self) -> Option<()> {
        None
    }

    fn ack(&self, (): ()) {}
}
