//! Redis with the commands of redis-work-queue: a task's bytes under a key of their own, its id in
//! a list, and in another one while it is taken, with a lease that expires. The log is synced at
//! each command, or once a second.

use crate::connection::{Connection, SOCKET, connect, with};
use crate::server::Server;
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use versus_common::{Folder, Has, Queue};

pub struct Redis {
    server: Server,
    next: AtomicU64,
}

const MAIN: &str = "q:queue";
const PROCESSING: &str = "q:processing";

impl Redis {
    pub fn open(folder: &Folder, synced: bool) -> Self {
        crate::enter(folder);
        let _ = std::fs::remove_file(SOCKET);
        let server = Server::start(
            Command::new("redis-server")
                .args(["--port", "0", "--unixsocket", SOCKET, "--dir", "."])
                .args(["--appendonly", "yes", "--save", ""])
                .args(["--appendfsync", if synced { "always" } else { "everysec" }]),
        );
        connect();
        // It listens before it has read its log.
        while !with(|connection| {
            command(connection, &[b"PING"]);
            connection.send();
            connection.line() == "+PONG"
        }) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Ids need only differ; those of an earlier process are far below.
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        Self { server, next: AtomicU64::new(now.as_nanos() as u64) }
    }

    fn id(&self) -> String {
        self.next.fetch_add(1, Ordering::Relaxed).to_string()
    }
}

fn command(connection: &mut Connection, words: &[&[u8]]) {
    write!(connection.out, "*{}\r\n", words.len()).unwrap();
    for word in words {
        write!(connection.out, "${}\r\n", word.len()).unwrap();
        connection.out.extend_from_slice(word);
        connection.out.extend_from_slice(b"\r\n");
    }
}

fn key(kind: &str, id: &str) -> Vec<u8> {
    format!("q:{kind}:{id}").into_bytes()
}

/// An answer that is a text or nothing.
fn text(connection: &mut Connection) -> Option<Vec<u8>> {
    let length: i64 = connection.line().strip_prefix('$').expect("a text").parse().unwrap();
    usize::try_from(length).ok().map(|length| connection.bytes_of_line(length))
}

fn number(connection: &mut Connection) -> i64 {
    connection.line().strip_prefix(':').expect("a number").parse().unwrap()
}

fn add(connection: &mut Connection, id: &str, task: &[u8]) {
    command(connection, &[b"MULTI"]);
    command(connection, &[b"SET", &key("item", id), task]);
    command(connection, &[b"LPUSH", MAIN.as_bytes(), id.as_bytes()]);
    command(connection, &[b"EXEC"]);
}

fn added(connection: &mut Connection) {
    for answer in ["+OK", "+QUEUED", "+QUEUED", "*2", "+OK"] {
        assert_eq!(connection.line(), answer);
    }
    number(connection);
}

/// The second half of a lease: what the ids stand for, and how long they are ours.
fn leased(connection: &mut Connection, ids: Vec<Vec<u8>>) -> Vec<String> {
    let ids: Vec<String> = ids.into_iter().map(|id| String::from_utf8(id).unwrap()).collect();
    for id in &ids {
        command(connection, &[b"GET", &key("item", id)]);
        command(connection, &[b"SETEX", &key("lease", id), b"3600", b"versus"]);
    }
    connection.send();
    for _ in &ids {
        std::hint::black_box(text(connection).expect("the task has bytes"));
        assert_eq!(connection.line(), "+OK");
    }
    ids
}

fn acked(connection: &mut Connection, ids: &[String]) {
    for id in ids {
        command(connection, &[b"LREM", PROCESSING.as_bytes(), b"0", id.as_bytes()]);
        command(connection, &[b"DEL", &key("item", id), &key("lease", id)]);
    }
    connection.send();
    for _ in ids {
        assert_eq!(number(connection), 1, "the task was taken");
        number(connection);
    }
}

impl Queue for Redis {
    type Task = String;

    const HAS: Has = Has { priorities: false, ..Has::USUAL };

    fn put(&self, task: &[u8], _: u8) {
        with(|connection| {
            add(connection, &self.id(), task);
            connection.send();
            added(connection);
        });
    }

    /// All in one transaction, whose answer is a list of all answers.
    fn put_many(&self, tasks: &[(u8, Vec<u8>)]) {
        with(|connection| {
            let ids: Vec<String> = tasks.iter().map(|_| self.id()).collect();
            command(connection, &[b"MULTI"]);
            for (id, (_, task)) in ids.iter().zip(tasks) {
                command(connection, &[b"SET", &key("item", id), task]);
            }
            let mut push = vec![&b"LPUSH"[..], MAIN.as_bytes()];
            push.extend(ids.iter().map(|id| id.as_bytes()));
            command(connection, &push);
            command(connection, &[b"EXEC"]);
            connection.send();
            // "OK" once, then "QUEUED" for each command, then the answers of all of them.
            for _ in 0..tasks.len() + 2 {
                connection.line();
            }
            let answers = connection.line();
            assert_eq!(answers, format!("*{}", tasks.len() + 1));
            tasks.iter().for_each(|_| assert_eq!(connection.line(), "+OK"));
            number(connection);
        });
    }

    fn fill(&self, tasks: &[(u8, Vec<u8>)]) {
        with(|connection| {
            tasks.iter().for_each(|(_, task)| add(connection, &self.id(), task));
            connection.send();
            tasks.iter().for_each(|_| added(connection));
        });
    }

    fn take(&self) -> Option<String> {
        with(|connection| {
            command(connection, &[b"RPOPLPUSH", MAIN.as_bytes(), PROCESSING.as_bytes()]);
            connection.send();
            let id = text(connection)?;
            leased(connection, vec![id]).pop()
        })
    }

    fn wait(&self) -> String {
        with(|connection| {
            command(connection, &[b"BRPOPLPUSH", MAIN.as_bytes(), PROCESSING.as_bytes(), b"0"]);
            connection.send();
            let id = text(connection).expect("it waits without end");
            leased(connection, vec![id]).remove(0)
        })
    }

    fn ack(&self, task: String) {
        with(|connection| acked(connection, &[task]));
    }

    fn take_many(&self, most: usize) -> Vec<String> {
        with(|connection| {
            for _ in 0..most {
                command(connection, &[b"RPOPLPUSH", MAIN.as_bytes(), PROCESSING.as_bytes()]);
            }
            connection.send();
            let ids = (0..most).filter_map(|_| text(connection)).collect();
            leased(connection, ids)
        })
    }

    fn ack_many(&self, tasks: Vec<String>) {
        with(|connection| acked(connection, &tasks));
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.id())
    }
}
