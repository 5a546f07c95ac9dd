//! One turn of one peer.

use crate::Plan;
use crate::peers::Peer;
use crate::rows::Row;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a peer's binary printed.
pub struct Turn {
    pub line: String,
}

impl Turn {
    pub fn number(&self, name: &str) -> Option<f64> {
        let (_, rest) = self.line.split_once(&format!("\"{name}\":"))?;
        let end = rest.find([',', '}'])?;
        rest[..end].parse().ok()
    }
}

pub enum Ended {
    Well(Turn),
    NotInstalled,
    Badly(String),
}

/// Longer than any turn should take.
const MOST: Duration = Duration::from_secs(900);
/// What a binary answers when the server that it needs is not there.
const NOT_INSTALLED: i32 = 3;

pub fn run(plan: &Plan, row: &Row, peer: &Peer) -> Ended {
    let child = Command::new(plan.binaries.join(peer.binary))
        .args([peer.variant(row.threads), row.workload])
        .args(&row.flags)
        .args(["--threads", &row.threads.to_string()])
        .args(["--millis", &plan.millis.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Ended::Badly(error.to_string()),
    };
    let began = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if began.elapsed() < MOST => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Ended::Badly("it took too long".to_owned());
            }
        }
    };
    let mut line = String::new();
    let read = child.stdout.take().map(|mut out| out.read_to_string(&mut line));
    match (status.success(), status.code(), read) {
        (true, _, Some(Ok(_))) => Ended::Well(Turn { line: line.trim().to_owned() }),
        (_, Some(NOT_INSTALLED), _) => Ended::NotInstalled,
        _ => Ended::Badly(format!("ended with {status}")),
    }
}
