//! Queues on fjall.

mod queue;

use queue::Fjall;
use std::process::ExitCode;
use versus_common::{Grouped, main as run, stored};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "fjall-sync" => stored::<Fjall>(&args, true),
        "fjall-sync-grouped" => run(&args, |_, folder| Grouped::<Fjall>::open(folder, true)),
        "fjall-buffered" => stored::<Fjall>(&args, false),
        _ => versus_common::unknown(&args),
    }
}
