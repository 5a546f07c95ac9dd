//! Queues on LMDB.

mod queue;

use queue::{Lmdb, Mapped};
use std::process::ExitCode;
use versus_common::{Grouped, main as run, stored};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "lmdb-sync" => stored::<Lmdb>(&args, true),
        "lmdb-sync-grouped" => run(&args, |_, folder| Grouped::<Lmdb>::open(folder, true)),
        "lmdb-nosync" => stored::<Lmdb>(&args, false),
        "lmdb-map" => stored::<Mapped>(&args, false),
        _ => versus_common::unknown(&args),
    }
}
