//! Queues on SQLite.

mod queue;

use queue::Sqlite;
use std::process::ExitCode;
use versus_common::{Grouped, main as run, stored};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "sqlite-full" => stored::<Sqlite>(&args, true),
        "sqlite-full-grouped" => run(&args, |_, folder| Grouped::<Sqlite>::open(folder, true)),
        "sqlite-normal" => stored::<Sqlite>(&args, false),
        _ => versus_common::unknown(&args),
    }
}
