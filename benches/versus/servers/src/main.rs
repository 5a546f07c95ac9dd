//! Servers, started in the turn's folder and spoken to over a Unix socket, one connection for each
//! thread that is in a call.

mod beanstalkd;
mod connection;
mod iproto;
mod redis;
mod server;
mod tarantool;

use beanstalkd::Beanstalkd;
use redis::Redis;
use std::process::ExitCode;
use tarantool::Tarantool;
use versus_common::{Folder, main as run};

/// The exit code by which the driver learns that the server is not there.
const NOT_INSTALLED: i32 = 3;

fn main() -> ExitCode {
    let args = versus_common::args();
    match args.peer.as_str() {
        "beanstalkd-sync" => run(&args, |_, folder| Beanstalkd::open(folder, true)),
        "beanstalkd" => run(&args, |_, folder| Beanstalkd::open(folder, false)),
        "redis-sync" => run(&args, |_, folder| Redis::open(folder, true)),
        "redis" => run(&args, |_, folder| Redis::open(folder, false)),
        "tarantool-sync" => run(&args, |args, folder| Tarantool::open(args, folder, true)),
        "tarantool" => run(&args, |args, folder| Tarantool::open(args, folder, false)),
        _ => versus_common::unknown(&args),
    }
}

/// The path of a socket is short by law, so it is named from within the folder.
fn enter(folder: &Folder) {
    std::env::set_current_dir(folder).unwrap();
}
