//! tubewell, and what it is measured against: the least that a disk allows, redb by itself, and a
//! channel for waking.

mod channel;
mod limit;
mod redb;
mod tubewell;

use std::process::ExitCode;
use versus_common::{Alone, Grouped, main as run, stored};

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "tubewell" => run(&args, |_, folder| tubewell::Tubewell::open(folder, true)),
        "tubewell-relaxed" => run(&args, |_, folder| tubewell::Tubewell::open(folder, false)),
        "redb" => stored::<redb::Redb>(&args, true),
        "redb-grouped" => run(&args, |_, folder| Grouped::<redb::Redb>::open(folder, true)),
        "limit" => run(&args, |_, folder| limit::Limit::alone(folder)),
        "limit-grouped" => run(&args, |_, folder| limit::Limit::grouped(folder)),
        "writes" => run(&args, |_, folder| Alone::<limit::File>::open(folder, false)),
        "crossbeam" => run(&args, |_, _| channel::Channel::new()),
        _ => versus_common::unknown(&args),
    }
}
