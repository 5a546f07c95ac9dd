//! Queues on LMDB.

mod queue;

use queue::{Lmdb, Mapped};
use std::process::ExitCode;
use versus_common::{Alone, Grouped, main as run};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "lmdb-sync" => run(&args, |_, folder| Alone::<Lmdb>::open(folder, true)),
        "lmdb-sync-grouped" => run(&args, |_, folder| Grouped::<Lmdb>::open(folder, true)),
        "lmdb-nosync" => run(&args, |_, folder| Alone::<Lmdb>::open(folder, false)),
        "lmdb-map" => run(&args, |_, folder| Alone::<Mapped>::open(folder, false)),
        _ => versus_common::unknown(&args),
    }
}
