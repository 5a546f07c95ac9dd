//! Connections to a Unix socket, kept for the next call.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

pub struct Connection {
    stream: BufReader<UnixStream>,
    /// What is sent in one write.
    pub out: Vec<u8>,
    /// Whether what the server says to a new connection has been read, if it says anything.
    pub greeted: bool,
    line: String,
}

impl Connection {
    fn open() -> Option<Self> {
        let stream = BufReader::with_capacity(1 << 16, UnixStream::connect(SOCKET).ok()?);
        Some(Self { stream, out: Vec::new(), greeted: false, line: String::new() })
    }

    pub fn send(&mut self) {
        self.stream.get_mut().write_all(&self.out).unwrap();
        self.out.clear();
    }

    /// A line without its end.
    pub fn line(&mut self) -> &str {
        self.line.clear();
        let bytes = self.stream.read_line(&mut self.line).unwrap();
        assert!(bytes > 0, "the server closed the connection");
        self.line.trim_end()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// So many bytes and the end of a line.
    pub fn bytes_of_line(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = self.bytes(count + 2);
        bytes.truncate(count);
        bytes
    }
}

pub const SOCKET: &str = "socket";

/// Waits until the server listens.
pub fn connect() {
    let began = Instant::now();
    while Connection::open().map(keep).is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "the server does not listen");
        std::thread::sleep(Duration::from_micros(200));
    }
}

thread_local! {
    static KEPT: RefCell<Option<Connection>> = const { RefCell::new(None) };
}

fn keep(connection: Connection) {
    KEPT.set(Some(connection));
}

/// A call over this thread's own connection: who takes a task and who acks it are one to a server.
pub fn with<R>(call: impl FnOnce(&mut Connection) -> R) -> R {
    KEPT.with_borrow_mut(|kept| {
        call(kept.get_or_insert_with(|| Connection::open().expect("the server listens")))
    })
}
