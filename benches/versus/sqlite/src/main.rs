//! Queues on SQLite.

mod queue;

use queue::Sqlite;
use std::process::ExitCode;
use versus_common::{Alone, Grouped, main as run};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "sqlite-full" => run(&args, |_, folder| Alone::<Sqlite>::open(folder, true)),
        "sqlite-full-grouped" => run(&args, |_, folder| Grouped::<Sqlite>::open(folder, true)),
        "sqlite-normal" => run(&args, |_, folder| Alone::<Sqlite>::open(folder, false)),
        _ => versus_common::unknown(&args),
    }
}
