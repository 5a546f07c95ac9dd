//! Tarantool with a queue of our own in it, `tarantool.lua`: a procedure for each verb, so that a
//! verb is one round trip. Its log is synced at each commit, or never.

use crate::connection::{SOCKET, connect};
use crate::iproto::call;
use crate::server::Server;
use rmp::{Marker, decode, encode};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use versus_common::{Args, Folder, Has, Queue, timer};

pub struct Tarantool(Server);

const SCRIPT: &str = "tarantool.lua";

impl Tarantool {
    pub fn open(args: &Args, folder: &Folder, synced: bool) -> Self {
        crate::enter(folder);
        let _ = std::fs::remove_file(SOCKET);
        std::fs::write(SCRIPT, include_str!("tarantool.lua")).unwrap();
        let server = Server::start(
            Command::new("tarantool").arg(SCRIPT).arg(if synced { "fsync" } else { "write" }).arg(
                match args.workload.as_str() {
                    "groups" => "groups",
                    "timers" => "delays",
                    _ => "priorities",
                },
            ),
        );
        // It listens once it has read its log.
        connect();
        Self(server)
    }
}

fn write_list(out: &mut Vec<u8>, length: usize) {
    encode::write_array_len(out, length as u32).unwrap();
}

fn write_task(out: &mut Vec<u8>, priority: u8, task: &[u8]) {
    encode::write_uint(out, priority.into()).unwrap();
    encode::write_bin(out, task).unwrap();
}

fn write_id(out: &mut Vec<u8>, id: u64) {
    encode::write_uint(out, id).unwrap();
}

fn read_list(values: &mut &[u8]) -> usize {
    decode::read_array_len(values).unwrap() as usize
}

/// A row: priority, id and task.
fn read_row<'a>(values: &mut &'a [u8]) -> (u64, &'a [u8]) {
    assert_eq!(read_list(values), 3);
    let _: u8 = decode::read_int(values).unwrap();
    let id = decode::read_int(values).unwrap();
    let bytes = decode::read_str_len(values).unwrap() as usize;
    let (task, rest) = values.split_at(bytes);
    *values = rest;
    (id, task)
}

fn read_id(values: &mut &[u8]) -> u64 {
    let (id, task) = read_row(values);
    std::hint::black_box(task);
    id
}

fn put_many<'a>(tasks: impl ExactSizeIterator<Item = (u8, &'a [u8])>) {
    let write = |out: &mut Vec<u8>| {
        write_list(out, 1);
        write_list(out, tasks.len());
        for (priority, task) in tasks {
            write_list(out, 2);
            write_task(out, priority, task);
        }
    };
    call("put_many", write, |_| ());
}

impl Queue for Tarantool {
    type Task = u64;

    const HAS: Has = Has { groups: true, delays: true, ..Has::USUAL };

    fn put(&self, task: &[u8], priority: u8) {
        let write = |out: &mut Vec<u8>| {
            write_list(out, 2);
            write_task(out, priority, task);
        };
        call("put", write, |_| ());
    }

    fn put_many(&self, tasks: &[(u8, Vec<u8>)]) {
        put_many(tasks.iter().map(|(priority, task)| (*priority, &task[..])));
    }

    fn take(&self) -> Option<u64> {
        let read = |values: &mut &[u8]| {
            assert_eq!(read_list(values), 1);
            (values[0] != Marker::Null.to_u8()).then(|| read_id(values))
        };
        call("take", |out| write_list(out, 0), read)
    }

    fn wait(&self) -> u64 {
        let read = |values: &mut &[u8]| {
            assert_eq!(read_list(values), 1);
            read_id(values)
        };
        call("wait", |out| write_list(out, 0), read)
    }

    fn ack(&self, task: u64) {
        let write = |out: &mut Vec<u8>| {
            write_list(out, 1);
            write_id(out, task);
        };
        call("ack", write, |_| ());
    }

    fn take_many(&self, most: usize) -> Vec<u64> {
        let write = |out: &mut Vec<u8>| {
            write_list(out, 1);
            encode::write_uint(out, most as u64).unwrap();
        };
        let read = |values: &mut &[u8]| {
            assert_eq!(read_list(values), 1);
            (0..read_list(values)).map(|_| read_id(values)).collect()
        };
        call("take_many", write, read)
    }

    fn ack_many(&self, tasks: Vec<u64>) {
        let write = |out: &mut Vec<u8>| {
            write_list(out, 1);
            write_list(out, tasks.len());
            tasks.iter().for_each(|&id| write_id(out, id));
        };
        call("ack_many", write, |_| ());
    }

    /// The server was started so that a group stands where otherwise a priority does.
    fn put_in(&self, group: u8, task: &[u8]) {
        self.put(task, group);
    }

    fn put_due(&self, timers: &[(u64, SystemTime)]) {
        let write = |out: &mut Vec<u8>| {
            write_list(out, 1);
            write_list(out, timers.len());
            for (number, due) in timers {
                write_list(out, 3);
                encode::write_f64(out, due.duration_since(UNIX_EPOCH).unwrap().as_secs_f64())
                    .unwrap();
                write_task(out, 0, &timer(*number));
            }
        };
        call("put_due", write, |_| ());
    }

    fn wait_due(&self) {
        self.ack(self.wait());
    }

    fn server(&self) -> Option<u32> {
        Some(self.0.id())
    }
}
