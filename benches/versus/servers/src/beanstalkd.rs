//! beanstalkd with its log in the folder: synced at each write, or every 50 ms, as by default.

use crate::connection::{Connection, SOCKET, connect, with};
use crate::server::Server;
use std::io::Write;
use std::process::Command;
use versus_common::{Folder, Has, Queue};

pub struct Beanstalkd {
    server: Server,
}

impl Beanstalkd {
    pub fn open(folder: &Folder, synced: bool) -> Self {
        crate::enter(folder);
        let _ = std::fs::remove_file(SOCKET);
        let _ = std::fs::create_dir("log");
        let server = Server::start(
            Command::new("beanstalkd")
                .args(["-l", &format!("unix:{SOCKET}"), "-b", "log"])
                .args(["-f", if synced { "0" } else { "50" }])
                // The largest task.
                .args(["-z", "2097152"]),
        );
        connect();
        Self { server }
    }
}

fn write(connection: &mut Connection, task: &[u8], priority: u8) {
    // No delay, and an hour until a taken task is another's turn.
    write!(connection.out, "put {priority} 0 3600 {}\r\n", task.len()).unwrap();
    connection.out.extend_from_slice(task);
    connection.out.extend_from_slice(b"\r\n");
}

fn inserted(connection: &mut Connection) {
    let answer = connection.line();
    assert!(answer.starts_with("INSERTED"), "{answer}");
}

fn reserved(connection: &mut Connection) -> Option<u64> {
    let answer = connection.line();
    let mut words = answer.split(' ');
    let ("RESERVED", Some(id), Some(bytes)) = (words.next()?, words.next(), words.next()) else {
        return None;
    };
    let (id, bytes) = (id.parse().unwrap(), bytes.parse().unwrap());
    std::hint::black_box(connection.bytes_of_line(bytes));
    Some(id)
}

impl Queue for Beanstalkd {
    type Task = u64;

    const HAS: Has = Has { batches: false, ..Has::USUAL };

    fn put(&self, task: &[u8], priority: u8) {
        with(|connection| {
            write(connection, task, priority);
            connection.send();
            inserted(connection);
        });
    }

    fn fill(&self, tasks: &[(u8, Vec<u8>)]) {
        // It stops reading when too many of its answers have not been read.
        for tasks in tasks.chunks(100) {
            with(|connection| {
                tasks.iter().for_each(|(priority, task)| write(connection, task, *priority));
                connection.send();
                tasks.iter().for_each(|_| inserted(connection));
            });
        }
    }

    fn take(&self) -> Option<u64> {
        with(|connection| {
            connection.out.extend_from_slice(b"reserve-with-timeout 0\r\n");
            connection.send();
            reserved(connection)
        })
    }

    fn wait(&self) -> u64 {
        with(|connection| {
            connection.out.extend_from_slice(b"reserve\r\n");
            connection.send();
            reserved(connection).unwrap()
        })
    }

    fn ack(&self, task: u64) {
        with(|connection| {
            write!(connection.out, "delete {task}\r\n").unwrap();
            connection.send();
            assert_eq!(connection.line(), "DELETED");
        });
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.id())
    }
}
