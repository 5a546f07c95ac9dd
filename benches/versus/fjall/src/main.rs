//! Queues on fjall.

mod queue;

use queue::Fjall;
use std::process::ExitCode;
use versus_common::{Alone, Grouped, main as run};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "fjall-sync" => run(&args, |_, folder| Alone::<Fjall>::open(folder, true)),
        "fjall-sync-grouped" => run(&args, |_, folder| Grouped::<Fjall>::open(folder, true)),
        "fjall-buffered" => run(&args, |_, folder| Alone::<Fjall>::open(folder, false)),
        _ => versus_common::unknown(&args),
    }
}
